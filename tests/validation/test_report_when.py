import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from exact_torch import ExactLoss
from validation import cited
from validation.page import Check, Finding, Picture, Table, Text
from validation.reports import when
from validation.reports.when import comparisons, findings, losses, page, problems, training


def flagged(section):
    return [part for part in section.walk() if isinstance(part, Check) and not part.holds]


def table(section, title):
    (found,) = (part for part in section.walk() if isinstance(part, Table) and part.title == title)
    return found


@pytest.fixture(scope="module")
def results():
    outcomes = {task.name: task.perform() for task in when.tasks("small")}
    failed = {name: each.failure for name, each in outcomes.items() if each.failure}
    assert not failed
    return {name: each.value for name, each in outcomes.items()}


def test_no_claim_is_flagged(results):
    section = when.section(results, "small")
    assert sum(isinstance(part, Check) for part in section.walk()) == 2
    assert flagged(section) == []
    rows = table(section, "Test accuracy on images, %").rows
    assert [row[:3] for row in rows] == [
        ["digits", "clean", "linear"],
        ["digits", "symmetric 30 %", "linear"],
        ["digits", "symmetric 30 %", "CNN"],
    ]
    assert float(rows[0][3]) > 70.0


@pytest.mark.parametrize("name", ["CE", "robust", "CE then robust"])
def test_a_broken_loss_is_flagged(name, monkeypatch):
    right = losses.LOSSES[name]
    monkeypatch.setitem(losses.LOSSES, name, lambda z, y, progress: right(1.01 * z**3, y, progress))
    section = when.section({"stacked and alone": when.agreement.distances(4)}, "small")
    assert "torch's own layers" in flagged(section)[0].claim


def made(difference, sets=12):
    """Results in which ``robust`` differs from all others by so much on every UCI set."""
    random = np.random.default_rng(0)
    found = {"stacked and alone": dict.fromkeys(page.NAMES, 1e-12)}
    for name in problems.TABLES[:sets]:
        noise = random.normal(0, 0.005)
        found[f"linear, {name}"] = {
            condition: {
                loss: {"test": [0.8 + (difference + noise if loss == "robust" else 0.0)] * 4}
                for loss in page.NAMES
            }
            for condition in problems.CONDITIONS
        }
    return found


def test_what_is_said_follows_the_results():
    for difference, better, worse in (
        (0.03, "robust (+3.0)", "none"),
        (-0.03, "none", "robust (-3.0)"),
        (0.0, "none", "none"),
    ):
        section = when.section(made(difference), "full")
        rows = table(section, "What to use").rows
        assert len(rows) == len(problems.CONDITIONS)
        for row in rows:
            assert row[2].replace("+2.9", "+3.0") == better
            assert row[3].replace("-2.9", "-3.0").replace("-3.1", "-3.0") == worse
    assert sum(isinstance(part, Picture) for part in section.walk()) == 2
    assert flagged(section) == []


def verdicts(section):
    return [part.verdict for part in section.walk() if isinstance(part, Finding)]


def test_a_run_with_few_sets_states_the_stored_one():
    section = when.section(made(0.03, sets=12), "quick")
    entry = cited.table("when-robust")
    said = " ".join(part.text for part in section.walk() if isinstance(part, Text))
    assert f"commit {entry.commit}, {entry.date}" in said
    for part in section.walk():
        if isinstance(part, Finding):
            assert f"stored run, commit {entry.commit.split()[0]}" in part.ours
        if isinstance(part, Table):
            assert not part.cite
    outliers = next(row for row in entry.rows if row[:2] == ["outliers", "linear"])
    assert outliers[2:6] == [24, 4.5, 2.5, 6.4]
    said = "+4.5 (+2.5 to +6.4)"
    assert said in next(part for part in section.walk() if isinstance(part, Finding)).ours
    assert said in section.answer
    assert "no significant gain" in section.answer
    assert verdicts(when.section({}, "quick")) == verdicts(section)


@pytest.mark.parametrize(
    ("difference", "expected", "told"),
    [
        (0.03, ["holds"] * 4, "On clean data EXACT is better than cross-entropy"),
        (
            -0.03,
            ["does not hold"] * 4,
            "is worse than cross-entropy for linear models when the inputs have outliers",
        ),
        (
            0.0,
            ["not decided", "not decided", "does not hold", "not decided"],
            "on clean data EXACT is not significantly better",
        ),
    ],
)
def test_findings_follow_the_results(difference, expected, told):
    section = when.section(made(difference, sets=24), "full")
    assert verdicts(section) == expected  # the gain that was published is excluded on clean data
    assert told in section.answer
    for part in section.walk():
        if isinstance(part, Finding):
            assert "over 24 UCI sets" in part.ours
            assert "stored" not in part.ours


def test_tables_have_the_form_that_is_cited():
    section = when.section(made(0.03, sets=24), "full")
    tables = {part.cite: part for part in section.walk() if isinstance(part, Table) and part.cite}
    assert set(tables) == {"when-losses", "when-robust", "when-rivals"}  # no images in these
    for name, shown in tables.items():
        entry = cited.table(name)
        assert list(shown.header) == list(entry.header)
        known = {tuple(row[:2]) for row in shown.rows}
        assert {tuple(row[:2]) for row in entry.rows if row[1] == "linear"} == known


def test_findings_can_be_read_from_a_new_run():
    section = when.section(made(0.03, sets=24), "full")
    tables = [part for part in section.walk() if isinstance(part, Table) and part.cite]
    new = [
        cited.Entry(each.cite, "", "run", "abc, def", "2030-01-01", "", each.header, each.rows)
        for each in tables
    ]
    pages = {"p.md": "".join(f"<!-- cited: {each.name} -->\n<!-- end -->\n" for each in new)}
    entries = {each.name: each for each in cited.update(new, cited.entries(), pages)}
    source = findings.stored(entries)
    assert source.commit == "abc"
    assert findings.answer(source) == section.answer
    again = [replace(each, ours=each.ours.partition(";")[0]) for each in findings.findings(source)]
    assert [each.verdict for each in again] == verdicts(section)
    outliers = source.get("outliers", "linear", "CE")
    assert (outliers.sets, round(outliers.mean)) == (24, 3)


def known(mean, adjusted, other="CE", condition="outliers", model="linear"):
    return findings.Known(condition, model, other, 24, mean, mean - 1, mean + 1, adjusted)


@pytest.mark.parametrize(
    ("softmax", "gce", "told"),
    [
        ((-0.5, 0.003), (-0.7, 1.0), "two simpler bounded losses gain as much or more"),
        ((0.1, 1.0), (-0.7, 1.0), "not shown to be better than two simpler bounded losses"),
        ((2.0, 0.001), (-0.7, 1.0), "not shown to be better than every simpler bounded loss"),
    ],
)
def test_the_answer_on_simpler_losses_follows_the_results(softmax, gce, told):
    source = findings.Source(
        [
            known(4.5, 0.001),
            known(-2.0, 0.001, condition="one-sided 40 %"),
            known(-0.6, 1.0, condition="clean"),
            known(*softmax, other="1 - softmax"),
            known(*gce, other="GCE"),
        ]
    )
    said = findings.answer(source)
    assert told in said
    assert "generalised cross-entropy (GCE) +5.2" in said
    assert "is worse than cross-entropy for linear models when 40 % of one class" in said
    assert "networks" not in said
    network = known(2.0, 0.001, model="MLP")
    assert "Small neural networks gain with: outliers +2.0" in findings.answer(
        source._replace(known=[*source.known, network])
    )


def test_conclusions_of_the_docs_are_flagged_if_they_stop_being_true():
    results = made(0.0, sets=24)
    assert len(flagged(when.section(results, "full"))) == 1  # no loss differs with outliers
    for name in problems.TABLES:
        outliers = results[f"linear, {name}"]["outliers"]
        for loss in ("robust", "1 - softmax", "GCE"):
            outliers[loss]["test"] = [0.85]
        outliers["nll"]["test"] = [0.78]
    assert flagged(when.section(results, "full")) == []
    for name in problems.TABLES:
        results[f"linear, {name}"]["clean"]["hinge"]["test"] = [0.83]
    (claim,) = flagged(when.section(results, "full"))
    assert "On clean data" in claim.claim
    assert "hinge" in claim.found


@pytest.mark.parametrize(("value", "claims"), [(math.nan, 1), (0.2, 1)])
def test_results_that_cannot_be_are_flagged(value, claims):
    results = made(0.0)
    for name in problems.TABLES[:12]:
        results[f"linear, {name}"]["clean"]["GCE"]["test"] = [value] * 4
    assert len(flagged(when.section(results, "full"))) == claims


def test_a_loss_that_was_not_checked_is_flagged():
    results = made(0.0)
    del results["stacked and alone"]["hinge"]
    assert len(flagged(when.section(results, "full"))) == 1
    results["stacked and alone"]["hinge"] = math.nan
    assert len(flagged(when.section(results, "full"))) == 1


def test_differences_are_corrected_for_their_number():
    one = {f"set{k}": {"CE": 80.0, "a": 80.0 + 1 + k, "b": 79.0} for k in range(6)}
    other = {f"set{k}": {"CE": 80.0, "a": 80.0 - (-1) ** k * k, "b": 79.0} for k in range(6)}
    found = {"linear": {"clean": one}, "MLP": {"clean": other}}
    first, second, *third = comparisons.compare(found, [("a", "CE"), ("b", "CE")])
    assert [each.model for each in (first, second)] == ["linear", "MLP"]
    assert [each.verdict for each in third] == ["", ""]
    assert first.p == pytest.approx(2 / 2**6)  # all of one sign: the smallest p of six pairs
    assert first.adjusted == pytest.approx(2 * first.p)
    assert first.verdict == ""
    assert (first.mean, first.wins, first.losses) == (3.5, 6, 0)
    # Student's t with 5 degrees of freedom: 2.5706
    assert first.high - first.mean == pytest.approx(2.5706 * math.sqrt(3.5 / 6), rel=1e-4)
    assert second.adjusted == second.p > 0.05
    assert third[0].adjusted == pytest.approx(2 * third[0].p)


def test_the_direction_is_that_of_the_test():
    sets = {f"set{k}": {"CE": 50.0, "a": 50.5 + 0.01 * k} for k in range(20)}
    sets["odd"] = {"CE": 90.0, "a": 10.0}
    (found,) = comparisons.compare({"linear": {"clean": sets}}, [("a", "CE")])
    assert found.mean < 0
    assert found.verdict == "better"


def test_label_noise_has_the_rate_it_says():
    labels = torch.arange(1000) % 3
    labels[:100] = 1
    random = torch.Generator().manual_seed(0)
    noisy = problems.symmetric(labels, 3, 0.3, random)
    assert (noisy != labels).sum() == 300
    assert torch.bincount(noisy).min() > 250
    noisy = problems.one_sided(labels, 0.4, random)
    largest = labels == 1
    assert (noisy != labels)[largest].sum() == round(0.4 * int(largest.sum()))
    assert (noisy == labels)[~largest].all()
    assert len(noisy[largest].unique()) == 2


def test_outliers_and_imbalance():
    random = torch.Generator().manual_seed(0)
    inputs = torch.randn(500, 8, generator=random)
    replaced = problems.with_outliers(inputs, random)
    changed = (replaced != inputs).any(1)
    assert changed.sum() == 50
    assert replaced[changed].std() == pytest.approx(10.0, rel=0.1)
    labels = torch.tensor([0] * 50 + [1] * 30 + [2] * 5)
    kept = labels[problems.imbalanced(labels, random)]
    assert torch.bincount(kept).tolist() == [50, 6, 3]


def test_test_parts_stay_clean_and_splits_are_disjoint():
    clean, noisy = (problems.problem("digits", each) for each in ("clean", "symmetric 30 %"))
    for one, other in zip(clean.splits, noisy.splits, strict=True):
        assert (one.test.labels == other.test.labels).all()
        wrong = torch.cat([one.train.labels, one.validation.labels]).bincount()
        assert (wrong != torch.cat([other.train.labels, other.validation.labels]).bincount()).any()
        sizes = [len(part.labels) for part in one]
        assert sum(sizes) == 1797
    assert sum(len(split.test.labels) for split in clean.splits) == 1797
    with pytest.raises(ValueError, match="condition must be one of clean"):
        problems.problem("digits", "dirty")


def test_the_best_on_validation_is_tested(monkeypatch):
    validation = np.array([[0.5, 0.9, 0.9], [0.8, 0.1, 0.2]])
    test = np.array([[0.1, 0.2, 0.4], [0.6, 1.0, 1.0]])
    monkeypatch.setattr(training, "_stacked", lambda *told: (validation, test))
    settings = training.trials(3)
    found = training.search(None, "linear", "CE", settings, 1)
    assert found.test == pytest.approx([0.3, 0.6])  # equally good trials: their mean
    assert found.validation == [0.9, 0.8]
    assert found.rate == [settings[1].rate, settings[0].rate]


def test_trials_are_the_same_for_everyone():
    few, many = training.trials(4), training.trials(16)
    assert many[:4] == few
    for trial in many:
        assert training.RATES[0] <= trial.rate <= training.RATES[1]
        assert training.DECAYS[0] <= trial.decay <= training.DECAYS[1]


def test_accuracy():
    scores = torch.tensor([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [math.nan, 1.0]])
    labels = torch.tensor([0, 0, 1, 1])
    assert training.accuracy(scores, labels, balanced=False) == 0.5
    labels = torch.tensor([0, 0, 0, 1])
    assert training.accuracy(scores, labels, balanced=True) == 0.5


def test_robust_is_the_preset(one_thread):
    scores = torch.randn(2, 32, 4, generator=torch.Generator().manual_seed(0))
    labels = torch.randint(4, (2, 32), generator=torch.Generator().manual_seed(1))
    loss = ExactLoss.robust()
    loss.set_progress(0.3)
    one_by_one = sum(loss(z, y).item() for z, y in zip(scores, labels, strict=True))
    assert losses.LOSSES["robust"](scores, labels, 0.3).item() == pytest.approx(one_by_one)
