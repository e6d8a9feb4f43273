"""The first of CIFAR-10's five training files, with EXACT and cross-entropy.

Ours throughout: 10,000 images, a small network, flips and shifts; some four minutes of a CPU a run.
For the loss see ``digits``, for the learning rates ``mnist``.
"""

from dataclasses import replace

from exact_torch.recipes import digits

_EXACT = replace(
    digits.RUNS[""],
    data="cifar10",
    data_options={"batches": [1]},
    augment=("flip", "crop"),
    lr=0.2,
    weight_decay=5e-4,
    epochs=15,
    batch_size=128,
)

RUNS = {
    "exact": _EXACT,
    "ce": replace(_EXACT, lr=0.1, loss="ce", loss_options={}, gradient="none"),
}
