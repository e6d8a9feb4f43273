"""Writes bn_rand_d100 and bn_rand_d500: random correlations far in the tail.

    python -m validation.reference.make_random [d ...]

About five minutes for each, by Botev's method as published
(`validation.oracles.minimax_tilting`).  Sigma is A A^T with rows of A normalised, A square and
normal; b is normal.  Seeds are those with log P nearest to -135 and -760 among the first few.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

from validation.oracles.minimax_tilting import logprob
from validation.oracles.one_dimension import FloatArray

FOLDER = Path(__file__).parent
CASES = {100: (5, 2**18, 32), 500: (6, 2**15, 32)}  # seed, points a replicate, replicates


def problem(d: int, seed: int) -> tuple[FloatArray, FloatArray]:
    """Limits (d,) and covariance (d, d)."""
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(d, d))
    A /= np.linalg.norm(A, axis=1)[:, None]
    return rng.normal(size=d), A @ A.T


def main() -> None:
    table = FOLDER / "references.json"
    for d in map(int, sys.argv[1:] or CASES):
        seed, points, replicates = CASES[d]
        b, cov = problem(d, seed)
        found = logprob(np.full(d, -np.inf), b, cov, points, replicates)
        how = (
            "python -m validation.reference.make_random: SOV+GGE order+minimax tilting, scrambled "
            f"Sobol, {replicates}x{points} points (ESS fraction {found.effective:.2f}); "
            "err = 3 standard errors over replications"
        )
        entry = {"logp": found.log_prob, "err_logp": found.log_error, "method": how}
        np.savez_compressed(FOLDER / f"bn_rand_d{d}.npz", b=b, Sigma=cov)
        table.write_text(
            json.dumps(json.loads(table.read_text()) | {f"bn_rand_d{d}": entry}, indent=1) + "\n"
        )
        print(d, found)


if __name__ == "__main__":
    main()
