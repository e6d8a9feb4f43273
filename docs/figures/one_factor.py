"""Draw the one-factor integrand with the nodes of its rule: ``python docs/figures/one_factor.py``.

Everything is computed here from the formulas, in plain numpy; needs matplotlib.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import brentq
from scipy.special import log_ndtr

STEP, SKEW, LEAST = 0.55, 1.2, 0.18


def mills(x):
    return np.exp(-0.5 * x * x - 0.5 * np.log(2.0 * np.pi) - log_ndtr(x))


def log_integrand(z, m):
    """log of phi(z) prod Phi(m_i + z), up to a constant, for c = v = 1."""
    return -0.5 * z**2 + np.sum(log_ndtr(m + z[:, None]), axis=1)


def nodes(m):
    """The first 32 nodes of the rule, and dz/dt there."""
    mode = brentq(lambda z: np.sum(mills(m + z)) - z, -50.0, 50.0)
    h = mills(m + mode)
    r = m + mode + h
    width = (1.0 + np.sum(h * r)) ** -0.5
    kappa = np.sum(h * (r * (r + h) - 1.0)) * width**3 / 3.0
    a = max(SKEW * abs(kappa), LEAST)
    t = STEP * (np.arange(32) - 15.5)
    z = mode + width / a * (np.sinh(a * t) + kappa / a * (np.cosh(a * t) - 1.0))
    return z, width * (np.cosh(a * t) + kappa / a * np.sinh(a * t)), width


def main():
    cases = {
        "two classes, equal": np.zeros(1),
        "1000 classes, equal": np.zeros(999),
        "one at $-6$, 998 at $+3$": np.concatenate([[-6.0], np.full(998, 3.0)]),
    }
    figure, axes = plt.subplots(2, 3, figsize=(9.5, 4.6), sharey="row", layout="constrained")
    for (title, m), (plain, logs) in zip(cases.items(), axes.T, strict=True):
        z, _, width = nodes(m)
        fine = np.linspace(z[0], z[-1], 2000)
        top = log_integrand(fine, m).max()
        curve, points = (np.exp(log_integrand(x, m) - top) for x in (fine, z))
        centre = fine[np.argmax(curve)]
        for axis in (plain, logs):
            axis.plot(fine, curve, color="#4477aa", lw=1.5)
            axis.plot(z, points, "o", color="#cc3311", ms=3.5)
            axis.spines[["top", "right"]].set_visible(False)
        plain.set_xlim(centre - 6.0 * width, centre + 6.0 * width)
        plain.set_title(title, fontsize=10)
        logs.set_yscale("log")
        logs.set_ylim(1e-18, 10.0)
        seen = fine[curve > 1e-18]
        logs.set_xlim(seen[0] - 0.5, seen[-1] + 0.5)
        logs.set_xlabel("$z$")
    axes[0, 0].set_ylabel("integrand")
    axes[1, 0].set_ylabel("integrand, log scale")
    figure.savefig(Path(__file__).with_suffix(".png"), dpi=140)


if __name__ == "__main__":
    main()
