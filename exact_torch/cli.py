"""The command line: argument parsing and printing only."""

import argparse
import dataclasses
import json
import os
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import mvnorth

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of ``exact-torch`` and ``python -m exact_torch``; returns the exit code.

    0 if all went well, 1 if a run failed, 2 if what was asked for makes no sense, 130 if it was
    interrupted.
    """
    options = _parser().parse_args(arguments)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = partial(_show_warning, warnings.showwarning)
            return options.run(options) or 0
    except KeyboardInterrupt:
        print("exact-torch: interrupted; re-run the same command to resume", file=sys.stderr)
        return 130
    except (ValueError, TypeError, RuntimeError, OSError) as error:
        if options.debug:
            raise
        print(f"exact-torch: {error}", file=sys.stderr)
        return 1 if isinstance(error, (RuntimeError, OSError)) else 2


def _show_warning(show: Callable[..., None], message: Warning | str, *details: Any) -> None:
    """Print a warning about a run in one line, as an error; leave others to ``show``."""
    from exact_torch.train import RunWarning

    if isinstance(message, RunWarning):
        print(f"exact-torch: {message}", file=sys.stderr)
    else:
        show(message, *details)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="exact-torch", description="Train classifiers with EXACT and other losses"
    )
    parser.add_argument("--version", action="version", version=f"exact-torch {mvnorth.__version__}")
    parser.add_argument("--debug", action="store_true", help="show where an error comes from")
    commands = parser.add_subparsers(dest="command", required=True)

    train = commands.add_parser("train", help="train a recipe, or go on with it")
    what = train.add_mutually_exclusive_group(required=True)
    what.add_argument("recipe", nargs="?", help="a name (see 'recipes'), or a .py file")
    what.add_argument(
        "--config", type=_config, metavar="JSON", help="a config in place of a recipe"
    )
    train.add_argument("--seed", type=int, help="the seed, or the first one")
    train.add_argument("--seeds", type=_count, metavar="N", help="train with N seeds, one by one")
    train.add_argument("--no-test", action="store_true", help="leave the test set alone")
    train.add_argument("--quiet", action="store_true", help="print nothing but errors")
    _common(train)
    train.set_defaults(run=_train)

    search = commands.add_parser("search", help="random search over the recipe's grid")
    search.add_argument("recipe", help="a name, or a .py file, with a grid")
    search.add_argument("--trials", type=_count, default=20, metavar="N")
    search.add_argument("--jobs", type=_count, default=1, metavar="N", help="processes at a time")
    search.add_argument("--seed", type=int, default=0, help="of the draws from the grid")
    search.add_argument(
        "--seeds", type=_count, default=0, metavar="N", help="then train the best with N seeds"
    )
    _common(search)
    search.set_defaults(run=_search)

    compare = commands.add_parser("compare", help="mean and deviation over seeds, and a picture")
    compare.add_argument("runs", nargs="+", help="folders of runs, or above them")
    compare.add_argument(
        "--picture", metavar="PNG", default="compare.png", help="accuracies against epochs"
    )
    compare.add_argument("--json", action="store_true", help="numbers for a program, no picture")
    compare.set_defaults(run=_compare)

    predict = commands.add_parser("predict", help="classes of images, arrays or a table's rows")
    predict.add_argument("trained", metavar="RUN", help="the folder of a finished run")
    predict.add_argument("inputs", nargs="+", help="images, folders of them, .npy or .csv files")
    predict.add_argument("--json", action="store_true", help="a line of JSON for each input")
    predict.set_defaults(run=_predict)

    export = commands.add_parser("export", help="the plain network for other programs")
    export.add_argument("trained", metavar="RUN", help="the folder of a finished run")
    export.add_argument("file", help="what to write")
    export.add_argument(
        "--format", choices=("torch.export", "torchscript", "onnx"), default="torch.export"
    )
    export.set_defaults(run=_export)

    recipes = commands.add_parser("recipes", help="list recipes, or the runs of one")
    recipes.add_argument("recipe", nargs="?")
    recipes.set_defaults(run=_recipes)
    return parser


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


def _set_threads(options: argparse.Namespace) -> None:
    import torch

    if options.threads:
        torch.set_num_threads(options.threads)


def _config(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise argparse.ArgumentTypeError(f"must be JSON: {error}") from error


def _train(options: argparse.Namespace) -> None:
    from exact_torch import recipes
    from exact_torch.train import Config, train, with_settings

    _set_threads(options)
    if options.config is not None:
        name = "config"
        runs: Mapping[str, Config] = {"": Config.from_json(options.config)}
    else:
        recipe = recipes.get(options.recipe)
        name, runs = recipe.name, recipe.runs
    root = Path(options.out) if options.out else Path("runs", *name.split("/"))
    speaks = int(os.environ.get("RANK", "0")) == 0 and not options.quiet
    for variant, config in runs.items():
        config = with_settings(config, options.set)
        first = config.seed if options.seed is None else options.seed
        for seed in range(first, first + (options.seeds or 1)):
            folder = root / variant if len(runs) > 1 else root
            if options.seeds or not options.out:
                folder = folder / f"seed-{seed}"
            if speaks:
                print(f"{folder}: {config.model} on {config.data} with {config.loss}", flush=True)
            summary = train(
                dataclasses.replace(config, seed=seed),
                folder,
                options.data_dir,
                test=not options.no_test,
                quiet=options.quiet,
            )
            if speaks:
                print(_told(summary), flush=True)


def _told(summary: dict[str, Any]) -> str:
    part = "test" if "test_accuracy" in summary else "validation"
    names = {
        "accuracy": "accuracy",
        "expected_accuracy": "expected",
        "calibration_error": "calibration error",
    }
    values = [
        f"{told} {100 * summary[f'{part}_{name}']:.2f} %"
        for name, told in names.items()
        if f"{part}_{name}" in summary
    ]
    return f"{part}: {', '.join(values)}; {summary['seconds']:.1f} s"


def _search(options: argparse.Namespace) -> None:
    from exact_torch import recipes
    from exact_torch.train import with_settings
    from exact_torch.train.search import Trial, search

    _set_threads(options)
    recipe = recipes.get(options.recipe)
    root = Path(options.out) if options.out else Path("runs", "search", *recipe.name.split("/"))

    def report(number: int, trial: Trial) -> None:
        told = ", ".join(f"{name}={value}" for name, value in trial.settings.items())
        result = trial.failure if trial.accuracy is None else f"{100 * trial.accuracy:.2f} %"
        print(f"trial {number}: {told}: {result}", flush=True)

    for variant, config in recipe.runs.items():
        folder = root / variant if len(recipe.runs) > 1 else root
        config = with_settings(config, options.set)
        best, trials = search(
            config,
            recipe.search.get(variant, {}),
            folder,
            trials=options.trials,
            jobs=options.jobs,
            seed=options.seed,
            data_dir=options.data_dir,
            report=report,
        )
        accuracy = max(trial.accuracy or 0.0 for trial in trials)
        print(f"best on the validation set: {100 * accuracy:.2f} %; {folder / 'search.json'}")
        for seed in range(options.seeds):
            _final(dataclasses.replace(best, seed=seed), folder / f"best/seed-{seed}", options)


def _final(config: Any, folder: Path, options: argparse.Namespace) -> None:
    from exact_torch.train import train

    print(f"{folder}: {_told(train(config, folder, options.data_dir, quiet=True))}", flush=True)


def _compare(options: argparse.Namespace) -> None:
    from exact_torch.train import compare, curves
    from exact_torch.train.folder_lock import hold_run_of
    from exact_torch.train.record import FILES

    groups, unfinished = compare.compare(options.runs)
    for path in unfinished:
        print(f"exact-torch: {path} is not finished and left out", file=sys.stderr)
    if options.json:
        rows = [{"setting": each.name, "runs": each.summaries} for each in groups]
        print(json.dumps(rows, indent=2))
        return
    print(compare.table(groups))
    picture = Path(options.picture)
    with hold_run_of(picture, FILES):
        curves.comparison({each.name: each.metrics for each in groups}, picture)
    print(options.picture)


def _predict(options: argparse.Namespace) -> None:
    from exact_torch.train.inputs import examples
    from exact_torch.train.trained import Trained

    trained = Trained(options.trained)
    for names, inputs in examples(trained, options.inputs):
        prediction = trained.predict(inputs)
        for name, each, probs in zip(
            names, prediction.classes.tolist(), prediction.probabilities.tolist(), strict=True
        ):
            label = trained.classes[each]
            if options.json:
                by_class = dict(zip(trained.classes, probs, strict=True))
                print(json.dumps({"input": name, "class": label, "probabilities": by_class}))
            else:
                print(f"{name}\t{label}\t{probs[each]:.4f}")


def _export(options: argparse.Namespace) -> None:
    from exact_torch.train.trained import Trained, export

    trained = Trained(options.trained)
    path = export(trained, options.file, options.format)
    shape = ", ".join(map(str, trained.shape))
    print(f"{path}: raw inputs (B, {shape}) to logits (B, {len(trained.classes)})")


def _recipes(options: argparse.Namespace) -> None:
    from exact_torch import recipes

    if options.recipe is None:
        for name in recipes.names():
            print(f"{name:28}{recipes.get(name).doc}")
        return
    recipe = recipes.get(options.recipe)
    for variant, config in recipe.runs.items():
        told = f"{config.model} on {config.data} with {config.loss}, {config.epochs} epochs"
        print(f"{'/'.join(filter(None, (recipe.name, variant))):44}{told}")
