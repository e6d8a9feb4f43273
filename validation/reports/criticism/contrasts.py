"""Sections on the objective and on the noise: runs that are equal in everything else."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from validation.page import Check, Finding, Section, Table, Text
from validation.page.content import Verdict
from validation.reports.criticism.equal import (
    CE,
    EXACT,
    Contrast,
    Equal,
    contrast_table,
    differences,
    kinds,
)
from validation.reports.criticism.paired import interval, paired

SIGMAS = 4.0  # standard errors within which a mean must be
LOST = 0.5  # of the best accuracy: runs with less did not learn
EQUAL = 0.5  # points of accuracy: a smaller difference is none in practice

_OBJECTIVE = (
    Contrast("-log P minus 1 - P, normal noise", "normal, -log P", EXACT),
    Contrast("-log P minus 1 - P, Gumbel noise", CE, "Gumbel, 1 - P"),
    Contrast("-log of the mean P minus 1 - P, normal noise", "normal, -log of the mean P", EXACT),
)
_NOISE = (
    Contrast("normal minus Gumbel, -log P", "normal, -log P", CE),
    Contrast("normal minus Gumbel, 1 - P", EXACT, "Gumbel, 1 - P"),
)


def objective(runs: Sequence[Equal]) -> Section:
    """Return the section on -log P and 1 - P."""
    return Section(
        "-log P or 1 - P?",
        [
            Text(
                "The paper's first version trains -log P; its critic found that even worse than "
                "1 - P, reading it as the logarithm of the mean over the batch, and both worse "
                "than cross-entropy. The later version trains 1 - P. The runs are those above."
                + _lost(runs)
            ),
            contrast_table("The objective: differences of test accuracy, points", _OBJECTIVE, runs),
        ],
        answer=_answer(runs),
    )


def _lost(runs: Sequence[Equal]) -> str:
    """Count the runs of each arm with less than half of the accuracy of the best arm there."""
    counts: dict[str, int] = {}
    for run in runs:
        means = {arm: own["test"].mean(1) for arm, own in run.accuracies.items()}  # by rate
        best = np.max(list(means.values()), axis=0)
        for arm, values in means.items():
            counts[arm] = counts.get(arm, 0) + int((values < LOST * best).sum())
    listed = [f"{arm}: {count}" for arm, count in counts.items() if count]
    if not listed:
        return ""
    return (
        " Runs, by data set, recipe and learning rate, with less than half of the best loss's "
        f"accuracy: {'; '.join(listed)}. Far on the wrong side -log P grows like the square of the "
        "distance under normal noise, and like the distance under Gumbel noise."
    )


def noise(runs: Sequence[Equal], gumbel: Sequence[Sequence[float]]) -> Section:
    """Return the section on normal and Gumbel noise; ``gumbel`` compares softmax with samples."""
    distance = float(np.max([abs(row[3] - row[2]) / row[4] for row in gumbel]))
    rows = []
    for contrast in _NOISE:
        for recipe, steps in kinds(runs):
            values = list(differences(runs, contrast, recipe, steps).values())
            each = interval(values, 0.90)
            rows.append(
                [
                    contrast.title,
                    f"{recipe}, {steps} steps",
                    len(values),
                    str(each),
                    each.bound,
                    paired(values).wilcoxon,
                ]
            )
    return Section(
        "Normal or Gumbel noise?",
        [
            Text(
                "With Gumbel noise in place of normal noise the expected accuracy is the softmax: "
                "-log P is cross-entropy with a temperature, 1 - P the expectation loss. The "
                "critic asks what normal noise is better for. The runs are those above; Gumbel "
                "noise has the standard deviation sigma, and so a temperature schedule where sigma "
                f"has one. Differences below {EQUAL:g} points are taken as none in practice: that "
                "bound was chosen before the runs."
            ),
            *([noise_finding(runs)] if runs else []),
            Table(
                "Softmax as expected accuracy under Gumbel noise",
                ["classes", "sigma", "P by softmax", "share of samples", "standard error"],
                gumbel,
                "Share of samples in which the label wins.",
            ),
            Table(
                "Normal minus Gumbel noise: within which bound are they equal?",
                [
                    "difference",
                    "recipe",
                    "data sets",
                    "points (90 % interval)",
                    "equal within, points",
                    "p, Wilcoxon",
                ],
                rows,
                "Two one-sided tests at 5 %: the mean difference is shown to be smaller than the "
                "end of the 90 % interval that is farther from 0. Learning rates, splits and "
                "models of a data set are averaged first, and the interval is over data sets.",
                cite="criticism-noise",
            ),
            Check(
                f"P under Gumbel noise is within {SIGMAS:g} standard errors of the share of "
                "samples in which the label wins.",
                distance < SIGMAS,
                f"Largest distance: {distance:.2f} standard errors, of {len(gumbel)} cases.",
            ),
        ],
        answer=_noise_answer(runs),
    )


def _noise_answer(runs: Sequence[Equal]) -> str:
    parts = []
    for contrast in reversed(_NOISE):
        for recipe, steps in dict(kinds(runs)).items():
            values = list(differences(runs, contrast, recipe, steps).values())
            each, bound = interval(values), interval(values, 0.90).bound
            if np.isnan(bound):
                return ""
            said = f"equal within {bound:.2f} points"
            if each.low > 0 or each.high < 0:
                said = f"{'better' if each.low > 0 else 'worse'}, {each} points"
            parts.append(f"{said} ({contrast.objective}, {recipe})")
    return f"Normal noise compared with Gumbel noise, longest runs: {'; '.join(parts)}."


def noise_finding(runs: Sequence[Equal]) -> Finding:
    """Return whether normal noise is better than Gumbel noise for EXACT's 1 - P."""
    last = dict(kinds(runs))
    wide = {
        recipe: list(differences(runs, _NOISE[1], recipe, steps).values())
        for recipe, steps in last.items()
    }
    usual = {recipe: interval(values) for recipe, values in wide.items()}
    bounds = {recipe: interval(values, 0.90).bound for recipe, values in wide.items()}
    verdict: Verdict = "not decided"
    if all(each.low > 0 for each in usual.values()):
        verdict = "holds"
    elif all(bound < EQUAL for bound in bounds.values()) or all(
        each.high < 0 for each in usual.values()
    ):
        verdict = "does not hold"
    return Finding(
        "Normal noise trains 1 - P to a higher accuracy than the Gumbel noise of softmax.",
        "EXACT takes normal noise without a comparison; the critic asks for one (kexue.fm 9098)",
        "; ".join(
            f"{recipe}, {last[recipe]} steps: {each} points, equal within {bounds[recipe]:.2f}"
            for recipe, each in usual.items()
        ),
        verdict,
    )


def _answer(runs: Sequence[Equal]) -> str:
    parts = []
    for contrast in (_OBJECTIVE[0], _OBJECTIVE[2]):
        own = []
        for recipe, steps in dict(kinds(runs)).items():
            values = list(differences(runs, contrast, recipe, steps).values())
            own.append(f"{interval(values)} points {recipe} ({paired(values).verdict})")
        parts.append(f"{contrast.title}, is {' and '.join(own)}")
    return f"In the longest runs {'; '.join(parts)}."
