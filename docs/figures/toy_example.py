"""Draw the losses of the toy example over its threshold: ``python docs/figures/toy_example.py``.

Three points, f(x) = k (x - b). Everything is computed here from the formulas, in plain numpy;
needs matplotlib.
"""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from scipy.special import ndtr

X = np.array([-0.25, 0.0, 0.25])
LABEL = np.array([-1.0, -1.0, 1.0])
LOSSES = {
    "cross-entropy": lambda f: np.logaddexp(0.0, -f),
    "hinge": lambda f: np.maximum(0.0, 1.0 - f),
    "EXACT, σ = 0.05": lambda f: 1.0 - ndtr(f / (0.05 * np.sqrt(2.0))),  # noqa: RUF001
}


def main():
    b = np.linspace(-0.6, 1.2, 721)
    figure = Figure(figsize=(9.0, 3.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    for axis, k, names in (
        (left, 1.0, LOSSES),
        (right, 20.0, [name for name in LOSSES if not name.startswith("EXACT")]),
    ):
        axis.axvspan(0.0, 0.25, color="#44aa77", alpha=0.18, lw=0)
        for name in names:
            mean = np.mean(
                [LOSSES[name](y * k * (x - b)) for x, y in zip(X, LABEL, strict=True)], 0
            )
            mean /= mean.max()
            (line,) = axis.plot(b, mean, lw=1.6, label=name)
            axis.plot(b[mean.argmin()], mean.min(), "o", color=line.get_color())
        axis.plot(X, np.zeros(3), "k|", ms=10)
        axis.spines[["top", "right"]].set_visible(False)
        axis.legend(frameon=False)
        axis.set(xlabel="threshold b", title=f"f(x) = {'x − b' if k == 1 else f'{k:g}(x − b)'}")  # noqa: RUF001
    left.set_ylabel("loss, of its largest value")
    figure.savefig(Path(__file__).with_suffix(".png"), dpi=140)


if __name__ == "__main__":
    main()
