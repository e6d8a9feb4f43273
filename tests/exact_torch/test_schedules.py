"""Sigma and margins over training: published values, ends, steps, and what is refused."""

import dataclasses
import math

import numpy as np
import pytest

from exact_torch.schedules import MarginSchedule, SigmaSchedule


def test_sigma_is_log_linear():
    sigma = SigmaSchedule(10.0, 0.1)
    for progress, value in {0.25: 10**0.5, 0.5: 1.0, 0.75: 10**-0.5}.items():
        assert sigma(progress) == pytest.approx(value, rel=1e-15)


def test_ends_are_exact():
    assert (SigmaSchedule(0.3, 0.7)(0.0), SigmaSchedule(0.3, 0.7)(1.0)) == (0.3, 0.7)
    linear = MarginSchedule(0.3, 0.7)
    assert (linear(0.0), linear(1.0)) == (0.3, 0.7)
    log = MarginSchedule(0.3, 0.7, curve="log")
    assert (log(0.0), log(1.0)) == (0.3, 0.7)


def test_sigma_may_rise_or_stay():
    assert SigmaSchedule(1.0, 4.0)(0.5) == pytest.approx(2.0)
    assert SigmaSchedule(2.0, 2.0)(0.37) == pytest.approx(2.0, rel=1e-15)


# Variances of the publication: 100 at first, and the last ones.
@pytest.mark.parametrize(
    ("name", "last"),
    [("mnist", 1.0), ("svhn", 1.0), ("cifar10", 1.0), ("cifar100", 1.0), ("imagenet", 0.00272)],
)
def test_published_variances(name, last):
    sigma = SigmaSchedule.named(name)
    assert sigma.steps is None
    assert sigma(0.0) ** 2 == pytest.approx(100.0, rel=1e-15)
    assert sigma(0.5) ** 2 == pytest.approx(math.sqrt(100.0 * last))
    assert sigma(1.0) ** 2 == pytest.approx(last, rel=1e-15)


def test_published_tabular_sigma_takes_16_values():
    sigma = SigmaSchedule.named("tabular")
    rounds = [sigma(step / 8000) for step in range(8000)]  # 16 rounds of 500 steps
    values = list(dict.fromkeys(rounds))
    assert [rounds.count(value) for value in values] == [500] * 16
    np.testing.assert_allclose(values, np.geomspace(10.0, 0.01, 16), rtol=1e-14)
    assert sigma(1.0) == 0.01


@pytest.mark.parametrize("steps", [2, 3, 7, 10, 49, 100])
def test_each_step_begins_on_time(steps):
    sigma = SigmaSchedule(1.0, 0.5, steps=steps)
    values = [sigma(step / steps) for step in range(steps)]
    assert values == sorted(set(values), reverse=True)
    assert (values[0], values[-1]) == (1.0, 0.5)


@pytest.mark.parametrize(
    ("name", "margin"),
    [("mnist", 0.5), ("svhn", 10.0), ("cifar10", 0.5), ("cifar100", 5.0), ("imagenet", 3.25)],
)
def test_published_margins_are_constant(name, margin):
    schedule = MarginSchedule.named(name)
    assert [schedule(progress) for progress in (0.0, 0.4, 1.0)] == [margin] * 3


def test_margins_move_as_asked():
    assert MarginSchedule(0.0, 2.0)(0.25) == 0.5
    assert MarginSchedule(0.1, 10.0, curve="log")(0.5) == pytest.approx(1.0)
    assert [MarginSchedule(4.0, 0.0, steps=3)(p) for p in (0.3, 0.5, 0.7)] == [4.0, 2.0, 0.0]
    assert MarginSchedule(None)(0.5) is None


def test_schedules_are_values():
    assert SigmaSchedule(10, 1) == SigmaSchedule(10.0, 1.0)
    assert hash(MarginSchedule(1)) == hash(MarginSchedule(1.0))
    with pytest.raises(dataclasses.FrozenInstanceError):
        SigmaSchedule(10.0, 1.0).start = 2.0
    assert type(SigmaSchedule(10, 1)(0)) is float
    assert SigmaSchedule(4.0, 1.0)(np.float32(0.5)) == pytest.approx(2.0)


@pytest.mark.parametrize(
    "schedule", [SigmaSchedule(1.0, 0.1), MarginSchedule(1.0), MarginSchedule(None)]
)
@pytest.mark.parametrize("progress", [-0.01, 1.01, math.nan, math.inf])
def test_progress_outside_is_refused(schedule, progress):
    with pytest.raises(ValueError, match=r"progress must be a finite number >= 0 and <= 1, got"):
        schedule(progress)


def test_progress_must_be_a_number():
    with pytest.raises(TypeError, match=r"progress must be a number, got '0\.5'"):
        SigmaSchedule(1.0, 0.1)("0.5")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SigmaSchedule(0.0, 1.0), "start must be a finite number > 0, got 0.0"),
        (lambda: SigmaSchedule(1.0, math.nan), "stop must be a finite number > 0, got nan"),
        (lambda: SigmaSchedule(1.0, 0.1, steps=1), "steps must be at least 2, got 1"),
        (lambda: SigmaSchedule.from_variance(-1.0, 1.0), "start must be a finite number > 0"),
        (lambda: SigmaSchedule.named("cifar"), "name must be one of 'tabular', 'mnist'.*'cifar'"),
        (lambda: MarginSchedule(-1.0), "start must be a finite number >= 0, got -1.0"),
        (lambda: MarginSchedule(1.0, math.inf), "stop must be a finite number >= 0, got inf"),
        (lambda: MarginSchedule(None, 1.0), "stop must be None where start is, got 1.0"),
        (lambda: MarginSchedule(1.0, 0.0, curve="log"), "stop must be a finite number > 0"),
        (lambda: MarginSchedule(1.0, curve="cosine"), "curve must be one of 'linear', 'log'"),
        (lambda: MarginSchedule.named("tabular"), "name must be one of 'mnist'"),
    ],
)
def test_wrong_arguments(make, message):
    with pytest.raises(ValueError, match=message):
        make()
