"""Draw a feasible polygon with draws of X in it: ``python docs/figures/polygons.py``.

Needs matplotlib.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import mvnorth

A = np.array([[-1.0, 0.0], [0.0, -1.0], [1.0, 1.0], [1.0, -2.0]])
b = np.array([0.0, 0.0, 3.0, 1.5])
CORNERS = np.array([[0.0, 0.0], [1.5, 0.0], [2.5, 0.5], [0.0, 3.0]])
MEAN, COV = np.array([1.0, 0.5]), np.array([[0.5, -0.2], [-0.2, 0.8]])


def main() -> None:
    assert np.all(b[:, None] + 1e-12 >= A @ CORNERS.T)
    plain = np.random.default_rng(0).multivariate_normal(MEAN, COV, size=1500)
    inside = np.asarray(mvnorth.sample_polytope(A, b, MEAN, COV, 1500))
    prob = mvnorth.polytope_prob(A, b, MEAN, COV)
    figure, axes = plt.subplots(1, 2, figsize=(8.0, 3.6), sharex=True, sharey=True)
    titles = (f"$X$; Pr$(AX \\leq b)$ = {prob:.4f}", "$X$ given $AX \\leq b$")
    for axis, draws, title in zip(axes, (plain, inside), titles, strict=True):
        axis.fill(*CORNERS.T, facecolor="#dde8f3", edgecolor="#4477aa", lw=1.5)
        axis.plot(*draws.T, ".", color="#cc3311", ms=1.5)
        axis.set_title(title, fontsize=10)
        axis.set_xlim(-1.5, 4.0)
        axis.set_ylim(-2.5, 3.5)
        axis.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(Path(__file__).with_suffix(".png"), dpi=140)


if __name__ == "__main__":
    main()
