"""Tilting to second order: draw each variable with the limits of the later ones in view.

The best way to draw variable i would be from its density times the probability V_i that later
limits are met.  Exponential tilting takes log V_i for linear.  Here every limit is replaced by a
Gaussian factor exp(nu_i t_i - tau_i t_i**2 / 2) in its coordinate t = T y, for which V_i is known:
it is quadratic in the variables so far.  Given these, variable i is normal with a mean linear in
the earlier ones and precision lambda_i >= 1, cut to its own limits, which is Genz's recursion with
another factor T'.  The weights that remain are

    prod_i  (Phi between the limits) / (integral of the Gaussian factor),

functions of the conditional mean m_i of t_i alone, and flat to second order about the path of
means if nu and tau match slope and curvature.  For given tau the path solves the equation of
exponential tilting with limits scaled by lambda**(1/2) and S by it from both sides: the same
Newton iteration.  tau = 0 is exponential tilting.

A factor that is too narrow makes rare samples heavy: far inside its limits log Phi is flat and the
quadratic goes on falling.  So the curvature is that of the chord from the path to ``REACH``
standard deviations of m_i away, on the side where it is smaller: in between weights fall below
their value on the path, and only beyond they rise above it.  (Measured: docs/tails.md.)

Weights are exact whatever nu, tau and the path are; only their spread depends on these.  The
method is ours; sites with matched moments are those of expectation propagation (Cunningham,
Hennig & Lacoste-Julien 2011), which were tried and have heavier weights.
"""

import math

import numpy as np
from numba import njit

from mvnorth._cpu.tilting import STEPS, saddle_point, square
from mvnorth._linalg.cholesky import SUMS
from mvnorth._linalg.reorder import log_interval

_LOG_RARE = math.log(3e-5)
_EPS = 2.0**-52
_LOG_4_PI = math.log(4.0 * math.pi)
_SETTLED = 0.05  # relative change of lambda
_PATH_STEPS = 3  # of Newton's method for each tau


@njit(cache=True, nogil=True, error_model="numpy")
def _chord(low: float, high: float, s: float, e: float, W: float, reach: float) -> float:
    """Curvature in [0, W] of a parabola below log(Phi(high - s) - Phi(low - s)) within reach.

    It touches the function at s and meets it at s + reach or s - reach, whichever is flatter.
    """
    if reach < 0.02:
        return W
    here = log_interval(low - s, high - s)
    right = log_interval(low - s - reach, high - s - reach) - here - e * reach
    left = log_interval(low - s + reach, high - s + reach) - here + e * reach
    curvature = -2.0 * max(left, right) / (reach * reach)
    return min(max(curvature, 0.0), W, 1.0 - 1e-9)


@njit(cache=True, nogil=True, fastmath=SUMS, error_model="numpy")
def _add_multiples(out, a, x, b, y, size):
    for j in range(size):
        out[j] += a * x[j] + b * y[j]


@njit(cache=True, nogil=True, fastmath=SUMS, error_model="numpy")
def _look_ahead(T, tau, J, d):
    """J with sum_j<=i J_ij y_j = eta_i + noise of variance J_ii = lambda_i, given later factors.

    Variables are eliminated from the last one on.  With every factor its precision grows by tau
    times the square of a row of T, less what eliminating the variable takes; no large tau is
    subtracted from itself.
    """
    for i in range(d):
        for j in range(i):
            J[i, j] = 0.0
        J[i, i] = 1.0
    for k in range(d - 1, -1, -1):
        if tau[k] == 0.0 and k < d - 1:
            # Still to be eliminated, with the precision that later factors gave it.
            for i in range(k):
                if J[k, i] != 0.0:
                    _add_multiples(J[i], -J[k, i] / J[k, k], J[k], 0.0, J[k], i + 1)
            continue
        p = J[k, k] + tau[k]
        for i in range(k):
            a = tau[k] * (J[k, k] * T[k, i] - J[k, i]) / p
            b = -(tau[k] * T[k, i] + J[k, i]) / p
            if a != 0.0 or b != 0.0:
                _add_multiples(J[i], a, T[k], b, J[k], i + 1)


@njit(cache=True, nogil=True, fastmath=SUMS, error_model="numpy")
def _new_factor(T, J, scale, attached, G, rows):
    """G = T': what rows of T are in the variables x, with unit entries on the diagonal left out.

    Row i is sum_j T_ij y_j with y = J^-1 (eta + diag(scale) x), times the scale of its variable.
    """
    for i in range(rows):
        a = attached[i]
        row = G[i]
        for j in range(a):
            row[j] = T[i, j]
        last = 1.0
        for k in range(a, -1, -1):
            entry = last / J[k, k]
            for j in range(k):
                row[j] -= entry * J[k, j]
            last = row[k - 1] if k > 0 else 0.0
            if k < a:
                row[k] = entry * scale[k] * scale[a]


@njit(cache=True, nogil=True, error_model="numpy")
def _range(low: float, high: float, mean: float) -> float:
    """How far a standard normal between two limits may be from its mean, but for a share RARE."""
    target = -_LOG_RARE - log_interval(low, high)
    z = math.sqrt(2.0 * target - _LOG_4_PI - math.log(target))  # Phi(-z) = exp(-target), nearly
    return max(mean - max(low, -z), min(high, z) - mean)


@njit(cache=True, nogil=True, fastmath=SUMS, error_model="numpy")
def _reaches(G, W, spread, H, reach, d):
    """How far the conditional means may be from the path, in units of conditional deviations.

    To first order a variable moves by W times what its limits do, and by noise of its own;
    H (overwritten) is how the conditional means depend on the noise.
    """
    for i in range(d):
        for j in range(i):
            H[i, j] = G[i, j]
        for j in range(i):
            follow = G[i, j] * W[j]
            for k in range(j):
                H[i, k] -= follow * H[j, k]
        total = 0.0
        for j in range(i):
            total += (H[i, j] * spread[j]) ** 2
        reach[i] = math.sqrt(total)


@njit(cache=True, nogil=True, error_model="numpy")
def _place(T, G, scale, tau, attached, e, singular, low, high, slope, curve, work, d, r):
    """Limits, slopes and curves for ``genz_sums``.

    Returns the logarithm that scales its weights, and a bound on its rounding error: of the terms
    in it; of rows of the factor, in units of their norms, times d log P / d limit; and of the
    covariance it came from.
    """
    a, y = work[0], work[1]
    for i in range(r):
        a[i] = scale[i] * e[i]
        y[i] = a[i]
    for i in range(r):
        for j in range(i):
            y[j] += T[i, j] * a[i]
    log_scale = size = leverage = distance = 0.0
    for i in range(d):
        own = attached[i]
        path = y[own]
        centre, norm = 0.0, 1.0
        for j in range(own):
            path += T[i, j] * y[j]
            centre += G[i, j] * e[j]
            norm += T[i, j] * T[i, j]
        shift = centre + e[own] - scale[own] * path
        low[i] = scale[own] * low[i] + shift
        high[i] = scale[own] * high[i] + shift
        slope[i] = curve[i] = 0.0
        if i < r:
            k = tau[i] / (scale[i] * scale[i] + tau[i])
            slope[i] = e[i] + k * centre
            curve[i] = 0.5 * k
            linear = centre * (e[i] + 0.5 * k * centre)
            quadratic = 0.5 * (e[i] * e[i] - a[i] * path)
            log_scale += linear + quadratic - math.log(scale[i])
            size += abs(linear) + abs(quadratic)
            leverage += abs(a[i]) * math.sqrt(norm)
            distance += y[i] * y[i]
    of_rows = 2.0 * _EPS * math.sqrt(r * distance)
    of_covariance = 0.25 * singular * singular / d * leverage
    return log_scale, 4.0 * _EPS * size + leverage * (of_rows + of_covariance)


@njit(cache=True, nogil=True, error_model="numpy")
def _usable(e, scale, tau, d):
    """False for numbers that are too large or not numbers."""
    total = 0.0
    for i in range(d):
        total += abs(e[i]) + scale[i] + tau[i]
    return total < 1e100


@njit(cache=True, nogil=True, error_model="numpy")
def tilt_dense(
    T, lower, upper, rank, attached, slope, curve, singular, rounds, log_scale, rounding,
    log_bound, begin, end,
):  # fmt: skip
    """Tilt problems ``begin`` to ``end`` of ``genz_sums``.

    Rows tied to others do not take part: without them the bound is that of a larger set.

    Parameters
    ----------
    T : (B, D, D) factors, overwritten with T'
    lower, upper : (B, d) limits, overwritten with those for x
    rank, attached : as for ``genz_sums``
    slope, curve : (B, d) output
    singular : rounding level of rows of the factor, see ``Problems``
    rounds : updates of tau, at most; 0 for exponential tilting
    log_scale : (B,) output, what logarithms of weights are to be increased by
    rounding : (B,) output, bound on the rounding error of that and of the weights' logarithms
    log_bound : (B,) output, upper bound on the logarithm of the probability
    """
    d = lower.shape[1]
    S, matrix, J, G = np.empty((d, d)), np.empty((d, d)), np.empty((d, d)), np.empty((d, d))
    nothing = np.empty(0)
    work = np.empty((3, d))
    s, e, W = np.empty(d), np.empty(d), np.empty(d)
    scale, tau, spread, reach = np.empty(d), np.empty(d), np.empty(d), np.empty(d)
    for b in range(begin, end):
        r, low, high, own = rank[b], lower[b], upper[b], attached[b]
        square(T[b], S, r)
        for i in range(d):
            s[i] = tau[i] = 0.0
            scale[i] = 1.0
        bound, gap = saddle_point(
            S, nothing, nothing, scale, low, high, STEPS, s, e, W, work, matrix, r
        )  # fmt: skip
        log_bound[b] = min(bound + gap, 0.0) if gap < np.inf else 0.0
        _look_ahead(T[b], tau, J, r)
        for _ in range(rounds):
            _new_factor(T[b], J, scale, own, G, r)
            for i in range(r):
                spread[i] = _range(scale[i] * low[i] - s[i], scale[i] * high[i] - s[i], e[i])
            _reaches(G, W, spread, matrix, reach, r)
            for i in range(r):
                k = _chord(scale[i] * low[i], scale[i] * high[i], s[i], e[i], W[i], reach[i])
                tau[i] = scale[i] * scale[i] * k / (1.0 - k)
            _look_ahead(T[b], tau, J, r)
            change = 0.0
            for i in range(r):
                root = math.sqrt(J[i, i])
                change = max(change, abs(root / scale[i] - 1.0))
                s[i] *= root / scale[i]
                scale[i] = root
            saddle_point(
                S, nothing, nothing, scale, low, high, _PATH_STEPS, s, e, W, work, matrix, r
            )  # fmt: skip
            if change < _SETTLED:
                break
        if not _usable(e, scale, tau, r):  # numbers too large: weights without a tilt
            for i in range(r):
                e[i] = tau[i] = 0.0
                scale[i] = 1.0
            _look_ahead(T[b], tau, J, r)
        _new_factor(T[b], J, scale, own, G, d)
        log_scale[b], rounding[b] = _place(
            T[b], G, scale, tau, own, e, singular, low, high, slope[b], curve[b], work, d, r
        )  # fmt: skip
        for i in range(d):
            for j in range(own[i]):
                T[b, i, j] = G[i, j]
