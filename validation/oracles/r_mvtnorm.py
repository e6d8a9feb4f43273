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
from scipy.stats.qmc import Sobol

from validation.oracles.one_dimension import FloatArray

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

STUDENT_SCRIPT = """
args <- commandArgs(trailingOnly = TRUE)
numbers <- as.numeric(args[-1])
d <- numbers[1]
data <- readBin(args[1], "double", n = 3 * d + d * d)
suppressPackageStartupMessages(library(mvtnorm))
sigma <- matrix(data[3 * d + 1:(d * d)], d, d)
set.seed(1)
p <- pmvt(data[1:d], data[d + 1:d], delta = data[2 * d + 1:d], df = numbers[2], sigma = sigma,
          type = if (numbers[3] > 0) "shifted" else "Kshirsagar",
          algorithm = GenzBretz(maxpts = 1e6, abseps = 1e-7))
cat(sprintf("%.17g %.17g 0", as.numeric(p), attr(p, "error")))
"""

# Observations are columns, and the triangle of a factor goes down its columns, in ltMatrices.
SCORE_SCRIPT = """
args <- commandArgs(trailingOnly = TRUE)
d <- as.numeric(args[2]); points <- as.numeric(args[3])
size <- 3 * d + d * d + (d - 1) * points
data <- readBin(args[1], "double", n = size)
suppressPackageStartupMessages(library(mvtnorm))
limits <- matrix(data[1:(3 * d)], d, 3)
L <- matrix(data[3 * d + 1:(d * d)], d, d, byrow = TRUE)
w <- matrix(tail(data, (d - 1) * points), d - 1, points, byrow = TRUE)
chol <- ltMatrices(matrix(L[lower.tri(L, diag = TRUE)], ncol = 1), diag = TRUE, byrow = FALSE)
score <- slpmvnorm(limits[, 1, drop = FALSE], limits[, 2, drop = FALSE],
                   mean = limits[, 3, drop = FALSE], chol = chol, w = w, M = points)
by_row <- t(matrix(as.array(score$chol), d, d))
cat(sprintf("%.17g", c(score$logLik, score$lower, score$upper, score$mean, by_row)))
"""


# Rows of a batch are columns here.
BATCH_SCRIPT = """
args <- commandArgs(trailingOnly = TRUE)
d <- as.numeric(args[2]); rows <- as.numeric(args[3]); points <- as.numeric(args[4])
reps <- as.numeric(args[5])
triangle <- d * (d + 1) / 2
data <- readBin(args[1], "double", n = rows * (d + triangle) + (d - 1) * points)
suppressPackageStartupMessages(library(mvtnorm))
m <- matrix(data[1:(rows * d)], d, rows)
L <- matrix(data[rows * d + 1:(rows * triangle)], triangle, rows)
w <- matrix(tail(data, (d - 1) * points), d - 1, points, byrow = TRUE)
chol <- ltMatrices(L, diag = TRUE, byrow = TRUE)
lower <- matrix(-Inf, d, rows); zero <- matrix(0, d, rows)
value <- score <- Inf
for (i in seq_len(reps)) {
  start <- Sys.time()
  log_prob <- lpmvnorm(lower, m, mean = zero, chol = chol, w = w, M = points, logLik = FALSE)
  value <- min(value, as.numeric(difftime(Sys.time(), start, units = "secs")))
  start <- Sys.time()
  slpmvnorm(lower, m, mean = zero, chol = chol, w = w, M = points)
  score <- min(score, as.numeric(difftime(Sys.time(), start, units = "secs")))
}
cat(sprintf("%.17g", c(value, score, log_prob)))
"""


class Estimate(NamedTuple):
    """What pmvnorm returned, its own error estimate, and its seconds inside R."""

    value: float
    error: float
    seconds: float


class Score(NamedTuple):
    """What slpmvnorm returned: log P and its derivatives, (d,) and (d, d) lower triangular."""

    log_prob: float
    lower: FloatArray
    upper: FloatArray
    mean: FloatArray
    factor: FloatArray


class Batch(NamedTuple):
    """What lpmvnorm returned, (B,), its seconds inside R, and those of slpmvnorm."""

    log_prob: FloatArray
    value_seconds: float
    score_seconds: float


@functools.cache
def available(function: str = "pmvnorm") -> bool:
    """Whether Rscript is on the PATH and an mvtnorm with ``function`` is installed for it."""
    rscript = shutil.which("Rscript")
    if rscript is None:
        return False
    there = f"exists('{function}', asNamespace('mvtnorm'))"
    check = f"quit(status = !(requireNamespace('mvtnorm', quietly = TRUE) && {there}))"
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
    value, error, seconds = _run(SCRIPT, data, settings)
    return Estimate(value, error, seconds)


def pmvt(
    lower: ArrayLike, upper: ArrayLike, cov: ArrayLike, df: int, delta: ArrayLike, shifted: bool
) -> Estimate:
    """Pr(lower <= T <= upper) by mvtnorm's ``pmvt``, shifted by delta or with it noncentral.

    Limits and delta have shape (d,), the covariance (d, d).
    """
    cov = np.asarray(cov, dtype=np.float64)
    data = np.concatenate([np.ravel(a) for a in (lower, upper, delta, cov)]).astype(np.float64)
    return Estimate(*_run(STUDENT_SCRIPT, data, [cov.shape[0], df, float(shifted)]))


def slpmvnorm(
    lower: ArrayLike,
    upper: ArrayLike,
    mean: ArrayLike,
    factor: ArrayLike,
    points: int = 2**14,
    seed: int = 1,
) -> Score:
    """Derivatives of log Pr(lower <= X <= upper), X ~ N(mean, L L^T), by mvtnorm from 1.2 on.

    They are the exact derivatives of Genz's estimate with the points given, a scrambled Sobol'
    sequence, in the order of coordinates given. For d > 1.

    Parameters
    ----------
    lower, upper, mean : (d,)
    factor : (d, d)
        Lower triangular L.
    points : int
        A power of two.
    seed : int
        Of the scrambling.

    Returns
    -------
    Score
    """
    L = np.asarray(factor, dtype=np.float64)
    d = L.shape[0]
    w = Sobol(d - 1, rng=seed).random(points).T
    columns = [np.ravel(lower), np.ravel(upper), np.ravel(mean), L.ravel(), w.ravel()]
    data = np.concatenate(columns).astype(np.float64)
    found = np.array(_run(SCORE_SCRIPT, data, [d, points]))
    in_lower, in_upper, in_mean = found[1 : 1 + 3 * d].reshape(3, d)
    in_factor = found[1 + 3 * d :].reshape(d, d)
    return Score(float(found[0]), in_lower, in_upper, in_mean, in_factor)


def lpmvnorm(m: FloatArray, factor: FloatArray, points: int, seed: int = 1) -> Batch:
    """log Pr(L y <= m) of a batch, and the time of it and of its derivatives in m and L.

    mvtnorm from 1.2 on, with the same scrambled Sobol' points for all rows. For d > 1.

    Parameters
    ----------
    m : (B, d)
    factor : (B, d, d)
        Lower triangular L.
    points : int
        A power of two.
    seed : int
        Of the scrambling.

    Returns
    -------
    Batch
    """
    rows, d = m.shape
    triangle = factor[:, *np.tril_indices(d)]
    w = Sobol(d - 1, rng=seed).random(points).T
    data = np.concatenate([m.ravel(), triangle.ravel(), w.ravel()])
    value, score, *log_prob = _run(BATCH_SCRIPT, data, [d, rows, points, 2])
    return Batch(np.array(log_prob), value, score)


def _run(script: str, data: FloatArray, settings: list[float]) -> list[float]:
    """The numbers that ``script`` prints, called with a file of ``data`` and the settings."""
    one_thread = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as folder:
        program, numbers = Path(folder, "program.R"), Path(folder, "numbers")
        program.write_text(script)
        data.tofile(numbers)
        result = subprocess.run(
            ["Rscript", "--vanilla", str(program), str(numbers), *map(repr, settings)],
            capture_output=True,
            text=True,
            env=os.environ | one_thread,
        )
    if result.returncode != 0:
        raise RuntimeError(f"Rscript failed: {result.stderr.strip()}")
    return [float(number) for number in result.stdout.split()]
