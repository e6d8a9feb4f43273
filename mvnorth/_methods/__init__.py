"""The table of methods.

A method is a module (or any object) with two functions:

``preference(problems)``
    Return the place of the method in the order that "auto" tries, the smallest first; infinity if
    "auto" should not take it, None if it cannot solve any of these problems. It is cheap and
    compiles nothing.
``solve(problems, request)``
    Return an ``Estimate``, with the derivatives that the request names. It does not raise for
    data: a row that it cannot solve has an infinite error.

A new method is one file here and one entry in the table.
"""

import importlib
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from heapq import heappop, heappush
from operator import attrgetter
from typing import Any

from mvnorth._estimate import Estimate
from mvnorth._problem import Problems, Request


@dataclass(frozen=True)
class Method:
    """An entry of the table.

    Attributes
    ----------
    name : what users call it
    summary : what it does, for documentation and ``explain``
    needs : what it needs; completes "method='name' needs ..."
    implementation : name of a module, or an object, with ``preference`` and ``solve``
    values, derivatives : whether users may ask for it by name for either
    place : the smallest number that ``preference`` returns; infinity if "auto" never takes it
    structured : the structure of the covariance that it needs, such as "one_factor"; a covariance
        that was given in that form says so by a method ``given_one_factor``
    samples : whether it spends the points of the request
    random : whether these are random, so that another seed gives another result
    whole : whether it takes all coordinates at once rather than independent blocks
    limits_only : whether its derivatives are those in limits and means only
    """

    name: str
    summary: str
    needs: str
    implementation: Any
    values: bool = True
    derivatives: bool = True
    place: float = math.inf
    structured: str = ""
    samples: bool = False
    random: bool = False
    whole: bool = False
    limits_only: bool = False

    def preference(self, problems: Problems) -> float | None:
        """Return the place in the order of "auto", or None if the method does not apply."""
        place: float | None = self._module.preference(problems)
        return place

    def solve(self, problems: Problems, request: Request) -> Estimate:
        """Return estimates of all rows."""
        estimate: Estimate = self._module.solve(problems, request)
        return estimate

    @cached_property
    def _module(self) -> Any:
        if isinstance(self.implementation, str):  # imported, with numba, when first used
            return importlib.import_module(self.implementation)
        return self.implementation


_TABLE = (
    Method(
        "closed_form",
        "closed forms for up to three dependent coordinates",
        "blocks of at most 3 dependent coordinates",
        "mvnorth._methods.closed_form",
        place=0.0,
    ),
    Method(
        "conditional",
        "the density of each coordinate at its limits times the probability of the others given "
        'that: up to 2d problems of d - 1 coordinates, each by "auto" (for a covariance also all '
        "pairs)",
        "limits that can be differentiated",
        "mvnorth._methods.conditional",
        values=False,
        samples=True,
        whole=True,
    ),
    Method(
        "factors",
        "integration over the two to four common factors of diag(c) + V V^T, on a lattice",
        "a covariance diag(c) + V V^T with c > 0 and two to four columns in V",
        "mvnorth._methods.factors",
        place=1.5,
        structured="factors",
        samples=True,
    ),
    Method(
        "gauss",
        "Gauss rules in tilted variables, their products or sparse grids",
        "blocks of at most 50 dependent coordinates and a covariance that is not singular",
        "mvnorth._methods.gauss",
        place=5.0,
        samples=True,
    ),
    Method(
        "genz",
        "Genz's method without the tilt, for comparison",
        "any covariance",
        "mvnorth._methods.genz",
        derivatives=False,
        samples=True,
        random=True,
        whole=True,
    ),
    Method(
        "markov",
        "integration along a Markov chain, link by link",
        "a covariance whose inverse is tridiagonal in some order of the coordinates, and not too "
        "close to a singular one",
        "mvnorth._methods.markov",
        place=3.0,
        structured="chain",
    ),
    Method(
        "pathwise",
        'the exact derivative of the estimate that "genz" gives, with a ``OneFactor`` except in '
        '"cov" and where a coordinate has two limits',
        "any covariance",
        "mvnorth._methods.pathwise",
        values=False,
        samples=True,
        random=True,
        whole=True,
    ),
    Method(
        "pinned",
        'the integral of "conditional" by Genz\'s method without new factors, in limits and means '
        "only",
        "any covariance",
        "mvnorth._methods.pinned",
        values=False,
        samples=True,
        random=True,
        whole=True,
        limits_only=True,
    ),
    Method(
        "polygon",
        "integration over a polygon, for coordinates that depend on two variables",
        "a factor of the covariance with at most two columns",
        "mvnorth._methods.polygon",
        place=-1.0,
    ),
    Method(
        "quadrature",
        "integration over the common factor of diag(c) + v v^T",
        "a covariance diag(c) + v v^T with c > 0, and not too close to a singular one",
        "mvnorth._methods.quadrature",
        place=1.0,
        structured="one_factor",
    ),
    Method(
        "tilting",
        "Genz's method in tilted variables, on randomly shifted lattices",
        "any covariance",
        "mvnorth._methods.tilting",
        place=9.0,
        samples=True,
        random=True,
        whole=True,
    ),
)

METHODS: dict[str, Method] = {method.name: method for method in _TABLE}
_ordered = sorted(_TABLE, key=attrgetter("place"))


def value_methods() -> tuple[str, ...]:
    """Return the names that ``method=`` of a probability takes."""
    return "auto", *(name for name, method in METHODS.items() if method.values)


def derivative_methods() -> tuple[str, ...]:
    """Return the names that ``method=`` of a derivative takes."""
    return "auto", *(name for name, method in METHODS.items() if method.derivatives)


def in_order(problems: Problems) -> Iterator[str]:
    """Yield the methods that "auto" tries on these problems, the preferred one first.

    A method is asked only when those before it have been taken.
    """
    waiting: list[tuple[float, str]] = []
    for method in _ordered:
        while waiting and waiting[0][0] < method.place:
            yield heappop(waiting)[1]
        if method.place == math.inf:
            break
        preference = method.preference(problems)
        if preference is not None and preference < math.inf:
            heappush(waiting, (preference, method.name))
    while waiting:
        yield heappop(waiting)[1]


@contextmanager
def registered(method: Method) -> Iterator[None]:
    """Add a method to the table for a while."""
    if method.name in METHODS:
        raise ValueError(f"there is a method {method.name!r} already")
    METHODS[method.name] = method
    _ordered.append(method)
    _ordered.sort(key=attrgetter("place"))
    try:
        yield
    finally:
        del METHODS[method.name]
        _ordered.remove(method)
