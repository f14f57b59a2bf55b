"""Which iterations of a loop are held: all, as long as they fit in memory.

Where they don't, those before are let go and it begins anew; the first bad one stays, and what is
behind it isn't held. All that is in the graph: three more numbers go round with the loop.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from tensorflow.core.framework import types_pb2
from tensorflow.python.framework import dtypes

from tfdbg_cli.common.memory import available_memory
from tfdbg_cli.engines.tensorflow.functions.twins.nodes import add_constant, add_node, add_numbers

__all__ = ["DEFAULT_ROOM", "NUMBERS", "IterationWindow", "Window"]

#: As many bytes of one loop are held where nobody says how many.
DEFAULT_ROOM = available_memory(8 << 30) // 8

#: How many numbers go round: bytes, how many iterations were let go, how many are held.
NUMBERS = 3
_OF_TEXT = 32  # about
_FLOAT = types_pb2.DT_FLOAT


class IterationWindow(NamedTuple):
    """Which iterations of a loop there are.

    Attributes:
        first: the number of the first one.
        length: how many there are.
        is_cut: there were more after the first bad one.
    """

    first: int
    length: int
    is_cut: bool

    @classmethod
    def of(cls, numbers: Iterable[Any]) -> IterationWindow:
        """As a loop has returned them."""
        size, first, count = (float(each) for each in numbers)
        return cls(int(first), int(count), math.isinf(size))


class Window:
    """Lets a loop hold what fits in memory.

    Args:
        definition: of the loop's body.
        tensors: of each tensor that is to be held its reference and type.
        sizes: the numbers of those that say how many bytes a list has, which is another one.
        numbers: the arguments that go round.
        health: that of the iterations before; empty: there is none.
        limit: how many bytes may be held.

    Attributes:
        results: what goes round in the next iteration.
    """

    def __init__(
        self,
        definition: Any,
        tensors: Sequence[tuple[str, int]],
        sizes: Iterable[int],
        numbers: Sequence[str],
        health: str,
        limit: int,
    ) -> None:
        self._definition = definition
        size, first, count = numbers
        zero, one = self._number(0), self._number(1)
        own = self._size(tensors, frozenset(sizes))
        total = self._binary("AddV2", size, own)
        over = self._binary("Greater", total, self._number(limit))
        over = self._binary("LogicalAnd", over, self._binary("Greater", count, zero))
        if health:
            most = add_node(definition, "Max", [health, add_constant(definition, 0)])
            most.attr["T"].type, most.attr["Tidx"].type = _FLOAT, types_pb2.DT_INT32
            is_bad = self._binary("Greater", f"{most.name}:output:0", zero)
        else:
            is_bad = self._binary("Less", one, zero)
        stays = self._binary("LogicalAnd", over, is_bad)
        anew = self._binary(
            "Greater", self._select(over, one, zero), self._select(stays, one, zero)
        )
        kept = self._select(anew, zero, count)
        more = self._select(stays, count, self._binary("AddV2", kept, one))
        let_go = self._binary("AddV2", first, self._binary("Sub", count, kept))
        rest = self._select(anew, own, total)
        self.results = [self._select(stays, self._number(math.inf), rest), let_go, more]
        cast = add_node(definition, "Cast", [kept])
        cast.attr["SrcT"].type, cast.attr["DstT"].type = _FLOAT, types_pb2.DT_INT32
        self._kept = f"{cast.name}:y:0"

    def push(self, held: str, reference: str, kind: int) -> str:
        """A list with what an iteration has made; behind the end there may be one more."""
        resized = add_node(self._definition, "TensorListResize", [held, self._kept])
        made = add_node(
            self._definition, "TensorListPushBack", [f"{resized.name}:output_handle:0", reference]
        )
        made.attr["element_dtype"].type = kind
        return f"{made.name}:output_handle:0"

    def _size(self, tensors: Sequence[tuple[str, int]], sizes: frozenset[int]) -> str:
        """How many bytes an iteration takes."""
        definition, parts, counted, each = self._definition, [], [], []
        tensors = self._behind(tensors)
        for at, (reference, kind) in enumerate(tensors):
            if at in sizes:
                parts.append(reference)
            elif kind != types_pb2.DT_VARIANT:
                size = add_node(definition, "Size", [reference])
                size.attr["T"].type, size.attr["out_type"].type = kind, types_pb2.DT_INT32
                counted.append(f"{size.name}:output:0")
                text = kind == types_pb2.DT_STRING
                each.append(_OF_TEXT if text else dtypes.as_dtype(kind).size)
        if counted:
            sizes_of = self._packed(counted, types_pb2.DT_INT32)
            cast = add_node(definition, "Cast", [sizes_of])
            cast.attr["SrcT"].type, cast.attr["DstT"].type = types_pb2.DT_INT32, _FLOAT
            parts.append(self._sum(self._binary("Mul", f"{cast.name}:y:0", self._numbers(each))))
        if len(parts) > 1:
            return self._sum(self._packed(parts, _FLOAT))
        return parts[0] if parts else self._number(0)

    def _behind(self, tensors: Sequence[tuple[str, int]]) -> list[tuple[str, int]]:
        """The same tensors, where the optimizer doesn't know their shapes.

        A size that it knows it would put in as a constant that waits for the tensor's op, and an
        op that somebody waits for isn't fused with others.
        """
        kinds = [kind for _, kind in tensors]
        held = add_node(self._definition, "OptionalFromValue", [each for each, _ in tensors])
        held.attr["Toutput_types"].list.type.extend(kinds)
        made = add_node(self._definition, "OptionalGetValue", [f"{held.name}:optional:0"])
        made.attr["output_types"].list.type.extend(kinds)
        for _ in kinds:
            made.attr["output_shapes"].list.shape.add(unknown_rank=True)
        return [(f"{made.name}:components:{at}", kind) for at, kind in enumerate(kinds)]

    def _packed(self, parts: Sequence[str], kind: int) -> str:
        made = add_node(self._definition, "Pack", list(parts))
        made.attr["N"].i, made.attr["T"].type = len(parts), kind
        return f"{made.name}:output:0"

    def _sum(self, reference: str) -> str:
        made = add_node(self._definition, "Sum", [reference, add_constant(self._definition, 0)])
        made.attr["T"].type, made.attr["Tidx"].type = _FLOAT, types_pb2.DT_INT32
        return f"{made.name}:output:0"

    def _binary(self, op: str, one: str, other: str) -> str:
        made = add_node(self._definition, op, [one, other])
        if op != "LogicalAnd":
            made.attr["T"].type = _FLOAT
        return f"{made.name}:z:0"

    def _select(self, condition: str, one: str, other: str) -> str:
        made = add_node(self._definition, "SelectV2", [condition, one, other])
        made.attr["T"].type = _FLOAT
        return f"{made.name}:output:0"

    def _number(self, number: float) -> str:
        return add_numbers(self._definition, number)

    def _numbers(self, numbers: Sequence[float]) -> str:
        return add_numbers(self._definition, *numbers, is_scalar=False)
