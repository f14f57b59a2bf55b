"""The run folder as a `Dump`: values stay mapped in their files until somebody looks."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tfdbg_cli.dumps.dtypes import decode, dtype_by_name
from tfdbg_cli.dumps.dump import Datum, Dump, InconvertibleTensorProto, RunError, RunInfo
from tfdbg_cli.dumps.feeds import LazyFeeds
from tfdbg_cli.dumps.files import read_file
from tfdbg_cli.dumps.graph import Graph, parse_tensor_name
from tfdbg_cli.dumps.graph_def import graph_of, parse_graph_def
from tfdbg_cli.dumps.profile import Profile
from tfdbg_cli.dumps.profile_file import PROFILE_FILE, read_profile
from tfdbg_cli.dumps.runfolder_writer import (
    FORMAT,
    FRAMES_FILE,
    GRAPH_FILE,
    INDEX_FILE,
    RUN_FILE,
    SOURCES_FOLDER,
    VERSION,
    RunFolderWriter,
    write_run_folder,
)
from tfdbg_cli.dumps.safetensors_part import dtype_of_stored, read_header
from tfdbg_cli.dumps.sources import Frame, Sources
from tfdbg_cli.dumps.strings_part import decode_strings
from tfdbg_cli.dumps.view_places import view_in
from tfdbg_cli.errors import DumpError, UserError

__all__ = ["RunFolderDatum", "RunFolderDump", "RunFolderWriter", "write_run_folder"]

_Record = dict[str, Any]


class RunFolderDatum(Datum):
    """One tensor of a run folder.

    Attributes:
        op_type: of its node, as the index has it.
        health: how many elements are NaN, minus infinity and plus infinity; ``None`` where they
            weren't counted.
    """

    __slots__ = ("_report", "_stored", "health", "op_type")

    def __init__(self, stored: _Stored, record: _Record, report: Callable[[str], None]) -> None:
        super().__init__(
            str(record["node"]),
            int(record["slot"]),
            stored.load,
            debug_op=str(record.get("debug_op") or "DebugIdentity"),
            timestamp=int(record.get("time", 0)),
            device_name=str(record.get("device", "")),
            dtype=stored.dtype,
            shape=stored.shape,
            nbytes=int(record.get("bytes", 0)),
            is_view=record.get("view") is True,
            note=str(record.get("note") or ""),
        )
        self.op_type = str(record.get("op_type", ""))
        self.health: tuple[int, int, int] | None = None
        if "nan" in record:
            self.health = int(record["nan"]), int(record["neg_inf"]), int(record["pos_inf"])
        self._stored = stored
        self._report = report

    @property
    def file_path(self) -> str:
        """The file that holds the value; empty if none does."""
        return self._stored.path

    def get_tensor(self) -> Any:
        """The value: an ndarray, or an `InconvertibleTensorProto`.

        Raises:
            DumpError: the value wasn't stored, or its file is missing or damaged.
        """
        try:
            return self._stored.load()
        except DumpError as error:
            if not self._stored.missing:
                self._report(error.message)
            raise


class _Stored:
    """Where a value is and how to read it."""

    __slots__ = (
        "as_text",
        "base",
        "dtype",
        "end",
        "given",
        "missing",
        "path",
        "place",
        "shape",
        "start",
    )

    def __init__(self, root: str, record: _Record) -> None:
        shape = record.get("shape")
        self.shape = None if shape is None else tuple(int(size) for size in shape)
        self.dtype = str(record.get("dtype", ""))
        self.missing = str(record.get("missing", ""))
        self.as_text = bool(record.get("text"))
        self.given: InconvertibleTensorProto | None = None
        self.path = ""
        self.place: _Record | None = record if "of" in record else None
        self.base: _Stored | None = None  # of a view
        self.start, self.end = int(record.get("start", 0)), int(record.get("end", 0))
        if "description" in record:
            is_initialized = bool(record.get("initialized", True))
            self.given = InconvertibleTensorProto(record["description"], is_initialized)
        elif not self.missing and self.place is None:
            file = str(record["file"])
            if os.path.basename(file) != file or self.start < 0 or self.end < self.start:
                raise ValueError(f"{file!r} is no place in this folder")
            self.path = os.path.join(root, file)

    def load(self) -> Any:
        if self.given is not None:
            return self.given
        if self.missing:
            raise DumpError(f"The dump has no value of this tensor. {self.missing}")
        if self.place is not None:
            return self._view(self.place)
        data = self._data()
        try:
            if self.dtype == "string":
                return decode_strings(bytes(data), self.as_text)
            dtype = dtype_by_name(self.dtype)
            if dtype is None or not dtype.raw:
                return InconvertibleTensorProto(f"Tensor of the unknown type {self.dtype}")
            return decode(np.frombuffer(data, dtype.raw).reshape(self.shape or ()), dtype)
        except (ValueError, TypeError) as error:
            raise DumpError(f"{self.path} is damaged: {error}.") from None
        except DumpError as error:
            raise DumpError(f"{self.path} is damaged: {error.message}") from None

    def _view(self, place: _Record) -> Any:
        base = self.base
        dtype = dtype_by_name(self.dtype)
        if base is None or not base.path or dtype is None or not dtype.raw:
            raise DumpError("The dump has no value of the tensor that this one is a view of.")
        try:
            raw = view_in(base._data(), place, self.shape or (), np.dtype(dtype.raw))
        except (ValueError, TypeError, KeyError) as error:
            raise DumpError(f"{base.path} is damaged: {error}.") from None
        return decode(raw, dtype)

    def _data(self) -> memoryview:
        """The bytes of the elements."""
        data = read_file(self.path)
        if self.end > len(data):
            raise DumpError(
                f"{self.path} is damaged: it ends at byte {len(data)}, but the tensor at "
                f"{self.end}."
            )
        return data[self.start : self.end]


class RunFolderDump(Dump):
    """A run folder.

    What is missing or damaged becomes a line of `warnings`; the rest is shown.

    Args:
        path: the folder.

    Raises:
        UserError: there is no such folder.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__()
        self._root = os.path.expanduser(os.fspath(path))
        if not os.path.isdir(self._root):
            raise UserError(f"There is no folder {self._root}.")
        self._reported: set[str] = set()
        self._graph: Graph | None = None
        self._is_graph_read = False
        self._run = self._read_run()
        self._feeds: dict[str, _Stored] = {}
        placed: list[tuple[int, RunFolderDatum]] = []
        for position, record in self._records():
            datum = self._take(record)
            if datum is not None:
                placed.append((position, datum))
        stored = {position: datum._stored for position, datum in placed}
        for each in stored.values():
            if each.place is not None:
                each.base = stored.get(_int(each.place.get("of")))
        placed.sort(key=lambda pair: pair[0])
        self._tensors = [datum for _, datum in placed]
        self._check_files()

    def _report(self, line: str) -> None:
        if line not in self._reported:
            self._reported.add(line)
            self.warnings.append(line)

    def _path(self, *names: str) -> str:
        return os.path.join(self._root, *names)

    # Reading.

    def _read_json(self, *names: str) -> Any:
        """The content of a JSON file; ``None`` after a warning if it is damaged or missing."""
        path = self._path(*names)
        try:
            return json.loads(bytes(read_file(path)))
        except DumpError as error:
            self._report(error.message)
        except ValueError as error:
            self._report(f"{path} is damaged: {error}.")
        return None

    def _read_run(self) -> _Record:
        if not os.path.exists(self._path(RUN_FILE)):
            self._report(
                f"{self._path(RUN_FILE)} is missing: the run ended before its dump was complete."
            )
            return {}
        found = self._read_json(RUN_FILE)
        if not isinstance(found, dict):
            return {}
        if found.get("format") != FORMAT or found.get("version") != VERSION:
            self._report(
                f"{self._path(RUN_FILE)} has format {found.get('format')!r} version "
                f"{found.get('version')!r}; this tfdbg_cli knows version {VERSION}."
            )
        for line in _list(found.get("warnings")):
            self._report(str(line))
        return found

    def _records(self) -> Iterator[tuple[int, _Record]]:
        """The tensors of the index with their positions, as the lines come."""
        path = self._path(INDEX_FILE)
        try:
            lines = bytes(read_file(path)).splitlines()
        except DumpError as error:
            self._report(error.message)
            yield from self._records_of_parts()
            return
        tensors = feeds = damaged = 0
        for number, line in enumerate(lines, 1):
            try:
                record = json.loads(line)
                if "format" in record:
                    continue
                position = int(record.get("n", -1))
            except (ValueError, TypeError, AttributeError):
                damaged += 1
                self._report(f"{path} is damaged: line {number} is left out.")
                continue
            tensors += position >= 0
            feeds += position < 0
            yield position, record
        missing = _int(self._run.get("tensors")) - tensors
        if missing > damaged:
            self._report(f"{path} is damaged: {missing} tensors are missing.")
        if not tensors and not feeds and (damaged or not lines):
            self._report(f"{path} names no tensor.")
            yield from self._records_of_parts()

    def _records_of_parts(self) -> Iterator[tuple[int, _Record]]:
        """What the headers of the tensor files tell, where the index is lost."""
        number = 0
        for path in sorted(Path(self._root).glob("tensors-*.safetensors")):
            try:
                header = read_header(path)
            except DumpError as error:
                self._report(error.message)
                continue
            for key, entry in header.items():
                node, slot = parse_tensor_name(key.partition("#")[0])
                dtype = dtype_of_stored(entry.stored)
                record: _Record = {
                    "dtype": dtype.name if dtype is not None else entry.stored,
                    "shape": entry.shape,
                    "bytes": entry.end - entry.start,
                    "file": path.name,
                    "start": entry.start,
                    "end": entry.end,
                }
                if slot is None or node.startswith("feed/"):
                    yield -1, {"feed": key.removeprefix("feed/"), **record}
                else:
                    yield number, {"node": node, "slot": slot, **record}
                    number += 1

    def _take(self, record: _Record) -> RunFolderDatum | None:
        """The tensor of a line; ``None`` for a feed, which is kept, and for a damaged line."""
        try:
            stored = _Stored(self._root, record)
            if "feed" not in record:
                return RunFolderDatum(stored, record, self._report)
            self._feeds[str(record["feed"])] = stored
        except (KeyError, ValueError, TypeError) as error:
            name = record.get("node", record.get("feed", "?"))
            self._report(f"{self._path(INDEX_FILE)} is damaged: {name} is left out ({error}).")
        return None

    def _check_files(self) -> None:
        """Name the files that are gone or shorter than they were, without opening any."""
        needed: dict[str, int] = {}
        sizes = self._run.get("files")
        for name, size in sizes.items() if isinstance(sizes, dict) else ():
            needed[self._path(*str(name).split("/"))] = _int(size)
        for stored in [*(datum._stored for datum in self._tensors), *self._feeds.values()]:
            if stored.path:
                needed[stored.path] = max(needed.get(stored.path, 0), stored.end)
        for path, end in needed.items():
            try:
                size = os.stat(path).st_size
            except OSError:
                self._report(f"{path} is gone.")
                continue
            if size < end:
                self._report(f"{path} is damaged: {end - size} bytes are missing at its end.")

    # The face of every dump.

    def _make_data(self) -> list[Datum]:
        return list(self._tensors)

    def graph(self) -> Graph | None:
        """The graph, or ``None`` where the folder holds none."""
        if not self._is_graph_read:
            self._is_graph_read = True
            path = self._path(GRAPH_FILE)
            if os.path.exists(path):
                try:
                    self._graph = graph_of(parse_graph_def(read_file(path)), self._frames)
                except DumpError as error:
                    message = error.message
                    self._report(message if path in message else f"{path} is damaged: {message}")
        return self._graph

    @functools.cached_property
    def _stacks(self) -> tuple[dict[str, int], list[list[int]], list[Frame]]:
        if not os.path.exists(self._path(FRAMES_FILE)):
            return {}, [], []
        found = self._read_json(FRAMES_FILE)
        try:
            frames = [
                Frame(str(file), int(line), str(function), str(text))
                for file, line, function, text in found["frames"]
            ]
            stacks = [[int(number) for number in stack] for stack in found["stacks"]]
            nodes = {str(name): int(number) for name, number in found["nodes"].items()}
        except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
            if found is not None:
                self._report(f"{self._path(FRAMES_FILE)} is damaged: {error!r}.")
            return {}, [], []
        return nodes, stacks, frames

    def _frames(self, node_name: str) -> Iterable[Frame] | None:
        nodes, stacks, frames = self._stacks
        try:
            return [frames[number] for number in stacks[nodes[node_name]]]
        except (KeyError, IndexError):
            return None

    def sources(self) -> Sources:
        """The text of the user's files as they ran; other files aren't looked for."""
        return self._sources

    @functools.cached_property
    def _sources(self) -> Sources:
        texts: dict[str, str] = {}
        if os.path.exists(self._path(SOURCES_FOLDER)):
            index = self._read_json(SOURCES_FOLDER, "index.json")
            for path, name in index.items() if isinstance(index, dict) else ():
                try:
                    data = bytes(read_file(self._path(SOURCES_FOLDER, os.path.basename(str(name)))))
                    texts[path] = data.decode("utf-8", "replace")
                except DumpError as error:
                    self._report(error.message)
        return Sources(texts, live=False)

    def run_info(self) -> RunInfo | None:
        """Fetches, feeds and error of the run, or ``None`` where the folder doesn't say."""
        found = self._run.get("run")
        feeds = LazyFeeds({name: stored.load for name, stored in self._feeds.items()})
        if not isinstance(found, dict):
            return RunInfo(feeds=feeds) if feeds else None
        error = found.get("error")
        return RunInfo(
            call_count=_int(found.get("call_count")),
            fetches=[str(name) for name in _list(found.get("fetches"))],
            feeds=feeds,
            engine=str(found.get("engine", "")),
            runner=str(found.get("runner", "")),
            kind=str(found.get("kind") or "run"),
            filter_name=str(found.get("filter") or ""),
            number=_int(found.get("number")),
            details=[
                (str(item[0]), str(item[1]))
                for item in _list(found.get("details"))
                if isinstance(item, list) and len(item) == 2
            ],
            outputs={
                str(name): str(tensor) for name, tensor in _dict(found.get("outputs")).items()
            },
            results={str(name): bool(is_one) for name, is_one in results.items()}
            if isinstance(results := found.get("results"), dict)
            else None,
            error=RunError(
                str(error.get("type", "")),
                str(error.get("message", "")),
                str(error.get("op", "")),
                str(error.get("file") or ""),
                _int(error.get("line")),
            )
            if isinstance(error, dict)
            else None,
        )

    def profile(self) -> Profile | None:
        """Timings per node; empty where they are lost, ``None`` where the run was not timed."""
        return self._profile

    @functools.cached_property
    def _profile(self) -> Profile | None:
        path = self._path(PROFILE_FILE)
        if os.path.exists(path):
            return read_profile(path, self._report)
        files = self._run.get("files")
        return Profile() if isinstance(files, dict) and PROFILE_FILE in files else None

    def op_type(self, node_name: str) -> str:
        """The op type of a node: from the graph, else from the index."""
        found = super().op_type(node_name)
        if found:
            return found
        for datum in self.by_node(node_name):
            if isinstance(datum, RunFolderDatum) and datum.op_type:
                return datum.op_type
        return ""


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _dict(value: Any) -> dict[Any, Any]:
    return value if isinstance(value, dict) else {}


def _int(value: Any) -> int:
    return value if isinstance(value, int) else 0
