"""Named augmentations: on every shape, what they promise, and torchvision behind them."""

import pytest
import torch

from exact_torch import _torchvision, data
from exact_torch._torchvision import torchvision, v2

GRID = torch.arange(32 * 32, dtype=torch.int64).reshape(32, 32)
IMAGE = torch.stack([GRID % 251, GRID // 4 % 256, (GRID * 7) % 256]).to(torch.uint8)


@pytest.mark.parametrize("name", data.augmentations())
@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 32, 32), (3, 24, 40)])
def test_uint8_in_uint8_out(name, shape):
    image = torch.randint(0, 256, shape, generator=torch.Generator().manual_seed(0)).byte()
    before = image.clone()
    augment = data.compose([name], size=shape[1:])
    torch.manual_seed(0)
    results = [augment(image) for _ in range(30)]
    assert all(r.shape == shape and r.dtype == torch.uint8 for r in results)
    assert any(not r.equal(image) for r in results)
    assert image.equal(before)


def test_a_flip_is_a_flip_half_of_the_time():
    augment = data.compose(["flip"])
    torch.manual_seed(0)
    flips = 0
    for _ in range(400):
        result = augment(IMAGE)
        assert result.equal(IMAGE) or result.equal(IMAGE.flip(-1))
        flips += result.equal(IMAGE.flip(-1))
    assert abs(flips - 200) < 40


def test_a_crop_is_a_window_of_the_padded_image():
    augment = data.compose(["crop"], size=(32, 32))
    padded = torch.nn.functional.pad(IMAGE, (4, 4, 4, 4))
    windows = {
        padded[:, i : i + 32, j : j + 32].numpy().tobytes() for i in range(9) for j in range(9)
    }
    torch.manual_seed(0)
    found = {augment(IMAGE).numpy().tobytes() for _ in range(600)}
    assert found <= windows
    assert len(found) > 70


def test_affine_moves_by_a_fifth_at_most():
    image = torch.zeros(1, 51, 51, dtype=torch.uint8)
    image[0, 25, 25] = 255  # the centre: rotation leaves it
    augment = data.compose(["affine"])
    torch.manual_seed(0)
    places = torch.stack([augment(image)[0].nonzero()[0] for _ in range(300)]) - 25
    assert 8 <= places.abs().max() <= 10


def test_several_are_applied_in_order():
    augment = data.compose(["crop", "flip"], size=(16, 16))
    torch.manual_seed(3)
    expected = v2.RandomHorizontalFlip()(v2.RandomCrop((16, 16), padding=4)(IMAGE))
    torch.manual_seed(3)
    assert augment(IMAGE).equal(expected)


def test_none():
    assert data.compose([]) is None


def test_arguments_are_checked():
    with pytest.raises(ValueError, match="augmentation must be one of 'flip'"):
        data.compose(["flop"])
    with pytest.raises(ValueError, match="crop needs size"):
        data.compose(["flip", "crop"])
    with pytest.raises(TypeError, match="sequence of names"):
        data.compose("flip")


def test_workers_can_be_given_augmentations():
    digits = data.load("digits").train
    augment = data.compose(["crop", "affine", "autoaugment"], size=(8, 8))
    order = torch.arange(40).split(20)
    here = list(data.batches(digits, order, augment, seed=1))
    there = list(data.batches(digits, order, augment, seed=1, workers=2))
    assert all(a[0].equal(b[0]) for a, b in zip(here, there, strict=True))


def test_models_are_there_too():
    model = torchvision.models.resnet18(num_classes=3).eval()
    assert model(torch.zeros(1, 3, 32, 32)).shape == (1, 3)


def test_a_plain_import_is_enough_where_it_works(monkeypatch):
    declared = list(_torchvision._declared)
    monkeypatch.setattr(_torchvision.importlib, "import_module", lambda name: name)
    assert _torchvision._imported() == "torchvision"
    assert _torchvision._declared == declared


def test_other_failures_of_the_import_are_not_hidden(monkeypatch):
    def failing(name):
        raise RuntimeError("another reason")

    monkeypatch.setattr(_torchvision.importlib, "import_module", failing)
    with pytest.raises(RuntimeError, match="another reason"):
        _torchvision._imported()
