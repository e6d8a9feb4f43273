"""Orthant probabilities of diag(c) + v v^T to rounding accuracy, with derivatives.

With posterior weights proportional to the integrand f(z) = phi(z) prod_i Phi(x_i(z)), and
h_i = phi/Phi at x_i,

    d log P/dm_i = E[h_i] / sqrt(c_i)
    d log P/dv_i = E[h_i z] / sqrt(c_i)
    d log P/dc_i = -E[h_i x_i] / (2 c_i)
    d2 log P/dm_i dm_j = Cov(h_i, h_j) / sqrt(c_i c_j) - [i = j] E[h_i (x_i + h_i)] / c_i
    d log P/dSigma_ij = E[h_i h_j] / (2 sqrt(c_i c_j)) for i != j, Sigma_ij apart from Sigma_ji

all from the nodes of the value.  Rows are independent of each other.
"""

import math

import numpy as np

from mvnorth._compile import FAST, inner, kernel, scalar
from mvnorth._cpu.factor_nodes import (
    BETA,
    FIRST_ORDER,
    SCALE,
    SECOND_ORDER,
    SQUARE_ERROR,
    SQUARE_TOTAL,
    STEEP_TOTAL,
    TOLERANCE,
    VECTOR,
    M,
    V,
    allocate,
    moments_or_none,
)
from mvnorth._cpu.factor_rule import OMITTED
from mvnorth._cpu.factor_trapezoid import (
    DONE,
    WALL,
    integrate,
    integrate_by_rule,
    integrate_unresolved,
)
from mvnorth._scalar.one_factor import MARGIN, hidden_slope, slope_bounds, slope_entry

_REACH = 20.0  # widths beyond which the integrand does not count
_TINY, _LEAST = 2.0**-1020, 2.0**-500  # an error, a loading


@inner()
def _load(row, m, scale, v, b):
    scale_b = scale[b if b < scale.shape[0] else 0]
    v_b = v[b if b < v.shape[0] else 0]
    for i in range(row.shape[1]):
        row[M, i] = m[b, i]
        row[SCALE, i] = scale_b[i]
        row[V, i] = v_b[i]
        row[BETA, i] = v_b[i] * scale_b[i]


@scalar()
def set_slopes(work, integral, b, single, largest, grad_m, grad_c, grad_v):
    """Derivatives of row b from its moments; bounds on the errors of those in m, c and v."""
    row, moments = work.row, work.moments
    _, _, slope_error, _, z, width, whole = integral
    hidden = hidden_slope(slope_error, work.sums[STEEP_TOTAL], whole, width, TOLERANCE[single])
    hidden_m = hidden_c = 0.0
    largest_m = largest_c = largest_v = 0.0  # entries, or what they are differences of
    for i in range(moments.shape[1]):
        in_m, in_c, in_v, size_c, size_v, hidden_m_i, hidden_c_i = slope_entry(
            row[SCALE, i], row[BETA, i], row[V, i], moments[0, i], moments[1, i], moments[2, i],
            moments[3, i], whole, z, width, hidden,
        )  # fmt: skip
        largest_m = in_m if in_m > largest_m else largest_m
        hidden_m = max(hidden_m, hidden_m_i)
        hidden_c = max(hidden_c, hidden_c_i)
        if grad_m.size:
            grad_m[b, i] = min(in_m, largest)
        if grad_v.size:
            largest_v = max(largest_v, size_v)
            grad_v[b, i] = min(max(in_v, -largest), largest)
        if grad_c.size:
            largest_c = max(largest_c, size_c)
            grad_c[b, i] = min(max(in_c, -largest), largest)
    return slope_bounds(
        slope_error, single, largest, largest_m, largest_c, largest_v, hidden_m, hidden_c, z, width
    )


@kernel()
def one_factor(
    m, scale, v, single, largest, log_prob, rel_error, used, grad_m, grad_c, grad_v, error,
    state, unresolved, begin, end,
):  # fmt: skip
    """Log probabilities, and derivatives of them, of rows [begin, end).

    Parameters
    ----------
    m : (B, d) means, in double or single precision; +inf allowed
    scale : (1 or B, d) 1/sqrt(c)
    v : (1 or B, d)
    single : 1 for an accuracy of 1e-7 rather than 1e-14
    largest : to which derivatives are cut off
    log_prob, rel_error, used : (B,) results; rel_error is that of the probability
    grad_m, grad_c, grad_v : (B, d) derivatives of log_prob, or (0, 0) where not wanted
    error : (B, 3) bounds on the errors of any entry of each of these, or None if none is wanted
    state : (B,) output, DONE or what keeps the trapezoidal rule from resolving a row
    unresolved : None, or True to complete the rows that are not DONE, by what is compiled only then
    """
    work = allocate(m.shape[1], np.int64(0 if error is None else FIRST_ORDER))
    moments = moments_or_none(work, error)
    for b in range(begin, end):
        if unresolved is not None and state[b] == DONE:
            continue
        _load(work.row, m, scale, v, b)
        if unresolved is None:
            state[b], integral = integrate_by_rule(work, moments, single)
            used[b] = integral.used
            if state[b] != DONE:
                continue
        else:
            integral = integrate_unresolved(work, moments, single, used[b], state[b] == WALL)
        log_prob[b], rel_error[b], used[b] = integral.log_prob, integral.error, integral.used
        if error is not None:
            error[b, 0], error[b, 1], error[b, 2] = set_slopes(
                work, integral, b, single, largest, grad_m, grad_c, grad_v
            )


@kernel()
def one_factor_hessian(m, scale, v, vector, log_prob, rel_error, used, product, begin, end):
    """Products of the Hessian of log P in m with vectors, of rows [begin, end).

    Parameters
    ----------
    m, scale, v, log_prob, rel_error, used : as in ``one_factor``
    vector : (B, d)
    product : (B, d) results
    """
    d = m.shape[1]
    work = allocate(d, np.int64(SECOND_ORDER))
    row, moments = work.row, work.moments
    for b in range(begin, end):
        _load(row, m, scale, v, b)
        for i in range(d):
            row[VECTOR, i] = vector[b, i] * row[SCALE, i]
        log_prob[b], rel_error[b], _, used[b], _, _, whole = integrate(work, moments, np.int64(0))
        mean = 0.0  # of the vector's product with h - reference
        for i in range(d):
            mean += moments[5, i] / whole * row[VECTOR, i]
        for i in range(d):
            covariance = moments[6, i] / whole - moments[5, i] / whole * mean
            product[b, i] = row[SCALE, i] * (covariance - moments[7, i] / whole * row[VECTOR, i])


@inner(FAST)
def _set_hessian(work, whole, matrix):
    row, moments = work.row, work.moments
    for i in range(moments.shape[1]):
        for j in range(i + 1):
            covariance = moments[SECOND_ORDER + i, j] / whole
            covariance -= (moments[5, i] / whole) * (moments[5, j] / whole)
            if i == j:
                covariance -= moments[7, i] / whole
            matrix[i, j] = matrix[j, i] = row[SCALE, i] * row[SCALE, j] * covariance


@inner(FAST)
def _set_covariance(work, whole, slope_error, width, single, rounding, inherited, grad, error):
    """The derivatives in Sigma and bounds on their errors, without signs."""
    row, moments, sums = work.row, work.moments, work.sums
    d = moments.shape[1]
    tolerance = TOLERANCE[single]
    size = np.empty(d)  # sqrt(E[h_i**2] / c_i)
    most = np.empty(d)  # of h_i / sqrt(c_i) wherever the integrand counts: h' is in (-1, 0)
    relative = MARGIN * max(slope_error, sums[SQUARE_ERROR])
    hidden = hidden_slope(slope_error, sums[STEEP_TOTAL], whole, width, tolerance)
    # Expectations of these sums, of which all but a share has been seen: single terms may have
    # their weight where nodes are few.
    steep, square = sums[STEEP_TOTAL] / whole, sums[SQUARE_TOTAL] / whole
    unseen_share = relative + MARGIN * OMITTED[single]
    top = largest_c = hidden_c = 0.0
    for i in range(d):
        size[i] = row[SCALE, i] * math.sqrt(moments[SECOND_ORDER + i, i] / whole)
        most[i] = size[i] + _REACH * width * abs(row[BETA, i]) * row[SCALE, i]
        top = max(top, size[i])
        largest_c = max(largest_c, row[SCALE, i] * row[SCALE, i] * (moments[3, i] / whole))
        if abs(row[BETA, i]) * width > 1.0:
            hidden_c = max(hidden_c, 2.0 * MARGIN * hidden / abs(row[V, i]) * row[SCALE, i])
    floor = inherited * top * top + _TINY
    for i in range(d):
        v_i = max(abs(row[V, i]), _LEAST)
        steep_i = abs(row[BETA, i]) * width > 1.0
        for j in range(i):
            v_j = max(abs(row[V, j]), _LEAST)
            steep_j = abs(row[BETA, j]) * width > 1.0
            unseen = min(most[i] * most[j], square / (v_i * v_j))
            unseen = min(unseen, steep / v_i * most[j], steep / v_j * most[i])
            bound = (relative + rounding) * size[i] * size[j] + unseen_share * unseen + floor
            if steep_i and steep_j:
                bound += MARGIN * hidden * min(row[SCALE, i] / v_j, row[SCALE, j] / v_i)
            elif steep_i:
                bound += MARGIN * hidden / v_i * most[j]
            elif steep_j:
                bound += MARGIN * hidden / v_j * most[i]
            value = row[SCALE, i] * row[SCALE, j] * (moments[SECOND_ORDER + i, j] / whole)
            grad[i, j] = grad[j, i] = 0.5 * value
            error[i, j] = error[j, i] = 0.5 * bound
        grad[i, i] = -0.5 * row[SCALE, i] * row[SCALE, i] * (moments[2, i] / whole)
        error[i, i] = 0.5 * ((relative + rounding) * largest_c + hidden_c + floor)


@kernel()
def one_factor_matrix(m, scale, v, single, rounding, inherited, matrix, error, begin, end):
    """Matrices of derivatives of log P, of rows [begin, end): in Sigma, or second ones in m.

    Those in Sigma are sums of positive terms off the diagonal, so that none loses digits.

    Parameters
    ----------
    m : (B, d) means; +inf allowed
    scale, v, single : as in ``one_factor``
    rounding : relative error of results
    inherited : (B,) relative error that the problems bring
    matrix : (B, d, d) results
    error : (B, d, d) bounds on the errors of derivatives in Sigma; or (0, 0, 0) for the Hessian
    """
    d = m.shape[1]
    work = allocate(d, SECOND_ORDER + d)
    for b in range(begin, end):
        _load(work.row, m, scale, v, b)
        for i in range(d):
            work.row[VECTOR, i] = 0.0 if error.size else 1.0
        _, _, slope_error, _, _, width, whole = integrate(work, work.moments, single)
        if error.size:
            _set_covariance(
                work, whole, slope_error, width, single, rounding, inherited[b], matrix[b], error[b]
            )
        else:
            _set_hessian(work, whole, matrix[b])
