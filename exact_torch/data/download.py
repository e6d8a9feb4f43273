"""Downloads that end whole or not at all, and archives that stay in their folder.

Bytes go to ``NAME.part`` beside the target, which a later attempt continues (HTTP Range); the
file gets its name only when its checksum is right and its bytes are on the disk. A mirror that
fails, or serves something else, is followed by the next one.
"""

import hashlib
import http.client
import lzma
import os
import tarfile
import tempfile
import urllib.error
import urllib.request
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tqdm import tqdm

_BLOCK = 1 << 16
_TIMEOUT = 30.0  # seconds without a byte


class DataError(RuntimeError):
    """A file of a data set is missing, damaged or not what it should be; the message says which.

    Examples
    --------
    >>> from exact_torch.data import DataError, read_csv
    >>> try:
    ...     read_csv("nowhere.csv")
    ... except DataError as error:
    ...     print(error)
    there is no file nowhere.csv
    """


@dataclass(frozen=True)
class Remote:
    """A file on the net.

    Attributes
    ----------
    name : of the file
    mirrors : addresses of folders that have it, each with its last slash
    checksum : MD5 (32 hexadecimal digits) or SHA-256 (64)
    """

    name: str
    mirrors: tuple[str, ...]
    checksum: str

    @property
    def urls(self) -> list[str]:
        return [mirror + self.name for mirror in self.mirrors]


def download(remote: Remote, folder: Path, progress: bool = True) -> Path:
    """``remote`` in ``folder``: as it is there if its checksum is right, else downloaded.

    Parameters
    ----------
    remote : the file, its mirrors and its checksum
    folder : made if it is not there
    progress : show a bar on stderr, if that is a terminal
    """
    target = folder / remote.name
    failures = []
    if target.is_file():
        found = digest(target, remote)
        if found == remote.checksum:
            return target
        failures.append(_wrong(target, found, remote))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        part = folder / (remote.name + ".part")
        for url in remote.urls:
            try:
                _continue(url, part, progress)
            except (OSError, http.client.HTTPException) as error:
                if isinstance(error, PermissionError):
                    raise
                failures.append(f"{url}: {error}")
                continue
            found = digest(part, remote)
            if found == remote.checksum:
                os.replace(part, target)
                return target
            failures.append(_wrong(url, found, remote))
            part.unlink()
    except OSError as error:
        raise DataError(f"{target} cannot be written: {error}") from error
    raise DataError(f"{remote.name} could not be downloaded: " + "; ".join(failures))


def _wrong(source: object, found: str, remote: Remote) -> str:
    return f"{source}: its checksum is {found}, not the published {remote.checksum}"


def _continue(url: str, part: Path, progress: bool) -> None:
    """Bring ``part`` to its full length from ``url``."""
    have = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(url, headers={"User-Agent": "exact_torch"})
    if have:
        request.add_header("Range", f"bytes={have}-")
    try:
        response = urllib.request.urlopen(request, timeout=_TIMEOUT)
    except urllib.error.HTTPError as error:
        if error.code == 416 and have:  # nothing is left to send: the checksum will judge
            error.close()
            return
        raise
    with response:
        have = have if response.status == 206 else 0  # a server without ranges sends it all
        length = response.headers.get("Content-Length")
        total = have + int(length) if length else None
        with open(part, "ab" if have else "wb") as file, _bar(part, have, total, progress) as bar:
            while block := response.read(_BLOCK):
                file.write(block)
                bar.update(len(block))
            file.flush()
            os.fsync(file.fileno())
    size = part.stat().st_size
    if total is not None and size < total:
        raise OSError(f"the connection ended after {size} of {total} bytes")


def _bar(part: Path, have: int, total: int | None, progress: bool) -> Any:
    # disable=None: silent where stderr is not a terminal
    return tqdm(
        desc=part.stem,
        initial=have,
        total=total,
        unit="B",
        unit_scale=True,
        disable=None if progress else True,
    )


def digest(path: Path, remote: Remote) -> str:
    """The checksum of a file, of the kind that ``remote`` has."""
    kind = "md5" if len(remote.checksum) == 32 else "sha256"
    with open(path, "rb") as file:
        return hashlib.file_digest(file, kind).hexdigest()


def extract(archive: Path, folder: Path) -> None:
    """Unpack a tar archive into ``folder``; a member that would leave the folder is refused.

    Every file appears whole or not at all: it is unpacked beside and then moved.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with (
            tempfile.TemporaryDirectory(prefix=".unpacking-", dir=folder) as beside,
            tarfile.open(archive) as tar,
        ):
            tar.extractall(beside, filter="data")
            for path in sorted(Path(beside).rglob("*")):
                target = folder / path.relative_to(beside)
                if path.is_dir():
                    target.mkdir(exist_ok=True)
                else:
                    os.replace(path, target)
    except tarfile.FilterError as error:
        raise DataError(f"{archive} is refused: {error}") from error
    except (tarfile.TarError, EOFError, OSError, lzma.LZMAError, zlib.error) as error:
        raise DataError(f"{archive} cannot be unpacked: {error}") from error
