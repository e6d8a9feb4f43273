"""Draw true errors against points: ``python docs/figures/error_against_points.py``.

Problems and their answers are those of ``validation.problems``; needs matplotlib.
"""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import mvnorth
from validation.problems import problems

NAMES = ("bm_rand_d20", "bm_rand_d100", "cn_ar1_d50", "bn_rand_d20", "d_tail_d20")
POINTS = 2 ** np.arange(9, 17)
SEEDS = range(8)


def main():
    figure = Figure(figsize=(9.0, 3.4), layout="constrained")
    axes = figure.subplots(1, 2, sharey=True)
    known = {problem.name: problem for problem in problems("reference")}
    for axis, method in zip(axes, ("genz", "tilting"), strict=True):
        for name in NAMES:
            problem = known[name]
            label = f"d = {len(problem.upper)}, log P = {problem.log_prob:.0f}"
            found = [[_error(problem, method, int(n), seed) for seed in SEEDS] for n in POINTS]
            axis.loglog(POINTS, np.sqrt(np.mean(np.square(found), axis=1)), "o-", ms=3, label=label)
        axis.loglog(POINTS, 8.0 / POINTS, "--", color="#888888", lw=0.8, label="1/n")
        axis.set(xlabel="points n", title=f'method="{method}"')
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(alpha=0.25)
    axes[0].set_ylabel("relative error (rms of 8 seeds)")
    axes[1].legend(frameon=False, fontsize="small")
    figure.savefig(Path(__file__).with_suffix(".png"), dpi=140)


def _error(problem, method, n, seed):
    found = mvnorth.box(problem.lower, problem.upper, 0.0, problem.cov, n, method=method, seed=seed)
    return np.expm1(np.clip(found.log_prob - problem.log_prob, -50.0, 50.0))


if __name__ == "__main__":
    main()
