"""What independent code finds in stored networks: scikit-learn, the softmax, simulated noise."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from validation.page import Check

DRAWS = 400  # of the noise of first-version EXACT, to simulate its expected accuracy


def judge(folder: Path) -> dict[str, Any]:
    """Accuracy and confusion by scikit-learn; expected accuracy by the softmax, or by simulation.

    "expected" is None for EXACT with a scheduled sigma, "error" the standard error of a simulation.
    """
    from scipy.special import softmax
    from sklearn.metrics import accuracy_score, confusion_matrix

    from validation.paper.training import stored_scores

    scores, labels, sigma = stored_scores(folder)
    guess = scores.argmax(1)
    expected, error = None, 0.0
    if sigma is not None:
        noise = np.random.default_rng(0).standard_normal((DRAWS, *scores.shape))
        right = ((scores + sigma * noise).argmax(2) == labels).mean(1)
        expected, error = float(right.mean()), float(right.std(ddof=1) / DRAWS**0.5)
    elif json.loads((folder / "config.json").read_text())["loss"] != "exact":
        expected = float(softmax(scores.astype(float), 1)[np.arange(len(labels)), labels].mean())
    return {
        "accuracy": float(accuracy_score(labels, guess)),
        "confusion": confusion_matrix(labels, guess, labels=range(scores.shape[1])).tolist(),
        "expected": expected,
        "error": error,
    }


def checks(runs: Mapping[str, dict[str, Any]]) -> list[Check]:
    """What independent code finds in the stored networks of the first seed on digits."""
    if not runs:
        return []
    judged = {name: came["again"] for name, came in runs.items()}
    same = [
        runs[name]["accuracy"] == again["accuracy"]
        and runs[name]["confusion"] == again["confusion"]
        for name, again in judged.items()
    ]
    apart = {
        name: abs(runs[name]["expected_accuracy"] - again["expected"])
        for name, again in judged.items()
        if again["expected"] is not None
    }
    beyond = [name for name in apart if not apart[name] <= 5 * judged[name]["error"] + 1e-6]
    told = "; ".join(
        f"{name}: {runs[name]['expected_accuracy']:.5f} and {judged[name]['expected']:.5f}"
        + (f" ± {judged[name]['error']:.5f}" if judged[name]["error"] else "")
        for name in apart
    )
    return [
        Check(
            "Accuracy and confusion matrix on digits are those that scikit-learn computes from the "
            "scores of the stored network.",
            all(same),
            f"{sum(same)} of {len(same)} runs",
        ),
        Check(
            "Expected accuracy on digits is the mean softmax probability, to 1e-6, and for EXACT "
            f"with a predicted sigma the accuracy in {DRAWS} draws of its noise, to 5 standard "
            "errors.",
            bool(apart) and not beyond,
            told,
        ),
    ]
