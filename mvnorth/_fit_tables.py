"""Tables from outside, brought into the shapes that mvnorth's functions take."""

import numpy as np

from mvnorth._read_numbers import InputError, Table


def box_arguments(
    mean: Table, cov: Table, lower: Table | None, upper: Table | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return lower, upper, mean and cov of ``mvnorth.box``; without limits the orthant X >= 0.

    A vector may stand in a row or in a column; several rows are a batch.
    """
    matrix = _covariance(cov)
    d = matrix.shape[-1]
    low = np.array(0.0 if upper is None else -np.inf) if lower is None else _vectors(lower, d, cov)
    high = np.array(np.inf) if upper is None else _vectors(upper, d, cov)
    centre = _vectors(mean, d, cov)
    batches = {cov.name: len(matrix)} if matrix.ndim == 3 else {}
    for table, array in ((mean, centre), (lower, low), (upper, high)):
        if table is not None and array.ndim == 2:
            batches[table.name] = len(array)
    if len(set(batches.values())) > 1:
        counts = ", ".join(f"{name} has {rows}" for name, rows in batches.items())
        raise InputError(f"the numbers of rows differ: {counts}; give one row, or equally many")
    _check_order(low, high, lower, upper, d)
    return low, high, centre, matrix


def quantile_arguments(
    p: Table, mean: Table, cov: Table
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return p, mean and cov of ``mvnorth.quantile``; p may be a row or a column."""
    _, _, centre, matrix = box_arguments(mean, cov, None, None)
    probabilities = p.values.reshape(-1)
    counts = {p.name: probabilities.size}
    counts |= {mean.name: len(centre)} if centre.ndim == 2 else {}
    counts |= {cov.name: len(matrix)} if matrix.ndim == 3 else {}
    several = {name: count for name, count in counts.items() if count > 1}
    if len(set(several.values())) > 1:
        text = ", ".join(f"{name} has {count}" for name, count in several.items())
        raise InputError(f"the numbers of problems differ: {text}; give one, or equally many")
    return (probabilities if probabilities.size > 1 else probabilities[0]), centre, matrix


def score_arguments(scores: Table, sigma: Table) -> tuple[np.ndarray, np.ndarray]:
    """Return mu and sigma of ``mvnorth.prob_argmax``; a single column is one row of scores."""
    mu, deviations = scores.values, sigma.values
    for table in (scores, sigma):
        if table.values.ndim > 2:
            raise InputError(f"{table.name} must be a table, it has {table.size}")
    if mu.ndim == 2 and 1 in mu.shape:
        mu = mu.reshape(-1)
    if deviations.size == 1:
        deviations = deviations.reshape(())
    elif deviations.ndim == 2 and (mu.ndim == 1 or len(deviations) == 1) and 1 in deviations.shape:
        deviations = deviations.reshape(-1)
    rows, classes = np.atleast_2d(mu).shape
    fits = {(), (classes,), (rows, 1), (rows, classes)} if mu.ndim == 2 else {(), (classes,)}
    if deviations.shape not in fits:
        a_row = f", {rows} in a column" if mu.ndim == 2 else ""
        raise InputError(
            f"{sigma.name} has {sigma.size}; to go with {scores.name} it must be one number, "
            f"{classes} in a row{a_row}, or a table of the same size"
        )
    return mu, deviations


def _covariance(table: Table) -> np.ndarray:
    shape = table.values.shape
    if len(shape) not in (2, 3) or shape[-1] != shape[-2]:
        raise InputError(f"{table.name} must be a square matrix, it has {table.size}")
    return table.values[0] if len(shape) == 3 and shape[0] == 1 else table.values


def _vectors(table: Table, d: int, cov: Table) -> np.ndarray:
    """Return a number (), a vector (d,) or a batch (B, d)."""
    values = table.values
    if values.size == 1:
        return values.reshape(())
    if values.ndim <= 2:
        values = np.atleast_2d(values)
        if (values.shape == (d, 1) and d > 1) or (d == 1 and len(values) == 1):
            values = values.T
    if values.ndim > 2 or values.shape[1] != d:
        raise InputError(
            f"{table.name} has {table.size}; to go with {cov.name} it must be one number, or {d} "
            "in each row"
        )
    return values[0] if len(values) == 1 else values


def _check_order(
    low: np.ndarray, high: np.ndarray, lower: Table | None, upper: Table | None, d: int
) -> None:
    pairs = np.broadcast_arrays(np.atleast_2d(low), np.atleast_2d(high), np.empty((1, d)))
    wrong = np.argwhere(pairs[0] > pairs[1])
    if len(wrong):
        row, column = wrong[0]
        names = " and ".join(table.name for table in (lower, upper) if table is not None)
        raise InputError(
            f"{names}, row {row + 1}, column {column + 1}: the lower limit "
            f"{pairs[0][row, column]:g} is above the upper limit {pairs[1][row, column]:g}"
        )
