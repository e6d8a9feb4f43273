"""Derivatives of Gauss-Markov chains from densities at their limits, exact to rounding."""

from dataclasses import replace
from functools import partial

import numpy as np

from mvnorth._methods.markov import SECONDS, Chains
from mvnorth._problem import AnyProblems, Estimate, Slopes, in_covariance
from mvnorth._threads import run_items

_EPS = float(np.finfo(np.float64).eps)


def solve(problems: AnyProblems, wanted: tuple[str, ...]) -> Estimate:
    """Probabilities as ``_methods.markov.solve`` gives them, and their slopes in ``wanted``.

    These take about as long again, and in the covariance O(d**2) at most.
    """
    chains = Chains.of(problems)
    estimate = Estimate.unknown(problems, wanted)
    if not chains.rows.size:
        return estimate
    pairs = in_covariance(wanted)
    part, slopes = _differentiate(chains, pairs)
    if pairs:
        slopes.add_parts(problems.take(chains.rows), wanted)
    estimate.replace(chains.rows, replace(part, slopes=slopes))
    return estimate


def _differentiate(chains: Chains, pairs: bool) -> tuple[Estimate, Slopes]:
    """Probabilities, and slopes in limits and mean, and with ``pairs`` in "cov"."""
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
    slopes = Slopes.of_columns(("lower", "upper", "mean"), limits[0], limits[1])
    if pairs:
        covs = np.take_along_axis(covs, back[None, :, :, None], axis=2)
        covs = np.take_along_axis(covs, back[None, :, None, :], axis=3)
        covs /= chains.deviation[:, :, None] * unit
        covs[1] += 2.0 * _EPS * np.abs(covs[0])
        slopes.value["cov"], slopes.error["cov"] = covs
    return estimate, slopes
