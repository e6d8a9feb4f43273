"""Sampled derivatives, for the report on gradients: differences, rates, honesty, other programs."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np

import mvnorth
from validation.oracles import r_mvtnorm, slopes
from validation.oracles.one_dimension import FloatArray
from validation.reports.gradients.cases import one_factor
from validation.reports.gradients.ways import SAMPLED, Record, relative

STEPS = (2e-5, 6e-5)  # of differences: of the fourth order, and rounding of 1e-15 / 2e-5
REGIMES: dict[str, dict[str, Any]] = {
    "ordinary": {},
    "box": {"box": True},
    "tail": {"level": -2.5},
    "P near 1": {"level": 3.0},
    "nearly singular": {"noise": 1e-2},
}


def differenced(d: int, seed: int, n: int, box: bool) -> list[Record]:
    """Random covariances: derivatives beside differences of the value with the same points."""
    rng = np.random.default_rng([seed, d])
    A = rng.normal(size=(d, 2 * d))
    cov = A @ A.T / (2 * d) + 0.2 * np.eye(d)
    upper = rng.normal(0.7, 0.7, d)
    lower = upper - rng.uniform(1.0, 3.0, d) if box else np.full(d, -np.inf)
    pair = (d - 1, d // 2)
    three = np.unique([0, d // 2, d - 1])
    names = ("lower", "upper", "mean", "cov") if box else ("upper", "mean", "cov")
    records = []
    for method, value in (("pathwise", "genz"), ("tilting", "tilting")):
        found = mvnorth.box_grad(lower, upper, 0.0, cov, n, wrt=names, method=method, log=True)
        for name in names:
            entries = (pair,) if name == "cov" else tuple((int(i),) for i in three)
            for at in entries:
                move = functools.partial(_moved, lower, upper, cov, n, value, name, at)
                small, large = (
                    float(slopes.differences(move, np.zeros(1), step)[0]) for step in STEPS
                )
                records.append(_difference(method, name, found, at, small, large))
    return [{"d": d, "box": box, "n": n} | record for record in records]


def _moved(
    lower: FloatArray,
    upper: FloatArray,
    cov: FloatArray,
    n: int,
    method: str,
    name: str,
    at: tuple[int, ...],
    change: FloatArray,
) -> float:
    """log P with one entry moved; in a covariance its mirror image too."""
    places = {"lower": lower, "upper": upper, "mean": np.zeros(len(upper)), "cov": cov}
    places = {key: array.copy() for key, array in places.items()}
    places[name][at] += change[0]
    if name == "cov":
        places[name][at[::-1]] += change[0]
    found = mvnorth.box(**places, n=n, method=method)  # type: ignore[arg-type]
    return float(found.log_prob)


def _difference(
    method: str, name: str, found: Any, at: tuple[int, ...], small: float, large: float
) -> Record:
    """An entry beside differences with two steps, relative to the largest entry of all.

    Where these disagree, the estimate has jumped between: the order of coordinates changed.
    """
    share = 0.5 if name == "cov" else 1.0  # both entries of a pair were moved
    whole = getattr(found, f"grad_{name}")
    size = float(np.abs(whole).max())
    off = abs(float(whole[at]) - share * small)
    error = float(getattr(found, f"grad_{name}_error")[at])
    return {
        "method": method,
        "wrt": name,
        "off": off / size,
        "claimed": error / size,
        "outside": not off <= error + 1e-6 * size,
        "jumped": share * abs(small - large) > 1e-4 * size,
    }


def against_points(d: int, counts: list[int], seeds: int) -> list[Record]:
    """Root-mean-square errors of sampled derivatives over seeds, for ever more points."""
    problem = one_factor(np.random.default_rng(d), d, level=0.5)
    records = []
    for method in (*SAMPLED, "value"):
        for n in counts:
            squares: dict[str, list[float]] = {}
            taken = 0
            for seed in range(seeds):
                arguments = (problem.lower, problem.upper, 0.0, problem.cov, n)
                names = ("upper",) if method in ("pinned", "value") else ("upper", "cov")
                how = "tilting" if method == "value" else method
                found = mvnorth.box_grad(*arguments, wrt=names, method=how, log=True, seed=seed)
                taken = int(found.n)
                if method == "value":
                    truth = mvnorth.box(*arguments, method="quadrature").log_prob
                    squares.setdefault("log P", []).append(float(found.log_prob - truth) ** 2)
                    continue
                for name in names:
                    off = getattr(found, f"grad_{name}") - problem.truth[name]
                    length = float(np.linalg.norm(problem.truth[name]))
                    squares.setdefault(name, []).append((float(np.linalg.norm(off)) / length) ** 2)
            for name, each in squares.items():
                records.append(
                    {
                        "method": "tilting" if method == "value" else method,
                        "wrt": name,
                        "d": d,
                        "n": taken,
                        "error": float(np.sqrt(np.mean(each))),
                    }
                )
    return records


def honesty(regime: str, n: int, count: int, seed: int) -> list[Record]:
    """Random problems of a regime: how many entries are outside their errors, and how far."""
    rng = np.random.default_rng([seed, *regime.encode()])
    found: dict[tuple[str, str], list[FloatArray]] = {}
    for index in range(count):
        d = int(rng.integers(2, 13))
        problem = one_factor(rng, d, **REGIMES[regime])
        for method in (*SAMPLED, "conditional"):
            names = ["upper"] if problem.is_orthant else ["lower", "upper"]
            names += ["cov"] if method in ("pathwise", "tilting") else []
            result = mvnorth.box_grad(
                problem.lower,
                problem.upper,
                0.0,
                problem.cov if method != "conditional" else problem.one_factor,
                n,
                wrt=tuple(names),
                method=method,
                log=True,
                seed=index,
            )
            for name in names:
                truth = problem.truth[name]
                error = getattr(result, f"grad_{name}_error") + 1e-12 * np.abs(truth).max()
                off = np.abs(getattr(result, f"grad_{name}") - truth)
                what = "cov" if name == "cov" else "limits"
                known = truth != 0.0  # infinite limits have no derivative
                found.setdefault((method, what), []).append((off / error)[known])
    return [
        {"regime": regime, "n": n, "method": method, "wrt": what} | _spread(np.concatenate(shares))
        for (method, what), shares in found.items()
    ]


def _spread(shares: FloatArray) -> Record:
    """Of actual errors over claimed ones."""
    return {
        "entries": int(shares.size),
        "outside": int(np.sum(~(shares <= 1.0))),
        "median": float(np.median(shares)),
        "largest": float(shares.max()),
    }


def autograd(d: int, n: int, seed: int) -> Record:
    """exact_torch's derivatives beside mvnorth's, and Genz's recursion in plain torch."""
    import torch

    from exact_torch import mvn_logcdf, orthant_logprob
    from validation.benchmarks import derivatives, torch_genz

    torch.set_num_threads(1)
    m, L = derivatives.problem(d)
    ours = mvnorth.orthant_grad(m, L, n, wrt=("m", "L", "cov"), log=True, seed=seed)
    mean, factor, cov = (torch.tensor(x, requires_grad=True) for x in (m, L, L @ L.T))
    orthant_logprob(mean, factor, n, seed=seed).backward()
    assert mean.grad is not None
    assert factor.grad is not None
    off = {
        "orthant_logprob, m": relative(mean.grad.numpy(), ours.grad_m),
        "orthant_logprob, L": relative(np.tril(factor.grad.numpy()), ours.grad_L),
    }
    x = torch.tensor(m, requires_grad=True)
    mvn_logcdf(x, 0.0, cov, n, seed=seed).backward()
    assert x.grad is not None
    assert cov.grad is not None
    symmetric = cov.grad.numpy()
    off["mvn_logcdf, x"] = relative(x.grad.numpy(), ours.grad_m)
    off["mvn_logcdf, cov"] = relative((symmetric + symmetric.T) / 2, ours.grad_cov)
    path = derivatives.gradient(m, L, n, "pathwise")
    u = torch_genz.points(n, d, derivatives.SHIFTS, seed=0)
    plain = torch_genz.gradient(m, L, u)
    return {
        "d": d,
        "n": n,
        "off": off,
        "plain": {"m": relative(plain[1], path.grad_m), "L": relative(plain[2], path.grad_L)},
        "outside": derivatives.outside(m, L, u, path),
    }


def scores(d: int, seed: int, n: int) -> Record | None:
    """R's slpmvnorm on a box; None where there is none."""
    if not r_mvtnorm.available("slpmvnorm"):
        return None
    problem = one_factor(np.random.default_rng([seed, d]), d, level=0.8, box=True)
    L = np.linalg.cholesky(problem.cov)
    theirs = r_mvtnorm.slpmvnorm(problem.lower, problem.upper, np.zeros(d), L, n)
    ours = mvnorth.box_grad(
        problem.lower, problem.upper, 0.0, problem.cov, n, method="tilting", log=True
    )
    found = {"lower": theirs.lower, "upper": theirs.upper}
    return {
        "d": d,
        "n": n,
        "slpmvnorm": _worst(found, problem.truth),
        "mvnorth": _worst({name: getattr(ours, f"grad_{name}") for name in found}, problem.truth),
    }


def _worst(found: Mapping[str, FloatArray], truth: Mapping[str, FloatArray]) -> float:
    return float(np.max([relative(found[name], truth[name]) for name in found]))
