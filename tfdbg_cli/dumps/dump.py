"""The common face of every dump: one run's tensors, graph, sources, fetches and feeds.

Three kinds of dump fulfil it: in memory (`tfdbg_cli.dumps.memory`), the original's directory
(`tfdbg_cli.dumps.tfdbg_dir.dump`) and our run folder (`tfdbg_cli.dumps.run_folder.dump`). Every
command is written against `Dump` alone.
"""

from __future__ import annotations

import inspect
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from tfdbg_cli.common.errors import UserError, did_you_mean, one_line
from tfdbg_cli.common.interpreter.garbage import collector_paused
from tfdbg_cli.common.interpreter.program_signals import pass_on
from tfdbg_cli.dumps.datum import Datum, InconvertibleTensorProto, number_executions
from tfdbg_cli.dumps.elements import node_name_of
from tfdbg_cli.dumps.graph import Graph, Node
from tfdbg_cli.dumps.run_info import RunError, RunInfo
from tfdbg_cli.dumps.series.tracks import Tracks
from tfdbg_cli.dumps.sources import Sources
from tfdbg_cli.dumps.tables import Tables

if TYPE_CHECKING:
    from tfdbg_cli.dumps.run_folder.digests import Digest

__all__ = [
    "HANDLES",
    "CannotRedo",
    "Datum",
    "Dump",
    "InconvertibleTensorProto",
    "NewValues",
    "Predicate",
    "Redo",
    "RunError",
    "RunInfo",
    "bound",
    "explained",
    "is_explained",
    "is_only_nonfinite",
    "is_over_runs",
    "marked_as",
    "noted",
    "number_executions",
    "only_nonfinite",
    "over_runs",
    "takes_dump",
    "variable_before",
]


#: Their outputs are handles of variables.
HANDLES = frozenset({"VarHandleOp", "_VarHandlesOp"})


#: What a tensor filter is: ``f(datum, value) -> bool``, or ``f(datum, value, dump) -> bool`` where
#: it has to know more of the run than one tensor.
Predicate = Callable[..., bool]
#: Computes a node again, by the framework's own op and without an effect on the program:
#: ``f(node name, values of its inputs, values that it gave, is_wide=…) -> values of its outputs``,
#: or ``None`` where they are those of the run in any case (random numbers). ``is_wide``: the values
#: are of a wider dtype than the node's, and stay so. Raises `CannotRedo`.
Redo = Callable[..., Sequence[Any] | None]
_Filter = TypeVar("_Filter", bound=Predicate)


class CannotRedo(Exception):
    """An op can't be computed again, for the reason that the message says.

    Attributes:
        NO_NUMBERS: the message for an op that packs what it gets into a handle.
    """

    NO_NUMBERS = "it gives no numbers"


class NewValues(Protocol):
    """The values of a run with a change."""

    @property
    def node(self) -> str:
        """The op that is changed."""

    @property
    def written(self) -> Sequence[str]:
        """The variables that the run has written, with values that are other ones now."""

    def __call__(self, name: str) -> Any:
        """What a tensor (``node:slot``) is with the change; ``None``: what it was.

        Raises:
            CannotRedo: nobody knows.
        """


def only_nonfinite(predicate: _Filter) -> _Filter:
    """Mark a filter as one that is false of every tensor without a nan or an infinity.

    Dumps that can tell those quickly then don't ask it about them.
    """
    predicate.only_nonfinite = True  # type: ignore[attr-defined]
    return predicate


def explained(predicate: _Filter) -> _Filter:
    """Mark a filter as one whose tensors have a reason that ``why`` tells, finite as they are."""
    predicate.explained = True  # type: ignore[attr-defined]
    return predicate


def is_explained(predicate: Predicate) -> bool:
    """Whether a filter is marked by `explained`."""
    return getattr(predicate, "explained", False) is True


def over_runs(predicate: _Filter) -> _Filter:
    """Mark a filter as one of the gradients' magnitudes in this run and in the runs before.

    While ``run -f`` waits for it, they are kept of each run (`Tracks.history` of the dump). No
    value is read for it: it is given ``None``.
    """
    predicate.over_runs = True  # type: ignore[attr-defined]
    return predicate


def is_over_runs(predicate: Predicate) -> bool:
    """Whether a filter is marked by `over_runs`."""
    return getattr(predicate, "over_runs", False) is True


def marked_as(predicate: _Filter, other: Predicate) -> _Filter:
    """Give a filter the marks of another one, which it calls."""
    if is_explained(other):
        explained(predicate)
    if is_over_runs(other):
        over_runs(predicate)
    return only_nonfinite(predicate) if is_only_nonfinite(other) else predicate


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
        self._data: Sequence[Datum] | None = None
        self._tables: Tables | None = None
        #: One line for each part that is missing or damaged.
        self.warnings: list[str] = []
        #: What was watched or kept of the run, in a sentence; empty: all of it.
        self.kept = ""
        #: Whether every tensor that isn't here, views aside, is known to be finite.
        self.lists_only_bad = False
        #: Where it is known which tensors can hold a nan or an infinity, their names. Views, and
        #: tensors whose memory was written to through others, are not among them.
        self.suspects: frozenset[str] | None = None
        #: Why a node has no tensors, as far as the engine knows: node name -> sentence or "".
        self.absence: Callable[[str], str] | None = None
        #: Computes nodes again with other values, as long as the program stands; ``None``: nobody
        #: can.
        self.redo: Redo | None = None

    @abstractmethod
    def _make_data(self) -> Sequence[Datum]:
        """The dumped tensors in time order. Called once; reads no values."""

    def _make_tables(self) -> Tables:
        return Tables(self.data())

    def data(self) -> Sequence[Datum]:
        """Every dumped tensor in time order, with `Datum.execution` set."""
        if self._data is None:
            data = self._make_data()
            with collector_paused():
                self._number(data)
            self._data = data
        return self._data

    def _number(self, data: Sequence[Datum]) -> None:
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

    def tracks_of(self, node: str) -> tuple[Tracks | None, str]:
        """The numbers over runs where a node was computed, and where that was: ``of rank 1``.

        Args:
            node: its name; empty: what the stop is about.
        """
        del node
        info = self.run_info()
        return (info.tracks if info is not None else None), ""

    def profile(self) -> Any:
        """Timings per node, where the engine measured them."""
        return None

    def close(self) -> None:
        """Let go of files and memory."""

    # What follows is the same for every kind of dump.

    def value(self, datum: Datum) -> Any:
        """The value of a datum: an ndarray, or an `InconvertibleTensorProto`."""
        return datum.get_tensor()

    def digest(self, datum: Datum) -> Digest | None:
        """The hash and the statistics of a tensor, if they were kept; nothing is computed."""
        return None

    def is_kept(self, datum: Datum) -> bool:
        """Whether the value of a tensor can be read."""
        return True

    def tables(self) -> Tables:
        """What is known of all tensors together."""
        if self._tables is None:
            self._tables = self._make_tables()
        return self._tables

    def by_tensor(self, tensor_name: str) -> list[Datum]:
        """The dumps of ``node:slot``, in time order; empty if there are none."""
        return self.tables().by_tensor(tensor_name)

    def by_node(self, node_name: str) -> list[Datum]:
        """The dumps of all slots of a node, in time order."""
        return self.tables().by_node(node_name)

    def tensor_names(self) -> list[str]:
        """The names of all dumped tensors, in the order of their first dump."""
        return self.tables().tensor_names()

    def node_names(self) -> list[str]:
        """The names of all nodes known: those of the graph, else those that were dumped."""
        graph = self.graph()
        if graph is not None:
            return list(graph.nodes)
        return self.tables().node_names()

    def t0(self) -> int:
        """The time of the first dump in microseconds, 0 where there is none."""
        return self.tables().first_time()

    def op_type(self, node_name: str) -> str:
        """The op type of a node, empty where the dump doesn't say."""
        node = self.node(node_name)
        return node.op_type if node is not None else ""

    def node(self, name: str) -> Node | None:
        """A node of the graph, where the dump has one."""
        graph = self.graph()
        return graph.nodes.get(name) if graph is not None else None

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
        part: tuple[int, int] = (0, 1),
        among: Iterable[Datum] | None = None,
    ) -> Iterator[Datum]:
        """As `find`, one at a time: little is read beyond what the caller takes.

        Args:
            predicate, first_n, exclude, on_error: as for `find`.
            part: which part of the tensors is looked at, and of how many: one comes after the
                other in time.
            among: only these tensors of the dump; ``None``: all but views.
        """
        count = 0
        data: Iterable[Datum] = self.tables().without_views() if among is None else among
        if exclude is not None:
            data = (datum for datum in data if not exclude.search(datum.node_name))
        if is_only_nonfinite(predicate):
            data = self.maybe_nonfinite(data)
        at, parts = part
        if parts > 1:
            data = list(data)
            data = data[len(data) * at // parts : len(data) * (at + 1) // parts]
        needs_values = not is_over_runs(predicate)
        predicate = bound(predicate, self)
        for datum in data:
            try:
                passed = bool(predicate(datum, self.value(datum) if needs_values else None))
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

    def passing(
        self, predicate: Predicate, exclude: re.Pattern[str] | None = None
    ) -> Iterator[Datum]:
        """As `iter_find`; what can't be read, or makes the filter raise, passes none."""
        return self.iter_find(predicate, exclude=exclude, on_error=lambda datum, error: None)

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
        if graph is not None and self.op_type(node_name) in HANDLES:
            readers = [
                edge.node
                for edge in graph.recipients(node_name, control=False)
                if self.op_type(edge.node) == "ReadVariableOp" and self.by_node(edge.node)
            ]
            where = f" Its value is in {', '.join(readers[:3])}." if readers else ""
            return f"It holds the handle of a resource, not an array.{where}"
        return self.kept or "It is in the graph, but this run did not compute or watch it."

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


def noted(failures: list[str]) -> Callable[[Datum, Exception], None]:
    """What adds a line to a list for each tensor that a filter raises for; see `Dump.find`."""
    return lambda datum, error: failures.append(f"{datum.tensor_name}: {one_line(error)}")


def variable_before(dump: Dump, handle: str) -> Any:
    """The value that a variable had before a run wrote to it, as the run has read it.

    Args:
        dump: of the run.
        handle: of the variable, a tensor.

    Raises:
        CannotRedo: the run has not read it before.
    """
    graph = dump.graph()
    edges = graph.recipients(handle.rpartition(":")[0], control=False) if graph is not None else ()
    for edge in edges:
        node = graph.nodes[edge.node] if graph is not None else None
        if node is not None and node.op_type == "ReadVariableOp" and [*node.inputs] == [handle]:
            for datum in dump.by_node(edge.node):
                return datum.get_tensor()
    raise CannotRedo(f"the value of {handle} before the run isn't in the dump")
