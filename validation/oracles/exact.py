"""The same probabilities in 40-digit arithmetic, with relative accuracy however small they are.

mpmath's quadrature stops on an *absolute* tolerance. Integrands are therefore divided by their
maximum, cut where they have lost 50 digits, and split around the mode; panels whose error
estimate is not small are halved.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TypeAlias

import mpmath
import numpy as np
from mpmath import mpf
from numpy.typing import NDArray

DIGITS = 40
Number: TypeAlias = float | mpf
Vector: TypeAlias = Sequence[Number] | NDArray[np.float64]


def ndtr(x: Number) -> mpf:
    """Phi(x), the standard normal distribution function of one number."""
    with mpmath.workdps(DIGITS):
        return mpmath.erfc(-mpf(x) / mpmath.sqrt(2)) / 2


def log_ndtr(x: Number) -> mpf:
    """log Phi(x) of one number, relatively accurate on both sides."""
    with mpmath.workdps(DIGITS):
        return mpmath.log1p(-ndtr(-mpf(x))) if x > 0 else mpmath.log(ndtr(x))


def ndtri(p: Number) -> mpf:
    """The x with Phi(x) = p, for one 0 < p < 1."""
    with mpmath.workdps(DIGITS + 5):
        p = mpf(p)
        if p > 0.5:
            return +(-ndtri(1 - p))
        # Newton on log Phi, which is concave: from the left it climbs and never overshoots.
        x = -mpmath.sqrt(-2 * mpmath.log(p)) - 1
        for _ in range(100):
            step = (mpmath.log(p) - log_ndtr(x)) / mills(x)
            x += step
            if abs(step) < mpf(10) ** (-DIGITS + 2) * (1 + abs(x)):
                break
    with mpmath.workdps(DIGITS):
        return +x


def mills(x: Number) -> mpf:
    """h(x) = phi(x) / Phi(x), the inverse Mills ratio of one number."""
    with mpmath.workdps(DIGITS):
        return mpmath.npdf(mpf(x)) / ndtr(x)


def one_factor_logprob(lower: Vector, upper: Vector, c: Vector, v: Vector) -> mpf:
    """log Pr(lower <= X <= upper) for X ~ N(0, diag(c) + v v^T).

    Parameters
    ----------
    lower, upper : (d,)
        The box; infinite limits are allowed.
    c : (d,)
        Own variances, > 0.
    v : (d,)
        Loadings, of any sign.

    Returns
    -------
    mpf
    """
    with mpmath.workdps(DIGITS + 10):
        rows = [
            (mpf(a), mpf(b), mpmath.sqrt(mpf(ci)), mpf(vi))
            for a, b, ci, vi in zip(lower, upper, c, v, strict=True)
        ]

    def log_integrand(z: mpf) -> mpf:
        factors = (_log_interval((a - vi * z) / s, (b - vi * z) / s) for a, b, s, vi in rows)
        return mpmath.fsum(factors) - z * z / 2 - mpmath.log(2 * mpmath.pi) / 2

    return _log_integral(log_integrand, -mpmath.inf, mpmath.inf, DIGITS)


def bivariate_prob(h: Number, k: Number, rho: Number, digits: int = DIGITS) -> mpf:
    """Pr(X <= h, Y <= k) for standard normal X, Y with correlation -1 <= rho <= 1.

    Parameters
    ----------
    h, k, rho : number
        Infinite h and k are allowed. Within 1e-7 of -1 or 1, but not at them, the integrand is a
        step that the rule does not resolve: an error.
    digits : int
        Relative accuracy.

    Returns
    -------
    mpf
    """
    with mpmath.workdps(digits + 10):
        h, k, rho = mpf(h), mpf(k), mpf(rho)
        if rho == -1:
            return mpmath.exp(_log_interval(-k, h)) if -k < h else mpf(0)
        if rho == 1 or max(h, k) == mpmath.inf:
            return mpmath.exp(_log_interval(-mpmath.inf, min(h, k)))
        if 1 - abs(rho) < 1e-7:
            raise ValueError(f"rho must be -1, 1 or further than 1e-7 from them, got {rho}")
        noise = mpmath.sqrt((1 - rho) * (1 + rho))

        def log_integrand(x: mpf) -> mpf:
            log_density = -x * x / 2 - mpmath.log(2 * mpmath.pi) / 2
            return log_density + _log_interval(-mpmath.inf, (k - rho * x) / noise)

        return mpmath.exp(_log_integral(log_integrand, -mpmath.inf, h, digits))


def trivariate_prob(b: Vector, corr: Sequence[Vector] | NDArray[np.float64]) -> mpf:
    """Pr(X <= b) for three standard normals, from Plackett's derivative in the correlations.

    Starts where the first coordinate is independent of the others and integrates up to its
    true correlations. What cancels on the way is made good by more digits.

    Parameters
    ----------
    b : (3,)
        Upper limits, finite.
    corr : (3, 3)
        Positive definite correlation matrix.

    Returns
    -------
    mpf
    """
    digits = DIGITS
    while digits < 1000:
        with mpmath.workdps(digits + 10):
            h, k, m = (mpf(x) for x in b)
            r12, r13, r23 = mpf(corr[0][1]), mpf(corr[0][2]), mpf(corr[1][2])
            start, change = _plackett(h, k, m, r12, r13, r23, digits)
            total = start + change
            lost = mpmath.log10(start / total) if total > 0 else digits
        if lost <= digits - DIGITS:
            return total
        digits = DIGITS + int(lost) + 10
    raise ValueError("the probability is zero, or too small to find")


def _plackett(h: mpf, k: mpf, m: mpf, r12: mpf, r13: mpf, r23: mpf, digits: int) -> tuple[mpf, mpf]:
    """The probability with X1 independent of X2 and X3, and what their correlations add."""

    def edge(t: mpf, k: mpf, m: mpf, r12: mpf, r13: mpf) -> mpf:
        """r12 times the derivative in the correlation t r12: a density times a probability."""
        a, b = t * r12, t * r13
        free = 1 - a * a
        mean = (h * (b - a * r23) + k * (r23 - a * b)) / free
        noise = mpmath.sqrt((free - b * b - r23 * r23 + 2 * a * b * r23) / free)
        density = mpmath.exp(-(h * h - 2 * a * h * k + k * k) / (2 * free)) / mpmath.sqrt(free)
        return r12 * density * mpmath.erfc((mean - m) / (noise * mpmath.sqrt(2)))

    def derivative(t: mpf) -> mpf:
        return (edge(t, k, m, r12, r13) + edge(t, m, k, r13, r12)) / (4 * mpmath.pi)

    start = mpmath.erfc(-h / mpmath.sqrt(2)) / 2 * bivariate_prob(k, m, r23, digits)
    points = [mpf(n) / 4 for n in range(5)]
    scale = max(abs(derivative(t)) for t in points) or mpf(1)
    return start, scale * mpmath.quad(lambda t: derivative(t) / scale, points)


def _log_interval(a: mpf, b: mpf) -> mpf:
    """log(Phi(b) - Phi(a)) in the working precision, on the side that does not cancel."""
    if a + b > 0:
        a, b = -b, -a
    root2 = mpmath.sqrt(2)
    upper = mpmath.erfc(-b / root2)
    return mpmath.log((upper - mpmath.erfc(-a / root2)) / 2 if a > -mpmath.inf else upper / 2)


def _log_integral(log_f: Callable[[mpf], mpf], low: mpf, high: mpf, digits: int) -> mpf:
    """Log of the integral of a log-concave function over (low, high)."""
    with mpmath.workdps(15):  # enough to place the panels
        mode = _mode(log_f, low, high)
        peak = log_f(mode)
        points = {mode}
        for sign in (-1, 1):

            def at(distance: mpf, sign: int = sign) -> mpf:
                return min(max(mode + sign * distance, low), high)

            distance = mpf(1)
            while peak - log_f(at(distance)) > 0.5:
                distance /= 2
            points.add(at(distance))
            while low < at(distance) < high and peak - log_f(at(distance)) < 2.4 * digits + 20:
                distance *= 2
                points.add(at(distance))
    with mpmath.workdps(digits + 10):
        edges = sorted(points)
        tolerance = mpf(10) ** (-digits - 2) * (edges[-1] - edges[0])
        total = mpmath.fsum(
            _panel(lambda z: mpmath.exp(log_f(z) - peak), a, b, tolerance)
            for a, b in pairwise(edges)
        )
        return peak + mpmath.log(total)


def _mode(log_f: Callable[[mpf], mpf], low: mpf, high: mpf) -> mpf:
    """A point within exp(-1/2) of the peak of a log-concave function in (low, high)."""
    centre = min(max(mpf(0), low), high)
    a, b = max(low, centre - 1), min(high, centre + 1)
    while True:
        z = [a + (b - a) * k / 8 for k in range(9)]
        values = [log_f(x) for x in z]
        best = max(range(9), key=values.__getitem__)
        bracketed = (best > 0 or a == low) and (best < 8 or b == high)
        if bracketed and values[best] - min(values) < 0.5:
            return z[best]
        width = b - a
        # The neighbours of the best point bound the mode from now on.
        low = z[best - 1] if best > 0 else low
        high = z[best + 1] if best < 8 else high
        a = low if best > 0 else max(low, a - 4 * width)
        b = high if best < 8 else min(high, b + 4 * width)


def _panel(f: Callable[[mpf], mpf], a: mpf, b: mpf, tolerance: mpf) -> mpf:
    """The integral of f over (a, b), halved where mpmath's own estimate of the error is large."""
    value, error = mpmath.quad(f, [a, b], method="gauss-legendre", maxdegree=6, error=True)
    if error <= tolerance:
        return value
    middle = (a + b) / 2
    return _panel(f, a, middle, tolerance) + _panel(f, middle, b, tolerance)
