"""The Cholesky factor of diag(c) + v v^T in O(d), and the way back from a dense factor in O(d**2).

See ``mvnorth.covariance`` for the formulas.
"""

from typing import NamedTuple

import numpy as np


class OneFactorForm(NamedTuple):
    """Rows diag(c) + v v^T: c and v (1 or B, d), and the error (1 or B,) of both relative to c.

    The error is infinite for rows that do not have this form.
    """

    c: np.ndarray
    v: np.ndarray
    error: np.ndarray


def running_sums(c: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """``(s_j, s_(j-1))``, each (..., d)."""
    s = 1.0 + np.cumsum(v * v / c, axis=-1)
    return s, np.concatenate([np.ones_like(s[..., :1]), s[..., :-1]], axis=-1)


def cholesky(c: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """``(diag, w)``, each (..., d): L_jj = diag_j and L_ij = v_i w_j for i > j."""
    s, before = running_sums(c, v)
    return np.sqrt(c) * np.sqrt(s / before), v / (np.sqrt(c) * np.sqrt(s) * np.sqrt(before))


def dense_cholesky(diag: np.ndarray, w: np.ndarray, v: np.ndarray) -> np.ndarray:
    """L as a matrix, (..., d, d)."""
    L = np.tril(v[..., :, None] * w[..., None, :], -1)
    index = np.arange(diag.shape[-1])
    L[..., index, index] = diag
    return L


def recognise(L: np.ndarray) -> OneFactorForm:
    """Find c and v with L L^T = diag(c) + v v^T for factors (B, d, d), in O(d**2).

    Below the diagonal L_ij = v_i w_j: the first column gives v up to a number alpha, the others
    must be multiples of it, and what each entry of the diagonal says of alpha must agree.
    ``error`` (B,) is how far the covariance is off, relative to c; infinite where it has no such
    form, where some c is close to zero, or some but not all of v are zero.
    """
    size, d, columns = L.shape
    if columns != d:
        return OneFactorForm(np.empty((size, d)), np.empty((size, d)), np.full(size, np.inf))
    deviation = np.sqrt(np.einsum("bij,bij->bi", L, L))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        c, v, error = (_two_coordinates if d == 2 else _many_coordinates)(L, deviation)
    # Row by row, for a batch may be cut anywhere.
    independent = ~np.tril(L, -1).any(axis=(1, 2)) & (deviation > 0.0).all(axis=1)
    c[independent], v[independent], error[independent] = deviation[independent] ** 2, 0.0, 0.0
    error[np.triu(L, 1).any(axis=(1, 2))] = np.inf
    return OneFactorForm(c, v, error)


def _many_coordinates(
    L: np.ndarray, deviation: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """``recognise`` for dependent coordinates, three or more; nothing is found in one."""
    size, d = deviation.shape
    if d == 1:
        return np.empty((size, 1)), np.empty((size, 1)), np.full(size, np.inf)
    diag = np.diagonal(L, axis1=1, axis2=2)
    rows = np.tril(L, -1) / deviation[:, :, None]
    first = rows[:, :, 0].copy()  # proportional to v from the second coordinate on
    weight = np.cumsum((first * first)[:, ::-1], axis=1)[:, ::-1]
    # omega_j: column j over the first column, by least squares below the diagonal.
    omega = np.einsum("bij,bi->bj", rows, first)[:, :-1] / weight[:, 1:]
    rows[:, :, :-1] -= np.tril(first[:, :, None] * omega[:, None, :], -1)
    misfit = np.max(np.abs(rows), axis=(1, 2))
    before = np.cumsum(omega * omega, axis=1)  # sum of omega_l**2 over l <= j
    standard = diag / deviation
    # Sigma_ij = v_i v_j for i > j > 0 says alpha**2 = before_(j-1) + omega_j L_jj / first_j.
    inner = slice(1, d - 1)
    square = before[:, : d - 2] + omega[:, inner] * standard[:, inner] / first[:, inner]
    share = first[:, inner] ** 2
    alpha2 = np.sum(square * share, axis=1) / np.sum(share, axis=1)
    spread = np.abs(square - alpha2[:, None]) * np.abs(first[:, inner])
    misfit = np.maximum(misfit, np.max(spread, axis=1) * np.max(np.abs(first), axis=1))
    alpha = np.sqrt(alpha2)
    v = alpha[:, None] * first
    v[:, 0] = standard[:, 0] / alpha
    c = _own_variances(standard, v)
    error = misfit + 4.0 * np.finfo(float).eps
    error = error * np.sum(np.maximum(1.0, 1.0 / c), axis=1)
    good = (misfit < 1e-12 * d) & (c > 1e-10).all(axis=1) & (first[:, 1:] != 0.0).all(axis=1)
    return c * deviation**2, v * deviation, np.where(good, error, np.inf)


def _own_variances(diag: np.ndarray, v: np.ndarray) -> np.ndarray:
    """c from the diagonal of the factor: L_jj**2 = c_j + v_j**2 / s_(j-1)."""
    c = np.empty_like(v)
    s = np.ones(len(v))
    for j in range(v.shape[1]):
        square = diag[:, j] ** 2
        c[:, j] = square - v[:, j] ** 2 / s
        s = s * square / c[:, j]
    return c


def _two_coordinates(
    L: np.ndarray, deviation: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Every covariance of two is of this form; of all ways the one with equal shares."""
    rho = L[:, 1, 0] / deviation[:, 1]
    rest = (L[:, 1, 1] / deviation[:, 1]) ** 2 / (1.0 + np.abs(rho))  # 1 - |rho|
    c = rest[:, None] * deviation**2
    v = np.sqrt(np.abs(rho))[:, None] * deviation
    v[:, 1] *= np.sign(rho)
    error = 4.0 * np.finfo(float).eps / rest
    return c, v, np.where(rest > 1e-10, error, np.inf)
