"""Errors of complements are promises: the truth is within them in 99 % of the runs.

Judge: one integral over the common factor, without cancellation, for problems in which the general
methods do not use it.
"""

import math

import numpy as np
import pytest
from support.unions import one_factor, one_factor_truth

import mvnorth


def count_outside(seeds, sizes, heights, **options):
    """Return the number of claims that the truth is outside of, of missed tolerances, of runs."""
    outside = missed = runs = 0
    for d in sizes:
        for height in heights:
            for seed in seeds:
                rng = np.random.default_rng([d, seed])
                v, cov = one_factor(rng, d)
                upper = height + rng.uniform(0.0, 0.5, d)
                truth = one_factor_truth(upper, v)
                result = mvnorth.box(
                    -np.inf, upper, 0.0, cov, complement=True, seed=seed, **options
                )
                off = abs(math.expm1(result.log_prob - truth))
                outside += off > result.rel_error + 1e-11
                missed += result.status != mvnorth.Status.CONVERGED
                runs += 1
    return outside, missed, runs


def test_sample():
    counts = count_outside(range(5), (4, 9, 14), (2.0, 3.0, 5.0), method="tilting", rtol=1e-3)
    assert counts == (0, 0, 45)


def test_few_points():
    outside, _, runs = count_outside(range(5), (4, 9, 14), (2.0, 4.0), method="tilting", n=512)
    assert outside <= 0.02 * runs


@pytest.mark.slow
@pytest.mark.parametrize("rtol", [1e-2, 1e-4])
@pytest.mark.parametrize("method", ["gauss", "tilting"])
def test_many(method, rtol):
    heights = (0.5, 1.5, 2.5, 3.5, 5.0, 9.0, 20.0)
    outside, missed, runs = count_outside(
        range(12), (3, 5, 8, 11, 16, 24), heights, method=method, rtol=rtol
    )
    assert outside <= 0.01 * runs
    if method == "tilting":
        assert missed <= 0.01 * runs
