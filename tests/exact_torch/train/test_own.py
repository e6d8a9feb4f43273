"""Networks, data sets and callbacks of a user's, by their import paths."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from exact_torch import GaussianHead, data, models
from exact_torch.data import DataError
from exact_torch.train import Config, RunError, TensorBoard, train
from exact_torch.train.trained import Trained

HERE = Path(__file__).parent
CONFIG = Config(
    data="own_things:two",
    data_options={"count": 240},
    model="own_things:Net",
    model_options={"width": 8},
    epochs=3,
    batch_size=24,
)


@pytest.fixture(autouse=True)
def importable(monkeypatch):
    monkeypatch.syspath_prepend(str(HERE))


def test_a_network_and_data_sets_of_ones_own(tmp_path):
    seen = []
    summary = train(
        CONFIG, tmp_path, quiet=True, callbacks=[lambda m, n: seen.append((m["epoch"], n))]
    )
    assert summary["test_accuracy"] > 0.9
    assert [epoch for epoch, _ in seen] == [1, 2, 3]
    assert isinstance(seen[0][1], nn.Module)
    trained = Trained(tmp_path)
    assert trained.shape == (3, 2, 2)
    assert trained.predict(torch.rand(5, 3, 2, 2)).probabilities.shape == (5, 3)


def test_its_last_layer_is_the_head():
    model = models.get("own_things:Net", 7, (3, 2, 2), GaussianHead, width=5)
    assert isinstance(model.last, GaussianHead)
    assert (model.last.in_features, model.last.num_classes) == (5, 7)


def test_a_single_data_set_is_split():
    found = data.load("own_things:one", validation=0.25)
    sizes = [len(part) for part in (found.train, found.validation, found.test)]
    assert sum(sizes) == 200
    assert sizes == [120, 40, 40]
    assert (found.kind, found.shape, found.classes) == ("table", (4,), ("0", "1"))
    torch.testing.assert_close(
        found.mean, found.train.inputs(torch.arange(120)).mean(0), rtol=1e-4, atol=1e-6
    )


def test_fewer_examples_by_class():
    few = data.load("digits", examples=200)
    assert len(few.train) == 200
    assert torch.bincount(few.train.labels).min() >= 18
    again = data.load("digits", examples=200)
    assert torch.equal(few.train.inputs(torch.arange(5)), again.train.inputs(torch.arange(5)))
    assert len(few.test) == len(data.load("digits").test)
    assert len(data.load("digits", examples=10**6).train) == len(data.load("digits").train)


def test_errors_name_the_path():
    with pytest.raises(ValueError, match="model 'own_things:Nett' cannot be imported"):
        models.get("own_things:Nett", 3)
    with pytest.raises(TypeError, match="model 'own_things:Net' with 3 classes"):
        models.get("own_things:Net", 3, depth=2)
    with pytest.raises(TypeError, match=r"must make an nn\.Module, got int"):
        models.get("builtins:int", 3)
    with pytest.raises(TypeError, match="must be callable"):
        models.get("own_things:SEEN", 3)
    with pytest.raises(ValueError, match="data 'no_such:thing' cannot be imported"):
        data.load("no_such:thing")
    with pytest.raises(DataError, match="must return a data set"):
        data.load("own_things:nothing")


def test_callbacks_and_files_of_the_command(tmp_path):
    config = tmp_path / "mine.toml"
    config.write_text(
        'data = "own_things:two"\nmodel = "own_things:Net"\nepochs = 1\nbatch_size = 30\n'
        "[loss_options]\nsigma = 2.0\n"
    )
    command = [sys.executable, "-m", "exact_torch", "train", "--config", str(config)]
    command += ["--out", str(tmp_path / "run"), "--callback", "own_things:note"]
    path = f"{HERE}:{Path(__file__).parents[3]}"
    done = subprocess.run(
        command,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert '"sigma": 2.0' in (tmp_path / "run" / "config.json").read_text()


def test_curves_for_tensorboard(tmp_path):
    try:
        import tensorboard  # noqa: F401
    except ImportError:
        with pytest.raises(RunError, match="pip install tensorboard"):
            TensorBoard(tmp_path)
        pytest.skip("tensorboard is not installed")
    train(CONFIG, tmp_path / "run", quiet=True, callbacks=[TensorBoard(tmp_path / "events")])
    assert list((tmp_path / "events").glob("events.*"))
