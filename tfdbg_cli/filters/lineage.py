"""What the tensors of a dump were computed from, and how bad they are; each is read once."""

from __future__ import annotations

import re
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, TypeVar

from tfdbg_cli.common.arrays import np
from tfdbg_cli.common.errors import DumpError
from tfdbg_cli.common.node_words import ARGUMENT, CHECKED, VIEW, WRITES, output_shapes
from tfdbg_cli.dumps.ancestry import Ancestry
from tfdbg_cli.dumps.dump import Datum, Dump
from tfdbg_cli.dumps.finite import count_bad
from tfdbg_cli.dumps.graph import Graph, Node, node_name_of
from tfdbg_cli.dumps.joined import part_of
from tfdbg_cli.dumps.run_info import roles_of
from tfdbg_cli.tensors.measurements import Measurements
from tfdbg_cli.tensors.numeric import dtype_kind, has_nonfinite, widened
from tfdbg_cli.tensors.statistics import Health

__all__ = [
    "WRITTEN",
    "TensorLineage",
    "arguments_of",
    "floats",
    "has_infinite_argument",
    "hides_others",
    "holds_others",
    "inputs_of",
    "is_called",
    "value_of",
]

#: The type of PyTorch's nodes for tensors whose memory was written to through others.
WRITTEN = "written"

# How the types of PyTorch's ops on lists of tensors begin.
_FOREACH = "_foreach_"

_CLEAN = Health(0, 0, 0)

_INFINITE = re.compile(r"(?<![A-Za-z_])[-+]?inf(inity)?(?![A-Za-z_])", re.IGNORECASE)

_Found = TypeVar("_Found")


class TensorLineage:
    """What filters ask about the tensors of one dump, remembered for as long as the dump lives.

    `TensorLineage.of` gives the same object for the same dump.

    Attributes:
        dump: whose tensors they are.
        graph: the dump's.
        roles: of the ops of its engine.
    """

    _all: ClassVar[weakref.WeakKeyDictionary[Dump, TensorLineage]] = weakref.WeakKeyDictionary()

    def __init__(self, dump: Dump) -> None:
        # Through proxies: what is remembered must not keep the dump and its values alive.
        self.dump: Dump = weakref.proxy(dump)
        self._count_of_data = len(dump.data())
        self._measurements = Measurements.of(dump)
        self._health: dict[int, Health] = {}
        self._info = dump.run_info()
        self.roles = roles_of(self._info)
        graph = dump.graph()
        self.graph: Graph | None = weakref.proxy(graph) if graph is not None else None
        self._found: dict[object, Any] = {}
        self._ancestry: Ancestry | None = None
        if self.graph is not None:
            self._ancestry = Ancestry(self.dump, self.graph, lambda datum: bool(self.bad(datum)))

    @classmethod
    def of(cls, dump: Dump) -> TensorLineage:
        """The lineage of a dump, as it is now."""
        found = cls._all.get(dump)
        is_same = found is not None and found._info is dump.run_info()  # it names the engine
        if found is None or not is_same or found._count_of_data != len(dump.data()):
            found = cls._all[dump] = cls(dump)
        return found

    def once(self, make: Callable[[TensorLineage], _Found]) -> _Found:
        """What a function makes of this lineage: the same each time, kept as long as this is."""
        if make not in self._found:
            self._found[make] = make(self)
        found: _Found = self._found[make]
        return found

    @property
    def has_graph(self) -> bool:
        """Whether the dump says what was computed from what."""
        return self.graph is not None

    def node(self, datum: Datum) -> Node | None:
        """The node of a tensor, where the dump knows it."""
        return self.graph.nodes.get(datum.node_name) if self.graph is not None else None

    def inputs(self, datum: Datum) -> list[Datum]:
        """The dumped tensors that a tensor was computed from, each as it was then.

        Nodes that weren't dumped are passed through to what they were computed from.
        """
        node = self.node(datum)
        if self._ancestry is None or node is None:
            return []
        is_sparse = self.dump.lists_only_bad
        return self._bad_inputs(node) if is_sparse else self._ancestry.inputs(datum)

    def as_given(self, datum: Datum, name: str) -> Datum | None:
        """A tensor as it was when another one was made of it; ``None``: it isn't in the dump.

        Of one that wasn't dumped it is the one whose value it has, if that was.
        """
        data = [each for each in self.dump.by_tensor(name) if each is not datum]
        if not data and self._ancestry is not None and not self.dump.lists_only_bad:
            return self._ancestry.handed_on(name, datum)
        at = (datum.timestamp, self._place(datum))
        found = [each for each in data if (each.timestamp, self._place(each)) < at] or data
        return found[-1] if found else None

    def floats_given(self, datum: Datum, name: str) -> np.ndarray[Any, Any] | None:
        """The elements of a tensor as it was given: `floats` of `as_given`."""
        given = self.as_given(datum, name)
        return floats(given) if given is not None else None

    def shape(self, name: str) -> tuple[int, ...] | None:
        """The shape that a tensor had last; ``None``: it isn't known."""
        data = self.dump.by_tensor(name)
        shape = data[-1].shape if data else None
        return tuple(shape) if shape is not None else None

    def _place(self, datum: Datum) -> int:
        """Where it is in the dump: what one call has made has one time."""
        return self._ancestry.place(datum) if self._ancestry is not None else 0

    def _bad_inputs(self, node: Node) -> list[Datum]:
        """The inputs of a node in a dump of bad tensors only: what isn't there is clean."""
        assert self.graph is not None
        found: list[Datum] = []
        seen: set[str] = set()
        waiting = list(node.inputs)
        while waiting:
            tensor = waiting.pop()
            if tensor in seen:
                continue
            seen.add(tensor)
            data = self.dump.by_tensor(tensor)
            found += data
            source = self.graph.nodes.get(node_name_of(tensor))
            if not data and source is not None and hides_others(source):
                waiting += source.inputs
        return found

    def bad(self, datum: Datum, value: Any = None) -> Health | None:
        """How many elements are nan or infinite; ``None``: none, or the value can't be read.

        Args:
            datum: one of the dump's.
            value: its value, if it is at hand.
        """
        health = self._health.get(id(datum))
        if health is None:
            known = self._measurements.peek(datum, numbers=False)
            health = (known.health or _CLEAN) if known is not None else self._count(datum, value)
            self._health[id(datum)] = health
        return health if health.bad else None

    def takes_over(self, datum: Datum, source: Datum) -> bool:
        """Whether what is bad in a tensor can be what is bad in one that it was computed from.

        It can't where ops choose among their inputs, and have chosen the others.
        """
        node = self.node(datum)
        if node is None:
            return True
        if not self.reads(node, source.tensor_name):
            return False
        if node.op_type == WRITTEN and source.tensor_name == node.inputs[0]:
            return not self._is_all_written(datum, node)
        if node.op_type in self.roles.replacing:
            return not node.inputs or source.tensor_name != node.inputs[0]
        if node.op_type not in self.roles.choosing:
            return True
        made, given = floats(datum), floats(source)
        if made is None or given is None:
            return True
        try:
            given = np.broadcast_to(given, made.shape)
        except ValueError:
            return True
        is_same = (np.isnan(made) & np.isnan(given)) | (~np.isfinite(made) & (made == given))
        return bool(is_same.any())

    def reads(self, node: Node, tensor: str) -> bool:
        """Whether what a node makes depends on an input: what others send is only put there.

        Args:
            node: of any op.
            tensor: among its inputs.
        """
        written = node.attributes.get(WRITES, "")
        if not written or not self.roles.sending.match(node.op_type):
            return True
        over = {each for each in node.inputs for own in written.split(", ") if is_called(each, own)}
        rank = part_of(node.name)[0]
        given = {each for each in node.inputs if part_of(each)[0] == rank}
        is_receiving = node.op_type in self.roles.receiving
        return tensor not in over or not (given - over or is_receiving)

    def was_sent(self, datum: Datum) -> bool:
        """Whether a tensor was received, and another process of the dump has sent something bad.

        Args:
            datum: the tensor. It may have been waited for since before that was computed.
        """
        node, rank = self.node(datum), part_of(datum.node_name)[0]
        if self.graph is None or node is None or node.op_type not in self.roles.receiving:
            return False
        return any(
            self.bad(each)
            for sender in self.graph.nodes.values()
            if self.roles.sending.match(sender.op_type) and part_of(sender.name)[0] != rank
            for each in self._bad_inputs(sender)
            if self.reads(sender, each.tensor_name)
        )

    def _is_all_written(self, datum: Datum, node: Node) -> bool:
        """Whether all that is bad in memory may have been written to it, and was not there before.

        Args:
            datum: the memory, after that.
            node: of it: its inputs are the memory before, and what was written.
        """
        written = [self.bad(data[-1]) for n in node.inputs[1:] if (data := self.dump.by_tensor(n))]
        bad = self.bad(datum)
        return bad is not None and sum(each.bad for each in written if each) >= bad.bad

    def _count(self, datum: Datum, value: Any) -> Health:
        if value is None:
            try:
                value = self.dump.value(datum)
            except DumpError:
                return _CLEAN
        return Health(*count_bad(np.asarray(value))) if has_nonfinite(value) else _CLEAN


def inputs_of(node: Node, datum: Datum) -> Sequence[str]:
    """The inputs that one output of a node is made of: of ops on lists those with its number.

    Args:
        node: that made the tensor.
        datum: the tensor.
    """
    if not node.op_type.startswith(_FOREACH):
        return node.inputs
    count = len(output_shapes(node.attributes))
    if not count or len(node.inputs) % count:
        return node.inputs
    return node.inputs[datum.output_slot :: count]


def arguments_of(node: Node) -> Iterator[str]:
    """The arguments of an operator that are no tensors, as they are shown."""
    return (text for name, text in node.attributes.items() if name.startswith(ARGUMENT))


def has_infinite_argument(node: Node) -> bool:
    """Whether the program has written an infinity down in the call of an operator."""
    return any(_INFINITE.search(text) for text in arguments_of(node))


def holds_others(node: Node) -> bool:
    """Whether the tensors of a node are views of others, or those with what was written to them."""
    return node.op_type == WRITTEN or VIEW in node.attributes


def hides_others(node: Node) -> bool:
    """Whether what is bad in a node's inputs may be in its tensor, though the dump lacks that.

    Args:
        node: of a dump that lists bad tensors only.
    """
    return holds_others(node) and CHECKED not in node.attributes


def is_called(tensor: str, name: str) -> bool:
    """Whether a tensor has a name; in the dump of several ranks the rank is in front of it."""
    return tensor == name or tensor.endswith(f"/{name}")


def value_of(datum: Datum) -> Any:
    """The value of a tensor; ``None`` where it can't be read."""
    try:
        return datum.get_tensor()
    except DumpError:
        return None


def floats(datum: Datum) -> np.ndarray[Any, Any] | None:
    """The elements of a tensor of floating point numbers; ``None``: it is none, or is gone."""
    array = array_of(value_of(datum), "float")
    return widened(array) if array is not None else None


def array_of(value: Any, *kinds: str) -> np.ndarray[Any, Any] | None:
    """A value as an array; ``None``: it is none, or its elements are of none of these kinds."""
    if not isinstance(value, np.ndarray | np.generic):
        return None
    array = np.asarray(value)
    return array if dtype_kind(array.dtype) in kinds else None
