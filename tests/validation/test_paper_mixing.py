"""The mixing paper on images, its figure 1 and escaping efficiency: pages and what they flag."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

torch = pytest.importorskip("torch")
pytest.importorskip("sklearn")

from exact_torch import data, losses, recipes  # noqa: E402
from exact_torch.data import MemorySplit  # noqa: E402
from exact_torch.losses import mixing  # noqa: E402
from validation.page import Check, Finding, NotRun, Picture, Table, Text  # noqa: E402
from validation.paper import (  # noqa: E402
    mixing_escaping,
    mixing_escaping_runs,
    mixing_gradients,
    mixing_image_runs,
    mixing_motivation,
    mixing_published,
    mixing_tables,
    mixing_training,
)

pytestmark = pytest.mark.usefixtures("one_thread")
TINY = mixing_image_runs.Setting("digits", 300, 6, 2, width=4, batch_size=32)


def section_of(file):
    outcomes = {task.name: task.perform() for task in file.tasks("small")}
    assert not [each.failure for each in outcomes.values() if each.failure]
    return file.section({name: each.value for name, each in outcomes.items()}, "small")


def flagged(section):
    return [each.claim for each in section.walk() if isinstance(each, Check) and not each.holds]


def parts(section, kind):
    return [each for each in section.walk() if isinstance(each, kind)]


@pytest.fixture
def two_tables(monkeypatch):
    monkeypatch.setitem(mixing_image_runs.SETTINGS, "small", {"1": TINY, "5": TINY})


@pytest.mark.usefixtures("two_tables")
def test_image_tables():
    section = section_of(mixing_tables)
    assert flagged(section) == []
    titles = [each.title for each in parts(section, Table)]
    assert titles[0].startswith("Table 1 of the mixing paper")
    assert titles[1].startswith("Table 5 of the mixing paper")
    assert all(len(row) == len(t.header) for t in parts(section, Table) for row in t.rows)
    assert len(parts(section, Picture)) == 2
    assert [each.verdict for each in parts(section, Finding)] == ["not decided"] * 3  # reduced
    commands = " ".join(each.command for each in parts(section, NotRun)).split()
    named = [word for word in commands if word.startswith("mixing-")]
    assert len(named) == 4
    for name in named:
        recipes.get(name)


@pytest.mark.usefixtures("two_tables")
def test_a_mixture_of_the_wrong_sign_is_flagged(monkeypatch):
    right = mixing.expectation
    monkeypatch.setattr(mixing, "expectation", lambda *each: -right(*each))
    (claim,) = flagged(section_of(mixing_tables))
    assert claim.startswith("Every run is within 10 points")


@pytest.mark.usefixtures("two_tables")
def test_a_loop_that_trains_otherwise_is_flagged(monkeypatch):
    right = mixing_training._train_epoch
    monkeypatch.setattr(
        mixing_training, "_train_epoch", lambda training, factor: right(training, 3.0 * factor)
    )
    results = {"loop": mixing_image_runs.agreement()}
    rows = [mixing_tables.Row("5", "", {loss: [{"accuracy": 0.9}] * 2 for loss in ("ce", "cot")})]
    assert [each.holds for each in mixing_tables._checks(results, rows)] == [False, True, True]


def test_rows_of_one_data_set_are_no_independent_samples():
    def row(table, data, done, changes):
        runs = {
            "ce": [{"accuracy": 0.5}] * len(done),
            "f0-0.5": [{"accuracy": 0.5 + change / 100} for change in changes],
        }
        return mixing_tables.Row(table, "", runs, data, done)

    rows = [
        row("1", "cifar10", (0, 1, 2), (1.0, 2.0, 9.0)),
        row("5", "cifar10", (0, 1), (3.0, 4.0)),
        row("2", "mnist", (0, 1), (0.0, 1.0)),
    ]
    together = mixing_tables.pooled(rows)  # by seed: (2 + 0) / 2 and (3 + 1) / 2
    assert together.mean == pytest.approx(1.5)
    assert together.half == pytest.approx(stats.t.ppf(0.975, 1) * 0.5)
    apart = mixing_tables.pooled([rows[0]._replace(done=(2, 3, 4)), rows[1]])
    assert np.isinf(apart.half)  # no seed in common


def test_wide_intervals_pass_no_check():
    runs = {
        "ce": [{"accuracy": 0.5}] * 2,
        "cot": [{"accuracy": 0.45}, {"accuracy": 0.55}],
    }
    sentence, _ = mixing_tables._checks({}, [mixing_tables.Row("5", "", runs)])
    assert isinstance(sentence, Text)
    assert "too wide: table 5, COT" in sentence.text


@pytest.mark.usefixtures("one_table")
def test_a_lead_below_the_published_one_is_not_refuted():
    results = made_up({"f0-0.5": 0.05, "scaled": -1.0})
    results |= {name.replace("table 1", "table 2"): each for name, each in results.items()}
    first = parts(mixing_tables.section(results, "full"), Finding)[0]
    assert first.verdict == "not decided"
    assert "less than the published +0.55" in first.ours


def test_a_rate_factor_is_a_rate():
    config = mixing_image_runs.config_of("5", "", "ce", TINY, 0)
    dataset = data.load("digits", validation=0.0, examples=300)
    factor = mixing_training.follow(config, dataset, lambda progress: 2.0)
    rate = mixing_training.follow(replace(config, lr=2 * config.lr), dataset)
    assert factor == rate
    assert factor != mixing_training.follow(config, dataset)


def test_factors_of_the_control():
    factors = [mixing_training.scaled_rate(phase / 6) for phase in range(6)]
    assert factors == pytest.approx([4 / 3, 1 + 1.25 / 3, 14 / 9, 11 / 6, 8 / 3, 1 / 3])


def test_groups():
    before = mixing_training.Judged(
        torch.tensor([True, True, False, False, False]), torch.tensor([0.9, 0.4, 0.3, 0.1, 0.1])
    )
    after = mixing_training.Judged(torch.tensor([True, False, True, True, False]), torch.ones(5))
    assert mixing_training.groups_of(before, after) == ((2, 1), (1, 1), (2, 1))


def test_dropout_is_before_the_last_layer():
    network = mixing_training.dropout_cnn(10, channels=3, width=4, dropout=0.2)
    *_, drop, last = network.children()
    assert isinstance(drop, torch.nn.Dropout)
    assert last.out_features == 10
    config = mixing_image_runs.config_of("6", "dropout", "f0-0.5", TINY, 0)
    assert config.model_options["dropout"] == 0.2
    assert config.loss_options == {"schedule": "0-0.5"}


def made_up(changes, seeds=6):
    """Rows of table 1 in which losses differ from CE by given numbers of points."""
    noise = np.random.default_rng(0).normal(0.0, 0.001, (len(mixing_image_runs.TABLES["1"]), seeds))
    groups = [[60, 57], [10, 4], [30, 1]]
    return {
        f"table 1, seed {seed}": {
            loss: {"accuracy": 0.6 + changes.get(loss, 0.0) / 100 + each[seed], "groups": groups}
            for loss, each in zip(mixing_image_runs.TABLES["1"], noise, strict=True)
        }
        for seed in range(seeds)
    }


@pytest.fixture
def one_table(monkeypatch):
    setting = replace(TINY, seeds=6)
    monkeypatch.setitem(mixing_image_runs.SETTINGS, "full", {"1": setting, "2": setting})


@pytest.mark.usefixtures("one_table")
def test_verdicts_follow_from_results():
    results = made_up({"f0-0.5": 1.0, "scaled": -1.0})
    results |= {name.replace("table 1", "table 2"): each for name, each in results.items()}
    good = mixing_tables.section(results, "full")
    assert [each.verdict for each in parts(good, Finding)] == ["holds", "holds"]
    assert flagged(good) == []
    assert "better in 2 and worse in 0 of 2" in good.answer
    results = made_up({"f0-0.5": -1.0, "scaled": 5.0})
    results |= {name.replace("table 1", "table 2"): each for name, each in results.items()}
    bad = mixing_tables.section(results, "full")
    assert [each.verdict for each in parts(bad, Finding)] == ["does not hold", "does not hold"]
    assert len(flagged(bad)) == 1


@pytest.mark.usefixtures("one_table")
def test_missing_results_are_named():
    section = mixing_tables.section({}, "full")
    assert [type(each) for each in section.parts] == [NotRun]
    some = dict(list(made_up({}).items())[:3])
    section = mixing_tables.section(some, "full")
    assert any("10 tasks" in each.why for each in parts(section, NotRun))  # of 12 and one more


def test_the_motivating_example_says_what_came_out():
    runs = {loss: [{"groups": [[60, 57], [10, 4], [30, 1]]}] * 3 for loss in ("ce", "f0-0.5")}
    section = mixing_motivation.motivating_example(runs)
    assert section.answer.startswith("As published")
    assert "3.33 ± 0.00 %" in section.answer
    runs["ce"] = [{"groups": [[60, 57], [10, 1], [30, 15]]}] * 3
    assert mixing_motivation.motivating_example(runs).answer.startswith("Unlike published")


def test_published_numbers():
    assert mixing_published.change("1", "f0-0.5").largest == 0.75
    assert mixing_published.change("5", "cot").least == -0.14
    assert mixing_published.change("2", "cot") is None
    assert mixing_published.change("6", "f0-0.5", "jitter").mean == pytest.approx(1.13)
    assert min(mixing_published.all_changes()) > 0  # as the paper says


def test_figure_1():
    section = section_of(mixing_gradients)
    assert flagged(section) == []
    assert len(parts(section, Picture)) == 1
    assert [each.right for each in mixing_gradients.claims()] == [True, False, False]
    assert "p_y = 0.0041" in parts(section, Table)[-1].note
    assert isinstance(mixing_gradients.section({}, "full").parts[0], NotRun)


def test_wrong_weights_are_flagged(monkeypatch):
    right = losses.ce_el
    monkeypatch.setattr(losses, "ce_el", lambda z, y, alpha, beta: right(z, y, 1.1 * alpha, beta))
    claims = flagged(section_of(mixing_gradients))
    assert len(claims) == 3


def test_escaping():
    section = section_of(mixing_escaping)
    assert flagged(section) == []
    assert [bool(each.published) for each in parts(section, Finding)] == [True, False]
    assert len(parts(section, Picture)) == 1
    assert all(len(row) == len(t.header) for t in parts(section, Table) for row in t.rows)
    assert isinstance(mixing_escaping.section({}, "full").parts[0], NotRun)


def test_efficiency_is_that_of_the_loss():
    generator = torch.Generator().manual_seed(1)
    images = torch.rand(7, 1, 2, 2, generator=generator)
    labels = torch.arange(7) % 3
    torch.manual_seed(2)
    body = mixing_escaping_runs.narrow(3, inputs=4, width=2)
    at = mixing_escaping_runs.derivatives(
        torch.nn.Sequential(torch.nn.Identity(), body), MemorySplit(images, labels)
    )
    body.double()
    flat = torch.nn.utils.parameters_to_vector(body.parameters()).detach()
    shapes = {name: each.shape for name, each in body.named_parameters()}

    def loss(values, rows):
        split = values.split([shape.numel() for shape in shapes.values()])
        named = {n: v.view(s) for (n, s), v in zip(shapes.items(), split, strict=True)}
        scores = torch.func.functional_call(body, named, (images[rows].double(),))
        return losses.ce_el(scores, labels[rows], 1.0, 2.5).mean()

    hessian = torch.autograd.functional.hessian(lambda v: loss(v, range(7)), flat)
    single = [
        torch.autograd.functional.jacobian(lambda v, n=n: loss(v, [n]), flat) for n in range(7)
    ]
    sigma = torch.cov(torch.stack(single).T, correction=0)
    expected = torch.trace(hessian @ sigma).item()
    assert mixing_escaping_runs.efficiency(at, 1.0, 2.5) == pytest.approx(expected, rel=1e-9)


def stages(mixture, scaled):
    foci = [
        {"focus": focus, "efficiency": mixture, "scaled": scaled, "bound": 0.1}
        for focus in mixing_escaping.FOCI
    ]
    end = {"trace": 1.0, "largest": 0.5, "accuracy": 0.9}
    stage = {"ce": 1.0, "el": 0.1, "mixtures": foci}
    return {"stages": [stage, stage], "ce": end, "f0-0.5": end}


def test_escaping_verdicts():
    def came(mixture, scaled):
        results = {"seed 0": stages(mixture, scaled), "seed 1": stages(1.01 * mixture, scaled)}
        return mixing_escaping.section(results, "small")

    def verdicts(section):
        return [each.verdict for each in parts(section, Finding)]

    assert verdicts(came(2.0, 2.0)) == ["holds", "does not hold"]
    assert verdicts(came(2.0, 1.0)) == ["holds", "holds"]
    assert verdicts(came(0.5, 0.5)) == ["does not hold", "does not hold"]
    assert len(flagged(came(0.5, 1.0))) == 1
