"""The public functions for draws from a normal between limits: check, run, wrap."""

import numpy as np
from numpy.typing import ArrayLike

from mvnorth import _arguments, _checks
from mvnorth._distribution import Distribution
from mvnorth._plan import find_impossible
from mvnorth._problem import Problems
from mvnorth._result import OrthantSample, wrap_sample
from mvnorth.covariance import Factors


def sample_orthant(
    m: ArrayLike,
    L: ArrayLike | Factors,
    size: int,
    *,
    df: ArrayLike | None = None,
    delta: ArrayLike | None = None,
    max_proposals: int | None = None,
    seed: int = 0,
) -> OrthantSample:
    """Independent draws of t ~ N(m, L L^T) given that all coordinates are >= 0.

    The draws are exact: proposals are accepted or rejected such that what is left has that very
    distribution, and every draw is >= 0.

    Parameters
    ----------
    m : array_like (..., d)
        Means; plus infinity is allowed and drawn as such.
    L : array_like (d, d) or (..., d, d), or Factors
        Lower triangular factor of the covariance, with a diagonal >= 0; or diag(c) + V V^T. That
        form, recognised also in a dense L, hardly rejects anything, whatever d.
    size : int
        Number of draws, for every row of a batch.
    df, delta
        Degrees of freedom and noncentrality of Student's t, as in ``orthant``. Its chi variable is
        drawn first, from a density that is known to 1e-5, then the normal given that: about a
        millisecond a draw, since every draw has limits of its own.
    max_proposals : int, optional
        How many proposals may be spent on a row of a batch, and on each independent block in it;
        with ``df`` on each draw.
        Default: 2e9 / d, about a minute of one core.
    seed : int
        The same input and seed give the same bits, whatever the number of threads; fewer draws
        are the first of more. Rows of a batch have different random numbers.

    Returns
    -------
    OrthantSample

    Raises
    ------
    AcceptanceError
        If so few proposals are accepted that ``max_proposals`` would not do; soon, not after that
        many.
    ValueError
        If the probability is zero, among other wrong arguments.

    Examples
    --------
    >>> import numpy as np
    >>> import mvnorth
    >>> L = np.linalg.cholesky([[1.0, 0.5, 0.2], [0.5, 1.0, 0.4], [0.2, 0.4, 1.0]])
    >>> sample = mvnorth.sample_orthant([-1.0, 0.0, 1.0], L, 1000)
    >>> sample.draws.shape, bool((sample.draws >= 0.0).all())
    ((1000, 3), True)
    >>> bool(sample.acceptance > 0.5)
    True
    """
    problems, shape = _checks.orthant_problems(m, L)
    centre = _rows(m, shape, problems.d)
    zero = np.zeros_like(centre)
    limits = (zero + np.inf, zero)  # t is m less the problem's coordinate
    distribution = Distribution(df, delta, reflected=True)
    return _sample(problems, limits, centre, distribution, shape, size, max_proposals, seed)


def sample_box(
    lower: ArrayLike,
    upper: ArrayLike,
    mean: ArrayLike,
    cov: ArrayLike | Factors,
    size: int,
    *,
    df: ArrayLike | None = None,
    delta: ArrayLike | None = None,
    max_proposals: int | None = None,
    seed: int = 0,
) -> OrthantSample:
    """Independent draws of X ~ N(mean, cov) given lower <= X <= upper, exact and inside.

    Parameters
    ----------
    lower, upper : float or array_like (..., d)
        Limits; infinite ones are allowed, a number stands for all coordinates.
    mean : float or array_like (..., d)
    cov : array_like (d, d) or (..., d, d), or Factors
        Covariance, positive semi-definite; a singular one is allowed.
    size, df, delta, max_proposals, seed
        As in ``sample_orthant``, and so are the errors.

    Returns
    -------
    OrthantSample

    Examples
    --------
    >>> import numpy as np
    >>> import mvnorth
    >>> sample = mvnorth.sample_box(-1.0, [1.0, np.inf], 0.0, [[1.0, 0.9], [0.9, 1.0]], 5)
    >>> sample.draws.shape, bool((sample.draws >= -1.0).all())
    ((5, 2), True)
    """
    problems, shape = _checks.box_problems(lower, upper, mean, cov)
    low, high, centre = (_rows(a, shape, problems.d) for a in (lower, upper, mean))
    distribution = Distribution(df, delta)
    return _sample(problems, (low, high), centre, distribution, shape, size, max_proposals, seed)


def _rows(value: ArrayLike, shape: tuple[int, ...], d: int) -> np.ndarray:
    array = np.asarray(value, dtype=np.float64)
    return np.broadcast_to(array, (*shape, d)).reshape(-1, d)


def _sample(
    problems: Problems,
    limits: tuple[np.ndarray, np.ndarray],
    centre: np.ndarray,
    distribution: Distribution,
    shape: tuple[int, ...],
    size: int,
    max_proposals: int | None,
    seed: int,
) -> OrthantSample:
    count = _arguments.whole_number("size", size, at_least=1)
    most = _arguments.points_count(max_proposals, "max_proposals")
    start = _arguments.whole_number("seed", seed, at_least=0)
    never = find_impossible(problems)
    if never.any() and distribution.delta is None:  # which may move limits
        raise ValueError(
            "there is nothing to draw: the probability is zero"
            + (f" in row {int(np.argmax(never))} of the batch" if shape else "")
            + ", since an interval is empty, a coordinate without variance is outside its limits, "
            "or a singular covariance leaves no values between all limits"
        )
    from mvnorth._methods.rejection import Target, sample  # numba is imported with the first call

    step = np.full(centre.shape, -distribution.sign) * problems.covariance.unit
    student = distribution.student(problems, shape)
    if student is None:
        _checks.within_reach(problems)
        found = sample(problems, Target(*limits, centre, step), count, most, start)
    else:
        from mvnorth._student_draws import sample as sample_student

        whole, shape, number = student
        target = Target(*(array[number] for array in (*limits, centre, step)))
        found = sample_student(whole, target, count, most, start)
    return wrap_sample(found.draws, found.acceptance, found.proposals, found.log_bound, shape)
