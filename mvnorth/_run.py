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
        estimate.log_bound[rows] += part.log_bound
        for k, name in enumerate(_plan.METHODS):
            used[k, rows] |= names == name

    if isinstance(problems, OneFactorProblems):
        multiply(rest, *_run_block(problems.take(rest), budget, method, seed))
    else:
        for piece in _plan.pieces(problems.take(rest), split=method not in _plan.SAMPLING):
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


def _run_block(
    problems: Problems | OneFactorProblems, budget: Budget, method: str, seed: int
) -> tuple[Estimate, np.ndarray]:
    estimate = _unknown(problems.size)
    used = np.empty(problems.size, dtype="<U24")
    rows = np.arange(problems.size)
    factored = isinstance(problems, OneFactorProblems)
    for name in _plan.attempts(problems.d, method, factored):
        part = _attempt(name, problems.take(rows), budget, seed)
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
        log_prob, rel_error = estimate.log_prob[rows], estimate.rel_error[rows]
        # A logarithm below -1e10 is known to its own rounding, which nothing improves.
        beyond = np.isfinite(rel_error) & (log_prob < -1e10)
        rows = rows[~(budget.tolerance.met(log_prob, rel_error) | beyond)]
        if not rows.size:
            break
    return estimate, used


def _unknown(size: int) -> Estimate:
    nothing = np.full(size, -np.inf), np.full(size, np.inf)
    return Estimate(*nothing, np.zeros(size, dtype=np.int64))


def _attempt(
    name: str, problems: Problems | OneFactorProblems, budget: Budget, seed: int
) -> Estimate:
    """Estimates by one method; rel_error is infinite where it does not apply."""
    if name == "closed_form":
        from mvnorth._methods import closed_form

        dense = problems.dense() if isinstance(problems, OneFactorProblems) else problems
        return closed_form.solve(dense)
    if name == "markov":
        from mvnorth._methods import markov

        return markov.solve(problems)
    if name in _plan.SAMPLING:
        from mvnorth._methods import genz, structured

        tilted = name == "tilting"
        if isinstance(problems, OneFactorProblems):
            return structured.solve(problems, budget, seed, tilted)
        return genz.solve(problems, budget, seed, tilted)
    from mvnorth._methods import quadrature

    if isinstance(problems, OneFactorProblems):
        return quadrature.solve(problems)
    estimate = _unknown(problems.size)
    rows, found = with_one_factor(problems)
    if found is not None:
        estimate.replace(np.flatnonzero(rows), quadrature.solve(found), np.arange(found.size))
    return estimate


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
