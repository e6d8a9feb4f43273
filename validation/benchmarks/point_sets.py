"""The comparison that chose the point set of Genz's method.

    python -m validation.benchmarks.point_sets [--full] [--json FILE]

Root-mean-square relative error over independent randomisations of one set of N points, on the
stored reference problems but the tail. All sets see the same integrand: the problem in the
library's order of variables.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri
from scipy.stats import qmc as scipy_qmc

from mvnorth import qmc
from mvnorth._checks import factor_problems
from mvnorth._linalg.reorder import reorder
from validation.benchmarks.timing import (
    arguments,
    geometric_mean,
    machine,
    print_table,
    progress,
    record,
)
from validation.oracles.one_dimension import FloatArray
from validation.problems import Problem, problems

LEVELS = (9, 11, 13)
EXCLUDED = ("d_tail_d20",)
Rng = np.random.Generator


@dataclass(frozen=True)
class Integrand:
    """Genz's integrand over the unit cube.

    Attributes
    ----------
    T : (d, d)
        Unit lower triangular.
    upper : (d,)
        Limits of T y for standard normal y.
    """

    T: FloatArray
    upper: FloatArray

    def mean(self, u: FloatArray) -> float:
        """Mean over the points u, (d, n); the last coordinate is not used."""
        y = np.empty_like(u)
        weight = np.ones(u.shape[1])
        for i, limit in enumerate(self.upper):
            p = ndtr(limit - self.T[i, :i] @ y[:i])
            weight *= p
            y[i] = ndtri(p * u[i])
        return float(weight.mean())


def integrand(problem: Problem) -> Integrand:
    """The problem in the order of variables in which the library integrates."""
    batch, _ = factor_problems(problem.upper, np.linalg.cholesky(problem.cov))
    d = batch.d
    T, upper = np.empty((1, d, d)), batch.upper.copy()
    rank, attached = np.empty(1, dtype=np.int64), np.empty((1, d), dtype=np.int64)
    ordered = (T, batch.lower.copy(), upper, rank, attached)
    origin = (np.zeros_like(attached), np.zeros_like(upper))
    reorder(batch.covariance.factor, batch.covariance.singular, *ordered, *origin, True, 0, 1)
    assert rank[0] == d, "the covariance is singular"
    return Integrand(T[0], upper[0])


# Point sets: (d, n, generator) -> points, (d, n).


def _first_primes(count: int) -> FloatArray:
    found: list[int] = []
    candidate = 2
    while len(found) < count:
        if all(candidate % p for p in found):
            found.append(candidate)
        candidate += 1
    return np.array(found, dtype=np.float64)


def _shifted(x: FloatArray, rng: Rng) -> FloatArray:
    return (x + rng.random((len(x), 1))) % 1.0


def _tent(x: FloatArray) -> FloatArray:
    return 1.0 - np.abs(2.0 * x - 1.0)


def monte_carlo(d: int, n: int, rng: Rng) -> FloatArray:
    return rng.random((d, n))


def richtmyer_tent(d: int, n: int, rng: Rng) -> FloatArray:
    """Multiples of the square roots of the primes, as in Genz & Bretz (2009)."""
    return _tent(_shifted(np.sqrt(_first_primes(d))[:, None] * np.arange(n), rng))


def sobol_scrambled(d: int, n: int, rng: Rng) -> FloatArray:
    return scipy_qmc.Sobol(d, scramble=True, rng=rng).random(n).T


def sobol_shift_tent(d: int, n: int, rng: Rng) -> FloatArray:
    return _tent(_shifted(scipy_qmc.Sobol(d, scramble=False).random(n).T, rng))


def lattice_shift(d: int, n: int, rng: Rng) -> FloatArray:
    return _shifted(qmc.lattice_vector(d)[:, None] * (np.arange(n) / n), rng)


def lattice_shift_tent(d: int, n: int, rng: Rng) -> FloatArray:
    """What the library uses."""
    return _tent(lattice_shift(d, n, rng))


POINT_SETS: dict[str, Callable[[int, int, Rng], FloatArray]] = {
    "Monte Carlo": monte_carlo,
    "Richtmyer, tent": richtmyer_tent,
    "Sobol', scrambled": sobol_scrambled,
    "Sobol', shift, tent": sobol_shift_tent,
    "lattice": lattice_shift,
    "lattice, tent": lattice_shift_tent,
}


def rms_error(
    f: Integrand, log_prob: float, points: Callable[[int, int, Rng], FloatArray], n: int, reps: int
) -> float:
    """Root-mean-square relative error over ``reps`` randomisations of n points."""
    rng = np.random.default_rng(n)
    inside = np.finfo(np.float64).eps / 2
    means = [f.mean(np.clip(points(f.upper.size, n, rng), inside, 1 - inside)) for _ in range(reps)]
    return float(np.sqrt(np.mean((np.array(means) / np.exp(log_prob) - 1) ** 2)))


def main() -> None:
    options = arguments(__doc__).parse_args()
    reps = 128 if options.full else 32
    cases = [p for p in problems("reference") if p.name not in EXCLUDED]
    errors: dict[tuple[str, int, str], float] = {}
    for case in cases:
        progress(f"{case.name} ...")
        f = integrand(case)
        for name, points in POINT_SETS.items():
            for level in LEVELS:
                error = rms_error(f, case.log_prob, points, 2**level, reps)
                errors[name, level, case.name] = error
    names = [case.name for case in cases]
    means = {
        (name, level): geometric_mean(errors[name, level, case] for case in names)
        for name in POINT_SETS
        for level in LEVELS
    }
    print(machine(), end="\n\n")
    print(f"Root-mean-square relative error over {reps} randomisations, geometric mean of cases")
    print_table(
        ["points", *(f"N=2^{level}" for level in LEVELS)],
        [[name, *(f"{means[name, level]:.1e}" for level in LEVELS)] for name in POINT_SETS],
    )
    print(f"The same case by case, N=2^{LEVELS[-1]}")
    print_table(
        ["points", *names],
        [[name, *(f"{errors[name, LEVELS[-1], c]:.1e}" for c in names)] for name in POINT_SETS],
    )
    print("error over that of the library's points (lattice, tent):")
    print_table(
        ["points", *(f"N=2^{level}" for level in LEVELS)],
        [
            [name, *(f"{means[name, k] / means['lattice, tent', k]:.2f}" for k in LEVELS)]
            for name in POINT_SETS
        ],
    )
    results: list[dict[str, Any]] = [
        {"points": name, "n": 2**level, "case": case, "error": error}
        for (name, level, case), error in errors.items()
    ]
    record(options.json, "point_sets", results)


if __name__ == "__main__":
    main()
