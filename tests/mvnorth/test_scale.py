"""Large dimension: blocked algorithms against plain ones, threads, and memory."""

import subprocess
import sys

import numba
import numpy as np
import pytest

import mvnorth
from mvnorth._compile import for_python
from mvnorth._linalg import cholesky
from mvnorth._linalg.cholesky import parallel_cholesky, square
from mvnorth._linalg.product import LANES, STRIP, padded, subtract_product

cholesky_in_place = for_python(cholesky.cholesky_in_place)
solve_in_place = for_python(cholesky.solve_in_place)
square_plain = for_python(cholesky.square_plain)
EPS = np.finfo(float).eps


@numba.njit
def subtract(C, i, j, A, row, first, B, k, s, rows, columns, count):
    subtract_product(C, i, j, A, row, first, B, k, s, rows, columns, count)


@pytest.fixture
def two_threads():
    before = mvnorth.get_num_threads()
    mvnorth.set_num_threads(2)
    yield
    mvnorth.set_num_threads(before)


@pytest.mark.parametrize(
    ("rows", "strips", "count"), [(1, 1, 1), (7, 2, 63), (12, 3, 200), (4, 1, 0)]
)
def test_product(rows, strips, count):
    rng = np.random.default_rng(rows)
    columns = strips * LANES
    C = rng.normal(size=(rows + 5, columns + 9))
    A, B = rng.normal(size=(rows + 6, count + 3)), rng.normal(size=(count + 2, columns + 7))
    before = C.copy()
    subtract(C, 2, 8, A, 3, 1, B, 2, 5, rows, columns, count)
    expected = A[3 : 3 + rows, 1 : 1 + count] @ B[2:, 5 : 5 + columns]
    assert np.allclose(
        before[2 : 2 + rows, 8 : 8 + columns] - C[2 : 2 + rows, 8 : 8 + columns],
        expected,
        rtol=0.0,
        atol=1e-13,
    )
    assert np.array_equal(C[:2], before[:2])
    assert np.array_equal(C[:, :8], before[:, :8])
    assert np.array_equal(C[:, 8 + columns :], before[:, 8 + columns :])


def _positive_definite(d, small):
    """With eigenvalues from ``small`` to 1, inside the unit matrix of padded size."""
    rng = np.random.default_rng(d)
    Q, _ = np.linalg.qr(rng.normal(size=(d, d)))
    A = np.eye(padded(d))
    A[:d, :d] = (Q * np.geomspace(small, 1.0, d)) @ Q.T
    return A


@pytest.mark.parametrize("small", [0.1, 1e-10])
@pytest.mark.parametrize("d", [1, 5, 48, 49, 64, 100, 257])
def test_cholesky(d, small):
    A = _positive_definite(d, small)
    factored = A.copy()
    cholesky_in_place(factored, d, True)
    L = np.tril(factored)[:d, :d]
    assert np.abs(L @ L.T - A[:d, :d]).max() <= 8 * EPS
    expected = np.linalg.cholesky(A[:d, :d])
    assert np.abs(L - expected).max() <= 10 * d * EPS / small
    x = np.random.default_rng(1).normal(size=d)
    solution = x.copy()
    solve_in_place(factored, solution, d)
    assert np.abs(A[:d, :d] @ solution - x).max() <= 100 * d * EPS * np.abs(solution).max()


def test_cholesky_by_threads_has_the_same_bits(two_threads):
    A = _positive_definite(700, 0.01)
    serial, parallel = A.copy(), A.copy()
    cholesky_in_place(serial, 700, True)
    parallel_cholesky(parallel)
    assert np.array_equal(np.tril(serial), np.tril(parallel))


@pytest.mark.parametrize("d", [1, 16, 40, 150])
def test_square(d):
    rng = np.random.default_rng(d)
    X = np.tril(rng.normal(size=(d, d)), -1)
    diagonal = np.zeros(padded(d))
    diagonal[:d] = rng.normal(size=d)
    expected = (X + np.diag(diagonal[:d])) @ (X + np.diag(diagonal[:d])).T
    S = np.empty((padded(d), padded(d)))
    whole = np.zeros((-(-d // 16) * 16,) * 2)
    whole[:d, :d] = X
    square(whole, diagonal, S, 0, padded(d) // STRIP)
    plain = np.empty((d, d))
    square_plain(X, diagonal, plain, d)
    for found in (S[:d, :d], plain):
        assert np.allclose(np.tril(found), np.tril(expected), rtol=0.0, atol=1e-12)


# ---------------------------------------------------------------- whole calls


@pytest.mark.parametrize("method", ["genz", "tilting"])
def test_threads_do_not_change_a_bit(two_threads, method):
    rng = np.random.default_rng(6)
    d = 300
    loadings = rng.normal(size=(d, d)) / np.sqrt(d)
    L, b = np.linalg.cholesky(loadings @ loadings.T + np.eye(d)), rng.normal(1.5, 1.0, size=(2, d))
    parallel = mvnorth.orthant(b, L, n=4096, method=method)
    single = mvnorth.orthant(b[1], L, n=4096, method=method)
    mvnorth.set_num_threads(1)
    serial = mvnorth.orthant(b, L, n=4096, method=method)
    assert np.array_equal(parallel.log_prob, serial.log_prob)
    assert np.array_equal(parallel.rel_error, serial.rel_error)
    assert single.log_prob == serial.log_prob[1]


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_memory_of_two_thousand_dimensions():
    # The kernel's getrusage counts what the calling process used before it as well.
    code = """
import re
import numpy as np
import mvnorth
d = 2000
L = np.linalg.cholesky(np.eye(d) + 0.5 + 0.1 * np.cos(np.arange(d)[:, None] - np.arange(d)))
result = mvnorth.orthant(np.full(d, 4.0), L, n=2048, method="tilting")
assert result.rel_error < 0.1, result
print(re.search(r"VmHWM:\\s*([0-9]+) kB", open("/proc/self/status").read())[1])
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(run.stdout) * 1024 < 2e9
