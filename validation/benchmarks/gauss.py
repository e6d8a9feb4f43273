"""Four to ten coordinates: time to a true error beside scipy, R's mvtnorm and the lattice.

    python -m validation.benchmarks.gauss [--full] [--json FILE]

About fifteen minutes; calls may take half a second, or 30 with ``--full``.  One thread, whole calls
from the limits and the covariance matrix to the result.

Problems are random correlation matrices with three common factors, from ten coordinates on four,
five for each d: a coordinate's own share of its variance is between 0.1 and 0.7, its loadings point
in a random direction.  Limits are N(0.8, 1/4), or lower for tails.  The answer is an integral over
the factors by the trapezoidal rule, which shares nothing with mvnorth and is right to about 1e-12.
mvnorth is not told of the factors; it looks for two or three of them, and from ten coordinates on.

mvnorth is asked for smaller and smaller ``rtol`` in steps of the root of ten, the others for twice
as many points, until the root-mean-square true relative error over the problems is at most the
target; if a smaller target took less time, that time counts.  R's mvtnorm has two algorithms,
"GenzBretz" and, without sampling, "Miwa".

Batches have a covariance matrix of the same kind for every row, and limits N(0.5, 1).  Their first
rows are judged; of the ``rtol`` that meet the target there, the fastest counts.  Gradients are
those of log P in means and all entries of L, asked for with that ``rtol``.  Beside them, if there
is an mvtnorm from 1.2 on (R_LIBS may name its folder), ``lpmvnorm`` and ``slpmvnorm`` with the
fewest points that meet the target.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
from scipy.optimize import brentq

import mvnorth
from validation.benchmarks.peers import (
    SEED,
    Mvtnorm,
    Program,
    Timed,
    call_scipy,
    doublings,
)
from validation.benchmarks.tails import in_logs
from validation.benchmarks.timing import (
    Reached,
    arguments,
    best_of,
    machine,
    print_table,
    progress,
    record,
    time_to_errors,
)
from validation.oracles import r_mvtnorm
from validation.oracles.common_factors import log_prob as log_prob_of
from validation.oracles.common_factors import random_factors
from validation.oracles.one_dimension import FloatArray

T = TypeVar("T")

TARGETS = (1e-4, 1e-6, 1e-10)
DIMENSIONS = (4, 5, 6, 8, 10)
MIWA_LARGEST = 6  # coordinates; its time grows like a factorial
PROBLEMS = 5  # for each d
TAIL, TAIL_DIMENSION = -90.0, 20  # log P
FACTORS, MORE_FACTORS, MORE = 3, 4, 10  # of a covariance; coordinates from which there are more
STEPS_OF_TRUTH = {FACTORS: 0.125, MORE_FACTORS: 0.4}
ROWS, JUDGED = 10_000, 100  # of a batch
PEER_ROWS = 1000  # of them for the peer, whose time is proportional to them
BATCH_TARGETS = (1e-3, 1e-4)
BATCH_STEP, BATCH_NEGLIGIBLE = 0.7, 14.0  # of its answers, which are right to 1e-7
STEPS = tuple(range(2, 23))  # rtol = 10**(-step / 2)


class Problem(NamedTuple):
    """Limits (d,), covariance (d, d) and the logarithm of Pr(X <= b)."""

    b: FloatArray
    cov: FloatArray
    log_prob: float


def problems(d: int, log_prob: float | None = None) -> list[Problem]:
    """Return the problems of d coordinates; with ``log_prob`` limits are moved to about that."""
    rng, made = np.random.default_rng(d), []
    for _ in range(PROBLEMS):
        c = rng.uniform(0.1, 0.7, d)
        k = _factors(d)
        V, cov = random_factors(rng, c, k)
        b = rng.normal(0.8, 0.5, d)
        if log_prob is not None:
            b = b + brentq(partial(_excess, b, cov, log_prob), -40.0, 8.0, xtol=0.01)
        made.append(Problem(b, cov, log_prob_of(b, c, V, STEPS_OF_TRUTH[k])))
    return made


def _factors(d: int) -> int:
    return FACTORS if d < MORE else MORE_FACTORS


def _excess(b: FloatArray, cov: FloatArray, log_prob: float, level: float) -> float:
    result = mvnorth.box(-np.inf, b + level, 0.0, cov, 1024, method="tilting")
    return float(result.log_prob) - log_prob


def call_auto(b: FloatArray, cov: FloatArray, step: int, seed: int) -> Timed:
    """With a tolerance of 10**(-step / 2); there is no seed where nothing is sampled."""
    rtol = 10.0 ** (-step / 2)
    result, seconds = _repeated(partial(mvnorth.box, -np.inf, b, 0.0, cov, rtol=rtol, seed=seed))
    return Timed(result.log_prob, seconds, result.rel_error)


def call_lattice(b: FloatArray, cov: FloatArray, points: int, seed: int) -> Timed:
    """By sampling, with this many points."""
    call = partial(mvnorth.box, -np.inf, b, 0.0, cov, points, method="tilting", seed=seed)
    result, seconds = _repeated(call)
    return Timed(result.log_prob, seconds, result.rel_error)


def _repeated(call: Callable[[], T]) -> tuple[T, float]:
    """The result and the seconds of the fastest of some calls, or of one if it is slow."""
    result, seconds = best_of(call, 1)
    return (result, seconds) if seconds > 0.02 else best_of(call, 5)


@contextlib.contextmanager
def programs() -> Iterator[list[Program]]:
    """The programs that are there, mvnorth first, after a first call each."""
    found = [
        Program("mvnorth", call_auto, STEPS, (3, 2)),
        Program("lattice", call_lattice, doublings(2**8, 2**26), (3, 2)),
        Program("scipy", in_logs(call_scipy), doublings(500, 10**8), (3, 2)),
    ]
    with contextlib.ExitStack() as stack:
        if r_mvtnorm.available():
            for name, settings in (
                ("GenzBretz", doublings(1000, 10**8)),
                ("Miwa", doublings(2**4, 2**12)),
            ):
                r = stack.enter_context(contextlib.closing(Mvtnorm(name)))
                found.append(Program(name, in_logs(r), settings, (2, 2)))
        for program in found:
            program.call(np.zeros(4), np.eye(4) + np.diag([0.3] * 3, 1) + np.diag([0.3] * 3, -1),
                         program.points[0], 0)  # fmt: skip
        yield found


def sweep(
    program: Program, judged: Sequence[Problem], targets: Sequence[float], limit: float
) -> list[Reached]:
    """Return what reached the targets; seconds are the mean over the problems."""

    def trial(setting: int, number: int) -> tuple[FloatArray, float]:
        answers = [program.call(p.b, p.cov, setting, SEED + number) for p in judged]
        errors = [
            math.expm1(min(a.value - p.log_prob, 700.0))
            for a, p in zip(answers, judged, strict=True)
        ]
        return np.array(errors), float(np.mean([a.seconds for a in answers]))

    reached = time_to_errors(trial, program.points, targets, program.trials, limit)
    for k in range(len(targets) - 2, -1, -1):  # a smaller error may take less time
        if reached[k + 1].met and reached[k + 1].seconds < reached[k].seconds:
            reached[k] = replace(reached[k + 1], target=targets[k])
    return reached


def milliseconds(reached: Reached | None) -> str:
    if reached is None:
        return ""
    return f"{'' if reached.met else '> '}{1e3 * reached.seconds:.3g} ({reached.error:.0e})"


def ratio(own: Reached, other: Reached | None) -> str:
    """The other's time over mvnorth's; a lower bound where only mvnorth met the target."""
    if other is None or not own.met:
        return "" if other is None or not other.met else f"< {other.seconds / own.seconds:.2g}"
    return f"{'' if other.met else '> '}{other.seconds / own.seconds:.2g}"


def true_errors(found: Sequence[Program], limit: float) -> list[dict[str, Any]]:
    """Time to the targets, for d = 4 to 10 and in the tail."""
    results: list[dict[str, Any]] = []
    times, ratios = [], []
    for d, log_prob in [*((d, None) for d in DIMENSIONS), (TAIL_DIMENSION, TAIL)]:
        judged = problems(d, log_prob)
        name = f"d = {d}" + ("" if log_prob is None else f", log P = {log_prob:g}")
        condition = max(np.linalg.cond(p.cov) for p in judged)
        reached: list[list[Reached] | list[None]] = []
        for program in found:
            progress(f"{name}, {program.name} ...")
            if program.name == "Miwa" and d > MIWA_LARGEST:
                reached.append([None] * len(TARGETS))
                continue
            reached.append(sweep(program, judged, TARGETS, limit))
            key = {"problem": name, "condition": condition, "program": program.name}
            results += [key | asdict(r) for r in reached[-1] if r is not None]
        for own, *others in zip(*reached, strict=True):
            assert own is not None
            label = [name, f"{own.target:.0e}"]
            times.append([*label, milliseconds(own), *map(milliseconds, others)])
            ratios.append([*label, *(ratio(own, other) for other in others)])
    names = [program.name for program in found]
    print("Milliseconds to a true relative error (root-mean-square error reached).")
    print(
        f"'>': not within {limit:g} s a call, mvnorth: not with {2**20} points; time and error of"
    )
    print("the last setting tried.")
    print_table(["problem", "target", *names], times)
    print("Time over mvnorth's; '>' and '<' where one of the two did not reach the target.")
    print_table(["problem", "target", *names[1:]], ratios)
    return results


def scipy_defaults(mvnorth_program: Program, limit: float) -> list[dict[str, Any]]:
    """scipy without any settings, and mvnorth at the true error that scipy has then."""
    results: list[dict[str, Any]] = []
    rows = []
    call: Callable[..., Timed] = in_logs(partial(call_scipy, limit=limit))
    for d in range(3, 11):
        progress(f"scipy as it comes, d = {d} ...")
        judged = problems(d)
        times = np.empty((3, PROBLEMS))
        errors = np.empty((3, PROBLEMS))
        for seed in range(3):
            for k, p in enumerate(judged):
                answer = call(p.b, p.cov, None, seed)
                times[seed, k], errors[seed, k] = answer.seconds, answer.value - p.log_prob
        error, seconds = float(np.sqrt(np.mean(errors**2))), float(times.min(axis=0).mean())
        own = sweep(mvnorth_program, judged, [error], limit)[0]
        rows.append([d, f"{error:.0e}", f"{1e3 * seconds:.3g}", milliseconds(own),
                     f"{seconds / own.seconds:.2g}"])  # fmt: skip
        results.append({"d": d, "scipy": seconds, "error": error, "mvnorth": asdict(own)})
    print("scipy without settings, and mvnorth at the same true error, milliseconds.")
    print_table(["d", "scipy's error", "scipy", "mvnorth (error)", "ratio"], rows)
    return results


def batch(d: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return means (ROWS, d), factors L (ROWS, d, d), and log P of the first rows (JUDGED,)."""
    rng = np.random.default_rng(d)
    m, c = rng.normal(0.5, 1.0, (ROWS, d)), rng.uniform(0.1, 0.7, (ROWS, d))
    drawn = [random_factors(rng, row, _factors(d)) for row in c]
    L = np.linalg.cholesky(np.stack([cov for _, cov in drawn]))
    judged = [
        log_prob_of(m[k], c[k], drawn[k][0], BATCH_STEP, negligible=BATCH_NEGLIGIBLE)
        for k in range(JUDGED)
    ]
    return m, L, np.array(judged)


def rate(call: Callable[..., object], m: FloatArray, L: FloatArray, seconds: float) -> float:
    """Return rows a second, from as many rows as take about ``seconds``, the best of three."""
    _, first = best_of(lambda: call(m[:JUDGED], L[:JUDGED]), 2)
    rows = int(min(ROWS, max(JUDGED, JUDGED * seconds / first)))
    return rows / best_of(lambda: call(m[:rows], L[:rows]), 3)[1]


def batches(seconds: float) -> list[dict[str, Any]]:
    """Rows a second in batches at a true error, the value and with its gradient."""
    results: list[dict[str, Any]] = []
    table = []
    for d in (5, 10):
        progress(f"batches, d = {d} ...")
        m, L, truth = batch(d)
        tried = []
        for step in STEPS[:10]:
            call = partial(mvnorth.orthant, rtol=10.0 ** (-step / 2))
            some, elapsed = best_of(partial(call, m[:JUDGED], L[:JUDGED]), 3)
            error = float(np.sqrt(np.mean(np.expm1(some.log_prob - truth) ** 2)))
            tried.append((elapsed, error, step))
            if error < BATCH_TARGETS[-1] and elapsed > 10.0 * min(tried)[0]:
                break
        theirs = _lpmvnorm_rates(m, L, truth)
        for target in BATCH_TARGETS:
            _, error, step = min(row for row in tried if row[1] <= target)
            rtol = 10.0 ** (-step / 2)
            value = rate(partial(mvnorth.orthant, rtol=rtol), m, L, seconds)
            gradient = partial(mvnorth.orthant_grad, log=True, wrt=("m", "L"), rtol=rtol)
            both = rate(gradient, m, L, seconds)
            row = [d, f"{target:.0e}", f"{rtol:.0e}", f"{error:.0e}", f"{value:.0f}", f"{both:.0f}"]
            peer = theirs.get(target)
            if peer is not None:
                short, more = ("", "") if peer.error <= target else ("< ", "> ")
                row += [f"{short}{peer.value:.0f}", f"{short}{peer.score:.0f}",
                        f"{more}{value / peer.value:.2g}",
                        f"{more}{both / peer.score:.2g}"]  # fmt: skip
            table.append(row + [""] * (10 - len(row)))
            results.append({"d": d, "target": target, "rtol": rtol, "error": error,
                            "rows a second": value, "with gradient": both,
                            "mvtnorm": None if peer is None else peer._asdict()})  # fmt: skip
    print(f"Batches of {ROWS} rows: rows a second at a true error (of {JUDGED} rows).")
    print_table(["d", "target", "rtol", "true error", "value", "with gradient", "lpmvnorm",
                 "slpmvnorm", "ratio", "ratio, gradient"], table)  # fmt: skip
    return results


class Rates(NamedTuple):
    """Rows a second of lpmvnorm and slpmvnorm, and how they were reached."""

    value: float
    score: float
    points: int
    error: float


def _lpmvnorm_rates(m: FloatArray, L: FloatArray, truth: FloatArray) -> dict[float, Rates]:
    """Return the rates at which targets are met, or those of the last number of points tried.

    Empty without mvtnorm 1.2.
    """
    if not r_mvtnorm.available("lpmvnorm"):
        return {}
    found: dict[float, Rates] = {}
    counts = doublings(2**4, 2**14)
    for points in counts:
        judged = r_mvtnorm.lpmvnorm(m[:JUDGED], L[:JUDGED], points)
        error = float(np.sqrt(np.mean(np.expm1(judged.log_prob - truth) ** 2)))
        new = [t for t in BATCH_TARGETS if t not in found and (error <= t or points == counts[-1])]
        if new:
            run = r_mvtnorm.lpmvnorm(m[:PEER_ROWS], L[:PEER_ROWS], points)
            rates = PEER_ROWS / run.value_seconds, PEER_ROWS / run.score_seconds
            found |= dict.fromkeys(new, Rates(*rates, points, error))
        if len(found) == len(BATCH_TARGETS):
            break
    return found


def main() -> None:
    options = arguments(__doc__).parse_args()
    mvnorth.set_num_threads(1)
    limit, seconds = (30.0, 60.0) if options.full else (0.5, 4.0)
    print(machine(), end="\n\n")
    with programs() as found:
        results = true_errors(found, limit)
        results += scipy_defaults(found[0], 60.0)
    results += batches(seconds)
    record(options.json, "gauss", results)


if __name__ == "__main__":
    main()
