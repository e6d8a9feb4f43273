"""Several factors in all regimes, against products of problems with one factor each.

Blocks of coordinates with a factor of their own are independent.  Turning the factors changes V but
not V V^T, and leaves no zeros in V, so that nothing but the value tells.
"""

import numpy as np
import pytest
from scipy.stats import ortho_group

import mvnorth
from mvnorth import Factors, OneFactor

# Coordinates, shift of the means, variances of the independent parts, loadings
REGIMES = {
    "ordinary": (8, 1.0, 1.0, 0.7),
    "many": (400, 3.0, 0.5, 0.5),
    "near one": (12, 6.0, 0.5, 0.5),
    "tail": (10, -4.0, 1.0, 0.7),
    "far tail": (10, -150.0, 1.0, 0.7),
    "walls": (8, 0.3, 1e-3, 1.0),
    "mixed signs": (60, 1.5, 0.3, -1.0),
}


def turned_blocks(name, k):
    """Return m, c, V with k blocks, and what one factor says of them: log P, in m, c and V."""
    d, shift, own, loading = REGIMES[name]
    rng = np.random.default_rng(k)
    m = shift + 0.3 * rng.normal(size=d)
    c = own * rng.uniform(0.5, 1.5, d)
    v = abs(loading) * rng.uniform(0.5, 1.0, d)
    if loading < 0.0:
        v *= rng.choice([-1.0, 1.0], d)
    block = np.arange(d) % k
    V, in_V = np.zeros((d, k)), np.zeros((d, k))
    V[np.arange(d), block] = v
    log_prob, in_m, in_c, mean = 0.0, np.empty(d), np.empty(d), np.empty(k)
    for j in range(k):
        some = block == j
        part = mvnorth.orthant_grad(
            m[some], OneFactor(c[some], v[some]), wrt=("m", "c", "v"), log=True
        )
        assert part.method == "quadrature"
        log_prob += part.log_prob
        in_m[some], in_c[some], in_V[some, j] = part.grad_m, part.grad_c, part.grad_v
        mean[j] = v[some] @ part.grad_m  # E[z_j] given the orthant, by Stein's identity
    for j in range(k):  # other factors are independent of these coordinates
        in_V[block != j, j] = in_m[block != j] * mean[j]
    turn = ortho_group.rvs(k, random_state=k)
    return m, c, V @ turn, log_prob, in_m, in_c, in_V @ turn


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("name", REGIMES)
def test_values_and_derivatives(name, k):
    m, c, V, log_prob, in_m, in_c, in_V = turned_blocks(name, k)
    got = mvnorth.orthant_grad(
        m, Factors(c, V), wrt=("m", "c", "V"), rtol=1e-13, log=True, method="factors"
    )
    walls = name == "walls"  # which would take more points than there may be
    gap = abs(got.log_prob - log_prob)
    assert gap <= got.rel_error + 1e-13 * (1.0 + abs(log_prob))
    assert walls or gap <= 1e-12 * (1.0 + abs(log_prob))
    for ours, truth, error in (
        (got.grad_m, in_m, got.grad_m_error),
        (got.grad_c, in_c, got.grad_c_error),
        (got.grad_V, in_V, got.grad_V_error),
    ):
        size = np.abs(truth).max() + 1e-4  # near one all derivatives are tiny
        assert (np.abs(ours - truth) <= error + 1e-11 * size).all()
        assert walls or np.abs(ours - truth).max() <= 1e-11 * size


def test_four_factors():
    m, c, V, log_prob, in_m, *_ = turned_blocks("ordinary", 4)
    got = mvnorth.orthant_grad(m, Factors(c, V), wrt=("m",), rtol=1e-9, log=True)
    assert got.method == "factors"
    assert abs(got.log_prob - log_prob) <= 1e-9
    assert np.abs(got.grad_m - in_m).max() <= 1e-6
