"""How much longer a training step is with EXACT than with cross-entropy, network by network.

    python -m validation.benchmarks.training [--full] [--small] [--json FILE]

About ten minutes, or half an hour with ``--full``. A step is that of a network of
``exact_torch.models`` on random images or rows, by SGD with momentum, in single precision: first
ResNet-18 with 10, 100 and 1000 classes and 128 images of 32 x 32, then every network that the
papers' tables are about, with 10 classes and as many examples as make a step of about a second.

The loss is timed where it is in the step, from scores to their gradient, since steps vary by more
than losses take. Times are the processor's, the best of several, the losses taken in turn. The
paper reports steps 8 to 10 % longer than with cross-entropy, on a GPU.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch.nn.functional import cross_entropy

from exact_torch import exact_loss, models
from validation.benchmarks.timing import arguments, machine, print_table, progress, record

OWN = "exact_loss"
CROSS_ENTROPY = "cross-entropy"
LOSSES: dict[str, Callable[..., Any]] = {OWN: exact_loss, CROSS_ENTROPY: cross_entropy}
IMAGE = (3, 32, 32)


@dataclass(frozen=True)
class Network:
    """A network, and the batch it is given."""

    name: str
    classes: int
    rows: int
    shape: tuple[int, ...] = IMAGE
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Settings:
    """What is run."""

    networks: Sequence[Network]
    steps: int  # with each loss


_SMALL_STEM = {"stem": "small"}
_NETWORKS = (
    *(Network("resnet18", classes, 128, options=_SMALL_STEM) for classes in (10, 100, 1000)),
    Network("linear", 10, 256, (64,)),
    Network("hidden", 10, 256, (64,)),
    Network("mlp500", 10, 128, (1, 28, 28)),
    Network("small_cnn", 10, 128),
    Network("vgg_mnist", 10, 128, (1, 28, 28)),
    Network("cnn6", 10, 32),
    Network("resnet20", 10, 128),
    Network("resnet110", 10, 32),
    Network("preact_resnet18", 10, 16),
    Network("resnext29_8x64", 10, 4),
    Network("wrn16_8", 10, 8),
    Network("wrn28_10", 10, 2),
    Network("pyramidnet272", 10, 2),
    Network("resnet18", 10, 16, (3, 256, 256)),
    Network("efficientnet_v2_m", 10, 2, (3, 256, 256)),
)
USUAL = Settings(_NETWORKS, 2)
FULL = Settings(_NETWORKS, 5)
SMALL = Settings((Network("linear", 3, 4, (5,)), Network("small_cnn", 4, 2, (1, 8, 8))), 1)


class Trainer:
    """A network, its optimiser, and a batch of random inputs."""

    def __init__(self, network: Network) -> None:
        self.model = models.get(network.name, network.classes, network.shape, **network.options)
        self.optimiser = torch.optim.SGD(
            self.model.parameters(), lr=0.01, momentum=0.9, weight_decay=5e-4
        )
        self.inputs = torch.randn(network.rows, *network.shape)
        self.labels = torch.randint(network.classes, (network.rows,))

    def step(self, loss: Callable[..., Any]) -> tuple[float, float]:
        """Seconds of a step, and of the loss in it."""
        start = time.process_time()
        self.optimiser.zero_grad()
        scores = self.model(self.inputs)
        before = time.process_time()
        slope = _gradient(scores, self.labels, loss)
        after = time.process_time()
        scores.backward(slope)
        self.optimiser.step()
        return time.process_time() - start, after - before


def _gradient(scores: Any, labels: Any, loss: Callable[..., Any]) -> Any:
    leaf = scores.detach().requires_grad_()
    loss(leaf, labels).backward()
    return leaf.grad


@dataclass(frozen=True)
class Step:
    """Seconds of a training step and of the loss in it, the best of each."""

    network: str
    shape: tuple[int, ...]
    rows: int
    classes: int
    loss: str
    step_seconds: float
    loss_seconds: float


def step_lines(network: Network, steps: int) -> list[Step]:
    trainer = Trainer(network)
    for loss in LOSSES.values():
        _gradient(torch.zeros(network.rows, network.classes), trainer.labels, loss)
    best = {name: (float("inf"), float("inf")) for name in LOSSES}
    for _ in range(steps):
        for name, loss in LOSSES.items():
            found = trainer.step(loss)
            best[name] = (min(best[name][0], found[0]), min(best[name][1], found[1]))
    about = (network.name, network.shape, network.rows, network.classes)
    return [Step(*about, name, *seconds) for name, seconds in best.items()]


def print_steps(lines: list[Step]) -> None:
    print("a step, and how much longer it is with exact_loss than with cross-entropy, by the")
    print("difference of the losses")
    rows = []
    for own, plain in zip(lines[::2], lines[1::2], strict=True):
        longer = (own.loss_seconds - plain.loss_seconds) / plain.step_seconds
        size = " x ".join(map(str, (own.rows, *own.shape)))
        rows.append(
            [
                f"{own.network}, {size}, {own.classes} classes",
                f"{plain.step_seconds:.3g}",
                f"{1e3 * plain.loss_seconds:.3g}",
                f"{1e3 * own.loss_seconds:.3g}",
                f"{100 * longer:.2g}",
            ]
        )
    print_table(["", "step, s", "cross-entropy, ms", "exact_loss, ms", "longer by, %"], rows)


def main(given: Sequence[str] | None = None) -> None:
    parser = arguments(__doc__)
    parser.add_argument("--small", action="store_true", help="tiny sizes, to test this program")
    options = parser.parse_args(given)
    settings = SMALL if options.small else FULL if options.full else USUAL
    torch.set_num_threads(1)
    torch.manual_seed(0)
    where = machine()
    print(where, end="\n\n")
    lines: list[Step] = []
    Trainer(settings.networks[0]).step(cross_entropy)
    for network in settings.networks:
        progress(f"{network.name} ...")
        lines += step_lines(network, settings.steps)
    print_steps(lines)
    record(options.json, "training", [asdict(line) for line in lines], where)


if __name__ == "__main__":
    main()
