"""Genz's method in tilted variables: what "auto" takes where nothing exact applies."""

from mvnorth._estimate import Estimate
from mvnorth._problem import Problems, Request


def preference(problems: Problems) -> float:
    """Return the place among the methods of "auto": the last."""
    return 9.0


def solve(problems: Problems, request: Request) -> Estimate:
    """Return estimates, and derivatives of the tilted estimate with the tilt held."""
    from mvnorth._methods import genz, pathwise  # and numba

    if request.wrt:
        return pathwise.differentiate(problems, request, tilted=True)
    return genz.integrate(problems, request, tilted=True)
