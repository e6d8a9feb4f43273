"""Show the plan of a computation without running it: ``explain`` and ``explain_box``."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from mvnorth import _arguments, _checks
from mvnorth._methods import METHODS, value_methods
from mvnorth._plan import make_plan
from mvnorth._problem import Problems
from mvnorth.covariance import Covariance


@dataclass(frozen=True)
class Step:
    """A block of coordinates, and the methods for it.

    Attributes
    ----------
    rows : tuple of int
        Rows of the flattened batch.
    coordinates : tuple of int
        Coordinates that are independent of all others.
    methods : tuple of str
        Methods in the order in which they are tried: the next one for rows in which the one before
        does not meet the tolerance.
    reason : str
        What the first of them does.

    Examples
    --------
    >>> import mvnorth
    >>> step = mvnorth.explain_box(-1.0, 1.0, 0.0, [[1.0, 0.5], [0.5, 1.0]]).steps[0]
    >>> step.coordinates, step.methods
    ((0, 1), ('closed_form', 'quadrature', 'tilting'))
    """

    rows: tuple[int, ...]
    coordinates: tuple[int, ...]
    methods: tuple[str, ...]
    reason: str


@dataclass(frozen=True)
class Explanation:
    """The plan of a computation; printing it shows the plan in words.

    Attributes
    ----------
    d : int
        Number of coordinates.
    size : int
        Number of problems.
    impossible : tuple of int
        Rows of the flattened batch whose probability is exactly 0.
    certain : tuple of int
        Rows whose probability is exactly 1, since nothing that varies has a limit.
    steps : tuple of Step
        What is computed for the others. The probability of a row is the product over its steps.

    Examples
    --------
    >>> import numpy as np
    >>> import mvnorth
    >>> mvnorth.explain(np.zeros(3), np.eye(3)).steps[0].methods[0]
    'closed_form'
    """

    d: int
    size: int
    impossible: tuple[int, ...]
    certain: tuple[int, ...]
    steps: tuple[Step, ...]

    def __repr__(self) -> str:
        problems = "1 problem" if self.size == 1 else f"{self.size} problems"
        lines = [f"{problems} of {self.d} coordinate{'s' * (self.d > 1)}"]
        if self.impossible:
            lines.append(f"  {_listed('row', self.impossible)}: the probability is 0")
        if self.certain:
            lines.append(f"  {_listed('row', self.certain)}: the probability is 1")
        for step in self.steps:
            where = _listed("coordinate", step.coordinates)
            if self.size > 1:
                where = f"{_listed('row', step.rows)}, {where}"
            lines.append(f"  {where}: {step.methods[0]} ({step.reason})")
            if len(step.methods) > 1:
                lines.append(f"    if that is not accurate enough: {', '.join(step.methods[1:])}")
        return "\n".join(lines)


def _listed(word: str, numbers: tuple[int, ...]) -> str:
    """Return numbers in words, consecutive ones as a range."""
    first, last = numbers[0], numbers[-1]
    if len(numbers) == 1:
        return f"{word} {first}"
    if len(numbers) == last - first + 1:
        return f"{word}s {first} to {last}"
    shown = ", ".join(map(str, numbers[:8])) + (", ..." if len(numbers) > 8 else "")
    return f"{word}s {shown}"


def explain(m: ArrayLike, L: ArrayLike | Covariance, *, method: str = "auto") -> Explanation:
    """Return how ``orthant`` would compute a probability, without computing it.

    Parameters
    ----------
    m : array_like (..., d)
        Means.
    L : array_like (d, d) or (..., d, d), or Factors
        Lower triangular factor of the covariance, or diag(c) + V V^T.
    method : str
        As in ``orthant``.

    Returns
    -------
    Explanation

    Examples
    --------
    >>> import numpy as np
    >>> import mvnorth
    >>> lag = np.abs(np.subtract.outer(np.arange(5), np.arange(5)))
    >>> mvnorth.explain(np.zeros(5), np.linalg.cholesky(0.5**lag))
    1 problem of 5 coordinates
      coordinates 0 to 4: markov (integration along a Markov chain, link by link)
        if that is not accurate enough: gauss, tilting
    """
    return _explain(_checks.orthant_problems(m, L)[0], method)


def explain_box(
    lower: ArrayLike,
    upper: ArrayLike,
    mean: ArrayLike,
    cov: ArrayLike | Covariance,
    *,
    method: str = "auto",
) -> Explanation:
    """Return how ``box`` would compute a probability, without computing it.

    Parameters
    ----------
    lower, upper, mean, cov, method
        As in ``box``.

    Returns
    -------
    Explanation

    Examples
    --------
    >>> import mvnorth
    >>> mvnorth.explain_box(-1.0, 1.0, 0.0, [[1.0, 0.0, 0.0], [0.0, 1.0, 0.5], [0.0, 0.5, 1.0]])
    1 problem of 3 coordinates
      coordinate 0: closed_form (closed forms for up to three dependent coordinates)
        if that is not accurate enough: quadrature, tilting
      coordinates 1 to 2: closed_form (closed forms for up to three dependent coordinates)
        if that is not accurate enough: quadrature, tilting
    """
    return _explain(_checks.box_problems(lower, upper, mean, cov)[0], method)


def _note(problems: Problems, names: tuple[str, ...]) -> str:
    """Return why common factors that were given are not integrated over, if they are not."""
    form = problems.covariance.given_factors()
    if form is None or not METHODS[names[0]].samples or "factors" in names:
        return ""
    return f"; its {form.V.shape[2]} common factors are not used, only up to four are"


def _explain(problems: Problems, method: str) -> Explanation:
    plan = make_plan(problems, _arguments.method_name(method, value_methods))
    every_row, every_coordinate = np.arange(problems.size), np.arange(problems.d)
    steps = []
    for piece in plan.pieces:
        rows = every_row if piece.rows is None else piece.rows
        for block in piece.blocks:
            names = tuple(block.methods())
            chosen = every_coordinate if block.coordinates is None else block.coordinates
            summary = METHODS[names[0]].summary + _note(block.problems, names)
            steps.append(Step(tuple(rows.tolist()), tuple(chosen.tolist()), names, summary))
    never = [] if plan.impossible is None else np.flatnonzero(plan.impossible).tolist()
    certain = set(every_row.tolist()).difference(never, *(step.rows for step in steps))
    return Explanation(
        problems.d, problems.size, tuple(never), tuple(sorted(certain)), tuple(steps)
    )
