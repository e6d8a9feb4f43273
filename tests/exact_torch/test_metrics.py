"""Metrics against scikit-learn, and by hand."""

import math

import numpy as np
import pytest
import torch
from sklearn.metrics import average_precision_score, precision_recall_curve

from exact_torch import GaussianScores, metrics

RECALLS = (0.5, 0.9, 0.99, 1.0)


def problem(kind, rows=200, classes=7, seed=0):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(classes, (rows,), generator=generator)
    scores = torch.randn(rows, classes, dtype=torch.float64, generator=generator)
    scores[torch.arange(rows), labels] += 1.0
    if kind == "ties":
        scores = scores.round()
    elif kind == "few levels":
        scores = (scores > 0.5).double()
    elif kind == "all equal":
        scores = torch.zeros_like(scores)
    elif kind == "single precision":
        scores = scores.float()
    elif kind == "half precision":
        scores = scores.half()
    elif kind == "infinite":
        scores[scores > 1.5], scores[scores < -0.5] = math.inf, -math.inf
    elif kind == "separated":
        scores[torch.arange(rows), labels] += 100.0
    return scores, labels


KINDS = [
    "distinct",
    "ties",
    "few levels",
    "all equal",
    "single precision",
    "half precision",
    "infinite",
    "separated",
]


def scikit_learn(scores, labels):
    """Average precision and the best precision at each recall, a class at a time."""
    areas, best = [], {recall: [] for recall in RECALLS}
    for j in range(scores.shape[1]):
        own = labels.numpy() == j
        score = scores[:, j].double().clamp(-1e300, 1e300).numpy()  # it refuses infinities
        areas.append(average_precision_score(own, score))
        precision, recall, _ = precision_recall_curve(own, score)
        for least, values in best.items():
            values.append(precision[recall >= least].max())
    return np.array(areas), best


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows", [20, 200])
def test_against_scikit_learn(kind, rows):
    scores, labels = problem(kind, rows)
    labels[:7] = torch.arange(7)  # each class has an example
    areas, best = scikit_learn(scores, labels)
    found = metrics.average_precision(scores, labels)
    np.testing.assert_allclose(found.numpy(), areas, rtol=1e-14)
    for recall, values in best.items():
        found = metrics.precision_at_recall(scores, labels, recall)
        np.testing.assert_allclose(found.numpy(), values, rtol=1e-14)
    macro = metrics.single_logit(scores, labels, RECALLS)
    assert list(macro) == ["auprc", *(f"precision@{recall:g}" for recall in RECALLS)]
    assert macro["auprc"] == pytest.approx(areas.mean(), rel=1e-14)
    assert macro["precision@0.9"] == pytest.approx(np.mean(best[0.9]), rel=1e-14)


def test_recall_is_compared_as_scikit_learn_does():
    # 9 of 10 is a recall of 0.9, and the tenth costs half the precision.
    scores = torch.tensor([[20.0 - i, 0.0] for i in range(20)])
    labels = torch.tensor([0] * 9 + [1] * 10 + [0])
    assert metrics.precision_at_recall(scores, labels, 0.9)[0] == 1.0
    assert metrics.precision_at_recall(scores, labels, 0.91)[0] == 0.5


def test_all_logits_rank_by_softmax():
    scores, labels = problem("distinct")
    areas, best = scikit_learn(torch.softmax(scores, 1), labels)
    found = metrics.all_logits(scores, labels)
    assert found["auprc"] == pytest.approx(areas.mean(), rel=1e-14)
    assert found["precision@0.99"] == pytest.approx(np.mean(best[0.99]), rel=1e-14)
    shifts = torch.linspace(-30, 30, len(scores), dtype=torch.float64)[:, None]
    assert metrics.all_logits(scores + shifts, labels) == pytest.approx(found, rel=1e-12)
    assert metrics.single_logit(scores + shifts, labels)["auprc"] < 0.6 * found["auprc"]


def test_all_logits_keep_the_order_of_saturated_probabilities():
    # p is 1 in single precision for all four; the true class's is the closest to it.
    logits = torch.tensor([[30.0, 0.0], [29.0, 0.0], [20.0, 0.0], [19.0, 0.0]])
    labels = torch.tensor([0, 0, 1, 1])
    assert metrics.all_logits(logits, labels)["auprc"] == 1.0


def test_classes_without_examples():
    scores, labels = problem("distinct")
    labels[labels == 3] = 2
    for values in (
        metrics.average_precision(scores, labels),
        metrics.precision_at_recall(scores, labels, 0.9),
    ):
        assert values.isnan().tolist() == [j == 3 for j in range(7)]
    kept = metrics.average_precision(scores, labels)[[0, 1, 2, 4, 5, 6]]
    assert metrics.single_logit(scores, labels)["auprc"] == pytest.approx(kept.mean().item())


def test_blocks_of_classes(monkeypatch):
    scores, labels = problem("ties")
    whole = metrics.average_precision(scores, labels), metrics.single_logit(scores, labels)
    monkeypatch.setattr(metrics, "_NUMBERS", 500)  # two classes at a time
    assert torch.equal(metrics.average_precision(scores, labels), whole[0])
    assert metrics.single_logit(scores, labels) == whole[1]


def test_accuracy():
    scores = torch.tensor([[1.0, 0.0, 0.0], [0.0, 0.5, 0.5], [0.0, 0.0, 2.0], [0.0, 1.0, 0.0]])
    assert metrics.accuracy(scores, torch.tensor([0, 2, 2, 0])).item() == 0.5


def naive_calibration(probs, labels, bins):
    total = 0.0
    for b in range(bins):
        rows = [
            (max(p), p.index(max(p)) == y)
            for p, y in zip(probs.tolist(), labels.tolist(), strict=True)
            if b / bins < max(p) <= (b + 1) / bins
        ]
        total += abs(sum(right - confidence for confidence, right in rows))
    return total / len(labels)


@pytest.mark.parametrize("bins", [1, 10, 15])
def test_calibration_error(bins):
    logits, labels = problem("distinct")
    probs = torch.softmax(2 * logits, 1)
    found = metrics.calibration_error(probs, labels, bins).item()
    assert found == pytest.approx(naive_calibration(probs, labels, bins), rel=1e-12)


@pytest.mark.parametrize(("first", "second", "bins"), [(0.5, 0.75, 2), (0.75, 0.8, 4)])
def test_bins_of_confidence_have_their_upper_end(first, second, bins):
    probs = torch.tensor([[first, 1 - first], [second, 1 - second]], dtype=torch.float64)
    found = metrics.calibration_error(probs, torch.tensor([0, 1]), bins).item()
    assert found == pytest.approx(((1 - first) + second) / 2)  # not in one bin, where they cancel


def test_adaptive_calibration_error():
    confidence = torch.tensor([0.9, 0.6, 0.8, 0.7], dtype=torch.float64)
    probs = torch.stack([confidence, 1 - confidence], 1)
    labels = torch.tensor([0, 1, 1, 0])
    # Two bins: 0.6 and 0.7, of which 0.7 is right; 0.8 and 0.9, of which 0.9 is.
    found = metrics.calibration_error(probs, labels, bins=2, adaptive=True).item()
    assert found == pytest.approx((abs(1 - 1.3) + abs(1 - 1.7)) / 4)
    # Of equal confidences, which one falls into which bin does not count.
    probs = torch.tensor([[0.8, 0.2]] * 4)
    first, second = (
        metrics.calibration_error(probs, torch.tensor(y), bins=2, adaptive=True).item()
        for y in ([0, 0, 1, 1], [0, 1, 0, 1])
    )
    assert first == second == pytest.approx(0.3)


def test_calibrated_probabilities_have_no_error():
    confidence = torch.tensor([0.75, 0.75, 0.75, 0.75, 0.5, 0.5])
    probs = torch.stack([confidence, 1 - confidence], 1)
    labels = torch.tensor([0, 1, 0, 0, 0, 1])
    for adaptive in (False, True):
        assert metrics.calibration_error(probs, labels, bins=3, adaptive=adaptive) < 1e-15


def test_wrong_input():
    scores, labels = torch.zeros(2, 3), torch.tensor([0, 1])
    every = [
        metrics.accuracy,
        metrics.average_precision,
        metrics.single_logit,
        metrics.all_logits,
        metrics.calibration_error,
    ]
    for metric in every:
        with pytest.raises(ValueError, match="not a class"):
            metric(scores, torch.tensor([0, 3]))
    with pytest.raises(ValueError, match="NaN, found 1"):
        metrics.average_precision(torch.tensor([[0.0, math.nan]]), torch.tensor([0]))
    with pytest.raises(ValueError, match="at least one example"):
        metrics.single_logit(scores[:0], labels[:0])
    for recall in (0.0, 1.5):
        with pytest.raises(ValueError, match="recall"):
            metrics.precision_at_recall(scores, labels, recall)
        with pytest.raises(ValueError, match="recall"):
            metrics.single_logit(scores, labels, [recall])
    with pytest.raises(ValueError, match="not logits"):
        metrics.calibration_error(scores + 2, labels)
    with pytest.raises(ValueError, match="bins"):
        metrics.calibration_error(scores + 1 / 3, labels, bins=0)


def test_expected_accuracy_is_among_the_metrics():
    found = metrics.expected_accuracy(torch.zeros(2, 4), torch.tensor([0, 3]))
    assert found.item() == pytest.approx(0.25)


def test_running_expected_accuracy_is_that_of_all_batches():
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(10, 4, generator=generator)
    labels = torch.randint(4, (10,), generator=generator)
    metric = metrics.ExpectedAccuracy(sigma=0.7, ignore_index=9)
    assert metric.compute().isnan()
    values = [
        metric(scores[part], labels[part]) for part in (slice(0, 3), slice(3, 4), slice(4, 10))
    ]
    metric.update(scores[:2], torch.tensor([9, 9]))
    expected = metrics.expected_accuracy(scores, labels, 0.7)
    assert metric.compute().item() == pytest.approx(expected.item(), rel=1e-6)
    assert values[0].item() == pytest.approx(
        metrics.expected_accuracy(scores[:3], labels[:3], 0.7).item(), rel=1e-6
    )
    metric.reset()
    sigma = 0.5 + torch.rand(10, 1, generator=generator)
    given = labels.clone()
    given[4] = 9
    metric.update(GaussianScores(scores, sigma), given)
    kept = given != 9
    expected = metrics.expected_accuracy(scores[kept], labels[kept], sigma[kept])
    assert metric.compute().item() == pytest.approx(expected.item(), rel=1e-6)
    assert metric.state_dict() == {}
