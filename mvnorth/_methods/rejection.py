"""Independent draws between limits: proposals, of which a share is accepted.

Independent blocks of coordinates are drawn on their own.  A block with one common factor takes
that first, which hardly rejects anything, and so does one with two to four; any other takes tilted
proposals.  Proposals come in
parts with a stream of random numbers each, so that draws depend neither on the number of threads
nor on how many are asked for: fewer draws are the first of more.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from mvnorth._cpu.factor_draws import KNOTS, draw_coordinates, draw_factors, set_knots
from mvnorth._cpu.genz import BLOCK
from mvnorth._cpu.rejection import accept
from mvnorth._errors import AcceptanceError
from mvnorth._linalg.blocks import connected_blocks
from mvnorth._methods import factors
from mvnorth._methods.genz import System
from mvnorth._methods.quadrature import one_factor_problems
from mvnorth._problem import DRAW_REACH, Problems
from mvnorth._threads import run_items

_PART_BLOCKS = 8  # of proposals, with one stream of random numbers
_COORDINATES = 2048  # whose random numbers are in memory at a time
_FIRST_PARTS = 16  # at most
_CELLS = 2**18  # in which the density of common factors is bounded, at most
_WORTH = 0.05  # share of proposals with several factors to be accepted, else they are tilted
_PILOT, _PATIENCE = 2**14, 2**20  # proposals after which the mean of shares is believed


@dataclass(frozen=True)
class Target:
    """Map from the coordinates of problems to those of the user, each (B, d).

    Attributes
    ----------
    at_lower, at_upper : the coordinate where the problem's is at its lower or upper limit
    centre : the coordinate where the problem's is 0
    step : what one unit of the problem's coordinate is worth
    """

    at_lower: np.ndarray
    at_upper: np.ndarray
    centre: np.ndarray
    step: np.ndarray

    def places(self, row: int, coordinates: np.ndarray | slice) -> np.ndarray:
        """Return the argument (4, d) of ``mvnorth._cpu.rejection.place``."""
        arrays = (self.at_lower, self.at_upper, self.centre, self.step)
        return np.stack([a[row, coordinates] for a in arrays])


@dataclass(frozen=True)
class Draws:
    """``draws`` (B, size, d), and for each row the proposals of the block that took most of them,
    the share of these that was accepted, and a bound on the logarithm of the probability."""

    draws: np.ndarray
    acceptance: np.ndarray
    proposals: np.ndarray
    log_bound: np.ndarray


class _Proposals(Protocol):
    log_bound: float
    each: int  # proposals a part
    cost: float  # seconds a part
    note: str  # for the message where too few are accepted

    def part(self, random: np.random.Generator, count: int) -> tuple[np.ndarray, float]:
        """Return the accepted ones of the first ``count`` proposals of a part, (k, d).

        Also return the sum of their shares in [0, 1].
        """


def sample(problems: Problems, target: Target, size: int, most: int | None, seed: int) -> Draws:
    """Return ``size`` draws of each row, from at most ``most`` proposals for a block."""
    key = np.random.SeedSequence(seed).generate_state(2, np.uint64)
    rows = problems.size
    draws = np.empty((rows, size, problems.d))
    acceptance, log_bound = np.ones(rows), np.zeros(rows)
    proposals = np.zeros(rows, dtype=np.int64)
    for row, blocks in enumerate(_blocks(problems)):
        draws[row] = target.centre[row]  # coordinates without variance
        for number, block in enumerate(blocks):
            source = _proposals(problems, row, block, target.places(row, block))
            if not source.log_bound > -0.5 * DRAW_REACH**2:
                raise ValueError(
                    "there is nothing to draw in double precision: limits contradict each other, "
                    f"or the probability is below exp({-0.5 * DRAW_REACH**2:.1g})"
                )
            limit = 2 * 10**9 // len(block) if most is None else most
            found, rate, used = _collect(source, size, limit, key, (number, row))
            draws[row][:, block] = found
            log_bound[row] += source.log_bound
            if used > proposals[row]:
                proposals[row], acceptance[row] = used, rate
    return Draws(draws, acceptance, proposals, log_bound)


def _blocks(problems: Problems) -> Iterable[list[np.ndarray]]:
    """Return for every row its blocks of dependent coordinates, without constants."""
    links = problems.covariance.links()
    if links is None:
        return [[np.arange(problems.d)]] * problems.size

    def split(of_row: np.ndarray, constant: np.ndarray) -> list[np.ndarray]:
        varies = np.flatnonzero(~constant)
        return [varies[block] for block in connected_blocks(of_row[varies])]

    constant = problems.covariance.constant()
    if len(links) == 1:
        return [split(links[0], constant[0])] * problems.size
    return map(split, links, np.broadcast_to(constant, links.shape[:2]))


def _proposals(problems: Problems, row: int, block: np.ndarray, places: np.ndarray) -> _Proposals:
    part = problems.take(slice(row, row + 1), block, drop_columns=True)
    _, factored = one_factor_problems(part)
    if factored is not None:
        return FactorProposals(factored, factored.covariance.v[0][:, None], places)
    if factors.preference(part) is not None:
        _, factored = factors.factors_problems(part)
        if factored is not None:
            several = SeveralFactorsProposals(factored, factored.covariance.V[0], places)
            if several.expected > _WORTH:
                return several
    return TiltedProposals(part.dense(), places)


def _collect(
    source: _Proposals, size: int, limit: int, key: np.ndarray, stream: tuple[int, int]
) -> tuple[np.ndarray, float, int]:
    """Return ``size`` draws, the share that was accepted, and the number of proposals."""
    found: list[np.ndarray] = []
    have = done = 0
    shares = 0.0
    parts = min(-(-size // source.each), _FIRST_PARTS)
    while True:
        parts = min(parts, max(1, -(-limit // source.each) - done))
        results: list[tuple[np.ndarray, float]] = [(np.empty(0), 0.0)] * parts

        def propose(begin: int, end: int, done: int = done, results: list = results) -> None:
            for k in range(begin, end):
                bits = np.random.Philox(key=key, counter=[0, done + k, *stream])
                count = min(source.each, limit - (done + k) * source.each)
                results[k] = source.part(np.random.Generator(bits), count)

        run_items(propose, parts, parts * source.cost)
        found += [draws for draws, _ in results]
        have += sum(len(draws) for draws, _ in results)
        shares += sum(share for _, share in results)
        done += parts
        proposals = min(done * source.each, limit)
        if have >= size:
            return np.concatenate(found)[:size], have / proposals, proposals
        _give_up_if_hopeless(have, shares, proposals, size, limit, source.note)
        parts = done if have < 10 else int(1.1 * (size - have) * done / have) + 1
        parts = min(parts, 4 * done)


def _give_up_if_hopeless(
    have: int, shares: float, proposals: int, size: int, limit: int, note: str
) -> None:
    at_best = (have + 3.0 * math.sqrt(have) + 5.0) / proposals
    expected = shares / proposals
    hopeless = proposals >= limit or size > limit * at_best
    # Shares say what to expect long before anything is accepted, unless all of them are zero.
    if proposals >= (_PILOT if shares > 0.0 else _PATIENCE):
        hopeless = hopeless or size > 30.0 * limit * expected
    if not hopeless:
        return
    if shares == 0.0:
        raise AcceptanceError(
            f"none of {proposals} proposals met all limits: their probability may be zero, as for "
            "limits that contradict each other under a singular covariance",
            0.0,
        )
    raise AcceptanceError(
        f"{have} of {proposals} proposals were accepted{note}, and the expected share is "
        f"{expected:.1e}: {size} draw{'s' * (size > 1)} would take about {size / expected:.1e} "
        f"proposals, more than max_proposals={limit}; ask for fewer draws, raise max_proposals if "
        "you can wait, give the covariance as Factors if it is diag(c) + V V^T, or draw "
        "dependent samples with a Markov chain (Gibbs or Hamiltonian Monte Carlo)",
        expected,
    )


def _uniform(random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Return random numbers in (0, 1), without the ends."""
    u = random.random(shape)
    return np.maximum(u, 2.0**-54, out=u)


class TiltedProposals:
    """Proposals of minimax tilting for one problem; Genz's where the tilt is not known."""

    def __init__(self, problem: Problems, places: np.ndarray) -> None:
        d = problem.d
        system = System.of(problem)
        # To first order, for which the largest weight is known.
        tilted, found = system.tilted(problem.covariance.singular, rounds=0)
        scale, bound = found.log_scale, np.minimum(found.log_bound + found.gap, 0.0)
        mu = np.zeros(system.T.shape[1])
        if bound[0] < 0.0:
            system = tilted
            limited = np.arange(d) < system.rank[0]
            mu[:d] = np.einsum("ij,i->j", system.T[0, :d, :d], system.slope[0] * limited)
        else:  # nothing to tilt, or no tilt found: weights that are probabilities
            scale[:], bound[:] = 0.0, 0.0
        self.note = "" if bound[0] < 0.0 else " (no tilt was found, they are Genz's)"
        self.log_bound = float(bound[0])
        self.each = _PART_BLOCKS * BLOCK
        self.cost = self.each * d * (1e-8 + d * 3e-11)
        self.d, self._rank = d, int(system.rank[0])
        order, unit = system.order[0], system.unit[0]
        at_lower, at_upper, centre, step = places[:, order]
        shift = np.einsum("ij,j->i", system.T[0, :d], mu) + mu[system.attached[0]]
        turned = unit < 0.0
        self._places = np.stack(
            [
                np.where(turned, at_upper, at_lower),
                np.where(turned, at_lower, at_upper),
                centre + step * unit * shift,
                step * unit,
            ]
        )
        T, lower, upper, _, attached, slope, curve = (a[0] for a in system.kernel_arguments)
        rows = (T, lower, upper, self._rank, attached, slope, curve)
        self._system = (*rows, float(scale[0]) - self.log_bound, order)
        self.largest = 0.0  # share so far; 1 and rounding at most

    def part(self, random: np.random.Generator, count: int) -> tuple[np.ndarray, float]:
        u = _uniform(random, (_PART_BLOCKS, self._rank + 1, BLOCK))
        draws = np.empty((self.each, self.d))
        accepted, shares, largest = accept(*self._system, self._places, u, count, draws)
        self.largest = max(self.largest, largest)
        if largest > 1.0 + 1e-6:  # never seen; the draws would not be exact
            raise AcceptanceError(
                "a weight exceeds its bound, which is a bug: please report it", 0.0
            )
        return draws[:accepted].copy(), shares


class FactorProposals:
    """Proposals for one problem whose common factors come first: all that may be rejected."""

    note = ""

    def __init__(self, problem: Problems, V: np.ndarray, places: np.ndarray) -> None:
        limits = problem.lower[0].astype(np.float64), problem.upper[0].astype(np.float64)
        self._limits = (*limits, 1.0 / np.sqrt(problem.covariance.c[0]))
        self._places, self._V = places, np.ascontiguousarray(V)
        self.d = problem.d
        self._blocks = _PART_BLOCKS if self.d <= _COORDINATES else 1
        self.each = self._blocks * BLOCK
        self.cost = self.each * self.d * 3e-8
        self.log_bound, self.expected = self._set_bound()

    def _set_bound(self) -> tuple[float, float]:
        """Bound the density of the factors: the bound on log P, and the share to be accepted."""
        self._v = self._V[:, 0].copy()
        self._knots, self._pieces = np.empty((3, KNOTS)), np.empty((3, KNOTS))
        bounded = set_knots(*self._limits, self._v, self._knots, self._pieces)
        self._count, bound, _ = bounded
        return float(bound), 1.0

    def _draw_factors(self, random: np.random.Generator, count: int, z: np.ndarray) -> int:
        """Set the first columns of z (k, each) to draws, and return their number."""
        hull = (self._knots, self._pieces, self._count)
        u = np.ascontiguousarray(_uniform(random, (3, self.each))[:, :count])
        return draw_factors(*self._limits, self._v, *hull, u, z[0])

    def part(self, random: np.random.Generator, count: int) -> tuple[np.ndarray, float]:
        z = np.zeros((self._V.shape[1], self.each))
        accepted = self._draw_factors(random, count, z)
        draws = np.empty((accepted, self.d))
        for first in range(0, self.d, _COORDINATES):
            u = _uniform(random, (self._blocks, min(_COORDINATES, self.d - first), BLOCK))
            draw_coordinates(*self._limits, self._V, self._places, z, first, u, draws)
        return draws, float(accepted)


class SeveralFactorsProposals(FactorProposals):
    """Proposals for one problem with two to four common factors."""

    def _set_bound(self) -> tuple[float, float]:
        from mvnorth._cpu.factors_draws import STEPS, set_cells

        cells, bound, *place, linear, curvature = set_cells(*self._limits, self._V, _CELLS)
        mode, transform, self._row = place
        self._cells, self._place = cells, (mode, transform, linear, curvature)
        if len(cells) == 0:
            return float(bound), 0.0
        largest = cells[:, 1].max()
        masses = np.exp(cells[:, 1] - largest)
        self._total = np.cumsum(masses)
        k = self._V.shape[1]
        inside = np.sum(np.exp(cells[:, 0] - largest)) * STEPS[k] ** k
        return float(bound), float(inside / self._total[-1])

    def _draw_factors(self, random: np.random.Generator, count: int, z: np.ndarray) -> int:
        from mvnorth._cpu.factors_draws import draw_several_factors

        u = np.ascontiguousarray(_uniform(random, (2 + len(z), self.each))[:, :count])
        return draw_several_factors(self._cells, self._total, self._place, self._row, u, z)
