"""Draw class probabilities as sigma shrinks: ``python docs/figures/class_probabilities.py``.

Needs matplotlib.
"""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import mvnorth

SCORES = np.array([1.0, 0.7, 0.2, -0.5, -1.0])


def main():
    sigma = np.geomspace(0.02, 20.0, 120)
    probabilities = np.array([mvnorth.prob_argmax(SCORES, each) for each in sigma])
    figure = Figure(figsize=(6.4, 3.4), layout="constrained")
    axis = figure.add_subplot()
    for score, probability in zip(SCORES, probabilities.T, strict=True):
        axis.plot(sigma, probability, lw=1.6, label=f"score {score:g}")
    axis.axhline(1 / len(SCORES), color="#888888", lw=0.8, ls="--")
    axis.set(xscale="log", xlabel="σ", ylabel="probability to be the largest")  # noqa: RUF001
    axis.invert_xaxis()
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(frameon=False)
    figure.savefig(Path(__file__).with_suffix(".png"), dpi=140)


if __name__ == "__main__":
    main()
