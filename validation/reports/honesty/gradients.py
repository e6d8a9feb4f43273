"""Errors of gradients: how often true ones are inside those reported; a part of honesty."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np

import mvnorth
from validation.page import Check, Section, Table, Text
from validation.page.content import Part
from validation.problems import REFERENCE
from validation.reports import Results
from validation.reports.runs import PROMISE, interval
from validation.running import Task

_SETTINGS = {
    "small": {"seeds": 1, "largest": 10},
    "quick": {"seeds": 6, "largest": 30},
    "full": {"seeds": 30, "largest": 100},
}
_METHODS = ("pathwise", "quadrature", "pinned", "tilting", "conditional")


def tasks(scale: str) -> list[Task]:
    methods = _METHODS[:2] if scale == "small" else _METHODS  # the others take long to compile
    return [
        Task(f"gradients, {method}", gradients, {"method": method, **_SETTINGS[scale]})
        for method in methods
    ]


def gradients(method: str, seeds: int, largest: int) -> list[list[Any]]:
    """(case, seed, entries, outside, claims, largest share) for stored orthants and gradients."""
    found: list[list[Any]] = []
    cases = json.loads((REFERENCE / "one_factor.json").read_text())
    for index, case in enumerate(cases):
        log_prob = float(case["log_prob"])
        if case["regime"] not in ("equal", "ordinary", "noise") or log_prob < -700:
            continue
        m, c, v, truth = (np.repeat(case[k], case["counts"]) for k in ("m", "c", "v", "grad_m"))
        if not 4 <= m.size <= largest:
            continue
        exact = method == "quadrature"
        cov = mvnorth.OneFactor(c, v)
        factor = cov if exact else np.linalg.cholesky(np.diag(c) + np.outer(v, v))
        for seed in range(1 if exact else seeds):
            result = mvnorth.orthant_grad(m, factor, 2048, log=True, method=method, seed=seed)
            error = np.asarray(result.grad_m_error)
            # Stored to 33 digits of the largest entry, then rounded; the factor is rounded too.
            slack = 1e-15 * np.abs(truth).max() * (1 + abs(log_prob)) + (not exact) * 1e-12
            off = np.maximum(np.abs(result.grad_m - truth) - slack, 0.0)
            claims = np.isfinite(error)
            share = float(np.max(off[claims] / error[claims], initial=0.0))
            outside = int(np.sum(~(off[claims] <= error[claims])))
            name = f"{case['regime']}, d = {m.size}, log P = {log_prob:.1f} (case {index})"
            found.append([name, seed, m.size, outside, int(claims.sum()), share])
    return found


def section(results: Results, scale: str) -> Section:
    slopes = {
        name.removeprefix("gradients, "): value
        for name, value in results.items()
        if name.startswith("gradients, ")
    }
    rows, checks, failures = [], [], []
    for method, found in slopes.items():
        entries, claims = sum(row[2] for row in found), sum(row[4] for row in found)
        outside = sum(row[3] for row in found)
        low, high = interval(outside, claims)
        worst = max((row[5] for row in found), default=math.nan)
        rows.append([method, len(found), entries, entries - claims, outside,
                     100 * outside / max(1, claims), 100 * low, 100 * high, worst])  # fmt: skip
        failures += [[method, row[0], row[1], row[3], row[2], row[5]] for row in found if row[3]]
        checks.append(
            Check(
                f"Gradients by `{method}`: at most 1 % of the entries are outside their claimed "
                "errors; that is, the interval of their share does not lie above 1 %.",
                low <= PROMISE and claims > 0,
                f"{outside} of {claims} entries.",
            )
        )
    parts: list[Part] = [
        Text(
            "The same for every entry of the gradient of log P in the means, against stored "
            "40-digit gradients of orthants with one common factor, which all methods "
            "but `quadrature` get as a dense factor, with 2048 points."
        ),
        Table(
            "Gradients outside their claimed errors",
            ["method", "runs", "entries", "no claim", "outside", "outside, %", "from, %", "to, %",
             "largest ratio"],
            rows,
        ),
        *checks,
        Table(
            "All gradients with entries outside",
            ["method", "case", "seed", "entries outside", "of", "largest ratio"],
            failures,
        ),
    ]  # fmt: skip
    return Section("Gradients' errors", parts)
