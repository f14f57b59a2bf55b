"""The common face of every dump: one run's tensors, graph, sources, fetches and feeds.

Three kinds of dump fulfil it: in memory (`tfdbg_cli.dumps.memory`), the original's directory
(`tfdbg_cli.dumps.tfdbg_dir.dump`) and our run folder (`tfdbg_cli.dumps.run_folder.dump`). Every
command is written against `Dump` alone.
"""

from __future__ import annotations

import inspect
import operator
import re
import sys
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import numpy as np

from tfdbg_cli.common.errors import UserError, did_you_mean
from tfdbg_cli.common.garbage import collector_paused
from tfdbg_cli.common.program_signals import pass_on
from tfdbg_cli.dumps.dtypes import name_of
from tfdbg_cli.dumps.elements import node_name_of
from tfdbg_cli.dumps.graph import Graph
from tfdbg_cli.dumps.run_info import RunError, RunInfo
from tfdbg_cli.dumps.sources import Sources

__all__ = [
    "Datum",
    "Dump",
    "InconvertibleTensorProto",
    "Predicate",
    "RunError",
    "RunInfo",
    "bound",
    "is_only_nonfinite",
    "number_executions",
    "only_nonfinite",
    "takes_dump",
]


# Their outputs are handles of variables.
_HANDLES = frozenset({"VarHandleOp", "_VarHandlesOp"})


_THEIRS = "tensorflow.python.debug.lib.debug_data"


class _Inconvertible(type):
    """TensorFlow's class of that name counts as this one."""

    def __instancecheck__(cls, instance: object) -> bool:
        kind = type(instance)
        return super().__instancecheck__(instance) or (
            kind.__name__ == "InconvertibleTensorProto" and kind.__module__ == _THEIRS
        )


class InconvertibleTensorProto(metaclass=_Inconvertible):
    """A value that no NumPy array can hold: uninitialized, a resource handle, a variant.

    To ``isinstance`` it is the same as the class of TensorFlow's ``debug_data``, both ways: the
    filters of programs ask for either.

    Attributes:
        initialized: ``False`` for a variable that was read before it had a value.
        description: what is known of it, as text.
    """

    def __init__(self, description: object = "", initialized: bool = True) -> None:
        self.description = description
        self.initialized = initialized

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return getattr(sys.modules.get(_THEIRS), "InconvertibleTensorProto", type(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.description, self.initialized)

    def __str__(self) -> str:
        return str(self.description) if self.initialized else "Uninitialized tensor"

    __repr__ = __str__


class Datum:
    """One tensor at one moment of a run.

    Attributes:
        node_name: the node that made it, under the user's name.
        output_slot: which output of the node.
        debug_op: ``DebugIdentity`` unless a watch asked for another.
        timestamp: microseconds since the epoch (0 where the engine has no clock: then the order
            of `Dump.data` is what counts).
        device_name: may be empty.
        execution: 0-based index among the dumps of the same tensor on the same device; set by
            the Dump.
        is_view: it shares the elements of another tensor of the dump; lists leave it out unless
            asked, and filters don't look at it.
    """

    __slots__ = (
        "_dtype",
        "_load",
        "_nbytes",
        "_note",
        "_shape",
        "debug_op",
        "device_name",
        "execution",
        "is_view",
        "node_name",
        "output_slot",
        "timestamp",
    )

    def __init__(
        self,
        node_name: str,
        output_slot: int,
        load: Callable[[], Any],
        *,
        debug_op: str = "DebugIdentity",
        timestamp: int = 0,
        device_name: str = "",
        dtype: str | None = None,
        shape: tuple[int, ...] | None = None,
        nbytes: int | None = None,
        is_view: bool = False,
        note: str | Callable[[], str] = "",
    ) -> None:
        self.node_name = node_name
        self.output_slot = output_slot
        self.debug_op = debug_op
        self.timestamp = timestamp
        self.device_name = device_name
        self.execution = 0
        self.is_view = is_view
        self._load = load
        self._dtype = dtype
        self._shape = shape
        self._nbytes = nbytes
        self._note = note

    @property
    def note(self) -> str:
        """What the array of the value doesn't tell, e.g. that it was quantized; mostly empty."""
        if callable(self._note):
            self._note = self._note()
        return self._note

    @property
    def tensor_name(self) -> str:
        """``node:slot``."""
        return f"{self.node_name}:{self.output_slot}"

    @property
    def watch_key(self) -> str:
        """``node:slot:debug_op``."""
        return f"{self.node_name}:{self.output_slot}:{self.debug_op}"

    @property
    def extended_timestamp(self) -> str:
        """The timestamp as text; directory dumps may add ``-n`` to keep equal ones apart."""
        return str(self.timestamp)

    @property
    def file_path(self) -> str:
        """The file that holds the value; empty in memory."""
        return ""

    @property
    def dump_size_bytes(self) -> int | None:
        """Size of the dump: the file's for directory dumps, else the value's."""
        return self.nbytes

    def get_tensor(self) -> Any:
        """The value: an ndarray, or an `InconvertibleTensorProto`.

        Raises:
            DumpError: the value is missing or damaged.
        """
        return self._load()

    def _describe(self) -> None:
        """Fill in dtype, shape and nbytes. Subclasses do it without reading the value."""
        value = self.get_tensor()
        if isinstance(value, np.ndarray | np.generic):
            self._dtype = name_of(value.dtype)
            self._shape = tuple(value.shape)
            self._nbytes = _bytes_of(value)
        else:
            self._dtype, self._shape, self._nbytes = self._dtype or "", self._shape, 0

    @property
    def dtype(self) -> str:
        """The element type by its NumPy/ml_dtypes name, or ``string``, ``resource``, ``variant``.

        Empty where nothing is known.
        """
        if self._dtype is None:
            self._describe()
        return self._dtype or ""

    @property
    def shape(self) -> tuple[int, ...] | None:
        """The shape, or ``None`` where the value has none."""
        if self._dtype is None:
            self._describe()
        return self._shape

    @property
    def nbytes(self) -> int:
        """Bytes of the elements."""
        if self._nbytes is None:
            self._describe()
        return self._nbytes or 0

    def __repr__(self) -> str:
        return f"{{DebugTensorDatum {self.watch_key} @ {self.timestamp}}}"

    __str__ = __repr__


def _bytes_of(value: np.ndarray[Any, Any] | np.generic) -> int:
    """Bytes of the elements; of strings those of their text, not those of the pointers to them."""
    if value.dtype.kind != "O":
        return int(value.nbytes)
    count = 0
    for item in np.asarray(value).reshape(-1).tolist():
        if isinstance(item, str):
            count += len(item.encode("utf-8", "surrogatepass"))
        elif isinstance(item, bytes):
            count += len(item)
    return count


def _table(data: Iterable[Datum], attribute: str) -> dict[str, list[Datum]]:
    """Tensors by one of their attributes."""
    table: defaultdict[str, list[Datum]] = defaultdict(list)
    read = operator.attrgetter(attribute)
    with collector_paused():
        for datum in data:
            table[read(datum)].append(datum)
    return dict(table)


def number_executions(data: Iterable[Datum]) -> None:
    """Set `Datum.execution` of tensors in time order."""
    data = list(data)
    if len({datum.node_name for datum in data}) == len(data):
        for datum in data:
            datum.execution = 0
        return
    counts: dict[tuple[str, int, str, str], int] = {}
    for datum in data:
        key = (datum.node_name, datum.output_slot, datum.debug_op, datum.device_name)
        datum.execution = counts.get(key, 0)
        counts[key] = datum.execution + 1


#: What a tensor filter is: ``f(datum, value) -> bool``, or ``f(datum, value, dump) -> bool`` where
#: it has to know more of the run than one tensor.
Predicate = Callable[..., bool]
_Filter = TypeVar("_Filter", bound=Predicate)


def only_nonfinite(predicate: _Filter) -> _Filter:
    """Mark a filter as one that is false of every tensor without a nan or an infinity.

    Dumps that can tell those quickly then don't ask it about them.
    """
    predicate.only_nonfinite = True  # type: ignore[attr-defined]
    return predicate


def is_only_nonfinite(predicate: Predicate) -> bool:
    """Whether a filter is marked by `only_nonfinite`."""
    return getattr(predicate, "only_nonfinite", False) is True


def takes_dump(predicate: Predicate) -> bool:
    """Whether a filter wants the dump: it has a third parameter without a default.

    One that is called ``dump`` counts in any case. A callable that can't be asked takes two.
    """
    try:
        signature = inspect.signature(predicate)
    except (TypeError, ValueError):
        return False
    names = list(signature.parameters)
    if names[2:3] == ["dump"]:
        return True
    try:
        signature.bind(None, None)
    except TypeError:
        try:
            signature.bind(None, None, None)
        except TypeError:
            return False
        return True
    return False


def bound(predicate: Predicate, dump: Dump) -> Callable[[Datum, Any], bool]:
    """A filter as a function of two arguments, for the tensors of one dump."""
    if not takes_dump(predicate):
        return predicate
    return lambda datum, value: predicate(datum, value, dump)


class Dump(ABC):
    """One run's tensors, read lazily."""

    def __init__(self) -> None:
        self._data: list[Datum] | None = None
        self._by_tensor: dict[str, list[Datum]] | None = None
        self._by_node: dict[str, list[Datum]] | None = None
        #: One line for each part that is missing or damaged.
        self.warnings: list[str] = []
        #: Whether every tensor that isn't here, views aside, is known to be finite.
        self.lists_only_bad = False
        #: Where it is known which tensors can hold a nan or an infinity, their names. Views, and
        #: tensors whose memory was written to through others, are not among them.
        self.suspects: frozenset[str] | None = None
        #: Why a node has no tensors, as far as the engine knows: node name -> sentence or "".
        self.absence: Callable[[str], str] | None = None

    @abstractmethod
    def _make_data(self) -> list[Datum]:
        """The dumped tensors in time order. Called once; reads no values."""

    def data(self) -> list[Datum]:
        """Every dumped tensor in time order, with `Datum.execution` set."""
        if self._data is None:
            data = self._make_data()
            with collector_paused():
                self._number(data)
            self._data = data
        return self._data

    def _number(self, data: list[Datum]) -> None:
        """Set `Datum.execution` of the dumped tensors, which are in time order."""
        number_executions(data)

    def graph(self) -> Graph | None:
        """The graph, or ``None`` where the dump holds none."""
        return None

    def sources(self) -> Sources:
        """Source text of the files that made nodes."""
        return Sources()

    def run_info(self) -> RunInfo | None:
        """Fetches and feeds of the run, or ``None`` where unknown."""
        return None

    def profile(self) -> Any:
        """Timings per node, where the engine measured them."""
        return None

    def close(self) -> None:
        """Let go of files and memory."""

    # What follows is the same for every kind of dump.

    def value(self, datum: Datum) -> Any:
        """The value of a datum: an ndarray, or an `InconvertibleTensorProto`."""
        return datum.get_tensor()

    def by_tensor(self, tensor_name: str) -> list[Datum]:
        """The dumps of ``node:slot``, in time order; empty if there are none."""
        if self._by_tensor is None:
            self._by_tensor = _table(self.data(), "tensor_name")
        return self._by_tensor.get(tensor_name, [])

    def by_node(self, node_name: str) -> list[Datum]:
        """The dumps of all slots of a node, in time order."""
        if self._by_node is None:
            self._by_node = _table(self.data(), "node_name")
        return self._by_node.get(node_name, [])

    def tensor_names(self) -> list[str]:
        """The names of all dumped tensors, in the order of their first dump."""
        self.by_tensor("")
        return list(self._by_tensor or {})

    def node_names(self) -> list[str]:
        """The names of all nodes known: those of the graph, else those that were dumped."""
        graph = self.graph()
        if graph is not None:
            return list(graph.nodes)
        self.by_node("")
        return list(self._by_node or {})

    def t0(self) -> int:
        """The time of the first dump in microseconds, 0 where there is none."""
        data = self.data()
        return min(map(operator.attrgetter("timestamp"), data), default=0)

    def op_type(self, node_name: str) -> str:
        """The op type of a node, empty where the dump doesn't say."""
        graph = self.graph()
        node = graph.nodes.get(node_name) if graph is not None else None
        return node.op_type if node is not None else ""

    def find(
        self,
        predicate: Predicate,
        first_n: int = 0,
        exclude: re.Pattern[str] | None = None,
        on_error: Callable[[Datum, Exception], None] | None = None,
    ) -> list[Datum]:
        """The tensors for which a filter is true, in time order; views are left out.

        Args:
            predicate: the filter, of two or three parameters.
            first_n: stop after so many; 0: all.
            exclude: nodes whose name this is found in are left out.
            on_error: called when the filter or the reading of a value raises; such a tensor
                does not pass. Without it the exception goes on.
        """
        return list(self.iter_find(predicate, first_n, exclude, on_error))

    def iter_find(
        self,
        predicate: Predicate,
        first_n: int = 0,
        exclude: re.Pattern[str] | None = None,
        on_error: Callable[[Datum, Exception], None] | None = None,
    ) -> Iterator[Datum]:
        """As `find`, one at a time: little is read beyond what the caller takes."""
        count = 0
        data: Iterable[Datum] = (
            datum
            for datum in self.data()
            if not (datum.is_view or (exclude is not None and exclude.search(datum.node_name)))
        )
        if is_only_nonfinite(predicate):
            data = self.maybe_nonfinite(data)
        predicate = bound(predicate, self)
        for datum in data:
            try:
                passed = bool(predicate(datum, self.value(datum)))
            except Exception as error:
                pass_on(error)
                if on_error is None:
                    raise
                on_error(datum, error)
                continue
            if passed:
                yield datum
                count += 1
                if first_n and count >= first_n:
                    return

    def maybe_nonfinite(self, data: Iterable[Datum]) -> Iterator[Datum]:
        """Those of some tensors of the dump that may hold a nan or an infinity, in their order.

        The others certainly hold none. Here it may be all of them: dumps that can tell without
        making each value do better.
        """
        return iter(data)

    def why_absent(self, node_name: str) -> str:
        """Why a node of the graph has no tensors in this dump, in a sentence or two."""
        known = self.absence(node_name) if self.absence is not None else ""
        if known:
            return known
        graph = self.graph()
        if graph is not None and self.op_type(node_name) in _HANDLES:
            readers = [
                edge.node
                for edge in graph.recipients(node_name, control=False)
                if self.op_type(edge.node) == "ReadVariableOp" and self.by_node(edge.node)
            ]
            where = f" Its value is in {', '.join(readers[:3])}." if readers else ""
            return f"It holds the handle of a resource, not an array.{where}"
        return "It is in the graph, but this run did not compute or watch it."

    def tensor(self, name: str) -> list[Datum]:
        """The dumps of a tensor, or a `UserError` that says what is wrong with the name."""
        found = self.by_tensor(name)
        if found:
            return found
        node = node_name_of(name)
        graph = self.graph()
        if self.by_node(node):
            slots = sorted({datum.output_slot for datum in self.by_node(node)})
            known = ", ".join(f"{node}:{slot}" for slot in slots)
            raise UserError(f'Tensor "{name}" did not generate any dumps.', f"There are {known}.")
        if graph is not None and node in graph:
            raise UserError(f'Tensor "{name}" did not generate any dumps.', self.why_absent(node))
        info = self.run_info()
        own = info.outputs if info is not None else ()
        raise UserError(
            f'Node "{node}" does not exist in the graph.',
            did_you_mean(name.removesuffix(":0"), own) or did_you_mean(name, self.tensor_names()),
        )
