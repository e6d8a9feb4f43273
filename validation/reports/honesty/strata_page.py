"""What the report on honesty says of claims about independent random problems, by stratum."""

from __future__ import annotations

from validation.page import Finding, Picture, Section, Table, Text
from validation.page.content import Part, Verdict
from validation.page.figures import axes
from validation.problems.strata import REGIMES, SIZES
from validation.reports import Results
from validation.reports.honesty import known
from validation.reports.honesty.counts import Counted, Group, count, groups_table
from validation.reports.honesty.strata import COUNTS, METHODS, Claim, problems_of, tasks
from validation.reports.parts import NOT_YET
from validation.reports.runs import PROMISE


def claims_of(results: Results) -> list[Claim]:
    """Return the claims of all tasks."""
    return [
        Claim(*row)
        for name, value in results.items()
        if name.startswith("strata, ")
        for row in value
    ]


def count_strata(claims: list[Claim]) -> dict[Group, Counted]:
    """Return counts by method and regime, and by method, regime and number of coordinates."""
    groups: dict[Group, Counted] = {}
    for method in METHODS:
        for regime in REGIMES:
            members = [c for c in claims if (c.method, c.regime) == (method, regime)]
            sizes = {size: [c for c in members if c.size == size] for size in SIZES}
            for stratum, judged in {
                regime: members,
                **{f"{regime}, {size}": of_size for size, of_size in sizes.items()},
            }.items():
                if judged:
                    groups[Group(method, stratum)] = count(c.judged for c in judged)
    return groups


def totals(claims: list[Claim]) -> dict[str, Counted]:
    """Return the counts of each method over all strata."""
    return {method: count(c.judged for c in claims if c.method == method) for method in METHODS}


def section(results: Results, scale: str) -> Section:
    title = "By stratum: independent random problems"
    claims = claims_of(results)
    if not claims:
        return Section(title, [], NOT_YET)
    groups = count_strata(claims)
    complete = scale == "full" and all(task.name in results for task in tasks(scale))
    tests = sum(counted.claims > 0 for counted in groups.values())
    failures = [
        [c.regime, c.d, c.family, c.truth, c.method, c.claimed, c.judged.true]
        for c in claims
        if c.judged.verdict == "outside"
    ]
    parts: list[Part] = [
        *findings(claims, groups, scale),
        Text(
            f"{COUNTS[scale]} problems for each regime and range of dimensions "
            f"({problems_of(scale, 'deep tail')} in deep tails), each with a covariance and limits "
            "drawn for it (two factors, one factor, a Markov chain; orthants and boxes; dense "
            "covariances in random order), so that claims are independent. "
            "`auto` has a tolerance of 1e-3, the others 1024 points. Regimes: log P from -5 to "
            "-0.1 (ordinary), from -1e-2 to -1e-5 (near 1), from -700 to -10 (tail), from -3000 to "
            "-750 (deep tail); nearly singular is ordinary with own shares of variances from 1e-5 "
            "to 1e-2. `auto` recognises most of these structures and does not sample; `tilting` "
            "is what it uses where it does."
        ),
        *_extension(claims, scale, tests),
        groups_table(
            "Claims outside, by method and stratum",
            groups,
            tests,
            "Dishonest: the one-sided lower bound of Clopper and Pearson is above 1 %, at a level "
            f"of 0.05/{tests} (Bonferroni, for the number of rows). Honest: the 95 % interval ends "
            "at 1 % or below.",
            cite="honesty-strata",
        ),
        *known.compare("random strata", groups, known.RANDOM_STRATA, complete),
        _picture(groups),
        Table(
            "All claims outside on random problems",
            ["regime", "d", "family", "log P", "method", "claimed error", "true error"],
            failures,
        ),
    ]
    return Section(title, parts, _answer(claims, groups, tests))


def _extension(claims: list[Claim], scale: str, tests: int) -> list[Text]:
    """Return how the sample in deep tails came to be larger, with the new problems alone."""
    if not _is_extended(scale):
        return []
    first, new = _first_and_new(claims, scale)
    return [
        Text(
            f"The number of problems in deep tails was raised from {COUNTS[scale]} to "
            f"{problems_of(scale, 'deep tail')} after the first ones had been seen: there `genz` "
            f"had {first} outside, {first.honesty(tests)} among {tests} strata. The new problems "
            f"alone have {new}, {new.honesty(tests)}. The two rows of `genz` came into the table "
            "of known dishonesty after that."
        )
    ]


def _is_extended(scale: str) -> bool:
    """Return whether deep tails have more problems than were planned at first."""
    return problems_of(scale, "deep tail") > COUNTS[scale]


def _first_and_new(claims: list[Claim], scale: str) -> tuple[Counted, Counted]:
    """Return the counts of `genz` in deep tails for the first problems and for the new ones."""
    deep = [c for c in claims if (c.method, c.regime) == ("genz", "deep tail")]
    first = count(c.judged for c in deep if c.seed < COUNTS[scale])
    return first, count(c.judged for c in deep if c.seed >= COUNTS[scale])


def _answer(claims: list[Claim], groups: dict[Group, Counted], tests: int) -> str:
    shares = ", ".join(
        f"`{method}` {100 - 100 * counted.share:.2f} %"
        for method, counted in totals(claims).items()
        if counted.claims
    )
    failing = [group for group, c in groups.items() if c.honesty(tests) == "dishonest"]
    if not failing:
        exceptions = "In no stratum is the share of false claims above 1 % beyond chance."
    else:
        exceptions = "Above the promised 1 % beyond chance: " + "; ".join(
            f"{group}, {groups[group]} outside" for group in failing
        )
        exceptions += "."
    return f"Claimed errors held in this share of claims: {shares}. {exceptions}"


def findings(claims: list[Claim], groups: dict[Group, Counted], scale: str) -> list[Finding]:
    """Return the claims about the default, about tilting, and about plain Genz far out.

    Methods without results have no finding. The verdict on plain Genz is on the problems that
    were added after its first result had been seen, where there are such.
    """
    by_method = totals(claims)
    tests = sum(counted.claims > 0 for counted in groups.values())
    found = [
        Finding(
            f"Claimed errors of `{method}` hold in 99 % of runs, in every regime.",
            "",
            _by_regime(method, by_method[method], groups),
            _everywhere(_regimes(method, groups), tests),
        )
        for method in ("auto", "tilting")
        if _regimes(method, groups)
    ]
    genz = groups.get(Group("genz", "deep tail"))
    if genz is None:
        return found
    judged = genz
    measured = f"outside: {genz} of the claims, where 1 % is promised"
    if _is_extended(scale):
        judged = _first_and_new(claims, scale)[1]
        measured = (
            f"outside: {judged} of the claims on new problems, which the verdict is on, where 1 % "
            f"is promised; {genz} with the first ones"
        )
    found.append(
        Finding(
            "Claimed errors of plain Genz (`genz`) also hold in deep tails (log P from -3000 to "
            "-750).",
            "",
            measured,
            _plain(judged),
        )
    )
    return found


def _regimes(method: str, groups: dict[Group, Counted]) -> dict[str, Counted]:
    """Return the counts of a method by regime, over all numbers of coordinates."""
    counts = {regime: groups.get(Group(method, regime)) for regime in REGIMES}
    return {regime: c for regime, c in counts.items() if c is not None and c.claims}


def _by_regime(method: str, total: Counted, groups: dict[Group, Counted]) -> str:
    regimes = _regimes(method, groups)
    worst = max(regimes, key=lambda regime: regimes[regime].share)
    return f"{_kept(total)} in all; worst regime, {worst}: {_kept(regimes[worst])}"


def _kept(counted: Counted) -> str:
    low, high = counted.interval
    return f"{100 - 100 * counted.share:.2f} % ({100 - 100 * high:.2f} to {100 - 100 * low:.2f})"


def _everywhere(regimes: dict[str, Counted], tests: int) -> Verdict:
    """Return the verdict on all regimes.

    "holds" only if every regime has results and is shown to be honest: its 95 % interval ends at
    1 % or below.
    """
    verdicts = [counted.honesty(tests) for counted in regimes.values()]
    if "dishonest" in verdicts:
        return "does not hold"
    if set(regimes) != set(REGIMES):
        return "not decided"
    return "holds" if all(verdict == "honest" for verdict in verdicts) else "not decided"


def _plain(counted: Counted) -> Verdict:
    """Return the verdict on one stratum, by its 95 % interval without correction."""
    low, high = counted.interval
    if low > PROMISE:
        return "does not hold"
    return "holds" if high <= PROMISE else "not decided"


def _picture(groups: dict[Group, Counted]) -> Picture:
    title = "Claims outside by regime"
    figure, ax = axes(ylabel="outside, %", yscale="symlog")
    rows = []
    for k, method in enumerate(METHODS):
        label: str | None = method
        for place, regime in enumerate(REGIMES):
            counted = groups.get(Group(method, regime))
            if counted is None or not counted.claims:
                continue
            low, high = counted.interval
            x = place + (k - 1.5) * 0.16
            ax.plot([x, x], [100 * low, 100 * high], color=f"C{k}", linewidth=1.5)
            ax.plot([x], [100 * counted.share], "o", color=f"C{k}", markersize=4, label=label)
            label = None
            rows.append(
                [method, regime, counted.claims, 100 * counted.share, 100 * low, 100 * high]
            )
    ax.axhline(100 * PROMISE, color="C7", linestyle="--", linewidth=0.8)
    ax.set_yticks([0, 1, 10, 100], ["0", "1", "10", "100"])
    ax.set_ylim(-0.1, 150)
    ax.set_xticks(range(len(REGIMES)), list(REGIMES), rotation=20, ha="right")
    ax.legend(fontsize=8)
    header = ["method", "regime", "claims", "outside, %", "from, %", "to, %"]
    caption = "Points: share of claims outside; bars: 95 % intervals; dashed: the promise of 1 %."
    return Picture(title, figure, Table("", header, rows), caption)
