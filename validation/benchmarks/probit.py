"""Maximum likelihood for the multivariate probit of docs/probit.md: gradients, differences, scipy.

    python -m validation.benchmarks.probit [--full] [--json FILE]

About five minutes, in one thread. 1000 observations of 5 binary outcomes, 15 coefficients and 10
correlations, fitted from zero:

* "scoring": Newton's method with the outer products of the scores for the information (Berndt,
  Hall, Hall & Hausman 1974), with ``orthant_grad`` by several methods and numbers of points;
* "BFGS": scipy's, with the mean of these scores as the gradient, down to ``GTOL``;
* "differences": the same without gradients, so that scipy differences the objective;
* scipy's ``multivariate_normal.logcdf`` for the values: some observations are timed and scaled up
  to the evaluations that differences took.

An evaluation is a pass over all observations. "off" is the largest difference of the estimates
from those with most points, in standard errors. Seconds are the processor's.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.stats import multivariate_normal

import mvnorth
from validation.benchmarks.timing import arguments, machine, print_table, progress, record
from validation.oracles.one_dimension import FloatArray

PEOPLE, OUTCOMES, COVARIATES = 1000, 5, 3
# (method, points, way); the last of scoring are the estimates that others are compared with.
SETTINGS = (
    ("pathwise", 1024, "scoring"),
    ("auto", 1024, "scoring"),
    ("auto", 16384, "scoring"),
    ("pathwise", 1024, "BFGS"),
    ("auto", 1024, "BFGS"),
    ("auto", 1024, "differences"),
)
JUDGE, OWN = 2, 1  # lines: the truth of "off", and what times are compared with
DECREMENT = 1e-3  # where scoring stops: the squared distance from the maximum in standard errors
GTOL = 3e-4  # of the mean gradient; at 1e-5 line searches fail, see docs/probit.md
TIMED = 20  # observations, for scipy's values


@dataclass
class Probit:
    """Simulated data and their log likelihood.

    Attributes
    ----------
    method, n
        Of ``orthant_grad``.
    x : (people, covariates)
    sign : (people, outcomes)
        +1 where the outcome is 1, else -1.
    truth : (parameters,)
        Coefficients, outcome by outcome, and the free part of the rows of the factor.
    """

    method: str
    n: int
    evaluations: int = 0
    x: FloatArray = field(init=False)
    sign: FloatArray = field(init=False)
    truth: FloatArray = field(init=False)

    def __post_init__(self) -> None:
        rng = np.random.default_rng(1)
        beta = rng.normal(0.0, 0.6, (OUTCOMES, COVARIATES))
        free = rng.normal(0.0, 0.6, OUTCOMES * (OUTCOMES - 1) // 2)
        self.truth = np.concatenate([beta.ravel(), free])
        self.x = np.column_stack([np.ones(PEOPLE), rng.normal(size=(PEOPLE, COVARIATES - 1))])
        noise = rng.normal(size=(PEOPLE, OUTCOMES)) @ factor(free)[0].T
        self.sign = np.where(self.x @ beta.T + noise > 0, 1.0, -1.0)

    def problems(self, parameters: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Means, (people, outcomes), factors, (people, outcomes, outcomes), and that of R."""
        beta = parameters[: OUTCOMES * COVARIATES].reshape(OUTCOMES, COVARIATES)
        L, _ = factor(parameters[OUTCOMES * COVARIATES :])
        signs = self.sign[:, :, None] * self.sign[:, None, :]
        return self.sign * (self.x @ beta.T), signs * L, L

    def value(self, parameters: FloatArray) -> float:
        """Minus the mean log likelihood."""
        self.evaluations += 1
        m, factors, _ = self.problems(parameters)
        way = "genz" if self.method == "pathwise" else self.method
        return -float(mvnorth.orthant(m, factors, self.n, method=way).log_prob.mean())

    def scores(self, parameters: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Log likelihoods, (people,), and their gradients, (people, parameters)."""
        self.evaluations += 1
        m, factors, L = self.problems(parameters)
        wrt = ("m", "cov")
        found: Any = mvnorth.orthant_grad(m, factors, self.n, wrt=wrt, method=self.method, log=True)
        in_beta = (self.sign * found.grad_m)[:, :, None] * self.x[:, None, :]
        in_cov = self.sign[:, :, None] * found.grad_cov * self.sign[:, None, :]
        in_L = 2.0 * in_cov @ L
        _, length = factor(parameters[OUTCOMES * COVARIATES :])
        across = np.sum(in_L * L, axis=2, keepdims=True) * L
        in_rows = (in_L - across) / length[:, None]
        below = np.tril_indices(OUTCOMES, -1)
        parts = [in_beta.reshape(PEOPLE, -1), in_rows[:, below[0], below[1]]]
        return found.log_prob, np.concatenate(parts, axis=1)

    def loss(self, parameters: FloatArray) -> tuple[float, FloatArray]:
        """Minus the mean log likelihood, and its gradient."""
        logs, scores = self.scores(parameters)
        return -float(logs.mean()), -scores.mean(axis=0)


def factor(free: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Cholesky factor of a correlation matrix: rows (free, 1) over their length; the lengths."""
    rows = np.eye(OUTCOMES)
    rows[np.tril_indices(OUTCOMES, -1)] = free
    length = np.linalg.norm(rows, axis=1)
    return rows / length[:, None], length


@dataclass(frozen=True)
class Line:
    """One fit; without estimates it was not run, but its time scaled up."""

    program: str
    evaluations: int
    seconds: float
    loss: float = np.nan
    converged: bool = False
    estimates: FloatArray | None = None


def fit(method: str, n: int, way: str) -> Line:
    model = Probit(method, n)
    found = np.zeros_like(model.truth)
    model.value(found)
    model.loss(found)  # compiles
    model.evaluations = 0
    began = time.process_time()
    if way == "scoring":
        for _ in range(20):
            logs, scores = model.scores(found)
            total = scores.sum(axis=0)
            move = np.linalg.solve(scores.T @ scores, total)
            loss, converged = -float(logs.mean()), bool(total @ move < DECREMENT)
            if converged:
                break
            found = found + move
    else:
        objective: Any = model.loss if way == "BFGS" else model.value
        given: Any = {"jac": way == "BFGS", "method": "BFGS", "options": {"gtol": GTOL}}
        result = minimize(objective, found, **given)
        found, loss, converged = result.x, float(result.fun), bool(result.success)
    seconds = time.process_time() - began
    return Line(f"{way}, {method}, {n}", model.evaluations, seconds, loss, converged, found)


def with_scipy(parameters: FloatArray, evaluations: int) -> Line:
    """What ``evaluations`` of the objective would take with scipy's values."""
    m, factors, _ = Probit("auto", 1024).problems(parameters)
    began = time.process_time()
    for mean, L in zip(m[:TIMED], factors[:TIMED], strict=True):
        multivariate_normal(np.zeros(OUTCOMES), L @ L.T, seed=0).logcdf(mean)
    seconds = (time.process_time() - began) * PEOPLE / TIMED
    return Line("differences, scipy's logcdf", evaluations, seconds * evaluations)


def show(line: Line, own: Line, best: FloatArray, error: FloatArray) -> list[object]:
    off = None if line.estimates is None else np.abs((line.estimates - best) / error).max()
    return [
        line.program,
        line.evaluations,
        f"{line.seconds:.3g}",
        f"{line.seconds / own.seconds:.3g}",
        "scaled up" if off is None else "yes" if line.converged else "no",
        "-" if off is None else f"{-line.loss:.5f}",
        "-" if off is None else f"{off:.1e}",
    ]


def main() -> None:
    options = arguments(__doc__).parse_args()
    mvnorth.set_num_threads(1)
    print(machine(), end="\n\n")
    lines = []
    for method, n, way in SETTINGS:
        progress(f"{method}, {n}, {way} ...")
        lines.append(fit(method, n, way))
    judge = Probit(*SETTINGS[JUDGE][:2])
    best = lines[JUDGE].estimates
    assert best is not None
    progress("scipy ...")
    lines.append(with_scipy(best, lines[-1].evaluations))
    _, scores = judge.scores(best)
    information = scores.T @ scores
    error = np.sqrt(np.diag(np.linalg.inv(information)))
    header = ["", "evaluations", "seconds", "/ scoring", "converged", "mean log P", "off"]
    print_table(header, [show(line, lines[OWN], best, error) for line in lines])
    change = best - judge.truth
    print(f"(estimate - truth) / standard error: at most {np.abs(change / error).max():.2f}")
    print(f"chi-square {change @ information @ change:.1f}, {change.size} degrees of freedom")
    record(options.json, "probit", [asdict(line) | {"estimates": None} for line in lines])


if __name__ == "__main__":
    main()
