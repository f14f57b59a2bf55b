"""The original's dump directory as a `Dump`: what is in its files, under the user's names."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from tfdbg_cli.common.errors import DumpError
from tfdbg_cli.common.interpreter.garbage import collector_paused
from tfdbg_cli.dumps.dump import (
    Datum,
    Dump,
    InconvertibleTensorProto,
    RunInfo,
    number_executions,
)
from tfdbg_cli.dumps.elements import tensor_name_of
from tfdbg_cli.dumps.feeds import LazyFeeds
from tfdbg_cli.dumps.graph import Graph, node_name_of
from tfdbg_cli.dumps.proto.graph_def import GraphDef, parse_graph_def
from tfdbg_cli.dumps.sources import Frame
from tfdbg_cli.dumps.tfdbg_dir.datum import (
    DebugTensorDatum,
    DeviceFolder,
    name_empty_files,
    scan_device_folder,
    scan_root,
    sort_by_time,
)
from tfdbg_cli.dumps.tfdbg_dir.events import (
    CoreMetadata,
    damaged,
    extract_core_metadata_from_event_proto,
    read_event,
)
from tfdbg_cli.dumps.tfdbg_dir.names import (
    CORE_METADATA_PREFIX,
    FEED_KEYS_INFO,
    FEED_PREFIX,
    FETCHES_INFO,
    METADATA_PREFIX,
    parse_feed_node_name,
)
from tfdbg_cli.dumps.tfdbg_dir.partition import DeviceGraph, user_graph
from tfdbg_cli.dumps.tfdbg_dir.screening import maybe_nonfinite
from tfdbg_cli.dumps.tfdbg_dir.validation import causality_problems

__all__ = ["DirectoryDump"]

# So many problems are named one by one.
_NAMED = 20


class DirectoryDump(Dump):
    """A run in the original's dump directory, under the user's names.

    Args:
        dump_root: the run's folder.
        partition_graphs: graphs for devices whose folder has none.
        validate: whether to compare the dumps with the graph when it is read.

    Raises:
        OSError: there is no such folder.
    """

    def __init__(
        self,
        dump_root: str | os.PathLike[str],
        partition_graphs: Iterable[Any] | None = None,
        validate: bool = True,
    ) -> None:
        super().__init__()
        self._root = os.path.expanduser(os.fspath(dump_root))
        if not os.path.isdir(self._root):
            raise OSError(f"Dump root directory {self._root} does not exist")
        self._given_graphs = list(partition_graphs) if partition_graphs is not None else []
        self._validate = validate
        self._reported: set[str] = set()
        self._unnamed = 0
        self._are_sizes_known = False
        self._renamed: list[Datum] = []
        self._graphs: dict[str, DeviceGraph] | None = None
        self._merged: Graph | None = None
        self._python_graph: Any = None
        self._tracebacks: dict[str, Any] | None = None
        self._core: list[CoreMetadata] = []
        self._fetches: list[str] = []
        self._feed_keys: list[str] = []
        files, folders = scan_root(self._root, self._report)
        for entry in files:
            self._read_info(entry.name, entry.path)
        self._devices: dict[str, DeviceFolder] = {}
        with collector_paused():
            for path in folders:
                folder = scan_device_folder(path, self._report)
                self._devices[folder.name] = folder
        self._keys: dict[str, dict[str, list[DebugTensorDatum]]] | None = None
        self._dumped: set[tuple[str, int]] | None = None
        self._feeds: dict[str, list[tuple[str, int]]] | None = None

    # Reading.

    @property
    def warnings(self) -> list[str]:
        """One line for each part that is missing or damaged.

        Which files are empty is found when somebody asks: the system is asked for each.
        """
        if not self._are_sizes_known:
            self._are_sizes_known = True
            for folder in self._devices.values():
                name_empty_files(folder.data, self._report)
        return self._warnings

    @warnings.setter
    def warnings(self, lines: list[str]) -> None:
        self._warnings = lines

    def _report(self, line: str) -> None:
        if line in self._reported:
            return
        self._reported.add(line)
        if len(self._reported) <= _NAMED:
            self._warnings.append(line)
            return
        if self._unnamed:
            self._warnings.pop()
        self._unnamed += 1
        self._warnings.append(f"{self._unnamed} more problems of this kind in {self._root}.")

    def _read_info(self, name: str, path: str) -> None:
        try:
            if name.startswith(CORE_METADATA_PREFIX):
                self._core.append(extract_core_metadata_from_event_proto(read_event(path)))
            elif name.startswith(FETCHES_INFO):
                self._fetches.append(read_event(path).message or "")
            elif name.startswith(FEED_KEYS_INFO):
                self._feed_keys.append(read_event(path).message or "")
            elif not name.startswith(METADATA_PREFIX):
                self._report(f"{path} is no part of a dump.")
        except DumpError as error:
            message = error.message
            self._report(message if path in message else damaged(path, error).message)

    def _load_graphs(self) -> dict[str, DeviceGraph]:
        if self._graphs is not None:
            return self._graphs
        self._graphs = {}
        for folder in self._devices.values():
            graph_def = self._read_graph(folder)
            if graph_def is None:
                continue
            graph = DeviceGraph(graph_def, folder.name)
            self._graphs[folder.name] = graph
            for name in graph.duplicates:
                self._report(f'The graph of {folder.name} has several nodes named "{name}".')
            if self._validate:
                for line in causality_problems(graph, folder.data):
                    self._report(line)
        # The graphs may have feeds that weren't dumped.
        self._feeds = None
        return self._graphs

    def _read_graph(self, folder: DeviceFolder) -> GraphDef | None:
        found: GraphDef | None = None
        for path in folder.graph_files:
            try:
                data = read_event(path).graph_def
                if data is None:
                    raise damaged(path, DumpError("The file holds no graph."))
                graph_def = parse_graph_def(data)
            except DumpError as error:
                message = error.message
                self._report(message if path in message else damaged(path, error).message)
                continue
            if found is None:
                found = graph_def
            else:
                # Another executor of the same run: what it adds counts, what it repeats doesn't.
                known = {node.name for node in found.node}
                found.node.extend(node for node in graph_def.node if node.name not in known)
        if found is None:
            found = self._given_graph(folder.name)
        return found

    def _given_graph(self, device: str) -> GraphDef | None:
        for given in self._given_graphs:
            if isinstance(given, GraphDef):
                graph_def = given
            else:
                is_message = hasattr(given, "SerializeToString")
                graph_def = parse_graph_def(given.SerializeToString() if is_message else given)
            if any(node.device == device for node in graph_def.node):
                return graph_def
        return None

    def _watch_keys(self) -> dict[str, dict[str, list[DebugTensorDatum]]]:
        if self._keys is None:
            self._keys = {}
            for name, folder in self._devices.items():
                table: dict[str, list[DebugTensorDatum]] = {}
                for datum in folder.data:
                    table.setdefault(datum.watch_key, []).append(datum)
                self._keys[name] = table
        return self._keys

    def _all_data(self) -> list[DebugTensorDatum]:
        data = [datum for folder in self._devices.values() for datum in folder.data]
        if len(self._devices) > 1:
            sort_by_time(data)
        return data

    def _feed_of(self, arg_node: str) -> tuple[str, int] | None:
        """The tensor that a feed node stands for, unless that tensor was dumped itself."""
        fed = parse_feed_node_name(arg_node)
        if fed is None:
            return None
        if self._dumped is None:
            self._dumped = {(datum.node_name, datum.output_slot) for datum in self._all_data()}
        return fed if fed not in self._dumped else None

    def _feed_nodes(self) -> dict[str, list[tuple[str, int]]]:
        """User's node -> the feed nodes for it, with the slots that they feed."""
        if self._feeds is None:
            self._feeds = {}
            names = dict.fromkeys(datum.node_name for datum in self._all_data())
            for graph in (self._graphs or {}).values():
                names.update(dict.fromkeys(graph.nodes))
            for name in names:
                fed = self._feed_of(name)
                if fed is not None:
                    self._feeds.setdefault(fed[0], []).append((name, fed[1]))
        return self._feeds

    # Tracebacks.

    def set_python_graph(self, python_graph: Any) -> None:
        """Give the graph in which the program made its nodes, for tracebacks.

        Args:
            python_graph: a ``tf.Graph``, or anything with ``get_operations()`` whose items have
                ``name`` and ``traceback``; ``None`` takes it away.
        """
        self._python_graph = python_graph
        self._tracebacks = None
        self._merged = None

    @property
    def python_graph(self) -> Any:
        """What `set_python_graph` was given, or ``None``."""
        return self._python_graph

    def node_traceback(self, element_name: str) -> tuple[tuple[Any, ...], ...]:
        """The stack that made a node: ``(file, line, function, text)``, outermost frame first.

        Args:
            element_name: a node or a tensor, by the user's name or the dump's.

        Raises:
            LookupError: `set_python_graph` wasn't called.
            KeyError: the graph has no such node.
        """
        if self._python_graph is None:
            raise LookupError("Python graph is not available for traceback lookup")
        if self._tracebacks is None:
            self._tracebacks = {op.name: op for op in self._python_graph.get_operations()}
        name = node_name_of(element_name)
        if name not in self._tracebacks:
            fed = parse_feed_node_name(name)
            if fed is None or fed[0] not in self._tracebacks:
                raise KeyError(f'Cannot find node "{name}" in Python graph')
            name = fed[0]
        return tuple(tuple(frame) for frame in self._tracebacks[name].traceback)

    # The face of every dump.

    def _make_data(self) -> list[Datum]:
        found = self._all_data()
        data: list[Datum] = [*found]
        for at, datum in enumerate(found):
            if datum.node_name.startswith(FEED_PREFIX):
                fed = self._feed_of(datum.node_name)
                if fed is not None:
                    data[at] = renamed = datum.renamed(*fed)
                    self._renamed.append(renamed)
        return data

    def _number(self, data: Sequence[Datum]) -> None:
        # The others were numbered where they were listed.
        number_executions(self._renamed)

    def maybe_nonfinite(self, data: Iterable[Datum]) -> Iterator[Datum]:
        """The elements of many small files are judged at once."""
        return maybe_nonfinite(data)

    def graph(self) -> Graph | None:
        graphs = self._load_graphs()
        if not graphs:
            return None
        if self._merged is None:
            self._merged = user_graph(
                graphs.values(), self._feed_of, _DumpedNodes(self._watch_nodes()), self._frames
            )
        return self._merged

    def _watch_nodes(self) -> dict[str, set[str]]:
        return {
            name: {datum.node_name for datum in folder.data}
            for name, folder in self._devices.items()
        }

    def _frames(self, node_name: str) -> Iterable[Frame] | None:
        try:
            found = self.node_traceback(node_name)
        except LookupError:
            return None
        return [
            Frame(str(file), int(line or 0), str(function), str(text or "").strip())
            for file, line, function, text in ((*frame, "")[:4] for frame in found)
        ]

    def run_info(self) -> RunInfo | None:
        if self._core:
            core = self._core[0]
            fetches = [*core.output_names, *core.target_nodes]
            return RunInfo(
                call_count=core.session_run_index,
                fetches=fetches,
                feeds=self._feed_values(core.input_names),
                engine="tensorflow",
            )
        if not self._fetches and not self._feed_keys:
            return None
        return RunInfo(
            fetches=_names_in(self._fetches[0]) if self._fetches else (),
            feeds=self._feed_values(_names_in(self._feed_keys[0]) if self._feed_keys else ()),
            engine="tensorflow",
        )

    def _feed_values(self, names: Iterable[str]) -> Mapping[str, Any]:
        return LazyFeeds({name: self._feed_loader(name) for name in names})

    def _feed_loader(self, name: str) -> Callable[[], Any]:
        def load() -> Any:
            found = self.by_tensor(tensor_name_of(name))
            if found:
                return found[0].get_tensor()
            return InconvertibleTensorProto("The dump holds no value of this feed.")

        return load


class _DumpedNodes:
    """The ``(device, node)`` pairs that have dumps."""

    def __init__(self, nodes: Mapping[str, set[str]]) -> None:
        self._nodes = nodes

    def __contains__(self, pair: object) -> bool:
        return isinstance(pair, tuple) and pair[1] in self._nodes.get(pair[0], ())


def _names_in(text: str) -> list[str]:
    """The names of tensors and operations in the ``repr`` of fetches or of a feed's keys."""
    found = re.findall(r"<tf\.(?:Tensor|Operation|Variable) '([^']+)'|'([^']+)'", text)
    return list(dict.fromkeys(first or second for first, second in found))
