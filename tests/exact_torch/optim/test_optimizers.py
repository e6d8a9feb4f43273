"""Optimisers by name: the right class, options and groups."""

import pytest
import torch
from torch import nn

from exact_torch import optim


def network():
    return nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(2, 3))


def test_sgd_has_momentum_and_decays_everything():
    model = network()
    optimizer = optim.get("sgd", model, 0.1, weight_decay=5e-4)
    assert type(optimizer) is torch.optim.SGD
    (group,) = optimizer.param_groups
    assert (group["lr"], group["momentum"], group["nesterov"]) == (0.1, 0.9, False)
    assert group["weight_decay"] == 5e-4
    assert len(group["params"]) == len(list(model.parameters()))
    options = {"momentum": 0.5, "nesterov": True}
    (group,) = optim.get("sgd", model, 0.1, **options).param_groups
    assert (group["momentum"], group["nesterov"]) == (0.5, True)


@pytest.mark.parametrize(("name", "kind"), [("adam", "Adam"), ("adamw", "AdamW")])
def test_adam(name, kind):
    optimizer = optim.get(name, network(), 1e-3, betas=(0.8, 0.9), eps=1e-6)
    assert type(optimizer).__name__ == kind
    (group,) = optimizer.param_groups
    assert (group["betas"], group["eps"], group["lr"]) == ((0.8, 0.9), 1e-6, 1e-3)
    assert group["weight_decay"] == 0.0


def test_decay_of_weights_leaves_out_biases_and_norms():
    model = network()
    decayed, free = optim.get("sgd", model, 0.1, weight_decay=1.0, decay="weights").param_groups
    assert decayed["weight_decay"] == 1.0
    assert [id(p) for p in decayed["params"]] == [id(model[0].weight), id(model[3].weight)]
    assert free["weight_decay"] == 0.0
    assert len(free["params"]) == 4


def test_frozen_parameters_are_left_out():
    model = network()
    model[0].requires_grad_(False)
    (group,) = optim.get("adam", model, 0.1).param_groups
    assert len(group["params"]) == 4
    (group,) = optim.get("sgd", nn.Linear(2, 2, bias=False), 0.1, decay="weights").param_groups
    assert len(group["params"]) == 1


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"name": "lion"}, ValueError, "name must be one of 'sgd', 'adam', 'adamw', got 'lion'"),
        ({"name": "adam", "momentum": 0.9}, TypeError, "'adam' has no momentum; it has betas, eps"),
        ({"betas": (0.9, 0.99)}, TypeError, "'sgd' has no betas; it has momentum, nesterov"),
        ({"lr": 0.0}, ValueError, "lr must be"),
        ({"weight_decay": -1.0}, ValueError, "weight_decay must be"),
        ({"decay": "some"}, ValueError, "decay must be one of"),
        ({"momentum": 1.0}, ValueError, "momentum must be"),
        ({"nesterov": 1}, TypeError, "nesterov must be True or False, got 1"),
        ({"name": "adam", "betas": 0.9}, ValueError, "betas must be two numbers, got 0.9"),
        ({"name": "adam", "betas": (0.9, 1.0)}, ValueError, "betas must be"),
        ({"model": nn.ReLU()}, ValueError, "model must have parameters to train"),
    ],
)
def test_what_does_not_fit_raises(arguments, error, message):
    with pytest.raises(error, match=message):
        optim.get(**{"name": "sgd", "model": network(), "lr": 0.1, **arguments})
