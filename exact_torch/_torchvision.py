"""torchvision, also where its compiled operators do not fit the installed torch.

``from exact_torch._torchvision import torchvision`` is how this package imports it.  Its import
describes the operators ``nms`` and ``qnms`` to torch, and fails where they were not loaded, which
is the case with a build for another torch.  Nothing here needs them: their schemas are declared
so that the rest of torchvision, which is written in Python, can be imported.
"""

import importlib
import sys
from types import ModuleType

import torch

__all__ = ["torchvision"]

_SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)
_libraries: list[torch.library.Library] = []  # schemas go when their library is collected


def _imported() -> ModuleType:
    try:
        return importlib.import_module("torchvision")
    except RuntimeError as error:
        if "operator torchvision::nms does not exist" not in str(error):
            raise
    # What was imported before the failure must not be taken for the whole.
    for name in [each for each in sys.modules if each.split(".")[0] == "torchvision"]:
        del sys.modules[name]
    library = torch.library.Library("torchvision", "FRAGMENT")
    for schema in _SCHEMAS:
        library.define(schema)
    _libraries.append(library)
    return importlib.import_module("torchvision")


torchvision = _imported()
