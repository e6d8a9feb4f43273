"""Steps of training: what they amount to does not depend on how they are carried out."""

import dataclasses
import json

import pytest
import torch

from exact_torch import ExactLoss, data
from exact_torch.train import Config, RunError, judgement, train
from exact_torch.train.distributed import Processes
from exact_torch.train.evaluate import scores_of
from exact_torch.train.loop import _run
from exact_torch.train.record import Folder
from exact_torch.train.training import Training, seed_of

QUICK = Config(
    data="digits",
    model="linear",
    loss="exact",
    loss_options={"sigma": [5.0, 0.5], "margin": 2.0, "normalize": True},
    optimizer="sgd",
    lr=0.05,
    epochs=3,
    epoch_steps=5,
    batch_size=64,
)


@pytest.fixture(scope="module")
def digits():
    return data.load("digits", validation=0.1)


def trained(config, dataset, steps=None):
    """A training after so many steps, or all of them."""
    training = Training(config, dataset, torch.device("cpu"), Processes())
    while training.step < (steps or training.steps):
        for inputs, labels in training.batches():
            training.advance(inputs, labels)
            if training.step == steps:
                break
    return training


def weights(training):
    return torch.cat([each.detach().flatten() for each in training.network.parameters()])


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"loss": "ce", "loss_options": {}},
        {"head": "predicted", "loss_options": {"sigma": 2.0}},
        {"model": "small_cnn", "optimizer": "adamw", "lr": 1e-3, "weight_decay": 0.01},
        {"rho": 0.5},
        {"gradient": "normalize"},
        {"gradient": "clip", "clip": 0.1},
        {"ema": 0.9},
        {"schedule": "cosine"},
        {"schedule": "plateau", "schedule_options": {"patience": 0}},
        {"precision": "bfloat16"},
        {"precision": "float16"},
        {"loss": "cot", "loss_options": {}},
        {"loss": "nce", "loss_options": {"draws": 3}},
        {"loss": "ce_el", "loss_options": {"schedule": "0-0.5"}},
        {"loss": "beta_bernoulli", "loss_options": {"learned": True}},
        {"loss_options": {"method": "genz", "n": 4}},
        {"augment": ("affine",)},
        {"channels_last": True, "model": "small_cnn"},
    ],
    ids=lambda settings: "-".join(f"{value}" for value in settings.values()) or "exact",
)
def test_a_state_is_all_there_is_to_know(settings, digits, tmp_path):
    config = dataclasses.replace(QUICK, **settings)
    whole = trained(config, digits)
    half = trained(config, digits, steps=7)
    folder = Folder(tmp_path / "run", config)
    with folder.locked():
        folder.save("checkpoint.pt", half.state())
    other = Training(config, digits, torch.device("cpu"), Processes())
    assert not torch.equal(weights(other), weights(half))
    other.load_state(folder.load("checkpoint.pt"))
    while other.step < other.steps:
        for inputs, labels in other.batches():
            other.advance(inputs, labels)
    assert torch.equal(weights(other), weights(whole))
    assert other.measured() == whole.measured()
    if whole.ema is not None:
        kept, again = whole.ema.state_dict(), other.ema.state_dict()
        assert all(torch.equal(kept[name], again[name]) for name in kept)


def test_parts_of_a_batch_add_up(digits):
    config = dataclasses.replace(QUICK, loss_options={"sigma": 1.0})  # no normalisation of parts
    whole = weights(trained(config, digits))
    parts = weights(trained(dataclasses.replace(config, accumulate=4), digits))
    torch.testing.assert_close(parts, whole, rtol=1e-4, atol=1e-6)
    asam = dataclasses.replace(config, rho=0.5)
    whole_asam = weights(trained(asam, digits))
    parts = weights(trained(dataclasses.replace(asam, accumulate=4), digits))
    torch.testing.assert_close(parts, whole_asam, rtol=1e-4, atol=1e-6)
    assert not torch.allclose(whole, whole_asam, rtol=1e-3)


def test_every_example_is_seen_once_a_pass(digits):
    training = Training(
        dataclasses.replace(QUICK, epoch_steps=None), digits, torch.device("cpu"), Processes()
    )
    seen = [labels for _, labels in training.batches()]
    assert len(seen) == training.epoch_steps == len(digits.train) // 64
    counts = torch.cat(seen).bincount()
    assert (digits.train.labels.bincount() - counts).sum() == len(digits.train) % 64
    training.step = training.epoch_steps
    again = torch.cat([labels for _, labels in training.batches()])
    assert not torch.equal(again, torch.cat(seen))


def test_augmentation_is_of_the_pass_and_the_example(digits):
    config = dataclasses.replace(QUICK, augment=("affine",), epoch_steps=None)
    training = Training(config, digits, torch.device("cpu"), Processes())
    first, again = next(iter(training.batches()))[0], next(iter(training.batches()))[0]
    assert torch.equal(first, again)
    plain = Training(
        dataclasses.replace(config, augment=()), digits, torch.device("cpu"), Processes()
    )
    assert not torch.equal(first, next(iter(plain.batches()))[0])


def test_seeds_count(digits):
    one, two = (weights(trained(dataclasses.replace(QUICK, seed=seed), digits)) for seed in (1, 2))
    assert not torch.allclose(one, two)
    assert seed_of(1, 2) != seed_of(2, 1)
    assert 0 <= seed_of(0) < 2**63


def test_sigma_follows_its_schedule(digits):
    training = trained(QUICK, digits)
    assert training.loss.deviation(10) == pytest.approx(5.0 * 0.1 ** (14 / 15))
    sigmas = [5.0 * 0.1 ** (step / 15) for step in range(15)]
    assert training.measured()["sigma"] == pytest.approx(sum(sigmas) / 15)


def test_a_learned_loss_is_learned(digits):
    config = dataclasses.replace(QUICK, loss="beta_bernoulli", loss_options={"learned": True})
    training = Training(config, digits, torch.device("cpu"), Processes())
    before = [each.detach().clone() for each in training.loss.parameters()]
    after = list(trained(config, digits).loss.parameters())
    assert before
    assert all(not torch.equal(a, b) for a, b in zip(before, after, strict=True))


def test_the_average_is_what_is_evaluated(digits):
    training = trained(dataclasses.replace(QUICK, ema=0.99), digits)
    averaged = torch.cat([each.flatten() for each in training.evaluated.parameters()])
    assert not torch.equal(averaged, weights(training))


def test_scores_of_a_split_are_in_order(digits):
    training = trained(QUICK, digits)
    scores, sigma = scores_of(training.network, digits.validation, torch.device("cpu"))
    training.network.eval()
    with torch.no_grad():
        direct = training.network(digits.validation.inputs(torch.arange(len(digits.validation))))
    torch.testing.assert_close(scores, direct)
    assert sigma is None
    every_third, _ = scores_of(
        training.network, digits.validation, torch.device("cpu"), Processes(), 3
    )
    torch.testing.assert_close(every_third, direct[::3])


def test_softmax_makes_single_logits_comparable():
    labels = torch.arange(40) % 4
    scores = 3.0 * torch.nn.functional.one_hot(labels, 4).float()
    scores += 20.0 * torch.arange(40.0)[:, None]  # which the softmax does not see
    judged = judgement.judge(scores, labels, None)
    names = [name.removeprefix("all_logits_") for name in judged if name.startswith("all_logits_")]
    assert len(names) == 3
    assert all(judged[f"all_logits_{name}"] == pytest.approx(1.0) for name in names)
    assert all(judged[f"single_logit_{name}"] < 0.9 for name in names)


def test_scores_that_are_not_finite_have_no_scale():
    loss = ExactLoss(sigma=2.0, normalize=True)
    assert judgement.noise(loss, torch.full((2, 3), torch.nan)) == 2.0  # and no warning


def test_a_loss_that_is_not_finite_stops_the_run(tmp_path):
    config = dataclasses.replace(QUICK, lr=1e38, loss="max_margin", loss_options={})
    with pytest.raises(RunError, match=r"(?s)step.*no checkpoint yet.*smaller lr"):
        train(config, tmp_path / "run", quiet=True)
    assert not (tmp_path / "run" / "checkpoint.pt").exists()
    assert not (tmp_path / "run" / "summary.json").exists()


def test_weights_that_are_not_finite_are_not_judged(tmp_path):
    # The loss of the last step is that of finite weights; what the step makes of them is not.
    config = dataclasses.replace(QUICK, epoch_steps=1, lr=3e38, loss="ce", loss_options={})
    config = dataclasses.replace(config, loss_options={"reduction": "sum"})
    with pytest.raises(RunError, match="not finite after step 1"):
        train(config, tmp_path / "run", quiet=True)
    assert (tmp_path / "run" / "metrics.jsonl").read_text() == ""
    assert not (tmp_path / "run" / "best.pt").exists()


def test_weights_that_are_not_finite_never_reach_a_checkpoint(tmp_path, digits):
    folder = Folder(tmp_path / "run", QUICK)
    training = Training(QUICK, digits, torch.device("cpu"), Processes())
    with folder.locked():
        _run(training, folder, quiet=True)
    with torch.no_grad():
        next(training.network.parameters())[0, 0] = torch.nan
    with pytest.raises(ArithmeticError, match="not finite"):
        training.state()


def test_a_finished_run_is_not_repeated(tmp_path):
    first = train(QUICK, tmp_path / "run", quiet=True)
    written = (tmp_path / "run" / "model.pt").stat().st_mtime_ns
    assert train(QUICK, tmp_path / "run", quiet=True) == first
    assert (tmp_path / "run" / "model.pt").stat().st_mtime_ns == written
    assert json.loads((tmp_path / "run" / "summary.json").read_text()) == first


def test_a_run_without_a_test_can_be_tested_later(tmp_path):
    first = train(QUICK, tmp_path / "run", quiet=True, test=False)
    weights_then = (tmp_path / "run" / "checkpoint.pt").read_bytes()
    later = train(QUICK, tmp_path / "run", quiet=True)
    assert (tmp_path / "run" / "checkpoint.pt").read_bytes() == weights_then
    assert later["validation_accuracy"] == first["validation_accuracy"]
    assert later == train(QUICK, tmp_path / "other", quiet=True) | {"seconds": later["seconds"]}


def test_the_best_weights_are_judged_with_the_sigma_of_their_time(tmp_path, monkeypatch):
    config = dataclasses.replace(QUICK, select="best", lr=0.2, ema=0.5)
    finish = Training.finish_epoch
    monkeypatch.setattr(  # the first epoch is the best
        Training, "finish_epoch", lambda self, accuracy: finish(self, accuracy / self.epoch**9)
    )
    summary = train(config, tmp_path / "run", quiet=True)
    assert summary["best_epoch"] == 1
    then = Folder(tmp_path / "run", config).metrics()[0]["validation"]
    for name in ("accuracy", "expected_accuracy"):
        assert summary[f"validation_{name}"] == pytest.approx(then[name], rel=1e-6)


def test_selection_needs_validation_examples(tmp_path):
    config = dataclasses.replace(QUICK, select="best", validation=1e-5)
    with pytest.raises(ValueError, match=r"validation=1e-05 of 1438 examples leaves empty"):
        train(config, tmp_path / "run", quiet=True)


def test_clipping_is_of_all_that_is_trained(digits):
    config = dataclasses.replace(
        QUICK, loss="beta_bernoulli", loss_options={"learned": True}, momentum=0.0, lr=1.0
    )
    config = dataclasses.replace(config, gradient="clip", clip=1e-3)
    before, after = (trained(config, digits, steps=steps) for steps in (1, 2))
    moved = [
        b - a
        for part in ("network", "loss")
        for a, b in zip(
            getattr(before, part).parameters(), getattr(after, part).parameters(), strict=True
        )
    ]
    assert torch.cat([each.flatten() for each in moved]).norm().item() == pytest.approx(1e-3, 1e-2)


def test_classes_may_have_weights(digits):
    options = {"sigma": 1.0, "weight": [1.0] * 10}
    plain, one = (
        weights(trained(dataclasses.replace(QUICK, loss_options=each), digits))
        for each in ({"sigma": 1.0}, options)
    )
    torch.testing.assert_close(plain, one)
    options = options | {"weight": [0.0] * 9 + [1.0]}
    training = trained(dataclasses.replace(QUICK, loss_options=options), digits)
    scores, _ = scores_of(training.network, digits.validation, torch.device("cpu"))
    assert (scores.argmax(1) == 9).all()  # no other class counts


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"loss_options": {"sigma": [10.0]}}, r"loss_options\.sigma must be .*got \[10\.0\]"),
        ({"loss_options": {"sigma": "cifar11"}}, r"loss_options\.sigma must be .*'cifar11'"),
        ({"loss_options": {"margin": "tabular"}}, r"loss_options\.margin must be"),
        ({"loss_options": {"sigma": "mnist"}, "head": "predicted"}, "predicted sigma"),
        ({"loss_options": {"reduction": "none"}}, "reduction"),
        ({"loss_options": {"reduction": "sum"}, "accumulate": 2}, "reduction"),
    ],
)
def test_losses_that_make_no_sense(settings, message, digits):
    with pytest.raises(ValueError, match=message):
        Training(dataclasses.replace(QUICK, **settings), digits, torch.device("cpu"), Processes())


def test_what_a_run_leaves(tmp_path):
    config = dataclasses.replace(QUICK, select="best", epochs=2)
    summary = train(config, tmp_path / "run", quiet=True)
    files = {path.name for path in (tmp_path / "run").iterdir()}
    assert files == {
        "config.json",
        "environment.json",
        "metrics.jsonl",
        "checkpoint.pt",
        "best.pt",
        "model.pt",
        "curves.png",
        "confusion.png",
        "summary.json",
        "lock",
    }
    folder = Folder(tmp_path / "run", config)
    assert [each["epoch"] for each in folder.metrics()] == [1, 2]
    environment = json.loads((tmp_path / "run" / "environment.json").read_text())
    assert environment["versions"]["torch"] == torch.__version__
    confusion = torch.tensor(summary["test_confusion"])
    assert confusion.sum() == 359
    accuracy = confusion.trace().item() / 359
    assert summary["test_accuracy"] == pytest.approx(accuracy)
    best = max(each["validation"]["accuracy"] for each in folder.metrics())
    assert summary["validation_accuracy"] == pytest.approx(best)


def test_the_test_set_is_touched_only_in_the_end(tmp_path, monkeypatch):
    def refuse(self):
        raise AssertionError("the test set was looked at")

    monkeypatch.setattr(data.Dataset, "test", property(refuse))
    summary = train(QUICK, tmp_path / "run", quiet=True, test=False)
    assert "validation_accuracy" in summary
    assert not [name for name in summary if name.startswith("test_")]
    with pytest.raises(AssertionError):
        train(QUICK, tmp_path / "other", quiet=True)


def test_without_a_validation_set(tmp_path):
    summary = train(dataclasses.replace(QUICK, validation=0.0), tmp_path / "run", quiet=True)
    assert "validation_accuracy" not in summary
    assert summary["examples"] == 1438
    assert summary["test_accuracy"] > 0.5


def test_batches_larger_than_the_set(digits):
    training = Training(
        dataclasses.replace(QUICK, batch_size=4096, accumulate=4, epoch_steps=None),
        digits,
        torch.device("cpu"),
        Processes(),
    )
    assert training.batch_size == 1292
    assert training.epoch_steps == 1


def test_without_pictures(tmp_path):
    train(Config(model="linear", epochs=1), tmp_path, quiet=True, pictures=False)
    assert (tmp_path / "summary.json").exists()
    assert not list(tmp_path.glob("*.png"))
