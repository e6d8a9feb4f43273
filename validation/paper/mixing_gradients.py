"""Mixing CE and EL: figure 1 and what the paper says of the two losses as functions of p_y."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import torch

from exact_torch import losses
from exact_torch.losses.mixing import weights
from validation.page import Check, NotRun, Picture, Section, Table, Text, axes
from validation.page.content import Part
from validation.paper.mixing_training import scaled_rate
from validation.reports import Results
from validation.running import Task

FOCI = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)
_GRID = 2000
_TASK = "gradients"


class Weights(NamedTuple):
    """alpha and beta of a curve."""

    alpha: float
    beta: float


CURVES = {
    "CE": Weights(1.0, 0.0),
    **{f"F = {each:g}": Weights(*weights(each)) for each in FOCI[:-1]},
    "EL (F = 0.5)": Weights(0.0, 1.0),
}


def tasks(scale: str) -> list[Task]:
    """Return one task: gradients are quick."""
    return [Task(_TASK, gradients, {"classes": 10})]


def gradients(classes: int) -> dict[str, Any]:
    """Return gradients of ``ce_el`` in the logits at many values of p_y, by autograd.

    Returns
    -------
    dict
        "p", values of p_y; and by curve "true", the absolute gradient in the label's logit, and
        "error", the largest difference from eq. 13 of all logits.
    """
    p = torch.linspace(0.0, 1.0, _GRID + 1, dtype=torch.float64)[1:-1]
    rest = torch.linspace(1.0, 2.0, classes - 1, dtype=torch.float64)  # not all alike
    others = (1.0 - p)[:, None] * rest / rest.sum()
    labels = torch.zeros(len(p), dtype=torch.long)
    curves = {}
    for name, (alpha, beta) in CURVES.items():
        logits = torch.cat([p[:, None], others], 1).log().requires_grad_()
        (came,) = torch.autograd.grad(losses.ce_el(logits, labels, alpha, beta).sum(), logits)
        published = torch.cat(
            [
                (beta * p**2 + p * (alpha - beta) - alpha)[:, None],
                others * (beta * p + alpha)[:, None],
            ],
            1,
        )
        curves[name] = {
            "true": came[:, 0].abs().tolist(),
            "error": (came - published).abs().max().item(),
        }
    return {"p": p.tolist(), "curves": curves}


def remainder(p: float) -> float:
    """Return CE - EL at p_y, the remainder of eq. 11.

    >>> round(remainder(0.25), 3)
    0.636
    """
    return -math.log(p) - (1.0 - p)


def section(results: Results, scale: str) -> Section:
    """Return figure 1, where the gradients are largest, and the claims about CE and EL."""
    title = "Mixing CE and EL: figure 1 and two statements about the losses"
    if _TASK not in results:
        return Section(
            title, [NotRun(title, "Its task is not done.", "python -m validation paper")]
        )
    curves = [
        Curve(name, *CURVES[name], results[_TASK]["p"], each["true"], each["error"])
        for name, each in results[_TASK]["curves"].items()
    ]
    factors = [scaled_rate((phase + 0.5) / len(FOCI)) for phase in range(len(FOCI))]
    apart = [abs(2 * each.area - m) for each, m in zip(curves[1:], factors, strict=True)]
    worst = max(abs(each.peak - each.published_peak) for each in curves)
    parts: list[Part] = [
        Text(
            "Figure 1 of the paper shows the absolute gradient of alpha CE + beta EL in the logit "
            "of the label. It is largest at p_y = F, which is how the paper chooses alpha = 1 and "
            "beta = 1 / (1 - 2F). The curves here are gradients of `losses.ce_el` by autograd."
        ),
        _picture(curves),
        _peaks(curves),
        Check(
            "Gradients of `losses.ce_el` in all logits are those of eq. 13, to 1e-12.",
            all(each.error < 1e-12 for each in curves),
            f"At most {max(each.error for each in curves):.1e}.",
        ),
        Check(
            "The gradient is largest at p_y = F (eq. 14), to the step of the grid.",
            worst <= 1.001 / _GRID,
            f"At most {worst:.1e} away.",
        ),
        Check(
            "The factors of the learning rate in the control (CE with a scaled rate) are twice the "
            "areas under the curves (eq. 20 and 21), to 2e-3.",
            max(apart) < 2e-3,
            f"At most {max(apart):.1e} away.",
        ),
        _claims(),
    ]
    return Section(title, parts, _answer())


class Curve(NamedTuple):
    """A curve of figure 1: weights, values of p_y, absolute gradients, distance from eq. 13."""

    name: str
    alpha: float
    beta: float
    p: list[float]
    gradient: list[float]
    error: float

    @property
    def peak(self) -> float:
        """Return where the gradient is largest."""
        return self.p[int(np.argmax(self.gradient))]

    @property
    def published_peak(self) -> float:
        """Return (1 - alpha/beta) / 2, not below the least value of p_y."""
        focus = 0.5 * (1 - self.alpha / self.beta) if self.beta else 0.0
        return max(focus, self.p[0])

    @property
    def area(self) -> float:
        """Return the integral of the absolute gradient over p_y."""
        return float(np.trapezoid(self.gradient, self.p))


def _picture(curves: list[Curve]) -> Picture:
    figure, ax = axes(xlabel="$p_y$", ylabel="absolute gradient in the label's logit")
    for number, each in enumerate(curves):
        ax.plot(each.p, each.gradient, color=f"C{number}", label=each.name)
    ax.legend(fontsize=7)
    step = _GRID // 20
    rows = [
        [curves[0].p[index], *(each.gradient[index] for each in curves)]
        for index in range(step - 1, len(curves[0].p), step)
    ]
    table = Table("", ["p_y", *(each.name for each in curves)], rows)
    caption = "alpha = 1 and beta = 1 / (1 - 2F); EL has alpha = 0, beta = 1."
    return Picture("Figure 1 of the mixing paper", figure, table, caption)


def _peaks(curves: list[Curve]) -> Table:
    rows = [
        [each.name, each.alpha, each.beta, each.peak, max(each.gradient), 2 * each.area]
        for each in curves
    ]
    header = ["loss", "alpha", "beta", "p_y of the largest gradient", "largest gradient"]
    return Table("Figure 1 in numbers", [*header, "area over that of CE (M)"], rows)


class Claim(NamedTuple):
    """What the paper says of the remainder CE - EL where p_y is in an interval, and what is so."""

    where: str
    published: str
    ours: str
    right: bool


def claims() -> list[Claim]:
    """Return the published bounds on CE - EL and on CE - 1 beside their values.

    Both fall with p_y, so that the end of the interval decides.
    """
    sure, wrong = remainder(0.75), remainder(0.25)
    apart = -math.log(0.25) - 1.0
    return [
        Claim("3/4 to 1", "CE - EL at most 0.055", f"at most {sure:.3f}", sure <= 0.055),
        Claim("0 to 1/4", "CE - EL at least 4.5", f"at least {wrong:.3f}", wrong >= 4.5),
        Claim("0 to 1/4", "CE - 1 at least 3.5", f"at least {apart:.3f}", apart >= 3.5),
    ]


def _claims() -> Table:
    rows = [[*each[:3], "holds" if each.right else "does not hold"] for each in claims()]
    reached = 0.0
    for _ in range(50):  # -log p - (1 - p) = 4.5
        reached = math.exp(reached - 5.5)
    note = (
        "The paper puts the worst value of xi, 1/4, in place of the one that Taylor's theorem has. "
        f"A difference of 4.5 is reached at p_y = {reached:.4f}. That CE is far above 1 - p_y for "
        "small p_y is right; how far is overstated."
    )
    header = ["p_y", "published (after eq. 11)", "exact", "statement"]
    return Table("CE and EL as approximations of each other", header, rows, note)


def _answer() -> str:
    wrong = [each for each in claims() if not each.right]
    return (
        "Gradients of the mixture are those published, largest at p_y = F. Of three published "
        f"bounds on CE - EL and CE - 1, {len(wrong)} do not hold: "
        + "; ".join(
            f"for p_y from {each.where}, {each.published}, is {each.ours}" for each in wrong
        )
        + "."
    )
