"""torchvision, also where its compiled operators do not load.

A torchvision built for CUDA beside a torch without it stops at its import with "operator
torchvision::nms does not exist": its library of operators is not loaded, and a part of it that
is always imported registers shapes for two of them. Transforms and models use neither. With the
two operators declared, the import goes through. torchvision is imported nowhere else.

>>> from exact_torch._torchvision import torchvision
>>> torchvision.transforms.v2.functional.horizontal_flip(torch.tensor([[[1, 2]]]))
tensor([[[2, 1]]])
"""

import importlib
import sys
from typing import Any

import torch

_MISSING = "operator torchvision::nms does not exist"
# A declaration lives as long as its library object.
_declared: list[Any] = []


def _imported() -> Any:
    try:
        return importlib.import_module("torchvision")
    except RuntimeError as error:
        if _MISSING not in str(error):
            raise
    for name in [name for name in sys.modules if name.split(".")[0] == "torchvision"]:
        del sys.modules[name]  # the half that was imported
    library = torch.library.Library("torchvision", "DEF")
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    _declared.append(library)
    return importlib.import_module("torchvision")


torchvision = _imported()
v2 = importlib.import_module("torchvision.transforms.v2")
