"""Second derivatives, of one-factor problems: check, run, wrap."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from mvnorth import _checks
from mvnorth._covariance.one_factor import OneFactorRows
from mvnorth._problem import Problems
from mvnorth.covariance import Factors


def _one_factor_problems(m: ArrayLike, L: ArrayLike | Factors) -> tuple[Problems, tuple[int, ...]]:
    problems, shape = _checks.orthant_problems(m, L)
    _checks.differentiable(problems)
    if problems.covariance.given_one_factor() is None:
        form = problems.covariance.one_factor()
        if form is None or not np.isfinite(form.error).all():
            raise ValueError(
                "second derivatives need a covariance diag(c) + v v^T: give a OneFactor(c, v), or "
                "a factor L of such a matrix in which no c is close to zero, and of v all or none; "
                "for others grad_cov of orthant_grad is half the matrix of second derivatives"
            )
        # The rows of L were scaled; undo that, so that derivatives are those in m.
        scale = problems.covariance.unit
        covariance = OneFactorRows(form.c * scale**2, form.v * scale)
        rounding = np.broadcast_to(form.error, problems.size)
        problems = Problems(problems.lower, problems.upper * scale, covariance, rounding, sides=0)
    return problems, shape


def orthant_hessian(
    m: ArrayLike,
    L: ArrayLike | Factors,
    vector: ArrayLike | None = None,
    *,
    log: bool = False,
) -> Any:
    """Second derivatives in m of the probability that all t ~ N(m, L L^T) are >= 0.

    Parameters
    ----------
    m : array_like (..., d)
        Means, > -inf.
    L : OneFactor, or array_like (d, d) or (..., d, d)
        The covariance diag(c) + v v^T, or a lower triangular factor of such a matrix.
    vector : array_like (..., d), optional
        Return the product of the Hessian with it, which costs no more than a gradient.
    log : bool
        Derivatives of the logarithm of the probability instead of the probability.

    Returns
    -------
    ndarray (..., d, d), or (..., d) with ``vector``
        As accurate as ``grad_c`` of ``orthant_grad``, without an error of its own.

    Examples
    --------
    >>> import numpy as np
    >>> import mvnorth
    >>> mvnorth.orthant_hessian(np.zeros(2), mvnorth.OneFactor.exact(3)).round(6)
    array([[-0.045944,  0.091888],
           [ 0.091888, -0.045944]])
    """
    from mvnorth._methods import one_factor_rule, quadrature

    problems, shape = _one_factor_problems(m, L)
    problems = problems.double()
    if vector is None:
        product = quadrature.hessian(problems)
    else:
        vectors = _checks.like_rows("vector", vector, shape, problems.d)
        product = one_factor_rule.hessian_products(problems, vectors)
    if not log:
        estimate = one_factor_rule.derivatives(problems, ("m",))
        assert estimate.derivatives is not None
        gradient = estimate.derivatives.value["m"]
        prob = np.exp(estimate.log_prob)
        if vector is None:
            product += gradient[:, :, None] * gradient[:, None, :]
            product *= prob[:, None, None]
        else:
            product += gradient * np.sum(gradient * vectors, axis=1, keepdims=True)
            product *= prob[:, None]
    return product.reshape(*shape, *product.shape[1:])
