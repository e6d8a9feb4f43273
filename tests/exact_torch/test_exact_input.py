"""Wrong input of EXACT: an error that names it, before anything is computed."""

import math

import numpy as np
import pytest
import torch
from support.exact_batches import batch

from exact_torch import argmax_probs, exact_loss


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"labels": torch.tensor([0, 1, 2, 5])}, ValueError, r"labels\[3\] = 5 is not a class"),
        ({"labels": torch.tensor([0, -1, 2, 3])}, ValueError, r"labels\[1\] = -1"),
        ({"labels": torch.zeros(3, dtype=torch.int64)}, ValueError, r"labels must be \(4,\)"),
        ({"labels": torch.zeros(4)}, TypeError, "whole numbers"),
        ({"scores": torch.zeros(4, 5, 2)}, ValueError, r"labels must be \(4, 2\).*got \(4,\)"),
        ({"scores": torch.zeros(())}, ValueError, r"scores must be \(B, C\)"),
        ({"scores": torch.zeros(4, 1)}, ValueError, "C >= 2"),
        ({"scores": torch.zeros(4, 5, dtype=torch.int64)}, TypeError, "floating point"),
        ({"sigma": 0.0}, ValueError, "sigma must be"),
        ({"sigma": -1.0}, ValueError, "sigma must be"),
        ({"sigma": math.nan}, ValueError, "sigma must be"),
        ({"sigma": "1"}, ValueError, "sigma must be one of 'auto', got '1'"),
        ({"sigma": 1e50}, ValueError, r"sigma must be from .* range of torch\.float32.*1e\+50"),
        ({"sigma": 1e-50}, ValueError, r"sigma must be from .* range of torch\.float32.*1e-50"),
        ({"sigma": 10**400}, ValueError, "sigma must be a finite number"),
        ({"sigma": torch.tensor(1e50, dtype=torch.float64)}, ValueError, r"sigma.*got 1e\+50"),
        ({"sigma": torch.tensor(1e-50, dtype=torch.float64)}, ValueError, "sigma.*got 1e-50"),
        ({"ignore_index": "no"}, TypeError, "ignore_index must be a whole number"),
        ({"ignore_index": 2**70}, ValueError, r"ignore_index must be at most 2\*\*63 - 1"),
        ({"normalize": 1}, TypeError, "normalize must be True or False"),
        ({"n": 2**70, "method": "genz"}, ValueError, r"n must be at most 2\*\*63 - 1"),
        (
            {"weight": torch.full((5,), 1e50, dtype=torch.float64)},
            ValueError,
            "weight must be from",
        ),
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
        ({"weight": -torch.ones(5)}, ValueError, "weight must be >= 0"),
        ({"weight": torch.full((5,), math.inf)}, ValueError, "weight must be >= 0 and finite"),
        ({"weight": torch.ones(5, device="meta")}, ValueError, "weight is on meta"),
        ({"weight": [1.0] * 5}, TypeError, "weight must be a torch.Tensor, one number a class"),
        ({"weight": 1.0}, TypeError, "got 1.0; sigma is given by name"),
        ({"labels": torch.ones(4, 5, dtype=torch.int64)}, ValueError, "got .* of torch.int64"),
        ({"labels": [0, 1, 2, 3]}, TypeError, "labels must be a torch.Tensor, got list"),
        ({"scores": np.zeros((4, 5))}, TypeError, "scores must be a torch.Tensor, got ndarray"),
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
        exact_loss(scores, torch.arange(5), sigma=torch.ones(5))


@pytest.mark.parametrize("row", [[math.nan, 0.0], [math.inf, 0.0], [-math.inf, -math.inf]], ids=str)
def test_someone_must_win(row):
    with pytest.raises(ValueError, match="scores must not contain NaN or infinity"):
        argmax_probs(torch.tensor([[0.0, 0.0], row]))
