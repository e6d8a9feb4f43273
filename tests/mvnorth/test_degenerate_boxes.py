"""Boxes next to nothing: intervals that underflow, and sets that a singular covariance empties."""

import math

import numpy as np
import pytest

import mvnorth

# Intervals that double precision does not hold in units of the deviation.


@pytest.mark.parametrize("half", [1e-165, 1e-200, 1e-160])
@pytest.mark.parametrize("given", ["matrix", "factors"])
def test_an_interval_lost_to_underflow_is_not_claimed(half, given):
    """log P = log(2 half / deviation) - log(2 pi)/2, or -726 to -806, cannot be computed."""
    cov = [[1e300]] if given == "matrix" else mvnorth.OneFactor([5e299], [math.sqrt(5e299)])
    result = mvnorth.box(-half, half, 0.0, cov)
    truth = math.log(2 * half) - 0.5 * math.log(1e300) - 0.5 * math.log(2 * math.pi)
    assert result.rel_error == math.inf or result.log_prob == pytest.approx(truth, rel=1e-15)
    assert result.status == mvnorth.Status.LIMIT


def test_intervals_above_underflow_are_claimed():
    for half in (1e-140, 1e-150):
        result = mvnorth.box(-half, half, 0.0, [[1e300]])
        truth = math.log(2 * half) - 0.5 * math.log(1e300) - 0.5 * math.log(2 * math.pi)
        assert result.log_prob == pytest.approx(truth, rel=1e-15)
        assert result.rel_error < 1e-11


# Sets that a singular covariance leaves empty.

SUM = [[1.0, 0.0, 1.0], [0.0, 1.0, 1.0], [1.0, 1.0, 2.0]]  # the third is the sum of the others
INF = math.inf


@pytest.mark.parametrize(
    ("lower", "upper", "cov"),
    [
        ([0.5, 0.5], [1.0, 1.0], [[1.0, -1.0], [-1.0, 1.0]]),
        ([0.5, 0.5], [INF, INF], [[1.0, -1.0], [-1.0, 1.0]]),
        ([0.5, 0.5], [1.0, 1.0], [[0.1, -0.1], [-0.1, 0.1]]),
        ([-INF, 2.0, 0.0], [INF, 3.0, 1.0], np.ones((3, 3))),
        ([0.0, 0.0, 3.0], [1.0, 1.0, 4.0], SUM),
        ([0.0, -1.0, -INF], [1.0, INF, -2.0], SUM),
    ],
)
def test_empty_sets_are_exactly_zero(lower, upper, cov):
    for method in ("auto", "tilting", "genz"):
        result = mvnorth.box(lower, upper, 0.0, cov, method=method)
        assert (result.prob, result.log_prob, result.error) == (0.0, -INF, 0.0)
        assert result.rel_error == 0.0
        assert result.n == 0
    with pytest.raises(ValueError, match="nothing to draw"):
        mvnorth.sample_box(lower, upper, 0.0, cov, 10)


def test_sets_that_are_not_empty_are_not_zero():
    """The sum of two that are between 0 and 1, above 1.5; and limits that exactly meet."""
    assert mvnorth.box_prob([0.0, 0.0, 1.5], [1.0, 1.0, 4.0], 0.0, SUM) > 0.009
    meets = mvnorth.box([0.5, -1.0], [1.0, -0.5], 0.0, [[1.0, -1.0], [-1.0, 1.0]])
    assert meets.prob == pytest.approx(0.149882, abs=1e-6)


def test_the_mean_moves_empty_sets():
    cov = [[1.0, -1.0], [-1.0, 1.0]]
    assert mvnorth.box([1.5, 0.5], [2.0, 1.0], [1.0, 0.0], cov).rel_error == 0.0
    assert mvnorth.box_prob([1.5, 0.0], [2.0, 0.5], [1.0, 1.0], cov) > 0.1


def test_a_batch_has_empty_and_other_rows():
    cov = [[1.0, -1.0], [-1.0, 1.0]]
    result = mvnorth.box([[0.5, 0.5], [-1.0, -1.0]], 1.0, 0.0, cov)
    assert result.prob[0] == 0.0
    assert result.rel_error[0] == 0.0
    assert result.prob[1] == pytest.approx(0.6826894921370859)


def test_what_is_only_nearly_singular_is_not_decided():
    """Rounding of 0.3 leaves a variance of 1e-17: the probability is tiny, but not zero."""
    result = mvnorth.box([0.5, 1.0], [1.0, 1.4], 0.0, [[0.1, 0.3], [0.3, 0.9]])
    assert result.prob == 0.0
    assert result.rel_error == math.inf


@pytest.mark.parametrize("d", [2, 3, 4])
def test_a_singular_row_does_not_change_the_others(d):
    rng = np.random.default_rng(3)
    factors = rng.normal(size=(40, d, d))
    cov = np.concatenate([factors @ np.swapaxes(factors, 1, 2), np.ones((1, d, d))])
    upper = rng.normal(0.5, 0.3, size=(41, d))
    together = mvnorth.box(-1.0, upper, 0.0, cov, 256)
    for row in range(41):
        alone = mvnorth.box(-1.0, upper[row], 0.0, cov[row], 256)
        assert alone.log_prob == together.log_prob[row]
        assert alone.rel_error == together.rel_error[row]


def test_a_given_factor_is_no_matter_of_how_far_out_limits_are():
    cov = mvnorth.OneFactor(np.ones(5), np.ones(5))
    result = mvnorth.box(
        [[1e8] * 5, [-1.0] * 5], [[2e8] * 5, [1.0] * 5], 0.0, cov, method="quadrature"
    )
    assert result.rel_error[1] < 1e-12


def test_an_interval_at_infinity_beside_a_singular_covariance():
    cov = np.array([[1.0, 1.0, 0.5], [1.0, 1.0, 0.5], [0.5, 0.5, 1.0]])
    assert mvnorth.box_prob([np.inf, 0.0, -1.0], [np.inf, 1.0, 1.0], 0.0, cov) == 0.0
