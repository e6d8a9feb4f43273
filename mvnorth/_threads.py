"""Threads: kernels release the GIL, so a plain thread pool runs them side by side.

Work is cut into items whose results do not depend on who computes them, nor with which others, so
neither the number of threads nor the time that pieces take changes a bit of any result.
"""

import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait

import numpy as np

_PIECE = 0.05  # seconds that a piece of work is to take, so that Ctrl-C is noticed soon
_SHORT = 0.01  # seconds of work, by an estimate that may be low, that are not cut into pieces

_pool: ThreadPoolExecutor | None = None
_threads: int | None = None


def get_num_threads() -> int:
    """Number of threads that kernels use.

    The number last given to ``set_num_threads``; before that the environment variable
    ``MVNORTH_NUM_THREADS`` or, without it, the number of cores this process may use.

    Returns
    -------
    int

    Examples
    --------
    >>> import mvnorth
    >>> mvnorth.get_num_threads() >= 1
    True
    """
    if _threads is not None:
        return _threads
    given = os.environ.get("MVNORTH_NUM_THREADS", "")
    if given.isdecimal() and int(given) > 0:
        return int(given)
    if hasattr(os, "sched_getaffinity"):  # not on macOS and Windows
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def set_num_threads(threads: int) -> None:
    """Set the number of threads that kernels use; results do not depend on it.

    Parameters
    ----------
    threads : int
        At least 1.

    Examples
    --------
    >>> import mvnorth
    >>> mvnorth.set_num_threads(1)
    """
    global _threads, _pool
    whole = isinstance(threads, (int, np.integer)) and not isinstance(threads, bool)
    if not whole or threads < 1:
        raise ValueError(f"threads must be a positive whole number, got {threads!r}")
    _threads, _pool = int(threads), None


def _forget_pool() -> None:
    global _pool
    _pool = None


if hasattr(os, "register_at_fork"):  # a forked child has the pool object but not its threads
    os.register_at_fork(after_in_child=_forget_pool)


def run_items(
    kernel: Callable[[int, int], object], items: int, cost: float, most: int | None = None
) -> None:
    """Call ``kernel(begin, end)`` over pieces of range(items); ``cost`` is seconds in all.

    Small work stays in the calling thread: waking another one takes some 50 microseconds.  ``most``
    limits the number of threads further.  Python acts on Ctrl-C between pieces: an interrupt is
    raised when the pieces at work are done, and no thread begins another.
    """
    global _pool
    if cost < 2e-4:
        kernel(0, items)
        return
    threads = min(get_num_threads(), items, most or items)
    if threads == 1 and cost < _SHORT:
        kernel(0, items)
        return
    if cost > _PIECE * items:  # not even one item at a time is short enough
        _run_apart(_Pieces(kernel, items, 1, 1), threads)
        return
    if threads == 1:
        _Pieces(kernel, items, max(1, int(items * _SHORT / cost)), items).work()
        return
    pool = _pool  # another thread may set the number of threads, and so the pool, meanwhile
    if pool is None:
        pool = _pool = ThreadPoolExecutor(get_num_threads(), thread_name_prefix="mvnorth")
    # Pieces of a millisecond or more, at least eight a thread; who has finished one takes the next.
    largest = -(-items // (threads * (1 + min(7, int(1e3 * cost / threads)))))
    pieces = _Pieces(kernel, items, min(largest, max(1, int(items * _PIECE / cost))), largest)
    others: list[Future] = []
    try:
        others += [pool.submit(pieces.work) for _ in range(threads - 1)]
        pieces.work()
        for other in others:
            if not other.cancel():
                other.result()
    except BaseException:  # KeyboardInterrupt too
        pieces.stop()
        wait([other for other in others if not other.cancel()])
        raise


def _run_apart(pieces: "_Pieces", threads: int) -> None:
    """Let other threads work, which an interrupt leaves behind: their items take long.

    They keep what they write to alive, end with the items that they are at, and do not keep the
    process from ending, as those of the pool would.
    """
    ends: list[Future] = [Future() for _ in range(threads)]

    def work(end: Future) -> None:
        try:
            pieces.work()
            end.set_result(None)
        except BaseException as error:
            end.set_exception(error)

    try:
        for end in ends:
            threading.Thread(target=work, args=(end,), name="mvnorth", daemon=True).start()
        for end in ends:
            while not wait([end], timeout=_PIECE).done:  # signals may arrive at another thread
                pass
            end.result()
    finally:
        pieces.stop()


class _Pieces:
    """Work cut into pieces, whose length follows the time that they take."""

    def __init__(
        self, kernel: Callable[[int, int], object], items: int, first: int, largest: int
    ) -> None:
        self._kernel, self._items, self._largest = kernel, items, largest
        self._begin, self._length = 0, first
        self._lock = threading.Lock()

    def work(self) -> None:
        """Call the kernel until no piece is left."""
        while True:
            with self._lock:
                begin, length = self._begin, self._length
                end = self._begin = min(begin + length, self._items)
            if begin == end:
                return
            start = time.perf_counter()
            self._kernel(begin, end)
            seconds = time.perf_counter() - start
            fitting = int((end - begin) * _PIECE / max(seconds, 1e-9))
            self._length = max(1, min(fitting, 4 * length, self._largest))

    def stop(self) -> None:
        """Let no further piece begin."""
        with self._lock:
            self._begin = self._items
