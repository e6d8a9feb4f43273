"""Derivatives of chains: closed forms, extended precision, differences, identities."""

import itertools

import mpmath
import numpy as np
import pytest
from mpmath import mpf
from support.boxes import boxes, within
from support.chains import (
    correlations,
    derivatives_by_densities,
    extended_logprob,
    factor,
    random_chain,
)

import mvnorth
from mvnorth._methods import markov
from validation.oracles import exact

INF = np.inf
EPS = float(np.finfo(float).eps)
ALL = ("lower", "upper", "mean", "cov", "factor")


def solve(problems, wrt=()):
    return markov.solve(problems, within(0.0, wrt=wrt))


def derivatives(lower, upper, L, wrt=ALL, singular=0.0):
    """``(values, errors)`` by name for one box."""
    found = solve(boxes(lower, upper, L, singular), wrt)
    assert found.rel_error[0] < 1e-8
    return tuple(
        {k: a[0] for k, a in of.items()}
        for of in (found.derivatives.value, found.derivatives.error)
    )


def log_prob(lower, upper, L):
    return float(solve(boxes(lower, upper, L, singular=0.0)).log_prob[0])


def check(found, truth, largest, sizes=None, own=0.0):
    """Errors hold entry by entry, and are at most ``largest`` of what the entries sum."""
    values, errors = found
    for name, true in truth.items():
        true = np.asarray(true)
        size = np.abs(true) if sizes is None else sizes[name]
        off = np.abs(values[name] - true).astype(float)
        bound = errors[name] + (own * size).astype(float)
        assert (off <= bound).all(), (name, off, errors[name])
        scale = float(np.max(size))
        assert (errors[name] <= largest * scale + 1e-18).all(), (name, errors[name], scale)


# Closed forms


@pytest.mark.parametrize(
    "limits", [(-INF, 1.5), (-INF, -40.0), (3.0, INF), (-1.0, 2.0), (5.0, 5.001), (-INF, 12.0)]
)
@pytest.mark.parametrize("deviation", [1.0, 3.7])
def test_one(limits, deviation):
    L = np.array([[deviation]])
    given = [x * deviation for x in limits]
    with mpmath.workdps(40):
        a, b = (mpf(x) / mpf(deviation) for x in given)
        prob = exact.ndtr(b) - exact.ndtr(a) if a < 0 else exact.ndtr(-a) - exact.ndtr(-b)
        density = [mpmath.npdf(x) / prob for x in (a, b)]
        scaled = [x * p if mpmath.isfinite(x) else 0 for x, p in zip((a, b), density, strict=True)]
        truth = {
            "lower": [-density[0] / deviation], "upper": [density[1] / deviation],
            "mean": [(density[0] - density[1]) / deviation],
            "cov": [[(scaled[0] - scaled[1]) / (2 * mpf(deviation) ** 2)]],
        }  # fmt: skip
        truth = {k: np.array(v, dtype=np.longdouble) for k, v in truth.items()}
    width = limits[1] - limits[0]
    steep = max(1.0, 1 / width, *(abs(x) for x in limits if np.isfinite(x)))
    sizes = dict.fromkeys(("lower", "upper", "mean"), np.full(1, steep / deviation))
    sizes["cov"] = np.full((1, 1), steep**2)
    check(derivatives(*given, L), truth, 1e-11, sizes, 1e-18)


def box_of_two(lower, upper, rho):
    """Derivatives for two coordinates from their densities."""
    noise = mpmath.sqrt((1 - rho) * (1 + rho))

    def inside(x, j):
        """Pr(coordinate j inside | the other at x)."""
        return exact.ndtr((upper[j] - rho * x) / noise) - exact.ndtr((lower[j] - rho * x) / noise)

    prob = mpf(0)
    for s, t in itertools.product(range(2), repeat=2):
        corner = (upper if s else lower)[0], (upper if t else lower)[1]
        if all(x > -mpmath.inf for x in corner):
            prob += (1 if s == t else -1) * exact.bivariate_prob(*corner, rho)
    one = [[mpf(0)] * 2 for _ in range(2)]
    two = [[mpf(0)] * 2 for _ in range(2)]
    for s, limits in enumerate((lower, upper)):
        for i, x in enumerate(limits):
            if mpmath.isfinite(x):
                one[s][i] = mpmath.npdf(x) * inside(x, 1 - i) / prob
                ends = [mpmath.npdf((a[1 - i] - rho * x) / noise) for a in (lower, upper)]
                change = -x * one[s][i] - mpmath.npdf(x) * rho * (ends[1] - ends[0]) / noise / prob
                two[i][i] += (1 if s else -1) * change / 2
    for s, t in itertools.product(range(2), repeat=2):
        x, y = (upper if s else lower)[0], (upper if t else lower)[1]
        if mpmath.isfinite(x) and mpmath.isfinite(y):
            joint = mpmath.npdf(x) * mpmath.npdf((y - rho * x) / noise) / noise / prob
            two[0][1] += (1 if s == t else -1) * joint / 2
    two[1][0] = two[0][1]
    mean = [one[0][i] - one[1][i] for i in range(2)]
    truth = {"lower": [-p for p in one[0]], "upper": one[1], "mean": mean, "cov": two}
    return {k: np.array(v, dtype=np.longdouble) for k, v in truth.items()}


@pytest.mark.parametrize(
    ("lower", "upper", "rho"),
    [
        ((-INF, -INF), (0.3, -0.7), 0.6),
        ((-INF, -INF), (-20.0, -25.0), 0.6),
        ((-INF, -INF), (-9.0, 8.0), -0.99),
        ((-1.0, -0.5), (1.0, 2.0), -0.5),
        ((2.0, -INF), (2.5, 0.0), 0.9),
        ((0.0, 1.0), (INF, INF), 0.0),
    ],
)
def test_two(lower, upper, rho):
    with mpmath.workdps(40):
        mp_lower, mp_upper = ([mpf(x) for x in a] for a in (lower, upper))
        truth = box_of_two(mp_lower, mp_upper, mpf(rho))
    L = factor([rho])
    found = derivatives(lower, upper, L)
    check(found, truth, 1e-10)
    values, errors = found
    assert (np.abs(values["factor"] - 2 * truth["cov"] @ L) <= errors["factor"]).all()


@pytest.mark.parametrize(
    ("upper", "rho"),
    [((-3.0, -2.0, -4.0), (0.5, 0.6)), ((1.0, -3.0, 2.0), (0.9, -0.4)), ((0.0,) * 3, (0.3, 0.8))],
)
def test_three(upper, rho):
    with mpmath.workdps(40):
        b, r = [mpf(x) for x in upper], [mpf(x) for x in rho]
        corr = [[1, r[0], r[0] * r[1]], [r[0], 1, r[1]], [r[0] * r[1], r[1], 1]]
        prob = exact.trivariate_prob(b, corr)
        one, two = [mpf(0)] * 3, [[mpf(0)] * 3 for _ in range(3)]
        for i, j, k in ((0, 1, 2), (0, 2, 1), (1, 2, 0), (1, 0, 2), (2, 0, 1)):
            to_j, to_k, between = corr[i][j], corr[i][k], corr[j][k]
            noise = mpmath.sqrt(1 - to_j**2), mpmath.sqrt(1 - to_k**2)
            h, g = (b[j] - to_j * b[i]) / noise[0], (b[k] - to_k * b[i]) / noise[1]
            partial = (between - to_j * to_k) / (noise[0] * noise[1])
            density = mpmath.npdf(b[i]) / prob
            one[i] = density * exact.bivariate_prob(h, g, partial)
            last = exact.ndtr((g - partial * h) / mpmath.sqrt(1 - partial**2))
            two[i][j] = two[j][i] = density * mpmath.npdf(h) / noise[0] * last / 2
        for i in range(3):
            others = sum(two[i][j] * corr[i][j] for j in range(3) if j != i)
            two[i][i] = -(b[i] * one[i] + 2 * others) / 2
        truth = {"lower": [0] * 3, "upper": one, "mean": [-p for p in one], "cov": two}
        truth = {k: np.array(v, dtype=np.longdouble) for k, v in truth.items()}
    check(derivatives(-INF, upper, factor(rho)), truth, 1e-11)


# Extended precision


def extended(low, high, corr):
    return extended_logprob(low, high, np.diag(corr, 1))


def test_errors_are_honest():
    outside, claimed = 0, []
    for seed in range(30):
        lower, upper, rho = random_chain(np.random.default_rng(seed))
        truth, sizes = derivatives_by_densities(lower, upper, correlations(rho), extended)
        values, errors = derivatives(lower, upper, factor(rho))
        for name, true in truth.items():
            own = 1e-16 * (1 + np.max(np.abs(lower[np.isfinite(lower)]), initial=0)) * sizes[name]
            outside += bool((np.abs(values[name] - true) > errors[name] + own).any())
            claimed.append(np.max(errors[name]) / max(float(np.max(sizes[name])), 1e-8))
    assert outside == 0
    assert np.median(claimed) < 1e-12
    assert np.max(claimed) < 1e-8


def test_permuted_and_in_other_units():
    """Rounded covariances in any order: errors count what that does."""
    for seed in range(5, 12):
        rng = np.random.default_rng(seed)
        lower, upper, rho = random_chain(rng)
        d = len(lower)
        truth, sizes = derivatives_by_densities(lower, upper, correlations(rho), extended)
        units, order = np.exp(rng.normal(size=d)), rng.permutation(d)
        outer = np.outer(units, units)
        cov = (correlations(rho) * outer).astype(float)[np.ix_(order, order)]
        L, singular = np.linalg.cholesky(cov), np.sqrt(8 * d * EPS)
        found = derivatives((lower * units)[order], (upper * units)[order], L, ALL, singular)
        values, errors = found
        for name in ("lower", "upper", "mean"):
            true, size = ((a[name] / units)[order] for a in (truth, sizes))
            assert (np.abs(values[name] - true) <= errors[name] + 1e-15 * size).all(), (seed, name)
        G, size = ((a["cov"] / outer)[np.ix_(order, order)] for a in (truth, sizes))
        assert (np.abs(values["cov"] - G) <= errors["cov"] + 1e-15 * size).all(), seed
        own = 2e-15 * size @ np.abs(L)
        assert (np.abs(values["factor"] - 2 * G @ L) <= errors["factor"] + own).all(), seed


# Differences and identities


def difference(f, h):
    """Central difference of fourth order."""
    return (8 * (f(h) - f(-h)) - (f(2 * h) - f(-2 * h))) / (12 * h)


@pytest.mark.parametrize("rho", [0.9, -0.5])
@pytest.mark.parametrize("limits", [(0.0, INF), (-1.0, 1.0), (-INF, -6.0)])
def test_fifty(rho, limits):
    d, L = 50, factor(np.full(49, rho))
    rng = np.random.default_rng(1)
    lower, upper = (np.full(d, x) + 0.1 * rng.normal(size=d) for x in limits)
    values, errors = derivatives(lower, upper, L)
    assert (np.abs(values["mean"] + values["lower"] + values["upper"]) <= errors["mean"]).all()
    for k in (0, 1, 24, 49):
        unit = np.eye(d)[k]
        for name in ("lower", "upper", "mean"):
            below, above = (unit * (name in (side, "mean")) for side in ("lower", "upper"))

            def moved(h, below=below, above=above, sign=-1 if name == "mean" else 1):
                return log_prob(lower + sign * h * below, upper + sign * h * above, L)

            expected = difference(moved, 2e-3) if np.isfinite(moved(0.0)) else 0.0
            assert values[name][k] == pytest.approx(expected, rel=1e-9, abs=1e-9), (k, name)
    # Chains that stay chains: other correlations, other units.
    for k in (0, 20, 48):
        rho_k = np.eye(49)[k]

        def correlated(h, rho_k=rho_k):
            return factor(np.full(49, rho) + h * rho_k)

        def scaled(h, k=k):
            return np.exp(h * np.eye(d)[k])[:, None] * L

        for path in (correlated, scaled):
            expected = difference(lambda h, path=path: log_prob(lower, upper, path(h)), 1e-3)
            step = difference(path, 1e-3)
            assert np.sum(values["factor"] * step) == pytest.approx(expected, rel=1e-8, abs=1e-8)
            moved = difference(lambda h, path=path: path(h) @ path(h).T, 1e-3)
            assert np.sum(values["cov"] * moved) == pytest.approx(expected, rel=1e-8, abs=1e-8)


def test_second_differences_in_the_mean():
    """Plackett: twice the derivative in a covariance is the second one of P in two means."""
    rho = np.array([0.7, -0.6, 0.95, 0.3, 0.8])
    lower = np.array([-1.0, -INF, 0.2, -INF, -2.0, 0.0])
    upper = np.array([0.5, 1.0, INF, INF, 1.0, 0.8])
    L = factor(rho)
    values, errors = derivatives(lower, upper, L)
    base = log_prob(lower, upper, L)

    def ratio(mean):
        return np.exp(log_prob(lower - mean, upper - mean, L) - base)

    unit = np.eye(6)
    for i, j in itertools.combinations_with_replacement(range(6), 2):
        second = difference(
            lambda g, i=i, j=j: difference(lambda h: ratio(g * unit[i] + h * unit[j]), 5e-3), 5e-3
        )
        assert values["cov"][i, j] == pytest.approx(0.5 * second, rel=1e-6, abs=1e-7)
    # There is nothing to move without limits, and that is certain.
    assert not values["cov"][3].any()
    assert not errors["cov"][3].any()
    assert not values["mean"][3].any()
    assert not errors["mean"][3].any()


def own_logprob(low, high, corr):
    return log_prob(low, high, np.linalg.cholesky(corr))


@pytest.mark.parametrize("level", [12.0, 30.0, 300.0])
def test_deep_tails(level):
    """Densities are probabilities of chains in which limits are points."""
    rho = np.array([0.8, -0.5, 0.9, 0.3])
    lower = level * np.array([1.0, 0.9, -INF, -1.2, -INF])
    upper = level * np.array([INF, 0.95, -0.5, -1.1, -1.0])
    truth, sizes = derivatives_by_densities(
        lower, upper, correlations(rho).astype(float), own_logprob
    )
    found = derivatives(lower, upper, factor(rho))
    assert log_prob(lower, upper, factor(rho)) < -1.05 * level**2
    check(found, truth, 3e-14 * level**2, sizes, 2e-15 * level**2)


def test_far_apart():
    """What settles along a chain is right on both sides of where it does."""
    d, rho = 120, 0.6
    L, lower, upper = factor(np.full(d - 1, rho)), np.zeros(d), np.full(d, 1.5)
    values, errors = derivatives(lower, upper, L)
    cov = L @ L.T
    for j in (11, 14, 30, 50, 70, 110):
        truth = 0.0
        for x, y in itertools.product((0.0, 1.5), repeat=2):
            inside, given = np.setdiff1d(np.arange(d), (10, j)), np.array([10, j])
            gain = np.linalg.solve(cov[np.ix_(given, given)], cov[given]).T
            mean, left = gain @ [x, y], cov - gain @ cov[given]
            log_p = log_prob(
                (lower - mean)[inside], (upper - mean)[inside],
                np.linalg.cholesky(left[np.ix_(inside, inside)]),
            )  # fmt: skip
            far = rho ** (j - 10)
            log_p -= (x * x - 2 * far * x * y + y * y) / (2 * (1 - far**2))
            log_p -= np.log(2 * np.pi * np.sqrt(1 - far**2)) + log_prob(lower, upper, L)
            truth += (1 if x == y else -1) * np.exp(log_p) / 2
        assert abs(values["cov"][10, j] - truth) <= errors["cov"][10, j] + 3e-13
        assert errors["cov"][10, j] < 1e-11


def test_narrow_intervals():
    """Densities at limits that are close cancel in the mean, which is E[Q x] and loses nothing."""
    rho = np.array([0.5, -0.7, 0.4])
    centre, half = np.array([1.0, 0.5, -0.25, 2.0]), 2.0**-20
    L = factor(rho)
    values, errors = derivatives(centre - half, centre + half, L)
    inverse = np.linalg.inv(L)
    Q = inverse.T @ inverse
    pull = Q @ centre
    assert np.abs(values["mean"] - pull).max() < 20 * half**2 + 1e-13
    assert errors["mean"].max() < 1e-11
    assert np.abs(values["upper"] * 2 * half - 1).max() < 1e-4
    assert (
        np.abs(np.diag(values["cov"]) - 0.5 * (pull**2 - np.diag(Q))).max()
        < np.diag(errors["cov"]).max() + 1e-9
    )


# What belongs to the interface


def test_values_stay_as_they_are_and_batches_do_not_matter():
    rng = np.random.default_rng(4)
    L = np.stack([factor(rng.uniform(-0.9, 0.9, 5)) for _ in range(7)])
    L[3] = np.linalg.cholesky(np.eye(6) + np.outer(np.arange(6), np.arange(6)))  # no chain
    lower = rng.normal(size=(7, 6)) - 1
    upper = np.where(rng.random((7, 6)) < 0.5, lower + 2, INF)
    lower[5], upper[5] = -INF, INF
    batch = boxes(lower, upper, L, singular=0.0)
    plain, full = solve(batch), solve(batch, ALL)
    assert plain.derivatives is None
    for name in ("log_prob", "rel_error", "n"):
        np.testing.assert_array_equal(getattr(plain, name), getattr(full, name))
    known = {k: np.isfinite(a).reshape(7, -1) for k, a in full.derivatives.error.items()}
    for name in ALL:
        np.testing.assert_array_equal(known[name].all(axis=1), np.arange(7) != 3)
        assert not known[name][3].any()
        assert not full.derivatives.value[name][3].any()
        assert not full.derivatives.value[name][5].any()  # without limits
        assert not full.derivatives.error[name][5].any()
        only = solve(batch, (name,)).derivatives
        assert list(only.value) == [name]
        np.testing.assert_array_equal(only.value[name], full.derivatives.value[name])
        np.testing.assert_array_equal(only.error[name], full.derivatives.error[name])
    before = mvnorth.get_num_threads()
    try:
        for threads in (1, 2):
            mvnorth.set_num_threads(threads)
            many = solve(batch.take(np.tile(np.arange(7), 40)), ALL).derivatives
            for name in ALL:
                for b in range(7):
                    np.testing.assert_array_equal(
                        many.value[name][b::7][9], full.derivatives.value[name][b]
                    )
                    np.testing.assert_array_equal(
                        many.error[name][b::7][9], full.derivatives.error[name][b]
                    )
    finally:
        mvnorth.set_num_threads(before)


def test_one_factor_for_all_rows():
    L = factor([0.6, -0.3])
    lower = np.array([[0.0, -1.0, -INF], [1.0, 2.0, 3.0]])
    shared = boxes(lower, lower + 3, L, singular=0.0)
    both = solve(shared, ALL).derivatives
    for b in range(2):
        alone = solve(shared.take([b]), ALL).derivatives
        for name in ALL:
            np.testing.assert_array_equal(alone.value[name][0], both.value[name][b])
