"""Minimax exponential tilting (Botev 2017, J. R. Stat. Soc. B 79), by a convex problem of size d.

Genz's variables y_i are drawn from N(mu_i, 1) rather than N(0, 1).  A sample then has the weight
exp(psi(y; mu)),

    psi = sum_i mu_i**2/2 - mu_i y_i + q_i(s_i),   s_i = mu_i + sum_j<i T_ij y_j,
    q_i(s) = log(Phi(upper_i - s) - Phi(lower_i - s)),

and mu is chosen so that the largest weight is as small as can be: the saddle point, whose value
bounds the probability from above.  Botev solves 2d equations for y and mu.  They reduce to d: with
e_i = q_i'(s_i), the mean of a standard normal between the limits less s_i, they say mu = N^T e and
y = mu + e, N = T - I being what T has below its diagonal, so that

    s = (S - I) e(s),   S = T T^T.

This is where a strictly convex function of e has its minimum,

    G = e^T (S - I) e / 2 - sum_i (s_i e_i - q_i(s_i)),

and G there is psi.  Newton's method on it needs one Cholesky factorisation a step, of
I + W^(1/2) (S - I) W^(1/2) with W = 1 - (variance between the limits), which is positive definite
and close to I where limits do not bind.  With one common factor S is diagonal plus rank one and a
step takes O(d).  The reduction is ours.

In terms of x = y - mu the tilted integrand is Genz's again, with other limits and the factor
exp(-e^T N x): that is all the kernels of ``genz`` and ``structured`` know of it.
"""

import math

import numpy as np
from numba import njit

from mvnorth._linalg.cholesky import SUMS, cholesky_in_place, solve_in_place, square
from mvnorth._linalg.product import STRIP
from mvnorth._linalg.reorder import log_interval

STEPS = 60
_HALVINGS = 30
_LOG_SQRT_2_PI = 0.5 * math.log(2.0 * math.pi)


@njit(cache=True, nogil=True, error_model="numpy")
def _interval_moments(low: float, high: float) -> tuple[float, float, float]:
    """Log of the probability, mean and variance of a standard normal between two limits.

    The mean lies between the limits and the variance in (0, 1], whatever the rounding.
    """
    log_prob = log_interval(low, high)
    at_low = at_high = mean = 0.0
    spread = 1.0
    if high < np.inf:
        at_high = math.exp(min(-0.5 * high * high - _LOG_SQRT_2_PI - log_prob, 700.0))
        mean -= at_high
        spread -= high * at_high
    if low > -np.inf:
        at_low = math.exp(min(-0.5 * low * low - _LOG_SQRT_2_PI - log_prob, 700.0))
        mean += at_low
        spread += low * at_low
    mean = min(max(mean, low), high)
    width = high - low
    variance = min(max(spread - mean * mean, 1e-16), 1.0, 0.25 * width * width)
    return log_prob, mean, variance


@njit(cache=True, nogil=True, fastmath=SUMS, error_model="numpy")
def _excess(S, own, load, e, out, d):
    """out = (S - I) e, S from its lower triangle, or diag(own) + load load^T if S is empty."""
    if S.shape[0] == 0:
        common = 0.0
        for i in range(d):
            common += load[i] * e[i]
        for i in range(d):
            out[i] = (own[i] - 1.0) * e[i] + load[i] * common
        return
    for i in range(d):
        total = (S[i, i] - 1.0) * e[i]
        for j in range(i):
            total += S[i, j] * e[j]
            out[j] += S[i, j] * e[i]
        out[i] = total


@njit(cache=True, nogil=True, fastmath=SUMS, error_model="numpy")
def assemble(S, W, matrix, d, begin, end):
    """Rows ``begin`` to ``end`` of I + W^(1/2) (S - I) W^(1/2), below the diagonal; I beyond d."""
    root = np.sqrt(W[:d])
    for i in range(begin, end):
        for j in range(i):
            matrix[i, j] = root[i] * S[i, j] * root[j] if i < d else 0.0
        matrix[i, i] = 1.0 + W[i] * (S[i, i] - 1.0) if i < d else 1.0


@njit(cache=True, nogil=True, fastmath=SUMS, error_model="numpy")
def _direction(own, load, W, F, matrix, step, d):
    """step = (I + (S - I) W)^-1 F and the decrement F^T W step.

    ``matrix`` has the Cholesky factor of what ``assemble`` says; empty with one common factor.
    """
    if matrix.shape[0] == 0:  # Sherman and Morrison
        top, bottom = 0.0, 1.0
        for i in range(d):
            k = 1.0 / (1.0 + W[i] * (own[i] - 1.0))
            step[i] = k * F[i]
            top += load[i] * W[i] * step[i]
            bottom += load[i] * W[i] * k * load[i]
        for i in range(d):
            step[i] -= load[i] * (top / bottom) / (1.0 + W[i] * (own[i] - 1.0))
    else:
        for i in range(d):
            step[i] = math.sqrt(W[i]) * F[i]
        solve_in_place(matrix, step, d)
        for i in range(d):
            step[i] /= math.sqrt(W[i])
    decrement = 0.0
    for i in range(d):
        decrement += F[i] * W[i] * step[i]
    return decrement


@njit(cache=True, nogil=True, error_model="numpy")
def evaluate(S, own, load, lower, upper, s, e, W, F, d):
    """e, W and F = (S - I) e - s at s; returns G and the size of the terms in it."""
    G = size = 0.0
    for i in range(d):
        log_prob, mean, variance = _interval_moments(lower[i] - s[i], upper[i] - s[i])
        e[i] = mean
        W[i] = max(1.0 - variance, 1e-16)
        G += log_prob
        size += abs(log_prob)
    _excess(S, own, load, e, F, d)
    for i in range(d):
        G += e[i] * (0.5 * F[i] - s[i])
        size += abs(e[i] * F[i]) + abs(e[i] * s[i])
        F[i] -= s[i]
    return G, size


@njit(cache=True, nogil=True, error_model="numpy")
def advance(S, own, load, lower, upper, s, e, W, F, trial, step, matrix, d, G, size):
    """One step of Newton's method, ``matrix`` factored; returns G, the size of the terms in it
    and how far above its minimum it may be, infinite before the last step.
    """
    decrement = _direction(own, load, W, F, matrix, step, d)
    rounding = 1e-15 * size
    length = 1.0
    G_trial = G
    for _ in range(_HALVINGS):
        for i in range(d):
            trial[i] = s[i] + length * step[i]
        G_trial, size = evaluate(S, own, load, lower, upper, trial, e, W, F, d)
        if G_trial <= G - 1e-4 * length * decrement + rounding:
            break
        length *= 0.5
    for i in range(d):
        s[i] = trial[i]
    settled = not decrement > 4.0 * rounding + 1e-20
    return G_trial, size, decrement + 8.0 * rounding if settled else np.inf


@njit(cache=True, nogil=True, error_model="numpy")
def _saddle_point(S, own, load, lower, upper, s, e, W, F, trial, step, matrix, d):
    """Newton's method from s = 0; returns G and how far above its minimum it may be.

    The second is infinite where the method did not settle; e is of use all the same.
    """
    for i in range(d):
        s[i] = 0.0
    G, size = evaluate(S, own, load, lower, upper, s, e, W, F, d)
    gap = np.inf
    for _ in range(STEPS):
        if matrix.shape[0] > 0:
            assemble(S, W, matrix, d, 0, matrix.shape[0])
            cholesky_in_place(matrix, d)
        G, size, gap = advance(
            S, own, load, lower, upper, s, e, W, F, trial, step, matrix, d, G, size
        )
        if gap < np.inf:
            break
    return G, gap


@njit(cache=True, nogil=True, error_model="numpy")
def _half_square(mu, d):
    total = 0.0
    for i in range(d):
        total += mu[i] * mu[i]
    return 0.5 * total


@njit(cache=True, nogil=True, fastmath=SUMS, error_model="numpy")
def shift_dense(T, lower, upper, rank, attached, slope, mu):
    """Limits for x rather than y in place; returns what logarithms of weights lack."""
    d = lower.size
    for i in range(d):
        mu[i] = 0.0
    for i in range(rank):
        for j in range(i):
            mu[j] += T[i, j] * slope[i]
    for i in range(d):
        shift = mu[attached[i]]
        for j in range(attached[i]):
            shift += T[i, j] * mu[j]
        lower[i] -= shift
        upper[i] -= shift
    for i in range(rank, d):
        slope[i] = 0.0
    return -_half_square(mu, rank)


@njit(cache=True, nogil=True, error_model="numpy")
def tilt_dense(T, lower, upper, rank, attached, slope, log_scale, log_bound, begin, end):
    """Tilt problems ``begin`` to ``end`` of ``genz_sums``.

    Rows tied to others do not take part: without them the bound is that of a larger set.

    Parameters
    ----------
    T, rank, attached : as for ``genz_sums``
    lower, upper : (B, d) limits, overwritten with those for x
    slope : (B, d) output
    log_scale : (B,) output, what logarithms of weights are to be increased by
    log_bound : (B,) output, upper bound on the logarithm of the probability
    """
    d = lower.shape[1]
    strips = -(-d // STRIP)
    S, matrix = (
        np.empty((strips * STRIP, strips * STRIP)),
        np.empty((strips * STRIP, strips * STRIP)),
    )
    nothing = np.empty(0)
    s, W, F, trial, step, mu = (
        np.empty(d),
        np.empty(d),
        np.empty(d),
        np.empty(d),
        np.empty(d),
        np.empty(d),
    )
    for b in range(begin, end):
        r, low, high, e = rank[b], lower[b], upper[b], slope[b]
        square(T[b], S, 0, strips)
        G, gap = _saddle_point(S, nothing, nothing, low, high, s, e, W, F, trial, step, matrix, r)
        log_bound[b] = min(G + gap, 0.0)
        log_scale[b] = shift_dense(T[b], low, high, r, attached[b], e, mu)


@njit(cache=True, nogil=True, error_model="numpy")
def tilt_structured(lower, upper, t, w, own, rank, slope, log_scale, log_bound, begin, end):
    """Tilt problems ``begin`` to ``end`` of ``structured_sums``, in O(d) a step.

    Parameters
    ----------
    t, w, rank : as for ``structured_sums``
    own : (B, d) c_i / L_ii**2
    lower, upper, slope, log_scale, log_bound : as for ``tilt_dense``
    """
    d = lower.shape[1]
    none = np.empty((0, 0))
    s, W, F, trial, step, mu = (
        np.empty(d),
        np.empty(d),
        np.empty(d),
        np.empty(d),
        np.empty(d),
        np.empty(d),
    )
    for b in range(begin, end):
        r, low, high, e = rank[b], lower[b], upper[b], slope[b]
        G, gap = _saddle_point(none, own[b], t[b], low, high, s, e, W, F, trial, step, none, r)
        log_bound[b] = min(G + gap, 0.0)
        later = 0.0
        for j in range(r - 1, -1, -1):
            mu[j] = w[b, j] * later
            later += t[b, j] * e[j]
        log_scale[b] = -_half_square(mu, r)
        before = 0.0
        for i in range(r):
            shift = mu[i] + t[b, i] * before
            before += w[b, i] * mu[i]
            low[i] -= shift
            high[i] -= shift
        for i in range(r, d):
            e[i] = 0.0
