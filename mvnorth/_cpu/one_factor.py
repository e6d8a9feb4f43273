"""Orthant probabilities of diag(c) + v v^T to rounding accuracy, with derivatives.

With posterior weights proportional to the integrand f(z) = phi(z) prod_i Phi(x_i(z)), and
h_i = phi/Phi at x_i,

    d log P/dm_i = E[h_i] / sqrt(c_i)
    d log P/dv_i = E[h_i z] / sqrt(c_i)
    d log P/dc_i = -E[h_i x_i] / (2 c_i)
    d2 log P/dm_i dm_j = Cov(h_i, h_j) / sqrt(c_i c_j) - [i = j] E[h_i (x_i + h_i)] / c_i

all from the nodes of the value.  Rows are independent of each other.
"""

import numpy as np
from numba import njit

from mvnorth._cpu.factor_nodes import (
    BETA,
    FIRST_ORDER,
    SCALE,
    SECOND_ORDER,
    STEEP_TOTAL,
    TOLERANCE,
    VECTOR,
    M,
    V,
    allocate,
)
from mvnorth._cpu.factor_trapezoid import integrate

_MARGIN = 10.0  # of single derivatives over the error of their sum


@njit(cache=True, nogil=True, error_model="numpy")
def _load(row, m, scale, v, b):
    shared = 0 if scale.shape[0] == 1 else b
    for i in range(row.shape[1]):
        row[M, i] = m[b, i]
        row[SCALE, i] = scale[shared, i]
        row[V, i] = v[shared, i]
        row[BETA, i] = v[shared, i] * scale[shared, i]


@njit(cache=True, nogil=True, error_model="numpy")
def one_factor(
    m, scale, v, single, largest, log_prob, rel_error, used, grad_m, grad_c, grad_v, error,
    begin, end,
):  # fmt: skip
    """Log probabilities, and derivatives of them, of rows [begin, end).

    Parameters
    ----------
    m : (B, d) means, in double or single precision; +inf allowed
    scale : (1 or B, d) 1/sqrt(c)
    v : (1 or B, d), as many as scale
    single : 1 for an accuracy of 1e-7 rather than 1e-14
    largest : to which derivatives are cut off
    log_prob, rel_error, used : (B,) results; rel_error is that of the probability
    grad_m, grad_c, grad_v : (B, d) derivatives of log_prob, or (0, 0) where not wanted
    error : (B, 3) bounds on the errors of any entry of each of these
    """
    d = m.shape[1]
    wanted = grad_m.size + grad_c.size + grad_v.size > 0
    work = allocate(d, FIRST_ORDER if wanted else 0)
    row, moments = work.row, work.moments
    for b in range(begin, end):
        _load(row, m, scale, v, b)
        log_prob[b], rel_error[b], slope_error, used[b], z, width, whole = integrate(work, single)
        # What may hide at a wall, in E[sum_i |beta_i| h_i].
        hidden = (slope_error + TOLERANCE[single]) * work.sums[STEEP_TOTAL] / whole
        hidden += TOLERANCE[single] / width
        hidden_m = hidden_c = 0.0
        largest_m = largest_c = largest_v = 0.0  # entries, or what they are differences of
        for i in range(moments.shape[1]):
            h = row[SCALE, i] * (moments[0, i] / whole)
            largest_m = max(largest_m, h)
            if abs(row[BETA, i]) * width > 1.0:
                hidden_m = max(hidden_m, 3.0 * hidden / abs(row[V, i]))
                hidden_c = max(hidden_c, 10.0 * hidden / abs(row[V, i]) * row[SCALE, i])
            if grad_m.size:
                grad_m[b, i] = min(h, largest)
            if grad_v.size:
                tilted = row[SCALE, i] * (moments[1, i] / whole)
                largest_v = max(largest_v, (abs(z) + 4.0 * width) * h + abs(tilted))
                value = z * h + tilted
                grad_v[b, i] = min(max(value, -largest), largest)
            if grad_c.size:
                half = 0.5 * row[SCALE, i] * row[SCALE, i]
                largest_c = max(largest_c, half * (moments[3, i] / whole))
                value = -half * (moments[2, i] / whole)
                grad_c[b, i] = min(max(value, -largest), largest)
        if wanted:
            bound = min(_MARGIN * slope_error, largest)
            error[b, 0] = bound * largest_m + hidden_m
            error[b, 1] = bound * largest_c + hidden_c
            error[b, 2] = bound * largest_v + hidden_m * (abs(z) + 10.0 * width)


@njit(cache=True, nogil=True, error_model="numpy")
def one_factor_hessian(m, scale, v, vector, log_prob, rel_error, used, product, begin, end):
    """Products of the Hessian of log P in m with vectors, of rows [begin, end).

    Parameters
    ----------
    m, scale, v, log_prob, rel_error, used : as in ``one_factor``
    vector : (B, d)
    product : (B, d) results
    """
    d = m.shape[1]
    work = allocate(d, SECOND_ORDER)
    row, moments = work.row, work.moments
    for b in range(begin, end):
        _load(row, m, scale, v, b)
        for i in range(d):
            row[VECTOR, i] = vector[b, i] * row[SCALE, i]
        log_prob[b], rel_error[b], _, used[b], _, _, whole = integrate(work, np.int64(0))
        mean = 0.0  # of the vector's product with h - reference
        for i in range(d):
            mean += moments[5, i] / whole * row[VECTOR, i]
        for i in range(d):
            covariance = moments[6, i] / whole - moments[5, i] / whole * mean
            product[b, i] = row[SCALE, i] * (covariance - moments[7, i] / whole * row[VECTOR, i])
