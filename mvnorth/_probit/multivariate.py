"""The multivariate probit model: several binary outcomes with correlated errors."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from mvnorth import _api
from mvnorth._arguments import numbers
from mvnorth._probit.maximise import Scores
from mvnorth._probit.model import Accuracy, ProbitModel
from mvnorth._probit.parameters import CorrelationParameters
from mvnorth._probit.result import ProbitEstimates
from mvnorth._probit.tables import (
    Table,
    read_again,
    read_table,
    require_full_rank,
    same_rows,
    with_constant,
)
from mvnorth._probit.univariate import (
    is_suspicious,
    newton,
    one_step_correlations,
    require_overlap,
)


class Probit(ProbitModel):
    """Probit model of one or several binary outcomes whose errors are correlated.

    Outcome j of observation i is 1 where x_ij^T beta_j + e_ij > 0, and e_i ~ N(0, R) with a
    correlation matrix R. With one outcome this is the ordinary probit model.

    Parameters
    ----------
    y : array_like (n, q) or (n,), or a data frame
        Outcomes: 0, 1 or True and False; NaN where an outcome was not observed.
    X : array_like (n, p), or a data frame; or a list of q of them
        Covariates, the same for all outcomes or one matrix for each. Columns of data frames keep
        their names.
    intercept : bool
        Put a column of ones, "const", before the columns of X.

    Attributes
    ----------
    names : tuple of str
        Names of the parameters: the coefficients of each outcome, then the correlations.
    outcomes : tuple of str
        Names of the outcomes.

    Examples
    --------
    >>> import numpy as np
    >>> import mvnorth
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(500, 1))
    >>> errors = rng.normal(size=(500, 2)) @ [[1.0, 0.6], [0.0, 0.8]]
    >>> y = 0.3 + x * [1.0, -0.5] + errors > 0
    >>> result = mvnorth.Probit(y, x, intercept=True).fit()
    >>> for name, value, error in zip(result.names, result.params, result.bse):
    ...     print(f"{name:12} {value:6.3f} +- {error:.3f}")
    y1: const     0.302 +- 0.066
    y1: x1        0.996 +- 0.087
    y2: const     0.316 +- 0.060
    y2: x1       -0.498 +- 0.065
    corr(y2, y1)  0.576 +- 0.069
    """

    def __init__(self, y: Any, X: Any, *, intercept: bool = False) -> None:
        table = read_table("y", y, "y", missing=True)
        self.outcomes = table.names
        self.n, self.q = table.values.shape
        _require_binary(table)
        self._intercept = bool(intercept)
        self._several = isinstance(X, (list, tuple)) and all(map(_is_matrix, X)) and len(X) > 0
        given = list(X) if self._several else [X]
        if self._several and len(given) != self.q:
            raise ValueError(f"X must be one matrix, or a list of {self.q}; got {len(given)}")
        tables = []
        for k, part in enumerate(given):
            name = f"X[{k}]" if self._several else "X"
            same_rows("y", y, name, part)
            design = read_table(name, part, "x")
            if len(design.values) != self.n:
                raise ValueError(
                    f"y and {name} must have the same number of rows, got {self.n} and "
                    f"{len(design.values)}"
                )
            tables.append(with_constant(design) if intercept else design)
        self._designs = tables if self._several else tables * self.q
        seen = ~np.isnan(table.values)
        self._seen, self.nobs = seen, int(seen.any(axis=1).sum())
        self._sign = np.where(table.values > 0.5, 1.0, -1.0)
        for j, design in enumerate(self._designs):
            label = f"X (rows with outcome {self.outcomes[j]!r})"
            require_full_rank(label, design.values[seen[:, j]], design.names)
        one = self.q == 1
        coefficients = [
            name if one else f"{outcome}: {name}"
            for outcome, design in zip(self.outcomes, self._designs, strict=True)
            for name in design.names
        ]
        self.free_matrix = None if one else CorrelationParameters(self.q)
        correlations = [
            f"corr({self.outcomes[i]}, {self.outcomes[j]})"
            for i, j in zip(*np.tril_indices(self.q, -1), strict=True)
        ]
        self.names = (*coefficients, *correlations)
        self.d = self.q
        ends = np.cumsum([0, *(len(design.names) for design in self._designs)])
        self._places = [slice(a, b) for a, b in itertools.pairwise(ends)]
        self._lower = np.where((self._sign > 0.0) & seen, 0.0, -np.inf)
        self._upper = np.where((self._sign < 0.0) & seen, 0.0, np.inf)

    def fit(
        self,
        *,
        cov_type: str = "hessian",
        n: int | None = None,
        rtol: float | None = None,
        seed: int = 0,
        maxiter: int = 100,
    ) -> "ProbitResult":
        """Estimate the parameters by maximum likelihood.

        Parameters
        ----------
        cov_type : {"hessian", "opg", "robust"}
            Standard errors from the observed information, from the outer products of the scores
            (the fastest, with many parameters), or from both (the sandwich, which holds if the
            model is wrong).
        n : int, optional
            Integration points for each observation; the same ones for all, at every step.
        rtol : float, optional
            Relative error of the likelihood of each observation instead. Default: up to three
            outcomes are exact; four to six take 1e-4 with at most 4096 points, mostly by Gauss
            rules; more of them 4096 points. ``llf_error`` of the result bounds the error.
        seed : int
            Seed of the random shifts of these points.
        maxiter : int
            Most steps of the search.

        Returns
        -------
        ProbitResult
        """
        accuracy = Accuracy.read(n, rtol, seed, self.d)
        fit = self._fit(cov_type, accuracy, maxiter)
        errors = np.sqrt(np.diag(fit.cov_params))[self.coefficient_count :]
        parameters = CorrelationParameters(self.q)
        return ProbitResult(
            **fit.estimates(self),
            correlation=fit.matrix,
            correlation_se=parameters.full(errors, self.q, 0.0),
            coefficients=tuple(fit.params[place] for place in self._places),
        )

    def _matrix(self, entries: np.ndarray) -> np.ndarray:
        return CorrelationParameters(self.q).full(entries, self.q, 1.0)

    def _start(self) -> tuple[np.ndarray, np.ndarray]:
        found = []
        for j, design in enumerate(self._designs):
            seen = self._seen[:, j]
            X, sign = design.values[seen], self._sign[seen, j]
            b, _, converged = newton(X, sign)
            if is_suspicious(X @ b, converged):
                require_overlap(
                    sign[:, None] * X, design.names, f"outcome {self.outcomes[j]!r} of y"
                )
            found.append(b)
        coefficients = np.concatenate(found)
        t = self._sign * self._means(coefficients, [design.values for design in self._designs])
        return coefficients, one_step_correlations(t, self._sign, self._seen)

    def _means(self, coefficients: np.ndarray, designs: Sequence[np.ndarray]) -> np.ndarray:
        parts = zip(designs, self._places, strict=True)
        return np.column_stack([X @ coefficients[place] for X, place in parts])

    def _scores(self, coefficients: np.ndarray, matrix: np.ndarray, accuracy: Accuracy) -> Scores:
        designs = [design.values for design in self._designs]
        mean = self._means(coefficients, designs)
        wrt = ("mean",) if self.free_matrix is None else ("mean", "cov")
        found = accuracy.box_grad(self._lower, self._upper, mean, matrix, wrt)
        parts = [found.grad_mean[:, [j]] * X for j, X in enumerate(designs)]
        if self.free_matrix is not None:
            parts.append(self.free_matrix.in_entries(found.grad_cov))
        return Scores(found.log_prob, found.rel_error, np.hstack(parts))

    def _new_designs(self, X: Any) -> list[np.ndarray]:
        """Return designs of new observations, one for each outcome; those of the data for None."""
        if X is None:
            return [design.values for design in self._designs]
        if not self._several:
            return [read_again("X", X, self._designs[0], intercept=self._intercept)] * self.q
        if not isinstance(X, (list, tuple)) or len(X) != self.q:
            raise ValueError(f"X must be a list of {self.q} matrices, as the model was given")
        again = [
            read_again(f"X[{j}]", part, design, intercept=self._intercept)
            for j, (part, design) in enumerate(zip(X, self._designs, strict=True))
        ]
        if len({len(part) for part in again}) > 1:
            raise ValueError("the matrices of X must have the same number of rows")
        return again


@dataclass(frozen=True, repr=False, eq=False)
class ProbitResult(ProbitEstimates):
    """Estimates of a ``Probit`` model; prints as a table.

    Attributes
    ----------
    model : Probit
    names : tuple of str
        Names of the k parameters: coefficients of each outcome, then correlations.
    params, bse, tvalues, pvalues : ndarray (k,)
        Estimates, their standard errors, their ratios, and two-sided p-values.
    cov_params : ndarray (k, k)
        Covariance of the estimates.
    coefficients : tuple of ndarray
        Coefficients of each outcome.
    correlation, correlation_se : ndarray (q, q)
        Correlation matrix of the errors, and standard errors of its entries.
    llf : float
        Log-likelihood.
    llf_error : float
        Bound on its integration error, the sum of those of all observations.
    aic, bic : float
        Akaike's and Schwarz's criteria.
    nobs : int
        Observations with at least one outcome.
    converged : bool
        Whether the search found the maximum.
    evaluations : int
        Passes over the data that it took.
    cov_type : str

    Examples
    --------
    >>> import numpy as np
    >>> import mvnorth
    >>> y, x = np.array([0, 0, 1, 0, 1, 1, 0, 1]), np.arange(8.0)
    >>> result = mvnorth.Probit(y, x, intercept=True).fit()
    >>> result.params.round(4), round(result.llf, 4)
    (array([-0.9574,  0.2695]), -4.725)
    """

    correlation: np.ndarray
    correlation_se: np.ndarray
    coefficients: tuple[np.ndarray, ...]

    def _bounded(self) -> np.ndarray:
        return np.arange(self.params.size) >= self.model.coefficient_count

    def _head(self) -> list[str]:
        count = len(self.model.outcomes)
        return ["Probit model" if count == 1 else f"Probit model of {count} outcomes"]

    def predict(self, X: Any = None) -> np.ndarray:
        """Return the probability of 1 for each outcome, (n, q).

        Parameters
        ----------
        X : array_like (n, p), data frame or list of them, optional
            Covariates as the model was given, of new observations; columns of a data frame are
            taken by name. Default: those of the data.
        """
        from scipy.special import ndtr

        count = self.model.coefficient_count
        designs = self.model._new_designs(X)
        return np.asarray(ndtr(self.model._means(self.params[:count], designs)))

    def predict_joint(self, pattern: ArrayLike, X: Any = None, *, rtol: float = 1e-6) -> np.ndarray:
        """Return the probability that the outcomes are those of a pattern, (n,).

        Parameters
        ----------
        pattern : array_like (q,) or (n, q)
            0 or 1 for each outcome, NaN for any.
        X
            As in ``predict``.
        rtol : float
            Relative error of the probabilities asked for.
        """
        values = numbers("pattern", pattern)
        if values.ndim not in (1, 2) or values.shape[-1] != self.model.q:
            raise ValueError(f"pattern must have shape ({self.model.q},) or (n, {self.model.q})")
        if not (np.isin(values, (0.0, 1.0)) | np.isnan(values)).all():
            raise ValueError("pattern must have 0, 1 or NaN for every outcome")
        count = self.model.coefficient_count
        mean = self.model._means(self.params[:count], self.model._new_designs(X))
        if values.ndim == 2 and len(values) not in (1, len(mean)):
            raise ValueError(f"pattern has {len(values)} rows, but X has {len(mean)}")
        lower = np.where(values == 1.0, 0.0, -np.inf)
        upper = np.where(values == 0.0, 0.0, np.inf)
        return np.asarray(_api.box_prob(lower, upper, mean, self.correlation, rtol=rtol))


def _is_matrix(value: Any) -> bool:
    return hasattr(value, "columns") or np.ndim(value) == 2


def _require_binary(table: Table) -> None:
    for name, column in zip(table.names, table.values.T, strict=True):
        values = np.unique(column[~np.isnan(column)])
        if not np.isin(values, (0.0, 1.0)).all():
            shown = ", ".join(f"{v:g}" for v in values[:5])
            raise ValueError(
                f"y must have 0 and 1 (NaN if not observed); outcome {name!r} has {shown}. For a "
                "choice among alternatives use MultinomialProbit"
            )
        if values.size == 1:
            raise ValueError(
                f"outcome {name!r} of y is {values[0]:g} in all rows: there is nothing to "
                "estimate, leave it out"
            )
        if values.size == 0:
            raise ValueError(f"outcome {name!r} of y is never observed: leave it out")
