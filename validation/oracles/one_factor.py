"""Orthants with covariance diag(c) + v v^T and their derivatives in 40-digit arithmetic.

With a_i = m_i / sqrt(c_i), b_i = v_i / sqrt(c_i) and x_i = a_i + b_i z, the probability is

    P = integral of phi(z) prod Phi(x_i) dz,

and its derivative in m_i has phi(x_i) / sqrt(c_i) in place of one Phi(x_i). All these integrands
are log-concave, but each has its own mode: where P is close to 1, the gradient comes from far out
in the tail of z. Log-concavity makes it safe to share one set of panels. The tangents at the ends
of a panel bound every integrand inside it, so that nothing is overlooked however narrow it is, and
a panel is left out only where all integrands are below 10**-50 of their own peaks.

Numbers of mpmath have no smallest exponent: probabilities of exp(-1e12) need no logarithms. Where
P is close to 1, the integral is that of 1 - prod Phi(x_i), and log P keeps its relative accuracy.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import mpmath
from mpmath import mpf

from validation.oracles.exact import DIGITS, Vector
from validation.oracles.one_factor_integrands import Problem

NODES = 34  # of Gauss and Legendre in a panel

# The rule just resolves a panel in which the logarithm of an integrand changes by this much, and
# the argument of a Phi that is not yet 0 or 1 by that much. Panels it does not resolve are halved.
LARGEST_CHANGE = 40
LARGEST_MOVE = 6


class Derivatives(NamedTuple):
    """The logarithm of an orthant probability, and its derivatives.

    Attributes
    ----------
    log_prob : mpf
    m, c, v : list of d mpf
        First derivatives of log P.
    hessian : list of d lists of d mpf, or None
        Second derivatives of log P in m.
    """

    log_prob: mpf
    m: list[mpf]
    c: list[mpf]
    v: list[mpf]
    hessian: list[list[mpf]] | None


def one_factor_derivatives(
    m: Vector,
    c: Vector,
    v: Vector,
    counts: Sequence[int] | None = None,
    *,
    hessian: bool = False,
    panels: float = 1.0,
) -> Derivatives:
    """log Pr(X <= m) for X ~ N(0, diag(c) + v v^T), with its derivatives.

    Parameters
    ----------
    m, c, v : (d,)
        Limits, own variances > 0, loadings of any sign.
    counts : (d,), optional
        How often each coordinate occurs. The derivatives are then those in one copy of it.
    hessian : bool
        Also the second derivatives in m; without counts only.
    panels : float
        At least 1. Another number puts the panels elsewhere and makes them narrower: a second
        result by which to judge the first.

    Returns
    -------
    Derivatives
        Right to 33 digits or more, relative to the largest entry of each of its fields. A field
        is zero where what it is the sum of cancels to 45 digits.
    """
    if hessian and counts is not None:
        raise ValueError("counts must be None with hessian=True, got both")
    number = [1] * len(m) if counts is None else [int(n) for n in counts]
    digits = DIGITS + 5
    found, lost = _attempt(m, c, v, number, hessian, panels, digits)
    while lost > digits - DIGITS + 3:
        digits = DIGITS + 5 + lost
        found, lost = _attempt(m, c, v, number, hessian, panels, digits)
    return found


class _End(NamedTuple):
    """One end of a panel."""

    z: mpf
    logs: list[tuple[int, mpf, mpf]]


def _panels(problem: Problem, digits: int, finer: float) -> list[tuple[mpf, mpf]]:
    """Panels that hold all but 10**-digits of every integrand, narrow enough for the rule."""
    drop = mpf(2.303) * digits + 45  # the rest is for panels much wider than the peak
    peaks = [-mpmath.inf] * len(problem.terms)

    def end(z: mpf) -> _End:
        logs = problem.logs(problem.at(z))
        for k, value, _ in logs:
            peaks[k] = max(peaks[k], value)
        return _End(z, logs)

    # Beyond the last mode the logs fall at least like -z^2/2, which phi(z) makes them do.
    reach = mpf(1)
    while not (
        all(slope > 0 for _, _, slope in end(-reach).logs)
        and all(slope < 0 for _, _, slope in end(reach).logs)
    ):
        reach *= 2
    # Halving an interval of another width puts no end where it was, except on the walls.
    reach = (reach + mpmath.sqrt(2 * drop)) * finer

    def matters(low: _End, high: _End) -> tuple[bool, mpf]:
        """Whether any integrand does in this panel, and the largest change of those that do."""
        width = high.z - low.z
        change, any_term = mpf(0), False
        for (k, left, up), (_, right, down) in zip(low.logs, high.logs, strict=True):
            if up <= 0:
                top = left
            elif down >= 0:
                top = right
            else:  # where the tangents meet
                top = left + up * (right - left - down * width) / (up - down)
            if top > peaks[k] - drop:
                any_term = True
                floor = max(min(left, right), peaks[k] - drop)
                change = max(change, top - floor)
        return any_term, change

    edge = mpmath.sqrt(mpf(4.7) * digits * finer)  # where Phi has become 0 or 1 to so many digits
    queue, done = [(end(-reach), end(reach))], []
    while queue:
        waiting = []
        for low, high in queue:
            any_term, change = matters(low, high)
            if not any_term:
                continue
            middle = None
            for a, b in zip(problem.a, problem.b, strict=True):
                if b == 0 or (high.z - low.z) * abs(b) * finer <= LARGEST_MOVE:
                    continue
                zone = sorted(((-edge - a) / b, (edge - a) / b))
                if zone[0] >= high.z or zone[1] <= low.z:
                    continue
                middle = middle or (low.z + high.z) / 2
                if 8 * (zone[1] - zone[0]) < high.z - low.z:
                    middle = zone[0] if zone[0] > low.z else zone[1]
                    break
            if middle is None and change * finer > LARGEST_CHANGE:
                middle = (low.z + high.z) / 2
            if middle is None:
                done.append((low, high))
            else:
                new = end(middle)
                waiting += [(low, new), (new, high)]
        queue = waiting
    return [(low.z, high.z) for low, high in done if matters(low, high)[0]]


@cache
def _legendre(digits: int) -> list[tuple[mpf, mpf, mpf, mpf]]:
    """Nodes and weights of the rule, and the Legendre polynomials of its two highest degrees."""
    out = []
    with mpmath.workdps(digits + 10):
        for k in range(NODES):
            x = mpmath.cos(mpmath.pi * (k + mpf(3) / 4) / (NODES + mpf(1) / 2))
            step = mpf(1)
            while abs(step) > mpf(10) ** -digits:  # the weight needs the slope at the node itself
                before, here, earlier = mpf(1), x, mpf(0)
                for n in range(2, NODES + 1):
                    earlier = before
                    before, here = here, ((2 * n - 1) * x * here - (n - 1) * before) / n
                slope = NODES * (x * here - before) / (x * x - 1)
                step = here / slope
                x -= step
            out.append((x, 2 / ((1 - x * x) * slope**2), before, earlier))
    return out


class _Sums(NamedTuple):
    """Integrals over a panel, per term: of f, x f and z f, and its last Legendre coefficients."""

    f: list[mpf]
    xf: list[mpf]
    zf: list[mpf]
    last: list[mpf]


def _sums(problem: Problem, low: mpf, high: mpf, digits: int) -> _Sums:
    half, middle = (high - low) / 2, (high + low) / 2
    size = len(problem.terms)
    f, xf, zf, odd, even = ([mpf(0)] * size for _ in range(5))
    for t, weight, highest, second in _legendre(digits):
        point = problem.at(middle + half * t)
        for k, value in enumerate(problem.values(point)):
            part = half * weight * value
            f[k] += part
            if 0 < k <= problem.d:
                xf[k] += part * point.x[k - 1]
                zf[k] += part * point.z
            odd[k] += part * highest
            even[k] += part * second
    last = [max(abs(p), abs(q)) for p, q in zip(odd, even, strict=True)]
    return _Sums(f, xf, zf, last)


def _attempt(
    m: Vector,
    c: Vector,
    v: Vector,
    counts: list[int],
    hessian: bool,
    finer: float,
    digits: int,
) -> tuple[Derivatives, int]:
    """The result with so many digits, and how many of them were lost in cancellation."""
    with mpmath.workdps(60):
        rough = Problem(m, c, v, counts, hessian)
        largest = 1 + max(abs(a) + 20 * abs(b) for a, b in zip(rough.a, rough.b, strict=True))
        guard = 10 + 2 * int(mpmath.log10(largest)) + len(str(sum(counts)))
    with mpmath.workdps(digits + guard):
        problem = Problem(m, c, v, counts, hessian)
        queue = _panels(problem, digits, finer)
        done: list[_Sums] = []
        tolerance = mpf(10) ** -digits
        while queue:
            fresh = [(*ends, _sums(problem, *ends, digits + guard)) for ends in queue]
            everything = done + [sums for _, _, sums in fresh]
            totals = [mpmath.fsum(f) for f in zip(*(s.f for s in everything), strict=True)]
            queue = []
            for low, high, sums in fresh:
                # Coefficients fall geometrically or faster: the rule's error is that of degree
                # 2 NODES, the square of the last one.
                good = all(
                    last * last <= tolerance * f * total
                    for last, f, total in zip(sums.last, sums.f, totals, strict=True)
                )
                if good:
                    done.append(sums)
                else:
                    middle = (low + high) / 2
                    queue += [(low, middle), (middle, high)]
        return _derivatives(problem, done, c, v, digits)


def _derivatives(
    problem: Problem, done: list[_Sums], c: Vector, v: Vector, digits: int
) -> tuple[Derivatives, int]:
    """Derivatives of log P from the sums over all panels; the digits lost."""
    d = problem.d

    def add(columns: list[list[mpf]]) -> tuple[list[mpf], list[mpf]]:
        signed = [mpmath.fsum(column) for column in zip(*columns, strict=True)]
        modulus = [mpmath.fsum(map(abs, column)) for column in zip(*columns, strict=True)]
        return signed, modulus

    f, _ = add([s.f for s in done])
    xf, x_modulus = add([s.xf for s in done])
    zf, z_modulus = add([s.zf for s in done])
    prob = 1 - f[0] if problem.near_one else f[0]
    log_prob = mpmath.log1p(-f[0]) if problem.near_one else mpmath.log(f[0])
    index = range(d)
    grad_m = [f[i + 1] / problem.roots[i] / prob for i in index]
    grad_c = [-xf[i + 1] / (2 * mpf(c[i])) / prob for i in index]
    grad_v = [zf[i + 1] / problem.roots[i] / prob for i in index]
    parts = [x_modulus[i + 1] / (2 * mpf(c[i])) / prob for i in index]
    grad_c, lost = _settle(grad_c, parts, digits)
    if all(vi == 0 for vi in v):
        grad_v = [mpf(0)] * d
    else:
        parts = [z_modulus[i + 1] / problem.roots[i] / prob for i in index]
        grad_v, more = _settle(grad_v, parts, digits)
        lost = max(lost, more)
    matrix = None
    if problem.hessian:
        # d2 log P = d2 P / P - dP dP / P^2, where d2 P / dm_i^2 = 2 dP / dc_i.
        matrix = [[2 * grad_c[i] if i == j else mpf(0) for j in index] for i in index]
        for term, value in zip(problem.terms[d + 1 :], f[d + 1 :], strict=True):
            i, j = term
            matrix[i][j] = matrix[j][i] = value / (problem.roots[i] * problem.roots[j]) / prob
        flat = [matrix[i][j] - grad_m[i] * grad_m[j] for i in index for j in index]
        parts = [max(grad_m) ** 2, *(2 * abs(g) for g in grad_c)]
        flat, more = _settle(flat, parts, digits)
        lost = max(lost, more)
        matrix = [flat[d * i : d * (i + 1)] for i in index]
    return Derivatives(log_prob, grad_m, grad_c, grad_v, matrix), lost


def _settle(result: list[mpf], parts: list[mpf], digits: int) -> tuple[list[mpf], int]:
    """The results and the digits by which the largest is smaller than the largest of its parts.

    If these are all digits, then only rounding is left, and the results are taken for zero:
    symmetry makes them so.
    """
    top, size = max(map(abs, result)), max(parts)
    if top <= size * mpf(10) ** -digits:
        return [mpf(0)] * len(result), 0
    return result, max(0, int(mpmath.log10(size / top)))
