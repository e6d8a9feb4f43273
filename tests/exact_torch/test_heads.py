"""The head with a standard deviation: values by hand, modes, export, checkpoints, compilation."""

import copy
import io
import math

import pytest
import torch
from torch import nn

from exact_torch import equivalent_sigma
from exact_torch.grad_norm import GradientNormalizer
from exact_torch.heads import GaussianHead, GaussianScores
from exact_torch.schedules import SigmaSchedule

MODES = {
    "predicted": {"sigma": "predicted"},
    "scheduled": {"sigma": "scheduled", "schedule": SigmaSchedule(10.0, 0.1)},
    "fixed": {"sigma": "fixed", "initial": 0.7},
}


@pytest.fixture(params=MODES)
def head(request):
    torch.manual_seed(0)
    return GaussianHead(5, 3, **MODES[request.param])


def features(*shape, seed=1):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def two_class_loss(mean, labels, sigma):
    """-log Pr(the right score of two is larger), in closed form."""
    sign = 1.0 - 2.0 * labels
    return -torch.special.log_ndtr(sign * (mean[:, 0] - mean[:, 1]) / (sigma * 2**0.5).squeeze(-1))


def test_predicted_by_hand():
    head = GaussianHead(2, 2, initial=2.0, sigma_min=0.5, sigma_max=3.5)
    with torch.no_grad():
        head.weight.copy_(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
        head.bias.copy_(torch.tensor([0.5, -0.5]))
        head.sigma_weight.copy_(torch.tensor([[1.0, -1.0]]))
        head.sigma_bias.fill_(0.25)
    mean, sigma = head(torch.tensor([[1.0, 10.0], [2.0, 1.0]]))
    assert mean.tolist() == [[21.5, 42.5], [4.5, 9.5]]
    raw = [each / math.sqrt(2) + 0.25 for each in (-9.0, 1.0)]
    expected = [[0.5 + 3.0 / (1.0 + math.exp(-each))] for each in raw]
    torch.testing.assert_close(sigma, torch.tensor(expected))


@pytest.mark.parametrize("initial", [0.002, 0.1, 1.0, 50.0])
def test_predicted_starts_where_asked(initial):
    head = GaussianHead(5, 3, initial=initial)
    sigma = head(1e3 * features(7, 5)).sigma
    torch.testing.assert_close(sigma, torch.full((7, 1), initial), rtol=1e-5, atol=0.0)


def test_starts_as_cross_entropy_by_default():
    expected = equivalent_sigma(3)
    assert GaussianHead(5, 3)(features(1, 5)).sigma.item() == pytest.approx(expected)
    assert GaussianHead(5, 3, sigma="fixed")(features(1, 5)).sigma == expected


def test_predicted_stays_between_its_limits():
    head = GaussianHead(5, 3, initial=1.0)
    nn.init.ones_(head.sigma_weight)
    sigma = head(torch.tensor([[-1e3] * 5, [1e3] * 5])).sigma
    torch.testing.assert_close(sigma, torch.tensor([[1e-3], [4.0]]))


def test_features_move_sigma_as_much_as_the_bias_whatever_their_number():
    """The gradient in the weights, for features of one size, is that in the bias."""
    for size in (1, 100, 10_000):
        head = GaussianHead(size, 3, dtype=torch.float64)
        head(torch.ones(1, size, dtype=torch.float64)).sigma.sum().backward()
        ratio = head.sigma_weight.grad.norm() / head.sigma_bias.grad
        assert ratio.item() == pytest.approx(1.0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("scale", [-1e4, 1e4])
def test_predicted_is_positive_for_extreme_features(dtype, scale):
    head = GaussianHead(64, 10, sigma_min=1e-4, dtype=dtype)
    nn.init.ones_(head.sigma_weight)
    x = torch.full((3, 64), scale, dtype=dtype)
    mean, sigma = head(x)
    assert torch.isfinite(sigma).all()
    assert torch.isfinite(mean).all()
    assert (sigma >= 0.999e-4).all()
    (mean.sum() / sigma.sum()).backward()
    assert all(torch.isfinite(p.grad).all() for p in head.parameters())


@pytest.mark.parametrize("autocast", [True, False])
def test_half_precision_does_not_round_sigma(autocast):
    head = GaussianHead(4, 3, sigma_min=1e-3, dtype=torch.float32 if autocast else torch.bfloat16)
    nn.init.constant_(head.sigma_bias, -9.0)
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        mean, sigma = head(torch.ones(2, 4, dtype=head.weight.dtype))
    assert mean.dtype == torch.bfloat16
    expected = 1e-3 + (head.sigma_max - 1e-3) / (1.0 + math.exp(9.0))
    torch.testing.assert_close(sigma, torch.full((2, 1), expected), rtol=1e-6, atol=0.0)


@pytest.mark.parametrize("shape", [(5,), (4, 5), (2, 3, 5), (0, 5)])
def test_shapes(head, shape):
    scores = head(features(*shape))
    assert isinstance(scores, GaussianScores)
    assert scores.mean.shape == (*shape[:-1], 3)
    expected = {"predicted": (*shape[:-1], 1), "scheduled": (), "fixed": None}[head.sigma]
    assert getattr(scores.sigma, "shape", None) == expected


def test_starts_as_a_linear_layer_does():
    torch.manual_seed(3)
    linear = nn.Linear(50, 40)
    torch.manual_seed(3)
    head = GaussianHead(50, 40)
    for own, theirs in ((head.weight, linear.weight), (head.bias, linear.bias)):
        assert own.abs().max() <= 50**-0.5
        assert own.std().item() == pytest.approx(theirs.std().item(), rel=0.3)


def test_eval_mode_gives_the_means_alone(head):
    x = features(4, 5)
    mean = head(x).mean
    scores = head.eval()(x)
    assert type(scores) is torch.Tensor
    assert torch.equal(scores, mean)
    assert torch.equal(head.gaussian(x).mean, mean)
    assert head.train().gaussian(x)._fields == ("mean", "sigma")


@pytest.mark.parametrize("bias", [True, False])
def test_export_is_the_same_linear_layer(bias):
    head = GaussianHead(5, 3, bias=bias, dtype=torch.float64).eval()
    x = features(100, 5).double()
    random_state = torch.get_rng_state()
    linear = head.export()
    assert torch.equal(torch.get_rng_state(), random_state)
    assert type(linear) is nn.Linear
    assert not linear.training
    assert torch.equal(linear(x), head(x))
    assert set(linear.state_dict()) == ({"weight", "bias"} if bias else {"weight"})
    expected = head(x).clone()
    with torch.no_grad():
        head.weight.zero_()
    assert torch.equal(linear(x), expected)


def test_takes_the_checkpoint_of_a_linear_layer(head):
    linear = nn.Linear(5, 3)
    report = head.load_state_dict(linear.state_dict(), strict=False)
    assert report.unexpected_keys == []
    assert not {"weight", "bias"} & set(report.missing_keys)
    x = features(4, 5)
    assert torch.equal(head.eval()(x), linear(x))


def test_gradients_reach_sigma():
    head = GaussianHead(5, 2)
    x, labels = features(8, 5), torch.tensor([0, 1] * 4)
    mean, sigma = head(x)
    two_class_loss(mean, labels, sigma).mean().backward()
    assert all(p.grad.abs().max() > 1e-3 for p in head.parameters())


@pytest.mark.parametrize("right", [True, False])
def test_descent_lowers_sigma_of_the_right_and_raises_that_of_the_wrong(right):
    head = GaussianHead(1, 2, initial=1.0)
    with torch.no_grad():
        head.weight.copy_(torch.tensor([[1.0], [-1.0]]))
        head.bias.zero_()
    mean, sigma = head(torch.ones(1, 1))
    two_class_loss(mean, torch.tensor([0 if right else 1]), sigma).sum().backward()
    # d(-log Phi(2 t)) / dt = -2 phi / Phi with t = +-1 / (sigma sqrt(2)); dt / dsigma = -t / sigma;
    # the derivative of the sigmoid where sigma is 1; all at sigma = 1.
    t = 2**-0.5 if right else -(2**-0.5)
    density = math.exp(-2 * t * t) / math.sqrt(2 * math.pi)
    tail = 0.5 * math.erfc(-2 * t / math.sqrt(2))
    slope = (1.0 - head.sigma_min) * (head.sigma_max - 1.0) / (head.sigma_max - head.sigma_min)
    expected = 2 * density / tail * t * slope
    assert head.sigma_bias.grad.item() == pytest.approx(expected, rel=1e-5)
    assert head.sigma_weight.grad.item() == pytest.approx(expected, rel=1e-5)


def test_schedule_moves_with_progress():
    head = GaussianHead(5, 3, sigma="scheduled", schedule="tabular")
    x = features(2, 5)
    assert head(x).sigma.item() == pytest.approx(10.0)
    before = head(x).sigma
    head.set_progress(0.5)
    assert head(x).sigma.item() == pytest.approx(10.0 * 10 ** (-3 * 8 / 15))
    assert before.item() == pytest.approx(10.0)  # what was returned stays
    head.set_progress(1.0)
    assert head(x).sigma.item() == pytest.approx(0.01)
    head.reset_parameters()
    assert head(x).sigma.item() == pytest.approx(10.0)


def test_moving_the_schedule_does_not_disturb_a_backward_pass():
    head = GaussianHead(5, 3, sigma="scheduled", schedule="mnist")
    mean, sigma = head(features(2, 5))
    loss = (mean / sigma).sum()
    head.set_progress(1.0)
    loss.backward()
    torch.testing.assert_close(head.bias.grad, torch.full((3,), 0.2))


def test_state_dict_holds_all(head):
    if head.sigma == "scheduled":
        head.set_progress(0.3)
    with torch.no_grad():
        for p in head.parameters():
            p.add_(0.1)
    other = GaussianHead(5, 3, **MODES[head.sigma])
    other.load_state_dict(_through_a_file(head.state_dict()))
    x = features(4, 5)
    for one, two in zip(head(x), other(x), strict=True):
        assert torch.equal(torch.as_tensor(one), torch.as_tensor(two))
    clone = copy.deepcopy(head)
    assert torch.equal(clone(x).mean, head(x).mean)


def _through_a_file(state):
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


class _Run:
    """A training of 12 steps; sigma, where it is scheduled, moves at every third."""

    STEPS = 12

    def __init__(self, mode):
        torch.manual_seed(7)
        self.model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), GaussianHead(6, 2, **MODES[mode]))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.3, momentum=0.9)
        self.normalizer = GradientNormalizer(self.model).attach(self.optimizer)
        self.parts = {"m": self.model, "o": self.optimizer, "n": self.normalizer}

    def advance(self, first, last):
        for step in range(first, last):
            if step % 3 == 0 and self.model[-1].sigma == "scheduled":
                self.model[-1].set_progress(step / self.STEPS)
            x = features(16, 4, seed=step)
            labels = (x[:, 0] > 0).long()
            mean, sigma = self.model(x)
            self.optimizer.zero_grad()
            two_class_loss(mean, labels, torch.as_tensor(sigma)).mean().backward()
            self.optimizer.step()


@pytest.mark.parametrize("mode", MODES)
def test_a_resumed_run_is_the_same_bit_for_bit(mode):
    whole = _Run(mode)
    whole.advance(0, 12)

    first = _Run(mode)
    first.advance(0, 5)  # sigma was set at step 3 and is next set at 6
    saved = _through_a_file({name: part.state_dict() for name, part in first.parts.items()})
    second = _Run(mode)
    second.advance(0, 2)  # leaves something wrong everywhere
    for name, part in second.parts.items():
        part.load_state_dict(saved[name])
    second.advance(5, 12)

    states = zip(whole.model.state_dict().items(), second.model.state_dict().items(), strict=True)
    for (name, one), (_, two) in states:
        assert torch.equal(one, two), name
    assert torch.equal(whole.normalizer.average, second.normalizer.average)


def test_compiles_as_one_graph(head):
    x = features(4, 5)
    compiled = torch.compile(head, fullgraph=True, backend="eager")
    for one, two in zip(compiled(x), head(x), strict=True):
        torch.testing.assert_close(one, two)
    if head.sigma == "scheduled":
        with torch._dynamo.config.patch(error_on_recompile=True):
            head.set_progress(0.5)
            assert compiled(x).sigma.item() == pytest.approx(1.0)
    head.eval()
    torch.testing.assert_close(compiled(x), head(x))


def test_says_what_it_is(head):
    assert head.sigma in repr(head)
    assert {"predicted": "sigma_min=0.001", "scheduled": "start=10.0", "fixed": "initial=0.7"}[
        head.sigma
    ] in repr(head)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"in_features": 0}, "in_features must be at least 1, got 0"),
        ({"num_classes": 0}, "num_classes must be at least 1, got 0"),
        ({"sigma": "learned"}, "sigma must be one of 'predicted'.*got 'learned'"),
        ({"sigma": 1.0}, "sigma must be one of .*got 1.0"),
        ({"initial": 1e50}, "sigma_max must be a finite number <= 3.40282e.38, got 4e.50"),
        ({"initial": -1.0}, "initial must be a finite number > 0, got -1.0"),
        ({"sigma_min": 0.0}, "sigma_min must be a finite number > 0, got 0.0"),
        ({"initial": 0.1, "sigma_min": 0.1}, "above sigma_min=0.1 and below sigma_max=0.4"),
        ({"sigma": "scheduled"}, "schedule must be a SigmaSchedule or the name.*got None"),
        ({"sigma": "scheduled", "schedule": "cifar"}, "name must be one of"),
        ({"sigma": "scheduled", "schedule": "mnist", "initial": 1.0}, "initial is for.*got 1.0"),
        ({"sigma": "fixed", "sigma_min": 0.1}, 'sigma_min is for sigma="predicted", got 0.1'),
        ({"sigma": "fixed", "schedule": "mnist"}, 'schedule is for sigma="scheduled"'),
    ],
)
def test_wrong_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        GaussianHead(**{"in_features": 5, "num_classes": 3, **arguments})


def test_wrong_calls():
    head = GaussianHead(5, 3)
    with pytest.raises(ValueError, match=r"x must be \(..., 5\), got \(2, 4\)"):
        head(torch.zeros(2, 4))
    with pytest.raises(ValueError, match='needs sigma="scheduled", this head has "predicted"'):
        head.set_progress(0.5)
    with pytest.raises(
        ValueError, match=r"progress must be a finite number >= 0 and <= 1, got 1.5"
    ):
        GaussianHead(5, 3, sigma="scheduled", schedule="mnist").set_progress(1.5)
