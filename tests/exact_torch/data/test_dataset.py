"""Splits, statistics and `load` itself."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from exact_torch import data
from exact_torch.data.dataset import moments, stratified


def test_digits_are_those_of_sklearn():
    dataset = data.load("digits")
    bunch = load_digits()
    expected = {
        (image * 16).round().astype(int).tobytes(): label
        for image, label in zip(bunch.images, bunch.target.tolist(), strict=True)
    }
    total = 0
    for split in (dataset.train, dataset.validation, dataset.test):
        images = split.inputs(torch.arange(len(split)))
        assert images.dtype == torch.uint8
        for image, label in zip(images[:, 0].numpy(), split.labels.tolist(), strict=True):
            levels = (image * (16 / 255)).round() * 16
            assert expected[levels.astype(int).tobytes()] == label
        total += len(split)
    assert total == 1797


def test_splits_do_not_overlap_and_are_pinned():
    labels = torch.arange(1000) % 7
    kept, held = stratified(labels, 0.1)
    assert len(held) == 100
    assert torch.cat([kept, held]).sort().values.equal(torch.arange(1000))
    # A change here changes everyone's validation set.
    assert held[:6].tolist() == [5, 16, 17, 53, 63, 76]
    counts = torch.bincount(labels[held])
    assert counts.min() >= 14
    assert counts.max() <= 15


@pytest.mark.parametrize("fraction", [0.1, 0.2, 0.5, 0.9, 0.99])
def test_every_class_stays_in_training(fraction):
    labels = torch.tensor([0] * 50 + [1] * 3 + [2])
    kept, held = stratified(labels, fraction)
    assert set(labels[kept].tolist()) == {0, 1, 2}
    assert abs(len(held) - fraction * 54) <= 3


def test_no_validation():
    dataset = data.load("digits", validation=0)
    assert len(dataset.validation) == 0
    assert dataset.validation.inputs(torch.arange(0)).shape == (0, 1, 8, 8)
    assert len(dataset.train) == 1438


@pytest.mark.parametrize("value", [-0.1, 1.0, float("nan")])
def test_validation_is_checked(value):
    with pytest.raises(ValueError, match="validation must be"):
        data.load("digits", validation=value)


def test_moments_of_images_are_numpys():
    images = np.random.default_rng(0).integers(0, 256, (50, 3, 5, 4)).astype(np.uint8)
    images[:, 2] = 9
    mean, std = moments(torch.from_numpy(images))
    assert mean.shape == std.shape == (3, 1, 1)
    np.testing.assert_allclose(mean.flatten(), images.mean((0, 2, 3)), rtol=1e-6)
    np.testing.assert_allclose(std.flatten()[:2], images.std((0, 2, 3))[:2], rtol=1e-6)
    assert std[2] == 1


def test_moments_of_a_table_are_numpys():
    rows = np.random.default_rng(0).normal(3, 2, (50, 4)).astype(np.float32)
    rows[:, 1] = 0.1  # constant, though its computed deviation need not be 0
    mean, std = moments(torch.from_numpy(rows))
    np.testing.assert_allclose(mean, rows.mean(0), rtol=1e-5)
    np.testing.assert_allclose(std[[0, 2, 3]], rows.std(0)[[0, 2, 3]], rtol=1e-5)
    assert std[1] == 1


def test_mean_is_of_the_training_split_alone():
    dataset = data.load("digits", validation=0.5)
    train = dataset.train.inputs(torch.arange(len(dataset.train))).double()
    assert float(dataset.mean) == pytest.approx(float(train.mean()), rel=1e-6)


@pytest.mark.parametrize("name", ["imagenet", "", None, 3, "uci", "uci/", "digits/x"])
def test_unknown_names(name):
    with pytest.raises(ValueError, match="name of a data set must be one of"):
        data.load(name)


def test_unknown_options():
    with pytest.raises(TypeError, match="digits has no option batches"):
        data.load("digits", batches=(1,))


def test_folder_comes_from_the_argument_the_environment_or_the_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("EXACT_TORCH_DATA", str(tmp_path / "environment"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for folder, place in ((tmp_path / "argument", "argument"), (None, "environment")):
        with pytest.raises(data.DataError) as error:
            data.load("mnist", folder, download=False)
        assert str(tmp_path / place / "mnist") in str(error.value)
    monkeypatch.delenv("EXACT_TORCH_DATA")
    with pytest.raises(data.DataError) as error:
        data.load("mnist", download=False)
    message = str(error.value)
    assert str(tmp_path / "cache" / "exact_torch" / "mnist") in message
    for part in ("train-images-idx3-ubyte", "t10k-labels-idx1-ubyte", "--data-dir", "https://"):
        assert part in message
