"""Operations written as LLVM instructions, because numba compiles them slowly or not at all.

A polynomial spelled out in Python costs two operations to type and to lower for each coefficient;
``np.empty`` costs four compiled functions and, at every call, an allocation.
"""

from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

_DOUBLE = ir.DoubleType()


def polynomial(coefficients: Sequence[float]) -> Any:
    """Return a compiled function of x: Horner's rule, the highest power first."""

    def polynomial_of(typingctx: Any, x: types.Type) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            value = ir.Constant(_DOUBLE, coefficients[0])
            for coefficient in coefficients[1:]:
                product = builder.fmul(value, args[0])
                value = builder.fadd(product, ir.Constant(_DOUBLE, coefficient))
            return value

        return types.float64(types.float64), codegen

    return intrinsic(polynomial_of)


def stack_array(size: int) -> Any:
    """Return a compiled function that gives ``size`` doubles on the stack, not initialised.

    They are gone when the function that asked for them returns.
    """
    array = types.Array(types.float64, 1, "C")

    def new_array(typingctx: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            data = cgutils.alloca_once(builder, ir.ArrayType(_DOUBLE, size))
            out = context.make_array(array)(context, builder)
            shape = cgutils.pack_array(builder, [context.get_constant(types.intp, size)])
            strides = cgutils.pack_array(builder, [context.get_constant(types.intp, 8)])
            context.populate_array(
                out,
                data=builder.bitcast(data, _DOUBLE.as_pointer()),
                shape=shape,
                strides=strides,
                itemsize=context.get_constant(types.intp, 8),
                meminfo=None,
            )
            return out._getvalue()

        return array(), codegen

    return intrinsic(new_array)
