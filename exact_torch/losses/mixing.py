"""Cross-entropy mixed with the expectation loss, in shares that change during training.

Battash, Wolf and Hazan (2021).  The gradient of alpha CE + beta EL in z_y is largest where p_y is
F = (1 - alpha/beta) / 2; a schedule says which F to look at when.
"""

from __future__ import annotations

from bisect import bisect_right

from torch import Tensor

from exact_torch import _arguments
from exact_torch._arguments import number
from exact_torch.losses._logits import checked
from exact_torch.losses._module import Loss
from exact_torch.losses.cross_entropy import ce
from exact_torch.losses.expectation import expectation

SCHEDULES: dict[str, tuple[tuple[float, float], ...]] = {
    "0": ((0.0, 0.0),),
    "0,0.5": ((0.0, 0.0), (0.95, 0.5)),
    "0-0.5": tuple((phase / 6, phase / 10) for phase in range(6)),
}
"""The published schedules: the progress at which a phase begins, and its F."""


def focus(schedule: str, progress: float) -> float:
    """F of a published schedule when this much of training is done.

    Parameters
    ----------
    schedule : {"0", "0,0.5", "0-0.5"}
        F = 0 throughout; 0, and 0.5 for the last 5 %; 0, 0.1, ..., 0.5 in six equal phases.
    progress : float
        From 0 to 1, epochs done over epochs in all.

    Returns
    -------
    float

    Examples
    --------
    >>> [focus("0-0.5", epoch / 12) for epoch in (0, 1, 2, 11)]
    [0.0, 0.0, 0.1, 0.5]
    """
    if schedule not in SCHEDULES:
        raise ValueError(f"schedule must be one of {sorted(SCHEDULES)}, got {schedule!r}")
    phases = SCHEDULES[schedule]
    begins = [begin for begin, _ in phases]
    return phases[bisect_right(begins, _arguments.progress(progress)) - 1][1]


def weights(focus: float) -> tuple[float, float]:
    """alpha and beta for an F in [0, 0.5]: 1 and 1 / (1 - 2F), or 0 and 1 at F = 0.5.

    Examples
    --------
    >>> weights(0.0), weights(0.4), weights(0.5)
    ((1.0, 1.0), (1.0, 5.0...), (0.0, 1.0))
    """
    number("focus", focus, least=0, most=0.5)
    return (1.0, 1 / (1 - 2 * focus)) if focus < 0.5 else (0.0, 1.0)


def ce_el(
    logits: Tensor, labels: Tensor, alpha: float = 1.0, beta: float = 1.0, hard: bool = False
) -> Tensor:
    """Cross-entropy and expectation loss, -alpha log p_y + beta (1 - p_y).

    Parameters
    ----------
    logits : (B, C) Tensor
    labels : (B,) Tensor of integers
    alpha, beta : float
        At least 0.
    hard : bool
        The authors' expectation loss, see ``expectation``.

    Returns
    -------
    (B,) Tensor

    Examples
    --------
    >>> import torch
    >>> ce_el(torch.zeros(1, 2), torch.tensor([0]), beta=2.0)  # log(2) + 1
    tensor([1.6931])
    """
    number("alpha", alpha, least=0)
    number("beta", beta, least=0)
    logits = checked(logits, labels)
    return alpha * ce(logits, labels) + beta * expectation(logits, labels, hard)


class Mixing(Loss):
    """``ce_el`` with weights that follow a schedule, or are given.

    Call ``set_progress`` before each epoch.

    Parameters
    ----------
    schedule : {"0", "0,0.5", "0-0.5"}, optional
        See ``focus``; "0" if there are no weights either.
    alpha, beta : float, optional
        Fixed weights in place of a schedule; 1 if only the other one is given.
    hard : bool
        The authors' expectation loss, see ``expectation``.
    reduction, weight, ignore_index
        See ``Loss``.

    Examples
    --------
    >>> from exact_torch import losses
    >>> loss = losses.get("ce_el", schedule="0-0.5")
    >>> loss.set_progress(0.5)
    >>> loss
    Mixing(ce_el, alpha=1.0, beta=2.5, hard=False, reduction='mean')
    """

    def __init__(
        self,
        schedule: str | None = None,
        alpha: float | None = None,
        beta: float | None = None,
        hard: bool = False,
        reduction: str = "mean",
        weight: Tensor | None = None,
        ignore_index: int = -100,
    ) -> None:
        fixed = alpha is not None or beta is not None
        if fixed and schedule is not None:
            raise ValueError("ce_el takes a schedule or the weights alpha and beta, not both")
        alpha = 1.0 if alpha is None else number("alpha", alpha, least=0)
        beta = 1.0 if beta is None else number("beta", beta, least=0)
        options = {"alpha": alpha, "beta": beta, "hard": hard}
        super().__init__(ce_el, options, reduction, weight, ignore_index)
        self.schedule = None if fixed else schedule or "0"
        self.set_progress(0.0)

    def set_progress(self, progress: float) -> None:
        """Take the weights of this progress, from 0 to 1."""
        _arguments.progress(progress)
        if self.schedule is not None:
            self.option_alpha, self.option_beta = weights(focus(self.schedule, progress))
