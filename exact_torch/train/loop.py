"""The loop: from a config to a folder with a trained network, its record and pictures."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn

from exact_torch import data
from exact_torch.data import Dataset, Split
from exact_torch.heads import GaussianScores
from exact_torch.train import curves, judgement
from exact_torch.train.config import Config
from exact_torch.train.distributed import Processes
from exact_torch.train.evaluate import scores_of
from exact_torch.train.progress import Progress
from exact_torch.train.record import Folder
from exact_torch.train.run_files import RunError
from exact_torch.train.training import Training, seed_of

__all__ = ["Callback", "device_of", "train"]

Callback = Callable[[Mapping[str, Any], nn.Module], None]


def train(
    config: Config,
    out: str | Path,
    data_dir: str | Path | None = None,
    *,
    test: bool = True,
    quiet: bool = False,
    pictures: bool = True,
    extend: bool = False,
    callbacks: Sequence[Callback] = (),
) -> dict[str, Any]:
    """Train a network, or resume the run in this folder where it stopped.

    Parameters
    ----------
    config : Config
    out : path
        The run's folder: a new one, or that of the same config.
    data_dir : path, optional
        Where data sets are; see ``data.load``.
    test : bool
        Judge the network on the test set in the end.
    quiet : bool
        Print nothing.
    pictures : bool
        Draw curves and confusion, which take longer than a small training.
    extend : bool
        Continue a run of the same config with fewer epochs, also a finished one.  Learning rate
        and sigma go on as in the longer training.
    callbacks : sequence of callables
        Each is called as ``callback(measured, network)`` after every epoch by the process that
        writes; ``measured`` is a line of ``metrics.jsonl``.

    Returns
    -------
    dict
        What ``summary.json`` in the folder has.

    Raises
    ------
    RunError
        If the loss is not finite, a file cannot be written, or the folder holds something else.

    Examples
    --------
    >>> import tempfile
    >>> from exact_torch.train import Config, train
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     summary = train(Config(model="linear", epochs=2), folder, quiet=True)
    >>> summary["test_accuracy"] > 0.8
    True
    """
    device = device_of(config)
    processes = Processes.start(device)
    folder = Folder(Path(out), config, processes.first, extend)
    finished = folder.summary()
    if finished is not None and (not test or "test_accuracy" in finished):
        return finished
    with folder.locked(), _deterministic(config.deterministic and device.type == "cuda"):
        training = Training(config, _load(config, data_dir, processes), device, processes)
        try:
            seconds = _run(training, folder, quiet or not processes.first, callbacks)
        except ArithmeticError as error:
            raise RunError(
                f"{error}. {folder.left()} A smaller lr, or gradient=clip, may help."
            ) from error
        return _finish(training, folder, seconds, test, pictures)


def _run(
    training: Training, folder: Folder, quiet: bool, callbacks: Sequence[Callback] = ()
) -> float:
    """Train all epochs that are not done; seconds this took, in all processes that did it."""
    config = training.config
    state = folder.load("checkpoint.pt", training.device, ("seconds", *training.entries))
    seconds = 0.0
    if state is not None:
        seconds = state.pop("seconds")
        with _explained(folder, "checkpoint.pt"):
            training.load_state(state)
        if training.step < training.steps:
            training.schedule.refresh()
    folder.keep_metrics(training.epoch)
    began = time.monotonic() - seconds
    progress = Progress(training.steps, training.step, config.epochs, training.batch_size, quiet)

    def save() -> None:
        folder.save("checkpoint.pt", training.state() | {"seconds": time.monotonic() - began})

    try:
        while training.epoch < config.epochs:
            if training.step % training.epoch_steps == 0:
                training.start_epoch()
            for inputs, labels in training.batches():
                training.advance(inputs, labels)
                ended = training.step % training.epoch_steps == 0
                if training.step % 10 == 0 or ended:
                    progress.step(training.step, training.epoch + (not ended), training.measured())
                every = config.checkpoint_steps
                if every and training.step % every == 0 and not ended:
                    save()
            training.check_weights()
            measured = {
                "epoch": training.epoch,
                "step": training.step,
                "train": training.measured(),
                "validation": _validated(training),
                "lr": training.optimizer.param_groups[0]["lr"],
                "seconds": time.monotonic() - began,
            }
            validation = measured["validation"]
            if training.finish_epoch(None if validation is None else validation["accuracy"]):
                best = {"network": training.evaluated, "loss": training.loss}
                folder.save("best.pt", {name: part.state_dict() for name, part in best.items()})
            folder.add_metrics(measured)
            progress.epoch(training.step, measured)
            for callback in callbacks if training.processes.first else ():
                callback(measured, training.evaluated)
            save()
    finally:
        progress.close()
    return time.monotonic() - began


@contextmanager
def _explained(folder: Folder, name: str) -> Iterator[None]:
    """Turn the errors of a state that does not fit the network into one that names its file."""
    try:
        yield
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        raise folder.damaged(name, f"{type(error).__name__}: {error}") from error


def _validated(training: Training) -> dict[str, Any] | None:
    split = training.dataset.validation
    if not len(split):
        return None
    network, loss = training.evaluated, training.loss
    scores, sigma = scores_of(network, split, training.device, training.processes)
    labels = split.labels.to(training.device)
    deviation = judgement.noise(loss, scores, sigma)
    torch.manual_seed(seed_of(training.config.seed, 4))
    with torch.no_grad():
        value = loss(scores if sigma is None else GaussianScores(scores, sigma), labels)
    return {
        "loss": value.item() if value.isfinite() else None,
        "accuracy": (scores.argmax(1) == labels).double().mean().item(),
        "expected_accuracy": judgement.expected(scores, labels, deviation).item(),
    }


def _finish(
    training: Training, folder: Folder, seconds: float, test: bool, pictures: bool
) -> dict[str, Any]:
    """Test the network that was selected and write what is known of it."""
    config, dataset, processes = training.config, training.dataset, training.processes
    network = training.evaluated
    if config.select == "best":
        processes.wait()
        best = folder.load("best.pt", training.device, ("network", "loss"))
        if best is None:
            raise folder.damaged("best.pt", "it does not exist")
        with _explained(folder, "best.pt"):
            network.load_state_dict(best["network"])
            training.loss.load_state_dict(best["loss"])  # sigma as it was then
    summary: dict[str, Any] = {
        "data": dataset.name,
        "model": config.model,
        "loss": config.loss,
        "seed": config.seed,
        "epochs": config.epochs,
        "best_epoch": training.best["epoch"],
        "parameters": sum(each.numel() for each in network.parameters()),
        "examples": len(dataset.train),
        "seconds": seconds,
    }
    if len(dataset.validation):
        deviation, judged = _judged(training, dataset.validation)
        summary |= {f"validation_{name}": judged[name] for name in _SHORT}
    else:  # the scale of scores is to be known all the same
        step = -(-len(dataset.train) // _SAMPLE)
        scores, sigma = scores_of(network, dataset.train, training.device, processes, step)
        deviation = judgement.noise(training.loss, scores, sigma)
    folder.save(
        "model.pt",
        {
            "network": network.state_dict(),
            "classes": list(dataset.classes),
            "kind": dataset.kind,
            "shape": list(dataset.shape),
            "encoder": None if dataset.encoder is None else dataset.encoder.to_json(),
            "sigma": _scalar(deviation) if config.head == "linear" else "predicted",
        },
    )
    if test:
        _, judged = _judged(training, dataset.test)
        summary |= {f"test_{name}": value for name, value in judged.items()}
    if processes.first and pictures:
        curves.draw(folder.metrics(), folder / "curves.png", f"{config.data}, {config.loss}")
        if test:
            curves.confusion(summary["test_confusion"], dataset.classes, folder / "confusion.png")
    folder.save_summary(summary)
    return summary


def _judged(training: Training, split: Split) -> tuple[Any, dict[str, Any]]:
    """The noise of a split's scores, and what is reported of it."""
    scores, sigma = scores_of(training.evaluated, split, training.device, training.processes)
    deviation = judgement.noise(training.loss, scores, sigma)
    return deviation, judgement.judge(scores, split.labels.to(training.device), deviation)


_SAMPLE = 4096  # training examples whose scores say what their scale is
_SHORT = ("accuracy", "expected_accuracy", "calibration_error")


def _load(config: Config, data_dir: str | Path | None, processes: Processes) -> Dataset:
    """The data set; the first process downloads what is missing, before the others look."""
    if not processes.first:
        processes.wait()
    dataset = data.load(config.data, data_dir, validation=config.validation, **config.data_options)
    if processes.first:
        processes.wait()
    return dataset


def device_of(config: Config) -> torch.device:
    """Where a config is trained, by this process."""
    if config.device == "cpu" or not torch.cuda.is_available():
        if config.device == "cuda":
            raise RunError("device=cuda was asked for, and torch sees no GPU; device=cpu is slower")
        return torch.device("cpu")
    device = torch.device("cuda", Processes.local_rank())
    torch.cuda.set_device(device)
    return device


@contextmanager
def _deterministic(wanted: bool) -> Iterator[None]:
    before = torch.are_deterministic_algorithms_enabled()
    if wanted:
        torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        yield
    finally:
        if wanted:
            torch.use_deterministic_algorithms(before)


def _scalar(deviation: Any) -> float | None:
    return None if deviation is None else float(deviation)
