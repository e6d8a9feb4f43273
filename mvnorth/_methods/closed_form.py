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
    lower, upper = problems.lower / deviation, problems.upper / deviation
    size, d = lower.shape
    log_prob, rel_error = np.empty(size), np.empty(size)

    def solve_rows(begin: int, end: int) -> None:
        part = slice(begin, end)
        outputs = log_prob[part], rel_error[part]
        if d == 1:
            univariate(lower[part, 0], upper[part, 0], *outputs)
        elif d == 2:
            rho = np.broadcast_to(corr[:, 0, 1], size)[part]
            bivariate(lower[part], upper[part], np.ascontiguousarray(rho), *outputs)
        else:
            pairs = np.broadcast_to(corr[:, [0, 0, 1], [1, 2, 2]], (size, 3))[part]
            trivariate(lower[part], upper[part], np.ascontiguousarray(pairs), *outputs)

    run_items(solve_rows, size, size * (2e-8, 1e-6, 1e-4)[d - 1])
    return Estimate(log_prob, rel_error, np.zeros(size, dtype=np.int64))
