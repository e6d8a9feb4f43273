"""The table of known dishonesty, and the check that compares it with what is found."""

from __future__ import annotations

from collections.abc import Mapping

from validation.page import Check, Table, Text
from validation.page.content import Part
from validation.reports.honesty.counts import Group, Groups, dishonest, names

_FAR_OUT = (
    "Plain Genz does not shift its points towards the mass: far out a few points carry the "
    "estimate, and the spread between lattices understates its error. `auto` and `tilting` shift "
    "them; do not use `genz` there."
)
# Method and stratum: the reason. A new entry is a bug until the reason is understood; an entry that
# is honest again must go.
RANDOM_STRATA: dict[Group, str] = {  # of validation.problems.strata
    Group("genz", "deep tail"): _FAR_OUT,
    Group("genz", "deep tail, d from 4 to 10"): _FAR_OUT,
}
# Of the table of problems, and of single problems of it with all their seeds. An earlier version
# had `genz` in deep tails, at 3.4 %, most of it by one problem, 50 exchangeable coordinates at
# log P = -2034; plain Genz now makes no claim in most of these runs.
TABLE_STRATA: dict[Group, str] = {}
PROBLEMS: dict[Group, str] = {}
RELIABLE = ("auto", "tilting", "structured tilting")  # never in these tables


def compare(subject: str, groups: Groups, known: Mapping[Group, str], complete: bool) -> list[Part]:
    """Return the table of known dishonesty with what was found, and the checks of it.

    Parameters
    ----------
    subject : str
        What the groups are: "strata", "problems".
    groups : mapping
        Counts of claims by method and stratum.
    known : mapping
        The reasons, by the groups that are known to be dishonest.
    complete : bool
        Whether there are enough claims to find what is known: every entry must be found then.
        Otherwise an entry fails only if it is shown to be honest.
    """
    tests = max(1, sum(counted.claims > 0 for counted in groups.values()))
    failing = dishonest(groups, tests)
    new = [group for group in failing if group not in known]
    verdicts = {
        group: groups[group].honesty(tests) if group in groups else "not decided" for group in known
    }
    gone = [
        group
        for group, verdict in verdicts.items()
        if verdict == "honest" or (complete and verdict != "dishonest")
    ]
    reliable = [group for group in [*failing, *known] if is_reliable(group.method)]
    rows = [
        [group.method, group.stratum, str(groups[group]) if group in groups else "not run",
         verdicts[group], reason]
        for group, reason in known.items()
    ]  # fmt: skip
    table = Table(
        f"Known dishonesty: {subject}",
        ["method", subject, "outside, % (95 % interval)", "verdict", "reason"],
        rows,
    )
    return [
        *([table] if rows else [Text(f"No dishonesty is known: {subject}.")]),
        Check(
            f"Dishonest {subject} are those of the table of known dishonesty: no other of {tests} "
            "has a lower bound above 1 %.",
            not new,
            f"Dishonest: {names(failing)}." + (f" Not in the table: {names(new)}." if new else ""),
        ),
        Check(
            f"No entry of the table of known dishonesty is honest again ({subject}).",
            not gone,
            f"Honest again, or not found: {names(gone)}." if gone else "All are as the table says.",
        ),
        Check(
            f"None of the {subject} of `auto` or `tilting` is shown to be outside its claimed "
            "error in more than 1 % of runs.",
            not reliable,
            f"Shown to be outside: {names(reliable)}."
            if reliable
            else f"{sum(is_reliable(group.method) for group in groups)} {subject}.",
        ),
    ]


def is_reliable(method: str) -> bool:
    """Return whether a method, with points or a tolerance, must hold everywhere."""
    return method.split(",")[0] in RELIABLE
