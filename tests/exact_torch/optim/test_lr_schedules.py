"""Learning rates: against torch's own schedulers and closed forms; checkpoints go on the same."""

import io
import math

import pytest
import torch
from torch.optim import lr_scheduler

from exact_torch.optim import lr_schedule


def optimizer(*rates):
    groups = [{"params": [torch.nn.Parameter(torch.zeros(1))], "lr": rate} for rate in rates]
    return torch.optim.SGD(groups, lr=1.0)


def rates_of(name, epochs, lr=0.5, metrics=None, **options):
    one = optimizer(lr)
    schedule = lr_schedule(name, one, epochs, **options)
    return walk(one, schedule, metrics or [None] * epochs)


def walk(one, schedule, metrics):
    """The rates of the epochs that end with these metrics."""
    rates = []
    for metric in metrics:
        rates.append(one.param_groups[0]["lr"])
        one.step()
        schedule.step(metric)
    return rates


def torchs(make, epochs, lr=0.5):
    one = optimizer(lr)
    scheduler, rates = make(one), []
    for _ in range(epochs):
        rates.append(one.param_groups[0]["lr"])
        one.step()
        scheduler.step()
    return rates


def test_constant():
    assert rates_of("constant", 3) == [0.5] * 3


def test_exponential_ends_at_its_final_rate():
    rates = rates_of("exponential", 16, lr=0.1, final=1e-4)
    assert rates[0] == 0.1
    assert rates[-1] == pytest.approx(1e-4, rel=1e-12)
    gamma = 1e-3 ** (1 / 15)
    assert rates == pytest.approx(torchs(lambda o: lr_scheduler.ExponentialLR(o, gamma), 16, 0.1))
    assert rates_of("exponential", 1) == [0.5]


def test_multistep_in_epochs_and_in_parts():
    expected = torchs(lambda o: lr_scheduler.MultiStepLR(o, [12, 16, 20]), 24)
    assert rates_of("multistep", 24, milestones=[12, 16, 20]) == pytest.approx(expected)
    parts = [0.5, 2 / 3, 5 / 6]
    assert rates_of("multistep", 24, milestones=parts) == pytest.approx(expected)
    assert rates_of("multistep", 2, milestones=[1], gamma=0.5) == [0.5, 0.25]


def test_cosine():
    expected = torchs(lambda o: lr_scheduler.CosineAnnealingLR(o, 10, eta_min=0.01), 10)
    assert rates_of("cosine", 10, final=0.01) == pytest.approx(expected)
    warm = rates_of("cosine", 12, warmup=2, final=0.01)
    assert warm[:2] == pytest.approx([0.5 / 3, 1.0 / 3])
    assert warm[2:] == pytest.approx(expected)


def test_plateau_waits_for_its_patience_and_knows_its_direction():
    metrics = [0.1, 0.2, 0.2, 0.2, 0.2, 0.2, 0.3]
    rates = rates_of("plateau", 7, metrics=metrics, patience=1, factor=0.3)
    assert rates == pytest.approx([0.5, 0.5, 0.5, 0.5, 0.15, 0.15, 0.045])
    falling = [-each for each in metrics]
    assert rates_of("plateau", 7, metrics=falling, patience=1, mode="min") == pytest.approx(rates)
    stuck = rates_of("plateau", 40, metrics=[0.5] * 40)  # the default patience, 10
    assert stuck[:12] == [0.5] * 12
    assert stuck[12] == pytest.approx(0.15)
    assert min(rates_of("plateau", 9, metrics=[1.0] * 9, patience=0, final=0.2)) == 0.2


def test_groups_keep_their_ratio():
    one = optimizer(0.5, 0.05)
    schedule = lr_schedule("exponential", one, 3, final=0.005)
    for _ in range(2):
        one.step()
        schedule.step()
    assert [group["lr"] for group in one.param_groups] == pytest.approx([0.005, 0.0005])


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("constant", {}),
        ("plateau", {"patience": 1}),
        ("exponential", {}),
        ("multistep", {"milestones": [2, 0.7]}),
        ("cosine", {"warmup": 2}),
    ],
)
def test_a_checkpoint_goes_on_with_the_same_rates(name, options):
    metrics = [0.3, 0.3, 0.3, 0.4, 0.4, 0.4, 0.4, 0.4]
    whole = rates_of(name, 8, metrics=metrics, **options)
    one = optimizer(0.5)
    schedule = lr_schedule(name, one, 8, **options)
    walk(one, schedule, metrics[:5])
    file = io.BytesIO()
    torch.save({"optimizer": one.state_dict(), "schedule": schedule.state_dict()}, file)
    file.seek(0)
    state = torch.load(file, weights_only=True)
    other = optimizer(0.5)
    schedule = lr_schedule(name, other, 8, **options)
    other.load_state_dict(state["optimizer"])
    schedule.load_state_dict(state["schedule"])
    assert walk(other, schedule, metrics[5:]) == whole[5:]
    assert not math.isclose(whole[-1], whole[0]) or name == "constant"


@pytest.mark.parametrize(
    ("name", "options", "error", "message"),
    [
        ("linear", {}, ValueError, "name must be one of 'constant', 'plateau'"),
        ("constant", {"gamma": 1}, TypeError, "'constant' has no option 'gamma'; it has none"),
        ("cosine", {"warm": 1}, TypeError, "no option 'warm'; it has warmup, final"),
        ("cosine", {"warmup": 8}, ValueError, "warmup must be less than epochs=8, got 8"),
        ("multistep", {}, ValueError, r"milestones must be epochs or parts of training, got \(\)"),
        ("multistep", {"milestones": [1.5]}, ValueError, "milestones must be"),
        ("multistep", {"milestones": [0]}, ValueError, "milestones must be at least 1"),
        ("plateau", {"factor": 1.0}, ValueError, "factor must be"),
        ("plateau", {"mode": "best"}, ValueError, "mode must be one of"),
        ("exponential", {"final": 0}, ValueError, "final must be"),
    ],
)
def test_what_does_not_fit_raises(name, options, error, message):
    with pytest.raises(error, match=message):
        lr_schedule(name, optimizer(0.1), 8, **options)


def test_plateau_needs_a_metric():
    with pytest.raises(ValueError, match="metric must be given"):
        lr_schedule("plateau", optimizer(0.1), 8).step()


def by_batch(steps, lr, **options):
    """The rates of the steps, and that after the last."""
    one = optimizer(lr)
    schedule = lr_schedule("one_cycle", one, **options)
    rates = []
    for _ in range(steps + 1):
        rates.append(one.param_groups[0]["lr"])
        one.step()
        schedule.step(0.5)  # the end of an epoch moves nothing
        schedule.step_batch()
    return rates


def test_one_cycle_is_that_of_torch():
    # Torch's peak is at step pct_start * total_steps - 1, its end at total_steps - 1.
    expected = torchs(lambda o: lr_scheduler.OneCycleLR(o, 0.5, 21, pct_start=7 / 21), 20)
    found = by_batch(20, 0.5, epochs=4, epoch_steps=5, final=0.04e-4)
    assert found[:20] == pytest.approx(expected)


def test_one_cycle_goes_up_and_down():
    rates = by_batch(10, 0.5, epochs=10, warmup=0.5)
    assert (rates[0], rates[5], rates[10]) == pytest.approx((0.02, 0.5, 5e-5))
    assert rates[2] < rates[3] < rates[5] > rates[7] > rates[8]
