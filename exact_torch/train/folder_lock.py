"""The lock of a folder, which lets one process at a time write into it.

It is a lock on the file ``lock`` in the folder.  The system releases it when the process ends, in
whatever way.
"""

import errno
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from exact_torch.train.run_files import RunError

__all__ = ["hold_folder", "hold_run_of"]

try:
    import fcntl
except ImportError:  # Windows, where folders are locked within a process only
    fcntl = None  # type: ignore[assignment]

# A process may take the system's lock twice, and loses it when it closes the file once.
_held: set[Path] = set()
_guard = threading.Lock()


@contextmanager
def hold_folder(path: Path) -> Iterator[None]:
    """Hold the lock of a folder that exists; ``RunError`` if another process or thread has it."""
    key = path.resolve()
    with _guard:
        if key in _held:
            raise RunError(f"another thread of this process is writing into {path}")
        _held.add(key)
    try:
        if fcntl is None:
            yield
            return
        try:
            file = open(path / "lock", "w")  # noqa: SIM115
        except OSError as error:
            raise RunError(f"{path} cannot be written to: {error}") from error
        with file:
            try:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # not inherited by workers
            except OSError as error:
                if error.errno in (errno.EACCES, errno.EAGAIN):
                    raise RunError(
                        f"another process is training in {path} or writing into it; wait for it, "
                        "or name another folder"
                    ) from error
                raise RunError(f"{path / 'lock'} cannot be locked: {error}") from error
            yield
    finally:
        with _guard:
            _held.discard(key)


@contextmanager
def hold_run_of(file: Path, reserved: tuple[str, ...]) -> Iterator[None]:
    """Hold the lock of the run's folder that ``file`` is to be written into, if it is one.

    ``reserved`` are names of files that belong to the run itself: they are refused.
    """
    folder = file.parent
    if not (folder / "config.json").exists():
        yield
        return
    if file.name in reserved:
        raise RunError(f"{file} belongs to the run in {folder}; name another file")
    with hold_folder(folder):
        yield
