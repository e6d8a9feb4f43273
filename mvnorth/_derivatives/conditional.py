"""Derivatives in m for Sigma = diag(c) + v v^T by conditional Gaussians (EXACT, Theorem 4.3).

With t ~ N(m, Sigma) and i left out of what carries the index -i,

    dP/dm_i = N(0; m_i, Sigma_ii) Pr(t_-i >= 0 | t_i = 0)

The paper's appendix B hints that the special form of Sigma simplifies the conditional one.  So it
does, for any c and v: of the common factor's variance the condition leaves c_i / Sigma_ii, so

    m_hat = m_-i - v_-i v_i m_i / Sigma_ii
    Sigma_hat = diag(c_-i) + v_-i v_-i^T (1 - v_i**2 / Sigma_ii) = diag(c_-i) + v_hat v_hat^T
    v_hat = v_-i sqrt(c_i / Sigma_ii)

is one-factor again.  Each derivative is an orthant probability in d - 1 dimensions at O(d) a
point, all of them cost O(d**2) a point.  Errors are those of the probabilities, added up.
"""

import numpy as np

from mvnorth._methods import structured
from mvnorth._methods.lattice_rule import fixed_points
from mvnorth._problem import Derivatives, Estimate, OneFactorProblems

_CHUNK = 2**21  # entries of the conditional problems' limits at a time: 16 MB
_LOG_2_PI = float(np.log(2.0 * np.pi))


def solve(
    problems: OneFactorProblems, n: int | None, seed: int, wrt: tuple[str, ...], log: bool
) -> Derivatives:
    """Derivatives of log P, or of P, in m: ``wrt`` is ("m",).

    Parameters
    ----------
    problems : with upper limits alone, which are m, > -inf
    n : points for each of the d + 1 probabilities, as in ``Budget``; None for ``FIXED_POINTS``
    """
    if wrt != ("m",):
        raise ValueError(f"conditional derivatives are those in 'm' alone, got {wrt!r}")
    budget = fixed_points(n)
    estimate = structured.solve(problems, budget, seed)
    size, d = problems.upper.shape
    chunk = max(1, _CHUNK // max(d, 1))
    conditional = Estimate.concatenate(
        [
            structured.solve(
                _given_zero(problems, np.arange(k, min(k + chunk, size * d))), budget, seed
            )
            for k in range(0, size * d, chunk)
        ]
    )
    log_grad = _log_density(problems) + conditional.log_prob.reshape(size, d)
    rel_error = conditional.rel_error.reshape(size, d) + 1e-15 * (1.0 + np.abs(log_grad))
    if log:
        log_grad = log_grad - estimate.log_prob[:, None]
        known = estimate.rel_error[:, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            rel_error = np.where(known < 1.0, (rel_error + known) / (1.0 - known), np.inf)
    grad = np.exp(log_grad)
    with np.errstate(invalid="ignore"):
        error = np.where(np.isinf(rel_error), np.inf, rel_error * grad) + np.finfo(float).tiny
    # Without a limit there is nothing to differentiate.
    unlimited = problems.upper == np.inf
    return Derivatives(estimate, {"m": grad}, {"m": np.where(unlimited, 0.0, error)})


def _log_density(problems: OneFactorProblems) -> np.ndarray:
    """log N(0; m_i, Sigma_ii), (B, d); -inf without a limit."""
    variance = problems.c + problems.v**2
    with np.errstate(over="ignore"):
        return -0.5 * (problems.upper**2 / variance + np.log(variance) + _LOG_2_PI)


def _given_zero(problems: OneFactorProblems, items: np.ndarray) -> OneFactorProblems:
    """The problems of d - 1 coordinates given t_i = 0, for items row * d + i."""
    d = problems.d
    rows, i = items // d, items % d
    rest = np.arange(d - 1) + (np.arange(d - 1) >= i[:, None])  # all coordinates but i

    def of_row(a: np.ndarray) -> np.ndarray:
        return np.broadcast_to(a, problems.upper.shape)[rows]

    m, c, v = of_row(problems.upper), of_row(problems.c), of_row(problems.v)
    m_i, c_i, v_i = (np.take_along_axis(a, i[:, None], axis=1) for a in (m, c, v))
    m, c, v = (np.take_along_axis(a, rest, axis=1) for a in (m, c, v))
    variance = c_i + v_i**2
    slope = v * (v_i / variance)
    upper = m - slope * np.where(m_i == np.inf, 0.0, m_i)
    v_hat = v * np.sqrt(c_i / variance)
    return OneFactorProblems(np.full_like(upper, -np.inf), upper, c, v_hat, problems.rounding[rows])
