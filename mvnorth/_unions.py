"""Probabilities of unions: that at least one coordinate is beyond one of its limits.

In an order of the events (``mvnorth._events``) with the likeliest first, their union is one of
disjoint events, and nothing cancels:

    Q = sum_e T_e,    T_e = Pr(e happens, none of those before it does)

With p_e and p_ef for the probabilities of one event and of two (closed forms), Ditlevsen (1979,
Narrow reliability bounds for structural systems) has

    max(0, p_e - sum_{f<e} p_ef) <= T_e <= p_e - max_{f<e} p_ef

so that a term is computed only where these differ by more than the tolerance allows, and without
the limits of events f whose p_ef add up to less than that: T_e is then between the probability
without these limits and the same minus their p_ef.  What is left is a box, usually of few
coordinates, for the methods of ``mvnorth._solve``.
"""

from dataclasses import dataclass, replace

import numpy as np

from mvnorth._estimate import Estimate
from mvnorth._events import Events, Pairs, pair_weights, total
from mvnorth._methods import METHODS
from mvnorth._problem import Problems, Request, Tolerance
from mvnorth._solve import solve

_PAIRED = 1000  # events of a row up to which pairs are computed
_ENTRIES = 2**22  # entries of covariances at a time: 32 MB
_FEW = 8  # coordinates up to which boxes are usually computed without sampling
# Shares of the tolerance: for events that are left out, for terms that stay at the middle of
# their bounds, for limits that are left out of terms, and for terms that are computed, without
# sampling and with it.
_LEFT_OUT, _MIDDLE, _UNLIMITED, _COMPUTED, _SAMPLED = 0.05, 0.05, 0.1, 0.2, 0.6
_EXACTLY = 1e-13  # tolerance that stands for rounding
_LOOSEST = 0.25  # relative tolerance of a term
# Ratio of bounds beyond which few points are spent to find out how large terms are, their relative
# tolerance, and the part of that sum which Q certainly has.
_VAGUE, _PILOT, _CAUTION = 1.3, 0.1, 0.8


@dataclass(eq=False)
class Terms:
    """The terms T_e in units of p_1, (B, M) all.

    Attributes
    ----------
    value : what is known of them
    error : bounds on their errors
    variance : squares of the errors that are independent of each other, in addition
    low, high : bounds on the terms
    twins : terms that are the same as the one before
    """

    value: np.ndarray
    error: np.ndarray
    variance: np.ndarray
    low: np.ndarray
    high: np.ndarray
    twins: np.ndarray

    def accept(
        self,
        row: np.ndarray,
        term: np.ndarray,
        value: np.ndarray,
        error: np.ndarray,
        unlimited: np.ndarray,
        random: np.ndarray | bool = False,
    ) -> None:
        """Replace terms by values where these have smaller errors, (K,) all.

        ``unlimited`` is what the values may be too large by, for want of some limits; ``random``
        are those whose errors are independent of others.
        """
        with np.errstate(invalid="ignore"):
            better = error + 0.5 * unlimited < self.spread()[row, term]
        row, term = row[better], term[better]
        self.value[row, term] = (value - 0.5 * unlimited)[better]
        self.error[row, term] = (np.where(random, 0.0, error) + 0.5 * unlimited)[better]
        self.variance[row, term] = (np.where(random, error, 0.0) ** 2)[better]

    def spread(self) -> np.ndarray:
        """Return all of their errors, (B, M)."""
        return self.error + np.sqrt(self.variance)

    def copy_to_twins(self) -> None:
        """Give twins the values and errors of the terms before."""
        for of in (self.value, self.error, self.variance):
            of[:, 1:] = np.where(self.twins[:, 1:], of[:, :-1], of[:, 1:])

    def total_error(self) -> np.ndarray:
        """Return the error of the sum of all terms, (B,); twins have the same error."""
        variance = self.variance * (1.0 + self.twins)
        variance[:, :-1] *= 1.0 + self.twins[:, 1:]
        return total(self.error) + np.sqrt(total(variance))


def solve_unions(
    problems: Problems, events: Events, request: Request, method: str, exact: bool
) -> tuple[Estimate, list[set[str]]]:
    """Return log Q of rows that have events, and the names of the methods of each row.

    ``exact`` says that boxes are computed without sampling.
    """
    size = problems.size
    weights = events.weights()
    tolerance = np.full(size, request.tolerance.relative)
    if request.tolerance.absolute > 0.0:
        with np.errstate(over="ignore"):
            largest = request.tolerance.absolute * np.exp(-events.log_prob[:, 0])
        tolerance = np.maximum(tolerance, largest)
    tolerance = np.clip(tolerance, _EXACTLY, 1.0)
    # What is left out costs nothing where the terms are exact as well.
    allowed = np.full(size, _EXACTLY) if exact else tolerance
    rest = np.cumsum(weights[:, ::-1], axis=1)[:, ::-1]
    kept = (rest > _LEFT_OUT * allowed[:, None]) & (weights > 0.0)
    left_out = total(np.where(kept, 0.0, weights))
    estimate = Estimate.exact(np.zeros(size), np.zeros(size))
    names: list[set[str]] = []
    own = problems.covariance.shape[0] > 1
    step = max(1, _ENTRIES // max(int(kept.sum(axis=1).max()), problems.d if own else 1) ** 2)
    for start in range(0, size, step):
        rows = np.arange(start, min(start + step, size))
        count = int(kept[rows].sum(axis=1).max())
        some = problems.take(rows)
        part, points, used = _add_terms(
            some, events.take(rows, count), kept[rows, :count], weights[rows, :count],
            tolerance[rows], allowed[rows], request, method,
        )  # fmt: skip
        _sum_up(part, left_out[rows], weights[rows], events.log_prob[rows, 0], estimate, rows)
        estimate.n[rows] = points
        names.extend(used)
    unit = 2e-15 * (2.0 + 3.0 * np.abs(estimate.log_prob))
    estimate.rel_error[:] += unit + problems.rounding
    return estimate, names


def _sum_up(
    terms: Terms,
    left_out: np.ndarray,
    weights: np.ndarray,
    log_unit: np.ndarray,
    estimate: Estimate,
    rows: np.ndarray,
) -> None:
    """Add up terms and what was left out, and check the sum against its bounds."""
    value = total(terms.value) + 0.5 * left_out
    error = terms.total_error() + 0.5 * left_out
    low = np.maximum(total(terms.low), 1.0)
    high = np.minimum(total(terms.high) + left_out, total(weights))
    # Bounds have rounding errors too, some of them those of nearly singular pairs.
    slack = 1e-7 * value
    contradicted = (value - error > high + slack) | (value + error < low - slack)
    value = np.clip(value, low, high)
    estimate.log_prob[rows] = np.minimum(log_unit + np.log(value), 0.0)
    estimate.rel_error[rows] = np.where(contradicted, np.inf, error / value)
    estimate.log_bound[rows] = np.minimum(log_unit + np.log(high + slack), 0.0)


def _add_terms(
    problems: Problems,
    events: Events,
    kept: np.ndarray,
    weights: np.ndarray,
    tolerance: np.ndarray,
    allowed: np.ndarray,
    request: Request,
    method: str,
) -> tuple[Terms, np.ndarray, list[set[str]]]:
    """Return all terms, the points that each row took, and the methods of each row.

    Parameters
    ----------
    kept : (B, M) events that are not left out
    weights : (B, M) their probabilities
    tolerance : (B,) relative error of computed terms
    allowed : (B,) the same of what is not computed
    """
    weights = np.where(kept, weights, 0.0)
    pairs = None if events.size > _PAIRED else pair_weights(problems, events, kept)
    terms = _bounded(weights, pairs, _twins(problems, events))
    at_least = np.maximum(total(terms.low), 1.0)
    wanted = _too_wide(terms, _MIDDLE * allowed * at_least) & kept & ~terms.twins
    row, term = np.nonzero(wanted)
    if pairs is None:
        limited, unlimited = np.arange(events.size) < term[:, None], np.zeros(row.size)
    else:
        share = _UNLIMITED * (allowed * at_least / np.maximum(wanted.sum(axis=1), 1))[row]
        limited, unlimited = _choose_limits(pairs.value[row, term], share)
        # With one other event the pair says all.
        one = limited.sum(axis=1) <= 1
        value, error = (total(np.where(limited, a[row, term], 0.0)) for a in pairs)
        value = weights[row, term] - value
        terms.accept(row[one], term[one], value[one], error[one], unlimited[one])
        row, term, limited, unlimited = (a[~one] for a in (row, term, limited, unlimited))
    boxes = _Boxes(problems, events, row, term, limited, unlimited)
    vague = total(terms.high) > _VAGUE * at_least
    if (vague[row] & boxes.sampled).any():
        # Few points say more than the bounds of what the terms are.
        boxes.solve(np.where(vague[row] & boxes.sampled, _PILOT, np.inf), terms, request, method)
        terms.copy_to_twins()
        at_least = np.maximum(_CAUTION * total(terms.value), at_least)
    size = np.clip(terms.value + terms.spread(), terms.low, terms.high)[row, term]
    relative = _relative_errors(size, row, boxes.sampled, tolerance * at_least)
    boxes.solve(np.clip(relative, _EXACTLY, _LOOSEST), terms, request, method)
    terms.copy_to_twins()
    return terms, boxes.points, boxes.methods


def _bounded(weights: np.ndarray, pairs: Pairs | None, twins: np.ndarray) -> Terms:
    """Return terms in the middle of their bounds."""
    if pairs is None:
        low, high, error = np.zeros(weights.shape), weights, np.zeros(weights.shape)
        low[:, 0] = weights[:, 0]
    else:
        low = np.maximum(weights - total(pairs.value), 0.0)
        high = np.maximum(weights - pairs.value.max(axis=2, initial=0.0), low)
        error = total(pairs.error)
    error += 0.5 * (high - low)
    return Terms(0.5 * (low + high), error, np.zeros(weights.shape), low, high, twins)


def _too_wide(terms: Terms, allowed: np.ndarray) -> np.ndarray:
    """Return terms whose bounds do not say enough, (B, M).

    The errors of the others, those with the smallest ones, add up to at most ``allowed``, (B,).
    """
    order = np.argsort(terms.error, axis=1, kind="stable")
    sums = np.cumsum(np.take_along_axis(terms.error, order, axis=1), axis=1)
    wide = np.zeros(order.shape, dtype=bool)
    np.put_along_axis(wide, order, sums > allowed[:, None], axis=1)
    return wide & (terms.high > terms.low)


def _relative_errors(
    size: np.ndarray, row: np.ndarray, sampled: np.ndarray, allowed: np.ndarray
) -> np.ndarray:
    """Return relative errors of terms that add up to those allowed in each row, (K,).

    The work goes with the inverse of the error.  All of it is least where relative errors are as
    the power -1/2 of the terms; where errors are independent, so that their squares add up, as the
    power -2/3.
    """
    relative = np.empty(size.size)
    for kind, share in ((~sampled, _COMPUTED), (sampled, _SAMPLED)):
        power = 2.0 / 3.0 if share == _SAMPLED else 0.5
        parts, rows = size[kind] ** power, row[kind]
        sums = np.bincount(rows, parts, minlength=len(allowed))[rows]
        relative[kind] = share * allowed[rows] / parts
        relative[kind] /= np.sqrt(sums) if share == _SAMPLED else sums
    return relative


def _twins(problems: Problems, events: Events) -> np.ndarray:
    """Return events that are the one before mirrored at the origin, with the same term, (B, M)."""
    twins = np.zeros(events.log_prob.shape, dtype=bool)
    symmetric = (problems.lower == -problems.upper).all(axis=1)
    same = events.coordinate[:, 1:] == events.coordinate[:, :-1]
    twins[:, 1:] = same & symmetric[:, None]
    return twins


def _choose_limits(pairs: np.ndarray, share: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return which earlier events limit each term, (K, M), and what the others add up to, (K,).

    The others are those with the smallest probabilities, which add up to at most ``share``.
    """
    order = np.argsort(pairs, axis=1, kind="stable")
    sums = np.cumsum(np.take_along_axis(pairs, order, axis=1), axis=1)
    limited = np.zeros(pairs.shape, dtype=bool)
    np.put_along_axis(limited, order, sums > share[:, None], axis=1)
    return limited, total(np.where(limited, 0.0, pairs))


class _Boxes:
    """Terms that are computed as boxes.

    Attributes
    ----------
    row, term : (K,) which ones
    limited : (K, M) the earlier events that must not happen
    unlimited : (K,) what the others can change
    sampled : (K,) which boxes are likely to be sampled; these have random shifts of their own, so
        that their errors are independent
    points : (B,) points that each row has taken
    methods : names of the methods of each row
    """

    def __init__(
        self,
        problems: Problems,
        events: Events,
        row: np.ndarray,
        term: np.ndarray,
        limited: np.ndarray,
        unlimited: np.ndarray,
    ) -> None:
        self.problems, self.events = problems, events
        self.row, self.term, self.limited, self.unlimited = row, term, limited, unlimited
        self.sampled = limited.sum(axis=1) >= _FEW
        self.points = np.zeros(problems.size, dtype=np.int64)
        self.methods: list[set[str]] = [{"closed_form"} for _ in range(problems.size)]

    def solve(self, relative: np.ndarray, terms: Terms, request: Request, method: str) -> None:
        """Compute terms to relative errors (K,), those that are finite."""
        chosen = np.flatnonzero(np.isfinite(relative))
        # Those of nearly the same error are solved together.
        level = np.floor(np.log2(relative[chosen])).astype(np.int64)
        shift = np.where(self.sampled, self.term, 0)[chosen]
        calls, which = np.unique(np.stack([level, shift], axis=1), axis=0, return_inverse=True)
        for k, (exponent, own_shift) in enumerate(calls.tolist()):
            seed = request.seed + (own_shift << 32)
            asked = replace(request, tolerance=Tolerance(2.0**exponent, 0.0), seed=seed)
            self._solve(chosen[which.reshape(-1) == k], terms, asked, method)

    def _solve(self, chosen: np.ndarray, terms: Terms, request: Request, method: str) -> None:
        covariance = self.problems.covariance
        own = covariance.shape[0] > 1
        step = max(1, _ENTRIES // (covariance.memory if own else self.problems.d))
        for start in range(0, chosen.size, step):
            some = chosen[start : start + step]
            row, term = self.row[some], self.term[some]
            estimate, labels = solve(self._problems(some), request, method)
            names = [set(label.split("+")) for label in labels.tolist()]
            random = np.array([any(METHODS[name].random for name in of) for of in names])
            value = np.exp(estimate.log_prob - self.events.log_prob[row, 0])
            with np.errstate(invalid="ignore"):
                error = np.where(value > 0.0, value * estimate.rel_error, estimate.rel_error)
            unlimited = self.unlimited[some]
            terms.accept(row, term, value, error, unlimited, random & self.sampled[some])
            np.add.at(self.points, row, estimate.n)
            for one, of in zip(row.tolist(), names, strict=True):
                self.methods[one] |= of

    def _problems(self, some: np.ndarray) -> Problems:
        """Return boxes in which an event happens and earlier ones do not."""
        problems, events = self.problems, self.events
        row, term = self.row[some], self.term[some]
        shape = some.size, problems.d
        lower, upper = np.full(shape, -np.inf), np.full(shape, np.inf)
        item, other = np.nonzero(self.limited[some])
        source, coordinate = row[item], events.coordinate[row[item], other]
        above = events.upper[source, other]
        upper[item[above], coordinate[above]] = problems.upper[source, coordinate][above]
        lower[item[~above], coordinate[~above]] = problems.lower[source, coordinate][~above]
        # The event itself; an earlier one at the same coordinate's other limit says nothing more.
        item, coordinate = np.arange(row.size), events.coordinate[row, term]
        above = events.upper[row, term]
        limits = np.where(above, problems.upper[row, coordinate], problems.lower[row, coordinate])
        lower[item, coordinate] = np.where(above, limits, -np.inf)
        upper[item, coordinate] = np.where(above, np.inf, limits)
        return Problems(lower, upper, problems.covariance.take(row), problems.rounding[row])
