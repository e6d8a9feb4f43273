"""Carry out a plan: each block by its method, the blocks of a problem multiplied together."""

import numpy as np

from mvnorth import _plan
from mvnorth._problem import Budget, Estimate, Problems

_ROUNDING = 1e-15


def run(problems: Problems, budget: Budget, method: str, seed: int) -> tuple[Estimate, np.ndarray]:
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
    for piece in _plan.pieces(problems.take(rest), split=method != "genz"):
        rows = rest[piece.rows]
        sampled = sum(_plan.block_method(block.size, method) == "genz" for block in piece.blocks)
        share = budget.divided(max(1, sampled))
        for block in piece.blocks:
            factor = problems.take(rows, block, piece.same_zeros)
            part, names = _run_block(factor, share, method, seed)
            estimate.log_prob[rows] += part.log_prob
            estimate.rel_error[rows] += part.rel_error * (1.0 + estimate.rel_error[rows])
            estimate.n[rows] += part.n
            for k, name in enumerate(_plan.METHODS):
                used[k, rows] |= names == name
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
    problems: Problems, budget: Budget, method: str, seed: int
) -> tuple[Estimate, np.ndarray]:
    name = _plan.block_method(problems.d, method)
    used = np.full(problems.size, name, dtype="<U24")
    if name == "genz":
        from mvnorth._methods import genz

        return genz.solve(problems, budget, seed), used
    from mvnorth._methods import closed_form

    estimate = closed_form.solve(problems)
    short = np.flatnonzero(~budget.tolerance.met(estimate.log_prob, estimate.rel_error))
    if method == "auto" and short.size:  # close to singular: see whether points do better
        from mvnorth._methods import genz

        other = genz.solve(problems.take(short), budget, seed)
        better = other.rel_error < estimate.rel_error[short]
        estimate.replace(short[better], other, better)
        used[short[better]] = "genz"
    return estimate, used
