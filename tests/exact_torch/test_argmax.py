"""Derivatives of all class probabilities at once, against those of each class's own integral."""

import math

import numpy as np
import pytest
import torch
from scipy.special import log_ndtr

from exact_torch import _argmax, argmax_probs

# In units of max |u| / sigma.  An integral for each class has errors of 6e-13 itself.
TOLERANCE = {torch.float64: 1e-12, torch.float32: 3e-6}

BY_CLASS = _argmax._pull_by_class


def problem(rows, classes, ratio=1.0, spread=2.0, dtype=torch.float64):
    """Scores, deviations (one for all if ratio is 1) and weights, exact in single precision."""
    generator = torch.Generator().manual_seed(classes)
    draw = torch.randn(2, rows, classes, generator=generator)
    scores, towards = spread * draw[0], draw[1]
    sigma = torch.tensor([[0.7]])
    if ratio > 1.0:
        sigma = 0.1 * ratio ** torch.rand(rows, classes, generator=generator)
    return scores.to(dtype), sigma.to(dtype), towards.to(dtype)


def error(scores, sigma, towards):
    """The largest error of the derivatives, in their units."""
    found = _argmax._pull_operator(scores, sigma, towards)
    assert [a.dtype for a in found] == [scores.dtype] * 2
    double = [a.double() for a in (scores, sigma, towards)]
    in_scores, in_sigma = BY_CLASS(*double)
    unit = double[2].abs().amax(1, keepdim=True) / double[1]
    return max(
        ((found[0] - in_scores) / unit).abs().max(),
        ((found[1] - in_sigma.sum_to_size(sigma.shape)) / unit.sum_to_size(sigma.shape))
        .abs()
        .max(),
    )


@pytest.fixture
def left(monkeypatch):
    """The numbers of rows that were left to an integral for each class."""
    counts = []

    def watched(scores, *rest):
        counts.append(len(scores))
        return BY_CLASS(scores, *rest)

    monkeypatch.setattr(_argmax, "_pull_by_class", watched)
    return counts


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("ratio", [1.0, 3.0, 10.0, 100.0])
@pytest.mark.parametrize(("rows", "classes"), [(200, 2), (200, 3), (50, 10), (1, 1000)])
def test_same_as_by_class(rows, classes, ratio, dtype):
    for spread in (0.3, 3.0)[:rows]:
        assert error(*problem(rows, classes, ratio, spread, dtype)) < TOLERANCE[dtype]


@pytest.mark.parametrize("ratio", [3.0, 10.0])
def test_against_a_fine_grid(ratio, left):
    scores, sigma, towards = problem(100, 3, ratio, 0.3)
    found = _argmax._pull_operator(scores, sigma, towards)
    assert sum(left) < 10
    for b, (mu, deviations, u) in enumerate(
        zip(*(a.numpy() for a in (scores, sigma, towards)), strict=True)
    ):
        reach = 10.0 * deviations.max()
        s = np.linspace(mu.min() - reach, mu.max() + reach, 2001)[:, None]
        x = (s - mu) / deviations
        h = np.exp(-0.5 * x * x - log_ndtr(x)) / math.sqrt(2.0 * math.pi)
        weight = np.exp(log_ndtr(x).sum(1, keepdims=True)) * h / deviations * (s[1] - s[0])
        change = u / deviations * (x + h) - (u / deviations * h).sum(1, keepdims=True)
        unit = np.abs(u).max() / deviations
        for a, terms in zip(found, (change, x * change - u / deviations), strict=True):
            assert (np.abs(a[b].numpy() - (weight * terms).sum(0)) < 4e-13 * unit).all()


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("ratio", [1.0, 10.0, 1e6])
def test_classes_that_never_win(ratio, dtype):
    scores, sigma, towards = problem(50, 6, ratio, dtype=dtype)
    scores[torch.rand(50, 6, generator=torch.Generator().manual_seed(0)) < 0.4] = -math.inf
    scores[:, 2] = 0.0
    never = scores == -math.inf
    assert (never.sum(1) > 1).any()
    found = _argmax._pull_operator(scores, sigma, towards)
    assert (found[0][never] == 0.0).all()
    if ratio > 1.0:
        assert (found[1][never] == 0.0).all()
    assert error(scores, sigma, towards) < TOLERANCE[dtype]


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
def test_rows_left_to_an_integral_for_each_class(dtype, left):
    scores, sigma, towards = problem(20, 4, 2.0, 0.3, dtype)
    sigma[5, 1], sigma[11, 3] = 1e-7, 1e-7
    scores[5, 1], scores[11, 3] = 0.1, 0.1
    found = _argmax._pull_operator(scores, sigma, towards)
    assert left == [2]
    for a, b in zip(found, BY_CLASS(scores, sigma, towards), strict=True):
        assert (a[[5, 11]] == b[[5, 11]]).all()
    assert error(scores, sigma, towards) < TOLERANCE[dtype]


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("ratio", [1.0, 3.0])
def test_a_constant_has_no_derivative(ratio, dtype, left):
    scores, sigma, towards = problem(50, 5, ratio, 0.3, dtype)
    found = _argmax._pull_operator(scores, sigma, torch.full_like(towards, 3.7))
    assert not left
    assert all((a == 0.0).all() for a in found)
    # Nor does it matter to the derivative of anything else.
    assert error(scores, sigma, towards) < TOLERANCE[dtype]
    for a, b in zip(
        _argmax._pull_operator(scores, sigma, towards),
        _argmax._pull_operator(scores, sigma, towards + 1024.0),
        strict=True,
    ):
        torch.testing.assert_close(a, b, rtol=0.0, atol=1e-2 if dtype == torch.float32 else 1e-11)


def test_does_not_depend_on_units_and_threads():
    scores, sigma, towards = problem(200, 20, 3.0)
    found = _argmax._pull_operator(scores, sigma, towards)
    for a, b in zip(
        found, _argmax._pull_operator(scores * 2.0**40, sigma * 2.0**40, towards), strict=True
    ):
        torch.testing.assert_close(a, b * 2.0**40, rtol=0.0, atol=1e-13)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        for a, b in zip(found, _argmax._pull_operator(scores, sigma, towards), strict=True):
            assert (a == b).all()
    finally:
        torch.set_num_threads(before)


def test_backward_of_no_rows_and_of_weights_in_any_layout():
    scores = torch.zeros(0, 5, requires_grad=True)
    argmax_probs(scores).sum().backward()
    assert scores.grad.shape == (0, 5)
    scores, sigma, towards = problem(4, 5)
    expected = _argmax._pull_operator(scores, sigma, towards)
    transposed = (a.T.contiguous().T for a in (scores, sigma, towards))
    for a, b in zip(_argmax._pull_operator(*transposed), expected, strict=True):
        assert (a == b).all()


def test_deviations_far_below_the_largest_are_not_zero():
    """Two narrow scores beside a wide one share what is left by their own difference."""
    scores = torch.tensor([[0.0, 0.0, 1e-19]], dtype=torch.float64)
    sigma = torch.tensor([[1.0, 1e-18, 1e-18]], dtype=torch.float64)
    above = 0.5 * math.erfc(0.1 / 2.0)  # the second above the third
    expected = torch.tensor([[0.5, 0.5 * above, 0.5 * (1.0 - above)]], dtype=torch.float64)
    torch.testing.assert_close(argmax_probs(scores, sigma), expected, rtol=1e-14, atol=0.0)
    single = argmax_probs(scores.float(), sigma.float())
    torch.testing.assert_close(single, expected.float(), rtol=1e-6, atol=0.0)
    # Rows on either side of the limit, one deviation for all rows, and classes that never win.
    rows = torch.cat([scores, scores + torch.tensor([0.0, 0.0, -math.inf]), scores])
    found = argmax_probs(rows, sigma)
    torch.testing.assert_close(found[[0, 2]], expected.expand(2, 3), rtol=1e-14, atol=0.0)
    assert found[1].tolist() == [pytest.approx(0.5), pytest.approx(0.5), 0.0]
    mixed = torch.cat([sigma, torch.ones(2, 3, dtype=torch.float64)])
    even = torch.zeros(3, 3, dtype=torch.float64)
    torch.testing.assert_close(argmax_probs(even, mixed)[1:], torch.full_like(even[1:], 1 / 3))
