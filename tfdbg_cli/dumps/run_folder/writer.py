"""Writes the run folder; docs/dump-formats.md describes it."""

from __future__ import annotations

import json
import os
import re
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from tfdbg_cli.common.arrays import np
from tfdbg_cli.common.errors import DumpError, one_line
from tfdbg_cli.dumps.dump import Datum, Dump, InconvertibleTensorProto, RunInfo
from tfdbg_cli.dumps.elements import free_name
from tfdbg_cli.dumps.feeds import as_tensor, is_text
from tfdbg_cli.dumps.files import Chunk, make_folder, write_error, write_file
from tfdbg_cli.dumps.finite import count_bad
from tfdbg_cli.dumps.graph import Graph
from tfdbg_cli.dumps.profile import Profile
from tfdbg_cli.dumps.proto.graph_def import graph_chunks, node_def_of
from tfdbg_cli.dumps.run_folder.columns import COLUMNS_FILE, ColumnsWriter
from tfdbg_cli.dumps.run_folder.digests import DIGESTS_FILE, Digest, digest_of, written_digests
from tfdbg_cli.dumps.run_folder.documents import frames_document, run_document
from tfdbg_cli.dumps.run_folder.json_fields import sealed
from tfdbg_cli.dumps.run_folder.profile_file import PROFILE_FILE, profile_lines
from tfdbg_cli.dumps.run_folder.safetensors_part import PartWriter, raw_bytes, storage_of
from tfdbg_cli.dumps.run_folder.states import States
from tfdbg_cli.dumps.run_folder.strings_part import encode_strings
from tfdbg_cli.dumps.run_folder.view_places import ViewPlaces
from tfdbg_cli.dumps.run_info import roles_of
from tfdbg_cli.dumps.series.stored import SERIES_FILE, written_tracks
from tfdbg_cli.dumps.series.tracks import Tracks
from tfdbg_cli.dumps.sources import Sources, is_library_path
from tfdbg_cli.dumps.tfdbg_dir.writer import check_new_folder

__all__ = [
    "FORMAT",
    "FRAMES_FILE",
    "GRAPH_FILE",
    "INDEX_FILE",
    "RUN_FILE",
    "SOURCES_FOLDER",
    "VERSION",
    "RunFolderWriter",
    "write_run_folder",
]

FORMAT = "tfdbg_cli run folder"
VERSION = 1

RUN_FILE = "run.json"
INDEX_FILE = "tensors.jsonl"
GRAPH_FILE = "graph.pb"
FRAMES_FILE = "frames.json"
SOURCES_FOLDER = "sources"

# A view's elements are those of another tensor. Where they aren't found there, a copy of so many
# bytes is stored; of a larger one only this.
_SMALL_VIEW = 1 << 20
_NO_VALUES = "Only hashes and statistics of this run were kept (--digest)."
_IS_VIEW = "It is a view of another tensor; li names that one."

# So much is held in memory before it is written, and so much may be lost by a kill.
_PART_BYTES = 1 << 26
_PART_TENSORS = 4096


class RunFolderWriter:
    """Writes one run, tensor by tensor.

    Values are collected by reference and written in parts. Each part appears whole, and only then
    do its lines join the index: what a kill leaves is a folder whose index names nothing that
    isn't there. ``run.json`` is written last and says that nothing is missing; `begin` writes what
    is known of the run before.

    Args:
        path: a new or empty folder.
        values: whether values are stored at all; without them hashes and statistics are.

    Attributes:
        path: the folder.
        warnings: one line for each thing that couldn't be stored.

    Raises:
        UserError: the folder isn't empty or can't be written to.
    """

    def __init__(self, path: str | os.PathLike[str], values: bool = True) -> None:
        self.path = Path(path).expanduser()
        self.warnings: list[str] = []
        self._values = values
        self._digests: dict[int, Digest] = {}
        self._stored = 0
        self._count = 0
        self._parts = 0
        self._keys: set[str] = set()
        self._feeds: list[str] = []
        self._sizes: dict[str, int] = {}
        self._checksums: dict[str, int] = {}
        self._is_finished = False
        self._columns = ColumnsWriter(self.path)
        check_new_folder(self.path)
        self._begin_part()
        self._append_to_index([{"format": FORMAT, "version": VERSION}])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if error is None:
            self.finish()

    def _begin_part(self) -> None:
        self._numbers = PartWriter()
        self._small_floats = PartWriter()
        self._strings: list[bytes] = []
        self._waiting: list[dict[str, Any]] = []

    def _write(self, name: str, chunks: Iterable[Chunk], *, is_summed: bool = True) -> None:
        chunks = list(chunks)
        self._sizes[name] = write_file(self.path / name, chunks)
        if is_summed:
            self._checksums[name] = _checksum(*chunks)

    def _append_to_index(self, records: Iterable[dict[str, Any]]) -> None:
        records = list(records)
        lines = [sealed(json.dumps(record, separators=(",", ":"))) + b"\n" for record in records]
        self._columns.add(records, lines)
        path = self.path / INDEX_FILE
        try:
            with open(path, "ab") as file:
                file.write(b"".join(lines))
        except OSError as error:
            raise write_error(path, error) from error

    def add(
        self,
        datum: Datum,
        value: Any = None,
        op_type: str = "",
        place: Mapping[str, Any] | None = None,
    ) -> bool:
        """Add a tensor; tensors are listed in the order in which they were added.

        Args:
            datum: what it is.
            value: its value; read from the datum if not given. It must not change until the part
                is written.
            op_type: of the node.
            place: of a view: where its elements are, as `ViewPlaces` finds it. Without one only
                small views have a value.

        Returns:
            Whether the value is stored; ``False`` for one that can't be read.

        Raises:
            UserError: the disk is full or can't be written to.
        """
        record: dict[str, Any] = {
            "n": self._count,
            "node": datum.node_name,
            "slot": datum.output_slot,
            "op_type": op_type,
            "debug_op": datum.debug_op,
            "device": datum.device_name,
            "time": datum.timestamp,
        }
        self._count += 1
        if datum.is_view:
            record["view"] = True
            size = datum.nbytes  # which makes its type known, too
            if place is not None or size > _SMALL_VIEW:
                missing = {"missing": _IS_VIEW} if place is None else place
                self._waiting.append(record | _kind_of(datum) | {"bytes": size, **missing})
                return place is not None
        if datum.note:
            record["note"] = datum.note
        dtype = datum._dtype or ""
        if value is None:
            try:
                value = datum.get_tensor()
                dtype = datum.dtype
            except Exception as error:  # also one of the framework's: the others are there
                text = error.message if isinstance(error, DumpError) else one_line(error)
                self.warnings.append(f"{datum.tensor_name} has no value: {text}")
                record.update(_kind_of(datum), missing=text)
                self._waiting.append(record)
                return False
        is_array = isinstance(value, np.ndarray | np.generic)
        shape = None if is_array else datum.shape
        return self._put(record, datum.tensor_name, value, dtype, shape)

    def add_feed(self, name: str, value: Any) -> bool:
        """Add what was fed to a tensor. As `add`, but it is not a dump of the run."""
        self._feeds.append(name)
        return self._put({"feed": name}, f"feed/{name}", as_tensor(value), "", None)

    def _put(
        self,
        record: dict[str, Any],
        key: str,
        value: Any,
        dtype: str,
        shape: tuple[int, ...] | None,
    ) -> bool:
        self._waiting.append(record)
        if isinstance(value, InconvertibleTensorProto):
            record.update(
                dtype=dtype,
                shape=None if shape is None else list(shape),
                bytes=0,
                description=str(getattr(value, "description", value)),
                initialized=value.initialized,
            )
            return True
        try:
            is_stored = self._put_array(record, self._unique(key), np.asarray(value), dtype)
        except DumpError as error:
            self.warnings.append(f"{key} has no value: {error.message}")
            record.update(dtype=dtype, shape=list(np.shape(value)), bytes=0, missing=error.message)
            is_stored = False
        held = self._numbers.nbytes + self._small_floats.nbytes
        if held >= _PART_BYTES or len(self._waiting) >= _PART_TENSORS:
            self.flush()
        return is_stored

    def _unique(self, key: str) -> str:
        found = free_name(key, self._keys, "#")
        self._keys.add(found)
        return found

    def _put_array(
        self, record: dict[str, Any], key: str, array: np.ndarray[Any, Any], dtype: str
    ) -> bool:
        record["key"] = key
        if array.dtype.kind in "OSUT":
            line, size = encode_strings(key, array)
            record.update(dtype="string", shape=list(array.shape), bytes=size)
            if is_text(array):
                record["text"] = True
            self._keep_digest(record, array, line)
            if not self._stores(record, len(line)):
                return False
            record.update(stored="strings", value_crc32=_checksum(line, b"\n"))
            self._strings.append(line + b"\n")
            return True
        kind, stored, raw = storage_of(array, dtype)
        nan, minus, plus = count_bad(array)
        record.update(dtype=kind.name, shape=list(array.shape), bytes=raw.nbytes)
        record.update(nan=nan, neg_inf=minus, pos_inf=plus)
        self._keep_digest(record, array, raw_bytes(raw), (nan, minus, plus))
        if not self._stores(record, raw.nbytes):
            return False
        record.update(stored=stored, value_crc32=_checksum(raw_bytes(raw)))
        # Readers that know only NumPy's types refuse a file with any other.
        part = self._small_floats if kind.is_small_float else self._numbers
        part.add(key, stored, raw)
        return True

    def _keep_digest(
        self,
        record: dict[str, Any],
        array: np.ndarray[Any, Any],
        stored: Any,
        bad: tuple[int, int, int] | None = None,
    ) -> None:
        if "n" in record:  # it is no feed
            self._digests[record["n"]] = digest_of(array, stored, bad)

    def hashes(self, numbers: Mapping[str, int]) -> dict[str, bytes]:
        """The hashes of tensors that were added, by names that are given to their numbers."""
        found = ((name, self._digests.get(number)) for name, number in numbers.items())
        return {name: digest.hash for name, digest in found if digest is not None}

    def _stores(self, record: dict[str, Any], size: int) -> bool:
        if self._values:
            self._stored += size
        else:
            record["missing"] = _NO_VALUES
        return self._values

    def flush(self) -> None:
        """Write what was collected so far.

        Raises:
            UserError: the disk is full or can't be written to.
        """
        if not self._waiting:
            return
        number = self._parts
        self._parts += 1
        places: dict[str, dict[str, Any]] = {}
        for part, label in ((self._numbers, "tensors"), (self._small_floats, "tensors-small")):
            if len(part):
                file = f"{label}-{number:05d}.safetensors"
                entries, self._sizes[file] = part.write(self.path / file)
                for key, entry in entries.items():
                    places[key] = {"file": file, "start": entry.start, "end": entry.end}
        if self._strings:
            file = f"strings-{number:05d}.jsonl"
            self._write(file, self._strings, is_summed=False)  # each line is
            lines = iter(self._strings)
            at = 0
            for record in self._waiting:
                if record.get("stored") == "strings":
                    end = at + len(next(lines))
                    places[record["key"]] = {"file": file, "start": at, "end": end}
                    at = end
        for record in self._waiting:
            record.update(places.get(record.get("key", ""), {}))
        self._append_to_index(self._waiting)
        self._begin_part()

    def begin(self, run_info: RunInfo | None) -> None:
        """Write what is known of the run, so that a kill leaves it, too.

        Raises:
            UserError: the disk is full or can't be written to.
        """
        feeds = list(run_info.feeds) if run_info is not None else []
        self._write_run(run_info, feeds, {"unfinished": True})

    def _write_run(self, info: RunInfo | None, feeds: list[str], more: Mapping[str, Any]) -> None:
        run = None if info is None else run_document(info, feeds)
        document = {"format": FORMAT, "version": VERSION, "run": run, **more}
        write_file(self.path / RUN_FILE, [sealed(json.dumps(document, indent=1))])

    def add_graph(self, graph: Graph | None, sources: Sources | None = None) -> None:
        """Write the graph, the stacks that made its nodes, and the user's files among them.

        Raises:
            UserError: the disk is full or can't be written to.
        """
        sources = sources or Sources()
        paths = dict.fromkeys(sources.paths())
        if graph is not None:
            nodes = graph.nodes.values()
            self._write(GRAPH_FILE, graph_chunks(map(node_def_of, nodes)))
            stacks = {node.name: node.frames for node in nodes}
            found = {name: frames for name, frames in stacks.items() if frames}
            if found:
                document = frames_document(found, sources)
                self._write(FRAMES_FILE, [json.dumps(document).encode()])
                paths.update(dict.fromkeys(f.file for frames in found.values() for f in frames))
        self._write_sources(sources, [path for path in paths if not is_library_path(path)])

    def _write_sources(self, sources: Sources, paths: Iterable[str]) -> None:
        index: dict[str, str] = {}
        for path in paths:
            lines = sources.lines(path)
            if lines is None:
                continue
            base = re.sub(r"[^\w.-]", "_", os.path.basename(path.replace("\\", "/")))[-80:]
            name = f"{len(index):03d}-{base}"
            if not index:
                make_folder(self.path / SOURCES_FOLDER)
            text = "".join(f"{line}\n" for line in lines)
            self._write(f"{SOURCES_FOLDER}/{name}", [text.encode("utf-8", "surrogatepass")])
            index[path] = name
        if index:
            self._write(f"{SOURCES_FOLDER}/index.json", [json.dumps(index, indent=1).encode()])

    def add_profile(self, profile: Profile) -> None:
        """Write the timings of the run.

        Raises:
            UserError: the disk is full or can't be written to.
        """
        self._write(PROFILE_FILE, profile_lines(profile))

    def add_tracks(self, tracks: Tracks) -> None:
        """Write the numbers over the runs up to this one.

        Raises:
            UserError: the disk is full or can't be written to.
        """
        self._write(SERIES_FILE, [written_tracks(tracks)])

    def finish(
        self,
        run_info: RunInfo | None = None,
        warnings: Iterable[str] = (),
        said: Mapping[str, Any] | None = None,
    ) -> None:
        """Write what is left and ``run.json``. The writer is of no use after it.

        Args:
            run_info: fetches, error and the rest; its feeds are stored, unless `add_feed` was.
            warnings: lines about the dump itself, to be shown again by whoever opens the folder.
            said: what the dump says of all its tensors: ``kept``, ``lists_only_bad``, ``suspects``,
                see `Dump`.

        Raises:
            UserError: the disk is full or can't be written to.
        """
        if self._is_finished:
            return
        if run_info is not None and not self._feeds:
            for name, value in run_info.feeds.items():
                self.add_feed(name, value)
        self.flush()
        if self._digests:
            self._write(DIGESTS_FILE, written_digests(self._digests, self._count))
        columns = self._columns.chunks()
        if columns:
            self._write(COLUMNS_FILE, columns)
        counts = {
            "tensors": self._count,
            "bytes": self._stored,
            "files": self._sizes,
            "checksums": self._checksums,
        }
        lines = [*warnings, *self.warnings]
        self._write_run(run_info, self._feeds, {**counts, **(said or {}), "warnings": lines})
        self._is_finished = True


def _checksum(*chunks: Chunk) -> int:
    found = 0
    for chunk in chunks:
        found = zlib.crc32(chunk, found)
    return found


def _kind_of(datum: Datum) -> dict[str, Any]:
    """Type and shape of a datum whose value can't be read, as far as they are known."""
    shape = datum._shape
    return {
        "dtype": datum._dtype or "",
        "shape": None if shape is None else list(shape),
        "bytes": 0,
    }


def write_run_folder(
    dump: Dump,
    path: str | os.PathLike[str],
    values: bool = True,
    states: States | None = None,
) -> None:
    """Write a whole dump as a run folder.

    Args:
        dump: what to write.
        path: a new or empty folder.
        values: as in `RunFolderWriter`.
        states: follows the parameters of the program's runs, of which this is one.

    Raises:
        UserError: the folder isn't empty, the disk is full or can't be written to.
    """
    info = dump.run_info()
    writer = RunFolderWriter(path, values)
    writer.begin(info)
    graph = dump.graph()
    writer.add_graph(graph, dump.sources())
    places = ViewPlaces(dump)
    roles = roles_of(info)
    memory = roles.weights | roles.reading | roles.buffers
    parameters: dict[str, int] = {}
    op_types: set[str] = set()
    for number, datum in enumerate(dump.data()):
        place = places.place(datum) if datum.is_view else None
        op_type = dump.op_type(datum.node_name)
        op_types.add(op_type)
        writer.add(datum, op_type=op_type, place=place)
        if op_type in memory and not datum.is_view:
            parameters.setdefault(datum.tensor_name, number)
    profile = dump.profile()
    if profile is not None:
        writer.add_profile(profile)
    if info is not None and info.tracks is not None and (info.tracks or info.tracks.history):
        writer.add_tracks(info.tracks)
    if info is not None:
        known = () if graph is None else (node.op_type for node in graph.nodes.values())
        table = roles.table({*known, *op_types})
        info = replace(info, roles={**(info.roles or {}), **table})
    if info is not None and states is not None:
        found = states.seen(info.call_count, writer.hashes(parameters))
        info = replace(info, written=found)
    said: dict[str, Any] = {"kept": dump.kept, "lists_only_bad": dump.lists_only_bad}
    if dump.suspects is not None:
        said["suspects"] = sorted(dump.suspects)
    writer.finish(info, dump.warnings, said)
