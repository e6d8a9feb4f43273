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
small by accident, whereas D_3 is the largest of three.  What lies beyond the ends is added, and
what changes of P far from the mode may hide.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import digamma, gammaln

from mvnorth._cpu import chi_rule as kernels
from mvnorth._estimate import Estimate

# Evaluate P at nodes: their rows (N,), and r (N,).
Evaluate = Callable[[np.ndarray, np.ndarray], tuple[Estimate, np.ndarray]]

_ROUNDS = 60  # of the search for the mode, at most
_ROUNDING = 4e-15  # of sums
_LARGE = 100.0  # degrees of freedom from which series are used


@dataclass(eq=False)
class Integral:
    """Integrals of a batch, and the nodes that they were computed from.

    Attributes
    ----------
    row : (N,) to which a node belongs
    number : (N,) of a node in its row, counted from the mode
    r : (N,) the chi variable
    share : (N,) of each node in the integral of its row; they add up to 1, or to 0 if all are 0
    estimate, labels : of P at the nodes, and its methods
    log_prob, rel_error : (B,) with the error of the rule alone
    step : (B,) in t
    """

    row: np.ndarray
    number: np.ndarray
    r: np.ndarray
    share: np.ndarray
    estimate: Estimate
    labels: np.ndarray
    log_prob: np.ndarray
    rel_error: np.ndarray
    step: np.ndarray


def log_density_in_df(r: np.ndarray, df: np.ndarray) -> np.ndarray:
    """Return the derivative of log p in df."""
    half, x = 0.5 * df, np.log(r)
    inverse = 1.0 / half
    series = inverse * (0.5 + inverse * (1.0 - inverse**2 * (0.1 - inverse**2 / 21.0)) / 12.0)
    direct = np.log(half) - digamma(half)
    bent = np.where(np.abs(x) < 5e-4, -(x**2) * (1.0 + x / 1.5 * (1.0 + x / 2.0)), 0.0)
    bent = np.where(np.abs(x) < 5e-4, bent, x - 0.5 * np.expm1(2.0 * x))
    return 0.5 * np.where(df > _LARGE, series, direct) + bent


def _constant(df: np.ndarray) -> np.ndarray:
    """Return log(2 (df/2)^(df/2) / Gamma(df/2)) - df/2."""
    half = 0.5 * df
    inverse2 = half**-2
    series = 0.5 * np.log(2.0 * half / np.pi)
    series -= (1.0 - inverse2 / 30.0 * (1.0 - 2.0 / 7.0 * inverse2)) / (12.0 * half)
    with np.errstate(over="ignore", invalid="ignore"):
        direct = np.log(2.0) + half * np.log(half) - gammaln(half) - half
    return np.where(df > _LARGE, series, direct)


def find_mode(df: np.ndarray, steep: np.ndarray, evaluate: Evaluate) -> np.ndarray:
    """Return the state (STATE, B) of the rows at their modes; ``evaluate`` need not be accurate."""
    size = df.size
    state = np.zeros((kernels.STATE, size))
    state[kernels.WIDTH] = (2.0 * df) ** -0.5
    state[kernels.SKEWNESS] = -((4.5 * df) ** -0.5)
    state[kernels.LOW], state[kernels.HIGH] = -np.inf, np.inf
    state[kernels.CONSTANT] = _constant(df)
    rows = np.arange(size)
    for _ in range(_ROUNDS):
        r = np.empty((rows.size, kernels.STENCIL))
        kernels.set_stencil(state, steep, rows, r)
        estimate, _ = evaluate(np.repeat(rows, kernels.STENCIL), r.reshape(-1))
        left = kernels.improve_modes(df, state, steep, rows, estimate.log_prob.reshape(r.shape))
        if left == 0:
            break
        rows = rows[:left].copy()
    return state


def integrate(
    df: np.ndarray,
    state: np.ndarray,
    evaluate: Evaluate,
    goal: np.ndarray,
    steep: np.ndarray,
    concave: bool,
) -> Integral:
    """Integrate to relative errors of ``goal``, (B,), as far as that can be reached.

    ``steep`` (B,) is the largest noncentrality in deviations, ``concave`` says that log P is
    concave in r.
    """
    size = df.size
    step, ends = np.empty(size), np.empty((2, size), dtype=np.int64)
    count = kernels.set_steps(df, state, goal, steep, step, ends)
    row, place = np.empty(count, dtype=np.int64), np.empty(count, dtype=np.int64)
    kernels.set_first_nodes(ends, row, place)
    stride = np.full(size, kernels.FINEST)
    parts: list[tuple[np.ndarray, ...]] = []
    estimates: list[Estimate] = []
    labels: list[np.ndarray] = []
    log_prob, rel_error = np.empty((2, size))
    while True:
        r, log_term = np.empty((2, row.size))
        kept = kernels.set_nodes(df, state, goal, step, concave, row, place, r, log_term)
        row, place, r, log_term = row[:kept], place[:kept], r[:kept], log_term[:kept]
        if kept:
            estimate, label = evaluate(row, r)
            log_p = estimate.log_prob
            parts.append((row, place, r, log_term + log_p, log_p))
            estimates.append(estimate)
            labels.append(label)
        row, place, r, log_term, log_p = (
            parts[0] if len(parts) == 1 else map(np.concatenate, zip(*parts, strict=True))
        )
        share, new = np.empty(row.size), np.empty((2, row.size + 6 * size), dtype=np.int64)
        added = kernels.assess(
            df, state, goal, steep, step, stride, ends, row, place, r, log_term, log_p, share,
            log_prob, rel_error, *new,
        )  # fmt: skip
        if added == 0:
            break
        row, place = new[:, :added].copy()
    whole = estimates[0] if len(estimates) == 1 else Estimate.concatenate(estimates)
    number = place // stride[row]
    step = step * (stride / kernels.FINEST)
    return Integral(row, number, r, share, whole, np.concatenate(labels), log_prob, rel_error, step)


def row_sums(row: np.ndarray, terms: np.ndarray, size: int) -> np.ndarray:
    """Return the sums (B, k) of the terms (N, k) of each row."""
    sums = np.zeros((size, terms.shape[1]))
    np.add.at(sums, row, terms)
    return sums


def claim_of_means(df: np.ndarray, integral: Integral, terms: np.ndarray) -> np.ndarray:
    """Return the claimed error (B,) of any of the sums of terms (N, k) of each row.

    It is found as for the integral, from rules with a half and a third of the nodes.
    """
    row, size = integral.row, df.size
    total = row_sums(row, terms, size)
    scale = np.max(row_sums(row, np.abs(terms), size), axis=1, initial=0.0)
    errors = np.zeros((2, size))
    for k, m in enumerate((2, 3)):
        for j in range(m):
            of = integral.number % m == j
            difference = np.abs(m * row_sums(row[of], terms[of], size) - total)
            errors[k] = np.maximum(errors[k], np.max(difference, axis=1, initial=0.0))
    claims = np.empty(size)
    kernels.set_claims(df, errors / np.where(scale > 0.0, scale, 1.0), claims)
    return (np.maximum(claims, integral.rel_error) + _ROUNDING) * scale
