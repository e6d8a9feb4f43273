"""Probabilities of two normal variables with relative accuracy, however small they are.

One-sided limits, correlation rho >= 0, lo <= hi, s = sqrt(1 - rho**2).  The function

    g(y) = phi(y) Phi((lo - rho y)/s),    whose integral over all y is Phi(lo),

is log-concave.  Cut at y = hi it has Pr(X <= lo, Y <= hi) on the left and Pr(X <= lo, Y > hi) on
the right.  Only the part without the mode is integrated; the other is Phi(lo) minus it and holds
at least 1/e of Phi(lo), so nothing cancels.  What is integrated falls from its end hi on a single
scale, even as rho -> 1, because y belongs to the larger limit: one Gauss-Legendre rule up to
where g has lost a factor exp(38) is exact to rounding.  For rho < 0 reflect Y: the right part is
wanted, alone or with an interval of Phi added.

A box is the integral over y of phi(y) [Phi((b - rho y)/s) - Phi((a - rho y)/s)], also
log-concave, by ``log_concave.py``.

Conditioning is old (Owen 1956, Ann. Math. Stat. 27); the choice of the part, of the variable and
of the range is ours.  Accuracy against 45-digit arithmetic, |rho| up to 1 - 1e-15: absolute error
2e-16, relative error 7e-16 (1 + |log P|), that is 1e-14 for P = 1e-10 and 3e-12 for exp(-5000).
"""

import math

import numpy as np

from mvnorth._compile import FAST, scalar
from mvnorth._scalar.exp_log import LOG2_HIGH, LOG2_LOW, exp_parts, power_of_two
from mvnorth._scalar.instructions import stack_array
from mvnorth._scalar.log_concave import log_concave_integrator
from mvnorth._scalar.normal import Z_MAX, gauss_parts, ndtr_parts, tail_ratio
from mvnorth._tables.quadrature import NODES, WEIGHTS

INV_SQRT_2_PI = 1.0 / math.sqrt(2.0 * math.pi)
EPS = 2.3e-16
_EPS, _ROOT_EPS = 2.0**-52, 2.0**-26
ROUNDING = 1e-15  # relative error for each unit of log P; two thirds of it were seen
_NODES = np.array(NODES)
_WEIGHTS = np.array(WEIGHTS)
_SIZE = len(NODES)
_new_values = stack_array(_SIZE)
_DROP = 38.0
_PHI_ONE = 8.3  # Phi of it is 1 to rounding
_NO_LIMIT = 40.0  # and of this one exactly
_NARROW = 4.0  # width of an interval, times its distance from 0, that one rule resolves


@scalar(FAST, forceinline=True)
def interval_probability(low, high, width):
    """``(f, k)`` with Phi(high) - Phi(low) = f * 2**k, where width = high - low >= 0.

    A difference of tails; where it would cancel, phi(m) times the series of Hermite polynomials
    sum He_2j(m) (w/2)**2j / (2j+1)! for the interval m -+ w/2.
    """
    reflect = low + high > 0.0
    a = -high if reflect else low
    b = -low if reflect else high
    f_high, k = ndtr_parts(b)
    f_low, k_low = ndtr_parts(a)
    difference = f_high - f_low * power_of_two(k_low - k)
    z = min(abs(0.5 * (a + b)), Z_MAX)
    q = 0.25 * width * width
    x = z * z * q  # he_2j is He_2j(z) q**j; the recursion is the one over even degrees
    he_2 = x - q
    he_4 = (x - 5.0 * q) * he_2 - 2.0 * q * q
    he_6 = (x - 9.0 * q) * he_4 - 12.0 * q * q * he_2
    he_8 = (x - 13.0 * q) * he_6 - 30.0 * q * q * he_4
    he_10 = (x - 17.0 * q) * he_8 - 56.0 * q * q * he_6
    he_12 = (x - 21.0 * q) * he_10 - 90.0 * q * q * he_8
    series = 1.0 + he_2 / 6.0 + he_4 / 120.0 + he_6 / 5040.0 + he_8 / 362880.0
    series += he_10 / 39916800.0 + he_12 / 6227020800.0
    f_middle, k_middle = gauss_parts(z)
    narrow = width * (1.0 + z) < 0.5
    f = f_middle * (INV_SQRT_2_PI * width) * series if narrow else difference
    return f, (k_middle if narrow else k)


@scalar(FAST)
def conditional_limit(limit, y, rho, s):
    """(limit - rho y) / s, without the cancellation of rho -> 1 or -1."""
    sign = 1.0 if rho > 0.0 else -1.0
    near = (limit - sign * y) + y * (sign * s * s / (1.0 + abs(rho)))
    return (near if abs(rho) > 0.5 else limit - rho * y) / s


@scalar(FAST)
def conditional_interval(a, b, width, y, rho, s):
    """``(low, high, width)`` of the interval (a, b) given y; a narrow one keeps its width."""
    low = conditional_limit(a, y, rho, s)
    high = conditional_limit(b, y, rho, s)
    width_y = width / s
    if width < 1.0:
        if abs(low) < abs(high):
            high = low + width_y
        else:
            low = high - width_y
    return low, high, width_y


@scalar(FAST)
def _integrate_half(length, b, kappa, slope, k0):
    """Integral over [0, length] of exp(-b t - t**2/2) Phi(kappa - slope t) / 2**k0."""
    values = _new_values()  # a loop of their own, which is vector code
    for i in range(_SIZE):
        t = length * _NODES[i]
        f, k = exp_parts(-t * (b + 0.5 * t), 0.0)
        f_phi, k_phi = ndtr_parts(kappa - slope * t)
        values[i] = _WEIGHTS[i] * (f * f_phi * power_of_two(k + k_phi - k0))
    total = 0.0
    for i in range(_SIZE):
        total += values[i]
    return length * total


@scalar(FAST)
def bivariate_parts(h, k, rho, s):
    """``(f, power)`` with Pr(X <= h, Y <= k) = f * 2**power for the correlation rho.

    ``s`` is sqrt(1 - rho**2) to full relative accuracy; 0 for rho = 1 or -1.
    """
    # Conditional expressions in place of min and max, which numba compiles as functions.
    h = math.copysign(Z_MAX, h) if abs(h) > Z_MAX else h
    k = math.copysign(Z_MAX, k) if abs(k) > Z_MAX else k
    reflect = rho < 0.0
    rho = abs(rho)
    k = -k if reflect else k
    lo, hi = (h, k) if h < k else (k, h)
    f = power = 0.0
    left = False
    if s != 0.0:  # the part of g on the side of hi without the mode
        near = lo - hi + hi * (s * s / (1.0 + rho))  # lo - rho hi, for rho -> 1
        kappa = (near if rho > 0.5 else lo - rho * hi) / s
        c = rho / s
        z = Z_MAX if abs(kappa) > Z_MAX else abs(kappa)
        _, power = gauss_parts(z)
        power = power if kappa < 0.0 else 0.0  # 2**power is the size of Phi(kappa)
        # Whether g rises at hi, phi/Phi being 1/(sqrt(2 pi) R); kappa > 0 has hi > 0: it falls.
        left = hi + c * INV_SQRT_2_PI / tail_ratio(z) <= 0.0
        b = -hi if left else hi
        slope = -c if left else c
        # Where exp(-b t - t**2/2 - min(kappa - slope t, 0)**2/2) has lost exp(_DROP):
        below, above = (kappa, 0.0) if kappa < 0.0 else (0.0, kappa)
        drop = _DROP + 0.5 * below * below
        length = 2.0 * drop / (b + math.sqrt(b * b + 2.0 * drop))
        if kappa - slope * length < 0.0:
            drop = _DROP - 0.5 * above * above
            linear = b - slope * kappa
            square = 1.0 + c * c
            length = 2.0 * drop / (linear + math.sqrt(linear * linear + 2.0 * square * drop))
        if left and kappa - slope * length > _PHI_ONE:
            # Too long for the rule, compared with the rise of Phi; beyond it g is a normal density.
            length = (kappa - _PHI_ONE) / slope
            f, k_rest = exp_parts(-length * (b + 0.5 * length), 0.0)
            f *= power_of_two(k_rest - power) * tail_ratio(b + length) / INV_SQRT_2_PI
        f += _integrate_half(length, b, kappa, slope, power)
        f_hi, k_hi = gauss_parts(abs(hi))
        f *= f_hi * INV_SQRT_2_PI
        power += k_hi
    if left == reflect:  # the other part is wanted
        f_lo, k_lo = ndtr_parts(lo)
        f = f_lo - f * power_of_two(power - k_lo)
        power = k_lo
    if reflect and h > k:  # add Pr(lo < X < hi), from the end that is nearer to 0
        near, far = (lo, hi) if lo + hi > 0.0 else (-hi, -lo)
        width = hi - lo
        if width * (1.0 + abs(near)) < _NARROW:
            f_between, k_between = gauss_parts(abs(near))
            f_between *= INV_SQRT_2_PI * _integrate_half(width, near, _NO_LIMIT, 0.0, 0.0)
        else:
            f_between, k_between = ndtr_parts(-near)
            f_far, k_far = ndtr_parts(-far)
            f_between -= f_far * power_of_two(k_far - k_between)
        top = power if power > k_between else k_between
        f = f * power_of_two(power - top) + f_between * power_of_two(k_between - top)
        power = top
    return f, power


@scalar(FAST, forceinline=True)
def _box_parts(p, t):
    """phi(y) [Phi(high given y) - Phi(low given y)] / phi(y0), where y = y0 + t."""
    y0, low, high, width, slope = p
    low -= slope * t
    high -= slope * t
    f, k = exp_parts(-t * (y0 + 0.5 * t), 0.0)
    f_between, k_between = interval_probability(low, high, width)
    z = max(low, -high, 0.0)
    return f * f_between, k + k_between, EPS * (8.0 + z * z)


_integrate_box = log_concave_integrator(_box_parts)


@scalar(FAST)
def most_likely(a_1, b_1, a_2, b_2, rho):
    """First coordinate of the point of highest density in a box."""
    y = min(max(0.0, a_1), b_1)
    near = min(max(rho * y, a_2), b_2)
    return y if near == rho * y else min(max(rho * near, a_1), b_1)


@scalar(FAST)
def bivariate_box_parts(a_1, b_1, width_1, a_2, b_2, width_2, rho, s):
    """``(f, power, error)`` with Pr(a_1 < X < b_1, a_2 < Y < b_2) = f * 2**power.

    ``error`` estimates the relative error.  The widths are b_1 - a_1 and b_2 - a_2, which the
    caller may know better; s = sqrt(1 - rho**2) > 0 as in ``bivariate_parts``.
    """
    y0 = most_likely(a_1, b_1, a_2, b_2, rho)
    slope = rho / s
    low, high, width = conditional_interval(a_2, b_2, width_2, y0, rho, s)
    outside = max(low, 0.0) + min(high, 0.0)
    curvature = 1.0 if outside == 0.0 else 1.0 + slope * slope
    step = 1.0 / (abs(y0 - slope * outside) + math.sqrt(curvature))
    left = -width_1 if y0 == b_1 else a_1 - y0
    right = max(left + width_1, 0.0) if width_1 < 1.0 else b_1 - y0
    p = (y0, low, high, width, slope)
    f, k, error, _, _ = _integrate_box(p, left, right, 0.0, step)
    f_y, k_y = gauss_parts(min(abs(y0), Z_MAX))
    return f * f_y * INV_SQRT_2_PI, k + k_y, error


@scalar(FAST)
def bivariate_interval_parts(a_1, b_1, a_2, b_2, rho):
    """Like ``bivariate_box_parts`` for any |rho| <= 1; variables may be without limits."""
    det = (1.0 - rho) * (1.0 + rho)
    if b_1 == np.inf or b_2 == np.inf or det == 0.0:
        # One of them has no limits, or both are the same variable: a single interval.
        reflect = det == 0.0 and rho < 0.0
        a = max(a_1, -b_2 if reflect else a_2)
        b = max(min(b_1, -a_2 if reflect else b_2), a)
        f, power = interval_probability(a, b, b - a)
        return f, power, 0.0
    return bivariate_box_parts(a_1, b_1, b_1 - a_1, a_2, b_2, b_2 - a_2, rho, math.sqrt(det))


@scalar(FAST)
def log_with_error(f, power, error, d, det):
    """``(log P, relative error of P)`` for P = f * 2**power; infinite beyond 0.01.

    To the relative error ``error`` is added what rounding of the d x d correlations brings, which
    have the determinant ``det``, infinite if they are exact.  Close to singular it counts 1/det
    times, and the more the smaller the probability is, but it never moves the probability by more
    than the root of it.
    """
    if not f > 0.0:
        return -np.inf, np.inf
    log_prob = power * LOG2_HIGH + (math.log(f) + power * LOG2_LOW)
    log_prob = 0.0 if log_prob > 0.0 else log_prob
    error += ROUNDING * (2.0 - log_prob)
    if not error < 0.01:
        return log_prob, np.inf
    magnified = _EPS * (d - 4.0 * log_prob) / (det if det > 1e-300 else 1e-300)
    at_most = _ROOT_EPS * math.exp(-log_prob)
    return log_prob, error + (magnified if magnified < at_most else at_most)
