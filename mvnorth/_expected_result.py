"""The expected maximum or improvement with its gradient, as users get it."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, eq=False)
class ExpectedGradient:
    """An expected maximum or improvement and its derivatives; None for what does not apply.

    Attributes
    ----------
    value : float or ndarray (...)
        The expected maximum or improvement, or the logarithm of the latter.
    grad_mu : ndarray (..., C)
        Derivatives in the means. Those of an expected maximum are the probabilities to be largest.
    grad_sigma : ndarray (..., C)
        Derivatives in the deviations, of independent scores.
    grad_cov : ndarray (..., C, C)
        Derivatives in the covariance: the symmetric G with d value = sum_ij G_ij d cov_ij over all
        i and j, half the second derivatives of an expected value in the means. In the parameters
        of diag(c) + V V^T they are the diagonal of G, and 2 G V.
    grad_best : float or ndarray (...)
        Derivatives in ``best``, of an expected improvement.
    error, grad_mu_error, grad_cov_error, grad_best_error : float or ndarray
        With ``cov``: bounds on the absolute errors, entry by entry, at about 99 % confidence.
        Infinite where there is no derivative, as in the covariance of two scores that are always
        equal.

    Examples
    --------
    >>> import mvnorth
    >>> result = mvnorth.expected_max_grad([1.0, 0.0], [1.0, 1.0])
    >>> result.grad_mu.round(6), result.grad_sigma.round(6), result.grad_cov
    (array([0.76025, 0.23975]), array([0.219696, 0.219696]), None)
    """

    value: Any
    grad_mu: Any
    grad_sigma: Any = None
    grad_cov: Any = None
    grad_best: Any = None
    error: Any = None
    grad_mu_error: Any = None
    grad_cov_error: Any = None
    grad_best_error: Any = None
