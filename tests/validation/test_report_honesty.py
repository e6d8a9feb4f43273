"""The honesty report at its small scale, how it judges, and that it sees a small error claimed."""

import math

import numpy as np
import pytest
from scipy.stats import binom

import mvnorth._methods.lattice_rule as lattice_rule
from validation.page import Check, Finding, Picture, Section, Table, Text
from validation.problems import strata as problem_strata
from validation.reports import honesty, runs
from validation.reports.honesty import counts, known, strata, strata_page, table_page


def _section():
    outcomes = {task.name: task.perform() for task in honesty.tasks("small")}
    assert [o.failure for o in outcomes.values() if o.failure] == []
    return honesty.section({name: o.value for name, o in outcomes.items()}, "small")


def _flagged(section):
    return [c.claim for c in section.walk() if isinstance(c, Check) and not c.holds]


def test_all_checks_hold_and_all_is_there():
    section = _section()
    assert _flagged(section) == []
    assert sum(isinstance(part, Check) for part in section.walk()) >= 8
    assert sum(isinstance(part, Picture) for part in section.walk()) == 4
    assert all(part.answer for part in [section, *section.walk()] if isinstance(part, Section))
    assert len([part for part in section.walk() if isinstance(part, Finding)]) == 3
    tables = {part.title: part for part in section.walk() if isinstance(part, Table)}
    methods = {"genz", "tilting", "auto", "gauss", "structured genz"}
    for title in ("by method", "by stratum"):
        rows = tables[f"Outside the claimed error, {title}"].rows
        assert {row[0] for row in rows} >= methods
    strata = tables["Claims outside, by method and stratum"].rows
    assert {row[1] for row in strata} >= {"ordinary", "deep tail", "near 1, d from 4 to 10"}
    for subject, groups in (
        ("Gauss rules", "d = "),
        ("Several factors", "V: "),
        ("Student t probabilities", "d = "),
    ):
        rows = tables[f"{subject} outside their claimed errors"].rows
        claims = {group: count for group, count, *_ in rows}
        in_groups = sum(count for group, count in claims.items() if group.startswith(groups))
        assert claims["all"] == in_groups > 0
    said = [part.text for part in section.walk() if isinstance(part, Text)]
    for subject in ("strata", "problems"):
        is_empty = f"No dishonesty is known: {subject}." in said
        assert is_empty != (f"Known dishonesty: {subject}" in tables)


def test_sections_without_results_say_so():
    section = honesty.section({}, "small")
    assert section.answer == "Not computed yet."
    assert _flagged(section) == []


def test_a_claimed_error_that_is_too_small_is_seen(monkeypatch):
    real = lattice_rule.student_quantile
    monkeypatch.setattr(lattice_rule, "student_quantile", lambda count: 0.05 * real(count))
    found = _flagged(_section())
    for method in ("genz", "tilting"):
        assert any(claim.startswith(f"`{method}`:") for claim in found)
    assert any("None of the strata of `auto` or `tilting`" in claim for claim in found)


def _claims(regime, method, outside, claims):
    """Claims of one stratum: ``outside`` of them are off by twice what they say."""
    return [
        strata.Claim(regime, "11 to 50", k, "one factor", 20, 0.0, 0.0, method,
                     0.02 if k < outside else 0.0, 0.01, method)
        for k in range(claims)
    ]  # fmt: skip


def _by_stratum(regimes=tuple(problem_strata.REGIMES), **outside):
    """The section for 960 claims a method and regime, some of ``tilting`` or ``genz`` outside."""
    rows = [
        claim
        for regime in regimes
        for method in strata.METHODS
        for claim in _claims(regime, method, outside.get(method, {}).get(regime, 0), 960)
    ]
    return strata_page.section({"strata, all": rows}, "full")


def test_a_dishonest_stratum_is_seen_though_all_together_are_honest(monkeypatch):
    """3.4 % of one stratum is 0.6 % of six: what pooling hid."""
    monkeypatch.setattr(known, "RANDOM_STRATA", {})
    section = _by_stratum(tilting={"deep tail": 33})
    flagged = _flagged(section)
    assert any(claim.startswith("Dishonest random strata are those") for claim in flagged)
    assert any("`auto` or `tilting` is shown to be outside" in claim for claim in flagged)
    assert _verdicts(section) == ["holds", "does not hold", "holds"]
    assert _flagged(_by_stratum()) == []
    assert _verdicts(_by_stratum()) == ["holds", "holds", "holds"]


def test_one_regime_that_is_not_shown_leaves_a_method_undecided(monkeypatch):
    """6 of 960 is 0.2 to 1.4 %: nothing is wrong, and 99 % is not shown."""
    monkeypatch.setattr(known, "RANDOM_STRATA", {})
    section = _by_stratum(tilting={"ordinary": 6})
    assert _flagged(section) == []
    assert _verdicts(section) == ["holds", "not decided", "holds"]


def test_regimes_without_results_leave_a_method_undecided(monkeypatch):
    monkeypatch.setattr(known, "RANDOM_STRATA", {})
    assert _verdicts(_by_stratum(("ordinary",))) == ["not decided"] * 2  # and none on `genz`
    some = _by_stratum(("ordinary", "deep tail"), tilting={"deep tail": 33})
    assert _verdicts(some) == ["not decided", "does not hold", "holds"]
    assert strata_page._everywhere({}, 1) == "not decided"
    rows = _claims("deep tail", "genz", 0, 960)
    assert _verdicts(strata_page.section({"strata, all": rows}, "full")) == ["holds"]


def test_plain_genz_is_judged_on_problems_that_came_after_its_first_result(monkeypatch):
    monkeypatch.setattr(known, "RANDOM_STRATA", {})
    first = strata.COUNTS["full"]
    rows = _claims("deep tail", "genz", 40, 960)  # outside are seeds below 40
    section = strata_page.section({"strata, all": rows}, "full")
    (finding,) = (part for part in section.walk() if isinstance(part, Finding))
    assert finding.verdict == "holds"
    assert f"0 of {960 - first}" in finding.ours
    assert "40 of 960" in finding.ours
    section = strata_page.section({"strata, all": rows[:first]}, "full")
    assert _verdicts(section) == ["not decided"]
    section = strata_page.section({"strata, all": rows}, "quick")
    assert _verdicts(section) == ["does not hold"]


def _verdicts(section):
    return [part.verdict for part in section.walk() if isinstance(part, Finding)]


def test_known_dishonesty_is_compared_exactly(monkeypatch):
    entry = {
        counts.Group("genz", "deep tail"): "far out",
        counts.Group("genz", "deep tail, 11 to 50"): "far out",
    }
    monkeypatch.setattr(known, "RANDOM_STRATA", entry)
    assert _flagged(_by_stratum(genz={"deep tail": 33})) == []
    (claim,) = _flagged(_by_stratum())
    assert claim.startswith("No entry of the table of known dishonesty is honest again")


def test_the_bound_is_corrected_for_the_number_of_groups():
    few = counts.Counted(400, 10, 0, 0, 0.1)
    assert few.honesty(1) == "dishonest"
    assert few.honesty(1000) == "not decided"
    assert counts.Counted(400, 0, 0, 0, 0.1).honesty(1) == "honest"
    assert counts.Counted(40, 0, 0, 0, 0.1).honesty(1) == "not decided"
    # The bound of k of n is where k or more have the level's probability.
    bound = few.lower_bound(5)
    assert binom.sf(9, 400, bound) == pytest.approx(0.01)


@pytest.mark.parametrize("regime", list(problem_strata.REGIMES))
def test_random_problems_lie_in_their_regime(regime):
    limits = problem_strata.REGIMES[regime]
    for seed in range(8):
        problem = problem_strata.draw(regime, "d from 4 to 10", seed)
        assert limits.least <= problem.log_prob <= limits.most
        assert 4 <= problem.upper.size <= 10
        assert (problem.lower < problem.upper).all()
        assert np.linalg.eigvalsh(problem.cov).min() > 0
    boxes = [problem_strata.draw(regime, "d from 4 to 10", seed) for seed in (0, 4)]
    assert [np.isfinite(box.lower).any() for box in boxes] == [False, True]


@pytest.mark.parametrize("family", ["gauss", "factors", "student"])
def test_random_problems_that_claim_too_little_are_seen(family):
    part = getattr(honesty, family)
    cases = [part.Case(*row) for task in part.tasks("small") for row in task.perform().value]
    rows = [list(case._replace(claimed=case.claimed * 1e-6)) for case in cases]
    section = part.section({f"{family}, part 1": rows})
    assert len(_flagged(section)) == 1
    assert _flagged(part.section({f"{family}, part 1": [list(case) for case in cases]})) == []


def _judge(log_prob, claimed, truth, truth_error):
    run = runs.Run("genz", 64, 0, log_prob, claimed, "genz", 64)
    return runs.judge(run, runs.Known("", 1, frozenset(), truth, truth_error, []))


@pytest.mark.parametrize(
    ("estimate", "claimed", "truth_error", "verdict"),
    [
        (1.0, 0.2, 0.0, "inside"),  # the truth is 1.1 times the estimate
        (1.0, 0.05, 0.0, "outside"),
        (1.0, 0.05, 0.06, "open"),  # it may be 1.04 times it
        (1.0, 0.2, 0.06, "inside"),
        (1.3, 0.2, 0.0, "inside"),
        (1.3, 0.1, 0.0, "outside"),
        (1.0, math.inf, 0.0, "none"),
        (0.0, 5.0, 0.0, "outside"),
    ],
)
def test_judgement(estimate, claimed, truth_error, verdict):
    log = math.log(estimate) if estimate else -math.inf
    found = _judge(log, claimed, math.log(1.1), truth_error)
    assert found.verdict == verdict


def test_judged_error_is_relative_to_the_estimate():
    """|P/estimate - 1| is what ``error = prob * rel_error`` bounds."""
    found = _judge(math.log(0.5), 2.0, math.log(0.75), 0.0)
    assert found.true == pytest.approx(0.5)
    assert found.ratio == pytest.approx(0.25)


def test_interval_is_clopper_and_pearsons():
    """Hand-computed: none of n is 1 - 0.025**(1/n) at most; one of one is 0.025 at least."""
    assert runs.interval(0, 100) == (0.0, pytest.approx(1 - 0.025**0.01))
    assert runs.interval(1, 1) == (pytest.approx(0.025), 1.0)
    assert runs.interval(0, 0) == (0.0, 1.0)


def test_results_that_repeat_count_once():
    same = [runs.Run("auto", 64, seed, -1.0, 1e-9, "markov", 32) for seed in range(5)]
    other = [runs.Run("genz", 64, seed, -1.0 + 1e-3 * seed, 0.1, "genz", 64) for seed in range(5)]
    problem = runs.Known("p", 5, frozenset(), -1.0, 0.0, same + other)
    assert len(table_page.distinct([problem])) == 6


def test_counts():
    judged = [
        runs.Judgement("inside", 0.1, 1.0),
        runs.Judgement("outside", 3.0, 1.0),
        runs.Judgement("none", math.nan, math.inf),
        runs.Judgement("open", 0.5, 1.0),
    ]
    total = counts.count(judged)
    assert (total.runs, total.outside, total.open, total.none) == (4, 1, 1, 1)
    assert total.share == pytest.approx(1 / 3)
    assert total.median == pytest.approx(0.5)


@pytest.mark.parametrize(("log_prob", "claimed"), [(math.nan, 0.1), (0.0, math.nan)])
def test_what_is_no_number_is_outside(log_prob, claimed):
    assert _judge(log_prob, claimed, 0.0, 0.0).verdict == "outside"
