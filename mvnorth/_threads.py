"""Threads: kernels release the GIL, so a plain thread pool runs them side by side.

Work is cut into items whose results do not depend on who computes them, so the number of
threads never changes a bit of any result.
"""

import itertools
import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

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
    limits the number of threads further.
    """
    global _pool
    threads = min(get_num_threads(), items, most or items)
    if threads == 1 or cost < 2e-4:
        kernel(0, items)
        return
    pool = _pool  # another thread may set the number of threads, and so the pool, meanwhile
    if pool is None:
        pool = _pool = ThreadPoolExecutor(get_num_threads(), thread_name_prefix="mvnorth")
    # Pieces of a millisecond or more, up to eight a thread; who has finished one takes the next.
    pieces = min(items, threads * (1 + min(7, int(1e3 * cost / threads))))
    edges = [items * k // pieces for k in range(pieces + 1)]
    waiting = deque(itertools.pairwise(edges))

    def work() -> None:
        while True:
            try:
                piece = waiting.popleft()
            except IndexError:
                return
            kernel(*piece)

    others = [pool.submit(work) for _ in range(threads - 1)]
    work()
    for other in others:
        if not other.cancel():
            other.result()
