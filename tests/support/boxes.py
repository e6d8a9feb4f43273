"""Boxes and one-factor problems for tests of what is below the public functions."""

import math

import numpy as np

from mvnorth._covariance.dense import Dense
from mvnorth._covariance.one_factor import OneFactorRows
from mvnorth._methods import conditional
from mvnorth._problem import Problems, Request, Tolerance
from mvnorth._solve import solve

INF = math.inf
LIMITS = ("lower", "upper", "mean")
ALL = (*LIMITS, "cov", "factor")
EPS = np.finfo(float).eps
KINDS = ("ordinary", "exact", "zeros", "tail", "sure")


def boxes(lower, upper, factor, singular=None, rounding=0.0):
    """Return problems with the factor as it is, not scaled; a limit may be a number for all."""
    factor = np.array(factor, dtype=float)
    factor = factor if factor.ndim == 3 else factor[None]
    d = factor.shape[1]
    lower, upper = (np.atleast_2d(np.array(a, dtype=float)) for a in (lower, upper))
    shape = np.broadcast_shapes(lower.shape, upper.shape, (1, d))
    lower, upper = (np.array(np.broadcast_to(a, shape)) for a in (lower, upper))
    singular = 8 * d * EPS if singular is None else singular
    covariance = Dense(factor, singular, np.ones(factor.shape[:2]))
    return Problems(lower, upper, covariance, np.full(len(lower), rounding))


def one_factor(lower, upper, c, v):
    """Return problems with covariances diag(c) + v v^T; limits may be one number for all."""
    lower, upper, c, v = (np.atleast_2d(np.array(a, dtype=float)) for a in (lower, upper, c, v))
    shape = np.broadcast_shapes(lower.shape, upper.shape, (1, c.shape[1]))
    lower, upper = (np.array(np.broadcast_to(a, shape)) for a in (lower, upper))
    return Problems(lower, upper, OneFactorRows(c, v), np.zeros(len(upper)))


def fixed_points(n, seed=0, wrt=()):
    """Return a request for n points."""
    return Request(Tolerance(0.0, 0.0), n, n, seed, wrt=wrt)


def within(rtol, most=2**18, seed=0, wrt=()):
    """Return a request for a relative error."""
    return Request(Tolerance(rtol, 0.0), None, most, seed, wrt=wrt)


def estimate(problems, rtol=1e-6, seed=0):
    """Return the estimate of "auto"."""
    return solve(problems, within(rtol, seed=seed), "auto")[0]


def derivatives(problems, wrt=ALL, rtol=1e-6):
    """Return derivatives by conditional problems; of ``wrt`` those that the covariance has."""
    missing = {"factor"}.difference(problems.covariance.parameters)
    wrt = tuple(name for name in wrt if name not in missing)
    return conditional.differentiate(
        problems, wrt, estimate(problems, rtol), lambda p: estimate(p, rtol)
    )


def judge(found, name, expected, oracle_error=0.0, row=0):
    """Assert that derivatives are within their errors."""
    gap = np.abs(found.value[name][row] - np.array(expected, dtype=float))
    assert np.all(gap <= found.error[name][row] + oracle_error), (name, gap, found.error[name][row])


def item(problems, i, value, row=0):
    """Return one row given that coordinate i has a value."""
    given = np.array([row]), np.array([i]), np.array([value])
    return problems.covariance.given_value(problems, *given)


def random_one_factor(rng, d, kind):
    """Return (upper, c, v), each (d,)."""
    c, v = np.exp(rng.normal(size=d)), rng.normal(size=d) * np.exp(rng.normal(0.0, 0.5))
    upper = rng.normal(0.5, 1.5, size=d)
    if kind == "tail":
        upper -= 30.0
    if kind == "sure":
        upper = np.abs(upper) + 3.0
    return upper, c, v


def random_case(rng, kind):
    """Return (m, c, v), each (d,), of one of KINDS."""
    d = int(rng.integers(1, 16))
    m = rng.normal(rng.normal(0.5, 2.0), 1.5, size=d)
    c, v = np.exp(rng.normal(size=d)), rng.normal(size=d) * np.exp(rng.normal(0.0, 0.7))
    if kind == "exact":
        c, v = np.ones(d), np.ones(d)
    if kind == "zeros":
        v[rng.random(d) < 0.5] = 0.0
    if kind == "tail":
        m -= rng.uniform(3.0, 8.0)
    if kind == "sure":
        m = np.abs(m) + rng.uniform(2.0, 6.0)
    return m, c, v
