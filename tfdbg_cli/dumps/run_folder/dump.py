"""The run folder as a `Dump`: values stay mapped in their files until somebody looks."""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from tfdbg_cli.common.errors import DumpError, UserError
from tfdbg_cli.common.interpreter.garbage import collector_paused
from tfdbg_cli.dumps.dump import Datum, Dump, RunError, RunInfo
from tfdbg_cli.dumps.feeds import LazyFeeds
from tfdbg_cli.dumps.files import read_file
from tfdbg_cli.dumps.graph import Graph, parse_tensor_name
from tfdbg_cli.dumps.profile import Profile
from tfdbg_cli.dumps.proto.graph_def import graph_of, parse_graph_def
from tfdbg_cli.dumps.run_folder.columns import (
    COLUMNS_FILE,
    ColumnMaker,
    Columns,
    ColumnTables,
)
from tfdbg_cli.dumps.run_folder.digests import DIGESTS_FILE, Digest, read_digests
from tfdbg_cli.dumps.run_folder.json_fields import (
    LARGEST,
    Fields,
    fail,
    is_pair,
    is_size,
    is_span,
    is_whole,
    is_words,
    parse_json,
    parse_lines,
)
from tfdbg_cli.dumps.run_folder.profile_file import PROFILE_FILE, read_profile
from tfdbg_cli.dumps.run_folder.safetensors_part import dtype_of_stored, read_header
from tfdbg_cli.dumps.run_folder.tensors import Record, RunFolderDatum, StoredValue, plain_datum
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
from tfdbg_cli.dumps.series.stored import SERIES_FILE, read_tracks
from tfdbg_cli.dumps.series.tracks import Tracks
from tfdbg_cli.dumps.sources import Frame, Sources
from tfdbg_cli.dumps.tables import LazyData, Tables

__all__ = ["RunFolderDatum", "RunFolderDump", "RunFolderWriter", "write_run_folder"]

_NOT_AS_WRITTEN = "its bytes were changed since they were written, and its content may be wrong"

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
        self._feeds: dict[str, StoredValue] = {}
        self._tensors: list[RunFolderDatum] = []
        self._columns = self._read_columns()
        if self._columns is None:
            self._read_index()
            if len(self._tensors) < self._run.size("tensors"):
                self.lists_only_bad, self.suspects = False, None  # one of them may be lost
        self._check_feeds()
        self._check_files()

    def _report(self, line: str) -> None:
        if line not in self._reported:
            self._reported.add(line)
            self.warnings.append(line)

    def _path(self, *names: str) -> str:
        return os.path.join(self._root, *names)

    # Reading.

    def _read(self, *names: str) -> memoryview:
        """The bytes of a file; a warning says so if they aren't those that were written.

        Raises:
            DumpError: it can't be read.
        """
        path = self._path(*names)
        data = read_file(path, self._root)
        written = self._checksums.get("/".join(names))
        if written is not None and zlib.crc32(data) != written:
            self._report(f"{path} is damaged: {_NOT_AS_WRITTEN}.")
        return data

    def _read_json(self, *names: str) -> Any:
        """The content of a JSON file; ``None`` after a warning if it is damaged or missing."""
        path = self._path(*names)
        try:
            data = bytes(self._read(*names))
            if not is_whole(data):
                self._report(f"{path} is damaged: {_NOT_AS_WRITTEN}.")
            return parse_json(data)
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
        self._checksums: dict[str, int] = {}
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
        self._checksums = found.table("checksums", is_size)
        for line in found.texts("warnings"):
            self._report(line)
        self.kept = found.text("kept")
        self.lists_only_bad = found.flag("lists_only_bad")
        if "suspects" in found:
            self.suspects = frozenset(found.texts("suspects"))
        return found

    def _read_columns(self) -> Columns | None:
        """What the index says, without parsing it; ``None``: that has to be done."""
        written = self._checksums.get(COLUMNS_FILE)
        path = self._path(COLUMNS_FILE)
        if written is None or not os.path.lexists(path):
            return None
        try:
            data = read_file(path, self._root)
            if zlib.crc32(data) != written:
                self._report(f"{path} is damaged: {INDEX_FILE} is read instead.")
                return None
            columns = Columns(data, read_file(self._path(INDEX_FILE), self._root))
            if columns.count != self._run.size("tensors"):
                return None
            feeds = {Fields(each, fail).text("feed"): each for each in columns.feeds}
            self._feeds = {name: StoredValue(self._root, each) for name, each in feeds.items()}
        except (DumpError, ValueError, LookupError):  # what is wrong, the index says itself
            self._feeds = {}
            return None
        return columns

    def _read_index(self) -> None:
        """Make the tensors of which the lines of the index tell."""
        positions: list[int] = []
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
            stored = StoredValue(self._root, record)
            if "feed" not in record:
                return RunFolderDatum(stored, record, self._report)
            self._feeds[Fields(record, fail).text("feed")] = stored
        except ValueError as error:
            path = self._path(INDEX_FILE)
            self._report(f"{path} is damaged: line {line} is left out ({error}).")
        return None

    def _check_feeds(self) -> None:
        run = self._run.fields("run")
        if run is None or self._run.flag("unfinished"):
            return
        lost = [name for name in run.texts("feeds") if name not in self._feeds]
        if lost:
            self._report(f"{self._path(INDEX_FILE)} is damaged: {len(lost)} feeds are missing.")

    def _check_files(self) -> None:
        """Name the files that are gone or shorter than they were, without opening any."""
        needed: dict[str, int] = {}
        for name, size in self._run.table("files", is_size).items():
            parts = name.split("/")
            if ".." not in parts:
                needed[self._path(*parts)] = size
        for file, end in self._columns.ends() if self._columns is not None else ():
            needed[self._path(file)] = max(needed.get(self._path(file), 0), end)
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

    def _make_data(self) -> Sequence[Datum]:
        if self._columns is not None:
            return ColumnMaker(self._columns, self._root, self._report).data()
        return list(self._tensors)

    def _number(self, data: Sequence[Datum]) -> None:
        if not isinstance(data, LazyData):  # which are numbered as they are made
            super()._number(data)

    def _make_tables(self) -> Tables:
        data = self.data()
        if self._columns is not None and isinstance(data, LazyData):
            return ColumnTables(data, self._columns)
        return super()._make_tables()

    def maybe_nonfinite(self, data: Iterable[Datum]) -> Iterator[Datum]:
        """Those that aren't known to be finite by the counts of the index."""
        if self._columns is not None and isinstance(data, LazyData):
            return iter(data.where(self._columns.maybe_bad()))
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
                    self._graph = graph_of(parse_graph_def(self._read(GRAPH_FILE)), self._frames)
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
        columns = found.items("columns", lambda value: True)  # earlier versions wrote none
        frames = [
            _frame(each, place)
            for each, place in itertools.zip_longest(
                found.items("frames", lambda value: True), columns
            )
        ]
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
                    data = self._read(SOURCES_FOLDER, os.path.basename(name))
                    if len(data) > _LARGEST_SOURCE:
                        raise DumpError(f"{file} is too large for a source.")
                    texts[path] = bytes(data).decode("utf-8", "replace")
                except DumpError as error:
                    self._report(error.message)
        return Sources(texts, live=False)

    def run_info(self) -> RunInfo | None:
        found = self._run.fields("run")
        loaders = {name: stored.load for name, stored in self._feeds.items()}
        known = found.table("inputs", is_pair) if found is not None else {}
        shapes = {name: shape for name, (shape, _) in known.items() if shape}
        tensors = {name: tensor for name, (_, tensor) in known.items() if tensor}
        feeds = LazyFeeds(loaders, shapes, tensors)
        if found is None:
            return RunInfo(feeds=feeds) if feeds else None
        error = found.fields("error")
        return RunInfo(
            call_count=found.size("call_count"),
            fetches=found.texts("fetches"),
            feeds=feeds,
            engine=found.text("engine"),
            runner=found.text("runner"),
            whose=found.text("whose"),
            kind=(kind := found.text("kind") or "run"),
            unit=_unit(found.text("unit"), kind),
            filter_name=found.text("filter"),
            number=found.size("number"),
            details=found.pairs("details"),
            program=found.pairs("program"),
            outputs=found.table("outputs", lambda name: isinstance(name, str)),
            results=found.table("results", lambda is_one: isinstance(is_one, bool))
            if "results" in found
            else None,
            tracks=self._tracks,
            roles=found.table("roles", is_words) if "roles" in found else None,
            written={name: (*runs,) for name, runs in found.table("written", is_span).items()},
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

    @functools.cached_property
    def _tracks(self) -> Tracks | None:
        if not os.path.lexists(self._path(SERIES_FILE)):
            return None
        path = self._path(SERIES_FILE)
        return read_tracks(
            Fields(
                self._read_json(SERIES_FILE),
                lambda name: self._report(f"{path} is damaged: some {name} are left out."),
            )
        )

    def digest(self, datum: Datum) -> Digest | None:
        return self._digests.get(_key(datum))

    def is_kept(self, datum: Datum) -> bool:
        return not isinstance(datum, RunFolderDatum) or datum.is_kept

    @functools.cached_property
    def _digests(self) -> Mapping[tuple[str, str, str, int], Digest]:
        path = self._path(DIGESTS_FILE)
        data = self.data()
        written = self._checksums.get(DIGESTS_FILE)
        # In a damaged index nobody knows whose row is whose.
        if written is None or len(data) != self._run.size("tensors"):
            return {}
        try:
            rows = read_file(path, self._root)
            if zlib.crc32(rows) != written:
                raise DumpError(_NOT_AS_WRITTEN)
            found = read_digests(rows, len(data))
        except DumpError as error:
            self._report(f"{path} is damaged: {error.message}.")
            return {}
        return {_key(datum): found[at] for at, datum in enumerate(data) if at in found}

    def profile(self) -> Profile | None:
        """Timings per node; empty where they are lost, ``None`` where the run was not timed."""
        return self._profile

    @functools.cached_property
    def _profile(self) -> Profile | None:
        path = self._path(PROFILE_FILE)
        if os.path.lexists(path):
            with contextlib.suppress(DumpError):  # which is told below
                self._read(PROFILE_FILE)
            return read_profile(path, self._report, self._root)
        return Profile() if PROFILE_FILE in self._run.table("files", is_size) else None

    def op_type(self, node_name: str) -> str:
        # The index tells it as well: the graph need not be read for a list of tensors.
        for datum in self.by_node(node_name):
            if isinstance(datum, RunFolderDatum) and datum.op_type:
                return datum.op_type
        return super().op_type(node_name)


def _key(datum: Datum) -> tuple[str, str, str, int]:
    return datum.tensor_name, datum.debug_op, datum.device_name, datum.execution


def _frame(value: Any, columns: Any) -> Frame | None:
    """A frame of ``frames.json``, ``None`` for what is none."""
    if not isinstance(value, list) or len(value) != 4 or not is_size(value[1]):
        return None
    file, line, function, text = value
    if not (isinstance(file, str) and isinstance(function, str) and isinstance(text, str)):
        return None
    is_place = isinstance(columns, list) and len(columns) == 2 and all(map(is_size, columns))
    return Frame(file, line, function, text, (columns[0], columns[1]) if is_place else None)


def _unit(told: str, kind: str) -> Literal["session", "program"]:
    """The unit of a run; folders of earlier versions tell its kind alone."""
    is_program = told == "program" or (not told and kind != "run")
    return "program" if is_program else "session"
