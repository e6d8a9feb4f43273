"""Polytopes with probabilities that come from other computations, and random ones to try.

A polygon is a sum over its edges of Owen's T function (Owen 1956), an integral with 40 digits, or
in three dimensions the integral of the polygons that planes cut out.  Nothing here comes from the
library under test.
"""

from itertools import combinations, pairwise

import mpmath as mp
import numpy as np
from scipy.special import owens_t

NODES, WEIGHTS = np.polynomial.legendre.leggauss(40)
FAR = 39.0  # half the side of a square that holds all of the plane, to rounding


def random_polytope(rng, d, r, depth=1.5):
    """Return A (r, d), b, mean and cov of a polytope that has the mean inside, or not far off."""
    A = rng.normal(size=(r, d))
    root = 0.4 * rng.normal(size=(d, d)) / np.sqrt(d) + np.eye(d)
    mean = rng.normal(size=d)
    deviation = np.sqrt(np.sum((A @ root) ** 2, axis=1))
    b = A @ mean + deviation * rng.uniform(0.1, depth, size=r)
    shift = rng.normal(size=d) * rng.choice([0.0, 0.5])
    return A, b + A @ root @ shift, mean, root @ root.T


def whitened(A, b, mean, cov):
    """Return C and h with Pr(A X <= b) = Pr(C y <= h) for y standard normal."""
    return A @ np.linalg.cholesky(cov), b - A @ mean


def polygons_by_owen(C, h):
    """Return Pr(C y <= h) for C (m, 2) and many h (n, m), to 1e-14 absolute."""
    square = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    length = np.sqrt(np.sum(C**2, axis=1))
    C = np.concatenate([C / length[:, None], square])
    h = np.concatenate([h / length, np.full((len(h), 4), FAR)], axis=1)
    h = np.where(np.abs(h) < 1e-300, 1e-300, h)
    total = np.zeros(len(h))
    for k in range(len(C)):
        others = np.arange(len(C)) != k
        cosine = C[others] @ C[k]
        sine = C[others] @ np.array([-C[k, 1], C[k, 0]])
        gap = h[:, others] - h[:, [k]] * cosine
        with np.errstate(divide="ignore", invalid="ignore"):
            at = gap / sine
        last = np.where(sine > 1e-12, at, np.inf).min(axis=1)
        first = np.where(sine < -1e-12, at, -np.inf).max(axis=1)
        tied = (gap == 0.0) & (np.flatnonzero(others) < k)
        hidden = (np.abs(sine) <= 1e-12) & ((gap < 0.0) | tied)
        edge = (first < last) & ~hidden.any(axis=1)
        for t, sign in ((first, -1.0), (last, 1.0)):
            ratio = np.where(edge, t, 0.0) / h[:, k]
            part = np.arctan(ratio) / (2.0 * np.pi) - owens_t(h[:, k], ratio)
            total += np.where(edge, sign * part, 0.0)
    return total


def polygon_by_mpmath(C, h, panels=16):
    """Return log Pr(C y <= h) for a polygon with corners, with 40 digits at Gauss nodes."""
    with mp.workdps(40):
        rows = [[mp.mpf(float(x)) for x in row] for row in C]
        limits = [mp.mpf(float(x)) for x in h]

        def ends(s):
            low, high = -mp.inf, mp.inf
            for (a, c), limit in zip(rows, limits, strict=True):
                if c > 0:
                    high = min(high, (limit - a * s) / c)
                elif c < 0:
                    low = max(low, (limit - a * s) / c)
                elif a * s > limit:
                    return mp.inf, -mp.inf
            return low, high

        def integrand(s):
            low, high = ends(s)
            if not low < high:
                return mp.mpf(0)
            if low + high > 0:
                low, high = -high, -low
            width = mp.erfc(-high / mp.sqrt(2)) - mp.erfc(-low / mp.sqrt(2))
            return width / 2 * mp.npdf(s)

        corners = [s for s, t in _corners(rows, limits) if _inside(rows, limits, s, t)]
        corners += [limit / a for (a, c), limit in zip(rows, limits, strict=True) if c == 0]
        corners = [float(s) for s in corners]
        first, last = max(min(corners), -FAR), min(max(corners), FAR)
        grid = np.linspace(first, last, 400)[1:-1]
        sizes = [integrand(mp.mpf(s)) for s in grid]
        seen = grid[[size > max(sizes) * mp.mpf(10) ** -18 for size in sizes]]
        step = (last - first) / 399
        first, last = max(first, seen[0] - step), min(last, seen[-1] + step)
        inner = [s for s in corners if first < s < last]
        breaks = sorted({*np.linspace(first, last, panels + 1), *inner})
        total = mp.mpf(0)
        for low, high in pairwise(breaks):
            centre, half = mp.mpf(low + high) / 2, mp.mpf(high - low) / 2
            for x, w in zip(NODES, WEIGHTS, strict=True):
                total += w * half * integrand(centre + half * x)
        return float(mp.log(total))


def _corners(rows, limits):
    for (a, c), (x, y) in combinations(zip(rows, limits, strict=True), 2):
        determinant = a[0] * x[1] - a[1] * x[0]
        if determinant != 0:
            s = (c * x[1] - y * a[1]) / determinant
            yield s, (a[0] * y - x[0] * c) / determinant


def _inside(rows, limits, s, t):
    slack = mp.mpf(10) ** -30 * (1 + abs(s) + abs(t))
    return all(a * s + c * t <= limit + slack for (a, c), limit in zip(rows, limits, strict=True))


def three_by_slices(C, h):
    """Return Pr(C y <= h) in three dimensions: the polygons at all y_3, to about 1e-11."""
    heights = [-9.0, 9.0]
    for rows in combinations(range(len(C)), 3):
        corner = C[list(rows)]
        if abs(np.linalg.det(corner)) > 1e-10:
            y = np.linalg.solve(corner, h[list(rows)])
            if (C @ y <= h + 1e-9).all() and abs(y[2]) < 9.0:
                heights.append(y[2])
    heights = np.unique(heights)
    breaks = np.unique(np.concatenate([heights, np.linspace(-9.0, 9.0, 19)]))
    low, width = breaks[:-1, None], np.diff(breaks)[:, None]
    z = (low + 0.5 * width * (1.0 + NODES)).ravel()
    weights = (0.5 * width * WEIGHTS).ravel() * np.exp(-0.5 * z**2) / np.sqrt(2.0 * np.pi)
    return float(weights @ polygons_by_owen(C[:, :2], h - z[:, None] * C[:, 2]))


def product_of_polygons(rng, count):
    """Return A and b in 2 ``count`` dimensions, turned at random, and the probability."""
    d, rows, limits, prob = 2 * count, [], [], 1.0
    for k in range(count):
        C = rng.normal(size=(rng.integers(3, 6), 2))
        h = np.linalg.norm(C, axis=1) * rng.uniform(0.3, 1.5, len(C))
        h = h + C @ rng.normal(size=2) * rng.choice([0.0, 0.5])
        prob *= float(polygons_by_owen(C, h[None])[0])
        rows.append(np.zeros((len(C), d)))
        rows[-1][:, 2 * k : 2 * k + 2] = C
        limits.append(h)
    turn = np.linalg.qr(rng.normal(size=(d, d)))[0]
    return np.concatenate(rows) @ turn, np.concatenate(limits), prob
