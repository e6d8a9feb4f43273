"""Point sets: properties of the lattice, and that the kernels integrate over these points."""

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

import mvnorth
from mvnorth import qmc

TABLE_SIZE = 1024


@pytest.mark.parametrize("d", [1, 2, 10, TABLE_SIZE - 1, TABLE_SIZE, TABLE_SIZE + 1, 3000])
def test_lattice_vector(d):
    z = qmc.lattice_vector(d)
    assert z.shape == (d,)
    assert np.issubdtype(z.dtype, np.integer)
    assert (z % 2 == 1).all()
    assert z.min() >= 1
    assert z.max() < 2**qmc.MAX_LEVEL
    assert (z == qmc.lattice_vector(3000)[:d]).all()


def test_coordinates_differ():
    """Equal entries, or entries that add up to 2**level, would tie two coordinates together."""
    z = qmc.lattice_vector(TABLE_SIZE)
    assert np.unique(np.minimum(z, 2**qmc.MAX_LEVEL - z)).size == TABLE_SIZE


def test_writing_into_the_vector_does_not_change_the_table():
    one, other = qmc.lattice_vector(5), qmc.lattice_vector(5)
    assert not one.flags.writeable or not np.shares_memory(one, other)


@pytest.mark.parametrize("d", [1, 3, 50, 1500])
@pytest.mark.parametrize("n", [1, 2, 64, 512])
def test_points_are_inside_the_cube(n, d):
    x = qmc.points(n, d)
    assert x.shape == (n, d)
    assert x.dtype == np.float64
    assert (x > 0.0).all()
    assert (x < 1.0).all()


def test_points_are_the_shifted_lattice_under_the_tent():
    n, d, seed = 64, 7, 5
    z, shift = qmc.lattice_vector(d), qmc.random_shifts(seed, 1, d)[0]
    for k in (0, 1, 17, 63):
        for j in range(d):
            exact = (k * int(z[j])) % n / n + shift[j]
            tent = 1.0 - abs(2.0 * (exact % 1.0) - 1.0)
            assert qmc.points(n, d, seed)[k, j] == pytest.approx(tent, abs=1e-9)


def test_doubling_keeps_all_points():
    for n in (1, 2, 64, 4096):
        assert np.abs(qmc.points(2 * n, 30)[::2] - qmc.points(n, 30)).max() <= 1e-9


@pytest.mark.parametrize("d", [1, 40, 1100])
def test_each_coordinate_is_evenly_spread(d):
    """One coordinate of a lattice with odd z is a regular grid, so its tent is one too."""
    n = 256
    x = np.sort(qmc.points(n, d), axis=0)
    grid = (np.arange(n)[:, None] + 0.5) / n
    assert np.abs(x - grid).max() <= 1.0 / n


def test_points_do_better_than_random_ones():
    """A smooth function of ten coordinates of decreasing importance, with mean 1."""
    weights = 0.9 ** np.arange(10)
    errors = []
    for seed in range(8):
        x = qmc.points(4096, 10, seed)
        errors.append(np.mean(np.prod(1.0 + weights * (x - 0.5), axis=1)) - 1.0)
    random = np.random.default_rng(0).random((8, 4096, 10))
    random_errors = np.mean(np.prod(1.0 + weights * (random - 0.5), axis=2), axis=1) - 1.0
    assert np.std(errors) < 0.05 * np.std(random_errors)


def test_shifts():
    shifts = qmc.random_shifts(3, 8, 20)
    assert shifts.shape == (8, 20)
    assert (shifts >= 0.0).all()
    assert (shifts < 1.0).all()
    assert (qmc.random_shifts(3, 8, 20) == shifts).all()
    assert (qmc.random_shifts(3, 5, 20) == shifts[:5]).all()
    assert np.unique(shifts).size == shifts.size
    assert not np.isin(qmc.random_shifts(4, 8, 20), shifts).any()


def test_points_depend_on_the_seed():
    assert (qmc.points(16, 3, seed=1) == qmc.points(16, 3, seed=1)).all()
    assert (qmc.points(16, 3, seed=1) != qmc.points(16, 3, seed=2)).all()


# ---------------------------------------------------------------- what the kernels integrate


def _shifted_points(level, replicates, d, seed):
    """(replicates * 2**level, d): the points of all shifts, from the definition."""
    n = 2**level
    lattice = np.arange(n)[:, None] * qmc.lattice_vector(d) % n / n
    x = (lattice + qmc.random_shifts(seed, replicates, d)[:, None, :]) % 1.0
    return (1.0 - np.abs(2.0 * x - 1.0)).reshape(-1, d)


def _genz_weights(lower, upper, L, u):
    """Genz (1992) for a factor whose rows are already in order; numpy and scipy only."""
    y = np.zeros_like(u)
    weight = np.ones(len(u))
    for i in range(L.shape[0]):
        shift = y[:, :i] @ L[i, :i]
        a, b = (lower[i] - shift) / L[i, i], (upper[i] - shift) / L[i, i]
        flip = np.where(a + b > 0.0, -1.0, 1.0)  # work in the smaller tail
        a, b = np.where(flip > 0.0, a, -b), np.where(flip > 0.0, b, -a)
        width = ndtr(b) - ndtr(a)
        weight *= width
        y[:, i] = flip * ndtri(ndtr(a) + u[:, i] * width)
    return weight


# Marginal probabilities grow so fast that reordering leaves these rows where they are.
ORDERED_FACTOR = np.linalg.cholesky(
    [[1.0, 0.3, -0.2, 0.1], [0.3, 1.0, 0.4, 0.2], [-0.2, 0.4, 1.0, 0.3], [0.1, 0.2, 0.3, 1.0]]
)
ORDERED_LIMITS = np.array([-2.0, -1.5, 0.2, 2.5])


def test_points_are_those_of_the_first_shift():
    for seed in (0, 9):
        assert np.abs(qmc.points(32, 4, seed) - _shifted_points(5, 1, 4, seed)).max() <= 1e-9


@pytest.mark.parametrize("seed", [0, 12])
@pytest.mark.parametrize(
    ("n", "replicates", "level"),
    [(1, 1, 0), (5, 5, 0), (8, 8, 0), (1024, 8, 7), (1000, 15, 6), (4096, 8, 9), (60000, 14, 12)],
)
def test_kernels_integrate_over_these_points(n, replicates, level, seed):
    u = _shifted_points(level, replicates, 4, seed)
    lower = np.full(4, -np.inf)
    expected = np.mean(_genz_weights(lower, ORDERED_LIMITS, ORDERED_FACTOR, u))
    result = mvnorth.orthant(ORDERED_LIMITS, ORDERED_FACTOR, n, method="genz", seed=seed)
    assert result.n == len(u)
    assert result.prob == pytest.approx(expected, rel=1e-10, abs=0.0)


def test_kernels_integrate_boxes_over_these_points():
    u = _shifted_points(7, 8, 4, 3)
    lower, upper = ORDERED_LIMITS - np.array([0.4, 0.8, 1.3, 4.0]), ORDERED_LIMITS
    expected = np.mean(_genz_weights(lower, upper, ORDERED_FACTOR, u))
    cov = ORDERED_FACTOR @ ORDERED_FACTOR.T
    result = mvnorth.box(lower, upper, 0.0, cov, 1024, method="genz", seed=3)
    assert result.prob == pytest.approx(expected, rel=1e-10, abs=0.0)


def test_error_is_no_less_than_the_spread_over_shifts_says():
    """Student's 99 % quantile with 7 degrees of freedom is 3.4995."""
    lower = np.full(4, -np.inf)
    for seed in range(5):
        u = _shifted_points(7, 8, 4, seed)
        weights = _genz_weights(lower, ORDERED_LIMITS, ORDERED_FACTOR, u).reshape(8, -1)
        bound = 3.4995 * np.std(weights.mean(axis=1), ddof=1) / np.sqrt(8)
        result = mvnorth.orthant(ORDERED_LIMITS, ORDERED_FACTOR, 1024, method="genz", seed=seed)
        assert result.error >= bound


@pytest.mark.parametrize("rtol", [1e-2, 1e-4, 4e-6])
def test_adding_points_reuses_the_lattice(rtol):
    """The path of doublings ends, but for rounding, at the estimate of all points at once."""
    grown = mvnorth.orthant(ORDERED_LIMITS, ORDERED_FACTOR, method="genz", rtol=rtol)
    at_once = mvnorth.orthant(ORDERED_LIMITS, ORDERED_FACTOR, grown.n, method="genz")
    assert at_once.n == grown.n
    assert at_once.prob == pytest.approx(grown.prob, rel=1e-13, abs=0.0)
    assert at_once.rel_error == pytest.approx(grown.rel_error, rel=1e-6, abs=0.0)
    u = _shifted_points(int(np.log2(grown.n // 8)), 8, 4, 0)
    weights = _genz_weights(np.full(4, -np.inf), ORDERED_LIMITS, ORDERED_FACTOR, u)
    assert grown.prob == pytest.approx(np.mean(weights), rel=1e-10, abs=0.0)
    assert grown.n > 2**16 or rtol > 1e-5


def test_more_coordinates_than_the_table_has():
    """One common part of correlation 0.05: an integral over it, for 1100 coordinates."""
    d, rho, level = TABLE_SIZE + 76, 0.05, 3.0
    grid = np.linspace(-9.0, 9.0, 20_001)
    density = np.exp(-0.5 * grid**2) / np.sqrt(2.0 * np.pi)
    inner = ndtr((level - np.sqrt(rho) * grid) / np.sqrt(1.0 - rho)) ** d
    expected = np.trapezoid(inner * density, grid)
    cov = rho + (1.0 - rho) * np.eye(d)
    result = mvnorth.orthant(np.full(d, level), np.linalg.cholesky(cov), 512)
    assert result.prob == pytest.approx(expected, abs=result.error)
    assert result.rel_error < 0.2
