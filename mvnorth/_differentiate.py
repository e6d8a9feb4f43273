"""Estimates with derivatives in what a user asks for: each method's slopes, and the chain rule."""

from dataclasses import replace

import numpy as np

from mvnorth._derivatives.blocks import times
from mvnorth._problem import AnyProblems, Budget, Estimate, OneFactorProblems, Slopes
from mvnorth._run import add_rounding, run, settled

METHODS = (
    "auto", "closed_form", "conditional", "markov", "pathwise", "pinned", "quadrature", "tilting",
)  # fmt: skip
# What the chain rule makes them from.
_SOURCES = {"L": "factor", "c": "cov", "v": "cov"}


def differentiate(
    problems: AnyProblems,
    budget: Budget,
    method: str,
    seed: int,
    wanted: tuple[str, ...],
) -> tuple[Estimate, np.ndarray]:
    """Estimates with slopes in what is ``wanted``, and the names of the methods of each row.

    ``wanted`` are some of "lower", "upper", "mean", "cov"; "L", which is A for problems whose A is
    lower triangular; and "c" and "v" of problems with one factor.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        estimate, names = _differentiate(problems, budget, method, seed, wanted)
    assert estimate.slopes is not None
    for name, value in estimate.slopes.value.items():
        error = estimate.slopes.error[name]
        lost = ~np.isfinite(value)  # numbers too large
        error[lost | np.isnan(error)], value[lost] = np.inf, 0.0
    return estimate, names


def _differentiate(
    problems: AnyProblems, budget: Budget, method: str, seed: int, wanted: tuple[str, ...]
) -> tuple[Estimate, np.ndarray]:
    own: tuple[str, ...] = ()
    if (
        isinstance(problems, OneFactorProblems)
        and (problems.lower == -np.inf).all()
        and (problems.upper > -np.inf).all()
        and method in ("auto", "quadrature", "pathwise")
    ):
        own = tuple(name for name in wanted if name in ("upper", "c", "v"))
    rest = tuple(name for name in wanted if name not in own)
    if not own:
        return _by_matrix(problems, budget, method, seed, rest)
    assert isinstance(problems, OneFactorProblems)
    estimate, names = _by_parameters(problems, budget, method, seed, own)
    if rest:
        others = _by_matrix(problems, budget, method, seed, rest)[0].slopes
        assert estimate.slopes is not None
        assert others is not None
        found = others.only(rest)
        estimate.slopes.value.update(found.value)
        estimate.slopes.error.update(found.error)
    return estimate, names


def _by_matrix(
    problems: AnyProblems,
    budget: Budget,
    method: str,
    seed: int,
    wanted: tuple[str, ...],
) -> tuple[Estimate, np.ndarray]:
    """Slopes in the covariance as a whole, and from them in what it is made of."""
    needed = tuple(dict.fromkeys(_SOURCES.get(name, name) for name in wanted))
    if method == "conditional":
        estimate, names = _conditionally(problems, budget, seed, needed)
    else:
        way = "genz" if method == "pathwise" else method
        estimate, names = run(problems, budget, way, seed, needed)
    assert estimate.slopes is not None
    _apply_chain_rule(problems, estimate.slopes)
    return estimate, np.where(names == "genz", method, names)


def _by_parameters(
    problems: OneFactorProblems, budget: Budget, method: str, seed: int, wanted: tuple[str, ...]
) -> tuple[Estimate, np.ndarray]:
    """Slopes in c and v themselves, without a matrix; in single precision where given so."""
    from mvnorth._derivatives import structured_pathwise
    from mvnorth._methods import quadrature

    own = tuple("m" if name == "upper" else name for name in wanted)
    names = np.full(problems.size, "quadrature" if method == "auto" else method, dtype="<U24")
    if method == "pathwise" and problems.size:
        estimate = structured_pathwise.solve(problems.double(), budget, seed, own)
    else:
        estimate = quadrature.derivatives(problems, own)
    add_rounding(problems, estimate)
    rows = np.flatnonzero(~settled(problems, estimate, budget.tolerance))
    if method == "auto" and rows.size:  # what is not resolved is sampled, as the value is
        value, labels = run(problems.take(rows), budget, method, seed)
        better = (value.rel_error < estimate.rel_error[rows]) & (labels != "quadrature")
        rows, value, labels = rows[better], value.take(better), labels[better]
    if method == "auto" and rows.size:
        part = structured_pathwise.solve(problems.take(rows).double(), budget, seed, own)
        estimate.replace(rows, replace(value, slopes=part.slopes), np.arange(rows.size))
        names[rows] = labels
    slopes = estimate.slopes
    assert slopes is not None
    for of in (slopes.value, slopes.error):
        if "m" in of:
            of["upper"] = of.pop("m")
    return estimate, names


def _conditionally(
    problems: AnyProblems, budget: Budget, seed: int, wanted: tuple[str, ...]
) -> tuple[Estimate, np.ndarray]:
    from mvnorth._derivatives import conditional

    def solve(given: AnyProblems) -> Estimate:
        return run(given, budget, "auto", seed)[0]

    estimate = solve(problems)
    rows = np.flatnonzero(estimate.log_prob > -np.inf)
    slopes = Slopes.unknown(problems, wanted)
    if rows.size:
        found = conditional.slopes(problems.take(rows), wanted, estimate.take(rows), solve)
        slopes.replace(rows, found, slice(None))
    return replace(estimate, slopes=slopes), np.full(problems.size, "conditional")


def _apply_chain_rule(problems: AnyProblems, slopes: Slopes) -> None:
    """Slopes in L, or in c and v, and all in the units in which the problems were given."""
    if isinstance(problems, OneFactorProblems):
        if "cov" in slopes.value:  # diag(c) + v v^T
            v = np.broadcast_to(problems.v, problems.upper.shape)[:, :, None]
            value, error = slopes.value["cov"], slopes.error["cov"]
            slopes.value["c"], slopes.error["c"] = (
                np.diagonal(a, axis1=1, axis2=2).copy() for a in (value, error)
            )
            slopes.value["v"], slopes.error["v"] = (
                a[:, :, 0] for a in times(value, error, 2.0 * v)
            )
        return
    scale = 1.0 / problems.scale  # powers of two
    for of in (slopes.value, slopes.error):
        for name in tuple(of):
            if name == "cov":
                of[name] = of[name] * scale[:, :, None] * scale[:, None, :]
            elif name == "factor":
                of["L"] = np.tril(of[name] * scale[:, :, None])
            else:
                of[name] = of[name] * scale
