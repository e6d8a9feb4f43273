"""Covariances that are not given as a matrix: diag(c) + V V^T, with its Cholesky factor.

Every column of the factor is V times k numbers below its diagonal, see ``mvnorth._linalg.factors``.
With one factor, s_0 = 1 and s_j = s_(j-1) + v_j**2 / c_j,

    L_jj = sqrt(c_j s_j / s_(j-1)),   L_ij = v_i w_j  (i > j),   w_j = v_j / sqrt(c_j s_j s_(j-1)).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from mvnorth import _arguments
from mvnorth._covariance.factors import FactorsRows
from mvnorth._covariance.one_factor import OneFactorRows
from mvnorth._covariance.rows import CovarianceRows
from mvnorth._linalg.factors import cholesky, dense_cholesky
from mvnorth._linalg.one_factor import cholesky as one_factor_cholesky

__all__ = ["Covariance", "Factors", "OneFactor", "StructuredCholesky", "delta_matrix"]


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

    def take(self, batch: tuple[int, ...], rows: Any) -> "Covariance":
        """Return the covariances of some rows of a batch of that shape, if there are several."""
        if self.shape[:-1] == ():
            return self
        raise NotImplementedError(f"{type(self).__name__} cannot be cut into rows")

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
    """Lower triangular factor of diag(c) + V V^T, kept in O(d k) numbers.

    Attributes
    ----------
    diag : ndarray (..., d)
        Diagonal of L.
    W : ndarray (..., d, k)
        L_ij is the product of V_i and W_j for i > j.
    V : ndarray (..., d, k)
        The loadings.

    Examples
    --------
    >>> import numpy as np
    >>> from mvnorth import Factors
    >>> cov = Factors(1.0, np.array([[1.0, 0.5], [2.0, 0.0], [3.0, -1.0]]))
    >>> L = cov.cholesky().dense()
    >>> np.allclose(L @ L.T, cov.dense())
    True
    """

    diag: np.ndarray
    W: np.ndarray
    V: np.ndarray

    @property
    def w(self) -> np.ndarray:
        """``(..., d)``: W of one factor."""
        return _only_column(self.W)

    @property
    def v(self) -> np.ndarray:
        """``(..., d)``: the loadings of one factor."""
        return _only_column(self.V)

    def dense(self) -> np.ndarray:
        """Return L as a matrix, ``(..., d, d)``."""
        return dense_cholesky(self.diag, self.W, self.V)


def _only_column(V: Any) -> Any:
    if V.shape[-1] != 1:
        raise AttributeError(f"there are {V.shape[-1]} common factors, use V instead of v")
    return V[..., 0]


class Factors(Covariance):
    """The covariance diag(c) + V V^T: independent noise of variance c, and k common factors.

    It stands wherever a factor ``L`` or a covariance ``cov`` may stand. The probability is an
    integral over k variables: with one factor it is computed to rounding accuracy, with two to
    four to any tolerance. With more the covariance is sampled like any other, unless zeros in V
    let it fall apart into blocks with few factors each.

    Parameters
    ----------
    c : float or array_like (..., d)
        Variances of the independent parts, > 0.
    V : array_like (..., d, k) or (d,)
        Loadings of the common factors, of any sign. A vector is one column. Arrays may live on a
        GPU, where values are not checked.

    Attributes
    ----------
    c : (..., d)
    V : (..., d, k)

    Examples
    --------
    >>> import numpy as np
    >>> import mvnorth
    >>> market, sector = np.full(20, 0.5), np.where(np.arange(20) < 10, 0.6, -0.3)
    >>> cov = mvnorth.Factors(0.4, np.stack([market, sector], axis=1))
    >>> result = mvnorth.orthant(np.full(20, 1.5), cov, rtol=1e-10)
    >>> print(f"{result.prob:.10f}", result.method)
    0.5802707695 factors
    """

    c: Any
    V: Any

    def __init__(self, c: ArrayLike, V: ArrayLike) -> None:
        self.c, self.V = _arguments.factors(c, V)

    @property
    def shape(self) -> tuple[int, ...]:
        """``(..., d)``: batch axes, and the number of coordinates."""
        return tuple(self.c.shape)

    @property
    def k(self) -> int:
        """Number of common factors."""
        return int(self.V.shape[-1])

    @property
    def v(self) -> Any:
        """``(..., d)``: the loadings, if there is one factor."""
        return _only_column(self.V)

    @property
    def arrays(self) -> tuple[Any, ...]:
        """c and V, which may live on a GPU."""
        return self.c, self.V

    def rows(self, batch: tuple[int, ...]) -> CovarianceRows:
        """Return c and V for a batch of problems of that shape."""
        _arguments.on_host(self)
        batch = (1,) if self.c.size == self.d else batch
        c, V = _arguments.as_rows(self.c, batch, 1), _arguments.as_rows(self.V, batch, 2)
        return OneFactorRows(c, V[:, :, 0].copy()) if self.k == 1 else FactorsRows(c, V)

    def take(self, batch: tuple[int, ...], rows: Any) -> "Factors":
        """Return the covariances of some rows of a batch of that shape, if there are several."""
        if self.c.ndim == 1:
            return self
        c, V = _arguments.as_rows(self.c, batch, 1), _arguments.as_rows(self.V, batch, 2)
        return OneFactor(c[rows], V[rows, :, 0]) if self.k == 1 else Factors(c[rows], V[rows])

    def cholesky(self) -> StructuredCholesky:
        """Return the Cholesky factor, computed in O(d k**2).

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
        if self.k == 1:
            diag, w = one_factor_cholesky(self.c, self.v)
            return StructuredCholesky(diag, w[..., None], self.V)
        return StructuredCholesky(*cholesky(self.c, self.V), self.V)

    def dense(self) -> np.ndarray:
        """Return the covariance as a matrix, ``(..., d, d)``."""
        _arguments.on_host(self)
        product = self.V @ np.swapaxes(self.V, -1, -2)
        index = np.arange(self.d)
        product[..., index, index] += self.c
        return np.asarray(product)

    def __repr__(self) -> str:
        shape = "x".join(map(str, self.c.shape))
        form = "v v^T" if self.k == 1 else f"V V^T, {self.k} factors"
        return f"{type(self).__name__} of shape {shape}: diag(c) + {form}"


class OneFactor(Factors):
    """The covariance diag(c) + v v^T: ``Factors`` with one column, whose loadings are vectors.

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
        self.c, self._v = _arguments.one_factor(c, v)

    @property
    def v(self) -> Any:
        """``(..., d)``: the loadings."""
        return self._v

    @property
    def V(self) -> Any:
        """``(..., d, 1)``: the loadings."""
        return self._v[..., None]

    @property
    def k(self) -> int:
        """Number of common factors."""
        return 1

    @property
    def arrays(self) -> tuple[Any, ...]:
        """c and v, which may live on a GPU."""
        return self.c, self._v

    def rows(self, batch: tuple[int, ...]) -> OneFactorRows:
        """Return c and v for a batch of problems of that shape."""
        _arguments.on_host(self)
        if self.c.ndim == 1:
            return OneFactorRows(self.c[None], self.v[None])
        shared = self.c.size == self.d
        c, v = (_arguments.as_rows(a, (1,) if shared else batch, 1) for a in self.arrays)
        return OneFactorRows(c, v)

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
