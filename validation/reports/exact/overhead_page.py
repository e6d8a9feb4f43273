"""What the report on EXACT says of a training step of ResNet-34."""

from __future__ import annotations

import numpy as np

from validation.page import Check, Finding, NotRun, Section, Table, Text
from validation.page.content import Part, Verdict
from validation.reports import Results
from validation.reports.exact import overhead
from validation.reports.exact.overhead import CLASSES, LOSSES, SAMPLES, Step
from validation.reports.intervals import Mean, mean_of
from validation.reports.parts import NOT_YET

PUBLISHED_FEWER = 8.0  # % fewer samples a second, section 5.4
MOST_FEWER = 10.0  # "about 10 %", sections 6 and 7
PAPER_PIXELS = 256
_COMMAND = "python -m validation exact --full"


def fewer_samples(steps: list[Step], loss: str) -> Mean:
    """Return how many samples a second a loss loses beside cross-entropy, in %, over steps.

    A step with another loss is that with cross-entropy with its own loss's time in place of
    cross-entropy's, so that the network's variation from step to step is not in the difference.
    """
    lost = []
    for step in steps:
        base = step.step["cross-entropy"]
        longer = step.loss[loss] - step.loss["cross-entropy"]
        lost.append(100.0 * longer / (base + longer))
    return mean_of(lost)


def section(results: Results, scale: str) -> Section:
    title = "A training step of ResNet-34"
    settings = {
        setting: [Step(*step) for step in results[name]]
        for setting in overhead.SETTINGS[scale]
        if (name := f"overhead: {setting.pixels} pixels") in results
    }
    if not settings:
        missing = NotRun("Seconds of a step", "No stored results yet.", _COMMAND)
        return Section(title, [missing], NOT_YET)
    lost = {
        (setting.pixels, loss): fewer_samples(steps, loss)
        for setting, steps in settings.items()
        for loss in LOSSES
    }
    rows = [
        [
            setting.pixels,
            setting.rows,
            loss,
            1e3 * float(np.mean([step.step[loss] for step in steps])),
            1e3 * float(np.mean([step.loss[loss] for step in steps])),
            None if loss == "cross-entropy" else _percent(lost[setting.pixels, loss]),
        ]
        for setting, steps in settings.items()
        for loss in LOSSES
    ]
    ours = [lost[setting.pixels, "exact_loss"] for setting in settings]
    theirs = {setting.pixels: lost[setting.pixels, "published"] for setting in settings}
    figures = "; ".join(
        f"at {setting.pixels} pixels {_percent(theirs[setting.pixels])} with the published "
        f"estimate and {_percent(lost[setting.pixels, 'exact_loss'])} with `exact_loss`"
        for setting in settings
    )
    parts: list[Part] = [
        Finding(
            f"EXACT costs ResNet-34 with {CLASSES} classes at most about a tenth of its training "
            f"speed, with N = {SAMPLES} draws and images of {PAPER_PIXELS} pixels.",
            f"{PUBLISHED_FEWER:g} % fewer samples a second, \"about 10 %\" in all, on a V100 "
            "(v1, sections 5.4 and 6)",
            f"fewer samples a second, one CPU core: {figures}",
            _overhead_verdict(theirs.get(PAPER_PIXELS)),
        ),
        Text(
            "Steps of SGD with random images, one CPU thread, the losses taken in turn; the time "
            "of a loss is that from the scores to their gradient. The paper's images for ResNet "
            "have 256 pixels, its batches 256 images, on a GPU: there the network is far faster "
            "relative to the loss's many small operations, so the two figures need not agree. "
            "32 pixels are the native size of CIFAR's images. Intervals are over steps."
        ),
        Table(
            f"A step of ResNet-34, C = {CLASSES}, N = {SAMPLES}",
            ["pixels", "images", "loss", "step, ms", "loss and its gradient, ms",
             "fewer samples a second (95 % interval)"],
            rows,
            cite="exact-overhead",
        ),
        Check(
            "With `exact_loss` a step of ResNet-34 loses less than 3 % of the samples a second, "
            "and less than half of what the published estimate loses.",
            all(each.mean < 3.0 for each in ours)
            and all(
                lost[s.pixels, "exact_loss"].mean < theirs[s.pixels].mean / 2 for s in settings
            ),
            figures[0].upper() + figures[1:] + ".",
        ),
    ]  # fmt: skip
    return Section(title, parts, f"Fewer samples a second than with cross-entropy: {figures}.")


def _percent(lost: Mean) -> str:
    return f"{lost.mean:.2g} % ({lost.low:.2g} to {lost.high:.2g})"


def _overhead_verdict(published: Mean | None) -> Verdict:
    if published is None or published.low <= MOST_FEWER < published.high:
        return "not decided"
    return "holds" if published.high <= MOST_FEWER else "does not hold"
