"""Independent normal scores of one row, and how many of them exceed s, at many s at once.

For s_i ~ N(mu_i, sigma_i**2) let N(s) count the scores above s, and f_i be the density of s_i.
Score i is among the k largest where fewer than k of the others exceed it:

    Pr(i in top k) = int f_i(s) Pr(N(s) without i < k) ds,

and these densities add up to the derivative of B(s) = E[max(k - N(s), 0)].  For k = 1, B is the
product of all Phi((s - mu_j)/sigma_j), and leaving i out of it is a division by Phi.

For k > 1, Pr(N = a) follows from adding one score after the other, O(k) each.  To leave out each
of them in turn, the distribution of the scores before i is combined with the distribution
function of those after i, O(k) again: three recursions in place of one, and, unlike division by
the factor of i, nothing but sums and products of positive numbers.  Distributions of what comes
after are kept for a block of scores at a time.
"""

from collections.abc import Callable

import numpy as np

from mvnorth._compile import FAST, SUMS, inner
from mvnorth._cpu.factor_nodes import (
    BETA,
    DOT,
    IS_FAR,
    NODES,
    NUMERATOR,
    OFFSET,
    POWER,
    SCALE,
    SLOPE,
    STRETCH,
    TURN,
    VECTOR,
    WEIGHT,
    M,
    V,
    X,
    add_moments,
    evaluate,
)
from mvnorth._scalar.argmax import ABSENT, REACH, in_units, is_live, unit_of
from mvnorth._scalar.exp_log import power_of_two
from mvnorth._scalar.phi_mills import full, short
from mvnorth._tables.normal import RATIO_Z_MAX

_BLOCK = 256
# Places in a row's nodes beside those of factor_nodes: B, and its derivative.
PRIMITIVE, DENSITY = STRETCH, TURN


def rules(n):
    """``(nodes, weights, coarse)``: Gauss-Legendre, and a rule on every other of its nodes.

    The error of the coarse rule is about the square root of the other's: an error that is small by
    chance is told by it.
    """
    nodes, weights = np.polynomial.legendre.leggauss(n)
    coarse = np.zeros(n)
    moments = np.zeros((n + 1) // 2)
    moments[0] = 2.0
    basis = np.polynomial.legendre.legvander(nodes[::2], len(moments) - 1)
    coarse[::2] = np.linalg.solve(basis.T, moments)
    return nodes, weights, coarse


@inner(FAST)
def lowest(row, k):
    """A position below which the k-th largest score is not, for k up to the number of live ones."""
    low, passed = np.inf, 0
    while passed < k:
        below, tied = -np.inf, 0  # the next largest of the lower ends
        for i in range(row.shape[1]):
            end = -row[M, i] - REACH * row[V, i]
            if row[V, i] > 0.0 and end < low:
                if end > below:
                    below, tied = end, 1
                elif end == below:
                    tied += 1
        low, passed = below, passed + max(tied, 1)
    return low


@inner(FAST)
def load(row, mu, sigma, k):
    """``(live, origin, unit, widest)``: the row in units of its widest score.

    Positions are relative to the mean of the narrowest score that may be among the k largest, where
    structure is finest: origin - mu_i is kept as the unrounded sum of M and VECTOR.  Scores that
    are constant or minus infinity are set so far down that they do not count; ``live`` is the
    number of others.
    """
    widest, live = 0.0, 0
    for i in range(mu.size):
        if mu[i] > -np.inf:
            widest = max(widest, sigma[i])
    for i in range(mu.size):
        row[IS_FAR, i] = 0.0
        row[M, i], row[VECTOR, i], row[V, i] = ABSENT, 0.0, 0.0
        row[SCALE, i], row[BETA, i] = 1.0, 0.0
        if is_live(mu[i], sigma[i], widest):
            live += 1
            row[M, i], row[V, i] = -mu[i], sigma[i]
    low = lowest(row, min(k, max(live, 1)))
    origin, narrowest = 0.0, np.inf
    for i in range(mu.size):
        if 0.0 < row[V, i] < narrowest and mu[i] + REACH * sigma[i] >= low:
            origin, narrowest = mu[i], sigma[i]
    unit = unit_of(widest)
    for i in range(mu.size):
        if row[V, i] > 0.0:
            row[M, i], row[VECTOR, i], row[V, i] = in_units(mu[i], sigma[i], origin, unit)
            row[SCALE, i] = row[BETA, i] = unit / sigma[i]
    return live, origin, unit, widest


@inner(FAST)
def centre_at(row, s):
    """Set X to its values at s; one rounding for scores near s."""
    for i in range(row.shape[1]):
        row[X, i] = ((row[M, i] + s) + row[VECTOR, i]) * row[SCALE, i]


@inner(FAST)
def allocate_chain(d, k):
    """``(pair, chain)`` for k > 1; for k = 1 both are None, as there is nothing to keep.

    pair (2, d, NODES) holds Pr(s_i > s) and the density of i in the top k at every node;
    chain (m, k, NODES) holds the distribution of the scores before i, then distribution functions
    of the scores after i for a block of i, then those after each block.
    """
    block = min(d, _BLOCK)
    return np.empty((2, d, NODES)), np.empty((2 + block + -(-d // block), k, NODES))


def _tails_by(parts: Callable) -> Callable:
    """Compile Pr(s_i > s) and the density of s_i at the nodes, for one form of Phi."""

    @inner(FAST)
    def tails(row, nodes, pair, n):
        for i in range(row.shape[1]):
            x_i, beta = row[X, i], row[BETA, i]
            for j in range(n):
                x = x_i + beta * nodes[OFFSET, j]
                a, d, power, h, _, _ = parts(-abs(x))
                tail = a * power_of_two(power) / d
                pair[0, i, j] = tail if x > 0.0 else 1.0 - tail
                pair[1, i, j] = tail * h * beta

    return tails


_tails_full, _tails_short = map(_tails_by, (full, short))


@inner(FAST)
def _add_score(exceeds, before, after, k, n):
    """From the distribution (k, n) of a count to that with one more score; may be in place.

    Pr(N <= a) follows the same recursion as Pr(N = a).
    """
    for a in range(k - 1, 0, -1):
        for j in range(n):
            after[a, j] = before[a, j] + exceeds[j] * (before[a - 1, j] - before[a, j])
    for j in range(n):
        after[0, j] = before[0, j] - exceeds[j] * before[0, j]


@inner(FAST)
def _leave_out(before, after, density, k, n, nodes):
    """density *= Pr(fewer than k of the others exceed), and added to the nodes'."""
    for j in range(n):
        nodes[WEIGHT, j] = before[0, j] * after[k - 1, j]
    for a in range(1, k):
        for j in range(n):
            nodes[WEIGHT, j] += before[a, j] * after[k - 1 - a, j]
    for j in range(n):
        density[j] *= nodes[WEIGHT, j]
        nodes[DENSITY, j] += density[j]


@inner(FAST)
def _count(row, nodes, pair, chain, k, n, single):
    """Leave out each score in turn."""
    d = row.shape[1]
    if single:
        _tails_short(row, nodes, pair, n)
    else:
        _tails_full(row, nodes, pair, n)
    block = min(d, _BLOCK)
    ends = 1 + block  # where the distribution functions after blocks begin
    blocks = -(-d // block)
    before, behind = chain[0], chain[ends + blocks]
    for a in range(k):
        for j in range(n):
            before[a, j] = 1.0 if a == 0 else 0.0
            behind[a, j] = 1.0
    for b in range(blocks - 1, 0, -1):
        behind = chain[ends + b + 1]
        for i in range(min(block * (b + 1), d) - 1, block * b - 1, -1):
            _add_score(pair[0, i], behind, chain[ends + b], k, n)
            behind = chain[ends + b]
    for j in range(n):
        nodes[DENSITY, j] = 0.0
    for b in range(blocks):
        begin, end = block * b, min(block * (b + 1), d)
        behind = chain[ends + b + 1]
        for i in range(end - 1, begin, -1):
            _add_score(pair[0, i], behind, chain[i - begin], k, n)
            behind = chain[i - begin]
        for i in range(begin, end):
            behind = chain[ends + b + 1] if i == end - 1 else chain[i - begin + 1]
            _leave_out(before, behind, pair[1, i], k, n, nodes)
            _add_score(pair[0, i], before, before, k, n)
    for j in range(n):
        nodes[PRIMITIVE, j] = 0.0
        for a in range(k):
            nodes[PRIMITIVE, j] += (k - a) * before[a, j]


@inner(FAST)
def primitives(work, pair, chain, k, n, single):
    """B and its derivative at the first n offsets from the row's centre."""
    nodes = work.nodes
    if chain is not None:
        _count(work.row, nodes, pair, chain, k, n, single)
        return
    evaluate(work.row, nodes, work.mills, n, 0.0, 0.0, 0.0, single)
    for j in range(n):
        nodes[PRIMITIVE, j] = nodes[NUMERATOR, j] * power_of_two(nodes[POWER, j])
        nodes[DENSITY, j] = nodes[PRIMITIVE, j] * nodes[SLOPE, j]


@inner(SUMS)
def add_densities(work, pair, chain, n, single):
    """Add the densities of all scores, weighted, to moments; after ``primitives``."""
    nodes, moments = work.nodes, work.moments
    if chain is not None:
        for i in range(moments.shape[1]):
            total = 0.0
            for j in range(n):
                total += nodes[WEIGHT, j] * pair[1, i, j]
            moments[0, i] += total
        return
    for j in range(n):
        nodes[WEIGHT, j] *= nodes[PRIMITIVE, j]
    add_moments(work.row, nodes, work.mills, n, 0.0, single, moments)


@inner(SUMS)
def add_slopes(row, nodes, mills, n, towards, moments):
    """Add the weighted nodes' share in sigma_i times the derivatives of sum_j u_j Pr(j is largest):
    to row 0 of moments in mu_i, to row 1 in sigma_i.  ``towards`` (d,) is u_j / sigma_j.

    After ``evaluate`` of the same nodes, with all h_i kept.
    """
    for k in range(n):
        nodes[DOT, k] = 0.0
    for i in range(towards.size):
        for k in range(n):
            nodes[DOT, k] += towards[i] * mills[i, k]
    for i in range(towards.size):
        in_mean = in_deviation = 0.0
        for k in range(n):
            h = mills[i, k]
            x = min(row[X, i] + row[BETA, i] * nodes[OFFSET, k], RATIO_Z_MAX)  # h is 0 from there
            change = towards[i] * (x + h) - nodes[DOT, k]
            in_mean += nodes[WEIGHT, k] * h * change
            in_deviation += nodes[WEIGHT, k] * h * (x * change - towards[i])
        moments[0, i] += in_mean
        moments[1, i] += in_deviation
