"""What a new user waits for: the import, the first call, and the compilation before it.

python -m validation.benchmarks.startup
"""

import os
import subprocess
import sys
import tempfile

IMPORT = """
import time
import numpy
start = time.perf_counter()
import mvnorth
print(time.perf_counter() - start)
"""
CALL = """
import time
import numpy as np
import mvnorth
A = np.random.default_rng(0).normal(size=(10, 10))
L = np.linalg.cholesky({cov})
start = time.perf_counter()
mvnorth.orthant_prob(np.zeros(10), L)
print(time.perf_counter() - start)
"""
COVARIANCES = {"sampled": "A @ A.T", "common factor": "np.eye(10) + 1.0"}


def _seconds(code: str, cache: str) -> float:
    environment = os.environ | {"NUMBA_CACHE_DIR": cache}
    run = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    return float(run.stdout)


def main() -> None:
    with tempfile.TemporaryDirectory() as cache:
        seconds = min(_seconds(IMPORT, cache) for _ in range(5))
    print(f"import, beyond numpy's: {seconds:.3f} s")
    for name, cov in COVARIANCES.items():
        code = CALL.format(cov=cov)
        with tempfile.TemporaryDirectory() as cache:
            cold = _seconds(code, cache)
            warm = min(_seconds(code, cache) for _ in range(3))
        print(f"first call, {name}: compiling {cold:.1f} s, from the cache {warm:.3f} s")


if __name__ == "__main__":
    main()
