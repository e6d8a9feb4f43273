"""The toy example of the EXACT paper: three points on a line and a threshold.

Points -0.25 and 0 are of class 0, 0.25 is of class 1; the model's scores are (0, f) with
f(x) = k (x - b).  With k = 1 cross-entropy and hinge put b where the middle point is wrong; if k
is trained too, they do not, which is the known objection to the example.
"""

import pytest
import torch

from exact_torch import exact_loss, losses

X = torch.tensor([-0.25, 0.0, 0.25], dtype=torch.float64)
LABELS = torch.tensor([0, 0, 1])


def trained(loss, scale, steps=1200, rate=0.05):
    """``(b, k)`` after gradient descent; ``scale`` says whether k is trained."""
    b = torch.tensor(0.6, dtype=torch.float64, requires_grad=True)
    k = torch.tensor(1.0, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.Adam([b, k] if scale else [b], lr=rate)
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = rate * (1.0 - step / steps)
        f = k * (X - b)
        optimizer.zero_grad()
        loss(torch.stack([torch.zeros_like(f), f], 1), LABELS).backward()
        optimizer.step()
    return b.item(), k.item()


def errors(b):
    return int(((b < X).long() != LABELS).sum())


def test_cross_entropy_misses_one():
    b, _ = trained(losses.get("ce"), scale=False)
    assert b == pytest.approx(0.7, abs=1e-2)
    assert errors(b) == 1


def test_hinge_misses_one():
    b, _ = trained(losses.get("hinge"), scale=False)
    assert 0.75 - 1e-3 <= b <= 1.0
    assert errors(b) == 1


@pytest.mark.parametrize("objective", ["nll", "error"])
def test_exact_misses_none(objective):
    loss = losses.get("exact", sigma=0.05, objective=objective)
    b, _ = trained(loss, scale=False) if objective == "nll" else trained(follow(loss), scale=False)
    assert b == pytest.approx(0.125, abs=1e-3)
    assert errors(b) == 0


def follow(loss):
    """From a large sigma to a small one, as published: the error is flat far from the threshold."""
    count = 0

    def scheduled(scores, labels):
        nonlocal count
        sigma = max(0.05, 1.0 * 0.05 ** (count / 600))
        count += 1
        return exact_loss(scores, labels, sigma=sigma, objective=loss.options["objective"])

    return scheduled


@pytest.mark.parametrize("name", ["ce", "hinge"])
def test_with_a_temperature_the_others_miss_none_either(name):
    b, k = trained(losses.get(name), scale=True)
    assert 0.0 < b < 0.25
    assert k > 1.0
    assert errors(b) == 0
