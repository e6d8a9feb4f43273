"""What the report on speed measures: the benchmarks with smaller settings, each alone in time."""

from __future__ import annotations

import importlib.util
import math
import os
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np

import mvnorth
from validation.benchmarks import derivatives, kernel, one_factor, peers, tails, throughput
from validation.benchmarks.timing import Reached, best_of
from validation.oracles import botorch_mvnxpb
from validation.oracles.one_dimension import FloatArray
from validation.problems import Problem, ar1

Record = dict[str, Any]


def load() -> float | None:
    """Processes that wanted to run in the last minute; this one is among them."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else None


def problem(name: str) -> Problem:
    """One of ``peers.problems``, or an AR(1) chain of any length made as they are."""
    for each in peers.problems() if "random" in name else ():
        if each.name == name:
            return each
    d = int(name.partition("d=")[2])
    b = np.random.default_rng(d).normal(2.0, 0.5, d)
    return replace(ar1(np.full(d, -np.inf), b, 0.9), name=name)


def side_by_side(
    name: str, targets: Sequence[float], limit: float, trials: Sequence[int]
) -> Record:
    """Seconds to true errors of mvnorth, scipy and mvtnorm, and BoTorch's error and seconds."""
    mvnorth.set_num_threads(1)
    given = problem(name)
    with peers.programs(limit) as programs:
        timed = [by_processor(program, trials) for program in programs]
        found = {
            program.name: [*map(asdict, peers.sweep(program, given, limit, tuple(targets)))]
            for program in timed
        }
        approximate = _botorch(given, timed[0], limit)
    return {"d": len(given.upper), "programs": found, "botorch": approximate, "load": load()}


def by_processor(program: peers.Program, trials: Sequence[int]) -> peers.Program:
    """The program with fewer trials, and with seconds of the processor, as R counts them."""

    def call(b: FloatArray, cov: FloatArray, points: int | None, seed: int) -> peers.Timed:
        start = time.process_time()
        answer = program.call(b, cov, points, seed)
        return answer._replace(seconds=time.process_time() - start)

    timed = program.call if program.name == "mvtnorm" else call
    return replace(program, call=timed, trials=(trials[0], trials[1]))


def _botorch(given: Problem, own: peers.Program, limit: float) -> Record | None:
    """BoTorch's true error, its seconds, and mvnorth's seconds to the same error."""
    if not botorch_mvnxpb.available():
        return None
    botorch_mvnxpb.logprob(np.full(2, -np.inf), np.zeros(2), np.eye(2))  # imports

    def call() -> float:
        return botorch_mvnxpb.logprob(given.lower, given.upper, given.cov)

    seconds = math.inf
    for _ in range(2):
        start = time.process_time()
        log_prob = call()
        seconds = min(seconds, time.process_time() - start)
    error = abs(math.expm1(log_prob - given.log_prob))
    reached = peers.sweep(own, given, limit, (max(error, 1e-5),))[0]
    return {"seconds": seconds, "error": error, "mvnorth": asdict(reached)}


def far_out(name: str, limit: float, trials: Sequence[int]) -> Record:
    """Seconds to 1e-3 in the tail, by all programs of ``tails``."""
    mvnorth.set_num_threads(1)
    (given,) = (each for each in tails.problems() if each.name == name)
    found = {}
    with tails.programs() as programs:
        for program in programs:
            fewer = replace(program, trials=(trials[0], trials[1]))
            reached, claimed = tails.sweep(fewer, given, limit)
            found[program.name] = asdict(reached[-1]) | {"claimed": claimed}
    log_prob = float(given.log_prob)
    return {"log_prob": log_prob, "limit": limit, "programs": found, "load": load()}


def batches(d: int, points: int, limit: float) -> Record:
    """Seconds a problem at 1e-4, mvnorth's batch in one call and the peers' loops."""
    mvnorth.set_num_threads(1)
    batch = throughput.Batch(d, points)
    with peers.programs(limit) as programs:
        found = {"mvnorth": asdict(throughput.mvnorth_reached(batch, limit))}
        for program in programs[1:]:
            found[program.name] = asdict(throughput.peer_reached(program, batch, limit))
    known = float(batch.rel_error.max())
    return {"d": d, "programs": found, "known": known, "check": throughput.check(batch, 50_000)}


def gradient(d: int, n: int, seconds: float) -> list[Record]:
    """Value and gradient beside the value, differences, and torch's autograd."""
    mvnorth.set_num_threads(1)
    with_torch = importlib.util.find_spec("torch") is not None
    if with_torch:
        import torch

        torch.set_num_threads(1)
    return [
        asdict(derivatives.measure(d, n, method, with_torch, seconds))
        for method in derivatives.VALUES
    ]


def classes(rows: int, count: int) -> list[Record]:
    """EXACT's loss and gradient by all programs of ``one_factor``."""
    mvnorth.set_num_threads(1)
    batch = one_factor.Batch(rows, count)
    lines = one_factor.mvnorth_lines(batch)
    if importlib.util.find_spec("torch") is not None:
        lines += one_factor.torch_lines(batch, full=False)
    lines.append(one_factor.scipy_line(batch))
    return [asdict(line) for line in lines]


def many_classes(sizes: Sequence[int]) -> list[Record]:
    """mvnorth for ever more classes."""
    mvnorth.set_num_threads(1)
    return [asdict(line) for line in one_factor.scaling(False, tuple(sizes))]


def floor(dimensions: Sequence[int], rounds: int) -> list[Record]:
    """The kernel beside its parts, and two threads beside one."""
    parts = kernel.floor()
    return [kernel.measure(d, parts, rounds)._asdict() | {"load": load()} for d in dimensions]


def points(name: str, counts: Sequence[int], seeds: int) -> list[Record]:
    """Seconds and true error of mvnorth and scipy for ever more points."""
    mvnorth.set_num_threads(1)
    given = problem(name)
    programs = {"mvnorth": peers.call_mvnorth, "scipy": peers.call_scipy}
    records = []
    for program, call in programs.items():
        call(given.upper, given.cov, 1000, 0)
        for n in counts:
            timed = [call(given.upper, given.cov, n, peers.SEED + k) for k in range(seeds)]
            errors = np.array([peers.relative_error(given, each.value) for each in timed])
            records.append(
                {
                    "program": program,
                    "n": n,
                    "seconds": min(each.seconds for each in timed),
                    "error": float(np.sqrt(np.mean(errors**2))),
                }
            )
    return records


def same_bits(d: int, n: int) -> list[Record]:
    """Values and gradients of a batch by one and by two threads, and their seconds."""
    rng = np.random.default_rng(d)
    A = rng.normal(size=(4, d, 2 * d))
    cov = A @ np.swapaxes(A, 1, 2) / (2 * d)
    b = rng.normal(0.7, 0.5, (4, d))

    def value() -> FloatArray:
        return np.asarray(mvnorth.box(-np.inf, b, 0.0, cov, n, method="tilting").log_prob)

    def slopes() -> FloatArray:
        found = mvnorth.box_grad(-np.inf, b, 0.0, cov, n, wrt=("upper", "cov"), method="tilting")
        return np.concatenate([found.grad_upper.ravel(), found.grad_cov.ravel()])

    records = []
    for what, call in (("value", value), ("gradient", slopes)):
        by = {}
        for threads in (1, 2):
            mvnorth.set_num_threads(threads)
            call()
            by[threads] = best_of(call, 3)
        mvnorth.set_num_threads(1)
        same = by[1][0].tobytes() == by[2][0].tobytes()
        records.append(
            {"what": what, "d": d, "n": n, "one": by[1][1], "two": by[2][1], "same": same}
        )
    return records


def ratio(own: Record, other: Record) -> float | None:
    """Another program's seconds over mvnorth's at an equal true error; None if one has not met it.

    Where only mvnorth has, a lower bound would follow: ``bound`` says so.
    """
    if not own["met"] or not other["met"]:
        return None
    return float(other["seconds"] / own["seconds"])


def bound(own: Record, others: Sequence[Record]) -> str:
    """The best of others over mvnorth, as text, a bound where one did not arrive."""
    found = peers.ratio(Reached(**own), [Reached(**other) for other in others])
    return "open" if found is None else str(found)
