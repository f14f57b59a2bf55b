"""The columns beside the index of a run folder: they say what the lines say, or nothing."""

import json
import re
import zlib

import ml_dtypes
import numpy as np
import pytest
from dump_samples import START, make_dump, same
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file
from stop_kit import stop_over

from tfdbg_cli.common.errors import DumpError
from tfdbg_cli.dumps.dump import Datum, InconvertibleTensorProto, RunInfo
from tfdbg_cli.dumps.graph import Graph, Node
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.dumps.run_folder import dump as run_folder
from tfdbg_cli.dumps.run_folder.dump import RunFolderDump, RunFolderWriter, write_run_folder
from tfdbg_cli.dumps.run_folder.json_fields import sealed
from tfdbg_cli.filters.builtin import has_inf_or_nan

NAME = "columns.safetensors"


def odd_dump():
    """Views, views of views, notes, strings, objects, lost values, feeds, odd names and loops."""
    base = np.arange(12, dtype=np.float32)
    values = [
        ("plain", base, False),
        ("view", base[2:6], True),
        ("view/of/it", base[2:6][1:], True),
        ("caf\u00e9:1", np.array(np.inf), False),
        ("", np.zeros((0, 2), np.int8), False),
        ("text", np.array(["a", "b"], object), False),
        ("handle", InconvertibleTensorProto("a queue"), False),
        ("small", np.array([0.5, np.nan], ml_dtypes.bfloat16), False),
        ("loop", np.array(1.0), False),
        ("loop", np.array([1, 2], np.int64), False),
        ("loop", np.array(True), False),
    ]
    graph = Graph([Node(name, "Op", device="d") for name in dict.fromkeys(v[0] for v in values)])
    dump = MemoryDump(graph, run_info=RunInfo(feeds={"x:0": base, "words:0": np.array([b"w"])}))
    for turn, (name, value, is_view) in enumerate(values):
        dump.add_datum(
            Datum(
                *(name, turn % 2, lambda v=value: v),
                timestamp=START + turn,
                device_name="cpu" if turn < 6 else "gpu",
                is_view=is_view,
                note="a note" if name == "small" else "",
            )
        )

    def lost():
        raise DumpError("It is lost.")

    dump.add_datum(Datum("lost", 0, lost, timestamp=START + 99))
    return dump


def many(count=3000):
    """Nodes in loops, with a nan now and then."""
    dump = MemoryDump(Graph(Node(f"n{at}", "Neg") for at in range(count // 3)))
    for at in range(count):
        value = np.full(3, np.nan if at % 700 == 3 else at, np.float32)
        dump.add(f"n{at % (count // 3)}", 0, value, timestamp=START + at)
    return dump


def none_bad():
    dump = MemoryDump()
    for at in range(5):
        dump.add(f"n{at}", 0, np.ones(at), timestamp=START + at)
    return dump


def value_of(datum):
    try:
        return datum.get_tensor()
    except DumpError as error:
        return error.message


def said(datum):
    """All that is known of a tensor but its value."""
    names = ("node_name", "output_slot", "debug_op", "timestamp", "device_name", "execution")
    more = ("is_view", "note", "dtype", "shape", "nbytes", "op_type", "health", "file_path")
    return [getattr(datum, name) for name in (*names, *more)]


@pytest.mark.parametrize("make", [make_dump, odd_dump, many, none_bad])
def test_columns_say_what_the_lines_say(make, tmp_path):
    write_run_folder(make(), tmp_path / "run")
    quick = RunFolderDump(tmp_path / "run")
    other = RunFolderDump(tmp_path / "run")
    (tmp_path / "run" / NAME).rename(tmp_path / NAME)
    slow = RunFolderDump(tmp_path / "run")
    assert isinstance(slow.data(), list) and not isinstance(quick.data(), list)
    assert [said(datum) for datum in quick.data()] == [said(datum) for datum in slow.data()]
    for mine, theirs in zip(quick.data(), slow.data(), strict=True):
        assert same(value_of(mine), value_of(theirs))
    assert other.t0() == slow.t0()
    assert other.tensor_names() == slow.tensor_names()
    assert other.tables().node_names() == slow.tables().node_names()
    assert other.tables().repeated() == slow.tables().repeated()
    for name in slow.tensor_names():
        assert [*map(said, other.by_tensor(name))] == [*map(said, slow.by_tensor(name))]
    for name in slow.node_names():
        assert [*map(said, other.by_node(name))] == [*map(said, slow.by_node(name))]
    assert other.by_tensor("none:0") == other.by_node("none") == other.by_tensor("none") == []
    seen = slow.tables().without_views()
    assert [*map(said, other.tables().without_views())] == [*map(said, seen)]
    for exclude in (None, re.compile("n3$|text")):
        arguments = {"exclude": exclude, "on_error": lambda datum, error: None}
        bad = [*map(said, slow.find(has_inf_or_nan, **arguments))]
        assert [*map(said, other.find(has_inf_or_nan, **arguments))] == bad
    assert list(quick.run_info().feeds) == list(slow.run_info().feeds) if make is odd_dump else True
    assert quick.warnings == [line for line in slow.warnings if NAME not in line]


def test_a_list_parses_no_line_and_makes_few_tensors(tmp_path, monkeypatch):
    write_run_folder(many(6000), tmp_path / "run")
    monkeypatch.setattr(run_folder, "parse_lines", None)
    dump = RunFolderDump(tmp_path / "run")
    service = stop_over(dump, "offline", title="", initial_command="lt")
    document = service.run("lt", 160).document
    assert "n20:0" in "".join(line.text for line in document.lines(0, 60))
    assert len(dump.data()._maker._made) < 2500
    found = service.run("lt -f has_inf_or_nan", 160).document
    assert len(dump.data()._maker._made) < 2500
    assert found.lines(0, 1)[0].text == '9 dumped tensor(s) passing filter "has_inf_or_nan":'


def test_tensors_are_made_once_and_counted_as_in_a_list(tmp_path):
    write_run_folder(many(30), tmp_path / "run")
    data = RunFolderDump(tmp_path / "run").data()
    assert (
        data[0] is data[-30]
        and data[-1] is data[29] is list(data)[29] is data[10:][-1] is data[::-1][0]
    )
    assert [d.timestamp for d in reversed(data)] == [START + at for at in range(29, -1, -1)]
    assert [d.timestamp for d in data[3:20:5]] == [START + at for at in range(3, 20, 5)]
    assert (len(data), len(data[5:]), len(data[40:]), bool(data[40:])) == (30, 25, 0, False)
    for at in (30, -31):
        with pytest.raises(IndexError):
            data[at]
    assert data[4] in data and data.index(data[4]) == 4


def test_other_tools_open_the_columns(tmp_path):
    write_run_folder(many(30), tmp_path / "run")
    found = load_file(tmp_path / "run" / NAME)
    assert found["time"].tolist() == [START + at for at in range(30)]
    assert found["names"].tobytes()[: found["name_end"][1]] == b"n0n1"
    assert json.loads(found["tables"].tobytes())["version"] == 1


def changed_index(folder, change):
    path = folder / "tensors.jsonl"
    path.write_bytes(change(path.read_bytes()))


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data.replace(b'"node":"n1"', b'"node":"m1"'),
        lambda data: data + sealed('{"n": 30, "node": "more", "slot": 0}') + b"\n",
        lambda data: data[: data.rindex(b"\n", 0, -1) + 1],
        lambda data: b"",
    ],
)
def test_an_index_that_was_changed_is_read_itself(change, tmp_path):
    write_run_folder(many(30), tmp_path / "run")
    changed_index(tmp_path / "run", change)
    with_columns = RunFolderDump(tmp_path / "run")
    (tmp_path / "run" / NAME).unlink()
    without = RunFolderDump(tmp_path / "run")
    assert isinstance(with_columns.data(), list)
    assert [*map(said, with_columns.data())] == [*map(said, without.data())]


@pytest.mark.parametrize("is_cut", [True, False])
def test_damaged_columns_change_nothing(is_cut, tmp_path):
    write_run_folder(odd_dump(), tmp_path / "run")
    truth = [*map(said, RunFolderDump(tmp_path / "run").data())]
    path = tmp_path / "run" / NAME
    content = path.read_bytes()
    for at in range(0, len(content), 97):
        flipped = content[:at] + bytes([content[at] ^ 4]) + content[at + 1 :]
        path.write_bytes(content[:at] if is_cut else flipped)
        found = RunFolderDump(tmp_path / "run")
        assert [*map(said, found.data())] == truth
        assert [line for line in found.warnings if line.startswith(f"{path} is damaged")]


def test_columns_of_another_run_are_not_used(tmp_path):
    for name, count in (("run", 30), ("other", 60)):
        write_run_folder(many(count), tmp_path / name)
    (tmp_path / "run" / NAME).write_bytes((tmp_path / "other" / NAME).read_bytes())
    found = RunFolderDump(tmp_path / "run")
    assert len(found.data()) == 30
    assert [line for line in found.warnings if NAME in line and "is damaged" in line]


def test_a_run_that_did_not_end_has_none(tmp_path):
    writer = RunFolderWriter(tmp_path / "run")
    for datum in many(30).data():
        writer.add(datum)
    writer.flush()
    assert not (tmp_path / "run" / NAME).exists()
    assert len(RunFolderDump(tmp_path / "run").data()) == 30


def test_what_no_column_can_hold_costs_the_columns_only(tmp_path):
    dump = many(30)
    dump.add("lone \ud800 surrogate", 0, np.ones(2), timestamp=START + 100)
    write_run_folder(dump, tmp_path / "run")
    assert not (tmp_path / "run" / NAME).exists()
    assert RunFolderDump(tmp_path / "run").data()[-1].node_name == "lone \ud800 surrogate"


def forged(folder, change):
    """Columns that somebody has changed, with the checksum of what they are now."""
    path = folder / NAME
    data = bytearray(path.read_bytes())
    change(data)
    path.write_bytes(data)
    run = json.loads((folder / "run.json").read_text())
    run["checksums"][NAME] = zlib.crc32(data)
    del run["crc32"]
    (folder / "run.json").write_bytes(sealed(json.dumps(run)))


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=300
)
@given(data=st.data())
def test_forged_columns_lead_nowhere_else(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("forged") / "run"
    write_run_folder(odd_dump(), folder)

    def change(content):
        for _ in range(data.draw(st.integers(1, 3))):
            at = data.draw(st.integers(0, len(content) - 1))
            width = data.draw(st.sampled_from([1, 8]))
            content[at : at + width] = data.draw(st.binary(min_size=width, max_size=width))

    forged(folder, change)
    found = RunFolderDump(folder)
    for datum in found.data():
        assert isinstance(value_of(datum), np.ndarray | InconvertibleTensorProto | str)
        assert not datum.file_path or datum.file_path.startswith(f"{folder}/")
    for name in found.tensor_names():
        found.by_tensor(name)
    found.tables().repeated()
    found.find(has_inf_or_nan, on_error=lambda datum, error: None)
    found.run_info()
