"""Commands and options of the command line, and the files that options name."""

import argparse
import json
import os
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import mvnorth

__all__ = ["grid_of", "parser"]


def parser() -> argparse.ArgumentParser:
    """Return the parser; ``command`` names the command that was given."""
    whole = argparse.ArgumentParser(
        prog="exact-torch", description="Train classifiers with EXACT and other losses"
    )
    whole.add_argument("--version", action="version", version=f"exact-torch {mvnorth.__version__}")
    whole.add_argument("--debug", action="store_true", help="show where an error comes from")
    commands = whole.add_subparsers(dest="command", required=True)

    train = commands.add_parser("train", help="train a recipe, or go on with it")
    what = train.add_mutually_exclusive_group(required=True)
    what.add_argument("recipe", nargs="?", help="a name (see 'recipes'), or a .py file")
    what.add_argument(
        "--config",
        type=_config,
        metavar="FILE",
        help="a config in place of a recipe: a .json or .toml file, or JSON itself",
    )
    train.add_argument("--seed", type=int, help="the seed, or the first one")
    train.add_argument("--seeds", type=_count, metavar="N", help="train with N seeds, one by one")
    train.add_argument("--no-test", action="store_true", help="leave the test set alone")
    train.add_argument(
        "--extend", action="store_true", help="continue a run of fewer epochs, also a finished one"
    )
    train.add_argument(
        "--tensorboard", action="store_true", help="write curves for TensorBoard into the run"
    )
    train.add_argument(
        "--callback",
        action="append",
        default=[],
        metavar="MODULE:FUNCTION",
        help="call it with what was measured and the network after each epoch",
    )
    train.add_argument("--quiet", action="store_true", help="print nothing but errors")
    _common(train)

    search = commands.add_parser("search", help="random search over the recipe's grid")
    search.add_argument("recipe", help="a name, or a .py file")
    search.add_argument("--trials", type=_count, default=20, metavar="N")
    search.add_argument("--jobs", type=_count, default=1, metavar="N", help="processes at a time")
    search.add_argument("--seed", type=int, default=0, help="of the draws from the grid")
    search.add_argument(
        "--seeds", type=_count, default=0, metavar="N", help="then train the best with N seeds"
    )
    search.add_argument(
        "--grid",
        action="append",
        default=[],
        metavar="KEY=[VALUES]",
        help="values of a setting to search, in place of the recipe's grid",
    )
    _common(search)

    compare = commands.add_parser("compare", help="mean and deviation over seeds, and a picture")
    compare.add_argument("runs", nargs="+", help="folders of runs, or above them")
    compare.add_argument(
        "--picture", metavar="PNG", default="compare.png", help="accuracies against epochs"
    )
    compare.add_argument(
        "--baseline", metavar="LOSS", default="ce", help="the loss that others are compared with"
    )
    compare.add_argument("--json", action="store_true", help="numbers for a program, no picture")

    predict = commands.add_parser("predict", help="classes of images, arrays or a table's rows")
    predict.add_argument("trained", metavar="RUN", help="the folder of a finished run")
    predict.add_argument("inputs", nargs="+", help="images, folders of them, .npy or .csv files")
    predict.add_argument("--json", action="store_true", help="a line of JSON for each input")

    export = commands.add_parser("export", help="the plain network for other programs")
    export.add_argument("trained", metavar="RUN", help="the folder of a finished run")
    export.add_argument("file", help="what to write")
    export.add_argument(
        "--format",
        choices=("torch.export", "torchscript", "onnx"),
        help="onnx if the file's name ends in .onnx, else torch.export",
    )

    recipes = commands.add_parser("recipes", help="list recipes, or the runs of one")
    recipes.add_argument("recipe", nargs="?")
    return whole


def _common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", metavar="DIR", help="folder of the run; runs/... by default")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="change a setting"
    )
    parser.add_argument("--data-dir", metavar="DIR", help="where data sets are, or are put")
    parser.add_argument("--threads", type=_threads, metavar="N", help="of torch in this process")


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1, got {text!r}")
    return int(text)


def _threads(text: str) -> int:
    """A number of threads that OpenMP can start; with far too many the process crashes."""
    most = max(64, os.cpu_count() or 1)
    count = _count(text)
    if count > most:
        raise argparse.ArgumentTypeError(f"must be at most {most} on this machine, got {text!r}")
    return count


def _config(text: str) -> Any:
    try:
        if text.lstrip().startswith(("{", "[")):
            return json.loads(text)
        content = Path(text).read_text(encoding="utf-8")
        return tomllib.loads(content) if text.endswith(".toml") else json.loads(content)
    except OSError as error:
        raise argparse.ArgumentTypeError(f"cannot be read: {error}") from error
    except ValueError as error:
        kind = "TOML" if text.endswith(".toml") else "JSON"
        raise argparse.ArgumentTypeError(f"must be {kind}: {error}") from error


def grid_of(settings: Sequence[str]) -> dict[str, Any]:
    """Return the values to search by setting, of ``KEY=[VALUES]``."""
    grid = {}
    for setting in settings:
        name, _, text = setting.partition("=")
        try:
            values = json.loads(text)
        except json.JSONDecodeError as error:
            raise ValueError(f"--grid must be KEY=[VALUES], got {setting!r}: {error}") from error
        if not isinstance(values, list) or not values:
            raise ValueError(f"--grid must have a list of values, got {setting!r}")
        grid[name.strip()] = values
    return grid
