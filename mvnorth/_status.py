"""The status of a result, and what results on the CPU and on a GPU compute alike."""

from enum import IntEnum
from typing import Any


class Status(IntEnum):
    """The outcome of the computation of a probability.

    Examples
    --------
    >>> import mvnorth
    >>> mvnorth.box(-1.0, 1.0, [0.0, 0.0], [[1.0, 0.5], [0.5, 1.0]]).status.name
    'CONVERGED'
    """

    CONVERGED = 0
    """The error is within the tolerance."""
    FIXED = 1
    """A number of points was given and no tolerance; the error is what they reached."""
    LIMIT = 2
    """The error is still above the tolerance; the error that is reported holds."""


def derivative_of_probability(value: Any, error: Any, p: Any, rel: Any) -> tuple[Any, Any]:
    """Return the derivative of a probability p, known to rel, and its error, from log p's."""
    return p * value, p * (error * (1.0 + rel) + rel * abs(value))
