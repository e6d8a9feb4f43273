"""Mixing CE and EL: the motivating example (p_y < 0.2) and the control with a scaled rate."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from validation.page import Finding, Picture, Section, Table, Text, axes
from validation.page.content import Part
from validation.paper.mixing_image_runs import SCALED
from validation.paper.over_folds import Interval, over_sets
from validation.paper.reduced import decide_if_full
from validation.paper.uci_mixing_table import rank_verdict


class Group(NamedTuple):
    """A group of test examples: its name, place in the results, and published figures.

    ``published`` are the size of the group after 70 of 90 epochs and how many are right at the end.
    """

    name: str
    place: int
    published: tuple[int, int]


GROUPS = (
    Group("right", 0, (6766, 6482)),
    Group("wrong, p_y above 0.2", 1, (611, 235)),
    Group("wrong, p_y below 0.2", 2, (2623, 88)),
)
_SHOWN = {"ce": "CE", "f0-0.5": "CE+EL, F = 0-0.5"}
MIXED = "f0-0.5"


def shares(runs: Sequence[Mapping[str, Any]], group: Group) -> tuple[Interval, Interval]:
    """Return what percentage of examples is in a group, and of these is right at the end.

    Intervals are over seeds; a seed without examples in the group has no second share.
    """
    sizes, ends = [], []
    for run in runs:
        total = sum(each[0] for each in run["groups"])
        size, right = run["groups"][group.place]
        sizes.append(100 * size / total)
        if size:
            ends.append(100 * right / size)
    return over_sets(sizes), over_sets(ends) if ends else Interval(0.0, float("inf"))


def motivating_example(runs: Mapping[str, Sequence[Mapping[str, Any]]]) -> Section:
    """Return what became of test examples by their p_y late in training."""
    lines: list[list[Any]] = []
    for group in GROUPS:
        size, right = group.published
        line: list[Any] = [group.name, 100 * size / 10_000, 100 * right / size]
        for loss in _SHOWN:
            share, end = shares(runs[loss], group)
            line += [f"{share.mean:.1f}", _unsigned(end)]
        lines.append(line)
    header = ["test examples after 70 of 90 epochs", "published: share (%)"]
    header += ["published: right at the end (%)"]
    for name in _SHOWN.values():
        header += [f"{name}: share (%)", f"{name}: right at the end (%)"]
    note = (
        "Published: ResNet32 on CIFAR-100 with CE. Ours: the runs of table 1, after 9 of 12 epochs "
        f"(at full scale), {len(runs['ce'])} seeds, 95 % intervals over seeds. Of the first group "
        "6,482 of 6,766 are right at the end, which is 95.80 %; the paper has 95.58 %."
    )
    table = Table(
        "The motivating example of the mixing paper", header, lines, note, "mixing-example"
    )
    parts: list[Part] = [Text(_example_text(runs)), table, _picture(runs)]
    return Section("The motivating example: p_y < 0.2", parts, _example_answer(runs))


def _unsigned(interval: Interval) -> str:
    return str(interval).lstrip("+")


def _example_answer(runs: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    hard = shares(runs["ce"], GROUPS[2])[1]
    near = shares(runs["ce"], GROUPS[1])[1]
    if hard.high < near.low:
        came = "As published, hard test examples seldom become right late in training with CE"
    elif hard.low > near.high:
        came = "Unlike published, hard test examples become right more often than others with CE"
    else:
        came = "Hard and other wrong test examples do not differ significantly"
    return (
        f"{came}: of those that are wrong with p_y below 0.2, {_unsigned(hard)} % are right at the "
        f"end, of the other wrong ones {_unsigned(near)} % (published 3.35 and 38.46 %)."
    )


def _example_text(runs: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    ce, mixed = (shares(runs[loss], GROUPS[2])[1] for loss in _SHOWN)
    differ = ce.high < mixed.low or mixed.high < ce.low
    return (
        "The paper concludes that CE spends gradients on examples that will not become right. EL "
        "has small gradients for them. With the mixture the share of hard test examples that "
        f"become right is {_unsigned(mixed)} %, with CE {_unsigned(ce)} %: the intervals "
        f"{'do not overlap' if differ else 'overlap'}."
    )


def _picture(runs: Mapping[str, Sequence[Mapping[str, Any]]]) -> Picture:
    figure, ax = axes(ylabel="right at the end of training (%)")
    lines: list[list[Any]] = []
    places = range(len(GROUPS))
    for number, (loss, name) in enumerate(_SHOWN.items()):
        ends = [shares(runs[loss], group)[1] for group in GROUPS]
        where = [place + 0.16 * (number - 0.5) for place in places]
        halves = [each.half if each.half < 100 else 0.0 for each in ends]
        means = [each.mean for each in ends]
        ax.errorbar(where, means, yerr=halves, fmt="o", color=f"C{number}", label=name, capsize=2)
        lines += [
            [group.name, name, each.mean, each.half]
            for group, each in zip(GROUPS, ends, strict=True)
        ]
    published = [100 * group.published[1] / group.published[0] for group in GROUPS]
    ax.plot(places, published, "x", color="C3", label="published, CE")
    lines += [
        [group.name, "published, CE", each, None]
        for group, each in zip(GROUPS, published, strict=True)
    ]
    ax.set_xticks(places, ["right", "wrong,\n$p_y$ > 0.2", "wrong,\n$p_y$ < 0.2"])
    ax.set(xlim=(-0.5, len(GROUPS) - 0.5), ylim=(-2, 102))
    ax.legend(fontsize=8)
    header = ["group", "loss", "right at the end (%)", "half of the interval"]
    return Picture(
        "What becomes of test examples late in training",
        figure,
        Table("", header, lines),
        "By their state at 70/90 of training; 95 % intervals over seeds.",
    )


def control(difference: Callable[[str, str], Interval], scale: str) -> Section:
    """Return the comparison with CE whose learning rate is multiplied by M (eq. 20 to 22)."""
    lead = difference(MIXED, SCALED)
    scaled = difference(SCALED, "ce")
    mixed = difference(MIXED, "ce")
    claimed = Finding(
        "The gain of mixing is not that of larger gradients: F = 0-0.5 is more accurate than CE "
        "with the learning rate scaled to the same area under the gradient.",
        "scaled CE is not competitive, without a figure (mixing paper, eq. 20 to 22)",
        f"{lead} points (95 % interval over seeds)",
        rank_verdict(lead),
    )
    (finding,) = decide_if_full([claimed], scale)
    text = (
        "The control multiplies the learning rate of CE, in each of the six phases of F = 0-0.5, "
        "with M, the area under the gradient of the mixture in q_y over that of CE: M = alpha + "
        "beta/3, from 1.33 at F = 0 to 2.67 at F = 0.4 and 0.33 at F = 0.5. The paper also has an "
        "area for j other than y, which gives alpha + beta/2, and does not say which is used."
    )
    lines = [
        ["CE, scaled rate, against CE", str(scaled)],
        ["CE+EL, F = 0-0.5, against CE", str(mixed)],
        ["CE+EL, F = 0-0.5, against CE, scaled rate", str(lead)],
    ]
    note = "The runs of table 1; paired differences, 95 % intervals over seeds."
    header = ["losses", "difference (points)"]
    table = Table("CE with a scaled learning rate", header, lines, note, "mixing-control")
    came = {"holds": "is better than", "does not hold": "is worse than"}.get(
        finding.verdict, "does not differ significantly from"
    )
    return Section(
        "The control: CE with a scaled learning rate",
        [finding, Text(text), table],
        f"F = 0-0.5 {came} CE with a scaled learning rate: {lead} points. The paper says, without "
        "figures, that scaled CE is not competitive.",
    )
