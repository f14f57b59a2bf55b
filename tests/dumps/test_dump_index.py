"""The index of a run folder: lines that hold what nearly all do are read as any other."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfdbg_cli.dumps.graph import Graph, Node
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.dumps.run_folder.dump import RunFolderDump, write_run_folder
from tfdbg_cli.dumps.run_folder.json_fields import parse_json, parse_lines
from tfdbg_cli.dumps.run_folder.tensors import RunFolderDatum, StoredValue, plain_datum

LINE = {
    "n": 3,
    "node": "a/b",
    "slot": 1,
    "op_type": "MatMul",
    "debug_op": "DebugIdentity",
    "device": "",
    "time": 1700000000000000,
    "key": "a/b:1",
    "dtype": "float32",
    "shape": [2, 3],
    "bytes": 24,
    "nan": 0,
    "neg_inf": 2,
    "pos_inf": 0,
    "stored": "F32",
    "file": "tensors-00000.safetensors",
    "start": 64,
    "end": 88,
}
NUMBERS = [0, -1, 1.0, 1 << 62, 1 << 70, True, None]
TEXTS = ["", "x", "../x", "a/b", "DebugNanCount"]
SHAPES = [[], [1.0], [True], [-1], [1 << 40, 1 << 40], ["2"], {}, [[2]]]
ODD = st.sampled_from([*NUMBERS, *TEXTS, *SHAPES])


def looked_at(make):
    """All that a line says of a tensor, or that it is damaged."""
    try:
        datum = make()
    except ValueError:
        return "damaged"
    stored = datum._stored
    names = (*StoredValue.__slots__, "path")
    said = {name: getattr(stored, name) for name in names if name != "given"}
    for name in ("node_name", "output_slot", "debug_op", "timestamp", "device_name", "execution"):
        said[name] = getattr(datum, name)
    for name in ("is_view", "note", "dtype", "shape", "nbytes", "op_type", "health", "file_path"):
        said[f"datum.{name}"] = repr(getattr(datum, name))
    return said


def both(record):
    slow = looked_at(lambda: RunFolderDatum(StoredValue("/root", record), record, print))
    quick = plain_datum("/root", record, print)
    return slow, quick and looked_at(lambda: quick)


def test_a_plain_line_is_read_quickly():
    slow, quick = both(LINE)
    assert quick == slow != "damaged"


@given(st.dictionaries(st.sampled_from([*LINE, "view", "of", "missing", "note", "text"]), ODD))
def test_no_line_is_read_otherwise(changes):
    slow, quick = both(LINE | changes)
    assert quick is None or quick == slow


@given(st.sets(st.sampled_from(list(LINE))))
def test_nothing_that_is_left_out_is_made_up(names):
    slow, quick = both({name: value for name, value in LINE.items() if name not in names})
    assert quick is None or quick == slow


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\n",
        b'{"a": 1}',
        b'{"a": 1}\n{"a": 2}\n',
        b'{"a": 1}\r\n {"a": 2}\t\r\n',
        b'{"a": 1} x\n{"a"\n\n[1]\n',
        b'{"a": "\xff"}\n{"a": 2}\n',
        '{"a": "\u2028\x85"}\n{"a": 2}\n'.encode(),
        b"[" * 100_000 + b"\n{}\n",
    ],
    ids=range(9),
)
def test_lines_are_parsed_one_by_one(data):
    lines = data.split(b"\n")
    right = []
    for line in lines if lines[-1] else lines[:-1]:
        try:
            right.append(parse_json(line))
        except ValueError as error:
            right.append(type(error))
    found = [type(each) if isinstance(each, ValueError) else each for _, each in parse_lines(data)]
    # A text that isn't UTF-8 may be told in another way.
    assert [isinstance(each, type) or each for each in found] == [
        isinstance(each, type) or each for each in right
    ]
    assert [number for number, _ in parse_lines(data)] == list(range(1, len(right) + 1))


def test_a_list_does_not_read_the_graph(tmp_path):
    dump = MemoryDump(Graph([Node("a", "Const"), Node("b", "Neg", ["a:0"])]))
    for name in ("a", "b"):
        dump.add(name, 0, 1.0)
    write_run_folder(dump, tmp_path / "run")
    (tmp_path / "run" / "graph.pb").write_bytes(b"\xff" * 100)
    found = RunFolderDump(tmp_path / "run")
    assert [found.op_type(name) for name in ("a", "b")] == ["Const", "Neg"]
    assert found.warnings == []
    index = (tmp_path / "run" / "tensors.jsonl").read_text().splitlines()
    assert plain_datum("/root", json.loads(index[1]), print) is not None
