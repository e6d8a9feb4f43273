"""Edges of polygons, and the derivatives of their probabilities.

Limits on X = A y for y standard normal in the plane are half planes c_k . y <= h_k, |c_k| = 1.
Edge k lies on the line at distance h_k, from t_1 to t_2 along it.  The derivative of P in h_k is
phi(h_k) (Phi(t_2) - Phi(t_1)); that in two means is, for neighbouring edges with an angle theta
between their normals, the density of the corner over sin(theta).
"""

import math

import numpy as np

from mvnorth._compile import inner, kernel
from mvnorth._linalg.reorder import log_interval

PARALLEL = 4e-16  # sine of the angle below which edges count as parallel
_NEAR = 1e-12  # the same, and distances, for edges that may be the same: P has a kink
_EPS = float(np.finfo(np.float64).eps)
_LOG_SQRT_2_PI = 0.5 * math.log(2.0 * math.pi)


@inner()
def log_between(low, high):
    """Return log(Phi(high) - Phi(low)); either may be infinite."""
    if high == np.inf:
        return 0.0 if low == -np.inf else log_interval(-np.inf, -low)
    return log_interval(low, high)


@inner()
def half_planes(lower, upper, factor, normal, h, source):
    """Fill normals (m, 2), distances and sources (m,): 2 i for the lower limit of row i, 2 i + 1.

    Return m.
    """
    m = 0
    for i in range(factor.shape[0]):
        x = factor[i, 0]
        y = factor[i, 1] if factor.shape[1] > 1 else 0.0
        norm = math.hypot(x, y)
        for side in range(2):
            limit, sign = (upper[i], 1.0) if side else (lower[i], -1.0)
            if norm == 0.0 or not -np.inf < limit < np.inf:
                continue
            normal[m, 0], normal[m, 1] = sign * x / norm, sign * y / norm
            h[m], source[m] = sign * limit / norm, 2 * i + side
            m += 1
    return m


@inner()
def cut_edges(normal, h, m, slack, ends, neighbours):
    """Fill the ends (m, 2) of all edges along their lines, and the edges that cut them there.

    Return whether any edge has a length; ``ends`` are equal where it has none.
    """
    some = False
    for k in range(m):
        c0, c1 = normal[k, 0], normal[k, 1]
        first, last = -np.inf, np.inf
        neighbours[k, 0] = neighbours[k, 1] = -1
        h_k = h[k] + slack * (1.0 + abs(h[k]))
        for j in range(m):
            if j == k:
                continue
            h_j = h[j] + slack * (1.0 + abs(h[j]))
            cosine = normal[j, 0] * c0 + normal[j, 1] * c1
            sine = normal[j, 1] * c0 - normal[j, 0] * c1  # of the normal along the edge
            gap = h_j - h_k * cosine
            if abs(sine) <= PARALLEL:
                if gap < 0.0 or (gap == 0.0 and (cosine < 0.0 or j < k)):
                    first, last = np.inf, -np.inf
            elif sine > 0.0:
                if gap / sine < last:
                    last, neighbours[k, 1] = gap / sine, j
            elif gap / sine > first:
                first, neighbours[k, 0] = gap / sine, j
        if first < last:
            some = True
            ends[k, 0], ends[k, 1] = first, last
        else:
            ends[k, 0] = ends[k, 1] = 0.0
    return some


@kernel()
def polygon_derivatives(lower, upper, factor, log_prob, face, face_error, G, G_error, begin, end):
    """Derivatives of log P of problems ``begin`` to ``end``.

    Parameters
    ----------
    lower, upper, factor : as in ``polygons``
    log_prob : (B,)
    face, face_error : (B, d, 2) output, in lower and upper limits
    G, G_error : (B or 0, d, d) output: derivatives in the covariance off the diagonal, a row for
        each edge; not symmetric where three edges meet
    """
    d = lower.shape[1]
    normal, h, source = np.empty((2 * d, 2)), np.empty(2 * d), np.empty(2 * d, dtype=np.int64)
    ends, neighbours = np.empty((2 * d, 2)), np.empty((2 * d, 2), dtype=np.int64)
    for b in range(begin, end):
        A = factor[b if factor.shape[0] > 1 else 0]
        face[b], face_error[b] = 0.0, 0.0
        m = half_planes(lower[b], upper[b], A, normal, h, source)
        cut_edges(normal, h, m, 0.0, ends, neighbours)
        for k in range(m):
            i, side = source[k] // 2, source[k] % 2
            norm = math.hypot(A[i, 0], A[i, 1] if A.shape[1] > 1 else 0.0)
            sign = 1.0 if side else -1.0
            for j in range(m):  # two edges on one line: P has a kink
                cosine = normal[j, 0] * normal[k, 0] + normal[j, 1] * normal[k, 1]
                sine = normal[j, 1] * normal[k, 0] - normal[j, 0] * normal[k, 1]
                same = j != k and cosine > 0.0 and abs(sine) <= _NEAR
                if same and abs(h[j] - h[k]) <= _NEAR * (1.0 + abs(h[k])):
                    face_error[b, i, side] = np.inf
                    if b < len(G_error):
                        G_error[b, i] = np.inf
            if ends[k, 0] == ends[k, 1]:
                continue
            log_density = -0.5 * h[k] * h[k] - _LOG_SQRT_2_PI - log_prob[b]
            log = log_density + log_between(ends[k, 0], ends[k, 1])
            value = math.exp(min(log, 700.0)) / norm
            face[b, i, side] = sign * value
            far = 0.0
            for e in range(2):
                t, j = abs(ends[k, e]), neighbours[k, e]
                if j >= 0:
                    far = max(far, t)
                    # Rounding moves the corner of edges that are almost parallel far along them.
                    sine = abs(normal[j, 1] * normal[k, 0] - normal[j, 0] * normal[k, 1])
                    moved = 8.0 * _EPS * (1.0 + abs(h[k]) + abs(h[j]) + t) / sine
                    near = max(0.0, t - moved)
                    corner = log_density - 0.5 * near * near - _LOG_SQRT_2_PI
                    face_error[b, i, side] += math.exp(min(corner, 700.0)) * moved / norm
            relative = 8.0 * _EPS * (1.0 + abs(log) + h[k] * h[k] + far * far)
            face_error[b, i, side] += value * relative
            for e in range(2 if b < len(G) else 0):
                j = neighbours[k, e]
                if j < 0:
                    continue
                other = source[j] // 2
                sine = abs(normal[j, 1] * normal[k, 0] - normal[j, 0] * normal[k, 1])
                length = math.hypot(A[other, 0], A[other, 1])
                corner = log_density - 0.5 * ends[k, e] ** 2 - _LOG_SQRT_2_PI
                density = math.exp(min(corner, 700.0)) / (sine * norm * length)
                signs = sign * (1.0 if source[j] % 2 else -1.0)
                G[b, i, other] += 0.5 * signs * density
                relative = 8.0 * _EPS * (2.0 + abs(corner) + h[k] * h[k] + far * far) / sine
                G_error[b, i, other] += 0.5 * density * relative
