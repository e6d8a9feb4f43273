"""Numbers as bit patterns: how exp and log reach the exponent of a number without a branch."""

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic


def _bitcast(source: types.Type, target: types.Type, llvm_target: ir.Type) -> Any:
    def typed(typingctx: Any, x: types.Type) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.bitcast(args[0], llvm_target)

        return target(source), codegen

    return intrinsic(typed)


float_bits = _bitcast(types.float64, types.int64, ir.IntType(64))
bits_float = _bitcast(types.int64, types.float64, ir.DoubleType())
single_bits = _bitcast(types.float32, types.int32, ir.IntType(32))
bits_single = _bitcast(types.int32, types.float32, ir.FloatType())
