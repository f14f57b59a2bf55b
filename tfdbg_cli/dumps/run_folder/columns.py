"""``columns.safetensors``: what an index says, as arrays that are mapped and not parsed.

The lines of the index stay the truth. The arrays are made of the records that these were written
from, and count only as long as the index is the very file that they were made beside.
docs/dump-formats.md describes both.
"""

from __future__ import annotations

import json
import os
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from tfdbg_cli.common.arrays import np
from tfdbg_cli.common.interpreter.garbage import collector_paused
from tfdbg_cli.dumps.datum import Datum
from tfdbg_cli.dumps.files import Chunk
from tfdbg_cli.dumps.run_folder.json_fields import (
    LARGEST,
    Fields,
    fail,
    is_size,
    is_span,
    is_whole,
    parse_json,
)
from tfdbg_cli.dumps.run_folder.safetensors_part import PartWriter, entries_in
from tfdbg_cli.dumps.run_folder.tensors import (
    Kind,
    Record,
    RunFolderDatum,
    StoredValue,
    plain_datum_of,
    plain_fields,
)
from tfdbg_cli.dumps.tables import DatumMaker, LazyData, Tables

__all__ = ["COLUMNS_FILE", "ColumnMaker", "ColumnTables", "Columns", "ColumnsWriter"]

COLUMNS_FILE = "columns.safetensors"

_VERSION = 1

# Numbers of each tensor, in the order of the dump. Of a tensor with the flag `_ODD` the second row
# serves only what is asked of all together: what it is itself, its line says.
_NUMBERS = (
    *("name_end", "slot", "time", "execution", "kind", "flags", "line_start", "line_end"),
    *("bytes", "nan", "neg_inf", "pos_inf", "file", "start", "end", "value_crc32"),
)
_SMALLEST = {"time": -LARGEST + 1, "file": -1}

# Of `flags`: it is a view; its line has other fields than nearly all have; its elements are those
# of another tensor; nobody has counted which of its elements are bad.
_VIEW, _ODD, _PLACED, _UNCOUNTED = 1, 2, 4, 8


class ColumnsWriter:
    """Collects the columns of an index as it is written.

    Args:
        root: the folder.
    """

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self._root = os.fspath(root)
        self._size = self._checksum = self._count = self._name_end = 0
        self._names: list[bytes] = []
        self._rows: list[np.ndarray[Any, Any]] = []
        self._kinds: dict[Kind, int] = {}
        self._files: dict[str, int] = {}
        self._feeds: list[tuple[int, int]] = []
        self._is_fit = True

    def add(self, records: Iterable[Record], lines: Sequence[bytes]) -> None:
        """Take up what was appended to the index: records, and the lines that were made of them."""
        rows, names = [], []
        for record, line in zip(records, lines, strict=True):
            begin, self._size = self._size, self._size + len(line)
            if "feed" in record:
                self._feeds.append((begin, self._size))
            elif "n" in record and self._is_fit:
                try:
                    row, name = self._row(record, begin)
                except ValueError:  # readers leave such a line out: the others need their numbers
                    self._is_fit = False
                    continue
                rows.append(row)
                names.append(name)
        self._checksum = zlib.crc32(b"".join(lines), self._checksum)
        if rows:
            self._rows.append(np.array(rows, "<i8"))
            self._names.append(b"".join(names))

    def _row(self, record: Record, begin: int) -> tuple[tuple[int, ...], bytes]:
        """The numbers of a tensor, and its node's name.

        Raises:
            ValueError: they can't be told.
        """
        plain, flags = plain_fields(record), 0
        if plain is None:
            datum = RunFolderDatum(stored := StoredValue(self._root, record), record, print)
            plain = datum.plain()
            flags = _ODD | _VIEW * datum.is_view | _PLACED * (stored.place is not None)
            flags |= _UNCOUNTED * (datum.health is None)
        node, slot, time, (nbytes, file, start, end, checksum, counts), kind = plain
        name = node.encode()
        if record["n"] != self._count:
            raise ValueError("it isn't the next one")
        self._count += 1
        self._name_end += len(name)
        kinds, files = self._kinds, self._files
        row = (
            *(self._name_end, slot, time, 0, kinds.setdefault(kind, len(kinds)), flags),
            *(begin, self._size, nbytes, *counts),
            *(files.setdefault(file, len(files)) if file else -1, start, end, checksum or 0),
        )
        return row, name

    def chunks(self) -> list[Chunk]:
        """What the file holds; nothing, where there is no tensor, or one of no kind known here."""
        if not self._rows or not self._is_fit:
            return []
        rows = np.concatenate(self._rows)
        names = np.frombuffer(b"".join(self._names), np.uint8)
        rows[:, _NUMBERS.index("execution")] = self._executions(rows, names.tobytes())
        tables = {
            "version": _VERSION,
            "index": {"bytes": self._size, "crc32": self._checksum},
            "kinds": list(self._kinds),
            "files": list(self._files),
            "feeds": self._feeds,
        }
        part = PartWriter()
        text = json.dumps(tables, separators=(",", ":")).encode()
        part.add("tables", "U8", np.frombuffer(text, np.uint8))
        part.add("names", "U8", names)
        for name, column in zip(_NUMBERS, rows.T, strict=True):
            part.add(name, "I64", np.ascontiguousarray(column))
        return part.chunks()[0]

    def _executions(self, rows: np.ndarray[Any, Any], names: bytes) -> np.ndarray[Any, Any]:
        """As `number_executions` counts them."""
        found = np.zeros(len(rows), "<i8")
        ends = rows[:, _NUMBERS.index("name_end")].tolist()
        each = [names[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]
        if len(set(each)) < len(each):
            places = [kind[1:3] for kind in self._kinds]
            slots = rows[:, _NUMBERS.index("slot")].tolist()
            kinds = rows[:, _NUMBERS.index("kind")].tolist()
            counts: dict[tuple[Any, ...], int] = {}
            for at, (name, slot, kind) in enumerate(zip(each, slots, kinds, strict=True)):
                key = (name, slot, places[kind])
                found[at] = counts.get(key, 0)
                counts[key] = int(found[at]) + 1
        return found


class Columns:
    """The columns of an index.

    Args:
        data: what the file holds.
        index: what the index holds.

    Attributes:
        count: how many tensors there are.
        numbers: those of each tensor, by their names.
        kinds: what `numbers["kind"]` counts.
        files: what `numbers["file"]` counts.
        feeds: the lines of the feeds.

    Raises:
        ValueError: they are not those of this index.
    """

    def __init__(self, data: memoryview, index: memoryview) -> None:
        entries = entries_in(data)

        def column(name: str, stored: str, dtype: str) -> np.ndarray[Any, Any]:
            entry = entries[name]
            size = entry.end - entry.start
            if entry.stored != stored or not 0 <= entry.start <= entry.end <= len(data):
                raise ValueError(f"{name} is not a column")
            found = np.frombuffer(data, dtype, size // np.dtype(dtype).itemsize, entry.start)
            if found.nbytes != size:
                raise ValueError(f"{name} is cut short")
            return found

        tables = Fields(parse_json(column("tables", "U8", "u1").tobytes()), fail)
        made_of = tables.fields("index")
        if tables.number("version") != _VERSION or made_of is None:
            raise ValueError("it is of another version")
        self._index = index
        if made_of.size("bytes") != len(index) or made_of.size("crc32") != zlib.crc32(index):
            raise ValueError("the index is another one")
        self._names = column("names", "U8", "u1").tobytes()
        self.numbers = {name: column(name, "I64", "<i8") for name in _NUMBERS}
        self.kinds = [_kind(each) for each in tables.items("kinds", lambda value: True)]
        self.files = tables.texts("files")
        self.count = len(self.numbers["flags"])
        self._check()
        self.feeds = [self._line(*each) for each in tables.items("feeds", is_span)]

    def _check(self) -> None:
        """That no number leads astray, whoever has written it."""
        largest = {"kind": len(self.kinds) - 1, "file": len(self.files) - 1}
        largest |= {"name_end": len(self._names), "line_end": len(self._index)}
        for name, column in self.numbers.items():
            if len(column) != self.count:
                raise ValueError(f"{name} is of another length")
            least, most = int(column.min(initial=0)), int(column.max(initial=0))
            if least < _SMALLEST.get(name, 0) or most > largest.get(name, LARGEST - 1):
                raise ValueError(f"{name} is out of range")
        found = self.numbers
        begin, end = found["start"], found["end"]
        is_right = (begin <= end) & (found["line_start"] <= found["line_end"])
        is_right &= (found["file"] >= 0) | (found["flags"] & _ODD != 0)
        is_right[1:] &= found["name_end"][:-1] <= found["name_end"][1:]
        if not is_right.all() or any(os.path.basename(file) != file for file in self.files):
            raise ValueError("some numbers contradict others")

    def name(self, place: int) -> str:
        """The name of a tensor's node."""
        begin = int(self.numbers["name_end"][place - 1]) if place else 0
        return self._names[begin : int(self.numbers["name_end"][place])].decode("utf-8", "replace")

    def names(self) -> list[str]:
        """Those of all."""
        ends = self.numbers["name_end"].tolist()
        if not self._names.isascii():
            return [self.name(place) for place in range(self.count)]
        text = self._names.decode()
        return [text[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]

    def has(self, flag: int) -> np.ndarray[Any, Any]:
        """Which tensors have a flag."""
        found: np.ndarray[Any, Any] = (self.numbers["flags"] & flag) != 0
        return found

    def is_placed(self, place: int) -> bool:
        """Whether its elements are those of another tensor."""
        return bool(self.numbers["flags"][place] & _PLACED)

    def maybe_bad(self) -> np.ndarray[Any, Any]:
        """Which tensors may hold something bad."""
        numbers = self.numbers
        found = self.has(_UNCOUNTED)
        found |= (numbers["nan"] | numbers["neg_inf"] | numbers["pos_inf"]) != 0
        return found

    def ends(self) -> Iterator[tuple[str, int]]:
        """The files that values are in, and where the last value of each ends."""
        most = np.zeros(len(self.files), "<i8")
        is_stored = self.numbers["file"] >= 0
        np.maximum.at(most, self.numbers["file"][is_stored], self.numbers["end"][is_stored])
        return zip(self.files, most.tolist(), strict=True)

    def line(self, place: int) -> Record:
        """What the index itself says of a tensor.

        Raises:
            ValueError: it says nothing.
        """
        return self._line(
            int(self.numbers["line_start"][place]), int(self.numbers["line_end"][place])
        )

    def _line(self, begin: int, end: int) -> Record:
        line = bytes(self._index[begin:end])
        found = parse_json(line) if is_whole(line) else None
        if not isinstance(found, dict):
            raise ValueError("a line isn't what was written")
        return found


def _kind(value: Any) -> Kind:
    if not isinstance(value, list) or len(value) != 5:
        raise ValueError("a kind isn't what it should be")
    op_type, debug_op, device, dtype, shape = value
    texts = (op_type, debug_op, device, dtype)
    if not all(isinstance(each, str) for each in texts):
        raise ValueError("a kind isn't what it should be")
    return (*texts, Fields({"shape": shape}, fail).sizes("shape"))


class ColumnMaker(DatumMaker):
    """Makes tensors of columns.

    Args:
        columns: them.
        root: the folder.
        report: told of values that are damaged.
    """

    def __init__(self, columns: Columns, root: str, report: Callable[[str], None]) -> None:
        super().__init__()
        self._columns = columns
        self._root = root
        self._report = report

    def data(self) -> LazyData:
        """All tensors."""
        return LazyData(self, np.arange(self._columns.count))

    def make(self, places: np.ndarray[Any, Any]) -> Iterator[Datum]:
        columns, root, report = self._columns, self._root, self._report
        numbers = [columns.numbers[name][places].tolist() for name in _NUMBERS]
        for at, row in zip(places.tolist(), zip(*numbers, strict=True), strict=True):
            _, slot, time, execution, kind, flags, _, _, nbytes, nan, minus, plus, *where = row
            name = columns.name(at)
            if flags & _ODD:
                datum = self._odd(at, name, slot)
            else:
                file, start, end, checksum = where
                place = nbytes, columns.files[file], start, end, checksum, (nan, minus, plus)
                datum = plain_datum_of(root, (name, slot, time, place, columns.kinds[kind]), report)
            datum.execution = execution
            yield datum

    def _odd(self, place: int, name: str, slot: int) -> RunFolderDatum:
        try:
            record = self._columns.line(place)
            datum = RunFolderDatum(StoredValue(self._root, record), record, self._report)
        except ValueError as error:
            record = {"node": name, "slot": slot, "missing": f"{error}."}
            return RunFolderDatum(StoredValue(self._root, record), record, self._report)
        of: Any = record.get("of")
        # What a view is a view of is none itself: no chain goes on for ever.
        if (
            self._columns.is_placed(place)
            and is_size(of)
            and of < self._columns.count
            and not self._columns.is_placed(of)
        ):
            (base,) = self.get(np.array([of]))
            if isinstance(base, RunFolderDatum):
                datum.is_view_of(base)
        return datum


class ColumnTables(Tables):
    """What the columns tell of all tensors together.

    Args:
        data: the tensors.
        columns: theirs.
    """

    def __init__(self, data: LazyData, columns: Columns) -> None:
        super().__init__(data)
        self._lazy = data
        self._columns = columns
        self._places: dict[str, list[int]] | None = None

    def by_tensor(self, tensor_name: str) -> list[Datum]:
        found = self.by_node(tensor_name.rpartition(":")[0])
        return [datum for datum in found if datum.tensor_name == tensor_name]

    def by_node(self, node_name: str) -> list[Datum]:
        return [self._lazy[place] for place in self._by_name().get(node_name, ())]

    def _by_name(self) -> dict[str, list[int]]:
        if self._places is None:
            places: defaultdict[str, list[int]] = defaultdict(list)
            with collector_paused():
                for place, name in enumerate(self._columns.names()):
                    places[name].append(place)
            self._places = dict(places)
        return self._places

    def tensor_names(self) -> list[str]:
        slots = self._columns.numbers["slot"].tolist()
        names = zip(self._columns.names(), slots, strict=True)
        return list(dict.fromkeys([f"{name}:{slot}" for name, slot in names]))

    def node_names(self) -> list[str]:
        return list(self._by_name())

    def first_time(self) -> int:
        times = self._columns.numbers["time"]
        return int(times.min()) if len(times) else 0

    def without_views(self) -> LazyData:
        return self._lazy.where(~self._columns.has(_VIEW))

    def repeated(self) -> set[tuple[str, int]] | None:
        columns = self._columns
        kinds = [columns.kinds[number] for number in np.unique(columns.numbers["kind"]).tolist()]
        if len({kind[1:3] for kind in kinds}) > 1:
            return None
        again = np.flatnonzero(columns.numbers["execution"])
        slots = columns.numbers["slot"][again].tolist()
        return {(columns.name(at), slot) for at, slot in zip(again.tolist(), slots, strict=True)}
