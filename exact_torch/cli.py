"""The command line: what its commands call and print."""

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

from exact_torch import _cli_arguments

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of ``exact-torch`` and ``python -m exact_torch``; returns the exit code.

    0 if all went well, 1 if a run failed, 2 if what was asked for makes no sense, 130 if it was
    interrupted.
    """
    options = _cli_arguments.parser().parse_args(arguments)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = partial(_show_warning, warnings.showwarning)
            _COMMANDS[options.command](options)
            return 0
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


def _set_threads(options: argparse.Namespace) -> None:
    import torch

    if options.threads:
        torch.set_num_threads(options.threads)


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
                extend=options.extend,
                callbacks=_callbacks(options, folder),
            )
            if speaks:
                print(_told(summary), flush=True)


def _callbacks(options: argparse.Namespace, folder: Path) -> list[Any]:
    from exact_torch import _imports
    from exact_torch.train import TensorBoard

    found = [_imports.load_callable("callback", path) for path in options.callback]
    return [*found, TensorBoard(folder / "tensorboard")] if options.tensorboard else found


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
            _cli_arguments.grid_of(options.grid) or recipe.search[variant],
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
    if found := compare.differences(groups, options.baseline):
        print()
        print(compare.difference_table(found))
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


_COMMANDS: dict[str, Callable[[argparse.Namespace], None]] = {
    "train": _train,
    "search": _search,
    "compare": _compare,
    "predict": _predict,
    "export": _export,
    "recipes": _recipes,
}
