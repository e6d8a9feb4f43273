"""The integral over the chi variable that all coordinates of Student's t are divided by.

With X ~ N(0, Sigma), T = (X + delta) / R for R = chi_df / sqrt(df), and P(r) the probability of the
normal at the limits r * lower - delta and r * upper - delta,

    Pr(lower <= T <= upper) = int p(w) P(e^w) dw,   log p(w) = df (w - e^(2 w) / 2) + constant

in w = log r, in which the density is analytic on the whole line.

The rule is ours.  Newton's method, with differences for derivatives, finds the mode of the
integrand; far out in a tail, where log P(r) is about -q r^2 / 2, the mode is near
r^2 = df / (df + q).  A sinh makes up for the skewness, as with one common factor
(``docs/one_factor.md``), and the trapezoidal rule is applied in its variable t until the ends are
negligible.  Its error falls exponentially with the number of nodes.

The error is claimed from the rules with a half and a third of the nodes.  If D_2 and D_3 are their
relative differences from the rule with all nodes, that one has an error of about D_2**2, or D_3**3,
for a function that is analytic in a strip (D_2**4 for a normal density, more for few degrees of
freedom).  The claim is ten times D**(2 - 1/(1 + df)) for D = max(D_2, D_3**1.75): D_2 alone can be
small by accident, whereas D_3 is the largest of three.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import digamma, gammaln

from mvnorth._estimate import Estimate

# Evaluate log P at nodes: their rows (N,), and r (N,).
Evaluate = Callable[[np.ndarray, np.ndarray], tuple[Estimate, np.ndarray]]

_SAFETY = 10.0
_BENT, _ASYMMETRY = 0.75, 1.1  # shares of the skewness that the map has; chosen by measurement
_STENCIL = np.arange(-2.0, 3.0)
_UNIT = 0.25  # largest step of the stencil; e^(2 w) is smooth on this scale
_CLOSE = 0.3  # distance from the mode in widths at which the search ends
_ROUNDS = 60  # of the search, at most
_FINEST = 2**5  # steps that the first one is halved into, at most
_FARTHEST = 60 * _FINEST  # node from the mode
_FEW = 3.0  # degrees of freedom below which nodes are closer
_LARGE = 100.0  # degrees of freedom from which series are used
_HIGHEST = 100.0  # w
_NEGLIGIBLE = 0.01  # share of the error


@dataclass(eq=False)
class Nodes:
    """Nodes of all rows, (N,) each.

    Attributes
    ----------
    row : to which a node belongs
    place : t in units of the finest step
    w : logarithm of r
    log_term : logarithm of the integrand in t
    estimate, labels : of P, and its methods
    """

    row: np.ndarray
    place: np.ndarray
    w: np.ndarray
    log_term: np.ndarray
    estimate: Estimate
    labels: np.ndarray

    def joined(self, other: "Nodes") -> "Nodes":
        """Return the nodes of both."""
        names = ("row", "place", "w", "log_term", "labels")
        row, place, w, log_term, labels = (
            np.concatenate([getattr(self, name), getattr(other, name)]) for name in names
        )
        estimate = Estimate.concatenate([self.estimate, other.estimate])
        return Nodes(row, place, w, log_term, estimate, labels)


@dataclass(eq=False)
class Integral:
    """Integrals of a batch and the nodes they were computed from.

    Attributes
    ----------
    nodes : all of them
    t : (N,) where they are
    share : (N,) of each node in the integral of its row; they add up to 1, or to 0 if all are 0
    thinned : (5, N) bool, which nodes belong to rules with twice and three times the step
    log_prob, rel_error : (B,) with the error of the rule alone
    """

    nodes: Nodes
    t: np.ndarray
    share: np.ndarray
    thinned: np.ndarray
    log_prob: np.ndarray
    rel_error: np.ndarray


@dataclass(eq=False)
class Mode:
    """The mode of each row in w, the width there, the skewness and log P, (B,) each."""

    w: np.ndarray
    width: np.ndarray
    skewness: np.ndarray
    log_prob: np.ndarray


def log_density(w: np.ndarray, df: np.ndarray) -> np.ndarray:
    """Return the logarithm of the density of w = log(chi_df / sqrt(df))."""
    half = 0.5 * df
    inverse2 = half**-2
    series = 0.5 * np.log(2.0 * half / np.pi)
    series -= (1.0 - inverse2 / 30.0 * (1.0 - 2.0 / 7.0 * inverse2)) / (12.0 * half)
    with np.errstate(over="ignore", invalid="ignore"):
        direct = np.log(2.0) + half * np.log(half) - gammaln(half) - half
    return df * _bent(w) + np.where(df > _LARGE, series, direct)


def log_density_in_df(w: np.ndarray, df: np.ndarray) -> np.ndarray:
    """Return the derivative of ``log_density`` in df."""
    half = 0.5 * df
    inverse = 1.0 / half
    series = inverse * (0.5 + inverse * (1.0 - inverse**2 * (0.1 - inverse**2 / 21.0)) / 12.0)
    direct = np.log(half) - digamma(half)
    return 0.5 * np.where(df > _LARGE, series, direct) + _bent(w)


def _bent(w: np.ndarray) -> np.ndarray:
    """Return w - (e^(2 w) - 1) / 2 without cancellation."""
    x = 2.0 * w
    series = -x * x / 4.0 * (1.0 + x / 3.0 * (1.0 + x / 4.0 * (1.0 + x / 5.0 * (1.0 + x / 6.0))))
    with np.errstate(over="ignore"):
        return np.where(np.abs(x) < 1e-3, series, w - 0.5 * np.expm1(x))


def find_mode(df: np.ndarray, evaluate: Evaluate) -> Mode:
    """Return the mode of the integrand; ``evaluate`` need not be accurate."""
    size = df.size
    mode = Mode(np.zeros(size), (2.0 * df) ** -0.5, -((4.5 * df) ** -0.5), np.zeros(size))
    low, high = np.full(size, -np.inf), np.full(size, np.inf)
    rows = np.arange(size)
    for _ in range(_ROUNDS):
        unit = np.minimum(mode.width[rows], _UNIT)
        w = mode.w[rows, None] + unit[:, None] * _STENCIL
        estimate, _ = evaluate(np.repeat(rows, _STENCIL.size), np.exp(w).ravel())
        log_prob = estimate.log_prob.reshape(w.shape)
        known = np.isfinite(log_prob).all(axis=1)
        if not known.all():
            rows, unit, log_prob = rows[known], unit[known], log_prob[known]
        nu, at, r2 = df[rows], mode.w[rows], np.exp(2.0 * mode.w[rows])
        before, left, middle, right, after = log_prob.T
        pull = (before - 8.0 * left + 8.0 * right - after) / (12.0 * unit)
        first = nu * (1.0 - r2) + pull
        second = (16.0 * (left + right) - before - after - 30.0 * middle) / (12.0 * unit**2)
        second = 2.0 * nu * r2 - second
        third = (after - 2.0 * right + 2.0 * left - before) / (2.0 * unit**3) - 4.0 * nu * r2
        second = np.where(second > 0.02 * nu, second, 2.0 * nu)
        width = second**-0.5
        mode.width[rows], mode.log_prob[rows] = width, middle
        mode.skewness[rows] = np.clip(third * second**-1.5 / 3.0, -2.0, 2.0)
        low[rows] = np.where(first > 0.0, at, low[rows])
        high[rows] = np.where(first < 0.0, at, high[rows])
        with np.errstate(invalid="ignore", divide="ignore"):
            jump = 0.5 * np.log(nu / (nu - pull / r2)) - at
        new = at + np.where(pull < -nu, jump, np.clip(first / second, -2.0, 2.0))
        new = np.where(new < low[rows], 0.5 * (low[rows] + at), new)
        new = np.where(new > high[rows], 0.5 * (high[rows] + at), new)
        mode.w[rows] = new
        rows = rows[np.abs(new - at) > _CLOSE * width]
        if not rows.size:
            break
    return mode


def _sinh_map(t: np.ndarray, skewness: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return y(t) with y(0) = 0, y'(0) = 1 and y''(0) = 0.75 * skewness, and log y'."""
    bent = _BENT * skewness
    a = np.maximum(_ASYMMETRY * np.abs(bent), 1e-3)
    shift = np.arctanh(bent / a)
    cosh = np.cosh(shift)
    y = (np.sinh(shift + a * t) - np.sinh(shift)) / (a * cosh)
    return y, np.log(np.cosh(shift + a * t) / cosh)


def to_w(t: np.ndarray, mode: Mode) -> np.ndarray:
    """Return w at points t of the only row."""
    return mode.w + mode.width * _sinh_map(t, np.full(t.shape, mode.skewness))[0]


def first_step(df: np.ndarray, goal: float) -> np.ndarray:
    """Return the step in t for which the error of a normal density is claimed to be below goal."""
    third = (goal / (200.0 * _SAFETY)) ** (1.0 / (1.75 * _power(df)))
    step = np.pi * np.sqrt(2.0) / (3.0 * np.sqrt(np.log(2.0 / third)))
    return np.where(df < _FEW, 0.9 * step, step)


def _power(df: np.ndarray) -> np.ndarray:
    return 2.0 - 1.0 / (1.0 + df)


def reach(goal: float) -> float:
    """Return how far nodes go from the mode in t, roughly."""
    return float(np.sqrt(-2.0 * np.log(goal)) + 0.3)


def claim(df: np.ndarray, halves: np.ndarray, thirds: np.ndarray) -> np.ndarray:
    """Return the claimed error from the errors of rules with a half and a third of the nodes."""
    return _SAFETY * np.maximum(halves, thirds**1.75) ** _power(df)


def integrate(df: np.ndarray, mode: Mode, evaluate: Evaluate, goal: float) -> Integral:
    """Integrate over w to a relative error of ``goal``, as far as that can be reached."""
    size = df.size
    step = first_step(df, goal)
    bent = np.minimum(np.abs(mode.skewness), 0.5)
    long, short = (1.0 + 0.5 * bent) / step, (1.0 - 0.6 * bent) / step
    to_left = mode.skewness < 0.0
    before = np.ceil(reach(goal) * np.where(to_left, long, short)).astype(np.int64)
    after = np.ceil(reach(goal) * np.where(to_left, short, long)).astype(np.int64)
    row = np.repeat(np.arange(size), before + after + 1)
    first = np.cumsum(before + after + 1) - after - 1
    place = (np.arange(row.size) - first[row]) * _FINEST
    stride = np.full(size, _FINEST)
    least = log_density(mode.w, df) + mode.log_prob + np.log(0.1 * _NEGLIGIBLE * goal)
    nodes: Nodes | None = None
    ends = np.zeros((2, size), dtype=np.int64)
    while True:
        np.minimum.at(ends[0], row, place)
        np.maximum.at(ends[1], row, place)
        new = _evaluate_nodes(df, mode, evaluate, step / _FINEST, least, row, place)
        nodes = new if nodes is None else nodes.joined(new)
        peak = np.full(size, -np.inf)
        np.maximum.at(peak, nodes.row, nodes.log_term)
        peak[~np.isfinite(peak)] = 0.0
        term = np.exp(nodes.log_term - peak[nodes.row])
        total = np.bincount(nodes.row, term, size)
        with np.errstate(invalid="ignore", divide="ignore"):
            share = np.where(term > 0.0, term / total[nodes.row], 0.0)
            log_prob = peak + np.log(total * (mode.width * stride * step / _FINEST))
        row, place, outside = _beyond(nodes, share, stride, ends, goal)
        if row.size:
            continue
        number = nodes.place // stride[nodes.row]
        thinned = np.stack([number % m == k for m in (2, 3) for k in range(m)])
        total = np.where(total > 0.0, 1.0, 0.0)[:, None]
        rule = claim(df, *thinned_errors(nodes.row, share[:, None], thinned, total))
        coarse = (rule > goal) & (stride > 1)
        if not coarse.any():
            t = nodes.place * (step / _FINEST)[nodes.row]
            return Integral(nodes, t, share, thinned, log_prob, rule + outside)
        chosen = coarse[nodes.row]
        stride[coarse] //= 2
        row = nodes.row[chosen]
        place = nodes.place[chosen] + stride[row]


def _evaluate_nodes(
    df: np.ndarray,
    mode: Mode,
    evaluate: Evaluate,
    unit: np.ndarray,
    least: np.ndarray,
    row: np.ndarray,
    place: np.ndarray,
) -> Nodes:
    """Return nodes; those whose density alone is negligible are left out."""
    y, log_slope = _sinh_map(place * unit[row], mode.skewness[row])
    w = mode.w[row] + mode.width[row] * y
    log_term = log_density(np.minimum(w, _HIGHEST), df[row]) + log_slope
    counts = log_term > least[row]
    if not counts.all():
        row, place, w, log_term = row[counts], place[counts], w[counts], log_term[counts]
    estimate, labels = evaluate(row, np.exp(w))
    return Nodes(row, place, w, log_term + estimate.log_prob, estimate, labels)


def _beyond(
    nodes: Nodes, share: np.ndarray, stride: np.ndarray, ends: np.ndarray, goal: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return nodes to add at the ends of rows whose outermost terms are not negligible.

    Also return a bound on what lies beyond the ends, (B,).
    """
    rows, places = [], []
    outside = np.full(stride.size, _NEGLIGIBLE * goal)
    for sign, end in ((-1, ends[0]), (1, ends[1])):
        outermost = (nodes.place == end[nodes.row]) & (np.abs(nodes.place) < _FARTHEST)
        np.add.at(outside, nodes.row[outermost], 3.0 * share[outermost])
        row = nodes.row[outermost & (share > 0.1 * goal)]
        for k in (1, 2, 3):
            rows.append(row)
            places.append(end[row] + sign * k * stride[row])
    return np.concatenate(rows), np.concatenate(places), outside


def row_sums(row: np.ndarray, terms: np.ndarray, size: int) -> np.ndarray:
    """Return the sums (B, k) of the terms (N, k) of each row."""
    sums = np.zeros((size, terms.shape[1]))
    np.add.at(sums, row, terms)
    return sums


def thinned_errors(
    row: np.ndarray, terms: np.ndarray, thinned: np.ndarray, total: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the largest errors of the rules with a half and with a third of the nodes, (B,).

    These are differences from ``total`` (B, k), the sums of ``terms`` (N, k).
    """
    halves, thirds = (
        np.max([
            np.max(np.abs(len(rules) * row_sums(row[of], terms[of], len(total)) - total), axis=1)
            for of in rules
        ], axis=0)
        for rules in (thinned[:2], thinned[2:])
    )  # fmt: skip
    return halves, thirds
