"""Draws of Student's t between limits: the chi variable first, then the normal given that.

The density of the chi variable given the limits is proportional to the integrand of the
probability.  Its values at the nodes of the rule determine it everywhere, to the accuracy of the
rule, by the cardinal series sum_k f(t_k) sinc((t - t_k) / h).  A table of it, linear between its
points, is what is drawn from: relative errors of the density are below 1e-5.
"""

import numpy as np

from mvnorth._chi_rule import Integral
from mvnorth._cpu.chi_rule import to_r
from mvnorth._methods.rejection import Draws, Target
from mvnorth._methods.rejection import sample as sample_normal
from mvnorth._problem import Request, Tolerance
from mvnorth._solve import solve
from mvnorth._student import StudentProblems, find_integral

_TABLE = 2**12  # points between the ends
_TOLERANCE = Tolerance(1e-5, 0.0)


def sample(
    problems: StudentProblems, target: Target, size: int, most: int | None, seed: int
) -> Draws:
    """Return ``size`` draws of each row, from at most ``most`` proposals for a draw and block."""
    rows = problems.df.size
    draws = np.empty((rows, size, problems.normal.d))
    acceptance, proposals = np.empty(rows), np.empty(rows, dtype=np.int64)
    for row in range(rows):
        seeds = np.random.SeedSequence((seed, row)).generate_state(3, np.uint64)
        random = np.random.default_rng(seeds[:2])
        r = _draw_chi(problems.take(np.array([row])), random.random((size, 2)))
        given = problems.given(np.full(size, row), r)
        shift = 0.0 if problems.shift is None else problems.shift[row]
        step = target.step[row] / r[:, None]
        place = Target(
            np.broadcast_to(target.at_lower[row], step.shape),
            np.broadcast_to(target.at_upper[row], step.shape),
            target.centre[row] - step * shift,
            step,
        )
        found = sample_normal(given, place, 1, most, int(seeds[2] >> np.uint64(1)))
        draws[row] = found.draws[:, 0]
        proposals[row] = found.proposals.sum()
        acceptance[row] = np.mean(found.acceptance)
    return Draws(draws, acceptance, proposals, np.zeros(rows))


def _draw_chi(problem: StudentProblems, u: np.ndarray) -> np.ndarray:
    """Return draws of r for one row, from uniform numbers (size, 2)."""
    if np.isinf(problem.df[0]):
        return np.ones(len(u))
    integral, state = find_integral(problem, Request(_TOLERANCE), "auto", solve)
    t, density = _tabulate(integral)
    mass = 0.5 * (density[1:] + density[:-1])
    total = np.cumsum(mass)
    cell = np.minimum(np.searchsorted(total, u[:, 0] * total[-1], side="right"), mass.size - 1)
    left, right = density[cell], density[cell + 1]
    # The inverse of the distribution function of a density that is linear in the cell.
    root = np.sqrt(left**2 + u[:, 1] * (right**2 - left**2))
    inside = u[:, 1] * (left + right) / (left + root)
    r = np.empty(len(u))
    to_r(t[cell] + inside * (t[1] - t[0]), state, r)
    return r


def _tabulate(integral: Integral) -> tuple[np.ndarray, np.ndarray]:
    """Return equidistant points t and the density there, up to a factor."""
    first, last = np.min(integral.number), np.max(integral.number)
    number = np.linspace(first, last, _TABLE + 1)
    density = np.zeros(number.size)
    for at, share in zip(integral.number, integral.share, strict=True):
        density += share * np.sinc(number - at)
    return number * integral.step[0], np.maximum(density, 0.0)
