"""EXACT against its definition, its options, and its module."""

import math

import numpy as np
import pytest
import torch
from scipy import stats
from support.exact_batches import (
    DTYPES,
    SIGMA_SHAPES,
    batch,
    deviations,
    loss_and_gradient,
    per_entry,
)

import mvnorth
from exact_torch import (
    ExactLoss,
    GaussianScores,
    SigmaSchedule,
    argmax_probs,
    exact_loss,
    expected_accuracy,
    expected_topk_accuracy,
)

# Against the definition


@pytest.mark.parametrize("shape", SIGMA_SHAPES, ids=str)
def test_is_the_frequency_of_the_right_class(shape):
    scores, labels = batch()
    sigma = per_entry(deviations(shape), *scores.shape)
    draws = 200_000
    noise = torch.randn(draws, 4, 5, generator=torch.Generator().manual_seed(2))
    right = ((scores + sigma * noise).argmax(2) == labels).double().mean(0)
    found = expected_accuracy(scores, labels, deviations(shape), reduction="none")
    standard_error = (found * (1.0 - found) / draws).sqrt()
    assert ((right - found).abs() <= 4.0 * standard_error).all()


@pytest.mark.parametrize("shape", SIGMA_SHAPES, ids=str)
def test_is_the_orthant_probability_that_scipy_computes(shape):
    scores, labels = batch()
    sigma = per_entry(deviations(shape), *scores.shape).numpy()
    found = exact_loss(scores, labels, sigma=deviations(shape), reduction="none").numpy()
    for b, y in enumerate(labels.tolist()):
        others = np.arange(5) != y
        m = scores[b, y].item() - scores[b].numpy()[others]
        cov = np.diag(sigma[b, others] ** 2) + sigma[b, y] ** 2
        cdf = stats.multivariate_normal.cdf(m, cov=cov, abseps=1e-9, releps=1e-6, rng=0)
        assert found[b] == pytest.approx(-math.log(cdf), rel=1e-5, abs=1e-7)


def test_two_classes_are_a_probit():
    gap = torch.linspace(-30.0, 8.0, 77, dtype=torch.float64)
    scores = torch.stack([gap, torch.zeros_like(gap)], 1)
    loss, grad = loss_and_gradient(scores, torch.zeros(77, dtype=torch.int64), 0.5)
    x = gap.numpy() / math.sqrt(0.5)
    np.testing.assert_allclose(loss.numpy(), -stats.norm.logcdf(x), rtol=1e-12, atol=1e-15)
    slope = np.exp(stats.norm.logpdf(x) - stats.norm.logcdf(x)) / math.sqrt(0.5)
    np.testing.assert_allclose(grad[:, 1].numpy(), slope, rtol=1e-10)
    np.testing.assert_allclose(grad[:, 0].numpy(), -slope, rtol=1e-10)


def test_objectives_are_of_the_same_probability():
    scores, labels = batch()
    accuracy = expected_accuracy(scores, labels, 0.7, reduction="none")
    nll = exact_loss(scores, labels, sigma=0.7, reduction="none")
    error = exact_loss(scores, labels, sigma=0.7, objective="error", reduction="none")
    torch.testing.assert_close(torch.exp(-nll), accuracy)
    torch.testing.assert_close(1.0 - error, accuracy)


def test_error_keeps_its_digits_where_the_accuracy_is_one():
    scores = torch.tensor([[20.0, 0.0]], dtype=torch.float64)
    found = exact_loss(scores, torch.tensor([0]), objective="error")
    assert found.item() == pytest.approx(stats.norm.sf(20.0 / math.sqrt(2.0)), rel=1e-12)


@pytest.mark.slow
def test_published_estimator_has_the_exact_mean():
    scores, labels = batch(spread=1.0)
    exact = expected_accuracy(scores, labels, reduction="none")
    torch.manual_seed(0)
    draws = torch.stack(
        [
            torch.exp(-exact_loss(scores, labels, method="genz", n=16, reduction="none"))
            for _ in range(400)
        ]
    )
    standard_error = draws.std(0) / math.sqrt(400)
    assert (standard_error > 0.0).all()
    assert ((draws.mean(0) - exact).abs() <= 4.0 * standard_error).all()
    fine = torch.exp(-exact_loss(scores, labels, method="genz", n=4096, reduction="none"))
    torch.testing.assert_close(fine, exact, rtol=2e-3, atol=0.0)


@pytest.mark.parametrize("k", [1, 2, 3, 5, 9])
def test_topk_accuracy(k):
    scores, labels = batch()
    sigma = deviations((4, 5))
    found = expected_topk_accuracy(scores, labels, k, sigma, reduction="none")
    expected = mvnorth.prob_topk(scores.numpy(), sigma.numpy(), k)[np.arange(4), labels]
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-12)


def test_topk_accuracy_of_many_classes():
    scores, labels = batch(3, 1000, spread=1.0)
    found = expected_topk_accuracy(scores, labels, 5, 1.0, reduction="none")
    expected = mvnorth.prob_topk(scores.numpy(), 1.0, 5)[np.arange(3), labels]
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-12)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", SIGMA_SHAPES, ids=str)
def test_argmax_probs_are_those_of_each_label(shape, dtype):
    scores, _ = batch(dtype=dtype)
    sigma = deviations(shape, dtype)
    probs = argmax_probs(scores, sigma)
    assert probs.dtype == dtype
    for y in range(5):
        own = expected_accuracy(scores, torch.full((4,), y), sigma, reduction="none")
        torch.testing.assert_close(probs[:, y], own, atol=2e-6, rtol=0.0)


# Options


def test_margin_limits_the_differences():
    scores, labels = batch()
    label = scores.gather(1, labels[:, None])
    limited = label - (label - scores).clamp(max=0.5)
    expected, _ = loss_and_gradient(limited, labels)
    found, grad = loss_and_gradient(scores, labels, margin=0.5)
    torch.testing.assert_close(found, expected)
    beyond = label - scores > 0.5
    assert beyond.any()
    assert (grad[beyond] == 0.0).all()
    torch.testing.assert_close(grad.sum(1), torch.zeros(4, dtype=torch.float64))


def test_normalize_is_over_the_whole_batch():
    scores, labels = batch()
    options = {"normalize": True, "sigma": 1.0}
    expected = exact_loss((scores - scores.mean()) / scores.std(), labels, sigma=1.0)
    torch.testing.assert_close(exact_loss(scores, labels, **options), expected)
    masked = torch.cat([scores, torch.full((4, 1), -math.inf, dtype=torch.float64)], 1)
    torch.testing.assert_close(exact_loss(masked, labels, **options), expected)
    more = torch.cat([scores, 100.0 * scores[:1]])
    ignored = torch.cat([labels, torch.tensor([-100])])
    torch.testing.assert_close(exact_loss(more, ignored, **options), expected)


def test_truncate_keeps_the_strongest():
    scores, labels = batch(classes=8)
    sigma = deviations((1, 8))
    found = exact_loss(scores, labels, sigma=sigma, truncate=3, reduction="none")
    for b, y in enumerate(labels.tolist()):
        order = [j for j in scores[b].argsort(descending=True).tolist() if j != y][:3]
        kept = [y, *order]
        own = exact_loss(scores[b : b + 1, kept], torch.tensor([0]), sigma=sigma[:, kept])
        torch.testing.assert_close(found[b], own)
    whole = exact_loss(scores, labels, sigma=sigma, reduction="none")
    assert (found < whole).all()
    every = exact_loss(scores, labels, sigma=sigma, truncate=7, reduction="none")
    torch.testing.assert_close(every, whole)


@pytest.mark.parametrize("objective", ["nll", "error"])
def test_label_smoothing_and_weights_as_in_cross_entropy(objective):
    scores, labels = batch()
    weight = torch.tensor([1.0, 2.0, 0.5, 3.0, 1.5], dtype=torch.float64)
    each = torch.stack(
        [
            exact_loss(scores, torch.full((4,), y), objective=objective, reduction="none")
            for y in range(5)
        ],
        1,
    )
    target = 0.9 * torch.nn.functional.one_hot(labels, 5) + 0.02
    for given in (None, weight):
        by_class = torch.ones(5, dtype=torch.float64) if given is None else given
        values = (target * by_class * each).sum(1)
        options = {"objective": objective, "label_smoothing": 0.1, "weight": given}
        found = exact_loss(scores, labels, reduction="none", **options)
        torch.testing.assert_close(found, values)
        mean = values.sum() / by_class[labels].sum()
        torch.testing.assert_close(exact_loss(scores, labels, **options), mean)


def test_reductions_and_ignored_labels():
    scores, labels = batch()
    each = exact_loss(scores, labels, reduction="none")
    assert each.shape == (4,)
    torch.testing.assert_close(exact_loss(scores, labels), each.mean())
    torch.testing.assert_close(exact_loss(scores, labels, reduction="sum"), each.sum())
    labels[1] = -100
    torch.testing.assert_close(exact_loss(scores, labels), each[[0, 2, 3]].mean())
    _, grad = loss_and_gradient(scores, labels)
    assert (grad[1] == 0.0).all()
    assert exact_loss(scores, torch.full((4,), -100)).isnan()  # as cross-entropy
    assert exact_loss(scores, torch.full((4,), -100), reduction="sum").item() == 0.0


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32], ids=str)
def test_labels_of_any_integer_type(dtype):
    scores, labels = batch()
    options = {"weight": torch.arange(1.0, 6.0), "truncate": 2}
    found = exact_loss(scores, labels.to(dtype), **options)
    torch.testing.assert_close(found, exact_loss(scores, labels, **options))


def test_small_labels_are_not_taken_for_ignored_ones():
    scores, _ = batch(1, 200)
    label = torch.tensor([156])  # -100 in eight bits
    found = exact_loss(scores, label.to(torch.uint8))
    torch.testing.assert_close(found, exact_loss(scores, label))
    with pytest.raises(ValueError, match=r"labels\[0\] = 156"):
        exact_loss(scores[:, :5], label.to(torch.uint8))


def test_relabelling_changes_nothing():
    scores, labels = batch()
    sigma = deviations((1, 5))
    order = torch.tensor([3, 1, 4, 0, 2])
    inverse = order.argsort()
    found = exact_loss(scores[:, order], inverse[labels], sigma=sigma[:, order])
    torch.testing.assert_close(found, exact_loss(scores, labels, sigma=sigma))


def test_no_rows():
    scores = torch.zeros(0, 5, requires_grad=True)
    labels = torch.zeros(0, dtype=torch.int64)
    assert exact_loss(scores, labels, reduction="none").shape == (0,)
    exact_loss(scores, labels).backward()
    assert argmax_probs(scores).shape == (0, 5)
    sigma = torch.ones(0, 5)
    assert exact_loss(scores, labels, sigma=sigma, method="genz", reduction="none").shape == (0,)


# The module


def test_module_follows_its_schedules():
    scores, labels = batch()
    weight = torch.arange(1.0, 6.0, dtype=torch.float64)
    loss = ExactLoss(sigma=SigmaSchedule(10.0, 0.1), margin=lambda p: 1.0 - p, weight=weight)
    for progress, sigma, margin in ((0.0, 10.0, 1.0), (0.5, 1.0, 0.5)):
        loss.set_progress(progress)
        expected = exact_loss(scores, labels, sigma=sigma, margin=margin, weight=weight)
        torch.testing.assert_close(loss(scores, labels), expected)
    predicted = deviations((4, 1))
    expected = exact_loss(scores, labels, sigma=predicted, margin=0.5, weight=weight)
    found = loss(GaussianScores(scores, predicted), labels)
    torch.testing.assert_close(found, expected)
    again = ExactLoss(sigma=SigmaSchedule(10.0, 0.1), margin=lambda p: 1.0 - p, weight=weight)
    again.load_state_dict(loss.state_dict())
    torch.testing.assert_close(again(scores, labels), loss(scores, labels))
    assert loss.phases == (loss,)


def test_module_refuses_wrong_options_at_once():
    with pytest.raises(ValueError, match="objective"):
        ExactLoss(objective="accuracy")
    with pytest.raises(TypeError, match="margins"):
        ExactLoss(margins=1.0)
    with pytest.raises(ValueError, match="sigma must be"):
        ExactLoss(sigma=-1.0)
    with pytest.raises(ValueError, match="progress"):
        ExactLoss().set_progress(1.5)


def test_module_is_made_without_computing():
    weight = torch.ones(5, device="meta")  # a device that nothing can be computed on
    assert ExactLoss(weight=weight).weight is weight
    state = torch.random.get_rng_state()
    ExactLoss(method="genz")
    assert torch.equal(torch.random.get_rng_state(), state)
