"""Gauss-Markov chains in extended precision: what fast results are judged by."""

import math

import numpy as np
from scipy.optimize import minimize

INF = np.inf


def factor(rho):
    """Triangular factor of the chain with unit variances; nothing in it cancels."""
    rho = np.asarray(rho, dtype=float)
    L = np.zeros((rho.size + 1, rho.size + 1))
    L[0, 0] = 1.0
    for i, r in enumerate(rho):
        L[i + 1] = r * L[i]
        L[i + 1, i + 1] = math.sqrt((1 - r) * (1 + r))
    return L


def extended_logprob(lower, upper, rho):
    """In extended precision, in logarithms, on windows of 12 deviations around the mode."""
    rho = np.asarray(rho, dtype=np.longdouble)
    noise = np.sqrt((1 - rho) * (1 + rho))
    d = rho.size + 1
    inverse = np.linalg.inv(factor(rho.astype(float)))
    Q = inverse.T @ inverse
    bounds = list(zip(lower, upper, strict=True))
    start = np.clip(np.zeros(d), lower, upper)
    mode = minimize(
        lambda x: (0.5 * x @ Q @ x, Q @ x), start, jac=True, bounds=bounds, method="L-BFGS-B",
        options={"maxiter": 2000, "ftol": 0.0, "gtol": 1e-9},
    ).x  # fmt: skip
    steep = np.abs(Q @ mode)
    sigma = 1 / np.sqrt(np.diag(Q))
    t, w = (a.astype(np.longdouble) for a in np.polynomial.legendre.leggauss(20))
    for _ in range(2):  # Newton's method: the nodes to extended precision, and their weights
        before, value = np.ones_like(t), t.copy()
        for k in range(2, 21):
            before, value = value, ((2 * k - 1) * t * value - (k - 1) * before) / k
        change = 20 * (t * value - before) / (t * t - 1)
        t, w = t - value / change, 2 / ((1 - t * t) * change * change)
    x = log_f = None
    for k in range(d):
        reach = 12.0
        if steep[k] * sigma[k] > 40:  # what is far steeper than anything else ends sooner
            reach = min(reach, 80 / steep[k])
        a, b = max(lower[k], mode[k] - reach), min(upper[k], mode[k] + reach)
        width = min(4 * sigma[k], 8 / steep[k] if steep[k] > 0 else INF)
        edges = np.linspace(np.longdouble(a), np.longdouble(b), max(2, math.ceil((b - a) / width)))
        half = np.diff(edges)[:, None] / 2
        y, weights = (edges[:-1, None] + half * (1 + t)).ravel(), (half * w).ravel()
        if k == 0:
            log_g = -(y**2) / 2
        else:
            z = (y[:, None] - rho[k - 1] * x) / noise[k - 1]
            terms = log_f - z**2 / 2
            top = terms.max(axis=1)
            log_g = top + np.log(np.exp(terms - top[:, None]).sum(axis=1)) - np.log(noise[k - 1])
        x, log_f = y, log_g + np.log(weights) - np.log(2 * np.longdouble(np.pi)) / 2
    top = log_f.max()
    return top + np.log(np.exp(log_f - top).sum())


def random_chain(rng):
    """Limits and correlations: strong and weak ones, boxes, half-lines, tails."""
    d = int(rng.integers(2, 6))
    rho = rng.uniform(-1, 1, d - 1)
    kind = rng.integers(5)
    if kind == 1:
        rho = np.sign(rho) * (1 - 10 ** rng.uniform(-2.3, -0.5, d - 1))
    if kind == 2:
        rho = 0.05 * rho
    if kind == 3:
        rho = np.abs(rho)
    level = rng.normal(size=d) * 10 ** rng.uniform(-1, 1.5)
    lower = np.where(rng.random(d) < 0.6, level, -INF)
    width = 10 ** rng.uniform(-3, 1.3, d)
    upper = np.where(rng.random(d) < 0.5, level + width, INF)
    if np.isinf(lower).all() and np.isinf(upper).all():
        lower[0] = 0.0
    return lower, upper, rho


def correlations(rho):
    """Correlation matrix of a chain in extended precision."""
    rho = np.asarray(rho, dtype=np.longdouble)
    corr = np.eye(rho.size + 1, dtype=np.longdouble)
    for i in range(rho.size):
        corr[i + 1, : i + 1] = corr[: i + 1, i + 1] = rho[i] * corr[i, : i + 1]
    return corr


def log_density(lower, upper, cov, given, log_prob):
    """log of the density of some coordinates, ``given`` as {index: value}, others between limits.

    ``log_prob(low, high, corr)`` judges the others, a chain with unit variances again.
    """
    d = len(lower)
    cov, mean = np.array(cov), np.zeros(d, dtype=cov.dtype)
    two_pi = 2 * cov.dtype.type("3.14159265358979323846264")
    total = cov.dtype.type(0)
    for i, x in given.items():
        column, excess = cov[i] / cov[i, i], x - mean[i]
        total -= (excess**2 / cov[i, i] + np.log(two_pi * cov[i, i])) / 2
        mean = mean + column * excess
        cov = cov - np.outer(column, cov[i])
    rest = [i for i in range(d) if i not in given]
    if not rest:
        return total
    deviation = np.sqrt(np.diag(cov)[rest])
    low, high = ((np.asarray(a)[rest] - mean[rest]) / deviation for a in (lower, upper))
    if np.isinf(low).all() and np.isinf(high).all():
        return total
    return total + log_prob(low, high, cov[np.ix_(rest, rest)] / np.outer(deviation, deviation))


def derivatives_by_densities(lower, upper, cov, log_prob):
    """Derivatives of log P in lower, upper, mean, cov from densities; sizes of what they sum."""
    d = len(lower)
    limits, signs = np.array([lower, upper]), (1, -1)
    at = {(s, i): limits[s, i] for s in range(2) for i in range(d) if np.isfinite(limits[s, i])}
    whole = log_density(lower, upper, cov, {}, log_prob)
    one, scaled = np.zeros((2, d), dtype=cov.dtype), np.zeros(d, dtype=cov.dtype)
    two, size = np.zeros((2, d, d), dtype=cov.dtype)
    for (s, i), x in at.items():
        one[s, i] = np.exp(log_density(lower, upper, cov, {i: x}, log_prob) - whole)
        scaled[i] -= signs[s] * x * one[s, i]
        size[i, i] += abs(x) * one[s, i]
    for (s, i), x in at.items():
        for (t, j), y in at.items():
            if i < j and one[s, i] > 0 and one[t, j] > 0:
                p = np.exp(log_density(lower, upper, cov, {i: x, j: y}, log_prob) - whole) / 2
                two[i, j] += signs[s] * signs[t] * p
                size[i, j] += p
    two, size = two + two.T, size + np.triu(size, 1).T
    for i in range(d):
        two[i, i] = -(scaled[i] + 2 * two[i] @ cov[i]) / (2 * cov[i, i])
        size[i, i] += np.abs(size[i]) @ np.abs(cov[i]) / cov[i, i]
    values = {"lower": -one[0], "upper": one[1], "mean": one[0] - one[1], "cov": two}
    return values, {"lower": one[0], "upper": one[1], "mean": one.sum(axis=0), "cov": size}
