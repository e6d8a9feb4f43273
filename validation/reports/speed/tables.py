"""Tables, pictures and checks of the report on speed: mvnorth beside its peers.

Checks are of true errors and bits, and of ratios that are so large that no other work on the
machine could turn them: each threshold is less than a third of what was measured, mostly far less.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from validation.benchmarks.timing import geometric_mean
from validation.page import Check, Finding, NotRun, Picture, Table
from validation.page.content import Part, Verdict
from validation.page.figures import axes
from validation.reports.intervals import Mean, geometric_mean_of
from validation.reports.parts import NOT_YET
from validation.reports.runs import interval
from validation.reports.speed.measurements import Record, bound, ratio

COLOURS = {"mvnorth": "C0", "scipy": "C1", "mvtnorm": "C2", "BoTorch": "C3"}

# Ratios of seconds that must be exceeded, and what was measured on a busy machine.
TAIL = 5.0  # the better of scipy and mvtnorm over tilting: 130 and more
BOTORCH = 2.0  # 7 at d = 5 to 40 at d = 100


def side_by_side(found: Mapping[str, Record]) -> tuple[str, list[Part]]:
    rows: list[list[Any]] = []
    ratios: list[Ratio] = []
    missed = []
    names = list(dict.fromkeys(name for each in found.values() for name in each["programs"]))
    for problem, each in found.items():
        own = each["programs"]["mvnorth"]
        for k, reached in enumerate(own):
            others = {name: each["programs"][name][k] for name in names if name != "mvnorth"}
            if not reached["met"]:
                missed.append(f"{problem} at {reached['target']:g}")
            for name, other in others.items():
                value = ratio(reached, other)
                if value is not None:
                    ratios.append(Ratio(value, name, problem, reached["target"]))
                rows.append(
                    [problem, reached["target"], name, _seconds(reached), reached["error"],
                     _seconds(other), other["error"], bound(reached, [other])]
                )  # fmt: skip
    parts: list[Part] = [
        Table(
            "Seconds to a true relative error",
            ("problem", "target", "peer", "mvnorth, s", "its error", "peer, s", "its error ",
             "peer / mvnorth"),
            rows,
            "Pr(X <= b) from b and the covariance matrix by the general method, mvnorth's "
            '`method="genz"`, reordering included; `>`: not within the seconds allowed for a call, '
            "seconds and error of the last setting.",
            cite="speed-ratios",
        ),
        *_picture_of_dimensions(found, names),
    ]  # fmt: skip
    answer = NOT_YET
    if ratios:
        least = min(ratios, key=lambda each: each.times)
        most = max(ratios, key=lambda each: each.times)
        over = geometric_mean_of(_by_problem(ratios))
        slower = sum(each.times < 1 for each in ratios)
        answer = (
            f"To the same true error, where both arrived, peers took {over.text(1)} times as long "
            f"as mvnorth (geometric mean over {len(found)} problems): from {least.times:.2g} "
            f"({least.peer}, {least.problem}) to {most.times:.2g} ({most.peer}, {most.problem}). "
            f"mvnorth was slower in {slower} of {len(ratios)} comparisons."
        )
        parts.append(
            Finding(
                "To the same true error mvnorth is faster than scipy and R's mvtnorm.",
                "",
                f"they take {over.text(1)} times as long, geometric mean over {len(found)} "
                f"problems with d from {min(each['d'] for each in found.values())} to "
                f"{max(each['d'] for each in found.values())}; slower in {slower} of "
                f"{len(ratios)} comparisons",
                _faster(over),
            )
        )
    first = [each["programs"]["mvnorth"][0] for each in found.values()]
    parts.append(
        Check(
            f"mvnorth's true error meets {first[0]['target']:g} on every problem, in the seconds "
            "allowed.",
            all(reached["met"] for reached in first),
            f"Not met, of all targets: {', '.join(missed) or 'none'}.",
        )
    )
    if "mvtnorm" not in names:
        parts.append(_no_r())
    return answer, parts + _botorch(found)


class Ratio(NamedTuple):
    """A peer's seconds over mvnorth's to the same true error of a problem."""

    times: float
    peer: str
    problem: str
    target: float


def _by_problem(ratios: list[Ratio]) -> list[float]:
    """Return the geometric mean of each problem's ratios: problems are independent, peers not."""
    by: dict[str, list[float]] = {}
    for each in ratios:
        by.setdefault(each.problem, []).append(each.times)
    return [geometric_mean(values) for values in by.values()]


def _faster(over: Mean) -> Verdict:
    if over.low <= 1.0 <= over.high:
        return "not decided"
    return "holds" if over.low > 1.0 else "does not hold"


def _seconds(reached: Record) -> float | str:
    return float(reached["seconds"]) if reached["met"] else f"> {reached['seconds']:.2g}"


def _picture_of_dimensions(found: Mapping[str, Record], names: list[str]) -> list[Part]:
    """Seconds to the first target along chains."""
    chains = {name: each for name, each in found.items() if name.startswith("AR(1)")}
    if not chains:
        return []
    target = next(iter(chains.values()))["programs"]["mvnorth"][0]["target"]
    figure, ax = axes(log="xy", xlabel="d", ylabel=f"seconds to a true error of {target:g}")
    rows = []
    for name in names:
        points = [
            (each["d"], each["programs"][name][0]["seconds"])
            for each in chains.values()
            if each["programs"][name][0]["met"]
        ]
        rows += [[name, *point] for point in points]
        ax.plot(*zip(*points, strict=True), "o-", color=COLOURS[name], label=name) if points else 0
    points = [(each["d"], each["botorch"]["seconds"]) for each in chains.values()
              if each["botorch"]]  # fmt: skip
    if points:
        ax.plot(*zip(*points, strict=True), "x:", color="C3", label="BoTorch, whatever its error")
        rows += [["BoTorch, whatever its error", *point] for point in points]
    ax.legend(fontsize=8)
    title = "Seconds against dimensions, AR(1) with 0.9"
    caption = "Points that did not meet the target are left out."
    return [Picture(title, figure, Table(title, ("program", "d", "seconds"), rows), caption)]


def _botorch(found: Mapping[str, Record]) -> list[Part]:
    lines = {name: each["botorch"] for name, each in found.items() if each["botorch"]}
    if not lines:
        why = "BoTorch cannot be imported."
        return [NotRun("BoTorch's MVNXPB", why, "python -m pip install botorch")]
    rows, ratios = [], []
    for name, line in lines.items():
        own = line["mvnorth"]
        ratios.append(line["seconds"] / own["seconds"])
        rows.append([name, line["error"], line["seconds"], own["error"], own["seconds"],
                     ratios[-1]])  # fmt: skip
    return [
        Table(
            "BoTorch's MVNXPB, and mvnorth with no larger a true error",
            ("problem", "its error", "its seconds", "mvnorth's error", "seconds", "ratio"),
            rows,
            "An approximation without settings: it cannot be asked for less error. It takes "
            "batches and is differentiable, which is not measured here.",
            cite="speed-mvnxpb",
        ),
        Check(
            f"mvnorth reaches BoTorch's error, and is more than {BOTORCH:g} times as fast.",
            min(ratios) > BOTORCH and all(line["mvnorth"]["met"] for line in lines.values()),
            f"{min(ratios):.3g} to {max(ratios):.3g} times.",
        ),
    ]


def far_out(found: Mapping[str, Record]) -> tuple[str, list[Part]]:
    rows: list[list[Any]] = []
    best: list[float] = []
    missed = []
    arrived = 0
    peers = ("scipy", "mvtnorm")
    for problem, each in found.items():
        programs = {
            name: {key: value for key, value in reached.items() if key != "claimed"}
            for name, reached in each["programs"].items()
        }
        own = programs["tilting"]
        if not own["met"]:
            missed.append(problem)
        for name, other in programs.items():
            if name == "tilting":
                continue
            rows.append(
                [problem, each["log_prob"], name, _seconds(own), _seconds(other), other["error"],
                 bound(own, [other])]
            )  # fmt: skip
            arrived += name in peers and other["met"]
            # A sweep ends between half of the limit and the limit.
            if name in peers and (other["met"] or 6 * TAIL * own["seconds"] < each["limit"]):
                best.append(other["seconds"] / own["seconds"])
    shown = Check(
        f"Where the seconds allowed can show it, scipy and mvtnorm take more than {TAIL:g} times "
        "as long, or have not arrived then.",
        all(each > TAIL for each in best),
        f"{min(best, default=0.0):.3g} times at least, {len(best)} rows.",
    )
    compared = sum(name in peers for each in found.values() for name in each["programs"])
    lowest = min(each["log_prob"] for each in found.values())
    answer = (
        f"Down to log P = {lowest:.0f} `tilting` meets a true error of 1e-3 on "
        f"{len(found) - len(missed)} of {len(found)} problems; scipy and mvtnorm on {arrived} of "
        f"{compared} within the seconds allowed"
        + (f", and take at least {min(best):.2g} times as long." if best else ".")
    )
    low, high = interval(arrived, compared)
    finding = Finding(
        "In the tails scipy and R's mvtnorm do not reach an error of 1e-3 in the time in which "
        "mvnorth's tilting does.",
        "",
        f"they arrive in {arrived} of {compared} cases ({100 * low:.0f} to {100 * high:.0f} %), "
        f"mvnorth in {len(found) - len(missed)} of {len(found)}"
        + (f"; at least {min(best):.2g} times as long" if best else ""),
        _later(best, missed),
    )
    return answer, [
        finding,
        Table(
            "Seconds to a true relative error of 1e-3 in the tail",
            ("problem", "log P", "program", "tilting, s", "program, s", "its error",
             "program / tilting"),
            rows,
            "Processor time. `tilting` and `genz` are mvnorth's; `published` is Botev's algorithm "
            "in numpy and scipy, written for this comparison.",
            cite="speed-tails",
        ),
        Check(
            "Tilting meets a true error of 1e-3 on every problem, in the seconds allowed.",
            bool(found) and not missed,
            f"Not met: {', '.join(missed) or 'none'}.",
        ),
        *([shown] if best else []),
        *([] if any("mvtnorm" in each["programs"] for each in found.values()) else [_no_r()]),
    ]  # fmt: skip


def _later(best: list[float], missed: list[str]) -> Verdict:
    if missed or any(times <= 1.0 for times in best):
        return "does not hold"
    return "holds" if best else "not decided"


def batches(found: Mapping[str, Record]) -> tuple[str, list[Part]]:
    rows, ratios = [], []
    for each in found.values():
        own = each["programs"]["mvnorth"]
        for name, other in each["programs"].items():
            if name != "mvnorth":
                value = ratio(own, other)
                ratios += [value] if value is not None else []
                rows.append(
                    [each["d"], name, 1 / own["seconds"], own["error"], 1 / other["seconds"],
                     other["error"], bound(own, [other])]
                )  # fmt: skip
    met = all(each["programs"]["mvnorth"]["met"] for each in found.values())
    check = float(np.max([each["check"] for each in found.values()]))
    said = f"{min(ratios):.2g} to {max(ratios):.2g}" if ratios else "nothing both reached"
    times = f"{said} times" if ratios else said
    answer = f"Problems a second at a true error of 1e-4, mvnorth's batches over peers: {times}."
    return answer, [
        Table(
            "Problems a second at a true error of 1e-4",
            ("d", "peer", "mvnorth", "its error", "peer's", "its error ", "mvnorth / peer"),
            rows,
            "Random correlations. mvnorth takes 200 rows in one call; peers take 20 of them one "
            f"after the other. Ratios: {said}.",
            cite="speed-batches",
        ),
        Check(
            "mvnorth's true error over a batch meets 1e-4.",
            met,
            f"{max(each['programs']['mvnorth']['error'] for each in found.values()):.1e} at most.",
        ),
        Check(
            "The answers that batches are judged by agree with scipy's to 5e-4.",
            check <= 5e-4,
            f"{check:.1e} at most, scipy with 50,000 points on three rows each.",
        ),
    ]


def _no_r() -> NotRun:
    why = "There is no Rscript with mvtnorm."
    return NotRun("R's mvtnorm", why, "Rscript -e 'install.packages(\"mvtnorm\")'")
