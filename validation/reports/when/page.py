"""Section on the losses: a table with advice, differences with tests, pictures and checks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from validation import data_sets
from validation.page import Check, Picture, Section, Table, Text
from validation.page.content import Part
from validation.page.figures import axes
from validation.reports import Results
from validation.reports.when import findings, tell
from validation.reports.when.comparisons import Accuracies, Comparison, compare
from validation.reports.when.problems import DEVELOPMENT, IMAGES, RATES, is_there

NAMES = ("CE", "CE normalised", "hinge", "GCE", "1 - softmax", "nll", "robust", "CE then robust")
_OTHERS = tuple(name for name in NAMES if name not in ("CE", "robust"))
_ENOUGH = 20  # data sets, to draw conclusions from
_BEHIND = 10.0  # points behind cross-entropy, on clean data in the mean: that a loss trains at all


def section(results: Results, cells: Sequence[Any]) -> Section:
    """Return the section on the results of the tasks, of which some may be missing."""
    found = accuracies(results)
    tables = _only(found, tables=True)
    against_ce = compare(tables, [(name, "CE") for name in NAMES if name != "CE"])
    of_robust = compare(tables, [("robust", name) for name in _OTHERS])
    sets = _least_sets(tables)
    enough = sets >= _ENOUGH
    every = [*against_ce, *of_robust]
    over_enough = [each for each in every if each.sets >= _ENOUGH]
    source = findings.of_this_run(over_enough) if enough else findings.stored()
    first, answer = findings.opening(source)
    parts: list[Part] = [first, Text(_protocol(cells))]
    if against_ce:
        cite = "when-" if enough else ""  # docs cite full runs only
        parts += [
            _what_to_use(against_ce),
            tell.losses(tables, against_ce, NAMES, cite),
            tell.robust(against_ce, cite),
            tell.rivals(of_robust, cite),
            tell.all_comparisons(every),
            *_pictures(against_ce),
        ]
    if images := _only(found, tables=False):
        parts.append(tell.images(results, images, NAMES, "when-" if enough else ""))
    parts += [*_checks(results, found), *_conclusions(tables, against_ce), *_missing(cells)]
    return Section("When should I use EXACT?", parts, answer=answer)


def _least_sets(tables: Accuracies) -> int:
    """Return the number of data sets of the condition that has fewest, of those findings need."""
    sets = tables.get("linear", {})
    return min(len(sets.get(each, ())) for each in ("clean", "outliers", "one-sided 40 %"))


def accuracies(results: Results) -> dict[str, dict[str, dict[str, dict[str, float]]]]:
    """Return mean test accuracies in percent, by model, condition, data set and loss."""
    found: dict[str, dict[str, dict[str, dict[str, float]]]] = {}
    for task, conditions in results.items():
        model, _, name = task.partition(", ")
        if name:
            for condition, losses in conditions.items():
                found.setdefault(model, {}).setdefault(condition, {})[name] = {
                    loss: 100.0 * float(np.mean(own["test"])) for loss, own in losses.items()
                }
    return found


def _only(found: Accuracies, tables: bool) -> Accuracies:
    """Return the results of tables, or those of images."""
    kept = {
        model: {
            condition: {name: own for name, own in sets.items() if (name not in IMAGES) == tables}
            for condition, sets in conditions.items()
        }
        for model, conditions in found.items()
    }
    return {
        model: shown
        for model, conditions in kept.items()
        if (shown := {condition: sets for condition, sets in conditions.items() if sets})
    }


def _protocol(cells: Sequence[Any]) -> str:
    first = cells[0]
    fewer = [
        f"{cell.model} on {', '.join(cell.sets)} has {cell.trials} trials, {cell.splits} splits "
        f"and {cell.steps} steps"
        for cell in cells
        if cell.trials < 16
    ]
    return (
        f"Every loss is tuned on every split of every data set by the same {first.trials} trials: "
        "learning rates from 0.001 to 0.3 and weight decays from 1e-5 to 0.1, drawn once. The "
        "trial that is best on the validation part, whose labels and inputs have the faults of the "
        "training part, is tested on clean data. Numbers are means over splits. Tests are "
        "Wilcoxon's over data sets, and p is adjusted by Holm's method over all models and "
        "conditions in which the same two losses are compared. AdamW, batches of 32, "
        f"{first.steps} steps, a rate that falls as a cosine. The MLP has 32 hidden units. Losses "
        "have their default options: GCE has q = 0.7, `robust` is `ExactLoss.robust`, `nll` is "
        '`exact_loss` as it is; "1 - softmax" and "CE normalised" are `robust` with Gumbel noise, '
        'and the same with -log P and no margin; "CE then robust" changes the loss after half of '
        "the steps. Symmetric noise replaces that share of all labels by other classes; one-sided "
        "noise labels that share of the largest class as the second largest; outliers: a tenth of "
        "the inputs is replaced by normal noise with ten times the deviation; imbalance: a fifth "
        "is left of every class but the largest, and accuracy is the mean over classes; cubed "
        "features leave the classes as separable as they were, but not by a linear model. "
        f"{len(DEVELOPMENT)} other sets were used to choose the options of `robust`."
        + (f" Reduced: {'; '.join(fewer)}." if fewer else "")
    )


def _what_to_use(compared: Sequence[Comparison]) -> Table:
    rows = []
    groups: dict[tuple[str, str], list[Comparison]] = {}
    for each in compared:
        groups.setdefault((each.model, each.condition), []).append(each)
    for (model, condition), group in groups.items():
        better = sorted((each for each in group if each.verdict == "better"), key=_minus_mean)
        worse = [each for each in group if each.verdict == "worse"]
        (robust,) = (each for each in group if each.loss == "robust")
        rows.append(
            [
                condition,
                model,
                ", ".join(f"{each.loss} ({each.mean:+.1f})" for each in better) or "none",
                ", ".join(f"{each.loss} ({each.mean:+.1f})" for each in worse) or "none",
                f"{robust.mean:+.1f} ({robust.low:+.1f} to {robust.high:+.1f})",
                robust.adjusted,
            ]
        )
    return Table(
        "What to use",
        ["data", "model", "better than CE", "worse than CE", "`robust` minus CE", "p (Holm)"],
        rows,
        "Better and worse: after correction, with the mean difference in points of test accuracy. "
        "Where nothing is better, use cross-entropy.",
    )


def _minus_mean(each: Comparison) -> float:
    return -each.mean


def _pictures(compared: Sequence[Comparison]) -> list[Picture]:
    """Return pictures for linear models: difference from CE against the share of wrong labels."""
    pictures = []
    for kind in ("symmetric", "one-sided"):
        own = {(each.loss, each.condition): each for each in compared if each.model == "linear"}
        points = [(0, "clean"), *((rate, f"{kind} {rate} %") for rate in RATES)]
        if not all(("robust", condition) in own for _, condition in points):
            continue
        title = f"Linear models, {kind} label noise"
        figure, ax = axes(xlabel="wrong labels, %", ylabel="difference from cross-entropy, points")
        rows = []
        for name in NAMES[1:]:
            line = [own[name, condition] for _, condition in points]
            shares = [share for share, _ in points]
            means = [each.mean for each in line]
            bars = [
                [each.mean - each.low for each in line],
                [each.high - each.mean for each in line],
            ]
            shown = {"linewidth": 2.5} if name == "robust" else {"linewidth": 1.0}
            if name in ("robust", "GCE", "nll"):
                ax.errorbar(shares, means, yerr=bars, label=name, capsize=3, **shown)
            else:
                ax.plot(shares, means, label=name, **shown)
            rows += [[name, share, each.mean] for share, each in zip(shares, line, strict=True)]
        ax.axhline(0.0, color="black", linewidth=0.8)
        ax.legend(fontsize=7)
        table = Table(title, ["loss", "wrong labels, %", "difference"], rows)
        caption = "Mean over data sets; bars are 95 % intervals, of three of the losses."
        pictures.append(Picture(title, figure, table, caption))
    return pictures


def _checks(results: Results, found: Accuracies) -> list[Check]:
    checks = []
    if "stacked and alone" in results:
        apart = results["stacked and alone"]
        worst = max(apart, key=apart.__getitem__)
        checks.append(
            Check(
                "Training many networks in one stacked tensor gives the same networks as torch's "
                "own layers, AdamW and loss modules: scores differ by less than 1e-8 of the "
                "largest, for all losses.",
                set(apart) == set(NAMES) and all(each < 1e-8 for each in apart.values()),
                f"At most {apart[worst]:.1e}, for {worst}.",
            )
        )
    for model, conditions in found.items():
        # Four trials of 100 steps, as convolutional networks have them, need not suit every loss.
        if (clean := conditions.get("clean")) and model != "CNN":
            means = {name: float(np.mean([own[name] for own in clean.values()])) for name in NAMES}
            worst = min(means, key=means.__getitem__)
            checks.append(
                Check(
                    f"All losses train ({model}): on clean data they are at most {_BEHIND:.0f} "
                    "points behind cross-entropy in the mean over sets.",
                    all(mean >= means["CE"] - _BEHIND for mean in means.values()),
                    f"{worst} has {means[worst]:.1f} %, cross-entropy {means['CE']:.1f} %.",
                )
            )
    return checks


def _conclusions(tables: Accuracies, compared: Sequence[Comparison]) -> list[Check]:
    """Return checks of what the documentation says of linear models, if there are enough sets."""
    own = {(each.loss, each.condition): each for each in compared if each.model == "linear"}
    if _least_sets(tables) < _ENOUGH:
        return []
    bounded = ("robust", "1 - softmax", "GCE")
    verdicts = {name: own[name, "outliers"].verdict for name in (*bounded, "nll")}
    better = [name for name in NAMES[1:] if own[name, "clean"].verdict == "better"]
    return [
        Check(
            "With outliers in the inputs bounded losses (`robust`, 1 - softmax, GCE) are better "
            "than cross-entropy for linear models, and `nll` is worse.",
            all(verdicts[name] == "better" for name in bounded) and verdicts["nll"] == "worse",
            ", ".join(
                f"{name}: {own[name, 'outliers'].mean:+.1f} points, "
                f"p = {own[name, 'outliers'].adjusted:.2g}"
                for name in verdicts
            )
            + ".",
        ),
        Check(
            "On clean data no loss is better than cross-entropy for linear models.",
            not better,
            f"Better: {', '.join(better) or 'none'}.",
        ),
    ]


def _missing(cells: Sequence[Any]) -> list[Part]:
    absent = sorted({name for cell in cells for name in cell.sets if not is_there(name)})
    return [data_sets.missing(f"Losses on {name}", name) for name in absent]
