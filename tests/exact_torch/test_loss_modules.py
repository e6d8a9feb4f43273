"""Losses with a state or a choice: mixing schedules, complement steps, draws, a learned prior."""

import math

import pytest
import torch
from torch import nn

from exact_torch import losses
from exact_torch.losses.mixing import SCHEDULES, focus, weights


def batch(seed=0, rows=6, classes=4, scale=2.0):
    generator = torch.Generator().manual_seed(seed)
    logits = scale * torch.randn(rows, classes, dtype=torch.float64, generator=generator)
    return logits, torch.randint(classes, (rows,), generator=generator)


def gradient(loss, logits, labels):
    logits = logits.clone().requires_grad_()
    return torch.autograd.grad(loss(logits, labels).sum(), logits)[0]


# F, alpha and beta of epochs that are one in twenty or in twelve, as the paper's text has them.
PUBLISHED = {
    "0": [(epoch / 20, 1.0, 1.0) for epoch in range(20)],
    "0,0.5": [(epoch / 20, 1.0, 1.0) for epoch in range(19)] + [(19 / 20, 0.0, 1.0)],
    "0-0.5": [
        (epoch / 12, *pair)
        for epoch, pair in enumerate(
            2 * [(1.0, 1.0)]
            + 2 * [(1.0, 1.25)]
            + 2 * [(1.0, 5 / 3)]
            + 2 * [(1.0, 2.5)]
            + 2 * [(1.0, 5.0)]
            + 2 * [(0.0, 1.0)]
        )
    ],
}


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_schedules_of_mixing(schedule):
    logits, labels = batch()
    loss = losses.get("ce_el", schedule=schedule, reduction="none")
    assert PUBLISHED.keys() == SCHEDULES.keys()
    for progress, alpha, beta in PUBLISHED[schedule]:
        assert weights(focus(schedule, progress)) == pytest.approx((alpha, beta), rel=1e-14)
        loss.set_progress(progress)
        mixed = alpha * losses.ce(logits, labels) + beta * losses.expectation(logits, labels)
        torch.testing.assert_close(loss(logits, labels), mixed, rtol=1e-14, atol=0)
    loss.set_progress(1.0)  # after the last epoch
    assert (loss.options["alpha"], loss.options["beta"]) == pytest.approx(
        PUBLISHED[schedule][-1][1:], rel=1e-14
    )


@pytest.mark.parametrize("epochs", [6, 30, 90, 240, 97])
def test_phases_begin_on_their_epoch(epochs):
    found = [focus("0-0.5", epoch / epochs) for epoch in range(epochs)]
    assert found == [(6 * epoch // epochs) / 10 for epoch in range(epochs)]
    last = [focus("0,0.5", epoch / epochs) for epoch in range(epochs)]
    assert last == [0.5 if 20 * epoch >= 19 * epochs else 0.0 for epoch in range(epochs)]


def test_the_gradient_is_largest_at_the_focus():
    # |d(alpha CE + beta EL)/dz_y| over p_y, for two classes; F < 1/2 says where its maximum is.
    p = torch.linspace(0.0005, 0.9995, 1000, dtype=torch.float64)
    logits = torch.stack([p.log(), torch.log1p(-p)], 1)
    labels = torch.zeros(1000, dtype=torch.int64)
    for f in (0.1, 0.2, 0.3, 0.4, 0.5):
        alpha, beta = weights(f)
        slope = gradient(lambda z, y: losses.ce_el(z, y, alpha, beta), logits, labels)  # noqa: B023
        assert p[slope[:, 0].abs().argmax()].item() == pytest.approx(f, abs=1e-3)


def test_progress_and_schedules_are_checked():
    loss = losses.get("ce_el")
    for progress in (-0.1, 1.1, math.nan):
        with pytest.raises(ValueError, match="progress"):
            loss.set_progress(progress)
    with pytest.raises(ValueError, match="schedule must be one of"):
        focus("0.5", 0.0)
    with pytest.raises(ValueError, match="focus"):
        weights(0.6)


def test_weights_of_mixing_given():
    logits, labels = batch()
    loss = losses.get("ce_el", beta=3.0)
    loss.set_progress(0.99)  # has nothing to say
    expected = (losses.ce(logits, labels) + 3 * losses.expectation(logits, labels)).mean()
    torch.testing.assert_close(loss(logits, labels), expected)


@pytest.mark.parametrize("name", ["expectation", "ce_el"])
def test_hard_error_with_the_soft_gradient(name):
    logits, labels = batch()
    labels[:3] = logits[:3].argmax(1)  # right
    labels[3:] = logits[3:].argmin(1)  # wrong
    soft, hard = (losses.get(name, hard=h, reduction="none") for h in (False, True))
    rest = losses.ce(logits, labels) if name == "ce_el" else torch.zeros(6, dtype=torch.float64)
    error = torch.tensor([0, 0, 0, 1, 1, 1], dtype=torch.float64)
    torch.testing.assert_close(hard(logits, labels), rest + error, rtol=1e-15, atol=0)
    expected = gradient(soft, logits, labels)
    torch.testing.assert_close(gradient(hard, logits, labels), expected, rtol=1e-14, atol=1e-16)


def test_phases():
    for name in losses.names():
        loss = losses.get(name, reduction="sum")
        if name == "cot":
            assert [p.function for p in loss.phases] == [losses.ce, losses.complement]
            assert {p.reduction for p in loss.phases} == {"sum"}
        else:
            assert loss.phases == (loss,)


def test_complement_steps():
    """A step on each phase: the first raises p_y, the second evens out the others, in one batch."""
    logits, labels = batch(rows=1)
    loss = losses.get("cot", normalised=True)
    z = nn.Parameter(logits.clone())
    optimiser = torch.optim.SGD([z], lr=0.1)
    seen = []
    for phase in loss.phases:
        before = [p(z, labels).item() for p in loss.phases]
        optimiser.zero_grad()
        phase(z, labels).backward()
        optimiser.step()
        seen.append([p(z, labels).item() - b for p, b in zip(loss.phases, before, strict=True)])
    assert seen[0][0] < 0
    assert seen[1][1] < 0
    even = losses.complement(torch.zeros(1, 4), torch.tensor([2]))
    assert even.item() == pytest.approx(-math.log(3))
    assert (gradient(losses.complement, logits, labels)[0, labels] == 0).all()
    torch.testing.assert_close(
        losses.complement(logits, labels, normalised=True), losses.complement(logits, labels) / 3
    )


def test_two_classes_have_no_complement():
    logits, labels = batch(classes=2, scale=100.0)
    assert (losses.complement(logits, labels) == 0).all()
    assert (gradient(losses.complement, logits, labels) == 0).all()


@pytest.mark.parametrize("prior", [None, [8.0, 4.0, 2.0, 1.0]])
def test_draws_of_noise(prior):
    logits, labels = batch(rows=2)
    full = losses.nce(logits, labels, prior=prior, t=3.0)
    generator = torch.Generator().manual_seed(1)
    count = 40_000
    drawn = losses.nce(logits, labels, prior=prior, t=3.0, draws=count, generator=generator)
    q = torch.tensor(prior or [1.0] * 4, dtype=torch.float64)
    q /= q.sum()
    noise = torch.log1p(logits.exp() / (3.0 * q))
    spread = ((q * noise**2).sum(1) - (q * noise).sum(1) ** 2).sqrt()
    assert ((drawn - full).abs() < 4 * 3.0 * spread / count**0.5).all()
    generator.manual_seed(1)
    again = losses.nce(logits, labels, prior=prior, t=3.0, draws=count, generator=generator)
    assert torch.equal(drawn, again)
    other = losses.nce(logits, labels, prior=prior, t=3.0, draws=count, generator=generator)
    assert not torch.equal(drawn, other)
    # All classes as often as q says, given: no estimate any more.
    often = torch.tensor(prior or [1, 1, 1, 1]).long()
    given = torch.arange(4).repeat_interleave(often)
    torch.testing.assert_close(losses.nce(logits, labels, prior=prior, t=3.0, draws=given), full)
    each = given.expand(2, -1)
    torch.testing.assert_close(losses.nce(logits, labels, prior=prior, t=3.0, draws=each), full)


def test_noise_is_proportional_to_the_prior():
    logits, labels = batch()
    counts = [80, 40, 20, 10]
    torch.testing.assert_close(
        losses.nce(logits, labels, prior=counts), losses.nce(logits, labels, prior=[8, 4, 2, 1])
    )


def test_uniform_noise_a_class_is_binary_cross_entropy_and_the_true_class_once_more():
    logits, labels = batch()
    own = logits.gather(1, labels[:, None])[:, 0]
    expected = losses.bce(logits, labels) + nn.functional.softplus(own)
    torch.testing.assert_close(losses.nce(logits, labels, t=4.0), expected)


def test_tensors_among_options_move_with_the_module():
    loss = losses.get("nce", prior=torch.tensor([8.0, 4.0, 2.0, 1.0]))
    assert [name for name, _ in loss.named_buffers()] == ["option_prior"]
    assert loss.to(torch.float64).options["prior"].dtype == torch.float64
    assert loss.state_dict() == {}


def test_learned_prior():
    logits, labels = batch()
    loss = losses.get("beta_bernoulli", prior_weight=0.25, theta=0.75, learned=True).double()
    fixed = losses.get("beta_bernoulli", prior_weight=0.25, theta=0.75)
    torch.testing.assert_close(loss(logits, labels), fixed(logits, labels), rtol=1e-7, atol=0)
    assert sorted(dict(loss.named_parameters())) == ["prior.prior_weight", "prior.theta"]
    assert not list(fixed.parameters())
    before = loss(logits, labels)
    before.backward()
    with torch.no_grad():
        for value in loss.parameters():
            value -= 0.1 * value.grad
    assert loss(logits, labels) < before


def test_batch_losses_of_separated_logits():
    labels = torch.tensor([0, 1])
    apart = torch.tensor([[40.0, -40.0], [-40.0, 40.0]], dtype=torch.float64)
    assert losses.batch_ce(apart, labels).abs() < 1e-15
    assert losses.batch_max_margin(apart, labels) == 0
    # As good for each example alone, not for the batch.
    shifted = apart + torch.tensor([[60.0], [-60.0]], dtype=torch.float64)
    assert losses.ce(shifted, labels).max() < 1e-30
    assert losses.batch_ce(shifted, labels) > 50
    assert losses.batch_max_margin(shifted, labels) > 20


def test_batch_cross_entropy_keeps_its_gradient_where_q_is_tiny():
    # Q of the second example is exp(-100): with 1e-6 added in the logarithm nothing would be left.
    logits = torch.tensor([[50.0, 0.0], [0.0, -50.0]])
    slope = gradient(losses.batch_ce, logits, torch.tensor([0, 1]))
    assert slope[1, 1].item() == pytest.approx(-0.5)
