import contextlib
import os
from types import SimpleNamespace

import numpy as np
import pytest
from dump_samples import START, same

from tfdbg_cli.dumps.directory import (
    DebugDumpDir,
    DebugTensorDatum,
    WatchKeyDoesNotExistInDebugDumpDirError,
    extract_core_metadata_from_event_proto,
    load_tensor_from_event,
    load_tensor_from_event_file,
)
from tfdbg_cli.dumps.dump import Dump
from tfdbg_cli.dumps.events import graph_event, message_event, tensor_event
from tfdbg_cli.dumps.graph_def import NodeDef, graph_chunks
from tfdbg_cli.dumps.names import device_name_to_device_path
from tfdbg_cli.dumps.tensor_proto import tensor_chunks
from tfdbg_cli.errors import DumpError

CPU0 = "/job:localhost/replica:0/task:0/device:CPU:0"
CPU1 = "/job:localhost/replica:0/task:0/device:CPU:1"


class Maker:
    """Writes the files of a dump one by one."""

    def __init__(self, root):
        self.root = root

    def tensor(
        self, node, value=0.0, *, slot=0, time=START, suffix="", device=CPU0, op="DebugIdentity"
    ):
        path = self.root / device_name_to_device_path(device) / node
        path = path.with_name(f"{path.name}_{slot}_{op}_{time}{suffix}")
        path.parent.mkdir(parents=True, exist_ok=True)
        event = tensor_event(node, slot, op, device, time, tensor_chunks(np.asarray(value)))
        path.write_bytes(b"".join(event))
        return path

    def graph(self, nodes, device=CPU0, number=1):
        folder = self.root / device_name_to_device_path(device)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"_tfdbg_graph_hash{number}_{START}"
        path.write_bytes(b"".join(graph_event(graph_chunks(nodes), START)))
        return path

    def open(self, **options):
        return DebugDumpDir(str(self.root), **options)


@pytest.fixture
def maker(tmp_path):
    return Maker(tmp_path)


def watched(*nodes):
    """The nodes with the copies and debug nodes that TensorFlow inserts."""
    found = []
    for node in nodes:
        found.append(node)
        found.append(NodeDef(f"__copy_{node.name}_0", "Copy", [node.name]))
        key = f"__dbg_{node.name}:0_0_DebugIdentity"
        found.append(NodeDef(key, "DebugIdentity", [f"__copy_{node.name}_0"]))
    return found


def test_a_missing_root_is_an_oserror(tmp_path):
    with pytest.raises(IOError, match=r"Dump root directory .*nowhere does not exist"):
        DebugDumpDir(tmp_path / "nowhere")


def test_an_empty_folder_is_an_empty_dump(maker):
    dump = maker.open()
    assert isinstance(dump, Dump)
    assert (dump.size, dump.data(), dump.devices(), dump.core_metadata) == (0, [], [], [])
    assert dump.graph() is None and dump.run_info() is None
    assert dump.t0 == 0 and dump.t0() == 0
    assert dump.run_fetches_info is None and dump.run_feed_keys_info is None


def test_without_a_graph_everything_is_reached_by_the_files(maker):
    maker.tensor("a/b", [1.0, 2.0], time=START + 5)
    path = maker.tensor("c", 3, slot=1, time=START)
    dump = maker.open()
    assert [datum.watch_key for datum in dump.data()] == [
        "c:1:DebugIdentity",
        "a/b:0:DebugIdentity",
    ]
    assert dump.get_tensors("a/b", 0, "DebugIdentity")[0].tolist() == [1.0, 2.0]
    assert dump.get_rel_timestamps("a/b", 0, "DebugIdentity") == [5]
    assert dump.get_tensor_file_paths("c", 1, "DebugIdentity") == [str(path)]
    assert dump.get_dump_sizes_bytes("c", 1, "DebugIdentity") == [path.stat().st_size]
    assert dump.debug_watch_keys("c") == ["c:1:DebugIdentity"]
    assert dump.watch_key_to_data("c:1:DebugIdentity", CPU0)[0].node_name == "c"
    assert not dump.loaded_partition_graphs()
    for call in (dump.nodes, dump.partition_graphs, lambda: dump.node_inputs("c")):
        with pytest.raises(LookupError):
            call()
    assert dump.warnings == []


def test_equal_times_are_sorted_by_number(maker):
    for number in (10, 2, 1):
        maker.tensor("x", number, suffix=f"-{number}")
    maker.tensor("x", 0)
    data = maker.open().data()
    assert [int(datum.get_tensor()) for datum in data] == [0, 1, 2, 10]
    assert [datum.execution for datum in data] == [0, 1, 2, 3]
    assert data[-1].extended_timestamp == f"{START}-10"


def test_the_head_of_a_file_tells_type_and_shape(maker):
    maker.tensor("x", np.zeros((3, 4), np.int16))
    (datum,) = maker.open().data()
    assert (datum.dtype, datum.shape, datum.nbytes) == ("int16", (3, 4), 24)
    assert datum.dump_size_bytes == os.path.getsize(datum.file_path)


def test_a_datum_is_made_from_its_path(maker):
    path = maker.tensor("scope/x", 5.0, slot=2, suffix="-3")
    datum = DebugTensorDatum(str(maker.root), str(path.relative_to(maker.root)))
    assert (datum.node_name, datum.output_slot, datum.debug_op) == ("scope/x", 2, "DebugIdentity")
    assert (datum.tensor_name, datum.device_name) == ("scope/x:2", CPU0)
    assert (datum.timestamp, datum.extended_timestamp) == (START, f"{START}-3")
    assert datum.file_path == str(path)
    assert datum.get_tensor() == 5.0
    assert str(datum) == f"{{DebugTensorDatum ({CPU0}) scope/x:2 @ DebugIdentity @ {START}}}"
    gone = DebugTensorDatum(str(maker.root), "_tfdbg_device_,cpu_0/y_0_DebugIdentity_1")
    assert gone.dump_size_bytes is None
    with pytest.raises(ValueError, match="does not conform to the naming pattern: bad_name"):
        DebugTensorDatum(str(maker.root), "_tfdbg_device_,cpu_0/bad_name")


def test_the_file_tells_a_device_that_the_folder_does_not(maker):
    device = "/job:a/replica:0/strange_part:7_b"
    maker.tensor("x", device=device)
    assert maker.open().devices() == [device]


def test_a_large_value_is_mapped_and_may_be_changed(maker):
    path = maker.tensor("x", np.arange(100_000.0))
    (datum,) = maker.open().data()
    before = path.read_bytes()
    value = datum.get_tensor()
    value[:] = 0
    assert path.read_bytes() == before
    assert datum.get_tensor()[7] == 7


def test_feeds_have_the_user_s_names(maker):
    maker.tensor("_arg_in/x_0_0", 5.0)
    maker.tensor("_arg_pair_1_1", 6.0)
    nodes = [
        NodeDef("_arg_in/x_0_0", "_Arg", device=CPU0),
        NodeDef("_arg_pair_1_1", "_Arg", device=CPU0),
        NodeDef("y", "Add", ["__copy__arg_in/x_0_0_0", "_arg_pair_1_1"], CPU0),
        NodeDef("__copy__arg_in/x_0_0_0", "Copy", ["_arg_in/x_0_0"]),
        NodeDef("_retval_y_0_0", "_Retval", ["y"], CPU0),
    ]
    maker.graph(nodes)
    dump = maker.open()
    assert [datum.tensor_name for datum in dump.data()] == ["in/x:0", "pair:1"]
    assert dump.by_tensor("pair:1")[0].get_tensor() == 6.0
    assert dump.graph().node("y").inputs == ("in/x:0", "pair:1")
    assert set(dump.graph().nodes) == {"in/x", "pair", "y"}
    assert dump.warnings == []
    # The original's names, and the user's, through the original's methods.
    assert dump.dumped_tensor_data[0].node_name == "_arg_in/x_0_0"
    assert dump.node_inputs("y") == ["_arg_in/x_0_0", "_arg_pair_1_1"]
    assert dump.get_tensors("in/x", 0, "DebugIdentity") == [5.0]
    assert dump.get_tensors("pair", 1, "DebugIdentity") == [6.0]
    assert dump.find_some_path("in/x", "y") == ["_arg_in/x_0_0", "y"]
    assert dump.node_exists("in/x") and not dump.node_exists("zz")
    assert dump.debug_watch_keys("pair") == ["_arg_pair_1_1:0:DebugIdentity"]


def test_a_fed_tensor_that_was_computed_too_keeps_both(maker):
    maker.tensor("_arg_x_0_0", 5.0)
    maker.tensor("x", 6.0)
    assert {d.tensor_name for d in maker.open().data()} == {"_arg_x_0_0:0", "x:0"}


def send_and_receive(name, tensor):
    def attr(key, value):
        from tfdbg_cli.dumps import wire

        return wire.put_text(1, key) + wire.put_bytes(2, wire.put_text(2, value))

    entries = [
        attr("tensor_name", name),
        attr("send_device", CPU0),
        attr("recv_device", CPU1),
    ]
    return (
        NodeDef(f"{tensor}/_0", "_Send", [f"__copy_{tensor}_0"], CPU0, entries),
        NodeDef(f"{tensor}/_1", "_Recv", [], CPU1, entries),
    )


def test_edges_between_devices_survive(maker):
    send, receive = send_and_receive("edge_1_a", "a")
    maker.graph([*watched(NodeDef("a", "Const", device=CPU0)), send])
    maker.graph([receive, NodeDef("b", "Exp", ["a/_1", "^a/_1"], CPU1)], CPU1)
    maker.tensor("a", 1.0)
    maker.tensor("b", 2.0, device=CPU1, time=START + 1)
    dump = maker.open()
    graph = dump.graph()
    assert set(graph.nodes) == {"a", "b"}
    assert graph.node("b").inputs == ("a:0",)
    assert graph.node("b").control_inputs == ("a",)
    assert [edge.node for edge in graph.recipients("a", control=False)] == ["b"]
    assert dump.find_some_path("a", "b") == ["a", "b"]
    maker.tensor("a/_1", 1.0, device=CPU1, time=START + 1)
    graph = maker.open().graph()
    assert graph.node("a/_1").inputs == ("a:0",)
    assert graph.node("b").inputs == ("a:0",)


def test_the_debugger_s_nodes_are_taken_out(maker):
    a, b = NodeDef("a", "Const", device=CPU0), NodeDef("b", "Neg", device=CPU0)
    b.input = ["__copy_a_0", "^__dbg_a:0_0_DebugIdentity", "^a"]
    maker.graph(watched(a, b))
    dump = maker.open()
    assert dump.nodes() == ["a", "b"]
    assert dump.nodes(CPU0) == ["a", "b"]
    assert (dump.node_inputs("b"), dump.node_inputs("b", is_control=True)) == (["a"], ["a"])
    assert (dump.node_recipients("a"), dump.node_recipients("a", True)) == (["b"], ["b"])
    assert dump.node_op_type("b") == "Neg"
    assert dump.node_device("b") == CPU0
    assert len(dump.partition_graphs()[0].node) == 6
    (rebuilt,) = dump.reconstructed_non_debug_partition_graphs().values()
    assert [(node.name, node.input) for node in rebuilt.node] == [("a", []), ("b", ["a", "^a"])]


def test_a_node_on_several_devices_needs_the_device(maker):
    for device, value in ((CPU0, 1.0), (CPU1, 2.0)):
        maker.graph([NodeDef("v", f"Op{int(value)}", device=device)], device)
        maker.tensor("v", value, device=device)
    maker.graph([NodeDef("v", "Op1", device=CPU0), NodeDef("only", "Op", device=CPU0)])
    dump = maker.open()
    assert dump.node_device("v") == [CPU0, CPU1]
    assert dump.node_op_type("v", CPU1) == "Op2"
    assert dump.get_tensors("v", 0, "DebugIdentity", device_name=CPU1) == [2.0]
    with pytest.raises(ValueError, match="multiple \\(2\\) devices"):
        dump.node_op_type("v")
    with pytest.raises(ValueError, match="multiple \\(2\\) devices"):
        dump.watch_key_to_data("v:0:DebugIdentity")
    with pytest.raises(WatchKeyDoesNotExistInDebugDumpDirError):
        dump.get_tensors("v", 0, "DebugIdentity")
    (datum,) = dump.watch_key_to_data("v:0:DebugIdentity", device_name=CPU1)
    assert datum.device_name == CPU1
    assert dump.node_exists("only", CPU0) and not dump.node_exists("only", CPU1)
    with pytest.raises(ValueError, match="cannot be found"):
        dump.node_exists("only", "/gpu:0")
    with pytest.raises(ValueError, match="Invalid device name"):
        dump.nodes("/gpu:0")
    found = dump.find(lambda datum, value: True, device_name=CPU1)
    assert [datum.device_name for datum in found] == [CPU1]
    with pytest.raises(ValueError, match="no device named"):
        dump.find(lambda datum, value: True, device_name="/gpu:0")
    # Two devices, one user: each is the first dump of its own.
    assert [datum.execution for datum in dump.by_tensor("v:0")] == [0, 0]


def test_find_takes_both_kinds_of_arguments(maker):
    for at, name in enumerate(["a1", "a2", "b1"]):
        maker.tensor(name, float(at), time=START + at)
    dump = maker.open()

    def names(*args, **options):
        return [d.node_name for d in dump.find(lambda d, value: value >= 0, *args, **options)]

    assert names() == ["a1", "a2", "b1"]
    assert names(2) == ["a1", "a2"]
    assert names(0, CPU0) == ["a1", "a2", "b1"]
    assert names(exclude_node_names="a") == ["b1"]
    assert names(0, None, "1") == ["a1", "a2", "b1"]
    assert names(0, __import__("re").compile("1")) == ["a2"]
    seen = []
    found = dump.find(lambda d, v: 1 / 0, on_error=lambda datum, error: seen.append(type(error)))
    assert (found, seen) == ([], [ZeroDivisionError] * 3)
    with pytest.raises(ZeroDivisionError):
        dump.find(lambda d, v: 1 / 0)


def test_unknown_names_are_the_original_s_errors(maker):
    maker.graph([NodeDef("a", "Const", device=CPU0)])
    maker.tensor("a")
    dump = maker.open()
    assert dump.debug_watch_keys("zz") == []
    assert dump.watch_key_to_data("zz:0:DebugIdentity") == []
    with pytest.raises(WatchKeyDoesNotExistInDebugDumpDirError, match="zz:0:DebugIdentity"):
        dump.get_tensors("zz", 0, "DebugIdentity")
    with pytest.raises(WatchKeyDoesNotExistInDebugDumpDirError, match="a:5:DebugIdentity"):
        dump.get_tensor_file_paths("a", 5, "DebugIdentity")
    with pytest.raises(ValueError, match=r"None of the 1 device\(s\) has a node named 'zz'"):
        dump.node_op_type("zz")
    with pytest.raises(ValueError, match="does not exist in partition graphs"):
        dump.node_device("zz")


def test_a_deep_chain_needs_no_recursion(maker):
    count = 5000
    nodes = [NodeDef("n0", "Const", device=CPU0)]
    nodes += [NodeDef(f"n{i}", "Tanh", [f"n{i - 1}"], CPU0) for i in range(1, count)]
    maker.graph(nodes)
    dump = maker.open()
    assert dump.transitive_inputs(f"n{count - 1}") == [f"n{i}" for i in reversed(range(count - 1))]
    assert dump.find_some_path("n0", f"n{count - 1}") == [f"n{i}" for i in range(count)]
    assert dump.find_some_path(f"n{count - 1}", "n0") is None


def test_reference_edges_may_be_followed_backwards(maker):
    nodes = [
        NodeDef("v", "VariableV2", device=CPU0),
        NodeDef("init", "Const", device=CPU0),
        NodeDef("assign", "Assign", ["v", "init"], CPU0),
        NodeDef("read", "Identity", ["v"], CPU0),
    ]
    maker.graph(nodes)
    dump = maker.open()
    assert dump.transitive_inputs("read") == ["v"]
    assert set(dump.transitive_inputs("read", include_reversed_ref=True)) == {"v", "assign", "init"}
    assert dump.find_some_path("init", "read") is None
    path = dump.find_some_path("init", "read", include_reversed_ref=True)
    assert path == ["init", "assign", "v", "read"]


def test_walks_stop_at_merge(maker):
    nodes = [
        NodeDef("enter", "Enter", device=CPU0),
        NodeDef("merge", "Merge", ["enter", "next"], CPU0),
        NodeDef("body", "Add", ["merge"], CPU0),
        NodeDef("next", "NextIteration", ["body"], CPU0),
    ]
    maker.graph(nodes)
    dump = maker.open()
    assert dump.transitive_inputs("body") == ["merge"]
    assert dump.find_some_path("next", "body") is None


def test_control_edges_are_optional(maker):
    maker.graph([NodeDef("a", "Const", device=CPU0), NodeDef("b", "NoOp", ["^a"], CPU0)])
    dump = maker.open()
    assert dump.transitive_inputs("b") == ["a"]
    assert dump.transitive_inputs("b", include_control=False) == []
    assert dump.find_some_path("a", "b", include_control=False) is None


# Damage: a warning that names the file, and the rest is there.


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


def test_foreign_and_empty_files_are_named(maker):
    good = maker.tensor("good", 1.0)
    (good.parent / "notes.txt").write_text("hello")
    (good.parent / "empty_0_DebugIdentity_5").touch()
    (good.parent / ".hidden").touch()
    (maker.root / "README").write_text("x")
    os.mkfifo(good.parent / "pipe_0_DebugIdentity_5")
    dump = maker.open()
    text = "\n".join(dump.warnings)
    assert "notes.txt is no dump file" in text
    assert "empty_0_DebugIdentity_5 is damaged: The file is empty." in text
    assert "pipe_0_DebugIdentity_5 is no dump file" in text
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
    assert "480 more problems" in dump.warnings[-1]


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


def test_a_graph_of_another_process_may_be_given(maker):
    maker.tensor("a", 1.0)
    from tfdbg_cli.dumps.graph_def import GraphDef

    graph = GraphDef([NodeDef("a", "Const", device=CPU0)])
    for given in (
        graph,
        graph.SerializeToString(),
        SimpleNamespace(SerializeToString=graph.SerializeToString),
    ):
        dump = maker.open(partition_graphs=[given])
        assert dump.node_op_type("a") == "Const"


def test_core_metadata_and_infos(maker):
    text = (
        '{"global_step":-1,"session_run_index":4,"executor_step_index":0,'
        '"input_names":["ph:0"],"output_names":["inv:0"],"target_nodes":["train"]}'
    )
    name = "_tfdbg_core_metadata_sessionrun00000000000004_5"
    (maker.root / name).write_bytes(b"".join(message_event(text, START)))
    fetches = "[<tf.Tensor 'inv:0' shape=(2, 2) dtype=float32>]"
    (maker.root / "_tfdbg_fetches_info_").write_bytes(b"".join(message_event(fetches)))
    maker.tensor("_arg_ph_0_0", 7.0)
    dump = maker.open()
    assert dump.core_metadata.session_run_index == 4
    assert dump.core_metadata.target_nodes == ["train"]
    assert dump.run_fetches_info == fetches
    info = dump.run_info()
    assert (info.call_count, info.fetches) == (4, ["inv:0", "train"])
    assert dict(info.feeds) == {"ph:0": 7.0}
    (maker.root / name).unlink()
    assert maker.open().run_info().fetches == ["inv:0"]


def test_a_damaged_record_of_the_run_is_a_warning(maker):
    path = maker.root / "_tfdbg_core_metadata_sessionrun1_5"
    path.write_bytes(b"".join(message_event('{"global_step": "a"b"}')))
    dump = maker.open()
    assert dump.core_metadata == []
    assert any(str(path) in line for line in dump.warnings)


def test_tracebacks_come_from_the_python_graph(maker):
    maker.graph([NodeDef("a", "Const", device=CPU0), NodeDef("_arg_x_0_0", "_Arg", device=CPU0)])
    dump = maker.open()
    with pytest.raises(LookupError, match="Python graph is not available"):
        dump.node_traceback("a")
    assert dump.graph().node("a").frames is None
    stack = [("f.py", 3, "main", "a = 1"), ("lib.py", 9, "make", None)]
    ops = [
        SimpleNamespace(name="a", traceback=stack),
        SimpleNamespace(name="x", traceback=stack[:1]),
    ]
    dump.set_python_graph(SimpleNamespace(get_operations=lambda: ops))
    assert dump.node_traceback("a:0") == tuple(stack)
    assert dump.node_traceback("_arg_x_0_0:0") == (stack[0],)
    frames = dump.graph().node("a").frames
    assert [(frame.file, frame.line, frame.text) for frame in frames] == [
        ("f.py", 3, "a = 1"),
        ("lib.py", 9, ""),
    ]
    assert dump.graph().node("x").frames[0].function == "main"
    with pytest.raises(KeyError, match='Cannot find node "b"'):
        dump.node_traceback("b")
    assert dump.python_graph is not None


def test_events_are_read_from_bytes():
    event = b"".join(tensor_event("a", 0, "DebugIdentity", CPU0, START, tensor_chunks(np.array(5))))
    assert load_tensor_from_event(event) == 5
    with pytest.raises(DumpError):
        extract_core_metadata_from_event_proto(event)
