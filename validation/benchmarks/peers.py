"""Time to a given true error: mvnorth, scipy and R's mvtnorm on the same problems, in one run.

    python -m validation.benchmarks.peers [--full] [--json FILE]

About five minutes, or half an hour with ``--full``: calls may then take 60 seconds instead of 8,
which 1e-4 in 500 dimensions needs.

Every program computes Pr(X <= b) from b and the covariance matrix, mvnorth included: what it
spends on the Cholesky factor and the reordering counts. Its general method is forced
(``method="genz"``). The number of points is doubled until the root-mean-square of the true
relative error over several seeds is at most the target; the time is that of the fastest of these
calls. scipy and mvtnorm get tolerances that they never meet, so that ``maxpts`` alone decides;
both take their own sequence of lattice sizes, so some doublings change nothing (mvtnorm returns
the same digits for 1000 as for 50000 in 100 dimensions: it cannot be asked for less accuracy than
that). R's time is taken inside R, and is the processor's.

Answers do not come from mvnorth, except for random correlations in 500 dimensions, see
``random_correlation_500``.
"""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import mvnorth
from validation.benchmarks.timing import (
    Reached,
    arguments,
    best_of,
    geometric_mean,
    machine,
    print_table,
    progress,
    record,
    time_limit,
    time_to_errors,
)
from validation.oracles import r_mvtnorm, scipy_mvn
from validation.oracles.one_dimension import FloatArray
from validation.problems import Problem, ar1, reference

TARGETS = (1e-3, 1e-4)
SEED = 100  # of the first trial; answers come from other seeds
NEVER = 0.0  # a tolerance that leaves the decision to the number of points

# Reads "file d maxpts abseps seed algorithm" from each line of its input; the file has b and Sigma.
# The clock counts milliseconds, so that short calls are timed many at a time.
R_LOOP = """
suppressPackageStartupMessages(library(mvtnorm))
input <- file("stdin", "r")
while (length(line <- readLines(input, 1)) > 0) {
  args <- strsplit(line, " ")[[1]]
  d <- as.integer(args[2])
  data <- readBin(args[1], "double", d + d * d)
  sigma <- matrix(data[d + 1:(d * d)], d, d)
  points <- as.integer(args[3])
  algorithm <- if (args[6] == "Miwa") Miwa(points) else GenzBretz(points, as.numeric(args[4]))
  call <- function()
    pmvnorm(rep(-Inf, d), data[1:d], mean = rep(0, d), sigma = sigma, algorithm = algorithm)
  set.seed(as.integer(args[5]))
  start <- proc.time()
  p <- call()
  seconds <- sum((proc.time() - start)[1:2])
  if (seconds < 0.01) {
    start <- proc.time()
    for (i in 1:30) call()
    seconds <- sum((proc.time() - start)[1:2]) / 30
  }
  error <- as.numeric(attr(p, "error"))
  if (is.na(error)) error <- NaN
  cat(sprintf("%.17g %.9g %.9g\\n", as.numeric(p), seconds, error))
  flush(stdout())
}
"""


class Timed(NamedTuple):
    """A probability, the seconds it took, and the error that was claimed for it, if any."""

    value: float
    seconds: float
    claimed: float = float("nan")


@dataclass(frozen=True)
class Program:
    """One of the programs compared.

    Attributes
    ----------
    name : str
    call : callable
        (b, cov, points, seed) -> Timed, of P or, in ``tails``, of log P; without points, the
        program's own defaults.
    points : tuple of int
        Settings to sweep.
    trials : (int, int)
        Seeds a setting, for calls of less and of more than a second.
    """

    name: str
    call: Callable[..., Timed]
    points: tuple[int, ...]
    trials: tuple[int, int]


def call_mvnorth(b: FloatArray, cov: FloatArray, points: int | None, seed: int) -> Timed:
    """With ``points`` by the general method, without by ``orthant_prob`` as it comes."""
    method = "auto" if points is None else "genz"

    def call() -> float:
        L = np.linalg.cholesky(cov)
        return mvnorth.orthant_prob(b, L, points, method=method, seed=seed)

    return Timed(*best_of(call, 1))


def call_scipy(
    b: FloatArray, cov: FloatArray, points: int | None, seed: int, limit: float = 3600.0
) -> Timed:
    """As it comes, scipy may go on to a million points a dimension: hence the limit in seconds."""
    lower = np.full(b.size, -np.inf)
    if points is None:
        with time_limit(limit):
            return Timed(*scipy_mvn.cdf(lower, b, cov, seed=seed))
    return Timed(*scipy_mvn.cdf(lower, b, cov, points, NEVER, NEVER, seed))


class Mvtnorm:
    """R with mvtnorm loaded, taking one call after the other; close it when done.

    The algorithm is "GenzBretz" or "Miwa", whose points are the steps of its grid.
    """

    def __init__(self, algorithm: str = "GenzBretz") -> None:
        self._algorithm = algorithm
        self._folder = tempfile.TemporaryDirectory()
        self._numbers = Path(self._folder.name, "numbers")
        script = Path(self._folder.name, "loop.R")
        script.write_text(R_LOOP)
        self._process = subprocess.Popen(
            ["Rscript", "--vanilla", str(script)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __call__(self, b: FloatArray, cov: FloatArray, points: int | None, seed: int) -> Timed:
        np.concatenate([b, cov.ravel()]).tofile(self._numbers)
        maxpts, abseps = (25000, 1e-3) if points is None else (points, NEVER)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        line = f"{self._numbers} {b.size} {maxpts} {abseps} {seed} {self._algorithm}"
        print(line, file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline().split()
        if len(answer) != 3:
            raise RuntimeError("R has stopped, see its message above")
        return Timed(*map(float, answer))

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()
        self._folder.cleanup()


@contextlib.contextmanager
def programs(limit: float) -> Iterator[list[Program]]:
    """The programs that are there, mvnorth first, after a first call each.

    Calls without settings raise TimeoutError after ``limit`` seconds where they might not end.
    """
    found = [
        Program("mvnorth", call_mvnorth, doublings(2**8, 2**24), (8, 8)),
        Program("scipy", partial(call_scipy, limit=limit), doublings(500, 10**8), (8, 4)),
    ]
    with contextlib.ExitStack() as stack:
        if r_mvtnorm.available():
            r = stack.enter_context(contextlib.closing(Mvtnorm()))
            found.append(Program("mvtnorm", r, doublings(25000, 10**8), (8, 4)))
        for program in found:
            program.call(np.zeros(4), np.eye(4) + 1.0, 1000, 0)
        yield found


def doublings(first: int, last: int) -> tuple[int, ...]:
    """Powers of two times ``first``, up to ``last``."""
    return tuple(first << k for k in range((last // first).bit_length()))


def random_correlation(rng: np.random.Generator, d: int, samples: int) -> FloatArray:
    """Correlation matrix of ``samples`` standard normal d-vectors."""
    x = rng.normal(size=(d, samples))
    x /= np.linalg.norm(x, axis=1)[:, None]
    return x @ x.T


def random_correlation_500() -> Problem:
    """A random correlation matrix in 500 dimensions.

    Nothing but points gives this answer: it is mvnorth's own, from 2**25 points of another seed
    (``mvnorth.orthant(b, L, 2**25, method="genz", seed=1)``, some ten minutes); the error is its
    bound at 99 %.
    """
    d = 500
    rng = np.random.default_rng(d)
    cov = random_correlation(rng, d, d)
    b = rng.normal(3.3, 0.5, d)
    log_prob, log_error = -0.79302986, 4.6e-5
    return Problem(
        "", frozenset(), np.full(d, -np.inf), b, cov, log_prob, log_error, "mvnorth, 2**25 points"
    )


def problems() -> Iterator[Problem]:
    yield replace(reference("bm_rand_d20"), name="random d=20")
    yield replace(reference("bm_rand_d100"), name="random d=100")
    yield replace(random_correlation_500(), name="random d=500")
    for d in (20, 100, 500):
        b = np.random.default_rng(d).normal(2.0, 0.5, d)
        yield replace(ar1(np.full(d, -np.inf), b, 0.9), name=f"AR(1) d={d}")


def relative_error(problem: Problem, value: float) -> float:
    return value / np.exp(problem.log_prob) - 1


def sweep(
    program: Program, problem: Problem, limit: float, targets: Sequence[float] = TARGETS
) -> list[Reached]:
    def trial(points: int, number: int) -> tuple[FloatArray, float]:
        value, seconds, _ = program.call(problem.upper, problem.cov, points, SEED + number)
        return np.array([relative_error(problem, value)]), seconds

    return time_to_errors(trial, program.points, targets, program.trials, limit)


def default_call(
    program: Program, problem: Problem, limit: float
) -> tuple[float, float | None, int]:
    """Seconds, error (None: stopped) and seeds of calls without any settings; up to four seeds."""
    errors: list[float] = []
    best, spent = np.inf, 0.0
    for seed in range(SEED, SEED + 4):
        try:
            value, seconds, _ = program.call(problem.upper, problem.cov, None, seed)
        except TimeoutError as timeout:
            return float(timeout.args[0]), None, 0
        errors.append(relative_error(problem, value))
        best = min(best, seconds)
        spent += seconds
        if spent > limit / 4:
            break
    return best, float(np.sqrt(np.mean(np.square(errors)))), len(errors)


@dataclass(frozen=True)
class Ratio:
    """Time of the better peer over mvnorth's; a bound where one of them did not arrive."""

    value: float
    sign: str = ""

    def __str__(self) -> str:
        return f"{self.sign}{self.value:.1f}"


def ratio(own: Reached, others: Iterable[Reached]) -> Ratio | None:
    """None where nothing follows: neither mvnorth nor a peer reached the target."""
    others = list(others)
    arrived = [other.seconds for other in others if other.met]
    if own.met and arrived:
        return Ratio(min(arrived) / own.seconds)
    if own.met and others:
        return Ratio(min(other.seconds for other in others) / own.seconds, "> ")
    if arrived:
        return Ratio(min(arrived) / own.seconds, "< ")
    return None


def main() -> None:
    options = arguments(__doc__).parse_args()
    limit = 60.0 if options.full else 8.0  # seconds of a call
    results: list[dict[str, Any]] = []
    sweeps: list[list[object]] = []
    defaults: list[list[object]] = []
    ratios: list[Ratio] = []
    print(machine(), end="\n\n")
    with programs(limit / 2) as found:
        names = [program.name for program in found]
        for problem in problems():
            reached: list[list[Reached]] = []
            plain: list[str] = []
            for program in found:
                progress(f"{problem.name}, {program.name} ...")
                reached.append(sweep(program, problem, limit))
                seconds, error, seeds = default_call(program, problem, limit)
                if error is None:
                    plain.append(f"> {seconds:.3g}")
                else:
                    plain.append(f"{seconds:.3g} ({error:.0e}, {seeds})")
                key = {"problem": problem.name, "program": program.name}
                results += [key | asdict(r) for r in reached[-1]]
                results.append(
                    key | {"default": True, "seconds": seconds, "error": error, "seeds": seeds}
                )
            defaults.append([problem.name, f"{np.exp(problem.log_prob):.2g}", *plain])
            for own, *others in zip(*reached, strict=True):
                better = ratio(own, others)
                ratios += [] if better is None else [better]
                sweeps.append([problem.name, f"{own.target:.0e}", own, *others, better or "-"])
    print("Seconds to a true relative error, and the root-mean-square error reached.")
    print(f"'>': not within {limit:g} s a call; seconds and error of the last setting tried.")
    print_table(["problem", "target", *names, "better peer / mvnorth"], sweeps)
    print("Calls without any settings: seconds (root-mean-square relative error, seeds).")
    print("One seed says little of the error; slow calls get no more.")
    print_table(["problem", "P", *names], defaults)
    exact = [r.value for r in ratios if not r.sign]
    if exact:
        print(
            f"better peer / mvnorth: {min(exact):.1f} to {max(exact):.1f}, geometric mean "
            f"{geometric_mean(exact):.1f} over {len(exact)} of {len(sweeps)} rows; the others are "
            "bounds or open"
        )
    record(options.json, "peers", results)


if __name__ == "__main__":
    main()
