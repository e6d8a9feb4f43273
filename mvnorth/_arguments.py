"""Single arguments, validated and brought into the form that the rest takes.

Every message names the argument, what it got and what it takes.
"""

import math
import operator
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from mvnorth._device import on_device
from mvnorth._problem import Tolerance

DEFAULT_TOLERANCE = Tolerance(1e-4, 0.0)
_LARGEST = float(np.finfo(np.float64).max)
MAX_N = 10**10  # days of work, and the memory for its partial sums


def numbers(name: str, value: ArrayLike) -> np.ndarray:
    """Return ``value`` as float64; NaN and infinities are allowed."""
    if type(value) is np.ndarray and value.dtype == np.float64:
        return value if value.base is None else value.copy()  # a view may be read-only
    if type(value) is float:
        return np.array(value)
    if np.ma.isMaskedArray(value) and np.ma.is_masked(value):
        raise ValueError(
            f"{name} must not have masked entries (found {np.ma.count_masked(value)}); fill them "
            "in with .filled(), or leave their rows out"
        )
    try:
        array = np.asarray(value)
        if array.dtype.kind not in "biufO":  # numpy would read dates and text as numbers
            raise TypeError(f"it is of type {array.dtype}")
        return array.astype(np.float64)
    except OverflowError:
        raise ValueError(
            f"{name} has a number that is too large for double precision, whose largest is 1.8e308"
        ) from None
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} must be an array of real numbers: {error}") from None


def as_rows(array: np.ndarray, batch: tuple[int, ...], core: int) -> np.ndarray:
    """Broadcast batch axes and flatten them to one; the last ``core`` axes are kept.

    The result is contiguous and writable, since kernels are compiled for one memory layout.
    """
    shape = array.shape[array.ndim - core :]
    count = math.prod(batch)
    if count != 1 and array.shape != batch + shape:
        array = np.broadcast_to(array, batch + shape)
    rows = array.reshape(count, *shape)
    # numpy warns of what ``np.broadcast_arrays`` made when it is asked whether it is writable.
    return rows if rows.flags.carray else rows.copy()


def real_array(name: str, value: ArrayLike, *, infinite: bool) -> np.ndarray:
    """Return ``value`` as float64 without NaN, and without infinities unless they are allowed."""
    array = numbers(name, value)
    if np.isnan(array).any():
        raise ValueError(f"{name} must not contain NaN (found {int(np.isnan(array).sum())})")
    if not infinite and not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite, it contains infinities")
    return array


def vector(name: str, value: ArrayLike) -> np.ndarray:
    """Return ``value`` as float64 of shape (..., d); its numbers are not checked."""
    array = numbers(name, value)
    if array.ndim == 0 or array.shape[-1] == 0:
        raise ValueError(f"{name} must have shape (..., d) with d >= 1, got {array.shape}")
    return array


def square(name: str, value: ArrayLike) -> np.ndarray:
    """Return ``value`` as float64 of shape (..., d, d); its numbers are not checked."""
    array = numbers(name, value)
    if array.ndim < 2 or array.shape[-1] != array.shape[-2] or array.shape[-1] == 0:
        raise ValueError(f"{name} must have shape (..., d, d) with d >= 1, got {array.shape}")
    return array


def whole_number(name: str, value: Any, *, at_least: int) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be a whole number, got {value!r}")
    if number < at_least:
        raise ValueError(f"{name} must be at least {at_least}, got {number}")
    return number


def correlation(name: str, value: Any) -> float:
    """Return ``value`` as a correlation that a common factor can give: in [0, 1)."""
    number = real_array(name, value, infinite=False)
    if number.ndim != 0 or not 0.0 <= number < 1.0:
        raise ValueError(f"{name} must be a number in [0, 1), got {value!r}")
    return float(number)


def one_factor(c: ArrayLike, v: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Return c > 0 and v as arrays of one shape (..., d); values on a device are not checked."""
    own = c if on_device(c) else _positive("c", c)
    loadings = v if on_device(v) else real_array("v", v, infinite=False)
    if on_device(c) or on_device(v):
        return _one_factor_on_device(own, loadings)
    try:
        own, loadings = np.broadcast_arrays(own, loadings)
    except ValueError:
        raise ValueError(
            f"c and v do not broadcast: c has {np.shape(c)}, v has {np.shape(v)}"
        ) from None
    if own.ndim == 0 or own.shape[-1] == 0:
        raise ValueError(
            f"c or v must have shape (..., d) with d >= 1, got {np.shape(c)} and {np.shape(v)}"
        )
    with np.errstate(over="ignore", divide="ignore"):
        steepest = np.max(np.abs(loadings) / np.sqrt(own), initial=0.0)
    if steepest > 1e150:
        raise ValueError(f"v / sqrt(c) must be at most 1e150 in size, got {steepest:g}")
    return own.copy(), loadings.copy()


def factors(c: ArrayLike, V: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Return c > 0 as (..., d) and V as (..., d, k), with the same batch axes.

    V of one axis is a single column. Values on a device are not checked.
    """
    own: Any = c if on_device(c) else _positive("c", c)
    loadings: Any = V if on_device(V) else real_array("V", V, infinite=False)
    given = f"c has {tuple(own.shape)}, V has {tuple(loadings.shape)}"
    if len(loadings.shape) == 1:
        own, loadings = one_factor(c, V)
        return own, loadings[..., None]
    if len(loadings.shape) == 0 or 0 in loadings.shape[-2:]:
        raise ValueError(f"V must have shape (..., d, k), or (d,) for one factor: {given}")
    try:
        shape = np.broadcast_shapes(tuple(own.shape), tuple(loadings.shape[:-1]))
        if shape[-1] != loadings.shape[-2]:
            raise ValueError
    except ValueError:
        raise ValueError(f"V must have shape (..., d, k) where c has (..., d): {given}") from None
    if on_device(V) or on_device(c):
        if on_device(c) and tuple(own.shape) != tuple(loadings.shape[:-1]):
            raise ValueError(f"c on a device must have the shape of V without its last: {given}")
        return (own if on_device(c) else np.broadcast_to(own, shape).copy()), loadings
    with np.errstate(over="ignore", divide="ignore"):
        steepest = np.max(np.abs(loadings) / np.sqrt(own)[..., None], initial=0.0)
    if steepest > 1e150:
        raise ValueError(f"V / sqrt(c) must be at most 1e150 in size, got {steepest:g}")
    own = np.broadcast_to(own, shape).copy()
    return own, np.broadcast_to(loadings, (*shape, loadings.shape[-1])).copy()


def _positive(name: str, value: ArrayLike) -> np.ndarray:
    array = real_array(name, value, infinite=False)
    if (array <= 0).any():
        raise ValueError(
            f"{name} must be > 0, its smallest entry is {array.min():g}; for a singular covariance "
            "give a factor L or a matrix cov"
        )
    return array


def _one_factor_on_device(c: Any, v: Any) -> tuple[Any, Any]:
    """Return both with the shape of what lives on a device; the other one may broadcast."""
    shapes = [tuple(a.shape) for a in (c, v)]
    shape = shapes[0] if on_device(c) else shapes[1]
    fit = len(shape) > 0 and shape[-1] > 0
    try:
        c, v = (a if on_device(a) else np.broadcast_to(a, shape).copy() for a in (c, v))
    except ValueError:
        fit = False
    if not fit or tuple(c.shape) != tuple(v.shape):
        raise ValueError(
            "c and v on a device must have one shape (..., d) with d >= 1, got "
            f"{shapes[0]} and {shapes[1]}"
        )
    return c, v


def on_host(cov: Any) -> None:
    """Raise if a covariance has arrays on a GPU."""
    if any(map(on_device, cov.arrays)):
        raise TypeError(
            f"this function takes a {type(cov).__name__} on the host, but some of it lives on a "
            "GPU; copy it first (.cpu(), .get() or .copy_to_host())"
        )


def points_count(n: Any, name: str = "n") -> int | None:
    """Return ``n`` as an int >= 1, or None."""
    if n is None:
        return None
    try:
        if isinstance(n, (bool, np.bool_)):
            raise TypeError
        count = int(n) if isinstance(n, float) and n.is_integer() else operator.index(n)
    except TypeError:
        raise TypeError(f"{name} must be a whole number of points or None, got {n!r}") from None
    if count < 1:
        raise ValueError(f"{name} must be at least 1, got {count}")
    if count > MAX_N:
        raise ValueError(f"{name} must be at most {MAX_N}, got {count}")
    return count


def tolerance(
    rtol: float | None,
    atol: float | None,
    n: int | None,
    names: tuple[str, str] = ("rtol", "atol"),
) -> Tolerance | None:
    """Return the tolerance asked for; None where ``n`` alone decides."""
    if rtol is None and atol is None:
        return DEFAULT_TOLERANCE if n is None else None
    for name, value in zip(names, (rtol, atol), strict=True):
        real = isinstance(value, (int, float, np.integer, np.floating))
        if value is not None and (not real or isinstance(value, bool) or not value >= 0):
            raise ValueError(f"{name} must be a number >= 0 or None, got {value!r}")
        if isinstance(value, int) and value > _LARGEST:
            raise ValueError(f"{name} must be at most {_LARGEST:.2g}, or None")
    return Tolerance(float(rtol or 0.0), float(atol or 0.0))


def subset(name: str, value: Any, allowed: tuple[str, ...]) -> tuple[str, ...]:
    """Return some of the allowed names, at least one; a single name need not be in a tuple."""
    names = (value,) if isinstance(value, str) or not isinstance(value, Iterable) else tuple(value)
    if not names or not all(each in allowed for each in names):
        raise ValueError(f"{name} must name some of {', '.join(map(repr, allowed))}, got {value!r}")
    return tuple(each for each in allowed if each in names)


def method_name(method: Any, names: Callable[[], tuple[str, ...]]) -> str:
    """Return ``method`` if it is "auto" or among ``names()``."""
    if isinstance(method, str) and method == "auto":
        return "auto"
    if not isinstance(method, str) or method not in names():
        raise ValueError(f"method must be one of {', '.join(map(repr, names()))}, got {method!r}")
    return str(method)
