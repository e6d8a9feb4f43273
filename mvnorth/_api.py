"""The public functions: check, plan, run, wrap.  No mathematics here."""

from typing import Any

from numpy.typing import ArrayLike

from mvnorth import _arguments, _checks
from mvnorth._device import Device
from mvnorth._distribution import Distribution
from mvnorth._docstrings import document, method_parameter
from mvnorth._methods import value_methods
from mvnorth._problem import MAX_POINTS, Problems, Request, Tolerance
from mvnorth._resident import follows_input
from mvnorth._result import OrthantResult, wrap
from mvnorth.covariance import Factors

_AUTO = """takes independent blocks apart, uses closed forms for up to three coordinates, integrates
over the common factors where the covariance is diag(c) + V V^T with up to four columns in V, goes
along a Markov chain link by link (its inverse covariance is tridiagonal), tries Gauss rules in
tilted variables from four to fifty coordinates, and samples the rest in these variables;
``explain`` says what it would do."""

_PARAMETERS = f"""n : int, optional
        Number of integration points in all, rounded down to what the point set takes (by 11 % at
        most); with ``complement`` for each term that is sampled. Without it points are added until
        the tolerance is met, up to 2**20.
    rtol, atol : float, optional
        Error asked for, relative to the probability or absolute; one of the two must be met.
        Default: a relative error of 1e-4, or none if ``n`` is given.
    {method_parameter(value_methods(), _AUTO)}
    df : float or array_like (...), optional
        Degrees of freedom of Student's t, at least 0.001, in place of the normal distribution;
        infinity is the normal. Broadcasts with the batch. The variables are mean + X / R, where X
        is normal with mean zero and df R**2 is chi-squared with df degrees of freedom.
    delta : float or array_like (..., d), optional
        Noncentrality: the variables are mean + (X + delta) / R (Kshirsagar's noncentral t).
    complement : bool
        Compute one minus the probability instead: that of at least one limit being exceeded. Its
        relative accuracy is that asked for, however close to 1 the probability is.
    seed : int
        Seed of the random shifts. The same input and seed give the same bits, whatever the
        number of threads and however a batch is cut.
    device : {{"cpu", "cuda"}}, optional
        Where to sample, and to integrate over a common factor: on the CPU or a CUDA device.
        Input that lives on a GPU is computed there, and so are its results; see docs/gpu.md."""


def _run(
    problems: Problems,
    shape: tuple[int, ...],
    distribution: Distribution,
    points: int | None,
    tolerance: Tolerance | None,
    method: str,
    seed: Any,
    device: Device | None,
    most: int | None = None,
) -> OrthantResult:
    name = _arguments.method_name(method, value_methods)
    target = tolerance or _arguments.DEFAULT_TOLERANCE
    start = _arguments.whole_number("seed", seed, at_least=0)
    request = Request(target, points, most or MAX_POINTS, start, device)
    problems, shape, solver = distribution.solver(problems, shape)
    estimate, methods = solver(problems, request, name)
    return wrap(estimate, methods, tolerance, shape, problems.upper.dtype)


@follows_input
@document(_PARAMETERS)
def orthant(
    m: ArrayLike,
    L: ArrayLike | Factors,
    n: int | None = None,
    *,
    rtol: float | None = None,
    atol: float | None = None,
    method: str = "auto",
    df: ArrayLike | None = None,
    delta: ArrayLike | None = None,
    complement: bool = False,
    seed: int = 0,
    device: str | None = None,
) -> OrthantResult:
    """Probability that all coordinates of t ~ N(m, L L^T) are >= 0, with error and status.

    Parameters
    ----------
    m : array_like (..., d)
        Means; infinite ones are allowed.
    L : array_like (d, d) or (..., d, d), or Factors
        Lower triangular factor of the covariance, with a diagonal >= 0; zeros on it (a singular
        covariance) are allowed. Or the covariance diag(c) + v v^T as a ``OneFactor``; then means
        in single precision give results of that precision, in half the time. Batch axes of m and
        L broadcast.
    {parameters}

    Returns
    -------
    OrthantResult

    Examples
    --------
    >>> import numpy as np
    >>> import mvnorth
    >>> L = np.linalg.cholesky(np.eye(3) + 1.0)
    >>> mvnorth.orthant(np.zeros(3), L)
    probability     0.25 +- ...e-1...
    log             -1.386294361
    relative error  ...e-1...
    method          closed_form
    status          converged (rtol=0.0001)
    """
    problems, shape = _checks.orthant_problems(m, L)
    points = _arguments.points_count(n)
    tolerance = _arguments.tolerance(rtol, atol, points)
    return _run(
        problems,
        shape,
        Distribution(df, delta, complement, reflected=True),
        points,
        tolerance,
        method,
        seed,
        _checks.device(device, problems, m, L),
    )


@document(_PARAMETERS)
def orthant_prob(
    m: ArrayLike,
    L: ArrayLike | Factors,
    n: int | None = None,
    *,
    rtol: float | None = None,
    atol: float | None = None,
    method: str = "auto",
    df: ArrayLike | None = None,
    delta: ArrayLike | None = None,
    complement: bool = False,
    seed: int = 0,
    device: str | None = None,
) -> Any:
    """Probability that all coordinates of t ~ N(m, L L^T) are >= 0.

    Parameters
    ----------
    m : array_like (..., d)
        Means; infinite ones are allowed.
    L : array_like (d, d) or (..., d, d), or Factors
        Lower triangular factor of the covariance, with a diagonal >= 0; or diag(c) + V V^T.
    {parameters}

    Returns
    -------
    float, or ndarray of the batch shape

    Examples
    --------
    >>> import numpy as np
    >>> import mvnorth
    >>> L = np.linalg.cholesky(np.eye(9) + 1.0)
    >>> round(mvnorth.orthant_prob(np.zeros(9), L), 4)  # 1/10
    0.1
    """
    return orthant(
        m, L, n, rtol=rtol, atol=atol, method=method, df=df, delta=delta, complement=complement,
        seed=seed, device=device,
    ).prob  # fmt: skip


@document(_PARAMETERS)
def orthant_logprob(
    m: ArrayLike,
    L: ArrayLike | Factors,
    n: int | None = None,
    *,
    rtol: float | None = None,
    atol: float | None = None,
    method: str = "auto",
    df: ArrayLike | None = None,
    delta: ArrayLike | None = None,
    complement: bool = False,
    seed: int = 0,
    device: str | None = None,
) -> Any:
    """Logarithm of ``orthant_prob``, right where the probability underflows.

    Parameters
    ----------
    m : array_like (..., d)
        Means; infinite ones are allowed.
    L : array_like (d, d) or (..., d, d), or Factors
        Lower triangular factor of the covariance, with a diagonal >= 0; or diag(c) + V V^T.
    {parameters}

    Returns
    -------
    float, or ndarray of the batch shape

    Examples
    --------
    >>> import numpy as np
    >>> import mvnorth
    >>> round(mvnorth.orthant_logprob([-40.0, -30.0], np.eye(2)), 6)
    -1258.929686
    """
    return orthant(
        m, L, n, rtol=rtol, atol=atol, method=method, df=df, delta=delta, complement=complement,
        seed=seed, device=device,
    ).log_prob  # fmt: skip


@follows_input
@document(_PARAMETERS)
def box(
    lower: ArrayLike,
    upper: ArrayLike,
    mean: ArrayLike,
    cov: ArrayLike | Factors,
    n: int | None = None,
    *,
    rtol: float | None = None,
    atol: float | None = None,
    method: str = "auto",
    df: ArrayLike | None = None,
    delta: ArrayLike | None = None,
    complement: bool = False,
    seed: int = 0,
    device: str | None = None,
) -> OrthantResult:
    """Pr(lower <= X <= upper) for X ~ N(mean, cov), with error and status.

    Parameters
    ----------
    lower, upper : float or array_like (..., d)
        Limits; infinite ones are allowed, a number stands for all coordinates.
    mean : float or array_like (..., d)
    cov : array_like (d, d) or (..., d, d), or Factors
        Covariance, positive semi-definite; a singular one is allowed.
    {parameters}

    Returns
    -------
    OrthantResult

    Examples
    --------
    >>> import mvnorth
    >>> result = mvnorth.box(-1.0, 1.0, 0.0, [[1.0, 0.5], [0.5, 1.0]])
    >>> round(result.prob, 6)
    0.497972
    """
    problems, shape = _checks.box_problems(lower, upper, mean, cov)
    points = _arguments.points_count(n)
    tolerance = _arguments.tolerance(rtol, atol, points)
    return _run(
        problems,
        shape,
        Distribution(df, delta, complement),
        points,
        tolerance,
        method,
        seed,
        _checks.device(device, problems, lower, upper, mean, cov),
    )


@document(_PARAMETERS)
def box_prob(
    lower: ArrayLike,
    upper: ArrayLike,
    mean: ArrayLike,
    cov: ArrayLike | Factors,
    n: int | None = None,
    *,
    rtol: float | None = None,
    atol: float | None = None,
    method: str = "auto",
    df: ArrayLike | None = None,
    delta: ArrayLike | None = None,
    complement: bool = False,
    seed: int = 0,
    device: str | None = None,
) -> Any:
    """Pr(lower <= X <= upper) for X ~ N(mean, cov).

    Differences are taken on the side where they do not cancel, so that small probabilities keep
    their relative accuracy in either tail.

    Parameters
    ----------
    lower, upper : float or array_like (..., d)
        Limits; infinite ones are allowed, a number stands for all coordinates.
    mean : float or array_like (..., d)
    cov : array_like (d, d) or (..., d, d), or Factors
        Covariance, positive semi-definite; a singular one is allowed.
    {parameters}

    Returns
    -------
    float, or ndarray of the batch shape

    Examples
    --------
    >>> import numpy as np
    >>> import mvnorth
    >>> cov = 0.5 * np.eye(3) + 0.5
    >>> print(f"{mvnorth.box_prob(8.0, np.inf, 0.0, cov):.3e}")
    1.704e-24
    """
    return box(
        lower, upper, mean, cov, n, rtol=rtol, atol=atol, method=method, df=df, delta=delta,
        complement=complement, seed=seed, device=device,
    ).prob  # fmt: skip


@document(_PARAMETERS)
def box_logprob(
    lower: ArrayLike,
    upper: ArrayLike,
    mean: ArrayLike,
    cov: ArrayLike | Factors,
    n: int | None = None,
    *,
    rtol: float | None = None,
    atol: float | None = None,
    method: str = "auto",
    df: ArrayLike | None = None,
    delta: ArrayLike | None = None,
    complement: bool = False,
    seed: int = 0,
    device: str | None = None,
) -> Any:
    """Logarithm of ``box_prob``, right where the probability underflows.

    Parameters
    ----------
    lower, upper : float or array_like (..., d)
        Limits; infinite ones are allowed, a number stands for all coordinates.
    mean : float or array_like (..., d)
    cov : array_like (d, d) or (..., d, d), or Factors
        Covariance, positive semi-definite; a singular one is allowed.
    {parameters}

    Returns
    -------
    float, or ndarray of the batch shape

    Examples
    --------
    >>> import mvnorth
    >>> round(mvnorth.box_logprob(40.0, 41.0, 0.0, [[1.0]]), 6)
    -804.608442
    """
    return box(
        lower, upper, mean, cov, n, rtol=rtol, atol=atol, method=method, df=df, delta=delta,
        complement=complement, seed=seed, device=device,
    ).log_prob  # fmt: skip


@follows_input
def _cdf(
    x: ArrayLike,
    mean: ArrayLike | None,
    cov: ArrayLike | Factors,
    lower_limit: ArrayLike | None,
    maxpts: int | None,
    abseps: float | None,
    releps: float | None,
    method: str,
    df: ArrayLike | None,
    delta: ArrayLike | None,
    complement: bool,
    seed: int,
    device: str | None,
) -> OrthantResult:
    upper, means, covariance, lower = _checks.scipy_arguments(x, mean, cov, lower_limit)
    names = ("lower_limit", "x")
    problems, shape = _checks.box_problems(lower, upper, means, covariance, names)
    most = _arguments.points_count(maxpts, "maxpts")
    tolerance = _arguments.tolerance(releps, abseps, None, ("releps", "abseps"))
    return _run(
        problems,
        shape,
        Distribution(df, delta, complement),
        None,
        tolerance,
        method,
        seed,
        _checks.device(device, problems, x, mean, cov, lower_limit),
        most,
    )


def cdf(
    x: ArrayLike,
    mean: ArrayLike | None = None,
    cov: ArrayLike | Factors = 1,
    allow_singular: bool = True,
    maxpts: int | None = None,
    abseps: float | None = None,
    releps: float | None = None,
    *,
    lower_limit: ArrayLike | None = None,
    rng: Any = None,
    method: str = "auto",
    df: ArrayLike | None = None,
    delta: ArrayLike | None = None,
    complement: bool = False,
    seed: int = 0,
    device: str | None = None,
) -> Any:
    """Multivariate normal distribution function, called like scipy's.

    Takes the arguments of ``scipy.stats.multivariate_normal.cdf``, so that changing the import
    is enough: ``import mvnorth as multivariate_normal``. Two things differ: a batch of one keeps
    its axis, and lower limits above ``x`` are an error where scipy returns a signed value.

    Parameters
    ----------
    x : array_like (..., d)
        Upper limits; in one dimension a vector is a batch.
    mean : array_like (d,) or (..., d), optional
        Default: zero.
    cov : array_like (d, d) or (..., d, d), or Factors
        Covariance; a number stands for a multiple of the identity, a vector for a diagonal.
    allow_singular : bool
        Accepted for scipy's sake; a singular covariance is always computed.
    maxpts : int, optional
        Largest number of integration points. Default: 2**20.
    abseps, releps : float, optional
        Absolute and relative error asked for, like ``atol`` and ``rtol`` elsewhere; one of the
        two must be met. Default: a relative error of 1e-4.
    lower_limit : array_like (..., d), optional
        Lower limits. Default: minus infinity.
    rng
        Accepted for scipy's sake; ``seed`` decides.
    method, df, delta, complement, seed, device
        As in ``orthant_prob``. With ``df`` this is ``scipy.stats.multivariate_t.cdf``, whose
        ``loc`` and ``shape`` are ``mean`` and ``cov`` here.

    Returns
    -------
    float, or ndarray of the batch shape

    Examples
    --------
    >>> import mvnorth
    >>> round(mvnorth.cdf([0.0, 0.0], mean=[0.0, 0.0], cov=[[1.0, 0.5], [0.5, 1.0]]), 12)
    0.333333333333
    """
    return _cdf(
        x, mean, cov, lower_limit, maxpts, abseps, releps, method, df, delta, complement, seed,
        device,
    ).prob  # fmt: skip


def logcdf(
    x: ArrayLike,
    mean: ArrayLike | None = None,
    cov: ArrayLike | Factors = 1,
    allow_singular: bool = True,
    maxpts: int | None = None,
    abseps: float | None = None,
    releps: float | None = None,
    *,
    lower_limit: ArrayLike | None = None,
    rng: Any = None,
    method: str = "auto",
    df: ArrayLike | None = None,
    delta: ArrayLike | None = None,
    complement: bool = False,
    seed: int = 0,
    device: str | None = None,
) -> Any:
    """Logarithm of ``cdf``, right where the probability underflows.

    Parameters
    ----------
    x, mean, cov, allow_singular, maxpts, abseps, releps, lower_limit, rng
        As in ``cdf``.
    method, df, delta, complement, seed, device
        As in ``cdf``.

    Returns
    -------
    float, or ndarray of the batch shape

    Examples
    --------
    >>> import mvnorth
    >>> round(mvnorth.logcdf([-40.0, -40.0], cov=[[1.0, 0.5], [0.5, 1.0]]), 4)
    -1074.9303
    """
    return _cdf(
        x, mean, cov, lower_limit, maxpts, abseps, releps, method, df, delta, complement, seed,
        device,
    ).log_prob  # fmt: skip
