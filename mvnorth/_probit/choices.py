"""Read choices, and covariates of the alternatives."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from mvnorth._arguments import real_array
from mvnorth._probit.tables import columns_by_name


def read_choices(y: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the labels in sorted order, and the number of each choice, (n,)."""
    values = np.asarray(y)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1 or values.size == 0:
        raise ValueError(f"y must have shape (n,), the label of each choice, got {values.shape}")
    if values.dtype.kind == "f" and np.isnan(values).any():
        count = int(np.isnan(values).sum())
        raise ValueError(f"y must not have NaN (found {count}): leave these rows out")
    try:
        labels, index = np.unique(values, return_inverse=True)
    except TypeError:
        raise TypeError(
            "y must have labels of one type, all numbers or all strings, and none missing"
        ) from None
    if labels.size < 2:
        raise ValueError(f"y must have at least two alternatives, all of it is {labels[0]!r}")
    if values.dtype.kind == "f" and labels.size > max(20, values.size // 2):
        raise ValueError(
            f"y must have the label of each choice, got {labels.size} different numbers"
        )
    return labels, index.reshape(-1)


def read_alternatives(
    Z: Any, n: int | None, labels: Sequence[Any]
) -> tuple[np.ndarray | None, list[str]]:
    """Return covariates of alternatives (n, J, k) and their names.

    Columns of data frames in a dict are those of the alternatives, by name.
    """
    if Z is None:
        return None, []
    J = len(labels)
    if isinstance(Z, dict):
        parts = [
            real_array(
                f"Z[{name!r}]",
                columns_by_name(f"Z[{name!r}]", part, [str(label) for label in labels]),
                infinite=False,
            )
            for name, part in Z.items()
        ]
        for name, part in zip(Z, parts, strict=True):
            if part.ndim != 2 or part.shape[1] != J or part.shape[0] != (n or len(parts[0])):
                raise ValueError(
                    f"Z[{name!r}] must have shape ({n or 'n'}, {J}), one column for each "
                    f"alternative in sorted order, got {part.shape}"
                )
        if not parts:
            return None, []
        return np.stack(parts, axis=2), [str(name) for name in Z]
    values = real_array("Z", Z, infinite=False)
    if values.ndim != 3 or values.shape[1] != J or values.shape[0] != (n or len(values)):
        raise ValueError(
            f"Z must have shape ({n or 'n'}, {J}, k): observations, alternatives in sorted order, "
            f"covariates; got {values.shape}"
        )
    return values, [f"z{k + 1}" for k in range(values.shape[2])]
