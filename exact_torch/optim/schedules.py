"""Learning rates over epochs, by torch's schedulers, all stepped in one way.

Those that depend on the epoch alone are functions of it, factors of the optimiser's own rate:
the first epoch has number 0, the last epochs - 1.
"""

import inspect
import math
from collections.abc import Callable, Sequence
from numbers import Integral
from typing import Any

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR, ReduceLROnPlateau

from exact_torch import _arguments
from mvnorth._interface import whole_number

__all__ = ["LrSchedule", "lr_schedule"]


class LrSchedule:
    """One of torch's schedulers with one ``step`` for all; made by ``lr_schedule``.

    Parameters
    ----------
    scheduler : torch.optim.lr_scheduler.LambdaLR or ReduceLROnPlateau
        What is stepped.
    by_batch : bool
        Whether it is stepped after each batch, by ``step_batch``, and not after each epoch.

    Examples
    --------
    >>> import torch
    >>> from exact_torch.optim import lr_schedule
    >>> optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)
    >>> schedule = lr_schedule("plateau", optimizer, epochs=9, patience=0, factor=0.5)
    >>> for accuracy in (0.8, 0.7):
    ...     schedule.step(accuracy)
    >>> optimizer.param_groups[0]["lr"]
    0.05
    """

    def __init__(self, scheduler: LambdaLR | ReduceLROnPlateau, by_batch: bool = False) -> None:
        self.scheduler, self.by_batch = scheduler, by_batch

    def step_batch(self) -> None:
        """After each batch; only "one_cycle" moves."""
        if self.by_batch:
            self.scheduler.step()

    def step(self, metric: float | None = None) -> None:
        """At the end of an epoch; only "plateau" looks at the metric, and it needs one."""
        if self.by_batch:
            return
        if not isinstance(self.scheduler, ReduceLROnPlateau):
            self.scheduler.step()
        elif metric is None:
            raise ValueError("metric must be given to the schedule 'plateau', got None")
        else:
            self.scheduler.step(float(metric))

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint needs, beside the optimiser's."""
        return dict(self.scheduler.state_dict())

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from what ``state_dict`` returned."""
        self.scheduler.load_state_dict(state)

    def refresh(self) -> None:
        """Set the learning rate to what this schedule has now, after the state of a shorter one."""
        scheduler = self.scheduler
        if isinstance(scheduler, LambdaLR):
            for group, base, factor in zip(
                scheduler.optimizer.param_groups,
                scheduler.base_lrs,
                scheduler.lr_lambdas,
                strict=True,
            ):
                group["lr"] = base * factor(scheduler.last_epoch)


def lr_schedule(
    name: str, optimizer: Optimizer, epochs: int, *, epoch_steps: int = 1, **options: Any
) -> LrSchedule:
    """Learning rates of ``optimizer`` over ``epochs`` epochs.

    Parameters
    ----------
    name : str
        "constant";
        "plateau": times ``factor`` (0.3) after more than ``patience`` (10) epochs in a row that did
        not improve the metric by ``threshold`` (1e-4), never below ``final`` (0); ``mode`` is
        "max" (the default) for a metric that is better when larger, as accuracy, "min" for a loss;
        "exponential": log-linear to ``final`` (1e-4) in the last epoch;
        "multistep": times ``gamma`` (0.1) before each of the ``milestones``, which are whole
        numbers of epochs or parts of training in (0, 1);
        "cosine": half a cosine, to ``final`` (0) after the last epoch, after ``warmup`` (0)
        epochs of linear growth;
        "one_cycle": up from ``start`` (0.04) times the learning rate to it, over ``warmup`` (0.3)
        of training, and down to ``final`` (1e-4) times it, as cosines, step by step.
    optimizer : torch.optim.Optimizer
        Its learning rate is that of the first epoch, or after warming up.
    epochs : int
        Number of epochs.
    epoch_steps : int
        Batches of an epoch, for "one_cycle".
    **options
        As above.

    Returns
    -------
    LrSchedule
        ``step(metric)`` at the end of each epoch; ``state_dict`` and ``load_state_dict``.

    Examples
    --------
    >>> import torch
    >>> from exact_torch.optim import lr_schedule
    >>> optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)
    >>> schedule = lr_schedule("multistep", optimizer, epochs=4, milestones=[0.5])
    >>> rates = []
    >>> for epoch in range(4):
    ...     rates.append(round(optimizer.param_groups[0]["lr"], 6))
    ...     optimizer.step()
    ...     schedule.step()
    >>> rates
    [0.1, 0.1, 0.01, 0.01]
    """
    count = whole_number("epochs", epochs, at_least=1)
    _arguments.choice("name", name, _SCHEDULES)
    by_batch = name == "one_cycle"
    if by_batch:
        count *= whole_number("epoch_steps", epoch_steps, at_least=1)
    known = list(inspect.signature(_SCHEDULES[name]).parameters)[2:]
    for option in options:
        if option not in known:
            listed = ", ".join(known) or "none"
            raise TypeError(f"schedule {name!r} has no option {option!r}; it has {listed}")
    return LrSchedule(_SCHEDULES[name](optimizer, count, **options), by_batch)


def _constant(optimizer: Optimizer, epochs: int) -> LambdaLR:
    return LambdaLR(optimizer, lambda epoch: 1.0)


def _plateau(
    optimizer: Optimizer,
    epochs: int,
    factor: float = 0.3,
    patience: int = 10,
    threshold: float = 1e-4,
    mode: str = "max",
    final: float = 0.0,
) -> ReduceLROnPlateau:
    return ReduceLROnPlateau(
        optimizer,
        mode=_arguments.choice("mode", mode, ("max", "min")),
        factor=_arguments.number("factor", factor, above=0, below=1),
        patience=whole_number("patience", patience, at_least=0),
        threshold=_arguments.number("threshold", threshold, least=0),
        # Of accuracies and losses alike: relative ones stop to mean anything near 0.
        threshold_mode="abs",
        min_lr=_arguments.number("final", final, least=0),
        eps=0.0,
    )


def _exponential(optimizer: Optimizer, epochs: int, final: float = 1e-4) -> LambdaLR:
    ratio = _arguments.number("final", final, above=0) / _rate(optimizer)
    return LambdaLR(optimizer, lambda epoch: ratio ** min(epoch / max(epochs - 1, 1), 1.0))


def _multistep(
    optimizer: Optimizer, epochs: int, milestones: Sequence[float] = (), gamma: float = 0.1
) -> LambdaLR:
    drop = _arguments.number("gamma", gamma, above=0)
    if isinstance(milestones, str) or not isinstance(milestones, Sequence) or not milestones:
        raise ValueError(f"milestones must be epochs or parts of training, got {milestones!r}")
    when = [_milestone(each, epochs) for each in milestones]
    return LambdaLR(optimizer, lambda epoch: drop ** sum(epoch >= each for each in when))


def _milestone(value: Any, epochs: int) -> int:
    if isinstance(value, Integral):
        return whole_number("milestones", value, at_least=1)
    return round(_arguments.number("milestones", value, above=0, below=1) * epochs)


def _cosine(optimizer: Optimizer, epochs: int, warmup: int = 0, final: float = 0.0) -> LambdaLR:
    first = whole_number("warmup", warmup, at_least=0)
    if first >= epochs:
        raise ValueError(f"warmup must be less than epochs={epochs}, got {warmup}")
    ratio = _arguments.number("final", final, least=0) / _rate(optimizer)

    def factor(epoch: int) -> float:
        if epoch < first:
            return (epoch + 1) / (first + 1)
        done = min((epoch - first) / (epochs - first), 1.0)
        return ratio + (1.0 - ratio) * 0.5 * (1.0 + math.cos(math.pi * done))

    return LambdaLR(optimizer, factor)


def _one_cycle(
    optimizer: Optimizer, steps: int, warmup: float = 0.3, start: float = 0.04, final: float = 1e-4
) -> LambdaLR:
    peak = _arguments.number("warmup", warmup, above=0, below=1) * steps
    first = _arguments.number("start", start, above=0, most=1)
    last = _arguments.number("final", final, least=0, most=1)

    def factor(step: int) -> float:
        if step < peak:
            low, high, done = first, 1.0, 1.0 - step / peak
        else:
            low, high, done = last, 1.0, min((step - peak) / (steps - peak), 1.0)
        return low + (high - low) * 0.5 * (1.0 + math.cos(math.pi * done))

    return LambdaLR(optimizer, factor)


def _rate(optimizer: Optimizer) -> float:
    """What ``final`` is compared with: the first group's rate; others keep their ratio to it."""
    return float(optimizer.param_groups[0]["lr"])


_SCHEDULES: dict[str, Callable[..., LambdaLR | ReduceLROnPlateau]] = {
    "constant": _constant,
    "plateau": _plateau,
    "exponential": _exponential,
    "multistep": _multistep,
    "cosine": _cosine,
    "one_cycle": _one_cycle,
}
