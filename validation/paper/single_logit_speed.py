"""Single-logit classification, table 3: what computing one logit in place of k saves.

Keren, Sabato, Schuller, Analysis of loss functions for fast single-class classification (2020),
section 6.3. The times are those of ``single_logit_speed_runs``.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from validation.page import Check, Finding, NotRun, Picture, Section, Table, Text, axes
from validation.page.content import Part, Verdict
from validation.paper import single_logit_speed_runs as runs
from validation.reports import Results

TITLE = "Single logits, table 3: speed-up"
# Speed-ups by the exponent of the number of classes: forward passes of 32 images, Titan X.
PUBLISHED = {
    "AlexNet": {10.0: 1.04, 14.0: 1.14, 16.0: 1.59, 18.0: 5.68, 18.5: 21.38},
    "VGG-16": {10.0: 1.02, 14.0: 1.05, 16.0: 1.20, 18.0: 2.79, 18.5: 8.52},
    "Inception-v3": {10.0: 1.03, 14.0: 1.09, 16.0: 1.22, 18.0: 3.11, 18.5: 12.75},
    "ResNet-50": {10.0: 1.04, 14.0: 1.08, 16.0: 1.20, 18.0: 3.11, 18.5: 12.69},
    "ResNet-101": {10.0: 1.03, 14.0: 1.04, 16.0: 1.19, 18.0: 2.95, 18.5: 10.10},
}
_WORTH = 1.2  # a speed-up that is counted as one

tasks = runs.tasks


class Line(NamedTuple):
    """A network with 2^exponent classes: seconds of its parts, and the operations below the end."""

    network: str
    exponent: float
    below: float
    one: float
    all: float
    operations: float

    @property
    def ratio(self) -> float:
        """The time with all logits over that with one."""
        return (self.below + self.all) / (self.below + self.one)

    @property
    def work(self) -> float:
        """The operations with all logits over those with one."""
        width = runs.WIDTHS[self.network]
        last = 2 * width * round(2**self.exponent)
        return (self.operations + last) / (self.operations + 2 * width)


def section(results: Results, scale: str) -> Section:
    """Return the published table with ours beside it."""
    lines = _lines(results, scale)
    parts: list[Part] = [
        *_findings(lines),
        Text(
            "The time of a forward pass with all k logits over that with a single one. Published "
            "with five image networks on a Titan X; ours on one thread of this machine's CPU, "
            "random weights and input, batches of 32. The layers below the last one are timed "
            "once, the last layer for each k, the fastest of seven (of two where it takes more "
            "than two seconds); the speed-up is the ratio of sums. The published times jump at the "
            "end: 1.4 times as many classes take 3 to 4 times as long."
        ),
    ]
    if lines:
        parts += [_table(lines), _picture(lines)]
    parts += _checks(results, lines)
    if scale != "full":
        parts.append(
            NotRun(
                "All five published networks, up to 2^18.5 classes",
                "They take three minutes in which nothing else can run.",
                "python -m validation paper --full",
            )
        )
    parts.append(
        NotRun(
            "The same on a GPU",
            "A GPU is needed. The command measures the perceptron, a convolutional "
            "network, and the last layer of 2048 inputs alone.",
            "python -m validation.benchmarks.single_logit --device cuda --full",
        )
    )
    return Section(TITLE, parts, _answer(lines))


def _lines(results: Results, scale: str) -> list[Line]:
    lines = []
    for name in runs.MEASURED[scale]:
        if f"below, {name}" not in results:
            continue
        below = results[f"below, {name}"]
        for exponent in runs.SIZES[scale]:
            last = results.get(f"last layer, {runs.WIDTHS[name]}, 2^{exponent:g}")
            if last is not None and last["all"] is not None:
                lines.append(
                    Line(
                        name,
                        exponent,
                        below["seconds"],
                        last["one"],
                        last["all"],
                        below["operations"],
                    )
                )
    return lines


def _published_lines(lines: Sequence[Line]) -> list[Line]:
    return [line for line in lines if line.network in PUBLISHED]


def _range(values: Sequence[float]) -> str:
    low, high = min(values), max(values)
    return f"x{low:.3g}" if low == high else f"x{low:.3g} to x{high:.3g}"


def _answer(lines: Sequence[Line]) -> str:
    known = _published_lines(lines)
    if not known:
        return ""
    few, many = min(line.exponent for line in known), max(line.exponent for line in known)
    told = [
        f"2^{exponent:g} classes {_range([x.ratio for x in known if x.exponent == exponent])}"
        f" (published {_range([row[exponent] for row in PUBLISHED.values()])})"
        for exponent in (few, many)
    ]
    count = len({line.network for line in known})
    return (
        f"What one logit saves in a forward pass of {count} of the published networks on a CPU: "
        f"{', '.join(told)}."
    )


def _findings(lines: Sequence[Line]) -> list[Finding]:
    known = _published_lines(lines)
    few, many = min(runs.EXPONENTS), max(runs.EXPONENTS)
    needed = {(name, exponent) for name in PUBLISHED for exponent in runs.EXPONENTS}
    if {(line.network, line.exponent) for line in known} != needed:
        return []
    first = [line.ratio for line in known if line.exponent == few]
    last = [line.ratio for line in known if line.exponent == many]
    verdict: Verdict = "not decided"  # if networks differ in it
    if max(first) < _WORTH < min(last):
        verdict = "holds"
    elif min(first) >= _WORTH or max(last) <= _WORTH:
        verdict = "does not hold"
    return [
        Finding(
            "Computing one logit in place of all saves little with a thousand classes and much "
            "with hundreds of thousands.",
            "x1.02 to x1.04 at 2^10 classes, x8.5 to x21 at 2^18.5 on a GPU (single logits, "
            "table 3)",
            f"{_range(first)} at 2^10, {_range(last)} at 2^{many:g} on a CPU (range over "
            "five networks)",
            verdict,
        )
    ]


def _table(lines: Sequence[Line]) -> Table:
    rows = [
        [
            line.network,
            f"2^{line.exponent:g}",
            PUBLISHED.get(line.network, {}).get(line.exponent),
            line.ratio,
            line.work,
            1e3 * (line.below + line.one),
            1e3 * (line.below + line.all),
        ]
        for line in lines
    ]
    header = ["network", "classes", "published", "ours", "operations", "one logit, ms", "all, ms"]
    return Table(
        "Speed-up by a single logit: time with all logits over time with one",
        header,
        rows,
        "Operations: how many more a pass takes with all logits; times would have this ratio if "
        "all operations took the same time. Milliseconds are of 32 images.",
        cite="single-logit-speed",
    )


def _picture(lines: Sequence[Line]) -> Picture:
    figure, ax = axes(log="y", xlabel="log2 of the number of classes", ylabel="all / one")
    rows: list[list[Any]] = []
    for name, values in PUBLISHED.items():
        ax.plot(list(values), list(values.values()), "--", color="C7", linewidth=1)
        rows += [["published", name, exponent, value] for exponent, value in values.items()]
    ax.plot([], [], "--", color="C7", linewidth=1, label="published, five networks")
    for colour, name in enumerate(dict.fromkeys(line.network for line in lines)):
        ours = [line for line in lines if line.network == name]
        ax.plot(
            [line.exponent for line in ours],
            [line.ratio for line in ours],
            "o-",
            markersize=4,
            color=f"C{colour}",
            label=name,
        )
        rows += [["ours", name, line.exponent, line.ratio] for line in ours]
    ax.legend(fontsize=7)
    title = "Speed-up by a single logit against classes"
    return Picture(
        title,
        figure,
        Table(title, ["whose", "network", "log2 of classes", "all / one"], rows),
        "The perceptron is the network of the paper's MNIST runs: its last layer counts most.",
    )


def _checks(results: Results, lines: Sequence[Line]) -> list[Check]:
    checks = []
    if "same logit" in results:
        apart = results["same logit"]
        checks.append(
            Check(
                "The network that computes one logit of 1000 computes the same number: they agree "
                "to 1e-5 of the largest logit (single precision, sums in another order).",
                apart < 1e-5,
                f"{apart:.1e}",
            )
        )
    checks += _whole(results, lines)
    falling = [
        f"{name}: x{a.ratio:.3g} at 2^{a.exponent:g}, x{b.ratio:.3g} at 2^{b.exponent:g}"
        for name, ours in _by_network(lines).items()
        for a, b in itertools.pairwise(ours)
        if b.ratio < a.ratio
    ]
    if lines:
        checks.append(
            Check(
                "The speed-up grows with the number of classes, for each network at each step.",
                not falling,
                "; ".join(falling) or f"{len(lines)} lines",
            )
        )
    return checks


def _whole(results: Results, lines: Sequence[Line]) -> list[Check]:
    """Return the check that sums of parts are the times of whole networks."""
    pairs = [
        (line.ratio, results[f"whole, 2^{line.exponent:g}"], line.exponent)
        for line in lines
        if line.network == "perceptron" and f"whole, 2^{line.exponent:g}" in results
    ]
    if not pairs:
        return []
    far = max(max(ours / whole, whole / ours) for ours, whole, _ in pairs)
    return [
        Check(
            "Sums of separately timed parts are the times of whole networks: the perceptron's "
            "speed-up is the same within a factor of 1.5.",
            far < 1.5,
            "; ".join(
                f"2^{exponent:g}: x{ours:.3g} from parts, x{whole:.3g} as a whole"
                for ours, whole, exponent in pairs
            ),
        )
    ]


def _by_network(lines: Sequence[Line]) -> Mapping[str, list[Line]]:
    return {
        name: [line for line in lines if line.network == name]
        for name in dict.fromkeys(line.network for line in lines)
    }
