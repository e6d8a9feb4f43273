"""One contract for all losses: values, gradients, shapes, extremes, symmetry."""

import copy
import itertools
import math
import pickle

import pytest
import torch
from mpmath import mpf
from support import naive_losses
from torch.nn import functional

from exact_torch import losses

NAMES = losses.names()
# Options other than the defaults, for which the judge has the same names.
OPTIONS = [
    ("max_margin", {"gamma": 2.5}),
    ("self_norm", {"alpha": 1.5}),
    ("nce", {"t": 3.0, "prior": [0.5, 0.25, 0.125, 0.0625, 0.0625]}),
    ("nce", {"t": 2.0, "draws": [0, 4, 4]}),
    ("batch_max_margin", {"gamma": 2.5}),
    ("ce_el", {"alpha": 0.5, "beta": 4.0}),
    ("focal", {"gamma": 0.5, "alpha": 0.25}),
    ("focal", {"gamma": 0.0}),
    ("gce", {"q": 1.0}),
    ("gce", {"q": 0.125}),
    ("gce_truncated", {"q": 0.5, "k": 0.25}),
    ("tamed_ce", {"alpha": 0.0}),
    ("tamed_ce", {"alpha": 0.75}),
    ("tamed_ce", {"alpha": 1.0}),
    ("hinge", {"gamma": 2.5}),
    ("sigmoid", {"scale": 3.0}),
    ("polynomial", {"scale": 0.25}),
    ("beta_bernoulli", {"prior_weight": 0.25, "theta": 0.75, "scale": 2.0}),
    ("beta_bernoulli", {"prior_weight": 0.0}),
    ("poly1", {"epsilon": -0.5}),
]
CASES = [(name, {}) for name in NAMES] + OPTIONS


def identify(value):
    if isinstance(value, dict):
        return ",".join(f"{k}={v}" for k, v in value.items()) or "default"
    return None


all_losses = pytest.mark.parametrize("name", NAMES)
all_cases = pytest.mark.parametrize(("name", "options"), CASES, ids=identify)


def make(name, options, reduction="none"):
    tensors = {k: torch.tensor(v) if k == "draws" else v for k, v in options.items()}
    return losses.get(name, reduction=reduction, **tensors)


def judged(name, logits, labels, options):
    exact = {
        k: mpf(v) if isinstance(v, float) else [mpf(x) if k == "prior" else x for x in v]
        for k, v in options.items()
    }
    return (
        naive_losses.values(name, logits, labels, **exact),
        torch.tensor(naive_losses.gradient(name, logits, labels, **exact), dtype=torch.float64),
    )


def value_and_gradient(loss, logits, labels):
    logits = logits.clone().requires_grad_()
    values = loss(logits, labels)
    (gradient,) = torch.autograd.grad(values.sum(), logits)
    return values.detach(), gradient


def random_batch(seed=0, rows=4, classes=5, scale=2.0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    logits = scale * torch.randn(rows, classes, dtype=torch.float64, generator=generator)
    return logits.to(dtype), torch.randint(classes, (rows,), generator=generator)


def extreme_batches(dtype, classes):
    """Logits of +-1e4, 0 and close to them, every label in turn."""
    for size in (1e4, 30.0):
        high, low = [size] * classes, [-size] * classes
        mixed = [size if j % 2 else -size for j in range(classes)]
        first = [size, *low[1:]]
        for row in (high, low, mixed, first, [0.0] * classes):
            logits = torch.tensor([row] * classes, dtype=dtype)
            yield logits, torch.arange(classes)
            yield logits[:1], torch.tensor([0])
            yield logits[:1], torch.tensor([classes - 1])


@all_cases
@pytest.mark.parametrize("scale", [0.5, 3.0, 60.0])
def test_value_and_gradient_in_120_digits(name, options, scale):
    logits, labels = random_batch(seed=int(scale), scale=scale)
    values, gradient = value_and_gradient(make(name, options), logits, labels)
    exact, slope = judged(name, logits, labels, options)
    expected = torch.tensor([float(x) for x in exact], dtype=torch.float64)
    torch.testing.assert_close(values.flatten(), expected, rtol=1e-13, atol=3e-15)
    rtol = 1e-11 if name == "exact" else 1e-12  # an integral
    torch.testing.assert_close(gradient, slope, rtol=rtol, atol=3e-15)


@all_cases
def test_single_precision(name, options):
    logits, labels = random_batch(dtype=torch.float32)
    values, gradient = value_and_gradient(make(name, options), logits, labels)
    exact, slope = judged(name, logits, labels, options)
    assert values.dtype == gradient.dtype == torch.float32
    expected = torch.tensor([float(x) for x in exact], dtype=torch.float32)
    torch.testing.assert_close(values.flatten(), expected, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(gradient, slope.float(), rtol=1e-5, atol=1e-6)


P = (0.6, 0.3, 0.1)
S = tuple(p / (1 + p) for p in P)  # sigmoids of log p: 3/8, 3/13, 1/11
LOG2, LOG3, LOG6 = math.log(2), math.log(3), math.log(6)
# Logits log 0.6, log 0.3, log 0.1 and label 1: p_y = 0.3, z_y - z_j = -log 2 and log 3.
BY_HAND = {
    # mpmath's quad of npdf(z) ncdf(z - log(2)/s) ncdf(z + log(3)/s), s = 9/(4 sqrt(pi))
    "exact": 1.159774535325671022998940648590585931384,
    "ce": -math.log(0.3),
    "max_margin": 1 + LOG2,
    "softmax_cauchy_schwarz": -math.log(0.3 / math.sqrt(0.46)),
    "sigmoid_cauchy_schwarz": -math.log(S[1] / math.hypot(*S)),
    "softmax_tanimoto": -0.3 / (0.7 + math.sqrt(0.46)),
    "sigmoid_tanimoto": -S[1] / (1 + math.hypot(*S) - S[1]),
    "self_norm": -math.log(0.3),  # the sum of exp is 1
    "nce": math.log(1 + 25 / 3 / 0.3) + 25 / 3 * sum(math.log(1 + p * 3 / 25) for p in P),
    "bce": math.log(13 / 3) + math.log(8 / 5) + math.log(11 / 10),
    "batch_ce": -math.log(0.3),
    "batch_max_margin": 2 * (1 + LOG2),
    "expectation": 0.7,
    "ce_el": 0.7 - math.log(0.3),
    "focal": -0.49 * math.log(0.3),
    "mae": 0.6 + 0.7 + 0.1,
    "gce": (1 - 0.3**0.7) / 0.7,
    "gce_truncated": (1 - 0.5**0.7) / 0.7,
    "tamed_ce": 2 * (math.sqrt(1 - math.log(0.3)) - 1),
    "cot": -math.log(0.3) + 6 / 7 * math.log(6 / 7) + 1 / 7 * math.log(1 / 7),
    "mpce": -0.3 * math.log(0.3),
    "hinge": (1 + LOG2) / 2,  # log 3 > 1
    "sigmoid": 2 / 3 + 1 / 4,
    "polynomial": -0.25 * LOG2**3 + 0.75 * LOG2 + 0.5,
    "beta_bernoulli": -math.log(0.25 + 0.5 / 3) - math.log(0.25 + 0.5 * 3 / 4),
    "poly1": 0.7 - math.log(0.3),
}


@all_losses
def test_value_by_hand(name):
    logits = torch.tensor([P], dtype=torch.float64).log()
    value = losses.get(name)(logits, torch.tensor([1])).item()
    assert value == pytest.approx(BY_HAND[name], rel=1e-14)


@all_cases
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("classes", [2, 5])
def test_extremes_are_finite(name, options, dtype, classes):
    if classes == 2 and ("prior" in options or "draws" in options):
        options = {"t": options["t"]}
    loss = make(name, options)
    for logits, labels in extreme_batches(dtype, classes):
        values, gradient = value_and_gradient(loss, logits, labels)
        assert values.isfinite().all(), (logits, labels, values)
        assert gradient.isfinite().all(), (logits, labels, gradient)


@all_losses
def test_extremes_are_right(name):
    # Ties and kinks have no one gradient: it is compared where logits differ.
    for logits, labels in extreme_batches(torch.float64, 4):
        values = losses.get(name, reduction="none")(logits, labels).flatten()
        exact = naive_losses.values(name, logits, labels)
        expected = torch.tensor([float(x) for x in exact], dtype=torch.float64)
        torch.testing.assert_close(values, expected, rtol=1e-12, atol=1e-15)
    logits = torch.tensor([[1e4, -1e4, 300.0], [-40.0, 40.0, -1e4]], dtype=torch.float64)
    for pair in itertools.product(range(3), repeat=2):
        labels = torch.tensor(pair)
        _, gradient = value_and_gradient(losses.get(name, reduction="none"), logits, labels)
        slope = torch.tensor(naive_losses.gradient(name, logits, labels), dtype=torch.float64)
        torch.testing.assert_close(gradient, slope, rtol=1e-12, atol=1e-15)


SMALL = [
    "ce",
    "softmax_cauchy_schwarz",
    "sigmoid_cauchy_schwarz",
    "bce",
    "expectation",
    "ce_el",
    "focal",
    "mae",
    "gce",
    "gce_truncated",
    "tamed_ce",
    "sigmoid",
    "poly1",
]


@pytest.mark.parametrize("name", SMALL)
def test_small_losses_keep_their_digits(name):
    # p_y rounds to 1: what is left of the loss and of its gradient is not 0, and not rounding.
    logits = torch.tensor([[20.0, -20.0, -19.0]], dtype=torch.float64)
    labels = torch.tensor([0])
    value, gradient = value_and_gradient(losses.get(name), logits, labels)
    (exact,) = naive_losses.values(name, logits, labels)
    assert 0 < exact < 1e-8
    assert value.item() == pytest.approx(float(exact), rel=1e-13, abs=0)
    slope = torch.tensor(naive_losses.gradient(name, logits, labels), dtype=torch.float64)
    torch.testing.assert_close(gradient, slope, rtol=1e-12, atol=0)


def test_mpce_of_large_logits_keeps_its_gradient():
    logits = torch.tensor([[-2e10, 1e10, 0.0]], requires_grad=True)
    losses.mpce(logits, torch.tensor([0])).sum().backward()
    assert logits.grad.tolist() == [[-1.0, 1.0, 0.0]]


def test_mpce_keeps_the_digits_of_a_small_lead():
    logits = torch.tensor([[1.0, 1.0 + 1e-9, -1.0]], dtype=torch.float64)
    labels = torch.tensor([0])
    (exact,) = naive_losses.values("mpce", logits, labels)
    assert losses.mpce(logits, labels).item() == pytest.approx(float(exact), rel=1e-14, abs=0)


@all_cases
def test_gradcheck(name, options):
    logits, labels = random_batch(seed=1)
    loss = make(name, options)
    assert torch.autograd.gradcheck(lambda z: loss(z, labels), logits.requires_grad_())


@all_losses
@pytest.mark.parametrize("rows", [1, 4])
@pytest.mark.parametrize("classes", [2, 5])
def test_shapes_and_reductions(name, rows, classes):
    logits, labels = random_batch(rows=rows, classes=classes)
    values = losses.get(name, reduction="none")(logits, labels)
    mean, total = (losses.get(name, reduction=r)(logits, labels) for r in ("mean", "sum"))
    assert mean.ndim == total.ndim == 0
    if name in naive_losses.OF_A_BATCH:
        assert values.ndim == 0
        assert values == mean == total
    else:
        assert values.shape == (rows,)
        torch.testing.assert_close(mean, values.mean())
        torch.testing.assert_close(total, values.sum())
    torch.testing.assert_close(losses.get(name)(logits, labels), mean)


@all_losses
def test_relabelled_classes_and_examples(name):
    logits, labels = random_batch()
    loss = losses.get(name, reduction="none")
    classes, rows = torch.tensor([3, 0, 4, 1, 2]), torch.tensor([2, 0, 3, 1])
    values = loss(logits, labels)
    renamed = torch.empty_like(logits)
    renamed[:, classes] = logits
    torch.testing.assert_close(loss(renamed, classes[labels]), values)
    reordered = loss(logits[rows], labels[rows])
    torch.testing.assert_close(reordered, values if values.ndim == 0 else values[rows])


def test_relabelled_prior():
    logits, labels = random_batch()
    prior, classes = torch.tensor([5.0, 4.0, 3.0, 2.0, 1.0]), torch.tensor([3, 0, 4, 1, 2])
    renamed, moved = torch.empty_like(logits), torch.empty_like(prior)
    renamed[:, classes], moved[classes] = logits, prior
    torch.testing.assert_close(
        losses.nce(renamed, classes[labels], prior=moved), losses.nce(logits, labels, prior=prior)
    )


@all_losses
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_single(name, dtype):
    logits, labels = random_batch(dtype=dtype)
    loss = losses.get(name, reduction="none")
    values, gradient = value_and_gradient(loss, logits, labels)
    single, slope = value_and_gradient(loss, logits.float(), labels)
    if name == "exact":  # whose results have the dtype of cross-entropy's
        single, values = single.to(dtype), values.to(dtype)
    else:
        assert values.dtype == torch.float32
    assert torch.equal(values, single)
    assert torch.equal(gradient, slope.to(dtype))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(loss(logits, labels).to(single.dtype), single)


@all_losses
def test_labels_of_any_integer_type(name):
    logits, labels = random_batch()
    loss = losses.get(name)
    expected = loss(logits, labels)
    for dtype in (torch.uint8, torch.int32):
        assert torch.equal(loss(logits, labels.to(dtype)), expected)


@all_losses
def test_compiles_in_one_graph(name):
    torch.compiler.reset()
    logits, labels = random_batch()
    loss = losses.get(name)
    compiled = torch.compile(loss, backend="eager", fullgraph=True)
    assert torch.equal(compiled(logits, labels), loss(logits, labels))


@all_losses
def test_module(name):
    logits, labels = random_batch()
    before = logits.clone()
    loss = losses.get(name)
    expected = loss(logits, labels)
    assert torch.equal(logits, before)
    assert torch.equal(copy.deepcopy(loss)(logits, labels), expected)
    assert torch.equal(pickle.loads(pickle.dumps(loss))(logits, labels), expected)
    loss.set_progress(0.5)
    assert isinstance(loss.phases, tuple)
    for phase in loss.phases:
        assert phase(logits, labels).isfinite()


def test_against_torch():
    logits, labels = random_batch(rows=7)
    marked = functional.one_hot(labels, 5).double()
    close = torch.testing.assert_close
    close(losses.ce(logits, labels), functional.cross_entropy(logits, labels, reduction="none"))
    binary = functional.binary_cross_entropy_with_logits(logits, marked, reduction="none")
    close(losses.bce(logits, labels), binary.sum(1))
    multi = functional.multi_margin_loss(logits, labels, reduction="none")  # divides by C
    close(losses.hinge(logits, labels), multi * 5 / 4)
    flat = functional.cross_entropy(logits.flatten()[None], labels[:1])
    one = functional.cross_entropy(logits[:1].flatten()[None], labels[:1])
    close(losses.batch_ce(logits[:1], labels[:1]), one)
    assert losses.batch_ce(logits, labels) != flat


def test_every_loss_is_judged():
    assert set(NAMES) == set(naive_losses.LOSSES) == set(BY_HAND)
