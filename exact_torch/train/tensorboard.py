"""Curves for TensorBoard, if it is installed."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import nn

from exact_torch.train.run_files import RunError

__all__ = ["TensorBoard"]


class TensorBoard:
    """A callback of ``train`` that writes what is measured for TensorBoard.

    Parameters
    ----------
    folder : path
        Where event files are written; ``tensorboard --logdir`` shows them.

    Examples
    --------
    >>> import tempfile
    >>> from exact_torch.train import Config, TensorBoard, train
    >>> with tempfile.TemporaryDirectory() as folder:  # doctest: +SKIP
    ...     train(Config(), folder + "/run", callbacks=[TensorBoard(folder + "/events")])
    """

    def __init__(self, folder: str | Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise RunError(
                "curves for TensorBoard need the package tensorboard: pip install tensorboard"
            ) from error
        self.writer = SummaryWriter(str(folder))

    def __call__(self, measured: Mapping[str, Any], network: nn.Module) -> None:
        """Write what an epoch measured."""
        step = measured["step"]
        self.writer.add_scalar("lr", measured["lr"], step)
        for part in ("train", "validation"):
            for name, value in (measured[part] or {}).items():
                if value is not None:
                    self.writer.add_scalar(f"{name}/{part}", value, step)
        self.writer.flush()
