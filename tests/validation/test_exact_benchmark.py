"""The benchmark of EXACT runs, and its measures are of what they say."""

import json

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from exact_torch import exact_loss  # noqa: E402
from validation.benchmarks import exact  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.slow
def test_whole_program(tmp_path, capsys):
    file = tmp_path / "results.json"
    exact.main(["--small", "--json", str(file)])
    printed = capsys.readouterr().out
    sizes = len(exact.SMALL.sizes)
    results = json.loads(file.read_text())["results"]
    assert sum("scores" in line for line in results) == 2 * 6 * sizes
    assert sum("tensors" in line for line in results) == 7 * sizes
    assert sum("ratios" in line for line in results) == len(exact.SMALL.compared)
    assert printed.count("published, N=16") == 2 * sizes + 4
    assert "nan" not in printed
    assert "inf" not in printed


def test_programs_compute_the_same():
    batch = exact.Batch(5, 4, trained=True)
    loss = exact_loss(batch.scores, batch.labels, sigma=1.0, reduction="none")
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
