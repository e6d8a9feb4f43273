"""The multivariate normal distribution function for tensors."""

import math

import pytest
import torch
from scipy import stats
from torch.autograd import gradcheck, gradgradcheck

import mvnorth
from exact_torch import mvn_logcdf, normal, orthant_logprob


def problem(d, rows=3, seed=0):
    generator = torch.Generator().manual_seed(seed)
    a = torch.randn(rows, d, d, generator=generator, dtype=torch.float64)
    cov = a @ a.mT + torch.eye(d, dtype=torch.float64)
    m = torch.randn(rows, d, generator=generator, dtype=torch.float64)
    return m, cov, torch.linalg.cholesky(cov)


@pytest.mark.parametrize("d", [1, 2, 3, 5])
def test_values_are_those_of_mvnorth_and_scipy(d):
    m, cov, factor = problem(d)
    found = orthant_logprob(m, factor)
    expected = mvnorth.orthant(m.numpy(), factor.numpy()).log_prob
    torch.testing.assert_close(found, torch.from_numpy(expected))
    torch.testing.assert_close(mvn_logcdf(m, 0.0, cov), found, rtol=1e-6, atol=1e-6)
    for row in range(3):
        cdf = stats.multivariate_normal.cdf(m[row].numpy(), cov=cov[row].numpy(), rng=0)
        assert found[row].item() == pytest.approx(math.log(cdf), abs=1e-3)


def test_sheppard():
    rho = torch.tensor(0.3, dtype=torch.float64, requires_grad=True)
    one = torch.ones((), dtype=torch.float64)
    cov = torch.stack([torch.stack([one, rho]), torch.stack([rho, one])])
    prob = mvn_logcdf(torch.zeros(2, dtype=torch.float64), 0.0, cov).exp()
    assert prob.item() == pytest.approx(0.25 + math.asin(0.3) / (2.0 * math.pi), rel=1e-12)
    (slope,) = torch.autograd.grad(prob, rho)
    assert slope.item() == pytest.approx(1.0 / (2.0 * math.pi * math.sqrt(1.0 - 0.09)), rel=1e-10)


@pytest.mark.parametrize("d", [1, 2, 3, 5])
def test_derivatives(d):
    m, cov, factor = problem(d, rows=2)
    tolerance = {"atol": 1e-6, "rtol": 1e-4} if d <= 3 else {"atol": 1e-3, "rtol": 1e-2}
    inputs = (m.requires_grad_(), factor.requires_grad_())
    assert gradcheck(lambda m, factor: orthant_logprob(m, factor, 2000), inputs, **tolerance)
    mean = torch.zeros_like(m).requires_grad_()

    def symmetric(x, mean, cov):
        return mvn_logcdf(x, mean, 0.5 * (cov + cov.mT), 2000)

    assert gradcheck(symmetric, (m, mean, cov.requires_grad_()), **tolerance)


@pytest.mark.parametrize("d", [1, 2, 3])
def test_second_derivatives(d):
    m, _, factor = problem(d, rows=2)
    inputs = (m.requires_grad_(), factor.requires_grad_())
    assert gradgradcheck(orthant_logprob, inputs, atol=2e-3, rtol=1e-2, fast_mode=True)


@pytest.mark.parametrize("d", [1, 2, 5])
def test_plain_torch_agrees(d):
    m, _, factor = problem(d)
    m = m - 2.0
    fast = normal._operator(m, factor, 0, 0.0, 0, 1)
    plain = (normal._estimate(m, factor, 0, 0), *normal._slopes(m, factor, 0, 0))
    for a, b in zip(fast, plain, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-2, atol=1e-3)


def test_plain_torch_far_out():
    m = torch.full((1, 2), -60.0, dtype=torch.float64)
    factor = torch.eye(2, dtype=torch.float64)[None]
    found = normal._estimate(m, factor, 0, 0)
    assert found.item() == pytest.approx(2.0 * stats.norm.logcdf(-60.0), rel=1e-12)


def test_shapes_broadcast():
    m, _, factor = problem(2)
    assert orthant_logprob(m[0], factor[0]).shape == ()
    torch.testing.assert_close(
        orthant_logprob(m, factor[0]), orthant_logprob(m, factor[:1].expand(3, 2, 2))
    )
    grid = orthant_logprob(m[:, None], factor[None])
    assert grid.shape == (3, 3)
    torch.testing.assert_close(grid.diagonal(), orthant_logprob(m, factor))
    assert orthant_logprob(m[:0], factor[0]).shape == (0,)


def test_precision():
    m, _, factor = problem(2)
    found = orthant_logprob(m.float(), factor.float())
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double(), orthant_logprob(m, factor), rtol=1e-5, atol=1e-5)
    assert orthant_logprob(m.float(), factor).dtype == torch.float64


def test_seed_and_points():
    m, _, factor = problem(52)  # too many coordinates for Gauss rules

    def sampled(seed):
        return orthant_logprob(m, factor, 1000, seed=seed)

    torch.testing.assert_close(sampled(1), sampled(1), rtol=0.0, atol=0.0)
    assert not torch.equal(sampled(1), sampled(2))


def test_transforms_and_compilation():
    m, _, factor = problem(2)
    leaf = m.clone().requires_grad_()
    value = orthant_logprob(leaf, factor)
    value.sum().backward()
    one = torch.func.vmap(torch.func.grad(lambda m, factor: orthant_logprob(m, factor)))
    torch.testing.assert_close(one(m, factor), leaf.grad)
    compiled = torch.compile(orthant_logprob, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(m, factor), value.detach())


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda m, a: orthant_logprob(m, a[:, :1]), ValueError, r"m must be \(..., d\) and L"),
        (lambda m, a: mvn_logcdf(m[:, :1], 0.0, a), ValueError, r"x must be \(..., d\) and cov"),
        (lambda m, a: orthant_logprob(m.long(), a), TypeError, "m must be a tensor of floating"),
        (lambda m, a: orthant_logprob(m, -a), ValueError, "diagonal >= 0"),
        (lambda m, a: orthant_logprob(m, a, 0), ValueError, "n must be"),
        (lambda m, a: orthant_logprob(m, a, 2**70), ValueError, r"n must be at most 2\*\*63 - 1"),
        (lambda m, a: mvn_logcdf(m, 0.0, a, seed=2**70), ValueError, "seed must be at most"),
        (lambda m, a: mvn_logcdf(m, 0.0, a, seed=1.5), TypeError, "seed must be a whole number"),
        (lambda m, a: mvn_logcdf(m, 0.0, a, rtol="no"), TypeError, "rtol must be a number"),
        (lambda m, a: mvn_logcdf(m, 0.0, -a), RuntimeError, "not positive-definite"),
    ],
)
def test_wrong_input_is_named(call, error, message):
    m, _, factor = problem(2)
    with pytest.raises(error, match=message):
        call(m, factor)
