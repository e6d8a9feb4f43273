"""Covariances A A^T with a factor A as a matrix."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from mvnorth._covariance.conditional_limits import drop_coordinates, known, move_limits
from mvnorth._covariance.rows import CovarianceRows
from mvnorth._estimate import Derivatives
from mvnorth._linalg.bounds import times
from mvnorth._linalg.factors import FactorsForm
from mvnorth._linalg.one_factor import OneFactorForm, recognise
from mvnorth._problem import Problems

_EPS = float(np.finfo(np.float64).eps)
_TIED = 10.0  # times ``singular``: how far the limits of a tied coordinate must be from its value
_CHUNK = 2**21  # entries of factors at a time: 16 MB


@dataclass(eq=False)  # a frozen one takes three times as long to make
class Dense(CovarianceRows):
    """Covariances A A^T.

    Attributes
    ----------
    factor : (1 or B, d, r) A, not necessarily triangular or square
    singular : relative standard deviation below which a coordinate counts as determined by
        others: the rounding level of the input that A was computed from
    scale : (1 or B, d) powers of two by which limits and rows of A have been divided
    """

    factor: np.ndarray
    singular: float
    scale: np.ndarray

    parameters = ("factor",)

    @property
    def shape(self) -> tuple[int, int]:
        return self.factor.shape[0], self.factor.shape[1]

    def take(
        self, rows: Any, coordinates: np.ndarray | None = None, drop_columns: bool = False
    ) -> "Dense":
        shared = self.factor.shape[0] == 1
        factor, scale = (a if shared else a[rows] for a in (self.factor, self.scale))
        if coordinates is None and shared:
            return self
        if coordinates is not None:
            factor = factor[:, coordinates]
            if drop_columns:
                factor = factor[:, :, factor.any(axis=(0, 1))]
            factor = np.ascontiguousarray(factor)
            scale = scale[:, coordinates]
        return Dense(factor, self.singular, scale)

    def dense(self) -> "Dense":
        return self

    @property
    def unit(self) -> np.ndarray:
        return self.scale

    @property
    def memory(self) -> int:
        return max(1, self.factor.shape[1] * self.factor.shape[2])

    @cached_property
    def _deviations(self) -> np.ndarray:
        return np.asarray(np.sqrt(np.sum(self.factor**2, axis=2)))

    def deviations(self) -> np.ndarray:
        return self._deviations

    def matrix(self) -> np.ndarray:
        return self.factor @ np.swapaxes(self.factor, 1, 2)

    def constant(self) -> np.ndarray:
        return np.logical_not(self.factor.any(axis=2))

    def links(self) -> np.ndarray:
        return np.asarray(self.factor != 0.0)

    def regular(self, active: np.ndarray) -> np.ndarray:
        from mvnorth._linalg.condition import given_the_others

        size = len(active)
        if self.factor.shape[0] == 1 and (active == active[:1]).all():
            active = active[:1]
        chunk = max(1, _CHUNK // self.memory)
        out = np.empty(len(active), dtype=bool)
        for k in range(0, len(active), chunk):
            part = slice(k, k + chunk)
            factor = self.take(part).factor
            _, determined = given_the_others(factor * active[part, :, None], self.singular)
            out[part] = ~determined.any(axis=1)
        return np.broadcast_to(out, size)

    def one_factor(self) -> OneFactorForm | None:
        return self._one_factor

    @cached_property
    def _one_factor(self) -> OneFactorForm | None:
        if not self._possible[0].any():
            return None
        form = recognise(self.factor)
        return form if np.isfinite(form.error).any() else None

    def factors(self) -> FactorsForm | None:
        return self._factors

    @cached_property
    def _factors(self) -> FactorsForm | None:
        from mvnorth._linalg.find_factors import recognise as find_factors

        return find_factors(self.factor)

    def may_be_chain(self) -> np.ndarray:
        """Return False (1 or B,) where a covariance is certainly not that of a Markov chain."""
        return self._possible[1]

    @cached_property
    def _possible(self) -> tuple[np.ndarray, np.ndarray]:
        """Rows that may have one common factor, and rows that may be chains, (1 or B,) each."""
        from mvnorth._linalg.structure import possible_structures

        size = self.factor.shape[0]
        one_factor, chain = np.empty(size, dtype=bool), np.empty(size, dtype=bool)
        possible_structures(self.factor, one_factor, chain)
        return one_factor, chain

    def given_value(
        self, problems: Problems, rows: np.ndarray, coordinates: np.ndarray, values: np.ndarray
    ) -> Problems:
        from mvnorth._linalg.condition import condition, given_the_others

        shared = self.factor.shape[0] == 1
        used, which = np.unique(np.zeros_like(rows) if shared else rows, return_inverse=True)
        source = self.factor[used]
        slope, factor = condition(source, which, coordinates)
        norm = np.sqrt(np.sum(source**2, axis=2))
        root, _ = given_the_others(source, self.singular)
        deviation, precision, scale = (
            drop_coordinates(a[which], coordinates) for a in (norm, root, self.scale[used])
        )
        tied = np.sqrt(np.sum(factor**2, axis=2)) <= self.singular * deviation
        factor[tied] = 0.0
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            units = np.abs(values / norm[which, coordinates])[:, None]
            rounded = (4.0 + np.sqrt(source.shape[2])) * _EPS * deviation
            lower, upper, lost, width_lost = move_limits(
                problems.lower[rows], problems.upper[rows], coordinates, slope * values[:, None]
            )
            lost += rounded * units
            # A covariance that was rounded has variances given the others off by its rounding.
            variance = self.singular**2 / (8.0 * self.d) * (precision * deviation) ** 2
            cost = precision * (lost + rounded) + variance + width_lost
        margin = _TIED * self.singular * deviation + lost
        undecided = tied & ((np.abs(lower) < margin) | (np.abs(upper) < margin))
        cost = np.where(tied, np.where(undecided, np.inf, 0.0), cost)
        rounding = known(problems.rounding[rows] + cost.sum(axis=1))
        return Problems(lower, upper, Dense(factor, self.singular, scale), rounding)

    def derivative_shape(self, name: str) -> tuple[int, ...]:
        return self.factor.shape[1:] if name == "factor" else super().derivative_shape(name)

    def add_parameters(self, derivatives: Derivatives, names: Sequence[str]) -> None:
        if "factor" in names:
            value, error = derivatives.value["cov"], derivatives.error["cov"]
            product = times(value, error, 2.0 * self.factor)
            derivatives.value["factor"], derivatives.error["factor"] = product

    def to_user_units(self, derivatives: Derivatives) -> None:
        """Undo the scaling; of a factor only the lower triangle is kept."""
        scale = 1.0 / self.scale  # powers of two
        for of in (derivatives.value, derivatives.error):
            for name in tuple(of):
                if name == "cov":
                    of[name] = of[name] * scale[:, :, None] * scale[:, None, :]
                elif name == "factor":
                    of[name] = np.tril(of[name] * scale[:, :, None])
                else:
                    of[name] = of[name] * scale
