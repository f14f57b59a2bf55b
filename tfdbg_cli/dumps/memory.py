"""The dump of the live run: values held in memory, nothing copied, nothing written."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from tfdbg_cli.common.errors import DumpError, one_line
from tfdbg_cli.common.interpreter.program_signals import pass_on
from tfdbg_cli.dumps.dump import Datum, Dump, RunInfo
from tfdbg_cli.dumps.graph import Graph
from tfdbg_cli.dumps.profile import Profile
from tfdbg_cli.dumps.sources import Sources

__all__ = ["MemoryDump"]


class MemoryDump(Dump):
    """Tensors of one run in memory.

    Args:
        graph: the graph, or a function that makes it when somebody asks.
        sources: source text; default: read from the files of this machine when asked.
        run_info: fetches, feeds and the rest.
        profile: the run's timings, or a function that makes them when somebody asks; ``None``:
            the run was not timed.
        make: makes tensors when somebody asks for the first one; they come before those added.
    """

    def __init__(
        self,
        graph: Graph | Callable[[], Graph | None] | None = None,
        sources: Sources | None = None,
        run_info: RunInfo | None = None,
        profile: Profile | Callable[[], Profile] | None = None,
        make: Callable[[], Iterable[Datum]] | None = None,
    ) -> None:
        super().__init__()
        self._graph = graph
        self._profile = profile
        self._sources = sources or Sources()
        self._run_info = run_info
        self._added: list[Datum] = []
        self._make = make
        self._making = threading.Lock()

    def add(
        self,
        node_name: str,
        output_slot: int,
        value: Any,
        *,
        timestamp: int | None = None,
        device_name: str = "",
        debug_op: str = "DebugIdentity",
    ) -> Datum:
        """Add one tensor. Tensors are listed in the order of their time stamps, then as added.

        Args:
            node_name: the user's name of the node.
            output_slot: which output.
            value: an ndarray, a NumPy scalar or an `InconvertibleTensorProto`. Held by
                reference: the engine makes sure that nobody overwrites it.
            timestamp: microseconds since the epoch; default: now.
            device_name: where it was computed.
            debug_op: other than ``DebugIdentity`` only if a watch asked for it.
        """
        datum = Datum(
            node_name,
            output_slot,
            lambda: value,
            timestamp=time.time_ns() // 1000 if timestamp is None else timestamp,
            device_name=device_name,
            debug_op=debug_op,
        )
        self.add_datum(datum)
        return datum

    def add_datum(self, datum: Datum) -> None:
        """Add a datum that knows how to load its own value."""
        self._added.append(datum)
        self._data = self._tables = None

    def drop_since(self, count: int) -> None:
        """Take the tensors added after the first ``count`` out again."""
        if count < len(self._added):
            del self._added[count:]
            self._data = self._tables = None

    @property
    def added(self) -> Sequence[Datum]:
        """The tensors in the order in which they were added. Cheap."""
        return self._added

    def arrays(self) -> Iterator[tuple[str, Any]]:
        """The names and values of the tensors that have memory of their own, and are there."""
        for each in self.data():
            if not (each.is_view or each.is_computed):
                with contextlib.suppress(DumpError):
                    yield each.tensor_name, each.get_tensor()

    def _make_data(self) -> list[Datum]:
        with self._making:
            if self._make is not None:
                make, self._make = self._make, None
                try:
                    self._added[:0] = make()
                except Exception as error:  # above all: there is no memory for their values
                    pass_on(error)
                    self.warnings.append(f"Tensors are missing: {one_line(error)}")
        return sorted(self._added, key=lambda datum: datum.timestamp)

    def graph(self) -> Graph | None:
        """The graph, made on first use if the engine gave a function."""
        if callable(self._graph):
            self._graph = self._graph()
        return self._graph

    def sources(self) -> Sources:
        """Source text."""
        return self._sources

    def run_info(self) -> RunInfo | None:
        """Fetches and feeds."""
        return self._run_info

    def profile(self) -> Profile | None:
        """Timings per node, made on first use if the engine gave a function."""
        if callable(self._profile):
            self._profile = self._profile()
        return self._profile

    def settle(self) -> None:
        """Copy what the program could still write to: the dump outlives the stop."""

    def set_run_info(self, info: RunInfo) -> None:
        """Say what the run was asked for (the session knows, the engine doesn't)."""
        self._run_info = info

    @property
    def nbytes(self) -> int:
        """Bytes of all values; views take none."""
        return sum(datum.nbytes for datum in self.data() if not datum.is_view)
