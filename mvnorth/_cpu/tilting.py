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
step takes O(d).  Full steps in s settle in four to ten steps where limits are one-sided; between
two limits they may overshoot for ever, and a line search on G takes over.  The reduction is ours.

In terms of x = y - mu the tilted integrand is Genz's again, with other limits and the factor
exp(-e^T N x): that is all the kernels of ``genz`` and ``structured`` know of it.
"""

import math

import numpy as np
from numba import njit

from mvnorth._linalg.cholesky import PLAIN, SUMS, cholesky_in_place, solve_in_place
from mvnorth._linalg.reorder import log_interval
from mvnorth._scalar.normal import mills, tail_ratio

STEPS = 24  # of Newton's method, at most; as many again with a line search
CLOSE, NEAR = 1e-6, 1e-3  # lengths of a step that ends the method, and that counts as settled
ROUNDING = 1e-15
_HALVINGS = 30
_EPS = 2.0**-52
_LOG_SQRT_2_PI = 0.5 * math.log(2.0 * math.pi)


@njit(cache=True, nogil=True, error_model="numpy")
def _tail_variance(x: float, h: float) -> float:
    """1 - h (x + h), h = phi(x)/Phi(x): the variance of a standard normal below x."""
    if h == 0.0:  # no limit, where h x is not a number
        return 1.0
    if x > -100.0:
        return 1.0 - h * (x + h)
    y = 1.0 / (x * x)
    return y * (1.0 + y * (-6.0 + y * 50.0))


@njit(cache=True, nogil=True, error_model="numpy")
def interval_moments(low: float, high: float) -> tuple[float, float, float]:
    """Log of the probability, mean and variance of a standard normal between two limits.

    The mean has an absolute error of some 1e-15 of itself, or of the limits where they are close;
    it lies between them, and the variance in (0, 1], whatever the rounding.
    """
    log_prob = log_interval(low, high)
    sign = -1.0 if low + high > 0.0 else 1.0  # by symmetry in the lower tail
    a, b = (-high, -low) if sign < 0.0 else (low, high)
    width = high - low
    middle = 0.5 * (a + b)
    if a == -np.inf:
        h = mills(b)
        mean, variance = -h, _tail_variance(b, h)
    elif width * (1.0 + abs(middle)) < 1e-3:
        variance = width * width / 12.0
        mean = middle * (1.0 - variance)
    else:
        # phi over the probability, at both ends; Phi(a)/Phi(b) as a ratio, no difference of logs.
        if b <= 0.0:
            share = math.exp(0.5 * (b - a) * (b + a)) * tail_ratio(-a) / tail_ratio(-b)
            at_a, at_b = mills(a) * share / (1.0 - share), mills(b) / (1.0 - share)
        else:
            at_a = math.exp(-0.5 * a * a - _LOG_SQRT_2_PI - log_prob)
            at_b = math.exp(-0.5 * b * b - _LOG_SQRT_2_PI - log_prob)
        mean = at_a - at_b
        variance = 1.0 + a * at_a - b * at_b - mean * mean
    mean = min(max(sign * mean, low), high)
    return log_prob, mean, min(max(variance, 1e-16), 1.0, 0.25 * width * width)


@njit(cache=True, nogil=True, fastmath=SUMS, error_model="numpy")
def _excess(S, own, load, scale, e, out, d):
    """out = (R S R - I) e with R = diag(scale).

    S is given by its lower triangle, or as diag(own) + load load^T if that is empty.
    """
    if S.shape[0] == 0:
        common = 0.0
        for i in range(d):
            common += scale[i] * load[i] * e[i]
        for i in range(d):
            out[i] = scale[i] * (scale[i] * own[i] * e[i] + load[i] * common) - e[i]
        return
    for i in range(d):
        own_e = scale[i] * e[i]
        total = S[i, i] * own_e
        for j in range(i):
            total += S[i, j] * (scale[j] * e[j])
            out[j] += S[i, j] * own_e
        out[i] = total
    for i in range(d):
        out[i] = scale[i] * out[i] - e[i]


@njit(cache=True, nogil=True, fastmath=SUMS, error_model="numpy")
def assemble(S, scale, W, matrix, d, begin, end):
    """Rows ``begin`` to ``end`` of I + W^(1/2) (R S R - I) W^(1/2), see ``_excess``; I beyond d."""
    root = scale[:d] * np.sqrt(W[:d])
    for i in range(begin, end):
        for j in range(i):
            matrix[i, j] = root[i] * S[i, j] * root[j] if i < d else 0.0
        matrix[i, i] = 1.0 + W[i] * (scale[i] * scale[i] * S[i, i] - 1.0) if i < d else 1.0


@njit(cache=True, nogil=True, fastmath=SUMS, error_model="numpy")
def _direction(own, load, scale, W, F, matrix, step, d):
    """step = (I + (R S R - I) W)^-1 F and the decrement F^T W step.

    ``matrix`` has the Cholesky factor of what ``assemble`` says; empty with one common factor.
    """
    if matrix.shape[0] == 0:  # Sherman and Morrison
        top, bottom = 0.0, 1.0
        for i in range(d):
            inverse = 1.0 / (1.0 + W[i] * (scale[i] * scale[i] * own[i] - 1.0))
            step[i] = inverse * F[i]
            weight = scale[i] * load[i] * W[i]
            top += weight * step[i]
            bottom += weight * inverse * scale[i] * load[i]
        for i in range(d):
            inverse = 1.0 / (1.0 + W[i] * (scale[i] * scale[i] * own[i] - 1.0))
            step[i] -= scale[i] * load[i] * inverse * (top / bottom)
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
def evaluate(S, own, load, scale, lower, upper, s, e, W, F, d):
    """e, W and F = (R S R - I) e - s at s; returns G and the size of the terms in it."""
    G, size = 0.0, float(d)  # log Phi of a large number is known to rounding of 1
    for i in range(d):
        low, high = scale[i] * lower[i] - s[i], scale[i] * upper[i] - s[i]
        log_prob, mean, variance = interval_moments(low, high)
        e[i] = mean
        W[i] = max(1.0 - variance, 1e-16)
        G += log_prob
        size += abs(log_prob)
    _excess(S, own, load, scale, e, F, d)
    for i in range(d):
        G += e[i] * (0.5 * F[i] - s[i])
        size += abs(e[i] * F[i]) + abs(e[i] * s[i])
        F[i] -= s[i]
    return G, size


@njit(cache=True, nogil=True, error_model="numpy")
def advance(S, own, load, scale, lower, upper, s, e, W, work, matrix, damped, d, G, size):
    """One step of Newton's method, ``matrix`` factored.

    Returns G, the size of the terms in it, what G would have gained if it were quadratic, and the
    length of the undamped step, in units of 1 + abs(s).
    """
    F, trial, step = work[0], work[1], work[2]
    decrement = _direction(own, load, scale, W, F, matrix, step, d)
    rounding = ROUNDING * size
    length, G_trial, far = 1.0, G, 0.0
    for i in range(d):
        far = max(far, abs(step[i]) / (1.0 + abs(s[i])))
    for _ in range(_HALVINGS if damped else 1):
        for i in range(d):
            trial[i] = s[i] + length * step[i]
        G_trial, size = evaluate(S, own, load, scale, lower, upper, trial, e, W, F, d)
        if G_trial <= G - 1e-4 * length * decrement + rounding:
            break
        length *= 0.5
    for i in range(d):
        s[i] = trial[i]
    return G_trial, size, decrement, far


@njit(cache=True, nogil=True, error_model="numpy")
def saddle_point(S, own, load, scale, lower, upper, s, e, W, work, matrix, d):
    """Newton's method from s = 0; returns the smallest G seen, and how far above its minimum the
    last one may be.

    The second is infinite where the method did not settle; the first bounds the logarithm of the
    probability all the same, as any G does, up to rounding, which is in it.  Limits are multiplied
    by ``scale`` and S by it from both sides.  ``work`` is (3, d).
    """
    best = np.inf
    for damped in (False, True):
        for i in range(d):
            s[i] = 0.0
        G, size = evaluate(S, own, load, scale, lower, upper, s, e, W, work[0], d)
        best = min(best, G + ROUNDING * size)
        decrement, far = 0.0, np.inf
        for _ in range(STEPS):
            if matrix.shape[0] > 0:
                assemble(S, scale, W, matrix, d, 0, d if d <= PLAIN else matrix.shape[0])
                cholesky_in_place(matrix, d)
            G, size, decrement, far = advance(
                S, own, load, scale, lower, upper, s, e, W, work, matrix, damped, d, G, size
            )  # fmt: skip
            best = min(best, G + ROUNDING * size)
            if not far > CLOSE:
                break
        if far < NEAR:
            return best, abs(decrement) + 8.0 * ROUNDING * size
    return best, np.inf


@njit(cache=True, nogil=True, error_model="numpy")
def tilt_structured(
    lower, upper, t, w, own, rank, slope, log_scale, rounding, log_bound, gap, begin, end
):
    """Tilt problems ``begin`` to ``end`` of ``structured_sums``, in O(d) a step.

    Parameters
    ----------
    lower, upper : (B, d) limits, overwritten with those for x
    t, w, rank : as for ``structured_sums``
    own : (B, d) c_i / L_ii**2
    slope : (B, d) output, see ``structured_sums``
    log_scale : (B,) output, what logarithms of weights are to be increased by
    rounding : (B,) output, bound on the rounding error of that and of the weights' logarithms
    log_bound : (B,) output, upper bound on the logarithm of the probability
    gap : (B,) output, by how much weights may exceed the bound; infinite if there is no tilt
    """
    d = lower.shape[1]
    none = np.empty((0, 0))
    scale = np.ones(d)
    work = np.empty((6, d))
    s, W, mu = work[3], work[4], work[5]
    for b in range(begin, end):
        r, low, high, e = rank[b], lower[b], upper[b], slope[b]
        for i in range(d):
            e[i] = 0.0
        bound, gap[b] = saddle_point(none, own[b], t[b], scale, low, high, s, e, W, work, none, r)
        if gap[b] == np.inf:
            for i in range(d):
                e[i] = 0.0
        later = total = distance = leverage = of_limits = 0.0
        for j in range(r - 1, -1, -1):
            mu[j] = w[b, j] * later
            later += t[b, j] * e[j]
            total += mu[j] * mu[j]
            distance += (mu[j] + e[j]) ** 2
            leverage += abs(e[j]) * math.sqrt(own[b, j] + t[b, j] * t[b, j])
        log_scale[b] = -0.5 * total
        before = 0.0
        for i in range(r):
            shift = mu[i] + t[b, i] * before
            before += w[b, i] * mu[i]
            if low[i] > -np.inf:
                of_limits += (abs(low[i]) + abs(shift)) / (high[i] - low[i])
            low[i] -= shift
            high[i] -= shift
        of_rows = leverage * math.sqrt(r * distance)
        rounding[b] = _EPS * (2.0 * total + 8.0 * of_rows + 2.0 * of_limits)
        log_bound[b] = min(bound + rounding[b], 0.0)
