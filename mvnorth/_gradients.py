"""The public functions for derivatives: check, differentiate, wrap."""

from dataclasses import replace
from typing import Any

from numpy.typing import ArrayLike

from mvnorth import _arguments, _checks
from mvnorth._device import Device
from mvnorth._distribution import Distribution
from mvnorth._docstrings import document, method_parameter
from mvnorth._estimate import Derivatives
from mvnorth._methods import METHODS, derivative_methods
from mvnorth._problem import MAX_POINTS, Problems, Request, Tolerance
from mvnorth._resident import follows_input
from mvnorth._result import OrthantGradient, wrap, wrap_gradient
from mvnorth._solve import differentiate
from mvnorth.covariance import Factors

_AUTO = """computes the probability as ``orthant`` does, and derivatives by the same method:
exactly with a common factor, for up to three dependent coordinates and along a Markov chain; as
"conditional" does where Gauss rules give the probability, and where it is close to 1; and for the
rest as those of the tilted estimate, the tilt held. See docs/derivatives.md."""

_PARAMETERS = f"""n : int, optional
        Number of integration points in all, for the methods that sample, rounded down to what the
        point set takes (by 11 % at most); with "conditional" as many for each of its
        probabilities. Without it points are added until the *probability* meets its tolerance, up
        to 2**20.
    {method_parameter(derivative_methods(), _AUTO)}
    log : bool
        Derivatives of the logarithm of the probability instead of the probability.
    rtol, atol : float, optional
        Error of the probability asked for, as in ``orthant``. Derivatives are then as accurate as
        the points that it took allow; their errors say how accurate that is.
    df, delta, complement
        As in ``orthant``: Student's t, and one minus the probability.
    seed : int
        Seed of the random shifts. The same input and seed give the same bits, whatever the
        number of threads and however a batch is cut.
    device : {{"cpu", "cuda"}}, optional
        Where to sample, and to integrate over a common factor, as in ``orthant``."""


@follows_input
@document(_PARAMETERS)
def orthant_grad(
    m: ArrayLike,
    L: ArrayLike | Factors,
    n: int | None = None,
    *,
    wrt: tuple[str, ...] = ("m",),
    method: str = "auto",
    log: bool = False,
    rtol: float | None = None,
    atol: float | None = None,
    df: ArrayLike | None = None,
    delta: ArrayLike | None = None,
    complement: bool = False,
    seed: int = 0,
    device: str | None = None,
) -> OrthantGradient:
    """Probability that all coordinates of t ~ N(m, L L^T) are >= 0, and its derivatives.

    Parameters
    ----------
    m : array_like (..., d)
        Means, > -inf.
    L : array_like (d, d) or (..., d, d), or Factors
        Lower triangular factor of the covariance, or diag(c) + V V^T.
    wrt : tuple of {"m", "L", "cov", "c", "V", "v", "df", "delta"}
        What to differentiate with respect to; "c" and "V" only of ``Factors``, "L" of a
        factor. In a singular covariance there are derivatives in "m" only.
    {parameters}

    Returns
    -------
    OrthantGradient

    Examples
    --------
    >>> import numpy as np
    >>> import mvnorth
    >>> L = np.linalg.cholesky([[1.0, 0.5], [0.5, 1.0]])
    >>> result = mvnorth.orthant_grad(np.zeros(2), L, wrt=("m", "cov"))
    >>> result.grad_m.round(6)
    array([0.199471, 0.199471])
    >>> result.grad_cov.round(6)
    array([[-0.045944,  0.091888],
           [ 0.091888, -0.045944]])
    """
    problems, shape = _checks.orthant_problems(m, L)
    _checks.differentiable(problems)
    covariance = problems.covariance
    parameters = ("L" if name == "factor" else name for name in covariance.parameters)
    distribution = Distribution(df, delta, complement, reflected=True)
    allowed = ("m", *parameters, *covariance.columns, "cov", *distribution.parameters)
    names = _arguments.subset("wrt", wrt, allowed)
    points = _arguments.points_count(n)
    tolerance = _arguments.tolerance(rtol, atol, points)
    chosen = {name: {"m": "upper", "L": "factor"}.get(name, name) for name in names}
    return _gradient(
        problems,
        shape,
        distribution,
        chosen,
        points,
        MAX_POINTS,
        tolerance,
        method,
        seed,
        log,
        _checks.device(device, problems, m, L),
    )


@follows_input
@document(_PARAMETERS)
def box_grad(
    lower: ArrayLike,
    upper: ArrayLike,
    mean: ArrayLike,
    cov: ArrayLike | Factors,
    n: int | None = None,
    *,
    wrt: tuple[str, ...] = ("lower", "upper"),
    method: str = "auto",
    log: bool = False,
    rtol: float | None = None,
    atol: float | None = None,
    df: ArrayLike | None = None,
    delta: ArrayLike | None = None,
    complement: bool = False,
    seed: int = 0,
    device: str | None = None,
) -> OrthantGradient:
    """Pr(lower <= X <= upper) for X ~ N(mean, cov), and its derivatives.

    Parameters
    ----------
    lower, upper : float or array_like (..., d)
        Limits; infinite ones are allowed, and have derivatives of zero. Where the probability
        is 0 they are undefined: all derivatives are 0 with infinite errors.
    mean : float or array_like (..., d)
    cov : array_like (d, d) or (..., d, d), or Factors
        Covariance, positive semi-definite.
    wrt : tuple of {"lower", "upper", "mean", "cov", "c", "V", "v", "df", "delta"}
        What to differentiate with respect to; "c" and "V" only of ``Factors``. In a singular
        covariance there are derivatives in limits and mean only.
    {parameters}

    Returns
    -------
    OrthantGradient
        Where one number stands for all coordinates, there is a derivative for each of them.

    Examples
    --------
    >>> import mvnorth
    >>> result = mvnorth.box_grad(-1.0, 1.0, 0.0, [[1.0, 0.5], [0.5, 1.0]], log=True)
    >>> result.grad_upper.round(6)
    array([0.328728, 0.328728])
    """
    problems, shape = _checks.box_problems(lower, upper, mean, cov)
    distribution = Distribution(df, delta, complement)
    names = _arguments.subset("wrt", wrt, _box_names(problems, distribution, "lower", "upper"))
    points = _arguments.points_count(n)
    tolerance = _arguments.tolerance(rtol, atol, points)
    chosen = {name: name for name in names}
    return _gradient(
        problems,
        shape,
        distribution,
        chosen,
        points,
        MAX_POINTS,
        tolerance,
        method,
        seed,
        log,
        _checks.device(device, problems, lower, upper, mean, cov),
    )


@follows_input
def cdf_grad(
    x: ArrayLike,
    mean: ArrayLike | None = None,
    cov: ArrayLike | Factors = 1,
    allow_singular: bool = True,
    maxpts: int | None = None,
    abseps: float | None = None,
    releps: float | None = None,
    *,
    wrt: tuple[str, ...] = ("x",),
    lower_limit: ArrayLike | None = None,
    rng: Any = None,
    method: str = "auto",
    log: bool = False,
    df: ArrayLike | None = None,
    delta: ArrayLike | None = None,
    complement: bool = False,
    seed: int = 0,
    device: str | None = None,
) -> OrthantGradient:
    """Multivariate normal distribution function and its derivatives, called like ``cdf``.

    Parameters
    ----------
    x, mean, cov, allow_singular, maxpts, abseps, releps, lower_limit, rng
        As in ``cdf``.
    wrt : tuple of {"x", "lower_limit", "mean", "cov", "c", "V", "v", "df", "delta"}
        What to differentiate with respect to; "c" and "V" only of ``Factors``.
    method, df, delta, complement, seed, device
        As in ``orthant_grad``.
    log : bool
        Derivatives of ``logcdf`` instead of ``cdf``.

    Returns
    -------
    OrthantGradient
        Of shape ``(..., d)`` in vectors and ``(..., d, d)`` in a covariance, also where d = 1 or a
        number was given.

    Examples
    --------
    >>> import mvnorth
    >>> result = mvnorth.cdf_grad([0.0, 0.0], cov=[[1.0, 0.5], [0.5, 1.0]], wrt=("x", "mean"))
    >>> result.grad_x.round(6), result.grad_mean.round(6)
    (array([0.199471, 0.199471]), array([-0.199471, -0.199471]))
    """
    upper, means, covariance, lower = _checks.scipy_arguments(x, mean, cov, lower_limit)
    limits = ("lower_limit", "x")
    problems, shape = _checks.box_problems(lower, upper, means, covariance, limits)
    distribution = Distribution(df, delta, complement)
    names = _arguments.subset("wrt", wrt, _box_names(problems, distribution, *limits))
    most = _arguments.points_count(maxpts, "maxpts") or MAX_POINTS
    tolerance = _arguments.tolerance(releps, abseps, None, ("releps", "abseps"))
    chosen = {name: {"lower_limit": "lower", "x": "upper"}.get(name, name) for name in names}
    result = _gradient(
        problems,
        shape,
        distribution,
        chosen,
        None,
        most,
        tolerance,
        method,
        seed,
        log,
        _checks.device(device, problems, x, mean, cov, lower_limit),
    )
    return replace(result, of_cdf=True)


def _box_names(
    problems: Problems, distribution: Distribution, lower: str, upper: str
) -> tuple[str, ...]:
    covariance = problems.covariance
    parameters = (name for name in covariance.parameters if name != "factor")
    of_all = (*parameters, *covariance.columns, *distribution.parameters)
    return (lower, upper, "mean", "cov", *of_all)


def _gradient(
    problems: Problems,
    shape: tuple[int, ...],
    distribution: Distribution,
    names: dict[str, str],
    n: int | None,
    most: int,
    tolerance: Tolerance | None,
    method: str,
    seed: Any,
    log: bool,
    device: Device | None,
) -> OrthantGradient:
    """``names`` are the user's names of derivatives, with the name of each in ``Derivatives``."""
    chosen = _arguments.method_name(method, derivative_methods)
    start = _arguments.whole_number("seed", seed, at_least=0)
    target = tolerance or _arguments.DEFAULT_TOLERANCE
    columns = problems.covariance.columns
    wanted = tuple(dict.fromkeys(columns.get(name, name) for name in names.values()))
    request = Request(target, n, most, start, device, wrt=wanted)
    if chosen != "auto" and METHODS[chosen].limits_only and request.in_covariance:
        raise ValueError(
            f"method={chosen!r} differentiates in limits and means only, got wrt={tuple(names)!r}; "
            "use 'auto', 'pathwise' or 'conditional'"
        )
    problems, shape, solver = distribution.solver(problems, shape)
    estimate, methods = differentiate(problems, request, chosen, solver)
    result = wrap(estimate, methods, tolerance, shape, problems.upper.dtype)
    assert estimate.derivatives is not None
    value, error = estimate.derivatives.value, estimate.derivatives.error
    for name in columns.keys() & names.values():
        value[name], error[name] = (of[columns[name]][..., None] for of in (value, error))
    derivatives = Derivatives(
        {name: value[column] for name, column in names.items()},
        {name: error[column] for name, column in names.items()},
    )
    return wrap_gradient(result, derivatives, log)
