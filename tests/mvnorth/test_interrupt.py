"""Ctrl-C ends a long call soon, in any number of threads, and the next call works."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import mvnorth
from mvnorth import _threads

ROOT = Path(__file__).parents[2]
LONG = {  # calls of minutes; most of their time is spent in kernels
    "sampled": 'mvnorth.orthant(np.zeros(5), L, 2_000_000_000, method="tilting")',
    "rows": 'mvnorth.orthant(np.zeros((50_000, 5)), L, 100_000, method="tilting")',
    "one row": "mvnorth.prob_topk(np.zeros(20_000), 1.0, 2_000)",
}


def program(call, caught):
    text = f"""
        import signal
        import numpy as np
        import mvnorth

        # A shell starts what runs in the background with this signal ignored.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        k = np.arange(5)
        L = np.linalg.cholesky(np.eye(5) + 0.5 / (1 + k + k[:, None]))
        before = mvnorth.orthant(np.full((9, 5), 0.1), L, 4000, method="tilting").log_prob
        mvnorth.prob_topk(np.zeros(3), 1.0, 2)
        print("ready", flush=True)
        try:
            {call}
        except KeyboardInterrupt:
            print("interrupted", flush=True)
            if not {caught}:
                raise
        after = mvnorth.orthant(np.full((9, 5), 0.1), L, 4000, method="tilting").log_prob
        print(np.array_equal(before, after))
        """
    return textwrap.dedent(text)


@pytest.mark.skipif(os.name == "nt", reason="signals are sent in another way")
@pytest.mark.parametrize(("threads", "caught"), [(1, False), (2, True)])
@pytest.mark.parametrize("call", LONG)
def test_interrupt(call, threads, caught):
    process = subprocess.Popen(
        [sys.executable, "-c", program(LONG[call], caught)],
        env=os.environ | {"MVNORTH_NUM_THREADS": str(threads)},
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stdout.readline() == "ready\n"
        time.sleep(1.0)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20.0)
    finally:
        process.kill()
        process.communicate()
    if caught:
        assert (process.returncode, out) == (0, "interrupted\nTrue\n"), err
    else:
        assert out == "interrupted\n"
        assert process.returncode == -signal.SIGINT
        assert err.rstrip().endswith("KeyboardInterrupt")


@pytest.fixture
def threads(request, monkeypatch):
    monkeypatch.setattr(_threads, "_threads", request.param)
    monkeypatch.setattr(_threads, "_pool", None)
    return request.param


@pytest.mark.parametrize("threads", [1, 2, 5], indirect=True)
@pytest.mark.parametrize("cost", [0.0, 1e-3, 1.0, 1e4])
@pytest.mark.parametrize("items", [1, 2, 7, 1000])
def test_every_item_is_computed_once(threads, items, cost):
    done = np.zeros(items, dtype=int)

    def kernel(begin, end):
        assert begin < end
        done[begin:end] += 1

    _threads.run_items(kernel, items, cost)
    assert (done == 1).all()


@pytest.mark.parametrize("threads", [1, 2], indirect=True)
def test_pieces_follow_the_time_that_they_take(threads):
    """The estimate of the cost is a hundred times too low; pieces get shorter."""
    lengths = []

    def kernel(begin, end):
        lengths.append(end - begin)
        time.sleep(0.01 * (end - begin))

    _threads.run_items(kernel, 200, 0.02)
    assert sum(lengths) == 200
    assert max(lengths[len(lengths) // 2 :]) < 20


@pytest.mark.parametrize("threads", [1, 2], indirect=True)
def test_an_exception_stops_all_threads(threads):
    calls, caller = [], threading.get_ident()

    def kernel(begin, end):
        calls.append(begin)
        if threading.get_ident() == caller:
            raise KeyboardInterrupt
        time.sleep(0.01)

    with pytest.raises(KeyboardInterrupt):
        _threads.run_items(kernel, 10_000, 100.0)
    made = len(calls)
    assert made < 100
    time.sleep(0.1)
    assert len(calls) == made  # nothing goes on behind the caller's back


@pytest.mark.parametrize("threads", [2], indirect=True)
def test_an_exception_in_another_thread_is_raised(threads):
    caller = threading.get_ident()

    def kernel(begin, end):
        if threading.get_ident() != caller:
            raise ZeroDivisionError
        time.sleep(0.01)

    with pytest.raises(ZeroDivisionError):
        _threads.run_items(kernel, 2000, 100.0)


@pytest.mark.parametrize("threads", [1, 2], indirect=True)
def test_items_of_seconds_run_in_threads_that_can_be_left_behind(threads):
    callers, done = set(), []

    def kernel(begin, end):
        callers.add(threading.current_thread())
        done.extend(range(begin, end))
        time.sleep(0.05)
        if end == 100:
            raise ZeroDivisionError

    _threads.run_items(kernel, 5, 10.0)
    assert sorted(done) == [0, 1, 2, 3, 4]
    assert len(callers) == threads
    assert all(thread.daemon for thread in callers)
    with pytest.raises(ZeroDivisionError):
        _threads.run_items(lambda begin, end: kernel(begin, 100), 2, 10.0)


def test_pieces_do_not_change_a_bit(monkeypatch):
    L = np.linalg.cholesky(np.eye(5) + np.full((5, 5), 0.2) + np.diag(np.arange(5.0)))
    m = np.linspace(-1.0, 1.0, 35).reshape(7, 5)
    bits = set()
    for piece, short in ((1e9, 1e9), (1e-9, 0.0), (1e-4, 0.0)):
        monkeypatch.setattr(_threads, "_PIECE", piece)
        monkeypatch.setattr(_threads, "_SHORT", short)
        result = mvnorth.orthant_grad(m, L, 3000, wrt=("m", "L"))
        arrays = (result.log_prob, result.rel_error, result.grad_m, result.grad_L)
        bits.add(b"".join(a.tobytes() for a in arrays))
    assert len(bits) == 1
