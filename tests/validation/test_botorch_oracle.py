"""BoTorch's MVNXPB where it is exact (one pair, independent pairs) and where it approximates."""

import math

import numpy as np
import pytest

from validation.oracles import botorch_mvnxpb, exact
from validation.problems import exchangeable

pytestmark = [
    pytest.mark.skipif(not botorch_mvnxpb.available(), reason="BoTorch is not installed"),
    pytest.mark.filterwarnings("ignore"),  # those of its own imports
]


def test_one_pair_is_exact():
    cov = np.array([[4.0, 0.6], [0.6, 1.0]])
    found = botorch_mvnxpb.logprob([-math.inf, -math.inf], [1.0, 0.7], cov)
    truth = float(exact.bivariate_prob(0.5, 0.7, 0.3))
    assert found == pytest.approx(math.log(truth), abs=1e-7)


def test_independent_coordinates_are_exact():
    lower, upper = np.array([-1.0, -math.inf, 0.0]), np.array([1.0, 0.5, math.inf])
    found = botorch_mvnxpb.logprob(lower, upper, np.eye(3))
    truth = [exact.ndtr(1) - exact.ndtr(-1), exact.ndtr(0.5), 0.5]
    assert found == pytest.approx(sum(math.log(p) for p in truth), abs=1e-7)


def test_more_coordinates_are_approximate():
    problem = exchangeable(np.full(5, -math.inf), np.full(5, 0.3), 0.5)
    found = botorch_mvnxpb.logprob(problem.lower, problem.upper, problem.cov)
    assert 1e-6 < abs(found - problem.log_prob) < 0.1
