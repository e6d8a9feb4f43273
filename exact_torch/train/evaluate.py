"""Scores of a whole split, by all processes together."""

import torch
from torch import Tensor, nn

from exact_torch.data import Split, batches
from exact_torch.heads import GaussianHead, GaussianScores
from exact_torch.train.distributed import Processes

__all__ = ["scores_of"]

_BATCH = 256


@torch.no_grad()
def scores_of(
    network: nn.Module,
    split: Split,
    device: torch.device,
    processes: Processes | None = None,
    step: int = 1,
) -> tuple[Tensor, Tensor | None]:
    """Scores (N, C), and sigma (N, 1) where the network predicts it; of every step-th example."""
    processes = processes or Processes()
    number = -(-len(split) // step)
    size = _BATCH * processes.count
    # Every process has as many examples: the last one is repeated, and left out in the end.
    padded = step * torch.arange(-(-number // size) * size).clamp(max=number - 1)
    order = [processes.part(each) for each in padded.split(size)]
    was_training = network.training
    network.eval()
    for module in network.modules():
        if isinstance(module, GaussianHead):
            module.train()  # says its sigma
    means, sigmas = [], []
    try:
        for inputs, _ in batches(split, order):
            outputs = network(inputs.to(device))
            if isinstance(outputs, GaussianScores):
                sigmas.append(processes.gather(torch.as_tensor(outputs.sigma).float()))
                outputs = outputs.mean
            means.append(processes.gather(outputs.float()))
    finally:
        network.train(was_training)
    return torch.cat(means)[:number], torch.cat(sigmas)[:number] if sigmas else None
