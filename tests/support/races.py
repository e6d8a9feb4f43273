"""A judge of simulated kernels: what threads of a block do to the same memory between barriers.

Whether a missing barrier shows in results depends on how threads happen to take turns.  Here it
always does: threads note which numbers they write and read between barriers, in shared memory and
in global memory that kernels work in.  Two threads of a block must not meet at a number that one
of them writes, nor two blocks of a launch; and all threads must wait at the same barriers.
"""

import sys
import threading

import numpy as np
import pytest
from numba.cuda.simulator.cudadrv.devicearray import FakeCUDAArray
from numba.cuda.simulator.kernel import BlockThread
from numba.cuda.simulator.kernelapi import FakeCUDAShared

from mvnorth._cuda.launch import Queue


class Watched(np.ndarray):
    """An array, or part of one, whose readers and writers are noted, number by number."""

    def _note(self, index, writes):
        noted = getattr(threading.current_thread(), "noted", None)
        index = index if isinstance(index, tuple) else (index,)
        if noted is None or len(index) != self.ndim:
            return
        address = self.__array_interface__["data"][0]
        for i, step in zip(index, self.strides, strict=True):
            address += int(i) * step
        epoch = len(threading.current_thread().barriers)
        noted[epoch, address, writes] = _place(sys._getframe(2))

    def __getitem__(self, index):
        self._note(index, False)
        return super().__getitem__(index)

    def __setitem__(self, index, value):
        self._note(index, True)
        super().__setitem__(index, value)


def _place(frame):
    return frame.f_code.co_name, frame.f_lineno


def _memory(shape, dtype):
    """NaN, so that nothing is made of it by chance."""
    dtype = np.dtype(dtype)
    return np.full(shape, np.nan if dtype.kind == "f" else 99, dtype).view(Watched)


class Watch:
    """Launches so far: how many accesses were noted, and what was wrong with them."""

    def __init__(self):
        self.accesses, self.wrong, self.threads, self.shared = 0, set(), [], []

    def judge(self):
        """Look through what the threads of a launch noted."""
        owners = {"two threads": {}, "two blocks": {}}
        for thread in self.threads:
            block = thread.blockIdx.x
            self.accesses += len(thread.noted)
            for (epoch, address, writes), place in thread.noted.items():
                meetings = [("two threads", (block, epoch, address), thread)]
                if not any(address in memory for memory in self.shared):
                    meetings.append(("two blocks", address, block))
                for kind, where, who in meetings:
                    owners[kind].setdefault(where, []).append((who, writes, place))
        for kind, all_accesses in owners.items():
            for accesses in all_accesses.values():
                writers = {who for who, writes, _ in accesses if writes}
                if writers and len({who for who, _, _ in accesses}) > 1:
                    self.wrong.add((kind, frozenset(place for _, _, place in accesses)))
        barriers = {}
        for thread in self.threads:
            first = barriers.setdefault(thread.blockIdx.x, thread.barriers)
            if thread.barriers != first:
                self.wrong.add(("different barriers", frozenset({*thread.barriers} ^ {*first})))
        self.threads.clear()


@pytest.fixture
def watch(monkeypatch):
    """A watch over launches, shared arrays and memory that queues give."""
    watch, lock = Watch(), threading.Lock()
    launch, wait, run = Queue.run, BlockThread.syncthreads, BlockThread.run
    kept = []  # so that no memory is used twice

    def launching(queue, *arguments):
        launch(queue, *arguments)
        watch.judge()

    def sharing(self, shape, dtype, alignment=None):
        line = sys._getframe(1)
        with lock:
            made = self._allocations.get(_place(line))
            if made is None:
                made = self._allocations[_place(line)] = _memory(shape, str(dtype))
                start = made.__array_interface__["data"][0]
                watch.shared.append(range(start, start + made.nbytes))
                kept.append(made)
            return made

    def waiting(thread):
        thread.barriers.append(_place(sys._getframe(2)))
        wait(thread)

    def running(thread):
        thread.noted, thread.barriers = {}, []
        watch.threads.append(thread)
        run(thread)

    def making(queue, shape, dtype=np.float64):
        kept.append(_memory(shape, dtype))
        return FakeCUDAArray(kept[-1])

    monkeypatch.setattr(FakeCUDAShared, "array", sharing)
    monkeypatch.setattr(BlockThread, "syncthreads", waiting)
    monkeypatch.setattr(BlockThread, "run", running)
    monkeypatch.setattr(Queue, "run", launching)
    monkeypatch.setattr(Queue, "empty", making)
    return watch
