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
quadratic goes on falling.  So the curvature is that of the chord from the path to where
m_i rarely is (3e-5), on the side where it is smaller: in between weights fall below
their value on the path, and only beyond they rise above it.  (Measured: docs/tails.md.)

Weights are exact whatever nu, tau and the path are; only their spread depends on these.  The
method is ours; sites with matched moments are those of expectation propagation (Cunningham,
Hennig & Lacoste-Julien 2011), which were tried and have heavier weights.
"""

import math

import numpy as np
from numba import njit

from mvnorth._cpu.tilting import advance, assemble, evaluate, saddle_point
from mvnorth._linalg.cholesky import PLAIN, SUMS, cholesky_in_place, square, square_plain
from mvnorth._linalg.product import ROWS, STRIP, subtract_product
from mvnorth._linalg.reorder import log_interval

ENOUGH = -0.1  # log P above which the first order is enough
LARGEST_GAP = 1.0  # of the bound: what rounding leaves unknown of a saddle point is no tilt
PATH_STEPS = 3  # of Newton's method for each tau
PATH_NEAR = 0.05  # length of the last of them, if the path is of use
SETTLED = 0.05  # relative change of lambda
_LEAST = 1e-6  # what a curvature is short of 1: tau is at most lambda times its inverse
_LOG_RARE = math.log(3e-5)
_EPS = 2.0**-52
_LOG_4_PI = math.log(4.0 * math.pi)
_LANES = 32  # random vectors that reaches are estimated from


@njit(cache=True, nogil=True, error_model="numpy")
def _chord(low: float, high: float, s: float, e: float, W: float, reach: float) -> float:
    """Curvature in [0, W] of a parabola below log(Phi(high - s) - Phi(low - s)) within reach.

    It touches the function at s and meets it at s + reach or s - reach, whichever is flatter.
    """
    if reach < 0.02:
        return min(W, 1.0 - _LEAST)
    here = log_interval(low - s, high - s)
    right = log_interval(low - s - reach, high - s - reach) - here - e * reach
    left = log_interval(low - s + reach, high - s + reach) - here + e * reach
    curvature = -2.0 * max(left, right) / (reach * reach)
    return min(max(curvature, 0.0), W, 1.0 - _LEAST)


@njit(cache=True, nogil=True, error_model="numpy")
def _range(low: float, high: float, mean: float) -> float:
    """How far from its mean a standard normal between two limits is, but for a share of 3e-5."""
    target = -_LOG_RARE - log_interval(low, high)
    z = math.sqrt(2.0 * target - _LOG_4_PI - math.log(target))  # Phi(-z) = exp(-target), nearly
    return max(mean - max(low, -z), min(high, z) - mean)


@njit(cache=True, nogil=True, fastmath=SUMS, error_model="numpy")
def _reaches(G, W, spread, reach, d):
    """How far the conditional means may be from the path, in units of conditional deviations.

    To first order a variable moves by W times what its limits do, and by noise of its own: their
    mean square over random signs of the noise, to about an eighth.
    """
    x = np.empty((d, _LANES))
    p = np.empty(_LANES)
    state = np.uint64(1)
    for i in range(d):
        for k in range(_LANES):
            p[k] = 0.0
        for j in range(i):
            g = G[i, j]
            for k in range(_LANES):
                p[k] -= g * x[j, k]
        total = 0.0
        # A linear congruential generator (Knuth's MMIX): its upper bits are the signs.
        state = state * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
        for k in range(_LANES):
            total += p[k] * p[k]
            sign = 1.0 if (state >> np.uint64(32 + k)) & np.uint64(1) else -1.0
            x[i, k] = W[i] * p[k] + sign * spread[i]
        reach[i] = math.sqrt(total / _LANES)


@njit(cache=True, nogil=True, error_model="numpy")
def choose_curvatures(G, scale, low, high, s, e, W, tau, work, d):
    """tau for the present path."""
    spread, reach = work[0], work[1]
    for i in range(d):
        spread[i] = _range(scale[i] * low[i] - s[i], scale[i] * high[i] - s[i], e[i])
    _reaches(G, W, spread, reach, d)
    for i in range(d):
        k = _chord(scale[i] * low[i], scale[i] * high[i], s[i], e[i], W[i], reach[i])
        tau[i] = scale[i] * scale[i] * k / (1.0 - k)


@njit(cache=True, nogil=True, error_model="numpy")
def reverse(T, tau, X, root, d):
    """X + diag(root) = diag(tau)**(1/2) T, transposed and with rows and columns in reverse order.

    With tau**(1/2) for columns now, so that the square of it, and I, is what the later factors
    make of the precision of y; zero beyond d.
    """
    for a in range(X.shape[0]):
        root[a] = math.sqrt(tau[d - 1 - a]) if a < d else 0.0
    for a in range(X.shape[0]):
        for c in range(X.shape[1]):
            X[a, c] = T[d - 1 - c, d - 1 - a] * root[c] if c < a < d else 0.0


@njit(cache=True, nogil=True, error_model="numpy")
def add_one(M, d):
    for a in range(d):
        M[a, a] += 1.0


@njit(cache=True, nogil=True, error_model="numpy")
def look_ahead(T, tau, L, J, scale, s, d):
    """J with sum_j<=i J_ij y_j = eta_i + noise of variance J_ii = lambda_i, given later factors.

    ``L`` is the Cholesky factor of ``reverse``'s square and I: eliminating variables from the last
    one on.  ``scale`` becomes lambda**(1/2), and s what it was for the old one; returns the largest
    relative change of scale.
    """
    change = 0.0
    for i in range(d):
        own = d - 1 - i
        pivot = L[own, own]
        for j in range(i):
            J[i, j] = pivot * L[d - 1 - j, own] - tau[i] * T[i, j]
        J[i, i] = max(pivot * pivot - tau[i], 1.0)
        root = math.sqrt(J[i, i])
        change = max(change, abs(root / scale[i] - 1.0))
        s[i] *= root / scale[i]
        scale[i] = root
    return change


@njit(cache=True, nogil=True, error_model="numpy")
def new_factor(T, J, scale, attached, G, d, begin, end):
    """T' as G: what rows of T are in the variables x, unit entries on the diagonal left out.

    Row i is sum_j T_ij y_j with y = J^-1 (eta + diag(scale) x), times the scale of its variable.
    Items ``begin`` to ``end`` of ROWS rows each; G (.., E), E a multiple of STRIP.
    """
    for row in range(begin * ROWS, min(end * ROWS, d), ROWS):
        last = 0
        for i in range(row, row + ROWS):
            a = attached[i] if i < d else 0
            last = max(last, a)
            for j in range(G.shape[1]):
                G[i, j] = T[i, j] if i < d and j < a else 0.0
            if i < d:
                G[i, a] = 1.0
        for strip in range(last - last % STRIP, -1, -STRIP):
            done = strip + STRIP
            if done <= last:
                count = last + 1 - done
                subtract_product(G, row, strip, G, row, done, J, done, strip, ROWS, STRIP, count)
            for i in range(row, row + ROWS):
                for k in range(min(done, last + 1) - 1, strip - 1, -1):
                    entry = G[i, k] / J[k, k]
                    G[i, k] = entry
                    for j in range(strip, k):
                        G[i, j] -= entry * J[k, j]
        for i in range(row, min(row + ROWS, d)):
            a = attached[i]
            for j in range(a):
                G[i, j] *= scale[j] * scale[a]
            G[i, a] = 0.0


@njit(cache=True, nogil=True, fastmath=SUMS, error_model="numpy")
def _mean_path(T, scale, e, a, y, r):
    """Derivatives of log P in the limits, a = scale * e, and the path of y, T^T a."""
    for i in range(r):
        a[i] = scale[i] * e[i]
        y[i] = a[i]
    for i in range(r):
        for j in range(i):
            y[j] += T[i, j] * a[i]


@njit(cache=True, nogil=True, error_model="numpy")
def place(T, G, scale, tau, attached, e, low, high, slope, curve, stretch, shift, work, d, r):
    """Limits, slopes and curves for ``genz_sums``; limits are old ones times stretch plus shift.

    Returns the logarithm that scales its weights, and the size of the terms in it.
    """
    a, y = work[0], work[1]
    _mean_path(T, scale, e, a, y, r)
    log_scale = size = 0.0
    for i in range(d):
        own = attached[i]
        path = y[own]
        centre = 0.0
        for j in range(own):
            path += T[i, j] * y[j]
            centre += G[i, j] * e[j]
        stretch[i] = scale[own]
        shift[i] = centre + e[own] - scale[own] * path
        low[i] = stretch[i] * low[i] + shift[i]
        high[i] = stretch[i] * high[i] + shift[i]
        slope[i] = curve[i] = 0.0
        if i < r:
            k = tau[i] / (scale[i] * scale[i] + tau[i])
            slope[i] = e[i] + k * centre
            curve[i] = 0.5 * k
            linear = centre * (e[i] + 0.5 * k * centre)
            quadratic = 0.5 * (e[i] * e[i] - a[i] * path)
            log_scale += linear + quadratic - math.log(scale[i])
            # lambda is what is left of lambda + tau
            size += abs(linear) + abs(quadratic) + tau[i] / (scale[i] * scale[i])
    return log_scale, size


@njit(cache=True, nogil=True, fastmath=SUMS, error_model="numpy")
def rounding_error(T, scale, e, singular, low, high, work, r):
    """What rounding does to log P, by its derivatives in the limits, which are scale * e.

    Rows of the factor are known to rounding of their norms, the covariance to that of its
    variances, and limits less a conditional mean to that of the two, which counts against the
    distance of the limits.
    """
    a, y = work[0], work[1]
    _mean_path(T, scale, e, a, y, r)
    leverage = distance = of_limits = 0.0
    for i in range(r):
        norm, path = 1.0, y[i]
        for j in range(i):
            norm += T[i, j] * T[i, j]
            path += T[i, j] * y[j]
        leverage += abs(a[i]) * math.sqrt(norm)
        distance += y[i] * y[i]
        if low[i] > -np.inf:
            of_limits += (abs(low[i]) + abs(path)) / (high[i] - low[i])
    of_rows = 8.0 * _EPS * math.sqrt(r * distance)
    of_covariance = 0.25 * singular * singular / r * leverage
    return leverage * (of_rows + of_covariance) + 2.0 * _EPS * of_limits


@njit(cache=True, nogil=True, error_model="numpy")
def _follow(S, scale, low, high, s, e, W, work, matrix, d):
    """Newton's method for the path from where it was; returns the length of its last step."""
    nothing = np.empty(0)
    G, size = evaluate(S, nothing, nothing, scale, low, high, s, e, W, work[0], d)
    far = np.inf
    for _ in range(PATH_STEPS):
        assemble(S, scale, W, matrix, d, 0, d if d <= PLAIN else matrix.shape[0])
        cholesky_in_place(matrix, d)
        G, size, _, far = advance(
            S, nothing, nothing, scale, low, high, s, e, W, work, matrix, False, d, G, size
        )  # fmt: skip
    return far


@njit(cache=True, nogil=True, error_model="numpy")
def first_order(tau, J, scale, d):
    """Exponential tilting: no later factor is curved."""
    for i in range(d):
        tau[i] = 0.0
        scale[i] = 1.0
        for j in range(d):
            J[i, j] = 1.0 if i == j else 0.0


@njit(cache=True, nogil=True, error_model="numpy")
def copy_factor(G, attached, T, d):
    for i in range(d):
        for j in range(attached[i]):
            T[i, j] = G[i, j]


@njit(cache=True, nogil=True, error_model="numpy")
def tilt_dense(
    T, lower, upper, rank, attached, slope, curve, stretch, shift, singular, rounds, log_scale,
    rounding, log_bound, gap, begin, end,
):  # fmt: skip
    """Tilt problems ``begin`` to ``end`` of ``genz_sums``.

    Rows tied to others do not take part: without them the bound is that of a larger set.  Where
    no tilt is found, or no path of second order, there is none, or one of first order.

    Parameters
    ----------
    T : (B, D, D) factors, overwritten with T'
    lower, upper : (B, d) limits, overwritten with those for x
    rank, attached : as for ``genz_sums``
    slope, curve : (B, d) output
    stretch, shift : (B, d) output, what limits have been multiplied by, and increased by then
    singular : rounding level of rows of the factor, see ``Problems``
    rounds : updates of tau, at most; 0 for exponential tilting
    log_scale : (B,) output, what logarithms of weights are to be increased by
    rounding : (B,) output, bound on the rounding error of that and of the weights' logarithms
    log_bound : (B,) output, upper bound on the logarithm of the probability
    gap : (B,) output, by how much weights of first order may exceed the bound; infinite if there
        are none
    """
    d = lower.shape[1]
    strips = -(-d // STRIP)
    side = strips * STRIP
    items = -(-d // ROWS)
    S, matrix, J = np.empty((side, side)), np.empty((side, side)), np.zeros((side, side))
    G = np.empty((side, side))
    nothing, ones, root = np.empty(0), np.ones(side), np.empty(side)
    work = np.empty((3, d))
    s, e, W, scale, tau = np.empty(d), np.empty(d), np.empty(d), np.empty(d), np.empty(d)
    first = np.empty(d)
    for b in range(begin, end):
        r, low, high, own = rank[b], lower[b], upper[b], attached[b]
        if r <= PLAIN:
            square_plain(T[b], ones, S, r)
        else:
            square(T[b], ones, S, 0, strips)
        first_order(tau, J, scale, r)
        bound, gap[b] = saddle_point(
            S, nothing, nothing, scale, low, high, s, e, W, work, matrix, r
        )  # fmt: skip
        if not gap[b] < LARGEST_GAP:
            gap[b] = np.inf
            e[:] = 0.0
        first[:] = e
        lost = rounding_error(T[b], scale, e, singular, low, high, work, r)
        log_bound[b] = min(bound + lost, 0.0)
        for _ in range(rounds if gap[b] < np.inf and bound < ENOUGH else 0):
            new_factor(T[b], J, scale, own, G, r, 0, items)
            choose_curvatures(G, scale, low, high, s, e, W, tau, work, r)
            reverse(T[b], tau, G, root, r)
            if r <= PLAIN:
                square_plain(G, root, matrix, r)
            else:
                square(G, root, matrix, 0, strips)
            add_one(matrix, side)
            cholesky_in_place(matrix, r)
            change = look_ahead(T[b], tau, matrix, J, scale, s, r)
            far = _follow(S, scale, low, high, s, e, W, work, matrix, r)
            if not far < PATH_NEAR:
                first_order(tau, J, scale, r)
                e[:] = first
                break
            if change < SETTLED:
                break
        new_factor(T[b], J, scale, own, G, d, 0, items)
        lost = rounding_error(T[b], scale, e, singular, low, high, work, r)
        log_scale[b], size = place(
            T[b], G, scale, tau, own, e, low, high, slope[b], curve[b], stretch[b], shift[b], work,
            d, r,
        )  # fmt: skip
        rounding[b] = 4.0 * _EPS * size + lost
        copy_factor(G, own, T[b], d)
