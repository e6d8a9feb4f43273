"""Files that are there whole or not at all, and states that load without running code."""

import io
import os
from pathlib import Path
from typing import Any

import torch

__all__ = ["load", "save", "write_bytes"]


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file so that a reader, or a crash at any moment, sees the old one or the new one."""
    part = path.with_name(path.name + ".part")
    try:
        with open(part, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except OSError:
        part.unlink(missing_ok=True)  # what was there stays
        raise


def save(path: Path, state: dict[str, Any]) -> None:
    """Write tensors, numbers, words and collections of them."""
    buffer = io.BytesIO()
    torch.save(state, buffer)
    write_bytes(path, buffer.getvalue())


def load(path: Path, device: torch.device | str = "cpu") -> dict[str, Any]:
    """Read what ``save`` wrote; nothing else is executed, whatever the file holds."""
    return torch.load(path, map_location=device, weights_only=True)
