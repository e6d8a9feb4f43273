"""Downloads from a server in this process that does what servers do: ranges, errors, lies."""

import hashlib
import io
import tarfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from exact_torch.data import DataError, mnist
from exact_torch.data.download import Remote, download, extract
from exact_torch.data.files import obtain

CONTENT = bytes(range(256)) * 1000
MD5 = hashlib.md5(CONTENT).hexdigest()


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        server = self.server
        wanted = self.headers.get("Range")
        server.requests.append((self.path, wanted))
        folder, _, name = self.path.strip("/").rpartition("/")
        if folder == "broken" or name not in server.files:
            self.send_error(500 if folder == "broken" else 404)
            return
        content = server.files[name] if folder != "lying" else b"something else"
        start = 0
        if wanted and folder != "no-ranges":
            start = int(wanted.removeprefix("bytes=").removesuffix("-"))
            if start >= len(content):
                self.send_error(416)
                return
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        else:
            self.send_response(200)
        self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        stop = 100_000 if folder == "stopping" and not wanted else len(content)
        self.wfile.write(content[start:stop])

    def log_message(self, *arguments):
        pass


@pytest.fixture
def server():
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        http.files = {"file.bin": CONTENT}
        http.requests = []
        thread = threading.Thread(target=http.serve_forever, args=[0.01])
        thread.start()
        http.at = lambda folder: f"http://127.0.0.1:{http.server_port}/{folder}/"
        yield http
        http.shutdown()
        thread.join()


def remote(server, *folders, checksum=MD5):
    return Remote("file.bin", tuple(server.at(folder) for folder in folders), checksum)


@pytest.mark.parametrize("checksum", [MD5, hashlib.sha256(CONTENT).hexdigest()])
def test_download(server, tmp_path, checksum):
    wanted = remote(server, "good", checksum=checksum)
    path = download(wanted, tmp_path / "new")
    assert path.read_bytes() == CONTENT
    assert [file.name for file in path.parent.iterdir()] == ["file.bin"]
    download(wanted, tmp_path / "new")
    assert len(server.requests) == 1  # the second time it was there


def test_mirrors_are_tried_in_order(server, tmp_path):
    path = download(remote(server, "broken", "lying", "good"), tmp_path)
    assert path.read_bytes() == CONTENT
    assert [request[0].split("/")[1] for request in server.requests] == ["broken", "lying", "good"]
    # What the lying one sent is not continued.
    assert server.requests[-1][1] is None


@pytest.mark.parametrize("second", ["good", "no-ranges"])
def test_a_broken_connection_is_continued(server, tmp_path, second):
    with pytest.raises(DataError, match="ended after 100000 of 256000 bytes"):
        download(remote(server, "stopping"), tmp_path)
    assert not (tmp_path / "file.bin").exists()
    assert (tmp_path / "file.bin.part").stat().st_size == 100_000
    assert download(remote(server, second), tmp_path).read_bytes() == CONTENT
    assert server.requests[-1][1] == "bytes=100000-"
    assert not (tmp_path / "file.bin.part").exists()


def test_a_whole_part_is_judged_by_its_checksum(server, tmp_path):
    part = tmp_path / "file.bin.part"
    part.write_bytes(CONTENT)
    assert download(remote(server, "good"), tmp_path).read_bytes() == CONTENT
    (tmp_path / "file.bin").unlink()
    part.write_bytes(b"?" * len(CONTENT))
    assert download(remote(server, "good", "good"), tmp_path).read_bytes() == CONTENT


def test_a_wrong_checksum_leaves_nothing(server, tmp_path):
    with pytest.raises(DataError, match=rf"lying/file.bin: its checksum is .*, not the .* {MD5}"):
        download(remote(server, "lying"), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_file_is_replaced(server, tmp_path):
    (tmp_path / "file.bin").write_bytes(CONTENT[:-1])
    assert download(remote(server, "good"), tmp_path).read_bytes() == CONTENT


def test_without_a_network(tmp_path):
    nowhere = Remote("file.bin", ("http://127.0.0.1:9/",), MD5)
    with pytest.raises(DataError) as error:
        obtain(tmp_path, "things", ["file.bin"], [nowhere])
    message = str(error.value)
    for part in (f"file.bin (plain, .gz or .xz) in {tmp_path / 'things'}", "127.0.0.1:9/file.bin"):
        assert part in message
    assert "The download failed: file.bin could not be downloaded" in message


def test_a_folder_that_cannot_be_made(server, tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(DataError, match="cannot be written"):
        download(remote(server, "good"), tmp_path / "file")


def test_only_what_is_missing_is_downloaded(server, tmp_path):
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "other.bin.xz").write_bytes(b"there")
    remotes = [remote(server, "good"), Remote("other.bin", (server.at("good"),), MD5)]
    paths = obtain(tmp_path, "set", ["file.bin", "other.bin"], remotes)
    assert [path.name for path in paths] == ["file.bin", "other.bin.xz"]
    assert len(server.requests) == 1


def test_an_archive_is_downloaded_and_unpacked(server, tmp_path):
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as tar:
        add(tar, "inner/one.bin", b"1")
    server.files["all.tar.gz"] = made.getvalue()
    checksum = hashlib.md5(made.getvalue()).hexdigest()
    archive = Remote("all.tar.gz", (server.at("good"),), checksum)
    (path,) = obtain(tmp_path, "set", ["one.bin"], [archive], inner=["inner"])
    assert path == tmp_path / "set" / "inner" / "one.bin"
    assert path.read_bytes() == b"1"


def add(tar, name, content=b"", **changes):
    member = tarfile.TarInfo(name)
    member.size = len(content)
    for key, value in changes.items():
        setattr(member, key, value)
    tar.addfile(member, io.BytesIO(content))


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("../outside", {}),
        ("inner/../../outside", {}),
        ("link", {"type": tarfile.SYMTYPE, "linkname": "../outside"}),
        ("link", {"type": tarfile.LNKTYPE, "linkname": "../outside"}),
        ("device", {"type": tarfile.CHRTYPE}),
    ],
)
def test_members_that_leave_the_folder_are_refused(tmp_path, name, changes):
    archive = tmp_path / "bad.tar"
    with tarfile.open(archive, "w") as tar:
        add(tar, "good.txt", b"good")
        add(tar, name, **changes)
    with pytest.raises(DataError, match=r"bad.tar is refused"):
        extract(archive, tmp_path / "home")
    assert list((tmp_path / "home").iterdir()) == []
    assert not (tmp_path / "outside").exists()


@pytest.mark.parametrize("mode", ["w:gz", "w:xz"])
def test_a_truncated_archive_is_named(tmp_path, mode):
    archive = tmp_path / "short.tar.packed"
    with tarfile.open(archive, mode) as tar:
        add(tar, "good.txt", CONTENT)
    archive.write_bytes(archive.read_bytes()[:-40])
    with pytest.raises(DataError, match=r"short.tar.packed cannot be unpacked"):
        extract(archive, tmp_path / "home")
    assert list((tmp_path / "home").iterdir()) == []


def test_progress_is_shown_on_a_terminal(server, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    download(remote(server, "good"), tmp_path / "shown")
    shown = capsys.readouterr().err
    assert "file.bin" in shown
    assert "256k/256k" in shown
    download(remote(server, "good"), tmp_path / "silent", progress=False)
    assert capsys.readouterr().err == ""


def test_every_published_file_has_a_checksum():
    from exact_torch.data import cifar, svhn

    remotes = [cifar._CIFAR10, cifar._CIFAR100, *svhn._REMOTES]
    sums = [sum_ for sums in mnist._CHECKSUMS.values() for sum_ in sums]
    for checksum in [*(remote.checksum for remote in remotes), *sums]:
        assert len(checksum) in (32, 64)
        int(checksum, 16)
