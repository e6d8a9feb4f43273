"""Estimates with derivatives in what a user asks for, in the user's units."""

from dataclasses import replace

import numpy as np

from mvnorth._problem import AnyProblems, Budget, Estimate, Problems, Slopes
from mvnorth._run import run

METHODS = (
    "auto", "closed_form", "conditional", "markov", "pathwise", "pinned", "quadrature", "tilting",
)  # fmt: skip


def differentiate(
    problems: AnyProblems,
    budget: Budget,
    method: str,
    seed: int,
    wanted: tuple[str, ...],
) -> tuple[Estimate, np.ndarray]:
    """Estimates with slopes in what is ``wanted``, and the names of the methods of each row.

    ``wanted`` are some of "lower", "upper", "mean", "cov"; "L", which is A for problems whose A is
    lower triangular; and "c" and "v" of problems with one factor.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        estimate, names = _differentiate(problems, budget, method, seed, wanted)
        assert estimate.slopes is not None
        estimate.slopes.store(problems.upper.dtype)
    return estimate, names


def _differentiate(
    problems: AnyProblems, budget: Budget, method: str, seed: int, wanted: tuple[str, ...]
) -> tuple[Estimate, np.ndarray]:
    needed = tuple("factor" if name == "L" else name for name in wanted)
    if method == "conditional":
        estimate, names = _conditionally(problems, budget, seed, needed)
    else:
        estimate, names = run(problems, budget, method, seed, needed)
    if isinstance(problems, Problems) and estimate.slopes is not None:
        _undo_scale(problems, estimate.slopes)
    return estimate, names


def _conditionally(
    problems: AnyProblems, budget: Budget, seed: int, wanted: tuple[str, ...]
) -> tuple[Estimate, np.ndarray]:
    from mvnorth._derivatives import conditional

    def solve(given: AnyProblems) -> Estimate:
        return run(given, budget, "auto", seed)[0]

    estimate = solve(problems)
    rows = np.flatnonzero(estimate.log_prob > -np.inf)
    slopes = Slopes.unknown(problems, wanted)
    if rows.size:
        found = conditional.slopes(problems.take(rows), wanted, estimate.take(rows), solve)
        slopes.replace(rows, found)
    return replace(estimate, slopes=slopes), np.full(problems.size, "conditional")


def _undo_scale(problems: Problems, slopes: Slopes) -> None:
    """Slopes in the units in which the problems were given, and in "L"."""
    scale = 1.0 / problems.scale  # powers of two
    for of in (slopes.value, slopes.error):
        for name in tuple(of):
            if name == "cov":
                of[name] = of[name] * scale[:, :, None] * scale[:, None, :]
            elif name == "factor":
                of["L"] = np.tril(of[name] * scale[:, :, None])
            else:
                of[name] = of[name] * scale
