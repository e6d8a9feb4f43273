"""The benchmark of EXACT runs, and its measures are of what they say."""

import json

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from exact_torch import exact_loss  # noqa: E402
from validation.benchmarks import exact  # noqa: E402
from validation.benchmarks.resnet18 import resnet18  # noqa: E402


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_whole_program(tmp_path, capsys):
    file = tmp_path / "results.json"
    exact.main(["--small", "--json", str(file)])
    printed = capsys.readouterr().out
    sizes = len(exact.SMALL.sizes)
    results = json.loads(file.read_text())["results"]
    assert sum("scores" in line for line in results) == 2 * 6 * sizes
    assert sum("step_seconds" in line for line in results) == 2 * sizes
    assert sum("tensors" in line for line in results) == 7 * sizes
    assert printed.count("published, N=16") == 2 * sizes + 2
    assert "nan" not in printed
    assert "inf" not in printed


def test_network():
    model = resnet18(10)
    assert (
        sum(p.numel() for p in model.parameters()) == 11_173_962
    )  # as torchvision's, but the stem
    stages = model[3:11]
    x = torch.zeros(1, 64, 32, 32)
    shapes = [tuple((x := block(x)).shape[1:]) for block in stages]
    assert shapes[1::2] == [(64, 32, 32), (128, 16, 16), (256, 8, 8), (512, 4, 4)]
    assert model.eval()(torch.zeros(2, 3, 32, 32)).shape == (2, 10)


def test_step_is_a_training_step():
    torch.manual_seed(0)
    trainer = exact.Trainer(4, 3, 4)
    before = [p.detach().clone() for p in trainer.model.parameters()]
    step, loss = trainer.step(exact_loss)
    assert 0.0 < loss < step
    # As if the loss had been differentiated with the network.
    plain = exact.Trainer(4, 3, 4)
    plain.images, plain.labels = trainer.images, trainer.labels
    for p, value in zip(plain.model.parameters(), before, strict=True):
        p.data.copy_(value)
    exact_loss(plain.model(plain.images), plain.labels).backward()
    plain.optimiser.step()
    pairs = zip(plain.model.parameters(), trainer.model.parameters(), strict=True)
    assert all(torch.allclose(a, b) for a, b in pairs)


def test_programs_compute_the_same():
    batch = exact.Batch(5, 4, trained=True)
    loss = exact_loss(batch.scores, batch.labels, reduction="none")
    log_prob, _ = exact.Published(4, 4096, torch.float32)(batch.m)
    torch.testing.assert_close(-log_prob, loss, rtol=1e-2, atol=1e-3)
    assert batch.scores.gather(1, batch.labels[:, None]).mean() > 1.0


def test_peak_bytes():
    def call():
        a = torch.ones(10_000)
        b = a + 1  # 80,000 with a
        del a
        np.ones(20_000)  # gone before the next one
        np.ones(10_000)
        return b.sum()

    tensors, workspace = exact.peak_bytes(call)
    assert 80_000 <= tensors <= 80_100
    assert 160_000 <= workspace <= 170_000
