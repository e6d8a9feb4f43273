"""Boxes and one-factor problems for tests of what is below the public functions."""

import math

import numpy as np

from mvnorth import _run
from mvnorth._derivatives import conditional
from mvnorth._derivatives.given import given_value
from mvnorth._problem import Budget, OneFactorProblems, Problems, Tolerance

INF = math.inf
LIMITS = ("lower", "upper", "mean")
ALL = (*LIMITS, "cov", "factor")
EPS = np.finfo(float).eps
KINDS = ("ordinary", "exact", "zeros", "tail", "sure")


def boxes(lower, upper, factor, singular=None, rounding=0.0):
    """Problems with the factor as it is, not scaled."""
    lower, upper = (np.atleast_2d(np.array(a, dtype=float)) for a in (lower, upper))
    factor = np.array(factor, dtype=float)
    factor = factor if factor.ndim == 3 else factor[None]
    singular = 8 * lower.shape[1] * EPS if singular is None else singular
    rounding = np.full(len(lower), rounding)
    return Problems(lower, upper, factor, rounding, singular, np.ones(factor.shape[:2]))


def one_factor(lower, upper, c, v):
    lower, upper, c, v = (np.atleast_2d(np.array(a, dtype=float)) for a in (lower, upper, c, v))
    return OneFactorProblems(lower, upper, c, v, np.zeros(len(upper)))


def fixed_points(n):
    return Budget(n, n, Tolerance(0.0, 0.0))


def run(problems, rtol=1e-6, seed=0):
    return _run.run(problems, Budget(None, 2**18, Tolerance(rtol, 0.0)), "auto", seed)[0]


def slopes(problems, wanted=ALL, rtol=1e-6):
    if isinstance(problems, OneFactorProblems):
        wanted = tuple(name for name in wanted if name != "factor")
    return conditional.slopes(problems, wanted, run(problems, rtol), lambda p: run(p, rtol))


def judge(found, name, expected, oracle_error=0.0, row=0):
    gap = np.abs(found.value[name][row] - np.array(expected, dtype=float))
    assert np.all(gap <= found.error[name][row] + oracle_error), (name, gap, found.error[name][row])


def covariance(problems):
    dense = problems.dense() if isinstance(problems, OneFactorProblems) else problems
    return dense.factor @ np.swapaxes(dense.factor, 1, 2)


def item(problems, i, value, row=0):
    return given_value(problems, np.array([row]), np.array([i]), np.array([value]))


def random_one_factor(rng, d, kind):
    c, v = np.exp(rng.normal(size=d)), rng.normal(size=d) * np.exp(rng.normal(0.0, 0.5))
    upper = rng.normal(0.5, 1.5, size=d)
    if kind == "tail":
        upper -= 30.0
    if kind == "sure":
        upper = np.abs(upper) + 3.0
    return upper, c, v


def random_case(rng, kind):
    """(m, c, v), each (d,), of one of KINDS."""
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
