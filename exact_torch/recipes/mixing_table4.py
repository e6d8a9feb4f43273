"""Mixing CE and EL, table 4: two small networks on the 121 UCI sets, six losses.

Battash, Wolf, Hazan, Mixing between the cross entropy and the expectation loss terms (2021).
Published: a linear classifier and one with a hidden layer as wide as the input, 50 epochs, batches
of 8, learning rates of 0.01, 0.005 and 0.001 of which the best on validation is taken, as is the
best epoch, two seeds, focal loss with gamma = 2 and alpha = 0.25 (section "Related work").  Ours:
SGD with momentum 0.9, a share of 0.15 for validation; the division of the sets into training and
test set is that of ``uci/NAME``, theirs is that of Klambauer et al. (2017).

The small twin: six sets, the linear classifier, 20 epochs.
"""

from dataclasses import replace
from typing import Any

from exact_torch.recipes import mixing_table1
from exact_torch.train.config import Config

SEEDS = 2
SEARCH = {"lr": (0.01, 0.005, 0.001)}
_NAMES = """
abalone acute-inflammation acute-nephritis adult annealing arrhythmia audiology-std
balance-scale balloons bank blood breast-cancer breast-cancer-wisc breast-cancer-wisc-diag
breast-cancer-wisc-prog breast-tissue car cardiotocography-10clases cardiotocography-3clases
chess-krvk chess-krvkp congressional-voting conn-bench-sonar-mines-rocks
conn-bench-vowel-deterding connect-4 contrac credit-approval cylinder-bands dermatology
echocardiogram ecoli energy-y1 energy-y2 fertility flags glass haberman-survival hayes-roth
heart-cleveland heart-hungarian heart-switzerland heart-va hepatitis hill-valley horse-colic
ilpd-indian-liver image-segmentation ionosphere iris led-display lenses letter libras
low-res-spect lung-cancer lymphography magic mammographic miniboone molec-biol-promoter
molec-biol-splice monks-1 monks-2 monks-3 mushroom musk-1 musk-2 nursery
oocytes_merluccius_nucleus_4d oocytes_merluccius_states_2f oocytes_trisopterus_nucleus_2f
oocytes_trisopterus_states_5b optical ozone page-blocks parkinsons pendigits pima
pittsburg-bridges-MATERIAL pittsburg-bridges-REL-L pittsburg-bridges-SPAN
pittsburg-bridges-T-OR-D pittsburg-bridges-TYPE planning plant-margin plant-shape
plant-texture post-operative primary-tumor ringnorm seeds semeion soybean spambase spect
spectf statlog-australian-credit statlog-german-credit statlog-heart statlog-image
statlog-landsat statlog-shuttle statlog-vehicle steel-plates synthetic-control teaching
thyroid tic-tac-toe titanic trains twonorm vertebral-column-2clases vertebral-column-3clases
wall-following waveform waveform-noise wine wine-quality-red wine-quality-white yeast zoo
"""
SETS = tuple(_NAMES.split())
_LOSSES: dict[str, dict[str, Any]] = mixing_table1.LOSSES | {
    "el": {"loss": "expectation"},
    "focal": {"loss": "focal", "loss_options": {"gamma": 2.0, "alpha": 0.25}},
}
_BASE = Config(validation=0.15, lr=0.01, epochs=50, batch_size=8, select="best")

RUNS = {
    f"{data}-{model}-{name}": replace(_BASE, data=f"uci/{data}", model=model, **loss)
    for data in SETS
    for model in ("linear", "hidden")
    for name, loss in _LOSSES.items()
}
SMALL = {
    f"{data}-linear-{name}": replace(RUNS[f"{data}-linear-{name}"], epochs=20)
    for data in ("balance-scale", "breast-cancer-wisc-diag", "glass", "iris", "seeds", "wine")
    for name in _LOSSES
}
