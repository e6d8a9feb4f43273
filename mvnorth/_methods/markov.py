"""Gauss-Markov chains by their transfer operator: exact to rounding.

Derivatives come from densities at the limits.
"""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from mvnorth._covariance.dense import Dense
from mvnorth._estimate import Derivatives, Estimate
from mvnorth._problem import Problems, Request
from mvnorth._threads import run_items

SECONDS = 2e-5  # a row and coordinate, roughly
_ROUNDING = 1e-15
_EPS = float(np.finfo(np.float64).eps)


def preference(problems: Problems) -> float | None:
    """Return the place among the methods of "auto": after those for one factor and few."""
    if problems.covariance.given_one_factor() is not None or problems.d <= 3:
        return np.inf
    from mvnorth._linalg.markov import may_be_chain

    return 3.0 if may_be_chain(problems.covariance.triangular().factor).any() else None


def solve(problems: Problems, request: Request) -> Estimate:
    """Return estimates; rel_error is infinite where problems are no chains."""
    chains = Chains.of(problems)
    estimate = Estimate.unknown(problems, request.wrt)
    if not chains.rows.size:
        return estimate
    if request.wrt:
        part = _with_derivatives(chains, problems.take(chains.rows), request)
    else:
        part = chains.integrate(np.empty((0, 5, problems.d)))[0]
    if chains.rows.size == problems.size:
        return part
    estimate.replace(chains.rows, part)
    return estimate


@dataclass(frozen=True)
class Chains:
    """The Markov chains of a batch, standardised and in the order of the chain.

    Attributes
    ----------
    rows : (B,) which of the problems
    lower, upper : (B, d) limits
    rho, noise : (1 or B, d - 1), see ``mvnorth._cpu.markov``
    order : (1 or B, d) which coordinate of the problem comes where
    deviation : (1 or B, d) standard deviations, in the order of the problem
    firm : (B,) relative error of noises and deviations
    relative : (B,) the same with what the rounding of limits brings
    """

    rows: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    rho: np.ndarray
    noise: np.ndarray
    order: np.ndarray
    deviation: np.ndarray
    firm: np.ndarray
    relative: np.ndarray

    @classmethod
    def of(cls, problems: Problems) -> "Chains":
        from mvnorth._linalg.markov import recognise

        covariance = problems.covariance.triangular()
        recognised = recognise(covariance.factor)
        found = np.isfinite(recognised[-1])
        order, rho, noise, deviation, error = (a[found] for a in recognised)
        rows = np.flatnonzero(np.broadcast_to(found, problems.size))
        shape = (rows.size, problems.d)
        with np.errstate(over="ignore"):
            lower, upper = (
                np.take_along_axis(a[rows] / deviation, np.broadcast_to(order, shape), axis=1)
                for a in (problems.lower, problems.upper)
            )
        firm = np.broadcast_to(_relative(covariance, noise, error), rows.size)
        relative = firm + problems.rounding[rows]
        return cls(rows, lower, upper, rho, noise, order, deviation, firm, relative)

    def integrate(self, windows: np.ndarray) -> tuple[Estimate, np.ndarray]:
        """Return probabilities, and the part of their relative errors (B,) that the rule makes.

        ``windows`` is filled as ``mvnorth._cpu.markov`` says.
        """
        from mvnorth._cpu.markov import markov

        size, d = self.lower.shape
        log_prob, rel_error = np.empty((2, size))
        used = np.empty(size, dtype=np.int64)
        chain = (self.lower, self.upper, self.rho, self.noise)

        def some(begin: int, end: int) -> None:
            markov(*chain, log_prob, rel_error, used, windows, begin, end)

        run_items(some, size, size * d * SECONDS)
        rule = rel_error.copy()
        rel_error += _ROUNDING * (d + np.abs(log_prob))
        rel_error += self.relative * (d + 2.0 * np.abs(log_prob))
        lost = ~(np.isfinite(log_prob) & (rel_error < np.inf))
        log_prob[lost], rel_error[lost], rule[lost] = -np.inf, np.inf, np.inf
        return Estimate.exact(log_prob, rel_error, used), rule


def _relative(covariance: Dense, noise: np.ndarray, error: np.ndarray) -> np.ndarray:
    """Return the relative error (1 or B,) of noises and deviations that problems bring along.

    To first order log P is off by E[e^T N e], with e the independent noises given the limits and N
    what their rows are off; E[e^T e] is at most d + 2 |log P|.  A covariance that was rounded has
    variances given the coordinates before, noise**2, off by its rounding; those of another order
    are smaller still, by about a number of coordinates.
    """
    rounded = covariance.singular**2 / (8.0 * covariance.d)  # negligible where a factor was given
    smallest = np.min(noise, axis=1, initial=1.0)
    return np.asarray(error + (2.0 + covariance.d) * rounded / smallest**2)


def _with_derivatives(chains: Chains, problems: Problems, request: Request) -> Estimate:
    """Return the estimates of ``chains.integrate`` with derivatives, for ``problems`` of its rows.

    These take about as long again, and in the covariance O(d**2) at most.
    """
    estimate, derivatives = _differentiate(chains, request.in_covariance)
    if request.in_covariance:
        problems.covariance.add_parameters(derivatives, request.wrt)
    return replace(estimate, derivatives=derivatives.only(request.wrt))


def _differentiate(chains: Chains, pairs: bool) -> tuple[Estimate, Derivatives]:
    """Return estimates, and derivatives in limits and mean, and with ``pairs`` in "cov"."""
    from mvnorth._cpu.markov_slopes import markov_slopes

    size, d = chains.lower.shape
    windows = np.empty((size, 5, d))
    estimate, rule = chains.integrate(windows)
    limits, covs = np.zeros((2, size, 3, d)), np.zeros((2, size if pairs else 0, d, d))
    limits[1], covs[1] = np.inf, np.inf
    kernel = partial(
        markov_slopes, chains.lower, chains.upper, chains.rho, chains.noise, estimate.log_prob,
        rule, windows, chains.relative, chains.firm + _EPS, limits, covs,
    )  # fmt: skip
    run_items(kernel, size, size * d * SECONDS * (d if pairs else 1))
    back = np.argsort(chains.order, axis=1)
    unit = chains.deviation[:, None]
    limits = np.take_along_axis(limits, back[None, :, None, :], axis=3) / unit
    limits += 0.0  # no -0
    limits[1] += _EPS * np.abs(limits[0])
    derivatives = Derivatives.of_columns(("lower", "upper", "mean"), limits[0], limits[1])
    if pairs:
        covs = np.take_along_axis(covs, back[None, :, :, None], axis=2)
        covs = np.take_along_axis(covs, back[None, :, None, :], axis=3)
        covs /= chains.deviation[:, :, None] * unit
        covs[1] += 2.0 * _EPS * np.abs(covs[0])
        derivatives.value["cov"], derivatives.error["cov"] = covs
    return estimate, derivatives
