"""How sigma and the margin change over training, as numbers for a progress in [0, 1].

The values that have names are those of the later version of EXACT.  It gives variances for images:
from 100 to a floor that was tuned for each set.  Here sigma is a standard deviation; a variance
that is log-linear in progress has a square root that is, too.
"""

import math
from dataclasses import dataclass
from typing import Any

from exact_torch import _arguments
from mvnorth._interface import whole_number

__all__ = ["MarginSchedule", "SigmaSchedule"]

_FIRST_VARIANCE = 100.0
_LAST_VARIANCE = {"mnist": 1.0, "svhn": 1.0, "cifar10": 1.0, "cifar100": 1.0, "imagenet": 0.00272}
_MARGIN = {"mnist": 0.5, "svhn": 10.0, "cifar10": 0.5, "cifar100": 5.0, "imagenet": 3.25}


@dataclass(frozen=True)
class SigmaSchedule:
    """Standard deviation of the scores, log-linear in progress.

    Parameters
    ----------
    start, stop : float
        Values at progress 0 and 1, > 0.
    steps : int, optional
        Number of equal parts of training, at least 2, on each of which sigma is held; the first
        has ``start`` and the last ``stop``.  Without it sigma moves all the time.

    Examples
    --------
    >>> from exact_torch.schedules import SigmaSchedule
    >>> sigma = SigmaSchedule(10.0, 0.1)
    >>> [round(sigma(progress), 6) for progress in (0.0, 0.25, 0.5, 1.0)]
    [10.0, 3.162278, 1.0, 0.1]
    >>> sigma = SigmaSchedule(10.0, 0.1, steps=3)
    >>> [round(sigma(progress), 6) for progress in (0.0, 0.3, 0.4, 0.7, 1.0)]
    [10.0, 10.0, 1.0, 0.1, 0.1]
    """

    start: float
    stop: float
    steps: int | None = None

    def __post_init__(self) -> None:
        _set(self, "start", _arguments.number("start", self.start, above=0))
        _set(self, "stop", _arguments.number("stop", self.stop, above=0))
        _set(self, "steps", _steps(self.steps))

    @classmethod
    def from_variance(cls, start: float, stop: float, steps: int | None = None) -> "SigmaSchedule":
        """The schedule of the square root, where variances are given.

        Examples
        --------
        >>> from exact_torch.schedules import SigmaSchedule
        >>> SigmaSchedule.from_variance(100.0, 0.25)
        SigmaSchedule(start=10.0, stop=0.5, steps=None)
        """
        first, last = (
            _arguments.number("start", start, above=0),
            _arguments.number("stop", stop, above=0),
        )
        return cls(math.sqrt(first), math.sqrt(last), steps)

    @classmethod
    def named(cls, name: str) -> "SigmaSchedule":
        """The published one: "tabular", "mnist", "svhn", "cifar10", "cifar100" or "imagenet".

        Examples
        --------
        >>> from exact_torch.schedules import SigmaSchedule
        >>> SigmaSchedule.named("tabular")
        SigmaSchedule(start=10.0, stop=0.01, steps=16)
        >>> round(SigmaSchedule.named("imagenet").stop, 6)
        0.052154
        """
        if _arguments.choice("name", name, ("tabular", *_LAST_VARIANCE)) == "tabular":
            return cls(10.0, 0.01, steps=16)
        return cls.from_variance(_FIRST_VARIANCE, _LAST_VARIANCE[name])

    def __call__(self, progress: float) -> float:
        """Sigma when ``progress``, in [0, 1], of training is done."""
        return _log_linear(self.start, self.stop, _way(progress, self.steps))


@dataclass(frozen=True)
class MarginSchedule:
    """Margin of the loss over training; constant unless ``stop`` is given.

    Parameters
    ----------
    start : float, optional
        Margin at progress 0, >= 0.  None is no margin, all the time.
    stop : float, optional
        Margin at progress 1, >= 0.
    curve : {"linear", "log"}
        How it moves between them; "log" is log-linear and needs both above 0.
    steps : int, optional
        As for ``SigmaSchedule``.

    Examples
    --------
    >>> from exact_torch.schedules import MarginSchedule
    >>> MarginSchedule(0.5)(0.3)
    0.5
    >>> MarginSchedule(1.0, 5.0)(0.5)
    3.0
    >>> MarginSchedule(None)(0.5) is None
    True
    """

    start: float | None
    stop: float | None = None
    curve: str = "linear"
    steps: int | None = None

    def __post_init__(self) -> None:
        _arguments.choice("curve", self.curve, ("linear", "log"))
        if self.start is None and self.stop is not None:
            raise ValueError(f"stop must be None where start is, got {self.stop!r}")
        bound = "least" if self.curve == "linear" else "above"
        for name in ("start", "stop"):
            value = getattr(self, name)
            if value is not None:
                _set(self, name, _arguments.number(name, value, **{bound: 0.0}))
        _set(self, "steps", _steps(self.steps))

    @classmethod
    def named(cls, name: str) -> "MarginSchedule":
        """The published one: "mnist", "svhn", "cifar10", "cifar100" or "imagenet"; all constant.

        There is none for tabular sets, whose margins were searched for set by set.

        Examples
        --------
        >>> from exact_torch.schedules import MarginSchedule
        >>> MarginSchedule.named("imagenet")(0.5)
        3.25
        """
        return cls(_MARGIN[_arguments.choice("name", name, _MARGIN)])

    def __call__(self, progress: float) -> float | None:
        """The margin when ``progress``, in [0, 1], of training is done."""
        way = _way(progress, self.steps)
        if self.start is None or self.stop is None:
            return self.start
        if self.curve == "log":
            return _log_linear(self.start, self.stop, way)
        return (1.0 - way) * self.start + way * self.stop


def _set(schedule: Any, name: str, value: float | None) -> None:
    """A field of a frozen dataclass, which only its constructor may set."""
    object.__setattr__(schedule, name, value)


def _steps(steps: Any) -> int | None:
    return None if steps is None else whole_number("steps", steps, at_least=2)


def _way(progress: float, steps: int | None) -> float:
    """How far from start to stop, in [0, 1]."""
    done = _arguments.progress(progress)
    if steps is None:
        return done
    # A quotient such as 29/100 times 100 rounds to just below 29: a step must not come late.
    return min(math.floor(done * steps + 1e-9), steps - 1) / (steps - 1)


def _log_linear(start: float, stop: float, way: float) -> float:
    if way in (0.0, 1.0):  # the logarithm would round them
        return stop if way else start
    return math.exp((1.0 - way) * math.log(start) + way * math.log(stop))
