"""Wrong input of all losses, and options that mean nothing: errors that say what there is."""

import math

import pytest
import torch
from support import naive_losses

from exact_torch import losses


@pytest.mark.parametrize("name", losses.names())
@pytest.mark.parametrize(
    ("logits", "labels", "kind", "words"),
    [
        (torch.zeros(2, 3), torch.tensor([0, 3]), ValueError, "labels[1] = 3"),
        (torch.zeros(2, 3), torch.tensor([-1, 0]), ValueError, "labels[0] = -1"),
        (torch.zeros(2, 3), torch.tensor([0]), ValueError, "labels must be (2,)"),
        (torch.zeros(2, 3), torch.tensor([0.0, 1.0]), TypeError, "labels must be whole"),
        (torch.zeros(3), torch.tensor([0]), ValueError, "labels must be ()"),
        (torch.zeros(()), torch.tensor(0), ValueError, "scores must be (B, C)"),
        (torch.zeros(2, 1), torch.tensor([0, 0]), ValueError, "C >= 2"),
        (torch.zeros(2, 3, dtype=torch.int64), torch.tensor([0, 1]), TypeError, "floating point"),
    ],
)
def test_wrong_input(name, logits, labels, kind, words):
    with pytest.raises(kind) as caught:
        losses.get(name)(logits, labels)
    assert words in str(caught.value)


@pytest.mark.parametrize("name", naive_losses.OF_A_BATCH)
def test_empty_batch(name):
    with pytest.raises(ValueError, match="at least one example"):
        losses.get(name)(torch.zeros(0, 3), torch.zeros(0, dtype=torch.int64))


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("max_margin", {"gamma": 0.0}),
        ("batch_max_margin", {"gamma": -1.0}),
        ("hinge", {"gamma": math.nan}),
        ("self_norm", {"alpha": 0.0}),
        ("focal", {"gamma": -0.1}),
        ("focal", {"alpha": 0.0}),
        ("gce", {"q": 0.0}),
        ("gce", {"q": 1.1}),
        ("gce_truncated", {"k": 1.0}),
        ("gce_truncated", {"q": math.inf}),
        ("tamed_ce", {"alpha": 1.5}),
        ("poly1", {"epsilon": -2.0}),
        ("sigmoid", {"scale": 0.0}),
        ("polynomial", {"scale": -1.0}),
        ("beta_bernoulli", {"prior_weight": 1.0}),
        ("beta_bernoulli", {"theta": 0.0}),
        ("beta_bernoulli", {"prior_weight": 0.0, "learned": True}),
        ("ce_el", {"alpha": -1.0}),
        ("ce_el", {"schedule": "1"}),
        ("ce_el", {"schedule": "0", "beta": 1.0}),
        ("nce", {"t": 0.0}),
        ("nce", {"prior": [1.0, 0.0, 1.0]}),
        ("nce", {"prior": [0.5, 0.5]}),
        ("nce", {"draws": 0}),
        ("nce", {"draws": torch.tensor([3])}),
        ("nce", {"draws": torch.zeros(5, 2, dtype=torch.int64)}),
        ("ce", {"reduction": "max"}),
    ],
    ids=str,
)
def test_wrong_options(name, options):
    with pytest.raises(ValueError, match=list(options)[-1].replace("learned", "weight")):
        losses.get(name, **options)(torch.zeros(2, 3), torch.tensor([0, 1]))


def test_unknown_names_list_what_there_is():
    with pytest.raises(ValueError, match=r"no loss is called 'cse'; there are ce, max_margin, .*"):
        losses.get("cse")
    with pytest.raises(TypeError, match="'focal' has no option 'sigma'; it has gamma, alpha, red"):
        losses.get("focal", sigma=1.0)
    with pytest.raises(TypeError, match="'ce_el' has no option 'gamma'; it has schedule, alpha"):
        losses.get("ce_el", gamma=1.0)
    with pytest.raises(TypeError, match="gamma must be a number, got '2'"):
        losses.get("focal", gamma="2")(torch.zeros(2, 3), torch.tensor([0, 1]))
