"""EXACT, the loss that trains a classifier's expected accuracy, and the losses beside it.

>>> import torch
>>> from exact_torch import exact_loss
>>> scores = torch.tensor([[1.0, 0.0, -1.0]], requires_grad=True)
>>> exact_loss(scores, torch.tensor([0]), sigma=0.5).backward()
>>> print(scores.grad)
tensor([[-0.2295,  0.2239,  0.0056]])
"""

import importlib
import importlib.util
from typing import Any

if importlib.util.find_spec("torch") is None:
    raise ModuleNotFoundError("exact_torch needs PyTorch: pip install 'mvnorth[torch]'")

from exact_torch import losses, metrics
from exact_torch.equivalent_sigma import equivalent_sigma
from exact_torch.exact import argmax_probs, exact_loss, expected_accuracy, expected_topk_accuracy
from exact_torch.exact_module import ExactLoss
from exact_torch.grad_norm import GradientNormalizer
from exact_torch.heads import CorrelatedScores, GaussianHead, GaussianScores
from exact_torch.normal import mvn_logcdf, orthant_logprob
from exact_torch.schedules import MarginSchedule, SigmaSchedule

__all__ = [
    "CorrelatedScores",
    "ExactLoss",
    "GaussianHead",
    "GaussianScores",
    "GradientNormalizer",
    "MarginSchedule",
    "SigmaSchedule",
    "argmax_probs",
    "equivalent_sigma",
    "exact_loss",
    "expected_accuracy",
    "expected_topk_accuracy",
    "losses",
    "metrics",
    "mvn_logcdf",
    "orthant_logprob",
]

# What only training needs is imported when it is first used.
_LATER = ("data", "models", "optim", "recipes", "sklearn", "train")


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
