"""Boxes of diag(c) + v v^T: the integral over the common factor of a product of intervals of Phi.

The integrand is log-concave, as for one-sided limits.  It is summed by the trapezoidal rule around
its mode, in units of its width there, and the error is claimed from the rules with a half and a
third of the nodes, as for the chi variable of Student's t (``mvnorth/_chi_rule.py``).  Where that
does not reach rounding, or a coordinate changes steeply (c much less than v**2) or has limits close
to each other, it is integrated adaptively.
"""

import math

import numpy as np

from mvnorth._compile import FAST, SUMS, inner, kernel, scalar
from mvnorth._cpu.chi_rule import claim
from mvnorth._cpu.factors_mode import find_mode
from mvnorth._cpu.factors_points import BETA, LOWER, ROWS, SCALE, UPPER, WIDTH, A, B, K, Place, V
from mvnorth._scalar.bivariate import interval_probability
from mvnorth._scalar.exp_log import log_scaled, power_of_two, split_mantissa
from mvnorth._scalar.log_concave import log_concave_integrator
from mvnorth._scalar.normal import Z_MAX, gauss_parts, interval_parts

_EPS = 2.0**-52
_INV_SQRT_2_PI = 1.0 / math.sqrt(2.0 * math.pi)
_BLOCK = 32  # nodes at a time
_MOST = 12  # blocks on either side of the mode
_STEP = 0.42
_STEEPEST = 1.0  # change of a limit from node to node
_HALVINGS = 3
_NEGLIGIBLE = 1e-18  # share of the sum that the last node may have
_TOLERANCE = 1e-14
_NARROWEST = 0.05  # interval in deviations that is a difference of two Phi
# A block of nodes: their distance from the mode, and the integrand there, VALUE * 2**POWER.
_T, _VALUE, _POWER = 0, 1, 2


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


@inner(FAST)
def _evaluate(row, place, nodes):
    """Set the integrand at a block of nodes."""
    width = place.map[0, 0]
    for p in range(_BLOCK):
        z = abs(place.z[0] + width * nodes[_T, p])
        f, k = gauss_parts(Z_MAX if z > Z_MAX else z)
        nodes[_VALUE, p] = f
        nodes[_POWER, p] = k
    for i in range(row.shape[1]):
        a, b, beta = row[A, i], row[B, i], row[BETA, i]
        for p in range(_BLOCK):
            shift = beta * nodes[_T, p]
            _, part, k, _ = interval_parts(a + shift, b + shift)
            nodes[_VALUE, p] *= part
            nodes[_POWER, p] += k
        if i % 4 == 3:
            for p in range(_BLOCK):
                m, k = split_mantissa(nodes[_VALUE, p])
                nodes[_POWER, p] += k if nodes[_VALUE, p] > 0.0 else 0.0
                nodes[_VALUE, p] = m if nodes[_VALUE, p] > 0.0 else 0.0


@inner(SUMS)
def _add_block(nodes, first, direction, top, sums):
    """Add values in units of 2**top to the sums over nodes by their number mod 6; return the last.

    The numbers are first, first + direction, and so on.
    """
    value = 0.0
    for p in range(_BLOCK):
        value = nodes[_VALUE, p] * power_of_two(nodes[_POWER, p] - top)
        sums[(first + direction * p) % 6] += value
    return value


@inner(FAST)
def _sum(row, place, nodes, step, sums):
    """Return ``(total, top, used)``: the sum over all nodes that count is total * 2**top.

    It is infinite if there are too many of them.
    """
    for k in range(6):
        sums[k] = 0.0
    used = np.int64(0)
    total = top = 0.0
    for side in range(2):  # nodes 0, 1, 2 ... to the right of the mode, -1, -2 ... to the left
        direction = 1 - 2 * side
        for block in range(_MOST):
            first = direction * block * _BLOCK - side
            for p in range(_BLOCK):
                nodes[_T, p] = (first + direction * p) * step
            _evaluate(row, place, nodes)
            if used == 0:
                top = nodes[_POWER, 0] + split_mantissa(nodes[_VALUE, 0])[1]
            last = _add_block(nodes, first, direction, top, sums)
            used += _BLOCK
            total = 0.0
            for k in range(6):
                total += sums[k]
            if last <= _NEGLIGIBLE * total:
                break
            if block == _MOST - 1:
                return np.inf, top, used
    return total, top, used


@inner(FAST)
def _claim_error(sums, total):
    """Return the relative error of the rule, from rules with a half and a third of the nodes."""
    halves = abs(2.0 * (sums[0] + sums[2] + sums[4]) / total - 1.0)
    thirds = 0.0
    for k in range(3):
        thirds = max(thirds, abs(3.0 * (sums[k] + sums[k + 3]) / total - 1.0))
    return claim(np.inf, halves, thirds)


@inner(FAST)
def _by_trapezoid(row, place, nodes, sums):
    """Return ``(f, k, error, used)``: the integral is f * 2**k; a failure has an infinite error."""
    used = np.int64(0)
    log_volume, rounding = find_mode(row, 1, False, place)
    steepest, narrowest = 0.0, np.inf
    for i in range(row.shape[1]):
        steepest = max(steepest, abs(row[BETA, i]))
        narrowest = min(narrowest, row[WIDTH, i])
        rounding += 8.0 * _EPS / min(row[WIDTH, i], 1.0)
    if not (log_volume > -np.inf and rounding < 1e-3 and narrowest > _NARROWEST):
        return 0.0, 0.0, np.inf, used
    step = _STEP
    for _ in range(_HALVINGS):
        if step * steepest <= _STEEPEST:
            total, top, more = _sum(row, place, nodes, step, sums)
            used += more
            if not 0.0 < total < np.inf:
                break
            error = _claim_error(sums, total)
            if error <= _TOLERANCE:
                scale = _INV_SQRT_2_PI * step * place.map[0, 0]
                return total * scale, top, error + 2.0 * rounding, used
        step *= 0.5
    return 0.0, 0.0, np.inf, used


@inner()
def _load(row, lower, upper, scale, v):
    for i in range(row.shape[1]):
        row[UPPER, i] = upper[i]
        row[LOWER, i] = lower[i]
        row[SCALE, i] = scale[i]
        row[WIDTH, i] = (upper[i] - lower[i]) * scale[i]
        for j in range(K):
            row[V + j, i] = v[i] if j == 0 else 0.0


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
    row = np.empty((ROWS, lower.shape[1]))
    place = Place(np.empty(K), np.empty((K, K)), np.empty((2, K)), np.empty((2, K, K)))
    nodes, sums = np.empty((3, _BLOCK)), np.empty(6)
    for b in range(begin, end):
        shared = 0 if scale.shape[0] == 1 else b
        _load(row, lower[b], upper[b], scale[shared], v[shared])
        f, k, rel_error[b], used[b] = _by_trapezoid(row, place, nodes, sums)
        if rel_error[b] == np.inf:
            p = (lower[b], upper[b], scale[shared], v[shared])
            f, k, rel_error[b], _, more = _integrate(p, -np.inf, np.inf, 0.0, 1.0)
            used[b] += more
        log_prob[b] = log_scaled(f, k) if f > 0.0 else -np.inf
