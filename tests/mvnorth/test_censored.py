"""Likelihoods of observed, censored and missing values: scipy, mpmath, differences, identities."""

import mpmath
import numpy as np
import pytest
from mpmath import mp
from scipy.stats import multivariate_normal

import mvnorth

EVERYTHING = ("lower", "upper", "mean", "cov")


def random_covariance(rng, d):
    A = rng.normal(size=(d, d + 2))
    return A @ A.T / d


def mixed_limits(rng, shape):
    """Observed values, intervals, values above or below a limit, and missing ones."""
    lower = rng.normal(size=shape) - 0.5
    upper = lower + rng.uniform(0.3, 3.0, shape)
    kind = rng.integers(5, size=shape)
    upper = np.where(kind == 0, lower, upper)
    lower = np.where((kind == 1) | (kind == 3), -np.inf, lower)
    return lower, np.where((kind == 2) | (kind == 3), np.inf, upper)


def exact_pair(x, low, high, mean, cov):
    """log f(X_0 = x, low <= X_1 <= high) with 40 digits."""
    a, b, c = cov
    r = x - mean[0]
    centre, variance = mean[1] + b / a * r, c - b * b / a
    root = mp.sqrt(2 * variance)
    z = [(limit - centre) / root for limit in (low, high)]
    first, last = (z[0], z[1]) if z[0] > 0 else (-z[1], -z[0])
    mass = mp.erfc(first) - mp.erfc(last)
    return -r * r / (2 * a) - mp.log(2 * mp.pi * a) / 2 + mp.log(mass / 2)


def test_all_observed_is_scipys_density():
    rng = np.random.default_rng(0)
    cov, mean, x = random_covariance(rng, 5), rng.normal(size=5), rng.normal(size=(7, 5))
    found, error = mvnorth.censored_logpdf(x, x, mean, cov, errors=True)
    truth = multivariate_normal(mean, cov).logpdf(x)
    assert np.abs(found - truth).max() < 1e-12
    assert error.max() < 1e-10


def test_none_observed_is_box_logprob():
    rng = np.random.default_rng(1)
    cov, x = random_covariance(rng, 3), rng.normal(size=(6, 3))
    lower, upper = x - 0.5, np.where(x > 1.0, np.inf, x + 1.0)
    found = mvnorth.censored_logpdf(lower, upper, 0.2, cov)
    assert (found == mvnorth.box_logprob(lower, upper, 0.2, cov)).all()


def test_observed_value_and_interval_against_mpmath():
    # Tails down to exp(-1e5) and correlations up to 1 - 1e-7; the claimed errors must hold.
    rng = np.random.default_rng(2)
    with mp.workdps(60):
        for _ in range(300):
            a, c = np.exp(rng.normal(0.0, 2.0, 2))
            rho = np.tanh(rng.normal(0.0, 4.0))
            b = rho * np.sqrt(a * c)
            if b * b >= a * c * (1 - 1e-7):
                continue
            mean = rng.normal(0.0, 3.0, 2)
            x = mean[0] + rng.normal() * np.sqrt(a) * 10 ** rng.uniform(-2, 1)
            low = mean[1] + rng.normal() * np.sqrt(c) * 10 ** rng.uniform(-2, 1.5)
            high = low + 10 ** rng.uniform(-3, 2)
            low, high = rng.choice([low, -np.inf]), rng.choice([high, np.inf])
            if np.isinf(low) and np.isinf(high):
                low = 0.0
            cov = np.array([[a, b], [b, c]])
            found, error = mvnorth.censored_logpdf([x, low], [x, high], mean, cov, errors=True)
            numbers = [mpmath.mpf(float(v)) for v in (x, low, high, *mean, a, b, c)]
            truth = exact_pair(*numbers[:3], numbers[3:5], numbers[5:])
            assert abs(found - truth) <= error
            assert error <= 1e-12 * (1 + abs(found)) ** 2 / (1 - rho * rho)


def test_derivatives_against_mpmath():
    with mp.workdps(60):
        for x, low, high in ((0.3, -0.4, 1.1), (2.0, 6.0, np.inf), (-1.0, -np.inf, -25.0)):
            mean, cov = [0.1, -0.2], [1.3, -0.7, 0.9]
            result = mvnorth.censored_logpdf_grad(
                [x, low], [x, high], mean, [[1.3, -0.7], [-0.7, 0.9]], wrt=EVERYTHING
            )
            start = [mpmath.mpf(v) for v in (x, low, high, *mean, *cov)]

            def likelihood(*v):
                return exact_pair(*v[:3], v[3:5], v[5:])

            step = mpmath.mpf("1e-15")
            truth = []
            for k in range(8):
                if mpmath.isinf(start[k]):
                    truth.append(0.0)
                    continue
                up, down = ([*start[:k], start[k] + s, *start[k + 1 :]] for s in (step, -step))
                truth.append(float((likelihood(*up) - likelihood(*down)) / (2 * step)))
            G = result.grad_cov
            found = [
                result.grad_lower[0] + result.grad_upper[0],
                result.grad_lower[1],
                result.grad_upper[1],
                *result.grad_mean,
                G[0, 0],
                2 * G[0, 1],
                G[1, 1],
            ]
            errors = [
                result.grad_lower_error[0] + result.grad_upper_error[0],
                result.grad_lower_error[1],
                result.grad_upper_error[1],
                *result.grad_mean_error,
                result.grad_cov_error[0, 0],
                2 * result.grad_cov_error[0, 1],
                result.grad_cov_error[1, 1],
            ]
            off = np.abs(np.subtract(found, truth))
            assert (off <= np.array(errors) + 1e-14 * np.abs(truth)).all()
            assert (off <= 1e-10 * (1 + np.abs(truth))).all()
            assert result.grad_lower[0] == result.grad_upper[0]


def test_two_intervals_given_one_value_by_quadrature():
    cov = np.array([[1.0, 0.4, -0.3], [0.4, 2.0, 0.5], [-0.3, 0.5, 1.5]])
    mean, x = np.array([0.2, -0.1, 0.4]), 0.9
    low, high = (-0.5, 0.3), (1.2, 2.0)
    precision, det = np.linalg.inv(cov), np.linalg.det(cov)

    def density(v, w):
        r = np.array([x, v, w]) - mean
        return mp.exp(-0.5 * float(r @ precision @ r)) / mp.sqrt((2 * mp.pi) ** 3 * det)

    truth = mp.log(mp.quad(density, [low[0], high[0]], [low[1], high[1]]))
    found = mvnorth.censored_logpdf([x, *low], [x, *high], mean, cov)
    assert abs(found - truth) < 1e-12


@pytest.mark.parametrize("d", [3, 5])
def test_derivatives_against_differences_in_a_mixed_batch(d):
    rng = np.random.default_rng(d)
    rows, h = 25, 1e-5
    cov, mean = random_covariance(rng, d), rng.normal(size=(rows, d))
    lower, upper = mixed_limits(rng, (rows, d))
    observed = lower == upper
    assert len(np.unique(observed, axis=0)) > 4
    result = mvnorth.censored_logpdf_grad(lower, upper, mean, cov, wrt=EVERYTHING, rtol=1e-9)

    def difference(move):
        up, down = (mvnorth.censored_logpdf(*move(s), rtol=1e-10) for s in (h, -h))
        return (up - down) / (2 * h)

    total = result.grad_lower + result.grad_upper
    assert np.allclose(result.grad_mean, -total, atol=1e-9)
    for i in range(d):
        unit = np.eye(d)[i]
        found = difference(lambda s, e=unit: (lower, upper, mean + s * e, cov))
        assert np.abs(found - result.grad_mean[:, i]).max() < 3e-6
        found = difference(lambda s, e=unit: (lower + s * e * observed, upper + s * e, mean, cov))
        expected = np.where(observed[:, i], total[:, i], result.grad_upper[:, i])
        assert np.abs(found - expected).max() < 3e-6
        for j in range(i + 1):
            change = np.zeros((d, d))
            change[i, j] = change[j, i] = 1.0
            found = difference(lambda s, e=change: (lower, upper, mean, cov + s * e))
            expected = np.sum(result.grad_cov * change, axis=(1, 2))
            assert np.abs(found - expected).max() < 3e-6


@pytest.mark.parametrize("columns", [1, 2])
def test_factors_are_their_dense_covariance(columns):
    rng = np.random.default_rng(columns)
    d = 6
    V = rng.normal(0.0, 0.7, (d, columns))
    cov = mvnorth.OneFactor(0.5, V[:, 0]) if columns == 1 else mvnorth.Factors(0.5, V)
    lower, upper = mixed_limits(rng, (12, d))
    names = (*EVERYTHING, "c", "V")
    a = mvnorth.censored_logpdf_grad(lower, upper, 0.1, cov, wrt=names, rtol=1e-9)
    b = mvnorth.censored_logpdf_grad(lower, upper, 0.1, cov.dense(), wrt=EVERYTHING, rtol=1e-9)
    assert np.abs(a.logpdf - b.logpdf).max() < 1e-8
    for name in EVERYTHING:
        assert np.abs(getattr(a, f"grad_{name}") - getattr(b, f"grad_{name}")).max() < 1e-7
    assert np.allclose(a.grad_c, np.diagonal(a.grad_cov, axis1=1, axis2=2))
    assert np.allclose(a.grad_V, 2 * a.grad_cov @ cov.V)
    assert np.isin(a.method, ["closed_form", "quadrature", "factors"]).all()


def test_a_large_one_factor_keeps_its_structure():
    d = 3000
    rng = np.random.default_rng(0)
    cov = mvnorth.OneFactor(0.5, rng.normal(0.0, 0.7, d))
    x = np.sqrt(cov.c) * rng.normal(size=d) + cov.v * 0.4
    lower = np.where(np.arange(d) % 2, x, -np.inf)
    upper = np.where(np.arange(d) % 2, x, x + 1.0)
    found, error = mvnorth.censored_logpdf(lower, upper, 0.0, cov, errors=True)
    z = np.linspace(-1.0, 2.0, 4001)[:, None]  # the common factor, by the trapezoidal rule
    odd, even = slice(1, None, 2), slice(0, None, 2)
    scaled = (x - cov.v * z) / np.sqrt(cov.c)
    terms = np.sum(-0.5 * (scaled[:, odd] ** 2 + np.log(2 * np.pi * cov.c[odd])), axis=1)
    limits = scaled[:, even] + 1.0 / np.sqrt(cov.c[even])
    terms += mvnorth.special.log_ndtr(limits).sum(axis=1) - 0.5 * (z[:, 0] ** 2)
    top = terms.max()
    total = np.sum(np.exp(terms - top)) * (z[1, 0] - z[0, 0]) / np.sqrt(2 * np.pi)
    assert abs(found - (top + np.log(total))) <= error + 1e-9
    assert error < 1e-6


def test_missing_values_are_integrated_out():
    rng = np.random.default_rng(7)
    cov = random_covariance(rng, 4)
    keep = [0, 2, 3]
    lower, upper = np.array([0.2, -np.inf, -1.0, 0.3]), np.array([0.2, np.inf, 0.5, np.inf])
    found = mvnorth.censored_logpdf(lower, upper, 0.0, cov)
    marginal = mvnorth.censored_logpdf(lower[keep], upper[keep], 0.0, cov[np.ix_(keep, keep)])
    assert abs(found - marginal) < 1e-12
    result = mvnorth.censored_logpdf_grad(lower, upper, 0.0, cov, wrt=EVERYTHING)
    assert not result.grad_mean[1]
    assert not result.grad_cov[1].any()
    assert mvnorth.censored_logpdf(-np.inf, np.inf, 0.0, cov) == 0.0


def test_a_batch_is_its_rows_and_keeps_its_axes():
    rng = np.random.default_rng(8)
    lower, upper = mixed_limits(rng, (4, 5, 3))
    cov = np.stack([random_covariance(rng, 3) for _ in range(5)])
    mean = rng.normal(size=(4, 1, 3))
    found = mvnorth.censored_logpdf(lower, upper, mean, cov)
    result = mvnorth.censored_logpdf_grad(lower, upper, mean, cov)
    assert found.shape == (4, 5)
    assert result.grad_cov.shape == (4, 5, 3, 3)
    for i in range(4):
        for j in range(5):
            one = mvnorth.censored_logpdf_grad(lower[i, j], upper[i, j], mean[i, 0], cov[j])
            assert abs(one.logpdf - found[i, j]) < 1e-12
            assert np.allclose(one.grad_cov, result.grad_cov[i, j], rtol=1e-9)
    assert mvnorth.censored_logpdf(np.zeros((0, 3)), 1.0, 0.0, np.eye(3)).shape == (0,)


def test_units_do_not_matter():
    cov = np.array([[2.0, 0.6], [0.6, 1.0]])
    plain = mvnorth.censored_logpdf_grad([0.3, 1.0], [0.3, 2.0], [0.1, 0.0], cov)
    unit = np.array([1e60, 1e-40])
    scaled = mvnorth.censored_logpdf_grad(
        [0.3, 1.0] * unit, [0.3, 2.0] * unit, [0.1, 0.0] * unit, cov * np.outer(unit, unit)
    )
    assert abs(scaled.logpdf + np.log(1e60) - plain.logpdf) < 1e-10
    assert np.allclose(scaled.grad_mean * unit, plain.grad_mean)
    assert np.allclose(scaled.grad_cov * np.outer(unit, unit), plain.grad_cov)


def test_a_coordinate_that_the_observed_one_determines():
    cov = [[1.0, 1.0], [1.0, 1.0]]
    density = -0.5 * (0.3**2 + np.log(2 * np.pi))
    assert abs(mvnorth.censored_logpdf([0.3, 0.0], [0.3, 1.0], 0.0, cov) - density) < 1e-12
    assert mvnorth.censored_logpdf([0.3, 0.5], [0.3, 1.0], 0.0, cov) == -np.inf
    _, error = mvnorth.censored_logpdf([0.3, 0.3], [0.3, 1.0], 0.0, cov, errors=True)
    assert error == np.inf  # at its limit: rounding decides


def test_errors_hold_where_points_are_few():
    rng = np.random.default_rng(9)
    d, rows = 14, 120
    cov = random_covariance(rng, d)
    lower, upper = mixed_limits(rng, (rows, d))
    truth = mvnorth.censored_logpdf(lower, upper, 0.0, cov, rtol=1e-5)
    found, error = mvnorth.censored_logpdf(lower, upper, 0.0, cov, 256, errors=True, seed=1)
    assert np.mean(np.abs(found - truth) <= error + 2e-5) >= 0.97
    assert np.median(error) > 1e-5


def test_wrong_input_is_refused():
    cov = np.eye(2)
    with pytest.raises(ValueError, match="observed value, which must be finite"):
        mvnorth.censored_logpdf([0.0, np.inf], [1.0, np.inf], 0.0, cov)
    with pytest.raises(ValueError, match="lower must not exceed upper: coordinate 1"):
        mvnorth.censored_logpdf([0.0, 2.0], [0.0, 1.0], 0.0, cov)
    with pytest.raises(ValueError, match="lower must not contain NaN"):
        mvnorth.censored_logpdf([0.0, np.nan], [0.0, 1.0], 0.0, cov)
    singular = [[1.0, 2.0, 0.0], [2.0, 4.0, 0.0], [0.0, 0.0, 1.0]]
    with pytest.raises(ValueError, match=r"singular: coordinate 1 .* observed ones of \[0, 1\]"):
        mvnorth.censored_logpdf([0.0, 0.0, 1.0], [0.0, 0.0, 2.0], 0.0, singular)
    with pytest.raises(ValueError, match="wrt must name some of 'lower', 'upper', 'mean', 'cov'"):
        mvnorth.censored_logpdf_grad(0.0, 0.0, 0.0, cov, wrt=("c",))
    with pytest.raises(ValueError, match="do not broadcast"):
        mvnorth.censored_logpdf(np.zeros((2, 2)), np.zeros((3, 2)), 0.0, cov)
    with pytest.raises(ValueError, match="cov must be symmetric"):
        mvnorth.censored_logpdf(0.0, 0.0, 0.0, [[1.0, 0.5], [0.0, 1.0]])
