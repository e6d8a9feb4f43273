"""What the report on the criticism of EXACT computes without training networks."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

SLOPES = tuple(float(f"{10 ** (k / 10):.4g}") for k in range(0, 18))


START = 0.6  # of descent, where its path is kept
# Steps and rates of descent, first those of the report's claim; with others 1 - P goes astray.
DESCENTS = ((300, 0.1), (200, 0.05), (200, 0.2))


def toy_of(starts: list[float]) -> dict[str, Any]:
    """Where the losses of the toy example are smallest, and where descent ends."""
    from validation import toy

    # EXACT with sigma = 1 and slope k is EXACT with slope 1 and sigma = 1/k.
    coarse = np.arange(-400, 601) / 200
    minima = {
        name: {str(k): toy.minimisers(name, k, 1.0, coarse) for k in SLOPES} for name in toy.LOSSES
    }
    wide = {name: toy.minimisers(name, 1.0, 1.0) for name in toy.LOSSES}
    fixed = {name: toy.minimisers(name) for name in toy.LOSSES}
    wrong = {name: max(map(toy.wrong, ends)) for name, ends in fixed.items()}
    ends: dict[str, list[list[float]]] = {}
    paths = {}
    for name in toy.LOSSES:  # with a slope to train EXACT needs no sigma of its own
        ends[name] = []
        for start in starts:
            steps, rate = DESCENTS[0]
            path = toy.descent(name, scale=True, start=start, sigma=1.0, steps=steps, rate=rate)
            ends[name].append([start, path.b[-1], path.k[-1], toy.wrong(path.b[-1])])
            if start == START:
                paths[name] = [[step, path.b[step]] for step in range(0, 301, 6)]
    others = []
    for name, (steps, rate) in itertools.product(toy.LOSSES, DESCENTS[1:]):
        path = toy.descent(name, scale=True, start=START, sigma=1.0, steps=steps, rate=rate)
        others.append([name, steps, rate, path.b[-1], path.k[-1], toy.wrong(path.b[-1])])
    return {
        "others": others,
        "minima": minima,
        "fixed": fixed,
        "wide": wide,
        "wrong": wrong,
        "ends": ends,
        "paths": paths,
    }


def gumbel_of(count: int, seed: int) -> list[list[float]]:
    """Shares of samples in which the label wins with Gumbel noise, P and the standard error."""
    import torch

    from validation.reports.criticism.noise import expected_error

    rng = np.random.default_rng(seed)
    rows = []
    for classes, sigma in ((2, 0.5), (10, 1.0), (10, 3.0), (100, 1.0)):
        scores = rng.normal(size=classes)
        error = expected_error(
            torch.from_numpy(scores[None, None]), torch.tensor([[0]]), "Gumbel", sigma
        )
        prob = 1.0 - error.item()
        beta = sigma * math.sqrt(6.0) / math.pi
        won = int(np.sum((scores + rng.gumbel(0, beta, (count, classes))).argmax(axis=1) == 0))
        rows.append([classes, sigma, prob, won / count, math.sqrt(prob * (1 - prob) / count)])
    return rows
