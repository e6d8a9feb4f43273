"""Regression of some normal variables on others, from the rows of a factor of their covariance."""

import numpy as np

_EPS = float(np.finfo(np.float64).eps)


def regress(
    dependent: np.ndarray, given: np.ndarray, singular: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return coefficients K, bounds on their errors, and a factor of the residual covariance.

    With U = dependent y and X = given y of standard normal y, U is K X plus a part that is
    independent of X and has the covariance R R^T: K = dependent given^+, R = dependent - K given.

    Parameters
    ----------
    dependent, given : (B, u, r) and (B, k, r) rows of factors
    singular : relative size of singular values of ``given`` that are rounding
    """
    k = given.shape[1]
    cut = max(singular, k * _EPS)
    K = dependent @ np.linalg.pinv(given, rcond=cut)
    values = np.linalg.svd(given, compute_uv=False)
    counted = np.where(values > cut * values[:, :1], values, np.inf)
    condition = values.max(axis=1, initial=0.0) / counted.min(axis=1, initial=np.inf)
    # The covariance is known to rounding, which counts as often as it is badly conditioned.
    relative = _EPS * (k + 4.0) * (1.0 + condition**2)
    length, unit = (np.sqrt(np.sum(a * a, axis=2)) for a in (dependent, given))
    error = relative[:, None, None] * length[:, :, None] / unit[:, None]
    return K, error, dependent - K @ given
