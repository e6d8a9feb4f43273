"""Gradient normalisation: averages by hand, where it hooks in, and what it leaves alone."""

import math

import pytest
import torch
from torch import nn

from exact_torch.grad_norm import GradientNormalizer


def parameter(*gradient, dtype=torch.float32):
    p = nn.Parameter(torch.zeros(len(gradient), dtype=dtype))
    p.grad = torch.tensor(gradient, dtype=dtype)
    return p


def test_averages_by_hand():
    one, two = parameter(3.0, dtype=torch.float64), parameter(0.0, 4.0, dtype=torch.float64)
    normalizer = GradientNormalizer([one, two], decay=0.9)
    assert normalizer.average.isnan()
    assert normalizer().item() == 5.0  # the first norm is the average
    assert one.grad.tolist() + two.grad.tolist() == [0.6, 0.0, 0.8]
    one.grad.fill_(15.0)
    two.grad.zero_()
    assert normalizer().item() == 15.0
    assert normalizer.average.item() == pytest.approx(0.9 * 5.0 + 0.1 * 15.0)  # 6
    assert one.grad.item() == pytest.approx(2.5)
    one.grad.fill_(0.0)
    normalizer()
    assert normalizer.average.item() == pytest.approx(5.4)
    assert one.grad.item() == 0.0


def test_floor_holds_the_divisor_but_not_the_average():
    p = parameter(1e-3)
    normalizer = GradientNormalizer([p])
    normalizer()
    assert p.grad.item() == pytest.approx(0.1)
    assert normalizer.average.item() == pytest.approx(1e-3)


def test_without_decay_every_gradient_has_norm_one():
    p = parameter(3.0, 4.0)
    normalizer = GradientNormalizer([p], decay=0.0)
    for _ in range(2):
        p.grad.mul_(100.0)
        normalizer()
        assert p.grad.norm().item() == pytest.approx(1.0)


def test_parameters_without_gradient_are_left_out():
    used, unused = parameter(2.0), nn.Parameter(torch.zeros(3))
    assert GradientNormalizer([unused, used])().item() == 2.0
    assert unused.grad is None
    assert used.grad.item() == 1.0


def test_no_gradient_at_all_moves_nothing():
    normalizer = GradientNormalizer([nn.Parameter(torch.zeros(3))])
    assert normalizer().item() == 0.0
    assert normalizer.average.isnan()


def test_shared_parameters_are_divided_once():
    p = parameter(3.0, 4.0)
    assert GradientNormalizer([p, p])().item() == 5.0
    assert p.grad.norm().item() == pytest.approx(1.0)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_norms_that_are_not_finite_move_nothing(bad):
    p = parameter(3.0, 4.0)
    normalizer = GradientNormalizer([p])
    p.grad = torch.tensor([bad, 8.0])
    normalizer()  # even as the first
    assert normalizer.average.isnan()
    p.grad = torch.tensor([3.0, 4.0])
    normalizer()
    p.grad = torch.tensor([bad, 8.0])
    normalizer()
    assert normalizer.average.item() == 5.0
    assert p.grad[1].item() == 8.0
    assert not p.grad[0].isfinite()


@pytest.mark.parametrize("source", ["module", "optimizer", "generator"])
def test_sources(source):
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    optimizer = torch.optim.SGD(
        [{"params": model[0].parameters()}, {"params": model[1].parameters(), "lr": 0.1}], lr=1.0
    )
    normalizer = GradientNormalizer(
        {"module": model, "optimizer": optimizer, "generator": model.parameters()}[source]
    )
    model(torch.ones(5, 3)).square().sum().backward()
    gradients = [p.grad.clone() for p in model.parameters()]
    norm = torch.cat([g.flatten() for g in gradients]).norm()
    torch.testing.assert_close(normalizer(), norm)
    for p, gradient in zip(model.parameters(), gradients, strict=True):
        torch.testing.assert_close(p.grad, gradient / norm)


def test_groups_added_to_an_optimizer_count():
    one, two = parameter(3.0), parameter(4.0)
    optimizer = torch.optim.SGD([one], lr=1.0)
    normalizer = GradientNormalizer(optimizer)
    optimizer.add_param_group({"params": [two]})
    assert normalizer().item() == 5.0


def test_attached_it_is_part_of_the_step():
    p = parameter(3.0, 4.0)
    optimizer = torch.optim.SGD([p], lr=1.0)
    normalizer = GradientNormalizer([p]).attach(optimizer)
    optimizer.step()
    torch.testing.assert_close(p.detach(), torch.tensor([-0.6, -0.8]))
    with pytest.raises(RuntimeError, match="attached already"):
        normalizer.attach(optimizer)
    normalizer.detach()
    normalizer.detach()  # twice is no harm
    p.grad = torch.tensor([3.0, 4.0])
    optimizer.step(None)
    torch.testing.assert_close(p.detach(), torch.tensor([-3.6, -4.8]))
    assert normalizer.average.item() == 5.0
    normalizer.attach(optimizer)
    optimizer.step(closure=None)
    assert p.grad.norm().item() == pytest.approx(1.0)


def test_a_closure_has_to_call_it_itself():
    p = nn.Parameter(torch.zeros(2))
    optimizer = torch.optim.SGD([p], lr=1.0)
    normalizer = GradientNormalizer([p]).attach(optimizer)

    def closure():
        optimizer.zero_grad()
        loss = (p * torch.tensor([3.0, 4.0])).sum()
        with torch.enable_grad():
            loss.backward()
        normalizer()
        return loss

    for call in (lambda: optimizer.step(closure), lambda: optimizer.step(closure=closure)):
        with pytest.raises(RuntimeError, match="call it as the closure's last line"):
            call()
    normalizer.detach()
    optimizer.step(closure)
    torch.testing.assert_close(p.detach(), torch.tensor([-0.6, -0.8]))


@pytest.mark.parametrize("unscale", [False, True])
@pytest.mark.parametrize("fused", [False, True])
def test_with_a_grad_scaler(fused, unscale):
    p = nn.Parameter(torch.zeros(2))
    optimizer = torch.optim.SGD([p], lr=1.0, fused=fused)
    normalizer = GradientNormalizer([p]).attach(optimizer)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    scaler.scale((p * torch.tensor([3.0, 4.0])).sum()).backward()
    if unscale:
        scaler.unscale_(optimizer)
    if fused and not unscale:  # the scale would be in the average, and removed once more
        with pytest.raises(RuntimeError, match=r"scaler.unscale_\(optimizer\)"):
            scaler.step(optimizer)
        return
    scaler.step(optimizer)
    assert normalizer.average.item() == 5.0
    torch.testing.assert_close(p.detach(), torch.tensor([-0.6, -0.8]))
    scaler.update()
    scaler.scale((p * math.inf).sum()).backward()
    scaler.unscale_(optimizer)
    scaler.step(optimizer)  # skipped
    assert normalizer.average.item() == 5.0


def test_half_precision_gradients_have_a_finer_average():
    p = parameter(*[1.0] * 4, dtype=torch.bfloat16)
    normalizer = GradientNormalizer([p], decay=0.999)
    normalizer()
    for _ in range(10):
        p.grad.fill_(2.0)
        normalizer()
    assert normalizer.average.dtype == torch.float32
    assert normalizer.average.item() == pytest.approx(4.0 - 2.0 * 0.999**10, rel=1e-6)
    assert p.grad.dtype == torch.bfloat16


def test_mixed_precisions_together():
    parts = [parameter(3.0), parameter(4.0, dtype=torch.float64)]
    normalizer = GradientNormalizer(parts)
    assert normalizer().item() == 5.0
    assert [p.grad.item() for p in parts] == pytest.approx([0.6, 0.8])


def test_gradients_with_a_graph():
    p = nn.Parameter(torch.tensor([3.0, 4.0]))
    (p.grad,) = torch.autograd.grad(p.square().sum() / 2, p, create_graph=True)
    assert GradientNormalizer([p])().item() == 5.0
    torch.testing.assert_close(p.grad.detach(), torch.tensor([0.6, 0.8]))
    assert "Div" not in p.grad.grad_fn.name() + str(p.grad.grad_fn.next_functions)


def test_the_host_reads_nothing_back():
    """Reading one would wait for a GPU; on the meta device, where there is none, it raises."""
    p = nn.Parameter(torch.zeros(2, device="meta"))
    p.grad = torch.zeros(2, device="meta")
    normalizer = GradientNormalizer([p])
    for _ in range(2):
        normalizer()
    assert normalizer.average.device.type == "meta"


def test_state_goes_through_a_checkpoint():
    p = parameter(3.0, 4.0)
    normalizer = GradientNormalizer([p])
    normalizer()
    state = normalizer.state_dict()
    p.grad = torch.tensor([30.0, 40.0])
    normalizer()
    assert state["average"].item() == 5.0  # a state is not moved by later steps
    other = GradientNormalizer([p])
    other.load_state_dict(state)
    p.grad = torch.tensor([30.0, 40.0])
    other()
    assert torch.equal(other.average, normalizer.average)


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({}, "a tensor named 'average' only, got"),
        ({"average": torch.ones(()), "x": 1}, "a tensor named 'average' only, got"),
        ({"average": 1.0}, "a tensor named 'average' only"),
        ({"average": torch.ones(2)}, r"must be \(\), got \(2,\)"),
    ],
)
def test_wrong_states(state, message):
    with pytest.raises(ValueError, match=message):
        GradientNormalizer([parameter(1.0)]).load_state_dict(state)


def test_sparse_gradients_are_refused_before_anything_moves():
    dense, embedding = parameter(3.0), nn.Embedding(4, 2, sparse=True)
    embedding(torch.tensor([1])).sum().backward()
    normalizer = GradientNormalizer([dense, embedding.weight])
    with pytest.raises(TypeError, match="gradients must be dense"):
        normalizer()
    assert dense.grad.item() == 3.0
    assert normalizer.average.isnan()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"decay": 1.0}, r"decay must be a finite number >= 0 and < 1, got 1.0"),
        ({"decay": -0.1}, r"decay must be a finite number >= 0 and < 1, got -0.1"),
        ({"decay": math.nan}, r"decay must be a finite number >= 0 and < 1, got nan"),
        ({"floor": 0.0}, "floor must be a finite number > 0, got 0.0"),
        ({"source": []}, "source must hold at least one parameter"),
    ],
)
def test_wrong_values(arguments, message):
    with pytest.raises(ValueError, match=message):
        GradientNormalizer(**{"source": [parameter(1.0)], **arguments})


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (3, "source must be a module, an optimiser or parameters, got int"),
        (torch.zeros(2), "source must be a module, an optimiser or parameters, got Tensor"),
        (["weight"], "source must hold parameters only, got a str"),
    ],
)
def test_wrong_sources(source, message):
    with pytest.raises(TypeError, match=message):
        GradientNormalizer(source)
