"""EXACT against its definition, at the ends of its range, and in the hands of autograd."""

import math

import numpy as np
import pytest
import torch
from scipy import stats
from torch.autograd import gradcheck, gradgradcheck

import mvnorth
from exact_torch import (
    ExactLoss,
    SigmaSchedule,
    _argmax,
    _ops,
    argmax_probs,
    exact_loss,
    expected_accuracy,
    expected_topk_accuracy,
)

DTYPES = [torch.float32, torch.float64]
SIGMA_SHAPES = [None, (), (4,), (4, 1), (1, 5), (5,), (4, 5)]


def batch(rows=4, classes=5, dtype=torch.float64, spread=2.0, seed=0):
    generator = torch.Generator().manual_seed(seed)
    scores = spread * torch.randn(rows, classes, generator=generator, dtype=dtype)
    return scores, torch.randint(classes, (rows,), generator=generator)


def deviations(shape, dtype=torch.float64):
    if shape is None:
        return 0.7
    generator = torch.Generator().manual_seed(1)
    return 0.5 + torch.rand(shape, generator=generator, dtype=dtype)


def per_entry(sigma, rows, classes):
    """(B, C) deviations, spelled out."""
    sigma = torch.as_tensor(sigma, dtype=torch.float64)
    if sigma.ndim == 1 and len(sigma) == rows:
        sigma = sigma[:, None]
    return sigma.expand(rows, classes)


def loss_and_gradient(scores, labels, sigma=1.0, **options):
    scores = scores.clone().requires_grad_()
    loss = exact_loss(scores, labels, sigma, reduction="none", **options)
    loss.sum().backward()
    return loss.detach(), scores.grad


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
    found = exact_loss(scores, labels, deviations(shape), reduction="none").numpy()
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
    nll = exact_loss(scores, labels, 0.7, reduction="none")
    error = exact_loss(scores, labels, 0.7, objective="error", reduction="none")
    torch.testing.assert_close(torch.exp(-nll), accuracy)
    torch.testing.assert_close(1.0 - error, accuracy)


def test_error_keeps_its_digits_where_the_accuracy_is_one():
    scores = torch.tensor([[20.0, 0.0]], dtype=torch.float64)
    found = exact_loss(scores, torch.tensor([0]), objective="error")
    assert found.item() == pytest.approx(stats.norm.sf(20.0 / math.sqrt(2.0)), rel=1e-12)


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


def test_genz_gradients_are_those_of_its_estimate():
    scores, labels = batch(2, 4)
    sigma = deviations((2, 4)).requires_grad_()
    scores.requires_grad_()

    def loss(scores, sigma):
        torch.manual_seed(3)
        return exact_loss(scores, labels, sigma, method="genz", n=64, reduction="none")

    assert gradcheck(loss, (scores, sigma), atol=1e-6)


@pytest.mark.parametrize("k", [1, 2, 3, 5, 9])
def test_topk_accuracy(k):
    scores, labels = batch()
    sigma = deviations((4, 5))
    found = expected_topk_accuracy(scores, labels, k, sigma, reduction="none")
    expected = mvnorth.prob_topk(scores.numpy(), sigma.numpy(), k)[np.arange(4), labels]
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-12)


def test_topk_accuracy_of_many_classes():
    scores, labels = batch(3, 1000, spread=1.0)
    found = expected_topk_accuracy(scores, labels, 5, reduction="none")
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
    expected = exact_loss((scores - scores.mean()) / scores.std(), labels)
    torch.testing.assert_close(exact_loss(scores, labels, normalize=True), expected)
    masked = torch.cat([scores, torch.full((4, 1), -math.inf, dtype=torch.float64)], 1)
    torch.testing.assert_close(exact_loss(masked, labels, normalize=True), expected)
    more = torch.cat([scores, 100.0 * scores[:1]])
    ignored = torch.cat([labels, torch.tensor([-100])])
    torch.testing.assert_close(exact_loss(more, ignored, normalize=True), expected)


def test_truncate_keeps_the_strongest():
    scores, labels = batch(classes=8)
    sigma = deviations((1, 8))
    found = exact_loss(scores, labels, sigma, truncate=3, reduction="none")
    for b, y in enumerate(labels.tolist()):
        order = [j for j in scores[b].argsort(descending=True).tolist() if j != y][:3]
        kept = [y, *order]
        own = exact_loss(scores[b : b + 1, kept], torch.tensor([0]), sigma[:, kept])
        torch.testing.assert_close(found[b], own)
    whole = exact_loss(scores, labels, sigma, reduction="none")
    assert (found < whole).all()
    every = exact_loss(scores, labels, sigma, truncate=7, reduction="none")
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
    assert exact_loss(scores, torch.full((4,), -100)).item() == 0.0


def test_relabelling_changes_nothing():
    scores, labels = batch()
    sigma = deviations((1, 5))
    order = torch.tensor([3, 1, 4, 0, 2])
    inverse = order.argsort()
    found = exact_loss(scores[:, order], inverse[labels], sigma[:, order])
    torch.testing.assert_close(found, exact_loss(scores, labels, sigma))


def test_no_rows():
    scores = torch.zeros(0, 5, requires_grad=True)
    labels = torch.zeros(0, dtype=torch.int64)
    assert exact_loss(scores, labels, reduction="none").shape == (0,)
    exact_loss(scores, labels).backward()
    assert argmax_probs(scores).shape == (0, 5)


# The ends of the range


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
        loss = exact_loss(given, labels, spread, objective=objective, reduction="none")
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
    loss = exact_loss(scores, labels, sigma, reduction="none")
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


# Autograd

CASES = [
    {},
    {"margin": 0.5},
    {"objective": "error"},
    {"normalize": True},
    {"truncate": 2},
    {"label_smoothing": 0.1},
]


@pytest.mark.parametrize("options", CASES, ids=str)
@pytest.mark.parametrize("shape", [None, (), (3, 1), (4,), (3, 4)], ids=str)
def test_derivatives(shape, options):
    scores, labels = batch(3, 4)
    scores.requires_grad_()
    sigma = deviations(shape)

    def loss(scores, *given):
        return exact_loss(scores, labels, *(given or (sigma,)), reduction="none", **options)

    inputs = (scores,) if shape is None else (scores, sigma.requires_grad_())
    assert gradcheck(loss, inputs)
    assert gradgradcheck(loss, inputs, fast_mode=True)


@pytest.mark.parametrize(
    "function", [argmax_probs, expected_topk_accuracy], ids=lambda f: f.__name__
)
@pytest.mark.parametrize("shape", [None, (3, 1), (3, 4)], ids=str)
def test_derivatives_of_probabilities(function, shape):
    scores, labels = batch(3, 4)
    scores.requires_grad_()
    sigma = deviations(shape)
    options = (labels, 2) if function is expected_topk_accuracy else ()

    def value(scores, *given):
        return function(scores, *options, *(given or (sigma,)))

    inputs = (scores,) if shape is None else (scores, sigma.requires_grad_())
    assert gradcheck(value, inputs)
    assert gradgradcheck(value, inputs, fast_mode=True)


@pytest.mark.parametrize("shape", SIGMA_SHAPES, ids=str)
@pytest.mark.parametrize("margin", [math.inf, 0.5])
def test_kernel_and_plain_torch_agree(shape, margin):
    scores, labels = batch(spread=5.0)
    sigma = per_entry(deviations(shape), *scores.shape)
    sigma = sigma if shape not in (None, ()) else sigma[:1, :1]
    for k in (1, 2):
        fast = _ops._operator(scores, labels, sigma, margin, k, 0, None, 2)
        plain = _ops._evaluate(_ops._plain_integral, scores, labels, sigma, margin, k, 0, None, 2)
        for a, b in zip(fast, plain, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-11)


def test_function_transforms():
    scores, labels = batch()
    _, expected = loss_and_gradient(scores, labels)
    one = torch.func.grad(lambda s, y: exact_loss(s[None], y[None]))
    torch.testing.assert_close(torch.func.vmap(one)(scores, labels), expected)
    per_row = torch.func.vmap(lambda s, y, t: exact_loss(s[None], y[None], t))
    sigma = deviations((4,))
    torch.testing.assert_close(
        per_row(scores, labels, sigma), exact_loss(scores, labels, sigma, reduction="none")
    )
    twice = torch.func.jacrev(torch.func.jacrev(lambda s: exact_loss(s, labels[:1])))
    hessian = twice(scores[:1])[0, :, 0]
    own = torch.autograd.functional.hessian(lambda s: exact_loss(s, labels[:1]), scores[:1])
    torch.testing.assert_close(hessian, own[0, :, 0])
    jacobian = torch.func.vmap(torch.func.jacrev(lambda s: argmax_probs(s[None])[0]))(scores)
    torch.testing.assert_close(jacobian, jacobian.mT)  # who gains is who the other loses to


def test_compiled_whole():
    scores, labels = batch()
    sigma = deviations((4, 1))

    def loss(scores, labels, sigma):
        options = {"margin": 1.0, "normalize": True, "truncate": 3, "ignore_index": 7}
        return exact_loss(scores, labels, sigma, **options)

    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    results = []
    for function in (loss, compiled):
        inputs = [scores.clone().requires_grad_(), sigma.clone().requires_grad_()]
        value = function(inputs[0], labels, inputs[1])
        value.backward()
        results.append([value.detach(), inputs[0].grad, inputs[1].grad])
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(a, b)
    plain = torch.compile(exact_loss, fullgraph=True, backend="aot_eager")
    with pytest.raises(ValueError, match=r"labels\[0\] = 9 is not a class"):
        plain(scores, torch.full((4,), 9), sigma)


@pytest.mark.parametrize(
    "call",
    [
        lambda s, y, t: (_ops._operator, (s, y, t[:1, :1], math.inf, 1, 0, None, 1)),
        lambda s, y, t: (_ops._operator, (s, y, t, 0.5, 1, 0, None, 2)),
        lambda s, y, t: (_ops._operator, (s, y, t, 0.5, 2, 0, None, 2)),
        lambda s, y, t: (_argmax._operator, (s, t)),
        lambda s, y, t: (_argmax._pull_operator, (s, t, s)),
    ],
    ids=["shared", "varied", "topk", "argmax", "argmax_backward"],
)
def test_operators_keep_their_word_to_torch(call):
    scores, labels = batch()
    torch.library.opcheck(*call(scores.requires_grad_(), labels, deviations((4, 5))))


def test_half_precision_and_autocast_are_computed_in_single():
    scores, labels = batch(dtype=torch.float32)
    half = scores.to(torch.bfloat16)
    found = exact_loss(half, labels)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, exact_loss(half.float(), labels))
    layer = torch.nn.Linear(5, 5)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output = layer(scores)
        loss = exact_loss(output, labels, normalize=True)
    assert output.dtype == torch.bfloat16
    assert loss.dtype == torch.float32
    loss.backward()
    assert torch.isfinite(layer.weight.grad).all()


@pytest.mark.parametrize("options", [{}, {"margin": 0.5}], ids=str)
def test_memory_is_at_most_three_tensors(options):
    scores, labels = batch(64, 1000, torch.float32)
    scores.requires_grad_()
    exact_loss(scores, labels).backward()
    scores.grad = None
    size, most = scores.numel() * 4, 0

    class Watch(torch.utils._python_dispatch.TorchDispatchMode):
        def __init__(self):
            super().__init__()
            self.live = {}

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            nonlocal most
            result = function(*args, **(kwargs or {}))
            for found in torch.utils._pytree.tree_leaves(result):
                if isinstance(found, torch.Tensor):
                    store = found.untyped_storage()
                    self.live[store.data_ptr()] = (
                        torch.multiprocessing.reductions.StorageWeakRef(store),
                        store.nbytes(),
                    )
            self.live = {k: v for k, v in self.live.items() if not v[0].expired()}
            own = scores.untyped_storage().data_ptr()
            most = max(most, sum(n for k, (_, n) in self.live.items() if k != own))
            return result

    with Watch():
        exact_loss(scores, labels, **options).backward()
    assert size <= most <= 3 * size + 100_000


# Wrong input


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"labels": torch.tensor([0, 1, 2, 5])}, ValueError, r"labels\[3\] = 5 is not a class"),
        ({"labels": torch.tensor([0, -1, 2, 3])}, ValueError, r"labels\[1\] = -1"),
        ({"labels": torch.zeros(3, dtype=torch.int64)}, ValueError, r"labels must be \(4,\)"),
        ({"labels": torch.zeros(4)}, TypeError, "whole numbers"),
        ({"scores": torch.zeros(4, 5, 2)}, ValueError, r"scores must be \(B, C\)"),
        ({"scores": torch.zeros(4, 1)}, ValueError, "C >= 2"),
        ({"scores": torch.zeros(4, 5, dtype=torch.int64)}, TypeError, "floating point"),
        ({"sigma": 0.0}, ValueError, "sigma must be"),
        ({"sigma": -1.0}, ValueError, "sigma must be"),
        ({"sigma": math.nan}, ValueError, "sigma must be"),
        ({"sigma": "1"}, TypeError, "sigma must be a number"),
        ({"sigma": torch.tensor([1.0, 1.0, 0.0, 1.0])}, ValueError, "sigma must be positive"),
        ({"sigma": torch.ones(3)}, ValueError, r"B = 4 and C = 5, got \(3,\)"),
        ({"margin": -0.1}, ValueError, "margin must be"),
        ({"margin": math.nan}, ValueError, "margin must be"),
        ({"truncate": 0}, ValueError, "truncate"),
        ({"n": 0}, ValueError, "n must be"),
        ({"objective": "accuracy"}, ValueError, "objective must be one of 'nll', 'error'"),
        ({"method": "sobol"}, ValueError, "method must be one of"),
        ({"reduction": "max"}, ValueError, "reduction must be one of"),
        ({"label_smoothing": 1.5}, ValueError, "label_smoothing must be"),
        ({"label_smoothing": 0.1, "truncate": 2}, ValueError, "truncate leaves some out"),
        ({"weight": torch.ones(4)}, ValueError, r"weight must be \(5,\)"),
    ],
    ids=str,
)
def test_wrong_input_is_named(change, error, message):
    scores, labels = batch(dtype=torch.float32)
    given = {"scores": scores, "labels": labels} | change
    with pytest.raises(error, match=message):
        exact_loss(**given)


def test_one_deviation_an_example_or_a_class():
    scores, _ = batch(5, 5)
    with pytest.raises(ValueError, match=r"give \(B, 1\) or \(1, C\)"):
        exact_loss(scores, torch.arange(5), torch.ones(5))


def test_no_second_derivative_of_an_estimate():
    scores, labels = batch()
    scores.requires_grad_()
    loss = exact_loss(scores, labels, method="genz")
    (grad,) = torch.autograd.grad(loss, scores, create_graph=True)
    with pytest.raises(NotImplementedError, match="use method='quadrature'"):
        grad.sum().backward()


# The module


def test_module_follows_its_schedules():
    scores, labels = batch()
    weight = torch.arange(1.0, 6.0, dtype=torch.float64)
    loss = ExactLoss(SigmaSchedule(10.0, 0.1), margin=lambda p: 1.0 - p, weight=weight)
    for progress, sigma, margin in ((0.0, 10.0, 1.0), (0.5, 1.0, 0.5)):
        loss.set_progress(progress)
        expected = exact_loss(scores, labels, sigma, margin=margin, weight=weight)
        torch.testing.assert_close(loss(scores, labels), expected)
    predicted = deviations((4, 1))
    expected = exact_loss(scores, labels, predicted, margin=0.5, weight=weight)
    torch.testing.assert_close(loss(scores, labels, predicted), expected)
    again = ExactLoss(SigmaSchedule(10.0, 0.1), margin=lambda p: 1.0 - p, weight=weight)
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
