"""Expected losses of arms and expected improvements: mvnorth, Monte Carlo, scipy, BoTorch.

    python -m validation.benchmarks.expected_max [--full] [--json FILE]

About a minute, in one thread.

* "expected loss, 8 arms": tests a second, and the largest relative error of the smallest loss, over
  20 tests with a leader that is ahead by about a deviation. `mvnorth.expected_loss` in one batch;
  Monte Carlo with 10,000 and 100,000 draws a test, as programs for A/B tests do; and
  `scipy.integrate.quad`.
* "log improvement, 1 candidate": the logarithm of `mvnorth.expected_improvement`, and the function
  behind BoTorch's `LogExpectedImprovement`; errors of the logarithm.
* "improvement, 8 candidates": correlated candidates given as a matrix, `mvnorth` for relative
  errors of 1e-2 and 1e-3, and the mean over BoTorch's Sobol' samples of the posterior, 512 of them
  being its default; relative errors, the largest of several problems, some of which have small
  improvements.

The truth is a Gauss-Legendre rule over the line, and a Gauss-Hermite rule over the common factor
that the correlated candidates have; 40 digits for one candidate.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import mpmath
import numpy as np
from scipy.integrate import quad
from scipy.special import log_ndtr, ndtr
from scipy.stats import norm

import mvnorth
from validation.benchmarks.timing import arguments, best_of, machine, print_table, progress, record
from validation.oracles.one_dimension import FloatArray

ARMS = 8
LINE = np.polynomial.legendre.leggauss(400)


def smallest_loss(mu: FloatArray, sigma: FloatArray) -> float:
    """Return E[max] - max(mu) by a Gauss-Legendre rule, from positive terms."""
    leader = int(np.argmax(mu))
    low, high = mu[leader] - 10.0 * sigma[leader], (mu + 10.0 * sigma).max()
    t = low + (high - low) * 0.5 * (1.0 + LINE[0])
    weight = 0.5 * (high - low) * LINE[1]
    x = (t[:, None] - mu) / sigma
    others = np.delete(log_ndtr(x), leader, axis=1).sum(axis=1)
    return float(weight @ (ndtr(x[:, leader]) * -np.expm1(others)))


def improvement(mu: FloatArray, c: FloatArray, v: FloatArray, best: float) -> float:
    """Return E[(max - best)^+] with one common factor, by a product of two rules."""
    z, w = np.polynomial.hermite_e.hermegauss(120)
    t = best + 25.0 * 0.5 * (1.0 + LINE[0])
    x = (t[:, None, None] - mu - v * z[:, None]) / np.sqrt(c)
    above = -np.expm1(log_ndtr(x).sum(axis=2))
    return float(12.5 * LINE[1] @ above @ w / np.sqrt(2.0 * np.pi))


def monte_carlo(mu: FloatArray, sigma: FloatArray, draws: int) -> FloatArray:
    """Return the smallest expected loss of each row, from its own draws."""
    rng = np.random.default_rng(0)
    found = np.empty(len(mu))
    for b in range(len(mu)):
        x = mu[b] + sigma[b] * rng.normal(size=(draws, ARMS))
        found[b] = np.mean(x.max(axis=1) - x[:, mu[b].argmax()])
    return found


def by_quad(mu: FloatArray, sigma: FloatArray) -> FloatArray:
    found = np.empty(len(mu))
    for b, (mean, deviation) in enumerate(zip(mu, sigma, strict=True)):

        def density(t: float, mean: FloatArray = mean, deviation: FloatArray = deviation) -> float:
            x = (t - mean) / deviation
            F = ndtr(x)
            return float(t * np.prod(F) * np.sum(norm.pdf(x) / (deviation * F)))

        ends = (mean - 8.0 * deviation).max(), (mean + 9.0 * deviation).max()
        found[b] = quad(density, *ends)[0] - mean.max()
    return found


def botorch_improvement(mu: FloatArray, cov: FloatArray, best: float, samples: int) -> float:
    import torch
    from botorch.posteriors import GPyTorchPosterior
    from botorch.sampling import SobolQMCNormalSampler
    from gpytorch.distributions import MultivariateNormal

    posterior = GPyTorchPosterior(MultivariateNormal(torch.from_numpy(mu), torch.from_numpy(cov)))
    sampler = SobolQMCNormalSampler(torch.Size([samples]), seed=1)
    return float((sampler(posterior)[..., 0].max(dim=-1).values - best).clamp_min(0.0).mean())


def losses(full: bool) -> list[dict[str, Any]]:
    """Return tests a second of the expected loss of eight arms, and errors."""
    rng = np.random.default_rng(0)
    many = 200_000 if full else 50_000
    mu, sigma = rng.normal(size=(many, ARMS)), rng.uniform(0.3, 0.6, size=(many, ARMS))
    mu[np.arange(many), mu.argmax(axis=1)] += 0.5
    truth = np.array([smallest_loss(m, s) for m, s in zip(mu[:20], sigma[:20], strict=True)])
    programs: dict[str, tuple[Callable[..., FloatArray], int]] = {
        "mvnorth": (lambda m, s: mvnorth.expected_loss(m, s).min(axis=1), many),
        "Monte Carlo, 10,000 draws": (partial(monte_carlo, draws=10_000), 200),
        "Monte Carlo, 100,000 draws": (partial(monte_carlo, draws=100_000), 20),
        "scipy quad": (by_quad, 50),
    }
    rows = []
    for name, (call, count) in programs.items():
        progress(f"{name} ...")
        call(mu[:2], sigma[:2])
        found, seconds = best_of(partial(call, mu[:count], sigma[:count]), 3)
        error = float(np.max(np.abs(found[: len(truth)] / truth - 1.0)))
        rows.append(_row("expected loss, 8 arms", name, count / seconds, error))
    return rows


def logarithms(full: bool) -> list[dict[str, Any]]:
    """Return candidates a second of the logarithm of the expected improvement, and errors."""
    import torch
    from botorch.acquisition.analytic import _log_ei_helper

    many = 10**6 if full else 10**5
    distance = np.linspace(-3.0, 60.0, many)
    some = np.arange(0, many, many // 50)
    with mpmath.workdps(60):
        d = [mpmath.mpf(float(distance[k])) for k in some]
        tails = [mpmath.npdf(x) - x * mpmath.erfc(x / mpmath.sqrt(2)) / 2 for x in d]
        truth = np.array([float(mpmath.log(tail)) for tail in tails])
    zero = np.zeros((many, 1))

    def ours() -> FloatArray:
        return np.asarray(mvnorth.expected_improvement(zero, 1.0, best=distance, log=True))

    def theirs() -> FloatArray:
        return np.asarray(_log_ei_helper(torch.from_numpy(-distance)))

    rows = []
    for name, call in (("mvnorth", ours), ("BoTorch", theirs)):
        call()
        found, seconds = best_of(call, 3)
        error = float(np.max(np.abs(found[some] - truth)))
        rows.append(_row("log improvement, 1 candidate", name, many / seconds, error))
    return rows


def batches(full: bool) -> list[dict[str, Any]]:
    """Return problems a second of the expected improvement of eight candidates, and errors."""
    rng = np.random.default_rng(1)
    problems = []
    for _ in range(30 if full else 10):
        mu, c, v = rng.normal(size=8), rng.uniform(0.1, 0.5, 8), 0.7 * rng.normal(size=8)
        best = float(mu.max()) + rng.uniform(0.0, 2.0)
        truth = improvement(mu, c, v, best)
        problems.append((mu, np.diag(c) + np.outer(v, v), best, truth))
    programs: dict[str, Callable[..., float]] = {
        f"mvnorth {rtol:.0e}": partial(_ours, rtol=rtol) for rtol in (1e-2, 1e-3)
    }
    for samples in (512, 16_384):
        name = f"BoTorch, {samples:,} samples"
        programs[name] = partial(botorch_improvement, samples=samples)
    rows = []
    for name, call in programs.items():
        call(*problems[0][:3])
        error = seconds = 0.0
        for *given, truth in problems:
            found, taken = best_of(partial(call, *given), 3)
            error, seconds = max(error, abs(found / truth - 1.0)), seconds + taken
        rows.append(_row("improvement, 8 candidates", name, len(problems) / seconds, error))
    return rows


def _ours(mu: FloatArray, cov: FloatArray, best: float, rtol: float) -> float:
    return float(mvnorth.expected_improvement(mu, cov=cov, best=best, rtol=rtol))


def _row(what: str, program: str, rate: float, error: float) -> dict[str, Any]:
    return {"what": what, "program": program, "rate": rate, "error": error}


def _rounded(rate: float) -> int:
    """Return a rate with two digits."""
    return int(float(f"{rate:.1e}"))


def main() -> None:
    options = arguments(__doc__).parse_args()
    mvnorth.set_num_threads(1)
    results = losses(options.full) + logarithms(options.full) + batches(options.full)
    print(machine(), end="\n\n")
    lines = [
        [row["what"], row["program"], f"{_rounded(row['rate']):,}", f"{row['error']:.0e}"]
        for row in results
    ]
    print_table(["", "program", "a second", "largest error"], lines, cite="expected-max")
    record(options.json, "expected_max", results)


if __name__ == "__main__":
    main()
