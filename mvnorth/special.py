"""The normal distribution in one dimension, on arrays: Phi, its inverse, log Phi, phi/Phi.

Relative accuracy against 40-digit arithmetic: 1e-15 for \\|x\\| <= 8 and 1e-14 beyond, down to
subnormal results; ``log_ndtr`` 1e-15 everywhere.  NaN in gives NaN out.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from mvnorth._arguments import numbers
from mvnorth._threads import run_items

__all__ = ["log_ndtr", "mills", "ndtr", "ndtri"]

_PART = 2**16  # numbers an item of work; whole vectors, so that cutting changes no bit


def _map(name: str, x: ArrayLike) -> Any:
    from mvnorth._cpu import special  # numba is imported with the first call

    values = numbers("p" if name == "ndtri" else "x", x)
    flat = np.require(values.reshape(-1), requirements=["C", "W"])  # one layout, one compilation
    out = np.empty_like(flat)
    kernel = getattr(special, name)

    def some(begin: int, end: int) -> None:
        part = slice(begin * _PART, end * _PART)
        kernel(flat[part], out[part])

    run_items(some, -(-flat.size // _PART), flat.size * 1e-8)
    return out.reshape(values.shape)[()]


def ndtr(x: ArrayLike) -> Any:
    """Phi(x), the standard normal distribution function.

    Parameters
    ----------
    x : array_like

    Returns
    -------
    float or ndarray of x's shape

    Examples
    --------
    >>> from mvnorth.special import ndtr
    >>> float(ndtr(0.0))
    0.5
    """
    return _map("ndtr", x)


def log_ndtr(x: ArrayLike) -> Any:
    """log Phi(x), right also where Phi(x) underflows or is 1 to rounding.

    Parameters
    ----------
    x : array_like

    Returns
    -------
    float or ndarray of x's shape

    Examples
    --------
    >>> from mvnorth.special import log_ndtr
    >>> round(float(log_ndtr(-40.0)), 6)
    -804.608442
    """
    return _map("log_ndtr", x)


def mills(x: ArrayLike) -> Any:
    """phi(x) / Phi(x), the inverse Mills ratio: the derivative of log Phi.

    Parameters
    ----------
    x : array_like

    Returns
    -------
    float or ndarray of x's shape

    Examples
    --------
    >>> from mvnorth.special import mills
    >>> round(float(mills(0.0)), 12)
    0.797884560803
    """
    return _map("mills", x)


def ndtri(p: ArrayLike) -> Any:
    """Phi^-1(p), the standard normal quantile function; NaN outside [0, 1].

    Parameters
    ----------
    p : array_like

    Returns
    -------
    float or ndarray of p's shape

    Examples
    --------
    >>> from mvnorth.special import ndtri
    >>> round(float(ndtri(0.975)), 12)
    1.95996398454
    """
    return _map("ndtri", p)
