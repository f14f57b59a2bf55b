"""Any dump written in the original's directory format, for TensorFlow's own tools."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import time
import weakref
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tfdbg_cli.common.arrays import np
from tfdbg_cli.common.errors import DumpError, UserError
from tfdbg_cli.dumps.dump import Datum, Dump, InconvertibleTensorProto, RunInfo
from tfdbg_cli.dumps.feeds import as_tensor
from tfdbg_cli.dumps.files import Chunk, make_folder, write_file
from tfdbg_cli.dumps.graph import Graph, node_name_of, parse_tensor_name
from tfdbg_cli.dumps.proto.graph_def import NodeDef, graph_chunks, node_def_of
from tfdbg_cli.dumps.proto.tensor_proto import tensor_chunks
from tfdbg_cli.dumps.tfdbg_dir.events import graph_event, message_event, tensor_event
from tfdbg_cli.dumps.tfdbg_dir.names import (
    CORE_METADATA_PREFIX,
    FEED_KEYS_INFO,
    FETCHES_INFO,
    GRAPH_PREFIX,
    device_name_to_device_path,
    file_node_name,
)

__all__ = [
    "DEFAULT_DEVICE",
    "check_new_folder",
    "write_dump_directory",
    "write_request_info",
]

#: Where tensors without a device are filed.
DEFAULT_DEVICE = "/job:localhost/replica:0/task:0/device:CPU:0"

_LOOP_EDGES = frozenset({"Enter", "NextIteration"})


def check_new_folder(path: str | os.PathLike[str]) -> None:
    """Make sure that a dump overwrites nothing: the folder is made, or it is empty.

    Raises:
        UserError: there is a file of that name, or the folder holds something.
    """
    path = os.fspath(path)
    if os.path.exists(path) and not os.path.isdir(path):
        raise UserError(f"{path} is a file.", "Choose a folder for the dump.")
    if os.path.isdir(path) and os.listdir(path):
        raise UserError(f"{path} is not empty.", "Choose a new folder for the dump.")
    make_folder(path)


def write_dump_directory(
    dump: Dump,
    root: str | os.PathLike[str],
    *,
    is_new: bool = True,
    allow: Callable[[int], bool] | None = None,
) -> list[str]:
    """Write a dump so that TensorFlow's ``debug_data.DebugDumpDir`` opens it.

    Each file appears whole or not at all. Tensors without a device are filed under
    `DEFAULT_DEVICE`. Times are kept, except that they are made to increase strictly in the order
    of the dump and to follow the graph: TensorFlow sorts by them and refuses a tensor that seems
    older than its inputs. Feeds whose tensors aren't in the dump are written as ``_arg_…``.

    Args:
        dump: what to write.
        root: a new or empty folder; one run.
        is_new: ``False``: the folder was made for this run, and `write_request_info` was called.
        allow: asked before each tensor's file, with its bytes, whether there is room for it.

    Returns:
        One line for each tensor that the format can't hold.

    Raises:
        UserError: the folder isn't empty, the disk is full or not writable; the message names
            the file.
    """
    root = os.path.expanduser(os.fspath(root))
    if is_new:
        check_new_folder(root)
    graph = dump.graph()
    info = dump.run_info()
    # Who makes the folder for a run decides what belongs in it.
    feeds = _undumped_feeds(dump, info) if is_new else []
    # Views hold nothing that isn't elsewhere; their nodes are in the graph.
    data = [*feeds, *(datum for datum in dump.data() if not datum.is_view)]
    times = _strict_times(data, graph)
    start = times[0] if times else time.time_ns() // 1000
    # What is known of the run comes first: it is what a kill must leave.
    if info is not None:
        _write_core_metadata(info, root, start)
        if is_new:
            keys = f"dict_keys({list(info.feeds)!r})" if info.feeds else "None"
            write_request_info(root, repr(list(info.fetches)), keys)
    problems: list[str] = []
    dumped: dict[str, set[str]] = {}
    for datum, stamp in zip(data, times, strict=True):
        device = datum.device_name or DEFAULT_DEVICE
        try:
            _write_tensor(dump, datum, device, stamp, root, allow)
        except DumpError as error:
            problems.append(f"{datum.tensor_name} was left out: {error.message}")
            continue
        dumped.setdefault(datum.node_name, set()).add(device)
    if graph is not None:
        _write_graphs(graph, dumped, root, start)
    return problems


def _undumped_feeds(dump: Dump, info: RunInfo | None) -> list[Datum]:
    data: list[Datum] = []
    if info is None:
        return data
    first = min((datum.timestamp for datum in dump.data()), default=0)
    for index, name in enumerate(info.feeds):
        node, slot = parse_tensor_name(name)
        if dump.by_tensor(f"{node}:{slot or 0}"):
            continue
        value = as_tensor(info.feeds[name])
        if isinstance(value, InconvertibleTensorProto):
            continue
        arg = f"_arg_{node}_{slot or 0}_{index}"
        data.append(Datum(arg, 0, functools.partial(_given, value), timestamp=first))
    return data


def _given(value: Any) -> Any:
    return value


def _write_tensor(
    dump: Dump,
    datum: Datum,
    device: str,
    stamp: int,
    root: str,
    allow: Callable[[int], bool] | None,
) -> None:
    value = dump.value(datum)
    is_array = isinstance(value, np.ndarray | np.generic)
    tensor = tensor_chunks(value, datum.dtype, None if is_array else datum.shape)
    name = file_node_name(datum.node_name)
    file = Path(root, device_name_to_device_path(device), name)
    file = file.with_name(f"{file.name}_{datum.output_slot}_{datum.debug_op}_{stamp}")
    chunks = tensor_event(name, datum.output_slot, datum.debug_op, device, stamp, tensor)
    if allow is not None and not allow(sum(memoryview(chunk).nbytes for chunk in chunks)):
        raise DumpError("There is no room left for it.")
    make_folder(file.parent)
    write_file(file, chunks)


#: What a graph file holds: its device, the number in its name, and the serialized graph.
_GraphFile = tuple[str, int, list[Chunk]]

# A program writes the same graph run after run: the latest files of each, and where the tensors
# were that they are for.
_latest: weakref.WeakKeyDictionary[Graph, tuple[dict[str, set[str]], list[_GraphFile]]] = (
    weakref.WeakKeyDictionary()
)


def _write_graphs(graph: Graph, dumped: dict[str, set[str]], root: str, stamp: int) -> None:
    known = _latest.get(graph)
    if known is None or known[0] != dumped:
        known = _latest[graph] = (dumped, _graph_files(graph, dumped))
    for device, number, chunks in known[1]:
        folder = Path(root, device_name_to_device_path(device))
        make_folder(folder)
        write_file(folder / f"{GRAPH_PREFIX}hash{number}_{stamp}", graph_event(chunks, stamp))


def _graph_files(graph: Graph, dumped: dict[str, set[str]]) -> list[_GraphFile]:
    counts = Counter(device for devices in dumped.values() for device in devices)
    default = counts.most_common(1)[0][0] if counts else DEFAULT_DEVICE
    by_device: dict[str, list[NodeDef]] = {device: [] for device in counts}
    for node in graph.nodes.values():
        definition = node_def_of(node)
        # Where a node was dumped is where it ran; the graph may be less exact.
        for device in sorted(dumped.get(node.name) or {node.device or default}):
            by_device.setdefault(device, []).append(replace(definition, device=device))
    for name, devices in dumped.items():
        if name not in graph:
            op = "_Arg" if name.startswith("_arg_") else ""
            for device in devices:
                by_device[device].append(NodeDef(name, op, device=device))
    files: list[_GraphFile] = []
    for device, nodes in by_device.items():
        chunks = graph_chunks(nodes, file_node_name)
        digest = hashlib.blake2b(digest_size=8)
        for chunk in chunks:
            digest.update(chunk)
        files.append((device, int.from_bytes(digest.digest(), "little"), chunks))
    return files


def write_request_info(root: str | os.PathLike[str], fetches: str, feed_keys: str) -> None:
    """Note in a run's folder what the run was asked for, as text for people.

    Args:
        root: the folder.
        fetches: ``repr`` of the fetches.
        feed_keys: ``repr`` of the keys of the feed_dict.

    Raises:
        UserError: a file can't be written.
    """
    write_file(Path(root, FETCHES_INFO), message_event(fetches))
    write_file(Path(root, FEED_KEYS_INFO), message_event(feed_keys))


def _write_core_metadata(info: RunInfo, root: str, stamp: int) -> None:
    fetches = list(info.fetches)
    record = {
        "global_step": -1,
        "session_run_index": info.call_count,
        "executor_step_index": 0,
        "input_names": list(info.feeds),
        "output_names": [name for name in fetches if parse_tensor_name(name)[1] is not None],
        "target_nodes": [name for name in fetches if parse_tensor_name(name)[1] is None],
    }
    core = f"{CORE_METADATA_PREFIX}sessionrun{info.call_count:014d}_{stamp}"
    text = json.dumps(record, separators=(",", ":"), ensure_ascii=False)
    write_file(Path(root, core), message_event(text, stamp))


def _strict_times(data: Sequence[Datum], graph: Graph | None) -> list[int]:
    """A time of 16 digits for each datum: different ones, in order, and inputs before outputs."""
    if not data:
        return []
    times = [datum.timestamp for datum in data]
    low, high = min(times), max(times)
    if low < 10**15 or high >= 10**16:
        # No time since the epoch: keep what lies between them.
        span_fits = high - low < 10**14
        now = time.time_ns() // 1000
        times = [now + (each - low if span_fits else at) for at, each in enumerate(times)]
    if graph is not None:
        shifts = _causal_shifts(data, times, graph)
        times = [
            each + shifts.get(datum.node_name, 0) for datum, each in zip(data, times, strict=True)
        ]
    last = 0
    for at in sorted(range(len(times)), key=lambda at: (times[at], at)):
        times[at] = last = max(times[at], last + 1)
    return times


def _causal_shifts(data: Sequence[Datum], times: Sequence[int], graph: Graph) -> dict[str, int]:
    """Node -> by how much it must be later to come after the inputs that it was dumped before."""
    first: dict[str, int] = {}
    arrival: dict[str, int] = {}
    for datum, stamp in zip(data, times, strict=True):
        first.setdefault(datum.node_name, stamp)
        arrival.setdefault(datum.tensor_name, stamp)
    sources: dict[str, list[str]] = {}
    consumers: dict[str, list[str]] = {}
    for name in first:
        node = graph.nodes.get(name)
        sources[name] = [
            tensor
            for tensor in (node.inputs if node is not None else ())
            if tensor in arrival and _op_type(graph, node_name_of(tensor)) not in _LOOP_EDGES
        ]
        for tensor in sources[name]:
            consumers.setdefault(node_name_of(tensor), []).append(name)
    waiting = {name: len(found) for name, found in sources.items()}
    ready = deque(name for name, count in waiting.items() if not count)
    shifts: dict[str, int] = {}
    while ready:
        name = ready.popleft()
        if sources[name]:
            arrivals = [arrival[t] + shifts.get(node_name_of(t), 0) for t in sources[name]]
            need = (min if _op_type(graph, name) == "Merge" else max)(arrivals) + 1
            if need > first[name]:
                shifts[name] = need - first[name]
        for consumer in consumers.get(name, ()):
            waiting[consumer] -= 1
            if not waiting[consumer]:
                ready.append(consumer)
    return shifts


def _op_type(graph: Graph, name: str) -> str:
    node = graph.nodes.get(name)
    return node.op_type if node is not None else ""
