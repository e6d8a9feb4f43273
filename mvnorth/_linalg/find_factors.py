"""Find c and V of a dense covariance diag(c) + V V^T with two or three common factors, if it has.

Off the diagonal the covariance is that of rank k.  For disjoint sets R and S of k coordinates and i
in neither of them, (V V^T)_ii = Sigma_iS Sigma_RS^-1 Sigma_Ri, which gives c, and V from the rest.
It is accepted only if it gives all of the covariance to rounding, and there are so many coordinates
that this is no accident: d (d - 1) / 2 covariances agree with d k - k (k - 1) / 2 parameters.
"""

import numpy as np

from mvnorth._linalg.factors import FactorsForm

LEAST = 10  # coordinates
_MOST = 3  # factors
_RANK = 1e-9  # singular value, relative to the largest, that is no rounding
_SMALLEST = 1e-10  # c relative to the variance
_ROUNDS = 4
_EPS = float(np.finfo(np.float64).eps)


def recognise(factor: np.ndarray) -> FactorsForm | None:
    """Return c and V for covariances A A^T with A (B, d, d); None if no row has such a form."""
    size, d, columns = factor.shape
    if d < LEAST or columns != d:
        return None
    rank = _possible_ranks(factor)
    if not rank.any():
        return None
    k = int(rank.max())
    c, V, error = np.ones((size, d)), np.zeros((size, d, k)), np.full(size, np.inf)
    for b in np.flatnonzero(rank):
        deviation = np.sqrt(np.einsum("ij,ij->i", factor[b], factor[b]))
        if not (deviation > 0.0).all():
            continue
        rows = factor[b] / deviation[:, None]
        with np.errstate(all="ignore"):
            found = _find(rows @ rows.T, int(rank[b]))
        if found is not None:
            own, loadings, error[b] = found
            c[b], V[b, :, : rank[b]] = own * deviation**2, loadings * deviation[:, None]
    return FactorsForm(c, V, error) if np.isfinite(error).any() else None


def _possible_ranks(factor: np.ndarray) -> np.ndarray:
    """Return the rank of the covariances between two sets of four coordinates; 0 if 1 or 4."""
    first, second = factor[:, 0:8:2], factor[:, 1:8:2]
    block = first @ np.swapaxes(second, 1, 2)
    scale = (
        np.sqrt(np.sum(first**2, axis=2))[:, :, None] * np.sqrt(np.sum(second**2, axis=2))[:, None]
    )
    block = np.divide(block, scale, where=scale > 0.0, out=np.zeros_like(block))
    values = np.linalg.svd(block, compute_uv=False)
    rank = np.count_nonzero(values > _RANK * np.maximum(values[:, :1], 1e-3), axis=1)
    return np.where((rank == 2) | (rank == _MOST), rank, 0)


def _find(corr: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray, float] | None:
    """Return c, V and the error relative to c of one matrix with a unit diagonal."""
    d = len(corr)
    common = np.zeros(d)
    weight = np.zeros(d)
    # Three pairs of sets, so that every coordinate is in neither set of one at least; where several
    # give a value the best conditioned counts.
    for turn in range(3):
        chosen = (np.arange(2 * k) + turn * 2 * k) % d
        R, S = chosen[::2], chosen[1::2]
        block = corr[np.ix_(R, S)]
        smallest = np.linalg.svd(block, compute_uv=False)[-1]
        if not smallest > 1e-6:
            continue
        value = np.einsum("ia,ai->i", corr[:, S], np.linalg.solve(block, corr[R]))
        better = (smallest > weight) & ~np.isin(np.arange(d), chosen)
        common[better], weight[better] = value[better], smallest
    if not weight.all():
        return None
    rest = corr.copy()
    index = np.arange(d)
    V = np.empty((d, k))
    for _ in range(_ROUNDS):  # the diagonal from the loadings again: errors of the first shrink
        rest[index, index] = common
        V = _root(rest, k)
        common = np.sum(V * V, axis=1)
    c = 1.0 - common
    rest = corr - V @ V.T
    rest[index, index] = 0.0
    misfit = float(np.max(np.abs(rest)))
    if not (misfit < 1e-12 * d and c.min() > _SMALLEST):
        return None
    return c, V, (misfit + 4.0 * _EPS) * float(np.sum(np.maximum(1.0, 1.0 / c)))


def _root(matrix: np.ndarray, k: int) -> np.ndarray:
    """Return V (d, k) with V V^T close to a matrix of rank k, by subspace iteration: O(d**2 k)."""
    basis = matrix[:, np.argsort(-np.diagonal(matrix))[: 2 * k]]
    for _ in range(2):
        basis = matrix @ np.linalg.qr(basis)[0]
    Q = np.linalg.qr(basis)[0]
    values, vectors = np.linalg.eigh(Q.T @ matrix @ Q)
    return np.asarray((Q @ vectors[:, -k:]) * np.sqrt(np.maximum(values[-k:], 0.0)))
