"""MNIST in three epochs of a small network, with EXACT, cross-entropy and the hinge loss.

Ours throughout; some 100 seconds of a CPU a run.  For the loss see ``digits``.  Rates, batches and
EXACT's margin were chosen by validation accuracy, in one trial for cross-entropy, about seven for
EXACT and eleven for the hinge loss, most of these after a first test result was found too low:
this shows that they train, not which is best.
"""

from dataclasses import replace

from exact_torch.recipes import digits

_EXACT = replace(
    digits.RUNS[""],
    data="mnist",
    model_options={"width": 16},
    lr=0.2,
    schedule="exponential",
    schedule_options={"final": 0.005},
    epochs=3,
    batch_size=128,
)
_OTHER = replace(_EXACT, lr=0.1, loss_options={}, gradient="none")

RUNS = {
    "exact": _EXACT,
    "ce": replace(_OTHER, loss="ce"),
    "hinge": replace(_OTHER, loss="hinge", lr=0.3, schedule_options={"final": 0.02}, batch_size=64),
}
