"""Draw errors of Gauss rules beside the lattice: ``python docs/figures/gauss_errors.py``.

Problems have two common factors, over which the answers are integrated; needs matplotlib.
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure

import mvnorth
from validation.oracles.common_factors import log_prob, random_factors

BUDGETS = np.unique(np.logspace(1.0, 6.0, 60).astype(int))
POINTS = 2 ** np.arange(8, 21, 2)
SEEDS = range(8)


class Case(NamedTuple):
    """d, the mean of the limits, and the least share of a coordinate's own variance."""

    label: str
    d: int
    level: float
    own: float


CASES = (
    Case("d = 4", 4, 0.8, 0.2),
    Case("d = 6", 6, 0.8, 0.2),
    Case("d = 8", 8, 0.8, 0.2),
    Case("d = 5, nearly singular", 5, 0.8, 0.01),
    Case("d = 10, tail", 10, -2.0, 0.2),
    Case("d = 20, tail", 20, -1.5, 0.2),
)


def main():
    figure = Figure(figsize=(9.0, 3.8), layout="constrained")
    axes = figure.subplots(1, 2, sharex=True, sharey=True)
    for k, case in enumerate(CASES):
        rng = np.random.default_rng(2)
        c = rng.uniform(case.own, 3.0 * case.own, case.d)
        V, cov = random_factors(rng, c, 2)
        b = rng.normal(case.level, 0.5, case.d)
        truth = log_prob(b, c, V, 0.2 * np.sqrt(c.min()))
        label = f"{case.label}, log P = {truth:.0f}"
        tried = {}
        for budget in BUDGETS:
            result = mvnorth.box(-np.inf, b, 0.0, cov, int(budget), method="gauss")
            if np.isfinite(result.rel_error) and result.n <= BUDGETS[-1]:
                error = abs(np.expm1(result.log_prob - truth))
                tried[result.n] = (max(error, 1e-15), result.rel_error)
        n = sorted(tried)
        true, claimed = np.array([tried[points] for points in n]).T
        axes[0].loglog(n, true, "o-", ms=3, color=f"C{k}", label=label)
        axes[0].loglog(n, claimed, ":", color=f"C{k}", lw=1.0)
        axes[1].loglog(
            POINTS, [_lattice(b, cov, truth, int(n)) for n in POINTS], "o-", ms=3, color=f"C{k}",
            label=label,
        )  # fmt: skip
    axes[0].set(title='method="gauss"', ylabel="relative error", ylim=(1e-15, 10.0))
    axes[1].set(title='method="tilting" (rms of 8 seeds)')
    axes[1].legend(frameon=False, fontsize="small", loc="lower left")
    for axis in axes:
        axis.set_xlabel("points")
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(alpha=0.25)
    figure.savefig(Path(__file__).with_suffix(".png"), dpi=140)


def _lattice(b, cov, truth, points):
    results = [mvnorth.box(-np.inf, b, 0.0, cov, points, method="tilting", seed=s) for s in SEEDS]
    return np.sqrt(np.mean([np.expm1(result.log_prob - truth) ** 2 for result in results]))


if __name__ == "__main__":
    main()
