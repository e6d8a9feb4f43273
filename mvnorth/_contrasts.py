"""Contrasts of group means: estimates and covariances that ``max_t`` takes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from mvnorth import _arguments
from mvnorth._equicoordinate import pairwise
from mvnorth.covariance import OneFactor

KINDS = ("dunnett", "tukey", "sequence")


@dataclass(frozen=True, eq=False)
class Contrasts:
    """Estimates with their covariance, as ``max_t`` takes them.

    Attributes
    ----------
    names : tuple of str
        A name for each contrast, such as "drug - control".
    estimates : ndarray (m,)
        Differences of means, or other linear combinations.
    cov : ndarray (m, m), or OneFactor
        Their covariance; with an estimated variance, the estimated one.
    df : float, optional
        Degrees of freedom of that estimate; None if the variance is known.

    Examples
    --------
    >>> import mvnorth
    >>> contrasts = mvnorth.group_contrasts([5.0, 6.0, 8.0], [10, 10, 20], 4.0, df=37)
    >>> contrasts.names
    ('group 1 - group 0', 'group 2 - group 0')
    >>> contrasts.estimates
    array([1., 3.])
    >>> contrasts.cov
    OneFactor of shape 2: diag(c) + v v^T
    """

    names: tuple[str, ...]
    estimates: np.ndarray
    cov: Any
    df: float | None


def group_contrasts(
    means: ArrayLike,
    counts: ArrayLike,
    variance: ArrayLike,
    df: float | None = None,
    *,
    kind: str | ArrayLike | Mapping[str, ArrayLike] = "dunnett",
    control: int | str = 0,
    names: Sequence[str] | None = None,
) -> Contrasts:
    """Return contrasts of the means of independent groups, for ``max_t``.

    Parameters
    ----------
    means : array_like (k,)
        Means of the groups.
    counts : int or array_like (k,)
        Numbers of observations.
    variance : float or array_like (k,)
        Variance of an observation, of all groups or of each.
    df : float, optional
        Degrees of freedom of the estimate of the variance. Default: the variance is known.
    kind : {"dunnett", "tukey", "sequence"}, array_like (m, k), or dict of names and rows
        Each group against the control, all pairs, each group against the one before, or
        the coefficients of each contrast.
    control : int or str
        Number of the control, from 0 on, or its name. Only for "dunnett".
    names : sequence of str, optional
        Names of the groups. Default: "group 0", "group 1" and so on.

    Returns
    -------
    Contrasts
        Those of "dunnett" have a covariance with one common factor, which is computed exactly.

    Examples
    --------
    >>> import mvnorth
    >>> contrasts = mvnorth.group_contrasts(
    ...     [5.0, 6.0, 8.0], 10, 4.0, df=27, kind="tukey", names=["a", "b", "c"]
    ... )
    >>> contrasts.names, contrasts.estimates
    (('b - a', 'c - a', 'c - b'), array([1., 3., 2.]))
    """
    centres = _arguments.real_array("means", _arguments.vector("means", means), infinite=False)
    if centres.ndim != 1 or centres.size < 2:
        raise ValueError(f"means must have shape (k,) with k >= 2 groups, got {centres.shape}")
    sizes = _of_groups("counts", counts, centres.size)
    variances = _of_groups("variance", variance, centres.size)
    if not (sizes >= 1.0).all():
        raise ValueError(f"counts must be at least 1, the smallest is {sizes.min():g}")
    if not (variances > 0.0).all():
        raise ValueError(f"variance must be > 0, the smallest is {variances.min():g}")
    degrees = None
    if df is not None:
        degrees = float(_arguments.real_array("df", df, infinite=True).reshape(()))
        if not degrees > 0.0:
            raise ValueError(f"df must be > 0, got {degrees:g}")
    groups = _group_names(names, centres.size)
    squared_errors = variances / sizes
    if isinstance(kind, str) and kind == "dunnett":
        base = _control(control, groups)
        others = np.delete(np.arange(centres.size), base)
        labels = tuple(f"{groups[k]} - {groups[base]}" for k in others)
        cov = OneFactor(squared_errors[others], np.sqrt(squared_errors[base]))
        return Contrasts(labels, centres[others] - centres[base], cov, degrees)
    labels, matrix = _coefficients(kind, groups)
    return Contrasts(labels, matrix @ centres, (matrix * squared_errors) @ matrix.T, degrees)


def sample_contrasts(
    samples: Mapping[str, ArrayLike] | Sequence[ArrayLike],
    *,
    kind: str | ArrayLike | Mapping[str, ArrayLike] = "dunnett",
    control: int | str = 0,
    names: Sequence[str] | None = None,
) -> Contrasts:
    """Return contrasts of groups from their observations, with a pooled variance, for ``max_t``.

    Parameters
    ----------
    samples : dict of names and array_like, or sequence of array_like
        The observations of each group.
    kind, control, names
        As in ``group_contrasts``; a dict has the names of the groups.

    Returns
    -------
    Contrasts
        Its degrees of freedom are the number of observations less the number of groups.

    Examples
    --------
    >>> import mvnorth
    >>> samples = {"control": [7.4, 8.5, 7.2], "drug": [9.8, 8.8, 9.4, 9.5]}
    >>> contrasts = mvnorth.sample_contrasts(samples)
    >>> contrasts.names, contrasts.estimates.round(4), contrasts.df
    (('drug - control',), array([1.675]), 5.0)
    """
    if isinstance(samples, Mapping):
        names, values = [str(name) for name in samples], list(samples.values())
    else:
        values = list(samples)
    groups = _group_names(names, len(values))
    arrays = []
    for name, value in zip(groups, values, strict=True):
        array = _arguments.real_array(f"samples of {name!r}", value, infinite=False)
        if array.ndim != 1 or array.size == 0:
            raise ValueError(
                f"samples of {name!r} must be a vector of observations, got {array.shape}"
            )
        arrays.append(array)
    counts = np.array([array.size for array in arrays])
    df = int(counts.sum()) - len(arrays)
    if df < 1:
        raise ValueError("samples must have a group with two observations or more")
    squares = sum(float(np.sum((array - array.mean()) ** 2)) for array in arrays)
    if squares == 0.0:
        raise ValueError("samples must vary within a group: their pooled variance is 0")
    means = [float(array.mean()) for array in arrays]
    return group_contrasts(
        means, counts, squares / df, df, kind=kind, control=control, names=groups
    )


def _of_groups(name: str, value: ArrayLike, groups: int) -> np.ndarray:
    array = _arguments.real_array(name, value, infinite=False)
    if array.shape not in ((), (groups,)):
        raise ValueError(
            f"{name} must be one number, or one for each of {groups} groups, got {array.shape}"
        )
    return np.broadcast_to(array, (groups,))


def _group_names(names: Sequence[str] | None, groups: int) -> list[str]:
    if names is None:
        return [f"group {k}" for k in range(groups)]
    given = [str(name) for name in names]
    if len(given) != groups or len(set(given)) != groups:
        raise ValueError(f"names must be {groups} different ones, one for each group, got {given}")
    return given


def _control(control: int | str, groups: list[str]) -> int:
    if isinstance(control, str):
        if control not in groups:
            raise ValueError(f"control must be one of {', '.join(groups)}, got {control!r}")
        return groups.index(control)
    index = _arguments.whole_number("control", control, at_least=0)
    if index >= len(groups):
        raise ValueError(f"control must be below the number of groups, {len(groups)}, got {index}")
    return index


def _coefficients(kind: Any, groups: list[str]) -> tuple[tuple[str, ...], np.ndarray]:
    """Return names and coefficients (m, k) of contrasts."""
    k = len(groups)
    if isinstance(kind, str):
        if kind not in KINDS:
            raise ValueError(
                f"kind must be one of {', '.join(map(repr, KINDS))}, a matrix, or a dict of names "
                f"and rows, got {kind!r}"
            )
        matrix = pairwise(k) if kind == "tukey" else np.diff(np.eye(k), axis=0)
        ends = zip(matrix.argmax(axis=1), matrix.argmin(axis=1), strict=True)
        return tuple(f"{groups[j]} - {groups[i]}" for j, i in ends), matrix
    named = isinstance(kind, Mapping)
    rows = list(kind.values()) if named else kind
    matrix = _arguments.real_array("kind", rows, infinite=False)
    if matrix.ndim != 2 or matrix.shape[1] != k or not matrix.any(axis=1).all():
        raise ValueError(
            f"kind must have a row of {k} coefficients for each contrast, one for each group and "
            f"not all 0, got the shape {matrix.shape}"
        )
    names = tuple(map(str, kind)) if named else tuple(f"contrast {i}" for i in range(len(matrix)))
    return names, matrix
