"""EXACT takes what ``F.cross_entropy`` takes and does the same with it.

The probabilities that each class wins add up to 1, so that their logarithms are logits whose
cross-entropy is EXACT: every shape, target and option can be compared with torch itself.
"""

import itertools
import math

import mpmath
import pytest
import torch
from torch.nn import functional as F

from exact_torch import (
    ExactLoss,
    GaussianScores,
    argmax_probs,
    equivalent_sigma,
    exact_loss,
    expected_topk_accuracy,
)

SHAPES = [(5,), (4, 5), (3, 5, 2), (2, 5, 3, 2), (0, 5)]
WEIGHT = torch.tensor([1.0, 2.0, 0.0, 0.5, 3.0], dtype=torch.float64)


def scores_of(shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return 2.0 * torch.randn(shape, generator=generator, dtype=torch.float64)


def labels_of(shape, kind, seed=1):
    generator = torch.Generator().manual_seed(seed)
    if kind == "probabilities":
        raw = torch.rand(shape, generator=generator, dtype=torch.float64)
        raw = torch.where(raw < 0.3, 0.0, raw)  # mixup's are zero for most classes
        return raw / raw.sum(0 if len(shape) == 1 else 1, keepdim=True)
    without = shape[:0] + shape[1:] if len(shape) == 1 else shape[:1] + shape[2:]
    labels = torch.randint(5, without, generator=generator)
    if kind == "ignored" and labels.numel() > 1:
        labels.view(-1)[0] = -100
    return labels


def log_probs(scores, sigma=None):
    """Logits whose softmax are the probabilities of EXACT."""
    axis = 0 if scores.ndim == 1 else 1
    rows = scores.movedim(axis, -1).reshape(-1, 5)
    probs = argmax_probs(rows, equivalent_sigma(5) if sigma is None else sigma)
    moved = probs.log().view(scores.movedim(axis, -1).shape)
    return moved.movedim(-1, axis)


@pytest.mark.parametrize("kind", ["numbers", "ignored", "probabilities"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_all_arguments_mean_what_they_mean_in_cross_entropy(shape, kind):
    labels = labels_of(shape, kind)
    for weight, smoothing, reduction in itertools.product(
        (None, WEIGHT), (0.0, 0.1), ("mean", "sum", "none")
    ):
        options = {"label_smoothing": smoothing, "reduction": reduction}
        ours, theirs = scores_of(shape).requires_grad_(), scores_of(shape).requires_grad_()
        found = exact_loss(ours, labels, weight, **options)
        expected = F.cross_entropy(log_probs(theirs), labels, weight, **options)
        assert found.shape == expected.shape
        torch.testing.assert_close(found, expected, equal_nan=True, rtol=1e-8, atol=1e-10)
        if 0 not in shape:
            found.sum().backward()
            expected.sum().backward()
            torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("case", ["all ignored", "no examples", "no weight"])
def test_nothing_to_learn_from(case, reduction):
    rows = 0 if case == "no examples" else 3
    labels = torch.full((rows,), -100 if case == "all ignored" else 2)
    weight = WEIGHT if case == "no weight" else None
    scores = scores_of((rows, 5)).requires_grad_()
    found = exact_loss(scores, labels, weight, reduction=reduction)
    expected = F.cross_entropy(scores.detach(), labels, weight, reduction=reduction)
    torch.testing.assert_close(found, expected, equal_nan=True)
    if case == "all ignored":
        found.sum().backward()
        assert (scores.grad == 0.0).all()


@pytest.mark.parametrize("autocast", [False, True])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_results_have_the_dtype_of_cross_entropy(dtype, autocast):
    scores, labels = scores_of((4, 5)).to(dtype), labels_of((4, 5), "numbers")
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        for reduction in ("mean", "none"):
            expected = F.cross_entropy(scores, labels, reduction=reduction).dtype
            assert exact_loss(scores, labels, reduction=reduction).dtype == expected


def test_class_probabilities_have_a_gradient():
    scores = scores_of((3, 5))
    targets = labels_of((3, 5), "probabilities").requires_grad_()
    theirs = targets.detach().clone().requires_grad_()
    exact_loss(scores, targets, WEIGHT).backward()
    F.cross_entropy(log_probs(scores), theirs, WEIGHT).backward()
    torch.testing.assert_close(targets.grad, theirs.grad, rtol=1e-7, atol=1e-9)


def test_class_probabilities_in_graphs_and_transforms():
    scores, targets = scores_of((3, 5)), labels_of((3, 5), "probabilities")
    expected = exact_loss(scores, targets)
    compiled = torch.compile(exact_loss, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(scores, targets), expected)
    per_row = torch.func.vmap(lambda s, t: exact_loss(s, t))(scores, targets)
    torch.testing.assert_close(per_row.mean(), expected)


def test_certain_probabilities_are_class_numbers():
    scores, labels = scores_of((4, 5)), labels_of((4, 5), "numbers")
    for objective, k in itertools.product(("nll", "error"), (1, 2)):
        options = {"objective": objective, "k": k, "margin": 1.0, "sigma": 0.6}
        found = exact_loss(scores, F.one_hot(labels, 5).double(), **options)
        torch.testing.assert_close(found, exact_loss(scores, labels, **options))


def test_errors_of_class_probabilities():
    scores, targets = scores_of((3, 5)), labels_of((3, 5), "probabilities")
    with pytest.raises(ValueError, match="ignore_index is for class numbers"):
        exact_loss(scores, targets, ignore_index=1)
    with pytest.raises(ValueError, match="truncate leaves some out"):
        exact_loss(scores, targets, truncate=2)
    with pytest.raises(TypeError, match="labels must be whole numbers"):
        exact_loss(scores, torch.zeros(3))


# Deviations with further dimensions, and those of a head


def test_sigma_broadcasts_to_further_dimensions():
    scores, labels = scores_of((2, 5, 3)), labels_of((2, 5, 3), "numbers")
    rows = scores.movedim(1, -1).reshape(-1, 5)
    for shape in ((5,), (1, 5, 1), (2, 1, 1), (2, 1, 3), (2, 5, 3)):
        sigma = 0.5 + torch.rand(shape, dtype=torch.float64)
        whole = sigma[None, :, None] if sigma.ndim == 1 else sigma
        spread = whole.expand(2, 5, 3).movedim(1, -1).reshape(-1, 5)
        expected = exact_loss(rows, labels.reshape(-1), sigma=spread, reduction="none")
        found = exact_loss(scores, labels, sigma=sigma, reduction="none")
        torch.testing.assert_close(found, expected.view(2, 3))
    with pytest.raises(ValueError, match=r"broadcast to scores \(2, 5, 3\).*got \(2, 5\)"):
        exact_loss(scores, labels, sigma=torch.ones(2, 5))


def test_gaussian_scores_have_classes_last():
    scores, labels = scores_of((2, 3, 5)), torch.randint(5, (2, 3))
    sigma = 0.5 + torch.rand(2, 3, 1, dtype=torch.float64)
    found = exact_loss(GaussianScores(scores, sigma), labels, reduction="none")
    expected = exact_loss(
        scores.movedim(-1, 1), labels, sigma=sigma.movedim(-1, 1), reduction="none"
    )
    torch.testing.assert_close(found, expected)
    module = ExactLoss(sigma=3.0, reduction="none")  # whose own is for plain scores
    torch.testing.assert_close(module(GaussianScores(scores, sigma), labels), expected)
    with pytest.raises(ValueError, match="sigma is that of the GaussianScores"):
        exact_loss(GaussianScores(scores, sigma), labels, sigma=1.0)


# The automatic sigma


def largest_mean(classes, k):
    """The mean of the k largest of C standard normals, from the densities of order statistics."""
    with mpmath.workdps(30):
        total = mpmath.mpf(0)
        for place in range(1, k + 1):  # the place-th largest
            rank = classes - place + 1

            def density(z, rank=rank):
                below = mpmath.ncdf(z)
                count = classes * mpmath.binomial(classes - 1, rank - 1)
                return count * below ** (rank - 1) * (1 - below) ** (classes - rank)

            total += mpmath.quad(
                lambda z: z * density(z) * mpmath.npdf(z), [-12, -6, -2, 0, 2, 4, 6, 12]
            )
        return float(total / k)


@pytest.mark.parametrize(("classes", "k"), [(2, 1), (3, 2), (10, 1), (10, 4), (100, 1), (1000, 5)])
def test_automatic_sigma_is_the_mean_of_the_largest(classes, k):
    expected = largest_mean(classes, k) * classes / (classes - 1)
    assert equivalent_sigma(classes, k) == pytest.approx(expected, rel=1e-10)


def test_automatic_sigma_of_two_classes_in_closed_form():
    assert equivalent_sigma(2) == pytest.approx(2.0 / math.sqrt(math.pi), rel=1e-14)
    assert equivalent_sigma(4, k=4) == 1.0
    with pytest.raises(ValueError, match="num_classes must be at least 2"):
        equivalent_sigma(1)


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("classes", [2, 10, 1000])
def test_first_gradient_is_that_of_cross_entropy(classes, k):
    labels = torch.arange(4) % classes
    gradients = []
    for loss in (lambda s, y: exact_loss(s, y, k=min(k, classes - 1)), F.cross_entropy):
        scores = torch.zeros(4, classes, dtype=torch.float64, requires_grad=True)
        loss(scores, labels).backward()
        gradients.append(scores.grad)
    torch.testing.assert_close(*gradients, rtol=1e-8, atol=1e-12)


# Top k


def test_top_k_is_the_expected_top_k_accuracy():
    scores, labels = scores_of((6, 5)), torch.arange(6) % 5
    for k in (1, 2, 4, 5, 9):
        found = exact_loss(scores, labels, sigma=0.8, k=k, objective="error")
        expected = 1.0 - expected_topk_accuracy(scores, labels, k, 0.8)
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)
    with pytest.raises(ValueError, match="estimates k = 1 only"):
        exact_loss(scores, labels, k=2, method="genz")
    with pytest.raises(ValueError, match="k must be at least 1"):
        exact_loss(scores, labels, k=0)


def test_smoothing_of_top_k_errors():
    scores, labels = scores_of((6, 5)), torch.arange(6) % 5
    found = exact_loss(scores, labels, k=2, objective="error", label_smoothing=0.2)
    targets = 0.8 * F.one_hot(labels, 5).double() + 0.2 / 5
    expected = exact_loss(scores, targets, k=2, objective="error")
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("gap", [0.0, 4.0, 8.0, 12.0, 30.0, 100.0])
def test_top_two_of_three_also_far_behind(gap):
    """Pr(at most one of two at ``gap`` exceeds the label at 0), and its derivative in the label."""
    with mpmath.workdps(30):

        def integrate(function):
            return mpmath.quad(function, mpmath.linspace(-12, gap + 12, 60))

        def prob(z):
            below = mpmath.ncdf(z - gap)
            return below * (2 - below)

        def slope(z):
            return 2 * (1 - mpmath.ncdf(z - gap)) * mpmath.npdf(z - gap)

        value = integrate(lambda z: mpmath.npdf(z) * prob(z))
        derivative = float(integrate(lambda z: mpmath.npdf(z) * slope(z)) / value)
        expected = float(-mpmath.log(value))
    scores = torch.tensor([[0.0, gap, gap]], dtype=torch.float64, requires_grad=True)
    loss = exact_loss(scores, torch.tensor([0]), sigma=1.0, k=2)
    loss.backward()
    assert loss.item() == pytest.approx(expected, rel=1e-8)
    assert scores.grad[0, 0].item() == pytest.approx(-derivative, rel=1e-7)


def test_top_k_has_a_gradient_however_far_behind():
    for gap in (1e2, 1e4, 1e8, 1e14, 1e30):
        scores = torch.tensor([[-gap, 0.0, 0.0, 0.5]], requires_grad=True)
        loss = exact_loss(scores, torch.tensor([0]), k=2)
        loss.backward()
        assert loss.isfinite()
        assert scores.grad.isfinite().all()
        assert scores.grad[0, 0] < 0.0
