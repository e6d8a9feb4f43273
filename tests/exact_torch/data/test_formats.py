"""The original file formats, from tiny files made here, whole and damaged."""

import gzip
import hashlib
import lzma
import struct
import tarfile
from dataclasses import replace

import numpy as np
import pytest
import scipy.io
import torch

from exact_torch import data
from exact_torch.data import cifar

RNG = np.random.default_rng(1)


def idx(values):
    header = struct.pack(f">HBB{values.ndim}I", 0, 8, values.ndim, *values.shape)
    return header + values.astype(np.uint8).tobytes()


def write_mnist(folder, name="mnist", pack=lambda content: content, suffix="", size=20):
    home = folder / name
    home.mkdir(parents=True, exist_ok=True)
    parts = {}
    for part in ("train", "t10k"):
        images = RNG.integers(0, 256, (size, 28, 28))
        labels = np.arange(size) % 10
        for kind, values in (("images-idx3", images), ("labels-idx1", labels)):
            (home / f"{part}-{kind}-ubyte{suffix}").write_bytes(pack(idx(values)))
        parts[part] = images, labels
    return parts


def all_of(dataset):
    """Training and validation images and labels together, ordered by their pixels."""
    splits = [dataset.train, dataset.validation]
    images = torch.cat([split.inputs(torch.arange(len(split))) for split in splits])
    labels = torch.cat([split.labels for split in splits])
    return {
        image.numpy().tobytes(): int(label) for image, label in zip(images, labels, strict=True)
    }


@pytest.mark.parametrize("name", ["mnist", "fashion_mnist"])
@pytest.mark.parametrize(
    ("pack", "suffix"), [(bytes, ""), (gzip.compress, ".gz"), (lzma.compress, ".xz")]
)
def test_idx_plain_gzip_and_xz(tmp_path, name, pack, suffix):
    parts = write_mnist(tmp_path, name, pack, suffix)
    dataset = data.load(name, tmp_path, download=False)
    images, labels = parts["train"]
    expected = {
        image.astype(np.uint8).tobytes(): label
        for image, label in zip(images, labels.tolist(), strict=True)
    }
    assert all_of(dataset) == expected
    assert (len(dataset.train), len(dataset.validation)) == (18, 2)
    images, labels = parts["t10k"]
    assert dataset.shape == (1, 28, 28)
    assert (dataset.test.inputs(torch.arange(20)).numpy()[:, 0] == images).all()
    assert dataset.test.labels.tolist() == labels.tolist()
    assert dataset.test.labels.dtype == torch.int64


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda b: b[:-5], "has 15691 bytes where its header .20, 28, 28. asks for 15696"),
        (lambda b: b + b"x", "asks for 15696"),
        (lambda b: b"\1" + b[1:], "starts with 01 00 08 03, not 00 00 08 03"),
        (lambda b: b[:10], "not an IDX file"),
        (lambda b: b"", "not an IDX file"),
    ],
)
def test_damaged_idx_is_named(tmp_path, damage, message):
    write_mnist(tmp_path)
    path = tmp_path / "mnist" / "train-images-idx3-ubyte"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(data.DataError, match=f"train-images-idx3-ubyte.*{message}"):
        data.load("mnist", tmp_path, download=False)


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress])
@pytest.mark.parametrize("damage", [lambda b: b[:-20], lambda b: b"??" + b[2:], lambda b: b[:3]])
def test_damaged_compression_is_named(tmp_path, pack, damage):
    suffix = ".gz" if pack is gzip.compress else ".xz"
    write_mnist(tmp_path, pack=pack, suffix=suffix)
    path = tmp_path / "mnist" / f"train-labels-idx1-ubyte{suffix}"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(data.DataError, match=r"train-labels-idx1-ubyte.*truncated or damaged"):
        data.load("mnist", tmp_path, download=False)


def test_idx_files_that_do_not_go_together(tmp_path):
    write_mnist(tmp_path)
    labels = tmp_path / "mnist" / "train-labels-idx1-ubyte"
    labels.write_bytes(idx(np.zeros(19)))
    with pytest.raises(data.DataError, match=r"20 images.*19 labels"):
        data.load("mnist", tmp_path, download=False)
    labels.write_bytes(idx(np.full(20, 10)))
    with pytest.raises(data.DataError, match="labels 0 to 9"):
        data.load("mnist", tmp_path, download=False)


def test_the_test_files_are_read_when_the_test_split_is_used(tmp_path):
    write_mnist(tmp_path)
    path = tmp_path / "mnist" / "t10k-images-idx3-ubyte"
    path.write_bytes(b"broken")
    dataset = data.load("mnist", tmp_path, download=False)
    assert len(dataset.train) == 18
    with pytest.raises(data.DataError, match="t10k-images"):
        _ = dataset.test


@pytest.fixture
def small_cifar(monkeypatch):
    """Files of 30 records instead of 10,000 or 50,000."""
    original = cifar.read_cifar
    monkeypatch.setattr(cifar, "read_cifar", lambda *arguments: original(*arguments[:-1], 30))


def cifar_file(path, classes, label_bytes, records=30):
    content = RNG.integers(0, 256, (records, label_bytes + 3072)).astype(np.uint8)
    content[:, :label_bytes] %= min(classes, 20)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.tobytes())
    return content


@pytest.mark.parametrize(
    "home", ["cifar10", "cifar10/cifar-10-batches-bin", "cifar-10-batches-bin"]
)
def test_cifar10_and_a_choice_of_its_files(tmp_path, small_cifar, home):
    train = cifar_file(tmp_path / home / "data_batch_1.bin", 10, 1)
    test = cifar_file(tmp_path / home / "test_batch.bin", 10, 1)
    dataset = data.load("cifar10", tmp_path, download=False, batches=(1,))
    assert all_of(dataset) == {record[1:].tobytes(): int(record[0]) for record in train}
    assert dataset.classes[9] == "truck"
    assert dataset.shape == (3, 32, 32)
    image = dataset.test.inputs(torch.tensor([4]))[0]
    assert image[2, 1, 3] == test[4, 1 + 2 * 1024 + 32 + 3]  # blue, second row, fourth column
    with pytest.raises(data.DataError, match=r"data_batch_2.bin.*(\n.*)*batches=\(1,\)"):
        data.load("cifar10", tmp_path, download=False)


@pytest.mark.parametrize("batches", [(), (1, 1), (0,), (6,)])
def test_cifar10_batches_are_checked(tmp_path, batches):
    with pytest.raises(ValueError, match="batches must be different numbers from 1 to 5"):
        data.load("cifar10", tmp_path, download=False, batches=batches)


def test_cifar100_takes_fine_labels_and_their_names(tmp_path, small_cifar):
    home = tmp_path / "cifar100" / "cifar-100-binary"
    train = cifar_file(home / "train.bin", 100, 2)
    cifar_file(home / "test.bin", 100, 2)
    (home / "fine_label_names.txt").write_text("\n".join(f"class{i}" for i in range(100)) + "\n")
    dataset = data.load("cifar100", tmp_path, download=False)
    assert all_of(dataset) == {record[2:].tobytes(): int(record[1]) for record in train}
    assert dataset.classes[7] == "class7"
    assert len(dataset.test) == 30
    (home / "fine_label_names.txt").write_text("one\ntwo\n")
    with pytest.raises(data.DataError, match=r"fine_label_names.txt has 2 names"):
        data.load("cifar100", tmp_path, download=False)


def test_damaged_cifar_is_named(tmp_path, small_cifar):
    path = tmp_path / "cifar10" / "data_batch_1.bin"
    content = cifar_file(path, 10, 1)
    cifar_file(tmp_path / "cifar10" / "test_batch.bin", 10, 1)
    path.write_bytes(content.tobytes()[:-1])
    with pytest.raises(data.DataError, match=r"data_batch_1.bin has 92189 bytes.*92190"):
        data.load("cifar10", tmp_path, download=False, batches=(1,))
    content[3, 0] = 10
    path.write_bytes(content.tobytes())
    with pytest.raises(data.DataError, match=r"data_batch_1.bin has labels beyond 9"):
        data.load("cifar10", tmp_path, download=False, batches=(1,))


def test_an_archive_that_is_there_is_unpacked_without_download(tmp_path, small_cifar, monkeypatch):
    for number in range(1, 6):
        cifar_file(tmp_path / "made" / f"data_batch_{number}.bin", 10, 1)
    cifar_file(tmp_path / "made" / "test_batch.bin", 10, 1)
    home = tmp_path / "cifar10"
    home.mkdir()
    archive = home / "cifar-10-binary.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(tmp_path / "made", "cifar-10-batches-bin")
    with pytest.raises(data.DataError, match=r"cifar-10-binary.tar.gz: its checksum is"):
        data.load("cifar10", tmp_path, download=False)
    checksum = hashlib.sha256(archive.read_bytes()).hexdigest()
    monkeypatch.setattr(cifar, "_CIFAR10", replace(cifar._CIFAR10, checksum=checksum))
    dataset = data.load("cifar10", tmp_path, download=False)
    assert len(dataset.train) + len(dataset.validation) == 150


def write_svhn(folder, count=20, **changes):
    (folder / "svhn").mkdir(exist_ok=True)
    content = {
        "X": RNG.integers(0, 256, (32, 32, 3, count)).astype(np.uint8),
        "y": (np.arange(count) % 10 + 1).astype(np.uint8)[:, None],
    }
    for part in ("train", "test"):
        path = folder / "svhn" / f"{part}_32x32.mat"
        scipy.io.savemat(path, {**content, **changes}, do_compression=True)
    return content


def test_svhn_ten_is_zero(tmp_path):
    content = write_svhn(tmp_path)
    dataset = data.load("svhn", tmp_path, download=False)
    assert dataset.test.labels.tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 9, 0] * 2
    image = dataset.test.inputs(torch.tensor([5]))[0]
    assert image[1, 20, 3] == content["X"][20, 3, 1, 5]
    assert len(dataset.train) == 18


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"X": np.zeros((32, 32, 3, 20))}, "X of float64"),
        ({"X": np.zeros((28, 28, 3, 20), np.uint8)}, "not uint8"),
        ({"y": np.zeros((20, 1), np.uint8)}, "label from 1 to 10"),
        ({"y": np.ones((19, 1), np.uint8)}, "label from 1 to 10"),
    ],
)
def test_wrong_svhn_content_is_named(tmp_path, changes, message):
    write_svhn(tmp_path, **changes)
    with pytest.raises(data.DataError, match=f"train_32x32.mat .*{message}"):
        data.load("svhn", tmp_path, download=False)


@pytest.mark.parametrize(
    "damage",
    [lambda b: b[:-300], lambda b: b[:130], lambda b: b"", lambda b: b[:200] + bytes(len(b) - 200)],
)
def test_damaged_svhn_is_named(tmp_path, damage):
    write_svhn(tmp_path)
    path = tmp_path / "svhn" / "train_32x32.mat"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(data.DataError, match=r"train_32x32.mat (is not|has no)"):
        data.load("svhn", tmp_path, download=False)
