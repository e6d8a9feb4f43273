"""A probit model of one outcome by Newton's method, and whether its estimate exists."""

from collections.abc import Sequence

import numpy as np

_SUSPICIOUS = 5.0  # linear predictors beyond this in size are a reason to look for separation
_STEPS = 100


def newton(X: np.ndarray, sign: np.ndarray) -> tuple[np.ndarray, float, bool]:
    """Return coefficients (p,), the log-likelihood, and whether it converged.

    The log-likelihood, the sum of log Phi(sign x^T b), is concave; steps are halved while it falls.

    Parameters
    ----------
    X : (n, p)
    sign : (n,) +1 for an outcome of 1, -1 for 0
    """
    from scipy.special import log_ndtr

    b = np.zeros(X.shape[1])
    value = float(log_ndtr(np.zeros(len(X))).sum())
    for _ in range(_STEPS):
        t = sign * (X @ b)
        ratio = np.exp(-0.5 * (t * t + np.log(2.0 * np.pi)) - log_ndtr(t))  # phi / Phi
        gradient = X.T @ (sign * ratio)
        weights = ratio * (ratio + t)
        try:
            move = np.linalg.solve((X * weights[:, None]).T @ X, gradient)
        except np.linalg.LinAlgError:
            return b, value, False
        decrement = float(gradient @ move)
        if not decrement > 1e-16 * (1.0 + abs(value)):
            return b, value, bool(decrement > -1e-6)
        share, gain = 1.0, -np.inf
        while share > 1e-8:
            gain = float(log_ndtr(sign * (X @ (b + share * move))).sum()) - value
            if gain > 0.1 * share * decrement:
                break
            share *= 0.5
        if gain <= 0.0:
            return b, value, decrement < 1e-10
        b, value = b + share * move, value + gain
    return b, value, False


def one_step_correlations(t: np.ndarray, sign: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """Return a correlation matrix (q, q) near that of the errors, to start a search from.

    It is a step of scoring from independence for each pair of outcomes: the sum of the products of
    their scores over its expected information; shrunk until it is well conditioned.

    Parameters
    ----------
    t : (n, q) linear predictors times ``sign``
    sign, seen : (n, q) +1 or -1 for an outcome of 1 or 0, and whether it was observed
    """
    from scipy.special import log_ndtr

    density = -0.5 * (t * t + np.log(2.0 * np.pi))
    scores = np.where(seen, sign * np.exp(density - log_ndtr(t)), 0.0)
    information = np.where(seen, np.exp(2.0 * density - log_ndtr(t) - log_ndtr(-t)), 0.0)
    R = scores.T @ scores / np.maximum(information.T @ information, 1e-300)
    R = np.clip(R, -0.8, 0.8)
    np.fill_diagonal(R, 1.0)
    least = float(np.linalg.eigvalsh(R).min())
    shrink = min(1.0, 0.9 / (1.0 - least)) if least < 1.0 else 1.0
    return np.asarray(np.eye(len(R)) + shrink * (R - np.eye(len(R))))


def is_suspicious(predictors: np.ndarray, converged: bool) -> bool:
    """Return whether estimates may be on their way to infinity."""
    return not converged or bool(np.abs(predictors).max(initial=0.0) > _SUSPICIOUS)


def require_overlap(A: np.ndarray, names: Sequence[str], what: str) -> None:
    """Raise if some direction b has A b >= 0 and not 0: the likelihood then has no maximum.

    This is complete or quasi-complete separation, found by a linear program (Konis 2007).

    Parameters
    ----------
    A : (m, p) differences of designs: what was observed less what was not
    names : of the p coefficients
    what : the outcome or the choice, for the message
    """
    from scipy.optimize import linprog

    scale = np.abs(A).max(axis=0)
    A = A / np.where(scale > 0.0, scale, 1.0)
    found = linprog(-A.mean(axis=0), A_ub=-A, b_ub=np.zeros(len(A)), bounds=(-1.0, 1.0))
    if found.x is None or float(A.mean(axis=0) @ found.x) <= 1e-9:
        return
    involved = [name for name, b in zip(names, found.x, strict=True) if abs(b) > 1e-6]
    raise ValueError(
        f"{what} is predicted perfectly by a combination of {', '.join(involved)} (separation): "
        "coefficients would be infinite. Leave one of these columns out, or the rows that it "
        "decides"
    )
