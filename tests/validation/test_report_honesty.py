"""The honesty report at its small scale, how it judges, and that it sees a small error claimed."""

import math

import pytest

import mvnorth._methods.lattice_rule as lattice_rule
from validation.page import Check, Picture, Table
from validation.reports import honesty, runs


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
    assert sum(isinstance(part, Picture) for part in section.walk()) == 3
    tables = {part.title: part for part in section.walk() if isinstance(part, Table)}
    groups = ("by dimension", "by difficulty", "by condition of the correlations")
    for title in ("by method", *groups):
        rows = tables[f"Outside the claimed error, {title}"].rows
        assert {row[0] for row in rows} >= {"genz", "tilting", "auto", "gauss", "structured genz"}
    for subject, strata in (
        ("Gauss rules", "d = "),
        ("Several factors", "V: "),
        ("Student t probabilities", "d = "),
    ):
        rows = tables[f"{subject} outside their claimed errors"].rows
        by_group = {row[0]: row[1:] for row in rows}
        runs_of = by_group["all"][0]
        assert runs_of == sum(row[0] for name, row in by_group.items() if name.startswith(strata))
        assert by_group["all"][1] < runs_of / 2
    failures = tables["All runs outside their claimed error"]
    outside = sum(row[4] for row in tables["Outside the claimed error, by method"].rows)
    assert len(failures.rows) == outside


def test_a_claimed_error_that_is_too_small_is_seen(monkeypatch):
    real = lattice_rule.student_quantile
    monkeypatch.setattr(lattice_rule, "student_quantile", lambda count: 0.05 * real(count))
    found = _flagged(_section())
    for method in ("genz", "tilting"):
        assert any(claim.startswith(f"`{method}`:") for claim in found)


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
    assert len(honesty._cases([problem])) == 6


def test_counts():
    judged = [
        runs.Judgement("inside", 0.1, 1.0),
        runs.Judgement("outside", 3.0, 1.0),
        runs.Judgement("none", math.nan, math.inf),
        runs.Judgement("open", 0.5, 1.0),
    ]
    total = honesty.count(judged)
    assert (total.runs, total.outside, total.open, total.none) == (4, 1, 1, 1)
    assert total.share == pytest.approx(1 / 3)
    assert total.median == pytest.approx(0.5)


@pytest.mark.parametrize(("log_prob", "claimed"), [(math.nan, 0.1), (0.0, math.nan)])
def test_what_is_no_number_is_outside(log_prob, claimed):
    assert _judge(log_prob, claimed, 0.0, 0.0).verdict == "outside"
