"""Scores in units of their spread over the batch, or over the batches of all processes.

Only differences of scores count, so that the centre is of no consequence; it is subtracted all the
same, which keeps numbers small.
"""

import math
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

SCALES = ("std", "mad")
_NORMAL_MAD = 0.6744897501960817  # of a standard normal: the median of its absolute value


def normalized(scores: Tensor, counts: Tensor, scale: str, synchronize: bool = False) -> Tensor:
    """Return scores without their centre and in units of their scale, of those that are finite.

    Parameters
    ----------
    scores : (N, C)
    counts : (N,) of bool, which rows count
    scale : "std", mean and standard deviation; "mad", median and median absolute deviation, in
        units of a normal distribution's standard deviation
    synchronize : whether the scores of all processes are one batch
    """
    processes = _Processes(synchronize)
    if scores.shape[0] == 0 and not processes.several:
        return scores
    counts = counts[:, None] & torch.isfinite(scores)
    size = processes.sum(counts.sum())
    # In units of the largest, so that squares neither overflow nor vanish.  The result does not
    # depend on the unit, so its derivative is right with the unit held.
    given = scores.detach()
    high = processes.largest(_largest(torch.where(counts, given, -math.inf)))
    low = -processes.largest(_largest(torch.where(counts, -given, -math.inf)))
    unit = _power_of_two_below(torch.maximum(high.abs(), low.abs()))
    scaled = torch.where(counts, scores, 0.0) / unit
    mean = processes.sum(scaled.sum()) / size.clamp(min=1)
    centred = torch.where(counts, scaled - mean, 0.0)
    variance = processes.sum(centred.square().sum()) / (size - 1).clamp(min=1)
    varies = (high > low) & (variance > 0.0)  # the mean of equal scores may be rounded
    factor = torch.where(varies, torch.where(varies, variance, 1.0).rsqrt(), unit)
    if scale == "mad":
        everyone = processes.gather(torch.where(counts, scaled, math.inf).flatten())
        centre = _median(everyone, size)
        absolute = torch.where(everyone < math.inf, (everyone - centre).abs(), math.inf)
        spread = _median(absolute, size) / _NORMAL_MAD
        known = spread > 0.0  # else half of the scores are equal, and their deviation has to do
        factor = torch.where(known, 1.0 / torch.where(known, spread, 1.0), factor)
        centred = torch.where(counts, scaled - centre, 0.0)
    # Scores left out have no gradient; as a product, infinity times 0, it would be NaN.
    return torch.where(counts, centred * factor, given)


def scale_of(scores: Tensor, scale: str) -> Tensor:
    """Return what ``normalized`` divides scores by, (), in double precision."""
    finite = scores[torch.isfinite(scores)].double()
    if len(finite) < 2:
        return finite.new_ones(())
    if scale == "mad":
        size = torch.tensor(len(finite), device=finite.device)
        spread = _median((finite - _median(finite, size)).abs(), size) / _NORMAL_MAD
        if spread > 0:
            return spread
    deviation = finite.std()
    return torch.where(deviation > 0, deviation, 1.0)


def _largest(values: Tensor) -> Tensor:
    return values.amax() if values.numel() else values.new_full((), -math.inf)


def _median(values: Tensor, size: Tensor) -> Tensor:
    """Return the median of the ``size`` smallest of values; the others are infinite."""
    ordered = values.sort().values
    middle = torch.stack([(size - 1) // 2, size // 2]).clamp(min=0)
    return torch.where(size > 0, ordered[middle].mean(), 0.0)


def _power_of_two_below(value: Tensor) -> Tensor:
    """The largest power of two up to a value > 0, else 1; division by it does not round."""
    usable = (value > 0.0) & (value < math.inf)
    power = torch.floor(torch.log2(torch.where(usable, value, 1.0)))
    # 2**-126 is the smallest in single precision whose inverse, in a derivative, is finite.
    return torch.exp2(power.clamp(min=-126.0 if value.dtype == torch.float32 else -1022.0))


class _Processes:
    """Sums over all processes of torch.distributed's default group, or of this one alone."""

    def __init__(self, synchronize: bool) -> None:
        initialized = synchronize and dist.is_available() and dist.is_initialized()
        self.several = initialized and dist.get_world_size() > 1

    def sum(self, value: Tensor) -> Tensor:
        return _Sum.apply(value) if self.several else value

    def largest(self, value: Tensor) -> Tensor:
        if self.several:
            value = value.clone()
            dist.all_reduce(value, dist.ReduceOp.MAX)
        return value

    def gather(self, values: Tensor) -> Tensor:
        """Return the values (n,) of all processes, filled up with infinity."""
        if not self.several:
            return values
        most = int(self.largest(torch.tensor(len(values), device=values.device)))
        padded = torch.nn.functional.pad(values, (0, most - len(values)), value=math.inf)
        # A sum of vectors that are zero in the places of other processes.
        own = dist.get_rank() * most
        width = dist.get_world_size() * most
        placed = torch.nn.functional.pad(padded, (own, width - own - most))
        return self.sum(placed)


class _Sum(torch.autograd.Function):
    """A sum over processes; every process's loss depends on it, so that gradients are summed."""

    @staticmethod
    def forward(ctx: Any, value: Tensor) -> Tensor:
        total = value.detach().clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        total = gradient.contiguous().clone()
        dist.all_reduce(total)
        return total
