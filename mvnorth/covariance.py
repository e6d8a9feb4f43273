"""Covariances that are not given as a matrix: diag(c) + v v^T, with its Cholesky factor.

The factor costs O(d).  With s_0 = 1 and s_j = s_(j-1) + v_j**2 / c_j,

    L_jj = sqrt(c_j s_j / s_(j-1)),   L_ij = v_i w_j  (i > j),   w_j = v_j / sqrt(c_j s_j s_(j-1)),

so that every column is v times a number below its diagonal.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from mvnorth import _arguments
from mvnorth._covariance.one_factor import OneFactorRows
from mvnorth._covariance.rows import CovarianceRows
from mvnorth._linalg.one_factor import cholesky, dense_cholesky

__all__ = ["Covariance", "OneFactor", "StructuredCholesky", "delta_matrix"]


class Covariance:
    """Base class of objects that stand for a factor ``L`` or a covariance ``cov``.

    A subclass gives its shape, and the covariances of a batch of problems as
    ``mvnorth._covariance.rows.CovarianceRows``, of which methods ask marginals, conditionals and
    derivatives.

    Examples
    --------
    >>> import mvnorth
    >>> cov = mvnorth.OneFactor.exact(4)
    >>> isinstance(cov, mvnorth.covariance.Covariance), cov.shape, cov.d
    (True, (3,), 3)
    """

    @property
    def shape(self) -> tuple[int, ...]:
        """``(..., d)``: batch axes, and the number of coordinates."""
        raise NotImplementedError

    def rows(self, batch: tuple[int, ...]) -> CovarianceRows:
        """Return the covariances for a batch of that shape: one for all problems, or one each."""
        raise NotImplementedError

    @property
    def arrays(self) -> tuple[Any, ...]:
        """The arrays that it consists of, which may live on a GPU."""
        return ()

    @property
    def d(self) -> int:
        """Number of coordinates."""
        return int(self.shape[-1])


@dataclass(frozen=True, eq=False)
class StructuredCholesky:
    """Lower triangular factor of diag(c) + v v^T, kept in O(d) numbers.

    Attributes
    ----------
    diag : ndarray (..., d)
        Diagonal of L.
    w : ndarray (..., d)
        L_ij = v_i w_j for i > j.
    v : ndarray (..., d)
        The loadings.

    Examples
    --------
    >>> import numpy as np
    >>> from mvnorth import OneFactor
    >>> cov = OneFactor(1.0, np.array([1.0, 2.0, 3.0]))
    >>> L = cov.cholesky().dense()
    >>> np.allclose(L @ L.T, cov.dense())
    True
    """

    diag: np.ndarray
    w: np.ndarray
    v: np.ndarray

    def dense(self) -> np.ndarray:
        """Return L as a matrix, ``(..., d, d)``."""
        return dense_cholesky(self.diag, self.w, self.v)


class OneFactor(Covariance):
    """The covariance diag(c) + v v^T: independent noise of variance c, and a common factor.

    It stands wherever a factor ``L`` or a covariance ``cov`` may stand, and makes the probability
    an integral over one variable, which is computed to rounding accuracy.

    Parameters
    ----------
    c : float or array_like (..., d)
        Variances of the independent parts, > 0.
    v : float or array_like (..., d)
        Loadings of the common factor, of any sign. Either or both may live on a GPU, where values
        are not checked; if both do they have one shape.

    Examples
    --------
    >>> import numpy as np
    >>> import mvnorth
    >>> cov = mvnorth.OneFactor(1.0, np.ones(9))
    >>> round(mvnorth.orthant_prob(np.zeros(9), cov), 15)
    0.1
    """

    def __init__(self, c: ArrayLike, v: ArrayLike) -> None:
        self.c, self.v = _arguments.one_factor(c, v)

    @classmethod
    def exact(cls, classes: int) -> "OneFactor":
        """Return I + 1 1^T, the covariance of the differences between one score and all others.

        Examples
        --------
        >>> from mvnorth import OneFactor
        >>> OneFactor.exact(3).dense()
        array([[2., 1.],
               [1., 2.]])
        """
        size = _arguments.whole_number("classes", classes, at_least=2) - 1
        return cls(np.ones(size), np.ones(size))

    @classmethod
    def exchangeable(cls, d: int, rho: float) -> "OneFactor":
        """Return d unit variances with every correlation rho, for 0 <= rho < 1.

        Examples
        --------
        >>> from mvnorth import OneFactor
        >>> OneFactor.exchangeable(2, 0.25).dense()
        array([[1.  , 0.25],
               [0.25, 1.  ]])
        """
        size = _arguments.whole_number("d", d, at_least=1)
        common = _arguments.correlation("rho", rho)
        return cls(np.full(size, 1.0 - common), np.full(size, np.sqrt(common)))

    @property
    def shape(self) -> tuple[int, ...]:
        """``(..., d)``: batch axes, and the number of coordinates."""
        return tuple(self.c.shape)

    @property
    def arrays(self) -> tuple[Any, ...]:
        """c and v, which may live on a GPU."""
        return self.c, self.v

    def rows(self, batch: tuple[int, ...]) -> OneFactorRows:
        """Return c and v for a batch of problems of that shape."""
        _arguments.on_host(self)
        if self.c.ndim == 1:
            return OneFactorRows(self.c[None], self.v[None])
        shared = self.c.size == self.d
        c, v = (_arguments.as_rows(a, (1,) if shared else batch, 1) for a in self.arrays)
        return OneFactorRows(c, v)

    def cholesky(self) -> StructuredCholesky:
        """Return the Cholesky factor, computed in O(d).

        Examples
        --------
        >>> from mvnorth import OneFactor
        >>> L = OneFactor.exact(4).cholesky()
        >>> (L.diag**2).round(6)
        array([2.      , 1.5     , 1.333333])
        >>> L.dense()[2].round(6)
        array([0.707107, 0.408248, 1.154701])
        """
        _arguments.on_host(self)
        diag, w = cholesky(self.c, self.v)
        return StructuredCholesky(diag, w, self.v)

    def dense(self) -> np.ndarray:
        """Return the covariance as a matrix, ``(..., d, d)``."""
        _arguments.on_host(self)
        outer = self.v[..., :, None] * self.v[..., None, :]
        index = np.arange(self.d)
        outer[..., index, index] += self.c
        return outer

    def __repr__(self) -> str:
        shape = "x".join(map(str, self.c.shape))
        return f"OneFactor of shape {shape}: diag(c) + v v^T"


def delta_matrix(classes: int, y: int) -> Any:
    """Return D_y, ``(classes - 1, classes)``: differences s_y - s_i for all i but y, in order.

    Class y is the largest score exactly where D_y s >= 0, and D_y D_y^T = I + 1 1^T for every y.

    Parameters
    ----------
    classes : int
        Number of classes, at least 2.
    y : int
        One of them, from 0 on.

    Returns
    -------
    ndarray (classes - 1, classes)

    Examples
    --------
    >>> from mvnorth import delta_matrix
    >>> delta_matrix(3, 1)
    array([[-1.,  1.,  0.],
           [ 0.,  1., -1.]])
    """
    size = _arguments.whole_number("classes", classes, at_least=2)
    label = _arguments.whole_number("y", y, at_least=0)
    if label >= size:
        raise ValueError(f"y must be below classes={size}, got {label}")
    D = -np.delete(np.eye(size), label, axis=0)
    D[:, label] = 1.0
    return np.where(D == 0.0, 0.0, D)
