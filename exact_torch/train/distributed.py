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


def _check_restarts() -> None:
    """Refuse what hangs: processes started anew that find addresses of the lost ones.

    torchrun lets them share its own store, which it does not clear (pytorch issue 135712).
    """
    restarts = int(os.environ.get("TORCHELASTIC_MAX_RESTARTS", "0"))
    if restarts > 0 and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
        raise ValueError(
            f"torchrun with --max-restarts {restarts} needs TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 "
            "in its environment: without it, processes that are started again may wait for ever"
        )


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
            _check_restarts()
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

    def wait(self) -> None:
        """For all to come here: what the first wrote before is then there for the others."""
        if self.count > 1:
            dist.barrier()

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
