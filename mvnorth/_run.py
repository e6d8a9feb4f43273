"""Carry out a plan: each block by its method, the blocks of a problem multiplied together."""

import numpy as np

from mvnorth import _plan
from mvnorth._linalg.one_factor import recognise
from mvnorth._problem import Budget, Estimate, OneFactorProblems, Problems

_ROUNDING = 1e-15


def run(
    problems: Problems | OneFactorProblems, budget: Budget, method: str, seed: int
) -> tuple[Estimate, np.ndarray]:
    """Estimates of a batch, and the name of the method for each row."""
    size = problems.size
    estimate = Estimate(np.zeros(size), np.full(size, _ROUNDING), np.zeros(size, dtype=np.int64))
    used = np.zeros((len(_plan.METHODS), size), dtype=bool)  # which methods each row took
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
        for k, name in enumerate(_plan.METHODS):
            used[k, rows] |= names == name

    if isinstance(problems, OneFactorProblems):
        multiply(rest, *_run_one_factor(problems.take(rest), budget, method, seed))
    else:
        for piece in _plan.pieces(problems.take(rest), split=method != "genz"):
            rows = rest[piece.rows]
            sampled = sum(_plan.may_be_sampled(block.size, method) for block in piece.blocks)
            share = budget.divided(max(1, sampled))
            for block in piece.blocks:
                factor = problems.take(rows, block, piece.same_zeros)
                multiply(rows, *_run_block(factor, share, method, seed))
    # A logarithm is known to rounding of its own size, which is relative to the probability.
    estimate.rel_error[rest] += _ROUNDING * np.abs(estimate.log_prob[rest])
    return estimate, _labels(used)


def _labels(used: np.ndarray) -> np.ndarray:
    """Names joined by "+" for each column of ``used`` (methods, rows)."""
    codes = np.left_shift(1, np.arange(len(used))) @ used
    table = [
        "+".join(name for k, name in enumerate(_plan.METHODS) if code >> k & 1) or "closed_form"
        for code in range(2 ** len(used))
    ]
    return np.array(table)[codes]


def _run_one_factor(
    problems: OneFactorProblems, budget: Budget, method: str, seed: int
) -> tuple[Estimate, np.ndarray]:
    if method == "closed_form":
        return _run_block(problems.dense(), budget, method, seed)
    if method == "genz":
        from mvnorth._methods import structured

        estimate, name = structured.solve(problems, budget, seed), "genz"
    else:
        from mvnorth._methods import quadrature

        estimate, name = quadrature.solve(problems), "quadrature"
    return estimate, np.full(problems.size, name)


def _run_block(
    problems: Problems, budget: Budget, method: str, seed: int
) -> tuple[Estimate, np.ndarray]:
    size = problems.size
    estimate = Estimate(np.empty(size), np.empty(size), np.empty(size, dtype=np.int64))
    used = np.empty(size, dtype="<U24")

    def keep(rows: np.ndarray, part: Estimate, name: str, of_part: np.ndarray) -> None:
        estimate.replace(rows, part, of_part)
        used[rows] = name

    factored = np.zeros(size, dtype=bool)
    if _plan.may_have_one_factor(problems.d, method):
        factored, found = with_one_factor(problems)
        if found is not None:
            from mvnorth._methods import quadrature

            part = quadrature.solve(found)
            keep(np.flatnonzero(factored), part, "quadrature", np.arange(found.size))
    rest = np.flatnonzero(~factored)
    if rest.size:
        name = _plan.block_method(problems.d, method)
        part = _solve_rest(name, problems.take(rest), budget, seed)
        keep(rest, part, name, np.arange(rest.size))
    short = np.flatnonzero(~budget.tolerance.met(estimate.log_prob, estimate.rel_error))
    short = short[used[short] != "genz"]
    if method == "auto" and short.size:  # close to singular: see whether points do better
        other = _solve_rest("genz", problems.take(short), budget, seed)
        better = other.rel_error < estimate.rel_error[short]
        keep(short[better], other, "genz", better)
    return estimate, used


def _solve_rest(name: str, problems: Problems, budget: Budget, seed: int) -> Estimate:
    if name == "genz":
        from mvnorth._methods import genz

        return genz.solve(problems, budget, seed)
    from mvnorth._methods import closed_form

    return closed_form.solve(problems)


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
