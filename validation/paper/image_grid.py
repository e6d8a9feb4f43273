"""Cells of the image tables, and comparisons of losses over seeds."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from validation.paper.over_seeds import Interval, interval, paired


class Cell(NamedTuple):
    """A loss with an optimiser on a set: the chosen rate, and test accuracies in % by seed."""

    data: str
    optimizer: str
    loss: str
    rate: float
    pilot: Mapping[str, float]
    accuracies: list[float]

    @property
    def where(self) -> tuple[str, str]:
        """The row of the published tables: data set and optimiser."""
        return self.data, self.optimizer


class Grid:
    """All cells that are done, with comparisons over seeds, which the runs of a row share."""

    def __init__(self, cells: Sequence[Cell]) -> None:
        self.cells = list(cells)
        self._of = {(*cell.where, cell.loss): cell.accuracies for cell in cells}

    def rows(self, *losses: str) -> list[tuple[str, str]]:
        """Return data sets and optimisers for which all of these losses are done."""
        found = dict.fromkeys(cell.where for cell in self.cells)
        return [where for where in found if all((*where, loss) in self._of for loss in losses)]

    def difference(self, where: tuple[str, str], loss: str, reference: str) -> Interval:
        """Return the difference in points in one row of the tables."""
        return paired(self._of[(*where, loss)], self._of[(*where, reference)])

    def mean_difference(self, loss: str, reference: str, level: float = 0.95) -> Interval:
        """Return the mean difference over the rows; the interval is over seeds."""
        rows = self.rows(loss, reference)
        by_seed = zip(
            *(
                [
                    a - b
                    for a, b in zip(
                        self._of[(*where, loss)], self._of[(*where, reference)], strict=True
                    )
                ]
                for where in rows
            ),
            strict=True,
        )
        return interval([statistics.fmean(each) for each in by_seed], level)

    def mean(self, loss: str, losses: Sequence[str]) -> float:
        """Return the mean accuracy of a loss over rows that are done for all of ``losses``."""
        rows = self.rows(*losses)
        return statistics.fmean(statistics.fmean(self._of[(*where, loss)]) for where in rows)
