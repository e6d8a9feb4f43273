"""Optimisers and learning rates by name, and ASAM on top of any of them."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from exact_torch import _arguments
from exact_torch.optim.asam import Asam
from exact_torch.optim.schedules import LrSchedule, lr_schedule

__all__ = ["Asam", "LrSchedule", "get", "lr_schedule", "names"]

_OPTIONS: dict[str, dict[str, Any]] = {
    "sgd": {"momentum": 0.9, "nesterov": False},
    "adam": {"betas": (0.9, 0.999), "eps": 1e-8},
    "adamw": {"betas": (0.9, 0.999), "eps": 1e-8},
}
_CLASSES = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}


def names() -> tuple[str, ...]:
    """The names ``get`` takes.

    Returns
    -------
    tuple of str

    Examples
    --------
    >>> from exact_torch import optim
    >>> optim.names()
    ('sgd', 'adam', 'adamw')
    """
    return tuple(_CLASSES)


def get(
    name: str,
    model: nn.Module,
    lr: float,
    *,
    weight_decay: float = 0.0,
    decay: str = "all",
    momentum: float | None = None,
    nesterov: bool | None = None,
    betas: Sequence[float] | None = None,
    eps: float | None = None,
) -> Optimizer:
    """One of torch's optimisers for the parameters of a model that are to be trained.

    Parameters
    ----------
    name : {"sgd", "adam", "adamw"}
        Which.
    model : nn.Module
        Whose parameters.
    lr : float
        Learning rate, > 0.
    weight_decay : float
        >= 0; adamw's is taken from the weights, that of the others added to gradients.
    decay : {"all", "weights"}
        What it is for: all parameters, or only those with two dimensions or more, which leaves
        out biases and those of normalisations.
    momentum, nesterov : optional
        Of "sgd": in [0, 1), 0.9 unless given; and False.
    betas, eps : optional
        Of "adam" and "adamw": (0.9, 0.999) and 1e-8.

    Returns
    -------
    torch.optim.Optimizer
        Its state and its groups' options go into a checkpoint as they are.

    Examples
    --------
    >>> from torch import nn
    >>> from exact_torch import optim
    >>> model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    >>> optimizer = optim.get("sgd", model, 0.1, weight_decay=5e-4, decay="weights")
    >>> [(len(group["params"]), group["weight_decay"]) for group in optimizer.param_groups]
    [(1, 0.0005), (3, 0.0)]
    """
    _arguments.choice("name", name, _CLASSES)
    _arguments.choice("decay", decay, ("all", "weights"))
    options = dict(_OPTIONS[name])
    given = {"momentum": momentum, "nesterov": nesterov, "betas": betas, "eps": eps}
    for option, value in given.items():
        if value is None:
            continue
        if option not in options:
            raise TypeError(f"optimiser {name!r} has no {option}; it has {', '.join(options)}")
        options[option] = _CHECKS[option](value)
    rate = _arguments.number("lr", lr, above=0)
    amount = _arguments.number("weight_decay", weight_decay, least=0)
    trained = [p for p in model.parameters() if p.requires_grad]
    if not trained:
        raise ValueError("model must have parameters to train, it has none")
    if decay == "all":
        groups = [{"params": trained, "weight_decay": amount}]
    else:
        groups = [
            {"params": [p for p in trained if p.ndim > 1], "weight_decay": amount},
            {"params": [p for p in trained if p.ndim <= 1], "weight_decay": 0.0},
        ]
    return _CLASSES[name]([each for each in groups if each["params"]], lr=rate, **options)


def _betas(value: Any) -> tuple[float, float]:
    found = tuple(value) if isinstance(value, Sequence) else ()
    if len(found) != 2:
        raise ValueError(f"betas must be two numbers, got {value!r}")
    first, second = (_arguments.number("betas", each, least=0, below=1) for each in found)
    return first, second


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"nesterov must be True or False, got {value!r}")
    return value


_CHECKS: dict[str, Any] = {
    "momentum": lambda value: _arguments.number("momentum", value, least=0, below=1),
    "nesterov": _flag,
    "betas": _betas,
    "eps": lambda value: _arguments.number("eps", value, above=0),
}
