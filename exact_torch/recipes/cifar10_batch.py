"""The first of CIFAR-10's five training files, with EXACT and cross-entropy.

Ours throughout: 10,000 images, a small network, flips and shifts; minutes of a CPU.  For the loss
see ``digits``.
"""

from dataclasses import replace

from exact_torch.recipes import digits

_BASE = replace(
    digits.RUNS[""],
    data="cifar10",
    data_options={"batches": [1]},
    augment=("flip", "crop"),
    epochs=20,
    batch_size=128,
)

RUNS = {"exact": _BASE, "ce": replace(_BASE, loss="ce", loss_options={}, gradient="none")}
