"""The integrands of one-factor orthants and of their derivatives in m, in mpmath.

With a_i = m_i / sqrt(c_i), b_i = v_i / sqrt(c_i) and x_i = a_i + b_i z they are
phi(z) prod Phi(x_i), with phi in place of Phi for the coordinates of the derivative.
"""

from __future__ import annotations

from itertools import combinations
from typing import NamedTuple

import mpmath
from mpmath import mpf

from validation.oracles.exact import Vector


class Point(NamedTuple):
    """What is known at one z.

    Attributes
    ----------
    x, lower, upper, ratio : list of d mpf
        x_i, Phi(x_i), Phi(-x_i) and phi(x_i) / Phi(x_i).
    integrand, missing : mpf
        phi(z) times the product of all Phi(x_i), and times what it lacks to 1; the latter is
        computed where P is close to 1 only, and is 0 elsewhere.
    """

    z: mpf
    x: list[mpf]
    lower: list[mpf]
    upper: list[mpf]
    ratio: list[mpf]
    integrand: mpf
    missing: mpf


class Problem:
    """The integrands, one for every term: () the probability, (i,) and (i, j) its derivatives."""

    def __init__(self, m: Vector, c: Vector, v: Vector, counts: list[int], hessian: bool) -> None:
        roots = [mpmath.sqrt(mpf(ci)) for ci in c]
        self.roots = roots
        self.a = [mpf(mi) / s for mi, s in zip(m, roots, strict=True)]
        self.b = [mpf(vi) / s for vi, s in zip(v, roots, strict=True)]
        self.counts = counts
        self.d = len(roots)
        self.hessian = hessian
        self.terms: list[tuple[int, ...]] = [(), *((i,) for i in range(self.d))]
        if hessian:
            self.terms += combinations(range(self.d), 2)
        bound = mpf(0)  # of 1 - P
        for a, b, n in zip(self.a, self.b, counts, strict=True):
            bound += n * mpmath.erfc(a / mpmath.sqrt(2 * (1 + b * b))) / 2
        self.near_one = bound < 0.5

    def at(self, z: mpf) -> Point:
        root2, norm = mpmath.sqrt(2), 1 / mpmath.sqrt(2 * mpmath.pi)
        x = [a + b * z for a, b in zip(self.a, self.b, strict=True)]
        lower, upper, ratio = [], [], []
        product, missing = mpf(1), mpf(0)
        for xi, n in zip(x, self.counts, strict=True):
            if xi > 0 and not self.near_one:
                p = (1 + mpmath.erf(xi / root2)) / 2
                q = 1 - p
            else:
                tail = mpmath.erfc(abs(xi) / root2) / 2
                p, q = (1 - tail, tail) if xi > 0 else (tail, 1 - tail)
            lower.append(p)
            upper.append(q)
            ratio.append(mpmath.exp(-xi * xi / 2) * norm / p)
            product *= p**n
            if self.near_one:
                some = q if n == 1 else -mpmath.expm1(n * mpmath.log1p(-q))
                missing += (1 - missing) * some
        density = mpmath.exp(-z * z / 2) * norm
        return Point(z, x, lower, upper, ratio, density * product, density * missing)

    def values(self, point: Point) -> list[mpf]:
        """The integrands of all terms; for (), that of 1 - P where P is close to 1."""
        out = [point.missing if self.near_one else point.integrand]
        for term in self.terms[1:]:
            value = point.integrand
            for i in term:
                value = value * point.ratio[i]
            out.append(value)
        return out

    def logs(self, point: Point) -> list[tuple[int, mpf, mpf]]:
        """(term, log, its derivative in z) of log-concave functions that make up the integrands.

        1 - prod Phi is not log-concave: the Phi(-x_i), which bound it and add up to about as
        much, stand for it.
        """
        z, half = point.z, mpmath.log(2 * mpmath.pi) / 2
        log_lower = [mpmath.log(p) for p in point.lower]
        value = mpmath.fdot(self.counts, log_lower) - z * z / 2
        slope = -z
        for n, b, h in zip(self.counts, self.b, point.ratio, strict=True):
            slope += n * b * h
        log_h = [-x * x / 2 - half - p for x, p in zip(point.x, log_lower, strict=True)]
        turn = [-b * (x + h) for b, x, h in zip(self.b, point.x, point.ratio, strict=True)]
        out = []
        if self.near_one:
            for q, p, b, h in zip(point.upper, point.lower, self.b, point.ratio, strict=True):
                out.append((0, mpmath.log(q) - z * z / 2, -z - b * h * p / q))
        else:
            out.append((0, value, slope))
        for k, term in enumerate(self.terms[1:], 1):
            log = value + mpmath.fsum(log_h[i] for i in term)
            out.append((k, log, slope + mpmath.fsum(turn[i] for i in term)))
        return out
