"""The plan: which rows and blocks of coordinates go to which methods, in which order.

Coordinates without limits, or without variance, drop out.  The others fall apart into blocks that
are independent of each other.  For each block the plan has the methods that apply, the preferred
one first; the next one is for rows that the one before could not solve to the tolerance, and is
asked whether it applies only then.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from mvnorth._linalg.blocks import connected_blocks
from mvnorth._methods import METHODS, in_order
from mvnorth._problem import Problems

_NEVER_SAMPLED = 3  # coordinates for which there are closed forms


@dataclass(eq=False)  # a frozen one takes three times as long to make
class Block:
    """Coordinates that are independent of all others, for some rows.

    Attributes
    ----------
    coordinates : which ones, or None for all
    problems : the marginal problems of these rows and coordinates
    method : the one that was asked for, or "auto"
    """

    coordinates: np.ndarray | None
    problems: Problems
    method: str

    def methods(self) -> Iterator[str]:
        """Yield the methods to try, in this order."""
        return in_order(self.problems) if self.method == "auto" else iter((self.method,))

    @property
    def may_sample(self) -> bool:
        """True if the first method may spend random points on this block."""
        samples = self.method == "auto" or METHODS[self.method].samples
        return samples and self.problems.d > _NEVER_SAMPLED


@dataclass(eq=False)  # a frozen one takes three times as long to make
class Piece:
    """Rows of a batch (None for all) that fall apart in the same way."""

    rows: np.ndarray | None
    blocks: tuple[Block, ...]


@dataclass(eq=False)  # a frozen one takes three times as long to make
class Plan:
    """A computation, decided before anything is computed.

    Attributes
    ----------
    impossible : (B,) rows whose probability is exactly 0, or None if there are none
    pieces : the other rows
    """

    impossible: np.ndarray | None
    pieces: tuple[Piece, ...]

    @property
    def single(self) -> Block | None:
        """The only block, if it has all rows and coordinates; else None."""
        if self.impossible is None and len(self.pieces) == 1:
            piece = self.pieces[0]
            if (
                piece.rows is None
                and len(piece.blocks) == 1
                and piece.blocks[0].coordinates is None
            ):
                return piece.blocks[0]
        return None


def make_plan(problems: Problems, method: str) -> Plan:
    """Plan the computation of ``problems`` by ``method``; raise where it does not apply."""
    if problems.size == 0:
        return Plan(None, ())
    if problems.one_block:
        return Plan(None, (Piece(None, (make_block(None, problems, method),)),))
    never = find_impossible(problems)
    if not never.any():
        return Plan(None, tuple(_pieces(problems, None, method)))
    rest = np.flatnonzero(~never)
    pieces = _pieces(problems.take(rest), rest, method) if rest.size else ()
    return Plan(never, tuple(pieces))


def find_impossible(problems: Problems) -> np.ndarray:
    """Return rows whose probability is exactly 0, (B,).

    These have an empty interval, or a constant outside its limits.
    """
    empty = problems.lower == problems.upper  # includes both limits at the same infinity
    constant = problems.covariance.constant()
    if not constant.any():
        return np.asarray(empty.any(axis=1))
    outside = (problems.lower > 0) | (problems.upper < 0)
    return np.asarray(np.where(constant, outside, empty).any(axis=1))


def make_block(coordinates: np.ndarray | None, problems: Problems, method: str) -> Block:
    """Return a block; raise if a method that was asked for does not apply."""
    if method != "auto" and METHODS[method].preference(problems) is None:
        size = "" if METHODS[method].structured else f"it has {problems.d} coordinates"
        raise NotApplicable(method, size)
    return Block(coordinates, problems, method)


class NotApplicable(ValueError):
    """A method that was asked for by name does not apply."""

    def __init__(self, method: str, reason: str = "") -> None:
        others = " or ".join(f"{name!r}" for name in ("auto", "tilting") if name != method)
        detail = f" ({reason})" if reason else ""
        super().__init__(
            f"method={method!r} needs {METHODS[method].needs}, which this problem does not "
            f"have{detail}; use method={others}"
        )


def _pieces(problems: Problems, rows: np.ndarray | None, method: str) -> Iterator[Piece]:
    """Cut a batch, whose rows are ``rows`` of all, into pieces."""
    whole = method != "auto" and METHODS[method].whole
    links = None if whole else problems.covariance.links()
    limited = np.isfinite(problems.lower) | np.isfinite(problems.upper)
    active = limited & ~problems.covariance.constant()
    if active.all() and (links is None or _linked_in_order(links)):
        yield Piece(rows, (make_block(None, problems, method),))
        return
    if problems.covariance.given_one_factor() is not None:  # these take infinite limits
        yield Piece(rows, (make_block(None, problems, method),))
        return
    for group in group_rows(active, links):
        row = group[0]
        coordinates = np.flatnonzero(active[row])
        if links is None or coordinates.size == 0:
            sets = [coordinates] if coordinates.size else []
        else:
            own = links[row if len(links) > 1 else 0][coordinates]
            sets = [coordinates[block] for block in connected_blocks(own)]
        blocks = []
        for block in sets:
            marginal = problems.take(group, block, links is not None)
            blocks.append(make_block(block, marginal, method))
        yield Piece(group if rows is None else rows[group], tuple(blocks))


def group_rows(active: np.ndarray, links: np.ndarray | None = None) -> Iterator[np.ndarray]:
    """Return sets of rows with the same active coordinates and the same zeros of the factor."""
    patterns = active
    if links is not None and len(links) > 1:
        zeros = np.packbits(links.reshape(len(links), -1), axis=1)
        patterns = np.concatenate([np.packbits(active, axis=1), zeros], axis=1)
    _, inverse = np.unique(patterns, axis=0, return_inverse=True)
    order = np.argsort(inverse.reshape(-1), kind="stable")
    return iter(np.split(order, np.cumsum(np.bincount(inverse.reshape(-1)))[:-1]))


def _linked_in_order(links: np.ndarray) -> bool:
    """Return whether every coordinate shares a variable with the one before: one block."""
    if links.shape[2] < links.shape[1]:
        return False
    return bool(np.diagonal(links, offset=-1, axis1=1, axis2=2).all()) and bool(
        np.diagonal(links, axis1=1, axis2=2).all()
    )
