"""Likelihoods of censored data with their derivatives, as users get them."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from mvnorth._estimate import Estimate
from mvnorth._problem import Tolerance
from mvnorth._status import Status


@dataclass(frozen=True, repr=False, eq=False)
class CensoredGradient:
    """Log-likelihoods of ``censored_logpdf`` and derivatives in what was asked for; else None.

    Attributes
    ----------
    logpdf : float or ndarray (...)
        The log-likelihood.
    error : float or ndarray (...)
        Bound on its absolute error at about 99 % confidence; infinite where nothing is known.
    n : int or ndarray (...)
        Integration points or nodes used; 0 for a closed form.
    method : str or ndarray (...)
        What computed the probability of the intervals.
    status : Status, or ndarray (...) of their numbers
        Whether the tolerance was met.
    grad_lower, grad_upper : ndarray (..., d)
        Derivatives in the limits; of an observed value half of its derivative is in each.
    grad_mean : ndarray (..., d)
        In the means: minus the sum of the two before.
    grad_cov : ndarray (..., d, d)
        In the covariance: the symmetric G with d logpdf = sum_ij G_ij d cov_ij over all i and j.
    grad_c, grad_V, grad_v : ndarray (..., d), (..., d, k) and (..., d)
        In the parameters of ``Factors``.
    grad_lower_error, ... : ndarray
        Bounds on their absolute errors, entry by entry, at about 99 % confidence; infinite where
        nothing is known.

    Examples
    --------
    >>> import numpy as np
    >>> import mvnorth
    >>> mvnorth.censored_logpdf_grad([0.3, 1.0], [0.3, np.inf], 0.0, [[1.0, 0.5], [0.5, 1.0]])
    log-likelihood  -2.776875246 +- ...e-1...
    derivatives     in mean, cov
    """

    logpdf: Any
    error: Any
    n: Any
    method: Any
    status: Any
    grad_lower: Any = None
    grad_upper: Any = None
    grad_mean: Any = None
    grad_cov: Any = None
    grad_c: Any = None
    grad_V: Any = None
    grad_v: Any = None
    grad_lower_error: Any = None
    grad_upper_error: Any = None
    grad_mean_error: Any = None
    grad_cov_error: Any = None
    grad_c_error: Any = None
    grad_V_error: Any = None
    grad_v_error: Any = None

    def __repr__(self) -> str:
        if np.ndim(self.logpdf) == 0:
            head = f"log-likelihood  {self.logpdf:.10g} +- {self.error:.1e}"
        else:
            shape = "x".join(map(str, np.shape(self.logpdf)))
            total, error = np.sum(self.logpdf), np.sum(self.error)
            head = f"{shape} log-likelihoods with the sum {total:.10g} +- {error:.1e}"
        known = [
            name.removeprefix("grad_")
            for name, value in vars(self).items()
            if name.startswith("grad_") and not name.endswith("_error") and value is not None
        ]
        return f"{head}\nderivatives     in {', '.join(known)}"


def wrap_censored(
    estimate: Estimate,
    methods: np.ndarray,
    tolerance: Tolerance | None,
    shape: tuple[int, ...],
    names: tuple[str, ...],
    columns: dict[str, str],
) -> CensoredGradient:
    """Return a result of the batch shape; ``columns`` as in ``CovarianceRows``."""
    assert estimate.derivatives is not None
    if tolerance is None:
        status = np.full(methods.shape, Status.FIXED, dtype=np.int8)
    else:
        met = tolerance.met(estimate.log_prob, estimate.rel_error)
        status = np.where(met, Status.CONVERGED, Status.LIMIT).astype(np.int8)

    def shaped(column: np.ndarray) -> Any:
        return column.reshape(shape) if shape else column[0].item()

    arrays = {}
    for name in names:
        for suffix, of in (
            ("", estimate.derivatives.value),
            ("_error", estimate.derivatives.error),
        ):
            array = of[columns[name]][..., None] if name in columns else of[name]
            arrays[f"grad_{name}{suffix}"] = array.reshape(*shape, *array.shape[1:])
    return CensoredGradient(
        logpdf=shaped(estimate.log_prob),
        error=shaped(estimate.rel_error),
        n=shaped(estimate.n),
        method=shaped(methods),
        status=shaped(status) if shape else Status(int(status[0])),
        **arrays,
    )
