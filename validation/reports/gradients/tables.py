"""Tables and checks of the report on gradients: each way beside oracles and the other ways."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from validation.page import Check, Table
from validation.page.content import Part
from validation.reports import Results
from validation.reports.gradients.ways import SAMPLED, Record
from validation.reports.honesty.counts import Counted, Group, every_group_check

N = 4096

# Largest relative differences, each above what was measured by some powers of ten.
EXACT = 1e-10  # 2e-14 for methods without sampling, beyond what their oracle rounds
DIGITS_OFF = 1e-11  # 4e-13, of differences of gradients
OUTSIDE = 0.02  # of entries beyond their errors, which claim 0.01; 0.0003 were


def grouped(records: Iterable[Record], key: Callable[[Record], Any]) -> dict[Any, list[Record]]:
    found: dict[Any, list[Record]] = {}
    for record in records:
        found.setdefault(key(record), []).append(record)
    return found


def largest(records: Iterable[Record], key: str = "off") -> float:
    return float(np.max([record[key] for record in records]))  # NaN if one is


def count_outside(records: list[Record]) -> tuple[int, int]:
    return sum(r["outside"] for r in records), sum(r["entries"] for r in records)


def _is_exact(record: Record) -> bool:
    """Methods that integrate without sampling; "auto" and "conditional" choose them if they can."""
    free = record["structure"].startswith("two factors")
    return record["method"] not in SAMPLED and not free


def _way(record: Record) -> tuple[str, str, str]:
    return record["method"], record["function"], record["wrt"]


def count_claims(records: list[Record]) -> Counted:
    """Return how many entries are outside their claimed errors, as the report on honesty counts."""
    outside, entries = count_outside(records)
    return Counted(entries, outside, 0, 0, float("nan"))


def beyond(records: list[Record]) -> Record:
    """Return the derivative without sampling that is furthest off beyond its oracle's rounding."""
    exact_ones = [record for record in records if _is_exact(record)]
    return max(exact_ones, key=lambda record: record["off"] - record["rounding"])


def exact(records: list[Record], results: Results) -> tuple[str, list[Part]]:
    own = [record for record in records if _is_exact(record)]
    rows = []
    for key, group in grouped(own, lambda r: (*_way(r), r["rounding"] > 1e-9)).items():
        most = max(group, key=lambda r: r["off"])
        oracle = "differences" if key[-1] else "exact"
        at = f"{most['structure']}, d = {most['d']}"
        rows.append([*key[:-1], oracle, len(group), most["off"], at])
    worst = beyond(own)
    outside, entries = count_outside(own)
    parts: list[Part] = [
        Table(
            "Methods without sampling error, beside oracles",
            ("method", "function", "in", "oracle", "problems", "off", "at"),
            sorted(rows),
            "Chains are known to 1e-8 in limits and 3e-6 in the covariance: their truths are "
            "differences.",
        ),
        Check(
            f"Derivatives without sampling are off by at most {EXACT:.0e} more than their oracle.",
            all(record["off"] - record["rounding"] <= EXACT for record in own),
            f"{worst['off']:.1e} by {worst['method']} in {worst['wrt']} for "
            f"{worst['structure']}, d = {worst['d']}, whose oracle has {worst['rounding']:.0e}.",
        ),
        Check(
            "All of their entries are within the errors claimed (and the oracle's).",
            outside == 0,
            f"{outside} of {entries} are not.",
        ),
    ]
    if "stored factors" in results:
        parts += _stored_factors(results["stored factors"])
    live = [results[name] for name in results if name.startswith("digits: ")]
    columns = ("oracle", "hessian", "of P", "times a vector", "by differences")
    worst_digits = float(np.max([record[name] for record in live for name in columns]))
    parts += [
        Table(
            "Beside 40 digits, computed now",
            ("d", "the float64 oracle", "`orthant_hessian`", *columns[2:]),
            [[record["d"], *(record[name] for name in columns)] for record in live],
            "Random factors: gradient and covariance of the oracle above, and second derivatives "
            "in the mean: of log P, of P, of log P times a vector, and by differences of "
            "gradients.",
        ),
        Check(
            f"Oracle and second derivatives are off by at most {DIGITS_OFF:.0e} from 40 digits.",
            worst_digits <= DIGITS_OFF,
            f"{worst_digits:.1e} at most.",
        ),
    ]
    precise = [record["off"] for record in own if record["rounding"] <= 1e-9]
    answer = (
        f"Derivatives without sampling are off by at most {max(precise):.0e} where the oracle is "
        f"exact, and {outside} of {entries} entries are outside their claimed errors."
    )
    return answer, parts


def _stored_factors(records: list[Record]) -> list[Part]:
    rows = []
    for regime, group in grouped(records, lambda r: r["regime"]).items():
        offs = [largest(r for r in group if r["wrt"] == name) for name in "mcv"]
        d = [r["d"] for r in group]
        rows.append([regime, min(d), max(d), *offs, count_outside(group)[0]])
    outside, entries = count_outside(records)
    in_m = largest(r for r in records if r["wrt"] == "m")
    return [
        Table(
            "Stored 40-digit derivatives with one factor",
            ("regime", "d from", "to", "off in m", "in c", "in v", "outside"),
            rows,
            "`orthant_grad` of a `OneFactor`. At walls (c far below v²) the derivative in c is a "
            "difference that nearly cancels; its error says so.",
            cite="gradients-one-factor",
        ),
        Check(
            "The stored derivatives are met: in m to 1e-11, in c and v to 1e-6, each entry within "
            "its error.",
            in_m <= 1e-11 and largest(records) <= 1e-6 and outside == 0,
            f"{in_m:.1e} in m, {largest(records):.1e} in all, {outside} of {entries} entries "
            "outside.",
        ),
    ]


def sampled(records: list[Record]) -> tuple[str, list[Part]]:
    own = [record for record in records if not _is_exact(record)]
    rows = []
    for key, group in grouped(own, lambda r: (r["structure"], r["d"], r["method"])).items():
        offs = [
            largest(part) if part else None
            for part in (
                [r for r in group if r["wrt"] not in ("cov", "L", "c", "v")],
                [r for r in group if r["wrt"] in ("cov", "L", "c", "v")],
            )
        ]
        rows.append([*key, *offs, largest(group, "claimed"), *count_outside(group)])
    counted = count_claims(own)
    groups = {
        Group(method, structure): count_claims(group)
        for (method, structure), group in grouped(
            own, lambda r: (r["method"], r["structure"])
        ).items()
    }
    answer = (
        f"With {N} points, outside their claimed errors: {counted} of the entries; the median "
        f"error is {float(np.median([record['off'] for record in own])):.0e} of the largest entry."
    )
    return answer, [
        Table(
            f"Sampled derivatives with {N} points, beside oracles",
            ("structure", "d", "method", "off in limits", "in cov, L, c, v", "claimed", "outside",
             "of"),
            rows,
            "Largest over functions; `claimed` is the largest error claimed, relative to the "
            "largest entry.",
        ),
        every_group_check("Sampled entries", groups),
    ]  # fmt: skip


def between(pairs: list[Record]) -> tuple[str, list[Part]]:
    groups = grouped(pairs, lambda p: (p["one"], p["other"]))
    names = list(dict.fromkeys(name for key in groups for name in key))
    rows = []
    for one in names:
        cells = []
        for other in names:
            group = groups.get((one, other), []) + groups.get((other, one), [])
            cells.append(float(np.median([p["off"] for p in group])) if group else None)
        rows.append([one, *cells])
    apart = {
        name: largest(p for p in pairs if {p["one"], p["other"]} == {"auto", name})
        for name in names
        if name in ("quadrature", "markov", "closed_form")
    }
    top = max(apart, key=lambda name: apart[name])
    answer = f"`auto` differs from each method without sampling by at most {apart[top]:.0e}."
    return answer, [
        Table(
            "Median over problems of the largest difference between two ways",
            ("", *names),
            rows,
            "Of all derivatives that both have, relative to the largest entry.",
        ),
        Check(
            "`auto` is as near to each exact method as rounding allows: 1e-9.",
            apart[top] <= 1e-9,
            f"{apart[top]:.1e} to {top}.",
        ),
    ]
