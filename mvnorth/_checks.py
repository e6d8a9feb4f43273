"""Arguments that belong together, checked against each other and made into problems."""

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from mvnorth._arguments import on_host, real_array, square, vector
from mvnorth._device import Device, choose
from mvnorth._linalg.blocks import connected_blocks
from mvnorth._problem import DRAW_REACH, AnyProblems, OneFactorProblems, Problems
from mvnorth.covariance import OneFactor

_EPS = float(np.finfo(np.float64).eps)


def _precision(value: ArrayLike) -> float:
    """Rounding unit of the numbers as they were given, single precision included."""
    dtype = np.asarray(value).dtype
    return max(_EPS, float(np.finfo(dtype).eps)) if dtype.kind == "f" else _EPS


def _batch_shape(**shapes: tuple[int, ...]) -> tuple[int, ...]:
    try:
        return np.broadcast_shapes(*shapes.values())
    except ValueError:
        got = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        raise ValueError(f"batch shapes do not broadcast: {got}") from None


def _rows(array: np.ndarray, batch: tuple[int, ...], core: int) -> np.ndarray:
    """``array`` with its batch axes broadcast and flattened to one; ``core`` axes are kept."""
    shape = array.shape[array.ndim - core :]
    if array.shape != batch + shape:
        array = np.broadcast_to(array, batch + shape)
    rows = array.reshape(math.prod(batch), *shape)
    # Kernels are compiled for one memory layout: contiguous and not read-only.
    return rows if rows.flags.carray else rows.copy()


def _factor_rows(factor: np.ndarray, batch: tuple[int, ...]) -> np.ndarray:
    """(1, d, d) where all rows share the factor, else (B, d, d)."""
    if math.prod(factor.shape[:-2]) == 1:
        batch = (1,)
    return _rows(factor, batch, 2)


def _scaled(
    lower: np.ndarray,
    upper: np.ndarray,
    factor: np.ndarray,
    rounding: np.ndarray,
    singular: float,
) -> Problems:
    """Problems with rows of A near one: by powers of two, so that nothing is rounded."""
    largest = np.max(np.abs(factor), axis=2)
    _, power = np.frexp(largest)
    with np.errstate(over="ignore"):  # a limit beyond the largest number is infinite
        return Problems(
            np.ldexp(lower, -power),
            np.ldexp(upper, -power),
            np.ldexp(factor, -power[:, :, None]),
            rounding,
            singular,
            np.ldexp(1.0, power),
        )


def _one_factor_rows(
    lower: ArrayLike, upper: np.ndarray, cov: OneFactor, rounding: ArrayLike, batch: tuple[int, ...]
) -> OneFactorProblems:
    """Boxes whose limits are rows already; c and v stay one row where they are the same for all."""
    if math.prod(cov.c.shape[:-1]) == 1:
        batch = (1,)
    c, v = _rows(cov.c, batch, 1), _rows(cov.v, batch, 1)
    errors = np.broadcast_to(np.asarray(rounding, dtype=np.float64), upper.shape[:1])
    return OneFactorProblems(np.broadcast_to(lower, upper.shape), upper, c, v, errors)


def orthant_problems(
    m: ArrayLike, L: ArrayLike | OneFactor
) -> tuple[Problems | OneFactorProblems, tuple[int, ...]]:
    """Pr(t >= 0) for t ~ N(m, L L^T) as boxes, and the batch shape of the result."""
    if isinstance(L, OneFactor):
        on_host(L)
        means = vector("m", m)
        if means.shape[-1] != L.d:
            raise ValueError(
                f"m and L differ in dimension: m has {means.shape}, the OneFactor {L.c.shape}"
            )
        batch = _batch_shape(m=means.shape[:-1], L=L.c.shape[:-1])
        single = np.asarray(m).dtype in (np.float16, np.float32)
        upper = _rows(means.astype(np.float32 if single else np.float64), batch, 1)
        return _one_factor_rows(-np.inf, upper, L, 0.0, batch), batch
    return factor_problems(m, L)


def factor_problems(m: ArrayLike, L: ArrayLike) -> tuple[Problems, tuple[int, ...]]:
    """Like ``orthant_problems``, for a factor given as a matrix."""
    means, factor = vector("m", m), square("L", L)
    d = means.shape[-1]
    if factor.shape[-1] != d:
        raise ValueError(f"m and L differ in dimension: m has {means.shape}, L has {factor.shape}")
    if np.triu(factor, 1).any():
        raise ValueError(
            "L must be lower triangular, it has non-zero entries above the diagonal; "
            "for a covariance matrix use cdf, box_prob or sample_box, or take "
            "numpy.linalg.cholesky of it"
        )
    diagonal = np.diagonal(factor, axis1=-2, axis2=-1)
    if (diagonal < 0).any():
        raise ValueError(f"L must have a diagonal >= 0, its smallest entry is {diagonal.min():g}")
    batch = _batch_shape(m=means.shape[:-1], L=factor.shape[:-2])
    upper = _rows(means, batch, 1)  # Pr(m + L y >= 0) = Pr(L y <= m), since y is symmetric
    lower = np.full_like(upper, -np.inf)
    rounding = np.zeros(len(upper))
    return _scaled(lower, upper, _factor_rows(factor, batch), rounding, 8 * d * _EPS), batch


def box_problems(
    lower: ArrayLike,
    upper: ArrayLike,
    mean: ArrayLike,
    cov: ArrayLike | OneFactor,
    names: tuple[str, str] = ("lower", "upper"),
) -> tuple[Problems | OneFactorProblems, tuple[int, ...]]:
    """Pr(lower <= X <= upper) for X ~ N(mean, cov) as boxes, and the batch shape.

    ``names`` are what the caller calls its limits.
    """
    if isinstance(cov, OneFactor):
        on_host(cov)
    covariance = cov.c[..., None, :] if isinstance(cov, OneFactor) else square("cov", cov)
    d = covariance.shape[-1]
    given = cov.c.shape if isinstance(cov, OneFactor) else covariance.shape
    limits = []
    for name, value in zip((*names, "mean"), (lower, upper, mean), strict=True):
        array = real_array(name, value, infinite=name != "mean")
        if array.ndim == 0:
            array = np.full(d, array)
        if array.shape[-1] != d:
            raise ValueError(
                f"{name} must have shape (..., {d}) to go with cov {given}, got {array.shape}"
            )
        limits.append(array)
    low, high, centre = limits
    shapes = (low.shape[:-1], high.shape[:-1], centre.shape[:-1], covariance.shape[:-2])
    batch = _batch_shape(**dict(zip((*names, "mean", "cov"), shapes, strict=True)))
    low, high, centre = (_rows(array, batch, 1) for array in limits)
    if (low > high).any():
        row, column = np.argwhere(low > high)[0]
        raise ValueError(
            f"{names[0]} must not exceed {names[1]}: coordinate {column} has "
            f"{names[0]} {low[row, column]:g} > {names[1]} {high[row, column]:g}"
        )
    # What centring rounds off counts against the width that is left.
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        low_centred, high_centred = low - centre, high - centre
        width = high_centred - low_centred
        size = np.maximum(np.abs(low_centred), np.abs(high_centred))
        lost = np.divide(
            _EPS * size, width, where=(low < high) & np.isfinite(width), out=np.zeros_like(low)
        )
    rounding = lost.sum(axis=1)
    if isinstance(cov, OneFactor):
        return _one_factor_rows(low_centred, high_centred, cov, rounding, batch), batch
    precision = _precision(cov)
    factor = _factor_rows(_covariance_factor(covariance, precision), batch)
    singular = math.sqrt(8 * d * precision)  # variances are known to rounding, not deviations
    return _scaled(low_centred, high_centred, factor, rounding, singular), batch


def _covariance_factor(cov: np.ndarray, precision: float) -> np.ndarray:
    """A with cov = A A^T: Cholesky's where it exists, else from eigenvectors."""
    variance = np.diagonal(cov, axis1=-2, axis2=-1)
    if (variance < 0).any():
        raise ValueError(f"cov must have a diagonal >= 0, its smallest entry is {variance.min():g}")
    deviation = np.sqrt(variance)
    scale = np.where(deviation > 0, deviation, 1.0)
    corr = cov / scale[..., :, None] / scale[..., None, :]
    asymmetry = float(np.max(np.abs(corr - np.swapaxes(corr, -1, -2)), initial=0.0))
    if asymmetry > max(1e-8, 8 * precision):
        raise ValueError(
            f"cov must be symmetric, it differs from its transpose by {asymmetry:.1e} "
            "in units of the standard deviations"
        )
    try:
        factor = np.linalg.cholesky(corr)
    except np.linalg.LinAlgError:
        matrices = corr.reshape(-1, *corr.shape[-2:])
        factor = np.stack([_semidefinite_factor(matrix, precision) for matrix in matrices])
        factor = factor.reshape(corr.shape)
    return factor * deviation[..., :, None]


def _semidefinite_factor(corr: np.ndarray, precision: float) -> np.ndarray:
    """A with corr = A A^T: Cholesky's, or from eigenvectors where that does not exist.

    Block by block, so that independence stays visible.
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
    cov: ArrayLike | OneFactor,
    lower_limit: ArrayLike | None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray | OneFactor, np.ndarray]:
    """x, mean, cov and lower limit as ``scipy.stats.multivariate_normal.cdf`` reads them.

    A number for ``cov`` means that multiple of the identity, a vector a diagonal; the dimension
    comes from ``mean``, else from ``cov``; in one dimension a vector ``x`` is a batch.
    """
    covariance = cov if isinstance(cov, OneFactor) else real_array("cov", cov, infinite=False)
    if mean is None:
        if isinstance(covariance, OneFactor):
            d = covariance.d
        else:
            d = covariance.shape[-1] if covariance.ndim else 1
        means = np.zeros(d)
    else:
        means = np.atleast_1d(real_array("mean", mean, infinite=False))
        d = means.shape[-1]
    if not isinstance(covariance, OneFactor) and covariance.ndim < 2:
        covariance = covariance * np.eye(d) if covariance.ndim == 0 else np.diag(covariance)

    def points(name: str, value: ArrayLike) -> np.ndarray:
        array = real_array(name, value, infinite=True)
        if d == 1 and (array.ndim == 0 or array.shape[-1] != 1 or array.ndim == 1):
            return array[..., None]
        return array

    low = np.asarray(-np.inf) if lower_limit is None else points("lower_limit", lower_limit)
    return points("x", x), means, covariance, low


def differentiable(problems: Problems | OneFactorProblems) -> None:
    """Orthants whose derivatives exist: no mean is -inf."""
    if (problems.upper == -np.inf).any():
        raise ValueError("m must be > -inf for derivatives: with -inf the probability is zero")


def within_reach(problems: Problems | OneFactorProblems) -> None:
    """Limits between which there is something to be drawn in double precision."""
    if isinstance(problems, OneFactorProblems):
        deviation = np.hypot(np.sqrt(problems.c), problems.v)
    else:
        deviation = np.sqrt(np.sum(problems.factor**2, axis=2))
    farthest = np.maximum(-problems.upper, problems.lower)
    beyond = (farthest > DRAW_REACH * deviation) & (deviation > 0.0)
    if beyond.any():
        column = np.argwhere(beyond)[0, 1]
        raise ValueError(
            f"limits must lie within {DRAW_REACH:g} standard deviations of the mean to be drawn "
            f"between; that of coordinate {column} does not"
        )


def like_rows(name: str, value: ArrayLike, batch: tuple[int, ...], d: int) -> np.ndarray:
    """A vector for every row of a batch, (B, d)."""
    array = vector(name, value, infinite=False)
    try:
        return _rows(np.broadcast_to(array, (*batch, d)), batch, 1)
    except ValueError:
        raise ValueError(
            f"{name} must have shape (..., {d}) to go with a batch {batch}, got {array.shape}"
        ) from None


def device(name: Any, problems: AnyProblems, *given: Any) -> Device | None:
    """The device asked for; single precision is for problems whose input all is.

    With one common factor the limits decide, since c and v are in double precision always.
    """
    decides = (problems.upper,) if isinstance(problems, OneFactorProblems) else given
    return choose(name, *decides)


def deviations(sigma: ArrayLike) -> np.ndarray:
    array = real_array("sigma", sigma, infinite=False)
    if (array > 1e300).any():
        raise ValueError("sigma must not exceed 1e300 in size")
    if (array < 0).any():
        raise ValueError(f"sigma must be >= 0, its smallest entry is {array.min():g}")
    return array


def scores(
    mu: ArrayLike, sigma: ArrayLike
) -> tuple[np.ndarray, np.ndarray, tuple[int, ...], np.dtype]:
    """Means (B, C), deviations (1 or B, C), and shape and precision of the result."""
    given = np.asarray(mu).dtype
    means = real_array("mu", mu, infinite=True)
    spread = deviations(sigma)
    if means.ndim == 0 or means.shape[-1] == 0:
        raise ValueError(f"mu must have shape (..., C) with C >= 1, got {means.shape}")
    if (means == np.inf).any():
        raise ValueError("mu must be below infinity (minus infinity is a class that never wins)")
    if (np.abs(means[np.isfinite(means)]) > 1e300).any():
        raise ValueError("mu must not exceed 1e300 in size")
    try:
        shape = np.broadcast_shapes(means.shape, spread.shape)
    except ValueError:
        raise ValueError(
            f"mu {means.shape} and sigma {spread.shape} do not broadcast; sigma is a number, "
            "(C,) per class, (..., 1) per row or (..., C)"
        ) from None
    nowhere = (means == -np.inf).all(axis=-1)
    if nowhere.any():
        raise ValueError("mu must not be minus infinity for all classes of a row")
    classes = shape[-1]
    rows = _rows(np.broadcast_to(means, shape), shape[:-1], 1)
    batch = (1,) if math.prod(spread.shape[:-1]) == 1 else shape[:-1]
    core = np.broadcast_to(spread, (*spread.shape[:-1], classes))
    shared = _rows(core.reshape(-1, classes) if batch == (1,) else core, batch, 1)
    single = given.kind == "f" and given.itemsize <= 4
    return rows, shared, shape, np.dtype(np.float32 if single else np.float64)
