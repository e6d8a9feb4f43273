"""Table 4 of the mixing paper: what is trained, what the page says, and what it flags."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from exact_torch import data  # noqa: E402
from exact_torch.data import MemorySplit  # noqa: E402
from exact_torch.data.dataset import assemble  # noqa: E402
from validation.page import Check, Finding, NotRun, Picture, Table  # noqa: E402
from validation.paper import side_by_side, uci_mixing, uci_mixing_runs  # noqa: E402
from validation.paper.uci_mixing_table import PUBLISHED  # noqa: E402


@pytest.fixture(autouse=True)
def clouds(monkeypatch, one_thread):
    """Three clouds of points in place of two sets, and no other set."""

    def load(name, *arguments, validation=0.1, download=True, **options):
        if name not in {"uci/iris", "uci/seeds"}:
            raise data.DataError(name)
        generator = torch.Generator().manual_seed(len(name))
        labels = torch.arange(180) % 3
        points = torch.randn(180, 4, generator=generator) + 4.0 * torch.eye(3, 4)[labels]
        test = MemorySplit(points[120:], labels[120:])
        return assemble(
            name, "table", ["0", "1", "2"], points[:120], labels[:120], validation, lambda: test
        )

    monkeypatch.setattr(data, "load", load)
    size_of = uci_mixing_runs.size_of
    size_of.cache_clear()
    yield
    size_of.cache_clear()


def trained():
    outcomes = {task.name: task.perform() for task in uci_mixing.tasks("small")}
    assert not [each.failure for each in outcomes.values() if each.failure]
    section = uci_mixing.section({name: each.value for name, each in outcomes.items()}, "small")
    return section, flagged(section)


def flagged(section):
    return [each.claim for each in section.walk() if isinstance(each, Check) and not each.holds]


def parts(section, kind):
    return [each for each in section.walk() if isinstance(each, kind)]


def test_table_has_all_losses_and_nothing_to_flag():
    section, claims = trained()
    assert claims == []
    assert verdicts(section) == ["not decided"] * 3  # a reduced run
    first = parts(section, Table)[0]
    assert [row[0] for row in first.rows] == list(uci_mixing_runs.LOSSES.values())
    assert all(len(row) == len(first.header) == 7 for row in first.rows)
    assert len(parts(section, Picture)) == 5
    assert "116 sets" not in section.answer
    assert section.answer.startswith("Over 2 sets")
    assert any("abalone" in each.why for each in parts(section, NotRun))


def test_an_expectation_loss_of_the_wrong_sign_is_flagged(monkeypatch):
    right = side_by_side.losses.expectation
    monkeypatch.setattr(
        side_by_side.losses, "expectation", lambda *each, **options: -right(*each, **options)
    )
    _, claims = trained()
    assert any("side by side" in claim for claim in claims)
    assert any("two thirds" in claim for claim in claims)


SETS = [f"set{number}" for number in range(40)]


@pytest.fixture
def made_up(monkeypatch):
    """Results of forty sets in which losses differ from CE by given numbers of points."""
    sizes = {name: uci_mixing_runs.Size(100 * (1 + n), 4) for n, name in enumerate(SETS)}
    monkeypatch.setattr(uci_mixing_runs, "size_of", sizes.get)
    monkeypatch.setattr(uci_mixing, "size_of", sizes.get)
    effort = uci_mixing_runs.Effort(50, 460, sets=tuple(SETS))
    monkeypatch.setitem(uci_mixing_runs.EFFORTS, "full", effort)

    def results(**changes):
        generator = np.random.default_rng(1)
        cells = {}
        for name in SETS:
            for model in uci_mixing_runs.MODELS:
                noise = generator.normal(0.0, 0.003, (6, 2))
                base = 0.8 + generator.normal(0.0, 0.05)
                test = {
                    loss: list(base + changes.get(loss.replace(",", "_"), 0.0) / 100 + each)
                    for loss, each in zip(uci_mixing_runs.LOSSES, noise, strict=True)
                }
                cells[f"{name}, {model}"] = {"test": test, "majority": 0.5}
        return cells

    return results


def verdicts(section):
    return [each.verdict for each in parts(section, Finding)]


def test_verdicts_follow_from_results(made_up):
    as_published = {"f0": 0.3, "f0_0.5": 0.4, "f0-0.5": 1.0, "el": -3.0, "focal": -0.5}
    section = uci_mixing.section(made_up(**as_published), "full")
    assert verdicts(section) == ["holds", "holds", "holds"]
    assert flagged(section) == []
    opposite = uci_mixing.section(made_up(**{"f0": 2.0, "f0-0.5": -1.0, "el": 1.0}), "full")
    assert verdicts(opposite) == ["does not hold", "does not hold", "does not hold"]
    assert len(flagged(opposite)) == 2  # F = 0 is more than a point above CE
    assert "less accurate than CE" in opposite.answer
    equal = uci_mixing.section(made_up(), "full")
    assert verdicts(equal) == ["not decided"] * 3
    assert "less than the published +0.30" in parts(equal, Finding)[0].ours


def test_sets_with_fewer_steps_are_marked(made_up):
    section = uci_mixing.section(made_up(), "full")
    table = next(each for each in parts(section, Table) if "with and without" in each.title)
    assert table.header[1:3] == ["linear, all 40 sets", "linear, 36 sets"]  # 3700 and more / 8
    every = parts(section, Table)[-1]
    assert [row[0] for row in every.rows][-5:] == ["set35", "set36*", "set37*", "set38*", "set39*"]


def test_tasks_of_large_sets_have_fewer_steps(made_up):
    steps = {each.arguments["data"]: each.arguments.get("steps") for each in _tasks_of_sets()}
    assert steps["set35"] is None
    assert steps["set36"] == 460


def _tasks_of_sets():
    return [each for each in uci_mixing.tasks("full") if "model" in each.arguments]


def test_missing_results_are_named(made_up):
    results = {name: each for name, each in made_up().items() if not name.startswith("set7,")}
    section = uci_mixing.section(results, "full")
    assert section.answer.startswith("Over 39 sets")
    assert next(each.what for each in parts(section, NotRun)) == "Mixing CE and EL on set7"
    assert all(isinstance(each, NotRun) for each in uci_mixing.section({}, "full").parts)


def test_sets_are_chosen_by_size(monkeypatch):
    sizes = {"wine": (100, 5), "iris": (50, 2), "car": (400, 3), "bank": (2000, 9), "zoo": (120, 8)}
    sizes = {name: uci_mixing_runs.Size(*size) for name, size in sizes.items()}
    monkeypatch.setattr(uci_mixing_runs, "size_of", sizes.get)
    effort = uci_mixing_runs.Effort(50, 500, least=60, total=700)
    monkeypatch.setitem(uci_mixing_runs.EFFORTS, "quick", effort)
    assert uci_mixing_runs.chosen("quick") == ("wine", "zoo", "car")


def test_published_numbers_are_complete():
    for model in uci_mixing_runs.MODELS:
        assert PUBLISHED[model].keys() == uci_mixing_runs.LOSSES.keys()
    assert sum(each.rank for each in PUBLISHED["linear"].values()) == pytest.approx(15.78)
    assert sum(each.rank for each in PUBLISHED["hidden"].values()) == pytest.approx(16.64)
