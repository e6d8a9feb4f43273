"""The same input gives the same bits: over calls, threads, cuts of a batch, and processes."""

import multiprocessing
import os
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import mvnorth
from mvnorth import _threads
from mvnorth._methods import genz

FIELDS = ("prob", "log_prob", "error", "rel_error", "log_bound", "n", "method", "status")


@pytest.fixture(autouse=True)
def _threads_as_before(monkeypatch):
    """Tests may set the number of threads; afterwards it is what it was."""
    monkeypatch.setattr(_threads, "_threads", None)
    monkeypatch.setattr(_threads, "_pool", None)
    monkeypatch.setenv("MVNORTH_NUM_THREADS", "1")


def _factor(rng, d):
    loadings = rng.normal(size=(d, d))
    return np.linalg.cholesky(loadings @ loadings.T + 0.5 * np.eye(d))


def _batch(d, size=24, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(0.3, 1.0, size=(size, d)), _factor(rng, d)


def _bits(values):
    """Something that is equal only for equal bits: also 0.0 and -0.0 differ."""
    array = np.asarray(values)
    return array.view(np.int64).tolist() if array.dtype == np.float64 else array.tolist()


def _assert_same(one, other):
    for name in FIELDS:
        assert _bits(getattr(one, name)) == _bits(getattr(other, name)), name


def _joined(results):
    """One result from those of parts of a batch."""
    columns = [np.concatenate([np.atleast_1d(getattr(r, f)) for r in results]) for f in FIELDS]
    return mvnorth.OrthantResult(*columns)


@pytest.mark.parametrize("n", [None, 3000])
@pytest.mark.parametrize("d", [1, 2, 3, 6])
def test_repeated_calls(d, n):
    m, L = _batch(d)
    _assert_same(mvnorth.orthant(m, L, n), mvnorth.orthant(m, L, n))
    _assert_same(mvnorth.orthant(m[0], L, n, seed=5), mvnorth.orthant(m[0], L, n, seed=5))


@pytest.mark.parametrize("seed", [0, 1, 2**40])
def test_seeds(seed):
    m, L = _batch(5, size=1)
    one = mvnorth.orthant(m, L, 512, seed=seed, method="tilting")
    other = mvnorth.orthant(m, L, 512, seed=seed + 1, method="tilting")
    assert one.prob != other.prob
    assert abs(one.prob - other.prob) <= one.error + other.error


def test_seeds_do_not_matter_to_closed_forms():
    m, L = _batch(3)
    _assert_same(mvnorth.orthant(m, L, seed=0), mvnorth.orthant(m, L, seed=1))


@pytest.mark.parametrize("method", ["genz", "tilting"])
@pytest.mark.parametrize("n", [None, 5000])
@pytest.mark.parametrize("d", [3, 6, 17])
def test_number_of_threads(d, n, method):
    m, L = _batch(d)
    results = []
    for threads in (1, 2, 5):
        mvnorth.set_num_threads(threads)
        results.append(mvnorth.orthant(m, L, n, rtol=1e-2, method=method))
    assert _threads._pool is not None  # the last ones did use threads
    _assert_same(results[0], results[1])
    _assert_same(results[0], results[2])


@pytest.mark.parametrize("method", ["auto", "genz"])
def test_number_of_threads_for_one_large_problem(method):
    m, L = _batch(12, size=1)
    results = []
    for threads in (1, 2, 5):
        mvnorth.set_num_threads(threads)
        results.append(mvnorth.orthant(m[0], L, 2**16, method=method))
    assert _threads._pool is not None
    _assert_same(results[0], results[1])
    _assert_same(results[0], results[2])


def test_number_of_threads_for_closed_forms():
    m, L = _batch(3, size=3000)
    results = []
    for threads in (1, 5):
        mvnorth.set_num_threads(threads)
        results.append(mvnorth.orthant(m, L))
    assert _threads._pool is not None
    _assert_same(results[0], results[1])


@pytest.mark.parametrize("method", ["auto", "genz", "tilting"])
@pytest.mark.parametrize("n", [None, 700])
@pytest.mark.parametrize("d", [1, 2, 3, 4, 7])
def test_cuts_of_a_batch(d, n, method):
    m, L = _batch(d)
    options = {"n": n, "rtol": 1e-3, "method": method}
    whole = mvnorth.orthant(m, L, **options)
    _assert_same(whole, _joined([mvnorth.orthant(row, L, **options) for row in m]))
    parts = [mvnorth.orthant(m[k], L, **options) for k in (slice(5), slice(5, 24))]
    _assert_same(whole, _joined(parts))
    backwards = mvnorth.orthant(m[::-1], L, **options)
    for name in FIELDS:
        assert (getattr(backwards, name)[::-1] == getattr(whole, name)).all()


@pytest.mark.parametrize("d", [2, 3, 6])
def test_one_factor_or_many_copies_of_it(d):
    m, L = _batch(d)
    _assert_same(mvnorth.orthant(m, L), mvnorth.orthant(m, np.stack([L] * len(m))))
    cov = L @ L.T
    covs = np.stack([cov] * len(m))
    _assert_same(mvnorth.box(0.0, np.inf, m, cov), mvnorth.box(0.0, np.inf, m, covs))


def test_cuts_of_a_batch_with_different_blocks():
    rng = np.random.default_rng(3)
    factors = np.stack([_factor(rng, 6) for _ in range(8)])
    factors[::2, 3:, :3] = 0.0  # two blocks of three
    factors[1, 5] = 0.0  # a constant
    m = rng.normal(1.0, 1.0, size=(8, 6))
    m[1, 5] = 1.0
    m[4, 2], m[5, 1], m[6, 0] = np.inf, np.inf, -np.inf
    whole = mvnorth.orthant(m, factors)
    _assert_same(whole, _joined([mvnorth.orthant(m[k], factors[k]) for k in range(8)]))


def test_chunks_of_a_large_batch(monkeypatch):
    """Batches too large for memory are cut inside; here after every third problem."""
    m, L = _batch(6)
    whole, fixed = mvnorth.orthant(m, L), mvnorth.orthant(m, L, 999)
    monkeypatch.setattr(genz, "_CHUNK", 3 * 36)
    _assert_same(whole, mvnorth.orthant(m, L))
    _assert_same(fixed, mvnorth.orthant(m, L, 999))


@pytest.mark.parametrize("threads", [1, 3])
def test_calls_from_several_python_threads(threads):
    problems = [_batch(d, size=6, seed=d) for d in (2, 3, 4, 5, 6, 9)] * 4
    expected = [mvnorth.orthant(m, L) for m, L in problems]
    mvnorth.set_num_threads(threads)
    barrier = threading.Barrier(6)

    def solve(problem):
        barrier.wait(timeout=60)
        return mvnorth.orthant(*problem)

    with ThreadPoolExecutor(6) as pool:
        results = list(pool.map(solve, problems))
    for one, other in zip(expected, results, strict=True):
        _assert_same(one, other)


def test_threads_may_be_set_while_others_compute():
    """Another thread's call in the middle of ``run_items``: here from its arithmetic."""

    class Items(int):
        def __mul__(self, other):
            mvnorth.set_num_threads(3)
            return int(self) * other

    mvnorth.set_num_threads(2)
    seen = []
    _threads.run_items(lambda begin, end: seen.extend(range(begin, end)), Items(50), cost=1.0)
    assert sorted(seen) == list(range(50))


def _solve_in_child(connection, m, L):
    try:
        result = mvnorth.orthant(m, L, 5000)
        connection.send((result.prob.tobytes(), _threads._pool is not None))
    finally:
        connection.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_has_its_own_threads():
    m, L = _batch(8)
    mvnorth.set_num_threads(3)
    expected = mvnorth.orthant(m, L, 5000)
    assert _threads._pool is not None
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=_solve_in_child, args=(sender, m, L))
    child.start()
    sender.close()
    try:
        assert receiver.poll(60), "the child hangs"
        bits, used_threads = receiver.recv()
    finally:
        child.join(10)
        if child.is_alive():
            child.kill()
            child.join()
    assert child.exitcode == 0
    assert used_threads
    assert bits == expected.prob.tobytes()
    _assert_same(expected, mvnorth.orthant(m, L, 5000))  # the parent's threads still work


def test_where_the_number_of_threads_comes_from(monkeypatch):
    monkeypatch.setenv("MVNORTH_NUM_THREADS", "7")
    assert mvnorth.get_num_threads() == 7
    mvnorth.set_num_threads(2)
    assert mvnorth.get_num_threads() == 2
    monkeypatch.setattr(_threads, "_threads", None)
    for nonsense in ("", "0", "-2", "many"):
        monkeypatch.setenv("MVNORTH_NUM_THREADS", nonsense)
        assert 1 <= mvnorth.get_num_threads() <= os.cpu_count()


@pytest.mark.parametrize("threads", [0, -1, 1.5, "2", None, True])
def test_bad_numbers_of_threads(threads):
    with pytest.raises(ValueError, match="threads must be a positive whole number, got"):
        mvnorth.set_num_threads(threads)


@pytest.mark.parametrize("seed", range(12))
def test_a_last_coordinate_without_noise_of_its_own(seed):
    """Whether rows share the zeros of their factors does not depend on the batch."""
    rng = np.random.default_rng(seed)
    first, second = (np.tril(rng.normal(size=(4, 4))) for _ in range(2))
    for L in (first, second):
        np.fill_diagonal(L, np.abs(np.diagonal(L)))
    first[3, 3] = second[2, 1] = 0.0
    m = rng.normal(size=(2, 4))
    together = mvnorth.orthant(m, np.stack([first, second]), 512)
    for k, L in enumerate((first, second)):
        alone = mvnorth.orthant(m[k], L, 512)
        assert _bits(alone.log_prob) == _bits(together.log_prob[k])
        assert _bits(alone.rel_error) == _bits(together.rel_error[k])
