"""Each way to a derivative beside an oracle and the other ways, for the report on gradients."""

from __future__ import annotations

import functools
import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np

import mvnorth
from mvnorth import OneFactor
from validation import reference
from validation.oracles import slopes
from validation.oracles.one_dimension import FloatArray
from validation.oracles.one_factor import one_factor_derivatives
from validation.problems import problems, reference_gradient
from validation.reports.gradients.cases import Case, case

SAMPLED = ("pathwise", "tilting", "pinned")
PAIRS = 5  # largest d for covariances by "conditional", which takes 2 d (d - 1) problems
Record = dict[str, Any]


def relative(found: FloatArray, truth: FloatArray) -> float:
    """The largest difference over the largest entry; where all is zero, the difference."""
    size = float(np.abs(truth).max())
    return float(np.abs(found - truth).max()) / (size or 1.0)


def compared(found: Any, truths: dict[str, FloatArray], rounding: dict[str, float]) -> list[Record]:
    """Each derivative of ``found`` that ``truths`` has, beside its truth."""
    records = []
    for name, truth in truths.items():
        value, error = getattr(found, f"grad_{name}"), getattr(found, f"grad_{name}_error")
        allowed = error + rounding[name] * np.abs(truth).max()
        off = np.abs(value - truth)
        records.append(
            {
                "wrt": name,
                "off": relative(value, truth),
                "rounding": rounding[name],
                "claimed": float(error.max()) / (float(np.abs(truth).max()) or 1.0),
                "outside": int(np.sum(~(off <= allowed))),
                "entries": int(value.size),
            }
        )
    return records


def ways(structure: str, d: int, seed: int, n: int) -> dict[str, list[Record]]:
    """All functions and methods on one problem of a structure, and methods beside each other."""
    problem = case(structure, d, seed)
    records: list[Record] = []
    results: dict[str, Any] = {}
    for method in ("auto", *problem.exact, *SAMPLED, "conditional"):
        results[method] = _box(problem, problem.cov, n, method)
        known = results[method].truths
        records += _named("box_grad", method, results[method], known, problem.rounding)
        if problem.factors is not None and method != "pinned":
            found = _box(problem, problem.one_factor, n, method)
            records += _named("box_grad, OneFactor", method, found, found.truths, problem.rounding)
        if problem.is_orthant:
            records += _orthant(problem, n, method)
    scipys = mvnorth.cdf_grad(
        problem.upper,
        cov=problem.cov,
        lower_limit=problem.lower,
        wrt=("x", "lower_limit", "mean"),
        maxpts=n,
        log=True,
    )
    truths = {"x": problem.truth["upper"], "mean": problem.truth["mean"]}
    if not problem.is_orthant:
        truths["lower_limit"] = problem.truth["lower"]
    limits = dict.fromkeys(truths, problem.rounding["upper"])
    records += _named("cdf_grad", "auto", scipys, truths, limits)
    here = {"structure": structure, "d": d, "seed": seed}
    pairs = [
        {"one": one, "other": other, "off": _apart(results[one], results[other])}
        for one, other in itertools.combinations(results, 2)
    ]
    return {"records": [here | record for record in records], "pairs": pairs}


class _Found:
    """A gradient together with the truths of what was asked for."""

    def __init__(self, result: Any, truths: dict[str, FloatArray]) -> None:
        self.result, self.truths = result, truths

    def __getattr__(self, name: str) -> Any:
        return getattr(self.result, name)


def _box(problem: Case, cov: Any, n: int, method: str) -> _Found:
    """By ``box_grad``, in all that is known and that the method can do."""
    truths = dict(problem.truth)
    if problem.is_orthant:
        truths.pop("lower", None)
    if not isinstance(cov, OneFactor):
        truths = {name: truth for name, truth in truths.items() if name not in "cv"}
    if method == "pinned" or (method == "conditional" and len(problem.upper) > PAIRS):
        truths = {name: truths[name] for name in truths if name in ("lower", "upper", "mean")}
    arguments = (problem.lower, problem.upper, 0.0, cov, n)
    found = mvnorth.box_grad(*arguments, wrt=tuple(truths), method=method, log=True)
    return _Found(found, truths)


def _orthant(problem: Case, n: int, method: str) -> list[Record]:
    """By ``orthant_grad``: in the means and, where G is known, in L through 2 G L."""
    L = np.linalg.cholesky(problem.cov)
    truths = {"m": problem.truth["upper"]}
    rounding = {"m": problem.rounding["upper"]}
    pairs = method != "pinned" and not (method == "conditional" and len(L) > PAIRS)
    if "cov" in problem.truth and pairs:
        truths["cov"], truths["L"] = problem.truth["cov"], np.tril(2 * problem.truth["cov"] @ L)
        rounding["cov"] = rounding["L"] = problem.rounding["cov"]
    found = mvnorth.orthant_grad(
        problem.upper, L, n, wrt=tuple(truths), method=method, log=True, seed=1
    )
    return _named("orthant_grad", method, found, truths, rounding)


def _named(
    function: str,
    method: str,
    found: Any,
    truths: dict[str, FloatArray],
    rounding: dict[str, float],
) -> list[Record]:
    records = compared(found, truths, rounding)
    return [{"function": function, "method": method, **record} for record in records]


def _apart(one: _Found, other: _Found) -> float:
    """The largest difference of two gradients in what both have."""
    both = [name for name in one.truths if name in other.truths]
    apart = [
        relative(getattr(one, f"grad_{name}"), getattr(other, f"grad_{name}")) for name in both
    ]
    return float(np.max(apart))


def stored_factors(largest: int) -> list[Record]:
    """The stored 40-digit derivatives with one factor, up to ``largest`` coordinates."""
    records = []
    path = Path(reference.__file__).parent / "one_factor.json"
    for entry in json.loads(path.read_text()):
        if entry["d"] > largest:
            continue
        m, c, v = (np.repeat(np.array(entry[name]), entry["counts"]) for name in "mcv")
        truths = {name: np.repeat(entry[f"grad_{name}"], entry["counts"]) for name in "mcv"}
        found = mvnorth.orthant_grad(m, OneFactor(c, v), wrt=("m", "c", "v"), log=True)
        here = {"regime": entry["regime"], "d": entry["d"]}
        records += [here | each for each in compared(found, truths, dict.fromkeys("mcv", 1e-15))]
    return records


def stored_limits(n: int, largest: int) -> list[Record]:
    """The stored references whose gradient in the limits is known, given as dense matrices."""
    records = []
    for problem in problems("reference"):
        truth = reference_gradient(problem.name)
        d = len(problem.upper)
        if truth is None or d > largest:
            continue
        for method in ("auto", "pathwise", "tilting"):
            found = mvnorth.cdf_grad(
                problem.upper, cov=problem.cov, method=method, maxpts=n, log=True
            )
            (record,) = compared(found, {"x": truth}, {"x": 1e-10})
            here = {"problem": problem.name, "d": d, "method": method, "taken": found.method}
            records.append(here | record)
    return records


def digits(d: int, seed: int) -> Record:
    """The float64 oracle and ``orthant_hessian`` beside 40 digits, live."""
    rng = np.random.default_rng([seed, d])
    m, c, v = rng.normal(0.5, 1.0, d), rng.lognormal(0.0, 0.5, d), rng.normal(0.0, 1.0, d)
    exactly = one_factor_derivatives(m, c, v, hessian=True)
    assert exactly.hessian is not None
    gradient, hessian = np.array(exactly.m, float), np.array(exactly.hessian, float)
    oracle = slopes.one_factor(np.full(d, -np.inf), m, c, v)
    vector = rng.normal(size=d)
    cov = OneFactor(c, v)
    prob = float(np.exp(float(exactly.log_prob)))
    of_prob = prob * (hessian + np.outer(gradient, gradient))
    in_cov = (hessian + np.outer(gradient, gradient)) / 2
    step = 1e-3
    shifted = functools.partial(mvnorth.orthant_grad, L=cov, wrt=("m",), log=True)
    columns = [
        (8 * (shifted(m + e).grad_m - shifted(m - e).grad_m))
        - (shifted(m + 2 * e).grad_m - shifted(m - 2 * e).grad_m)
        for e in step * np.eye(d)
    ]
    return {
        "d": d,
        "oracle": float(np.maximum(relative(oracle.upper, gradient), relative(oracle.cov, in_cov))),
        "hessian": relative(mvnorth.orthant_hessian(m, cov, log=True), hessian),
        "of P": relative(mvnorth.orthant_hessian(m, cov), of_prob),
        "times a vector": relative(
            mvnorth.orthant_hessian(m, cov, vector, log=True), hessian @ vector
        ),
        "by differences": relative(np.array(columns) / (12 * step), hessian),
    }
