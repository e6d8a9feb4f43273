"""Folders of images: layouts, sizes, and files that are no images."""

import numpy as np
import pytest
import torch
from PIL import Image

from exact_torch import data

COLOURS = {"apple": (200, 10, 20), "banana": (220, 210, 0), "cherry": (120, 0, 60)}


def write(root, per_class, size=(12, 10), suffix=".png"):
    for name, colour in COLOURS.items():
        (root / name).mkdir(parents=True, exist_ok=True)
        for number in range(per_class):
            Image.new("RGB", size, colour).save(root / name / f"{number}{suffix}")


def test_folders_of_all_three_splits(tmp_path):
    write(tmp_path / "train", 4)
    write(tmp_path / "valid", 2)
    write(tmp_path / "test", 3)
    (tmp_path / "train" / "apple" / "notes.txt").write_text("no image")
    dataset = data.load("folder", path=tmp_path, size=8)
    assert dataset.classes == ("apple", "banana", "cherry")
    assert (len(dataset.train), len(dataset.validation), len(dataset.test)) == (12, 6, 9)
    assert dataset.shape == (3, 8, 8)
    for split in (dataset.train, dataset.validation, dataset.test):
        images = split.inputs(torch.arange(len(split)))
        assert images.dtype == torch.uint8
        expected = torch.tensor(list(COLOURS.values()))[split.labels]
        assert images.equal(expected.byte()[:, :, None, None].expand(-1, 3, 8, 8))


@pytest.mark.parametrize("name", ["val", "test"])
def test_one_more_folder_is_the_test_split(tmp_path, name):
    write(tmp_path / "train", 10)
    write(tmp_path / name, 2)
    dataset = data.load("folder", path=tmp_path, size=8)
    assert (len(dataset.train), len(dataset.validation), len(dataset.test)) == (27, 3, 6)


@pytest.mark.parametrize("below", ["", "train"])
def test_classes_alone_are_split(tmp_path, below):
    write(tmp_path / below, 10)
    dataset = data.load("folder", path=tmp_path, size=8)
    assert (len(dataset.train), len(dataset.validation), len(dataset.test)) == (22, 2, 6)
    paths = [set(s.paths.tolist()) for s in (dataset.train, dataset.validation, dataset.test)]
    assert len(set.union(*paths)) == 30


def test_nested_files_and_grey_images(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name / "images").mkdir(parents=True)
        for number in range(5):
            Image.new("L", (9, 9), 77).save(tmp_path / name / "images" / f"{number}.JPEG")
    dataset = data.load("folder", path=tmp_path, size=4, validation=0)
    assert (dataset.train.inputs(torch.tensor([0, 5])) == 77).all()


def test_the_central_square_is_taken(tmp_path):
    pixels = np.zeros((20, 40, 3), np.uint8)
    pixels[:, 10:30] = 255  # the central square
    pixels[5:15, 15:25] = 100  # its inner half
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        for number in range(5):
            Image.fromarray(pixels).save(tmp_path / name / f"{number}.png")
    dataset = data.load("folder", path=tmp_path, size=20, validation=0)
    image = dataset.train.inputs(torch.tensor([0]))[0]
    assert image.equal(torch.from_numpy(pixels[:, 10:30]).permute(2, 0, 1))
    dataset = data.load("folder", path=tmp_path, size=10, resize=20, train_size=20, validation=0)
    assert dataset.test.inputs(torch.tensor([0])).shape == (1, 3, 10, 10)
    assert (dataset.test.inputs(torch.tensor([0])) == 100).all()
    assert dataset.train.inputs(torch.tensor([0]))[0].equal(image)


def test_resizing_is_that_of_torchvision(tmp_path):
    from exact_torch._torchvision import v2

    pixels = np.random.default_rng(0).integers(0, 256, (48, 48, 3)).astype(np.uint8)
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        for number in range(2):
            Image.fromarray(pixels).save(tmp_path / name / f"{number}.png")
    dataset = data.load("folder", path=tmp_path, size=16, resize=24, validation=0)
    image = dataset.train.inputs(torch.tensor([0]))[0].int()
    steps = v2.Compose([v2.Resize(24), v2.CenterCrop(16), v2.PILToTensor()])
    assert (image - steps(Image.fromarray(pixels)).int()).abs().max() <= 1


def test_batches_with_workers(tmp_path):
    write(tmp_path, 5)
    train = data.load("folder", path=tmp_path, size=8).train
    order = torch.arange(len(train)).split(4)
    here, there = (list(data.batches(train, order, workers=w)) for w in (0, 2))
    assert all(a[0].equal(b[0]) for a, b in zip(here, there, strict=True))


def test_mean_and_std(tmp_path):
    write(tmp_path, 5)
    dataset = data.load("folder", path=tmp_path, size=8)
    assert dataset.mean.flatten().tolist() == pytest.approx([123.675, 116.28, 103.53])
    dataset = data.load("folder", path=tmp_path, size=8, mean=(1, 2, 3), std=(4, 5, 6))
    assert dataset.mean.flatten().tolist() == [1, 2, 3]
    assert dataset.std.shape == (3, 1, 1)


@pytest.mark.parametrize("content", [b"", b"no image", None])
def test_damaged_images_are_named(tmp_path, content):
    write(tmp_path, 5)
    for path in tmp_path.rglob("*.png"):
        path.write_bytes(path.read_bytes()[:45] if content is None else content)
    dataset = data.load("folder", path=tmp_path, size=8)
    with pytest.raises(data.DataError, match=r"apple/\d.png is not an image"):
        dataset.train.inputs(torch.tensor([0]))


def test_wrong_folders(tmp_path):
    with pytest.raises(ValueError, match="folder needs path"):
        data.load("folder", size=8)
    with pytest.raises(ValueError, match="folder needs path"):
        data.load("folder", path=tmp_path)
    with pytest.raises(data.DataError, match="no folders of images"):
        data.load("folder", path=tmp_path, size=8)
    with pytest.raises(data.DataError, match="there is no folder"):
        data.load("folder", path=tmp_path / "none", size=8)
    write(tmp_path / "train", 2)
    (tmp_path / "val" / "images").mkdir(parents=True)
    with pytest.raises(data.DataError, match="folders images that are no training classes"):
        data.load("folder", path=tmp_path, size=8)
    (tmp_path / "valid").mkdir()
    with pytest.raises(data.DataError, match="more than one of val"):
        data.load("folder", path=tmp_path, size=8)
    with pytest.raises(ValueError, match="resize must be at least 8"):
        data.load("folder", path=tmp_path, size=8, resize=4)
