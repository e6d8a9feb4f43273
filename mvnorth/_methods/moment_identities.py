"""Mean and covariance of truncated distributions from the derivatives of log P.

With g = d log P/d mean and G = d log P/d cov, the symmetric one, and the covariance S before
truncation, for a mean of zero,

    E[X] = S g,    Cov[X] = S + S (2 G - g g^T) S

(differentiate the normal density under the integral; Tallis 1961, J. R. Stat. Soc. B 23).  In tails
the covariance is a small difference of large numbers: its error says how much is left of it.
"""

import numpy as np

from mvnorth._estimate import Estimate
from mvnorth._moment_estimate import MomentEstimate
from mvnorth._problem import Problems

_EPS = float(np.finfo(np.float64).eps)


def moments_of_derivatives(problems: Problems, estimate: Estimate) -> MomentEstimate:
    """Return moments from an estimate that has derivatives in "mean" and "cov"."""
    assert estimate.derivatives is not None
    value, error = estimate.derivatives.value, estimate.derivatives.error
    g, g_error, G, G_error = value["mean"], error["mean"], value["cov"], error["cov"]
    S = problems.covariance.matrix()
    size = np.abs(S)
    d = problems.d
    lost = np.isinf(g_error).any(axis=1) | np.isinf(G_error).any(axis=(1, 2))
    lost |= np.isinf(estimate.rel_error)
    with np.errstate(invalid="ignore", over="ignore"):
        rounding = _EPS * (d + 4.0)
        mean = (S @ g[:, :, None])[:, :, 0]
        mean_error = (size @ (g_error + rounding * np.abs(g))[:, :, None])[:, :, 0]
        outer = g[:, :, None] * g[:, None]
        inner_error = 2.0 * G_error + rounding * (2.0 * np.abs(G) + np.abs(outer))
        cross = (np.abs(g) + 0.5 * g_error)[:, :, None] * g_error[:, None]
        inner_error += cross + np.swapaxes(cross, 1, 2)
        change = S @ (2.0 * G - outer) @ S
        cov = S + 0.5 * (change + np.swapaxes(change, 1, 2))
        inner = np.abs(2.0 * G) + np.abs(outer)
        cov_error = size @ (inner_error + rounding * inner) @ size + rounding * size
    mean_error[lost], cov_error[lost] = np.inf, np.inf
    return MomentEstimate.of(estimate, mean, mean_error, cov, cov_error)
