"""Gauss-Markov chains by their transfer operator: exact to rounding."""

from dataclasses import dataclass

import numpy as np

from mvnorth._cpu.markov import markov
from mvnorth._linalg.markov import recognise
from mvnorth._linalg.one_factor import cholesky, dense_cholesky
from mvnorth._problem import AnyProblems, Estimate, OneFactorProblems, Problems
from mvnorth._threads import run_items

SECONDS = 2e-5  # a row and coordinate, roughly
_ROUNDING = 1e-15


def solve(problems: AnyProblems) -> Estimate:
    """Probabilities of ``problems``; rel_error is infinite where they are no chains."""
    chains = Chains.of(problems)
    estimate = Estimate.unknown(problems)
    if chains.rows.size:
        estimate.replace(chains.rows, chains.integrate(np.empty((0, 5, problems.d)))[0])
    return estimate


@dataclass(frozen=True)
class Chains:
    """Those of a batch of problems that are chains, standardised and in the order of the chain.

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
    def of(cls, problems: AnyProblems) -> "Chains":
        if isinstance(problems, OneFactorProblems):
            problems = _with_triangular_factor(problems)
        recognised = recognise(problems.factor)
        found = np.isfinite(recognised[-1])
        order, rho, noise, deviation, error = (a[found] for a in recognised)
        rows = np.flatnonzero(np.broadcast_to(found, problems.size))
        shape = (rows.size, problems.d)
        with np.errstate(over="ignore"):
            lower, upper = (
                np.take_along_axis(a[rows] / deviation, np.broadcast_to(order, shape), axis=1)
                for a in (problems.lower, problems.upper)
            )
        firm = np.broadcast_to(_relative(problems, noise, error), rows.size)
        relative = firm + problems.rounding[rows]
        return cls(rows, lower, upper, rho, noise, order, deviation, firm, relative)

    def integrate(self, windows: np.ndarray) -> tuple[Estimate, np.ndarray]:
        """Probabilities, and what of their relative errors (B,) is that of the rule.

        ``windows`` is filled as ``mvnorth._cpu.markov`` says.
        """
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
        return Estimate(log_prob, rel_error, used), rule


def _with_triangular_factor(problems: OneFactorProblems) -> Problems:
    """The same problems with a dense factor: few of them are chains, such as all of two."""
    diag, w = cholesky(problems.c, problems.v)
    upper = problems.upper.astype(np.float64)
    factor, scale = dense_cholesky(diag, w, problems.v), np.ones(diag.shape)
    return Problems(np.array(problems.lower), upper, factor, problems.rounding, 0.0, scale)


def _relative(problems: Problems, noise: np.ndarray, error: np.ndarray) -> np.ndarray:
    """Relative error (1 or B,) of noises and deviations that comes with the problems.

    To first order log P is off by E[e^T N e], with e the independent noises given the limits and N
    what their rows are off; E[e^T e] is at most d + 2 |log P|.  A covariance that was rounded has
    variances given the coordinates before, noise**2, off by its rounding; those of another order
    are smaller still, by about a number of coordinates.
    """
    rounded = problems.singular**2 / (8.0 * problems.d)  # negligible where a factor was given
    smallest = np.min(noise, axis=1, initial=1.0)
    return np.asarray(error + (2.0 + problems.d) * rounded / smallest**2)
