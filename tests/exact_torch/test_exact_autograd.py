"""EXACT in the hands of autograd, of function transforms and of the compiler."""

import math

import pytest
import torch
from support.exact_batches import (
    DTYPES,
    SIGMA_SHAPES,
    batch,
    deviations,
    loss_and_gradient,
    per_entry,
)
from torch.autograd import gradcheck, gradgradcheck

from exact_torch import (
    ExactLoss,
    MarginSchedule,
    SigmaSchedule,
    _argmax,
    _ops,
    argmax_probs,
    exact_loss,
    expected_topk_accuracy,
)

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
        own = given[0] if given else sigma
        return exact_loss(scores, labels, sigma=own, reduction="none", **options)

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
        certain = fast[0] > math.log(1e-9) if k > 1 else slice(None)  # plain torch has no tails
        for a, b in zip(fast, plain, strict=True):
            torch.testing.assert_close(a[certain], b[certain], rtol=1e-9, atol=1e-11)


def test_function_transforms():
    scores, labels = batch()
    _, expected = loss_and_gradient(scores, labels)
    one = torch.func.grad(lambda s, y: exact_loss(s[None], y[None], sigma=1.0))
    torch.testing.assert_close(torch.func.vmap(one)(scores, labels), expected)
    per_row = torch.func.vmap(lambda s, y, t: exact_loss(s[None], y[None], sigma=t))
    sigma = deviations((4,))
    torch.testing.assert_close(
        per_row(scores, labels, sigma), exact_loss(scores, labels, sigma=sigma, reduction="none")
    )
    twice = torch.func.jacrev(torch.func.jacrev(lambda s: exact_loss(s, labels[:1])))
    hessian = twice(scores[:1])[0, :, 0]
    own = torch.autograd.functional.hessian(lambda s: exact_loss(s, labels[:1]), scores[:1])
    torch.testing.assert_close(hessian, own[0, :, 0])
    jacobian = torch.func.vmap(torch.func.jacrev(lambda s: argmax_probs(s[None])[0]))(scores)
    torch.testing.assert_close(jacobian, jacobian.mT)  # who gains is who the other loses to


@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_hessians_of_many_deviations():
    scores, _ = batch(1)
    label = torch.tensor([1])

    def hessian(sigma):
        return torch.func.jacrev(torch.func.jacrev(lambda s: exact_loss(s, label, sigma=sigma)))(
            scores
        )

    sigma = deviations((2, 1, 1))
    found = torch.func.vmap(hessian)(sigma)
    torch.testing.assert_close(found, torch.stack([hessian(each) for each in sigma]))


def test_compiled_whole():
    scores, labels = batch()
    sigma = deviations((4, 1))

    def loss(scores, labels, sigma):
        options = {"margin": 1.0, "normalize": True, "truncate": 3, "ignore_index": 7}
        return exact_loss(scores, labels, sigma=sigma, **options)

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
        plain(scores, torch.full((4,), 9), sigma=sigma)


def test_compiled_once_for_a_schedule():
    scores, labels = batch()
    loss = ExactLoss(sigma=SigmaSchedule(10.0, 0.1), margin=MarginSchedule(0.5))
    seen = []

    def backend(graph, example):
        seen.append(graph)
        return graph

    compiled = torch.compile(loss, fullgraph=True, backend=backend)
    for step in range(4):
        loss.set_progress(step / 4)
        torch.testing.assert_close(compiled(scores, labels), loss(scores, labels))
    assert len(seen) == 1


def test_compiled_with_a_number_that_changes():
    scores, labels = batch()
    compiled = torch.compile(exact_loss, fullgraph=True, backend="eager")
    for sigma in (1.0, 2.0, 3.0):
        found = compiled(scores, labels, sigma=sigma, margin=1.0 / sigma)
        torch.testing.assert_close(
            found, exact_loss(scores, labels, sigma=sigma, margin=1.0 / sigma)
        )


OPERATORS = {
    "shared": lambda s, y, t: (_ops._operator, (s, y, t[:1, :1], math.inf, 1, 0, None, 1)),
    "varied": lambda s, y, t: (_ops._operator, (s, y, t, 0.5, 1, 0, None, 2)),
    "topk": lambda s, y, t: (_ops._operator, (s, y, t, 0.5, 2, 0, None, 2)),
    "argmax": lambda s, y, t: (_argmax._operator, (s, t)),
    "argmax_backward": lambda s, y, t: (_argmax._pull_operator, (s, t, s)),
}


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(call, id=name, marks=[] if name in ("topk", "argmax") else pytest.mark.slow)
        for name, call in OPERATORS.items()
    ],
)
def test_operators_keep_their_word_to_torch(call):
    scores, labels = batch()
    torch.library.opcheck(*call(scores.requires_grad_(), labels, deviations((4, 5))))


def test_half_precision_and_autocast_are_computed_in_single():
    scores, labels = batch(dtype=torch.float32)
    half = scores.to(torch.bfloat16)
    found = exact_loss(half, labels)
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found, exact_loss(half.float(), labels).bfloat16(), rtol=0, atol=0)
    layer = torch.nn.Linear(5, 5)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output = layer(scores)
        loss = exact_loss(output, labels, normalize=True)
    assert output.dtype == torch.bfloat16
    assert loss.dtype == torch.float32
    loss.backward()
    assert torch.isfinite(layer.weight.grad).all()


@pytest.mark.parametrize("shape", [(), (4, 1), (1, 5)], ids=str)
def test_derivatives_in_sigma_are_single_under_autocast(shape):
    scores, labels = batch(dtype=torch.float32)
    slopes = []
    for enabled in (False, True):
        sigma = deviations(shape, torch.float32).requires_grad_()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled):
            exact_loss(scores, labels, sigma=sigma).backward()
        slopes.append(sigma.grad)
    torch.testing.assert_close(*slopes)


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


def test_genz_gradients_are_those_of_its_estimate():
    scores, labels = batch(2, 4)
    sigma = deviations((2, 4)).requires_grad_()
    scores.requires_grad_()

    def loss(scores, sigma):
        torch.manual_seed(3)
        return exact_loss(scores, labels, sigma=sigma, method="genz", n=64, reduction="none")

    assert gradcheck(loss, (scores, sigma), atol=1e-6)


def test_no_second_derivative_of_an_estimate():
    scores, labels = batch()
    scores.requires_grad_()
    loss = exact_loss(scores, labels, method="genz")
    (grad,) = torch.autograd.grad(loss, scores, create_graph=True)
    with pytest.raises(NotImplementedError, match="use method='quadrature'"):
        grad.sum().backward()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("score", [-1e2, -1e4, -1e8, -1e12])
def test_second_derivatives_of_scores_far_behind(score, dtype):
    """There log P = -|D mu|**2 / 2, and its second derivative the projection onto contrasts."""
    labels = torch.tensor([0])

    def loss(scores):
        return exact_loss(scores, labels, sigma=1.0)

    scores = torch.tensor([[score, 0.0, 0.25]], dtype=dtype)
    found = torch.func.jacrev(torch.func.jacrev(loss))(scores).view(3, 3)
    rounding = 4.0 * torch.finfo(dtype).eps
    torch.testing.assert_close(found, found.T, rtol=0.0, atol=rounding)
    assert found.sum(0).abs().max() < rounding
    limit = torch.eye(3, dtype=dtype) - 1.0 / 3.0
    torch.testing.assert_close(found, limit, rtol=0.0, atol=10.0 / score**2 + rounding)
    assert torch.func.jacrev(torch.func.jacrev(torch.func.jacrev(loss)))(scores).isfinite().all()


def test_second_derivatives_in_single_precision_are_those_of_double():
    labels = torch.tensor([1])
    for scale in (1.0, 30.0, 1e3):
        scores = (scale * torch.tensor([[0.3, -1.0, 0.5, 0.45]])).requires_grad_()
        sigma = torch.tensor([[1.0, 0.7, 2.0, 1.5]], requires_grad=True)
        found = []
        for dtype in (torch.float32, torch.float64):
            given = scores.detach().to(dtype), sigma.detach().to(dtype)
            once = torch.func.jacrev(lambda s, t: exact_loss(s, labels, sigma=t), (0, 1))
            hessian = torch.func.jacrev(once, (0, 1))(*given)
            found.append([part.double() for row in hessian for part in row])
        for single, double in zip(*found, strict=True):
            largest = double.abs().max().item()
            torch.testing.assert_close(single, double, rtol=0.0, atol=2e-6 * largest)
