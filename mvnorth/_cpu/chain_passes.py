"""The transfer operator of a Gauss-Markov chain, applied once along the chain.

Every coordinate has panels of NODES Gauss-Legendre nodes on a window, all of one width, so that

    exp(-(A + u' - u)**2/2) = exp(-A**2/2) exp(-A u') exp(A u) exp(-(u' - u)**2/2)

where A is the distance of two panels and the last factor, a matrix, the same for all pairs of them.
"""

import math
from collections import namedtuple

import numpy as np

from mvnorth._compile import FAST, SUMS, inner
from mvnorth._scalar.exp_log import LOG2, exp_parts, power_of_two

NODES = 16  # a panel; _multiply has that many terms
_RULE = np.array(np.polynomial.legendre.leggauss(NODES))
_REACH = 9.5  # t is normal with variance <= 1 and mean near 0, or more concentrated: 1e-20
_INV_SQRT_2_PI = 1.0 / math.sqrt(2.0 * math.pi)

# low, high (n,): limits.  rho, gap, noise (n,): 1 - rho and sqrt(1 - rho**2), of the link to the
# coordinate before; 0, 1, 1 for the first.  place (n,): r.  left, right (n,): windows in y.
# slope (n,): g.  sigma (n,).  panels (n,): how many.
Chain = namedtuple("Chain", "low high rho gap noise place left right slope sigma panels")


@inner(FAST)
def new_rows(chain):
    """Five arrays of as many numbers as the largest coordinate has nodes.

    Rows of one array would be unpacked as arrays of any layout, which are no vector code.
    """
    n = NODES * np.max(chain.panels)
    return np.empty(n), np.empty(n), np.empty(n), np.empty(n), np.empty(n)


@inner(FAST)
def grid(chain, i, y, w):
    """Nodes and weights of coordinate i; returns centre of the first panel, their width, number."""
    count = chain.panels[i]
    width = (chain.right[i] - chain.left[i]) / count
    for p in range(count):
        centre = chain.left[i] + (p + 0.5) * width
        for j in range(NODES):
            y[p * NODES + j] = centre + 0.5 * width * _RULE[0, j]
            w[p * NODES + j] = 0.5 * width * _RULE[1, j]
    return chain.left[i] + 0.5 * width, width, count


@inner(FAST)
def panels_of(chain, i):
    """What ``grid`` returns, without nodes."""
    width = (chain.right[i] - chain.left[i]) / chain.panels[i]
    return chain.left[i] + 0.5 * width, width, chain.panels[i]


@inner(FAST)
def tilt(chain, i, y, n, factors):
    """exp(-g y - top) at the nodes, at most 1; returns top."""
    g = chain.slope[i]
    top = max(-g * chain.left[i], -g * chain.right[i])
    for k in range(n):
        f, power = exp_parts(-g * y[k] - top, 0.0)
        factors[k] = f * power_of_two(power)
    return top


@inner(FAST)
def _multiply(v, m, out):
    """out = v m for 16 nodes, written so that it becomes vector code: 30 ns, half of a loop's."""
    a0, a1, a2, a3, a4, a5, a6, a7 = v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7]
    b0, b1, b2, b3, b4, b5, b6, b7 = v[8], v[9], v[10], v[11], v[12], v[13], v[14], v[15]
    for k in range(NODES):
        s = a0 * m[0, k] + a1 * m[1, k] + a2 * m[2, k] + a3 * m[3, k]
        t = a4 * m[4, k] + a5 * m[5, k] + a6 * m[6, k] + a7 * m[7, k]
        s += b0 * m[8, k] + b1 * m[9, k] + b2 * m[10, k] + b3 * m[11, k]
        t += b4 * m[12, k] + b5 * m[13, k] + b6 * m[14, k] + b7 * m[15, k]
        out[k] = s + t


@inner(FAST)
def spread(start, step, sources, values, to, to_step, targets, out, work):
    """out_k = sum_j values_j exp(-(y'_k - y_j)**2/2) over nodes of panels, in units of the noise.

    start, step, sources : centre of the first source panel, width, how many; likewise of targets
    work : (NODES + 2, NODES)
    """
    matrix, weighted, received = work[:NODES], work[NODES], work[NODES + 1]
    half, to_half = 0.5 * step, 0.5 * to_step
    for j in range(NODES):
        for k in range(NODES):
            t = to_half * _RULE[0, k] - half * _RULE[0, j]
            f, power = exp_parts(-0.5 * t * t, 0.0)
            matrix[j, k] = f * power_of_two(power)
    out[: targets * NODES] = 0.0
    reach = _REACH + half + to_half
    first = 0
    for q in range(targets):
        centre = to + q * to_step
        while first < sources and start + first * step < centre - reach:
            first += 1
        for p in range(first, sources):
            A = centre - (start + p * step)
            if A + reach < 0.0:
                break
            for j in range(NODES):
                f, power = exp_parts(A * half * _RULE[0, j] - 0.5 * A * A, 0.0)
                weighted[j] = values[p * NODES + j] * (f * power_of_two(power))
            _multiply(weighted, matrix, received)
            for k in range(NODES):
                f, power = exp_parts(-A * to_half * _RULE[0, k], 0.0)
                out[q * NODES + k] += received[k] * (f * power_of_two(power))


@inner(SUMS)
def gather(start, step, sources, values, to):
    """sum_j values_j exp(-(to - y_j)**2/2) over nodes of panels: ``spread`` to one point."""
    half = 0.5 * step
    total = 0.0
    for p in range(sources):
        distance = to - (start + p * step)
        for j in range(NODES):
            t = distance - half * _RULE[0, j]
            f, power = exp_parts(-0.5 * t * t, 0.0)
            total += values[p * NODES + j] * (f * power_of_two(power))
    return total


@inner(FAST)
def normalise(values, n):
    """Scale by a power of two so that the largest value is about one; returns the power."""
    largest = 0.0
    for k in range(n):
        largest = max(largest, values[k])
    if not (largest > 0.0 and largest < np.inf):
        return 0.0
    _, exponent = math.frexp(largest)
    scale = math.ldexp(1.0, -exponent)
    for k in range(n):
        values[k] *= scale
    return float(exponent)


@inner(FAST)
def add(total, term):
    """Neumaier's sum: total (2,) and what it lost."""
    s = total[0] + term
    lost = (total[0] - s) + term if abs(total[0]) >= abs(term) else (term - s) + total[0]
    total[0] = s
    total[1] += lost


@inner(FAST)
def forwards(chain, first, kept):
    """log of the probability, without exp(-e**2/2); NaN or -inf if the windows miss it.

    ``kept``, where not empty, receives values times tilts of coordinate i from first[i] on.
    """
    n = chain.low.size
    y, w, values, before, factors = new_rows(chain)
    work = np.empty((NODES + 2, NODES))
    logs = np.zeros(2)
    powers = 0.0
    start = step = 0.0
    count = np.int64(0)  # a constant would compile ``spread`` twice
    for i in range(n):
        scale = 1.0 / chain.noise[i]
        centre, width, panels = grid(chain, i, y, w)
        size = panels * NODES
        if i == 0:
            for k in range(size):
                f, power = exp_parts(-0.5 * y[k] * y[k], 0.0)
                values[k] = f * power_of_two(power)
        else:
            pull = chain.rho[i] * scale
            spread(
                pull * start, pull * step, count, before, scale * centre, scale * width, panels,
                values, work,
            )  # fmt: skip
        add(logs, tilt(chain, i, y, size, factors))
        for k in range(size):
            values[k] *= factors[k] * (scale * _INV_SQRT_2_PI)
        powers += normalise(values, size)
        if kept.size:
            kept[first[i] : first[i] + size] = values[:size]
        for k in range(size):
            before[k] = values[k] * w[k]
        start, step, count = centre, width, panels
    total = 0.0
    for k in range(count * NODES):
        total += before[k]
    return math.log(total) + (powers * LOG2 + (logs[0] + logs[1])) if total > 0.0 else -np.inf
