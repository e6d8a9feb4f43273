"""Training: a config, one loop, and a folder for each run."""

from exact_torch.train.config import Config, with_settings
from exact_torch.train.loop import train
from exact_torch.train.run_files import RunError, RunWarning

__all__ = ["Config", "RunError", "RunWarning", "train", "with_settings"]
