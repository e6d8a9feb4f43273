"""The bookkeeping of the rule for the chi variable of Student's t; see ``mvnorth/_chi_rule.py``.

Probabilities are computed in between, for the nodes of all rows at once.
"""

import math

import numpy as np

from mvnorth._compile import inner, kernel, scalar

STENCIL = 5  # points
# What belongs to a row: the mode in w, the width and the skewness there, log P and its derivative
# in w, a bracket of the mode, and the constant of the logarithm of the density of w.
W, WIDTH, SKEWNESS, LOG_PROB, PULL, LOW, HIGH, CONSTANT = range(8)
STATE = 8
FINEST = 32  # steps that the first one is halved into, at most
_FARTHEST = 60 * FINEST  # node from the mode
_UNIT = 0.25  # largest step of the stencil; e^(2 w) is smooth on this scale
_CLOSE = 0.3  # distance from the mode in widths at which the search ends
_BENT, _ASYMMETRY = 0.75, 1.1  # shares of the skewness that the map has; chosen by measurement
_SAFETY = 10.0
_FEW = 3.0  # degrees of freedom below which nodes are closer
_HIGHEST = 100.0  # w
_NEGLIGIBLE = 0.01  # share of the error
_EXTRA = 3  # nodes added to an end at a time
_DISTANT = 2.0  # w left of the mode where P may still change
_LOWEST = -500.0  # w below which P does not change
_STRIP = 0.5 * math.pi**2  # P is analytic for |Im w| < pi/4


@scalar()
def _unit(width, steep):
    return min(width, _UNIT, 0.5 / max(steep, 1e-3))


@scalar()
def bent(w):
    """w - (e^(2 w) - 1) / 2 without cancellation."""
    x = 2.0 * w
    if abs(x) < 1e-3:
        series = 1.0 + x / 3.0 * (1.0 + x / 4.0 * (1.0 + x / 5.0 * (1.0 + x / 6.0)))
        return -0.25 * x * x * series
    return w - 0.5 * math.expm1(x)


@kernel()
def set_stencil(state, steep, rows, r):
    """Set r (R, STENCIL) around the modes of some rows."""
    for k in range(rows.size):
        b = rows[k]
        for j in range(STENCIL):
            r[k, j] = math.exp(state[W, b] + (j - 2) * _unit(state[WIDTH, b], steep[b]))


@scalar()
def _clip(x, largest):
    return min(max(x, -largest), largest)


@kernel()
def improve_modes(df, state, steep, rows, log_prob):
    """Take a Newton step in some rows from log P (R, STENCIL); the number of rows to go on with.

    These are moved to the front of ``rows``.  Far out in a tail, where log P is about -q r^2 / 2,
    the step is to r^2 = df / (df + q).
    """
    left = np.int64(0)
    for k in range(rows.size):
        b = rows[k]
        nu, w, unit = df[b], state[W, b], _unit(state[WIDTH, b], steep[b])
        far_left, near_left, middle, near_right, far_right = log_prob[k]
        pull = (far_left - 8.0 * near_left + 8.0 * near_right - far_right) / (12.0 * unit)
        second = 16.0 * (near_left + near_right) - far_left - far_right - 30.0 * middle
        third = (far_right - 2.0 * near_right + 2.0 * near_left - far_left) / (2.0 * unit**3)
        if not abs(pull) + abs(second) + abs(third) < np.inf:
            continue
        r2 = math.exp(2.0 * w)
        first = nu * (1.0 - r2) + pull
        second = 2.0 * nu * r2 - second / (12.0 * unit * unit)
        third -= 4.0 * nu * r2
        if not second > 0.02 * nu:
            second = 2.0 * nu
        width = 1.0 / math.sqrt(second)
        state[WIDTH, b], state[LOG_PROB, b], state[PULL, b] = width, middle, pull
        state[SKEWNESS, b] = _clip(third * width**3 / 3.0, 2.0)
        if first > 0.0:
            state[LOW, b] = w
        elif first < 0.0:
            state[HIGH, b] = w
        new = w + _clip(first / second, 2.0)
        if pull < -nu:
            new = 0.5 * math.log(nu / (nu - pull / r2))
            if abs(new - w) > 1.0:  # the width here says nothing about that there
                state[WIDTH, b] = 1.0 / math.sqrt(2.0 * nu)
        if new < state[LOW, b]:
            new = 0.5 * (state[LOW, b] + w)
        if new > state[HIGH, b]:
            new = 0.5 * (state[HIGH, b] + w)
        state[W, b] = new
        state[LOG_PROB, b] += pull * (new - w)
        if abs(new - w) > _CLOSE * width:
            rows[left] = b
            left += 1
    return left


@scalar()
def _power(df):
    return 2.0 - 1.0 / (1.0 + df)


@scalar()
def claim(df, halves, thirds):
    """Return the claimed error from the errors of rules with a half and a third of the nodes."""
    return _SAFETY * max(halves, thirds**1.75) ** _power(df)


@kernel()
def set_claims(df, errors, claims):
    """Set the claimed errors (B,) from errors (2, B) with a half and a third of the nodes."""
    for b in range(df.size):
        claims[b] = claim(df[b], errors[0, b], errors[1, b])


@kernel()
def set_steps(df, state, goal, steep, step, ends):
    """Set the step in t of each row, (B,), and where its nodes end, (2, B); their number.

    The step is that for which the error of a normal density is claimed to be well below the goal.
    """
    count = np.int64(0)
    for b in range(df.size):
        third = (goal[b] / (200.0 * _SAFETY)) ** (1.0 / (1.75 * _power(df[b])))
        step[b] = math.pi * math.sqrt(2.0 / math.log(2.0 / third)) / 3.0
        if df[b] < _FEW:
            step[b] *= 0.9
        step[b] /= min(max(state[WIDTH, b] * steep[b] * step[b], 1.0), 4.0)
        reach = (math.sqrt(-2.0 * math.log(goal[b])) + 0.7) / step[b]
        skewness = _clip(state[SKEWNESS, b], 0.5)
        long, short = 1.0 + 0.5 * abs(skewness), 1.0 - 0.6 * abs(skewness)
        if skewness > 0.0:
            long, short = short, long
        ends[0, b] = -FINEST * math.ceil(reach * long)
        ends[1, b] = FINEST * math.ceil(reach * short)
        count += (ends[1, b] - ends[0, b]) // FINEST + 1
    return count


@kernel()
def set_first_nodes(ends, row, place):
    """Set the rows and places, (N,) each, of the first nodes."""
    n = 0
    for b in range(ends.shape[1]):
        for at in range(ends[0, b], ends[1, b] + 1, FINEST):
            row[n], place[n] = b, at
            n += 1


@scalar()
def _map(t, skewness):
    """``(y, log y')`` with y(0) = 0, y'(0) = 1 and y''(0) = 0.75 * skewness."""
    kappa = _BENT * skewness
    a = max(_ASYMMETRY * abs(kappa), 1e-3)
    shift = math.atanh(kappa / a)
    cosh = math.cosh(shift)
    y = (math.sinh(shift + a * t) - math.sinh(shift)) / (a * cosh)
    return y, math.log(math.cosh(shift + a * t) / cosh)


@kernel()
def to_r(t, state, r):
    """Set r at points t of the first row."""
    for k in range(t.size):
        r[k] = math.exp(state[W, 0] + state[WIDTH, 0] * _map(t[k], state[SKEWNESS, 0])[0])


@kernel()
def set_nodes(df, state, goal, step, concave, row, place, r, log_term):
    """Set r and the logarithm of the density of t; the number of nodes that may count.

    These are moved to the front.  If log P is ``concave`` in r, as it is for convex sets, it lies
    below its tangent at the mode; in any case it is at most 0.
    """
    kept = 0
    for k in range(row.size):
        b = row[k]
        y, log_slope = _map(place[k] * (step[b] / FINEST), state[SKEWNESS, b])
        w = min(state[W, b] + state[WIDTH, b] * y, _HIGHEST)
        term = df[b] * bent(w) + state[CONSTANT, b] + log_slope
        bound = 0.0
        if concave:
            rise = state[PULL, b] * math.expm1(w - state[W, b])
            bound = min(state[LOG_PROB, b] + rise + 1.0, 0.0)
        top = df[b] * bent(state[W, b]) + state[CONSTANT, b] + state[LOG_PROB, b]
        if term + bound > top + math.log(0.1 * _NEGLIGIBLE * goal[b]):
            row[kept], place[kept], log_term[kept] = b, place[k], term
            r[kept] = math.exp(max(w, _LOWEST))
            kept += 1
    return kept


@inner()
def _extend(end, sign, stride, b, row, place, n):
    for k in range(1, _EXTRA + 1):
        row[n], place[n] = b, end + sign * k * stride
        n += 1
    return n


@inner()
def _add_unresolved(df, state, stride, ends, steep, row, place, r, log_p, share, error):
    """Add to ``error`` (B,) what the rule makes of changes of P that its nodes do not resolve.

    Far to the left of the mode the nodes are far apart, and what happens has too small a share of
    the integral to be seen in the rules with fewer nodes: P changes where r times a large limit is
    about 1.  With a noncentrality of ``steep`` deviations P may change within 1 / ``steep`` in w,
    anywhere.  The second difference of log P from node to node says where it changes, and their
    distance in w how well that is resolved.
    """
    first = np.zeros(df.size + 1, dtype=np.int64)
    for b in range(df.size):
        first[b + 1] = first[b] + (ends[1, b] - ends[0, b]) // stride[b] + 1
    node = np.full(first[df.size], -1, dtype=np.int64)
    for k in range(row.size):
        b = row[k]
        node[first[b] + (place[k] - ends[0, b]) // stride[b]] = k
    for b in range(df.size):
        farthest = math.exp(state[W, b] - _DISTANT)
        for n in range(first[b] + 1, first[b + 1] - 1):
            left, k, right = node[n - 1], node[n], node[n + 1]
            if left < 0 or k < 0 or right < 0:
                continue
            change = abs(log_p[left] - 2.0 * log_p[k] + log_p[right])
            apart = 0.5 * math.log(r[right] / r[left])
            if change > 0.0 and apart > 0.0:
                alias = 2.0 * math.exp(-_STRIP / apart) if r[k] < farthest else 0.0
                if steep[b] > 0.0:
                    unit = 1.4 * apart * (1.0 + steep[b])
                    alias += 2.0 * math.exp(-2.0 * (math.pi / unit) ** 2)
                error[b] += _SAFETY * share[k] * min(change, 1.0) * alias


@kernel()
def assess(
    df, state, goal, steep, step, stride, ends, row, place, r, log_term, log_p, share, log_prob,
    rel_error, new_row, new_place,
):  # fmt: skip
    """Set shares of nodes, integrals and errors of rows; return the number of nodes to add.

    Parameters
    ----------
    stride : (B,) places from node to node; halved where the rule needs more nodes
    ends : (2, B) first and last place of each row, with those that were not kept
    row, place, r, log_term, log_p : (N,) nodes so far, the integrand and P
    share, log_prob, rel_error : (N,), (B,) and (B,) results
    new_row, new_place : (N + 6 B,) results
    """
    size, n = df.size, row.size
    peak, total, outside = np.full(size, -np.inf), np.zeros(size), np.zeros(size)
    sums, terms = np.zeros((size, 6)), np.zeros((size, 2))
    outermost = np.empty((size, 2), dtype=np.int64)
    outermost[:, 0], outermost[:, 1] = _FARTHEST * 2, -_FARTHEST * 2
    for k in range(n):
        b = row[k]
        peak[b] = max(peak[b], log_term[k])
        outermost[b, 0] = min(outermost[b, 0], place[k])
        outermost[b, 1] = max(outermost[b, 1], place[k])
    for k in range(n):
        b = row[k]
        share[k] = math.exp(log_term[k] - peak[b]) if log_term[k] > -np.inf else 0.0
        total[b] += share[k]
        sums[b, (place[k] // stride[b]) % 6] += share[k]
        for end in range(2):
            if place[k] == outermost[b, end]:
                terms[b, end] = share[k]
    for k in range(n):
        share[k] /= total[row[k]] if total[row[k]] > 0.0 else 1.0
    count = 0
    halve = np.zeros(size, dtype=np.bool_)
    unresolved = np.zeros(size)
    _add_unresolved(df, state, stride, ends, steep, row, place, r, log_p, share, unresolved)
    for b in range(size):
        log_prob[b], rel_error[b] = -np.inf, 0.0
        if not total[b] > 0.0:
            continue
        scale = state[WIDTH, b] * step[b] * (stride[b] / FINEST)
        log_prob[b] = peak[b] + math.log(total[b] * scale)
        outside[b] = _NEGLIGIBLE * goal[b] + 3.0 * (terms[b, 0] + terms[b, 1]) / total[b]
        extended = False
        for end in range(2):
            sign = 2 * end - 1
            short = terms[b, end] > 0.1 * goal[b] * total[b]
            if short and sign * ends[end, b] >= _FARTHEST:
                outside[b] = np.inf
            elif short and outermost[b, end] == ends[end, b]:
                count = _extend(ends[end, b], sign, stride[b], b, new_row, new_place, count)
                ends[end, b] = new_place[count - 1]
                extended = True
        halves = abs(2.0 * (sums[b, 0] + sums[b, 2] + sums[b, 4]) / total[b] - 1.0)
        thirds = 0.0
        for j in range(3):
            thirds = max(thirds, abs(3.0 * (sums[b, j] + sums[b, j + 3]) / total[b] - 1.0))
        rule = claim(df[b], halves, thirds) + unresolved[b]
        rel_error[b] = rule + outside[b]
        halve[b] = rule > goal[b] and stride[b] > 1 and not extended
    for k in range(n):
        b = row[k]
        if halve[b]:
            new_row[count], new_place[count] = b, place[k] + stride[b] // 2
            count += 1
    for b in range(size):
        if halve[b]:
            stride[b] //= 2
            ends[1, b] += stride[b]
    return count
