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
L = np.linalg.cholesky(np.eye({d}) + 1.0)
start = time.perf_counter()
mvnorth.orthant_prob(np.zeros({d}), L)
print(time.perf_counter() - start)
"""


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
        for d in (10, 3):
            code = CALL.format(d=d)
            cold = _seconds(code, cache)
            warm = min(_seconds(code, cache) for _ in range(5))
            print(f"first call, d = {d:2}: compiling {cold:6.1f} s, from the cache {warm:.3f} s")


if __name__ == "__main__":
    main()
