"""Arguments of polytopes, checked against each other; what A, b, mean and cov must be."""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from mvnorth import _checks
from mvnorth._arguments import numbers, real_array
from mvnorth._covariance.rows import CovarianceRows
from mvnorth.covariance import Covariance

_LARGEST = 1e150  # entry of A, so that products do not overflow


@dataclass(frozen=True, eq=False)
class Polytopes:
    """Pr(A X <= b) for X ~ N(mean, cov): a batch of B rows, some of which share arrays.

    Attributes
    ----------
    A : (N, r, d)
    b : (M, r)
    mean : (K, d)
    cov : the covariance as the user gave it
    rows : covariances of 1 or K rows
    of_A, of_b, of_mean : (B,) which A, b and mean each row has
    shape : of the batch
    inner : of the batch of mean and cov, K in all
    """

    A: np.ndarray
    b: np.ndarray
    mean: np.ndarray
    cov: ArrayLike | Covariance
    rows: CovarianceRows
    of_A: np.ndarray
    of_b: np.ndarray
    of_mean: np.ndarray
    shape: tuple[int, ...]
    inner: tuple[int, ...]

    @property
    def size(self) -> int:
        return self.of_A.size

    def with_degrees(self, df: ArrayLike | None) -> tuple["Polytopes", np.ndarray | None]:
        """Return the batch of these and ``df`` together, and df for each row, (B,)."""
        if df is None:
            return self, None
        degrees = numbers("df", df)
        names = ("A, b, mean and cov", "df")
        shape = _checks.batch_shape(names, self.shape, degrees.shape)
        number = np.broadcast_to(np.arange(self.size).reshape(self.shape), shape).reshape(-1)
        places = {name: getattr(self, name)[number] for name in ("of_A", "of_b", "of_mean")}
        whole = replace(self, **places, shape=shape)
        return whole, np.broadcast_to(degrees, shape).reshape(-1)

    def take_covariance(self, rows: np.ndarray) -> Any:
        """Return the covariances of some rows of the batch, as a user would give them."""
        if self.rows.shape[0] == 1:
            return self.cov
        of = self.of_mean[rows]
        if isinstance(self.cov, Covariance):
            return self.cov.take(self.inner, of)
        d = self.mean.shape[1]
        matrices = np.asarray(self.cov, dtype=np.float64)
        return np.broadcast_to(matrices, (*self.inner, d, d)).reshape(-1, d, d)[of]

    def factors(self, rows: np.ndarray) -> tuple[np.ndarray, float]:
        """Return L (1 or n, d, w) with cov = L L^T for some rows of the batch.

        Also return the relative deviation below which rounding decides.
        """
        dense = self.rows.triangular()
        factor = dense.factor * dense.scale[:, :, None]
        deviation = np.sqrt(np.sum(factor * factor, axis=2, keepdims=True))
        used = (np.abs(factor) > dense.singular * deviation).any(axis=(0, 1))
        if not used.all() and used.any():  # eigenvectors of a singular covariance
            factor = factor[:, :, used]
        if len(factor) > 1:
            factor = factor[self.of_mean[rows]]
        return factor, dense.singular


def read_polytopes(
    A: ArrayLike, b: ArrayLike, mean: ArrayLike, cov: ArrayLike | Covariance
) -> Polytopes:
    """Check the arguments of a polytope."""
    normals = numbers("A", A)
    if normals.ndim < 2 or 0 in normals.shape[-2:]:
        raise ValueError(
            f"A must have shape (..., r, d), a row for each inequality, got {normals.shape}"
            + ("; give a single inequality as [[a_1, ..., a_d]]" if normals.ndim == 1 else "")
        )
    real_array("A", normals, infinite=False)
    if normals.size and np.abs(normals).max() > _LARGEST:
        raise ValueError(f"A must not exceed {_LARGEST:g} in size")
    r, d = normals.shape[-2:]
    limits = real_array("b", b, infinite=True)
    if limits.ndim == 0:
        limits = np.full(r, float(limits))
    if limits.shape[-1] != r:
        raise ValueError(
            f"b must have shape (..., {r}) to go with the {r} rows of A {normals.shape}, "
            f"got {limits.shape}"
        )
    of = cov.shape if isinstance(cov, Covariance) else np.shape(cov)
    if len(of) == 0 or of[-1] != d:
        raise ValueError(
            f"cov must be for {d} coordinates to go with the columns of A {normals.shape}, got {of}"
        )
    problems, inner = _checks.box_problems(-np.inf, np.inf, mean, cov)
    shapes = (normals.shape[:-2], limits.shape[:-1], inner)
    batch = _checks.batch_shape(("A", "b", "mean and cov"), *shapes)

    def places(shape: tuple[int, ...]) -> np.ndarray:
        count = np.arange(math.prod(shape)).reshape(shape)
        return np.broadcast_to(count, batch).reshape(-1)

    of_A, of_b, of_mean = map(places, shapes)
    centre = np.broadcast_to(np.asarray(mean, dtype=np.float64), (*inner, d)).reshape(-1, d)
    return Polytopes(
        normals.reshape(-1, r, d),
        limits.reshape(-1, r),
        centre,
        cov,
        problems.covariance,
        of_A,
        of_b,
        of_mean,
        batch,
        inner,
    )
