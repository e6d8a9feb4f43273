"""Losses by name.

``get(name, **options)`` makes a module of a loss, ``names()`` has them all.  The functions
themselves, ``name(logits, labels, **options)``, return a value for each example.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from torch import nn

from exact_torch.exact_module import ExactLoss
from exact_torch.losses._module import Loss
from exact_torch.losses.batch import batch_ce, batch_max_margin
from exact_torch.losses.binary import bce, nce
from exact_torch.losses.complement import Complement, complement
from exact_torch.losses.cross_entropy import ce, focal, mpce, poly1, self_norm, tamed_ce
from exact_torch.losses.expectation import expectation, gce, gce_truncated, mae
from exact_torch.losses.margin import hinge, max_margin
from exact_torch.losses.mixing import Mixing, ce_el
from exact_torch.losses.relaxation import BetaBernoulli, beta_bernoulli, polynomial, sigmoid
from exact_torch.losses.similarity import (
    sigmoid_cauchy_schwarz,
    sigmoid_tanimoto,
    softmax_cauchy_schwarz,
    softmax_tanimoto,
)

__all__ = [
    "BetaBernoulli",
    "Complement",
    "Loss",
    "Mixing",
    "batch_ce",
    "batch_max_margin",
    "bce",
    "beta_bernoulli",
    "ce",
    "ce_el",
    "complement",
    "expectation",
    "focal",
    "gce",
    "gce_truncated",
    "get",
    "hinge",
    "mae",
    "max_margin",
    "mpce",
    "names",
    "nce",
    "poly1",
    "polynomial",
    "self_norm",
    "sigmoid",
    "sigmoid_cauchy_schwarz",
    "sigmoid_tanimoto",
    "softmax_cauchy_schwarz",
    "softmax_tanimoto",
    "tamed_ce",
]

# A function, which Loss makes a module of, or a module's own class.
_TABLE: dict[str, Callable[..., Any]] = {
    "ce": ce,
    "max_margin": max_margin,
    "softmax_cauchy_schwarz": softmax_cauchy_schwarz,
    "sigmoid_cauchy_schwarz": sigmoid_cauchy_schwarz,
    "softmax_tanimoto": softmax_tanimoto,
    "sigmoid_tanimoto": sigmoid_tanimoto,
    "self_norm": self_norm,
    "nce": nce,
    "bce": bce,
    "batch_ce": batch_ce,
    "batch_max_margin": batch_max_margin,
    "expectation": expectation,
    "ce_el": Mixing,
    "focal": focal,
    "mae": mae,
    "gce": gce,
    "gce_truncated": gce_truncated,
    "tamed_ce": tamed_ce,
    "cot": Complement,
    "mpce": mpce,
    "hinge": hinge,
    "sigmoid": sigmoid,
    "polynomial": polynomial,
    "beta_bernoulli": BetaBernoulli,
    "poly1": poly1,
    "exact": ExactLoss,
}

_COMMON = ("reduction", "weight", "ignore_index")  # of all losses


def names() -> tuple[str, ...]:
    """The names ``get`` takes.

    Returns
    -------
    tuple of str

    Examples
    --------
    >>> from exact_torch import losses
    >>> losses.names()[:3]
    ('ce', 'max_margin', 'softmax_cauchy_schwarz')
    """
    return tuple(_TABLE)


def get(name: str, **options: Any) -> nn.Module:
    """A loss module.

    Parameters
    ----------
    name : str
        One of ``names()``.
    **options
        Of the loss, and of all losses: ``reduction``, "mean" (the default), "sum" or "none";
        ``weight`` (C,), of classes; ``ignore_index``, the label of examples that do not count.

    Returns
    -------
    nn.Module
        Called with logits, (B, C), (B, C, d1, ...) or (C,), and labels, (B,), (B, d1, ...) or ().
        Its ``phases`` are the losses to step on
        with each batch, most often only itself; ``set_progress`` tells it how much of training
        is done.

    Examples
    --------
    >>> import torch
    >>> from exact_torch import losses
    >>> loss = losses.get("gce", q=1.0, reduction="none")
    >>> loss(torch.zeros(2, 4), torch.tensor([0, 3]))
    tensor([0.7500, 0.7500])
    """
    if name not in _TABLE:
        raise ValueError(f"no loss is called {name!r}; there are {', '.join(_TABLE)}")
    entry = _TABLE[name]
    of_its_own = isinstance(entry, type)
    known = list(inspect.signature(entry).parameters)
    known = known if of_its_own else [*known[2:], *_COMMON]
    for option in options:
        if option not in known:
            raise TypeError(f"loss {name!r} has no option {option!r}; it has {', '.join(known)}")
    if of_its_own:
        return entry(**options)
    common = {option: options.pop(option) for option in _COMMON if option in options}
    return Loss(entry, options, **common)
