"""Write networks as ONNX files, also those with layers that ONNX does not have.

ONNX has neither adaptive average pooling to a size that does not divide that of its input, nor
interpolation with antialiasing.  Both are linear along each axis and the size of their inputs is
known, so they are written as products with two fixed matrices.
"""

import io
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from unittest import mock

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from exact_torch.train.network import Prepare
from exact_torch.train.run_files import RunError

__all__ = ["onnx_bytes"]


class _AxisProducts(nn.Module):
    """Multiply the last two axes by matrices: R x C^T for inputs x of shape (..., H, W)."""

    rows: Tensor
    columns: Tensor

    def __init__(self, rows: Tensor, columns: Tensor) -> None:
        super().__init__()
        self.register_buffer("rows", rows)
        self.register_buffer("columns", columns.T.contiguous())

    def forward(self, inputs: Tensor) -> Tensor:
        return torch.matmul(torch.matmul(self.rows, inputs), self.columns)


def onnx_bytes(network: nn.Module, example: Tensor) -> bytes:
    """Return the ONNX file of a network in eval mode; the size of batches is left open.

    Parameters
    ----------
    network : nn.Module
        Some of its layers are replaced: pass a copy.
    example : Tensor (B, ...)
        An input.

    Raises
    ------
    RunError
        If the package onnx is missing, or ONNX does not have one of the network's operations.
    """
    try:
        import onnx  # noqa: F401
    except ImportError as error:
        raise RunError(
            "ONNX files need the package onnx: pip install onnx, or use another format: "
            "torch.export or torchscript"
        ) from error
    _replace_resizing(network, example)
    buffer = io.BytesIO()
    with _quiet():
        try:
            torch.onnx.export(
                network,
                (example,),
                buffer,
                input_names=["inputs"],
                output_names=["logits"],
                dynamic_axes={"inputs": {0: "batch"}, "logits": {0: "batch"}},
                dynamo=False,
            )
        except (torch.onnx.errors.OnnxExporterError, RuntimeError) as error:
            raise RunError(
                f"ONNX cannot hold this network: {_reason(error)}; use another format: "
                "torch.export or torchscript"
            ) from error
    return buffer.getvalue()


def _replace_resizing(network: nn.Module, example: Tensor) -> None:
    """Replace layers that change the size of images in a way that ONNX does not have."""
    sizes: dict[nn.Module, set[tuple[torch.Size, torch.Size]]] = {}

    def record(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        sizes.setdefault(module, set()).add((inputs[0].shape[-2:], output.shape[-2:]))

    kinds = (nn.AdaptiveAvgPool2d, Prepare)
    hooks = [
        module.register_forward_hook(record)
        for module in network.modules()
        if isinstance(module, kinds)
    ]
    try:
        with torch.no_grad():
            network(example)
    finally:
        for hook in hooks:
            hook.remove()
    for parent in list(network.modules()):
        for name, child in parent.named_children():
            if len(sizes.get(child, ())) == 1:
                ((before, after),) = sizes[child]
                setattr(parent, name, _replacement(child, before, after))


def _replacement(layer: nn.Module, before: torch.Size, after: torch.Size) -> nn.Module:
    """Return ``layer``, or what does the same to images of the size ``before``."""
    if isinstance(layer, Prepare):
        if not any(new < old for new, old in zip(after, before, strict=True)):
            return layer
        matrices = [_matrix(_shrink, *pair) for pair in zip(before, after, strict=True)]
        return nn.Sequential(Prepare(layer.mean, layer.std), _AxisProducts(*matrices))
    if all(old % new == 0 for new, old in zip(after, before, strict=True)):
        return layer
    matrices = [_matrix(_pool, *pair) for pair in zip(before, after, strict=True)]
    return _AxisProducts(*matrices)


def _shrink(image: Tensor, height: int, width: int) -> Tensor:
    return F.interpolate(image, size=(height, width), mode="bilinear", antialias=True)


def _pool(image: Tensor, height: int, width: int) -> Tensor:
    return F.adaptive_avg_pool2d(image, (height, width))


def _matrix(resize: Callable[[Tensor, int, int], Tensor], before: int, after: int) -> Tensor:
    """Return what ``resize`` multiplies columns of length ``before`` by, (after, before)."""
    identity = torch.eye(before)[None, None]
    return resize(identity, after, before)[0, 0]


@contextmanager
def _quiet() -> Iterator[None]:
    """Hide what torch prints: that another exporter is newer, and the graph with every error."""
    # torch turns its log on for every export, so that it cannot be turned off before.
    with (
        mock.patch.object(torch._C, "_jit_onnx_log", return_value=None),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        yield


def _reason(error: Exception) -> str:
    """Return the operation that an exporter's error is about, and its first sentence."""
    first = re.split(r"\n|\s*\[Caused by|\. ", str(error).strip(), maxsplit=1)[0].strip()
    operation = re.search(r"(?:aten|prim)::\w+|(?<=operator )\w+", str(error))
    return f"the operation {operation.group()} ({first})" if operation else first
