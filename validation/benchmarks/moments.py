"""Moments of truncated normals: against our own gradient, and against R's tmvtnorm.

    python -m validation.benchmarks.moments [--full] [--json FILE] [--tmvtnorm FOLDER]

About two minutes, in one thread. Random correlation matrices, limits 0 to infinity ("orthant"), -1
to 1 ("box") and 2 to infinity ("tail").

* "gradient": ``box_moments`` and ``box_grad`` in mean and covariance, by sampling with the same
  number of points; seconds of the fastest of several runs by turns, and their ratio. The errors are
  the largest ones that are claimed for covariances, in deviations of the truncated distribution;
  those of the gradient are carried through Cov = S + S (2 G - g g^T) S entry by entry.
* "tmvtnorm": ``mtmvnorm`` of the R package with its defaults, for few coordinates, and
  ``box_moments`` with its. The error is the largest difference of a covariance from that of
  2**20 weighted points with another seed, whatever the number of coordinates. FOLDER has the
  package's source, of which mtmvnorm and what it calls are read; without it the installed package
  is taken, and without that the part is left out.
"""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import mvnorth
from mvnorth import _checks
from mvnorth._methods.weighted_moments import integrate
from mvnorth._problem import Request, Tolerance
from validation.benchmarks.timing import arguments, best_of, machine, print_table, progress, record
from validation.oracles.one_dimension import FloatArray

LIMITS = {"orthant": (0.0, np.inf), "box": (-1.0, 1.0), "tail": (2.0, np.inf)}
SIZES = ((10, 2**14), (20, 2**14), (50, 2**14), (100, 2**14))
PEER_SIZES, PEER_FULL = (2, 5, 8), (2, 5, 8, 12)

SCRIPT = """
args <- commandArgs(trailingOnly = TRUE)
suppressPackageStartupMessages({library(mvtnorm); library(Matrix)})
if (args[3] == "") {
  suppressPackageStartupMessages(library(tmvtnorm))
} else {
  setwd(args[3])  # files of the package read each other from there
  for (name in c("checkTmvArgs", "dtmvnorm", "dtmvnorm-marginal", "bivariate-marginal-density",
                 "mtmvnorm"))
    source(file.path("R", paste0(name, ".R")))
}
data <- unname(as.matrix(read.table(args[1]))); d <- ncol(data)
sigma <- data[1:d, ]; lower <- data[d + 1, ]; upper <- data[d + 2, ]
best <- Inf
for (k in seq_len(as.numeric(args[2]))) {
  set.seed(k)
  start <- proc.time()[["elapsed"]]
  found <- mtmvnorm(mean = rep(0, d), sigma = sigma, lower = lower, upper = upper)
  best <- min(best, proc.time()[["elapsed"]] - start)
}
cat(sprintf("%.17g", c(best, found$tmean, found$tvar)))
"""


def random_correlation(d: int) -> FloatArray:
    """Correlations of d vectors of 2d independent normal numbers."""
    vectors = np.random.default_rng(d).normal(size=(d, 2 * d))
    vectors /= np.linalg.norm(vectors, axis=1)[:, None]
    return vectors @ vectors.T


def in_deviations(cov: FloatArray, error: FloatArray) -> float:
    """Return the largest error of a covariance in products of deviations."""
    s = np.sqrt(np.maximum(np.diag(cov), 1e-300))
    return float(np.max(error / np.outer(s, s)))


def beside_gradient(d: int, n: int, kind: str, repeats: int) -> dict[str, Any]:
    """Return seconds and claimed errors of moments and gradient with the same points."""
    (lower, upper), S = LIMITS[kind], random_correlation(d)

    def moments() -> mvnorth.Moments:
        return mvnorth.box_moments(lower, upper, 0.0, S, n)

    def gradient() -> mvnorth.OrthantGradient:
        wrt = ("mean", "cov")
        return mvnorth.box_grad(lower, upper, 0.0, S, n, wrt=wrt, method="tilting", log=True)

    found, grad = moments(), gradient()
    ours = theirs = np.inf
    for _ in range(repeats):
        found, seconds = best_of(moments, 1)
        ours = min(ours, seconds)
        grad, seconds = best_of(gradient, 1)
        theirs = min(theirs, seconds)
    g, error = np.abs(grad.grad_mean), grad.grad_mean_error
    inside = 2.0 * grad.grad_cov_error + np.outer(g, error) + np.outer(error, g)
    carried = np.abs(S) @ inside @ np.abs(S)
    return {
        "d": d, "kind": kind, "n": int(found.n), "log_prob": found.log_prob,
        "moments": ours, "gradient": theirs, "ratio": ours / theirs,
        "error": in_deviations(found.cov, found.cov_error),
        "gradient_error": in_deviations(found.cov, carried),
    }  # fmt: skip


def of_tmvtnorm(S: FloatArray, kind: str, folder: str, repeats: int) -> tuple[FloatArray, float]:
    """Return the covariance that ``mtmvnorm`` gives, and the seconds of its fastest run."""
    d = len(S)
    rows = np.vstack([S, *(np.full((1, d), limit) for limit in LIMITS[kind])])
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / "problem.txt"
        lines = (" ".join(f"{x:.17g}" if np.isfinite(x) else "Inf" for x in row) for row in rows)
        file.write_text("\n".join(lines) + "\n")
        command = ["Rscript", "--vanilla", "-e", SCRIPT, str(file), str(repeats), folder]
        ran = subprocess.run(command, capture_output=True, text=True, check=True)
    best, *numbers = map(float, ran.stdout.split())
    return np.reshape(numbers[d:], (d, d)), best


def weighted_points(lower: float, upper: float, S: FloatArray) -> FloatArray:
    """Return the covariance by weighted points, which is not the way of few coordinates."""
    problems, _ = _checks.box_problems(lower, upper, 0.0, S)
    request = Request(Tolerance(0.01, 0.0), 2**20, seed=7)
    unit = problems.covariance.unit[0]
    return np.asarray(integrate(problems, request).cov[0] * np.outer(unit, unit))


def beside_tmvtnorm(d: int, kind: str, folder: str, repeats: int) -> dict[str, Any]:
    """Return seconds and true errors of both programs with their defaults."""
    (lower, upper), S = LIMITS[kind], random_correlation(d)
    theirs, seconds = of_tmvtnorm(S, kind, folder, 3 if d < 8 else 1)
    found, ours = best_of(lambda: mvnorth.box_moments(lower, upper, 0.0, S), repeats)
    truth = weighted_points(lower, upper, S)
    return {
        "d": d, "kind": kind, "moments": ours, "tmvtnorm": seconds, "ratio": seconds / ours,
        "error": in_deviations(truth, np.abs(found.cov - truth)),
        "tmvtnorm_error": in_deviations(truth, np.abs(theirs - truth)),
    }  # fmt: skip


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--tmvtnorm", default="", metavar="FOLDER", help="source of the package")
    options = parser.parse_args()
    mvnorth.set_num_threads(1)
    repeats = 9 if options.full else 5
    gradients, peers = [], []
    for d, n in SIZES:
        progress(f"gradient, d = {d} ...")
        gradients += [beside_gradient(d, n, kind, repeats) for kind in LIMITS]
    for d in PEER_FULL if options.full else PEER_SIZES:
        progress(f"tmvtnorm, d = {d} ...")
        try:
            peers += [beside_tmvtnorm(d, kind, options.tmvtnorm, repeats) for kind in LIMITS]
        except (OSError, subprocess.CalledProcessError, ValueError):
            progress("tmvtnorm is not there, or failed")
            break
    print(machine(), end="\n\n")
    print_table(
        ["problem", "log P", "points", "moments, ms", "gradient, ms", "ratio", "error", "by (1)"],
        [
            [
                f"d = {row['d']}, {row['kind']}", f"{row['log_prob']:.0f}", str(row["n"]),
                f"{1e3 * row['moments']:.3g}", f"{1e3 * row['gradient']:.3g}",
                f"{row['ratio']:.2f}", f"{row['error']:.0e}", f"{row['gradient_error']:.0e}",
            ]
            for row in gradients
        ],
        cite="moments",
    )  # fmt: skip
    if peers:
        print()
        print_table(
            ["problem", "mvnorth, ms", "error", "tmvtnorm, ms", "its error", "ratio"],
            [
                [
                    f"d = {row['d']}, {row['kind']}",
                    f"{1e3 * row['moments']:.3g}",
                    f"{row['error']:.0e}",
                    f"{1e3 * row['tmvtnorm']:.3g}",
                    f"{row['tmvtnorm_error']:.0e}",
                    f"{row['ratio']:.1f}",
                ]
                for row in peers
            ],
            cite="moments-tmvtnorm",
        )
    record(options.json, "moments", gradients + peers)


if __name__ == "__main__":
    main()
