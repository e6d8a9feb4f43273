"""Carry out a plan: each block by its method, the blocks of a problem multiplied together."""

from dataclasses import replace

import numpy as np

from mvnorth import _plan
from mvnorth._derivatives.blocks import add_factor, combine
from mvnorth._linalg.one_factor import recognise
from mvnorth._problem import (
    AnyProblems,
    Budget,
    Estimate,
    OneFactorProblems,
    Problems,
    Slopes,
    Tolerance,
)

_ROUNDING = 1e-15
_FAR_OUT = -500.0  # logarithm of a probability
_NONE = Tolerance(0.0, 0.0)
_NAMES = (*_plan.METHODS, "pinned")


def run(
    problems: AnyProblems,
    budget: Budget,
    method: str,
    seed: int,
    wanted: tuple[str, ...] = (),
) -> tuple[Estimate, np.ndarray]:
    """Estimates of a batch, with slopes in what is ``wanted``, and the method's name for each row.

    "pinned" is "genz" whose slopes are found in another way.
    """
    if "cov" in wanted or "factor" in wanted:
        wanted = tuple(dict.fromkeys((*wanted, "mean")))  # what blocks need to know of each other
    size = problems.size
    estimate = Estimate.unknown(problems, wanted)
    estimate.log_prob[:], estimate.rel_error[:] = 0.0, _ROUNDING
    slopes = estimate.slopes
    used = np.zeros((len(_NAMES), size), dtype=bool)  # which methods each row took
    never = _plan.impossible(problems)
    estimate.log_prob[never] = -np.inf
    estimate.rel_error[never] = problems.rounding[never]  # 0 unless an interval was rounded away
    rest = np.flatnonzero(~never)
    if not rest.size:
        return estimate, _labels(used)
    estimate.rel_error[rest] += problems.rounding[rest]

    def multiply(rows: np.ndarray, part: Estimate, names: np.ndarray) -> None:
        estimate.log_prob[rows] += part.log_prob
        estimate.rel_error[rows] += part.rel_error * (1.0 + estimate.rel_error[rows])
        estimate.n[rows] += part.n
        estimate.log_bound[rows] += part.log_bound
        for k, name in enumerate(_NAMES):
            used[k, rows] |= names == name

    if isinstance(problems, OneFactorProblems):
        part, names = _run_block(problems.take(rest), budget, method, seed, wanted)
        multiply(rest, part, names)
        if slopes is not None and part.slopes is not None:
            slopes.replace(rest, part.slopes, np.arange(rest.size))
    else:
        for piece in _plan.pieces(problems.take(rest), split=method not in _plan.SAMPLING):
            rows = rest[piece.rows]
            sampled = sum(_plan.may_be_sampled(block.size, method) for block in piece.blocks)
            share = budget.divided(max(1, sampled))
            parts: list[tuple[np.ndarray, Slopes]] = []
            for block in piece.blocks:
                factor = problems.take(rows, block, piece.same_zeros)
                part, names = _run_block(factor, share, method, seed, wanted)
                multiply(rows, part, names)
                if part.slopes is not None:
                    parts.append((block, part.slopes))
            if slopes is not None:
                slopes.replace(rows, combine(problems.take(rows), parts, wanted), slice(None))
    # A logarithm is known to rounding of its own size, which is relative to the probability.
    estimate.rel_error[rest] += _ROUNDING * np.abs(estimate.log_prob[rest])
    if slopes is not None:
        slopes.round(4.0 * problems.rounding)  # one over a width, or its square
    return estimate, _labels(used)


def add_rounding(problems: AnyProblems, estimate: Estimate) -> None:
    """What ``run`` adds to the errors of problems that are one block."""
    first = _ROUNDING + problems.rounding
    estimate.rel_error[:] = first + estimate.rel_error * (1.0 + first)
    estimate.rel_error[:] += _ROUNDING * np.abs(estimate.log_prob)


def _labels(used: np.ndarray) -> np.ndarray:
    """Names joined by "+" for each column of ``used`` (methods, rows)."""
    codes = np.left_shift(1, np.arange(len(used))) @ used
    found, which = np.unique(codes, return_inverse=True)
    labels = [
        "+".join(name for k, name in enumerate(_NAMES) if code >> k & 1) or "closed_form"
        for code in found.tolist()
    ]
    return np.array(labels, dtype=str)[which.reshape(-1)]


def _run_block(
    problems: AnyProblems,
    budget: Budget,
    method: str,
    seed: int,
    wanted: tuple[str, ...],
) -> tuple[Estimate, np.ndarray]:
    estimate = Estimate.unknown(problems, wanted)
    used = np.empty(problems.size, dtype="<U24")
    rows = np.arange(problems.size)
    factored = isinstance(problems, OneFactorProblems)
    for name in _plan.attempts(problems.d, method, factored):
        part = _attempt(name, problems.take(rows), budget, seed, wanted)
        if method == "auto" and name == "closed_form" and part.slopes is not None:
            _refine_far_out(problems.take(rows), part, wanted)
        if method == "quadrature" and not factored and np.isinf(part.rel_error).any():
            raise ValueError(
                "method='quadrature' takes covariances diag(c) + v v^T with c > 0, which this one "
                "is not, or too close to a singular one to tell; use method='auto' or 'tilting'"
            )
        if method == "markov" and np.isinf(part.rel_error).any():
            raise ValueError(
                "method='markov' takes covariances whose inverse is tridiagonal in some order of "
                "the coordinates, which this one's is not, or it is too close to singular to be "
                "resolved; use method='auto' or 'tilting'"
            )
        better = part.rel_error <= estimate.rel_error[rows]
        bound = np.minimum(part.log_bound, estimate.log_bound[rows])
        estimate.replace(rows[better], part, better)
        estimate.log_bound[rows] = bound
        used[rows[better]] = name
        rows = rows[~settled(problems, estimate.take(rows), budget.tolerance)]
        if not rows.size:
            break
    return estimate, used


def _refine_far_out(problems: AnyProblems, estimate: Estimate, wanted: tuple[str, ...]) -> None:
    """Take the slopes of closed forms from quadrature where P is so small that these are better.

    A closed form's are quotients, whose logarithms are rounded to their own size.
    """
    rows = np.flatnonzero((estimate.log_prob < _FAR_OUT) & np.isfinite(estimate.log_prob))
    if not rows.size:
        return
    found = _attempt("quadrature", problems.take(rows), Budget(None, 1, _NONE), 0, wanted).slopes
    assert found is not None
    assert estimate.slopes is not None
    for name, error in estimate.slopes.error.items():
        better = found.error[name] < error[rows]
        value = estimate.slopes.value[name]
        value[rows] = np.where(better, found.value[name], value[rows])
        error[rows] = np.where(better, found.error[name], error[rows])


def settled(problems: AnyProblems, estimate: Estimate, tolerance: Tolerance) -> np.ndarray:
    """Rows that need no other method: the tolerance is met, or the logarithm known to rounding."""
    rounding = 1e-14 if problems.upper.dtype == np.float64 else 1e-6
    with np.errstate(invalid="ignore"):
        least = rounding * (1.0 + np.abs(estimate.log_prob))
    rounded = np.isfinite(estimate.rel_error) & (estimate.rel_error <= least)
    return tolerance.met(estimate.log_prob, estimate.rel_error) | rounded


def _dense(problems: AnyProblems) -> Problems:
    return problems.dense() if isinstance(problems, OneFactorProblems) else problems


def _attempt(
    name: str,
    problems: AnyProblems,
    budget: Budget,
    seed: int,
    wanted: tuple[str, ...],
) -> Estimate:
    """Estimates by one method; rel_error is infinite where it does not apply."""
    if name == "closed_form":
        from mvnorth._methods import closed_form

        estimate = closed_form.solve(_dense(problems))
        if wanted:
            from mvnorth._derivatives import conditional

            known = replace(estimate, rel_error=estimate.rel_error + problems.rounding)
            found = conditional.slopes(problems, wanted, known, _exactly)
            estimate = replace(estimate, slopes=found)
        return estimate
    if name == "markov":
        from mvnorth._methods import markov

        return markov.solve(problems, wanted)
    if name in _plan.SAMPLING:
        return _sample(name, problems, budget, seed, wanted)
    if isinstance(problems, OneFactorProblems):
        return _integrate(problems, wanted)
    estimate = Estimate.unknown(problems, wanted)
    rows, factored = with_one_factor(problems)
    if factored is not None:
        own = tuple(dict.fromkeys("cov" if name == "factor" else name for name in wanted))
        part = _integrate(factored, own)
        if "factor" in wanted and part.slopes is not None:
            factor = problems.factor if len(problems.factor) == 1 else problems.factor[rows]
            add_factor(part.slopes, factor)
        estimate.replace(np.flatnonzero(rows), part, np.arange(factored.size))
    return estimate


def _sample(
    name: str,
    problems: AnyProblems,
    budget: Budget,
    seed: int,
    wanted: tuple[str, ...],
) -> Estimate:
    tilted = name == "tilting"
    if not wanted:
        from mvnorth._methods import genz, structured

        if isinstance(problems, OneFactorProblems):
            return structured.solve(problems, budget, seed, tilted)
        return genz.solve(problems, budget, seed, tilted)
    if isinstance(problems, OneFactorProblems):
        estimate = _sample(name, problems, budget, seed, ())
        found = _sample(name, problems.dense(), budget, seed, wanted)
        return replace(estimate, slopes=found.slopes)
    if name == "pinned":
        from mvnorth._derivatives import pinned

        return pinned.solve(problems, budget, seed, wanted)
    from mvnorth._derivatives import pathwise

    return pathwise.solve(problems, budget, seed, wanted, tilted)


def _integrate(problems: OneFactorProblems, wanted: tuple[str, ...]) -> Estimate:
    """By integration over the common factor."""
    from mvnorth._methods import quadrature

    if not wanted:
        return quadrature.solve(problems)
    from mvnorth._derivatives import one_factor

    return one_factor.solve(problems, wanted)


def _exactly(problems: AnyProblems) -> Estimate:
    """What remains of a closed form under a condition has one."""
    return run(problems, Budget(None, 1, _NONE), "closed_form", 0)[0]


def with_one_factor(problems: Problems) -> tuple[np.ndarray, OneFactorProblems | None]:
    """Which rows have a covariance diag(c) + v v^T, and those rows as such problems."""
    c, v, error = recognise(problems.factor)
    found = np.isfinite(error)
    rows = np.broadcast_to(found, problems.size)
    if not found.any():
        return rows, None
    if len(c) > 1:
        c, v, error = c[rows], v[rows], error[rows]
    lower, upper = problems.lower[rows], problems.upper[rows]
    rounding = np.broadcast_to(error, len(upper))
    return rows, OneFactorProblems(lower, upper, c, v, rounding)
