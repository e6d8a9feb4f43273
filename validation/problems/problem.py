"""A problem with a known answer."""

from __future__ import annotations

from dataclasses import dataclass

from validation.oracles.one_dimension import FloatArray


@dataclass(frozen=True, eq=False)
class Problem:
    """A box, a covariance matrix, and the logarithm of the box's probability.

    Attributes
    ----------
    name : str
        Unique in the table.
    tags : frozenset of str
        See `validation.problems`.
    lower, upper : (d,)
        The box; lower is -inf everywhere for an orthant.
    cov : (d, d)
        Covariance of X ~ N(0, cov).
    log_prob : float
        log Pr(lower <= X <= upper).
    log_error : float
        Bound on the absolute error of `log_prob`.
    source : str
        Where the answer comes from.
    """

    name: str
    tags: frozenset[str]
    lower: FloatArray
    upper: FloatArray
    cov: FloatArray
    log_prob: float
    log_error: float
    source: str
