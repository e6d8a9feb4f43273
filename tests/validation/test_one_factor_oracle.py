"""The 40-digit one-factor oracle against closed forms, differences and the stored references."""

import json
import math
from pathlib import Path

import mpmath
import numpy as np
import pytest
from mpmath import mpf

import validation
from validation.oracles import exact
from validation.oracles.one_factor import one_factor_derivatives

REFERENCES = Path(validation.__file__).with_name("reference") / "one_factor.json"
TIGHT = mpf(10) ** -33


@pytest.fixture(autouse=True)
def fifty_digits():
    with mpmath.workdps(50):
        yield


def assert_close(found, truth):
    """To 33 digits of the largest entry."""
    top = max(map(abs, truth))
    assert max(abs(x - y) for x, y in zip(found, truth, strict=True)) <= TIGHT * top


def log_ndtr(x):
    """In the working precision, which may be higher than exact's 40 digits."""
    tail = mpmath.erfc(abs(x) / mpmath.sqrt(2)) / 2
    return mpmath.log1p(-tail) if x > 0 else mpmath.log(tail)


def mills(x):
    return mpmath.npdf(x) / mpmath.exp(log_ndtr(x))


@pytest.mark.parametrize("d", [1, 3, 9, 10_000])
def test_equal_scores(d):
    # P = 1 / (d + 1); shifting the winner's score by t and its noise are one thing, so that
    # d dP/dm = integral of z phi(z) Phi(z)^d, the expected maximum of d + 1 normals over d + 1.
    found = one_factor_derivatives([0.0], [1.0], [1.0], [d])
    assert_close([found.log_prob], [-mpmath.log(d + 1)])
    # The scale of all scores does not matter: log P is constant along c = s^2, v = s, m = 0.
    assert_close([found.c[0] * 2], [-found.v[0]])
    if d <= 9:
        largest = mpmath.quad(
            lambda z: z * mpmath.npdf(z) * mpmath.ncdf(z) ** d, [-15, -6, -2, 0, 2, 4, 8, 15]
        )
        assert abs(found.m[0] - largest * (d + 1) / d) < mpf(10) ** -30


@pytest.mark.parametrize(
    ("m", "c", "v"),
    [
        (0.3, 1.0, 1.0),
        (-450.0, 1.0, 1.0),
        (30.3, 1.0, -1.0),
        (-1e6, 1e-12, 1e-3),
        (1e-3, 1e-12, 1.0),
        (2.0, 1e12, 0.5),
        (-2.0, 0.5, 0.0),
        (1e6, 1.0, 1.0),
    ],
)
def test_one_coordinate(m, c, v):
    found = one_factor_derivatives([m], [c], [v], hessian=True)
    m, c, v = mpf(m), mpf(c), mpf(v)
    variance = c + v * v
    x = m / mpmath.sqrt(variance)
    with mpmath.workdps(100):
        h = mills(x)
        curvature = -h * (x + h)
        log_prob = log_ndtr(x)
    assert_close([found.log_prob], [log_prob])
    assert_close(found.m, [h / mpmath.sqrt(variance)])
    assert_close(found.c, [-h * x / (2 * variance)])
    assert_close(found.v, [-h * x * v / variance])
    assert_close(found.hessian[0], [curvature / variance])


def test_two_coordinates():
    m, c, v = [0.7, -1.2], [0.5, 2.0], [0.6, -1.1]
    found = one_factor_derivatives(m, c, v, hessian=True)
    s = [mpmath.sqrt(mpf(ci) + mpf(vi) ** 2) for ci, vi in zip(c, v, strict=True)]
    rho = mpf(v[0]) * mpf(v[1]) / (s[0] * s[1])
    x = [mpf(mi) / si for mi, si in zip(m, s, strict=True)]
    prob = exact.bivariate_prob(x[0], x[1], rho)
    noise = mpmath.sqrt(1 - rho * rho)
    # Conditional distributions give the gradient, the density the mixed derivative.
    grad = [
        mpmath.npdf(x[i]) * mpmath.ncdf((x[1 - i] - rho * x[i]) / noise) / s[i] / prob
        for i in range(2)
    ]
    density = mpmath.npdf(x[0]) * mpmath.npdf((x[1] - rho * x[0]) / noise) / noise
    assert_close([found.log_prob], [mpmath.log(prob)])
    assert_close(found.m, grad)
    mixed = density / (s[0] * s[1]) / prob - grad[0] * grad[1]
    assert_close([found.hessian[0][1]], [mixed])
    assert found.hessian[0][1] == found.hessian[1][0]


def test_independent_coordinates():
    m, c = [1.0, -2.0, 3e-6, 40.0], [1.0, 2.0, 1e-12, 4.0]
    found = one_factor_derivatives(m, c, [0.0] * 4)
    x = [mpf(mi) / mpmath.sqrt(mpf(ci)) for mi, ci in zip(m, c, strict=True)]
    roots = [mpmath.sqrt(mpf(ci)) for ci in c]
    assert_close([found.log_prob], [mpmath.fsum(map(log_ndtr, x))])
    assert_close(found.m, [mills(xi) / s for xi, s in zip(x, roots, strict=True)])
    # Entries that are small beside the largest are right, too.
    assert_close(found.m[3:], [mills(x[3]) / 2])
    assert_close(found.c, [-mills(xi) * xi / (2 * s * s) for xi, s in zip(x, roots, strict=True)])
    assert found.v == [0] * 4


@pytest.mark.parametrize(
    ("m", "c", "v"),
    [
        ([0.4, -1.0, 2.0], [1.0, 0.3, 2.0], [1.0, -0.7, 0.2]),
        ([-30.0, 30.0], [1.0, 1.0], [1.0, -1.0]),
        ([1e-3, 2e-3], [1e-12, 1e-12], [1.0, -1.0]),
        ([12.0, 13.0], [1.0, 0.5], [1.0, 1.0]),
    ],
)
def test_gradients_are_differences_of_the_value(m, c, v):
    found = one_factor_derivatives(m, c, v)
    arguments = [[mpf(x) for x in group] for group in (m, c, v)]
    for group, gradient in enumerate((found.m, found.c, found.v)):
        i = int(np.argmax([float(abs(g)) for g in gradient]))
        step = abs(arguments[group][i]) * mpf(10) ** -15
        above, below = ([list(x) for x in arguments] for _ in range(2))
        above[group][i] += step
        below[group][i] -= step
        change = one_factor_derivatives(*above).log_prob - one_factor_derivatives(*below).log_prob
        assert float(change / (2 * step) / gradient[i] - 1) == pytest.approx(0, abs=1e-19)


def test_second_derivatives_are_differences_of_the_gradient():
    m, c, v = [0.4, -1.0, 2.0], [1.0, 0.3, 2.0], [1.0, -0.7, 0.2]
    found = one_factor_derivatives(m, c, v, hessian=True)
    step = mpf(10) ** -12
    above, below = (one_factor_derivatives([mpf(0.4) + s * step, *m[1:]], c, v).m for s in (1, -1))
    for x, y, truth in zip(above, below, found.hessian[0], strict=True):
        assert float((x - y) / (2 * step) - truth) == pytest.approx(0, abs=1e-20)
    # Plackett: the derivative in a variance is half the second derivative in m.
    for i in range(3):
        assert_close([found.hessian[i][i] + found.m[i] ** 2], [2 * found.c[i]])


def test_counts_are_repeated_coordinates():
    m, c, v, counts = [0.4, -1.0], [1.0, 0.3], [1.0, -0.7], [3, 2]
    found = one_factor_derivatives(m, c, v, counts)
    repeated = one_factor_derivatives(*(np.repeat(x, counts) for x in (m, c, v)))
    assert_close([found.log_prob], [repeated.log_prob])
    for few, many in zip(found[1:4], repeated[1:4], strict=True):
        assert_close([few[0]] * 3 + [few[1]] * 2, many)


@pytest.mark.parametrize(
    ("m", "c", "v"),
    [
        (np.linspace(30.0, 34.0, 4), np.ones(4), np.ones(4)),
        ([1e-3, 1.0, 2.0], [1e-12, 1e-12, 1e12], [1.0, -1.0, 3.0]),
        ([-450.0, -440.0, 30.0], np.ones(3), np.ones(3)),
    ],
)
def test_other_panels_agree(m, c, v):
    one = one_factor_derivatives(m, c, v)
    other = one_factor_derivatives(m, c, v, panels=1.7)
    assert_close([one.log_prob], [other.log_prob])
    for x, y in zip(one[1:4], other[1:4], strict=True):
        assert_close(x, y)


def test_hessian_with_counts_is_refused():
    with pytest.raises(ValueError, match="counts must be None"):
        one_factor_derivatives([0.0], [1.0], [1.0], [2], hessian=True)


# The stored references


def references():
    return json.loads(REFERENCES.read_text())


def test_references_cover_all_dimensions_and_regimes():
    entries = references()
    assert {1, 2, 3, 5, 10, 30, 100, 1000, 10_000} <= {entry["d"] for entry in entries}
    assert len({entry["regime"] for entry in entries}) == 10
    for entry in entries:
        assert sum(entry["counts"]) == entry["d"]
        sizes = {len(entry[k]) for k in ("m", "c", "v", "counts", "grad_m", "grad_c", "grad_v")}
        assert len(sizes) == 1
        assert all(math.isfinite(g) for k in "mcv" for g in entry[f"grad_{k}"])


def test_references_are_what_the_oracle_finds():
    seen = set()
    for entry in references():
        if entry["regime"] in seen or len(entry["m"]) > 3:
            continue
        seen.add(entry["regime"])
        found = one_factor_derivatives(entry["m"], entry["c"], entry["v"], entry["counts"])
        assert abs(found.log_prob / mpf(entry["log_prob"]) - 1) < mpf(10) ** -38
        for k, gradient in zip("mcv", found[1:4], strict=True):
            assert [float(g) for g in gradient] == entry[f"grad_{k}"]
    assert len(seen) == 10
