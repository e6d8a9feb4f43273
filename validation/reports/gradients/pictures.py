"""Pictures, tables and checks of the report on gradients: samples, honesty, other programs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from validation.page import Check, NotRun, Picture, Table
from validation.page.content import Part
from validation.page.figures import axes
from validation.reports import Results
from validation.reports.gradients.tables import (
    OUTSIDE,
    N,
    count_claims,
    count_outside,
    grouped,
    largest,
)
from validation.reports.gradients.ways import SAMPLED, Record
from validation.reports.honesty.counts import Group, every_group_check

# Each above what was measured by some powers of ten.
PATHWISE = 1e-7  # 9e-11, of differences of the value with the same points
AUTOGRAD = 1e-12  # 2e-15
RATE = 0.6  # of errors falling as n**-rate; 0.8 to 1.2, and 0.5 for plain Monte Carlo


def differences(records: list[Record]) -> tuple[str, list[Part]]:
    smooth = [record for record in records if not record["jumped"]]
    rows = []
    for key, group in grouped(records, lambda r: (r["method"], r["d"], r["box"])).items():
        kept = [r for r in group if not r["jumped"]]
        offs = [
            max((r["off"] for r in kept if r["wrt"] == name), default=None)
            for name in ("lower", "upper", "mean", "cov")
        ]
        method, d, box = key
        what = f"{'box' if box else 'orthant'}, d = {d}"
        rows.append([method, what, *offs, largest(group, "claimed"), len(group) - len(kept)])
    path = largest(r for r in smooth if r["method"] == "pathwise")
    tilted = [r for r in smooth if r["method"] == "tilting"]
    beyond = sum(r["outside"] for r in tilted)
    jumps = len(records) - len(smooth)
    answer = f"Pathwise derivatives are those of the sampled estimate to {path:.0e}."
    return answer, [
        Table(
            f"Derivatives beside differences of the value with the same {N} points",
            (
                "method",
                "problem",
                "off in lower",
                "in upper",
                "in mean",
                "in cov",
                "claimed",
                "jumps",
            ),
            rows,
            "Random covariances. Pathwise derivatives are those of the Genz estimate itself; those "
            "of the tilted one hold the tilt, which differences move. The order of coordinates may "
            "change within a step, where the estimate jumps: two steps then disagree.",
        ),
        Check(
            f"Pathwise derivatives are those of the estimate to {PATHWISE:.0e}.",
            path <= PATHWISE,
            f"{path:.1e} at most, over {len(smooth) - len(tilted)} entries; {jumps} of "
            f"{len(records)} differences met a jump.",
        ),
        Check(
            "Differences of the tilted estimate are within the errors of its derivatives.",
            beyond <= max(1, OUTSIDE * len(tilted)),
            f"{beyond} of {len(tilted)} are not.",
        ),
        Check(
            "Jumps are rare: at most one difference in four meets one.",
            4 * jumps <= len(records),
            f"{jumps} of {len(records)}.",
        ),
    ]


def fitted_rate(n: list[int], error: list[float]) -> float:
    """The exponent r of a least-squares fit error = a n**-r."""
    return -float(np.polyfit(np.log(n), np.log(error), 1)[0])


class Rate(NamedTuple):
    """How the error of a derivative falls: as n to the power -rate."""

    d: int
    method: str
    wrt: str
    rate: float


def against_points(records: list[Record]) -> tuple[str, list[Part]]:
    parts: list[Part] = []
    rates: list[Rate] = []
    for d, of_d in grouped(records, lambda r: r["d"]).items():
        figure, ax = axes(log="xy", xlabel="points", ylabel="relative error, root mean square")
        rows = []
        styles = {"upper": "-", "cov": "--", "log P": ":"}
        colours = {"pathwise": "C0", "tilting": "C1", "pinned": "C2"}
        for (method, what), group in grouped(of_d, lambda r: (r["method"], r["wrt"])).items():
            n, error = [r["n"] for r in group], [r["error"] for r in group]
            rate = fitted_rate(n, error)
            rates.append(Rate(d, method, what, rate))
            label = f"{method}, {what}: {rate:.2f}"
            ax.plot(n, error, styles[what], color=colours[method], marker=".", label=label)
            rows += [[method, what, *each] for each in zip(n, error, strict=True)]
        ax.legend(fontsize=7, title="fitted rate", title_fontsize=7)
        data = Table(f"Error against points, d = {d}", ("method", "in", "n", "error"), rows)
        caption = f"A one-factor covariance given as a dense matrix, d = {d}."
        parts.append(Picture(f"Error against points, d = {d}", figure, data, caption))
    slowest = min(rates, key=lambda each: each.rate)
    header = ("d", "method", "in", "r")
    parts.append(Table("Fitted rates: errors fall as n to the power -r", header, rates))
    parts.append(
        Check(
            f"Errors fall faster than n^-{RATE}: lattices, not plain Monte Carlo (0.5).",
            slowest.rate >= RATE,
            f"The slowest rate is {slowest.rate:.2f}, of {slowest.method} in {slowest.wrt}, "
            f"d = {slowest.d}.",
        )
    )
    values = [each.rate for each in rates]
    return f"Errors fall like n^-{min(values):.2f} to n^-{max(values):.2f}.", parts


def honesty(records: list[Record]) -> tuple[str, list[Part]]:
    header = ("regime", "n", "method", "in", "entries", "outside", "median", "largest")
    rows = [[record[name] for name in header[:3]] + [record["wrt"]]
            + [record[name] for name in header[4:]] for record in records]  # fmt: skip
    sampled = [r for r in records if r["method"] != "conditional"]
    useful = float(np.median([r["median"] for r in sampled]))
    figure, ax = axes(log="y", ylabel="actual error / claimed")
    regimes = list(dict.fromkeys(r["regime"] for r in records))
    for k, method in enumerate(SAMPLED):
        own = [r for r in sampled if r["method"] == method and r["wrt"] == "limits"]
        x = [regimes.index(r["regime"]) + 0.2 * (k - 1) for r in own]
        ax.plot(x, [r["median"] for r in own], "o", color=f"C{k}", label=f"{method}, median")
        ax.plot(x, [r["largest"] for r in own], "^", color=f"C{k}", label=f"{method}, largest")
    ax.axhline(1.0, color="black", linewidth=0.8)
    ax.set_xticks(range(len(regimes)), regimes, rotation=25, fontsize=8)
    ax.legend(fontsize=6, ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    title = "Actual errors over claimed ones, limits"
    limits = [row for row, record in zip(rows, records, strict=True) if record["wrt"] == "limits"]
    shown = Table(title, header, limits)
    table = Table(
        "Actual errors over claimed ones",
        header,
        rows,
        "Random one-factor problems with 2 to 12 coordinates, given as dense matrices (to "
        "`conditional` as factors). Outside: entries whose error is larger than claimed.",
    )
    groups = {
        Group(method, f"{regime}, {wrt}"): count_claims(group)
        for (method, regime, wrt), group in grouped(
            records, lambda r: (r["method"], r["regime"], r["wrt"])
        ).items()
    }
    answer = (
        f"Outside their claimed errors: {count_claims(records)} of the entries of sampled "
        f"gradients, where 1 % is promised; in the median a true error is {useful:.0%} of what is "
        "claimed."
    )
    return answer, [
        Picture(title, figure, shown, "Above 1: not honest. Two marks where two n were taken."),
        table,
        every_group_check("Entries of sampled gradients, by method, regime and argument", groups),
        Check(
            "Errors are of use: in the median over all rows actual ones are at least 1 % of what "
            "is claimed.",
            useful >= 0.01,
            f"{useful:.1%}.",
        ),
    ]


def others(results: Results) -> tuple[str, list[Part]]:
    parts: list[Part] = []
    answer = "torch is missing."
    if "stored limits" in results:
        parts += _stored_limits(results["stored limits"])
    torches = [results[name] for name in results if name.startswith("torch: ")]
    if torches:
        rows = [[t["d"], name, off] for t in torches for name, off in t["off"].items()]
        plain = [[t["d"], t["n"], *t["plain"].values(), t["outside"]] for t in torches]
        worst = float(np.max([off for t in torches for off in t["off"].values()]))
        answer = f"Autograd of exact_torch gives mvnorth's derivatives to {worst:.0e}."
        parts += [
            Table(
                "exact_torch by autograd beside `orthant_grad`",
                ("d", "function, in", "off"),
                rows,
                "The same points: the only difference is what torch does to the Cholesky factor.",
            ),
            Check(
                f"Autograd of exact_torch gives mvnorth's derivatives to {AUTOGRAD:.0e}.",
                worst <= AUTOGRAD,
                f"{worst:.1e} at most.",
            ),
            Table(
                "Genz's recursion in plain torch by autograd, beside `pathwise`",
                ("d", "points", "off in m", "in L", "outside"),
                plain,
                "In the order of coordinates given, where mvnorth reorders them; outside is the "
                "share of entries that differ by more than the errors of both.",
            ),
            Check(
                "Plain torch agrees within the errors of both, but for 10 % of its few entries.",
                all(t["outside"] <= 0.1 for t in torches),
                f"{max(t['outside'] for t in torches):.1%} are not.",
            ),
        ]
    else:
        parts.append(NotRun("torch's autograd", "torch is missing.", "python -m pip install torch"))
    scores = results.get("R")
    if scores is None:
        parts.append(
            NotRun(
                "R's slpmvnorm",
                "There is no Rscript with mvtnorm 1.2 or newer.",
                "Rscript -e 'install.packages(\"mvtnorm\")'",
            )
        )
    else:
        parts += [
            Table("R's slpmvnorm, box, limits", tuple(scores), [list(scores.values())]),
            Check(
                "slpmvnorm's scores are the oracle's to 1 %, as are ours.",
                scores["slpmvnorm"] <= 0.01 and scores["mvnorth"] <= 0.01,
                f"{scores['slpmvnorm']:.1e}; mvnorth's {scores['mvnorth']:.1e}.",
            ),
        ]
    return answer, parts


def _stored_limits(records: list[Record]) -> list[Part]:
    header = ("problem", "d", "method", "taken", "off", "claimed", "outside", "entries")
    plain = largest(r for r in records if r["method"] == "auto")
    tilted = largest(r for r in records if r["method"] == "tilting")
    outside, entries = count_outside(records)
    return [
        Table(
            "Stored gradients in the limits, dense matrices, 2¹⁴ points",
            header,
            [[record[name] for name in header] for record in records],
            "Far in the tail `pathwise` has no points where they count; its errors say so.",
        ),
        Check(
            "Stored gradients are met: by `auto` to 1e-10, by `tilting` to 10 %, within errors.",
            plain <= 1e-10 and tilted <= 0.1 and outside <= OUTSIDE * entries,
            f"{plain:.1e}, {tilted:.1e}, {outside} of {entries} entries outside.",
        ),
    ]
