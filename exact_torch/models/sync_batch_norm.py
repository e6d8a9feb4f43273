"""Batch normalisation with mean and variance of the whole batch, over all processes.

``nn.SyncBatchNorm`` refuses to run on CPUs.  This one runs with any backend that has all_reduce,
gloo among them.

Gradients: let rank r compute a loss L_r from its share of the batch.  The mean and the variance
depend on the inputs of all ranks, so that the derivative of sum_r L_r with respect to what one
rank put into them is the sum over ranks of the derivatives with respect to them: the backward
pass of a sum over ranks is a sum over ranks.  With it each rank holds the derivative of
sum_r L_r with respect to its own activations, and to its own use of the parameters; the average
that DistributedDataParallel takes is the gradient of the mean of the L_r, as one process with
the whole batch would have it where shares are of one size and losses are means.
"""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

__all__ = ["SynchronizedBatchNorm", "synchronized"]


def synchronized(model: nn.Module) -> nn.Module:
    """``model`` with every batch normalisation synchronised over the processes.

    Parameters and running statistics are the same objects as before, under the same names.  On
    CUDA devices the layers become torch's own ``nn.SyncBatchNorm``; the model has to be where it
    will be trained.

    Parameters
    ----------
    model : nn.Module
        Its layers are replaced in place.

    Returns
    -------
    nn.Module
        ``model``, or what replaces it where it is itself a batch normalisation.

    Examples
    --------
    >>> from torch import nn
    >>> from exact_torch.models import synchronized
    >>> model = synchronized(nn.Sequential(nn.Linear(3, 5), nn.BatchNorm1d(5)))
    >>> type(model[1]).__name__
    'SynchronizedBatchNorm'
    """
    if any(each.is_cuda for each in model.parameters()):
        converted: nn.Module = nn.SyncBatchNorm.convert_sync_batchnorm(model)
        return converted
    if type(model) in (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d):
        return SynchronizedBatchNorm.of(model)
    for name, child in model.named_children():
        setattr(model, name, synchronized(child))
    return model


class SynchronizedBatchNorm(_BatchNorm):
    """Batch normalisation of inputs (B, C, ...) over all processes; alone as torch's own.

    It differs from torch's by rounding only.  Half precision is summed in single.

    Parameters
    ----------
    num_features, eps, momentum, affine, track_running_stats, device, dtype, bias
        As in ``nn.BatchNorm2d``.

    Examples
    --------
    >>> import torch
    >>> from torch import nn
    >>> from exact_torch.models import SynchronizedBatchNorm
    >>> x = torch.rand(4, 3, 2, 2)
    >>> torch.allclose(SynchronizedBatchNorm(3)(x), nn.BatchNorm2d(3)(x), atol=1e-6)
    True
    """

    @classmethod
    def of(cls, layer: _BatchNorm) -> "SynchronizedBatchNorm":
        """One with the parameters, statistics and mode of ``layer``."""
        made = cls(layer.num_features, layer.eps, layer.momentum, affine=False)
        made.__dict__.update(layer.__dict__)
        return made

    def forward(self, x: Tensor) -> Tensor:
        counted = self.training or self.running_mean is None
        alone = not (dist.is_available() and dist.is_initialized()) or dist.get_world_size() == 1
        if alone or not counted:
            return super().forward(x)
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        others = [axis for axis in range(x.ndim) if axis != 1]
        shape = [1, -1] + [1] * (x.ndim - 2)
        mine = wide.new_tensor([x.numel() / x.shape[1]])
        # Two sums, of values and then of squares around the mean: one sum of both loses the
        # digits of a variance that is small beside the mean.
        total = _SumOverRanks.apply(torch.cat([wide.sum(others), mine]))
        count, mean = total[-1], total[:-1] / total[-1]
        centred = wide - mean.view(shape)
        variance = _SumOverRanks.apply(centred.square().sum(others)) / count
        if self.training and self.running_mean is not None:
            self._keep(mean.detach(), variance.detach(), count.detach())
        out = centred * torch.rsqrt(variance + self.eps).view(shape)
        if self.weight is not None:
            out = out * self.weight.view(shape)
        if self.bias is not None:
            out = out + self.bias.view(shape)
        return out.to(x.dtype)

    @torch.no_grad()
    def _keep(self, mean: Tensor, variance: Tensor, count: Tensor) -> None:
        """Move the running statistics, with the unbiased variance, as torch's own does."""
        self.num_batches_tracked.add_(1)
        share = self.momentum
        if share is None:  # the average over all batches
            share = 1.0 / float(self.num_batches_tracked)
        unbiased = variance * (count / (count - 1))
        self.running_mean.lerp_(mean.to(self.running_mean.dtype), share)
        self.running_var.lerp_(unbiased.to(self.running_var.dtype), share)

    def _check_input_dim(self, x: Tensor) -> None:
        if x.ndim < 2:
            raise ValueError(f"x must be (B, C, ...), got {tuple(x.shape)}")


class _SumOverRanks(torch.autograd.Function):
    """The sum of one tensor over all processes; its gradient is the sum of theirs."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        total = x.clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        total = gradients[0].contiguous().clone()
        dist.all_reduce(total)
        return total
