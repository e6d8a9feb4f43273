"""Pictures of runs, written whole or not at all."""

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from exact_torch.train import checkpoint

__all__ = ["comparison", "confusion", "draw"]

Measured = Sequence[Mapping[str, Any]]


def _figure(columns: int, width: float = 4.2, height: float = 3.2) -> tuple[Any, list[Any]]:
    # The object interface: pyplot would look for a screen and keep figures.
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width * columns, height), layout="constrained")
    axes = [figure.add_subplot(1, columns, column + 1) for column in range(columns)]
    for axis in axes:
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(alpha=0.25)
    return figure, axes


def _epochs(axis: Any) -> None:
    """Label an axis of epochs, which are whole numbers; a single one is in the middle."""
    from matplotlib.ticker import MaxNLocator

    axis.set_xlabel("epoch")
    axis.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    low, high = axis.dataLim.intervalx
    if low == high:
        axis.set_xlim(low - 0.5, high + 0.5)


def _marker(epochs: Sequence[int]) -> str:
    """Dots where there are so few epochs that lines alone would not be seen."""
    return "o" if len(epochs) < 10 else ""


def _save(figure: Any, path: Path) -> None:
    buffer = io.BytesIO()
    figure.savefig(buffer, format=path.suffix[1:] or "png", dpi=120)
    checkpoint.write_bytes(path, buffer.getvalue())


def _series(metrics: Measured, part: str, name: str) -> tuple[list[int], list[float]]:
    """Epochs and values, where a part was measured and has the value."""
    rows = [(each["epoch"], (each[part] or {}).get(name)) for each in metrics]
    known = [(epoch, value) for epoch, value in rows if value is not None]
    return [epoch for epoch, _ in known], [value for _, value in known]


def draw(metrics: Measured, path: Path, title: str) -> None:
    """Loss, accuracy and expected accuracy, sigma and learning rate against epochs."""
    figure, (left, middle, right) = _figure(3)
    epochs = [each["epoch"] for each in metrics]
    drawn: dict[str, Any] = {"marker": _marker(epochs), "markersize": 5}
    for part, style, fill in (("train", "-", "full"), ("validation", "--", "none")):
        for axis, name, color, label in (
            (left, "loss", "C0", part),
            (middle, "accuracy", "C0", part),
            (middle, "expected_accuracy", "C1", f"{part}, expected"),
        ):
            series = _series(metrics, part, name)
            if series[0]:
                axis.plot(*series, style, color=color, label=label, fillstyle=fill, **drawn)
    rates = [each["lr"] for each in metrics]
    right.plot(epochs, rates, color="C2", label="learning rate", **drawn)
    sigma = _series(metrics, "train", "sigma")
    if sigma[0]:
        right.plot(*sigma, color="C3", label="sigma", **drawn)
    right.set_yscale("log")
    for axis, name in ((left, "loss"), (middle, "accuracy"), (right, "")):
        axis.set_title(name)
        _epochs(axis)
        axis.legend(fontsize="small", frameon=False)
    right.set_title("learning rate" if not sigma[0] else "learning rate and sigma")
    figure.suptitle(title)
    _save(figure, path)


def confusion(counts: Sequence[Sequence[int]], classes: Sequence[str], path: Path) -> None:
    """How often each class was taken for which; shares of the row, numbers where there is room."""
    size = len(classes)
    figure, (axis,) = _figure(1, min(2.5 + 0.4 * size, 14.0), min(2.0 + 0.4 * size, 13.0))
    axis.grid(False)
    shares = [[each / max(sum(row), 1) for each in row] for row in counts]
    picture = axis.imshow(shares, cmap="Blues", vmin=0.0, vmax=1.0)
    figure.colorbar(picture, ax=axis, shrink=0.8)
    axis.set(xlabel="predicted", ylabel="class")
    if size <= 20:
        axis.set_xticks(range(size), classes, rotation=90)
        axis.set_yticks(range(size), classes)
        for i, row in enumerate(counts):
            for j, each in enumerate(row):
                if each:
                    color = "white" if shares[i][j] > 0.5 else "black"
                    axis.text(j, i, each, ha="center", va="center", fontsize=7, color=color)
    _save(figure, path)


def comparison(groups: Mapping[str, Sequence[Measured]], path: Path) -> None:
    """Accuracy of several settings against epochs: means over seeds, and the range they span."""
    figure, (left, right) = _figure(2, 5.0, 3.6 + 0.22 * len(groups))
    for number, (name, runs) in enumerate(groups.items()):
        color = f"C{number % 10}"
        for axis, part in ((left, "train"), (right, "validation")):
            epochs, means, lows, highs = _over_runs(runs, part)
            if epochs:
                axis.plot(epochs, means, color=color, label=name, marker=_marker(epochs))
                axis.fill_between(epochs, lows, highs, color=color, alpha=0.2, linewidth=0)
    left.set_title("accuracy in training")
    right.set_title("accuracy on the validation set")
    for axis in (left, right):
        _epochs(axis)
    count = max(map(len, groups.values()))
    if count > 1:
        figure.suptitle(f"means of up to {count} seeds, and the range they span")
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", frameon=False)
    _save(figure, path)


def _over_runs(
    runs: Sequence[Measured], part: str
) -> tuple[list[int], list[float], list[float], list[float]]:
    """Epochs that were measured, with the mean, the least and the largest accuracy of the runs."""
    values: dict[int, list[float]] = {}
    for metrics in runs:
        for epoch, value in zip(*_series(metrics, part, "accuracy"), strict=True):
            values.setdefault(epoch, []).append(value)
    epochs = sorted(values)
    means = [sum(values[epoch]) / len(values[epoch]) for epoch in epochs]
    lows, highs = ([limit(values[epoch]) for epoch in epochs] for limit in (min, max))
    return epochs, means, lows, highs
