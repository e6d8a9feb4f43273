"""Problems of one to three coordinates, without random points."""

import numpy as np

from mvnorth._cpu.closed_form import bivariate, trivariate, univariate
from mvnorth._problem import Estimate, Problems
from mvnorth._threads import run_items


def solve(problems: Problems) -> Estimate:
    """Probabilities of problems with d <= 3; rel_error is infinite where the form does not hold."""
    deviation = np.sqrt(np.sum(problems.factor**2, axis=2))
    rows = problems.factor / deviation[:, :, None]
    corr = np.clip(rows @ np.swapaxes(rows, 1, 2), -1.0, 1.0)
    with np.errstate(over="ignore"):
        lower, upper = problems.lower / deviation, problems.upper / deviation
    size, d = lower.shape
    pairs = corr[:, *np.triu_indices(d, 1)]  # (1 or B, d(d-1)/2)
    pairs = np.array(np.broadcast_to(pairs, (size, pairs.shape[1])))
    log_prob, rel_error = np.empty(size), np.empty(size)
    kernel = (univariate, bivariate, trivariate)[d - 1]

    def solve_rows(begin: int, end: int) -> None:
        part = slice(begin, end)
        kernel(lower[part], upper[part], pairs[part], log_prob[part], rel_error[part])

    run_items(solve_rows, size, size * (2e-8, 1e-6, 1e-4)[d - 1])
    log_prob[np.isnan(log_prob)] = -np.inf  # singular; rel_error is infinite
    # Close to singular the rounding of a correlation counts 1/det times, and the more the smaller
    # the probability is, but it never moves the probability by more than the root of it.
    rounding = np.finfo(float).eps
    with np.errstate(over="ignore"):
        at_most = np.sqrt(rounding) * np.exp(-log_prob)
        magnified = (d + 4.0 * np.abs(log_prob)) / np.maximum(np.linalg.det(corr), 1e-300)
    if d > 1:
        rel_error += np.fmin(rounding * magnified, at_most)
    # Limits are rounded in units of the deviation; a narrow interval changes with its width.
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        kept = (upper - lower) * deviation / (problems.upper - problems.lower)
        change = np.abs(np.log(kept))
    rel_error += np.expm1(np.sum(change, axis=1, where=np.isfinite(change)))
    return Estimate(log_prob, rel_error, np.zeros(size, dtype=np.int64))
