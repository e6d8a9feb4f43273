"""Published figures of single-logit classification, tables 1 and 2, on MNIST and CIFAR-10.

Keren, Sabato, Schuller, Analysis of loss functions for fast single-class classification (2020).
"""

from __future__ import annotations

from typing import NamedTuple

NOT_ALIGNED = ("ce", "max_margin")
ALIGNED = ("self_norm", "nce", "bce", "batch_ce", "batch_max_margin")  # with logit separation


class Measures(NamedTuple):
    """One minus each measure: smaller is better."""

    auprc: float
    at_90: float
    at_99: float


HEADS = ("1 - AUPRC", "1 - precision at recall 0.9", "1 - precision at recall 0.99")
TABLE1 = {
    "mnist": {
        "ce": Measures(0.008, 0.005, 0.203),
        "max_margin": Measures(0.012, 0.018, 0.262),
        "self_norm": Measures(0.002, 0.001, 0.021),
        "nce": Measures(0.002, 0.002, 0.021),
        "bce": Measures(0.002, 0.000, 0.037),
        "batch_ce": Measures(0.001, 0.001, 0.022),
        "batch_max_margin": Measures(0.002, 0.001, 0.034),
    },
    "cifar10": {
        "ce": Measures(0.109, 0.326, 0.703),
        "max_margin": Measures(0.094, 0.285, 0.705),
        "self_norm": Measures(0.073, 0.204, 0.599),
        "nce": Measures(0.081, 0.214, 0.594),
        "bce": Measures(0.070, 0.210, 0.607),
        "batch_ce": Measures(0.072, 0.202, 0.602),
        "batch_max_margin": Measures(0.075, 0.226, 0.636),
    },
}
# By how much the mean of the losses with logit separation is below that of the two others.
IMPROVEMENT = {
    "mnist": Measures(0.820, 0.913, 0.884),
    "cifar10": Measures(0.269, 0.309, 0.136),
}
# Table 2: the mean of the losses with logit separation, and cross-entropy with all logits.
MEAN_ALIGNED = {
    "mnist": Measures(0.002, 0.001, 0.027),
    "cifar10": Measures(0.074, 0.211, 0.608),
}
CE_ALL_LOGITS = {
    "mnist": Measures(0.001, 0.000, 0.020),
    "cifar10": Measures(0.074, 0.214, 0.648),
}
