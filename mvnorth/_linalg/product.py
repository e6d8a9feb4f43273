"""Matrix products: one register tile that all of them are made of.

numba turns a loop into vector code but keeps no array in registers, which costs a third of the
speed that the multiply-adds allow.  The tile is therefore spelled out as instructions.  It adds
in the order of k whatever the size, position or thread, so that no result depends on them.
"""

from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from mvnorth._compile import kernel

ROWS = 4  # of a tile
LANES = 32 if llvm.get_host_cpu_features().get("avx512f") else 8  # columns: what registers hold
STRIP = 32  # columns that blocked algorithms take at a time, a multiple of LANES
_DEPTH = 64  # rows of B that stay in the first-level cache for all rows of A


def _subtract_tile(
    typingctx: Any, C: Any, i: Any, j: Any, A: Any, row: Any, first: Any, B: Any, k: Any, s: Any,
    count: Any,
) -> Any:  # fmt: skip
    """C[i:i+ROWS, j:j+LANES] -= A[row:row+ROWS, first:first+count] @ B[k:k+count, s:s+LANES].

    All three are contiguous matrices of doubles; nothing checks that the tile lies inside.
    """
    number, vector = ir.DoubleType(), ir.VectorType(ir.DoubleType(), LANES)
    index = ir.IntType(64)
    fused = ("contract",)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        def pointer(which: int, row: Any, column: Any, more_rows: int = 0) -> Any:
            array = context.make_array(signature.args[which])(context, builder, args[which])
            width = builder.extract_value(array.shape, 1)
            row = builder.add(row, ir.Constant(index, more_rows))
            return builder.gep(array.data, [builder.add(builder.mul(row, width), column)])

        def load(address: Any, kind: Any) -> Any:
            value = builder.load(builder.bitcast(address, kind.as_pointer()))
            value.align = 8
            return value

        def spread(value: Any) -> Any:
            nothing = ir.Constant(vector, ir.Undefined)
            lane = builder.insert_element(nothing, value, ir.Constant(ir.IntType(32), 0))
            zeros = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
            return builder.shuffle_vector(lane, nothing, zeros)

        i, j, row, first, k, s, count = (args[n] for n in (1, 2, 4, 5, 7, 8, 9))
        outputs = [pointer(0, i, j, r) for r in range(ROWS)]
        a = [pointer(3, row, first, r) for r in range(ROWS)]
        b = pointer(6, k, s)
        b_width = builder.extract_value(
            context.make_array(signature.args[6])(context, builder, args[6]).shape, 1
        )
        before = [load(address, vector) for address in outputs]

        start = builder.block
        loop = builder.append_basic_block("multiply")
        end = builder.append_basic_block("store")
        zero, one = ir.Constant(index, 0), ir.Constant(index, 1)
        builder.cbranch(builder.icmp_signed(">", count, zero), loop, end)
        builder.position_at_end(loop)
        n = builder.phi(index)
        sums = [builder.phi(vector) for _ in range(ROWS)]
        lanes = load(builder.gep(b, [builder.mul(n, b_width)]), vector)
        after = []
        for r in range(ROWS):
            entry = spread(load(builder.gep(a[r], [n]), number))
            product = builder.fmul(entry, lanes, flags=fused)
            after.append(builder.fsub(sums[r], product, flags=fused))
        following = builder.add(n, one)
        builder.cbranch(builder.icmp_signed("<", following, count), loop, end)
        n.add_incoming(zero, start)
        n.add_incoming(following, loop)
        builder.position_at_end(end)
        results = [builder.phi(vector) for _ in range(ROWS)]
        for r in range(ROWS):
            sums[r].add_incoming(before[r], start)
            sums[r].add_incoming(after[r], loop)
            results[r].add_incoming(before[r], start)
            results[r].add_incoming(after[r], loop)
            address = builder.bitcast(outputs[r], vector.as_pointer())
            builder.store(results[r], address).align = 8
        return context.get_dummy_value()

    arguments = (C, i, j, A, row, first, B, k, s, count)
    whole = {1, 2, 4, 5, 7, 8, 9}
    signature = types.void(*(types.int64 if n in whole else x for n, x in enumerate(arguments)))
    return signature, codegen


subtract_tile: Any = intrinsic(_subtract_tile)


def _loop_over_tiles(C, i, j, A, row, first, B, k, s, rows, columns, count):
    for n in range(0, count, _DEPTH):
        depth = _DEPTH if count - n > _DEPTH else count - n
        for lane in range(0, columns, LANES):
            for r in range(0, rows, ROWS):
                subtract_tile(C, i + r, j + lane, A, row + r, first + n, B, k + n, s + lane, depth)


def _subtract_product(
    typingctx: Any, C: Any, i: Any, j: Any, A: Any, row: Any, first: Any, B: Any, k: Any, s: Any,
    rows: Any, columns: Any, count: Any,
) -> Any:  # fmt: skip
    """C[i:i+rows, j:j+columns] -= A[row:row+rows, first:first+count] @ B[k:k+count, s:s+columns].

    ``columns`` is a multiple of LANES.  Rows are taken in tiles of ROWS: up to ROWS - 1 more of C
    are overwritten and of A read, which must be there.
    """

    # An intrinsic, since a compiled function is compiled anew for every constant in a call of it.
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return context.compile_internal(builder, _loop_over_tiles, signature, args)

    arguments = (C, i, j, A, row, first, B, k, s, rows, columns, count)
    arrays = {0, 3, 6}
    signature = types.void(*(x if n in arrays else types.int64 for n, x in enumerate(arguments)))
    return signature, codegen


subtract_product: Any = intrinsic(_subtract_product)


@kernel()
def transpose_strip(X, row, first, count, packed):
    """packed[:count] = X[row:row+STRIP, first:first+count]^T; rows that X lacks are zeros."""
    for r in range(STRIP):
        if row + r < X.shape[0]:
            for k in range(count):
                packed[k, r] = X[row + r, first + k]
        else:
            for k in range(count):
                packed[k, r] = 0.0


def padded(d: int) -> int:
    """Rows and columns of a square matrix whose d are to be taken in strips."""
    return int(-(-d // STRIP) * STRIP)
