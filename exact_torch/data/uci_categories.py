"""Which columns of UCI tables are categories, and indicators in their place.

The 121 files code categories as whole numbers, which costs a linear model much: on car, logistic
regression has 83 % with the files' numbers and 93 % with an indicator for each value.

`DOCUMENTED` follows the attribute lists of the UCI Machine Learning Repository
(https://archive.ics.uci.edu, the ``.names`` file of each set). A column that is called nominal or
categorical there is a category, and so is one with whole numbers and a mark for "not applicable"
(annealing's formability, enamelability and packing). Columns are numbered as the files name them,
from 1 for ``f1``; numbers of values a column were compared with the lists. Notes:

* annealing: the files lack the columns without any value (product-type, m, marvi, corr, jurofm, s,
  p). Numbers are carbon, hardness, strength, thick, width and len.
* balance-scale: weights and distances from 1 to 5, which its list calls numeric.
* car: words such as low, med, high, vhigh.
* cylinder-bands: the files lack the first four columns (time, cylinder, customer, job).
"""

from collections.abc import Sequence

import torch
from torch import Tensor

_ALL_OF = {
    "balloons": 4,
    "breast-cancer": 9,
    "car": 6,
    "chess-krvkp": 36,
    "congressional-voting": 16,
    "lenses": 4,
    "molec-biol-promoter": 57,
    "molec-biol-splice": 60,
    "monks-1": 6,
    "monks-2": 6,
    "monks-3": 6,
    "mushroom": 21,
    "nursery": 8,
    "tic-tac-toe": 9,
    "titanic": 3,
}
_NONE_OF = ("balance-scale", "breast-cancer-wisc-diag", "iris", "wine")

DOCUMENTED: dict[str, tuple[int, ...]] = (
    {
        "adult": (2, 4, 6, 7, 8, 9, 10, 14),
        "annealing": (1, 2, 5, 6, 7, *range(9, 26), 29, 30, 31),
        "cylinder-bands": tuple(range(1, 17)),
    }
    | {name: tuple(range(1, 1 + columns)) for name, columns in _ALL_OF.items()}
    | dict.fromkeys(_NONE_OF, ())
)


def categorical_columns(member: str, categorical: object, features: int) -> tuple[int, ...]:
    """Return the numbers, from 1, of the columns that are categories.

    Parameters
    ----------
    member : the set's name
    categorical : "documented", or the numbers themselves
    features : number of columns of the set's file

    Examples
    --------
    >>> categorical_columns("car", "documented", 6)
    (1, 2, 3, 4, 5, 6)
    >>> categorical_columns("car", [2], 6)
    (2,)
    """
    if categorical == "documented":
        if member not in DOCUMENTED:
            raise ValueError(
                f"categorical columns of {member} are not documented here; give their numbers, "
                f"such as categorical=[1, 3] (documented: {', '.join(sorted(DOCUMENTED))})"
            )
        return DOCUMENTED[member]
    numbers = categorical if isinstance(categorical, Sequence) else [categorical]
    if isinstance(categorical, str) or not all(
        isinstance(each, int) and not isinstance(each, bool) and 1 <= each <= features
        for each in numbers
    ):
        raise ValueError(
            "categorical must be 'documented' or a sequence of column numbers from 1 to "
            f"{features}, got {categorical!r}"
        )
    return tuple(sorted(set(numbers)))


def with_indicators(data: Tensor, columns: Sequence[int], training: Tensor) -> Tensor:
    """Return the table with a 0-1 column for each value of each categorical column.

    Values are those of the training rows; another value has 0 in all indicators of its column.
    Columns that are constant over the training rows are dropped.

    Parameters
    ----------
    data : Tensor (N, F)
    columns : numbers of the categorical columns, from 1
    training : Tensor of int64, the training rows

    Returns
    -------
    Tensor (N, F')

    Examples
    --------
    >>> table = torch.tensor([[1.0, 5.0, 2.0], [2.0, 6.0, 2.0], [3.0, 7.0, 2.0], [9.0, 8.0, 2.0]])
    >>> with_indicators(table, [1, 3], torch.tensor([0, 1, 2]))
    tensor([[1., 0., 0., 5.],
            [0., 1., 0., 6.],
            [0., 0., 1., 7.],
            [0., 0., 0., 8.]])
    """
    parts = []
    for number, column in enumerate(data.unbind(1), 1):
        values = column[training].unique()
        if len(values) < 2:
            continue
        if number in columns:
            parts.append((column[:, None] == values).to(data.dtype))
        else:
            parts.append(column[:, None])
    if not parts:
        raise ValueError("categorical: all columns of the training rows are constant")
    return torch.cat(parts, dim=1)
