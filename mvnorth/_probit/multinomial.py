"""The multinomial probit model: a choice among several alternatives."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from mvnorth import _api
from mvnorth._argmax import prob_argmax
from mvnorth._probit.choices import read_alternatives, read_choices
from mvnorth._probit.maximise import Scores
from mvnorth._probit.model import Accuracy, ProbitModel
from mvnorth._probit.parameters import ScaledCovarianceParameters
from mvnorth._probit.result import ProbitEstimates
from mvnorth._probit.tables import (
    Table,
    read_again,
    read_table,
    require_full_rank,
    same_rows,
    with_constant,
)
from mvnorth._probit.univariate import require_overlap
from mvnorth.covariance import OneFactor

COVARIANCES = ("independent", "free")


class MultinomialProbit(ProbitModel):
    """Probit model of a choice among J alternatives.

    Alternative j has the utility x^T beta_j + z_j^T gamma + e_j with normal errors e, and the one
    with the largest utility is chosen. Only differences of utilities matter: beta of the base
    alternative is 0, and errors are described by the covariance of e_j - e_base over the other
    alternatives, whose first variance is 1. With two alternatives this is the ordinary probit
    model.

    Parameters
    ----------
    y : array_like (n,)
        The alternative that was chosen: J different labels, numbers or strings. Alternatives are
        in sorted order.
    X : array_like (n, p) or a data frame, optional
        Covariates of the observation, with one coefficient for each alternative but the base.
    Z : array_like (n, J, k), or dict of array_like (n, J) or data frames, optional
        Covariates of the alternatives, such as prices, each with one coefficient for all of them;
        a dict gives them names. Columns of arrays are in the sorted order of the alternatives,
        those of data frames have their labels.
    covariance : {"independent", "free"}
        Independent errors of the same variance, 1/2 each; or any covariance of the differences,
        which takes much data to estimate, and covariates in Z to estimate well (Keane 1992).
    base : label, optional
        The base alternative. Default: the first.
    intercept : bool
        Put a column of ones, "const", before the columns of X.

    Attributes
    ----------
    names : tuple of str
        Names of the parameters.
    alternatives : tuple
        Labels of the alternatives, in sorted order.

    Examples
    --------
    >>> import numpy as np
    >>> import mvnorth
    >>> rng = np.random.default_rng(0)
    >>> price = rng.uniform(1.0, 2.0, (800, 3))
    >>> utility = [0.0, 0.5, 1.0] - 2.0 * price + rng.normal(0.0, 0.5**0.5, (800, 3))
    >>> mode = np.array(["bus", "car", "train"])[utility.argmax(axis=1)]
    >>> model = mvnorth.MultinomialProbit(mode, Z={"price": price}, intercept=True)
    >>> result = model.fit()
    >>> for name, value, error in zip(result.names, result.params, result.bse):
    ...     print(f"{name:12} {value:6.3f} +- {error:.3f}")
    car: const    0.513 +- 0.067
    train: const  0.992 +- 0.065
    price        -1.922 +- 0.117
    """

    def __init__(
        self,
        y: Any,
        X: Any = None,
        Z: Any = None,
        *,
        covariance: str = "independent",
        base: Any = None,
        intercept: bool = False,
    ) -> None:
        if covariance not in COVARIANCES:
            listed = ", ".join(map(repr, COVARIANCES))
            raise ValueError(f"covariance must be one of {listed}, got {covariance!r}")
        self.covariance = covariance
        labels, index = read_choices(y)
        self.alternatives: tuple[Any, ...] = tuple(labels.tolist())
        self.n, self.J = index.size, labels.size
        self.base = self._find_base(base)
        self._others = np.delete(np.arange(self.J), self.base)
        self._intercept = bool(intercept)
        self._table = self._read_X(y, X)
        for name, part in Z.items() if isinstance(Z, dict) else ():
            same_rows("y", y, f"Z[{name!r}]", part)
        Z_values, self._Z_names = read_alternatives(Z, self.n, self.alternatives)
        of_others = [str(self.alternatives[j]) for j in self._others]
        own = self._table.names if self._table is not None else ()
        coefficients = [f"{other}: {name}" for other in of_others for name in own]
        coefficients += self._Z_names
        if not coefficients:
            raise TypeError("MultinomialProbit needs covariates: X, Z, or intercept=True")
        self.d = self.J - 1
        free = covariance == "free" and self.J > 2
        self.free_matrix = ScaledCovarianceParameters(self.d) if free else None
        entries: list[str] = []
        if self.free_matrix is not None:
            pairs = zip(self.free_matrix.rows, self.free_matrix.columns, strict=True)
            entries = [
                f"var({of_others[i]})" if i == j else f"cov({of_others[i]}, {of_others[j]})"
                for i, j in pairs
            ]
        self.names = (*coefficients, *entries)
        self._choice, self.nobs = index, self.n
        values = None if self._table is None else self._table.values
        self._design = self._stack(values, Z_values, self.n)
        flat = self._design.reshape(-1, len(coefficients))
        require_full_rank("the design of X and Z", flat, coefficients)
        self._maps = [self._differences(j) for j in range(self.J)]

    def _find_base(self, base: Any) -> int:
        if base is None:
            return 0
        if base not in self.alternatives:
            raise ValueError(f"base must be one of {list(self.alternatives)!r}, got {base!r}")
        return self.alternatives.index(base)

    def _read_X(self, y: Any, X: Any) -> Table | None:
        if X is None:
            ones = np.ones((self.n, 1))
            return Table(ones, ("const",), False) if self._intercept else None
        same_rows("y", y, "X", X)
        table = read_table("X", X, "x")
        if len(table.values) != self.n:
            raise ValueError(
                f"y and X must have the same number of rows, got {self.n} and {len(table.values)}"
            )
        return with_constant(table) if self._intercept else table

    def _stack(self, X: np.ndarray | None, Z: np.ndarray | None, n: int) -> np.ndarray:
        """Return D (n, J - 1, k): D b are differences of utilities from that of the base."""
        parts = []
        if X is not None:
            of_X = np.zeros((n, self.d, self.d, X.shape[1]))
            of_X[:, np.arange(self.d), np.arange(self.d)] = X[:, None]
            parts.append(of_X.reshape(n, self.d, -1))
        if Z is not None:
            parts.append(Z[:, self._others] - Z[:, [self.base]])
        return np.concatenate(parts, axis=2)

    def _differences(self, chosen: int) -> np.ndarray:
        """Return M (J - 1, J - 1): utility differences from the base to those of one alternative.

        Rows are the chosen one less each other one, which are positive where it is the best.
        """
        from_base = np.zeros((self.J, self.d))
        from_base[self._others] = np.eye(self.d)
        return np.delete(from_base[chosen] - from_base, chosen, axis=0)

    def fit(
        self,
        *,
        cov_type: str = "hessian",
        n: int | None = None,
        rtol: float | None = None,
        seed: int = 0,
        maxiter: int = 200,
    ) -> "MultinomialProbitResult":
        """Estimate the parameters by maximum likelihood.

        Parameters
        ----------
        cov_type, n, rtol, seed, maxiter
            As in ``Probit.fit``; independent errors are integrated exactly, and so are up to four
            alternatives.

        Returns
        -------
        MultinomialProbitResult
        """
        accuracy = Accuracy.read(n, rtol, seed, self.d)
        count = self.coefficient_count
        differences = np.stack(self._maps)[self._choice] @ self._design
        require_overlap(differences.reshape(-1, count), self.names[:count], "the choice y")
        fit = self._fit(cov_type, accuracy, maxiter)
        errors = np.zeros((self.d, self.d))
        if self.free_matrix is not None:
            of_entries = np.sqrt(np.diag(fit.cov_params))[count:]
            errors = self.free_matrix.full(of_entries, self.d, 0.0)
        return MultinomialProbitResult(
            **fit.estimates(self),
            covariance=fit.matrix,
            covariance_se=errors,
        )

    def _matrix(self, entries: np.ndarray) -> np.ndarray:
        if self.free_matrix is None:
            return 0.5 * np.eye(self.d) + 0.5
        return self.free_matrix.full(entries, self.d, 1.0)

    def _start(self) -> tuple[np.ndarray, np.ndarray]:
        matrix = 0.5 * np.eye(self.d) + 0.5
        if self.free_matrix is None:
            return np.zeros(self.coefficient_count), matrix
        from mvnorth._probit.maximise import maximise

        accuracy = Accuracy(None, 1e-6, 0)
        k = self.coefficient_count

        def evaluate(coefficients: np.ndarray) -> Scores:
            found = self._scores(coefficients, matrix, accuracy, independent=True)
            return Scores(found.logs, found.errors, found.scores[:, :k])

        return maximise(evaluate, np.zeros(k), 50).parameters, matrix

    def _scores(
        self,
        coefficients: np.ndarray,
        matrix: np.ndarray,
        accuracy: Accuracy,
        independent: bool | None = None,
    ) -> Scores:
        independent = self.free_matrix is None if independent is None else independent
        predictors = self._design @ coefficients
        logs, errors = np.empty(self.n), np.empty(self.n)
        in_predictors = np.empty((self.n, self.d))
        in_matrix = np.empty((self.n, 0 if independent else self.d, self.d))
        for j, M in enumerate(self._maps):
            rows = np.flatnonzero(self._choice == j)
            mean = predictors[rows] @ M.T
            cov: Any = M @ matrix @ M.T
            if independent:
                cov = OneFactor(0.5, np.full(self.d, np.sqrt(0.5)))
            wrt = ("mean",) if independent else ("mean", "cov")
            found = accuracy.box_grad(0.0, np.inf, mean, cov, wrt)
            logs[rows], errors[rows] = found.log_prob, found.rel_error
            in_predictors[rows] = found.grad_mean @ M
            if not independent:
                in_matrix[rows] = M.T @ found.grad_cov @ M
        scores = np.einsum("ni,nik->nk", in_predictors, self._design)
        if self.free_matrix is not None and not independent:
            scores = np.hstack([scores, self.free_matrix.in_entries(in_matrix)])
        return Scores(logs, errors, scores)

    def _new_design(self, X: Any, Z: Any) -> np.ndarray:
        if X is None and Z is None:
            return self._design
        given_X = self._table is not None and self._table.names != ("const",)
        needed = [("X", X, given_X), ("Z", Z, bool(self._Z_names))]
        for name, value, used in needed:
            if (value is not None) != used:
                verb = "needs" if used else "has no"
                raise ValueError(f"the model {verb} {name}: give predict what the model was given")
        values = None
        if given_X:
            assert self._table is not None
            values = read_again("X", X, self._table, intercept=self._intercept)
        count = None if values is None else len(values)
        Z_values, names = read_alternatives(Z, count, self.alternatives)
        if names != self._Z_names:
            raise ValueError(f"Z must have {self._Z_names}, got {names}")
        size = len(values) if values is not None else len(Z_values)  # type: ignore[arg-type]
        if values is None and self._table is not None:
            values = np.ones((size, 1))
        return self._stack(values, Z_values, size)


@dataclass(frozen=True, repr=False, eq=False)
class MultinomialProbitResult(ProbitEstimates):
    """Estimates of a ``MultinomialProbit`` model; prints as a table.

    Attributes
    ----------
    model : MultinomialProbit
    names : tuple of str
        Names of the k parameters: coefficients, then entries of the covariance.
    params, bse, tvalues, pvalues : ndarray (k,)
        Estimates, their standard errors, their ratios, and two-sided p-values.
    cov_params : ndarray (k, k)
        Covariance of the estimates.
    covariance, covariance_se : ndarray (J - 1, J - 1)
        Covariance of the errors of utilities less that of the base, whose first entry is 1, and
        standard errors of its entries, 0 where they are fixed.
    llf, llf_error, aic, bic, nobs, converged, evaluations, cov_type
        As in ``ProbitResult``.

    Examples
    --------
    >>> import numpy as np
    >>> import mvnorth
    >>> y, x = np.array([0, 1, 0, 2, 1, 2, 1, 0, 2, 1]), np.arange(10.0)
    >>> result = mvnorth.MultinomialProbit(y, x, intercept=True).fit()
    >>> result.predict([[4.5]]).round(4)
    array([[0.2829, 0.4154, 0.3017]])
    """

    covariance: np.ndarray
    covariance_se: np.ndarray

    @property
    def correlation(self) -> np.ndarray:
        """Correlations of the same errors, (J - 1, J - 1)."""
        deviation = np.sqrt(np.diag(self.covariance))
        return np.asarray(self.covariance / deviation / deviation[:, None])

    def _head(self) -> list[str]:
        model = self.model
        labels = ", ".join(map(str, model.alternatives))
        return [
            f"Multinomial probit model of {labels} (base {model.alternatives[model.base]}), "
            f"{model.covariance} errors"
        ]

    def predict(self, X: Any = None, Z: Any = None, *, rtol: float = 1e-6) -> np.ndarray:
        """Return the probability of each alternative, (n, J), in the order of ``alternatives``.

        Parameters
        ----------
        X, Z : optional
            Covariates of new observations, as the model was given. Default: those of the data.
        rtol : float
            Relative error of the probabilities asked for; with independent errors they are exact.
        """
        model = self.model
        predictors = model._new_design(X, Z) @ self.params[: model.coefficient_count]
        if model.free_matrix is None:
            utility = np.zeros((len(predictors), model.J))
            utility[:, model._others] = predictors
            return np.asarray(prob_argmax(utility, np.sqrt(0.5)))
        columns = [
            _api.box_prob(0.0, np.inf, predictors @ M.T, M @ self.covariance @ M.T, rtol=rtol)
            for M in model._maps
        ]
        return np.stack(columns, axis=1)
