"""MNIST in three epochs of a small network, with EXACT, cross-entropy and the hinge loss.

Ours throughout; minutes of a CPU.  For the loss see ``digits``.
"""

from dataclasses import replace

from exact_torch.recipes import digits

_BASE = replace(digits.RUNS[""], data="mnist", epochs=3, batch_size=128)
_OTHER = replace(_BASE, loss_options={}, gradient="none")

RUNS = {
    "exact": _BASE,
    "ce": replace(_OTHER, loss="ce"),
    "hinge": replace(_OTHER, loss="hinge"),
}
