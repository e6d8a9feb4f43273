"""Covariances diag(c) + v v^T: independent parts and one common factor."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mvnorth._covariance.conditional_limits import drop_coordinates, known, move_limits
from mvnorth._covariance.dense import Dense
from mvnorth._covariance.given_values import FactorsGiven
from mvnorth._covariance.rows import CovarianceRows
from mvnorth._estimate import Derivatives
from mvnorth._linalg.bounds import times
from mvnorth._linalg.one_factor import OneFactorForm, cholesky, dense_cholesky
from mvnorth._problem import Problems

_EPS = float(np.finfo(np.float64).eps)


@dataclass(eq=False)  # a frozen one takes three times as long to make
class OneFactorRows(CovarianceRows):
    """Covariances diag(c) + v v^T.

    Attributes
    ----------
    c, v : (1 or B, d); c > 0
    """

    c: np.ndarray
    v: np.ndarray

    parameters = ("c", "v")
    columns = {"V": "v"}  # noqa: RUF012

    @property
    def shape(self) -> tuple[int, int]:
        return self.c.shape[0], self.c.shape[1]

    def take(
        self, rows: Any, coordinates: np.ndarray | None = None, drop_columns: bool = False
    ) -> "OneFactorRows":
        c, v = self.c, self.v
        if c.shape[0] > 1:
            c, v = c[rows], v[rows]
        if coordinates is not None:
            c, v = c[:, coordinates], v[:, coordinates]
        return OneFactorRows(c, v)

    def dense(self) -> Dense:
        """Return A = [diag(sqrt(c)), v], (.., d, d + 1)."""
        d = self.d
        factor = np.zeros((*self.c.shape, d + 1))
        factor[:, np.arange(d), np.arange(d)] = np.sqrt(self.c)
        factor[:, :, d] = self.v
        return Dense(factor, 8 * d * _EPS, np.ones(self.c.shape))

    def triangular(self) -> Dense:
        factor = dense_cholesky(*cholesky(self.c, self.v), self.v)
        return Dense(factor, 0.0, np.ones(self.c.shape))

    @property
    def memory(self) -> int:
        return 3 * self.d

    def deviations(self) -> np.ndarray:
        return np.asarray(np.hypot(np.sqrt(self.c), self.v))

    def matrix(self) -> np.ndarray:
        product = self.v[:, :, None] * self.v[:, None, :]
        index = np.arange(self.d)
        product[:, index, index] += self.c
        return product

    def constant(self) -> np.ndarray:
        return np.zeros((1, self.d), dtype=bool)

    def links(self) -> None:
        return None

    def regular(self, active: np.ndarray) -> np.ndarray:
        return np.ones(len(active), dtype=bool)

    def given_one_factor(self) -> OneFactorForm:
        return OneFactorForm(self.c, self.v, np.zeros(len(self.c)))

    def given_value(
        self, problems: Problems, rows: np.ndarray, coordinates: np.ndarray, values: np.ndarray
    ) -> Problems:
        """Return conditional problems, which have one factor again.

        Of the common factor's variance the condition leaves c_i / Sigma_ii, so that the others
        have the covariance diag(c) + v v^T c_i / Sigma_ii.
        """
        shape = problems.upper.shape
        c, v = (np.broadcast_to(a, shape)[rows] for a in (self.c, self.v))
        item = np.arange(rows.size)
        c_i, v_i = c[item, coordinates], v[item, coordinates]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            deviation = np.hypot(np.sqrt(c_i), v_i)
            share = v * v / c
            total = 1.0 + np.sum(share, axis=1, keepdims=True)
            precision = np.sqrt(np.maximum(total - share, 1.0) / total / c)
            c, v, precision = (drop_coordinates(a, coordinates) for a in (c, v, precision))
            slope = v * (v_i / deviation / deviation)[:, None]
            lower, upper, lost, width_lost = move_limits(
                problems.lower[rows], problems.upper[rows], coordinates, slope * values[:, None]
            )
            cost = 4.0 * precision * lost + width_lost
        left = np.sqrt(c_i) / deviation
        rounding = known(problems.rounding[rows] + cost.sum(axis=1) + 4.0 * _EPS)
        return Problems(lower, upper, OneFactorRows(c, v * left[:, None]), rounding)

    def given_values(self, observed: np.ndarray) -> FactorsGiven:
        def make(c: np.ndarray, V: np.ndarray) -> OneFactorRows:
            return OneFactorRows(c, V[:, :, 0].copy())

        return FactorsGiven(self.c, self.v[:, :, None], observed, make)

    def add_parameters(self, derivatives: Derivatives, names: Sequence[str]) -> None:
        if "c" in names:
            for of in (derivatives.value, derivatives.error):
                of["c"] = np.diagonal(of["cov"], axis1=1, axis2=2).copy()
        if "v" in names:
            value, error = derivatives.value["cov"], derivatives.error["cov"]
            vector = 2.0 * np.broadcast_to(self.v, value.shape[:2])[:, :, None]
            product = times(value, error, vector)
            derivatives.value["v"], derivatives.error["v"] = (a[:, :, 0] for a in product)
