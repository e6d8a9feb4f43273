"""What a person sees while a network is trained: a bar, or a line an epoch."""

import sys
import time
from collections.abc import Mapping
from typing import Any

from tqdm import tqdm

__all__ = ["Progress"]


class Progress:
    """A bar for all steps on a terminal; else plain lines, one an epoch.

    Parameters
    ----------
    steps, done : int
        Steps of the whole run, and those that a checkpoint has.
    epochs : int
    batch : int
        Examples of a step.
    quiet : bool
        Say nothing.
    """

    def __init__(self, steps: int, done: int, epochs: int, batch: int, quiet: bool = False) -> None:
        self.steps, self.epochs, self.batch, self.quiet = steps, epochs, batch, quiet
        terminal = sys.stderr.isatty() and not quiet
        self.bar = tqdm(total=steps, initial=done, unit="step", disable=not terminal)
        self.first, self.began = done, time.monotonic()

    def rate(self, step: int) -> float:
        """Examples a second since this process began."""
        return (step - self.first) * self.batch / max(time.monotonic() - self.began, 1e-9)

    def step(self, step: int, epoch: int, measured: Mapping[str, float | None]) -> None:
        """A step is done."""
        self.bar.set_description(f"epoch {epoch}/{self.epochs}", refresh=False)
        self.bar.set_postfix_str(f"{_text(measured)}, {self.rate(step):.0f} ex/s", refresh=False)
        self.bar.update(step - self.bar.n)

    def epoch(self, step: int, measured: dict[str, Any]) -> None:
        """An epoch is done."""
        if self.quiet:
            return
        left = (self.steps - step) * self.batch / max(self.rate(step), 1e-9)
        line = f"epoch {measured['epoch']}/{self.epochs}  {_text(measured['train'])}"
        if measured["validation"] is not None:
            line += f"  validation {_text(measured['validation'])}"
        line += f"  lr {measured['lr']:.3g}  {self.rate(step):.0f} ex/s  {_clock(left)} left"
        self.bar.write(line, file=sys.stdout)
        sys.stdout.flush()

    def close(self) -> None:
        self.bar.close()


def _text(measured: Mapping[str, float | None]) -> str:
    names = {"accuracy": "acc", "expected_accuracy": "expected", "gradient_norm": "gradient"}
    shown = {names.get(name, name): value for name, value in measured.items()}
    return ", ".join(f"{name} {value:.4g}" for name, value in shown.items() if value is not None)


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(int(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{seconds:02d}"
