"""Every model: forward, backward, with both heads, exported; names, shapes and options checked."""

from functools import partial

import pytest
import torch
from torch import nn

from exact_torch import GaussianHead, GaussianScores, models
from exact_torch.models.pols import cnn6
from exact_torch.models.preact_resnet import preact_resnet
from exact_torch.models.pyramidnet import pyramidnet
from exact_torch.models.resnet_cifar import resnet_cifar
from exact_torch.models.resnext29 import resnext29
from exact_torch.models.vgg_small import vgg_mnist
from exact_torch.models.wide_resnet import wide_resnet

PREDICTED = partial(GaussianHead, sigma="predicted")

# The builders behind the names, made narrow and shallow: name -> (builder, input shape).
SMALL = {
    "linear": (partial(models.get, "linear"), (7,)),
    "linear, reference": (partial(models.get, "linear", reference=True), (7,)),
    "hidden": (partial(models.get, "hidden"), (7,)),
    "mlp500": (partial(models.get, "mlp500", width=9), (1, 8, 8)),
    "small_cnn": (partial(models.get, "small_cnn"), (1, 8, 8)),
    "cnn6": (partial(cnn6, width=8), (3, 32, 32)),
    "vgg_mnist": (partial(vgg_mnist, width=4), (1, 28, 28)),
    "resnet_cifar": (partial(resnet_cifar, depth=8), (3, 32, 32)),
    "preact_resnet": (partial(preact_resnet, width=4), (3, 32, 32)),
    "resnext29": (partial(resnext29, groups=2, base=2), (3, 32, 32)),
    "wide_resnet": (partial(wide_resnet, depth=10, width=1, dropout=0.1), (3, 32, 32)),
    "pyramidnet": (partial(pyramidnet, depth=20, alpha=9), (3, 32, 32)),
    "resnet18": (partial(models.get, "resnet18", stem="small"), (1, 8, 8)),
    "shufflenet_v2_x0_5": (partial(models.get, "shufflenet_v2_x0_5"), (3, 32, 32)),
}


@pytest.mark.parametrize("name", SMALL)
def test_trains_with_a_gaussian_head_and_exports_to_the_same_logits(name):
    build, shape = SMALL[name]
    torch.manual_seed(0)
    model = build(num_classes=5, input_shape=shape, head=PREDICTED)
    x = torch.randn(2, *shape)
    scores = model(x)
    assert isinstance(scores, GaussianScores)
    assert scores.mean.shape == (2, 5)
    assert scores.sigma.shape == (2, 1)
    (scores.mean.square().sum() + scores.sigma.log().sum()).backward()
    for parameter, value in model.named_parameters():
        assert value.grad is not None, parameter
        assert value.grad.isfinite().all(), parameter
    assert all(p.grad.any() for n, p in model.named_parameters() if n.endswith("sigma_bias"))
    model.eval()
    exported = models.export(model)
    assert not any(isinstance(each, GaussianHead) for each in exported.modules())
    assert not exported.training
    with torch.no_grad():
        logits = model(x)
        assert logits.shape == (2, 5)
        assert torch.equal(exported(x), logits)
    if "reference" in name:
        for found in (logits, scores.mean):
            assert (found[:, 0] == 0).all()
            assert (found[:, 1:] != 0).all()


@pytest.mark.parametrize("name", [each for each in SMALL if each != "resnet18"])
def test_gives_logits_with_a_linear_head(name):
    build, shape = SMALL[name]
    model = build(num_classes=3, input_shape=shape, head=nn.Linear)
    logits = model(torch.randn(2, *shape))
    assert isinstance(logits, torch.Tensor)
    assert logits.shape == (2, 3)
    logits.sum().backward()


def test_export_copies():
    model = models.get("linear", 3, (4,), PREDICTED)
    exported = models.export(model)
    exported[1].weight.data.zero_()
    assert model[1].weight.any()
    assert model.training
    assert isinstance(models.export(model[1]), nn.Linear)  # a head alone


@pytest.mark.parametrize(
    "name", ["resnet18", "efficientnet_v2_m", "wrn16_8", "wrn28_10", "pyramidnet272"]
)
@pytest.mark.slow
def test_the_large_ones_train(name):
    model = models.get(name, 10, head=PREDICTED)
    scores = model(torch.randn(2, 3, 32, 32))
    (scores.mean.square().sum() + scores.sigma.sum()).backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


# One of each family of torchvision's; the others are built by the same code.
FAMILIES = [
    *["alexnet", "convnext_tiny", "densenet121", "efficientnet_v2_m", "googlenet", "inception_v3"],
    *[
        "maxvit_t",
        "mnasnet0_5",
        "mobilenet_v2",
        "mobilenet_v3_small",
        "resnet18",
        "resnext50_32x4d",
    ],
    *["shufflenet_v2_x0_5", "swin_t", "vgg11_bn", "vit_b_32"],
]


def heads_of(name):
    """The model on the meta device, and the heads that were asked for on the way."""
    heads = []

    def head(in_features, num_classes):
        heads.append(GaussianHead(in_features, num_classes))
        return heads[-1]

    shape = (7,) if name in ("linear", "hidden") else (1, 224, 224)
    with torch.device("meta"):
        return models.get(name, 13, shape, head), heads


@pytest.mark.parametrize("name", FAMILIES)
def test_torchvision_ends_in_the_head(name):
    check_it_ends_in_the_head(name)


@pytest.mark.slow
def test_every_name_ends_in_the_head():
    for name in models.names():
        if not name.startswith("regnet_"):  # whose code computes with tensors, which meta cannot
            check_it_ends_in_the_head(name)


def check_it_ends_in_the_head(name):
    model, heads = heads_of(name)
    assert len(heads) == 1, name
    assert list(model.modules())[-1] is heads[0], name
    first = next((each for each in model.modules() if isinstance(each, nn.Conv2d)), None)
    assert first is None or first.in_channels == 1, name
    others = [m for m in model.modules() if isinstance(m, nn.Linear) and m.out_features == 13]
    assert not others, name


@pytest.mark.parametrize("name", ["regnet_y_400mf", "mobilenet_v3_small"])
def test_torchvision_takes_one_channel(name):
    model = models.get(name, 4, (1, 32, 32)).eval()
    assert model(torch.randn(2, 1, 32, 32)).shape == (2, 4)


def test_torchvision_keeps_its_own_last_layer_unless_asked():
    torch.manual_seed(0)
    own = models.get("mobilenet_v3_small", 10)
    assert own.classifier[-1].weight.std().item() == pytest.approx(0.01, rel=0.1)  # its own scale


def test_linear_is_an_affine_map_and_hidden_has_the_published_shape():
    model = models.get("linear", 3, (4,), reference=True)
    x = torch.randn(6, 4)
    expected = torch.cat([torch.zeros(6, 1), x @ model[1].head.weight.T + model[1].head.bias], 1)
    torch.testing.assert_close(model(x), expected)
    binary = models.get("linear", 2, (4,), PREDICTED, reference=True)
    assert binary(x).mean.shape == (6, 2)
    shapes = [tuple(p.shape) for p in models.get("hidden", 3, (4,)).parameters()]
    assert shapes == [(4, 4), (4,), (3, 4), (3,)]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: models.get("wrn16_9", 10),
            ValueError,
            "no model is called 'wrn16_9'; .*'wrn16_8'",
        ),
        (lambda: models.get("resnet81", 10), ValueError, "did you mean 'resnet18'"),
        (lambda: models.get(18, 10), ValueError, "no model is called 18"),
        (lambda: models.get("linear", 10), ValueError, "input_shape must be given for 'linear'"),
        (lambda: models.get("wrn16_8", 10, (7,)), ValueError, r"\(C, H, W\) for 'wrn16_8', got"),
        (lambda: models.get("mlp500", 10, (7, 2)), ValueError, r"must be \(C, H, W\) or \(F,\)"),
        (lambda: models.get("mlp500", 10, 7), ValueError, "input_shape must be"),
        (lambda: models.get("small_cnn", 1), ValueError, "num_classes must be at least 2"),
        (lambda: models.get("small_cnn", 10, head=3), TypeError, "head must be callable"),
        (
            lambda: models.get("wrn16_8", 10, depth=4),
            TypeError,
            "no option 'depth'; it has dropout",
        ),
        (lambda: models.get("hidden", 3, (4,), a=1), TypeError, "no option 'a'; it has none"),
        (lambda: models.get("resnet18", 10, steam=""), TypeError, "option 'steam'; it has stem"),
        (lambda: models.get("resnet18", 10, stem="tiny"), ValueError, "stem must be one of"),
        (lambda: models.get("vgg11", 10, stem="small"), ValueError, "is for ResNets.*not vgg11"),
        (
            lambda: models.get("vit_b_16", 10, (3, 32, 64)),
            ValueError,
            "must be square for vit_b_16",
        ),
        (lambda: models.get("vgg_mnist", 10, (1, 20, 28)), ValueError, "more than 20 rows"),
        (lambda: wide_resnet(10, (3, 32, 32), nn.Linear, depth=15, width=1), ValueError, "6 n"),
        (lambda: pyramidnet(10, (3, 32, 32), nn.Linear, depth=12, alpha=1), ValueError, "9 n"),
        (lambda: resnet_cifar(10, (3, 32, 32), nn.Linear, depth=9), ValueError, "6 n"),
    ],
)
def test_what_does_not_fit_raises(call, error, message):
    with torch.device("meta"), pytest.raises(error, match=message):
        call()
