"""Box probabilities of structured normals by low-dimensional quadrature in float64.

Every function returns ``(log_prob, error)``: the logarithm of Pr(lower <= X <= upper) for
X ~ N(0, Sigma), and the difference between two resolutions plus an allowance for rounding.
Everything is summed in logs, so probabilities below 1e-308 are as good as any other.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize
from scipy.special import erf, erfcx, log_ndtr, logsumexp

FloatArray = NDArray[np.float64]

EPS = float(np.finfo(np.float64).eps)
LOG_SQRT_2PI = 0.5 * np.log(2 * np.pi)

# A log-concave integrand is cut where it has fallen by this much: exp(-45) is 3e-20.
DROP = 45.0
# Truncation to a convex set never widens a Gaussian (Caffarelli), so 9.5 standard deviations
# beyond the outermost limit hold all but 1e-20 of the *conditional* mass.
REACH = 9.5


def log_interval(lower: ArrayLike, upper: ArrayLike) -> FloatArray:
    """log(Phi(upper) - Phi(lower)) without cancellation.

    Parameters
    ----------
    lower, upper : (...)
        Limits with lower < upper; infinite ones are allowed.

    Returns
    -------
    (...) array
    """
    lower, upper = np.broadcast_arrays(
        np.asarray(lower, dtype=np.float64), np.asarray(upper, dtype=np.float64)
    )
    with np.errstate(invalid="ignore", divide="ignore"):
        # Reflect, so that the interval lies to the left or around zero.
        flip = lower + upper > 0
        a, b = np.where(flip, -upper, lower), np.where(flip, -lower, upper)
        out = np.empty(a.shape)
        around = b > 0
        out[around] = np.log((erf(b[around] / np.sqrt(2)) - erf(a[around] / np.sqrt(2))) / 2)
        a, b = a[~around], b[~around]
        # log Phi(a) - log Phi(b), its large part as a product: no difference of large logs.
        ratio = (b - a) * (b + a) / 2 + np.log(erfcx(-a / np.sqrt(2)) / erfcx(-b / np.sqrt(2)))
        out[~around] = log_ndtr(b) + np.log(-np.expm1(ratio))
    return out


def one_factor_logprob(
    lower: ArrayLike, upper: ArrayLike, c: ArrayLike, v: ArrayLike
) -> tuple[float, float]:
    """Sigma = diag(c) + v v^T, by one adaptive integral over the common factor.

    Parameters
    ----------
    lower, upper : (d,)
        The box.
    c : (d,)
        Own variances, >= 0. A zero makes its coordinate a multiple of the factor.
    v : (d,)
        Loadings, of any sign; not zero where c is zero.

    Returns
    -------
    log_prob, error : float
    """
    low, high, own, load = _float_arrays(lower, upper, c, v)
    # Coordinates without noise of their own only limit the factor.
    tied = own == 0
    ends = np.sort(np.stack([low[tied] / load[tied], high[tied] / load[tied]]), axis=0)
    z_low = float(np.max(ends[0], initial=-np.inf))
    z_high = float(np.min(ends[1], initial=np.inf))
    if z_low >= z_high:
        return -np.inf, 0.0
    low, high, load, scale = low[~tied], high[~tied], load[~tied], np.sqrt(own[~tied])

    def log_integrand(z: FloatArray) -> FloatArray:
        mean = z[:, None] * load
        factors = log_interval((low - mean) / scale, (high - mean) / scale)
        return np.sum(factors, axis=1) - z**2 / 2 - LOG_SQRT_2PI

    log_prob, error, mode = _log_integral(log_integrand, z_low, z_high)
    # high - load z cancels when the mode sits at an edge; its rounding is magnified by 1/scale.
    magnified = EPS * float(np.max(np.abs(load * mode) / scale, initial=0.0))
    return log_prob, error + magnified + _rounding(log_prob, low.size)


def minus_factor_logprob(
    lower: ArrayLike, upper: ArrayLike, c: ArrayLike, v: ArrayLike
) -> tuple[float, float]:
    """Sigma = diag(c) - v v^T, by the one-factor integral with an imaginary loading.

    The integrand oscillates: the accuracy is that of P, not of log P, so this is for
    probabilities that are not small.

    Parameters
    ----------
    lower, upper : (d,)
        The box.
    c : (d,)
        Variances, > 0, with sum(v**2 / c) < 1.
    v : (d,)
        Loadings.

    Returns
    -------
    log_prob, error : float
    """
    low, high, own, load = _float_arrays(lower, upper, c, v)
    scale = np.sqrt(own)
    slack = 1 - float(np.sum(load**2 / own))
    # |Phi(x + iy)| grows like exp(y^2/2): what is left of exp(-z^2/2) is exp(-slack z^2/2).
    half_width = np.sqrt(2 * DROP / slack)

    def trapezoid(n: int) -> tuple[float, float]:
        z, step = np.linspace(-half_width, half_width, n, retstep=True)
        log_f = np.zeros((n, own.size), dtype=np.complex128)
        one = np.isfinite(high)
        log_f[:, one] = log_ndtr((high[one] - 1j * z[:, None] * load[one]) / scale[one])
        two = np.isfinite(low)
        below = log_ndtr((low[two] - 1j * z[:, None] * load[two]) / scale[two])
        log_f[:, two] += np.log(1 - np.exp(below - log_f[:, two]))
        terms = step * np.exp(log_f.sum(axis=1) - z**2 / 2 - LOG_SQRT_2PI)
        return float(terms.real.sum()), float(np.abs(terms).sum())

    coarse, _ = trapezoid(2001)
    fine, modulus = trapezoid(3001)
    error = (abs(fine - coarse) + 4 * EPS * modulus) / fine
    return float(np.log(fine)), error + _rounding(np.log(fine), own.size)


def two_factor_logprob(
    lower: ArrayLike, upper: ArrayLike, c: ArrayLike, v: ArrayLike
) -> tuple[float, float]:
    """Sigma = diag(c) + V V^T with two columns, by a tensor rule refined until it settles.

    Parameters
    ----------
    lower, upper : (d,)
        The box.
    c : (d,)
        Own variances, > 0.
    v : (d, 2)
        Loadings.

    Returns
    -------
    log_prob, error : float
    """
    low, high, own, load = _float_arrays(lower, upper, c, v)
    scale = np.sqrt(own)

    def log_integrand(z: FloatArray) -> FloatArray:
        mean = z @ load.T
        factors = log_interval((low - mean) / scale, (high - mean) / scale)
        return np.sum(factors, axis=1) - np.sum(z**2, axis=1) / 2 - 2 * LOG_SQRT_2PI

    corner, opposite = _rectangle(log_integrand)
    previous, error = np.inf, np.inf
    for panels in (4, 6, 9, 14, 21, 32):
        axes = [_composite(np.linspace(corner[k], opposite[k], panels + 1), 12) for k in range(2)]
        z = np.stack(np.meshgrid(axes[0][0], axes[1][0], indexing="ij"), axis=-1).reshape(-1, 2)
        log_weights = np.log(np.outer(axes[0][1], axes[1][1])).ravel()
        log_prob = float(logsumexp(log_integrand(z) + log_weights))
        error, previous = abs(log_prob - previous), log_prob
        if error < 1e-12:
            break
    return previous, error + _rounding(previous, own.size)


def markov_logprob(lower: ArrayLike, upper: ArrayLike, rho: ArrayLike) -> tuple[float, float]:
    """A Gaussian Markov chain with unit variances, by its transfer operator.

    corr(X_i, X_j) is the product of the steps' correlations between i and j. AR(1),
    Brownian motion and Ornstein-Uhlenbeck paths at any times are such chains.

    Parameters
    ----------
    lower, upper : (d,)
        The box.
    rho : (d - 1,)
        Correlations of neighbours, |rho| < 1.

    Returns
    -------
    log_prob, error : float
    """
    low, high, corr = _float_arrays(lower, upper, rho)
    limits = np.abs(np.concatenate([low, high]))
    # On both sides: with negative correlations a low limit pushes its neighbour up.
    reach = np.max(limits[np.isfinite(limits)], initial=0.0) + REACH
    start, stop = np.maximum(low, -reach), np.minimum(high, reach)
    noise = np.sqrt((1 - corr) * (1 + corr))
    # Panels of three noise widths, of the step before and of the step after, over which the
    # density itself falls by at most exp(-10).
    widths = np.minimum(np.append(3 * noise, 3.0), np.insert(3 * noise, 0, 3.0))
    widths = np.minimum(widths, 10 / np.maximum(np.abs(start), np.abs(stop)))

    def transfer(nodes: int) -> float:
        x, log_f = np.empty(0), np.empty(0)
        for k in range(low.size):
            panels = int(np.ceil((stop[k] - start[k]) / widths[k]))
            y, w = _composite(np.linspace(start[k], stop[k], panels + 1), nodes)
            if k == 0:
                log_g = -(y**2) / 2 - LOG_SQRT_2PI
            else:
                z = (y[:, None] - corr[k - 1] * x) / noise[k - 1]
                log_g = _logsumexp_rows(log_f - z**2 / 2) - np.log(noise[k - 1]) - LOG_SQRT_2PI
            x, log_f = y, log_g + np.log(w)
        return float(logsumexp(log_f))

    log_prob = transfer(16)
    return log_prob, abs(log_prob - transfer(12)) + _rounding(log_prob, low.size)


def _float_arrays(*arrays: ArrayLike) -> tuple[FloatArray, ...]:
    return tuple(np.asarray(a, dtype=np.float64) for a in arrays)


def _rounding(log_prob: float, d: int) -> float:
    """What d logs that add up to log_prob may lose, and a little more."""
    return EPS * (4 * abs(log_prob) + d + 10)


def _composite(edges: FloatArray, nodes: int) -> tuple[FloatArray, FloatArray]:
    """Nodes and weights, each ((p * nodes),), of Gauss-Legendre on p panels (edges: (p + 1,))."""
    t, w = np.polynomial.legendre.leggauss(nodes)
    half = np.diff(edges)[:, None] / 2
    return (edges[:-1, None] + half * (1 + t)).ravel(), (half * w).ravel()


def _logsumexp_rows(a: FloatArray) -> FloatArray:
    """Logsumexp over the last axis, overwriting `a`; scipy's is several times slower."""
    top: FloatArray = np.max(a, axis=1)
    a -= top[:, None]
    return top + np.log(np.sum(np.exp(a, out=a), axis=1))


def _mode(log_f: Callable[[FloatArray], FloatArray], low: float, high: float) -> float:
    """Where a log-concave function peaks in (low, high), by a grid that moves and zooms.

    Concave functions have no second peak to miss, however narrow the first one is.
    """
    centre = min(max(0.0, low), high)
    a, b = max(low, centre - 1), min(high, centre + 1)
    for _ in range(80):
        z = np.linspace(a, b, 33)
        best = int(np.argmax(log_f(z)))
        width, centre = b - a, float(z[best])
        if width < 1e-9 * (1 + abs(centre)):
            break
        # The neighbours of the best point bound the mode from now on.
        low = float(z[best - 1]) if best > 0 else low
        high = float(z[best + 1]) if best < 32 else high
        a = low if best > 0 else max(low, a - 4 * width)
        b = high if best < 32 else min(high, b + 4 * width)
    return centre


def _log_integral(
    log_f: Callable[[FloatArray], FloatArray], low: float, high: float
) -> tuple[float, float, float]:
    """Log of the integral of a log-concave function over (low, high), its error, its mode."""
    mode = _mode(log_f, low, high)
    peak = float(log_f(np.array([mode]))[0])
    # Steps away from the mode in powers of two overshoot the support at most twofold.
    steps = np.ldexp(1.0, np.arange(-40, 12))
    left = mode - steps[np.argmax(log_f(mode - steps) < peak - DROP)]
    right = mode + steps[np.argmax(log_f(mode + steps) < peak - DROP)]
    edges = np.linspace(max(low, left), min(high, right), 9)
    panels = np.stack([edges[:-1], edges[1:]], axis=1)
    t, w = np.polynomial.legendre.leggauss(16)

    def integrals(panels: FloatArray) -> FloatArray:
        half = (panels[:, 1:] - panels[:, :1]) / 2
        z = panels[:, :1] + half * (1 + t)
        values: FloatArray = np.exp(log_f(z.ravel()) - peak).reshape(z.shape) * half
        return values @ w

    # Halve the panels whose halves disagree with them, until none is left or rounding rules.
    total, error, whole = 0.0, 0.0, integrals(panels)
    while panels.size:
        middle = panels.mean(axis=1)
        halves = np.stack([panels[:, 0], middle, middle, panels[:, 1]], axis=1).reshape(-1, 2)
        parts = integrals(halves).reshape(-1, 2)
        both = parts.sum(axis=1)
        change = np.abs(both - whole)
        settled = change <= EPS * (4 + abs(peak)) * (total + both.sum())
        settled |= len(panels) > 500
        total += float(both[settled].sum())
        error += float(change[settled].sum())
        panels, whole = halves.reshape(-1, 2, 2)[~settled].reshape(-1, 2), parts[~settled].ravel()
    return peak + float(np.log(total)), error / total, mode


def _rectangle(log_f: Callable[[FloatArray], FloatArray]) -> tuple[FloatArray, FloatArray]:
    """Opposite corners, each (2,), of a rectangle that holds a log-concave function's mass.

    By concavity a function that is low all along the boundary is lower still outside.
    """

    def loss(z: FloatArray) -> float:
        return -float(log_f(z[None])[0])

    mode = minimize(loss, np.zeros(2), method="Nelder-Mead").x
    peak = -loss(mode)
    reach = np.full((2, 2), 0.25)  # [side, axis]
    along = np.linspace(0, 1, 65)
    while True:
        low, high = mode - reach[0], mode + reach[1]
        tight = np.zeros((2, 2), dtype=bool)
        for axis in range(2):
            other = 1 - axis
            for side, corner in enumerate((low, high)):
                z = np.empty((along.size, 2))
                z[:, axis] = corner[axis]
                z[:, other] = low[other] + along * (high - low)[other]
                tight[side, axis] = log_f(z).max() > peak - DROP
        if not tight.any():
            return low, high
        reach[tight] *= 1.25
