"""Errors of gradients: how often true ones are inside those reported; a part of honesty."""

from __future__ import annotations

import json
from typing import NamedTuple

import numpy as np

import mvnorth
from validation.page import Section, Table, Text
from validation.page.content import Part
from validation.problems import REFERENCE
from validation.reports import Results
from validation.reports.honesty.counts import Counted, Group, every_group_check, groups_table
from validation.reports.parts import NOT_YET
from validation.running import Task

_SETTINGS = {
    "small": {"seeds": 1, "largest": 10},
    "quick": {"seeds": 6, "largest": 30},
    "full": {"seeds": 30, "largest": 100},
}
_REGIMES = ("equal", "ordinary", "noise")
_METHODS = ("pathwise", "quadrature", "pinned", "tilting", "conditional")


def tasks(scale: str) -> list[Task]:
    methods = _METHODS[:2] if scale == "small" else _METHODS  # the others take long to compile
    return [
        Task(f"gradients, {method}", gradients, {"method": method, **_SETTINGS[scale]})
        for method in methods
    ]


class Case(NamedTuple):
    """One gradient: entries with a claim and how many of them are outside; the largest ratio."""

    number: int
    regime: str
    d: int
    log_prob: float
    seed: int
    claims: int
    outside: int
    ratio: float


def gradients(method: str, seeds: int, largest: int) -> list[Case]:
    """Return the claims of a method for stored orthants with known gradients."""
    found: list[Case] = []
    cases = json.loads((REFERENCE / "one_factor.json").read_text())
    for number, case in enumerate(cases):
        log_prob = float(case["log_prob"])
        if case["regime"] not in _REGIMES or log_prob < -700:
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
            ratio = float(np.max(off[claims] / error[claims], initial=0.0))
            outside = int(np.sum(~(off[claims] <= error[claims])))
            which = (number, case["regime"], m.size, log_prob, seed)
            found.append(Case(*which, int(claims.sum()), outside, ratio))
    return found


def section(results: Results) -> Section:
    title = "Gradients' errors"
    by_method = {
        method: [Case(*row) for row in results[name]]
        for method in _METHODS
        if (name := f"gradients, {method}") in results
    }
    counts = {
        Group(method, regime): _count([c for c in cases if c.regime == regime])
        for method, cases in by_method.items()
        for regime in _REGIMES
    }
    counts = {group: counted for group, counted in counts.items() if counted.claims}
    if not counts:
        return Section(title, [], NOT_YET)
    total = _count([case for cases in by_method.values() for case in cases])
    method, worst = max(
        ((method, case) for method, cases in by_method.items() for case in cases),
        key=lambda each: each[1].ratio,
    )
    failures = [
        [name, case.regime, case.d, case.log_prob, case.seed, f"{case.outside} of {case.claims}",
         case.ratio]
        for name, cases in by_method.items()
        for case in cases
        if case.outside
    ]  # fmt: skip
    parts: list[Part] = [
        Text(
            "The same for every entry of the gradient of log P in the means, against stored "
            "40-digit gradients of orthants with one common factor, which all methods "
            "but `quadrature` get as a dense factor, with 2048 points. Entries of one gradient "
            "share their points, so that intervals are too narrow."
        ),
        groups_table(
            "Entries of gradients outside their claimed errors",
            counts,
            len(counts),
            cite="honesty-gradients",
        ),
        every_group_check("Entries of gradients", counts),
        Table(
            "All gradients with entries outside",
            ["method", "regime", "d", "log P", "seed", "entries outside", "largest ratio"],
            failures,
        ),
    ]
    answer = (
        f"{total} of the claims for an entry are outside, where 1 % is promised; the largest true "
        f"error is {worst.ratio:.2g} times the claimed one (`{method}`, d = {worst.d})."
    )
    return Section(title, parts, answer)


def _count(cases: list[Case]) -> Counted:
    claims = sum(case.claims for case in cases)
    return Counted(claims, sum(case.outside for case in cases), 0, 0, float("nan"))
