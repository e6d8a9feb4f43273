"""A training run as a task: from a config to what was measured of it."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from exact_torch.train import Config, train


def train_once(config: Mapping[str, Any], data_dir: str | None = None) -> dict[str, Any]:
    """Train and test a network, on the CPU in one thread.

    Parameters
    ----------
    config : mapping
        Of ``Config.to_json``; all that is random comes from its seed.
    data_dir : str, optional
        Where data sets are, unless the environment says it.

    Returns
    -------
    dict
        "summary" as ``train`` returns it, and "metrics", what it measured in each epoch. Seconds
        are not in them, so that runs with equal configs are equal; use ``alone`` tasks for times.

    Raises
    ------
    RunError
        If the loss is not finite.
    """
    settings = Config.from_json({**config, "device": "cpu"})
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with tempfile.TemporaryDirectory() as folder:
            summary = train(settings, Path(folder) / "run", data_dir, quiet=True)
            lines = (Path(folder) / "run" / "metrics.jsonl").read_text().splitlines()
    finally:
        torch.set_num_threads(threads)
    metrics = [json.loads(line) for line in lines]
    return {"summary": _timeless(summary), "metrics": [_timeless(each) for each in metrics]}


def _timeless(measured: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in measured.items() if name != "seconds"}
