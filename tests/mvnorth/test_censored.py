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


def exact_interval_given_values(x, low, high, mean, cov):
    """log f(X_1..X_o = x, low <= X_d <= high) for matrices of mpmath."""
    count = len(x)
    inner, row = cov[:count, :count], cov[count : count + 1, :count]
    r = x - mean[:count, :]
    weight, gain = (mp.lu_solve(inner, column) for column in (r, row.T))
    centre, variance = mean[count] + (row * weight)[0], cov[count, count] - (row * gain)[0]
    z = [(limit - centre) / mp.sqrt(2 * variance) for limit in (low, high)]
    first, last = (z[0], z[1]) if z[0] > 0 else (-z[1], -z[0])
    mass = mp.log((mp.erfc(first) - mp.erfc(last)) / 2)
    return mass - (r.T * weight)[0] / 2 - mp.log(mp.det(2 * mp.pi * inner)) / 2


def exact_derivatives(x, low, high, mean, cov):
    """The same, and its derivatives in the mean (d,) and the covariance (d, d)."""
    d, step = len(mean), mpmath.mpf("1e-25")
    in_mean, in_cov = np.zeros(d), np.zeros((d, d))
    for i in range(d):
        ends = []
        for sign in (1, -1):
            moved = mean.copy()
            moved[i] += sign * step
            ends.append(exact_interval_given_values(x, low, high, moved, cov))
        in_mean[i] = (ends[0] - ends[1]) / (2 * step)
        for j in range(i + 1):
            ends = []
            for sign in (1, -1):
                moved = cov.copy()
                moved[i, j] += sign * step / 2
                moved[j, i] += sign * step / 2
                ends.append(exact_interval_given_values(x, low, high, mean, moved))
            in_cov[i, j] = in_cov[j, i] = (ends[0] - ends[1]) / (2 * step)
    return exact_interval_given_values(x, low, high, mean, cov), in_mean, in_cov


def nearly_dependent(rng, d):
    """A dense covariance whose correlations are up to 1 - 1e-11."""
    A = rng.normal(size=(d, d))
    size = 10 ** rng.uniform(-5.0, 0.0)
    if rng.uniform() < 0.5:
        A[1:-1] = A[0] + size * A[1:-1]  # the observed ones
    else:
        A[-1] = A[:-1].sum(axis=0) + size * A[-1]  # the last one, given the others
    cov = A @ A.T
    return (cov + cov.T) / 2, np.sqrt(np.diag(cov)) * rng.normal(size=d)


def strong_factors(rng, d):
    """Common factors with variances of the rest down to 1e-12."""
    c, V = 10 ** rng.uniform(-12.0, 0.0, d), rng.normal(size=(d, rng.integers(1, 3)))
    deviation = V @ rng.normal(size=V.shape[1]) * 10 ** rng.uniform(-1.0, 2.0)
    return mvnorth.Factors(c, V), deviation + np.sqrt(c) * rng.normal(size=d)


def opposite_values(rng, d):
    """Two observed coordinates that are nearly the same, with different values."""
    a, t, correlation = rng.uniform(0.2, 0.8), rng.normal(), 1.0 - 10 ** rng.uniform(-10.0, -4.0)
    cov = np.array([[1.0, correlation, a], [correlation, 1.0, a], [a, a, 1.0]])
    return cov, np.array([t + 1.0, t - 1.0, a * t])


def cancelling_factors(rng, d):
    """Two factors with large values, whose difference is the last coordinate."""
    V = np.vstack([[[1.0, 0.3], [0.2, 1.0]] + 0.1 * rng.normal(size=(2, 2)), [1.0, -1.0]])
    return mvnorth.Factors(10 ** rng.uniform(-12.0, -6.0), V), V.sum(axis=1) * rng.uniform(1, 100)


@pytest.mark.parametrize(
    "kind", [nearly_dependent, opposite_values, strong_factors, cancelling_factors]
)
def test_rounding_errors_of_ill_conditioned_covariances(kind):
    rng = np.random.default_rng(3)
    with mp.workdps(70):
        for _ in range(30):
            cov, deviation = kind(rng, rng.integers(3, 5))
            mean = rng.normal(size=deviation.size)
            lower = mean + deviation
            lower[-1] -= 10 ** rng.uniform(-6.0, 0.0)
            upper = lower.copy()
            upper[-1] = np.inf if rng.uniform() < 0.5 else lower[-1] + 10 ** rng.uniform(-5.0, 0.0)
            result = mvnorth.censored_logpdf_grad(lower, upper, mean, cov)
            if isinstance(cov, mvnorth.Factors):
                V = mp.matrix(cov.V.tolist())
                sigma = V * V.T + mp.diag(cov.c.tolist())
            else:
                sigma = mp.matrix(cov.tolist())
            x, centre = mp.matrix(lower[:-1].tolist()), mp.matrix(mean.tolist())
            value, in_mean, in_cov = exact_derivatives(x, lower[-1], upper[-1], centre, sigma)
            assert abs(result.logpdf - value) <= result.error
            for found, truth, error in (
                (result.grad_mean, in_mean, result.grad_mean_error),
                (result.grad_cov, in_cov, result.grad_cov_error),
            ):
                assert (np.abs(found - truth) <= error + 1e-15 * np.abs(truth)).all()


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
