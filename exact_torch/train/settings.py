"""Settings that change a config, as a command line has them."""

import dataclasses
import json
import typing
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from exact_torch.train.config import HINTS, Config, check_known

__all__ = ["with_settings"]


def with_settings(config: Config, settings: Iterable[str]) -> Config:
    """The config with ``key=value`` settings, as a command line has them.

    Parameters
    ----------
    config : Config
    settings : iterable of str
        Values are JSON, or plain words; those of ``data_options``, ``model_options``,
        ``loss_options`` and ``schedule_options`` may be set one by one, ``loss_options.margin=5``.
        Another data set, model, loss or schedule begins without the options of the one before, and
        a loss other than "exact" with ``head="linear"``.

    Returns
    -------
    Config

    Examples
    --------
    >>> from exact_torch.train import Config, with_settings
    >>> config = with_settings(Config(), ["lr=0.5", "loss_options.margin=5"])
    >>> config.lr, config.loss_options
    (0.5, {'margin': 5})
    >>> with_settings(config, ["loss=focal", "loss_options.gamma=1"]).loss_options
    {'gamma': 1}
    >>> with_settings(Config(), ["epoch=3"])
    Traceback (most recent call last):
    ...
    ValueError: no setting is called 'epoch'; did you mean 'epochs'? There are ...
    """
    changed: dict[str, Any] = {}
    settings = list(settings)
    for name in ("data", "model", "loss", "schedule"):
        values = [each.partition("=")[2].strip() for each in settings if _sets(each, name)]
        if values and _parsed(values[-1], HINTS[name]) != getattr(config, name):
            changed[f"{name}_options"] = {}
            if name == "loss" and not any(_sets(each, "head") for each in settings):
                changed["head"] = "linear"
    for setting in settings:
        key, equals, text = setting.partition("=")
        if not equals:
            raise ValueError(f"a setting must be key=value, got {setting!r}")
        name, dot, option = key.strip().partition(".")
        check_known(name)
        value = _parsed(text.strip(), HINTS[name])
        if dot:
            if HINTS[name] != Mapping[str, Any]:
                raise ValueError(f"{name} has no options, got the setting {setting!r}")
            value = {**changed.get(name, getattr(config, name)), option: value}
        changed[name] = value
    return dataclasses.replace(config, **changed)


def _sets(setting: str, name: str) -> bool:
    return setting.partition("=")[0].strip() == name


def _parsed(text: str, hint: Any) -> Any:
    if (hint is str or typing.get_origin(hint) is Literal) and not text.startswith('"'):
        return text  # "none" is a word there
    if text.lower() in ("none", "true", "false"):
        return {"none": None, "true": True, "false": False}[text.lower()]
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text
