"""EXACT, first version, figure 4: how many samples the integral needs, WRN-16-8 with ASAM.

Karpukhin, Dereka, Kolesnikov, arXiv:2205.09615v1, section 5.3; all else as in table 2.  Published:
sample sizes from 1 to 512; ours: that they are powers of two, and the run "all", which integrates
exactly.  As published, the samples are those of Genz's algorithm (``method="genz"``); here they
are a randomised point set, there plain random numbers.

The small twin: as that of table 1 with SGD, sample sizes 1, 16 and "all".
"""

from dataclasses import replace

from exact_torch.recipes import exact_v1_table1 as table1
from exact_torch.recipes import exact_v1_table2 as table2
from exact_torch.train.config import Config


def _with_samples(config: Config, n: int) -> Config:
    return replace(config, loss_options={**config.loss_options, "method": "genz", "n": n})


_SIZES = [2**power for power in range(10)]
RUNS: dict[str, Config] = {}
for _data in table1.EPOCHS:
    _all = table2.RUNS[f"{_data}-asam-exact"]
    RUNS |= {f"{_data}-{n}": _with_samples(_all, n) for n in _SIZES} | {f"{_data}-all": _all}

SMALL: dict[str, Config] = {}
for _data in table1.SMALL_DATA:
    _all = table1.SMALL[f"{_data}-exact"]
    SMALL |= {f"{_data}-{n}": _with_samples(_all, n) for n in (1, 16)} | {f"{_data}-all": _all}
