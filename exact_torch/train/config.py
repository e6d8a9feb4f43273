"""What a training run is made of: one frozen dataclass."""

import dataclasses
import difflib
import json
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from exact_torch import _arguments
from mvnorth._interface import whole_number

__all__ = ["HINTS", "Config", "check_known"]

_MOST_WORKERS = 512  # a typing error must not start so many processes that the machine stops
_LARGEST = 3e38  # what single precision holds


@dataclass(frozen=True)
class Config:
    """A training run.  Two runs with equal configs give equal results.

    Attributes
    ----------
    data, data_options : str, mapping
        The data set's name and the options of ``data.load``; the name may be the import path of
        what makes torch data sets of your own, "package.module:function".
    validation : float
        The share of the training set that is held out; at 0 nothing is.
    augment : tuple of str
        Names of augmentations, in order (``data.augmentations``).
    mix, mix_alpha : {"none", "mixup", "cutmix"}, float
        Train on pairs of examples that are mixed in shares drawn from Beta(mix_alpha, mix_alpha).
    image_size : int, optional
        Images are scaled to this, unless None.
    workers : int
        Processes that augment; 0 does it in the training process.
    model, model_options : str, mapping
        The architecture's name and options (``models.get``); the name may be the import path of an
        ``nn.Module`` of your own, "package.module:Class".
    head : {"linear", "predicted"}
        "predicted" has a sigma of its own for each example, for EXACT.
    loss, loss_options : str, mapping
        The loss's name and options (``losses.get``).  For "exact", ``sigma`` may also be [start,
        stop] or [start, stop, steps], log-linear over training, ``margin`` [start, stop], and both
        the name of a published schedule.
    optimizer, lr, weight_decay, decay : str, float, float, str
        See ``optim.get``.
    momentum, nesterov, betas : float, bool, (float, float)
        Of "sgd", and of "adam" and "adamw".
    rho, eta : float
        ASAM's radius and offset; at rho = 0 there is no ASAM.
    schedule, schedule_options : str, mapping
        Of the learning rate (``optim.lr_schedule``).
    gradient, clip : {"none", "clip", "normalize"}, float
        Nothing, to the norm ``clip``, or ``GradientNormalizer``.
    ema : float
        Decay of an average of the weights, which is then what is evaluated; 0 is off.
    epochs, epoch_steps : int
        Number of epochs; steps of an epoch, unless None, when it is one pass.
    batch_size, accumulate : int
        Examples of a step over all processes, and in how many parts they are computed; batch
        losses and EXACT's normalisation are of a part.
    select : {"last", "best"}
        Which weights are tested, the last or those with the best validation accuracy.
    seed : int
        Of weights, order, augmentation and dropout.
    precision : {"float32", "bfloat16", "float16"}
        Autocast to the latter two.
    channels_last, compile, deterministic : bool
        Memory format; torch.compile; deterministic kernels.
    device : {"auto", "cpu", "cuda"}
        Where it runs.
    checkpoint_steps : int
        A checkpoint after so many steps, beside that of each epoch; 0 is off.

    Examples
    --------
    >>> from exact_torch.train import Config
    >>> config = Config(data="mnist", loss_options={"sigma": [10.0, 1.0]}, epochs=5)
    >>> config.model, config.lr
    ('small_cnn', 0.1)
    >>> Config(epochs=0)
    Traceback (most recent call last):
    ...
    ValueError: epochs must be at least 1, got 0
    """

    data: str = "digits"
    data_options: Mapping[str, Any] = field(default_factory=dict)
    validation: float = 0.1
    augment: tuple[str, ...] = ()
    image_size: int | None = None
    mix: Literal["none", "mixup", "cutmix"] = "none"
    mix_alpha: float = 1.0
    workers: int = 0
    model: str = "small_cnn"
    model_options: Mapping[str, Any] = field(default_factory=dict)
    head: Literal["linear", "predicted"] = "linear"
    loss: str = "exact"
    loss_options: Mapping[str, Any] = field(default_factory=dict)
    optimizer: Literal["sgd", "adam", "adamw"] = "sgd"
    lr: float = 0.1
    momentum: float = 0.9
    nesterov: bool = False
    betas: tuple[float, ...] = (0.9, 0.999)
    weight_decay: float = 0.0
    decay: Literal["all", "weights"] = "all"
    rho: float = 0.0
    eta: float = 0.01
    schedule: Literal["constant", "plateau", "exponential", "multistep", "cosine", "one_cycle"] = (
        "constant"
    )
    schedule_options: Mapping[str, Any] = field(default_factory=dict)
    gradient: Literal["none", "clip", "normalize"] = "none"
    clip: float = 1.0
    ema: float = 0.0
    epochs: int = 10
    epoch_steps: int | None = None
    batch_size: int = 128
    accumulate: int = 1
    select: Literal["last", "best"] = "last"
    seed: int = 0
    precision: Literal["float32", "bfloat16", "float16"] = "float32"
    channels_last: bool = False
    compile: bool = False
    deterministic: bool = True
    device: Literal["auto", "cpu", "cuda"] = "auto"
    checkpoint_steps: int = 0

    def __post_init__(self) -> None:
        for name, hint in HINTS.items():
            object.__setattr__(self, name, _typed(name, getattr(self, name), hint))
        for name in ("epochs", "batch_size", "accumulate"):
            whole_number(name, getattr(self, name), at_least=1)
        for name in ("workers", "seed", "checkpoint_steps"):
            whole_number(name, getattr(self, name), at_least=0)
        if self.workers > _MOST_WORKERS:
            raise ValueError(f"workers must be at most {_MOST_WORKERS}, got {self.workers}")
        for name in ("image_size", "epoch_steps"):
            if getattr(self, name) is not None:
                whole_number(name, getattr(self, name), at_least=1)
        for name in ("validation", "ema"):
            _arguments.number(name, getattr(self, name), least=0, below=1)
        for name in ("weight_decay", "rho", "eta", "momentum"):
            _arguments.number(name, getattr(self, name), least=0, most=_LARGEST)
        for name in ("lr", "clip", "mix_alpha"):
            _arguments.number(name, getattr(self, name), above=0, most=_LARGEST)
        if self.batch_size % self.accumulate:
            raise ValueError(
                f"batch_size must be a multiple of accumulate={self.accumulate}, "
                f"got {self.batch_size}"
            )
        if self.head == "predicted" and self.loss != "exact":
            raise ValueError(f'head="predicted" is for loss="exact", got loss={self.loss!r}')
        if self.select == "best" and self.validation == 0:
            raise ValueError('select="best" needs a validation set, got validation=0')

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON has them.

        Examples
        --------
        >>> from exact_torch.train import Config
        >>> Config.from_json(Config(augment=("flip",)).to_json()) == Config(augment=("flip",))
        True
        """
        return json.loads(json.dumps(dataclasses.asdict(self)))

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> "Config":
        """The config ``to_json`` was called on."""
        if not isinstance(fields, Mapping):
            raise TypeError(f"a config must be a mapping of settings, got {fields!r}")
        for name in fields:
            check_known(name)
        return cls(**fields)


def check_known(name: str) -> None:
    """Raise unless a setting is called so; name the nearest one."""
    if name not in HINTS:
        near = difflib.get_close_matches(name, HINTS, n=1, cutoff=0.0)
        raise ValueError(
            f"no setting is called {name!r}; did you mean {near[0]!r}? There are {', '.join(HINTS)}"
        )


def _typed(name: str, value: Any, hint: Any) -> Any:
    """``value``, if it is of the type the field is declared with; tuples from lists too."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        return _arguments.choice(name, value, arguments)
    if origin is types.UnionType:  # X | None
        return None if value is None else _typed(name, value, arguments[0])
    if origin is tuple:
        if not isinstance(value, (list, tuple)):
            raise TypeError(f"{name} must be a list, got {value!r}")
        return tuple(_typed(f"each of {name}", each, arguments[0]) for each in value)
    if hint == Mapping[str, Any]:
        if not isinstance(value, Mapping):
            raise TypeError(f"{name} must be a mapping of options, got {value!r}")
        for option in value:
            if option in _ELSEWHERE.get(name, {}):
                raise ValueError(
                    f"{name} has no option {option!r}: {_ELSEWHERE[name][option]}, "
                    f"got {name}.{option}={value[option]!r}"
                )
        return _json_value(name, value)
    if hint is float:
        return _arguments.number(name, value)
    if hint is int and isinstance(value, int) and not isinstance(value, bool):
        return value
    if hint in (str, bool) and isinstance(value, hint):
        return value
    wanted = {int: "a whole number", str: "a word", bool: "true or false"}[hint]
    raise TypeError(f"{name} must be {wanted}, got {value!r}")


def _json_value(name: str, value: Any) -> Any:
    """Return ``value``, if JSON can hold it; ``name`` is what messages call it."""
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise TypeError(f"names of options in {name} must be words, got {key!r}")
        return {key: _json_value(f"{name}.{key}", entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_json_value(f"{name}[{i}]", entry) for i, entry in enumerate(value))
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return _arguments.number(name, value)
    raise TypeError(
        f"{name} must be a number, a word, true, false, none, or a list or mapping of them, "
        f"got {value!r}"
    )


_MODEL_INPUT = "it follows from the data set"
# What the functions that options are passed to are told otherwise.
_ELSEWHERE: dict[str, dict[str, str]] = {
    "data_options": {
        "name": "use the setting data",
        "folder": "use --data-dir, data_dir in Python, for where data sets are",
        "validation": "use the setting validation",
    },
    "model_options": {
        "name": "use the setting model",
        "num_classes": _MODEL_INPUT,
        "input_shape": f"{_MODEL_INPUT}, or use the setting image_size",
        "head": "use the setting head",
    },
    "loss_options": {"name": "use the setting loss"},
    "schedule_options": {
        "name": "use the setting schedule",
        "optimizer": "use the setting optimizer",
        "epochs": "use the setting epochs",
    },
}
HINTS: dict[str, Any] = typing.get_type_hints(Config)  # of the fields
