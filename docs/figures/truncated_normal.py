"""Draw a truncated normal with its moments: ``python docs/figures/truncated_normal.py``.

Needs matplotlib.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import mvnorth

LOWER, UPPER = np.array([0.5, -1.0]), np.array([3.0, 1.0])
COV = np.array([[1.0, 0.8], [0.8, 1.5]])


def ellipse(mean, cov, scale=1.0):
    """Points at a distance of ``scale`` deviations."""
    angle = np.linspace(0.0, 2.0 * np.pi, 200)
    circle = np.stack([np.cos(angle), np.sin(angle)])
    return mean[:, None] + scale * np.linalg.cholesky(cov) @ circle


def main():
    moments = mvnorth.box_moments(LOWER, UPPER, 0.0, COV)
    axes_of = [np.linspace(a, b, 161) for a, b in zip(LOWER, UPPER, strict=True)]
    grid = np.stack(np.meshgrid(*axes_of, indexing="ij"), axis=-1)
    density = mvnorth.box_density(grid, LOWER, UPPER, 0.0, COV, (0, 1)).density
    figure, (plane, lines) = plt.subplots(1, 2, figsize=(8.4, 3.4), layout="constrained")
    plane.contourf(*axes_of, density.T, levels=12, cmap="Blues")
    plane.plot(*ellipse(np.zeros(2), COV), color="0.6", lw=1.2, label="normal")
    plane.plot(0.0, 0.0, "o", color="0.6", ms=4)
    plane.plot(*ellipse(moments.mean, moments.cov), color="#cc3311", lw=1.6, label="truncated")
    plane.plot(*moments.mean, "o", color="#cc3311", ms=4)
    plane.set(xlabel="$X_1$", ylabel="$X_2$", xlim=(-1.6, 3.2), ylim=(-1.9, 1.9))
    plane.legend(frameon=False, fontsize=9, loc="upper left")
    for i, colour in enumerate(("#4477aa", "#228833")):
        x = np.linspace(LOWER[i] - 0.4, UPPER[i] + 0.4, 800)
        marginal = mvnorth.box_density(x, LOWER, UPPER, 0.0, COV, i)
        lines.plot(x, marginal.density, color=colour, lw=1.6, label=f"$X_{i + 1}$")
        lines.axvline(moments.mean[i], color=colour, lw=0.8, ls="--")
    lines.set(xlabel="value", ylabel="density between the limits", ylim=(0.0, None))
    lines.legend(frameon=False, fontsize=9)
    for axis in (plane, lines):
        axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(Path(__file__).with_suffix(".png"), dpi=130)


if __name__ == "__main__":
    main()
