"""Several processes that train as one.

Each computes the scores of its part of a batch; scores and labels are gathered, so that the loss is
that of the whole batch on every process, whatever it does with it: normalise over the batch,
compare examples with each other, weigh classes, draw noise.
"""

import atexit
import os
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

__all__ = ["Processes"]


@dataclass(frozen=True)
class Processes:
    """The processes of a run: which one this is, and how many there are."""

    rank: int = 0
    count: int = 1

    @classmethod
    def start(cls, device: torch.device) -> "Processes":
        """Join the others, if ``torchrun`` started this process, until it ends."""
        if int(os.environ.get("WORLD_SIZE", "1")) == 1:
            return cls()
        if not dist.is_initialized():  # once: a process cannot leave a group and join it again
            dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
            atexit.register(dist.destroy_process_group)
        return cls(dist.get_rank(), dist.get_world_size())

    @staticmethod
    def local_rank() -> int:
        """Which of the processes on this machine this one is."""
        return int(os.environ.get("LOCAL_RANK", "0"))

    @property
    def first(self) -> bool:
        """Whether this one writes files and speaks."""
        return self.rank == 0

    def part(self, indices: Tensor) -> Tensor:
        """This process's part of a batch, which must be a multiple of their number."""
        return indices.view(self.count, -1)[self.rank]

    def wrap(self, network: nn.Module) -> Callable[[Tensor], Tensor]:
        """The network with gradients averaged over processes."""
        return (
            DistributedDataParallel(network, broadcast_buffers=False) if self.count > 1 else network
        )

    def gather(self, own: Tensor) -> Tensor:
        """The parts of all processes, as one batch.

        Differentiable in this one's part.  The gradient there is multiplied by the number of
        processes, because ``wrap`` takes the mean of gradients where their sum is the batch's.
        """
        if self.count == 1:
            return own
        parts = [torch.empty_like(own) for _ in range(self.count)]
        dist.all_gather(parts, own.detach().contiguous())
        parts[self.rank] = own
        if own.requires_grad:
            parts[self.rank] = own.clone()
            parts[self.rank].register_hook(lambda gradient: gradient * self.count)
        return torch.cat(parts)
