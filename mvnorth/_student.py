"""Student t: problems of the normal for all nodes of the chi variable, and what they add up to.

Derivatives come from the same nodes, weighted by their shares of the integral: those in limits and
means have a factor r, and that in the degrees of freedom is the mean of the derivative of the
logarithm of the density of r.
"""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from mvnorth._chi_rule import (
    Integral,
    claim_of_means,
    find_mode,
    integrate,
    log_density_in_df,
    row_sums,
)
from mvnorth._cpu.chi_rule import LOG_PROB
from mvnorth._estimate import Derivatives, Estimate
from mvnorth._problem import Problems, Request, Tolerance
from mvnorth._solve import Solver
from mvnorth._solve import solve as solve_normal

_ROUGHLY = Tolerance(1e-3, 0.0)  # of probabilities in the search for the mode
_MARGIN = 0.7  # share of the tolerance that is for the probabilities of the nodes
# With more coordinates than _FEW, which may be sampled, all nodes have a larger tolerance at first;
# those with a share above _MATTERS are computed anew if need be.
_FEW, _FIRST, _MATTERS = 8, 5.0, 0.02
_LEAST = 1e-14  # error that is asked of the rule
_FIXED = 1e-6  # the same if the number of points is given
_COARSEST = 1e-3
_TYPICAL = 24  # nodes
_ROUNDING = 1e-15
_LARGEST = 1e15  # degrees of freedom; with more the normal is accurate enough
_CHUNK = 2**22  # numbers of covariances at a time: 32 MB
_SCALED = ("lower", "upper", "mean")  # derivatives with a factor r


@dataclass(eq=False)
class StudentProblems:
    """Boxes of Student's t: Pr(lower <= (X + delta) / R <= upper).

    Attributes
    ----------
    normal : the boxes of X for R = 1 and delta = 0, in units of the covariance
    df : (B,) degrees of freedom, > 0; infinite for the normal
    shift : (B, d) what is added to the limits after they have been multiplied by r, or None
    sign : by what delta has been multiplied to give ``shift``
    """

    normal: Problems
    df: np.ndarray
    shift: np.ndarray | None = None
    sign: float = -1.0

    def take(self, rows: np.ndarray) -> "StudentProblems":
        """Return some rows."""
        shift = None if self.shift is None else self.shift[rows]
        return StudentProblems(self.normal.take(rows), self.df[rows], shift, self.sign)

    def steepness(self) -> np.ndarray:
        """Return the largest noncentrality of each row in standard deviations, (B,)."""
        if self.shift is None:
            return np.zeros(self.df.size)
        with np.errstate(divide="ignore", invalid="ignore"):
            steep = np.abs(self.shift) / self.normal.covariance.deviations()
        return np.max(np.where(self.shift == 0.0, 0.0, steep), axis=1, initial=0.0)

    def given(self, row: np.ndarray, r: np.ndarray) -> Problems:
        """Return the boxes of the normal given that R is ``r``, (N,) both."""
        normal = self.normal
        factor = r[:, None]
        lower, upper = factor * normal.lower[row], factor * normal.upper[row]
        if self.shift is not None:
            lower, upper = lower + self.shift[row], upper + self.shift[row]
        return Problems(
            lower, upper.astype(normal.upper.dtype, copy=False), normal.covariance.take(row),
            normal.rounding[row], normal.sides, normal.one_block,
        )  # fmt: skip


def solve(
    problems: StudentProblems, request: Request, method: str, solver: Solver
) -> tuple[Estimate, np.ndarray]:
    """Return estimates of a batch, with derivatives, and the names of the methods of each row.

    ``solver`` computes probabilities of the normal, or their complements.  Derivatives may include
    "df" (B, 1) and "delta" (B, d).
    """
    limited = np.isfinite(problems.normal.lower) | np.isfinite(problems.normal.upper)
    normal = (problems.df > _LARGEST) | ~limited.any(axis=1)
    if normal.all():
        return _solve_normal(problems, request, method, solver)
    if not normal.any() and problems.df.size * problems.normal.covariance.memory <= _CHUNK // 32:
        return _integrate(problems, request, method, solver)
    labels = np.full(normal.size, "", dtype=object)
    estimate = _unknown(problems.normal, request.wrt)
    step = max(1, _CHUNK // (32 * problems.normal.covariance.memory))
    for kind, solve_some in ((normal, _solve_normal), (~normal, _integrate)):
        rows = np.flatnonzero(kind)
        for first in range(0, rows.size, step):
            some = rows[first : first + step]
            part, labels[some] = solve_some(problems.take(some), request, method, solver)
            estimate.replace(some, part)
    return estimate, labels.astype(str)


def solve_with(
    solver: Solver, student: StudentProblems, problems: Problems, request: Request, method: str
) -> tuple[Estimate, np.ndarray]:
    """Solve ``student``, whose normal problems are ``problems``."""
    assert problems is student.normal
    return solve(student, request, method, solver)


def _unknown(problems: Problems, wrt: tuple[str, ...]) -> Estimate:
    derivatives = Derivatives.unknown(problems, _normal_names(wrt))
    for name, width in (("df", 1), ("delta", problems.d)):
        derivatives.value[name] = np.zeros((problems.size, width))
        derivatives.error[name] = np.full((problems.size, width), np.inf)
    return replace(Estimate.unknown(problems), derivatives=derivatives.only(wrt) if wrt else None)


def _normal_names(wrt: tuple[str, ...]) -> tuple[str, ...]:
    """Return the derivatives that are needed of the normal."""
    names = ("mean" if name == "delta" else name for name in wrt if name != "df")
    return tuple(dict.fromkeys(names))


def _solve_normal(
    problems: StudentProblems, request: Request, method: str, solver: Solver
) -> tuple[Estimate, np.ndarray]:
    """Return estimates of rows in which nothing depends on the chi variable."""
    size = problems.df.size
    given = problems.given(np.arange(size), np.ones(size)) if size else problems.normal
    estimate, labels = solver(given, replace(request, wrt=_normal_names(request.wrt)), method)
    with np.errstate(invalid="ignore"):
        change = (1.0 + estimate.log_prob**2) / problems.df  # from infinite degrees of freedom
    estimate.rel_error[:] += np.where(np.isfinite(estimate.log_prob), 4.0 * change, 0.0)
    if not request.wrt:
        return estimate, labels
    derivatives = estimate.derivatives or Derivatives({}, {})
    if "df" in request.wrt:
        derivatives.value["df"], derivatives.error["df"] = np.zeros((2, size, 1))
    if "delta" in request.wrt:
        derivatives.value["delta"] = -problems.sign * derivatives.value["mean"]
        derivatives.error["delta"] = derivatives.error["mean"].copy()
    return replace(estimate, derivatives=derivatives.only(request.wrt)), labels


def _integrate(
    problems: StudentProblems, request: Request, method: str, solver: Solver
) -> tuple[Estimate, np.ndarray]:
    """Return estimates with a finite number of degrees of freedom."""
    return _combine(problems, find_integral(problems, request, method, solver)[0], request.wrt)


def find_integral(
    problems: StudentProblems, request: Request, method: str, solver: Solver
) -> tuple[Integral, np.ndarray]:
    """Return the integrals with their nodes, and the state of the rows at their modes."""

    def evaluator(asked: Request) -> partial:
        return partial(_evaluate, problems, asked, method, solver)

    df = problems.df
    rough = replace(request, tolerance=_ROUGHLY, n=None, wrt=())
    steep = problems.steepness()
    state = find_mode(df, steep, evaluator(rough))
    relative, absolute = request.tolerance.relative, request.tolerance.absolute
    goal = np.full(df.shape, max((1.0 - _MARGIN) * relative, _LEAST))
    if absolute > 0.0:
        with np.errstate(over="ignore"):
            of_absolute = (1.0 - _MARGIN) * absolute * np.exp(-state[LOG_PROB])
        goal = np.maximum(goal, np.minimum(of_absolute, _COARSEST))
    n = None
    if request.n is not None:
        goal[:], n = _FIXED, max(1, request.n // _TYPICAL)
    names = _normal_names(request.wrt)

    def within(part: float) -> partial:
        tolerance = Tolerance(part * relative, part * absolute)
        return evaluator(replace(request, tolerance=tolerance, n=n, wrt=names))

    concave = solver is solve_normal
    if request.n is not None or problems.normal.d <= _FEW:
        return integrate(df, state, within(_MARGIN), goal, steep, concave), state
    integral = integrate(df, state, within(_FIRST), goal, steep, concave)
    _refine(integral, within(_MARGIN), relative, absolute)
    return integral, state


def _refine(integral: Integral, evaluate: partial, relative: float, absolute: float) -> None:
    """Compute the probabilities of the nodes that matter anew, in rows whose error is too large."""
    row, share, size = integral.row, integral.share, integral.log_prob.size
    with np.errstate(invalid="ignore"):
        error = np.where(share > 0.0, share * integral.estimate.rel_error, 0.0)
        allowed = np.maximum(relative, absolute * np.exp(-integral.log_prob))
    short = np.bincount(row, error, size) > _MARGIN * allowed
    nodes = np.flatnonzero(short[row] & (share > _MATTERS))
    if not nodes.size:
        return
    before = integral.estimate.log_prob[nodes]
    estimate, integral.labels[nodes] = evaluate(row[nodes], integral.r[nodes])
    integral.estimate.replace(nodes, estimate)
    share[nodes] *= np.exp(estimate.log_prob - before)
    total = np.bincount(row, share, size)
    total[total == 0.0] = 1.0
    share /= total[row]
    integral.log_prob += np.log(total)


def _evaluate(
    problems: StudentProblems, request: Request, method: str, solver: Solver,
    row: np.ndarray, r: np.ndarray,
) -> tuple[Estimate, np.ndarray]:  # fmt: skip
    return solver(problems.given(row, r), request, method)


def _combine(
    problems: StudentProblems, integral: Integral, wrt: tuple[str, ...]
) -> tuple[Estimate, np.ndarray]:
    """Return estimates of all rows from their nodes."""
    row, share, at_nodes = integral.row, integral.share, integral.estimate
    size = problems.df.size
    with np.errstate(invalid="ignore"):
        error = np.where(share > 0.0, share * at_nodes.rel_error, 0.0)
    rel_error = np.bincount(row, error, size) + integral.rel_error
    rel_error += _ROUNDING * (1.0 + np.sqrt(problems.df))
    possible = integral.log_prob > -np.inf
    if not possible.all():
        # A probability of 0 at every node is 0, to the error with which it is known there.
        worst = np.zeros(size)
        np.maximum.at(worst, row, at_nodes.rel_error)
        rel_error = np.where(possible, rel_error, worst)
    n = np.bincount(row, at_nodes.n, size).astype(np.int64)
    derivatives = _derivatives(problems, integral, wrt) if wrt else None
    if derivatives is not None:
        for error in derivatives.error.values():
            error[~possible] = np.inf
    estimate = Estimate.exact(integral.log_prob, rel_error, n, derivatives)
    return estimate, _join_labels(integral, size)


def _derivatives(
    problems: StudentProblems, integral: Integral, wrt: tuple[str, ...]
) -> Derivatives:
    """Return means of the derivatives at the nodes; their errors include that of the rule."""
    of_normal = integral.estimate.derivatives or Derivatives({}, {})
    r = integral.r
    result = Derivatives({}, {})
    for name in wrt:
        if name == "df":
            value = log_density_in_df(r, problems.df[integral.row])[:, None]
            error = _ROUNDING * np.abs(value)
        else:
            source = "mean" if name == "delta" else name
            value, error = of_normal.value[source], of_normal.error[source]
            factor = np.full(r.shape, -problems.sign if name == "delta" else 1.0)
            factor = r if name in _SCALED else factor
            factor = factor.reshape(-1, *(1,) * (value.ndim - 1))
            value, error = factor * value, np.abs(factor) * error
        result.value[name], result.error[name] = _mean(problems.df, integral, value, error)
    return result


def _mean(
    df: np.ndarray, integral: Integral, value: np.ndarray, error: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the means (B, ...) of derivatives at nodes (N, ...), and bounds on their errors."""
    row, size = integral.row, df.size
    share = integral.share[:, None]
    counts = share > 0.0
    with np.errstate(invalid="ignore", over="ignore"):
        flat, bound = (
            np.where(counts, a.reshape(len(a), -1).astype(np.float64), 0.0) for a in (value, error)
        )
        terms = share * flat
        mean = row_sums(row, terms, size)
        rule = claim_of_means(df, integral, terms)
        # The shares have the errors of their probabilities.
        relative = integral.estimate.rel_error[:, None]
        spread = np.where(counts, relative * np.abs(flat - mean[row]), 0.0)
        inherited = row_sums(row, np.where(counts, share * (bound + spread), 0.0), size)
    shape = (size, *value.shape[1:])
    return mean.reshape(shape), (inherited + rule[:, None]).reshape(shape)


def _join_labels(integral: Integral, size: int) -> np.ndarray:
    """Return the names of the methods of all nodes of each row."""
    labels = integral.labels
    if (labels == labels[0]).all():
        return np.full(size, labels[0])
    names: list[set[str]] = [set() for _ in range(size)]
    counted = integral.share > 0.0
    for b, label in zip(integral.row[counted].tolist(), labels[counted].tolist(), strict=True):
        names[b].update(label.split("+"))
    return np.array(["+".join(sorted(of_row)) for of_row in names])
