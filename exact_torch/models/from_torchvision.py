"""torchvision's classifiers, untrained: ResNets, EfficientNets and all others with a linear end.

The last linear layer becomes the head; torchvision's own stays, with its own initial values, where
no other is asked for.  For images without three channels the first convolution is a new one.
"""

import inspect
from collections.abc import Callable
from typing import Any

from torch import nn

from exact_torch import _arguments

__all__ = ["from_torchvision", "torchvision_names"]


def torchvision_names() -> tuple[str, ...]:
    """What torchvision's classifiers are called; none where it is not installed."""
    try:
        from exact_torch._torchvision import torchvision
    except ModuleNotFoundError:
        return ()
    listed: list[str] = torchvision.models.list_models(module=torchvision.models)
    # The last layer of squeezenets is a convolution: there is no place for a head.
    return tuple(name for name in listed if not name.startswith("squeezenet"))


def from_torchvision(
    name: str,
    num_classes: int,
    input_shape: tuple[int, ...],
    head: Callable[[int, int], nn.Module] | None,
    *,
    stem: str = "large",
    dropout: float = 0.0,
) -> nn.Module:
    """torchvision's ``name``.

    Parameters
    ----------
    name : str
        One of ``torchvision_names()``.
    num_classes : int
        Number of classes.
    input_shape : (C, H, W)
        Of the images; only vision transformers depend on more than C.
    head : callable, optional
        ``head(in_features, num_classes)`` makes the last layer; without it torchvision does.
    stem : {"large", "small"}
        For ResNets, ResNeXts and wide ResNets: "large" is torchvision's 7 x 7 convolution with
        stride 2 and max pooling; "small", for 32 x 32, a 3 x 3 convolution that keeps the size.
    dropout : float
        Probability with which inputs of the last layer are left out, beside torchvision's own.

    Examples
    --------
    >>> from torch import nn
    >>> from exact_torch.models.from_torchvision import from_torchvision
    >>> model = from_torchvision("resnet18", 10, (1, 28, 28), nn.Linear, stem="small")
    >>> model.conv1
    Conv2d(1, 64, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1), bias=False)
    >>> model.fc
    Linear(in_features=512, out_features=10, bias=True)
    """
    from exact_torch._torchvision import torchvision

    _arguments.choice("stem", stem, ("large", "small"))
    own: dict[str, Any] = {"weights": None, "num_classes": num_classes}
    if name in ("inception_v3", "googlenet"):
        own |= {"aux_logits": False, "init_weights": True}  # one output; no warning that it is slow
    if name.startswith("vit_"):
        if input_shape[1] != input_shape[2]:
            raise ValueError(f"input_shape must be square for {name}, got {input_shape}")
        own["image_size"] = input_shape[1]
    model: nn.Module = torchvision.models.get_model(name, **own)
    if stem == "small":
        if not isinstance(model, torchvision.models.ResNet):
            raise ValueError(f'stem="small" is for ResNets, ResNeXts and wide ResNets, not {name}')
        _replace(model, "conv1", _convolution(model.conv1, 3, kernel_size=3, stride=1, padding=1))
        model.maxpool = nn.Identity()
    if input_shape[0] != 3:
        where, first = next(each for each in model.named_modules() if _is(each[1], nn.Conv2d))
        _replace(model, where, _convolution(first, input_shape[0]))
    if head is not None or dropout:
        where, last = [each for each in model.named_modules() if _is(each[1], nn.Linear)][-1]
        made = last if head is None else head(last.in_features, num_classes)
        share = _arguments.number("dropout", dropout, least=0, below=1)
        _replace(model, where, nn.Sequential(nn.Dropout(share), made) if share else made)
    return model


def _convolution(like: nn.Conv2d, channels: int, **changes: Any) -> nn.Conv2d:
    """One for other images, with the initial values that torchvision gives its ResNets."""
    taken = inspect.signature(nn.Conv2d).parameters
    own = {key: value for key, value in vars(like).items() if key in taken}
    own |= {"in_channels": channels, "bias": like.bias is not None, **changes}
    made = nn.Conv2d(**own)
    nn.init.kaiming_normal_(made.weight, mode="fan_out", nonlinearity="relu")
    if made.bias is not None:
        nn.init.zeros_(made.bias)
    return made


def _replace(model: nn.Module, where: str, layer: nn.Module) -> None:
    parent, _, name = where.rpartition(".")
    setattr(model.get_submodule(parent), name, layer)


def _is(module: nn.Module, kind: type) -> bool:
    return isinstance(module, kind)
