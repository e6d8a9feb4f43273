"""ASAM: steps by hand, weights back to the bit, and what it must not disturb."""

import copy
import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from exact_torch.models import SynchronizedBatchNorm
from exact_torch.optim import Asam


def one_layer(weight, gradient, bias=None, bias_gradient=0.0):
    layer = nn.Linear(len(weight), 1, bias=bias is not None, dtype=torch.float64)
    layer.weight.data[:] = torch.tensor(weight)
    layer.weight.grad = torch.tensor([gradient], dtype=torch.float64)
    if bias is not None:
        layer.bias.data.fill_(bias)
        layer.bias.grad = torch.full((1,), bias_gradient, dtype=torch.float64)
    return layer


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3, bias=False))


def data(n=16):
    generator = torch.Generator().manual_seed(1)
    return torch.randn(n, 6, generator=generator), torch.arange(n) % 3


def accumulate(model, parts):
    x, y = data()
    for some_x, some_y in zip(x.double().chunk(parts), y.chunk(parts), strict=True):
        (F.cross_entropy(model(some_x), some_y) / parts).backward()


def bits(model):
    return {name: value.clone() for name, value in model.state_dict().items()}


def same(one, two):
    return all(torch.equal(one[name], two[name]) for name in one)


def test_weights_move_by_hand():
    """T = |w| + eta for the weights, 1 for the bias: rho T^2 g / |T g|."""
    layer = one_layer([2.0, -1.0], [1.0, 3.0], bias=5.0, bias_gradient=2.0)
    with Asam(layer, rho=0.5, eta=0.5).perturbed():
        norm = math.sqrt((2.5 * 1) ** 2 + (1.5 * 3) ** 2 + 2.0**2)
        assert layer.weight[0].tolist() == pytest.approx(
            [2 + 0.5 * 2.5**2 * 1 / norm, -1 + 0.5 * 1.5**2 * 3 / norm], rel=1e-14
        )
        assert layer.bias.item() == pytest.approx(5 + 0.5 * 2 / norm, rel=1e-14)
    assert layer.weight.tolist() == [[2.0, -1.0]]


def test_sam_moves_by_rho_along_the_gradient():
    layer = one_layer([2.0, -1.0], [3.0, 4.0])
    with Asam(layer, rho=0.05, adaptive=False).perturbed():
        assert layer.weight[0].tolist() == pytest.approx([2.03, -0.96], rel=1e-14)


def test_descends_a_quadratic_with_the_gradient_of_the_perturbed_point():
    """f = a w^2 / 2 in one dimension: the gradient there is a (w + rho (|w| + eta) sign(w))."""
    a, rho, eta, lr = 3.0, 0.5, 0.01, 0.1
    layer = one_layer([2.0], [0.0])
    optimizer, asam = torch.optim.SGD(layer.parameters(), lr=lr), Asam(layer, rho, eta)
    expected = 2.0
    for _ in range(5):
        optimizer.zero_grad()
        (0.5 * a * layer.weight.square()).sum().backward()
        with asam.perturbed():
            optimizer.zero_grad()
            (0.5 * a * layer.weight.square()).sum().backward()
        optimizer.step()
        expected -= lr * a * (expected + rho * (abs(expected) + eta) * math.copysign(1, expected))
        assert layer.weight.item() == pytest.approx(expected, rel=1e-13)


def test_the_scale_of_gradients_does_not_matter():
    moved = []
    for factor in (1.0, 65536.0):
        layer = one_layer([2.0, -1.0], [1.0 * factor, 3.0 * factor])
        with Asam(layer).perturbed():
            moved.append(layer.weight.detach().clone())
    assert torch.equal(*moved)  # the factor is a power of 2


def test_everything_comes_back_to_the_bit():
    model, (x, y) = network(), data()
    F.cross_entropy(model(x), y).backward()
    before = bits(model)
    with Asam(model, rho=3.0).perturbed():
        assert not torch.equal(model[0].weight, before["0.weight"])
        model.zero_grad()
        F.cross_entropy(model(x), y).backward()  # would move the running statistics
    assert same(before, bits(model))
    assert model[0].weight.grad.any()


def test_everything_comes_back_after_an_exception():
    model, (x, y) = network(), data()
    F.cross_entropy(model(x), y).backward()
    before = bits(model)
    with pytest.raises(RuntimeError), Asam(model).perturbed():
        model(x.T)  # a shape it does not take
    assert same(before, bits(model))


def test_statistics_of_synchronised_batch_norm_come_back_too():
    model = nn.Sequential(SynchronizedBatchNorm(6), nn.Linear(6, 3))
    x, y = data()
    F.cross_entropy(model(x), y).backward()
    before = bits(model)
    with Asam(model).perturbed():
        model(x)
        assert model[0].num_batches_tracked == 2
    assert same(before, bits(model))


@pytest.mark.parametrize("value", [math.nan, math.inf, 0.0])
def test_gradients_that_cannot_be_used_move_nothing(value):
    layer = one_layer([2.0, -1.0], [value, 0.0])
    with Asam(layer).perturbed():
        assert layer.weight.tolist() == [[2.0, -1.0]]


def test_parameters_without_a_gradient_stay():
    layer = one_layer([2.0], [1.0], bias=5.0)
    layer.bias.grad = None
    with Asam(layer).perturbed():
        assert layer.bias.item() == 5.0
        assert layer.weight.item() != 2.0
    layer.weight.grad = None
    with Asam(layer).perturbed():
        assert layer.weight.item() == 2.0


def test_micro_batches_do_what_one_batch_does():
    """Gradients accumulated over parts of a batch; with batch norm parts would see other means."""
    results = []
    for parts in (1, 2, 4):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3)).double()
        optimizer, asam = torch.optim.SGD(model.parameters(), 0.1, 0.9), Asam(model)
        for _ in range(3):
            optimizer.zero_grad()
            accumulate(model, parts)
            with asam.perturbed():
                optimizer.zero_grad()
                accumulate(model, parts)
            optimizer.step()
        results.append(torch.cat([p.detach().flatten() for p in model.parameters()]))
    torch.testing.assert_close(results[1], results[0], rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(results[2], results[0], rtol=1e-12, atol=1e-14)


def test_bfloat16_autocast_is_near_single_precision():
    model, (x, y) = network(), data()
    other = copy.deepcopy(model)
    F.cross_entropy(model(x), y).backward()
    with torch.autocast("cpu", torch.bfloat16):
        F.cross_entropy(other(x), y).backward()
    with Asam(model).perturbed(), Asam(other).perturbed():
        for one, two in zip(model.parameters(), other.parameters(), strict=True):
            assert two.dtype == torch.float32
            torch.testing.assert_close(two, one, rtol=0.02, atol=0.02)


def test_half_precision_weights_move_by_the_norm_in_single():
    """Squares of gradients of 1000 do not fit into half precision."""
    layer = nn.Linear(2, 1, bias=False, dtype=torch.float16)
    layer.weight.data[:] = 1.0
    layer.weight.grad = torch.full((1, 2), 1000.0, dtype=torch.float16)
    with Asam(layer, rho=1.0, adaptive=False).perturbed():
        assert layer.weight[0].tolist() == pytest.approx([1.7071, 1.7071], rel=1e-3)


def test_a_scaler_skips_what_overflowed_and_weights_stay():
    model, (x, y) = network(), data()
    optimizer, asam = torch.optim.SGD(model.parameters(), lr=0.1), Asam(model)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**127)
    before = bits(model)
    for _ in range(2):
        optimizer.zero_grad()
        scaler.scale(F.cross_entropy(model(x), y) * 1e3).backward()
        with asam.perturbed():
            optimizer.zero_grad()
            scaler.scale(F.cross_entropy(model(x), y) * 1e3).backward()
        scaler.step(optimizer)
        scaler.update()
    assert all(torch.equal(p, before[name]) for name, p in model.named_parameters())


def test_a_step_inside_is_reported_and_taken_back():
    model, (x, y) = network(), data()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    F.cross_entropy(model(x), y).backward()
    before = bits(model)
    with pytest.raises(RuntimeError, match="step the optimiser after"), Asam(model).perturbed():
        optimizer.step()
    assert same(before, bits(model))


def test_what_does_not_fit_raises():
    with pytest.raises(TypeError, match=r"model must be an nn\.Module, got list"):
        Asam([nn.Parameter(torch.zeros(1))])
    with pytest.raises(ValueError, match="rho must be"):
        Asam(nn.Linear(1, 1), rho=-1.0)
    with pytest.raises(ValueError, match="eta must be"):
        Asam(nn.Linear(1, 1), eta=-1.0)
    table = nn.Embedding(4, 2, sparse=True)
    table(torch.tensor([1])).sum().backward()
    with pytest.raises(TypeError, match="must be dense, that of weight"), Asam(table).perturbed():
        pass
