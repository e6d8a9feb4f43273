"""The benchmark of training steps runs, and its steps are steps."""

import json

import pytest

torch = pytest.importorskip("torch")

from exact_torch import exact_loss  # noqa: E402
from validation.benchmarks import training  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread")


def test_whole_program(tmp_path, capsys):
    file = tmp_path / "results.json"
    training.main(["--small", "--json", str(file)])
    results = json.loads(file.read_text())["results"]
    assert [line["network"] for line in results] == ["linear"] * 2 + ["small_cnn"] * 2
    assert all(0.0 < line["loss_seconds"] < line["step_seconds"] for line in results)
    printed = capsys.readouterr().out
    assert "small_cnn, 2 x 1 x 8 x 8, 4 classes" in printed
    assert "nan" not in printed


def test_step_is_a_training_step():
    network = training.Network("small_cnn", 3, 4, (1, 8, 8))
    torch.manual_seed(0)
    trainer = training.Trainer(network)
    before = [p.detach().clone() for p in trainer.model.parameters()]
    trainer.step(exact_loss)
    # As if the loss had been differentiated with the network.
    plain = training.Trainer(network)
    plain.inputs, plain.labels = trainer.inputs, trainer.labels
    for p, value in zip(plain.model.parameters(), before, strict=True):
        p.data.copy_(value)
    exact_loss(plain.model(plain.inputs), plain.labels).backward()
    plain.optimiser.step()
    pairs = zip(plain.model.parameters(), trainer.model.parameters(), strict=True)
    assert all(torch.allclose(a, b) for a, b in pairs)
