"""Probit models: the time of a fit, and the likelihood with its gradient beside R's mvtnorm.

    python -m validation.benchmarks.probit [--full] [--json FILE]

About two minutes, in one thread.

* Fits of ``Probit`` to 2,000 simulated observations of two to four outcomes (five with ``--full``)
  with two covariates and a constant, and of ``MultinomialProbit`` with a free covariance of four
  alternatives: seconds with standard errors from the outer products of the scores and from the
  observed information, passes over the data, the bound on the integration error of the
  log-likelihood, and the root mean square of (estimate - truth) / standard error.
* One pass, the log-likelihoods of all observations and their derivatives in means and covariance:
  observations a second of mvnorth, with the settings of ``fit``, and of mvtnorm's ``slpmvnorm``
  with the fewest points, a power of two up to 2**12, for which its log-likelihood has an error of
  0.01, and of 0.0001 (the root mean square of three random shifts). Its points are a lattice of
  ours, as its default is pseudo-random. The truth is mvnorth with a relative error of 1e-9; up to
  three outcomes, and choices among four alternatives, are closed forms. Of the choices, those of
  the first alternative are taken, which have the same covariance.

Seconds are the processor's, in R and here.
"""

from __future__ import annotations

import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import mvnorth
from validation.benchmarks.timing import arguments, machine, print_table, progress, record
from validation.oracles import r_mvtnorm
from validation.oracles.one_dimension import FloatArray

PEOPLE = 2000
FIRST, MOST, SEEDS = 2**5, 2**12, 3  # points of mvtnorm, and shifts of them
TARGETS, EXACT = (1e-2, 1e-4), 1e-8  # errors of a log-likelihood

# Limits and means have an observation in each column; ltMatrices has the triangle by columns.
R_SCRIPT = """
suppressPackageStartupMessages(library(mvtnorm))
args <- commandArgs(trailingOnly = TRUE)
d <- as.integer(args[2]); n <- as.integer(args[3]); points <- as.integer(args[4])
data <- readBin(args[1], "double", 3 * d * n + d * d + (d - 1) * points)
part <- function(k) matrix(data[(k - 1) * d * n + seq_len(d * n)], d, n)
L <- matrix(data[3 * d * n + seq_len(d * d)], d, d)
w <- matrix(data[3 * d * n + d * d + seq_len((d - 1) * points)], d - 1, points)
C <- ltMatrices(matrix(L[lower.tri(L, diag = TRUE)], ncol = 1), diag = TRUE, byrow = FALSE)
best <- Inf
for (i in 1:2) {
  start <- proc.time()
  found <- slpmvnorm(part(1), part(2), mean = part(3), chol = C, w = w, M = points, logLik = TRUE)
  best <- min(best, sum((proc.time() - start)[1:2]))
}
cat(sprintf("%.17g %.9g", sum(found$logLik), best))
"""


def with_mvtnorm(
    lower: FloatArray, upper: FloatArray, mean: FloatArray, cov: FloatArray, points: int, seed: int
) -> tuple[float, float]:
    """Return the log-likelihood and the processor seconds of ``slpmvnorm``."""
    n, d = mean.shape
    w = mvnorth.qmc.points(points, d - 1, seed)
    L = np.linalg.cholesky(cov)
    with tempfile.TemporaryDirectory() as folder:
        numbers, script = Path(folder, "numbers"), Path(folder, "script.R")
        np.concatenate([a.ravel() for a in (lower, upper, mean, L.T, w)]).tofile(numbers)
        script.write_text(R_SCRIPT)
        command = ["Rscript", "--vanilla", str(script), str(numbers), str(d), str(n), str(points)]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    value, seconds = map(float, text.split())
    return value, seconds


def simulate(q: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return outcomes (n, q), covariates (n, 3) and the true parameters."""
    rng = np.random.default_rng(q)
    X = np.column_stack([np.ones(PEOPLE), rng.normal(size=(PEOPLE, 2))])
    beta = rng.normal(0.0, 0.5, (q, 3))
    R = np.asarray(np.corrcoef(rng.normal(size=(q, 4 * q))))
    errors = rng.normal(size=(PEOPLE, q)) @ np.linalg.cholesky(R).T
    truth = np.concatenate([beta.ravel(), R[np.tril_indices(q, -1)]])
    return (X @ beta.T + errors > 0).astype(float), X, truth


def choices() -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return choices (n,), covariates of four alternatives (n, 4, 2) and the true parameters."""
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(PEOPLE, 4, 2))
    cov = np.array([[1.0, 0.4, 0.3], [0.4, 1.5, 0.6], [0.3, 0.6, 0.8]])
    errors = rng.normal(size=(PEOPLE, 3)) @ np.linalg.cholesky(cov).T
    utility = Z @ [1.0, -0.6] + np.column_stack([np.zeros(PEOPLE), errors])
    truth = np.concatenate([[1.0, -0.6], cov[np.tril_indices(3)][1:]])
    return utility.argmax(axis=1), Z, truth


def fit(name: str, model: Any, truth: FloatArray) -> tuple[dict[str, Any], Any]:
    progress(f"{name}: fit ...")
    model.fit(cov_type="opg")  # compiles
    seconds = {}
    for kind in ("opg", "hessian"):
        start = time.process_time()
        found = model.fit(cov_type=kind)
        seconds[kind] = time.process_time() - start
    line = {
        "model": name,
        "parameters": found.params.size,
        "opg": seconds["opg"],
        "hessian": seconds["hessian"],
        "passes": found.evaluations,
        "error": found.llf_error,
        "z": float(np.sqrt(np.mean(((found.params - truth) / found.bse) ** 2))),
    }
    return line, found


def one_pass(
    name: str, lower: FloatArray, upper: FloatArray, mean: FloatArray, cov: FloatArray
) -> dict[str, Any]:
    """Time the log-likelihoods with derivatives in the mean and the covariance."""
    progress(f"{name}: one pass ...")
    truth = float(np.sum(mvnorth.box_logprob(lower, upper, mean, cov, rtol=1e-9)))

    def call() -> float:
        found = mvnorth.cdf_grad(
            upper, mean, cov, maxpts=4096, releps=1e-4, lower_limit=lower, log=True,
            wrt=("mean", "cov"),
        )  # fmt: skip
        return float(np.sum(found.log_prob))

    call()
    seconds = np.inf
    for _ in range(3):
        start = time.process_time()
        value = call()
        seconds = min(seconds, time.process_time() - start)
    line: dict[str, Any] = {"model": name, "rate": len(mean) / seconds, "error": abs(value - truth)}
    line["peer"] = []
    if not r_mvtnorm.available():
        return line
    points = FIRST
    while len(line["peer"]) < len(TARGETS):
        found = [with_mvtnorm(lower, upper, mean, cov, points, seed) for seed in range(SEEDS)]
        error = float(np.sqrt(np.mean([(value - truth) ** 2 for value, _ in found])))
        peer = len(mean) / min(seconds for _, seconds in found)
        for target in TARGETS[len(line["peer"]) :]:
            if error <= target or points >= MOST:
                line["peer"].append({"points": points, "rate": peer, "error": error})
        points *= 2
    return line


def limits(y: FloatArray) -> tuple[FloatArray, FloatArray]:
    return np.where(y > 0.5, 0.0, -np.inf), np.where(y > 0.5, np.inf, 0.0)


def rate(number: float) -> str:
    """Two digits."""
    return f"{float(f'{number:.2g}'):,.0f}"


def main() -> None:
    options = arguments(__doc__).parse_args()
    mvnorth.set_num_threads(1)
    print(machine(), end="\n\n")
    fits: list[dict[str, Any]] = []
    passes: list[dict[str, Any]] = []
    for q in (2, 3, 4, 5) if options.full else (2, 3, 4):
        name = f"{q} outcomes"
        y, X, truth = simulate(q)
        line, found = fit(name, mvnorth.Probit(y, X), truth)
        fits.append(line)
        mean = X @ np.array(found.coefficients).T
        passes.append(one_pass(name, *limits(y), mean, found.correlation))
    y, Z, truth = choices()
    model = mvnorth.MultinomialProbit(y, Z=Z, covariance="free")
    line, found = fit("choice of 4", model, truth)
    fits.append(line)
    # Those who chose the first alternative, so that all have the same covariance.
    mean = ((Z[:, :1] - Z[:, 1:]) @ found.params[:2])[y == 0]
    lower, upper = np.zeros(mean.shape), np.full(mean.shape, np.inf)
    passes.append(one_pass("choice of 4", lower, upper, mean, found.covariance))
    print(f"Fits to {PEOPLE} observations: seconds by kind of standard errors.")
    rows = [
        [f["model"], f["parameters"], f"{f['opg']:.2g}", f"{f['hessian']:.2g}", f["passes"],
         f"{f['error']:.0e}", f"{f['z']:.2f}"]
        for f in fits
    ]  # fmt: skip
    header = ["model", "parameters", 'seconds, "opg"', 'seconds, "hessian"', "passes",
              "integration error", "rms z"]  # fmt: skip
    print_table(header, rows, cite="probit")
    print("One pass with derivatives: observations a second, and the error of the log-likelihood.")
    rows = []
    for p in passes:
        own = "exact" if p["error"] < EXACT else f"{p['error']:.0e}"
        peers = [f"{rate(q['rate'])} ({q['points']} points, {q['error']:.0e})" for q in p["peer"]]
        rows.append([p["model"], rate(p["rate"]), own, *(peers or ["-"] * len(TARGETS))])
    header = ["model", "mvnorth/s", "error", "mvtnorm/s, to 0.01", "to 0.0001"]
    print_table(header, rows, cite="probit-likelihood")
    record(options.json, "probit", [*fits, *passes])


if __name__ == "__main__":
    main()
