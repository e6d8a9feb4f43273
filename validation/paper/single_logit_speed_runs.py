"""Times of forward passes with one logit and with k: the layers below the last one, and the last.

Keren, Sabato, Schuller, Analysis of loss functions for fast single-class classification (2020),
section 6.3: batches of 32 random images, random weights. A pass of a large network takes a core up
to 20 seconds, so the layers below the last one, which do not depend on k, are timed once, and the
last layer is timed for each k; for the smallest network the whole is timed as well.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

from validation.benchmarks import single_logit as benchmark
from validation.running import Task

EXPONENTS = (10.0, 14.0, 16.0, 18.0, 18.5)


class Network(NamedTuple):
    """A network of the table: its name in torchvision, the size of images, inputs of the end."""

    torchvision: str
    size: int
    width: int


PUBLISHED_NETWORKS = {
    "AlexNet": Network("alexnet", 224, 4096),
    "VGG-16": Network("vgg16", 224, 4096),
    "Inception-v3": Network("inception_v3", 299, 2048),
    "ResNet-50": Network("resnet50", 224, 2048),
    "ResNet-101": Network("resnet101", 224, 2048),
}
# The perceptron is the network of the paper's MNIST runs.
WIDTHS = {"perceptron": 500} | {name: net.width for name, net in PUBLISHED_NETWORKS.items()}
MEASURED: dict[str, tuple[str, ...]] = {
    "small": ("perceptron",),
    "quick": ("perceptron", "AlexNet"),
    "full": tuple(WIDTHS),
}
SIZES = {"small": (10.0, 14.0), "quick": (10.0, 14.0, 16.0), "full": EXPONENTS}
WHOLE = (10.0, 14.0)  # of the perceptron, timed as one network
_SLOW = 2.0  # seconds: what takes longer is timed twice, all else seven times


def network(name: str) -> tuple[Any, tuple[int, ...]]:
    """Return the layers below the last one, and the shape of an example."""
    from torch import nn

    if name == "perceptron":
        return benchmark.perceptron(), (784,)
    from exact_torch._torchvision import torchvision

    listed = PUBLISHED_NETWORKS[name]
    options: dict[str, Any] = {}
    if name == "Inception-v3":
        options = {"aux_logits": False, "init_weights": False}
    model = torchvision.models.get_model(listed.torchvision, weights=None, **options)
    if hasattr(model, "fc"):
        model.fc = nn.Identity()
    else:
        model.classifier[-1] = nn.Identity()
    return model, (3, listed.size, listed.size)


def fastest(call: Callable[[], Any]) -> float:
    """Return the seconds of the fastest of several calls; the first warms up if it is short."""
    times: list[float] = []
    while len(times) < (2 if times and times[0] > _SLOW else 7):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def measure_body(name: str) -> dict[str, float]:
    """Return seconds and floating-point operations of the layers below the last one."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    torch.set_num_threads(1)
    torch.manual_seed(0)
    body, shape = network(name)
    body.eval()
    with FlopCounterMode(display=False) as counter, torch.inference_mode():
        body(torch.zeros(2, *shape))  # warms up too
    images = torch.randn(benchmark.BATCH, *shape)
    with torch.inference_mode():
        seconds = fastest(lambda: body(images))
    return {"seconds": seconds, "operations": counter.get_total_flops() // 2}


def measure_last(width: int, exponent: float) -> dict[str, float | None]:
    """Return seconds of a last layer with one output and with 2^exponent; None: too large."""
    import torch
    from torch.nn import functional as F

    classes = round(2**exponent)
    if not benchmark.fits(classes, width, "cpu"):
        return {"one": None, "all": None}
    torch.set_num_threads(1)
    torch.manual_seed(0)
    features = torch.randn(benchmark.BATCH, width)
    seconds = []
    with torch.inference_mode():
        for outputs in (1, classes):
            weight, bias = torch.full((outputs, width), 0.01), torch.zeros(outputs)
            seconds.append(
                fastest(lambda weight=weight, bias=bias: F.linear(features, weight, bias))  # type: ignore[misc]
            )
    return {"one": seconds[0], "all": seconds[1]}


def measure_whole(exponent: float) -> float:
    """Return the speed-up of the perceptron, timed as whole networks."""
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(0)
    body, shape = network("perceptron")
    timed = benchmark.measure(("perceptron", body, shape, 500), round(2**exponent), 15, "cpu")
    return float(timed["ratio"])


def same_logit(classes: int) -> float:
    """Return how far a network with one output is from that logit of the whole one, as a share."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    body, shape = network("perceptron")
    every, one = nn.Linear(500, classes), nn.Linear(500, 1)
    chosen = classes // 3
    with torch.no_grad():
        one.weight.copy_(every.weight[chosen : chosen + 1])
        one.bias.copy_(every.bias[chosen : chosen + 1])
        features = body.eval()(torch.randn(32, *shape))
        logits = every(features)
        apart = (one(features)[:, 0] - logits[:, chosen]).abs().max()
    return float(apart / logits.abs().max())


def tasks(scale: str) -> list[Task]:
    """Return the tasks: times, each alone, and whether both ways give the same logit."""
    names = MEASURED[scale]
    widths = sorted({WIDTHS[name] for name in names})
    return [
        Task("same logit", same_logit, {"classes": 1000}),
        *(Task(f"below, {name}", measure_body, {"name": name}, alone=True) for name in names),
        *(
            Task(
                f"last layer, {width}, 2^{exponent:g}",
                measure_last,
                {"width": width, "exponent": exponent},
                alone=True,
            )
            for width in widths
            for exponent in SIZES[scale]
        ),
        *(
            Task(f"whole, 2^{exponent:g}", measure_whole, {"exponent": exponent}, alone=True)
            for exponent in WHOLE
        ),
    ]
