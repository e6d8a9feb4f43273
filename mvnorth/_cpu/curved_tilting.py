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

from mvnorth._compile import FAST, SUMS, inner, kernel
from mvnorth._cpu.rounding import (
    inverse_row_sums,
    mean_path,
    of_covariance,
    of_limits,
    row_norms,
    saddle_moments,
    sequential_moments,
    sequential_moments_below,
    solve_transposed,
)
from mvnorth._cpu.tilting import BLOCK, log_below, rounding_of_sums, saddle_point, settle
from mvnorth._linalg.cholesky import cholesky_in_place, square_first
from mvnorth._linalg.product import ROWS, STRIP, subtract_product
from mvnorth._linalg.reorder import log_interval, row_or_none
from mvnorth._scalar.exp_log import log_scaled
from mvnorth._scalar.instructions import stack_array

ENOUGH = -0.1  # log P above which the first order is enough
LARGEST_GAP = 1.0  # of the bound: what rounding leaves unknown of a saddle point is no tilt
PATH_STEPS = 3  # of Newton's method for each tau
PATH_NEAR = 0.05  # length of the last of them, if the path is of use
SETTLED = 0.05  # relative change of lambda
_LEAST = 1e-6  # what a curvature is short of 1: tau is at most lambda times its inverse
_LOG_RARE = math.log(3e-5)
_EPS = 2.0**-52
_LOG_4_PI = math.log(4.0 * math.pi)
_block = stack_array(BLOCK)
_LANES = 32  # random vectors that reaches are estimated from


@inner(FAST, forceinline=True)
def _chord(low: float, high: float, s: float, e: float, W: float, reach: float) -> float:
    """Curvature in [0, W] of a parabola below log(Phi(high - s) - Phi(low - s)) within reach.

    It touches the function at s and meets it at s + reach or s - reach, whichever is flatter.
    """
    largest = 1.0 - _LEAST if 1.0 - _LEAST < W else W
    if low is None:
        here = log_below(high - s)
        right = log_below(high - s - reach)
        left = log_below(high - s + reach)
    else:
        here = log_interval(low - s, high - s)
        right = log_interval(low - s - reach, high - s - reach)
        left = log_interval(low - s + reach, high - s + reach)
    left, right = left - here + e * reach, right - here - e * reach
    curvature = -2.0 * (right if right > left else left) / (reach * reach)
    curvature = curvature if curvature > 0.0 else 0.0
    return largest if largest < curvature or reach < 0.02 else curvature


@inner(FAST, forceinline=True)
def _range(low: float, high: float, mean: float) -> float:
    """How far from its mean a standard normal between two limits is, but for a share of 3e-5."""
    target = -_LOG_RARE - (log_below(high) if low is None else log_interval(low, high))
    # Phi(-z) = exp(-target), nearly
    z = math.sqrt(2.0 * target - _LOG_4_PI - log_scaled(target, 0.0))
    right = (z if z < high else high) - mean
    left = mean + z if low is None else mean - (-z if -z > low else low)
    return right if right > left else left


@inner(SUMS)
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


@inner(FAST)
def _ranges_below(scale, high, s, e, spread, d):
    """``_range`` of all variables, without lower limits."""
    limit, mean, far = _block(), _block(), _block()
    for start in range(0, d, BLOCK):
        for c in range(BLOCK):
            i = start + c if start + c < d else start
            limit[c], mean[c] = scale[i] * high[i] - s[i], e[i]
        for c in range(BLOCK):
            far[c] = _range(None, limit[c], mean[c])
        for i in range(start, min(start + BLOCK, d)):
            spread[i] = far[i - start]


@inner(FAST)
def _chords_below(scale, high, s, e, W, reach, curvature, d):
    """``_chord`` of all variables, without lower limits."""
    limit, shift, mean, most, far, found = (
        _block(), _block(), _block(), _block(), _block(), _block()
    )  # fmt: skip
    for start in range(0, d, BLOCK):
        for c in range(BLOCK):
            i = start + c if start + c < d else start
            limit[c], shift[c], mean[c] = scale[i] * high[i], s[i], e[i]
            most[c], far[c] = W[i], reach[i]
        for c in range(BLOCK):
            found[c] = _chord(None, limit[c], shift[c], mean[c], most[c], far[c])
        for i in range(start, min(start + BLOCK, d)):
            curvature[i] = found[i - start]


@inner()
def choose_curvatures(G, scale, low, high, s, e, W, tau, work, d):
    """tau for the present path."""
    spread, reach = work[0], work[1]
    _ranges_below(scale, high, s, e, spread, d)
    if low is not None:
        for i in range(d):
            if low[i] > -np.inf:
                limits = scale[i] * low[i] - s[i], scale[i] * high[i] - s[i]
                spread[i] = _range(limits[0], limits[1], e[i])
    _reaches(G, W, spread, reach, d)
    _chords_below(scale, high, s, e, W, reach, tau, d)
    if low is not None:
        for i in range(d):
            if low[i] > -np.inf:
                tau[i] = _chord(scale[i] * low[i], scale[i] * high[i], s[i], e[i], W[i], reach[i])
    for i in range(d):
        tau[i] = scale[i] * scale[i] * tau[i] / (1.0 - tau[i])


@inner()
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


@inner()
def add_one(M, d):
    for a in range(d):
        M[a, a] += 1.0


@inner()
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
        J[i, i] = pivot * pivot - tau[i] if pivot * pivot - tau[i] > 1.0 else 1.0
        root = math.sqrt(J[i, i])
        changed = abs(root / scale[i] - 1.0)
        change = changed if changed > change else change
        s[i] *= root / scale[i]
        scale[i] = root
    return change


@inner()
def new_factor(T, J, scale, attached, G, blocked, d, begin, end):
    """T' as G: what rows of T are in the variables x, unit entries on the diagonal left out.

    Row i is sum_j T_ij y_j with y = J^-1 (eta + diag(scale) x), times the scale of its variable.
    Items ``begin`` to ``end`` of ROWS rows each; G (.., E), E a multiple of STRIP, or d or more
    and at most STRIP if ``blocked`` is None.
    """
    for row in range(begin * ROWS, end * ROWS if end * ROWS < d else d, ROWS):
        last = 0
        for i in range(row, row + ROWS):
            a = attached[i] if i < d else 0
            last = a if a > last else last
            for j in range(G.shape[1]):
                G[i, j] = T[i, j] if i < d and j < a else 0.0
            if i < d:
                G[i, a] = 1.0
        for strip in range(last - last % STRIP, -1, -STRIP):
            done = strip + STRIP
            end_column = done if done < last + 1 else last + 1
            if blocked is not None:
                count = last + 1 - end_column
                subtract_product(G, row, strip, G, row, done, J, done, strip, ROWS, STRIP, count)
            for i in range(row, row + ROWS):
                for k in range(end_column - 1, strip - 1, -1):
                    entry = G[i, k] / J[k, k]
                    G[i, k] = entry
                    for j in range(strip, k):
                        G[i, j] -= entry * J[k, j]
        for i in range(row, row + ROWS if row + ROWS < d else d):
            a = attached[i]
            for j in range(a):
                G[i, j] *= scale[j] * scale[a]
            G[i, a] = 0.0


@inner()
def place(T, G, scale, tau, attached, e, low, high, slope, curve, stretch, shift, work, d, r):
    """Limits, slopes and curves for ``genz_sums``; limits are old ones times stretch plus shift.

    Returns the logarithm that scales its weights, and the size of the terms in it.
    """
    a, y = work[0], work[1]
    for i in range(r):
        a[i] = scale[i] * e[i]  # derivatives of log P in the limits
    mean_path(T, a, y, r)
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
        if low is not None:
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


@inner()
def bound_rounding(T, best_e, best_W, norm, z, singular, y, r):
    """What rounding of the problem does to the bound G at e, which is certain for any e.

    ``evaluate`` takes entries of S for products of norms; T says how small their terms are.
    """
    mean_path(T, best_e, y, r)
    lost, _ = of_covariance(T, norm, z, best_e, y, best_W, best_W, singular, r)
    leverage, terms = 0.0, 0.0
    for k in range(r):
        y[k] = abs(best_e[k])
        leverage += abs(best_e[k]) * norm[k]
    for i in range(r):
        for k in range(i):
            y[k] += abs(T[i, k] * best_e[i])
    for k in range(r):
        terms += y[k] * y[k]
    lost += rounding_of_sums(r) * (terms - leverage * leverage)
    return lost if lost == lost else np.inf  # NaN: numbers too large for this


@inner()
def rounding_error(
    T, scale, s, e, settled, singular, low, high, attached, norm, z, W, work, drawn, d, r
):  # fmt: skip
    """What rounding of the covariance and its factor does to log P.

    By the derivatives of log P in the limits, which are scale * e at a saddle point that is
    ``settled``, with W there to first order; else by the means of one variable after the other.
    ``drawn`` becomes the means of the variables as they are drawn.
    """
    q, y, faces, own = work[0], work[1], work[2], work[3]
    ties = 0.0
    if not settled or r < d:
        if low is None:  # then no rows are tied
            sequential_moments_below(T, high, y, own, faces, r)
        else:
            ties = sequential_moments(T, low, high, attached, singular, y, own, faces, d, r)
    if settled:
        saddle_moments(scale, s, low, high, e, own, faces, r)
        for i in range(r):
            q[i] = scale[i] * e[i]
            drawn[i] = e[i]
        mean_path(T, q, y, r)
    else:
        for i in range(r):
            drawn[i] = y[i]
        solve_transposed(T, y, q, r)
    _, of_problem = of_covariance(T, norm, z, q, y, W if settled else own, faces, singular, r)
    of_problem += ties
    return of_problem if of_problem >= 0.0 else np.inf  # NaN: numbers too large for this


@inner()
def first_order(tau, J, scale, d):
    """Exponential tilting: no later factor is curved."""
    for i in range(d):
        tau[i] = 0.0
        scale[i] = 1.0
        for j in range(d):
            J[i, j] = 1.0 if i == j else 0.0


@inner()
def copy_factor(G, attached, T, d):
    for i in range(d):
        for j in range(attached[i]):
            T[i, j] = G[i, j]


@kernel()
def tilt_dense(
    T, lower, upper, rank, attached, slope, curve, stretch, shift, singular, rounds, log_scale,
    rounding, of_problem, log_bound, gap, blocked, begin, end,
):  # fmt: skip
    """Tilt problems ``begin`` to ``end`` of ``genz_sums``.

    Rows tied to others do not take part: without them the bound is that of a larger set.  Where
    no tilt is found, or no path of second order, there is none, or one of first order.

    Parameters
    ----------
    T : (B, D, D) factors, overwritten with T'
    lower, upper : (B, d) limits, overwritten with those for x; lower is None if all are -inf
    rank, attached : as for ``genz_sums``
    slope, curve : (B, d) output
    stretch, shift : (B, d) output, what limits have been multiplied by, and increased by then
    singular : rounding level of rows of the factor, see ``Problems``
    rounds : updates of tau, at most; 0 for exponential tilting
    log_scale : (B,) output, what logarithms of weights are to be increased by
    rounding : (B,) output, bound on the rounding error of that and of the weights' logarithms
    of_problem : (B,) output, bound on what the rounding of the covariance does to log P
    log_bound : (B,) output, upper bound on the logarithm of the probability
    gap : (B,) output, by how much weights of first order may exceed the bound; infinite if there
        are none
    blocked : True, or None for d <= STRIP: what large matrices need is not compiled then
    """
    d = upper.shape[1]
    multiple = ROWS if blocked is None else STRIP
    side = -(-d // multiple) * multiple
    items = -(-d // ROWS)
    S, matrix, J = np.empty((side, side)), np.empty((side, side)), np.empty((side, side))
    G = np.empty((side, side))
    ones, root, work = np.empty(side), np.empty(side), np.empty((5, d))
    s, e, W, scale, tau = np.empty(d), np.empty(d), np.empty(d), np.empty(d), np.empty(d)
    first, first_s, first_W = np.empty(d), np.empty(d), np.empty(d)
    norm, z, drawn = np.empty(d), np.empty(d), np.empty(d)
    blocked = None if blocked is None else np.empty((side, STRIP))
    for i in range(side):
        ones[i] = 1.0
        for j in range(side):
            J[i, j] = 0.0
    for b in range(begin, end):
        r, high, own = rank[b], upper[b], attached[b]
        low, factor = row_or_none(lower, b), T[b]
        square_first(factor, ones, S, r, blocked)
        first_order(tau, J, scale, r)
        bound, gap[b] = saddle_point(
            S, None, None, scale, low, high, s, e, W, work, matrix, blocked, r
        )  # fmt: skip
        if not gap[b] < LARGEST_GAP:
            gap[b] = np.inf
            for i in range(d):
                e[i] = 0.0
        for i in range(d):
            first[i], first_s[i], first_W[i] = e[i], s[i], W[i]
        row_norms(factor, norm, r)
        inverse_row_sums(factor, norm, G, z, r)
        lost = bound_rounding(factor, work[3], work[4], norm, z, singular, work[0], r)
        log_bound[b] = bound + lost if bound + lost < 0.0 else 0.0
        for _ in range(rounds if gap[b] < np.inf and bound < ENOUGH else 0):
            new_factor(factor, J, scale, own, G, blocked, r, 0, items)
            choose_curvatures(G, scale, low, high, s, e, W, tau, work, r)
            reverse(factor, tau, G, root, r)
            square_first(G, root, matrix, r, blocked)
            add_one(matrix, side)
            cholesky_in_place(matrix, r, blocked)
            change = look_ahead(factor, tau, matrix, J, scale, s, r)
            _, _, far = settle(
                S, None, None, scale, low, high, s, e, W, work, matrix, blocked,
                np.int64(PATH_STEPS), -1.0, np.int64(1), -np.inf, r,
            )  # fmt: skip
            if not far < PATH_NEAR:
                first_order(tau, J, scale, r)
                for i in range(d):
                    e[i], s[i] = first[i], first_s[i]
                break
            if change < SETTLED:
                break
        new_factor(factor, J, scale, own, G, blocked, d, 0, items)
        of_problem[b] = rounding_error(
            factor, scale, s, e, gap[b] < np.inf, singular, low, high, own, norm, z, first_W, work,
            drawn, d, r,
        )  # fmt: skip
        log_scale[b], size = place(
            factor, G, scale, tau, own, e, low, high, slope[b], curve[b], stretch[b], shift[b],
            work, d, r,
        )  # fmt: skip
        lost = of_limits(G, low, high, shift[b], drawn, r)
        rounding[b] = 4.0 * _EPS * size + lost
        copy_factor(G, own, factor, d)
