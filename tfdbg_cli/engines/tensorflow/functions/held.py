"""What a twin has returned, as the tensors of the function's nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from tensorflow.python.eager import context
from tensorflow.python.framework import constant_op, dtypes, tensor_util
from tensorflow.python.ops import gen_list_ops

from tfdbg_cli.dumps.datum import InconvertibleTensorProto
from tfdbg_cli.engines.tensorflow.functions.definitions import BodyNode, Kind
from tfdbg_cli.engines.tensorflow.functions.inlined import Path, argument_key
from tfdbg_cli.engines.tensorflow.functions.twins.layouts import Layout, LayoutItem
from tfdbg_cli.engines.tensorflow.functions.twins.windows import NUMBERS, IterationWindow
from tfdbg_cli.engines.tensorflow.shared.inlined_bodies import ARGUMENT
from tfdbg_cli.engines.tensorflow.shared.optimized import PASSING
from tfdbg_cli.engines.tensorflow.shared.redo import RECOMPUTED, UnreadTensors
from tfdbg_cli.engines.tensorflow.shared.values import base_dtype_name, holdable, plain

__all__ = ["BodyTensor", "ConstantValue", "HeldItem", "HeldTensor", "HeldValue", "values_of"]


class HeldValue:
    """A value that is read when somebody looks.

    Attributes:
        dtype: the name of its element type.
        shape: its shape; ``None``: it isn't known without reading it.
        note: what its elements don't tell.
    """

    dtype: str
    note = ""
    shape: tuple[int, ...] | None = None

    def tensor(self) -> Any:
        """The eager tensor; constants have none."""
        raise NotImplementedError

    def load(self) -> Any:
        """The value as the dump keeps it."""
        tensor = self.tensor()
        if not holdable(tensor.dtype):
            return InconvertibleTensorProto(f"a {tensor.dtype.name} has no elements")
        return plain(tensor.numpy())


class HeldTensor(HeldValue):
    """An eager tensor."""

    __slots__ = ("_tensor", "dtype", "shape")

    def __init__(self, tensor: Any) -> None:
        self._tensor = tensor
        self.dtype = base_dtype_name(tensor.dtype)
        self.shape = tuple(tensor.shape)

    def tensor(self) -> Any:
        return self._tensor


class HeldItem(HeldValue):
    """What an iteration has put into a list.

    Args:
        held: the list.
        at: the number of the iteration.
        kind: ``DataType`` enum of the element.
    """

    __slots__ = ("_at", "_held", "_kind", "dtype")

    def __init__(self, held: HeldValue, at: int, kind: int) -> None:
        self._held, self._at = held, at
        self._kind = dtypes.as_dtype(kind)
        self.dtype = base_dtype_name(self._kind)

    def tensor(self) -> Any:
        with context.eager_mode():
            return gen_list_ops.tensor_list_get_item(
                self._held.tensor(), self._at, -1, element_dtype=self._kind
            )


class ConstantValue(HeldValue):
    """What a definition says."""

    __slots__ = ("_proto", "dtype", "shape")

    def __init__(self, proto: Any) -> None:
        self._proto = proto
        self.dtype = base_dtype_name(dtypes.as_dtype(proto.dtype))
        self.shape = tuple(dim.size for dim in proto.tensor_shape.dim)

    def load(self) -> Any:
        return plain(tensor_util.MakeNdarray(self._proto))


class UnreadValue(HeldValue):
    """An output of a node that the run had no tensors of.

    Args:
        unread: the tensors of the body.
        node: the node.
        slot: which output.
        dtype: the name of its element type.
    """

    __slots__ = ("_node", "_slot", "_unread", "dtype")

    note = RECOMPUTED

    def __init__(self, unread: UnreadTensors, node: BodyNode, slot: int, dtype: str) -> None:
        self._unread, self._node, self._slot, self.dtype = unread, node, slot, dtype

    def tensor(self) -> Any:
        return constant_op.constant(self.load())

    def load(self) -> Any:
        return self._unread.load((self._node.name, self._slot), self._node.inputs, self.dtype)


class BodyTensor(NamedTuple):
    """A tensor of a function's node that ran.

    Attributes:
        path: that leads to the body.
        node: the name in it.
        op: the op type.
        slot: which output.
        value: it.
        is_view: it is another node's, handed on as it is.
    """

    path: Path
    node: str
    op: str
    slot: int
    value: HeldValue
    is_view: bool


#: Gets the path and the name of a loop, and which of its iterations are held.
Lacks = Callable[[Path, str, IterationWindow], None]
_Get = Callable[[int], HeldValue]
_Values = dict[tuple[str, int], HeldValue]


def values_of(
    layout: Layout,
    results: Sequence[Any],
    arguments: Sequence[Any],
    lacks: Lacks | None = None,
) -> Iterator[BodyTensor]:
    """All tensors that a twin has returned, in the order in which they were made.

    Args:
        layout: of the twin.
        results: the results that it was given in addition.
        arguments: that it was called with.
        lacks: gets what isn't there of a loop.
    """
    given = {
        at: HeldTensor(tensor) for at, tensor in enumerate(arguments) if holdable(tensor.dtype)
    }
    yield from _body(layout, (), lambda at: HeldTensor(results[at]), given, lacks)


def _body(
    layout: Layout,
    path: Path,
    get: _Get,
    arguments: dict[int, HeldTensor] | dict[int, HeldValue],
    lacks: Lacks | None,
    ends: dict[int, HeldValue] | None = None,
) -> Iterator[BodyTensor]:
    """The tensors of a body; ``ends`` gets what it returns, as far as that is known."""
    values: _Values = {("", at): value for at, value in arguments.items()}
    unread = UnreadTensors(
        layout.unread_graph,
        lambda edge: values[edge].load if edge in values else None,
        layout.redo,
    )
    for item in layout.items:
        node = item.node
        if item.inner:
            yield from _inside(item, path, get, values, lacks)
        if node.op == "Const":
            values[node.name, 0] = value = ConstantValue(node.definition.attr["value"].tensor)
            yield BodyTensor(path, node.name, node.op, 0, value, False)
        elif node.op in PASSING and node.inputs[0] in values:
            values[node.name, 0] = passed = values[node.inputs[0]]
            yield BodyTensor(path, node.name, node.op, 0, passed, True)
        for slot, at in item.places.items():
            values[node.name, slot] = made = get(at)
            if node.stands_for is not None:
                values["", node.stands_for + slot] = made
            if node.kind != Kind.CALL or not item.inner:
                yield BodyTensor(path, node.name, node.op, slot, made, False)
        if node.name in layout.unread_slots and all(each in values for each in node.inputs):
            for slot in layout.unread_slots[node.name]:
                dtype = base_dtype_name(dtypes.as_dtype(node.outputs[slot].dtype))
                values[node.name, slot] = made = UnreadValue(unread, node, slot, dtype)
                yield BodyTensor(path, node.name, node.op, slot, made, False)
    if ends is not None:
        returns = enumerate(layout.body.returns)
        ends.update((at, values[source]) for at, source in returns if source in values)


def _inside(
    item: LayoutItem, path: Path, get: _Get, values: _Values, lacks: Lacks | None
) -> Iterator[BodyTensor]:
    node, first = item.node, item.first
    given = node.inputs[1:] if node.kind == Kind.BRANCH else node.inputs
    if node.loop is not None:
        given = node.loop.arguments(node.inputs, ("", -1))
    arguments = {at: values[each] for at, each in enumerate(given) if each in values}
    if node.kind == Kind.CALL:
        ((step, (_, inner)),) = item.inner.items()
        inside, ends = (*path, (node.name, step)), dict[int, HeldValue]()
        yield from _body(inner, inside, lambda at: get(first + at), arguments, lacks, ends)
        values.update(((node.name, at), value) for at, value in ends.items())
    elif not any(layout.dtypes for _, layout in item.inner.values()):
        return  # nothing in it was kept
    elif node.kind == Kind.BRANCH:
        step = list(item.inner)[int(get(first).load())]
        before, inner = item.inner[step]
        inside = (*path, (node.name, step))
        yield from _body(inner, inside, lambda at: get(first + before + at), arguments, lacks)
    else:
        _, inner = item.inner["body"]
        before, condition = item.inner.get("cond", (0, None))
        behind = first + len(inner.dtypes)
        if node.loop is None:
            there = IterationWindow.of(get(behind + at).load() for at in range(NUMBERS))
            behind += NUMBERS
        else:
            with context.eager_mode():
                length = gen_list_ops.tensor_list_length(get(first).tensor())
            there = IterationWindow(0, int(length), False)
        if lacks is not None and (there.first or there.is_cut):
            lacks(path, node.name, there)
        inside = (*path, (node.name, "body"))
        kept = _unchanged(inner, arguments, node.loop.states if node.loop is not None else None)
        current = kept if there.first or node.loop is not None else arguments
        for iteration in range(there.length + 1):

            def item_of(at: int, iteration: int = iteration) -> HeldValue:
                return HeldItem(get(first + at), iteration, inner.dtypes[at])

            def tested(at: int, iteration: int = iteration) -> HeldValue:
                if iteration == there.length:  # the last test is behind the loop
                    return get(behind + at)
                return item_of(before + at, iteration)

            is_over = iteration == there.length
            for at, value in current.items() if not (is_over and there.is_cut) else ():
                if at not in kept:
                    yield BodyTensor(inside, argument_key(at), ARGUMENT, 0, value, True)
            if condition is not None and not (is_over and there.is_cut):
                yield from _body(condition, (*path, (node.name, "cond")), tested, current, lacks)
            if not is_over:
                ends = {}
                yield from _body(inner, inside, item_of, current, lacks, ends)
                current = {**ends, **kept} if node.loop is None else kept


def _unchanged(
    layout: Layout, arguments: dict[int, HeldValue], states: int | None
) -> dict[int, HeldValue]:
    """Those arguments of a loop's body that are the same in each iteration.

    Args:
        layout: of the body.
        arguments: as they are at first.
        states: so many of the first arguments come round; ``None``: all.
    """
    returns = layout.body.returns
    return {
        at: value
        for at, value in arguments.items()
        if (states is not None and at >= states) or returns[at] == ("", at)
    }
