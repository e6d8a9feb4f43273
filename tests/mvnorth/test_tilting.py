"""Tilting against answers we did not compute with it: far in the tails, and its upper bound.

How often the true error lies inside the reported one is counted in ``test_honesty.py``.
"""

import json
import math
from dataclasses import replace

import mpmath
import numpy as np
import pytest

import mvnorth
from validation import problems as table
from validation.oracles import exact, minimax_tilting
from validation.problems import REFERENCE, problems, reference


def solve(problem, n=10**4, **options):
    return mvnorth.box(
        problem.lower, problem.upper, 0.0, problem.cov, n, method="tilting", **options
    )


def check(problem, largest, n=10**4, seeds=(0, 1, 2)):
    """Errors of some seeds: most inside the reported ones, all below ``largest``."""
    inside = []
    for seed in seeds:
        result = solve(problem, n, seed=seed)
        assert result.method == "tilting"
        assert np.isfinite(result.rel_error)
        assert result.log_prob <= result.log_bound + result.rel_error
        assert problem.log_prob <= result.log_bound + problem.log_error
        error = abs(math.expm1(problem.log_prob - result.log_prob))
        assert error <= largest + problem.log_error, (seed, error)
        inside.append(error <= result.rel_error + problem.log_error)
    assert sum(inside) >= len(inside) - 1


def shuffled(problem, seed):
    order = np.random.default_rng(seed).permutation(problem.upper.size)
    cov = problem.cov[np.ix_(order, order)]
    return replace(problem, lower=problem.lower[order], upper=problem.upper[order], cov=cov)


def uneven(d, level, seed, spread=0.7):
    """Limits (d,) around ``level``."""
    return np.random.default_rng(seed).normal(level, spread, d)


def below(upper):
    return np.full(upper.shape, -np.inf), upper


@pytest.mark.parametrize(
    ("name", "largest"),
    [
        ("d_tail_d20", 1e-3),
        ("bn_rand_d20", 1e-3),
        ("cn_ar1_d50", 1e-3),
        ("a_exch_d99", 3e-3),
        ("f_onefac_d50", 3e-3),
        ("bm_rand_d20", 1e-3),
        ("e_orth_d99", 1e-2),
    ],
)
def test_references(name, largest):
    check(reference(name), largest)


@pytest.mark.parametrize(
    ("name", "largest"),
    [("bn_rand_d100", 1e-3), pytest.param("bn_rand_d500", 2e-2, marks=pytest.mark.slow)],
)
def test_random_correlations(name, largest):
    """log P = -133 and -745, against the published algorithm."""
    problem = reference(name)
    results = [solve(problem, 10**5, seed=seed) for seed in range(4)]
    errors = np.array([math.expm1(result.log_prob - problem.log_prob) for result in results])
    assert np.sqrt(np.mean(errors**2)) <= largest + problem.log_error
    for error, result in zip(errors, results, strict=True):
        assert abs(error) <= result.rel_error + problem.log_error
        assert result.rel_error < 10 * largest
        assert problem.log_prob <= result.log_bound


# Known answers, as far out as they go.


@pytest.mark.parametrize("level", [-6.0, -20.0, -30.0])
@pytest.mark.parametrize(("d", "rho"), [(5, 0.5), (50, 0.9), (20, -0.6)])
def test_chains(d, rho, level):
    chain = table.markov(*below(uneven(d, level, d)), np.full(d - 1, rho))
    check(shuffled(chain, 1), 2e-3)


@pytest.mark.parametrize("level", [3.0, 12.0])
def test_boxes_of_chains(level):
    lower = uneven(20, level, 3)
    width = np.random.default_rng(4).uniform(0.05, 2.0, 20)
    check(shuffled(table.ar1(lower, lower + width, 0.7), 2), 1e-3)


@pytest.mark.parametrize("level", [-3.0, -12.0])
@pytest.mark.parametrize("box", [False, True])
@pytest.mark.parametrize("d", [4, 30])
def test_two_factors(d, box, level):
    rng = np.random.default_rng(d)
    c, v = rng.lognormal(0.0, 0.5, d), np.abs(rng.normal(0.0, 0.8, (d, 2)))
    upper = rng.normal(level, 0.5, d)
    lower = upper - rng.uniform(0.3, 3.0, d) if box else np.full(d, -np.inf)
    check(table.two_factor(lower, upper, c, v), 3e-3)


@pytest.mark.parametrize("level", [-4.0, -25.0])
def test_blocks(level):
    rng = np.random.default_rng(7)
    parts = [
        table.exchangeable(*below(rng.normal(level, 0.5, 6)), 0.6),
        table.ar1(*below(rng.normal(level, 0.5, 8)), 0.8),
        table.independent(*below(rng.normal(level, 0.5, 4))),
        table.ar1(np.full(5, 1.0 - level), np.full(5, 2.0 - level), 0.5),
    ]
    check(shuffled(table.block(*parts), 8), 2e-3)


@pytest.mark.parametrize("d", [1, 5, 60])
@pytest.mark.parametrize("level", [-30.0, -3.0, 1.0])
def test_products(d, level):
    """Independent coordinates have a weight that does not vary."""
    upper = uneven(d, level, d)
    lower = np.where(np.arange(d) % 2 == 0, upper - 1.0, -np.inf)
    problem = table.independent(lower, upper)
    result = solve(problem, 128)
    assert abs(result.log_prob - problem.log_prob) <= 1e-14 * (d + abs(problem.log_prob))
    assert result.log_bound == pytest.approx(problem.log_prob, rel=1e-12, abs=1e-12 * d)


def one_factor_references():
    for case in json.loads((REFERENCE / "one_factor.json").read_text()):
        tails = case["regime"] in ("tail", "dominant", "equal") and 2 <= case["d"] <= 1000
        if tails and float(case["log_prob"]) > -1e6:
            yield pytest.param(case, id=f"{case['regime']}-{case['d']}-{case['log_prob'][:6]}")


@pytest.mark.parametrize("case", list(one_factor_references()))
def test_one_factor(case):
    """As a structured covariance and as a matrix, against 40 digits."""
    m, c, v = (np.repeat(case[name], case["counts"]) for name in "mcv")
    expected = float(case["log_prob"])
    for L in (mvnorth.OneFactor(c, v), np.linalg.cholesky(np.diag(c) + np.outer(v, v))):
        if m.size > 100 and not isinstance(L, mvnorth.OneFactor):
            continue
        result = mvnorth.orthant(m, L, 10**4, method="tilting")
        error = abs(math.expm1(expected - result.log_prob))
        assert error <= result.rel_error + 1e-15 * abs(expected)
        assert error <= 2e-2
        assert expected <= result.log_bound * (1 - 1e-15)


# Covariances without an inverse, or almost.


@pytest.mark.parametrize("level", [-2.0, -15.0])
def test_repeated_coordinates(level):
    """Every coordinate twice, with two limits: the tighter one counts."""
    upper = np.random.default_rng(5).normal(level, 0.5, (2, 10))
    once = table.ar1(*below(upper.min(axis=0)), 0.7)
    cov = np.tile(once.cov, (2, 2))
    check(
        shuffled(replace(once, lower=np.full(20, -np.inf), upper=upper.ravel(), cov=cov), 6), 2e-3
    )


@pytest.mark.parametrize("level", [2.0, 9.0])
def test_boxes_as_orthants(level):
    """The limits of X and of -X: rank d/2."""
    rng = np.random.default_rng(9)
    lower = rng.normal(level, 0.3, 8)
    upper = lower + rng.uniform(0.5, 1.5, 8)
    once = table.exchangeable(lower, upper, 0.5)
    cov = np.block([[once.cov, -once.cov], [-once.cov, once.cov]])
    limits = np.concatenate([upper, -lower])
    check(shuffled(replace(once, lower=np.full(16, -np.inf), upper=limits, cov=cov), 1), 1e-2)


@pytest.mark.parametrize("level", [-1.0, -6.0])
@pytest.mark.parametrize("rho", [0.99, 0.9999])
def test_nearly_singular(rho, level):
    d = 12
    check(table.exchangeable(*below(uneven(d, level, 2, 0.3)), rho), 1e-2)
    check(shuffled(table.ar1(*below(uneven(d, level, 3, 0.05)), 0.99), 4), 1e-2)


# Limits b -> -infinity: two-sided bounds that close (Savage 1962).


def tail_bounds(t, cov):
    """Upper bound on log Pr(X >= t), and how far below it the lower bound is.

    Substitute x = t + y and put a = cov^-1 t > 0.  The integrand is exp(-a'y - y' cov^-1 y / 2):
    without the square it integrates to 1 / prod(a), and by Jensen's inequality the mean of the
    rest, over exponential y, is at least exp(-E(y' cov^-1 y) / 2), E(y_i y_j) = (1 + [i = j]) /
    (a_i a_j).  (Savage takes 1 - x for exp(-x).)
    """
    inverse = np.linalg.inv(cov)
    a = inverse @ t
    assert (a > 0).all()
    sign, log_det = np.linalg.slogdet(2 * np.pi * cov)
    assert sign > 0
    top = -t @ a / 2 - log_det / 2 - np.log(a).sum()
    return top, float(np.sum(inverse * (1 + np.eye(len(t))) / np.outer(a, a))) / 2


@pytest.mark.parametrize("level", [3.0, 9.0, 30.0])
def test_tail_bounds_themselves(level):
    top, gap = tail_bounds(np.array([level]), np.eye(1))
    with mpmath.workdps(30):
        assert top - gap <= float(exact.log_ndtr(-level)) <= top
    for rho in (-0.4, 0.3, 0.7):
        cov = np.array([[1.0, rho], [rho, 1.0]])
        top, gap = tail_bounds(np.array([level, 1.1 * level]), cov)
        with mpmath.workdps(30):
            log_prob = float(mpmath.log(exact.bivariate_prob(-level, -1.1 * level, rho)))
        assert top - gap <= log_prob <= top
        assert gap < 10 / level**2


@pytest.mark.parametrize("far", [20.0, 100.0, 300.0])
@pytest.mark.parametrize("d", [2, 5, 20])
def test_far_tails(d, far):
    """Random correlations, log P down to -1e6 and below."""
    rng = np.random.default_rng(d)
    A = rng.normal(size=(d, 2 * d))
    A /= np.linalg.norm(A, axis=1)[:, None]
    cov = A @ A.T
    t = cov @ rng.uniform(far, 2 * far, d)
    top, gap = tail_bounds(t, cov)
    assert gap < (0.5 if far < 50 else 0.02)
    assert top < -200
    result = mvnorth.box(t, np.inf, 0.0, cov, 10**4, method="tilting")
    rounding = 1e-14 * abs(top)
    assert result.rel_error < 1e-2
    assert top - gap - rounding - result.rel_error <= result.log_prob
    assert result.log_prob <= top + rounding + result.rel_error
    assert top - gap - rounding <= result.log_bound


# The upper bound.


def test_bound_where_limits_contradict_each_other():
    cov = np.array([[1.0001, -1.0], [-1.0, 1.0001]])
    t = np.array([200.0, 210.0])
    top, gap = tail_bounds(t, cov)
    result = mvnorth.box(t, np.inf, 0.0, cov, 64, method="tilting")
    assert top - gap - 0.01 <= result.log_bound  # log P = -4.2e8, known to rounding of cov


def test_bound_where_limits_are_nearly_tied():
    upper = np.random.default_rng(0).normal(-100.0, 1.0, 3)
    result = mvnorth.box(-np.inf, upper, 0.0, 1.0 + 1e-4 * np.eye(3), 64, method="tilting")
    assert -6000 < result.log_bound < -4000


@pytest.mark.parametrize("n", [8, 1000])
def test_bound_is_above_truth_and_samples(n):
    """Weights never exceed the bound of exponential tilting's; the mean of any others hardly."""
    for problem in problems():
        if problem.upper.size > 200:
            continue
        result = solve(problem, n)
        assert problem.log_prob <= result.log_bound + problem.log_error, problem.name
        assert result.log_bound <= 0.0
        rounding = 1e-14 * abs(result.log_bound)
        assert result.log_prob <= result.log_bound + rounding, problem.name


def small_problems():
    rng = np.random.default_rng(11)
    for d in (2, 3, 6, 12):
        A = rng.normal(size=(d, d + 1))
        cov = A @ A.T
        sd = np.sqrt(np.diag(cov))
        for level in (-4.0, 0.0, 1.0):
            upper = rng.normal(level, 1.0, d) * sd
            yield np.full(d, -np.inf), upper, cov
            lower = np.where(np.arange(d) % 3 == 1, -np.inf, upper - sd * rng.uniform(0.1, 2.0, d))
            yield lower, np.where(np.arange(d) % 3 == 2, np.inf, upper), cov


@pytest.mark.parametrize("limits", list(small_problems()))
def test_bound_solves_the_published_equations(limits):
    """Botev's 2(d - 1) equations, in his variables, by a solver of scipy's."""
    lower, upper, cov = limits
    saddle = minimax_tilting.saddle_point(minimax_tilting.order(lower, upper, cov))
    assert saddle.residual < 1e-9
    result = mvnorth.box(lower, upper, 0.0, cov, 64, method="tilting")
    assert result.log_bound == pytest.approx(saddle.log_bound, rel=1e-9, abs=1e-8)


@pytest.mark.parametrize("d", [3, 10, 40])
def test_bound_of_a_structured_covariance(d):
    """Its order is that of the marginal probabilities; limits in units of L_ii."""
    rng = np.random.default_rng(d)
    c, v = rng.lognormal(0.0, 0.5, d), rng.normal(size=d)
    m = rng.normal(-2.0, 2.0, d)
    cov = np.diag(c) + np.outer(v, v)
    structured = mvnorth.orthant(m, mvnorth.OneFactor(c, v), 1000, method="tilting")
    order = np.argsort(m / np.sqrt(np.diag(cov)))
    ordered = minimax_tilting.order(-np.inf, m[order], cov[np.ix_(order, order)], sort=False)
    saddle = minimax_tilting.saddle_point(ordered)
    assert structured.log_bound == pytest.approx(saddle.log_bound, rel=1e-9, abs=1e-8)
    dense = mvnorth.orthant(m, np.linalg.cholesky(cov), 1000, method="tilting")
    log_prob = table.one_factor(*below(m), c, v).log_prob
    assert log_prob <= min(dense.log_bound, structured.log_bound)


def test_other_methods_have_no_bound():
    L = np.linalg.cholesky(np.eye(6) + 1.0)
    assert mvnorth.orthant(np.zeros(6), L, 1000, method="genz").log_bound == 0.0


def test_bounds_of_blocks_add_up():
    cov = np.eye(4) + 1.0
    one = mvnorth.box(-np.inf, -1.0, 0.0, cov, 1000, method="tilting")
    both = np.kron(np.eye(2), cov)
    two = mvnorth.box(-np.inf, -1.0, 0.0, both, 1000, method="tilting")
    assert two.log_bound >= 2 * one.log_prob
    assert two.log_prob == pytest.approx(2 * one.log_prob, abs=one.rel_error + two.rel_error)


# Where no tilt is found, or none of second order.


@pytest.mark.parametrize("noise", [1e-3, 3e-4, 1e-4, 1e-5])
def test_narrow_boxes_of_nearly_dependent_coordinates(noise):
    """In the limit of no noise three coordinates are one, between 0.01 and 0.012."""
    A = np.zeros((5, 6))
    A[:3, 0], A[0, 2], A[1, 3], A[2, 4] = 1.0, noise, noise, noise
    A[3, :2], A[4, [0, 1, 5]] = (0.6, 0.8), (-0.3, 0.5, 0.8)
    lower, upper = [0.0, 0.01, -0.01, -1.0, -1.0], [0.02, 0.03, 0.012, 1.0, 1.0]
    together = mvnorth.box([0.01, -1.0, -1.0], [0.012, 1.0, 1.0], 0.0, (A @ A.T)[2:, 2:])
    result = mvnorth.box(lower, upper, 0.0, A @ A.T)
    assert result.rel_error < 1e-3
    # Noise moves the ends of the interval by about itself, by amounts that nearly cancel.
    assert result.log_prob == pytest.approx(together.log_prob, abs=2e-4 + (noise / 1e-3) ** 2)
    assert together.log_prob <= result.log_bound + 0.5


def test_contradictory_limits():
    """Found by a search; the answer is that of the chain."""
    rho, tau = 0.9999997903271516, -0.9999997124649946
    cov = np.array([[1.0, rho, rho * tau], [rho, 1.0, tau], [rho * tau, tau, 1.0]])
    lower = [-182.64969599725157, -np.inf, 124.92372942189589]
    upper = [-182.6496952852827, 44.36051805604646, np.inf]
    result = mvnorth.box(lower, upper, 0.0, cov, method="tilting")
    assert result.log_prob == pytest.approx(-16695.5298, abs=1e-3)


@pytest.mark.parametrize("d", [3, 10, 50])
@pytest.mark.parametrize("left", [1e-4, 1e-6, 1e-8])
def test_bound_of_nearly_equal_coordinates(d, left):
    m = np.random.default_rng(d).normal(size=d)
    L = np.linalg.cholesky(np.full((d, d), 1.0 - left) + left * np.eye(d))
    result = mvnorth.orthant(m, L, 1024, method="tilting")
    limit = mvnorth.special.log_ndtr(m.min())
    assert limit - 0.05 < result.log_bound < min(0.6 * limit, limit + 1.0)


def test_steps_near_certainty():
    """Points that all miss what is cut off agree with each other, and say nothing."""
    cov = np.array([[1.0, -0.99886], [-0.99886, 1.0]])
    lower = [-3.3771, -2.4046]
    truth = mvnorth.box(lower, np.inf, 0.0, cov, method="closed_form").log_prob
    outside = 0
    for seed in range(60):
        result = mvnorth.box(lower, np.inf, 0.0, cov, 4096, method="tilting", seed=seed)
        outside += abs(math.expm1(result.log_prob - truth)) > result.rel_error
    assert outside <= 1


def test_an_absolute_tolerance_is_that_of_the_probability():
    """P is 1e-16 here and the mean weight of the tilt 6e-5: no more than the first points."""
    cov = 0.5 * np.eye(20) + 0.5
    far = mvnorth.box(-np.inf, -5.0, 0.0, cov, atol=1e-9, method="tilting")
    assert far.status == mvnorth.Status.CONVERGED
    assert far.n <= 2048


def test_a_saddle_point_lost_in_rounding_is_no_tilt():
    """Five coordinates of rank two but for 1e-7: counting is the judge."""
    rng = np.random.default_rng(7)
    lost = 0
    for _ in range(20):
        factor = rng.normal(size=(5, 2))
        upper = rng.normal(0.5, 0.4, 5)
        L = np.linalg.qr(np.hstack([factor, 1e-7 * rng.normal(size=(5, 5))]).T)[1].T
        L *= np.sign(np.diagonal(L))
        found = mvnorth.orthant(upper, L, 2**13, method="tilting")
        draws = rng.normal(size=(100_000, 2)) @ factor.T
        share = np.mean((draws <= upper).all(axis=1))
        bound = 4.0 * math.sqrt(share / 100_000) + found.error
        assert abs(found.prob - share) <= bound
        lost += found.error > 0.5 * found.prob
    assert lost <= 4
