"""Two common factors with walls, c much less than V**2: claims hold between the points too.

Judge: Gauss-Legendre panels over one factor, the rule for one factor over the other.
"""

import numpy as np

import mvnorth
from mvnorth import OneFactor
from mvnorth._methods import factors as method
from mvnorth._problem import Tolerance

NODES, WEIGHTS = np.polynomial.legendre.leggauss(16)


def panels(low, high, count):
    edges = np.linspace(low, high, count + 1)
    half = 0.5 * (edges[1] - edges[0])
    middle = 0.5 * (edges[1:] + edges[:-1])
    return (middle[:, None] + half * NODES).ravel(), np.tile(half * WEIGHTS, count)


def by_one_factor(m, c, V, angle, count):
    """Return log P and its derivatives in m, c and V; the factors are turned by an angle first."""
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    turned = V @ turn
    z, weight = panels(-10.0, 10.0, count)
    cov = OneFactor(c, turned[:, 0])
    inner = mvnorth.orthant_grad(m + z[:, None] * turned[:, 1], cov, wrt=("m", "c", "v"), log=True)
    share = weight * np.exp(inner.log_prob - 0.5 * z * z) / np.sqrt(2.0 * np.pi)
    prob = share.sum()
    share = share / prob
    in_V = np.stack([share @ inner.grad_v, (share * z) @ inner.grad_m], axis=1) @ turn.T
    return np.log(prob), share @ inner.grad_m, share @ inner.grad_c, in_V


def test_a_wall_between_the_points_is_not_missed():
    rng = np.random.default_rng(0)
    claims = outside = entries = entries_outside = 0
    for _ in range(40):
        d = int(rng.choice([2, 4, 10]))
        V, c = rng.normal(size=(d, 2)), np.exp(0.7 * rng.normal(size=d))
        c[rng.integers(d)] = 10.0 ** -rng.uniform(2.0, 9.0)
        deviation = np.sqrt(c + np.sum(V * V, axis=1))
        m = deviation * (rng.normal(size=d) + rng.choice([-1.0, 0.0, 1.0, 2.0]))
        angle = rng.uniform(0.0, 3.0)
        truth, *slopes = by_one_factor(m, c, V, angle, 60)
        again, *slopes_again = by_one_factor(m, c, V, angle + 0.5, 47)
        for rtol in (1e-2, 1e-4):
            problem = (m[None], np.empty((0, d)), c[None], V[None])
            grad = method.make_results(problem[0], 0, 2, False)
            log_prob, error, _ = method.run(*problem, Tolerance(rtol, 0.0), 2**14, grad)
            known = 3.0 * abs(truth - again)
            claims += 1
            outside += abs(np.expm1(log_prob[0] - truth)) > error[0] + known
            for j, expected, other in zip((0, 2, 3), slopes, slopes_again, strict=True):
                known = 3.0 * np.abs(expected - other)
                wrong = np.abs(grad[j][0] - expected) > grad[5][0, j] + known
                entries, entries_outside = entries + wrong.size, entries_outside + wrong.sum()
    assert outside <= 0.01 * claims
    assert entries_outside <= 0.01 * entries
