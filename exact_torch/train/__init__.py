"""Training: a config, one loop, and a folder for each run."""

from exact_torch.train.config import Config
from exact_torch.train.loop import train
from exact_torch.train.run_files import RunError, RunWarning
from exact_torch.train.settings import with_settings
from exact_torch.train.tensorboard import TensorBoard

__all__ = ["Config", "RunError", "RunWarning", "TensorBoard", "train", "with_settings"]
