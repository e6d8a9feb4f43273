"""Weights of classes, labels that are ignored and further dimensions, for all losses alike."""

import pytest
import torch
from torch.nn import functional as F

from exact_torch import losses

OF_BATCH = ("batch_ce", "batch_max_margin")
OF_EXAMPLES = [name for name in losses.names() if name not in OF_BATCH]
WEIGHT = torch.tensor([1.0, 2.0, 0.0, 0.5], dtype=torch.float64)


def batch(*shape):
    generator = torch.Generator().manual_seed(0)
    logits = 2 * torch.randn(6, 4, *shape, dtype=torch.float64, generator=generator)
    return logits, torch.randint(4, (6, *shape), generator=generator)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_cross_entropy_is_that_of_torch(reduction):
    logits, labels = batch(2, 3)
    labels[0, 0, 0] = 7
    options = {"weight": WEIGHT, "ignore_index": 7, "reduction": reduction}
    expected = F.cross_entropy(logits, labels, **options)
    torch.testing.assert_close(losses.get("ce", **options)(logits, labels), expected)


@pytest.mark.parametrize("name", OF_EXAMPLES)
def test_weights_are_of_the_labels_class(name):
    logits, labels = batch()
    each = losses.get(name, reduction="none")(logits, labels)
    shares = WEIGHT[labels]
    weighted = losses.get(name, weight=WEIGHT)
    torch.testing.assert_close(weighted(logits, labels), (shares * each).sum() / shares.sum())
    assert not list(weighted.parameters())
    with pytest.raises(ValueError, match=r"weight must be \(4,\)"):
        losses.get(name, weight=WEIGHT[:3])(logits, labels)
    with pytest.raises(TypeError, match=r"weight must be a torch\.Tensor"):
        losses.get(name, weight=[1.0, 1.0, 1.0, 1.0])


@pytest.mark.parametrize("name", losses.names())
def test_examples_that_are_ignored_do_not_count(name):
    logits, labels = batch()
    expected = losses.get(name)(logits, labels)
    more = torch.cat([torch.full((2, 4), torch.nan, dtype=torch.float64), logits]).requires_grad_()
    ignored = torch.cat([torch.tensor([-1, -1]), labels])
    found = losses.get(name, ignore_index=-1)(more, ignored)
    torch.testing.assert_close(found, expected)
    found.backward()
    assert (more.grad[:2] == 0.0).all()
    assert more.grad[2:].abs().sum() > 0.0


@pytest.mark.parametrize("name", OF_EXAMPLES)
def test_all_ignored_is_not_a_number(name):
    logits, labels = batch()
    assert losses.get(name)(logits, torch.full_like(labels, -100)).isnan()
    assert losses.get(name, reduction="sum")(logits, torch.full_like(labels, -100)) == 0.0


@pytest.mark.parametrize("name", losses.names())
def test_further_dimensions_are_more_examples(name):
    logits, labels = batch(3)
    rows = logits.movedim(1, -1).reshape(-1, 4)
    loss = losses.get(name)
    torch.testing.assert_close(loss(logits, labels), loss(rows, labels.reshape(-1)))
    torch.testing.assert_close(loss(rows[0], labels[0, 0]), loss(rows[:1], labels[0, :1]))


@pytest.mark.parametrize("name", OF_BATCH)
def test_losses_of_a_batch_have_no_weights(name):
    with pytest.raises(ValueError, match="weight is of examples"):
        losses.get(name, weight=WEIGHT)(*batch())
