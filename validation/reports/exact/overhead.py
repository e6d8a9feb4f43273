"""How much longer a training step of ResNet-34 is with EXACT: section 5.4 of the first version."""

from __future__ import annotations

from typing import Any, NamedTuple

from validation.running import Task

CLASSES, SAMPLES = 16, 512  # as in the paper


class Setting(NamedTuple):
    """Pixels of an image's side, images of a batch, and steps with each loss."""

    pixels: int
    rows: int
    steps: int


# The paper scales images to 256 pixels for ResNet, in batches of 256, on a GPU.
SETTINGS = {
    "small": (Setting(32, 4, 3),),
    "quick": (Setting(32, 32, 4),),
    "full": (Setting(32, 64, 15), Setting(256, 8, 7)),
}
LOSSES = ("cross-entropy", "published", "exact_loss")


class Step(NamedTuple):
    """Seconds of one training step and of the loss in it, by loss, taken one after the other."""

    step: dict[str, float]
    loss: dict[str, float]


def tasks(scale: str) -> list[Task]:
    return [
        Task(f"overhead: {each.pixels} pixels", steps_of, each._asdict(), alone=True)
        for each in SETTINGS[scale]
    ]


def steps_of(pixels: int, rows: int, steps: int) -> list[Step]:
    """Return the times of steps of ResNet-34 with each loss in turn, in one thread.

    The loss is timed inside the step, from the scores to their gradient, since steps vary by more
    than losses take.
    """
    import torch
    from torch.nn.functional import cross_entropy

    from exact_torch import exact_loss
    from validation.benchmarks.training import Network, Trainer

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        torch.manual_seed(0)
        trainer = Trainer(Network("resnet34", CLASSES, rows, (3, pixels, pixels)))
        losses = {
            "cross-entropy": cross_entropy,
            "published": published_loss(torch.float32),
            "exact_loss": exact_loss,
        }
        for loss in losses.values():
            trainer.step(loss)  # compiles, and fills caches
        measured = []
        for _ in range(steps):
            times = {name: trainer.step(loss) for name, loss in losses.items()}
            measured.append(
                Step({k: v[0] for k, v in times.items()}, {k: v[1] for k, v in times.items()})
            )
    finally:
        torch.set_num_threads(threads)
    return measured


def published_loss(dtype: Any) -> Any:
    """Return the published estimate of -log P as a loss of (scores, labels), sigma = 1."""
    import torch

    from validation.benchmarks.one_factor import Published

    algorithm = Published(CLASSES, SAMPLES, dtype)

    class Estimate(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, m: Any) -> Any:
            log_prob, gradient = algorithm(m)
            ctx.save_for_backward(gradient)
            return -log_prob

        @staticmethod
        def backward(ctx: Any, upstream: Any) -> Any:
            (gradient,) = ctx.saved_tensors
            return -upstream[:, None] * gradient

    def loss(scores: Any, labels: Any) -> Any:
        label = labels[:, None]
        others = torch.arange(scores.shape[1]) != label
        gaps = (scores.gather(1, label) - scores)[others].view(len(scores), -1)
        return Estimate.apply(gaps).mean()

    return loss
