"""What the report on EXACT says of errors: against 40 digits, a trapezoid and sampled scores."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np

from validation.page import Check, NotRun, Section, Table, Text
from validation.page.content import Part
from validation.reports.exact.measurements import ENOUGH
from validation.reports.parts import NOT_YET

Cells: TypeAlias = dict[tuple[int, float], list[Any]]  # results of examples by (C, P)
SIGMAS = 4.0  # standard errors within which a mean must be


class Digits(NamedTuple):
    """Errors against 40 digits; of the gradient in the Euclidean norm and relative."""

    classes: int
    prob: float
    double_value: float
    double_gradient: float
    single_value: float
    single_gradient: float


class Distances(NamedTuple):
    """Errors against a trapezoid, and distances from means of samples in standard errors."""

    classes: int
    prob: float
    example: int
    value_error: float
    gradient_error: float
    sampled: float
    drawn: float
    drawn_gradient: float | None  # None where there are too few draws for a standard error


def distances(values: Cells, gradients: Cells) -> list[Distances]:
    """Return a row for each example that has results of both kinds."""
    rows = []
    for (classes, prob), results in values.items():
        paired = zip(results, gradients.get((classes, prob), []), strict=False)
        for example, (value, slope) in enumerate(paired):
            along = slope["noise"]["1"]
            enough = slope["count"] >= ENOUGH
            rows.append(
                Distances(
                    classes,
                    prob,
                    example,
                    value["reference_error"],
                    slope["reference_error"],
                    _distance(value["sampled"], value["prob"]),
                    _distance(value["drawn"], value["prob"]),
                    along["prob_bias"] / along["prob_bias_error"] if enough else None,
                )
            )
    return rows


def _distance(mean: dict[str, float], prob: float) -> float:
    return (mean["mean"] - prob) / max(mean["error"], 1e-300)


def largest(rows: list[Any], column: str) -> float:
    """Return the largest absolute value of a column; NaN if one is, so that a check fails."""
    values = [getattr(row, column) for row in rows]
    return float(np.max([abs(value) for value in values if value is not None], initial=0.0))


def section(digits: list[Digits], rows: list[Distances]) -> Section:
    missing = NotRun("Errors", "Some have no result yet.", "python -m validation exact --full")
    parts: list[Part] = [
        *([] if digits and rows else [missing]),
        Text(
            "An example has C - 1 competitors with scores N(0, 1), and the label's score is raised "
            "or lowered until P is what the table says, from easy to hopeless. The value is "
            "compared with a trapezoid of 4001 nodes, with the share of wins in sampled scores, "
            "and with the mean of the published draws; the gradient with the trapezoid and with "
            "the mean of the published draws for it, along the gradient. A few are compared with "
            "40 digits."
        ),
        Table(
            "Errors against 40 digits",
            ["classes C", "P", "-log P, double", "gradient, double", "-log P, single",
             "gradient, single"],
            digits,
            "Of the value absolute, of the gradient in the Euclidean norm and relative.",
            cite="exact-digits",
        ),
        Table(
            "Errors against a trapezoid and distances from means of samples",
            ["classes C", "P", "example", "error of -log P", "error of gradient",
             "sampled scores, standard errors", "published draws, standard errors",
             "published gradients, standard errors"],
            rows,
            "Distances are in standard errors of the mean: within 4 nothing is wrong. Draws of the "
            f"gradient are skewed: of fewer than {ENOUGH} the standard error says little, and "
            "there is no distance.",
        ),
        *_checks(digits, rows),
    ]  # fmt: skip
    return Section("Is it right?", parts, answer(digits, rows))


def answer(digits: list[Digits], rows: list[Distances]) -> str:
    """Return what came out, in one or two sentences."""
    if not digits:
        return NOT_YET
    exact = max(largest(digits, "double_value"), largest(digits, "double_gradient"))
    single = max(largest(digits, "single_value"), largest(digits, "single_gradient"))
    first = (
        f"`exact_loss` and its gradient differ from 40 digits by at most {exact:.0e} in double and "
        f"{single:.0e} in single precision."
    )
    if not rows:
        return first
    far = max(largest(rows, "sampled"), largest(rows, "drawn"))
    agrees = "agrees with" if far < SIGMAS else "does not agree with"
    return (
        f"{first} The value {agrees} sampled scores and with the published draws: the largest "
        f"distance is {far:.1f} standard errors in {len(rows)} examples."
    )


def _checks(digits: list[Digits], rows: list[Distances]) -> list[Check]:
    compared = sum(row.drawn_gradient is not None for row in rows)
    double, single, trapezoid = (
        [largest(of, column) for column in columns]
        for of, columns in (
            (digits, ("double_value", "double_gradient")),
            (digits, ("single_value", "single_gradient")),
            (rows, ("value_error", "gradient_error")),
        )
    )
    sampled, drawn, gradient = (
        largest(rows, column) for column in ("sampled", "drawn", "drawn_gradient")
    )
    against_digits = [
        Check(
            "Value and gradient in double precision agree with 40 digits to 1e-13.",
            bool(digits) and all(error < 1e-13 for error in double),
            f"Largest errors: {double[0]:.1e} and {double[1]:.1e}.",
        ),
        Check(
            "In single precision they agree to 3e-6.",
            bool(digits) and all(error < 3e-6 for error in single),
            f"Largest errors: {single[0]:.1e} and {single[1]:.1e}.",
        ),
    ]
    against_samples = [
        Check(
            "Value and gradient agree with the trapezoid to 1e-11 for all C and P.",
            bool(rows) and all(error < 1e-11 for error in trapezoid),
            f"Largest errors: {trapezoid[0]:.1e} and {trapezoid[1]:.1e}.",
        ),
        Check(
            f"The value is within {SIGMAS:g} standard errors of the share of sampled scores in "
            "which the label wins.",
            bool(rows) and sampled < SIGMAS,
            f"Largest distance: {sampled:.2f} of {len(rows)}.",
        ),
        Check(
            f"The mean of the published draws of P is within {SIGMAS:g} standard errors of the "
            "value.",
            bool(rows) and drawn < SIGMAS,
            f"Largest distance: {drawn:.2f} of {len(rows)}.",
        ),
        Check(
            f"The mean of the published draws of P's gradient is within {SIGMAS:g} standard errors "
            f"of the gradient, along it, where there are {ENOUGH} or more.",
            compared > 0 and gradient < SIGMAS,
            f"Largest distance: {gradient:.2f} of {compared}.",
        ),
    ]
    return [*(against_digits if digits else []), *(against_samples if rows else [])]
