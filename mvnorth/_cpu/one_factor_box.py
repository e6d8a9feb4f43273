"""Boxes of diag(c) + v v^T: the integral over the common factor of a product of intervals of Phi.

The integrand is log-concave as for one-sided limits; it is integrated adaptively.
"""

import math

import numpy as np

from mvnorth._compile import FAST, kernel, scalar
from mvnorth._scalar.bivariate import interval_probability
from mvnorth._scalar.exp_log import log_scaled, split_mantissa
from mvnorth._scalar.log_concave import log_concave_integrator
from mvnorth._scalar.normal import Z_MAX, gauss_parts

_EPS = 2.0**-52
_INV_SQRT_2_PI = 1.0 / math.sqrt(2.0 * math.pi)


@scalar(FAST)
def _density(p, z):
    """``(f, k, error)``: phi(z) prod_i Pr(lower_i <= v_i z + sqrt(c_i) N <= upper_i) = f * 2**k."""
    lower, upper, scale, v = p
    f, k = gauss_parts(min(abs(z), Z_MAX))
    f *= _INV_SQRT_2_PI
    for i in range(lower.size):
        a = (lower[i] - v[i] * z) * scale[i]
        b = (upper[i] - v[i] * z) * scale[i]
        part, power = interval_probability(a, b, (upper[i] - lower[i]) * scale[i])
        if not part > 0.0:
            return 0.0, 0.0, 0.0
        f, exponent = split_mantissa(f * part)
        k += power + exponent
    return f, k, _EPS * (4.0 + lower.size)


_integrate = log_concave_integrator(_density)


@kernel()
def one_factor_box(lower, upper, scale, v, log_prob, rel_error, used, begin, end):
    """Log probabilities of rows [begin, end), bounds on the relative errors, and nodes used.

    Parameters
    ----------
    lower, upper : (B, d) limits with lower < upper, infinite ones allowed
    scale : (1 or B, d) 1/sqrt(c)
    v : (1 or B, d), as many as scale
    log_prob, rel_error, used : (B,) results; rel_error is infinite where nothing is known
    """
    for b in range(begin, end):
        shared = 0 if scale.shape[0] == 1 else b
        p = (lower[b], upper[b], scale[shared], v[shared])
        f, k, rel_error[b], _, used[b] = _integrate(p, -np.inf, np.inf, 0.0, 1.0)
        log_prob[b] = log_scaled(f, k) if f > 0.0 else -np.inf
