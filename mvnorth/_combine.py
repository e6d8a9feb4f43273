"""Derivatives of a problem from those of its independent blocks."""

from collections.abc import Sequence

import numpy as np

from mvnorth._estimate import Derivatives
from mvnorth._problem import Problems

_LIMITS = {"lower", "upper", "mean"}


def combine_blocks(
    problems: Problems,
    parts: Sequence[tuple[np.ndarray, Derivatives]],
    wrt: tuple[str, ...],
) -> Derivatives:
    """Return derivatives of problems whose blocks, with their derivatives, are ``parts``.

    P is the product of the blocks' probabilities, so that for i and j in different blocks the
    derivative in Sigma_ij, half the second one in the means, is half the product of first ones.
    Coordinates in no block have no limits, or no variance: nothing depends on them.
    """
    size, d = problems.lower.shape
    found = Derivatives.unknown(problems, wrt)
    # Where a constant is at its limit, P has a step.
    constant = problems.covariance.constant()
    below, above = (constant & (limit == 0.0) for limit in (problems.lower, problems.upper))
    steps = {"lower": below, "upper": above}
    for name, error in found.error.items():
        step = steps.get(name, below | above)
        error[:] = np.where(step.reshape(size, d, *(1,) * (error.ndim - 2)), np.inf, 0.0)
        if name == "cov":
            error[:] = np.maximum(error, np.swapaxes(error, 1, 2))
    rows = np.arange(size)
    label = np.full(d, -1)
    for number, (block, derivatives) in enumerate(parts):
        label[block] = number
        for name in wrt:
            value, error = derivatives.value[name], derivatives.error[name]
            others = tuple(map(np.arange, value.shape[2:]))
            if name == "cov":
                others = (block,)
            elif value.shape[2:] != found.value[name].shape[2:]:  # a factor without zero columns
                others = (_columns(problems, block),)
                lost = np.isinf(error).any(axis=2, keepdims=True)  # unknown times zero is unknown
                found.error[name][:, block] = np.where(lost, np.inf, found.error[name][:, block])
            place = np.ix_(rows, block, *others)
            found.value[name][place], found.error[name][place] = value, error
    if len(parts) > 1 and not _LIMITS.issuperset(wrt):
        _add_between(found, problems, label)
    return found


def _columns(problems: Problems, block: np.ndarray) -> np.ndarray:
    """Return the columns of the factor that a block has kept."""
    links = problems.covariance.links()
    assert links is not None
    return np.flatnonzero(links[:, block].any(axis=(0, 1)))


def _add_between(found: Derivatives, problems: Problems, label: np.ndarray) -> None:
    """Add derivatives in the covariances of coordinates of different blocks."""
    g, error = found.value["mean"], found.error["mean"]
    apart = label[:, None] != label
    size = np.abs(g)
    value = 0.5 * g[:, :, None] * g[:, None, :] * apart
    bound = _product(size[:, :, None], error[:, None])
    bound += _product(error[:, :, None], (size + error)[:, None])
    bound = np.where(apart, 0.5 * bound, 0.0)
    between = Derivatives({"cov": value}, {"cov": bound})
    problems.covariance.add_parameters(between, tuple(found.value))
    for name in between.value.keys() & found.value.keys():
        found.value[name] += between.value[name]
        found.error[name] += between.error[name]


def _product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return a * b, where 0 (of a coordinate without limits) times infinity is 0."""
    out = np.zeros(np.broadcast(a, b).shape)
    return np.multiply(a, b, where=(a > 0.0) & (b > 0.0), out=out)
