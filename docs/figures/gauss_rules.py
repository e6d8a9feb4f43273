"""Draw Gauss rules of the normal below a limit: ``python docs/figures/gauss_rules.py``.

Nodes and weights are computed here, in plain numpy; needs matplotlib.
"""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

NODES = 5


def gauss_rule(b, n):
    """Nodes and weights for phi(y) / Phi(b), y < b (Stieltjes; Golub and Welsch)."""
    start = -np.sqrt(b * b + 80.0) if b < 0.0 else -9.0
    x, weight = np.polynomial.legendre.leggauss(400)
    y = 0.5 * (start + b) + 0.5 * (b - start) * x
    weight = weight * np.exp(-0.5 * (y * y - min(b, 0.0) ** 2))
    weight /= weight.sum()
    before, now = np.zeros_like(y), np.ones_like(y)
    diagonal, off = [], []
    for _ in range(n):
        diagonal.append(np.sum(weight * y * now * now))
        after = (y - diagonal[-1]) * now - (off[-1] if off else 0.0) * before
        off.append(np.sqrt(np.sum(weight * after * after)))
        before, now = now, after / off[-1]
    jacobi = np.diag(diagonal) + np.diag(off[:-1], 1) + np.diag(off[:-1], -1)
    nodes, vectors = np.linalg.eigh(jacobi)
    return nodes, vectors[0] ** 2


def main():
    limits = np.linspace(-8.0, 6.0, 281)
    nodes, weights = np.array([gauss_rule(b, NODES) for b in limits]).transpose(1, 2, 0)
    hermite, hermite_weights = np.polynomial.hermite_e.hermegauss(NODES)
    laguerre, laguerre_weights = np.polynomial.laguerre.laggauss(NODES)
    far = limits[limits < -2.5]
    figure = Figure(figsize=(9.0, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.fill_between(limits, limits, 7.0, color="#888888", alpha=0.12, lw=0.0)
    left.plot(limits, limits, color="#444444", lw=0.8)
    left.text(-7.5, 2.5, "y > b", color="#444444")
    for k in range(NODES):
        color = f"C{k}"
        left.plot(limits, nodes[k], color=color)
        left.plot(far, far - laguerre[NODES - 1 - k] / -far, ":", color="black", lw=0.8)
        left.plot([5.0, 6.0], [hermite[k]] * 2, "--", color="black", lw=0.8)
        right.semilogy(limits, weights[k], color=color)
        right.plot([-8.6], [laguerre_weights[NODES - 1 - k]], ">", color=color, ms=5)
        right.plot([6.6], [hermite_weights[k] / hermite_weights.sum()], "<", color=color, ms=5)
    left.set(xlabel="limit b", ylabel="node y", ylim=(-10.5, 6.5), title="nodes, n = 5")
    right.set(xlabel="limit b", ylabel="weight", title="weights")
    for axis in (left, right):
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(alpha=0.25)
    figure.savefig(Path(__file__).with_suffix(".png"), dpi=140)


if __name__ == "__main__":
    main()
