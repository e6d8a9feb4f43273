"""The kernels of ``mvnorth._cuda.argmax`` against ``prob_argmax`` on the CPU.

Both sum the same terms in another order: 1e-14 in double and 1e-6 in single precision.
"""

import numpy as np
import pytest

from mvnorth import prob_argmax
from mvnorth._cuda import argmax as module
from mvnorth._cuda import factor_memory
from mvnorth._cuda.argmax import argmax
from mvnorth._cuda.launch import Queue

INF = np.inf
BOTH = pytest.mark.parametrize("dtype", [np.float64, np.float32])

pytestmark = pytest.mark.usefixtures("quick_turns")


class FirstKernel(Queue):
    """Without the kernel for rows that the first one leaves."""

    def run(self, kernel, blocks, threads, *arguments):
        if kernel not in module._REST:
            super().run(kernel, blocks, threads, *arguments)


def compare(queue, mu, sigma):
    mu = np.atleast_2d(mu)
    sigma = np.atleast_2d(np.broadcast_to(sigma, np.shape(sigma)[:-1] + mu.shape[1:]))
    got = queue.get(argmax(queue, queue.put(mu), queue.put(sigma.copy())))
    assert got.dtype == mu.dtype
    tolerance = 1e-14 if mu.dtype == np.float64 else 1e-6
    np.testing.assert_allclose(got, prob_argmax(mu, sigma), rtol=0.0, atol=tolerance)
    np.testing.assert_allclose(got.sum(axis=1, dtype=np.float64), 1.0, atol=tolerance)


@BOTH
@pytest.mark.parametrize("classes", [1, 2, 10])
def test_one_warp(queue, classes, dtype):
    rng = np.random.default_rng(classes)
    mu = np.concatenate([np.zeros((1, classes)), rng.normal(size=(2, classes)) * 2.0])
    compare(FirstKernel(queue.stream), mu.astype(dtype), 1.0)


@BOTH
def test_several_warps_and_deviations_of_their_own(queue, dtype):
    rng = np.random.default_rng(3)
    mu = rng.normal(size=(2, 37)).astype(dtype)
    mu[1, ::3] = -INF
    compare(FirstKernel(queue.stream), mu, np.exp(0.3 * rng.normal(size=mu.shape)))


def test_more_nodes(queue):
    """Deviations that differ: two finer steps, and more nodes at the ends; and far from 0."""
    mu = np.array(
        [[0.6, 0.1, 0.7, -0.9], [0.0, -1.5, 1.9, 1.1], [1e8, 1e8 + 1.0, 1e8 - 1.0, -40.0]]
    )
    sigma = np.array([[0.86, 1.43, 1.33, 2.01], [0.62, 1.86, 1.01, 0.44], [1.0, 1.0, 1.0, 2.0]])
    compare(FirstKernel(queue.stream), mu, sigma)


def test_no_more_nodes_than_needed(queue, monkeypatch):
    asked, ask = [], module._ask

    def noted(desk, nodes, progress, state):
        asked.append(nodes.count)
        ask(desk, nodes, progress, state)

    monkeypatch.setattr(module, "_ask", noted)
    argmax(queue, queue.put(np.zeros((1, 10))), queue.put(np.ones((1, 10))))
    assert asked == [40, 8, 0]


@BOTH
def test_rows_that_are_left_to_the_second_kernel(queue, dtype):
    mu = np.array([[0.0, 0.1, 0.2], [0.0, 1.0, 1.0], [0.0, 0.5, 0.2], [1.0, 1.0, -INF]], dtype)
    sigma = [[1.0, 1e-6, 1e3], [1.0, 0.0, 0.0], [1.0, 1.0, 1.0], [0.0, 0.0, 0.0]]
    compare(queue, mu, np.array(sigma))
    rng = np.random.default_rng(5)  # here the rule gives up
    compare(queue, rng.normal(size=(4, 6)).astype(dtype), np.exp(rng.normal(size=(4, 6))))


@BOTH
def test_rows_in_turn_and_what_is_no_number(queue, dtype, monkeypatch):
    """Five rows for two blocks."""
    monkeypatch.setattr(factor_memory, "_MEMORY", 0)
    mu = np.tile(np.array([0.0, 0.5, 1.0], dtype), (5, 1))
    mu[1, 0], mu[2, 1] = np.nan, INF
    got = queue.get(argmax(queue, queue.put(mu), queue.put(np.ones((1, 3)))))
    assert np.isnan(got[[1, 2]]).all()
    expected = prob_argmax(mu[0], 1.0)
    np.testing.assert_allclose(got[[0, 3, 4]], np.tile(expected, (3, 1)), rtol=1e-6)


def test_no_rows(queue):
    assert argmax(queue, queue.put(np.ones((0, 3))), queue.put(np.ones((1, 3)))).shape == (0, 3)
