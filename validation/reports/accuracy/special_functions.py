"""Phi, its logarithm, its inverse and phi/Phi in units of the last place; a part of accuracy."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any, NamedTuple

import mpmath
import numpy as np
import scipy.special
from mpmath import mpf

from mvnorth import special
from validation.oracles import exact
from validation.page import Check, Picture, Section, Table, Text
from validation.page.figures import axes
from validation.reports import Results
from validation.reports.parts import NOT_YET
from validation.running import Task

_BINS = {"small": 6, "quick": 25, "full": 50}  # of a range
_POINTS = {"small": 5, "quick": 12, "full": 60}  # in a bin


class Range(NamedTuple):
    """Where a function is tried.

    ``scale`` says how ``low`` to ``high`` become arguments: "x" as they are; "-10^", "10^" by a
    power of ten and its sign; "1/2 +", "1/2 -", "1 -" by a power of ten and a sum.
    ``claim`` is the relative error that the documentation promises; None where results are
    subnormal, of which it promises nothing relative.
    """

    name: str
    scale: str
    low: float
    high: float
    claim: float | None


_NEAR, _FAR = 1e-15, 1e-14  # what docstrings of mvnorth.special claim: |x| <= 8 and beyond
_SMALLEST = -37.52  # below it Phi is subnormal
_TINY = math.log10(math.ulp(0.0)) + 0.2
_PHI_8 = math.log10(6.3e-16)  # Phi(-8) is 6.2e-16

RANGES: dict[str, tuple[Range, ...]] = {
    "ndtr": (
        Range("-8 to 8", "x", -8.0, 8.0, _NEAR),
        Range("-37.52 to -8", "x", _SMALLEST, -8.0, _FAR),
        Range("-38.4 to -37.52, subnormal", "x", -38.4, _SMALLEST, None),
        Range("-1 to -1e-20", "-10^", -20.0, 0.0, _NEAR),
        Range("8 to 40", "x", 8.0, 40.0, _FAR),
    ),
    "log_ndtr": (
        Range("-8 to 8", "x", -8.0, 8.0, _NEAR),
        Range("-40 to -8", "x", -40.0, -8.0, _NEAR),
        Range("8 to 37.5", "x", 8.0, 37.5, _NEAR),
        Range("-1e150 to -40", "-10^", 1.6, 150.0, _NEAR),
        Range("1e-20 to 1", "10^", -20.0, 0.0, _NEAR),
    ),
    "mills": (
        Range("-8 to 8", "x", -8.0, 8.0, _NEAR),
        Range("-40 to -8", "x", -40.0, -8.0, _FAR),
        Range("8 to 37.5", "x", 8.0, 37.5, _FAR),
        Range("-1e8 to -40", "-10^", 1.6, 8.0, _FAR),  # beyond it 40 digits are not enough
    ),
    "ndtri": (
        Range("p from Φ(-8) to 1/2", "10^", _PHI_8, math.log10(0.5), _NEAR),
        Range("p from 1e-307 to Φ(-8)", "10^", -307.0, _PHI_8, _FAR),
        Range("p from 5e-324 to 1e-307, subnormal", "10^", _TINY, -307.0, _FAR),
        Range("p from 1/2 to 1 - 1e-15", "1 -", -15.0, math.log10(0.5), _NEAR),
        Range("p from 1/2 - 0.4 to 1/2 - 1e-16", "1/2 -", -16.0, math.log10(0.4), _NEAR),
        Range("p from 1/2 + 1e-16 to 1/2 + 0.4", "1/2 +", -15.6, math.log10(0.4), _NEAR),
    ),
}


def tasks(scale: str) -> list[Task]:
    return [Task(f"ulps, {name}", measure, {"function": name, "scale": scale}) for name in RANGES]


def measure(function: str, scale: str) -> list[list[Any]]:
    """The worst of each bin: range, argument, value, ulps, relative error, scipy's ulps."""
    rng = np.random.default_rng(len(function))
    truth_of = getattr(exact, function)
    found: list[list[Any]] = []
    for index, where in enumerate(RANGES[function]):
        edges = np.linspace(where.low, where.high, _BINS[scale] + 1)
        for low, high in pairwise(edges):
            x = _arguments(where.scale, np.append(rng.uniform(low, high, _POINTS[scale]), high))
            got, other = getattr(special, function)(x), _scipy(function, x)
            worst = (-1.0, 0.0, 0.0, 0.0)
            worst_other = 0.0
            for a, value, theirs in zip(x.tolist(), got.tolist(), other.tolist(), strict=True):
                truth = truth_of(a)
                ulps, relative = distance(value, truth)
                worst = max(worst, (ulps, relative, a, float(truth)))
                worst_other = max(worst_other, distance(theirs, truth)[0])
            ulps, relative, a, value = worst
            found.append([index, a, value, ulps, relative, worst_other, x.size])
    return found


def _arguments(scale: str, t: np.ndarray) -> np.ndarray:
    if scale == "x":
        return t
    power = 10.0**t
    start = {"10^": 0.0, "-10^": 0.0, "1/2 +": 0.5, "1/2 -": 0.5, "1 -": 1.0}[scale]
    x = start - power if scale.startswith("-") or scale.endswith("-") else start + power
    return np.asarray(x[x != 0.5])  # where the inverse is 0; see ``_edges``


def _scipy(function: str, x: np.ndarray) -> np.ndarray:
    if function == "mills":  # scipy has none: the usual formula
        with np.errstate(over="ignore", under="ignore"):
            log_density = -(x**2) / 2 - math.log(2 * math.pi) / 2
            return np.asarray(np.exp(log_density - scipy.special.log_ndtr(x)))
    return np.asarray(getattr(scipy.special, function)(x))


def distance(value: float, truth: mpf) -> tuple[float, float]:
    """|value - truth| in units of the last place of the truth, and relative to it."""
    if not math.isfinite(value):
        return math.inf, math.inf
    with mpmath.workdps(exact.DIGITS):
        off = abs(mpf(value) - truth)
        return float(off / math.ulp(float(truth))), float(off / abs(truth))


class Bin(NamedTuple):
    """The worst argument of a bin, as ``measure`` returns it."""

    place: int
    argument: float
    value: float
    ulps: float
    relative: float
    scipy_ulps: float
    points: int


class Line(NamedTuple):
    """The worst of a range: a row of the table."""

    function: str
    name: str
    points: int
    ulps: float
    argument: float
    relative: float
    claimed: float | None
    scipy_ulps: float


def section(results: Results, scale: str) -> Section:
    lines, failures, pictures = [], [], []
    for function, ranges in RANGES.items():
        bins = [Bin(*each) for each in results.get(f"ulps, {function}", [])]
        for index, where in enumerate(ranges):
            own = [b for b in bins if b.place == index]
            if not own:
                continue
            worst = max(own, key=lambda b: b.ulps)
            relative = max(b.relative for b in own)
            if where.claim is None:
                relative = math.nan
                fails = worst.ulps > 2.0
            else:
                fails = relative > where.claim
            if fails:
                failures.append(
                    f"{function} {where.name}: {worst.ulps:.3g} ulps at {worst.argument!r}"
                )
            points, theirs = sum(b.points for b in own), max(b.scipy_ulps for b in own)
            lines.append(
                Line(function, where.name, points, worst.ulps, worst.argument, relative,
                     where.claim, theirs)
            )  # fmt: skip
        if bins:
            pictures.append(_picture(function, bins))
    points = sum(line.points for line in lines)
    ulps = max((line.ulps for line in lines), default=0.0)
    theirs = max((line.scipy_ulps for line in lines), default=0.0)
    answer = (
        f"Φ, log Φ, φ/Φ and Φ⁻¹ are off by at most {ulps:.2g} units in the last place at "
        f"{points} arguments; scipy's by up to {theirs:.2g}."
        if lines
        else NOT_YET
    )
    return Section(
        "Special functions",
        [
            Text(
                "`mvnorth.special` against 40 digits of mpmath: the largest distance, in units "
                "in the last place (ulps) of the true value, and relative to it. Arguments are "
                "drawn evenly in bins over each range. Beside it scipy's function of the same "
                "name, for `mills` exp(log φ - `scipy.special.log_ndtr`)."
            ),
            *pictures,
            Table(
                "Special functions, worst of each range",
                ["function", "range", "points", "ulps", "at", "relative", "claimed", "scipy, ulps"],
                lines,
                "Where the result is subnormal nothing relative is claimed; two units in the last "
                "place are asked for.",
                cite="accuracy-special",
            ),
            Check(
                "The relative errors are what the documentation says: 1e-15 for |x| ≤ 8 and for "
                "`log_ndtr` everywhere, 1e-14 beyond.",
                not failures and bool(lines),
                f"{points} arguments, at most {ulps:.3g} ulps."
                + "".join(f" Not: {each}." for each in failures),
            ),
            _edges(),
        ],
        answer,
    )


def _picture(function: str, bins: list[Bin]) -> Picture:
    # The inverse is drawn over its value, so that all four share an axis.
    drawn = [(b.value if function == "ndtri" else b.argument, b.ulps, b.scipy_ulps) for b in bins]
    shown = sorted(each for each in drawn if abs(each[0]) <= 40)
    figure, ax = axes(log="y", xlabel="Φ⁻¹(p)" if function == "ndtri" else "x", ylabel="ulps")
    x, ours, theirs = zip(*shown, strict=True)
    ax.plot(x, [max(y, 0.05) for y in theirs], ".", color="C1", label="scipy")
    ax.plot(x, [max(y, 0.05) for y in ours], ".", color="C0", label="mvnorth")
    ax.legend(fontsize=8)
    rows = [list(row) for row in shown]
    data = Table("", ["x", "ulps", "scipy, ulps"], rows)
    caption = "Worst of each bin; below 0.05 shown as 0.05."
    return Picture(f"{function} in ulps", figure, data, caption)


def _edges() -> Check:
    """Infinities, zeros and what is no number."""
    inf, nan = math.inf, math.nan
    expected = {
        "ndtr": {inf: 1.0, -inf: 0.0, 0.0: 0.5},
        "log_ndtr": {inf: 0.0, -inf: -inf},
        "mills": {inf: 0.0, -inf: inf},
        "ndtri": {0.0: -inf, 1.0: inf, 0.5: 0.0, -1.0: nan, 2.0: nan},
    }
    wrong = []
    for name, cases in expected.items():
        for x, y in {**cases, nan: nan}.items():
            got = float(getattr(special, name)(x))
            if not (got == y or (math.isnan(got) and math.isnan(y))):
                wrong.append(f"{name}({x}) = {got}")
    return Check(
        "At infinity, zero, one half, one and NaN they return what they should.",
        not wrong,
        "; ".join(wrong) or "All do.",
    )
