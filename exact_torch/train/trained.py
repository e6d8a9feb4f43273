"""A trained network out of its run's folder: predictions, and files for other programs."""

import io
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from exact_torch import models
from exact_torch.heads import GaussianHead, GaussianScores
from exact_torch.train import checkpoint, judgement
from exact_torch.train.folder_lock import hold_run_of
from exact_torch.train.network import network_of
from exact_torch.train.onnx_file import onnx_bytes
from exact_torch.train.record import FILES, Folder
from exact_torch.train.run_files import RunError, read_config

__all__ = ["FORMATS", "Prediction", "Trained", "export"]

FORMATS = ("torch.export", "torchscript", "onnx")
_ENTRIES = ("network", "classes", "kind", "shape", "encoder", "sigma")  # of model.pt


class Prediction(NamedTuple):
    """What a network says of examples.

    Attributes
    ----------
    scores : Tensor (B, C)
        What the network returns.
    probabilities : Tensor (B, C)
        With the noise the network was trained for.

    Examples
    --------
    >>> import torch
    >>> from exact_torch.train.trained import Prediction
    >>> scores = torch.tensor([[0.0, 1.0], [2.0, 0.0]])
    >>> Prediction(scores, scores.softmax(1)).classes
    tensor([1, 0])
    """

    scores: Tensor
    probabilities: Tensor

    @property
    def classes(self) -> Tensor:
        """The most probable classes, (B,)."""
        return self.scores.argmax(1)


class Trained:
    """The network of a finished run.

    Parameters
    ----------
    run : path
        The run's folder.

    Attributes
    ----------
    network : nn.Module
        In eval mode; takes raw pixels or features.
    classes : tuple of str
        Names of the classes.
    shape : (C, H, W) or (F,)
        Of an input.
    kind : {"images", "table"}
        What an input is.
    encoder : mapping, optional
        Of a table's rows as JSON, or None.

    Examples
    --------
    >>> import tempfile
    >>> import torch
    >>> from exact_torch import data
    >>> from exact_torch.train import Config, train
    >>> from exact_torch.train.trained import Trained
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     summary = train(Config(model="linear", epochs=1, epoch_steps=9), folder, quiet=True)
    ...     trained = Trained(folder)
    >>> test = data.load("digits").test
    >>> trained.predict(test.inputs(torch.arange(5))).probabilities.shape
    torch.Size([5, 10])
    """

    def __init__(self, run: str | Path) -> None:
        path = Path(run)
        if not (path / "config.json").exists():
            raise RunError(f"{path} holds no run: there is no config.json")
        self.config = read_config(path)
        folder = Folder(path, self.config, writes=False)
        state = folder.load("model.pt", needs=_ENTRIES)
        if state is None and folder.summary() is not None:
            raise folder.damaged("model.pt", "it does not exist")
        if state is None:
            raise RunError(f"the run in {path} is not finished: train it to its end first")
        try:
            self._load(state)
        except (KeyError, TypeError, ValueError, AttributeError, RuntimeError) as error:
            raise folder.damaged("model.pt", f"{type(error).__name__}: {error}") from error

    def _load(self, state: Mapping[str, Any]) -> None:
        self.classes = tuple(state["classes"])
        self.shape, self.kind = tuple(state["shape"]), state["kind"]
        self.encoder: Any = state["encoder"]
        self._sigma: Any = state["sigma"]
        statistics = state["network"]["0.mean"], state["network"]["0.std"]
        self.network = network_of(self.config, len(self.classes), self.shape, *statistics)
        self.network.load_state_dict(state["network"])
        self.network.eval()

    @torch.no_grad()
    def predict(self, inputs: Tensor) -> Prediction:
        """Scores and probabilities of raw inputs, ``(B, *shape)``."""
        if inputs.shape[1:] != self.shape:
            raise ValueError(f"inputs must be (B, {_shape(self.shape)}), got {tuple(inputs.shape)}")
        sigma = self._sigma
        if sigma == "predicted":
            for module in self.network.modules():
                if isinstance(module, GaussianHead):
                    module.train()  # says its sigma
        outputs = self.network(inputs)
        self.network.eval()
        if isinstance(outputs, GaussianScores):
            outputs, sigma = outputs
        return Prediction(outputs, judgement.probabilities(outputs, sigma))


def export(trained: Trained, path: str | Path, form: str | None = None) -> Path:
    """Write the network for programs without this package: raw inputs in, logits out.

    The part that predicts sigma is dropped.  Inputs are ``(B, *shape)`` in single precision, pixels
    from 0 to 255; the batch may be of any size.

    Parameters
    ----------
    trained : Trained
    path : path
    form : {"torch.export", "torchscript", "onnx"}, optional
        "onnx" if the path ends in ".onnx", else "torch.export".

    Returns
    -------
    Path

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import torch
    >>> from exact_torch.train import Config, train
    >>> from exact_torch.train.trained import Trained, export
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     run = Path(folder, "run")
    ...     summary = train(Config(model="linear", epochs=1, epoch_steps=9), run, quiet=True)
    ...     file = export(Trained(run), Path(folder, "digits.pt2"))
    ...     network = torch.export.load(file).module()
    >>> network(torch.zeros(7, 1, 8, 8)).shape
    torch.Size([7, 10])
    """
    path = Path(path)
    if form is None:
        form = "onnx" if path.suffix == ".onnx" else "torch.export"
    network = models.export(trained.network)
    example = torch.zeros(2, *trained.shape)
    buffer = io.BytesIO()
    if form == "torch.export":
        batch = torch.export.Dim("batch")
        program = torch.export.export(network, (example,), dynamic_shapes=({0: batch},))
        torch.export.save(program, buffer)
    elif form == "torchscript":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that TorchScript will not be developed further
            torch.jit.save(torch.jit.trace(network, example), buffer)
    elif form == "onnx":
        buffer.write(onnx_bytes(network, example))
    else:
        raise ValueError(f"format must be one of {', '.join(FORMATS)}, got {form!r}")
    with hold_run_of(path, FILES):
        checkpoint.write_bytes(path, buffer.getvalue())
    return path


def _shape(shape: tuple[int, ...]) -> str:
    return ", ".join(map(str, shape))
