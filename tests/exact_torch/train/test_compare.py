"""Runs side by side."""

import dataclasses
import json

import pytest

from exact_torch.train import Config, RunError
from exact_torch.train.compare import compare, table
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
