"""Whether L L^T is the covariance of a Gauss-Markov chain, in any order, in O(d**2).

Given the coordinates before it, a coordinate of a chain depends on those next to it on either side
alone: row i of L is a combination of at most two rows before it, and of its own L_ii.  Going down
row i from the diagonal, each entry that is not zero names such a row, whose multiple is subtracted;
what is left in the end is rounding, or no chain.  So the chain grows coordinate by coordinate, each
put at an end, or between two neighbours, or beside the others as long as it is independent of them.
Between two neighbours a and b there is one thing more to check, that they are independent given i.

With alpha the coefficient of one of two neighbours and tau**2 the variance that is left, all for
unit variances, the correlation rho with it has (1 - rho**2)/rho = tau**2/alpha: that gives rho and
1 - rho**2 without cancellation.
"""

import math

import numpy as np

from mvnorth._compile import SUMS, inner, kernel

_EPS = float(np.finfo(np.float64).eps)
_ZERO = 64.0  # times eps and the root of the length: entries of a row that may be rounding
_MISFIT = 1e-8  # more than that between two neighbours, in units of their noise, is no rounding
_LARGEST = 1e-6  # misfit of all rows together that still counts as rounding
_FEW = 8  # rows that are looked at before all are made triangular
_NONE = -1


@inner(SUMS)
def _subtract(row, other, factor, n):
    for j in range(n):
        row[j] -= factor * other[j]


@inner(SUMS)
def _norm2(row, begin, end):
    total = 0.0
    for j in range(begin, end):
        total += row[j] * row[j]
    return total


@inner()
def _correlation(tau, alpha):
    """``(rho, sqrt(1 - rho**2))`` where (1 - rho**2)/rho = tau**2/alpha."""
    u = tau * tau / abs(alpha)
    root = math.sqrt(u * u + 4.0)
    return math.copysign(2.0 / (u + root), alpha), math.sqrt(2.0 * u / (u + root))


@inner()
def _better(rho, noise):
    """rho from what it is to be with its noise, where that says more."""
    return math.copysign(math.sqrt((1.0 - noise) * (1.0 + noise)), rho) if noise < 0.5 else rho


@inner()
def _link(near, links, a, i, rho, noise):
    """Enter a and i among the two neighbours of each other; False if one has two already."""
    for one, other in ((a, i), (i, a)):
        side = 0 if near[one, 0] == _NONE else 1
        if near[one, side] != _NONE:
            return False
        near[one, side] = other
        links[one, side, 0], links[one, side, 1] = rho, noise
    return True


@inner()
def _unlink(near, links, a, b):
    """``(rho, noise)`` of the link between a and b, which is taken away; 0, 1 if there is none."""
    for side in range(2):
        if near[a, side] == b:
            near[a, side] = _NONE
            for other in range(2):
                if near[b, other] == a:
                    near[b, other] = _NONE
            return links[a, side, 0], links[a, side, 1]
    return 0.0, 1.0


@inner()
def _make_room(near, links, a):
    """See to it that a has at most one neighbour: a link next to nothing is cut.  Its square."""
    if near[a, 0] == _NONE or near[a, 1] == _NONE:
        return 0.0
    side = 0 if abs(links[a, 0, 0]) < abs(links[a, 1, 0]) else 1
    if not abs(links[a, side, 0]) < _MISFIT:
        return np.inf
    rho, _ = _unlink(near, links, a, near[a, side])
    return rho * rho


@inner()
def _grow(L, deviation, rounded, near, links):
    """Neighbours of all coordinates (d, 2) with correlations and noises (d, 2, 2); the misfit.

    ``rounded`` is 1 for a factor that was computed, whose rounding the smallest L_jj have
    magnified, and 0 for one that was given.  The misfit is the Frobenius norm of what is left of
    the rows, each in units of its L_ii; infinite where there is no chain.
    """
    d = L.shape[0]
    row = np.empty(d)
    misfit2 = 0.0
    smallest = 1.0
    near[:] = _NONE
    for i in range(d):
        if not L[i, i] > 0.0:
            return np.inf
        row[:i] = L[i, :i]
        zero = _ZERO * _EPS * math.sqrt(i + 1.0) * deviation[i] / smallest**2
        a = b = _NONE
        of_a = of_b = 0.0
        for back in range(i):
            j = i - 1 - back
            if abs(row[j]) <= zero:
                continue
            if b != _NONE:
                return np.inf
            factor = row[j] / L[j, j]
            _subtract(row, L[j], factor, j)
            row[j] = 0.0
            factor *= deviation[j] / deviation[i]
            if a == _NONE:
                a, of_a = j, factor
            else:
                b, of_b = j, factor
        misfit2 += _norm2(row, 0, i) / L[i, i] ** 2
        tau = L[i, i] / deviation[i]
        if rounded:
            smallest = min(smallest, tau)
        if a == _NONE:
            continue
        if b == _NONE:
            misfit2 += _make_room(near, links, a)
            if not _link(near, links, a, i, _better(of_a, tau), tau):
                return np.inf
            continue
        # Given i its neighbours are independent: rho_ab/(1 - rho_ab**2) = alpha beta/tau**2.
        before, noise = _unlink(near, links, a, b)
        ratio = of_a * of_b / (tau * tau)
        between = 2.0 * ratio / (1.0 + math.sqrt(1.0 + 4.0 * ratio * ratio))
        gap = (between - before) / noise
        if not abs(gap) < _MISFIT:
            return np.inf
        misfit2 += gap * gap
        for j, factor in ((a, of_a), (b, of_b)):
            rho, noise = _correlation(tau, factor)
            misfit2 += _make_room(near, links, j)
            if not _link(near, links, j, i, rho, noise):
                return np.inf
    return math.sqrt(misfit2)


@inner()
def _grow_in_order(A, deviation, near, links):
    """Like ``_grow``, for some rows of a triangular factor, and for the order that is given.

    The columns that row i - 1 does not reach are the noise of row i.
    """
    d, columns = A.shape
    row = np.empty(columns)
    near[:] = _NONE
    misfit2 = 0.0
    reach = 0  # columns of the row before
    for i in range(d):
        row[:] = A[i]
        own = _norm2(row, reach, columns)
        if not own > 0.0:
            return np.inf
        if i > 0:
            dot = 0.0
            for j in range(reach):
                dot += row[j] * A[i - 1, j]
            factor = dot / deviation[i - 1] ** 2
            _subtract(row, A[i - 1], factor, reach)
            left2 = _norm2(row, 0, reach)
            if left2 > (_ZERO * _EPS * deviation[i]) ** 2 * (reach + 1.0):
                return np.inf
            misfit2 += left2 / own
            noise = math.sqrt(own) / deviation[i]
            rho = _better(factor * deviation[i - 1] / deviation[i], noise)
            _link(near, links, i - 1, i, rho, noise)
        last = columns
        while last > reach and A[i, last - 1] == 0.0:
            last -= 1
        reach = last
    return math.sqrt(misfit2)


@inner()
def _walk(near, links, order, rho, noise):
    """Order and links, one chain after the other; False if neighbours close a ring."""
    d = order.size
    done = np.zeros(d, dtype=np.bool_)
    n = 0
    for end in range(d):
        if done[end] or (near[end, 0] != _NONE and near[end, 1] != _NONE):
            continue
        i, before = end, _NONE
        while i != _NONE:
            done[i] = True
            order[n] = i
            n += 1
            side = 0 if near[i, 0] != _NONE and near[i, 0] != before else 1
            after = near[i, side]
            if after == before:
                after = _NONE
            if n < d:
                linked = after != _NONE
                rho[n - 1] = links[i, side, 0] if linked else 0.0
                noise[n - 1] = links[i, side, 1] if linked else 1.0
            i, before = after, i
    return n == d


@kernel()
def chains(factor, order, rho, noise, deviation, error, begin, end):
    """``recognise`` for factors [begin, end)."""
    _, d, columns = factor.shape
    for b in range(begin, end):
        A = factor[b]
        smallest = np.inf
        square = columns == d
        for i in range(d):
            deviation[b, i] = math.sqrt(_norm2(A[i], 0, columns))
            smallest = min(smallest, deviation[b, i])
            square = square and (i == d - 1 or not A[i, i + 1 :].any())
        error[b] = np.inf
        if not smallest > 0.0:
            continue
        near, links = np.empty((d, 2), dtype=np.int64), np.empty((d, 2, 2))
        for rounded in range(2):
            if square:
                misfit = _grow(A, deviation[b], rounded, near, links)
            else:
                misfit = _grow_in_order(A, deviation[b], near, links)
            if misfit < _LARGEST and _walk(near, links, order[b], rho[b], noise[b]):
                error[b] = misfit + 8.0 * _EPS
                break


@kernel()
def standardise(
    lower, upper, rounding, order, noise, deviation, error, rounded, low, high, firm, relative
):  # fmt: skip
    """Bring limits (B, d) into the order of the chain and units of the deviations.

    Parameters
    ----------
    rounding : (B,) relative error of limits
    order, noise, deviation, error : see ``recognise``
    rounded : relative error of the covariance
    low, high : (B, d) output
    firm : (B,) output, relative error of noises and deviations; infinite where there is no chain.
        To first order log P is off by E[e^T N e], with e the independent noises given the limits
        and N what their rows are off; E[e^T e] is at most d + 2 |log P|.  A covariance that was
        rounded has variances given the coordinates before, noise**2, off by its rounding; those of
        another order are smaller still, by about a number of coordinates.
    relative : (B,) output, the same with what the rounding of limits brings
    """
    size, d = lower.shape
    for b in range(size):
        shared = b if order.shape[0] > 1 else 0
        firm[b] = relative[b] = error[shared]
        if error[shared] == np.inf:
            continue
        smallest = 1.0
        for i in range(d):
            k = order[shared, i]
            low[b, i] = lower[b, k] / deviation[shared, k]
            high[b, i] = upper[b, k] / deviation[shared, k]
            if i < d - 1 and noise[shared, i] < smallest:
                smallest = noise[shared, i]
        firm[b] += (2.0 + d) * rounded / (smallest * smallest)
        relative[b] = firm[b] + rounding[b]


def recognise(
    factor: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """``(order, rho, noise, deviation, error)`` of chains with covariances A A^T.

    Parameters
    ----------
    factor : (B, d, r) lower triangular ones, or some rows of such ones, in any order of the
        coordinates; what is neither in order nor square takes O(d**3)

    Returns
    -------
    order : (B, d) coordinates in the order of the chain, or of several that are independent
    rho, noise : (B, d - 1) correlations of neighbours in that order, and sqrt(1 - rho**2), which
        is as accurate as the factor however small it is
    deviation : (B, d) standard deviations, of coordinates as they were given; zeros if there is
        no chain among all
    error : (B,) relative to deviations and noises; infinite where there is no chain. log P is off
        by at most about (d + 2 |log P|) times that.
    """
    from mvnorth._threads import run_items

    size, d, columns = factor.shape
    order = np.zeros((size, d), dtype=np.int64)
    rho, noise = np.zeros((2, size, d - 1))
    deviation, error = np.zeros((size, d)), np.full(size, np.inf)

    def some(begin: int, end: int) -> None:
        chains(factor, order, rho, noise, deviation, error, begin, end)

    run_items(some, size, size * d * columns * 2e-9)
    if columns > d:
        for b in np.flatnonzero(np.isinf(error) & (deviation > 0.0).all(axis=1)):
            few = factor[b : b + 1, :_FEW]
            if d > _FEW and np.isinf(recognise(_triangular(few))[4][0]):
                continue  # every marginal of a chain is one
            found = recognise(_triangular(factor[b : b + 1]))
            order[b], rho[b], noise[b], error[b] = (found[k][0] for k in (0, 1, 2, 4))
            if error[b] < np.inf:
                error[b] += 8.0 * _EPS * math.sqrt(columns) / np.min(noise[b], initial=1.0)
    return order, rho, noise, deviation, error


def _triangular(factor: np.ndarray) -> np.ndarray:
    """Lower triangular factors (B, d, d) of the same covariances."""
    L = np.swapaxes(np.linalg.qr(np.swapaxes(factor, 1, 2), mode="r"), 1, 2)
    return np.ascontiguousarray(L * np.sign(np.diagonal(L, axis1=1, axis2=2))[:, None, :])
