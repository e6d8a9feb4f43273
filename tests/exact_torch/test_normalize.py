"""Scores in units of their spread: by deviation or median, of one process or of several."""

import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import stats
from torch.autograd import gradcheck

from exact_torch import _normalize, exact_loss

ROOT = Path(__file__).parents[2]


def scores_of(rows=6, classes=5, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return 3.0 * torch.randn(rows, classes, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("rows", [1, 2, 7])
def test_median_absolute_deviation_is_that_of_scipy(rows):
    scores, labels = scores_of(rows), torch.arange(rows) % 5
    scale = stats.median_abs_deviation(scores.numpy(), axis=None, scale="normal")
    found = exact_loss(scores, labels, normalize="mad", sigma=1.0)
    torch.testing.assert_close(found, exact_loss(scores / scale, labels, sigma=1.0))
    assert _normalize.scale_of(scores, "mad").item() == pytest.approx(scale)
    assert _normalize.scale_of(scores, "std").item() == pytest.approx(
        np.std(scores.numpy(), ddof=1)
    )


def test_outliers_do_not_inflate_the_median():
    scores, labels = scores_of(40), torch.arange(40) % 5
    far = scores.clone()
    far[:2] *= 1e4
    for scale, most in (("mad", 1.3), ("std", math.inf)):
        ratio = _normalize.scale_of(far, scale) / _normalize.scale_of(scores, scale)
        assert ratio < most
    assert ratio > 1000.0
    kept = [
        exact_loss(each, labels, normalize="mad", reduction="none", sigma=1.0)[2:]
        for each in (far, scores)
    ]
    torch.testing.assert_close(*kept, rtol=0.3, atol=0.05)


@pytest.mark.parametrize("scale", ["std", "mad"])
def test_does_not_depend_on_scale_or_on_what_does_not_count(scale):
    scores, labels = scores_of(), torch.arange(6) % 5
    options = {"normalize": scale, "sigma": 0.7}
    expected = exact_loss(scores, labels, **options)
    for factor in (1e-150, 1e150):
        torch.testing.assert_close(exact_loss(factor * scores, labels, **options), expected)
    more = torch.cat([scores, torch.full((3, 5), math.nan, dtype=torch.float64)])
    ignored = torch.cat([labels, torch.full((3,), -100)])
    torch.testing.assert_close(exact_loss(more, ignored, **options), expected)


def test_derivative_through_the_median():
    scores, labels = scores_of().requires_grad_(), torch.arange(6) % 5
    assert gradcheck(lambda s: exact_loss(s, labels, normalize="mad", reduction="none"), (scores,))


def test_half_of_the_scores_equal():
    """The median deviation is 0: the standard deviation has to do."""
    scores = torch.zeros(4, 2, dtype=torch.float64)
    scores[0] = torch.tensor([1.0, -2.0])
    found = exact_loss(scores, torch.tensor([0, 1, 0, 1]), normalize="mad")
    torch.testing.assert_close(
        found, exact_loss(scores, torch.tensor([0, 1, 0, 1]), normalize=True)
    )
    assert exact_loss(torch.zeros(4, 2), torch.zeros(4).long(), normalize="mad").isfinite()


def test_compiled():
    scores, labels = scores_of(), torch.arange(6) % 5
    compiled = torch.compile(exact_loss, fullgraph=True, backend="aot_eager")
    found = compiled(scores, labels, normalize="mad")
    torch.testing.assert_close(found, exact_loss(scores, labels, normalize="mad"))


PROCESS = """
import sys

import torch
import torch.distributed as dist

from exact_torch import ExactLoss

rank, folder = int(sys.argv[1]), sys.argv[2]
dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
scores = torch.load(f"{folder}/scores.pt")
results = {}
for scale in ("std", "mad"):
    loss = ExactLoss(objective="error", normalize=scale, synchronize=True, reduction="sum")
    own = slice(0, 4) if rank == 0 else slice(4, 6)  # parts of unequal size
    part = scores[own].clone().requires_grad_()
    value = loss(part, (torch.arange(6) % 5)[own])
    value.backward()
    results[scale] = value.detach(), part.grad
torch.save(results, f"{folder}/{rank}.pt")
dist.destroy_process_group()
"""


def test_processes_normalise_as_one(tmp_path):
    torch.save(scores_of(), tmp_path / "scores.pt")
    command = [sys.executable, "-c", PROCESS]
    running = [subprocess.Popen([*command, str(rank), str(tmp_path)], cwd=ROOT) for rank in (0, 1)]
    assert [process.wait(timeout=300) for process in running] == [0, 0]
    parts = [torch.load(tmp_path / f"{rank}.pt") for rank in range(2)]
    for scale in ("std", "mad"):
        scores = scores_of().requires_grad_()
        options = {"objective": "error", "reduction": "sum"}
        value = exact_loss(scores, torch.arange(6) % 5, normalize=scale, **options)
        value.backward()
        torch.testing.assert_close(parts[0][scale][0] + parts[1][scale][0], value.detach())
        found = torch.cat([part[scale][1] for part in parts])
        torch.testing.assert_close(found, scores.grad)
        apart = exact_loss(scores[:4], torch.arange(4) % 5, normalize=scale, **options)
        assert (apart - parts[0][scale][0]).abs() > 1e-4  # what a process alone would say
