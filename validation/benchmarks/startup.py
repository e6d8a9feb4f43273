"""What a new user waits for: the import, the first call, and the compilation before it.

python -m validation.benchmarks.startup

Seconds are those of the processor, of a process with one thread, and include all imports: other
work on the machine hardly changes them.
"""

import os
import subprocess
import sys
import tempfile

RUNS = 3
START = """
import time
import numpy as np
import mvnorth
A = np.random.default_rng(0).normal(size=(5, 5))
L = np.linalg.cholesky(A @ A.T)
F = mvnorth.OneFactor(np.ones(20), np.linspace(0.5, 1.5, 20))
"""
CALLS = {
    "import": "",
    "orthant_prob, d = 2": "mvnorth.orthant_prob(np.zeros(2), L[:2, :2])",
    "orthant_prob, d = 5": "mvnorth.orthant_prob(np.zeros(5), L)",
    "orthant_grad, d = 5": "mvnorth.orthant_grad(np.zeros(5), L)",
    "orthant_prob, one factor": "mvnorth.orthant_prob(np.zeros(20), F)",
    "prob_argmax": "mvnorth.prob_argmax(np.linspace(-1, 1, 10), np.ones(10))",
}


def _seconds(call: str, cache: str) -> float:
    one_thread = {"MVNORTH_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    run = subprocess.run(
        [sys.executable, "-c", f"{START}\n{call}\nprint(time.process_time())"],
        env=os.environ | one_thread | {"NUMBA_CACHE_DIR": cache},
        capture_output=True,
        text=True,
        check=True,
    )
    return float(run.stdout)


def main() -> None:
    """Print processor seconds of first calls, with an empty cache and with a full one."""
    print(f"{'first call':26} {'compiling':>9} {'cached':>7}")
    for name, call in CALLS.items():
        cold, warm = [], []
        for _ in range(RUNS):
            with tempfile.TemporaryDirectory() as cache:
                cold.append(_seconds(call, cache))
                warm.append(_seconds(call, cache))
        print(f"{name:26} {min(cold):9.2f} {min(warm):7.2f}")


if __name__ == "__main__":
    main()
