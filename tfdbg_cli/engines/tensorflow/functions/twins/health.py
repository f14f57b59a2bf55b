"""Which tensors of a function have a nan or an infinity in them, told by the function itself.

A sum of a tensor's elements is no number if one of them isn't. (It may also be too large for one,
which somebody finds out who looks.) It is made of as few tensors as will do: something bad that an
op hands on in any case is seen where it gets to.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from typing import Any

from tensorflow.core.framework import types_pb2

from tfdbg_cli.engines.tensorflow.functions.bodies import BodyNode, FunctionBody
from tfdbg_cli.engines.tensorflow.functions.twins.nodes import (
    add_constant,
    add_node,
    add_numbers,
    add_zero,
)

__all__ = ["Health", "to_check", "zeros"]

_COMPLEX = {
    types_pb2.DT_COMPLEX64: types_pb2.DT_FLOAT,
    types_pb2.DT_COMPLEX128: types_pb2.DT_DOUBLE,
}
_FLOATING = frozenset(
    {types_pb2.DT_BFLOAT16, types_pb2.DT_DOUBLE, types_pb2.DT_FLOAT, types_pb2.DT_HALF, *_COMPLEX}
)
# Of those that are clean, what computes: of large complex numbers it makes what has no room.
_REAL_ONLY = frozenset({"Cos", "Round", "Sigmoid", "Sign", "Sin", "Tanh"})
# What makes nothing bad of what isn't: its inputs are looked at where they are made.
_CLEAN = frozenset(
    """
        Abs BatchToSpaceND BroadcastTo Ceil Concat ConcatV2 Cos DepthToSpace Elu EnsureShape
        ExpandDims Floor Gather GatherNd GatherV2 Identity IdentityN InvertPermutation LeakyRelu
        MatrixBandPart MatrixDiagPart Max MaxPool Maximum Min Minimum MirrorPad Neg OnesLike Pack
        Pad PreventGradient Relu Relu6 Relu6Grad ReluGrad Reshape ResourceGather Reverse
        ReverseV2 Rint Roll Round Select SelectV2 Sigmoid Sign Sin Slice Snapshot Softmax
        Softsign SpaceToBatchND SpaceToDepth Split SplitV Squeeze StopGradient StridedSlice Tanh
        TensorListGetItem TensorListStack Tile TopKV2 Transpose Unpack ZerosLike
    """.split()  # noqa: SIM905 (a line for each would be a page)
)
# What gives something bad whenever one of these inputs has something bad; none: any of them.
_HANDING_ON: dict[str, tuple[int, ...]] = dict.fromkeys(
    """
        Abs Add AddN AddV2 BatchMatMulV2 BiasAdd ConcatV2 Cumsum Identity L2Loss Log MatMul Mean
        Mul Neg Pack PreventGradient Prod Snapshot Sqrt Square SquaredDifference StopGradient Sub
        Sum
    """.split(),  # noqa: SIM905
    (),
) | dict.fromkeys(
    """
        BroadcastTo Cast ExpandDims FusedBatchNormV3 Pad RealDiv Reshape ReverseV2 Squeeze Transpose
    """.split(),  # noqa: SIM905
    (0,),
)


def zeros(definition: Any, size: int) -> str:
    """As many zeros as `Health.joined` gives numbers."""
    return add_zero(definition, types_pb2.DT_FLOAT, size or 1)


def to_check(body: FunctionBody, has_arguments: bool) -> Iterator[tuple[str, int]]:
    """The tensors of a body in which all that is bad shows: reference and type.

    Args:
        body: of a function.
        has_arguments: whether its arguments count.
    """
    seen: set[tuple[str, int]] = set()  # those that are looked at, or behind which something is
    for node in reversed(body.nodes):
        for slot, output in enumerate(node.outputs):
            if output.dtype not in _FLOATING or node.inner or node.name not in body.live:
                continue
            place = node.name, slot
            if place not in seen:
                if _is_clean(node, output.dtype):
                    continue
                seen.add(place)
                yield output.reference, output.dtype
            places = _HANDING_ON.get(node.op)
            if places is not None and not _leaves_out(node):
                seen.update(node.inputs[at] for at in places or range(len(node.inputs)))
    if has_arguments:
        for at, argument in enumerate(body.definition.signature.input_arg):
            if argument.type in _FLOATING and ("", at) not in seen:
                yield argument.name, argument.type


def _is_clean(node: BodyNode, dtype: int) -> bool:
    """Whether a node makes nothing bad of what isn't."""
    attributes = node.definition.attr
    if node.op == "LeakyRelu" and abs(attributes["alpha"].f) > 1:
        return False
    return node.op == "Const" or (
        node.op in _CLEAN and not (dtype in _COMPLEX and node.op in _REAL_ONLY)
    )


def _leaves_out(node: BodyNode) -> bool:
    """Whether what is bad in a part of its inputs doesn't show in what a node makes."""
    attributes = node.definition.attr
    if node.op == "Cast":  # imaginary parts
        return attributes["SrcT"].type in _COMPLEX and attributes["DstT"].type not in _COMPLEX
    return node.op == "Cumsum" and attributes["exclusive"].b  # the last element


class Health:
    """Adds to one function what tells of its tensors.

    Args:
        definition: a copy of the function's, to be changed.
    """

    def __init__(self, definition: Any) -> None:
        self._definition = definition
        self._sums: list[str] = []
        self._sources: list[str] = []  # of what each is the sum
        self._parts: list[str] = []
        self._count = 0

    @property
    def size(self) -> int:
        """How many numbers there are; without any there is one zero."""
        return self._count + len(self._sums) or 1

    @property
    def is_needed(self) -> bool:
        """Whether there is anything to tell of."""
        return bool(self._sums or self._parts)

    def watch(self, reference: str, kind: int) -> None:
        """Tell of a tensor."""
        self._sources.append(reference)
        add = self._add
        if kind in _COMPLEX:  # the magnitude may be too large, which somebody finds out who looks
            size = add("ComplexAbs", reference)
            size.attr["T"].type, size.attr["Tout"].type = kind, _COMPLEX[kind]
            reference, kind = f"{size.name}:y:0", _COMPLEX[kind]
        if kind != types_pb2.DT_FLOAT:  # sums of the small types are soon too large
            cast = add("Cast", reference)
            cast.attr["SrcT"].type, cast.attr["DstT"].type = kind, types_pb2.DT_FLOAT
            reference = f"{cast.name}:y:0"
        flat = add("Reshape", reference, add_constant(self._definition, -1, 1))
        flat.attr["T"].type = types_pb2.DT_FLOAT
        flat.attr["Tshape"].type = types_pb2.DT_INT32
        total = add("Sum", f"{flat.name}:output:0", add_constant(self._definition, 0, 1))
        total.attr["T"].type, total.attr["Tidx"].type = types_pb2.DT_FLOAT, types_pb2.DT_INT32
        total.attr["keep_dims"].b = True
        self._sums.append(f"{total.name}:output:0")

    def add(self, reference: str, size: int) -> None:
        """Tell what a function that is called tells."""
        self._parts.append(reference)
        self._count += size

    def joined(self, before: str = "") -> str:
        """All numbers; ``before``: those of earlier iterations, of which the larger ones count."""
        parts = [*self._parts, *self._flags(self._sums)]
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
        sums = [
            each for each, source in zip(self._sums, self._sources, strict=True) if counts(source)
        ]
        numbers = self._concatenated([*parts, *self._flags(sums)] or [zeros(self._definition, 1)])
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

    def _flags(self, sums: Sequence[str]) -> list[str]:
        """One number for each sum, in a vector, if there are any."""
        if not sums:
            return []
        finite = self._add("IsFinite", self._concatenated(sums))
        finite.attr["T"].type = types_pb2.DT_FLOAT
        bad = self._add("LogicalNot", f"{finite.name}:y:0")
        cast = self._add("Cast", f"{bad.name}:y:0")
        cast.attr["SrcT"].type, cast.attr["DstT"].type = types_pb2.DT_BOOL, types_pb2.DT_FLOAT
        return [f"{cast.name}:y:0"]

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
