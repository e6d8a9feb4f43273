"""Box probabilities of Gauss-Markov chains by their transfer operator on quadrature nodes.

Coordinates are standardised and turned so that neighbours' correlations rho are >= 0:
x_(i+1) = rho_i x_i + s_i e.  With a reference path r and x = r + y the density is

    exp(-sum_i e_i(r)**2/2) prod_i exp(-g_i y_i) exp(-t_i**2/2) / (s_i sqrt(2 pi)),
    t_i = (y_i - rho y_(i-1))/s,    e_i = the same of r,    g_i = e_i/s_(i-1) - rho_i e_(i+1)/s_i

so that, with r the mean of the chain between its limits, y and t are of order one however far out
the limits are.  Coordinate i has panels of Gauss-Legendre nodes on a window that holds its mass;
between limits integrands are mixtures of normal densities of deviation sigma_i = Q_ii**-1/2
(Q the precision), which fixes the width of panels.  Windows start from ``chain_location`` and are
measured by passes forwards and backwards on wide panels: their product is the density of each
coordinate given all limits.  The error is measured by a second pass on panels wider by a third.
"""

import math

import numpy as np

from mvnorth._compile import FAST, inner, kernel
from mvnorth._cpu.chain_location import locate
from mvnorth._cpu.chain_passes import (
    NODES,
    Chain,
    add,
    forwards,
    grid,
    new_rows,
    normalise,
    spread,
    tilt,
)

_PANEL, _COARSE = 5.5, 11.0  # width of panels in sigma: to integrate, to find the windows
_LEAST = 3  # panels of a coordinate: in each a density changes by exp(16) or so
_KEEP = 1e-21  # of the peak: what lies beyond is cut off a window
_NARROW = 1e-18  # of the peak: a window that ends above must be widened
_WIDEN = 1e-26  # one that ends above is widened if any must be
_ROUNDS = 30  # of widening, at most
_MOST_PANELS = 65536  # a coordinate
_MOST_NODES = 20_000_000  # kept at a time, 160 MB
# Pairs of panels in a pass, 48 ns each: what takes more is faster by other methods.
_MOST_PAIRS, _MOST_PAIRS_EACH = 1e6, 3e4
_BAND = 19.0  # deviations of the noise that a panel is spread over
_REFINEMENTS = 3
_ROUNDING = 1e-15
_GOOD = 1e-10  # difference of two widths of panels that is good enough, times the root of d
_GAIN = 0.01  # of panels narrower by 3/4 or more; it would be (3/4)**32 = 1e-4 asymptotically


@inner(FAST)
def _resize(chain, i, y, w, p, n, cut):
    """Fit the window of coordinate i to its density p at the nodes; True if it was too narrow.

    ``cut`` (2, n) receives the window without the parts where there is nothing.
    """
    peak = total = first = 0.0
    for k in range(n):
        peak = max(peak, p[k])
        total += p[k] * w[k]
        first += p[k] * w[k] * y[k]
    # The mean becomes the reference; limits are taken again from it, exactly.
    old = chain.place[i]
    moved = old + first / total
    if not (moved > chain.low[i] and moved < chain.high[i]):
        moved = old
    low, high = chain.low[i] - moved, chain.high[i] - moved
    at_low, at_high = chain.left[i] <= chain.low[i] - old, chain.right[i] >= chain.high[i] - old
    left = low if at_low else chain.left[i] - (moved - old)
    right = high if at_high else chain.right[i] - (moved - old)
    width = right - left
    a, b = 0, n - 1
    while p[a] < _KEEP * peak:
        a += 1
    while p[b] < _KEEP * peak:
        b -= 1
    cut[0, i] = left if a == 0 else y[a - 1] - (moved - old)
    cut[1, i] = right if b == n - 1 else y[b + 1] - (moved - old)
    # Neighbours of what is too narrow are widened with it, or it would not show again.
    if p[0] > _WIDEN * peak and not at_low:
        left = max(low, left - 0.5 * width)
    if p[n - 1] > _WIDEN * peak and not at_high:
        right = min(high, right + 0.5 * width)
    narrow = (p[0] > _NARROW * peak and not at_low) or (p[n - 1] > _NARROW * peak and not at_high)
    chain.place[i], chain.left[i], chain.right[i] = moved, left, right
    return narrow


@inner(FAST)
def _measure(chain):
    """Fit all windows by coarse passes forwards and backwards: 0 if they fit, 1 if too narrow.

    -1 where the passes find nothing, or the windows ask for too many nodes.
    """
    n = chain.low.size
    first = np.zeros(n + 1, dtype=np.int64)
    for i in range(n):
        first[i + 1] = first[i] + NODES * chain.panels[i]
    if first[n] > _MOST_NODES:
        return -1
    kept = np.empty(first[n])
    if not np.isfinite(forwards(chain, first, kept)):
        return -1
    y, w, values, after, factors = new_rows(chain)
    work = np.empty((NODES + 2, NODES))
    start = step = 0.0
    count = np.int64(0)
    narrow = False
    cut = np.empty((2, n))
    for back in range(n):
        i = n - 1 - back
        centre, width, panels = grid(chain, i, y, w)
        size = panels * NODES
        if i == n - 1:
            values[:size] = 1.0
        else:
            scale = 1.0 / chain.noise[i + 1]
            pull = chain.rho[i + 1] * scale
            spread(
                scale * start, scale * step, count, after, pull * centre, pull * width, panels,
                values, work,
            )  # fmt: skip
            normalise(values, size)
        tilt(chain, i, y, size, factors)
        largest = 0.0
        for k in range(size):
            after[k] = values[k] * factors[k] * w[k]
            values[k] *= kept[first[i] + k]
            largest = max(largest, values[k])
        if not (largest > 0.0 and largest < np.inf):
            return -1
        start, step, count = centre, width, panels
        narrow |= _resize(chain, i, y, w, values, size, cut)
    if not narrow:
        chain.left[:], chain.right[:] = cut[0], cut[1]
    return 1 if narrow else 0


@inner(FAST)
def _aim(chain, panel, least):
    """Slopes and panels for the places and windows; ``(log of exp(-e**2/2), whether possible)``."""
    n = chain.low.size
    total = np.zeros(2)
    after = pairs = wide = 0.0
    possible = True
    for back in range(n):
        i = n - 1 - back
        r = chain.place[i]
        before = chain.place[i - 1] if i > 0 else 0.0
        # r - rho r', without cancellation where rho is near one
        e = ((r - before) + chain.gap[i] * before) / chain.noise[i]
        chain.slope[i] = e / chain.noise[i] - after
        after = chain.rho[i] * e / chain.noise[i]
        add(total, -0.5 * e * e)
        wanted = (chain.right[i] - chain.left[i]) / (panel * chain.sigma[i])
        possible &= wanted <= _MOST_PANELS
        chain.panels[i] = max(least, math.ceil(min(wanted, float(_MOST_PANELS))))
        width = (chain.right[i] - chain.left[i]) / chain.panels[i]
        if back > 0:
            pull = abs(chain.rho[i + 1]) * width
            reached = _BAND * chain.noise[i + 1] + wide
            near = min(float(chain.panels[i]), reached / pull + 2.0 if pull > 0.0 else np.inf)
            pairs += chain.panels[i + 1] * near
        wide = width
    possible &= pairs <= _MOST_PAIRS + n * _MOST_PAIRS_EACH
    return total[0] + total[1], possible


@inner(FAST)
def coarsen(chain):
    """Fewer panels, a third wider or 2 instead of 3: what that changes measures the error."""
    for i in range(chain.low.size):
        chain.panels[i] -= max(1, chain.panels[i] // 4)


@inner(FAST)
def _integrate(chain, panels):
    """``(log_prob, rel_error, nodes)`` of one chain; ``panels`` (n,) receives those of the result.

    Places, windows and slopes stay in the chain.
    """
    if chain.low.size == 0:
        return 0.0, 0.0, 0
    locate(
        chain.low, chain.high, chain.rho[1:], chain.noise[1:], chain.place, chain.left, chain.right
    )
    for i in range(chain.low.size):  # ends at limits have been moved by a rounding
        low, high = chain.low[i] - chain.place[i], chain.high[i] - chain.place[i]
        near = 1e-9 * (chain.right[i] - chain.left[i])
        if chain.left[i] < low + near:
            chain.left[i] = low
        if chain.right[i] > high - near:
            chain.right[i] = high
    narrow = 1
    rounds = 0
    while narrow == 1:
        _, possible = _aim(chain, _COARSE, np.int64(_LEAST - 1))
        if not possible or rounds == _ROUNDS:
            return -np.inf, np.inf, 0
        narrow = _measure(chain)
        rounds += 1
    if narrow < 0:
        return -np.inf, np.inf, 0
    panel, least = _PANEL, np.int64(_LEAST)  # a constant would compile ``_aim`` twice
    nothing, none = np.empty(0, dtype=np.int64), np.empty(0)
    log_prob, error, most = -np.inf, np.inf, 0
    for _ in range(_REFINEMENTS):
        base, possible = _aim(chain, panel, least)
        if not possible:
            break
        fine = forwards(chain, nothing, none)
        most = NODES * np.max(chain.panels)
        panels[:] = chain.panels
        coarsen(chain)
        coarser = forwards(chain, nothing, none)
        difference = abs(math.expm1(min(max(coarser - fine, -700.0), 700.0)))
        if not np.isfinite(difference):
            return -np.inf, np.inf, most
        log_prob, error = base + fine, _GAIN * difference
        if difference < _GOOD * math.sqrt(chain.low.size):
            break
        panel, least = 0.6 * panel, least + 1
    return log_prob, error, most


@inner(FAST)
def load(low, high, rho, noise):
    """A ``Chain`` without the coordinates that have no limits: they are only links."""
    d = low.size
    lo, hi, place, left, right = np.zeros(d), np.zeros(d), np.zeros(d), np.zeros(d), np.zeros(d)
    slope, sigma, r, gap, s = np.zeros(d), np.zeros(d), np.zeros(d), np.ones(d), np.ones(d)
    n = 0
    total_rho, total_noise2 = 0.0, 1.0  # of the link so far; of the first with a standard normal
    for i in range(d):
        if i > 0:
            total_noise2 = noise[i - 1] ** 2 + rho[i - 1] ** 2 * total_noise2
            total_rho *= abs(rho[i - 1])
        if low[i] == -np.inf and high[i] == np.inf:
            continue
        lo[n], hi[n] = low[i], high[i]
        if n > 0:
            r[n], s[n] = total_rho, math.sqrt(total_noise2)
            gap[n] = total_noise2 / (1.0 + total_rho)
        total_rho, total_noise2 = 1.0, 0.0
        n += 1
    for i in range(n):
        precision = 1.0 / s[i] ** 2
        if i < n - 1:
            precision += (r[i + 1] / s[i + 1]) ** 2
        sigma[i] = 1.0 / math.sqrt(precision)
    panels = np.ones(n, dtype=np.int64)
    return Chain(
        lo[:n], hi[:n], r[:n], gap[:n], s[:n], place[:n], left[:n], right[:n], slope[:n],
        sigma[:n], panels,
    )  # fmt: skip


@inner(FAST)
def turn(lower, upper, rho, low, high, signs):
    """Limits (d,) of coordinates turned by ``signs`` so that no correlation is negative."""
    sign = 1.0
    for i in range(lower.size):
        if i > 0 and rho[i - 1] < 0.0:
            sign = -sign
        signs[i] = sign
        low[i] = lower[i] if sign > 0.0 else -upper[i]
        high[i] = upper[i] if sign > 0.0 else -lower[i]


@kernel()
def markov(
    lower, upper, rho, noise, relative, log_prob, rel_error, rule, used, found, begin, end
):  # fmt: skip
    """Log probabilities of rows [begin, end), and their errors.

    Parameters
    ----------
    lower, upper : (B, d) limits of standardised coordinates in the order of the chain
    rho, noise : (1 or B, d - 1) correlations of neighbours, and sqrt(1 - rho**2) > 0
    relative : (B,) relative error of limits and noises; rows with an infinite one are no chains
    log_prob, rel_error, rule, used : (B,) results; rel_error is that of the probability, infinite
        where the chain was not resolved; rule is what the rule and its windows may have missed of
        it; used is the largest number of nodes of a coordinate
    found : (B, 5, d) receives place, left, right, slope and panels of the coordinates that have
        limits, for derivatives; or (0, 5, d)
    """
    d = lower.shape[1]
    low, high, signs = np.empty(d), np.empty(d), np.empty(d)
    for b in range(begin, end):
        log_prob[b], rel_error[b], rule[b], used[b] = -np.inf, np.inf, np.inf, 0
        if relative[b] == np.inf:
            continue
        shared = 0 if rho.shape[0] == 1 else b
        turn(lower[b], upper[b], rho[shared], low, high, signs)
        chain = load(low, high, rho[shared], noise[shared])
        panels = np.ones_like(chain.panels)
        log_p, error, used[b] = _integrate(chain, panels)
        total = error + _ROUNDING * (d + abs(log_p))
        total += relative[b] * (d + 2.0 * abs(log_p))
        if abs(log_p) < np.inf and total < np.inf:
            log_prob[b], rel_error[b], rule[b] = log_p, total, error
        if found.shape[0] > 0:
            n = panels.size
            found[b, 0, :n], found[b, 1, :n] = chain.place, chain.left
            found[b, 2, :n], found[b, 3, :n] = chain.right, chain.slope
            found[b, 4, :n] = panels
