"""A method and a covariance from outside the package keep the promises of those inside.

This is the proof that the core is open: nothing of ``mvnorth`` is edited here.
"""

from dataclasses import dataclass

import numpy as np
import pytest
from scipy.special import log_ndtr
from support.cases import Factors
from support.contract import (
    COVARIANCE_PROMISES,
    KINDS,
    PROMISES,
    Kind,
    ids,
    registered_kind,
    stack_fields,
)

import mvnorth
from mvnorth._covariance.dense import Dense
from mvnorth._covariance.rows import CovarianceRows
from mvnorth._estimate import Derivatives, Estimate
from mvnorth._linalg.bounds import times
from mvnorth._methods import METHODS, Method, derivative_methods, registered, value_methods
from mvnorth.covariance import Covariance

EPS = float(np.finfo(float).eps)


class Product:
    """The product of the probabilities of independent coordinates."""

    @staticmethod
    def preference(problems):
        return 0.5 if _independent(problems).any() else None

    @staticmethod
    def solve(problems, request):
        estimate = Estimate.unknown(problems, request.wrt)
        rows = np.flatnonzero(_independent(problems))
        deviation = np.broadcast_to(problems.covariance.deviations(), problems.lower.shape)[rows]
        lower, upper = (a[rows] / deviation for a in (problems.lower, problems.upper))
        log_prob, error = _log_interval(lower, upper)
        total, bound = log_prob.sum(axis=1), error.sum(axis=1)
        derivatives = None
        if request.wrt:
            derivatives = _differentiate(lower, upper, log_prob, error, deviation)
            problems.take(rows).covariance.add_parameters(derivatives, request.wrt)
            derivatives = derivatives.only(request.wrt)
        estimate.replace(rows, Estimate.exact(total, bound, derivatives=derivatives))
        return estimate


def _independent(problems):
    matrix = problems.covariance.matrix()
    off = matrix[:, ~np.eye(problems.d, dtype=bool)]
    return np.broadcast_to(~off.any(axis=1), problems.size)


def _log_interval(lower, upper):
    """Return log(Phi(upper) - Phi(lower)) and a bound on its relative error."""
    mirrored = lower > -upper
    low, high = np.where(mirrored, -upper, lower), np.where(mirrored, -lower, upper)
    log_low, log_high = log_ndtr(low), log_ndtr(high)
    with np.errstate(invalid="ignore"):  # both may be beyond all numbers
        left = -np.expm1(log_low - log_high)
    size = 1.0 + np.abs(log_low, where=np.isfinite(log_low), out=np.zeros_like(low))
    size += np.abs(log_high)
    with np.errstate(divide="ignore", invalid="ignore"):
        error = 8 * EPS * size / left
        log_prob = log_high + np.log(left)
    lost = ~(left > 0.0) | ~np.isfinite(log_prob)
    return np.where(lost, -np.inf, log_prob), np.where(lost, np.inf, error)


def _differentiate(lower, upper, log_prob, error, deviation):
    values, errors, moments = [], [], []
    for limit, sign in ((lower, -1.0), (upper, 1.0)):
        finite = np.where(np.isinf(limit), 0.0, limit)
        with np.errstate(over="ignore", invalid="ignore"):
            log_density = -0.5 * (finite**2 + np.log(2 * np.pi))
            term = sign * np.exp(log_density - log_prob) / deviation
            bound = np.abs(term) * (error + 8 * EPS * (1.0 + finite**2))
        unknown = ~np.isfinite(term) | ~np.isfinite(bound)
        term, bound = np.where(unknown, 0.0, term), np.where(unknown, np.inf, bound)
        values.append(np.where(np.isinf(limit), 0.0, term))
        errors.append(np.where(np.isinf(limit), 0.0, bound))
        with np.errstate(invalid="ignore"):
            moments.append((finite * values[-1], np.nan_to_num(np.abs(finite) * errors[-1])))
    mean, mean_error = -values[0] - values[1], errors[0] + errors[1]
    with np.errstate(invalid="ignore", over="ignore"):
        cov = 0.5 * mean[:, :, None] * mean[:, None, :]
        size = np.abs(mean) + mean_error
        cov_error = size[:, :, None] * mean_error[:, None] + mean_error[:, :, None] * size[:, None]
        index = np.arange(mean.shape[1])
        cov[:, index, index] = -(moments[0][0] + moments[1][0]) / (2.0 * deviation)
        known = moments[0][1] + moments[1][1]
        known = known + 4 * EPS * (np.abs(moments[0][0]) + np.abs(moments[1][0]))
        cov_error[:, index, index] = known / (2.0 * deviation)
    lost = ~np.isfinite(cov) | ~np.isfinite(cov_error)
    cov, cov_error = np.where(lost, 0.0, cov), np.where(lost, np.inf, cov_error)
    return Derivatives(
        {"lower": values[0], "upper": values[1], "mean": mean, "cov": cov},
        {"lower": errors[0], "upper": errors[1], "mean": mean_error, "cov": cov_error},
    )


PRODUCT = Method(
    "product",
    "the product of the probabilities of independent coordinates",
    "independent coordinates",
    Product,
)


@dataclass(frozen=True)
class LowRankRows(CovarianceRows):
    """Covariances diag(c) + V V^T: c (1 or B, d) and V (1 or B, d, r)."""

    c: np.ndarray
    V: np.ndarray

    parameters = ("c", "V")

    @property
    def shape(self):
        return self.c.shape

    def take(self, rows, coordinates=None, drop_columns=False):
        c, V = (a if len(a) == 1 else a[rows] for a in (self.c, self.V))
        if coordinates is not None:
            c, V = c[:, coordinates], V[:, coordinates]
        return LowRankRows(c, V)

    def dense(self):
        own = np.sqrt(self.c)[:, :, None] * np.eye(self.d)
        factor = np.concatenate([own, self.V], axis=2)
        return Dense(factor, 8 * self.d * EPS, np.ones(self.c.shape))

    def derivative_shape(self, name):
        return self.V.shape[1:] if name == "V" else super().derivative_shape(name)

    def add_parameters(self, derivatives, names):
        if "c" in names:
            for of in (derivatives.value, derivatives.error):
                of["c"] = np.diagonal(of["cov"], axis1=1, axis2=2).copy()
        if "V" in names:
            pair = times(derivatives.value["cov"], derivatives.error["cov"], 2.0 * self.V)
            derivatives.value["V"], derivatives.error["V"] = pair


def _low_rank(model):
    if not isinstance(model, Factors):
        return None
    V = np.zeros((len(model.c), 2))
    V[:, : model.V.shape[1]] = model.V
    return LowRankRows(model.c[None].copy(), V[None])


@pytest.fixture
def _product():
    with registered(PRODUCT):
        yield


@pytest.fixture
def _low_rank_kind():
    with registered_kind("low_rank", Kind(LowRankRows, _low_rank, stack_fields)):
        yield


@pytest.mark.usefixtures("_product", "_low_rank_kind")
@pytest.mark.parametrize("promise", ids(PROMISES))
@pytest.mark.parametrize("kind", [*KINDS, "low_rank"])
def test_the_method(kind, promise):
    promise("product", kind)


@pytest.mark.usefixtures("_low_rank_kind")
@pytest.mark.parametrize("promise", ids(PROMISES))
@pytest.mark.parametrize("method", ["auto", *METHODS])
def test_the_covariance_with_all_methods(method, promise):
    promise(method, "low_rank")


@pytest.mark.usefixtures("_low_rank_kind")
@pytest.mark.parametrize("promise", ids(COVARIANCE_PROMISES))
def test_the_covariance(promise):
    promise("low_rank")


def test_users_see_the_method_while_it_is_registered():
    m, L = np.array([0.3, -0.2]), np.diag([1.0, 2.0])
    with registered(PRODUCT):
        assert "product" in value_methods()
        assert "product" in derivative_methods()
        found = mvnorth.orthant(m, L, method="product")
        assert found.method == "product"
        assert found.prob == pytest.approx(mvnorth.orthant_prob(m, L), rel=1e-14)
        grad = mvnorth.orthant_grad(m, L, method="product", wrt=("m", "L"))
        np.testing.assert_allclose(
            grad.grad_L, mvnorth.orthant_grad(m, L, wrt=("L",)).grad_L, rtol=1e-12
        )
        dependent = np.array([[1.0, 0.0], [0.5, 1.0]])
        with pytest.raises(ValueError, match="method='product' needs independent coordinates"):
            mvnorth.orthant(m, dependent, method="product")
        with pytest.raises(ValueError, match="there is a method 'product' already"):
            registered(PRODUCT).__enter__()
    assert "product" not in value_methods()
    with pytest.raises(ValueError, match="product"):
        mvnorth.orthant(m, L, method="product")


class LowRank(Covariance):
    """What a user passes: diag(c) + V V^T, c (..., d) and V (..., d, r)."""

    def __init__(self, c, V):
        self.c, self.V = np.asarray(c, dtype=float), np.asarray(V, dtype=float)

    @property
    def shape(self):
        return self.c.shape

    @property
    def arrays(self):
        return self.c, self.V

    def rows(self, batch):
        shared = self.c.ndim == 1
        c, V = (a[None] if shared else a.reshape(-1, *a.shape[len(batch) :]) for a in self.arrays)
        return LowRankRows(c, V)

    def dense(self):
        own = self.c[..., :, None] * np.eye(self.c.shape[-1])
        return own + self.V @ np.swapaxes(self.V, -1, -2)


RANDOM = np.random.default_rng(3)
USER = LowRank(RANDOM.uniform(0.5, 1.5, 5), RANDOM.normal(size=(5, 2)))
BATCH = LowRank(RANDOM.uniform(0.5, 1.5, (3, 5)), RANDOM.normal(size=(3, 5, 2)))


@pytest.mark.parametrize("cov", [USER, BATCH], ids=["shared", "one each"])
def test_users_pass_the_covariance_wherever_a_matrix_may_stand(cov):
    m = np.random.default_rng(4).normal(0.5, 1.0, (3, 5))
    L = np.linalg.cholesky(cov.dense())
    for found, expected in (
        (mvnorth.orthant(m, cov, 4096), mvnorth.orthant(m, L, 4096)),
        (mvnorth.box(-1.0, m + 1.5, 0.2, cov, 4096), mvnorth.box(-1.0, m + 1.5, 0.2, cov.dense())),
        (
            mvnorth.orthant(m, cov, 4096, method="genz", seed=1),
            mvnorth.orthant(m, L, 4096, method="genz"),
        ),
    ):
        assert (np.abs(found.prob - expected.prob) <= found.error + expected.error).all()
        assert (found.rel_error < 0.05).all()
    value = mvnorth.cdf(m, cov=cov)
    np.testing.assert_allclose(value, mvnorth.cdf(m, cov=cov.dense()), rtol=0.02)


def test_users_differentiate_in_its_parameters():
    m = np.array([0.4, -0.3, 1.1, 0.6, 0.9])
    found = mvnorth.orthant_grad(m, USER, 2**14, wrt=("m", "c", "cov"), log=True)
    L = np.linalg.cholesky(USER.dense())
    judge = mvnorth.orthant_grad(m, L, 2**14, wrt=("m", "cov"), method="conditional", log=True)
    for name in ("m", "cov"):
        gap = np.abs(getattr(found, f"grad_{name}") - getattr(judge, f"grad_{name}"))
        errors = getattr(found, f"grad_{name}_error") + getattr(judge, f"grad_{name}_error")
        assert (gap <= errors).all()
    np.testing.assert_allclose(found.grad_c, np.diag(found.grad_cov), rtol=1e-12)


def test_independent_parts_of_it_are_found():
    """Coordinates that share no factor, one of them without limits."""
    V = np.zeros((6, 2))
    V[:3, 0], V[3:5, 1] = (0.7, -0.4, 1.0), (0.5, 1.2)
    cov = LowRank(np.full(6, 0.8), V)
    m = np.array([0.3, 0.1, -0.2, 0.6, 0.4, np.inf])
    found = mvnorth.orthant(m, cov)
    assert found.method == "closed_form"
    expected = mvnorth.orthant(m, np.linalg.cholesky(cov.dense()))
    assert abs(found.log_prob - expected.log_prob) <= found.rel_error + expected.rel_error
