"""Forward time with all k logits over that with a single one.

    python -m validation.benchmarks.single_logit [--width W] [--device D] [--full] [--json FILE]

About a minute. The speed-up that single-logit classification has to offer, as Keren, Sabato and
Schuller (2019, Table 3) measure it: a network's last layer has k outputs, or one; random weights,
random input, batches of 32, forward only, one thread on a CPU. Networks:

* "last layer": nothing below it; W inputs, 2048 unless said otherwise, as in ResNet-50. This is
  the upper limit of the speed-up.
* "perceptron": theirs for MNIST, two layers of 500 with batch normalisation.
* "convolutional": theirs for CIFAR, six convolutions and a dense layer of 1024 (with --full).

They report, with much larger networks on a GPU, x1.02-1.04 at 2^10 classes, x1.2-1.6 at 2^16,
x2.8-5.7 at 2^18 and x8.5-21 at 2^18.5. Sizes whose weights would take more than half of the memory
that is free are left out.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import nn

from validation.benchmarks.timing import arguments, machine, print_table, progress, record

EXPONENTS = (10.0, 12.0, 14.0, 16.0, 17.0, 18.0, 18.5)
BATCH = 32

Network = tuple[str, nn.Module, tuple[int, ...], int]


def perceptron() -> nn.Module:
    layers: list[nn.Module] = []
    for inputs in (784, 500):
        layers += [nn.Linear(inputs, 500), nn.BatchNorm1d(500), nn.ReLU()]
    return nn.Sequential(*layers)


def convolutional() -> nn.Module:
    layers: list[nn.Module] = []
    inputs = 3
    for maps in (128, 256, 512):
        for size in (5, 1):
            layers += [
                nn.Conv2d(inputs, maps, size, padding=size // 2, bias=False),
                nn.BatchNorm2d(maps),
                nn.ReLU(),
            ]
            inputs = maps
        layers.append(nn.MaxPool2d(3, stride=2, padding=1))
    layers += [nn.Flatten(), nn.Linear(512 * 4 * 4, 1024), nn.BatchNorm1d(1024), nn.ReLU()]
    return nn.Sequential(*layers)


def networks(width: int, full: bool) -> list[Network]:
    """Name, layers below the last one, shape of an example, inputs of the last layer."""
    found: list[Network] = [
        (f"last layer, {width}", nn.Identity(), (width,), width),
        ("perceptron, 500", perceptron(), (784,), 500),
    ]
    if full:
        found.append(("convolutional, 1024", convolutional(), (3, 32, 32), 1024))
    return found


def fits(classes: int, width: int, device: str) -> bool:
    """Whether weights and logits take less than half of the memory that is free."""
    if device == "cuda":
        free = torch.cuda.mem_get_info()[0]
    elif "SC_AVPHYS_PAGES" in os.sysconf_names:
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    else:
        return True
    return 4 * classes * (width + BATCH) < free / 2


def alternate(calls: list[Callable[[], Any]], repeats: int, device: str) -> list[float]:
    """Seconds of the fastest run of each, the runs taken in turn: all see the same machine."""
    best = [float("inf")] * len(calls)
    for _ in range(repeats):
        for i, call in enumerate(calls):
            start = time.perf_counter()
            call()
            if device == "cuda":
                torch.cuda.synchronize()
            best[i] = min(best[i], time.perf_counter() - start)
    return best


def measure(network: Network, classes: int, repeats: int, device: str) -> dict[str, Any]:
    name, body, shape, width = network
    x = torch.randn(BATCH, *shape, device=device)
    calls = [
        nn.Sequential(body, nn.Linear(width, outputs)).to(device).eval() for outputs in (1, classes)
    ]
    with torch.inference_mode():
        for call in calls:
            call(x)
        one, every = alternate([partial(call, x) for call in calls], repeats, device)
    return {"network": name, "classes": classes, "one": one, "all": every, "ratio": every / one}


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--width", type=int, default=2048, help="inputs of the last layer alone")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    repeats = 15 if options.full else 7
    results: list[dict[str, Any]] = []
    for network in networks(options.width, options.full):
        for exponent in EXPONENTS:
            classes = round(2**exponent)
            if not fits(classes, network[3], options.device):
                progress(f"{network[0]}, {classes} classes: left out, too large for the memory")
                continue
            progress(f"{network[0]}, {classes} classes ...")
            results.append(measure(network, classes, repeats, options.device))
    name = torch.cuda.get_device_name() if options.device == "cuda" else machine()
    where = f"{name}, torch {torch.__version__}"
    print(where, end="\n\n")
    print_table(
        ["network", "classes", "one logit, ms", "all, ms", "all / one"],
        [
            [
                row["network"],
                str(row["classes"]),
                f"{1e3 * row['one']:.3g}",
                f"{1e3 * row['all']:.3g}",
                f"{row['ratio']:.3g}",
            ]
            for row in results
        ],
    )
    record(options.json, "single_logit", results, where)


if __name__ == "__main__":
    main()
