"""Draws between limits: their distribution, the acceptance, and what is refused."""

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import cumulative_simpson
from scipy.special import ndtr

import mvnorth
from mvnorth import OneFactor, sample_box, sample_orthant
from mvnorth._compile import for_python
from mvnorth._cpu.factor_draws import KNOTS, _log_density, set_knots
from mvnorth._methods import rejection

INF = np.inf


@pytest.fixture
def dense_only(monkeypatch):
    """Tilted proposals, whatever structure the covariance has."""
    monkeypatch.setattr(rejection, "one_factor_problems", lambda problems: (None, None))


def _random_correlation(rng, d, columns=None):
    G = rng.normal(size=(d, columns or 2 * d))
    G /= np.linalg.norm(G, axis=1)[:, None]
    return G @ G.T


def _deviations(draws, mean, cov):
    """Errors of the sample's mean and covariance, in standard errors."""
    centred = draws - mean
    products = centred[:, :, None] * centred[:, None, :]
    root = np.sqrt(len(draws))
    first = centred.mean(axis=0) / (draws.std(axis=0) / root)
    return first, (products.mean(axis=0) - cov) / (products.std(axis=0) / root)


def _one_factor_moments(m, factor):
    """Mean and covariance given t >= 0, from the derivatives of log P (Tallis 1961)."""
    sigma = factor.dense()
    gradient = mvnorth.orthant_grad(m, factor, log=True).grad_m
    hessian = mvnorth.orthant_hessian(m, factor, log=True)
    return m + sigma @ gradient, sigma + sigma @ hessian @ sigma


ONE_FACTOR = [
    (np.array([0.3, -0.5, 1.0]), OneFactor([1.0, 0.5, 2.0], [1.0, 1.0, -1.0])),
    (np.full(8, -1.0), OneFactor.exchangeable(8, 0.5)),
    (np.linspace(-12.0, -8.0, 5), OneFactor([1.0, 2.0, 0.5, 0.2, 1.0], [0.5, 1.0, -0.3, 2.0, 0.0])),
    (np.linspace(2.0, 0.1, 6), OneFactor(1e-4, [1.0, 0.9, 1.1, 1.2, -0.5, -0.7])),
]


@pytest.mark.parametrize(("m", "factor"), ONE_FACTOR)
def test_moments_with_one_factor(m, factor):
    sample = sample_orthant(m, factor, 100_000)
    assert (sample.draws >= 0.0).all()
    assert sample.acceptance > 0.9
    first, second = _deviations(sample.draws, *_one_factor_moments(m, factor))
    assert np.max(np.abs(first)) < 4.0
    assert np.max(np.abs(second)) < 4.5


@pytest.mark.parametrize(("m", "factor"), ONE_FACTOR[:3])
@pytest.mark.usefixtures("dense_only")
def test_moments_of_tilted_proposals(m, factor):
    L = np.linalg.cholesky(factor.dense())
    sample = sample_orthant(m, L, 100_000, seed=1)
    assert (sample.draws >= 0.0).all()
    first, second = _deviations(sample.draws, *_one_factor_moments(m, factor))
    assert np.max(np.abs(first)) < 4.0
    assert np.max(np.abs(second)) < 4.5


@pytest.mark.parametrize("shift", [0.5, -2.0, -6.0])
def test_moments_of_a_dense_covariance(shift):
    # No one factor has these signs; three coordinates have a closed form to differentiate.
    sigma = np.array([[1.0, 0.5, 0.4], [0.5, 2.0, -0.3], [0.4, -0.3, 0.7]])
    L, m, h = np.linalg.cholesky(sigma), np.array([0.0, 0.5, -0.5]) + shift, 1e-4
    moves = h * np.eye(3)
    log_p = mvnorth.orthant_logprob(np.concatenate([m + moves, m - moves]), L, method="closed_form")
    mean = m + sigma @ (log_p[:3] - log_p[3:]) / (2 * h)
    draws = sample_orthant(m, L, 100_000).draws
    assert np.max(np.abs((draws.mean(axis=0) - mean) / draws.std(axis=0))) < 4 / np.sqrt(100_000)


@pytest.mark.parametrize(
    ("lower", "upper"), [(-1.0, 2.0), (3.0, INF), (-INF, -9.0), (40.0, 40.02), (-0.5, INF)]
)
def test_one_coordinate(lower, upper):
    draws = sample_box(lower, upper, 1.0, [[4.0]], 20_000).draws[:, 0]
    truth = stats.truncnorm((lower - 1.0) / 2.0, (upper - 1.0) / 2.0, loc=1.0, scale=2.0)
    assert stats.kstest(draws, truth.cdf).pvalue > 1e-3


def test_independent_coordinates():
    m = np.array([0.5, -3.0, -20.0])
    draws = sample_orthant(m, np.diag([1.0, 2.0, 0.5]), 20_000).draws
    for x, mean, deviation in zip(draws.T, m, (1.0, 2.0, 0.5), strict=True):
        truth = stats.truncnorm(-mean / deviation, INF, loc=mean, scale=deviation)
        assert stats.kstest(x, truth.cdf).pvalue > 1e-3
    correlations = np.corrcoef(draws.T)[np.triu_indices(3, 1)]
    assert np.max(np.abs(correlations)) < 4 / np.sqrt(20_000)


def _marginal_of_two(draws, m, rho):
    """p-value of the first of two coordinates >= 0 with unit variances."""
    t = np.linspace(0.0, 12.0, 20_001)
    density = stats.norm.pdf(t - m[0])
    density *= ndtr((m[1] + rho * (t - m[0])) / np.sqrt(1 - rho**2))
    cdf = cumulative_simpson(density, x=t, initial=0.0)
    return stats.kstest(draws, lambda x: np.interp(x, t, cdf / cdf[-1])).pvalue


@pytest.mark.parametrize(("m", "rho"), [([0.0, 0.0], -0.9), ([-2.0, 1.0], 0.8), ([1.0, -4.0], 0.3)])
def test_marginal_of_two_coordinates(m, rho, request):
    L = np.linalg.cholesky([[1.0, rho], [rho, 1.0]])
    assert _marginal_of_two(sample_orthant(m, L, 20_000).draws[:, 0], m, rho) > 1e-3
    request.getfixturevalue("dense_only")
    assert _marginal_of_two(sample_orthant(m, L, 20_000).draws[:, 0], m, rho) > 1e-3


BOXES = [
    ([-1.0, -INF, 0.2], [0.5, 0.3, INF], 3),  # between, below, above
    ([-1.0, -INF, -INF], [0.5, INF, 0.0], 3),  # a coordinate without limits
    ([-1.0, -INF, -0.5], [0.5, 0.3, INF], 2),  # singular
]


@pytest.mark.parametrize(("lower", "upper", "rank"), BOXES)
def test_boxes_against_plain_rejection(lower, upper, rank):
    rng = np.random.default_rng(3)
    G = np.array([[1.0, 0.2, 0.3], [0.7, -0.6, 0.1], [-0.3, 0.9, 0.8]])[:, :rank]
    mean = np.array([0.1, -0.2, 0.3])
    plain = mean + rng.normal(size=(100_000, rank)) @ G.T
    plain = plain[((plain >= lower) & (plain <= upper)).all(axis=1)]
    draws = sample_box(lower, upper, mean, G @ G.T, len(plain)).draws
    assert (draws >= lower).all()
    assert (draws <= upper).all()
    directions = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0], [1, -1, 1], [0, 1, 2]])
    for direction in directions:
        assert stats.ks_2samp(draws @ direction, plain @ direction).pvalue > 1e-3


@pytest.mark.usefixtures("dense_only")
def test_a_singular_covariance_keeps_its_relations():
    G = np.array([[1.0, 0.5], [-1.0, -0.5], [0.2, 1.0], [1.2, 1.5], [0.0, 0.0]])
    limits = ([-1.0, -INF, -0.5, -INF, 0.0], [2.0, 0.5, INF, 2.0, 0.0])
    draws = sample_box(*limits, 0.0, G @ G.T, 2000).draws
    assert np.allclose(draws[:, 1], -draws[:, 0], atol=1e-12)
    assert np.allclose(draws[:, 3], draws[:, 0] + draws[:, 2], atol=1e-12)
    assert (draws[:, 4] == 0.0).all()
    assert (draws >= limits[0]).all()
    assert (draws <= limits[1]).all()


def _acceptance_problems():
    rng = np.random.default_rng(8)
    for d, shift in ((5, 0.0), (20, -1.0), (20, -10.0), (40, 0.3)):
        yield np.full(d, shift), np.linalg.cholesky(_random_correlation(rng, d))
    yield np.full(15, -0.5), np.linalg.cholesky(np.eye(15) - 0.06)
    yield np.full(30, -10.0), OneFactor.exchangeable(30, 0.7)


@pytest.mark.parametrize(("m", "L"), list(_acceptance_problems()))
def test_acceptance_is_the_probability_over_its_bound(m, L):
    sample = sample_orthant(m, L, 20_000)
    result = mvnorth.orthant(m, L, rtol=1e-3)
    expected = np.exp(result.log_prob - sample.log_bound)
    assert sample.log_bound >= result.log_prob - result.rel_error
    error = np.sqrt(expected * (1 - expected) / sample.proposals)
    assert abs(sample.acceptance - expected) < 4 * error + result.rel_error * expected


def test_no_weight_exceeds_its_bound(monkeypatch):
    sources = []

    class Recorded(rejection.TiltedProposals):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            sources.append(self)

    monkeypatch.setattr(rejection, "TiltedProposals", Recorded)
    rng = np.random.default_rng(2)
    for k in range(80):
        d = int(rng.integers(4, 25))
        cov = _random_correlation(rng, d, max(2, d // 2) if k % 4 == 0 else d + 2)
        mean = -np.abs(rng.normal(size=d)) * rng.choice([0.0, 1.0, 10.0, 1e3])
        upper = np.where(rng.random(d) < 0.5, INF, rng.exponential(size=d))
        try:
            sample_box(0.0, upper, mean, cov, 10, max_proposals=4096)
        except (mvnorth.AcceptanceError, ValueError):
            continue  # singular ones may be impossible
    largest = np.array([source.largest for source in sources])
    assert len(largest) > 70
    assert np.max(largest) < 1.0 + 1e-12
    assert np.max(largest) > 0.999  # and the bound is no larger than it must be


@pytest.mark.parametrize("steep", [0.1, 1.0, 100.0, 1e8])
def test_tangents_lie_above_the_density_of_the_factor(steep):
    log_density = for_python(_log_density)
    rng = np.random.default_rng(4)
    for _ in range(20):
        d = int(rng.integers(1, 12))
        lower, v = rng.normal(size=d) - 2.0, rng.normal(size=d)
        upper = np.where(rng.random(d) < 0.5, INF, lower + 4.0 + rng.exponential(size=d))
        lower[rng.random(d) < 0.3] = -INF
        scale = np.full(d, steep)
        knots, pieces = np.empty((3, KNOTS)), np.empty((3, KNOTS))
        count, log_bound, top = set_knots(lower, upper, scale, v, knots, pieces)
        where, value, slope = knots[:, :count]
        assert np.isfinite(log_bound)
        seen = 0
        for z in rng.uniform(where[0], where[-1], size=200):
            density = log_density(lower, upper, scale, v, z)[0]
            k = np.searchsorted(pieces[1, : count - 1], z)  # the piece that draws use
            if density > top - 50.0:
                seen += 1
                assert density <= value[k] + slope[k] * (z - where[k]) + 1e-13 * (1 + abs(density))
        assert seen > 20


def test_blocks_are_drawn_apart():
    rng = np.random.default_rng(6)
    block = _random_correlation(rng, 30)
    cov = np.kron(np.eye(4), block)
    alone = sample_box(0.0, INF, 0.0, block, 1000)
    sample = sample_box(0.0, INF, 0.0, cov, 1000)
    assert sample.acceptance > 0.5 * alone.acceptance
    assert sample.log_bound == pytest.approx(4 * alone.log_bound)
    correlations = np.corrcoef(sample.draws[:, ::30].T)[np.triu_indices(4, 1)]
    assert np.max(np.abs(correlations)) < 4 / np.sqrt(1000)


def test_the_number_of_threads_changes_nothing():
    L = np.linalg.cholesky(_random_correlation(np.random.default_rng(7), 20))
    problems = [(np.zeros((2, 20)), L), (np.zeros(30), OneFactor.exact(31))]
    before = mvnorth.get_num_threads()
    try:
        found = []
        for threads in (1, 3):
            mvnorth.set_num_threads(threads)
            found.append([sample_orthant(m, cov, 20_000) for m, cov in problems])
    finally:
        mvnorth.set_num_threads(before)
    for one, other in zip(*found, strict=True):
        assert np.array_equal(one.draws, other.draws)
        assert np.array_equal(one.proposals, other.proposals)


def test_seeds_rows_and_sizes():
    L = np.linalg.cholesky(_random_correlation(np.random.default_rng(9), 6))
    sample = sample_orthant(np.zeros((2, 3, 6)), L, 5000)
    assert sample.draws.shape == (2, 3, 5000, 6)
    assert sample.acceptance.shape == sample.proposals.shape == sample.log_bound.shape == (2, 3)
    assert not np.array_equal(sample.draws[0, 0], sample.draws[0, 1])
    few = sample_orthant(np.zeros((2, 3, 6)), L, 10)
    assert np.array_equal(few.draws, sample.draws[:, :, :10])
    again = sample_orthant(np.zeros(6), L, 10)
    assert np.array_equal(again.draws, few.draws[0, 0])
    assert isinstance(again.acceptance, float)
    assert not np.array_equal(sample_orthant(np.zeros(6), L, 10, seed=1).draws, again.draws)
    assert np.asarray(again) is again.draws
    assert "10x6" in repr(again)
    assert sample_orthant(np.zeros((0, 6)), L, 10).draws.shape == (0, 10, 6)


def test_infinite_means_and_constants():
    sample = sample_orthant([INF, -1.0, 2.0], [[1, 0, 0], [0.5, 1, 0], [0, 0, 0]], 100)
    assert (sample.draws[:, 0] == INF).all()
    assert np.isfinite(sample.draws[:, 1]).all()
    assert (sample.draws[:, 2] == 2.0).all()


def test_a_hundred_thousand_coordinates():
    sample = sample_orthant(np.zeros(100_000), OneFactor.exchangeable(100_000, 0.5), 4)
    assert sample.draws.shape == (4, 100_000)
    assert (sample.draws >= 0.0).all()
    assert sample.acceptance > 0.9


def test_hopeless_draws_are_refused_soon():
    L = np.linalg.cholesky(_random_correlation(np.random.default_rng(1), 500, 600))
    with pytest.raises(mvnorth.AcceptanceError, match="max_proposals=4000000; ask for") as refused:
        sample_orthant(np.zeros(500), L, 1000)
    assert 0.0 < refused.value.acceptance < 1e-4
    with pytest.raises(mvnorth.AcceptanceError, match="max_proposals=2000"):
        sample_orthant(np.zeros(20), L[:20, :20], 10_000, max_proposals=2000)


def test_limits_that_contradict_each_other():
    limits = ([1.0, -INF, -INF], [INF, -1.0, 0.0])
    with pytest.raises(ValueError, match="a singular covariance leaves no values"):
        sample_box(*limits, 0.0, np.ones((3, 3)), 1000)
    v = np.array([1.1, 1.3, 1.7])  # singular but for rounding
    with pytest.raises(mvnorth.AcceptanceError, match="probability may be zero"):
        sample_box(*limits, 0.0, np.outer(v, v), 1000)
    with pytest.raises(ValueError, match="double precision"):
        sample_orthant([-1.0, -1.0], OneFactor(1e-20, [1.0, -1.0]), 10)


@pytest.mark.parametrize("limited", [1, 4])
def test_coordinates_without_limits_do_not_spoil_the_tilt(limited):
    k = np.arange(5)
    upper = np.where(k < limited, -25.0, INF)
    cov = 0.5 ** np.abs(k[:, None] - k)
    sample = sample_box(-INF, upper, 0.0, cov, 2000)
    assert sample.acceptance > 0.9
    expected = 0.5 * sample.draws[:, 3] if limited == 4 else 0.5**4 * sample.draws[:, 0]
    rest = sample.draws[:, 4] - expected  # given the coordinate before it, normal
    deviation = np.sqrt(1.0 - (0.25 if limited == 4 else 0.25**4))
    assert stats.kstest(rest / deviation, "norm").pvalue > 1e-3


@pytest.mark.parametrize("most", [1, 100, 1024, 1500])
@pytest.mark.parametrize("cov", ["dense", "one factor"])
def test_no_more_proposals_than_allowed(monkeypatch, cov, most):
    spent = []

    class Counted:
        def part(self, random, count):
            draws, shares = super().part(random, count)
            assert len(draws) <= count
            spent.append(count)
            return draws, shares

    for name in ("TiltedProposals", "FactorProposals"):
        counted = type(name, (Counted, getattr(rejection, name)), {})
        monkeypatch.setattr(rejection, name, counted)
    rng = np.random.default_rng(1)
    given = _random_correlation(rng, 6, 8) if cov == "dense" else OneFactor.exchangeable(6, 0.5)
    limits = (-4.0, INF, 0.0, given)
    sample = sample_box(*limits, 1, max_proposals=most)  # nearly all are accepted
    assert sample.proposals == sum(spent) == min(most, 1024)
    spent.clear()
    with pytest.raises(mvnorth.AcceptanceError, match=f"of {most} proposals were accepted"):
        sample_box(*limits, most + 1, max_proposals=most)
    assert sum(spent) == most


def test_a_limit_on_proposals_changes_no_draw():
    cov = _random_correlation(np.random.default_rng(1), 6, 8)
    free, limited = (
        sample_box(-1.0, INF, 0.0, cov, 50, max_proposals=most) for most in (None, 500)
    )
    assert np.array_equal(free.draws, limited.draws)


def test_wrong_arguments():
    for size in (0, -1):
        with pytest.raises(ValueError, match="size must be at least 1"):
            sample_orthant([0.0], [[1.0]], size)
    with pytest.raises(TypeError, match="size must be a whole number"):
        sample_orthant([0.0], [[1.0]], 1.5)
    with pytest.raises(ValueError, match="max_proposals must be at least 1"):
        sample_orthant([0.0], [[1.0]], 1, max_proposals=0)
    with pytest.raises(ValueError, match="seed"):
        sample_orthant([0.0], [[1.0]], 1, seed=-1)
    with pytest.raises(ValueError, match="probability is zero in row 1"):
        sample_orthant([[0.0], [-INF]], [[1.0]], 1)
    with pytest.raises(ValueError, match="probability is zero"):
        sample_orthant([-1.0], [[0.0]], 1)
    with pytest.raises(ValueError, match="probability is zero"):
        sample_box(1.0, 1.0, 0.0, [[1.0]], 1)
    with pytest.raises(ValueError, match="lower must not exceed upper"):
        sample_box(2.0, 1.0, 0.0, [[1.0]], 1)
    with pytest.raises(ValueError, match="within 1e\\+07 standard deviations"):
        sample_orthant([-1e8, 0.0], np.eye(2), 1)
