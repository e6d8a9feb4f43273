"""EXACT, first version, table 2: three optimisers and three losses, WRN-16-8 on four sets.

Karpukhin, Dereka, Kolesnikov, arXiv:2205.09615v1, section 5.2; all else as in table 1, see
``exact_v1_table1``.  Not in that paper, taken from the later version: Adam's learning rate of
1e-3 and ASAM's radius of 2.

The small twin: as that of table 1, with the three optimisers.
"""

from dataclasses import replace
from typing import Any

from exact_torch.recipes import exact_v1_table1 as table1

LOSSES: dict[str, dict[str, Any]] = table1.LOSSES | {"hinge": {"loss": "hinge"}}
OPTIMIZERS: dict[str, dict[str, Any]] = {
    "sgd": {},
    "adam": {"optimizer": "adam", "lr": 1e-3},
    "asam": {"rho": 2.0},
}

_BASE = replace(table1.BASE, model="wrn16_8", image_size=32)
RUNS = {
    f"{data}-{optimizer}-{name}": replace(table1.on(_BASE, data), **options, **loss)
    for data in table1.EPOCHS
    for optimizer, options in OPTIMIZERS.items()
    for name, loss in LOSSES.items()
}

SMALL = {
    f"{data}-{optimizer}-{name}": replace(
        table1.BASE, model="small_cnn", **where, **({"lr": 0.1} | options), **loss
    )
    for data, where in table1.SMALL_DATA.items()
    for optimizer, options in OPTIMIZERS.items()
    for name, loss in LOSSES.items()
}
