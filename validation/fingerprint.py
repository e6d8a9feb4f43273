"""Compare the bits of all results between two versions of the library.

``python -m validation.fingerprint store FILE`` computes every problem of the table with every
method, values and derivatives, and stores the bits; ``compare FILE`` computes them again and lists
what differs, with the largest relative change and whether both claimed errors cover it.
"""

import argparse
import itertools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import mvnorth
from validation import problems

_POINTS = 1000
_LARGEST = 100  # coordinates
_VALUES = ("auto", "closed_form", "genz", "markov", "quadrature", "tilting")
_DERIVATIVES = ("auto", "closed_form", "conditional", "markov", "pathwise", "quadrature", "tilting")
_DERIVATIVE_COORDINATES = 12


def main(arguments: list[str] | None = None) -> int:
    """Store or compare; 1 if a difference is not covered by the claimed errors."""
    parser = argparse.ArgumentParser(prog="python -m validation.fingerprint")
    parser.add_argument("action", choices=("store", "compare"))
    parser.add_argument("file", type=Path, help="a NumPy archive (.npz)")
    options = parser.parse_args(arguments)
    computed = dict(itertools.chain(_results(), _one_factor_results()))
    if options.action == "store":
        np.savez_compressed(options.file, allow_pickle=False, **computed)
        print(f"{len(computed)} results stored in {options.file}")
        return 0
    with np.load(options.file) as stored:
        return _compare({name: stored[name] for name in stored.files}, computed)


def _results() -> Iterator[tuple[str, np.ndarray]]:
    """Yield names and (numbers, errors), shape (2, k), of everything that can be computed."""
    for problem in problems.problems():
        d = problem.upper.size
        if d > _LARGEST:
            continue
        for method in _VALUES:
            for key, tolerance in (("n", {"n": _POINTS}), ("rtol", {"rtol": 1e-3})):
                yield f"{problem.name}/{method}/{key}", _entry(_value, problem, method, tolerance)
        for method in _DERIVATIVES if d <= _DERIVATIVE_COORDINATES else ():
            yield f"{problem.name}/{method}/grad", _entry(_gradient, problem, method)


def _one_factor_results() -> Iterator[tuple[str, np.ndarray]]:
    """Yield the same for covariances given as diag(c) + v v^T, of orthants and boxes."""
    random = np.random.default_rng(11)
    for d in (1, 2, 5, 30, 200):
        m, v, width = random.normal(size=(3, d))
        cov = mvnorth.OneFactor(np.exp(random.normal(size=d)), v)
        for method in ("auto", "genz", "tilting"):
            for sides, lower in (("orthant", np.full(d, -np.inf)), ("box", m - np.abs(width))):
                for kind, dtype in (("double", np.float64), ("single", np.float32)):
                    limits = lower.astype(dtype), m.astype(dtype)
                    entry = _entry(_one_factor, limits, cov, method)
                    yield f"one_factor-{d}/{sides}/{kind}/{method}", entry


def _entry(compute: Callable[..., np.ndarray], *arguments: Any) -> np.ndarray:
    try:
        return compute(*arguments)
    except ValueError:  # the method does not apply, which is compared as well
        return np.empty((2, 0))


def _one_factor(limits: tuple[np.ndarray, np.ndarray], cov: Any, method: str) -> np.ndarray:
    result = mvnorth.box(*limits, 0.0, cov, _POINTS, method=method)
    return np.array([[result.log_prob], [result.rel_error]])


def _value(problem: Any, method: str, tolerance: dict[str, Any]) -> np.ndarray:
    limits = problem.lower, problem.upper, 0.0, problem.cov
    result = mvnorth.box(*limits, method=method, seed=3, **tolerance)
    return np.array([[result.log_prob, result.log_bound], [result.rel_error, 0.0]])


def _gradient(problem: Any, method: str) -> np.ndarray:
    limits = problem.lower, problem.upper, 0.0, problem.cov
    found = mvnorth.box_grad(
        *limits, _POINTS, method=method, seed=3, log=True, wrt=("lower", "upper", "mean", "cov")
    )
    names = ("lower", "upper", "mean", "cov")
    values = [np.ravel(getattr(found, f"grad_{name}")) for name in names]
    errors = [np.ravel(getattr(found, f"grad_{name}_error")) for name in names]
    return np.stack([np.concatenate(values), np.concatenate(errors)])


def _compare(stored: dict[str, np.ndarray], computed: dict[str, np.ndarray]) -> int:
    uncovered = 0
    same = 0
    for name in sorted(stored.keys() | computed.keys()):
        if name not in stored or name not in computed:
            print(f"{name}: only {'stored' if name in stored else 'computed'}")
            uncovered += 1
            continue
        before, after = stored[name], computed[name]
        if before.shape != after.shape:
            print(f"{name}: {before.shape[1]} numbers, now {after.shape[1]}")
            uncovered += 1
        elif before.tobytes() == after.tobytes():
            same += 1
        else:
            uncovered += not _describe(name, before, after)
    print(f"{same} results have the same bits, {len(stored) - same} differ; {uncovered} uncovered")
    return int(uncovered > 0)


def _describe(name: str, before: np.ndarray, after: np.ndarray) -> bool:
    """Print how two results differ; whether their claimed errors cover the difference."""
    with np.errstate(invalid="ignore", divide="ignore"):
        change = np.where(before[0] == after[0], 0.0, np.abs(before[0] - after[0]))
        covered = bool((change <= before[1] + after[1] + 1e-15 * np.abs(before[0])).all())
        ratio = after[1] / before[1]
    finite = ratio[np.isfinite(ratio) & (ratio > 0.0)]
    errors = f"{finite.min():.3g} to {finite.max():.3g}" if finite.size else "unchanged"
    text = "" if covered else "  NOT COVERED"
    print(f"{name}: change up to {np.max(change):.1e}, errors times {errors}{text}")
    return covered


if __name__ == "__main__":
    sys.exit(main())
