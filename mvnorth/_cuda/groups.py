"""Points of shifted lattices over threads, where a thread takes whole samples.

An item is one shift of one row.  With fewer points than a block has threads, a block serves
several items, each by a group of threads; with more, an item's points are cut into slices, each
for a block, so that a single row fills a device.  A slot is one slice of one item: the work of
one group.  Sums depend neither on the device nor on how many rows there are.
"""

from dataclasses import dataclass

from numba import cuda

from mvnorth._points import Points
from mvnorth._scalar.genz import join_sums

THREADS = 128  # of a block; groups are powers of two up to it
SLICES = 256  # of the points of an item, at most: eight items are two waves of the largest devices


@dataclass(frozen=True)
class Split:
    """How points are split.

    Attributes
    ----------
    group : threads a slot
    share : points a slot, a multiple of ``group``; the last slice of an item may have fewer
    slices : slots an item
    """

    group: int
    share: int
    slices: int

    @classmethod
    def of(cls, points: int, most: int) -> "Split":
        """At most ``most`` slices."""
        group = min(THREADS, 1 << (points - 1).bit_length())
        rounds = -(-points // group)
        share = -(-rounds // max(1, min(rounds, most))) * group
        return cls(group, share, -(-points // share))

    @property
    def log_group(self) -> int:
        return self.group.bit_length() - 1

    def blocks(self, items: int) -> int:
        return -(-items * self.slices * self.group // THREADS)


def progression(points: Points) -> tuple[int, int, int]:
    """First numerator, step and number of the points of a shift, over all parts."""
    return int(points.start[0]), int(points.stride), int(points.start.size * points.count)


@cuda.jit(device=True)
def join_group(total, largest, top, group, shared):
    """The ``join_sums`` of all threads of a group, on each of them.

    All threads of the block must call it.

    Parameters
    ----------
    shared : (3, THREADS) in shared memory
    """
    thread = cuda.threadIdx.x
    shared[0, thread], shared[1, thread], shared[2, thread] = total, largest, top
    cuda.syncthreads()
    step = group // 2
    while step > 0:
        if thread % group < step:
            other = thread + step
            total, largest, top = join_sums(
                total, largest, top, shared[0, other], shared[1, other], shared[2, other]
            )
            shared[0, thread], shared[1, thread], shared[2, thread] = total, largest, top
        cuda.syncthreads()
        step //= 2
    leader = thread - thread % group
    total, largest, top = shared[0, leader], shared[1, leader], shared[2, leader]
    cuda.syncthreads()  # nobody writes before all have read
    return total, largest, top
