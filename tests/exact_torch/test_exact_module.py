"""``ExactLoss``: schedules that follow the training, presets, and what is trained or moved."""

import warnings

import pytest
import torch
from torch import nn

from exact_torch import ExactLoss, GaussianHead, SigmaSchedule, exact_loss


def batch(rows=6, classes=4):
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(rows, classes, generator=generator, requires_grad=True)
    return scores, torch.arange(rows) % classes


def test_counts_training_calls_only():
    scores, labels = batch()
    loss = ExactLoss(sigma=SigmaSchedule(10.0, 0.1), total_steps=4)
    seen = []
    for _ in range(6):
        loss(scores, labels).backward()
        seen.append(loss.progress)
        with torch.no_grad():
            loss(scores, labels)
        loss.eval()(scores, labels)
        loss.train()(scores.detach(), labels)
    assert seen == [0.0, 0.25, 0.5, 0.75, 1.0, 1.0]


def test_counting_resumes_from_a_checkpoint():
    scores, labels = batch()
    loss = ExactLoss.robust(total_steps=8)
    for _ in range(3):
        loss(scores, labels)
    again = ExactLoss.robust(total_steps=8)
    again.load_state_dict(loss.state_dict())
    torch.testing.assert_close(again(scores, labels), loss(scores, labels))
    assert again.progress == loss.progress == 3 / 8


def test_set_progress_takes_over():
    scores, labels = batch()
    loss = ExactLoss(sigma=SigmaSchedule(10.0, 0.1), total_steps=100)
    loss.set_progress(0.5)
    loss(scores, labels)
    loss(scores, labels)
    assert loss.progress == 0.5


def test_a_schedule_that_stands_still_warns_once():
    scores, labels = batch()
    loss = ExactLoss(sigma=SigmaSchedule(10.0, 0.1))
    with torch.no_grad():
        loss(scores, labels)  # not training
    with pytest.warns(UserWarning, match="call set_progress"):
        loss(scores, labels)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loss(scores, labels)
        for quiet in (ExactLoss(), ExactLoss.robust(total_steps=3), ExactLoss(margin=1.0)):
            quiet(scores, labels)


def test_a_compiled_graph_does_not_count():
    scores, labels = batch()
    compiled = torch.compile(ExactLoss.robust(total_steps=3), backend="eager", fullgraph=True)
    with pytest.raises(Exception, match="cannot count steps"):
        compiled(scores, labels)


def test_sigma_is_a_buffer_or_a_parameter_as_given():
    scores, labels = batch()
    buffer = ExactLoss(sigma=torch.tensor(0.7))
    assert [name for name, _ in buffer.named_buffers()] == ["sigma"]
    assert not list(buffer.parameters())
    assert buffer.double().sigma.dtype == torch.float64
    trained = ExactLoss(sigma=nn.Parameter(torch.tensor(0.7)))
    assert [name for name, _ in trained.named_parameters()] == ["sigma"]
    trained(scores, labels).backward()
    assert trained.sigma.grad != 0.0
    torch.testing.assert_close(trained(scores, labels), exact_loss(scores, labels, sigma=0.7))


def test_a_number_in_the_place_of_weights_is_an_error():
    with pytest.raises(TypeError, match="sigma is given by name"):
        ExactLoss(1.0)


def test_presets():
    robust = ExactLoss.robust(total_steps=10, margin=1.5, sigma=(5.0, 0.5), normalize="mad")
    assert robust.options["objective"] == "error"
    assert (robust.margin, robust.scale, robust.deviation(3)) == (1.5, "mad", 5.0)
    published = ExactLoss.published("cifar10")
    assert (published.margin(0.0), published.scale, published.deviation(10)) == (0.5, "std", 10.0)
    published.set_progress(1.0)
    assert published.deviation(10) == 1.0
    assert ExactLoss.published("tabular", margin=5.0).margin == 5.0
    with pytest.raises(ValueError, match="name must be one of 'tabular', 'mnist'"):
        ExactLoss.published("digits")
    with pytest.raises(TypeError, match="sigma must be two numbers, the first and the last"):
        ExactLoss.robust(sigma=(10.0,))


def test_robust_trains_in_a_plain_loop():
    """With wrong labels, by Adam and no gradient normaliser: the majority's rule is found."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(400, 2, generator=generator)
    truth = (x[:, 0] > 0).long()
    wrong = torch.rand(400, generator=generator) < 0.3
    labels = torch.where(wrong, 1 - truth, truth)
    torch.manual_seed(0)
    model = nn.Linear(2, 2)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    loss = ExactLoss.robust(total_steps=150)
    for _ in range(150):
        optimizer.zero_grad()
        loss(model(x), labels).backward()
        optimizer.step()
    assert (model(x).argmax(1) == truth).float().mean() > 0.95


def test_takes_the_output_of_a_head():
    torch.manual_seed(0)
    head, loss = GaussianHead(7, 4), ExactLoss()
    x, labels = torch.randn(6, 7), torch.arange(6) % 4
    mean, sigma = head(x)
    torch.testing.assert_close(loss(head(x), labels), exact_loss(mean, labels, sigma=sigma))
    loss(head(x), labels).backward()
    assert head.sigma_bias.grad != 0.0


@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_a_predicted_sigma_trains_at_the_published_rate(rate):
    """Where an unbounded sigma, whose weights see 256 features, grows and nothing is learned."""
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(1)
    centres = torch.randn(10, 256, generator=generator)
    labels = torch.randint(10, (2000,), generator=generator)
    x = (0.5 * centres[labels] + torch.randn(2000, 256, generator=generator)).relu()
    head = GaussianHead(256, 10)
    optimizer = torch.optim.SGD(head.parameters(), lr=rate, momentum=0.9)
    for step in range(60):
        rows = slice(64 * step % 1984, 64 * step % 1984 + 64)
        optimizer.zero_grad()
        exact_loss(head(x[rows]), labels[rows]).backward()
        optimizer.step()
    accuracy = (head.eval()(x).argmax(1) == labels).float().mean()
    assert accuracy > 0.9
