"""Which method suits which part of a problem.

Coordinates without limits, or without variance, drop out.  What is left falls apart into blocks
of coordinates that are independent of each other.  A block of one or two has a closed form; one
with a single common factor is integrated over that; any other block of three has a closed form; a
Markov chain is integrated link by link; and what is then left, or too close to singular, is
integrated by Genz's method in tilted variables.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from mvnorth._linalg.blocks import connected_blocks
from mvnorth._problem import OneFactorProblems, Problems

METHODS = ("auto", "closed_form", "genz", "markov", "quadrature", "tilting")
# "pathwise" and "pinned" are "genz" with derivatives.
SAMPLING = ("genz", "pathwise", "pinned", "tilting")
CLOSED_FORM_MAX = 3


def may_be_sampled(d: int, method: str) -> bool:
    """Whether random points may be spent on a block of d coordinates from the start."""
    return method in SAMPLING or (method == "auto" and d > CLOSED_FORM_MAX)


def attempts(d: int, method: str, factored: bool) -> tuple[str, ...]:
    """Methods for a block of d coordinates: the next for what the one before left open.

    ``factored`` says that the covariance is given as diag(c) + v v^T.
    """
    if method == "closed_form" and d > CLOSED_FORM_MAX:
        raise ValueError(
            f"method='closed_form' takes blocks of at most {CLOSED_FORM_MAX} dependent "
            f"coordinates, got {d}; use method='auto' or 'tilting'"
        )
    if method != "auto":
        return (method,)
    if d > CLOSED_FORM_MAX:
        return ("quadrature", "tilting") if factored else ("quadrature", "markov", "tilting")
    if factored or d == CLOSED_FORM_MAX:
        return ("quadrature", "closed_form", "tilting")
    return ("closed_form", "quadrature", "tilting")


@dataclass(frozen=True)
class Piece:
    """Rows of a batch that fall apart in the same way: ``blocks`` of coordinates.

    ``same_zeros`` says that all rows have the zeros of A in the same places.
    """

    rows: np.ndarray
    blocks: tuple[np.ndarray, ...]
    same_zeros: bool


def impossible(problems: Problems | OneFactorProblems) -> np.ndarray:
    """Rows whose probability is exactly 0: an empty interval, or a constant outside its limits."""
    empty = problems.lower == problems.upper  # includes both limits at the same infinity
    if isinstance(problems, OneFactorProblems):
        return np.asarray(empty.any(axis=1))
    constant = ~problems.factor.any(axis=2)
    outside = (problems.lower > 0) | (problems.upper < 0)
    return np.asarray(np.where(constant, outside, empty).any(axis=1))


def pieces(problems: Problems, split: bool) -> Iterator[Piece]:
    """Cut a batch into pieces; without ``split`` each piece is one block."""
    limited = np.isfinite(problems.lower) | np.isfinite(problems.upper)
    active = limited & problems.factor.any(axis=2)
    connected = (problems.factor != 0) if split else None
    if active.all() and (connected is None or _all_below_diagonal(connected)):
        yield Piece(np.arange(problems.size), (np.arange(problems.d),), False)
        return
    patterns = active if connected is None else _joint_pattern(active, connected)
    _, inverse = np.unique(patterns, axis=0, return_inverse=True)
    order = np.argsort(inverse.reshape(-1), kind="stable")
    groups = np.split(order, np.cumsum(np.bincount(inverse.reshape(-1)))[:-1])
    for rows in groups:
        row = rows[0]
        coordinates = np.flatnonzero(active[row])
        if connected is None or coordinates.size == 0:
            blocks = (coordinates,) if coordinates.size else ()
        else:
            links = connected[row if len(connected) > 1 else 0][coordinates]
            blocks = tuple(coordinates[block] for block in connected_blocks(links))
        yield Piece(rows, blocks, connected is not None)


def _all_below_diagonal(connected: np.ndarray) -> bool:
    """Every coordinate shares a column with the one before: one block, seen without a search."""
    return bool(np.diagonal(connected, offset=-1, axis1=1, axis2=2).all()) and bool(
        np.diagonal(connected, axis1=1, axis2=2).all()
    )


def _joint_pattern(active: np.ndarray, connected: np.ndarray) -> np.ndarray:
    """(B, k) bytes that are equal where rows have the same active coordinates and zeros of A."""
    if len(connected) == 1:
        return active
    zeros = np.packbits(connected.reshape(len(connected), -1), axis=1)
    return np.concatenate([np.packbits(active, axis=1), zeros], axis=1)
