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
    for part, style in (("train", "-"), ("validation", "--")):
        left.plot(*_series(metrics, part, "loss"), style, color="C0", label=part)
        middle.plot(*_series(metrics, part, "accuracy"), style, color="C0", label=part)
        middle.plot(
            *_series(metrics, part, "expected_accuracy"),
            style,
            color="C1",
            label=f"{part}, expected",
        )
    epochs = [each["epoch"] for each in metrics]
    right.plot(epochs, [each["lr"] for each in metrics], color="C2", label="learning rate")
    sigma = _series(metrics, "train", "sigma")
    if sigma[0]:
        right.plot(*sigma, color="C3", label="sigma")
    right.set_yscale("log")
    for axis, name in ((left, "loss"), (middle, "accuracy"), (right, "")):
        axis.set(xlabel="epoch", title=name)
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
    """Accuracy of several settings against epochs: a line a run, a colour a setting."""
    figure, (left, right) = _figure(2, 5.0, 3.4 + 0.22 * len(groups))
    for number, (name, runs) in enumerate(groups.items()):
        for index, metrics in enumerate(runs):
            label = name if index == 0 else None
            for axis, part in ((left, "train"), (right, "validation")):
                axis.plot(
                    *_series(metrics, part, "accuracy"),
                    color=f"C{number % 10}",
                    label=label,
                    alpha=0.8,
                )
    left.set(xlabel="epoch", title="accuracy in training")
    right.set(xlabel="epoch", title="accuracy on the validation set")
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", frameon=False)
    _save(figure, path)
