"""Carry out a plan: each block by its methods, the blocks of a problem multiplied together."""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, lru_cache
from typing import Any

import numpy as np

from mvnorth._combine import combine_blocks
from mvnorth._estimate import Derivatives, Estimate
from mvnorth._methods import METHODS
from mvnorth._plan import Block, NotApplicable, Piece, make_block, make_plan
from mvnorth._problem import Problems, Request, Tolerance

_ROUNDING = 1e-15

Solver = Callable[[Problems, Request, str], tuple[Estimate, np.ndarray]]


def solve(problems: Problems, request: Request, method: str) -> tuple[Estimate, np.ndarray]:
    """Return estimates of a batch, with derivatives, and the names of the methods of each row."""
    if request.wrt:
        names = request.wrt
        if request.in_covariance and problems.covariance.links() is not None:
            names = tuple(dict.fromkeys((*names, "mean")))  # blocks need it of each other
        request = replace(request, wrt=names, subsolve=subsolver(request))
    elif problems.one_block and problems.size == 1:
        return _solve_one(make_block(None, problems, method), request)
    plan = make_plan(problems, method)
    single = plan.single
    if single is not None:
        estimate, used = _solve_block(single, request)
        _add_rounding(estimate, problems.rounding)
    else:
        estimate = Estimate.unknown(problems, request.wrt)
        used = np.zeros(problems.size, dtype=np.int64)
        for piece in plan.pieces:
            _solve_piece(piece, problems, request, estimate, used)
        estimate.rel_error[:] += _ROUNDING * np.abs(estimate.log_prob)
    contradicted = contradicts(estimate, estimate.log_bound)
    estimate.rel_error[contradicted] = np.inf
    if plan.impossible is not None:
        estimate.log_prob[plan.impossible] = -np.inf
        # 0 unless the interval was rounded away
        estimate.rel_error[plan.impossible] = problems.rounding[plan.impossible]
    if estimate.derivatives is not None:
        if problems.rounding.any():
            # One over a width, or its square.
            estimate.derivatives.add_relative_error(4.0 * problems.rounding)
        for error in estimate.derivatives.error.values():
            error[contradicted] = np.inf
        estimate.derivatives.clear_infinite(problems, estimate.log_prob > -np.inf)
    return estimate, label_methods(used)


def differentiate(
    problems: Problems, request: Request, method: str, solver: Solver = solve
) -> tuple[Estimate, np.ndarray]:
    """Return estimates with derivatives in the user's units and precision, and method names."""
    with np.errstate(over="ignore", invalid="ignore"):
        estimate, names = solver(problems, request, method)
        derivatives = estimate.derivatives
        assert derivatives is not None
        scaled = derivatives.only([name for name in derivatives.value if name != "df"])
        problems.covariance.to_user_units(scaled)
        derivatives.value.update(scaled.value)
        derivatives.error.update(scaled.error)
        derivatives.store(problems.upper.dtype)
    return estimate, names


def subsolver(request: Request) -> Callable[[Problems, str], Estimate]:
    """Return the ``subsolve`` of a request with derivatives."""
    exactly = Request(Tolerance(0.0, 0.0), most=1)
    plain = replace(request, wrt=(), subsolve=None)

    def subsolve(problems: Problems, method: str) -> Estimate:
        return solve(problems, plain if method == "auto" else exactly, method)[0]

    return subsolve


def _solve_piece(
    piece: Piece,
    problems: Problems,
    request: Request,
    estimate: Estimate,
    used: np.ndarray,
) -> None:
    """Fill in the rows of one piece from its independent blocks."""
    rows = np.arange(problems.size) if piece.rows is None else piece.rows
    total = Estimate.exact(np.zeros(rows.size), _ROUNDING + problems.rounding[rows])
    share = request.divided(sum(block.may_sample for block in piece.blocks))
    parts: list[tuple[np.ndarray, Derivatives]] = []
    for block in piece.blocks:
        part, methods = _solve_block(block, share)
        total.log_prob[:] += part.log_prob
        total.rel_error[:] += part.rel_error * (1.0 + total.rel_error)
        total.n[:] += part.n
        total.log_bound[:] += part.log_bound
        used[rows] |= methods
        if part.derivatives is not None:
            coordinates = block.coordinates
            all_of_them = np.arange(problems.d) if coordinates is None else coordinates
            parts.append((all_of_them, part.derivatives))
    if request.wrt:
        combined = combine_blocks(problems.take(rows), parts, request.wrt)
        total = replace(total, derivatives=combined)
    estimate.replace(rows, total)


def _solve_one(block: Block, request: Request) -> tuple[Estimate, np.ndarray]:
    """Solve one problem of one block, without operations on arrays if one method settles it.

    The arithmetic is that of batches, so that results are the same to the last bit.
    """
    problems, methods = block.problems, block.methods()
    name = next(methods)
    estimate = METHODS[name].solve(problems, request)
    log_prob, rel_error = estimate.log_prob.item(), estimate.rel_error.item()
    settled = request.tolerance.met(log_prob, rel_error) or rel_error <= _rounding(log_prob)
    following = None if settled else next(methods, None)
    if following is not None or problems.upper.dtype != np.float64 or rel_error == np.inf:
        others = methods if following is None else itertools.chain((following,), methods)
        estimate, used = _solve_rest(block, request, estimate, name, others)
        _add_rounding(estimate, problems.rounding)
        estimate.rel_error[contradicts(estimate, estimate.log_bound)] = np.inf
        return estimate, label_methods(used)
    first = _ROUNDING + problems.rounding.item()
    rel_error = (first + rel_error * (1.0 + first)) + _ROUNDING * abs(log_prob)
    bound = estimate.log_bound.item()
    if log_prob > bound and rel_error < 1.0 and log_prob + float(np.log1p(-rel_error)) > bound:
        rel_error = np.inf
    estimate.rel_error[0] = rel_error
    return estimate, _one_label(name)


@lru_cache
def _one_label(name: str) -> np.ndarray:
    return np.array([name])


def _add_rounding(estimate: Estimate, rounding: np.ndarray) -> None:
    """Add what rounding of the input and of the logarithm brings to relative errors."""
    first = _ROUNDING + rounding
    estimate.rel_error[:] = first + estimate.rel_error * (1.0 + first)
    # A logarithm is known to rounding of its own size, which is relative to the probability.
    estimate.rel_error[:] += _ROUNDING * np.abs(estimate.log_prob)


def _solve_block(block: Block, request: Request) -> tuple[Estimate, np.ndarray]:
    """Return estimates of problems that do not fall apart, and bits of their methods, (B,)."""
    methods = block.methods()
    name = next(methods)
    estimate = METHODS[name].solve(block.problems, request)
    return _solve_rest(block, request, estimate, name, methods)


def _solve_rest(
    block: Block, request: Request, estimate: Estimate, first: str, methods: Iterator[str]
) -> tuple[Estimate, np.ndarray]:
    """Solve rows that the first method has not settled by the others."""
    problems = block.problems
    forced = block.method != "auto" and _may_lack_structure(first, problems)
    if forced and np.isinf(estimate.rel_error).any():
        raise NotApplicable(first, "or is too close to singular to tell")
    used = np.full(problems.size, method_bit(first))
    while True:
        rows = np.flatnonzero(~_settled(problems, estimate, request.tolerance))
        name = next(methods, None) if rows.size else None
        if name is None:
            return estimate, used
        part = METHODS[name].solve(problems.take(rows), request)
        bound = np.minimum(part.log_bound, estimate.log_bound[rows])
        estimate.rel_error[rows[contradicts(estimate.take(rows), bound)]] = np.inf
        part.rel_error[contradicts(part, bound)] = np.inf
        known = estimate.rel_error[rows]
        better = part.rel_error < known
        # Of two that know nothing the later one guesses better, if it guesses at all.
        guess = np.isfinite(part.log_prob) | (part.log_prob == estimate.log_prob[rows])
        better |= (part.rel_error == known) & guess
        estimate.replace(rows[better], part, better)
        estimate.log_bound[rows] = bound
        used[rows[better]] = method_bit(name)


def _may_lack_structure(method: str, problems: Problems) -> bool:
    """Return whether a method needs a structure that the covariance was not given with."""
    structure = METHODS[method].structured
    given = getattr(problems.covariance, f"given_{structure}", None)
    return bool(structure) and (given is None or given() is None)


def _rounding(log_prob: Any, unit: float = 1e-14) -> Any:
    """Return the relative error of a probability whose logarithm is known to rounding."""
    return unit * (1.0 + abs(log_prob))


def _settled(problems: Problems, estimate: Estimate, tolerance: Tolerance) -> np.ndarray:
    """Return rows that need no other method, (B,).

    The tolerance is met, or the logarithm is known to rounding.
    """
    met = tolerance.met(estimate.log_prob, estimate.rel_error)
    if met.all():
        return np.asarray(met)
    unit = 1e-14 if problems.upper.dtype == np.float64 else 1e-6
    with np.errstate(invalid="ignore"):
        least = _rounding(estimate.log_prob, unit)
    rounded = np.isfinite(estimate.rel_error) & (estimate.rel_error <= least)
    return np.asarray(met | rounded)


def contradicts(estimate: Estimate, log_bound: np.ndarray) -> np.ndarray:
    """Return rows whose probability exceeds a certain bound by more than the error they claim."""
    with np.errstate(divide="ignore"):
        least = estimate.log_prob + np.log1p(-np.minimum(estimate.rel_error, 1.0))
    return np.asarray(least > log_bound)


def method_bit(name: str) -> int:
    return 1 << list(METHODS).index(name)


@cache
def _label(bits: int, names: tuple[str, ...]) -> str:
    return "+".join(name for k, name in enumerate(names) if bits >> k & 1) or "closed_form"


def label_methods(used: np.ndarray) -> np.ndarray:
    """Return names joined by "+" for bits (B,) of methods."""
    names = tuple(METHODS)
    if used.size == 1:
        return np.array([_label(int(used[0]), names)])
    if not (used != used[:1]).any():
        return np.full(used.size, _label(int(used[0]), names) if used.size else "")
    found, which = np.unique(used, return_inverse=True)
    return np.array([_label(bits, names) for bits in found.tolist()])[which.reshape(-1)]
