"""Arguments that belong together, checked against each other and made into problems."""

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from mvnorth._arguments import as_rows, numbers, real_array, square, vector
from mvnorth._covariance.dense import Dense
from mvnorth._covariance.factors import FactorsRows
from mvnorth._covariance.one_factor import OneFactorRows
from mvnorth._covariance.rows import CovarianceRows
from mvnorth._device import Device, choose
from mvnorth._linalg.blocks import connected_blocks
from mvnorth._linalg.empty_boxes import empty_rows
from mvnorth._problem import DRAW_REACH, Problems
from mvnorth.covariance import Covariance, Factors

_EPS = float(np.finfo(np.float64).eps)
_NARROWEST = 2.0**-1000  # width in deviations whose products are still normal numbers


def _precision(value: ArrayLike) -> float:
    """Return the rounding unit of the numbers as they were given, single precision included."""
    if type(value) is np.ndarray and value.dtype == np.float64:
        return _EPS
    dtype = np.asarray(value).dtype
    return max(_EPS, float(np.finfo(dtype).eps)) if dtype.kind == "f" else _EPS


def batch_shape(names: tuple[str, ...], *shapes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of the batch from the batch axes of the arguments of these names."""
    given = {*shapes}
    given.discard(())
    if len(given) < 2:
        return given.pop() if given else ()
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        pairs = zip(names, shapes, strict=True)
        got = ", ".join(f"{name} {shape}" for name, shape in pairs)
        raise ValueError(f"batch shapes do not broadcast: {got}") from None


def _shared_rows(array: np.ndarray, batch: tuple[int, ...], core: int) -> np.ndarray:
    """Return (1, ...) where all rows of a batch share the array, else (B, ...)."""
    if array.ndim == core:
        rows = array[None]
        return rows if rows.flags.carray else rows.copy()
    return as_rows(array, (1,) if math.prod(array.shape[:-core]) == 1 else batch, core)


def orthant_problems(m: ArrayLike, L: ArrayLike | Covariance) -> tuple[Problems, tuple[int, ...]]:
    """Read Pr(t >= 0) for t ~ N(m, L L^T) as boxes; return them and the batch shape."""
    if isinstance(L, Covariance):
        means = vector("m", m)
        if means.shape[-1] != L.d:
            raise ValueError(
                f"m and L differ in dimension: m has {means.shape}, L has {L.shape} "
                f"({type(L).__name__})"
            )
        batch = batch_shape(("m", "L"), means.shape[:-1], L.shape[:-1])
        return _structured_problems(means, L, batch, np.asarray(m).dtype), batch
    return factor_problems(m, L)


def _structured_problems(
    upper: np.ndarray,
    cov: Covariance,
    batch: tuple[int, ...],
    dtype: np.dtype,
) -> Problems:
    """Make problems of upper limits alone."""
    from mvnorth._cpu import read

    size = math.prod(batch)
    low, high, rounding = np.empty((size, cov.d)), np.empty((size, cov.d)), np.empty(size)
    unlimited, zero = np.full((1, cov.d), -np.inf), np.zeros((1, cov.d))
    given = _shared_rows(upper, batch, 1)
    bits = read.read_limits(unlimited, given, zero, low, high, rounding)
    if bits & read.NAN:
        raise ValueError(f"m must not contain NaN (found {int(np.isnan(high).sum())})")
    if dtype in (np.float16, np.float32):
        high = high.astype(np.float32)
    rows = cov.rows(batch)
    one_block = _is_one_block(rows, low, high, bits & read.SPLIT)
    return Problems(low, high, rows, rounding, sides=0, one_block=one_block)


def _is_one_block(rows: CovarianceRows, low: np.ndarray, high: np.ndarray, split: int) -> bool:
    """Return whether a plan need not look for blocks: a common factor takes infinite limits."""
    if rows.given_one_factor() is None:
        return rows.given_factors() is not None and rows.links() is None and not split
    return not split or not (low == high).any()


def factor_problems(m: ArrayLike, L: ArrayLike) -> tuple[Problems[Dense], tuple[int, ...]]:
    """Read orthants whose factor is given as a matrix."""
    from mvnorth._cpu import read

    means, factor = vector("m", m), square("L", L)
    d = means.shape[-1]
    if factor.shape[-1] != d:
        raise ValueError(f"m and L differ in dimension: m has {means.shape}, L has {factor.shape}")
    batch = batch_shape(("m", "L"), means.shape[:-1], factor.shape[:-2])
    rows, matrices = as_rows(means, batch, 1), _shared_rows(factor, batch, 2)
    upper, scaled = np.empty(rows.shape), np.empty(matrices.shape)
    scale = np.empty((len(matrices), d))
    bits = read.read_orthant(rows, matrices, upper, scaled, scale)
    if bits & read.WRONG:
        _complain_of_orthant(means, factor)
    # Pr(m + L y >= 0) = Pr(L y <= m), since y is symmetric.
    lower = np.empty(rows.shape)
    lower.fill(-np.inf)
    covariance = Dense(scaled, 8 * d * _EPS, scale)
    one_block = not bits & read.SPLIT
    return Problems(lower, upper, covariance, np.zeros(len(upper)), 0, one_block), batch


def _complain_of_orthant(m: np.ndarray, L: np.ndarray) -> None:
    real_array("m", m, infinite=True)
    real_array("L", L, infinite=False)
    if np.triu(L, 1).any():
        raise ValueError(
            "L must be lower triangular, it has non-zero entries above the diagonal; "
            "for a covariance matrix use cdf, box_prob or sample_box, or take "
            "numpy.linalg.cholesky of it"
        )
    diagonal = np.diagonal(L, axis1=-2, axis2=-1)
    raise ValueError(f"L must have a diagonal >= 0, its smallest entry is {diagonal.min():g}")


def box_problems(
    lower: ArrayLike,
    upper: ArrayLike,
    mean: ArrayLike,
    cov: ArrayLike | Covariance,
    names: tuple[str, str] = ("lower", "upper"),
) -> tuple[Problems, tuple[int, ...]]:
    """Read Pr(lower <= X <= upper) for X ~ N(mean, cov); return problems and the batch shape.

    ``names`` are what the caller calls its limits.
    """
    from mvnorth._cpu import read

    structured = isinstance(cov, Covariance)
    matrix: Any = cov
    covariance: Any = cov if structured else square("cov", matrix)
    shape = covariance.shape
    d = shape[-1]
    low_limits = _limit(names[0], lower, d, shape)
    high_limits = _limit(names[1], upper, d, shape)
    centres = _limit("mean", mean, d, shape)
    limits = (low_limits, high_limits, centres)
    batch = batch_shape(
        (*names, "mean", "cov"),
        low_limits.shape[:-1],
        high_limits.shape[:-1],
        centres.shape[:-1],
        shape[:-1] if structured else shape[:-2],
    )
    lowers, uppers = _shared_rows(low_limits, batch, 1), _shared_rows(high_limits, batch, 1)
    means = _shared_rows(centres, batch, 1)
    size = math.prod(batch)
    low, high, rounding = np.empty((size, d)), np.empty((size, d)), np.empty(size)
    if structured:
        bits = read.read_limits(lowers, uppers, means, low, high, rounding)
        if bits & read.WRONG:
            _complain_of_limits(limits, batch, names)
        rows = covariance.rows(batch)
        if bits & read.BOTH:
            rounding[_underflow(low, high, rows.deviations())] = np.inf
        one_block = _is_one_block(rows, low, high, bits & read.SPLIT)
        return Problems(low, high, rows, rounding, read.sides(bits), one_block), batch
    matrices = _shared_rows(covariance, batch, 2)
    deviation, factor = np.empty(matrices.shape[:2]), np.empty(matrices.shape)
    failed = np.empty(len(matrices), dtype=bool)
    bits, of_covariance, asymmetry = read.read_box(
        lowers, uppers, means, matrices, low, high, rounding, deviation, factor, failed
    )
    if bits & read.WRONG:
        _complain_of_limits(limits, batch, names)
    precision = _precision(matrix)
    if of_covariance & read.WRONG or asymmetry > max(1e-8, 8 * precision):
        _complain_of_covariance(matrices, asymmetry)
    if of_covariance & read.UNFINISHED:
        factor = _factorise(matrices, deviation, factor, failed, precision)
    singular = math.sqrt(8 * d * precision)  # variances are known to rounding, not deviations
    scale = np.empty(deviation.shape)
    bits |= read.scale_box(factor, deviation, low, high, rounding, scale, singular)
    dense = Dense(factor, singular, scale)
    if bits & read.NEAR:
        lowers, uppers, means = (as_rows(array, batch, 1) for array in limits)
        near = _near_singular(factor, singular)
        empty = empty_rows(matrices, lowers, uppers, means, near, singular**2)
        if empty.any():  # an empty interval stands for the empty set
            low[empty], high[empty], rounding[empty] = 0.0, 0.0, 0.0
            bits |= read.SPLIT
    return Problems(low, high, dense, rounding, read.sides(bits), not bits & read.SPLIT), batch


def _limit(name: str, value: ArrayLike, d: int, shape: tuple[int, ...]) -> np.ndarray:
    """Return limits or means (..., d); a number stands for all coordinates."""
    array = numbers(name, value)
    if array.ndim == 0:
        whole = np.empty(d)
        whole.fill(array)
        return whole
    if array.shape[-1] != d:
        raise ValueError(
            f"{name} must have shape (..., {d}) to go with cov {shape}, got {array.shape}"
        )
    return array


def _underflow(lower: np.ndarray, upper: np.ndarray, deviation: np.ndarray) -> np.ndarray:
    """Return rows with an interval too narrow for double precision, (B,)."""
    with np.errstate(over="ignore", invalid="ignore"):
        narrow = (upper - lower) / deviation < _NARROWEST
    return np.asarray(((lower < upper) & narrow).any(axis=1))


def _near_singular(factor: np.ndarray, singular: float) -> np.ndarray:
    """Return factors that are not triangular, or close to singular, (N,)."""
    own = np.abs(np.diagonal(factor, axis1=1, axis2=2))
    deviation = np.sqrt(np.einsum("bij,bij->bi", factor, factor))
    near = (own <= singular * deviation).any(axis=1)
    return np.asarray(near | np.triu(factor, 1).any(axis=(1, 2)))


def _complain_of_limits(
    limits: tuple[np.ndarray, ...], batch: tuple[int, ...], names: tuple[str, str]
) -> None:
    for name, array in zip((*names, "mean"), limits, strict=True):
        real_array(name, array, infinite=name != "mean")
    low, high = as_rows(limits[0], batch, 1), as_rows(limits[1], batch, 1)
    row, column = np.argwhere(low > high)[0]
    raise ValueError(
        f"{names[0]} must not exceed {names[1]}: coordinate {column} has "
        f"{names[0]} {low[row, column]:g} > {names[1]} {high[row, column]:g}"
    )


def _complain_of_covariance(cov: np.ndarray, asymmetry: float) -> None:
    real_array("cov", cov, infinite=False)
    smallest = np.diagonal(cov, axis1=-2, axis2=-1).min()
    if smallest < 0.0:
        raise ValueError(f"cov must have a diagonal >= 0, its smallest entry is {smallest:g}")
    raise ValueError(
        f"cov must be symmetric, it differs from its transpose by {asymmetry:.1e} "
        "in units of the standard deviations"
    )


def _factorise(
    cov: np.ndarray,
    deviation: np.ndarray,
    corr: np.ndarray,
    failed: np.ndarray,
    precision: float,
) -> np.ndarray:
    """Return a factor of the correlations (N, d, d), from what ``read_box`` made of ``cov``.

    The factor is Cholesky's where it exists, else it is made from eigenvectors.
    """
    from mvnorth._cpu import read

    if corr.shape[1] <= read.SMALL:
        for b in np.flatnonzero(failed):
            scale = np.where(deviation[b] > 0.0, deviation[b], 1.0)
            corr[b] = _semidefinite_factor(cov[b] / scale[:, None] / scale, precision)
        return corr
    try:
        return np.linalg.cholesky(corr)
    except np.linalg.LinAlgError:
        return np.stack([_semidefinite_factor(matrix, precision) for matrix in corr])


def _semidefinite_factor(corr: np.ndarray, precision: float) -> np.ndarray:
    """Return A with corr = A A^T: the Cholesky factor, or one from eigenvectors if there is none.

    Each block is factorised by itself, so that independence stays visible.
    """
    try:
        return np.linalg.cholesky(corr)
    except np.linalg.LinAlgError:
        pass
    factor = np.zeros_like(corr)
    for block in connected_blocks(corr != 0):
        values, vectors = np.linalg.eigh(corr[np.ix_(block, block)])
        if values[0] < -len(corr) * max(1e-10, 8 * precision):
            raise ValueError(
                "cov must be positive semi-definite; scaled to unit variances its smallest "
                f"eigenvalue is {values[0]:.3g}"
            )
        factor[np.ix_(block, block)] = vectors * np.sqrt(np.maximum(values, 0.0))
    return factor


def scipy_arguments(
    x: ArrayLike,
    mean: ArrayLike | None,
    cov: ArrayLike | Covariance,
    lower_limit: ArrayLike | None,
) -> tuple[np.ndarray, ArrayLike, np.ndarray | Covariance, ArrayLike]:
    """Return x, mean, cov and lower limit as ``scipy.stats.multivariate_normal.cdf`` reads them.

    A number for ``cov`` means that multiple of the identity, a vector a diagonal; the dimension
    comes from ``mean``, else from ``cov``; in one dimension a vector ``x`` is a batch.
    """
    covariance: Any = cov if isinstance(cov, Covariance) else numbers("cov", cov)
    shape = covariance.shape or (1,)
    means: ArrayLike = 0.0 if mean is None else np.atleast_1d(numbers("mean", mean))
    d = shape[-1] if mean is None else np.shape(means)[-1]
    if not isinstance(cov, Covariance) and covariance.ndim < 2:
        covariance = covariance * np.eye(d) if covariance.ndim == 0 else np.diag(covariance)

    def points(name: str, value: ArrayLike) -> np.ndarray:
        array = numbers(name, value)
        if d == 1 and (array.ndim == 0 or array.shape[-1] != 1 or array.ndim == 1):
            return array[..., None]
        return array

    low = -np.inf if lower_limit is None else points("lower_limit", lower_limit)
    return points("x", x), means, covariance, low


def differentiable(problems: Problems) -> None:
    """Raise if a mean is -inf, where derivatives do not exist."""
    if (problems.upper == -np.inf).any():
        raise ValueError("m must be > -inf for derivatives: with -inf the probability is zero")


def within_reach(problems: Problems) -> None:
    """Raise if limits are too far from the mean for draws in double precision."""
    deviation = problems.covariance.deviations()
    farthest = np.maximum(-problems.upper, problems.lower)
    beyond = (farthest > DRAW_REACH * deviation) & (deviation > 0.0)
    if beyond.any():
        column = np.argwhere(beyond)[0, 1]
        raise ValueError(
            f"limits must lie within {DRAW_REACH:g} standard deviations of the mean to be drawn "
            f"between; that of coordinate {column} does not"
        )


def like_rows(name: str, value: ArrayLike, batch: tuple[int, ...], d: int) -> np.ndarray:
    """Return a vector for every row of a batch, (B, d)."""
    array = real_array(name, vector(name, value), infinite=False)
    try:
        return as_rows(np.broadcast_to(array, (*batch, d)), batch, 1)
    except ValueError:
        raise ValueError(
            f"{name} must have shape (..., {d}) to go with a batch {batch}, got {array.shape}"
        ) from None


def device(name: Any, problems: Problems, *given: Any) -> Device | None:
    """Return the device asked for; single precision is for problems whose input all is.

    With one common factor the limits decide, since c and v are in double precision always.
    """
    if name is None:
        return None
    decides = given if problems.covariance.given_one_factor() is None else (problems.upper,)
    return choose(name, *decides)


def deviations(sigma: ArrayLike) -> np.ndarray:
    """Return standard deviations >= 0 and at most 1e300."""
    array = numbers("sigma", sigma)
    if array.size and not (array.min() >= 0.0 and array.max() <= 1e300):  # NaN included
        real_array("sigma", array, infinite=False)
        if (array > 1e300).any():
            raise ValueError("sigma must not exceed 1e300 in size")
        raise ValueError(f"sigma must be >= 0, its smallest entry is {array.min():g}")
    return array


def _means(mu: ArrayLike) -> np.ndarray:
    """Return means of scores, at most 1e300 in size or -inf."""
    means = numbers("mu", mu)
    if means.ndim == 0 or means.shape[-1] == 0:
        raise ValueError(f"mu must have shape (..., C) with C >= 1, got {means.shape}")
    if means.size and not (means.min() >= -1e300 and means.max() <= 1e300):  # NaN included
        real_array("mu", means, infinite=True)
        if (means == np.inf).any():
            raise ValueError(
                "mu must be below infinity (minus infinity is a class that never wins)"
            )
        if (np.abs(means[np.isfinite(means)]) > 1e300).any():
            raise ValueError("mu must not exceed 1e300 in size")
        if (means == -np.inf).all(axis=-1).any():
            raise ValueError("mu must not be minus infinity for all classes of a row")
    return means


def scores(
    mu: ArrayLike, sigma: ArrayLike
) -> tuple[np.ndarray, np.ndarray, tuple[int, ...], np.dtype]:
    """Return means (B, C), deviations (1 or B, C), and shape and precision of the result."""
    given = np.asarray(mu).dtype
    means = _means(mu)
    if means.ndim == 1 and means.size > 1 and np.shape(sigma) == (means.size, means.size):
        raise ValueError(
            f"sigma has the shape {np.shape(sigma)} of a covariance, which goes in cov=; for rows "
            "of deviations give mu the shape (1, C)"
        )
    spread = deviations(sigma)
    if means.ndim == 1 and spread.ndim == 0:
        rows, shared = as_rows(means, (), 1), np.empty((1, means.size))
        shared.fill(spread)
        return rows, shared, means.shape, _score_precision(given)
    try:
        shape = np.broadcast_shapes(means.shape, spread.shape)
    except ValueError:
        raise ValueError(
            f"mu {means.shape} and sigma {spread.shape} do not broadcast; sigma is a number, "
            "(C,) per class, (..., 1) per row or (..., C)"
        ) from None
    classes = shape[-1]
    rows = as_rows(np.broadcast_to(means, shape), shape[:-1], 1)
    batch = (1,) if math.prod(spread.shape[:-1]) == 1 else shape[:-1]
    core = np.broadcast_to(spread, (*spread.shape[:-1], classes))
    shared = as_rows(core.reshape(-1, classes) if batch == (1,) else core, batch, 1)
    return rows, shared, shape, _score_precision(given)


def correlated_scores(
    mu: ArrayLike, cov: ArrayLike | Covariance
) -> tuple[np.ndarray, CovarianceRows, tuple[int, ...]]:
    """Return means (B, C), covariances of 1 or B rows, and the shape of the result."""
    means = _means(mu)
    classes = means.shape[-1]
    structured = isinstance(cov, Covariance)
    matrix: Any = cov
    covariance: Any = cov if structured else square("cov", matrix)
    if covariance.shape[-1] != classes:
        raise ValueError(
            f"cov must be for {classes} scores to go with mu {means.shape}, got {covariance.shape}"
        )
    core = 1 if structured else 2
    batch = batch_shape(("mu", "cov"), means.shape[:-1], tuple(covariance.shape[:-core]))
    rows = as_rows(means, batch, 1)
    if isinstance(cov, Factors):
        own = (1,) if cov.c.size == classes else batch
        own_rows = cov.rows(own)
        if isinstance(own_rows, OneFactorRows):
            own_rows = FactorsRows(own_rows.c, own_rows.v[:, :, None])
        return rows, own_rows, (*batch, classes)
    if structured:
        return rows, covariance.rows(batch), (*batch, classes)
    matrices = _shared_rows(covariance, batch, 2)
    deviation = np.sqrt(np.maximum(np.diagonal(matrices, axis1=1, axis2=2), 0.0))
    largest = np.where(deviation.any(axis=1), deviation.max(axis=1), 1.0)[:, None, None]
    gaps = np.abs(matrices - np.swapaxes(matrices, 1, 2)) / largest**2
    asymmetry = float(np.max(gaps, initial=0.0))
    precision = _precision(matrix)
    wrong = (np.diagonal(matrices, axis1=1, axis2=2) < 0.0).any()
    if wrong or not asymmetry <= max(1e-8, 8 * precision):
        _complain_of_covariance(matrices, asymmetry)
    factors = [largest[b] * _semidefinite_factor(matrices[b] / largest[b] ** 2, precision)
               for b in range(len(matrices))]  # fmt: skip
    singular = math.sqrt(8 * classes * precision)
    stacked = np.stack(factors) if factors else np.empty((0, classes, classes))
    return rows, Dense(stacked, singular, np.ones(deviation.shape)), (*batch, classes)


def _score_precision(dtype: np.dtype) -> np.dtype:
    return np.dtype(np.float32 if dtype.kind == "f" and dtype.itemsize <= 4 else np.float64)
