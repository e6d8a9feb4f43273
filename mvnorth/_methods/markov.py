"""Gauss-Markov chains by their transfer operator: exact to rounding.

Derivatives come from densities at the limits.
"""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from mvnorth._estimate import Derivatives, Estimate
from mvnorth._problem import Problems, Request
from mvnorth._threads import run_items

SECONDS = 1e-5  # a row and coordinate, roughly
_EPS = float(np.finfo(np.float64).eps)


def preference(problems: Problems) -> float | None:
    """Return the place among the methods of "auto": after those for one factor and few."""
    covariance = problems.covariance
    if covariance.given_one_factor() or covariance.given_factors() or problems.d <= 3:
        return np.inf
    return 3.0 if problems.covariance.triangular().may_be_chain().any() else None


def solve(problems: Problems, request: Request) -> Estimate:
    """Return estimates; rel_error is infinite where problems are no chains."""
    chains = Chains.of(problems)
    if chains is None:
        return Estimate.unknown(problems, request.wrt)
    if request.wrt:
        return _with_derivatives(chains, problems, request)
    return chains.integrate(np.empty((0, 5, problems.d)))[0]


@dataclass(eq=False)  # a frozen one takes three times as long to make
class Chains:
    """Markov chains, standardised and in the order of the chain.

    Attributes
    ----------
    lower, upper : (B, d) limits
    rho, noise : (1 or B, d - 1), see ``mvnorth._cpu.markov``
    order : (1 or B, d) which coordinate of the problem comes where
    deviation : (1 or B, d) standard deviations, in the order of the problem
    firm : (B,) relative error of noises and deviations; infinite where problems are no chains
    relative : (B,) the same with what the rounding of limits brings
    """

    lower: np.ndarray
    upper: np.ndarray
    rho: np.ndarray
    noise: np.ndarray
    order: np.ndarray
    deviation: np.ndarray
    firm: np.ndarray
    relative: np.ndarray

    @classmethod
    def of(cls, problems: Problems) -> "Chains | None":
        """Return the chains of a batch, or None if it has none."""
        from mvnorth._linalg.markov import recognise, standardise

        covariance = problems.covariance.triangular()
        order, rho, noise, deviation, error = recognise(covariance.factor)
        if not (error < np.inf).any():
            return None
        shape = problems.lower.shape
        lower, upper = np.empty(shape), np.empty(shape)
        firm, relative = np.empty(shape[0]), np.empty(shape[0])
        rounded = covariance.singular**2 / (8.0 * covariance.d)  # negligible if a factor was given
        given = (problems.lower, problems.upper.astype(np.float64, copy=False), problems.rounding)
        standardise(
            *given, order, noise, deviation, error, rounded, lower, upper, firm, relative
        )  # fmt: skip
        return cls(lower, upper, rho, noise, order, deviation, firm, relative)

    def integrate(self, windows: np.ndarray) -> tuple[Estimate, np.ndarray]:
        """Return probabilities, and the part of their relative errors (B,) that the rule makes.

        ``windows`` is filled as ``mvnorth._cpu.markov`` says.
        """
        from mvnorth._cpu.markov import markov

        size, d = self.lower.shape
        log_prob, rel_error, rule = np.empty(size), np.empty(size), np.empty(size)
        used = np.empty(size, dtype=np.int64)
        chain = (self.lower, self.upper, self.rho, self.noise, self.relative)
        kernel = partial(markov, *chain, log_prob, rel_error, rule, used, windows)
        run_items(kernel, size, size * d * SECONDS)
        return Estimate.exact(log_prob, rel_error, used), rule


def _with_derivatives(chains: Chains, problems: Problems, request: Request) -> Estimate:
    """Return the estimates of ``chains.integrate`` with derivatives.

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
    unit = np.where(chains.deviation > 0.0, chains.deviation, 1.0)[:, None]
    limits = np.take_along_axis(limits, back[None, :, None, :], axis=3) / unit
    limits += 0.0  # no -0
    limits[1] += _EPS * np.abs(limits[0])
    derivatives = Derivatives.of_columns(("lower", "upper", "mean"), limits[0], limits[1])
    if pairs:
        covs = np.take_along_axis(covs, back[None, :, :, None], axis=2)
        covs = np.take_along_axis(covs, back[None, :, None, :], axis=3)
        covs /= np.swapaxes(unit, 1, 2) * unit
        covs[1] += 2.0 * _EPS * np.abs(covs[0])
        derivatives.value["cov"], derivatives.error["cov"] = covs
    return estimate, derivatives
