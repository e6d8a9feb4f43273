"""Where the files of a data set are, and their bytes: plain, gzip or xz.

A set called NAME has its files in ``FOLDER/NAME`` (or in the sub-folder that its archive makes).
FOLDER is the argument, else the environment variable ``EXACT_TORCH_DATA``, else a folder in the
user's cache. A file that is there is used as it is; what is missing is downloaded if that is
allowed, and otherwise the message says which files to put where.
"""

import gzip
import lzma
import os
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from exact_torch.data.download import DataError, Remote, download, extract


def cache() -> Path:
    """The folder of the user's cache that belongs to this package."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "exact_torch"


def data_folder(folder: str | Path | None = None) -> Path:
    """``folder``, else ``EXACT_TORCH_DATA``, else the user's cache.

    >>> data_folder("somewhere").name
    'somewhere'
    """
    chosen = folder or os.environ.get("EXACT_TORCH_DATA") or cache()
    return Path(chosen).expanduser()


def find(folders: Iterable[Path], name: str) -> Path | None:
    """The file ``name`` in the first of ``folders`` that has it: plain, ``.gz`` or ``.xz``."""
    for folder in folders:
        for suffix in ("", ".gz", ".xz"):
            path = folder / (name + suffix)
            if path.is_file():
                return path
    return None


def obtain(
    folder: Path,
    name: str,
    wanted: Sequence[str],
    remotes: Sequence[Remote],
    inner: Sequence[str] = (),
    fetch: bool = True,
    advice: str = "",
) -> list[Path]:
    """The paths of the files ``wanted`` of the data set ``name``, downloaded if they are missing.

    Parameters
    ----------
    folder : the folder of all data sets
    name : the data set, and its folder
    wanted : file names without ``.gz`` or ``.xz``
    remotes : what to download: the files themselves, or one archive that has them all
    inner : sub-folders that archives make, looked into both in ``folder / name`` and in ``folder``
    fetch : whether to download
    advice : a last sentence for the message about missing files
    """
    home = folder / name
    places = [home, *(home / part for part in inner), *(folder / part for part in inner)]
    missing = [file for file in wanted if find(places, file) is None]
    archive = len(remotes) == 1 and ".tar" in remotes[0].name
    failure = ""
    if missing and (fetch or (archive and (home / remotes[0].name).is_file())):
        try:
            for remote in remotes:
                if archive or remote.name.removesuffix(".gz") in missing:
                    path = download(remote if fetch else replace(remote, mirrors=()), home)
                    if archive:
                        extract(path, home)
        except DataError as error:
            failure = f"\nThe download failed: {error}"
        missing = [file for file in wanted if find(places, file) is None]
    if missing:
        sources = [url for remote in remotes for url in remote.urls]
        lines = [
            f"{name} needs {', '.join(missing)} (plain, .gz or .xz) in {home}",
            "or in a folder FOLDER/" + name + " with FOLDER given by --data-dir (folder=) or "
            "EXACT_TORCH_DATA.",
            *(["They come from:", *(f"  {url}" for url in sources)] if sources else []),
            *([advice] if advice else []),
        ]
        raise DataError("\n".join(lines) + failure)
    found = [find(places, file) for file in wanted]
    return [path for path in found if path is not None]


def read(path: Path) -> bytes:
    """The content of a file, unpacked if its name ends in ``.gz`` or ``.xz``."""
    try:
        if path.suffix == ".gz":
            with gzip.open(path) as stream:
                return stream.read()
        if path.suffix == ".xz":
            with lzma.open(path) as stream:
                return stream.read()
        return path.read_bytes()
    except (EOFError, OSError, lzma.LZMAError, zlib.error) as error:
        raise DataError(f"{path} cannot be read: truncated or damaged ({error})") from error
