"""Expected maximum of independent normal arms: one integral a row, with relative accuracy.

For X_i ~ N(mu_i, sigma_i**2) let l be the arm with the largest mean, the leader.  The
expected excess of the maximum over it is

    E[max_j X_j] - mu_l = int F_l(t) U(t) dt,    U(t) = Pr(X_j > t for some j other than l),

F_i the distribution function of arm i.  The other expected losses are this one plus mu_l - mu_i, so
that one integral gives them all without cancellation.  U follows from adding one arm after the
other, U + (1 - U) Pr(X_j > t): all terms are positive, and small losses keep their relative
accuracy.
The derivatives are integrals of F_l (1 - U) h_i / sigma_i, h = phi/Phi, on the same nodes.

The largest constant is the leader itself, or cuts the line: below it U is 1.

Each arm alone has the closed form E[(X_j - X_l)^+] (Clark 1961, "The greatest of a finite set of
random variables").  The largest of these is a lower bound of the result and their sum an upper one:
they say which arms count, and the exponents of F_l and of Pr(X_j > t) where.  Gauss-Legendre
panels, at most ten deviations of any arm long, are halved until a rule on half of their nodes
agrees.  The method is ours.
"""

import math

import numpy as np

from mvnorth._compile import FAST, SUMS, inner, kernel, scalar
from mvnorth._cpu.argmax_nodes import centre_at, load, rules
from mvnorth._cpu.factor_nodes import BETA, NODES, M, V, X
from mvnorth._scalar.argmax import is_live
from mvnorth._scalar.exp_log import power_of_two
from mvnorth._scalar.phi_mills import FAR, far, full
from mvnorth._tables.normal import RATIO_Z_MAX

_REACH = math.sqrt(84.0)  # deviations from the mode; beyond them is 1e-17 of the integral
_NEGLIGIBLE = 1e-17  # share of the result that all arms left out may have together
_LONGEST = 10.0  # deviations of an arm that a panel near it may span
_COARSE = 1e-5  # error of the rule on half of the nodes; that of the other is below its cube
_PANELS = 4000  # at most
_NEAR = 9.0  # deviations of its mean within which an arm is always resolved
_LEGENDRE_NODES, _LEGENDRE_WEIGHTS, _LEGENDRE_COARSE = rules(NODES)
# Places in nodes, (6, NODES): offsets from the centre, U, F of the leader and phi/Phi of it, and
# weights for derivatives of the other arms and of the leader.
_OFFSET, _UNION, _LEADER, _RATIO, _WEIGHT, _OWN = range(6)


@scalar(FAST)
def excess(distance):
    """E[(Z - distance)^+] for a standard normal Z and distance >= 0; 0 below 1e-300."""
    if distance > RATIO_Z_MAX:
        return 0.0
    a, d, power, _, r, _ = full(-distance)
    if -distance < 0.5 * FAR:
        r = far(-distance)[1]
    return a * power_of_two(power) / d * r


@scalar(FAST, forceinline=True)
def _tails(x):
    """``(Phi(-x), Phi(x), phi(x)/Phi(x))``."""
    a, d, power, h, _, _ = full(-abs(x))
    tail = a * power_of_two(power) / d
    rest = 1.0 - tail
    positive = x > 0.0
    ratio = tail * h / rest if positive else h
    return (tail if positive else rest), (rest if positive else tail), ratio


@scalar(FAST)
def _range_of(leader, leader_deviation, gap, arm, deviation):
    """``(low, high)``: where the product of two tails counts, of the leader's below and of the
    arm's above; by the exponents of both, which are parabolas from either mean on."""
    total = math.hypot(leader_deviation, deviation)
    distance = gap / total
    reach = math.sqrt(distance * distance + _REACH * _REACH)
    above, below = gap * (deviation / total) ** 2, gap * (leader_deviation / total) ** 2
    width = leader_deviation * (deviation / total) * _REACH
    # Compared without the means, whose rounding must not decide.
    low = arm + (above - width) if width < above else leader - leader_deviation * reach
    high = leader - (below - width) if width < below else arm + deviation * reach
    return low, high


@inner(FAST)
def _choose_arms(row, mu, sigma, leader, value, at, constant, unit, kept, ends):
    """``(count, scale, low, high, low_constant)``: the arms that count, as kept[:count].

    ends[:count] are the positions up to which panels resolve them: far above their means where only
    their tails exceed the leader.  scale is a lower bound of the integral; low and high limit the
    arms' part of it.  The constant's part, for a leader that is an arm, begins at low_constant,
    which is infinite if it does not count.
    """
    d = mu.size
    own = 0.0 if leader < 0 else row[V, leader]
    scale, most = 0.0, 0.0
    for i in range(d):
        if row[V, i] > 0.0 and i != leader:
            total = math.hypot(own, row[V, i])
            row[X, i] = total * excess((value - mu[i]) / unit / total)
            scale = max(scale, row[X, i])
    if leader >= 0 and constant > -np.inf:
        most = own * excess((value - constant) / unit / own)
        scale = max(scale, most)
    low, high, low_constant, count = np.inf, -np.inf, np.inf, 0
    if scale == 0.0:
        return count, scale, low, high, low_constant
    least = _NEGLIGIBLE * scale / d
    for i in range(d):
        if row[V, i] > 0.0 and i != leader and row[X, i] > least:
            begin, end = _range_of(at, own, (value - mu[i]) / unit, -row[M, i], row[V, i])
            low, high = min(low, begin), max(high, end)
            kept[count] = i
            ends[count] = max(end, -row[M, i] + _NEAR * row[V, i])
            count += 1
    if most > least:
        distance = (value - constant) / unit / own
        low_constant = at - own * math.sqrt(distance * distance + _REACH * _REACH)
    return count, scale, low, high, low_constant


@inner(FAST)
def _too_long(row, kept, ends, count, leader, a, b):
    """Whether [a, b] spans too many deviations of an arm that counts there."""
    length = b - a
    for k in range(count + (leader >= 0)):
        i = kept[k] if k < count else leader
        if length > _LONGEST * row[V, i]:
            mean, reach = -row[M, i], _NEAR * row[V, i]
            end = ends[k] if k < count else mean + reach
            if a < end and b > mean - reach:
                return True
    return False


@inner(FAST)
def _evaluate(row, kept, count, leader, nodes, ratios, derivatives):
    """Set U, and F of the leader, at all nodes; ratios get phi/Phi of the arms."""
    for k in range(NODES):
        nodes[_UNION, k] = 0.0
        nodes[_LEADER, k] = 1.0
    for m in range(count):
        x_i, beta = row[X, kept[m]], row[BETA, kept[m]]
        if derivatives:
            for k in range(NODES):
                tail, _, ratio = _tails(x_i + beta * nodes[_OFFSET, k])
                nodes[_UNION, k] += (1.0 - nodes[_UNION, k]) * tail
                ratios[m, k] = ratio
        else:
            for k in range(NODES):
                tail, _, _ = _tails(x_i + beta * nodes[_OFFSET, k])
                nodes[_UNION, k] += (1.0 - nodes[_UNION, k]) * tail
    if leader >= 0:
        x_l, beta = row[X, leader], row[BETA, leader]
        for k in range(NODES):
            _, nodes[_LEADER, k], nodes[_RATIO, k] = _tails(x_l + beta * nodes[_OFFSET, k])


@inner(SUMS)
def _add_derivatives(row, kept, count, leader, nodes, ratios, half, moments):
    """Add a panel to moments: of arms in mean and deviation, of the leader in its deviation."""
    for k in range(NODES):
        weight = half * _LEGENDRE_WEIGHTS[k] * nodes[_LEADER, k]
        nodes[_WEIGHT, k] = weight * (1.0 - nodes[_UNION, k])
        nodes[_OWN, k] = weight * nodes[_UNION, k]
    for m in range(count):
        i = kept[m]
        in_mean = in_deviation = 0.0
        for k in range(NODES):
            density = nodes[_WEIGHT, k] * ratios[m, k]
            in_mean += density
            in_deviation += density * (row[X, i] + row[BETA, i] * nodes[_OFFSET, k])
        moments[0, i] += in_mean * row[BETA, i]
        moments[1, i] += in_deviation * row[BETA, i]
    if leader >= 0:
        own = 0.0
        for k in range(NODES):
            x = row[X, leader] + row[BETA, leader] * nodes[_OFFSET, k]
            own -= nodes[_OWN, k] * nodes[_RATIO, k] * x
        moments[1, leader] += own * row[BETA, leader]


@inner(FAST)
def _integrate(row, kept, ends, count, leader, below, low, high, allowed, work, moments):
    """The integral of F_l U over [low, high], or of F_l where ``below`` the constant.

    moments are added to unless they have no columns.
    """
    nodes, ratios, stack = work
    derivatives = moments.shape[1] > 0
    stack[0, 0], stack[0, 1] = low, high
    size, panels, total = 1, 0, 0.0
    while size:
        size -= 1
        a, b = stack[size, 0], stack[size, 1]
        centre, half = a + 0.5 * (b - a), 0.5 * (b - a)
        divisible = a < centre < b and panels < _PANELS
        settled = not (divisible and _too_long(row, kept, ends, count, leader, a, b))
        if settled:
            centre_at(row, centre)
            for k in range(NODES):  # the centre is rounded, the ends are not
                nodes[_OFFSET, k] = (a - centre) + half * (1.0 + _LEGENDRE_NODES[k])
            _evaluate(row, kept, count, leader, nodes, ratios, derivatives)
            fine = coarse = 0.0
            for k in range(NODES):
                if below:
                    nodes[_UNION, k] = 1.0
                value = nodes[_LEADER, k] * nodes[_UNION, k]
                fine += _LEGENDRE_WEIGHTS[k] * value
                coarse += _LEGENDRE_COARSE[k] * value
            panels += 1
            settled = abs(fine - coarse) * half <= allowed or not divisible
            if settled:
                total += half * fine
                if derivatives:
                    _add_derivatives(row, kept, count, leader, nodes, ratios, half, moments)
        if not settled:
            stack[size, 0], stack[size, 1] = a, centre
            stack[size + 1, 0], stack[size + 1, 1] = centre, b
            size += 2
    return total


@inner(FAST)
def _constant_wins(row, kept, count, leader, at, work):
    """Probability that no arm exceeds a constant."""
    nodes, ratios, _ = work
    centre_at(row, at)
    for k in range(NODES):
        nodes[_OFFSET, k] = 0.0
    _evaluate(row, kept, count, leader, nodes, ratios, False)
    return nodes[_LEADER, 0] * (1.0 - nodes[_UNION, 0])


@inner(FAST)
def _finish_derivatives(mu, sigma, widest, leader, constant, wins, moments, in_mu, in_sigma):
    """Write derivatives: in means they are probabilities, which add up to 1.

    ``wins`` is the probability of the constants, which share it evenly; what is left of 1 is the
    leader's.
    """
    total, tied = 0.0, 0
    for i in range(mu.size):
        in_mu[i], in_sigma[i] = moments[0, i], moments[1, i]
        total += in_mu[i]
        tied += mu[i] == constant and not is_live(mu[i], sigma[i], widest)
    if leader < 0:
        wins = 1.0 - total
    else:
        in_mu[leader] = max(1.0 - (total + (wins if tied else 0.0)), 0.0)
    for i in range(mu.size):
        if mu[i] == constant and not is_live(mu[i], sigma[i], widest):
            in_mu[i] = wins / tied


@kernel()
def expected_max(mu, sigma, largest, loss, in_mu, in_sigma, begin, end):
    """Compute the excess of the expected maximum over the largest mean, of rows [begin, end).

    Relative error 1e-14, in the tails 1e-12 down to results of 1e-300; smaller ones are 0.

    Parameters
    ----------
    mu : (B, C) means; -inf allowed, but not for all of a row
    sigma : (1 or B, C) standard deviations >= 0
    largest, loss : (B,) results: the largest mean, and E[max] minus it
    in_mu, in_sigma : (B, C) derivatives of E[max]; with no rows they are not computed
    """
    d = mu.shape[1]
    derivatives = in_mu.shape[0] > 0
    row, kept, ends = np.empty((7, d)), np.empty(d, np.int64), np.empty(d)
    moments = np.empty((2, d if derivatives else 0))
    work = np.empty((6, NODES)), np.empty((d if derivatives else 0, NODES)), np.empty((_PANELS, 2))
    for b in range(begin, end):
        deviations = sigma[0 if sigma.shape[0] == 1 else b]
        _, origin, unit, widest = load(row, mu[b], deviations, np.int64(1))
        leader, value, constant = -1, -np.inf, -np.inf
        for i in range(d):
            if row[V, i] > 0.0:
                if mu[b, i] > value:
                    leader, value = i, mu[b, i]
            else:
                constant = max(constant, mu[b, i])
        if constant >= value:
            leader, value = -1, constant
        largest[b], loss[b] = value, 0.0
        cut = max((constant - origin) / unit, -1e290)
        at = cut if leader < 0 else -row[M, leader]
        count, scale, low, high, low_constant = _choose_arms(
            row, mu[b], deviations, leader, value, at, constant, unit, kept, ends
        )
        moments[:] = 0.0
        allowed, total = _COARSE * scale, 0.0
        if low_constant < cut:
            total += _integrate(
                row, kept, ends, np.int64(0), leader, True, low_constant, cut, allowed, work,
                moments,
            )  # fmt: skip
        low = max(low, cut)
        alone = count == 1 and low_constant == np.inf and (leader < 0 or low > cut)
        if alone and not derivatives:
            total += scale  # the closed form
        elif low < high:
            total += _integrate(
                row, kept, ends, count, leader, False, low, high, allowed, work, moments
            )  # fmt: skip
        loss[b] = unit * total
        if derivatives:
            wins = 0.0
            if leader >= 0 and constant > -np.inf:
                wins = _constant_wins(row, kept, count, leader, cut, work)
            _finish_derivatives(
                mu[b], deviations, widest, leader, constant, wins, moments, in_mu[b], in_sigma[b]
            )  # fmt: skip
