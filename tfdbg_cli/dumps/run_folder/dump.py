"""The run folder as a `Dump`: values stay mapped in their files until somebody looks."""

from __future__ import annotations

import functools
import itertools
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal

from tfdbg_cli.common.errors import DumpError, UserError
from tfdbg_cli.common.garbage import collector_paused
from tfdbg_cli.dumps.dump import Datum, Dump, RunError, RunInfo
from tfdbg_cli.dumps.feeds import LazyFeeds
from tfdbg_cli.dumps.files import read_file
from tfdbg_cli.dumps.graph import Graph, parse_tensor_name
from tfdbg_cli.dumps.profile import Profile
from tfdbg_cli.dumps.proto.graph_def import graph_of, parse_graph_def
from tfdbg_cli.dumps.run_folder.json_fields import (
    LARGEST,
    Fields,
    fail,
    is_size,
    parse_json,
    parse_lines,
)
from tfdbg_cli.dumps.run_folder.profile_file import PROFILE_FILE, read_profile
from tfdbg_cli.dumps.run_folder.safetensors_part import dtype_of_stored, read_header
from tfdbg_cli.dumps.run_folder.tensors import Record, RunFolderDatum, Stored, plain_datum
from tfdbg_cli.dumps.run_folder.writer import (
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
from tfdbg_cli.dumps.sources import Frame, Sources

__all__ = ["RunFolderDatum", "RunFolderDump", "RunFolderWriter", "write_run_folder"]

# Nobody has a source file of so many bytes.
_LARGEST_SOURCE = 1 << 26


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
        self._feeds: dict[str, Stored] = {}
        positions: list[int] = []
        self._tensors: list[RunFolderDatum] = []
        with collector_paused():
            for line, position, record in self._records():
                datum = self._take(line, record)
                if datum is not None:
                    positions.append(position)
                    self._tensors.append(datum)
        if any(datum._stored.place is not None for datum in self._tensors):
            stored = dict(zip(positions, (datum._stored for datum in self._tensors), strict=True))
            for each in stored.values():
                if each.place is not None:
                    each.base = stored.get(each.place["of"]) if is_size(each.place["of"]) else None
        if any(first > second for first, second in itertools.pairwise(positions)):
            order = sorted(range(len(positions)), key=positions.__getitem__)
            self._tensors = [self._tensors[at] for at in order]
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
            return parse_json(bytes(read_file(path, self._root)))
        except DumpError as error:
            self._report(error.message)
        except ValueError as error:
            self._report(f"{path} is damaged: {error}.")
        return None

    def _read_run(self) -> Fields:
        path = self._path(RUN_FILE)
        incomplete = "the run ended before its dump was complete"
        is_there = os.path.lexists(path)
        if not is_there:
            self._report(f"{path} is missing: {incomplete}.")
        found = Fields(
            self._read_json(RUN_FILE) if is_there else None,
            lambda name: self._report(f"{path} is damaged: {name} is left out."),
        )
        if found.flag("unfinished"):
            self._report(f"{path} is unfinished: {incomplete}.")
        if is_there and "format" in found:
            known = found.text("format"), found.number("version")
            if known != (FORMAT, VERSION):
                self._report(
                    f"{path} has format {known[0]!r} version {known[1]!r}; this tfdbg_cli knows "
                    f"version {VERSION}."
                )
        for line in found.texts("warnings"):
            self._report(line)
        return found

    def _records(self) -> Iterator[tuple[int, int, Record]]:
        """The tensors of the index, with the numbers of their lines and their positions."""
        path = self._path(INDEX_FILE)
        try:
            data = bytes(read_file(path, self._root))
        except DumpError as error:
            self._report(error.message)
            yield from self._records_of_parts()
            return
        tensors = feeds = damaged = 0
        for number, record in parse_lines(data):
            try:
                if "format" in record:
                    continue
                position = record.get("n", -1)
                if type(position) is not int or not 0 <= position < LARGEST:
                    position = Fields(record, fail).number("n", -1)
            except (ValueError, TypeError, AttributeError):
                damaged += 1
                self._report(f"{path} is damaged: line {number} is left out.")
                continue
            tensors += position >= 0
            feeds += position < 0
            yield number, position, record
        missing = self._run.size("tensors") - tensors
        if missing > damaged:
            self._report(f"{path} is damaged: {missing} tensors are missing.")
        if not tensors and not feeds and (damaged or not data):
            self._report(f"{path} names no tensor.")
            yield from self._records_of_parts()

    def _records_of_parts(self) -> Iterator[tuple[int, int, Record]]:
        """What the headers of the tensor files tell, where the index is lost."""
        number = 0
        for path in sorted(Path(self._root).glob("tensors-*.safetensors")):
            try:
                header = read_header(path, self._root)
            except DumpError as error:
                self._report(error.message)
                continue
            for key, entry in header.items():
                node, slot = parse_tensor_name(key.partition("#")[0])
                dtype = dtype_of_stored(entry.stored)
                record: Record = {
                    "dtype": dtype.name if dtype is not None else entry.stored,
                    "shape": list(entry.shape),
                    "bytes": entry.end - entry.start,
                    "file": path.name,
                    "start": entry.start,
                    "end": entry.end,
                }
                if slot is None or node.startswith("feed/"):
                    yield 0, -1, {"feed": key.removeprefix("feed/"), **record}
                else:
                    yield 0, number, {"node": node, "slot": slot, **record}
                    number += 1

    def _take(self, line: int, record: Record) -> RunFolderDatum | None:
        """The tensor of a line; ``None`` for a feed, which is kept, and for a damaged line."""
        datum = plain_datum(self._root, record, self._report)
        if datum is not None:
            return datum
        try:
            stored = Stored(self._root, record)
            if "feed" not in record:
                return RunFolderDatum(stored, record, self._report)
            self._feeds[Fields(record, fail).text("feed")] = stored
        except ValueError as error:
            path = self._path(INDEX_FILE)
            self._report(f"{path} is damaged: line {line} is left out ({error}).")
        return None

    def _check_files(self) -> None:
        """Name the files that are gone or shorter than they were, without opening any."""
        needed: dict[str, int] = {}
        for name, size in self._run.table("files", is_size).items():
            parts = name.split("/")
            if ".." not in parts:
                needed[self._path(*parts)] = size
        for stored in [*(datum._stored for datum in self._tensors), *self._feeds.values()]:
            if stored.path:
                needed[stored.path] = max(needed.get(stored.path, 0), stored.end)
        for path, end in needed.items():
            try:
                size = os.stat(path).st_size
            except (OSError, ValueError):
                self._report(f"{path} is gone.")
                continue
            if size < end:
                self._report(f"{path} is damaged: {end - size} bytes are missing at its end.")

    # The face of every dump.

    def _make_data(self) -> list[Datum]:
        return list(self._tensors)

    def maybe_nonfinite(self, data: Iterable[Datum]) -> Iterator[Datum]:
        """Those that aren't known to be finite by the counts of the index."""
        return (
            datum
            for datum in data
            if not isinstance(datum, RunFolderDatum) or datum.health is None or any(datum.health)
        )

    def graph(self) -> Graph | None:
        if not self._is_graph_read:
            self._is_graph_read = True
            path = self._path(GRAPH_FILE)
            if os.path.lexists(path):
                try:
                    self._graph = graph_of(
                        parse_graph_def(read_file(path, self._root)), self._frames
                    )
                except DumpError as error:
                    message = error.message
                    self._report(message if path in message else f"{path} is damaged: {message}")
        return self._graph

    @functools.cached_property
    def _stacks(self) -> tuple[dict[str, int], list[list[int]], list[Frame | None]]:
        if not os.path.lexists(self._path(FRAMES_FILE)):
            return {}, [], []
        path = self._path(FRAMES_FILE)
        found = Fields(
            self._read_json(FRAMES_FILE),
            lambda name: self._report(f"{path} is damaged: {name} are left out."),
        )
        # What is left out of a list would move the rest: a damaged frame is an empty one.
        frames = [_frame(each) for each in found.items("frames", lambda value: True)]
        if None in frames:
            self._report(f"{path} is damaged: some frames are left out.")
        stacks = [
            [number for number in stack if is_size(number)] if isinstance(stack, list) else []
            for stack in found.items("stacks", lambda value: True)
        ]
        return found.table("nodes", is_size), stacks, frames

    def _frames(self, node_name: str) -> Iterable[Frame] | None:
        nodes, stacks, frames = self._stacks
        try:
            found = [frames[number] for number in stacks[nodes[node_name]]]
        except (KeyError, IndexError):
            return None
        return [frame for frame in found if frame is not None]

    def sources(self) -> Sources:
        """The text of the user's files as they ran; other files aren't looked for."""
        return self._sources

    @functools.cached_property
    def _sources(self) -> Sources:
        texts: dict[str, str] = {}
        if os.path.lexists(self._path(SOURCES_FOLDER)):
            index = self._path(SOURCES_FOLDER, "index.json")
            names = Fields(
                {"files": self._read_json(SOURCES_FOLDER, "index.json")},
                lambda name: self._report(f"{index} is damaged: some {name} are left out."),
            )
            for path, name in names.table("files", lambda name: isinstance(name, str)).items():
                file = self._path(SOURCES_FOLDER, os.path.basename(name))
                try:
                    data = read_file(file, self._root)
                    if len(data) > _LARGEST_SOURCE:
                        raise DumpError(f"{file} is too large for a source.")
                    texts[path] = bytes(data).decode("utf-8", "replace")
                except DumpError as error:
                    self._report(error.message)
        return Sources(texts, live=False)

    def run_info(self) -> RunInfo | None:
        found = self._run.fields("run")
        feeds = LazyFeeds({name: stored.load for name, stored in self._feeds.items()})
        if found is None:
            return RunInfo(feeds=feeds) if feeds else None
        error = found.fields("error")
        return RunInfo(
            call_count=found.size("call_count"),
            fetches=found.texts("fetches"),
            feeds=feeds,
            engine=found.text("engine"),
            runner=found.text("runner"),
            kind=(kind := found.text("kind") or "run"),
            unit=_unit(found.text("unit"), kind),
            filter_name=found.text("filter"),
            number=found.size("number"),
            details=found.pairs("details"),
            outputs=found.table("outputs", lambda name: isinstance(name, str)),
            results=found.table("results", lambda is_one: isinstance(is_one, bool))
            if "results" in found
            else None,
            error=RunError(
                error.text("type"),
                error.text("message"),
                error.text("op"),
                error.text("file"),
                error.size("line"),
                error.flag("late"),
            )
            if error is not None
            else None,
        )

    def profile(self) -> Profile | None:
        """Timings per node; empty where they are lost, ``None`` where the run was not timed."""
        return self._profile

    @functools.cached_property
    def _profile(self) -> Profile | None:
        path = self._path(PROFILE_FILE)
        if os.path.lexists(path):
            return read_profile(path, self._report, self._root)
        return Profile() if PROFILE_FILE in self._run.table("files", is_size) else None

    def op_type(self, node_name: str) -> str:
        # The index tells it as well: the graph need not be read for a list of tensors.
        for datum in self.by_node(node_name):
            if isinstance(datum, RunFolderDatum) and datum.op_type:
                return datum.op_type
        return super().op_type(node_name)


def _frame(value: Any) -> Frame | None:
    """A frame of ``frames.json``, ``None`` for what is none."""
    if not isinstance(value, list) or len(value) != 4 or not is_size(value[1]):
        return None
    file, line, function, text = value
    if not (isinstance(file, str) and isinstance(function, str) and isinstance(text, str)):
        return None
    return Frame(file, line, function, text)


def _unit(told: str, kind: str) -> Literal["session", "program"]:
    """The unit of a run; folders of earlier versions tell its kind alone."""
    is_program = told == "program" or (not told and kind != "run")
    return "program" if is_program else "session"
