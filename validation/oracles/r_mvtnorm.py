"""R's mvtnorm (Genz & Bretz) through Rscript, where both are installed."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

# Numbers travel in binary, so that infinite limits and the last bits survive.
SCRIPT = """
args <- commandArgs(trailingOnly = TRUE)
numbers <- as.numeric(args[-1])
d <- numbers[1]; reps <- numbers[6]
data <- readBin(args[1], "double", n = 2 * d + d * d)
suppressPackageStartupMessages(library(mvtnorm))
lower <- data[1:d]; upper <- data[d + 1:d]
sigma <- matrix(data[2 * d + 1:(d * d)], d, d)
algorithm <- GenzBretz(maxpts = numbers[2], abseps = numbers[3], releps = numbers[4])
best <- Inf
for (i in seq_len(reps)) {
  set.seed(numbers[5])
  start <- Sys.time()
  p <- pmvnorm(lower, upper, mean = rep(0, d), sigma = sigma, algorithm = algorithm)
  best <- min(best, as.numeric(difftime(Sys.time(), start, units = "secs")))
}
cat(sprintf("%.17g %.17g %.9g", as.numeric(p), attr(p, "error"), best))
"""


class Estimate(NamedTuple):
    """What pmvnorm returned, its own error estimate, and its seconds inside R."""

    value: float
    error: float
    seconds: float


@functools.cache
def available() -> bool:
    """Whether Rscript is on the PATH and mvtnorm is installed for it."""
    rscript = shutil.which("Rscript")
    if rscript is None:
        return False
    check = "quit(status = !requireNamespace('mvtnorm', quietly = TRUE))"
    return subprocess.run([rscript, "-e", check], capture_output=True).returncode == 0


def pmvnorm(
    lower: ArrayLike,
    upper: ArrayLike,
    cov: ArrayLike,
    maxpts: int = 25000,
    abseps: float = 1e-3,
    releps: float = 0.0,
    seed: int = 1,
    repeat: int = 1,
) -> Estimate:
    """Pr(lower <= X <= upper) for X ~ N(0, cov) by mvtnorm's GenzBretz algorithm.

    Parameters
    ----------
    lower, upper : (d,)
        The box.
    cov : (d, d)
        Covariance matrix.
    maxpts, abseps, releps
        Passed to ``GenzBretz``; the defaults are mvtnorm's own.
    seed : int
        For R's generator, set anew before every repetition.
    repeat : int
        Time this many calls and report the fastest.

    Returns
    -------
    Estimate
    """
    cov = np.asarray(cov, dtype=np.float64)
    data = np.concatenate([np.ravel(lower), np.ravel(upper), cov.ravel()]).astype(np.float64)
    settings = [cov.shape[0], maxpts, abseps, releps, seed, repeat]
    one_thread = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as folder:
        script, numbers = Path(folder, "pmvnorm.R"), Path(folder, "numbers")
        script.write_text(SCRIPT)
        data.tofile(numbers)
        result = subprocess.run(
            ["Rscript", "--vanilla", str(script), str(numbers), *map(repr, settings)],
            capture_output=True,
            text=True,
            env=os.environ | one_thread,
        )
    if result.returncode != 0:
        raise RuntimeError(f"Rscript failed: {result.stderr.strip()}")
    value, error, seconds = map(float, result.stdout.split())
    return Estimate(value, error, seconds)
