"""EXACT, later version: the table of linear models on UCI sets, seven losses, in four folds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from validation import data_sets
from validation.page import Finding, NotRun, Section, Text
from validation.page.content import Part, Verdict
from validation.paper.over_folds import Interval, compare_sizes, verdict, wilcoxon
from validation.paper.uci_linear_checks import (
    LEARNED,
    agreement_check,
    convergence,
    equivalence_check,
    one_hot_check,
    optimum_check,
    published_checks,
    standard_error,
)
from validation.paper.uci_linear_figures import comparison, details, differences, picture
from validation.paper.uci_linear_runs import LOSSES, RECIPE, agreement, excess, search_fold
from validation.paper.uci_linear_table import (
    METHODS,
    NAMES,
    NOT_AMONG_THE_121,
    PUBLISHED,
    Accuracies,
    published,
    published_lead,
)
from validation.reports import Results
from validation.running import Task

_TWO_CLASSES = ("breast-cancer-wisc-diag", "cylinder-bands")
_AGREEMENT = "side by side and alone"


@dataclass(frozen=True)
class Effort:
    """How much of the protocol is done; ``doubled``: folds that are also trained twice as long."""

    sets: tuple[str, ...]
    folds: int
    trials: int
    rounds: int
    steps: int
    doubled: int = 0


EFFORTS = {
    "small": Effort(("wine",), 2, 4, 8, 10, 1),
    "quick": Effort(("car", "cylinder-bands", "wine"), 2, 8, 16, 25),
    "full": Effort(tuple(PUBLISHED), 4, 20, 16, 150, 1),
}


def tasks(scale: str) -> list[Task]:
    effort = EFFORTS[scale]
    present = [name for name in effort.sets if data_sets.there(f"uci/{name}")]
    listed = [
        Task(_fold_name(name, fold), search_fold, _arguments(effort, name, fold))
        for name in present
        for fold in range(effort.folds)
    ]
    listed += [
        Task(_fold_name(name, fold, doubled=True), search_fold, _arguments(effort, name, fold, 2))
        for name in present
        for fold in range(effort.doubled)
    ]
    for name in _TWO_CLASSES:
        if data_sets.there(f"uci/{name}"):
            arguments = {"name": name, "rounds": 16, "steps": 100}
            listed.append(Task(_optimum_name(name), excess, arguments))
    if data_sets.there("uci/wine"):
        listed.append(Task(_AGREEMENT, agreement, {"steps": 12}))
    return listed


def _arguments(effort: Effort, name: str, fold: int, times: int = 1) -> dict[str, Any]:
    long = {"rounds": effort.rounds, "steps": times * effort.steps}
    return {"name": name, "fold": fold, "trials": effort.trials, "seed": fold, **long}


def _fold_name(name: str, fold: int, doubled: bool = False) -> str:
    return f"{name}, fold {fold}" + (", twice as long" if doubled else "")


def _optimum_name(name: str) -> str:
    return f"{name}, optimum of CE"


def section(results: Results, scale: str) -> Section:
    title = "Linear models on UCI sets (EXACT, later version)"
    effort = EFFORTS[scale]
    ours = _accuracies(results, effort)
    missing = _missing(ours.sets, scale)
    if not ours.sets:
        return Section(title, [*_training_checks(results), *missing])
    parts: list[Part] = [
        *_findings(ours, _with_longer(ours, results, effort), scale),
        Text(_protocol(effort, scale)),
        comparison(ours),
        picture(ours),
        differences(ours),
        Text(_remarks(ours)),
        details(ours),
        *_training_checks(results),
        *_accuracy_checks(ours, results, scale),
        *missing,
    ]
    return Section(title, parts, _answer(ours, scale))


def _accuracies(results: Results, effort: Effort, doubled: bool = False) -> Accuracies:
    """Return what the searches found, of the sets all of whose folds are done."""
    count = effort.doubled if doubled else effort.folds
    names = {
        name: [_fold_name(name, fold, doubled) for fold in range(count)] for name in effort.sets
    }
    return Accuracies(
        {
            name: [results[each] for each in tasks]
            for name, tasks in names.items()
            if tasks and all(each in results for each in tasks)
        }
    )


def _verdict(lead: Interval, scale: str) -> Verdict:
    """A reduced run decides nothing: it trains too short to refute, on too little to confirm."""
    return verdict(lead) if scale == "full" else "not decided"


def _with_longer(ours: Accuracies, results: Results, effort: Effort) -> Accuracies:
    """Return the accuracies with the splits that are trained twice as long in their place."""
    longer = _accuracies(results, effort, doubled=True).folds
    return Accuracies(
        {
            name: [*longer.get(name, ()), *folds[len(longer.get(name, ())) :]]
            for name, folds in ours.folds.items()
        }
    )


def _findings(ours: Accuracies, longer: Accuracies, scale: str) -> list[Part]:
    lead, before = ours.lead("exact", "ce"), published_lead(ours.sets)
    reduced = "" if scale == "full" else "; a reduced run"
    count = len(ours.sets)
    findings: list[Part] = [
        Finding(
            "Linear models on UCI sets: EXACT has a better mean accuracy than cross-entropy.",
            f"93.38 against 92.74 over ten sets; {before:+.2f} points over the {count} here "
            "(later version, table of linear models)",
            f"{lead} points over {count} sets (95 % interval over sets{reduced})"
            f"{compare_sizes(lead, before)}",
            _verdict(lead, scale),
        )
    ]
    names = [name for name in ("cylinder-bands", "car") if name in ours.sets]
    if len(names) == 2:
        leads = [ours.difference(name, "exact", "ce") for name in names]
        theirs = [published(name, "exact") - published(name, "ce") for name in names]
        both = _both(leads, scale)
        again = [longer.difference(name, "exact", "ce") for name in names]
        if _both(again, scale) != both:
            both = "not decided"  # it depends on how long is trained
        findings.append(
            Finding(
                "EXACT's lead on UCI sets comes from cylinder-bands and car.",
                f"{theirs[0]:+.2f} and {theirs[1]:+.2f} points (the same table)",
                f"{leads[0]} and {leads[1]} points (95 % intervals over splits{reduced}); "
                f"{again[0]} and {again[1]} with one split trained twice as long; our file of "
                "cylinder-bands lacks its first four columns",
                both,
            )
        )
    return findings


def _both(leads: Sequence[Interval], scale: str) -> Verdict:
    """Return the verdict on all leads together: one that does not hold is enough."""
    verdicts = {_verdict(lead, scale) for lead in leads}
    if "does not hold" in verdicts:
        return "does not hold"
    return "holds" if verdicts == {"holds"} else "not decided"


def _answer(ours: Accuracies, scale: str) -> str:
    lead, before = ours.lead("exact", "ce"), published_lead(ours.sets)
    order = sorted(LOSSES, key=ours.overall, reverse=True)
    p = wilcoxon(ours.differences("exact", "ce"))
    said = {
        "holds": "EXACT is better than cross-entropy",
        "does not hold": "EXACT is not better than cross-entropy",
        "not decided": "it is not decided whether EXACT is better than cross-entropy",
    }[_verdict(lead, scale)]
    best, worst = order[0], order[-1]
    return (
        f"For linear models, over {len(ours.sets)} UCI sets with a search in each split, "
        f"{said}: {lead} points (published {before:+.2f} on the same sets; Wilcoxon p = {p:.2g}). "
        f"{NAMES[best]} has the best mean accuracy of the seven losses "
        f"({ours.overall(best):.2f} %), {NAMES[worst]} the worst ({ours.overall(worst):.2f} %); "
        "cross-entropy has "
        f"{ours.overall('ce'):.2f} and scikit-learn's logistic regression "
        f"{ours.overall('sklearn'):.2f} %."
    )


def _protocol(effort: Effort, scale: str) -> str:
    full = EFFORTS["full"]
    text = (
        "Published protocol: standardised features, C - 1 linear outputs (class 0 scores 0), SGD "
        "with momentum 0.9 and batches of 256, 16 rounds of 500 steps, a learning rate that falls "
        "to 1e-4, one 80/20 split or the official test part, 20 random trials over weight "
        "decay, learning rate and clipping (EXACT: margin, and gradients divided by their average "
        f"norm), then 5 seeds. Ours, recipe `{RECIPE}`: the four 75/25 splits of the 121 "
        f"sets, each with its own search of {full.trials} trials and its own seed; trials are "
        "judged on a fifth of the split's training part, and if several are equally good the "
        "mean of their test accuracies counts; columns that UCI documents as categories are "
        f"one-hot; {full.rounds} rounds of {full.steps} steps, and one split trained twice as "
        "long to see whether that is enough. annealing is split like the others, without its "
        "official test file, which is scaled apart. scikit-learn's logistic regression is tuned "
        "over the same decays in the same way."
    )
    if scale != "full":
        text += (
            f" This run is reduced to {effort.trials} trials, {effort.rounds} rounds of "
            f"{effort.steps} steps and {effort.folds} splits of {len(effort.sets)} sets."
        )
    return text


def _remarks(ours: Accuracies) -> str:
    close = [
        abs(ours.mean(name, method) - published(name, method))
        <= 2 * standard_error(ours, name, method)
        for name in ours.sets
        for method in METHODS
    ]
    text = (
        f"{sum(close)} of {len(close)} numbers are within two standard errors of the published "
        "ones, if both test parts are independent draws. "
    )
    leads = {name: ours.difference(name, "exact", "ce") for name in ours.sets}
    apart = [f"{name} ({each})" for name, each in leads.items() if each.low > 0 or each.high < 0]
    text += (
        f"The interval of EXACT - CE on a single set excludes 0 on {', '.join(apart) or 'none'} "
        "(not adjusted for the number of sets). "
    )
    below = (
        max(ours.mean("annealing", each) for each in METHODS) if "annealing" in ours.sets else 100
    )
    if below < 98:
        text += (
            f"annealing stays below the published 100 % with every method (at most {below:.1f} %), "
            "scikit-learn included: the difference probably lies in the data (another split or "
            "another coding of the columns), not in the training. "
        )
    if "cylinder-bands" in ours.sets:
        text += (
            "The file of cylinder-bands lacks four columns of the original (time, cylinder, "
            "customer, job), which the published table may have used. "
        )
    worst = min(ours.sets, key=lambda name: ours.mean(name, LEARNED) - ours.mean(name, "ce"))
    values = ours.by_fold(worst, LEARNED)
    return text + (
        "The prior of Beta-Bernoulli is learned, as in the authors' code, and may go to 1, where "
        f"the loss is 0 for any network: on {worst} it has {values.min():.1f} to "
        f"{values.max():.1f} % in the splits. It is left out of the checks."
    )


def _training_checks(results: Results) -> list[Part]:
    """Checks of the training itself, without the searches."""
    checks: list[Part] = []
    if _AGREEMENT in results:
        checks.append(agreement_check(results[_AGREEMENT]))
    tasks_of = {name: _optimum_name(name) for name in _TWO_CLASSES}
    optima = {name: results[task] for name, task in tasks_of.items() if task in results}
    return [*checks, optimum_check(optima)] if optima else checks


def _accuracy_checks(ours: Accuracies, results: Results, scale: str) -> list[Part]:
    checks: list[Part] = [one_hot_check(ours)] if "car" in ours.sets else []
    checks += published_checks(ours)
    if scale != "full" or len(ours.sets) < 2:
        return checks
    checks.append(equivalence_check(ours))
    longer = _accuracies(results, EFFORTS[scale], doubled=True)
    if undone := [name for name in ours.sets if name not in longer.sets]:
        why = f"{len(undone)} of {len(ours.sets)} sets are not done: {', '.join(undone)}."
        command = 'python -m validation paper --full --only "twice as long"'
        return [*checks, NotRun("Linear models on UCI sets, trained twice as long", why, command)]
    return [*checks, convergence(ours, longer)]


def _missing(sets: Sequence[str], scale: str) -> list[Part]:
    left = [name for name in PUBLISHED if name not in sets]
    absent = [name for name in left if not data_sets.there(f"uci/{name}")]
    parts: list[Part] = [
        data_sets.missing(f"Linear models on {name}", f"uci/{name}") for name in absent
    ]
    if rest := [name for name in left if name not in absent]:
        command = f"exact-torch search {RECIPE}/{rest[0]}-exact --trials 20 --seeds 5"
        short = "Their tasks are not done." if scale == "full" else "Only the full report has them."
        why = f"{short} One cell of {rest[0]}:"
        parts.append(NotRun(f"Linear models on {', '.join(rest)}", why, command))
    if scale == "full":
        why = "They are not among the 121 sets that `uci/NAME` reads; give a table of your own."
        options = '--set data=csv --set \'data_options={"path": "FILE.csv"}\''
        command = f"exact-torch search {RECIPE}/wine-exact {options} --trials 20 --seeds 5"
        parts.append(NotRun(f"Linear models on {', '.join(NOT_AMONG_THE_121)}", why, command))
    return parts
