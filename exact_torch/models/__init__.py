"""Models by name: ``get("resnet18", num_classes=100)``, ``names()`` has them all.

Any of them ends in the head it is given, ``head(in_features, num_classes)``: ``nn.Linear`` unless
another is asked for, ``GaussianHead`` for EXACT with its own sigma.  ``export`` takes that away
again.
"""

import copy
import difflib
import inspect
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from torch import nn

from exact_torch import _imports
from exact_torch.heads import GaussianHead
from exact_torch.models.from_torchvision import from_torchvision, torchvision_names
from exact_torch.models.pols import cnn6, mlp500
from exact_torch.models.preact_resnet import preact_resnet
from exact_torch.models.pyramidnet import pyramidnet
from exact_torch.models.resnet_cifar import resnet_cifar
from exact_torch.models.resnext29 import resnext29
from exact_torch.models.small_cnn import small_cnn
from exact_torch.models.sync_batch_norm import SynchronizedBatchNorm, synchronized
from exact_torch.models.table import hidden, linear
from exact_torch.models.vgg_small import vgg_mnist
from exact_torch.models.wide_resnet import wide_resnet
from mvnorth._interface import whole_number

__all__ = ["SynchronizedBatchNorm", "export", "get", "names", "synchronized"]

# name -> builder(num_classes, input_shape, head, **options); what a partial fixes is no option.
_TABLE: dict[str, Callable[..., nn.Module]] = {
    "linear": linear,
    "hidden": hidden,
    "mlp500": mlp500,
    "small_cnn": small_cnn,
    "cnn6": cnn6,
    "vgg_mnist": vgg_mnist,
    "resnet20": partial(resnet_cifar, depth=20),
    "resnet32": partial(resnet_cifar, depth=32),
    "resnet44": partial(resnet_cifar, depth=44),
    "resnet110": partial(resnet_cifar, depth=110),
    "preact_resnet18": preact_resnet,
    "resnext29_8x64": resnext29,
    "wrn16_8": partial(wide_resnet, depth=16, width=8),
    "wrn28_10": partial(wide_resnet, depth=28, width=10),
    "pyramidnet272": partial(pyramidnet, depth=272, alpha=200),
}
_TABLES_TOO = ("linear", "hidden", "mlp500")  # these take the inputs in any shape
_DEFAULT_SHAPE = (3, 32, 32)


def names() -> tuple[str, ...]:
    """The names ``get`` takes: those written here, then torchvision's if it is installed.

    Returns
    -------
    tuple of str

    Examples
    --------
    >>> from exact_torch import models
    >>> models.names()[:4]
    ('linear', 'hidden', 'mlp500', 'small_cnn')
    >>> "efficientnet_v2_m" in models.names()
    True
    """
    return (*_TABLE, *torchvision_names())


def get(
    name: str,
    num_classes: int,
    input_shape: Sequence[int] | None = None,
    head: Callable[[int, int], nn.Module] | None = None,
    **options: Any,
) -> nn.Module:
    """A model with random weights.

    Parameters
    ----------
    name : str
        One of ``names()``, or the import path of an ``nn.Module`` class or a function of your own,
        "package.module:Class", which is called with the number of classes and the options.
    num_classes : int
        Number of classes C, at least 2.
    input_shape : (C, H, W) or (F,), optional
        Shape of one image, (3, 32, 32) unless given, or of one row of a table.
    head : callable, optional
        ``head(in_features, num_classes)`` makes the last layer; ``nn.Linear`` unless given.
    **options
        Of the model, see docs/models.md; an unknown one raises with those there are.

    Returns
    -------
    nn.Module
        Takes (B, C, H, W) or (B, F) and returns what its head returns, (B, C) for logits.

    Examples
    --------
    >>> import torch
    >>> from functools import partial
    >>> from exact_torch import GaussianHead, models
    >>> models.get("small_cnn", 10, (1, 28, 28))(torch.zeros(2, 1, 28, 28)).shape
    torch.Size([2, 10])
    >>> model = models.get("linear", 3, (5,), partial(GaussianHead, sigma="predicted"))
    >>> mean, sigma = model(torch.zeros(2, 5))
    >>> mean.shape, sigma.shape
    (torch.Size([2, 3]), torch.Size([2, 1]))
    """
    classes = whole_number("num_classes", num_classes, at_least=2)
    if head is not None and not callable(head):
        raise TypeError(f"head must be callable with (in_features, num_classes), got {head!r}")
    if _imports.is_path(name):
        return _own(name, classes, head, options)
    ours = name in _TABLE if isinstance(name, str) else False
    if not ours and name not in torchvision_names():
        near = difflib.get_close_matches(str(name), names(), n=1, cutoff=0.0)
        raise ValueError(f"no model is called {name!r}; did you mean {near[0]!r}? (models.names())")
    shape = _shape(name, input_shape)
    if not ours:
        builder: Callable[..., nn.Module] = partial(from_torchvision, name)
        _check_options(name, builder, options)
        return builder(classes, shape, head, **options)
    _check_options(name, _TABLE[name], options)
    return _TABLE[name](classes, shape, nn.Linear if head is None else head, **options)


def _own(
    path: str, classes: int, head: Callable[[int, int], nn.Module] | None, options: dict[str, Any]
) -> nn.Module:
    """A user's network; its last linear layer with as many outputs as classes is its head."""
    try:
        model = _imports.load_callable("model", path)(classes, **options)
    except TypeError as error:
        raise TypeError(f"model {path!r} with {classes} classes and {options}: {error}") from error
    if not isinstance(model, nn.Module):
        raise TypeError(f"model {path!r} must make an nn.Module, got {type(model).__name__}")
    if head is None:
        return model
    last = [
        (parent, name, child)
        for parent in model.modules()
        for name, child in parent.named_children()
        if isinstance(child, nn.Linear) and child.out_features == classes
    ]
    if not last:
        raise ValueError(f"model {path!r} has no nn.Linear with {classes} outputs to replace")
    parent, name, child = last[-1]
    setattr(parent, name, head(child.in_features, classes))
    return model


def export(model: nn.Module) -> nn.Module:
    """A copy for predicting: in eval mode, every ``GaussianHead`` replaced by its ``nn.Linear``.

    Parameters
    ----------
    model : nn.Module
        Of ``get`` or any other; it stays as it is.

    Returns
    -------
    nn.Module

    Examples
    --------
    >>> import torch
    >>> from exact_torch import GaussianHead, models
    >>> model, x = models.get("hidden", 3, (5,), GaussianHead).eval(), torch.rand(4, 5)
    >>> exported = models.export(model)
    >>> exported[-1]
    Linear(in_features=5, out_features=3, bias=True)
    >>> torch.equal(exported(x), model(x))
    True
    """
    made = copy.deepcopy(model).eval()
    if isinstance(made, GaussianHead):
        return made.export()
    for parent in list(made.modules()):
        for name, child in parent.named_children():
            if isinstance(child, GaussianHead):
                setattr(parent, name, child.export())
    return made


def _shape(name: str, input_shape: Any) -> tuple[int, ...]:
    if input_shape is None:
        if name in ("linear", "hidden"):
            raise ValueError(f"input_shape must be given for {name!r}, (F,) for F features")
        return _DEFAULT_SHAPE
    try:
        shape = tuple(whole_number("input_shape", each, at_least=1) for each in input_shape)
    except (TypeError, ValueError):
        shape = ()
    if len(shape) not in ((1, 3) if name in _TABLES_TOO else (3,)):
        wanted = "(C, H, W) or (F,)" if name in _TABLES_TOO else "(C, H, W)"
        raise ValueError(f"input_shape must be {wanted} for {name!r}, got {input_shape!r}")
    return shape


def _check_options(name: str, builder: Callable[..., Any], options: dict[str, Any]) -> None:
    fixed = builder.keywords if isinstance(builder, partial) else {}
    known = [
        each.name
        for each in inspect.signature(builder).parameters.values()
        if each.kind is each.KEYWORD_ONLY and each.name not in fixed
    ]
    for option in options:
        if option not in known:
            listed = ", ".join(known) or "none"
            raise TypeError(f"model {name!r} has no option {option!r}; it has {listed}")
