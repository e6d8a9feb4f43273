"""Runs side by side."""

import dataclasses
import json

import pytest
from scipy import stats

from exact_torch.train import Config, RunError, curves
from exact_torch.train.compare import compare, difference_table, differences, table
from exact_torch.train.record import Folder


def run(path, accuracy, **settings):
    folder = Folder(path, Config(**settings))
    measured = {"epoch": 1, "train": {"accuracy": accuracy}, "validation": None, "lr": 1.0}
    with folder.locked():
        folder.add_metrics(measured)
        folder.save_summary({"test_accuracy": accuracy, "seconds": 2.0})


def test_groups_are_of_settings_and_means_of_seeds(tmp_path):
    for seed, accuracy in enumerate((0.90, 0.92, 0.97)):
        run(tmp_path / f"ce-{seed}", accuracy, loss="ce", seed=seed)
    run(tmp_path / "deep" / "exact", 0.95, loss="exact", loss_options={"margin": 1.0})
    with Folder(tmp_path / "unfinished", Config(loss="hinge")).locked():
        pass
    groups, unfinished = compare([tmp_path])
    assert unfinished == [tmp_path / "unfinished"]
    assert [group.name for group in groups] == ["loss=exact", "loss=ce"]
    exact, ce = groups
    assert (exact.mean("test_accuracy"), exact.std("test_accuracy")) == (0.95, None)
    assert ce.mean("test_accuracy") == pytest.approx(0.93)
    assert ce.std("test_accuracy") == pytest.approx(0.0360555, abs=1e-6)
    lines = table(groups).splitlines()
    assert len({len(line) for line in lines}) == 1
    assert "95.00 " in lines[2]
    assert "93.00 ± 3.61" in lines[3]


def test_one_setting_is_named_after_what_it_is(tmp_path):
    run(tmp_path / "a", 0.9, seed=1)
    run(tmp_path / "b", 0.8, seed=2)
    groups, _ = compare([tmp_path / "a", tmp_path / "b", tmp_path / "a"])
    assert len(groups) == 1
    assert groups[0].name == "data=digits, model=small_cnn, loss=exact"
    assert len(groups[0].summaries) == 2


def test_folders_without_runs(tmp_path):
    with pytest.raises(RunError, match="holds a run"):
        compare([tmp_path])


def test_old_configs_with_fields_no_longer_known(tmp_path):
    with Folder(tmp_path / "run", Config()).locked():
        pass
    known = tmp_path / "run" / "config.json"
    known.write_text(json.dumps(dataclasses.asdict(Config()) | {"speed": 3}))
    with pytest.raises(RunError, match=r"config\.json: no setting is called 'speed'"):
        compare([tmp_path])


def test_as_much_is_said_as_tells_settings_apart(tmp_path):
    run(tmp_path / "a", 0.9, loss="ce", lr=0.1, clip=1.0)
    run(tmp_path / "b", 0.8, loss="ce", lr=0.2, clip=2.0)
    run(tmp_path / "c", 0.7, loss="exact", lr=0.2, clip=2.0)
    groups, _ = compare([tmp_path])
    names = [group.name for group in groups]
    assert names == ["loss=ce, lr=0.1", "loss=ce, lr=0.2", "loss=exact, lr=0.2"]


def test_differences_are_paired_by_seed(tmp_path):
    first = {0: 0.90, 1: 0.95, 2: 0.97, 5: 0.5}
    second = {0: 0.92, 1: 0.96, 2: 0.99, 7: 0.1}
    for loss, runs in (("ce", first), ("exact", second)):
        for seed, accuracy in runs.items():
            run(tmp_path / loss / str(seed), accuracy, loss=loss, seed=seed)
    run(tmp_path / "other", 0.5, data="mnist", loss="exact")
    groups, _ = compare([tmp_path])
    (found,) = differences(groups)
    assert (found.name, found.baseline) == ("data=digits, loss=exact", "data=digits, loss=ce")
    pairs = [second[seed] - first[seed] for seed in (0, 1, 2)]
    interval = stats.ttest_1samp(pairs, 0.0).confidence_interval(0.95)
    assert found.seeds == 3
    assert found.mean - found.half_width == pytest.approx(interval.low)
    assert found.mean + found.half_width == pytest.approx(interval.high)
    lines = difference_table([found]).splitlines()
    assert "+1.67" in lines[2]
    (turned,) = differences(groups, baseline="exact")
    assert turned.mean == pytest.approx(-found.mean)


def test_pictures_of_one_epoch_and_of_several_seeds(tmp_path, monkeypatch):
    measured = {
        "epoch": 1,
        "train": {"accuracy": 0.5, "loss": 1.0, "expected_accuracy": 0.4, "sigma": 1.0},
        "validation": None,
        "lr": 0.1,
    }
    curves.draw([measured], tmp_path / "one.png", "one epoch")
    # Points of training are full and those of validation are not: dashes cannot tell them apart.
    drawn = []
    monkeypatch.setattr(curves, "_save", lambda figure, path: drawn.append(figure))
    curves.draw([measured | {"validation": measured["train"]}], tmp_path / "both.png", "")
    lines = {line.get_label(): line for line in drawn[0].axes[0].lines}
    fills = {name: line.get_fillstyle() for name, line in lines.items()}
    assert fills == {"train": "full", "validation": "none"}
    monkeypatch.undo()
    better = measured | {"train": {"accuracy": 0.7}}
    again = measured | {"epoch": 2}
    runs = {"a": [[measured], [better, again]], "b": [[measured]]}
    assert curves._over_runs(runs["a"], "train") == ([1, 2], [0.6, 0.5], [0.5, 0.5], [0.7, 0.5])
    curves.comparison(runs, tmp_path / "both.png")
    assert (tmp_path / "one.png").stat().st_size > 10_000
    assert (tmp_path / "both.png").stat().st_size > 10_000
