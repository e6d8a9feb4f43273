"""Slopes of a problem from those of its independent blocks."""

from collections.abc import Sequence

import numpy as np

from mvnorth._problem import Problems, Slopes, in_covariance

_LIMITS = ("lower", "upper", "mean")


def combine(
    problems: Problems, parts: Sequence[tuple[np.ndarray, Slopes]], wanted: tuple[str, ...]
) -> Slopes:
    """Slopes of problems whose blocks of coordinates, with their slopes, are ``parts``.

    P is the product of the blocks' probabilities, so that for i and j in different blocks the
    derivative in Sigma_ij, half the second one in the means, is half the product of first ones.
    Coordinates in no block have no limits, or no variance: nothing depends on them.
    """
    (size, d), width = problems.lower.shape, problems.factor.shape[2]
    found = Slopes.unknown(problems, wanted)
    # Where a constant is at its limit, P has a step.
    constant = ~problems.factor.any(axis=2)
    below, above = (constant & (limit == 0.0) for limit in (problems.lower, problems.upper))
    steps = {"lower": below, "upper": above}
    for name, error in found.error.items():
        step = steps.get(name, below | above)
        error[:] = np.where(step if name in _LIMITS else step[:, :, None], np.inf, 0.0)
        if name == "cov":
            error[:] = np.maximum(error, np.swapaxes(error, 1, 2))
    rows = np.arange(size)
    label = np.full(d, -1)
    for number, (block, slopes) in enumerate(parts):
        label[block] = number
        for name in wanted:
            columns = np.arange(width)
            if name == "factor" and slopes.value[name].shape[2] < width:
                columns = np.flatnonzero(problems.factor[:, block].any(axis=(0, 1)))
            others = {"cov": (block,), "factor": (columns,)}.get(name, ())
            place = np.ix_(rows, block, *others)
            if name == "factor":  # an unknown slope in the covariance times zero is unknown
                lost = np.isinf(slopes.error[name]).any(axis=2, keepdims=True)
                found.error[name][:, block] = np.where(lost, np.inf, found.error[name][:, block])
            found.value[name][place] = slopes.value[name]
            found.error[name][place] = slopes.error[name]
    if len(parts) > 1 and in_covariance(wanted):
        _add_between(found, problems, label)
    return found


def _add_between(found: Slopes, problems: Problems, label: np.ndarray) -> None:
    """Derivatives in the covariances of coordinates of different blocks."""
    g, error = found.value["mean"], found.error["mean"]
    apart = label[:, None] != label
    size = np.abs(g)
    value = 0.5 * g[:, :, None] * g[:, None, :] * apart
    bound = _product(size[:, :, None], error[:, None])
    bound += _product(error[:, :, None], (size + error)[:, None])
    bound = np.where(apart, 0.5 * bound, 0.0)
    between = Slopes({"cov": value}, {"cov": bound})
    between.add_parts(problems, tuple(found.value))
    for name in found.value.keys() & {"cov", "factor"}:
        found.value[name] += between.value[name]
        found.error[name] += between.error[name]


def _product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a * b, where nothing (of a coordinate without limits) times infinity is nothing."""
    out = np.zeros(np.broadcast(a, b).shape)
    return np.multiply(a, b, where=(a > 0.0) & (b > 0.0), out=out)
