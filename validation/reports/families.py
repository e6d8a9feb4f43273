"""Problems with known answers that reports make to measure: by dimension, by tail, factored."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from scipy.special import ndtri

import mvnorth
from validation import problems
from validation.oracles.one_dimension import FloatArray
from validation.problems import Problem

FACTORED = "factored-"


def factored_names(dimensions: tuple[int, ...]) -> list[str]:
    """Names of problems with a covariance diag(c) + v v^T that is given as c and v."""
    kinds = ("orthant", "box", "low", "far")
    return [f"{FACTORED}{kind}-{d}" for d in dimensions for kind in kinds]


def factored(name: str) -> tuple[Problem, mvnorth.OneFactor]:
    """One of them, and its covariance as mvnorth takes it; seeded by the name."""
    kind, _, d = name.removeprefix(FACTORED).rpartition("-")
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    c, v = rng.lognormal(0.0, 0.7, int(d)), rng.normal(0.0, 1.2, int(d))
    sd = np.sqrt(c + v**2)
    level = half_level(int(d)) + {"low": -2.5, "far": -9.0}.get(kind, 0.3)
    upper = rng.normal(level, 0.3, int(d)) * sd
    lower = np.full(int(d), -np.inf)
    if kind == "box":
        lower = -rng.permuted(np.abs(upper) + sd)
    problem = problems.one_factor(lower, upper, c, v)
    tags = {"one-factor", "box" if kind == "box" else "orthant"}
    if problem.log_prob <= -10:
        tags.add("deep-tail" if problem.log_prob <= -745 else "tail")
    tags |= {"high-dim"} if int(d) >= 100 else set()
    tags |= {"easy"} if int(d) <= 50 and not tags & {"tail", "deep-tail"} else set()
    tags |= {"hard"} if "deep-tail" in tags or ("tail" in tags and int(d) >= 20) else set()
    return replace(problem, name=name, tags=frozenset(tags)), mvnorth.OneFactor(c, v)


def half_level(d: int) -> float:
    """The limit that d independent standard normals stay below with probability 1/2."""
    return float(ndtri(0.5 ** (1 / d)))


# By dimension. A covariance is given as a matrix, so that nothing is taken apart that is not
# recognised; limits are those of ``half_level`` unless the name says something else.


def _loadings(d: int) -> tuple[FloatArray, FloatArray]:
    rng = np.random.default_rng(d)
    return rng.lognormal(0.0, 0.5, d), rng.normal(0.0, 1.0, d)


def _one_factor(d: int) -> Problem:
    c, v = _loadings(d)
    upper = half_level(d) * np.sqrt(c + v**2)
    return problems.one_factor(np.full(d, -np.inf), upper, c, v)


def _blocks(d: int) -> Problem:
    level = half_level(d)
    sizes = [5] * (d // 5) + [d % 5] * (d % 5 > 0)
    parts = {
        size: problems.exchangeable(np.full(size, -np.inf), np.full(size, level), 0.6)
        for size in set(sizes)
    }
    return problems.block(*(parts[size] for size in sizes))


def _ar1(d: int) -> Problem:
    return problems.ar1(np.full(d, -np.inf), np.full(d, half_level(d)), 0.9)


def _exchangeable(d: int) -> Problem:
    return problems.zero_orthant((np.eye(d) + 1) / 2, -math.log(d + 1), "1/(d + 1)")


BY_DIMENSION: dict[str, Callable[[int], Problem]] = {
    "correlations 0.5 at zero": _exchangeable,
    "one factor": _one_factor,
    "AR(1), 0.9": _ar1,
    "blocks of five, 0.6": _blocks,
}


# By tail: all limits of a family are moved together.


def _equal_tail(level: float) -> Problem:
    return problems.exchangeable(np.full(20, -np.inf), np.full(20, level), 0.5)


def _ar1_tail(level: float) -> Problem:
    return problems.ar1(np.full(50, -np.inf), np.full(50, level), 0.9)


def _two_factor_tail(level: float) -> Problem:
    rng = np.random.default_rng(10)
    c, v = rng.lognormal(0.0, 0.5, 10), np.abs(rng.normal(0.0, 0.8, (10, 2)))
    upper = level * np.sqrt(c + np.sum(v**2, axis=1))
    return problems.two_factor(np.full(10, -np.inf), upper, c, v)


_TAILS: dict[str, Callable[[float], Problem]] = {
    "correlations 0.5, d = 20": _equal_tail,
    "AR(1), 0.9, d = 50": _ar1_tail,
    "two factors, d = 10": _two_factor_tail,
}
# Levels at which log P is about -1, -3, -10, -30, -100, -300 and -1000.
LEVELS = {
    "correlations 0.5, d = 20": (1.05, 0.02, -1.73, -4.35, -9.23, -16.94, -31.8),
    "AR(1), 0.9, d = 50": (1.39, 0.53, -0.87, -2.87, -6.51, -12.18, -23.06),
    "two factors, d = 10": (0.97, 0.04, -1.48, -3.67, -7.67, -13.93, -25.95),
}


def by_tail(family: str, level: float) -> Problem:
    """The problem of a family of ``LEVELS`` with all its limits at a level."""
    return _TAILS[family](level)
