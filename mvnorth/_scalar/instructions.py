"""Operations written as LLVM instructions, because numba compiles them slowly or not at all.

A polynomial spelled out in Python costs two operations to type and to lower for each coefficient;
``np.empty`` costs four compiled functions and, at every call, an allocation.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

_DOUBLE = ir.DoubleType()


def polynomial(coefficients: Sequence[float]) -> Any:
    """Return a compiled function of x: Horner's rule, the highest power first."""
    return _horner(coefficients, _DOUBLE, types.float64)


def single_polynomial(coefficients: Sequence[float]) -> Any:
    """Return the same in single precision."""
    rounded = [float(np.float32(coefficient)) for coefficient in coefficients]
    return _horner(rounded, ir.FloatType(), types.float32)


def _horner(coefficients: Sequence[float], llvm_type: ir.Type, number: types.Type) -> Any:
    def polynomial_of(typingctx: Any, x: types.Type) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            value = ir.Constant(llvm_type, coefficients[0])
            for coefficient in coefficients[1:]:
                product = builder.fmul(value, args[0])
                value = builder.fadd(product, ir.Constant(llvm_type, coefficient))
            return value

        return number(number), codegen

    return intrinsic(polynomial_of)


def stack_array(size: int, number: types.Type = types.float64) -> Any:
    """Return a compiled function that gives ``size`` numbers on the stack, not initialised.

    They are gone when the function that asked for them returns.
    """
    array = types.Array(number, 1, "C")
    llvm_type = ir.FloatType() if number == types.float32 else _DOUBLE

    def new_array(typingctx: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            data = cgutils.alloca_once(builder, ir.ArrayType(llvm_type, size))
            out = context.make_array(array)(context, builder)
            bytes_each = context.get_constant(types.intp, number.bitwidth // 8)
            shape = cgutils.pack_array(builder, [context.get_constant(types.intp, size)])
            strides = cgutils.pack_array(builder, [bytes_each])
            context.populate_array(
                out,
                data=builder.bitcast(data, llvm_type.as_pointer()),
                shape=shape,
                strides=strides,
                itemsize=bytes_each,
                meminfo=None,
            )
            return out._getvalue()

        return array(), codegen

    return intrinsic(new_array)
