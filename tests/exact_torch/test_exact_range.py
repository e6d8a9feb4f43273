"""EXACT at the ends of its range: finite, or the right infinity, and never NaN by itself."""

import math

import pytest
import torch
from scipy import stats
from support.exact_batches import DTYPES, batch, deviations, loss_and_gradient

from exact_torch import _ops, argmax_probs, exact_loss, expected_accuracy, expected_topk_accuracy


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("objective", ["nll", "error"])
@pytest.mark.parametrize("sigma", [1e-8, 1e-3, 1.0, 1e8])
@pytest.mark.parametrize("classes", [2, 10, 1000])
def test_finite_at_the_ends(classes, sigma, objective, dtype):
    scores, labels = batch(6, classes, dtype)
    scores = scores * torch.tensor([0.0, 1.0, 1e2, 1e4, 1e6, 1e6], dtype=dtype)[:, None] / 8.0
    for shape in ((), (6, 1), (1, classes), (6, classes)):
        spread = torch.full(shape, sigma, dtype=dtype, requires_grad=True)
        given = scores.clone().requires_grad_()
        loss = exact_loss(given, labels, sigma=spread, objective=objective, reduction="none")
        loss.sum().backward()
        assert torch.isfinite(loss).all()
        assert (loss >= 0.0).all()
        assert torch.isfinite(given.grad).all()
        assert torch.isfinite(spread.grad).all()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_deviations_of_all_sizes(dtype):
    generator = torch.Generator().manual_seed(5)
    scores, labels = batch(64, 10, dtype)
    sigma = (10.0 ** (16.0 * torch.rand(64, 10, generator=generator, dtype=dtype) - 8.0)).clamp(
        1e-8, 1e8
    )
    sigma.requires_grad_()
    scores.requires_grad_()
    loss = exact_loss(scores, labels, sigma=sigma, reduction="none")
    loss.sum().backward()
    for found in (loss, scores.grad, sigma.grad):
        assert torch.isfinite(found).all()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_many_classes(dtype):
    scores, labels = batch(2, 21_841, dtype)
    loss, grad = loss_and_gradient(scores, labels)
    assert torch.isfinite(grad).all()
    equal, grad = loss_and_gradient(torch.zeros_like(scores), labels)
    assert equal.tolist() == pytest.approx([math.log(21_841)] * 2, rel=1e-6)
    assert (loss > 0.0).all()
    torch.testing.assert_close(grad.sum(1), torch.zeros(2, dtype=dtype), atol=1e-4, rtol=0.0)


def test_masked_classes():
    scores, labels = batch()
    wide = torch.cat([scores, torch.full((4, 1), -math.inf, dtype=torch.float64)], 1)
    sigma = deviations((1, 5))
    spread = torch.cat([sigma, torch.ones(1, 1, dtype=torch.float64)], 1).requires_grad_()
    expected, slope = loss_and_gradient(scores, labels, sigma)
    found, grad = loss_and_gradient(wide, labels, spread)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(grad[:, :5], slope)
    assert (grad[:, 5] == 0.0).all()
    assert torch.isfinite(spread.grad).all()
    # The label itself cannot win.
    for objective, value in (("nll", math.inf), ("error", 1.0)):
        lost, grad = loss_and_gradient(wide, torch.full((4,), 5), objective=objective)
        assert (lost == value).all()
        assert (grad == 0.0).all()


def test_not_a_number_stays_so_and_in_its_row():
    scores, labels = batch()
    clean = exact_loss(scores, labels, reduction="none")
    scores[2, 1] = math.nan
    found = exact_loss(scores, labels, reduction="none")
    assert torch.isnan(found).tolist() == [False, False, True, False]
    torch.testing.assert_close(found[[0, 1, 3]], clean[[0, 1, 3]])


def test_more_than_the_label_may_be_masked():
    scores = torch.tensor([[-math.inf, -math.inf, 0.0], [-math.inf] * 3], dtype=torch.float64)
    for objective, value in (("nll", math.inf), ("error", 1.0)):
        loss, grad = loss_and_gradient(scores, torch.tensor([0, 0]), objective=objective)
        assert (loss == value).all()
        assert (grad == 0.0).all()


def test_masked_classes_have_no_part_in_normalization():
    scores, labels = batch()
    expected, slope = loss_and_gradient(scores, labels, normalize=True)
    wide = torch.cat([scores, torch.full((4, 1), -math.inf, dtype=torch.float64)], 1)
    found, grad = loss_and_gradient(wide, labels, normalize=True)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(grad[:, :5], slope)
    # Nor have examples that are ignored, whatever is in them.
    more = torch.cat([scores, torch.full((1, 5), math.nan, dtype=torch.float64)])
    ignored = torch.cat([labels, torch.tensor([-100])])
    _, grad = loss_and_gradient(more, ignored, normalize=True)
    torch.testing.assert_close(grad, torch.cat([slope, torch.zeros_like(slope[:1])]))


@pytest.mark.parametrize("order", [[0, 1, 2, 3, 4], [4, 3, 2, 1, 0], [1, 2, 0, 3, 4]], ids=str)
def test_truncate_never_compares_the_label_with_itself(order):
    scores = torch.tensor([[1.0, -math.inf, -math.inf, 0.0, -math.inf]])
    label = torch.tensor([order.index(0)])
    found = exact_loss(scores[:, order], label, truncate=3)
    torch.testing.assert_close(found, exact_loss(scores, torch.tensor([0])))


def test_a_class_without_weight_may_be_infinitely_wrong():
    scores = torch.tensor([[1.0, 0.0, -math.inf]] * 2, requires_grad=True)
    weight = torch.tensor([1.0, 1.0, 0.0])
    loss = exact_loss(scores, torch.tensor([0, 2]), weight=weight, label_smoothing=0.1)
    loss.backward()
    assert torch.isfinite(loss)
    assert torch.isfinite(scores.grad).all()


@pytest.mark.parametrize("function", [_ops._cpu_integral, _ops._plain_integral])
def test_one_competitor_may_be_infinitely_better_in_two_places(function):
    scores = torch.tensor([[1.0, 0.0, math.inf], [1.0, 0.0, -math.inf]], dtype=torch.float64)
    rest = (torch.ones(1, 1, dtype=torch.float64), math.inf)
    labels = torch.tensor([0, 2])
    log_prob, grad, _ = _ops._evaluate(function, scores, labels, *rest, 2, 0, None, 1)
    assert torch.exp(log_prob).tolist() == pytest.approx([stats.norm.cdf(math.sqrt(0.5)), 0.0])
    assert torch.isfinite(grad).all()
    # From C places on everyone has one.
    assert expected_topk_accuracy(scores, labels, 3).item() == pytest.approx(1.0)


def test_deviations_whose_ratio_is_beyond_single_precision():
    sigma = torch.tensor([[1e20, 1e-20]], requires_grad=True)
    scores = torch.zeros(1, 2, requires_grad=True)
    for label in (0, 1):
        loss = exact_loss(scores, torch.tensor([label]), sigma=sigma)
        assert loss.item() == pytest.approx(math.log(2.0), rel=1e-7)
        in_scores, in_sigma = torch.autograd.grad(loss, (scores, sigma))
        slope = math.sqrt(2.0 / math.pi) / 1e20
        assert in_scores[0, label].item() == pytest.approx(-slope, rel=1e-6)
        assert in_sigma.tolist() == [[0.0, 0.0]]
    assert expected_accuracy(scores, torch.tensor([0]), sigma).item() == pytest.approx(0.5)
    assert expected_topk_accuracy(scores, torch.tensor([0]), 2, sigma).item() == 1.0
    assert argmax_probs(scores, sigma).tolist() == [[pytest.approx(0.5), pytest.approx(0.5)]]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("unit", [1.0, 1e10, 1e-10])
@pytest.mark.parametrize("label", [0, 1])
def test_two_classes_with_deviations_of_any_ratio(label, unit, dtype):
    """Against Phi(gap / hypot(sigma)), with relative accuracy of all derivatives."""
    ratio = torch.tensor([1e-3, 1e-6, 1e-9, 1e-12, 1e-15, 1e-17, 1e-20, 1e-25], dtype=torch.float64)
    sigma = torch.stack([torch.ones_like(ratio), ratio], 1).mul(unit).to(dtype).requires_grad_()
    for gap in (-9.0, -1.0, 0.5, 3.0):
        scores = torch.zeros(8, 2, dtype=dtype)
        scores[:, label] = gap * unit
        scores.requires_grad_()
        loss = exact_loss(scores, torch.full((8,), label), sigma=sigma, reduction="none")
        in_scores, in_sigma = torch.autograd.grad(loss.sum(), (scores, sigma))
        total = torch.linalg.vector_norm(sigma.detach().double(), dim=1)
        m = scores.detach().double()[:, label] / total
        h = torch.exp(-0.5 * m**2 - torch.special.log_ndtr(m)) / math.sqrt(2.0 * math.pi)
        tolerance = (
            {"rtol": 1e-5, "atol": 1e-37} if dtype == torch.float32 else {"rtol": 1e-9, "atol": 0}
        )
        torch.testing.assert_close(loss.double(), -torch.special.log_ndtr(m), rtol=1e-5, atol=1e-15)
        torch.testing.assert_close(in_scores[:, label].double(), -h / total, **tolerance)
        expected = (h * m / total**2)[:, None] * sigma.detach().double()
        expected[5:, 1] = 0.0  # below 1e-15 of the other, and less than rounding of the first
        if label == 1:  # the narrow one is the label, and nothing is rounded
            expected[5:, 1] = (h * m / total**2 * sigma.detach().double()[:, 1])[5:]
        torch.testing.assert_close(in_sigma.double()[:, 0], expected[:, 0], **tolerance)
        small = in_sigma.double()[:, 1] * total - expected[:, 1] * total
        assert small.abs().max() < (1e-5 if dtype == torch.float32 else 1e-12)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("unit", [1e38, 1e30, 1e20, 1e-20, 1e-23, 1e-30, 1e-37])
def test_normalization_in_any_unit(unit, dtype):
    scores, labels = batch()
    scores = (0.1 * scores * unit).to(dtype)
    expected, slope = loss_and_gradient(scores.double() / unit, labels, normalize=True)
    found, grad = loss_and_gradient(scores, labels, normalize=True)
    tolerance = 2e-6 if dtype == torch.float32 else 1e-13
    torch.testing.assert_close(found.double(), expected, rtol=tolerance, atol=0.0)
    torch.testing.assert_close(grad.double() * unit, slope, rtol=tolerance, atol=tolerance)


def test_normalization_of_equal_scores_and_of_none():
    none = torch.zeros(0, dtype=torch.int64)
    assert exact_loss(torch.zeros(0, 5), none, normalize=True, reduction="none").shape == (0,)
    expected, slope = loss_and_gradient(torch.zeros(4, 5), batch()[1], normalize=True)
    for value in (1e20, -1e-30):
        found, grad = loss_and_gradient(torch.full((4, 5), value), batch()[1], normalize=True)
        torch.testing.assert_close(found, expected)
        torch.testing.assert_close(grad, slope)


def test_a_margin_beyond_the_precision_is_none():
    scores, labels = batch(dtype=torch.float32)
    torch.testing.assert_close(
        exact_loss(scores, labels, margin=1e50), exact_loss(scores, labels), rtol=0.0, atol=0.0
    )
