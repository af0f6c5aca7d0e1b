"""Eight cells at once in kernels: load them, add and multiply, store them.

LLVM forms vectors by itself only after it has compared every pair of arrays for overlap, for each line anew, which
costs a quarter of a stencil's time. A `Cells` value is a vector from the start. Each operation is that of a double in
strict IEEE arithmetic, on any machine: narrower registers hold it in parts. Indices are not checked.
"""

import operator
from collections.abc import Callable
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import extending
from numba.core import types

from stencil_app.jit import WIDTH

_VECTOR = ir.VectorType(ir.DoubleType(), WIDTH)
_FLAGS = ir.VectorType(ir.IntType(1), WIDTH)
_NUMBERS = ir.VectorType(ir.IntType(64), WIDTH)


class Cells(types.Type):
    """The type, for numba, of eight doubles in one register."""

    def __init__(self) -> None:
        super().__init__(name=f"float64x{WIDTH}")


@extending.register_model(Cells)
class _CellsModel(extending.models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _VECTOR)  # type: ignore[no-untyped-call]


_CELLS: Any = Cells()


def _intrinsic(define: Callable[..., Any]) -> Any:
    """Make a function of kernels, which call it without the first argument of its definition (decorator)."""
    return extending.intrinsic(define)


def _address(context: Any, builder: Any, array: tuple[Any, Any], index: Any) -> Any:
    kind, value = array
    data = context.make_array(kind)(context, builder, value).data
    return builder.bitcast(builder.gep(data, [index]), _VECTOR.as_pointer())


def _spread(builder: Any, number: Any, kind: Any) -> Any:
    """Return a vector of `kind` whose elements all are `number`."""
    one = builder.insert_element(ir.Constant(kind, ir.Undefined), number, ir.Constant(ir.IntType(32), 0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), WIDTH), None)
    return builder.shuffle_vector(one, one, zeros)


@_intrinsic
def load(typing: Any, u: Any, index: Any) -> Any:
    """load(u, index): the eight values of `u`, float64[::1], from `index` on."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = _address(context, builder, (signature.args[0], arguments[0]), arguments[1])
        return builder.load(pointer, align=8)

    return _CELLS(u, types.int64), generate


@_intrinsic
def store(typing: Any, u: Any, index: Any, cells: Any) -> Any:
    """store(u, index, cells): set the eight values of `u` from `index` on."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = _address(context, builder, (signature.args[0], arguments[0]), arguments[1])
        builder.store(arguments[2], pointer, align=8)

    return types.void(u, types.int64, cells), generate


@_intrinsic
def stream(typing: Any, u: Any, index: Any, cells: Any) -> Any:
    """stream(u, index, cells): store to memory past the caches; `index` starts a cache line. See `drain`."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = _address(context, builder, (signature.args[0], arguments[0]), arguments[1])
        put = builder.store(arguments[2], pointer, align=8 * WIDTH)
        put.set_metadata("nontemporal", builder.module.add_metadata([ir.Constant(ir.IntType(32), 1)]))

    return types.void(u, types.int64, cells), generate


@_intrinsic
def drain(typing: Any) -> Any:
    """drain(): let all processors see what `stream` stored, before a message sends it."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.fence("seq_cst")

    return types.void(), generate


@_intrinsic
def store_first(typing: Any, u: Any, index: Any, cells: Any, count: Any) -> Any:
    """store_first(u, index, cells, count): set only the first `count` values of `u` from `index` on."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = _address(context, builder, (signature.args[0], arguments[0]), arguments[1])
        numbers = ir.Constant(_NUMBERS, list(range(WIDTH)))
        flags = builder.icmp_signed("<", numbers, _spread(builder, arguments[3], _NUMBERS))
        kinds = [_VECTOR, pointer.type, ir.IntType(32), _FLAGS]
        name = f"llvm.masked.store.v{WIDTH}f64.p0"
        put = builder.module.declare_intrinsic(name, (), ir.FunctionType(ir.VoidType(), kinds))
        builder.call(put, [arguments[2], pointer, ir.Constant(ir.IntType(32), 8), flags])

    return types.void(u, types.int64, cells, types.int64), generate


def _operation(name: str) -> Any:
    @_intrinsic
    def combine(typing: Any, one: Any, other: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            parts = [
                value if kind == _CELLS else _spread(builder, value, _VECTOR)
                for kind, value in zip(signature.args, arguments, strict=True)
            ]
            return getattr(builder, name)(*parts)

        return _CELLS(one, other), generate

    # numba demands that both signatures be equal, annotations included.
    def combined(one: Any, other: Any) -> Any:
        return combine(one, other)

    def implementation(one: Any, other: Any) -> Any:
        return combined if {one, other} in ({_CELLS}, {_CELLS, types.float64}) else None

    return implementation


extending.overload(operator.add)(_operation("fadd"))
extending.overload(operator.mul)(_operation("fmul"))
