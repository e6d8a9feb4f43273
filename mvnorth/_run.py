"""Carry out a plan: each block by its method, the blocks of a problem multiplied together."""

from dataclasses import replace
from functools import cache

import numpy as np

from mvnorth import _plan
from mvnorth._derivatives.blocks import combine
from mvnorth._device import Device
from mvnorth._linalg.one_factor import recognise
from mvnorth._problem import (
    AnyProblems,
    Budget,
    Estimate,
    OneFactorProblems,
    Problems,
    Slopes,
    Tolerance,
    in_covariance,
)

_ROUNDING = 1e-15
_NAMES = tuple(dict.fromkeys((*_plan.METHODS, *_plan.SAMPLING)))
# Coordinates from which on slopes in limits, c and v are not taken through a d x d matrix.
_LARGE = 1024
_FAR_OUT = -500.0  # logarithm of a probability
_NONE = Tolerance(0.0, 0.0)


def run(
    problems: AnyProblems,
    budget: Budget,
    method: str,
    seed: int,
    wanted: tuple[str, ...] = (),
) -> tuple[Estimate, np.ndarray]:
    """Estimates of a batch, with slopes in what is ``wanted``, and names of methods row by row."""
    if isinstance(problems, Problems) and in_covariance(wanted):
        wanted = tuple(dict.fromkeys((*wanted, "mean")))  # what blocks need to know of each other
    never = _plan.impossible(problems)
    rest = np.flatnonzero(~never)
    if not rest.size:
        estimate, used = Estimate.unknown(problems, wanted), np.zeros(problems.size, dtype=np.int64)
    elif isinstance(problems, OneFactorProblems):
        estimate, used = _run_whole(problems, rest, budget, method, seed, wanted)
    else:
        estimate, used = _run_blocks(problems, rest, budget, method, seed, wanted)
    # A logarithm is known to rounding of its own size, which is relative to the probability.
    estimate.rel_error[:] += _ROUNDING * np.abs(estimate.log_prob)
    if rest.size < problems.size:
        estimate.log_prob[never] = -np.inf
        estimate.rel_error[never] = problems.rounding[never]  # 0 unless it was rounded away
    if estimate.slopes is not None:
        if problems.rounding.any():
            estimate.slopes.round(4.0 * problems.rounding)  # one over a width, or its square
        estimate.slopes.clear_infinite(problems, estimate.log_prob > -np.inf)
    return estimate, _labels(used)


def _run_whole(
    problems: OneFactorProblems,
    rest: np.ndarray,
    budget: Budget,
    method: str,
    seed: int,
    wanted: tuple[str, ...],
) -> tuple[Estimate, np.ndarray]:
    """Estimates of the rows ``rest``, which are one block each, and the bits of their methods."""
    some = problems if rest.size == problems.size else problems.take(rest)
    part, methods = _run_block(some, budget, method, seed, wanted)
    first = _ROUNDING + some.rounding
    part.rel_error[:] = first + part.rel_error * (1.0 + first)
    if some is problems:
        return part, methods
    estimate, used = Estimate.unknown(problems, wanted), np.zeros(problems.size, dtype=np.int64)
    estimate.replace(rest, part)
    used[rest] = methods
    return estimate, used


def _run_blocks(
    problems: Problems,
    rest: np.ndarray,
    budget: Budget,
    method: str,
    seed: int,
    wanted: tuple[str, ...],
) -> tuple[Estimate, np.ndarray]:
    """The same, put together from independent blocks."""
    estimate = Estimate.unknown(problems, wanted)
    estimate.log_prob[:], estimate.rel_error[:] = 0.0, _ROUNDING + problems.rounding
    slopes = estimate.slopes
    used = np.zeros(problems.size, dtype=np.int64)

    for piece in _plan.pieces(problems.take(rest), split=method not in _plan.SAMPLING):
        rows = rest[piece.rows]
        sampled = sum(_plan.may_be_sampled(block.size, method) for block in piece.blocks)
        share = budget.divided(max(1, sampled))
        parts: list[tuple[np.ndarray, Slopes]] = []
        for block in piece.blocks:
            factor = problems.take(rows, block, piece.same_zeros)
            part, methods = _run_block(factor, share, method, seed, wanted)
            estimate.log_prob[rows] += part.log_prob
            estimate.rel_error[rows] += part.rel_error * (1.0 + estimate.rel_error[rows])
            estimate.n[rows] += part.n
            estimate.log_bound[rows] += part.log_bound
            used[rows] |= methods
            if part.slopes is not None:
                parts.append((block, part.slopes))
        if slopes is not None:
            slopes.replace(rows, combine(problems.take(rows), parts, wanted))
    return estimate, used


@cache
def _label(bits: int) -> str:
    return "+".join(name for k, name in enumerate(_NAMES) if bits >> k & 1) or "closed_form"


def _labels(used: np.ndarray) -> np.ndarray:
    """Names joined by "+" for bits (B,) of ``_NAMES``."""
    if not (used != used[:1]).any():
        return np.full(used.size, _label(int(used[0])) if used.size else "")
    found, which = np.unique(used, return_inverse=True)
    return np.array([_label(bits) for bits in found.tolist()])[which.reshape(-1)]


def _run_block(
    problems: AnyProblems,
    budget: Budget,
    method: str,
    seed: int,
    wanted: tuple[str, ...],
) -> tuple[Estimate, np.ndarray]:
    """Estimates of problems that do not fall apart, and the bits of the methods, (B,) of one."""
    factored = isinstance(problems, OneFactorProblems)
    first, *others = _plan.attempts(problems.d, method, factored)
    estimate = _attempt(first, problems, budget, seed, wanted)
    if method == "quadrature" and not factored and np.isinf(estimate.rel_error).any():
        raise ValueError(
            "method='quadrature' takes covariances diag(c) + v v^T with c > 0, which this one "
            "is not, or too close to a singular one to tell; use method='auto' or 'tilting'"
        )
    if method == "markov" and np.isinf(estimate.rel_error).any():
        raise ValueError(
            "method='markov' takes covariances whose inverse is tridiagonal in some order of "
            "the coordinates, which this one's is not, or it is too close to singular to be "
            "resolved; use method='auto' or 'tilting'"
        )
    used = np.full(problems.size, 1 << _NAMES.index(first))
    for name in others:
        rows = np.flatnonzero(~_settled(problems, estimate, budget.tolerance))
        if not rows.size:
            break
        part = _attempt(name, problems.take(rows), budget, seed, wanted)
        known = estimate.rel_error[rows]
        better = part.rel_error < known
        # Of two that know nothing the later one guesses better, if it guesses at all.
        guess = np.isfinite(part.log_prob) | (part.log_prob == estimate.log_prob[rows])
        better |= (part.rel_error == known) & guess
        bound = np.minimum(part.log_bound, estimate.log_bound[rows])
        estimate.replace(rows[better], part, better)
        estimate.log_bound[rows] = bound
        used[rows[better]] = 1 << _NAMES.index(name)
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


def _settled(problems: AnyProblems, estimate: Estimate, tolerance: Tolerance) -> np.ndarray:
    """Rows that need no other method: the tolerance is met, or the logarithm known to rounding."""
    met = tolerance.met(estimate.log_prob, estimate.rel_error)
    if met.all():
        return met
    rounding = 1e-14 if problems.upper.dtype == np.float64 else 1e-6
    with np.errstate(invalid="ignore"):
        least = rounding * (1.0 + np.abs(estimate.log_prob))
    rounded = np.isfinite(estimate.rel_error) & (estimate.rel_error <= least)
    return met | rounded


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
            _refine_far_out(problems, estimate, wanted)
        return estimate
    if name == "markov":
        if wanted:
            from mvnorth._derivatives import markov as chains

            return chains.solve(problems, wanted)
        from mvnorth._methods import markov

        return markov.solve(problems)
    if name in _plan.SAMPLING:
        return _sample(name, problems, budget, seed, wanted)
    if isinstance(problems, OneFactorProblems):
        return _integrate(problems, wanted, budget.device)
    estimate = Estimate.unknown(problems, wanted)
    rows, factored = with_one_factor(problems)
    if factored is not None:
        own = tuple(dict.fromkeys("cov" if name == "factor" else name for name in wanted))
        part = _integrate(factored, own, budget.device)
        if "factor" in wanted and part.slopes is not None:
            part.slopes.add_parts(problems.take(rows), wanted)
        estimate.replace(rows, part)
    return estimate


def _sample(
    name: str,
    problems: AnyProblems,
    budget: Budget,
    seed: int,
    wanted: tuple[str, ...],
) -> Estimate:
    tilted = name == "tilting"
    if isinstance(problems, OneFactorProblems):
        return _sample_one_factor(name, problems, budget, seed, wanted)
    if not wanted:
        from mvnorth._methods import genz

        return genz.solve(problems, budget, seed, tilted)
    if name == "pinned":
        from mvnorth._derivatives import pinned

        return pinned.solve(problems, budget, seed, wanted)
    from mvnorth._derivatives import pathwise

    return pathwise.solve(problems, budget, seed, wanted, tilted)


def _sample_one_factor(
    name: str, problems: OneFactorProblems, budget: Budget, seed: int, wanted: tuple[str, ...]
) -> Estimate:
    """Values from the structured recursion; slopes from it without a tilt, or from a matrix."""
    from mvnorth._methods import structured

    tilted = name == "tilting"
    if not wanted:
        return structured.solve(problems, budget, seed, tilted)
    from mvnorth._derivatives import structured_pathwise
    from mvnorth._methods import quadrature

    def with_matrix(some: OneFactorProblems, names: tuple[str, ...] = wanted) -> Estimate:
        own = tuple(dict.fromkeys("cov" if each in ("c", "v") else each for each in names))
        slopes = _sample(name, some.dense(), budget, seed, own).slopes
        assert slopes is not None
        if "cov" in own:
            slopes.add_parts(some, names)
        return replace(structured.solve(some, budget, seed, tilted), slopes=slopes.only(names))

    def without(some: OneFactorProblems) -> Estimate:
        own = tuple(each for each in wanted if each != "cov")
        estimate = structured_pathwise.solve(some, budget, seed, own)
        slopes = estimate.slopes
        assert slopes is not None
        if "cov" in wanted:
            more = with_matrix(some, ("cov",)).slopes
            assert more is not None
            slopes = Slopes({**slopes.value, **more.value}, {**slopes.error, **more.error})
        if tilted:
            estimate = structured.solve(some, budget, seed, tilted)
        return replace(estimate, slopes=slopes)

    direct = name == "pathwise" or (tilted and problems.d >= _LARGE)
    direct &= wanted != ("cov",)
    return quadrature.by_sides(problems, wanted, without if direct else with_matrix, with_matrix)


def _integrate(
    problems: OneFactorProblems, wanted: tuple[str, ...], device: Device | None
) -> Estimate:
    """By integration over the common factor."""
    from mvnorth._methods import quadrature

    if not wanted:
        return quadrature.solve(problems, device)
    from mvnorth._derivatives import one_factor

    return one_factor.solve(problems, wanted, device)


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
