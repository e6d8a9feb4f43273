"""Statistics of weighted derivatives over samples, where a thread has whole samples.

For each of three derivatives in every variable: the sum, the sum of absolute values, the largest.
The threads of a block leave the derivatives in four variables in shared memory, 12 rows of 128
numbers.  Then each of 96 threads adds up 16 numbers of a row, and each of 12 threads the eight
results of a row, if the block works for one slot; in general, strands of at most 16 numbers that
belong to one slot.  That is 24 steps and two barriers for four variables, where a tree for each
statistic would take 36 times 7 of both.  Every sum has one owner and one order.
"""

import numpy as np
from numba import cuda

from mvnorth._cuda.groups import THREADS
from mvnorth._cuda.launch import kernel
from mvnorth._scalar.exp_log import log_scaled, power_of_two
from mvnorth._scalar.genz import join_sums

STEPS = 4  # variables whose derivatives lie in shared memory
ROWS = 3 * STEPS
PITCH = THREADS + 8  # strands of neighbouring rows lie in other banks
_LOG_STRAND = 4  # log2 of the numbers that a thread adds up
STRANDS = ROWS * THREADS >> _LOG_STRAND  # where those of a slot are several
_LOG_THREADS = THREADS.bit_length() - 1


@cuda.jit(device=True)
def _add(stats, row, i, total, size, largest, shrink):
    """Add to the statistics (3, 3, d) of a slot, times ``shrink``; it is < 0 for the first."""
    name, i = row // STEPS, i + row % STEPS
    if i >= stats.shape[2]:
        return
    if shrink >= 0.0:
        total += stats[0, name, i] * shrink
        size += stats[1, name, i] * shrink
        largest = max(largest, stats[2, name, i] * shrink)
    stats[0, name, i] = total
    stats[1, name, i] = size
    stats[2, name, i] = largest


@cuda.jit(device=True)
def add_tile(tile, strands, shrink, log_group, stats, first_slot, i):
    """Add the derivatives in STEPS variables from i on to the statistics of a block's slots.

    Parameters
    ----------
    tile : (ROWS, PITCH) weighted derivatives
    strands : (3, STRANDS) work
    shrink : (THREADS,) by thread, see ``_add``
    log_group : log2 of the threads of a slot; divisions would cost more than the sums
    stats : (slots, 3, 3, d), of which the block's begin with ``first_slot``
    """
    thread = cuda.threadIdx.x
    log_length = min(log_group, _LOG_STRAND)
    length = 1 << log_length
    log_of_slot = log_group - log_length  # strands of a slot, and of a row
    log_of_row = _LOG_THREADS - log_length
    cuda.syncthreads()
    for s in range(thread, ROWS << log_of_row, THREADS):
        row, strand = s >> log_of_row, s & ((1 << log_of_row) - 1)
        own = strand >> log_of_slot
        begin = (own << log_group) + (strand & ((1 << log_of_slot) - 1))
        total, size, largest = 0.0, 0.0, 0.0
        for e in range(length):
            # Strands of other slots begin elsewhere, in other banks.
            value = tile[row, begin + (((e + own) & (length - 1)) << log_of_slot)]
            total += value
            size += abs(value)
            largest = max(largest, abs(value))
        if log_of_slot > 0:
            strands[0, s], strands[1, s], strands[2, s] = total, size, largest
        elif first_slot + own < stats.shape[0]:
            _add(stats[first_slot + own], row, i, total, size, largest, shrink[own << log_group])
    cuda.syncthreads()
    if log_of_slot > 0:
        log_slots = _LOG_THREADS - log_group
        for s in range(thread, ROWS << log_slots, THREADS):
            row, own = s >> log_slots, s & ((1 << log_slots) - 1)
            total, size, largest = 0.0, 0.0, 0.0
            for e in range(s << log_of_slot, (s + 1) << log_of_slot):
                total += strands[0, e]
                size += strands[1, e]
                largest = max(largest, strands[2, e])
            if first_slot + own < stats.shape[0]:
                _add(
                    stats[first_slot + own], row, i, total, size, largest, shrink[own << log_group]
                )


@kernel(THREADS, 8)
def join_slices(parts, sums, slices, out, logs):
    """Statistics of all slices of an item together, over the sum of its weights.

    Parameters
    ----------
    parts, sums : (items * slices, 3, 3, d) statistics over 2**top, and (items * slices, 3) total,
        largest and top, see ``join_sums``
    out : (items, 3, 3, d) output; may be ``parts`` if there is one slice
    logs : (items, 2) output: logs of the sum of weights and of the largest weight
    """
    d = out.shape[3]
    index = cuda.grid(1)
    item, entry = index // (9 * d), index % (9 * d)
    if item >= out.shape[0]:
        return
    kind, name, i = entry // (3 * d), entry // d % 3, entry % d
    total, largest, top = 0.0, 0.0, -np.inf
    for s in range(item * slices, (item + 1) * slices):
        total, largest, top = join_sums(total, largest, top, sums[s, 0], sums[s, 1], sums[s, 2])
    joined = 0.0
    for s in range(item * slices, (item + 1) * slices):
        value = parts[s, kind, name, i]
        value = value if sums[s, 2] == top else value * power_of_two(sums[s, 2] - top)
        joined = max(joined, value) if kind == 2 else joined + value
    out[item, kind, name, i] = joined / total if total > 0.0 else 0.0
    if entry == 0:
        logs[item, 0] = log_scaled(total, top) if total > 0.0 else -np.inf
        logs[item, 1] = log_scaled(largest, top) if total > 0.0 else -np.inf
