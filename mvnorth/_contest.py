"""One row of correlated normal arms: which of them can be the largest, and by how much.

The expected excess of the maximum over the leader, the arm l with the largest mean, has the bounds

    max_j L_j <= E[max X] - mu_l <= sum_j L_j,    L_j = E[(X_j - X_l)^+],

and an arm that is left out changes it by at most its L_j.
"""

from dataclasses import dataclass

import numpy as np

from mvnorth._covariance.dense import Dense
from mvnorth._covariance.factors import FactorsRows
from mvnorth._covariance.rows import CovarianceRows
from mvnorth._problem import Tolerance
from mvnorth._size_biased import log_excess

_LEFT_OUT = 0.01  # share of the tolerance that arms left out may have


@dataclass(frozen=True, eq=False)
class Contest:
    """The arms of a row that count.

    Attributes
    ----------
    mean : (C,) means; -inf for arms that never win
    covariance : of one row
    variance : (C, C) variances of differences
    group : (C,) the first arm that is always equal to this one; -1 for arms that never win
    leader : the arm with the largest mean
    others : (n,) the other arms that count, one for each group
    left_out : (m,) arms that do not, one for each group
    log_excess : (C,) log L_j; -inf for arms that never win, that are equal to another, and the
        leader
    tolerance : of the result, relative to it
    """

    mean: np.ndarray
    covariance: CovarianceRows
    variance: np.ndarray
    group: np.ndarray
    leader: int
    others: np.ndarray
    left_out: np.ndarray
    log_excess: np.ndarray
    tolerance: float

    @property
    def log_scale(self) -> float:
        """Log of the lower bound of the result."""
        return float(np.max(self.log_excess[self.others], initial=-np.inf))

    @property
    def missing(self) -> float:
        """Bound on the part of the arms left out, relative to the lower bound."""
        return float(np.sum(np.exp(self.log_excess[self.left_out] - self.log_scale)))

    @property
    def arms(self) -> np.ndarray:
        """The leader and the others, (n + 1,)."""
        return np.append(self.leader, self.others)

    @property
    def given_factors(self) -> bool:
        """Whether the covariance is diag(c) + V V^T."""
        return isinstance(self.covariance, FactorsRows)

    def marginal(self, arms: np.ndarray) -> CovarianceRows:
        """Covariance of some arms; as a matrix if one of them is a constant beside factors."""
        row = self.covariance.take(np.array([0]), arms)
        if isinstance(row, FactorsRows) and not row.c.all():
            return row.dense()
        return row

    def gaps(self, arms: np.ndarray) -> np.ndarray:
        """Differences of the means of some arms, their row minus their column."""
        return np.asarray(self.mean[arms][:, None] - self.mean[arms])


def _relative(tolerance: Tolerance, logs: np.ndarray) -> float:
    """Return the larger of both tolerances, relative to the result, from the logs of L_j."""
    if tolerance.absolute == 0.0:
        return tolerance.relative
    with np.errstate(over="ignore", under="ignore"):
        largest = np.exp(np.logaddexp.reduce(logs))
        return max(tolerance.relative, float(tolerance.absolute / max(largest, 1e-300)))


def make_contest(
    mean: np.ndarray,
    covariance: CovarianceRows,
    same: np.ndarray,
    variance: np.ndarray,
    tolerance: Tolerance,
) -> Contest:
    """Sort the arms of one row; ``same`` (C, C) marks differences that are constant."""
    classes = mean.size
    gap = np.subtract.outer(np.where(mean > -np.inf, mean, -1e308), mean)
    gap[:, mean == -np.inf] = np.inf
    beaten = (mean == -np.inf) | (same & (gap < 0.0)).any(axis=1)
    equal = same & (gap == 0.0)
    group = np.where(beaten, -1, equal.argmax(axis=1))
    group[~beaten & ~equal.any(axis=1)] = np.flatnonzero(~beaten & ~equal.any(axis=1))
    first = np.flatnonzero(group == np.arange(classes))
    leader = int(first[np.argmax(mean[first])])
    rest = first[first != leader]
    deviation = np.sqrt(variance[leader, rest])
    logs = np.full(classes, -np.inf)
    logs[rest] = np.log(deviation) + log_excess((mean[leader] - mean[rest]) / deviation)
    never = rest[logs[rest] == -np.inf]  # too far below: even the logarithm overflows
    group[np.isin(group, never)] = -1
    rest = np.setdiff1d(rest, never)
    order = rest[np.argsort(logs[rest], kind="stable")]
    kept, relative = np.ones(rest.size, dtype=bool), tolerance.relative
    if rest.size:
        scale = logs[order[-1]]
        relative = _relative(tolerance, logs)
        allowed = _LEFT_OUT * min(relative, 1.0)
        with np.errstate(under="ignore"):
            kept = np.cumsum(np.exp(logs[order] - scale)) > allowed
        kept[-1] = True
    others, left_out = np.sort(order[kept]), np.sort(order[~kept])
    return Contest(mean, covariance, variance, group, leader, others, left_out, logs, relative)


def with_constant(covariance: CovarianceRows) -> CovarianceRows:
    """Return the covariances with one more coordinate, of variance 0."""
    pad = ((0, 0), (0, 1), (0, 0))
    if isinstance(covariance, FactorsRows):
        return FactorsRows(np.pad(covariance.c, pad[:2]), np.pad(covariance.V, pad))
    dense = covariance.dense()
    scale = np.pad(dense.scale, pad[:2], constant_values=1.0)
    return Dense(np.pad(dense.factor, pad), dense.singular, scale)
