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

from mvnorth._compile import FAST, SUMS, inner
from mvnorth._linalg.cholesky import PLAIN, cholesky_in_place, solve_in_place
from mvnorth._linalg.reorder import log_interval
from mvnorth._scalar.exp_log import log_scaled
from mvnorth._scalar.instructions import stack_array
from mvnorth._scalar.normal import mills, ndtr_parts, tail_ratio

STEPS = 24  # of Newton's method, at most; as many again with a line search
CLOSE, NEAR = 1e-6, 1e-3  # lengths of a step that ends the method, and that counts as settled
ROUNDING = 1e-15
HALVINGS = 30  # of a step by the line search, at most
BLOCK = 8  # limits whose moments are computed at a time
_block = stack_array(BLOCK)
_LOG_SQRT_2_PI = 0.5 * math.log(2.0 * math.pi)


@inner(forceinline=True)
def tail_variance(x: float, h: float) -> float:
    """1 - h (x + h), h = phi(x)/Phi(x): the variance of a standard normal below x."""
    y = 1.0 / (x * x)
    far = y * (1.0 + y * (-6.0 + y * 50.0))
    near = 1.0 - h * (x + h)
    variance = near if x > -100.0 else far
    return 1.0 if h == 0.0 else variance  # no limit, where h x is not a number


@inner(forceinline=True)
def log_below(high: float) -> float:
    """log Phi(high)."""
    f, k = ndtr_parts(high)
    return log_scaled(f, k)


@inner(forceinline=True)
def moments_below(high: float) -> tuple[float, float, float]:
    """``interval_moments`` without a lower limit; no branches, so that loops are vector code."""
    h = mills(high)
    variance = tail_variance(high, h)
    variance = 1e-16 if variance < 1e-16 else variance
    return log_below(high), (high if high < -h else -h), variance


@inner(FAST, forceinline=True)
def block_moments(high, log_prob, mean, variance):
    """Set the moments below BLOCK limits."""
    for c in range(BLOCK):
        log_prob[c], mean[c], variance[c] = moments_below(high[c])


@inner()
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
        mean, variance = -h, tail_variance(b, h)
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
    mean = sign * mean
    mean = low if mean < low else mean
    mean = high if high < mean else mean
    largest = 0.25 * width * width if width < 2.0 else 1.0
    variance = 1e-16 if variance < 1e-16 else variance
    return log_prob, mean, (largest if largest < variance else variance)


@inner(SUMS)
def _excess(S, own, load, scale, e, out, d):
    """out = (R S R - I) e with R = diag(scale).

    S is given by its lower triangle, or as diag(own) + load load^T; what is not given is None.
    """
    if load is not None:
        common = 0.0
        for i in range(d):
            common += scale[i] * load[i] * e[i]
        for i in range(d):
            out[i] = scale[i] * (scale[i] * own[i] * e[i] + load[i] * common) - e[i]
    if S is not None:
        for i in range(d):
            own_e = scale[i] * e[i]
            total = S[i, i] * own_e
            for j in range(i):
                total += S[i, j] * (scale[j] * e[j])
                out[j] += S[i, j] * own_e
            out[i] = total
        for i in range(d):
            out[i] = scale[i] * out[i] - e[i]


@inner(SUMS)
def assemble(S, scale, W, matrix, d, begin, end):
    """Rows ``begin`` to ``end`` of I + W^(1/2) (R S R - I) W^(1/2), see ``_excess``; I beyond d."""
    root = np.empty(d)
    for i in range(d):
        root[i] = scale[i] * math.sqrt(W[i])
    for i in range(begin, end):
        for j in range(i):
            matrix[i, j] = root[i] * S[i, j] * root[j] if i < d else 0.0
        matrix[i, i] = 1.0 + W[i] * (scale[i] * scale[i] * S[i, i] - 1.0) if i < d else 1.0


@inner(SUMS)
def _direction(own, load, scale, W, F, matrix, step, d):
    """step = (I + (R S R - I) W)^-1 F and the decrement F^T W step.

    ``matrix`` has the Cholesky factor of what ``assemble`` says; None with one common factor.
    """
    if load is not None:  # Sherman and Morrison
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
    if matrix is not None:
        for i in range(d):
            step[i] = math.sqrt(W[i]) * F[i]
        solve_in_place(matrix, step, d)
        for i in range(d):
            step[i] /= math.sqrt(W[i])
    decrement = 0.0
    for i in range(d):
        decrement += F[i] * W[i] * step[i]
    return decrement


@inner()
def rounding_of_sums(d):
    """Relative error of S, and of products with it, in sums over d terms of any sign."""
    return ROUNDING * (1.0 + d / 8.0)


@inner()
def evaluate(S, own, load, scale, lower, upper, s, e, W, F, d):
    """e, W and F = (R S R - I) e - s at s.

    Returns G, the size of the terms in it, and a bound on its rounding error.  That counts what
    sums over rows of S lose, and limits less s, the latter against the distance of the limits.
    ``lower`` is None where no limit is a lower one, here and in all that follows.
    """
    G, size = 0.0, float(d)  # log Phi of a large number is known to rounding of 1
    leverage = lost = 0.0
    limits, log_probs, means, variances = _block(), _block(), _block(), _block()
    for i in range(d):
        high = scale[i] * upper[i] - s[i]
        place = i % BLOCK
        if place == 0:
            for c in range(BLOCK):
                j = i + c if i + c < d else i
                limits[c] = scale[j] * upper[j] - s[j]
            block_moments(limits, log_probs, means, variances)
        log_prob, mean, variance = log_probs[place], means[place], variances[place]
        # Without lower limits as if there were none in the batch: the same bits.
        if lower is not None and lower[i] > -np.inf:
            log_prob, mean, variance = interval_moments(scale[i] * lower[i] - s[i], high)
        e[i] = mean
        W[i] = 1.0 - variance if 1.0 - variance > 1e-16 else 1e-16
        G += log_prob
        size += abs(log_prob)
        if load is not None:
            leverage += abs(mean) * scale[i] * math.sqrt(own[i] + load[i] * load[i])
        if S is not None:
            leverage += abs(mean) * scale[i] * math.sqrt(S[i, i])
        terms = abs(scale[i] * upper[i]) if upper[i] < np.inf else 0.0
        terms += abs(s[i])
        if lower is not None and lower[i] > -np.inf:
            terms += abs(scale[i] * lower[i])
            lost += terms / (high - (scale[i] * lower[i] - s[i]))
        lost += terms * abs(mean)
    _excess(S, own, load, scale, e, F, d)
    for i in range(d):
        G += e[i] * (0.5 * F[i] - s[i])
        size += abs(e[i] * F[i]) + abs(e[i] * s[i])
        F[i] -= s[i]
    return G, size, ROUNDING * (lost + size) + rounding_of_sums(d) * leverage * leverage


@inner()
def advance(S, own, load, scale, lower, upper, s, e, W, work, matrix, trials, d, G, size):
    """One step of Newton's method, ``matrix`` factored, halved until G falls, for ``trials`` > 1.

    Returns G, the size of the terms in it, a bound on its rounding error, what G would have gained
    if it were quadratic, and the length of the undamped step, in units of 1 + abs(s).
    """
    F, trial, step = work[0], work[1], work[2]
    decrement = _direction(own, load, scale, W, F, matrix, step, d)
    rounding = ROUNDING * size
    length, G_trial, lost, far = 1.0, G, 0.0, 0.0
    for i in range(d):
        length_i = abs(step[i]) / (1.0 + abs(s[i]))
        far = length_i if length_i > far else far
    for _ in range(trials):
        for i in range(d):
            trial[i] = s[i] + length * step[i]
        G_trial, size, lost = evaluate(S, own, load, scale, lower, upper, trial, e, W, F, d)
        if G_trial <= G - 1e-4 * length * decrement + rounding:
            break
        length *= 0.5
    for i in range(d):
        s[i] = trial[i]
    return G_trial, size, lost, decrement, far


@inner()
def keep_best(best, G, lost, e, W, best_e, best_W, d):
    """The smaller one of two bounds, rounding errors included, and where it was found."""
    if not G + lost < best:
        return best
    for i in range(d):
        best_e[i], best_W[i] = e[i], W[i]
    return G + lost


@inner()
def settle(
    S, own, load, scale, lower, upper, s, e, W, work, matrix, blocked, steps, close, trials, best,
    d,
):  # fmt: skip
    """Newton's method from s, until a step is not longer than ``close``.

    Returns the smallest G seen, with its rounding, or ``best`` if that is smaller; how far above
    its minimum the last one may be; and the length of the last step.  e and W of a smaller G than
    ``best`` are left in work[3] and work[4].  Limits are multiplied by ``scale`` and S by it from
    both sides.  ``work`` is (5, d); ``blocked`` is as for ``cholesky_in_place``.
    """
    G, size, lost = evaluate(S, own, load, scale, lower, upper, s, e, W, work[0], d)
    best = keep_best(best, G, lost, e, W, work[3], work[4], d)
    decrement, far = 0.0, np.inf
    for _ in range(steps):
        if matrix is not None:
            assemble(S, scale, W, matrix, d, 0, d if d <= PLAIN else matrix.shape[0])
            cholesky_in_place(matrix, d, blocked)
        G, size, lost, decrement, far = advance(
            S, own, load, scale, lower, upper, s, e, W, work, matrix, trials, d, G, size
        )  # fmt: skip
        best = keep_best(best, G, lost, e, W, work[3], work[4], d)
        if not far > close:
            break
    return best, abs(decrement) + 8.0 * ROUNDING * size, far


@inner()
def saddle_point(S, own, load, scale, lower, upper, s, e, W, work, matrix, blocked, d):
    """Newton's method from s = 0; returns the smallest G seen, and how far above its minimum the
    last one may be.

    The second is infinite where the method did not settle; the first bounds the logarithm of the
    probability all the same, as any G does, up to rounding of its terms, which is in it.  e and W
    where it was found are left in work[3] and work[4].
    """
    best = np.inf
    for trials in (1, HALVINGS):
        for i in range(d):
            s[i] = 0.0
        best, gap, far = settle(
            S, own, load, scale, lower, upper, s, e, W, work, matrix, blocked,
            np.int64(STEPS), CLOSE, np.int64(trials), best, d,
        )  # fmt: skip
        if far < NEAR:
            return best, gap
    return best, np.inf
