"""A data frame that is not pandas': columns by name, and what numpy asks for."""

import numpy as np


class Frame:
    """Columns of numbers by name."""

    def __init__(self, **columns):
        self._columns = {name: np.asarray(column) for name, column in columns.items()}

    @property
    def columns(self):
        return list(self._columns)

    def __getitem__(self, name):
        if isinstance(name, list):
            return Frame(**{each: self._columns[each] for each in name})
        return self._columns[name]
