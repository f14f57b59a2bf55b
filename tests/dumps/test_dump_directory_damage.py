"""Damage to a dump directory: a warning that names the file, and the rest is there."""

import contextlib
import os

import numpy as np
import pytest
from directory_kit import CPU0, Maker, watched
from dump_samples import START, same

from tfdbg_cli.common.errors import DumpError
from tfdbg_cli.dumps.files import is_inside, read_file
from tfdbg_cli.dumps.proto.graph_def import NodeDef
from tfdbg_cli.dumps.tfdbg_dir.debug_dump_dir import load_tensor_from_event_file
from tfdbg_cli.dumps.tfdbg_dir.events import message_event
from tfdbg_cli.dumps.tfdbg_dir.writer import write_dump_directory


def test_contradictions_are_warnings(maker):
    nodes = [
        NodeDef("a", "Const", device=CPU0),
        NodeDef("b", "Neg", ["a"], CPU0),
        NodeDef("b", "Neg", ["a"], CPU0),
    ]
    maker.graph(nodes)
    maker.tensor("a", time=START + 9)
    maker.tensor("b", time=START)
    maker.tensor("ghost", time=START)
    dump = maker.open(validate=True)
    assert len(dump.graph()) == 2
    text = "\n".join(dump.warnings)
    assert 'several nodes named "b"' in text
    assert "b was dumped before its input a" in text
    assert '"ghost" was dumped but is not in the graph' in text
    assert dump.size == 3
    quiet = maker.open(validate=False)
    quiet.graph()
    assert not any("before its input" in line for line in quiet.warnings)


def test_loops_are_no_contradiction(maker):
    nodes = [
        NodeDef("enter", "Enter", device=CPU0),
        NodeDef("merge", "Merge", ["enter", "next"], CPU0),
        NodeDef("next", "NextIteration", ["merge"], CPU0),
    ]
    maker.graph(nodes)
    for at, name in enumerate(["enter", "merge", "next", "merge"]):
        maker.tensor(name, time=START + at)
    dump = maker.open()
    dump.graph()
    assert dump.warnings == []


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ({"a": 1, "b": 1, "both": 1}, []),  # at the same moment
        ({"b": 1, "both": 2, "a": 3}, ["b was dumped before its input a"]),
        ({"a": 1, "both": 2, "b": 3}, []),  # it took what was there
        ({"both": 1, "a": 2, "b": 3}, ["both was dumped before its input a"]),
        ({"use": 1, "next": 2}, []),  # of the iteration before
    ],
)
def test_who_may_be_dumped_before_whom(maker, times, expected):
    nodes = [
        NodeDef("a", "Const", device=CPU0),
        NodeDef("b", "Neg", ["a"], CPU0),
        NodeDef("both", "Merge", ["a", "b"], CPU0),
        NodeDef("next", "NextIteration", ["a"], CPU0),
        NodeDef("use", "Neg", ["next"], CPU0),
    ]
    maker.graph(nodes)
    for name, time in times.items():
        maker.tensor(name, time=START + time)
        maker.tensor(name, time=START + time + 10)
    dump = maker.open()
    dump.graph()
    assert [line.partition(" on /job")[0] for line in dump.warnings] == expected


def test_a_folder_that_leads_out_is_not_looked_into(maker, tmp_path_factory):
    inside = maker.tensor("good", 1.0)
    outside = Maker(tmp_path_factory.mktemp("outside")).tensor("secret", 2.0)
    (inside.parent / "scope").symlink_to(outside.parent)
    (inside.parent / outside.name).symlink_to(outside)
    (inside.parent / "again_0_DebugIdentity_5").symlink_to(inside)
    dump = maker.open()
    assert sorted(datum.node_name for datum in dump.data()) == ["again", "good"]
    assert len([line for line in dump.warnings if "leads out of the dump" in line]) == 2


def test_only_plain_files_in_the_folder_are_read(tmp_path):
    (tmp_path / "dump").mkdir()
    (tmp_path / "secret").write_text("SECRET")
    path = tmp_path / "dump" / "file"
    with pytest.raises(DumpError, match="is gone"):
        read_file(path, str(path.parent))
    path.symlink_to(tmp_path / "secret")
    assert bytes(read_file(path)) == b"SECRET"
    for root in (str(path.parent), path.parent):
        with pytest.raises(DumpError, match="leads out of the dump"):
            read_file(path, root)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(DumpError, match="is not a plain file"):
        read_file(path, str(path.parent))


def test_foreign_and_empty_files_are_named(maker):
    good = maker.tensor("good", 1.0)
    (good.parent / "notes.txt").write_text("hello")
    (good.parent / "empty_0_DebugIdentity_5").touch()
    (good.parent / ".hidden").touch()
    (maker.root / ".hidden").touch()
    (maker.root / "README").write_text("x")
    os.mkfifo(good.parent / "pipe_0_DebugIdentity_5")
    dump = maker.open()
    text = "\n".join(dump.warnings)
    assert "notes.txt is not a dump file" in text
    assert "empty_0_DebugIdentity_5 is damaged: The file is empty." in text
    assert sum("The file is empty" in line for line in dump.warnings) == 1
    assert "pipe_0_DebugIdentity_5 is not a dump file" in text
    assert "README is no part of a dump" in text
    assert ".hidden" not in text
    assert dump.by_tensor("good:0")[0].get_tensor() == 1.0
    (empty,) = dump.by_tensor("empty:0")
    assert (empty.dtype, empty.shape, empty.nbytes) == ("", None, 0)
    with pytest.raises(DumpError, match="empty"):
        empty.get_tensor()
    assert [d.node_name for d in dump.find(lambda d, value: True)] == ["good"]


def test_many_problems_are_summed_up(maker):
    folder = maker.tensor("good").parent
    for number in range(500):
        (folder / f"junk{number}").touch()
    dump = maker.open()
    assert len(dump.warnings) < 30
    assert dump.warnings[-1].startswith("480 more problems of this kind in ")


def test_a_file_cut_anywhere_is_named_or_right(maker):
    path = maker.tensor("x", np.arange(6, dtype=np.float32))
    whole = path.read_bytes()
    value = load_tensor_from_event_file(path)
    for end in range(len(whole)):
        path.write_bytes(whole[:end])
        dump = maker.open()
        (datum,) = dump.data()
        datum.dtype, datum.shape, datum.nbytes  # noqa: B018 (must not raise)
        with pytest.raises(DumpError, match="x_0_DebugIdentity"):
            datum.get_tensor()
        assert any(str(path) in line for line in dump.warnings), end
    path.write_bytes(whole)
    assert same(maker.open().data()[0].get_tensor(), value)


def test_a_file_with_any_byte_changed_is_a_dump_error_or_a_value(maker):
    path = maker.tensor("x", np.arange(3, dtype=np.float32))
    whole = path.read_bytes()
    for at in range(len(whole)):
        for byte in (0, 0x7F, 0xFF):
            path.write_bytes(whole[:at] + bytes([byte]) + whole[at + 1 :])
            (datum,) = maker.open().data()
            assert datum.nbytes >= 0
            with contextlib.suppress(DumpError):
                datum.get_tensor()


def test_a_graph_cut_anywhere_hides_nothing_else(maker):
    path = maker.graph(watched(NodeDef("a", "Const", device=CPU0)))
    maker.tensor("a", 1.0)
    whole = path.read_bytes()
    for end in range(len(whole)):
        path.write_bytes(whole[:end])
        dump = maker.open()
        assert dump.graph() is None
        assert any(str(path) in line for line in dump.warnings), end
        assert dump.get_tensors("a", 0, "DebugIdentity") == [1.0]


def test_an_unreadable_file_is_named(maker):
    path = maker.tensor("x", 1.0)
    dump = maker.open()
    path.unlink()
    with pytest.raises(DumpError, match=r"x_0_DebugIdentity.* is gone"):
        dump.data()[0].get_tensor()
    assert any("is gone" in line for line in dump.warnings)


def test_a_damaged_record_of_the_run_is_a_warning(maker):
    path = maker.root / "_tfdbg_core_metadata_sessionrun1_5"
    path.write_bytes(b"".join(message_event('{"global_step": "a"b"}')))
    dump = maker.open()
    assert dump.core_metadata == []
    assert any(str(path) in line for line in dump.warnings)


def test_only_the_edge_that_goes_round_may_come_late(maker):
    loop = [
        NodeDef("start", "Const"),
        NodeDef("next", "NextIteration", ["add"]),
        NodeDef("merge", "Merge", ["start", "next"]),
        NodeDef("add", "Add", ["merge", "start"]),
    ]
    maker.graph(watched(*loop))
    maker.tensor("start", time=START)
    maker.tensor("merge", time=START + 1)
    maker.tensor("add", time=START + 2)
    maker.tensor("next", time=START + 3)
    dump = maker.open()
    dump.graph()
    assert dump.warnings == []
    # Each contradiction is told of, and the first doesn't hide the others.
    maker.tensor("stranger", time=START + 1)
    maker.tensor("late", time=START + 9)
    maker.graph(watched(*loop, NodeDef("late", "Exp"), NodeDef("early", "Neg", ["late"])))
    maker.tensor("early", time=START + 4)
    maker.tensor("early", time=START + 5)
    dump = maker.open()
    dump.graph()
    warnings = "\n".join(dump.warnings)
    assert warnings.count("early was dumped before its input late") == 1
    assert warnings.count('Node "stranger" was dumped but is not in the graph') == 1


def test_equal_times_are_in_the_order_of_their_numbers(maker):
    maker.tensor("b", 1.0)
    maker.tensor("a", 2.0, suffix="-1")
    maker.tensor("c", 3.0, suffix="-2")
    found = maker.open(validate=False).dumped_tensor_data
    assert [datum.node_name for datum in found] == ["b", "a", "c"]
    assert [float(datum.get_tensor()) for datum in found] == [1.0, 2.0, 3.0]


def test_links_inside_of_the_dump_are_followed_and_no_others(maker, tmp_path_factory):
    inside = maker.tensor("a", 1.0)
    outside = tmp_path_factory.mktemp("elsewhere") / "b_0_DebugIdentity_5"
    outside.write_bytes(inside.read_bytes())
    inside.with_name(inside.name.replace("a_0", "c_0")).symlink_to(inside)
    (maker.root / "d_0_DebugIdentity_7").symlink_to(outside)
    (maker.root / "e_0_DebugIdentity_8").symlink_to(maker.root / "nothing")
    dump = maker.open(validate=False)
    assert [datum.node_name for datum in dump.dumped_tensor_data] == ["a", "c"]
    warnings = "\n".join(dump.warnings)
    assert "d_0_DebugIdentity_7 leads out of the dump." in warnings
    assert "e_0_DebugIdentity_8 leads nowhere." in warnings


def test_a_loop_is_none_where_only_its_way_back_was_watched(maker):
    nodes = [
        NodeDef("enter", "Enter"),
        NodeDef("merge", "Merge", ["enter", "next"]),
        NodeDef("next", "NextIteration", ["merge"]),
    ]
    maker.graph(nodes)
    maker.tensor("merge", time=START)
    maker.tensor("next", time=START + 1)
    dump = maker.open()
    dump.graph()
    assert dump.warnings == []


def test_a_tensor_dumped_again_hides_no_later_contradiction(maker):
    maker.graph([NodeDef("a", "Const", device=CPU0)])
    for at, name in enumerate(["a", "a", "b", "b", "c"]):
        maker.tensor(name, time=START + at)
    dump = maker.open()
    dump.graph()
    assert [line.split('"')[1] for line in dump.warnings] == ["b", "c"]


def test_a_path_that_no_file_can_have_is_a_dump_error(tmp_path):
    path = f"{tmp_path}/a\0b"
    assert not is_inside(path, tmp_path)
    with pytest.raises(DumpError, match="can't be read: embedded null byte"):
        read_file(path)
    with pytest.raises(DumpError, match="leads out of the dump"):
        read_file(path, f"{tmp_path}/other")


@pytest.mark.parametrize("op", ["Enter", "NextIteration", "Identity"])
def test_what_enters_a_loop_or_goes_round_in_it_may_come_late(maker, op, tmp_path):
    maker.graph([NodeDef("a", op, device=CPU0), NodeDef("b", "Neg", ["a"], CPU0)])
    maker.tensor("b", time=START)
    maker.tensor("a", time=START + 9)
    dump = maker.open()
    dump.graph()
    late = op == "Identity"
    assert dump.warnings == [f"b was dumped before its input a on {CPU0}."] * late
    write_dump_directory(dump, tmp_path / "copy")
    times = {
        each.node_name: each.timestamp - START for each in Maker(tmp_path / "copy").open().data()
    }
    assert times == {"a": 9, "b": 10 if late else 0}
