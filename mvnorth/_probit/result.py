"""Results of probit models: estimates with standard errors, and a table."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from mvnorth._columns import align_columns


class Summary(str):
    """A text that a session shows as lines."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


@dataclass(frozen=True, repr=False, eq=False)
class ProbitEstimates:
    """Estimates of a probit model with standard errors, intervals and a table.

    Attributes
    ----------
    model : the model that was fitted
    names : names of the k parameters
    params : (k,) estimates
    cov_params : (k, k) their covariance
    llf : log-likelihood at the estimates
    llf_error : bound on its integration error: the sum of those of all observations
    nobs : number of observations
    converged : whether the maximum was found
    evaluations : passes over the data that the search took
    cov_type : "hessian", "opg" or "robust"
    """

    model: Any
    names: tuple[str, ...]
    params: np.ndarray
    cov_params: np.ndarray
    llf: float
    llf_error: float
    nobs: int
    converged: bool
    evaluations: int
    cov_type: str

    @property
    def bse(self) -> np.ndarray:
        """Standard errors, (k,)."""
        return np.asarray(np.sqrt(np.diag(self.cov_params)))

    @property
    def tvalues(self) -> np.ndarray:
        """Estimates over their standard errors, (k,)."""
        return np.asarray(self.params / self.bse)

    @property
    def pvalues(self) -> np.ndarray:
        """Two-sided p-values of the estimates being zero, by the normal distribution, (k,)."""
        from scipy.special import ndtr

        return np.asarray(2.0 * ndtr(-np.abs(self.tvalues)))

    @property
    def aic(self) -> float:
        """Akaike's criterion, 2 k - 2 llf."""
        return 2.0 * (self.params.size - self.llf)

    @property
    def bic(self) -> float:
        """Schwarz's criterion, k log(nobs) - 2 llf."""
        return float(self.params.size * np.log(self.nobs) - 2.0 * self.llf)

    def _bounded(self) -> np.ndarray:
        """Return which parameters are correlations, (k,) bool."""
        return np.zeros(self.params.size, dtype=bool)

    def conf_int(self, level: float = 0.95) -> np.ndarray:
        """Return confidence intervals, (k, 2).

        Those of correlations are symmetric in Fisher's z, so that they lie between -1 and 1.
        """
        from scipy.special import ndtri

        if not (np.ndim(level) == 0 and 0.0 < level < 1.0):
            raise ValueError(f"level must be greater than 0 and less than 1, got {level!r}")
        width = ndtri(0.5 + 0.5 * level) * self.bse
        ends = self.params[:, None] + width[:, None] * [-1.0, 1.0]
        bounded = self._bounded()
        r = self.params[bounded, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            z = np.arctanh(r) + width[bounded, None] / (1.0 - r * r) * [-1.0, 1.0]
        ends[bounded] = np.tanh(z)
        return np.asarray(ends)

    def _head(self) -> list[str]:
        return []

    def summary(self, level: float = 0.95) -> Summary:
        """Return a table of the estimates as text."""
        ends = self.conf_int(level)
        head = f"{100.0 * level:g} % interval"
        lines = [["", "coef", "std err", "z", "P>|z|", f"{head} from", "to"]]
        columns = zip(
            self.names, self.params, self.bse, self.tvalues, self.pvalues, *ends.T, strict=True
        )
        for name, value, error, z, p, low, high in columns:
            form = ".3e" if error < 1e-3 else ".4f"  # a covariate may have large units
            value, error, low, high = (format(v, form) for v in (value, error, low, high))
            lines.append([name, value, error, f"{z:.3f}", f"{p:.3f}", low, high])
        kind = {"hessian": "observed information", "opg": "outer products", "robust": "sandwich"}
        facts = [
            ["observations", f"{self.nobs}", "log-likelihood", f"{self.llf:.4f}"],
            ["parameters", f"{self.params.size}", "integration error", f"{self.llf_error:.1e}"],
            ["converged", str(self.converged), "AIC", f"{self.aic:.2f}"],
            ["covariance", kind[self.cov_type], "BIC", f"{self.bic:.2f}"],
        ]
        width = [max(len(line[k]) for line in facts) for k in range(4)]
        table = [
            f"{a:<{width[0]}}  {b:<{width[1]}}    {c:<{width[2]}}  {d:>{width[3]}}"
            for a, b, c, d in facts
        ]
        parts = [*self._head(), *table, "", *align_columns(lines)]
        if not self.converged:
            parts.append("The search has not converged: the estimates are not the maximum.")
        return Summary("\n".join(parts))

    def __repr__(self) -> str:
        return str(self.summary())
