"""Derivatives of log P for Gauss-Markov chains, from densities at limits, with their errors.

With D the densities at limits given all limits, and turned, standardised coordinates,

    d log P/d mean_i = D_low - D_high = E[(Q x)_i],          Q the precision of the chain,
    d log P/d cov_ij = (sum over limits of i and of j, one + for low and - for high, of D_ij)/2

of which the first has two forms that round differently: between limits that are close D cancel,
between those that are not the noise may be small.  Each mean takes the better one.  P does not
change if a coordinate and its limits are scaled, which gives the diagonal,

    2 Sigma_ii G_ii = -(high_i D_high - low_i D_low) - 2 sum_(j != i) G_ij Sigma_ij
"""

import numpy as np

from mvnorth._compile import FAST, inner, kernel
from mvnorth._cpu.chain_derivatives import (
    HIGH,
    LOW,
    MEAN,
    PEAK,
    SETTLED,
    SPREAD,
    densities,
    pair_densities,
)
from mvnorth._cpu.markov import coarsen, load, turn

_GAIN = 0.1  # of panels narrower by 3/4 or more, entry by entry
_ROUNDING = 4e-15  # relative, of a density
_CUT = 1e-19  # of the highest density: what windows and links that were cut off may have held
_STEEP = 4.0  # over sigma: the highest density of a coordinate given another, about
_EPS = 2.0**-52


@inner(FAST)
def _log_size(x):
    """|log x|, and 0 where it does not matter."""
    return abs(np.log(x)) if x > 1e-300 else 0.0


@inner(FAST)
def _limit_errors(chain, fine, coarse, common, relative, error):
    """Absolute errors (2, n) of the densities at limits."""
    for i in range(chain.low.size):
        for side in range(2):
            p = fine[side, i]
            limit = chain.low[i] if side == LOW else chain.high[i]
            error[side, i] = 0.0
            if np.isfinite(limit):
                off = common + 2.0 * relative * _log_size(p * chain.sigma[i])
                change = _GAIN * abs(p - coarse[side, i])
                error[side, i] = change + p * off + _CUT * fine[PEAK, i]


@inner(FAST)
def _mean_slopes(chain, fine, coarse, error, common, firm, mean, mean_error):
    """Derivatives in the means (n,) and their errors.

    ``firm`` is the relative error of coordinates, without that of the widths of intervals.
    """
    n = chain.low.size
    after = after_error = 0.0
    for back in range(n):
        i = n - 1 - back
        r = chain.place[i]
        before = chain.place[i - 1] if i > 0 else 0.0
        precision = 1.0 / chain.noise[i] ** 2
        step, size = fine[MEAN, i], abs(r)
        off = _GAIN * abs(step - coarse[MEAN, i]) + common * fine[SPREAD, i]
        if i > 0:
            rho = chain.rho[i]
            step -= rho * fine[MEAN, i - 1]
            size += rho * abs(before)
            off += rho * (
                _GAIN * abs(fine[MEAN, i - 1] - coarse[MEAN, i - 1]) + common * fine[SPREAD, i - 1]
            )
        pull = ((r - before) + chain.gap[i] * before + step) * precision
        pull_error = (off + firm * size) * precision + 2.0 * firm * abs(pull)
        mean[i] = fine[LOW, i] - fine[HIGH, i]
        mean_error[i] = error[LOW, i] + error[HIGH, i]
        if pull_error + after_error < mean_error[i]:
            mean[i], mean_error[i] = pull - after, pull_error + after_error
        after, after_error = chain.rho[i] * pull, chain.rho[i] * pull_error


@inner(FAST)
def _pair_errors(chain, fine, coarse, until, common, relative, pairs, pairs_coarse):
    """Turn ``pair_densities`` into derivatives, and those on wider panels into their errors."""
    n = chain.low.size
    for i in range(n):
        for j in range(i + 1, n):
            size = pairs[j, i]
            steep_i = fine[PEAK, i] + _STEEP / chain.sigma[i]
            steep_j = fine[PEAK, j] + _STEEP / chain.sigma[j]
            off = common + 2.0 * relative * _log_size(size * chain.sigma[i] * chain.sigma[j])
            e = _GAIN * abs(pairs[i, j] - pairs_coarse[i, j]) + size * off
            e += _CUT * (fine[PEAK, i] * steep_j + fine[PEAK, j] * steep_i)
            if j > until[i]:
                e += SETTLED * (fine[LOW, i] + fine[HIGH, i]) * steep_j
            pairs[i, j] = pairs[j, i] = 0.5 * pairs[i, j]
            pairs_coarse[i, j] = pairs_coarse[j, i] = 0.5 * e


@inner(FAST)
def _diagonal(chain, fine, error, mean, mean_error, firm, pairs, pairs_error):
    """Fill the diagonals of the derivatives in the covariance, and of their errors."""
    n = chain.low.size
    for i in range(n):
        low, high = chain.low[i], chain.high[i]
        total = off = 0.0
        if low > -np.inf:
            total -= low * fine[LOW, i]
            off += abs(low) * (error[LOW, i] + firm * fine[LOW, i])
        if high < np.inf:
            total += high * fine[HIGH, i]
            off += abs(high) * (error[HIGH, i] + firm * fine[HIGH, i])
        if low > -np.inf and high < np.inf:
            half, centre = 0.5 * (high - low), 0.5 * (high + low)
            both = fine[LOW, i] + fine[HIGH, i]
            either = half * (error[LOW, i] + error[HIGH, i] + firm * both)
            either += abs(centre) * (mean_error[i] + firm * abs(mean[i]))
            if either < off:
                total, off = half * both - centre * mean[i], either
        correlation = 1.0
        for j in range(i + 1, n):
            correlation *= chain.rho[j]
            total += 2.0 * correlation * pairs[i, j]
            size = firm * (j - i) * abs(pairs[i, j])
            off += 2.0 * correlation * (pairs_error[i, j] + size)
        correlation = 1.0
        for back in range(i):
            j = i - 1 - back
            correlation *= chain.rho[j + 1]
            total += 2.0 * correlation * pairs[i, j]
            size = firm * (i - j) * abs(pairs[i, j])
            off += 2.0 * correlation * (pairs_error[i, j] + size)
        pairs[i, i], pairs_error[i, i] = -0.5 * total, 0.5 * off


@inner(FAST)
def _observe(chain, with_pairs, marks, pairs, until):
    """Densities on the panels of the chain; what they come from is not kept."""
    messages, good = densities(chain, with_pairs, marks)
    return good and (not with_pairs or pair_densities(chain, messages, marks, pairs, until))


@inner(FAST)
def _differentiate(chain, with_pairs, log_prob, rel_error, relative, firm, limits, covs):
    """Derivatives of one chain: limits (2, 3, n), covs (2, n, n); False if they are not known."""
    n = chain.low.size
    fine, coarse = np.empty((5, n)), np.empty((5, n))
    until = np.zeros(n, dtype=np.int64)
    if not _observe(chain, with_pairs, fine, covs[0], until):
        return False
    coarsen(chain)
    if not _observe(chain, with_pairs, coarse, covs[1], np.zeros_like(until)):
        return False
    moved = 0.0  # what rounding of all limits does to log P
    for i in range(n):
        moved += abs(chain.low[i]) * fine[LOW, i] if chain.low[i] > -np.inf else 0.0
        moved += abs(chain.high[i]) * fine[HIGH, i] if chain.high[i] < np.inf else 0.0
    # A density at limits is a probability of a chain in which they are points, over that without.
    common = 2.0 * relative * (n + 2.0 * abs(log_prob)) + rel_error + _ROUNDING
    common += 2.0 * _EPS * moved
    error, mean_error = limits[1], limits[1, 2]
    _limit_errors(chain, fine, coarse, common, relative, error)
    _mean_slopes(chain, fine, coarse, error, common, firm, limits[0, 2], mean_error)
    limits[0, LOW], limits[0, HIGH] = -fine[LOW], fine[HIGH]
    if with_pairs:
        _pair_errors(chain, fine, coarse, until, common, relative, covs[0], covs[1])
        _diagonal(chain, fine, error, limits[0, 2], mean_error, firm, covs[0], covs[1])
    return True


@kernel()
def markov_slopes(
    lower, upper, rho, noise, log_prob, rel_error, found, relative, firm, limits, covs, begin, end
):
    """Derivatives for rows [begin, end) that ``markov`` has resolved.

    Parameters
    ----------
    lower, upper, rho, noise, log_prob, found, relative : as for ``markov``
    rel_error : (B,) what ``markov`` calls rule
    firm : (B,) ``relative`` without what the rounding of intervals takes from their widths
    limits : (2, B, 3, d) derivatives in lower, upper and mean, and their errors; these stay as they
        are where nothing is known, and all does for coordinates without limits
    covs : (2, B, d, d) likewise in the covariance; or (2, 0, d, d)
    """
    d = lower.shape[1]
    low, high, signs = np.empty(d), np.empty(d), np.empty(d)
    with_pairs = covs.shape[1] > 0
    for b in range(begin, end):
        if not (rel_error[b] < np.inf and relative[b] < np.inf):
            continue
        shared = 0 if rho.shape[0] == 1 else b
        turn(lower[b], upper[b], rho[shared], low, high, signs)
        chain = load(low, high, rho[shared], noise[shared])
        n = chain.low.size
        chain.place[:], chain.left[:] = found[b, 0, :n], found[b, 1, :n]
        chain.right[:], chain.slope[:] = found[b, 2, :n], found[b, 3, :n]
        for i in range(n):
            chain.panels[i] = int(found[b, 4, i])
        own_limits = np.zeros((2, 3, n))
        own_covs = np.zeros((2, n, n)) if with_pairs else np.zeros((2, 0, 0))
        if n > 0 and not _differentiate(
            chain, with_pairs, log_prob[b], rel_error[b], relative[b], firm[b], own_limits, own_covs
        ):
            continue
        limits[1, b] = 0.0
        kept = np.empty(n, dtype=np.int64)
        i = 0
        for k in range(d):
            if low[k] == -np.inf and high[k] == np.inf:
                continue
            kept[i] = k
            same = signs[k] > 0.0
            for which in range(2):
                sign = 1.0 if same or which == 1 else -1.0
                limits[which, b, 0, k] = sign * own_limits[which, 0 if same else 1, i]
                limits[which, b, 1, k] = sign * own_limits[which, 1 if same else 0, i]
                limits[which, b, 2, k] = sign * own_limits[which, 2, i]
            i += 1
        if with_pairs:
            covs[1, b] = 0.0
            for i in range(n):
                for j in range(n):
                    sign = signs[kept[i]] * signs[kept[j]]
                    covs[0, b, kept[i], kept[j]] = sign * own_covs[0, i, j]
                    covs[1, b, kept[i], kept[j]] = own_covs[1, i, j]
