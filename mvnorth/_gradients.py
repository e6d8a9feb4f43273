"""The public functions for derivatives: check, run, wrap."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from mvnorth import _arguments, _checks
from mvnorth._problem import Derivatives, Estimate, OneFactorProblems
from mvnorth._result import OrthantGradient, wrap_gradient
from mvnorth._run import with_one_factor
from mvnorth.covariance import OneFactor

GRADIENT_METHODS = ("auto", "quadrature", "conditional", "pathwise")


def _problems(m: ArrayLike, L: ArrayLike | OneFactor) -> tuple[OneFactorProblems, tuple[int, ...]]:
    problems, shape = _checks.orthant_problems(m, L)
    if not isinstance(problems, OneFactorProblems):
        rows, found = with_one_factor(problems)
        if found is None or not rows.all():
            raise ValueError(
                "derivatives need a covariance diag(c) + v v^T: give a OneFactor(c, v), or a "
                "factor L of such a matrix in which no c is close to zero, and of v all or none"
            )
        # The rows of L were scaled; undo that, so that derivatives are those in m.
        scale = problems.scale
        problems = OneFactorProblems(
            found.lower, found.upper * scale, found.c * scale**2, found.v * scale, found.rounding
        )
    return _checks.differentiable(problems), shape


def orthant_grad(
    m: ArrayLike,
    L: ArrayLike | OneFactor,
    n: int | None = None,
    *,
    wrt: tuple[str, ...] = ("m",),
    method: str = "auto",
    log: bool = False,
    seed: int = 0,
) -> OrthantGradient:
    """Probability that all coordinates of t ~ N(m, L L^T) are >= 0, and its derivatives.

    Parameters
    ----------
    m : array_like (..., d)
        Means, > -inf.
    L : OneFactor, or array_like (d, d) or (..., d, d)
        The covariance diag(c) + v v^T, or a lower triangular factor of such a matrix.
    n : int, optional
        Number of integration points for the methods that sample. Default: 8192.
    wrt : tuple of {"m", "c", "v"}
        What to differentiate with respect to; "c" and "v" only of a ``OneFactor``.
    method : {"auto", "quadrature", "conditional", "pathwise"}
        "quadrature", which "auto" takes, is exact. "conditional" is the density at zero of one
        coordinate times the orthant probability of the others (in "m" only, O(n d**2));
        "pathwise" differentiates the structured Genz estimate (O(n d)).
    log : bool
        Derivatives of the logarithm of the probability instead of the probability.
    seed : int
        Seed of the random shifts of the methods that sample.

    Returns
    -------
    OrthantGradient

    Examples
    --------
    >>> import numpy as np
    >>> import mvnorth
    >>> result = mvnorth.orthant_grad(np.zeros(3), mvnorth.OneFactor.exact(4), log=True)
    >>> result.grad_m.round(6)
    array([0.343125, 0.343125, 0.343125])
    """
    problems, shape = _problems(m, L)
    names = _arguments.subset("wrt", wrt, ("m", "c", "v"))
    if not isinstance(L, OneFactor) and names != ("m",):
        raise ValueError("wrt may name 'c' and 'v' only where L is a OneFactor")
    name = _arguments.method_name(method, GRADIENT_METHODS)
    points = _arguments.points_count(n)
    start = _arguments.whole_number("seed", seed, at_least=0)
    if name == "conditional" and names != ("m",):
        raise ValueError(
            f"method='conditional' differentiates with respect to 'm' only, got wrt={wrt!r}; "
            "use 'quadrature' or 'pathwise'"
        )
    dtype = problems.upper.dtype
    if name in ("auto", "quadrature") or problems.size == 0:
        from mvnorth._methods import quadrature

        name, found = "quadrature", quadrature.derivatives(problems, names)
        if not log:
            found = _of_probability(found)
    else:
        from mvnorth._derivatives import conditional, pathwise

        solve = conditional.solve if name == "conditional" else pathwise.solve
        found = solve(problems.double(), points, start, names, log)
    return wrap_gradient(found, log, name, shape, dtype)


def _of_probability(found: Derivatives) -> Derivatives:
    """Derivatives of P from those of log P."""
    estimate: Estimate = found.estimate
    prob = np.exp(estimate.log_prob)[:, None]
    grad = {name: (a * prob).astype(a.dtype) for name, a in found.grad.items()}
    relative = estimate.rel_error[:, None]
    error = {}
    with np.errstate(invalid="ignore"):
        for name, a in found.error.items():
            bound = a * prob + relative * np.abs(grad[name])
            error[name] = np.where(np.isnan(bound), np.inf, bound)
    return Derivatives(estimate, grad, error)


def orthant_hessian(
    m: ArrayLike,
    L: ArrayLike | OneFactor,
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
    from mvnorth._methods import quadrature

    problems, shape = _problems(m, L)
    problems = problems.double()
    size, d = problems.size, problems.d
    if vector is None:
        # One product for every unit vector.
        rows = np.repeat(np.arange(size), d)
        units = np.tile(np.eye(d), (size, 1))
        product = quadrature.hessian_products(problems.take(rows), units)
        product = product.reshape(size, d, d)
        product = 0.5 * (product + np.swapaxes(product, 1, 2))
    else:
        vectors = _checks.like_rows("vector", vector, shape, d)
        product = quadrature.hessian_products(problems, vectors)
    if not log:
        found = quadrature.derivatives(problems, ("m",))
        gradient = found.grad["m"]
        prob = np.exp(found.estimate.log_prob)
        if vector is None:
            product += gradient[:, :, None] * gradient[:, None, :]
            product *= prob[:, None, None]
        else:
            product += gradient * np.sum(gradient * vectors, axis=1, keepdims=True)
            product *= prob[:, None]
    return product.reshape(*shape, *product.shape[1:])
