"""Writes one_factor.json: orthants with covariance diag(c) + v v^T, and their gradients.

    python -m validation.reference.make_one_factor

About five minutes. Every case is computed in 40-digit arithmetic on two sets of panels, which
must agree to 33 digits of the largest entry.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
from mpmath import mpf
from numpy.typing import ArrayLike

from validation.oracles.one_factor import Derivatives, one_factor_derivatives

FILE = Path(__file__).with_name("one_factor.json")
AGREEMENT = mpf(10) ** -33

Case = tuple[str, ArrayLike, ArrayLike, ArrayLike, ArrayLike]


def cases() -> Iterator[Case]:
    """(regime, m, c, v, counts); numbers stand for arrays of them."""
    rng = np.random.default_rng(2024)
    for d, m in ((1, 0.0), (2, 0.0), (3, 0.5), (5, -3.0), (10, 0.0), (30, 1.0), (100, -1.0)):
        yield "equal", [m], 1.0, 1.0, [d]
    for d in (1000, 10_000):
        for m in (-3.0, 0.0, 4.0):
            yield "equal", [m], 1.0, 1.0, [d]
    for d in (2, 3, 5, 10, 30, 100):
        yield "ordinary", rng.normal(0.0, 2.0, d), 1.0, 1.0, 1
    for d in (3, 5, 10):
        yield "ordinary", rng.normal(0.0, 2.0, d), rng.lognormal(size=d), rng.normal(size=d), 1
    for d in (100, 1000, 10_000):
        c, v = rng.lognormal(size=20), rng.normal(size=20)
        yield "ordinary", rng.normal(0.0, 2.0, 20), c, v, d // 20
        yield "ordinary", rng.normal(2.0, 2.0, 20), 1.0, 1.0, d // 20
    for d in (3, 10, 100, 1000, 10_000):
        yield "dominant", [-6.0, 3.0], 1.0, 1.0, [1, d - 1]
        yield "dominant", [-20.0, 15.0], 1.0, 1.0, [1, d - 1]
    yield "near one", [8.0], 1.0, 1.0, 1
    yield "near one", [30.3], 1.0, 1.0, 1
    yield "near one", [50.0, 49.0, 50.5], 1.0, [1.0, -1.0, 0.5], 1
    yield "near one", rng.uniform(30.0, 34.0, 5), 1.0, 1.0, 1
    yield "near one", rng.uniform(9.0, 12.0, 10), 1.0, rng.normal(size=10), 1
    for d in (100, 10_000):
        yield "near one", rng.uniform(30.0, 34.0, 5), 1.0, 1.0, d // 5
    for d, level in ((1, -450.0), (10, -450.0), (100, -450.0), (1000, -450.0), (10_000, -30.0)):
        size = min(d, 10)
        yield "tail", level + rng.normal(0.0, 2.0, size), 1.0, 1.0, d // size
    yield "tail", rng.normal(-300.0, 5.0, 10), rng.lognormal(size=10), rng.normal(size=10), 1
    for d in (2, 5, 10, 100):
        size = min(d, 10)
        signs = np.resize([1.0, -1.0], size)
        yield "mixture", 30.0 * signs, 1.0, 1.0, d // size
        yield "mixture", 30.0 * signs, 1.0, rng.choice([-1.0, 1.0], size), d // size
    for d in (3, 10, 30):
        c = 10.0 ** np.linspace(-12.0, 12.0, d)
        yield "noise", rng.normal(0.0, 2.0, d) * np.sqrt(c), c, rng.normal(size=d) * np.sqrt(c), 1
        yield "noise", rng.uniform(0.5, 2.0, d), c, rng.normal(size=d), 1
    yield "walls", [1e-3, 1e-3], 1e-12, [1.0, -1.0], 1
    yield "walls", [-1e-3, -1e-3], 1e-12, [1.0, -1.0], 1
    for d in (1, 3, 5):
        yield "walls", rng.uniform(0.5, 2.0, d), 1e-12, rng.normal(size=d), 1
    yield "far", [1e6, -1e6, 3.0], 1.0, 1.0, 1
    yield "far", [-1e6], 1.0, 1.0, 1
    yield "far", [-1e6, -2e6, 1.0], [1e-12, 1.0, 1e-12], [1.0, 1.0, 1e-3], 1
    yield "no factor", [1.0, -2.0, 3e-6], [1.0, 2.0, 1e-12], 0.0, 1
    yield "no factor", rng.normal(size=10), rng.lognormal(size=10), 0.0, 1
    yield "no factor", rng.normal(size=5), 1.0, [0.0, 1.0, 0.0, -1.0, 0.0], 1
    yield "no factor", rng.normal(size=5), 1.0, 1e-8, 1


def difference(a: Derivatives, b: Derivatives) -> mpf:
    """The largest relative difference, against the largest entry of each field."""
    worst = mpf(0)
    for one, other in (([a.log_prob], [b.log_prob]), (a.m, b.m), (a.c, b.c), (a.v, b.v)):
        top = max(map(abs, one))
        change = max(abs(x - y) for x, y in zip(one, other, strict=True))
        worst = max(worst, change / top if top else change)
    return worst


def record(case: Case) -> dict[str, Any]:
    regime, *inputs = case
    m, c, v, counts = np.broadcast_arrays(*(np.asarray(x) for x in inputs))
    number = [int(n) for n in counts]
    found = one_factor_derivatives(m, c, v, number)
    with mpmath.workdps(60):
        agreement = difference(found, one_factor_derivatives(m, c, v, number, panels=1.7))
    if agreement > AGREEMENT:
        raise ArithmeticError(f"{regime}, d = {sum(number)}: panels differ by {agreement}")
    return {
        "regime": regime,
        "d": sum(number),
        "m": m.tolist(),
        "c": c.tolist(),
        "v": v.tolist(),
        "counts": number,
        "log_prob": mpmath.nstr(found.log_prob, 40),
        "grad_m": [float(g) for g in found.m],
        "grad_c": [float(g) for g in found.c],
        "grad_v": [float(g) for g in found.v],
        "agreement": float(agreement),
    }


def main() -> None:
    records = []
    for case in cases():
        records.append(record(case))
        print(f"{records[-1]['regime']:10} d={records[-1]['d']:<6} {records[-1]['log_prob']:.20}")
    print(f"largest difference: {max(entry['agreement'] for entry in records):.0e}")
    lines = ",\n".join(json.dumps(entry) for entry in records)
    FILE.write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
