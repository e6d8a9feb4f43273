"""The short way to EXACT's common form against the operators: the same loss, the same gradient."""

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from exact_torch import _direct, exact_loss
from mvnorth._cpu import label_best


@pytest.fixture
def rows():
    torch.manual_seed(0)
    scores = 3.0 * torch.randn(40, 12)
    scores[3, 5] = -torch.inf
    scores[4, 0] = 3e4  # a row that the single-precision kernel leaves to the general one
    return scores.requires_grad_(), torch.randint(12, (40,))


def both_ways(scores, labels, towards=None, **options):
    """Return losses and gradients by the short way, and with weights of one by the other."""
    results = []
    for weight in (None, torch.ones(scores.shape[1])):
        loss = exact_loss(scores, labels, weight, **options)
        (grad,) = torch.autograd.grad(loss, scores, towards)
        results.append((loss.detach(), grad))
    return results


@pytest.mark.parametrize("objective", ["nll", "error"])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("margin", [None, 0.5])
def test_is_the_same_as_the_operator(rows, objective, reduction, margin):
    scores, labels = rows
    labels[7] = labels[20] = -100
    towards = torch.randn(40) if reduction == "none" else torch.tensor(1.7)
    options = {"objective": objective, "reduction": reduction, "margin": margin, "sigma": 0.8}
    (loss, grad), (expected, slope) = both_ways(scores, labels, towards, **options)
    torch.testing.assert_close(loss, expected, rtol=1e-6, atol=1e-7)
    torch.testing.assert_close(grad, slope, rtol=1e-5, atol=1e-7)
    assert not grad[[7, 20]].any()


@pytest.mark.parametrize("objective", ["nll", "error"])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_second_derivatives(objective, reduction):
    torch.manual_seed(1)
    scores, labels = torch.randn(5, 4), torch.tensor([0, 3, -100, 1, 2])

    def slopes(scores):
        loss = exact_loss(scores, labels, sigma=0.9, objective=objective, reduction=reduction)
        (grad,) = torch.autograd.grad(loss.sum(), scores, create_graph=True)
        return grad

    direction = torch.randn(5, 4)

    def product(x):
        return torch.autograd.grad((slopes(x) * direction.to(x)).sum(), x)[0].double()

    found, expected = (
        product(scores.to(dtype).requires_grad_()) for dtype in (torch.float32, torch.float64)
    )
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)


def test_nothing_counts(rows):
    scores, labels = rows
    assert exact_loss(scores, torch.full_like(labels, -100)).isnan()
    assert exact_loss(scores, torch.full_like(labels, -100), reduction="sum") == 0.0


@pytest.mark.parametrize("ignore_index", [0, 5])
def test_a_class_can_be_ignored(rows, ignore_index):
    scores, labels = rows
    (loss, grad), (expected, slope) = both_ways(scores, labels, ignore_index=ignore_index)
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(grad, slope)
    assert not grad[labels == ignore_index].any()


def test_a_sure_label_has_the_loss_zero_without_a_sign():
    scores = torch.tensor([[40.0, 0.0], [0.0, 0.0]])
    loss = exact_loss(scores, torch.tensor([0, -100]), reduction="none")
    assert not loss.any()
    assert not loss.signbit().any()


def test_error_of_a_small_probability_has_a_gradient():
    scores, labels = torch.tensor([[-9.0, 0.0, 0.5]], requires_grad=True), torch.tensor([0])
    error = exact_loss(scores, labels, sigma=1.0, objective="error")
    nll = exact_loss(scores, labels, sigma=1.0)
    found, slope = (torch.autograd.grad(loss, scores)[0] for loss in (error, nll))
    torch.testing.assert_close(found, slope * torch.exp(-nll.detach()), rtol=1e-5, atol=0.0)


def test_without_gradient(rows):
    scores, labels = rows
    with torch.no_grad():
        loss = exact_loss(scores, labels)
    assert not loss.requires_grad
    assert loss == exact_loss(scores, labels)
    assert not exact_loss(scores.detach(), labels).requires_grad


def test_scores_that_are_not_contiguous(rows):
    scores, labels = rows
    transposed = scores.detach().t().contiguous().t().requires_grad_()
    (loss, grad), _ = both_ways(transposed, labels)
    (expected, slope), _ = both_ways(scores, labels)
    assert loss == expected
    assert torch.equal(grad, slope)


def test_arrays_that_are_not_contiguous_are_not_compiled_for(rows):
    scores, labels = rows
    expected = exact_loss(scores, labels, sigma=0.8)
    known = len(label_best.label_best.signatures)
    assert exact_loss(scores, torch.stack([labels, labels], 1)[:, 0], sigma=0.8) == expected
    sigma = torch.full((1, 1), 0.8)
    assert exact_loss(scores, labels, sigma=sigma.expand(40, 1)) == expected
    assert len(label_best.label_best.signatures) == known


def test_tracing_does_not_record_a_constant(rows):
    scores, labels = rows
    with pytest.raises(RuntimeError, match="tracing tensor"):  # the values of labels are checked
        make_fx(lambda x, y: exact_loss(x, y))(scores.detach(), labels)


def test_a_number_beyond_all_others_is_refused(rows):
    with pytest.raises(ValueError, match="sigma must be a finite number"):
        exact_loss(*rows, sigma=10**400)


def test_a_wrong_label_is_named(rows):
    scores, labels = rows
    labels[11] = 12
    with pytest.raises(ValueError, match=r"labels\[11\] = 12 is not a class in \[0, 12\)"):
        exact_loss(scores, labels)


def test_is_taken_for_the_common_form(rows, monkeypatch):
    taken = []
    loss = _direct.loss
    monkeypatch.setattr(_direct, "loss", lambda *given: taken.append(1) or loss(*given))
    scores, labels = rows
    exact_loss(scores, labels)
    exact_loss(scores, labels, sigma=0.5, margin=1.0, objective="error")
    assert len(taken) == 2
    for options in ({"normalize": True}, {"truncate": 3}, {"sigma": torch.tensor(1.0)}, {"k": 2}):
        exact_loss(scores, labels, **options)
    exact_loss(scores.double(), labels)
    with torch.autocast("cpu"):
        exact_loss(scores, labels)
    torch.func.grad(lambda x: exact_loss(x, labels))(scores.detach())
    assert len(taken) == 2
