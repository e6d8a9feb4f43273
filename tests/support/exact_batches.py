"""Batches of scores, labels and deviations that EXACT is tried on."""

import torch

from exact_torch import exact_loss

DTYPES = [torch.float32, torch.float64]
SIGMA_SHAPES = [None, (), (4,), (4, 1), (1, 5), (5,), (4, 5)]


def batch(rows=4, classes=5, dtype=torch.float64, spread=2.0, seed=0):
    generator = torch.Generator().manual_seed(seed)
    scores = spread * torch.randn(rows, classes, generator=generator, dtype=dtype)
    return scores, torch.randint(classes, (rows,), generator=generator)


def deviations(shape, dtype=torch.float64):
    if shape is None:
        return 0.7
    generator = torch.Generator().manual_seed(1)
    return 0.5 + torch.rand(shape, generator=generator, dtype=dtype)


def per_entry(sigma, rows, classes):
    """(B, C) deviations, spelled out."""
    sigma = torch.as_tensor(sigma, dtype=torch.float64)
    if sigma.ndim == 1 and len(sigma) == rows:
        sigma = sigma[:, None]
    return sigma.expand(rows, classes)


def loss_and_gradient(scores, labels, sigma=1.0, **options):
    scores = scores.clone().requires_grad_()
    loss = exact_loss(scores, labels, sigma=sigma, reduction="none", **options)
    loss.sum().backward()
    return loss.detach(), scores.grad
