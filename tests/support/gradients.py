"""Random boxes, and gradients compared: what tests of derivatives share."""

import math

import numpy as np

INF = math.inf
LIMITS = ("lower", "upper", "mean")


def covariance(rng, d):
    A = rng.normal(size=(d, d + 1))
    return A @ A.T / d + np.diag(rng.uniform(0.2, 0.6, d))


def random_limits(rng, d):
    """Limits of all kinds: below, above, both."""
    upper = rng.normal(0.7, 1.0, d)
    lower = upper - rng.uniform(0.5, 3.0, d)
    kind = rng.random(d)
    lower[kind < 0.4] = -INF
    upper[(kind > 0.4) & (kind < 0.6)] = INF
    return lower, upper


def compare(one, other, names, times=1.0, useful=False):
    """How many entries of two gradients differ by more than their errors, and of how many."""
    outside = entries = 0
    for name in names:
        a, b = (getattr(result, f"grad_{name}") for result in (one, other))
        errors = [getattr(result, f"grad_{name}_error") for result in (one, other)]
        assert np.isfinite(a).all()
        assert np.isfinite(b).all()
        assert all((error >= 0.0).all() for error in errors)
        size = np.maximum(np.abs(a), np.abs(b))
        if useful:  # an error that says nothing would hide anything
            assert all(np.mean(error <= 0.2 * size.max()) > 0.7 for error in errors), name
        outside += np.sum(np.abs(a - b) > times * (errors[0] + errors[1]) + 1e-11 * size)
        entries += a.size
    return outside, entries
