"""The report on speed: what it says, and that wrong answers are not called fast."""

import copy

import pytest

import mvnorth
from validation.benchmarks import kernel, peers
from validation.page import Check, Finding, NotRun, Picture, Section, Table
from validation.reports import speed
from validation.reports.speed import measurements

pytestmark = [
    pytest.mark.usefixtures("one_thread"),
    pytest.mark.filterwarnings("ignore"),  # those of BoTorch's imports
]


@pytest.fixture(scope="module")
def results():
    outcomes = {task.name: task.perform() for task in speed.tasks("small")}
    assert [outcome.failure for outcome in outcomes.values()] == [None] * len(outcomes)
    return {name: outcome.value for name, outcome in outcomes.items()}


def parts(section, kind):
    return [part for part in section.walk() if isinstance(part, kind)]


def flagged(results):
    section = speed.section(results, "small")
    return [check.claim for check in parts(section, Check) if not check.holds]


def test_everything_runs_alone():
    assert all(task.alone for scale in ("small", "quick", "full") for task in speed.tasks(scale))


def test_nothing_is_flagged(results):
    section = speed.section(results, "small")
    assert flagged(results) == []
    assert len(parts(section, Check)) >= 10
    assert len(parts(section, Picture)) == 5
    titles = [part.title for part in (*parts(section, Table), *parts(section, Picture))]
    assert len(set(titles)) == len(titles)
    for table in parts(section, Table):
        assert {len(row) for row in table.rows} == {len(table.header)}, table.title


def test_findings_follow_from_the_results(results):
    section = speed.section(results, "small")
    assert all(part.answer for part in [section, *parts(section, Section)])
    assert len(parts(section, Finding)) == 2
    slow = copy.deepcopy(results)
    slow["tails: random d=20"]["programs"]["tilting"]["met"] = False
    for name in slow:
        if name.startswith("peers"):
            for reached in slow[name]["programs"]["mvnorth"]:
                reached["seconds"] *= 1e6
    verdicts = [each.verdict for each in parts(speed.section(slow, "small"), Finding)]
    assert verdicts[1] == "does not hold"
    assert verdicts[0] != "holds"


def test_nothing_measured_is_said():
    section = speed.section({}, "small")
    assert section.answer == "Not computed yet."
    assert len(parts(section, NotRun)) == 7


def test_missing_programs_are_named(results):
    without = copy.deepcopy(results)
    for name in without:
        if name.startswith("peers"):
            without[name]["botorch"] = None
        if name.startswith(("peers", "tails", "batches")):
            without[name]["programs"].pop("mvtnorm", None)
        if name.startswith("gradients"):
            for line in without[name]:
                line.update(torch=None, chunks=None, outside=None)
        if name.startswith("classes"):
            kept = ("mvnorth", "scipy")
            without[name] = [x for x in without[name] if x["program"].startswith(kept)]
    named = {part.what for part in parts(speed.section(without, "small"), NotRun)}
    assert named == {"R's mvtnorm", "BoTorch's MVNXPB", "Programs in torch"}
    assert flagged(without) == []


def test_a_wrong_answer_is_never_fast(monkeypatch, results):
    """One in a hundred too much: no number of points meets the target."""
    right = mvnorth.orthant_prob
    monkeypatch.setattr(mvnorth, "orthant_prob", lambda *a, **k: 1.01 * right(*a, **k))
    name = "AR(1) d=10"
    wrong = measurements.side_by_side(name, (1e-3,), 0.1, (2, 2))
    assert wrong["programs"]["scipy"][0]["met"]
    found = flagged({**results, f"peers: {name}": wrong})
    assert any("true error meets 0.001" in claim for claim in found)


def test_other_bits_and_errors_are_flagged(results):
    changes = {
        "bits": lambda r: r[0].update(same=False),
        "classes: 256 x 10": lambda r: r[0].update(log_errors=[1e-6, 1e-5]),
        "batches: d = 5": lambda r: r["programs"]["mvnorth"].update(met=False),
        "tails: random d=20": lambda r: r["programs"]["tilting"].update(met=False),
        "gradients: d = 10, n = 1024": lambda r: r[0].update(differences_off=1e-3),
    }
    for name, change in changes.items():
        wrong = copy.deepcopy(results)
        change(wrong[name])
        assert len(flagged(wrong)) == 1, name


def test_ratios_by_hand():
    own = {"target": 1e-3, "met": True, "points": 8, "seconds": 2.0, "error": 9e-4}
    other = own | {"seconds": 5.0}
    assert measurements.ratio(own, other) == 2.5
    assert measurements.bound(own, [other]) == "2.5"
    late = other | {"met": False}
    assert measurements.ratio(own, late) is None
    assert measurements.bound(own, [late]) == "> 2.5"
    assert measurements.bound(own | {"met": False}, [late]) == "open"


def test_problems_are_those_of_the_benchmark():
    same = next(each for each in peers.problems() if each.name == "AR(1) d=20")
    assert measurements.problem("AR(1) d=20").log_prob == same.log_prob
    assert measurements.problem("random d=20").name == "random d=20"


def test_the_kernel_is_above_its_floor_of_nothing():
    found = kernel.measure(100, (0.0, 0.0, 0.0), rounds=1)
    assert found.same_bits
    assert found.bound == 0.0
    assert found.speedup > 0.0
