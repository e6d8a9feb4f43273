"""Weighted means of derivatives over shifted lattices, and their errors.

The derivative of log P is a quotient of two sums over the same points, of weight times derivative
and of weights.  In the spread of such quotients over the shifts what both sums have in common is
no error.  What all points may have missed is told by how few of them carry a sum.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from mvnorth._methods.lattice_rule import (
    REPLICATES,
    log_sum,
    spread_bound,
    unseen_share,
)
from mvnorth._points import Points

_LEAST = 64  # points: from fewer nothing is claimed


@dataclass(frozen=True)
class Sums:
    """Sums over the same part of every shift, relative to a unit such as the sum of its weights.

    Attributes
    ----------
    log_weight, log_largest : (rows, R) logs of the sum of weights and of the largest one
    log_unit : (rows, R) log of the unit
    stats : (rows, R, 3, names, d) sums of weight * derivative, of its absolute value, and the
        largest absolute value
    products : (rows, R, S, S), or None
    """

    log_weight: np.ndarray
    log_largest: np.ndarray
    log_unit: np.ndarray
    stats: np.ndarray
    products: np.ndarray | None = None

    @classmethod
    def of_parts(
        cls,
        logs: np.ndarray,
        stats: np.ndarray,
        products: np.ndarray | None = None,
        log_unit: np.ndarray | None = None,
    ) -> "Sums":
        """Make sums of the output of a kernel for (rows, R, parts); ``logs`` (rows, R, parts, 2).

        ``log_unit`` (rows, R, parts) are units; the sums of weights, if None.
        """
        log_weight = log_sum(logs[..., 0], axis=2)
        units = logs[..., 0] if log_unit is None else log_unit
        unit = log_weight if log_unit is None else log_sum(log_unit, axis=2)
        share = np.exp(units - _finite(unit)[:, :, None])
        stats = stats.reshape(*logs.shape[:3], *stats.shape[1:])
        stats *= share[..., None, None, None]
        together = stats.sum(axis=2)
        together[:, :, 2] = stats[:, :, :, 2].max(axis=2)
        if products is not None:
            shape = (*logs.shape[:3], *products.shape[1:])
            products = np.einsum("brp,brpij->brij", share, products.reshape(shape))
        return cls(log_weight, logs[..., 1].max(axis=2), unit, together, products)

    def take(self, rows: np.ndarray) -> "Sums":
        products = None if self.products is None else self.products[rows]
        logs = (self.log_weight[rows], self.log_largest[rows], self.log_unit[rows])
        return Sums(*logs, self.stats[rows], products)

    def put(self, rows: np.ndarray, other: "Sums") -> None:
        self.log_weight[rows] = other.log_weight
        self.log_largest[rows] = other.log_largest
        self.log_unit[rows] = other.log_unit
        self.stats[rows] = other.stats
        if self.products is not None:
            self.products[rows] = other.products

    def join(self, other: "Sums") -> "Sums":
        """Return the sums over both sets of points."""
        total = np.logaddexp(self.log_weight, other.log_weight)
        unit = np.logaddexp(self.log_unit, other.log_unit)
        own, its = (np.exp(a.log_unit - _finite(unit)) for a in (self, other))
        a, b = (share[..., None, None, None] for share in (own, its))
        stats = a * self.stats + b * other.stats
        stats[:, :, 2] = np.maximum((a * self.stats)[:, :, 2], (b * other.stats)[:, :, 2])
        products = None
        if self.products is not None and other.products is not None:
            products = a[..., 0] * self.products
            products += b[..., 0] * other.products
        largest = np.maximum(self.log_largest, other.log_largest)
        return Sums(total, largest, unit, stats, products)


def _finite(logs: np.ndarray) -> np.ndarray:
    return np.where(logs == -np.inf, 0.0, logs)


class LatticeMeans:
    """Collects ``Sums`` in the order in which ``lattice_rule.mean_weights`` asks for points.

    That is one half of the lattices, then the other, then as many points between these, and so on,
    for fewer and fewer rows.
    """

    def __init__(self) -> None:
        self._halves: list[Sums] = []

    def collect(
        self,
        sums_of: Callable[[Points], tuple[np.ndarray, Sums]],
        rows: np.ndarray,
        points: Points,
        parts: int,
    ) -> np.ndarray:
        """Return logs of the weights, (rows, R, parts, 2), ``parts`` of the points at a time.

        ``sums_of(points)`` gives the logs, and all sums.
        """
        logs: list[np.ndarray] = []
        whole = None
        for k in range(0, points.start.size, parts):
            log, sums = sums_of(replace(points, start=points.start[k : k + parts]))
            logs.append(log)
            whole = sums if whole is None else whole.join(sums)
        assert whole is not None  # there is at least one part
        self._add(rows, whole)
        return np.concatenate(logs, axis=2)

    def _add(self, rows: np.ndarray, sums: Sums) -> None:
        if len(self._halves) < 2:  # the rows of these are all
            self._halves.append(sums)
            return
        even, odd = self._halves
        even.put(rows, even.take(rows).join(odd.take(rows)))
        odd.put(rows, sums)

    def take(self, rows: np.ndarray) -> "LatticeMeans":
        """Return what has been collected so far for some rows."""
        some = LatticeMeans()
        some._halves = [half.take(rows) for half in self._halves]
        return some

    @cached_property
    def log_weight(self) -> np.ndarray:
        """Logs of the sums of all weights, (rows,); like what follows, when all is collected."""
        logs = np.concatenate([half.log_weight for half in self._halves], axis=1)
        return log_sum(logs, axis=1)

    @cached_property
    def share(self) -> np.ndarray:
        """Weight of each half and shift in the whole, (rows, H, R)."""
        logs = np.stack([half.log_weight for half in self._halves], axis=1)
        return np.exp(logs - _finite(self.log_weight)[:, None, None])

    @cached_property
    def _units(self) -> np.ndarray:
        """The unit of each half and shift, relative to the sum of all weights, (rows, H, R)."""
        logs = np.stack([half.log_unit for half in self._halves], axis=1)
        return np.exp(logs - _finite(self.log_weight)[:, None, None])

    @cached_property
    def stats(self) -> np.ndarray:
        """(rows, H, R, 3, names, d) of all halves, relative to the sum of all weights."""
        stats = np.stack([half.stats for half in self._halves], axis=1)
        stats *= self._units[..., None, None, None]
        return stats

    @property
    def sums(self) -> np.ndarray:
        """(rows, H, R, names, d), relative to the sum of all weights."""
        return self.stats[:, :, :, 0]

    def products(self) -> Iterator[np.ndarray]:
        """(rows, R, S, S) of each half, relative to the sum of all weights."""
        for h, half in enumerate(self._halves):
            assert half.products is not None
            yield half.products * self._units[:, h, :, None, None]

    @cached_property
    def carriers(self) -> np.ndarray:
        """The sum of all weights over the largest, (rows,)."""
        heaviest = np.max([half.log_largest for half in self._halves], axis=(0, 2))
        return np.maximum(np.exp(self.log_weight - _finite(heaviest)), 1.0)

    def elsewhere(self, n: np.ndarray, points: float) -> np.ndarray:
        """Return the share (rows,) of the sum of weights that n (rows,) points may have missed.

        It is worth about ``points`` of them, and 1 where there are too few points to tell.
        """
        share = points / self.carriers + unseen_share(self.carriers, n)
        return np.where(n < _LEAST, 1.0, np.minimum(share, 1.0))

    def unseen(self, n: np.ndarray, corner: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the shares that n (rows,) points may have missed, and the sizes, (rows, names, d).

        A size is the mean of the derivative's absolute value, and rounding is counted among what
        was missed.  ``corner`` (rows,) is the share of a point that may hide a corner of the
        integrand.
        """
        size = self.stats[:, :, :, 1].sum(axis=(1, 2))
        top = self.stats[:, :, :, 2].max(axis=(1, 2))
        points = n[:, None, None]
        whole = np.broadcast_to(points, top.shape).astype(np.float64)
        carriers = np.divide(size, top, where=top > 0.0, out=whole)
        of_weights = unseen_share(self.carriers, n)[:, None, None]
        unseen = unseen_share(carriers, points) + corner[:, None, None] / points + of_weights
        unseen += (1e-13 + 1e-14 * top.shape[-1]) * points / carriers  # no sum is above n * top
        unseen = np.where(points < _LEAST, np.inf, unseen)
        return np.where(size > 0.0, unseen, 0.0), size


def of_size(share: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Return share * size, where infinity times 0 is 0."""
    return np.multiply(share, size, where=size > 0.0, out=np.zeros(np.broadcast(share, size).shape))


def quotients(terms: np.ndarray, share: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return means, and bounds on their errors from the spread of the shifts.

    Parameters
    ----------
    terms : (rows, H, R, ...) contributions to the means
    share : (rows, H, R) the weights that belong to them
    """
    mean = terms.sum(axis=(1, 2))
    rows, halves, replicates = share.shape
    if replicates < REPLICATES:
        return mean, np.full(mean.shape, np.inf)
    share = share.reshape(*share.shape, *(1,) * (terms.ndim - 3))
    rest = terms - share * mean[:, None, None]
    each = halves * replicates * rest.reshape(rows, -1, *mean.shape[1:])
    return mean, spread_bound(replicates * rest.sum(axis=1), each if halves > 1 else each[:, :0])
