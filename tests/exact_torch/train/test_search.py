"""Random search: what is drawn, what is kept, what goes on."""

import dataclasses
import json

import pytest

from exact_torch.train import Config, RunError
from exact_torch.train.record import Folder
from exact_torch.train.search import search, settings_of

TINY = Config(
    model="linear", loss="ce", optimizer="sgd", lr=0.1, epochs=1, epoch_steps=5, batch_size=64
)
GRID = {"lr": [1e-6, 0.1], "loss_options.reduction": ["mean", "sum"]}


def test_draws_are_of_the_grid_and_of_the_seed():
    grid = {"lr": [1, 2, 3], "clip": [1, 2, 3]}
    drawn = settings_of(grid, 9, seed=0)
    assert len(drawn) == 9
    assert len({json.dumps(each) for each in drawn}) == 9  # none twice
    assert drawn == settings_of(grid, 9, seed=0)
    assert drawn[:3] == settings_of(grid, 3, seed=0)
    assert drawn != settings_of(grid, 9, seed=1)
    assert len(settings_of(grid, 20, seed=0)) == 9  # there are no more


def test_the_best_trial_is_found_and_none_repeated(tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    told = []
    grid = {"lr": [1e-6, 0.1]}
    best, trials = search(
        TINY,
        grid,
        tmp_path / "search",
        trials=3,
        jobs=2,
        report=lambda number, trial: told.append(number),
    )
    assert sorted(told) == [0, 1]  # there are no more
    accuracies = [trial.accuracy for trial in trials]
    assert None not in accuracies
    assert trials[accuracies.index(max(accuracies))].settings["lr"] == best.lr == 0.1
    written = json.loads((tmp_path / "search" / "search.json").read_text())
    assert Config.from_json(written["config"]) == best
    summary = json.loads((tmp_path / "search" / "trial-00" / "summary.json").read_text())
    assert "test_accuracy" not in summary  # the test set is not for choosing

    def refuse(*arguments, **options):
        raise AssertionError("a finished trial was run again")

    monkeypatch.setattr("subprocess.run", refuse)
    assert search(TINY, grid, tmp_path / "search", trials=3) == (best, trials)


def test_trials_that_fail_are_told_and_left_out(tmp_path):
    grid = {"loss_options.reduction": ["never"]}
    with pytest.raises(RunError, match=r"all 1 trials failed.*reduction"):
        search(TINY, grid, tmp_path / "search", trials=1)


def test_trials_of_another_search_are_not_taken_for_this(tmp_path):
    other = dataclasses.replace(TINY, lr=0.1, epochs=3)
    folder = Folder(tmp_path / "trial-00", other)
    with folder.locked():
        folder.save_summary({"validation_accuracy": 1.0, "seconds": 1.0})
    with pytest.raises(RunError, match=r"trial-00 holds a run with other settings: epochs=1"):
        search(TINY, {"lr": [0.1]}, tmp_path, trials=1)


def test_searches_that_make_no_sense(tmp_path):
    for name in ("trials", "jobs"):
        with pytest.raises(ValueError, match=f"{name} must be at least 1, got 0"):
            search(TINY, GRID, tmp_path, **{name: 0})
    with pytest.raises(ValueError, match="validation=0"):
        search(dataclasses.replace(TINY, validation=0.0), GRID, tmp_path)
    with pytest.raises(ValueError, match="empty"):
        search(TINY, {}, tmp_path)
    with pytest.raises(ValueError, match="no setting is called"):
        search(TINY, {"speed": [1]}, tmp_path)
