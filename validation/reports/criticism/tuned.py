"""What is said of EXACT against cross-entropy after equal tuning."""

from __future__ import annotations

from typing import Any

import numpy as np

from validation.page import Check, Picture, Section, Table, Text
from validation.page.figures import axes
from validation.reports.criticism.paired import paired
from validation.reports.criticism.runs import GRIDS


def section(runs: dict[tuple[str, str], Any], trials: int, seeds: int) -> Section:
    """On the runs by data set and model, each loss tuned by so many trials, then so many seeds."""
    rows: list[list[Any]] = []
    settings = []
    for (data, model), found in runs.items():
        exact, entropy = (np.array(found[name]["test"]) for name in ("EXACT", "cross-entropy"))
        seeded = paired((100 * (exact - entropy)).tolist())
        rows.append(
            [
                data,
                model,
                found["test_examples"],
                100 * float(entropy.mean()),
                100 * float(exact.mean()),
                seeded.mean,
                seeded.error,
                100 * found["examples_error"],
                f"{seeded.wins}:{seeded.losses}",
            ]
        )
        for name in GRIDS:
            own = found[name]
            chosen = ", ".join(f"{k.split('.')[-1]} = {v}" for k, v in own["settings"].items())
            spread = 100 * float(np.median(own["trials"])), 100 * max(own["trials"])
            settings.append([data, model, name, chosen, *spread])
    overall = paired([row[5] for row in rows])
    title = "EXACT less cross-entropy, points of test accuracy"
    figure, ax = axes(xlabel="EXACT less cross-entropy, points")
    places = range(len(rows))
    ax.errorbar(
        [row[5] for row in rows],
        places,
        xerr=[2 * row[7] for row in rows],
        fmt="o",
        color="C0",
        capsize=3,
    )
    ax.axvline(0.0, color="black", linewidth=0.8)
    ax.set_yticks(places, [f"{row[0].removeprefix('uci/')}, {row[1]}" for row in rows])
    ax.invert_yaxis()
    shown = [[row[0], row[1], row[5], row[7]] for row in rows]
    picture = Picture(
        title,
        figure,
        Table(title, ["data set", "model", "difference", "standard error"], shown),
        "Bars: two standard errors from the choice of test examples. Right of the line EXACT wins.",
    )
    names = {
        sign: [f"{row[0]} ({row[1]}: {row[5]:+.2f})" for row in rows if sign * row[5] > 0]
        for sign in (1, -1)
    }
    verdict = overall.verdict if overall.wilcoxon < 0.05 else "shown neither better nor worse"
    clear = [row for row in rows if abs(row[5]) > 2 * np.hypot(row[6], row[7])]
    sizes = {
        name: int(np.prod([len(values) for values in grid.values()]))
        for name, grid in GRIDS.items()
    }
    return Section(
        "EXACT against cross-entropy with the same tuning",
        [
            Text(
                "The critic could not reproduce the paper's gains. Both losses get the same: "
                f"{trials} random trials from grids of equally many settings "
                f"({sizes['EXACT']} and {sizes['cross-entropy']}: learning rate and weight decay "
                "as published; the margin for EXACT, the norm at which gradients are clipped for "
                "cross-entropy), judged on a validation fifth; the chosen setting is then trained "
                f"with {seeds} other seeds, the same for both, and tested. EXACT is "
                "that of the later version: 1 - P, scores and gradients normalised, sigma from 10 "
                "to 0.01 for linear models and to 1 for others."
            ),
            Table(
                "Test accuracy after equal tuning, %",
                [
                    "data set",
                    "model",
                    "test examples",
                    "cross-entropy",
                    "EXACT",
                    "EXACT less CE",
                    "se, seeds",
                    "se, test examples",
                    "seeds won:lost",
                ],
                rows,
                "Two standard errors: that of the mean over seeds, and that from the choice of "
                "test examples, which more seeds do not make smaller. The choice of settings adds "
                "to both.",
            ),
            picture,
            Table(
                "What was chosen, and validation accuracy in the search, %",
                ["data set", "model", "loss", "chosen", "median trial", "best trial"],
                settings,
            ),
            Text(
                f"Over {overall.pairs} data sets and models EXACT less cross-entropy is "
                f"{overall.mean:+.2f} ± {overall.error:.2f} points: {overall.wins} for EXACT, "
                f"{overall.losses} for cross-entropy, "
                f"{overall.pairs - overall.wins - overall.losses} ties; sign test p = "
                f"{overall.sign:.2f}, Wilcoxon p = {overall.wilcoxon:.2f}. EXACT is "
                f"{verdict}. EXACT is ahead on "
                f"{', '.join(names[1]) or 'none'}; behind on {', '.join(names[-1]) or 'none'}. "
                f"{len(clear)} of these differences "
                f"{'is' if len(clear) == 1 else 'are'} larger than twice both standard errors "
                "together"
                + (
                    f": {', '.join(f'{row[0]} ({row[5]:+.2f})' for row in clear)}."
                    if clear
                    else "."
                )
            ),
            Check(
                "Both losses train: on each set the tuned accuracy is above 50 %.",
                all(min(row[3], row[4]) > 50.0 for row in rows),
                f"Smallest: {min(min(row[3], row[4]) for row in rows):.1f} %.",
            ),
        ],
    )
