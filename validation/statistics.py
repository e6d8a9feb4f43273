"""Comparing methods over many data sets: ranks, tests on them, and two pictures.

Throughout, ``values`` is (N, k): N data sets, k methods, larger is better.  Following Demšar,
Statistical comparisons of classifiers over multiple data sets (JMLR 7, 2006); the post-hoc test is
that of Conover, Practical nonparametric statistics (3rd edition, 1999), section 5.8; profiles are
those of Dolan and Moré, Benchmarking optimization software with performance profiles (2002).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy import stats


class Friedman(NamedTuple):
    """The statistic with its correction for ties, chi-square with k - 1 degrees of freedom."""

    statistic: float
    p: float


def ranks(values: Any, ties: Literal["average", "min"] = "average") -> np.ndarray:
    """Ranks of the methods on each data set, (N, k); 1 is the best.

    Parameters
    ----------
    values : (N, k) array
    ties : {"average", "min"}
        Equal values share the mean of their ranks, as tests need it, or all have the best of them,
        the "position in the sorted list".

    Examples
    --------
    >>> ranks([[0.9, 0.8, 0.9]]).tolist(), ranks([[0.9, 0.8, 0.9]], ties="min").tolist()
    ([[1.5, 3.0, 1.5]], [[1.0, 3.0, 1.0]])
    """
    return np.asarray(stats.rankdata(-np.asarray(values, float), method=ties, axis=1), float)


def wins(values: Any) -> np.ndarray:
    """On how many data sets each method is the best, or as good as the best, (k,).

    Examples
    --------
    >>> wins([[0.9, 0.8, 0.9], [0.1, 0.2, 0.3]]).tolist()
    [1, 0, 2]
    """
    values = np.asarray(values, float)
    return (values == values.max(axis=1, keepdims=True)).sum(axis=0)


def friedman(values: Any) -> Friedman:
    """Friedman's test that no method is better than another, for k >= 3."""
    values = np.asarray(values, float)
    if (values == values[:, :1]).all():
        return Friedman(0.0, 1.0)  # nothing but ties: scipy divides by zero
    found = stats.friedmanchisquare(*values.T)
    return Friedman(float(found.statistic), float(found.pvalue))


def conover(values: Any) -> np.ndarray:
    """p-values of Conover's test for all pairs of methods after Friedman's, (k, k), 1 with itself.

    With rank sums R_j, A the sum of all squared ranks and f = (N - 1)(k - 1), the difference
    |R_i - R_j| over sqrt(2 (N A - sum R_j^2) / f) is Student's with f degrees of freedom.
    """
    ranked = ranks(values)
    n, k = ranked.shape
    sums = ranked.sum(axis=0)
    freedom = (n - 1) * (k - 1)
    spread = max(n * (ranked**2).sum() - (sums**2).sum(), 0.0)
    apart = np.abs(sums[:, None] - sums)
    with np.errstate(divide="ignore", invalid="ignore"):
        t = apart / np.sqrt(2 * spread / freedom)
    return np.where(apart > 0, 2 * stats.t.sf(t, freedom), 1.0)


def benjamini_hochberg(p: Any) -> np.ndarray:
    """p-values of all pairs, (k, k), adjusted to control the rate of false discoveries."""
    p = np.asarray(p, float)
    above = np.triu_indices(len(p), 1)
    adjusted = np.ones_like(p)
    adjusted[above] = stats.false_discovery_control(p[above], method="bh")
    return np.minimum(adjusted, adjusted.T)


def holm(p: Any) -> np.ndarray:
    """Return p-values (n,) adjusted by Holm's method, for the chance of any false rejection.

    Holm, A simple sequentially rejective multiple test procedure (1979).

    Examples
    --------
    >>> holm([0.04, 0.01, 0.03]).round(4).tolist()
    [0.06, 0.03, 0.06]
    """
    p = np.asarray(p, float)
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate((len(p) - np.arange(len(p))) * p[order])
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(stepped, 1.0)
    return adjusted


def alike(mean_ranks: Sequence[float], p: Any, level: float = 0.05) -> list[list[int]]:
    """Largest groups of methods, neighbours in rank, no two of which differ at a level.

    Examples
    --------
    >>> p = [[1.0, 0.3, 0.01], [0.3, 1.0, 0.2], [0.01, 0.2, 1.0]]
    >>> alike([1.2, 1.9, 2.9], p)
    [[0, 1], [1, 2]]
    """
    p = np.asarray(p, float)
    order = [int(each) for each in np.argsort(mean_ranks, kind="stable")]
    groups: list[list[int]] = []
    for begin in range(len(order)):
        end = begin + 1
        while end < len(order) and (p[order[end], order[begin:end]] >= level).all():
            end += 1
        if end - begin > 1 and not (groups and set(order[begin:end]) <= set(groups[-1])):
            groups.append(order[begin:end])
    return groups


def profile(values: Any, shares: Any) -> np.ndarray:
    """For each share the part of the data sets on which a method reaches it, (len(shares), k).

    A method reaches a share if its value is at least so much of the best method's.

    Examples
    --------
    >>> profile([[0.5, 1.0], [0.9, 0.9]], [0.5, 1.0]).tolist()
    [[1.0, 1.0], [0.5, 1.0]]
    """
    values = np.asarray(values, float)
    best = values.max(axis=1, keepdims=True)
    ratios = np.divide(values, best, out=np.ones_like(values), where=best > 0)
    return np.array([(ratios >= share).mean(axis=0) for share in np.asarray(shares, float)])


def draw_ranks(
    ax: Any, names: Sequence[str], mean_ranks: Sequence[float], groups: Sequence[Sequence[int]]
) -> None:
    """Draw a critical-difference diagram: a row for each method, the best mean rank at the top.

    Demšar's diagram has all methods on one line; here they have a row each, so that names never
    overlap. Bars on the right join methods that do not differ.

    Parameters
    ----------
    ax : axes of matplotlib
        The only ones of their figure, whose height follows the number of methods.
    names, mean_ranks : sequences of k
    groups : sequence of sequences of int
        As ``alike`` returns them.
    """
    order = [int(each) for each in np.argsort(mean_ranks, kind="stable")]
    row = {method: place for place, method in enumerate(order)}
    ranked = [mean_ranks[method] for method in order]
    span = max(ranked[-1] - ranked[0], 0.5)
    begin, step = ranked[-1] + 0.26 * span, 0.07 * span  # where bars are, right of all labels
    ax.figure.set_size_inches(4.6, 0.75 + 0.34 * len(order))
    ax.grid(visible=False)
    ax.set(ylim=(len(order) - 0.4, -0.6), xlabel="mean rank (1 is best)")
    ax.set_xlim(ranked[0] - 0.12 * span, begin + step * max(len(groups), 1))
    ax.set_yticks(range(len(order)), [names[method] for method in order])
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)
    ax.hlines(range(len(order)), ax.get_xlim()[0], ranked, color="C7", linewidth=0.8, alpha=0.6)
    ax.plot(ranked, range(len(order)), "o", color="C0", markersize=6)
    for place, rank in enumerate(ranked):
        ax.annotate(
            f"{rank:.2f}", (rank, place), (7, 0), textcoords="offset points", va="center", size=9
        )
    for number, group in enumerate(groups):
        ends = [row[group[0]] - 0.22, row[group[-1]] + 0.22]
        x = begin + step * number
        ax.plot([x, x], ends, color="black", linewidth=3, solid_capstyle="round", gid="group")
