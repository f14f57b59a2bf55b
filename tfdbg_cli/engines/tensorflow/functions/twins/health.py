"""Which tensors of a function have a nan or an infinity in them, told by the function itself.

TensorFlow's own op for that (`tf.debugging.enable_check_numerics` is made with it) takes as long as
a sum, and a sum of finite numbers may overflow. As few tensors as possible are looked at.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Hashable, Iterator, Sequence
from typing import Any

from tensorflow.core.framework import types_pb2

from tfdbg_cli.engines.kit.op_facts import Search
from tfdbg_cli.engines.tensorflow.functions.definitions import BodyNode, FunctionBody
from tfdbg_cli.engines.tensorflow.functions.twins.body_ops import ops_of, written
from tfdbg_cli.engines.tensorflow.functions.twins.nodes import (
    add_constant,
    add_node,
    add_numbers,
    add_zero,
)
from tfdbg_cli.engines.tensorflow.shared.op_facts import COMPLEX, FACTS, FLOATING

__all__ = ["Health", "to_check", "zeros"]

# A mode of DebugNumericSummaryV2: it gives its number, and 1 if there is a nan or an infinity.
_CURT_HEALTH, _EACH = 2, 2


def zeros(definition: Any, size: int) -> str:
    """As many zeros as `Health.joined` gives numbers."""
    return add_zero(definition, types_pb2.DT_FLOAT, size or 1)


def to_check(
    body: FunctionBody,
    has_arguments: bool,
    unread: Collection[Hashable] = (),
    before: Container[str] | None = None,
) -> Iterator[tuple[BodyNode | None, str, int]]:
    """The tensors of a body in which all that is bad shows: node, reference and type.

    Args:
        body: of a function.
        has_arguments: whether its arguments count.
        unread: node and slot of the tensors that can't be looked at.
        before: the nodes in whose tensors all has to show that is bad in them; ``None``: none.
    """
    # What else an op gives, and nobody takes, may be nothing at all, whatever shape it is said to
    # have: FusedBatchNormGradV3 has two such outputs.
    taken = {*body.returns, *(each for node in body.nodes for each in node.inputs)}
    spare = {
        edge
        for node in body.nodes
        for edge in ((node.name, slot) for slot in range(len(node.outputs)))
        if len(node.outputs) > 1 and edge not in taken
    }
    search = Search(FACTS, hidden={*unread, *spare, *written(body)})
    for node, op in ops_of(body, before):
        for at in search.check(op):
            key: Any = op.outputs[at].key
            output = node.outputs[key[1]]
            yield node, output.reference, output.dtype
    if has_arguments:
        for at, argument in enumerate(body.definition.signature.input_arg):
            if argument.type in FLOATING and ("", at) not in search.told:
                yield None, argument.name, argument.type


class Health:
    """Adds to one function what tells of its tensors.

    Args:
        definition: a copy of the function's, to be changed.
        by_xla: XLA compiles it, and XLA doesn't know TensorFlow's op.
    """

    def __init__(self, definition: Any, by_xla: bool = False) -> None:
        self._definition, self._by_xla = definition, by_xla
        self._told: list[tuple[str, str]] = []  # a tensor, and the numbers that tell of it
        self._parts: list[str] = []
        self._numbers: dict[int, str] = {}
        self._count = 0

    @property
    def size(self) -> int:
        """How many numbers there are; without any there is one zero."""
        return self._count + len(self._told) * (1 if self._by_xla else _EACH) or 1

    @property
    def is_needed(self) -> bool:
        """Whether there is anything to tell of."""
        return bool(self._told or self._parts)

    def watch(self, reference: str, kind: int) -> None:
        """Tell of a tensor."""
        tell = self._as_xla_can if self._by_xla else self._as_ops_can
        self._told.append((reference, tell(reference, kind)))

    def _as_ops_can(self, reference: str, kind: int) -> str:
        if kind in COMPLEX:
            parts = self._add("Bitcast", reference)
            parts.attr["T"].type, parts.attr["type"].type = kind, COMPLEX[kind]
            reference, kind = f"{parts.name}:output:0", COMPLEX[kind]
        if kind == types_pb2.DT_BFLOAT16:  # TensorFlow has this op for GPUs, but not of these
            reference, kind = self._floats(reference, kind), types_pb2.DT_FLOAT
        made = self._add("DebugNumericSummaryV2", reference)
        made.attr["T"].type, made.attr["output_dtype"].type = kind, types_pb2.DT_FLOAT
        made.attr["tensor_debug_mode"].i, made.attr["tensor_id"].i = _CURT_HEALTH, -1
        return f"{made.name}:output:0"

    def _as_xla_can(self, reference: str, kind: int) -> str:
        if kind in COMPLEX:  # the magnitude may be too large, which somebody finds out who looks
            size = self._add("ComplexAbs", reference)
            size.attr["T"].type, size.attr["Tout"].type = kind, COMPLEX[kind]
            reference, kind = f"{size.name}:y:0", COMPLEX[kind]
        flat = self._add("Reshape", reference, self._one_of(-1))
        flat.attr["T"].type, flat.attr["Tshape"].type = kind, types_pb2.DT_INT32
        finite = self._add("IsFinite", f"{flat.name}:output:0")
        finite.attr["T"].type = kind
        every = self._add("All", f"{finite.name}:y:0", self._one_of(0))
        every.attr["Tidx"].type, every.attr["keep_dims"].b = types_pb2.DT_INT32, True
        bad = self._add("LogicalNot", f"{every.name}:output:0")
        return self._floats(f"{bad.name}:y:0", types_pb2.DT_BOOL)

    def _floats(self, reference: str, kind: int) -> str:
        cast = self._add("Cast", reference)
        cast.attr["SrcT"].type, cast.attr["DstT"].type = kind, types_pb2.DT_FLOAT
        return f"{cast.name}:y:0"

    def add(self, reference: str, size: int) -> None:
        """Tell what a function that is called tells."""
        self._parts.append(reference)
        self._count += size

    def joined(self, before: str = "") -> str:
        """All numbers; ``before``: those of earlier iterations, of which the larger ones count."""
        parts = [*self._parts, *(numbers for _, numbers in self._told)]
        joined = self._concatenated(parts or [zeros(self._definition, 1)])
        if not before:
            return joined
        made = self._add("Maximum", before, joined)
        made.attr["T"].type = types_pb2.DT_FLOAT
        return f"{made.name}:z:0"

    def is_bad(self, nodes: Container[str]) -> str:
        """Whether something is, as far as these nodes have made it, or it is an argument."""
        arguments = {each.name for each in self._definition.signature.input_arg}

        def counts(reference: str) -> bool:
            name = reference.partition(":")[0]
            return name in nodes or name in arguments

        parts = [each for each in self._parts if counts(each)]
        told = [numbers for tensor, numbers in self._told if counts(tensor)]
        numbers = self._concatenated([*parts, *told] or [zeros(self._definition, 1)])
        total = self._add("Max", numbers, add_constant(self._definition, 0))
        total.attr["T"].type, total.attr["Tidx"].type = types_pb2.DT_FLOAT, types_pb2.DT_INT32
        above = self._add("Greater", f"{total.name}:output:0", add_numbers(self._definition, 0))
        above.attr["T"].type = types_pb2.DT_FLOAT
        return f"{above.name}:z:0"

    def padded(self, step: str, sizes: Sequence[tuple[str, int]]) -> str:
        """All numbers in their place among those of all branches."""
        parts = [
            self.joined() if name == step else zeros(self._definition, size) for name, size in sizes
        ]
        return self._concatenated(parts)

    def _one_of(self, number: int) -> str:
        """A vector of one integer, the same for all: the optimizer looks at each node."""
        if number not in self._numbers:
            self._numbers[number] = add_constant(self._definition, number, 1)
        return self._numbers[number]

    def _add(self, op: str, *inputs: str) -> Any:
        return add_node(self._definition, op, inputs)

    def _concatenated(self, parts: Sequence[str]) -> str:
        if len(parts) == 1:
            return parts[0]
        made = self._add("ConcatV2", *parts, add_constant(self._definition, 0))
        made.attr["N"].i = len(parts)
        made.attr["T"].type = types_pb2.DT_FLOAT
        made.attr["Tidx"].type = types_pb2.DT_INT32
        return f"{made.name}:output:0"
