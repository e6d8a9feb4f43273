"""Covariances diag(c) + V V^T: independent parts and several common factors."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from mvnorth._covariance.conditional_limits import drop_coordinates, known, move_limits
from mvnorth._covariance.dense import Dense
from mvnorth._covariance.given_values import FactorsGiven
from mvnorth._covariance.rows import CovarianceRows
from mvnorth._estimate import Derivatives
from mvnorth._linalg.bounds import times
from mvnorth._linalg.factors import FactorsForm
from mvnorth._linalg.one_factor import OneFactorForm
from mvnorth._problem import Problems

_EPS = float(np.finfo(np.float64).eps)


@dataclass(eq=False)  # a frozen one takes three times as long to make
class FactorsRows(CovarianceRows):
    """Covariances diag(c) + V V^T.

    Attributes
    ----------
    c : (1 or B, d), > 0
    V : (1 or B, d, k), as many as c; k >= 0
    """

    c: np.ndarray
    V: np.ndarray

    parameters = ("c", "V")

    @property
    def shape(self) -> tuple[int, int]:
        return self.c.shape[0], self.c.shape[1]

    def take(
        self, rows: Any, coordinates: np.ndarray | None = None, drop_columns: bool = False
    ) -> "FactorsRows":
        c, V = self.c, self.V
        if c.shape[0] > 1:
            c, V = c[rows], V[rows]
        if coordinates is not None:
            c, V = c[:, coordinates], V[:, coordinates]
            if drop_columns:
                V = V[:, :, V.any(axis=(0, 1))]
        return FactorsRows(np.ascontiguousarray(c), np.ascontiguousarray(V))

    def dense(self) -> Dense:
        """Return A = [diag(sqrt(c)), V], (.., d, d + k)."""
        d, k = self.V.shape[1:]
        factor = np.zeros((*self.c.shape, d + k))
        factor[:, np.arange(d), np.arange(d)] = np.sqrt(self.c)
        factor[:, :, d:] = self.V
        return Dense(factor, 8 * d * _EPS, np.ones(self.c.shape))

    def triangular(self) -> Dense:
        from mvnorth._linalg.factors import cholesky, dense_cholesky

        factor = dense_cholesky(*cholesky(self.c, self.V), self.V)
        return Dense(factor, 0.0, np.ones(self.c.shape))

    @property
    def memory(self) -> int:
        return (2 + self.V.shape[2]) * self.d

    def deviations(self) -> np.ndarray:
        return np.asarray(np.sqrt(self.c + np.sum(self.V * self.V, axis=2)))

    def matrix(self) -> np.ndarray:
        product = self.V @ np.swapaxes(self.V, 1, 2)
        index = np.arange(self.d)
        product[:, index, index] += self.c
        return product

    def constant(self) -> np.ndarray:
        return np.zeros((1, self.d), dtype=bool)

    def links(self) -> np.ndarray | None:
        return self._links

    @cached_property
    def _links(self) -> np.ndarray | None:
        linked = self.V != 0.0
        return None if linked.all() else linked

    def regular(self, active: np.ndarray) -> np.ndarray:
        return np.ones(len(active), dtype=bool)

    def one_factor(self) -> OneFactorForm | None:
        if np.count_nonzero(self.V.any(axis=(0, 1))) > 1:
            return None
        return OneFactorForm(self.c, np.sum(self.V, axis=2), np.zeros(len(self.c)))

    def given_factors(self) -> FactorsForm:
        return FactorsForm(self.c, self.V, np.zeros(len(self.c)))

    def given_value(
        self, problems: Problems, rows: np.ndarray, coordinates: np.ndarray, values: np.ndarray
    ) -> Problems:
        """Return conditional problems, which have the same number of factors.

        Of the factors' covariance the condition leaves I - V_i V_i^T / Sigma_ii, whose symmetric
        root shortens what lies along V_i by sqrt(c_i / Sigma_ii).
        """
        shape = problems.upper.shape
        c = np.broadcast_to(self.c, shape)[rows]
        V = np.broadcast_to(self.V, (*shape, self.V.shape[2]))[rows]
        item = np.arange(rows.size)
        c_i, V_i = c[item, coordinates], V[item, coordinates]
        others = np.arange(shape[1] - 1)
        others = others + (others >= coordinates[:, None])
        c, V = drop_coordinates(c, coordinates), V[item[:, None], others]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            length2 = np.sum(V_i * V_i, axis=1)
            variance = c_i + length2
            along = np.einsum("bij,bj->bi", V, V_i)
            lower, upper, lost, width_lost = move_limits(
                problems.lower[rows], problems.upper[rows], coordinates,
                along * (values / variance)[:, None],
            )  # fmt: skip
            cost = 4.0 / np.sqrt(c) * lost + width_lost
            left = np.sqrt(c_i / variance)
            # (1 - left) / length2, without cancellation
            share = 1.0 / (variance * (1.0 + left))
        V = V - (along * share[:, None])[:, :, None] * V_i[:, None]
        rounding = known(problems.rounding[rows] + cost.sum(axis=1) + 4.0 * _EPS)
        return Problems(lower, upper, FactorsRows(c, V), rounding)

    def given_values(self, observed: np.ndarray) -> FactorsGiven:
        return FactorsGiven(self.c, self.V, observed, FactorsRows)

    def derivative_shape(self, name: str) -> tuple[int, ...]:
        return self.V.shape[1:] if name == "V" else super().derivative_shape(name)

    def add_parameters(self, derivatives: Derivatives, names: Sequence[str]) -> None:
        if "c" in names:
            for of in (derivatives.value, derivatives.error):
                of["c"] = np.diagonal(of["cov"], axis1=1, axis2=2).copy()
        if "V" in names:
            value, error = derivatives.value["cov"], derivatives.error["cov"]
            product = times(value, error, 2.0 * self.V)
            derivatives.value["V"], derivatives.error["V"] = product
