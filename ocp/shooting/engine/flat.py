"""Flat views of arrays without reference counts, and the sum of eight lanes: what sweeps over many small matrices need besides
``dynamics.loops.lanes``.

A view from ``flat`` must not outlive its array; inside one compiled call on arrays of the caller it cannot.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array

from dynamics.loops.lanes import WIDTH, LanesType


@intrinsic
def flat(typingctx: Any, array: Any) -> Any:
    """flat(array) -> the same numbers as a one-dimensional array; of C-contiguous arrays only."""
    if not (isinstance(array, types.Array) and array.layout == "C"):
        return None
    kind = types.Array(array.dtype, 1, "C")

    def codegen(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        source = context.make_array(sig.args[0])(context, builder, values[0])
        out = context.make_array(kind)(context, builder)
        # no meminfo: whoever copies or drops this view has nothing to count
        populate_array(out, data=source.data, shape=[source.nitems], strides=[source.itemsize], itemsize=source.itemsize, meminfo=None)
        return out._getvalue()

    return kind(array), codegen


@intrinsic
def total(typingctx: Any, value: Any) -> Any:
    """total(lanes) -> their sum, in pairs."""
    def codegen(context: Any, builder: Any, sig: Any, values: Any) -> Any:
        index, vector = ir.IntType(32), values[0]
        width = WIDTH
        while width > 1:
            width //= 2
            kind = ir.VectorType(index, width)
            low = builder.shuffle_vector(vector, vector, ir.Constant(kind, list(range(width))))
            high = builder.shuffle_vector(vector, vector, ir.Constant(kind, list(range(width, 2 * width))))
            vector = builder.fadd(low, high)
        return builder.extract_element(vector, ir.Constant(index, 0))

    return (types.float64(value), codegen) if isinstance(value, LanesType) else None
