"""The original's dump directories: files, feeds, events."""

import os
from types import SimpleNamespace

import numpy as np
import pytest
from directory_kit import CPU0, CPU1
from dump_samples import START

from tfdbg_cli.common.errors import DumpError
from tfdbg_cli.dumps.dump import Dump
from tfdbg_cli.dumps.proto import wire
from tfdbg_cli.dumps.proto.graph_def import NodeDef
from tfdbg_cli.dumps.proto.tensor_proto import tensor_chunks
from tfdbg_cli.dumps.sources import Frame
from tfdbg_cli.dumps.tfdbg_dir.debug_dump_dir import (
    DebugDumpDir,
    DebugTensorDatum,
    extract_core_metadata_from_event_proto,
    load_tensor_from_event,
)
from tfdbg_cli.dumps.tfdbg_dir.events import Event, graph_event, message_event, tensor_event


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
    assert (datum.file_path, datum.execution, datum.note) == (str(path), 0, "")
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
    first = maker.tensor("a", device=device)
    first.write_bytes(first.read_bytes()[:-20])
    dump = maker.open()
    assert dump.devices() == [device]
    assert [datum.device_name for datum in dump.data()] == [device, device]


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


def test_a_graph_of_another_process_may_be_given(maker):
    maker.tensor("a", 1.0)
    from tfdbg_cli.dumps.proto.graph_def import GraphDef

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
        '{"global_step":-1,"session_run_index":4,"executor_step_index":6,'
        '"input_names":["ph:0"],"output_names":["inv:0"],"target_nodes":["train"]}'
    )
    name = "_tfdbg_core_metadata_sessionrun00000000000004_5"
    (maker.root / name).write_bytes(b"".join(message_event(text, START)))
    fetches = "[<tf.Tensor 'inv:0' shape=(2, 2) dtype=float32>]"
    (maker.root / "_tfdbg_fetches_info_").write_bytes(b"".join(message_event(fetches)))
    maker.tensor("_arg_ph_0_0", 7.0)
    dump = maker.open()
    assert dump.core_metadata[:3] == (-1, 4, 6)
    assert dump.core_metadata.target_nodes == ["train"]
    assert dump.run_fetches_info == fetches
    info = dump.run_info()
    assert (info.call_count, info.fetches) == (4, ["inv:0", "train"])
    assert dict(info.feeds) == {"ph:0": 7.0}
    (maker.root / name).unlink()
    assert maker.open().run_info().fetches == ["inv:0"]
    assert maker.open().run_info().engine == info.engine == "tensorflow"
    feeds = "odict_keys([<tf.Tensor 'ph:0' shape=(2, 2) dtype=float32>])"
    (maker.root / "_tfdbg_feed_keys_info_").write_bytes(b"".join(message_event(feeds)))
    assert dict(maker.open().run_info().feeds) == {"ph:0": 7.0}


def test_tracebacks_come_from_the_python_graph(maker):
    names = [("a", "Const"), ("b", "Const"), ("_arg_x_0_0", "_Arg")]
    maker.graph([NodeDef(name, op, device=CPU0) for name, op in names])
    dump = maker.open()
    with pytest.raises(LookupError, match="Python graph is not available"):
        dump.node_traceback("a")
    assert dump.graph().node("a").frames is None
    stack = [("f.py", 3, "main", "a = 1"), ("lib.py", 9, "make", None)]
    ops = [
        SimpleNamespace(name="a", traceback=stack),
        SimpleNamespace(name="x", traceback=stack[:1]),
        SimpleNamespace(name="b", traceback=[("g.py", 0, "f")]),
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
    assert dump.graph().node("b").frames == (Frame("g.py", 0, "f", ""),)
    with pytest.raises(KeyError, match='Cannot find node "c"'):
        dump.node_traceback("c")
    assert dump.python_graph is not None


def test_events_are_read_from_bytes():
    event = b"".join(tensor_event("a", 0, "DebugIdentity", CPU0, START, tensor_chunks(np.array(5))))
    assert load_tensor_from_event(event) == 5
    # What another version has put in front of a tensor hides nothing.
    ((first, last),) = [(a, b) for number, _, a, b in wire.fields(event) if number == 5]
    summary = wire.put_message(5, [wire.put_varint(7, 1), event[first:last]])
    assert load_tensor_from_event(b"".join(summary)) == 5
    summary = wire.put_message(5, [wire.put_text(2, "behind"), event[first:last]])
    assert load_tensor_from_event(b"".join(summary)) == 5
    value = [wire.put_varint(99, 1), *wire.put_message(8, tensor_chunks(np.array(7)))]
    assert load_tensor_from_event(b"".join(wire.put_message(5, wire.put_message(1, value)))) == 7
    for damaged in (b"\xff", wire.put_bytes(1, wire.put_text(2, "{nonsense"))):
        value = wire.put_message(1, [wire.put_bytes(9, damaged)])
        assert Event(memoryview(b"".join(wire.put_message(5, value)))).device_name == ""
    graph = wire.put_bytes(1, wire.put_text(1, "a"))
    behind = b"".join([*graph_event([graph], START), wire.put_varint(2, 7)])
    assert bytes(Event(memoryview(behind)).graph_def) == graph
    message = SimpleNamespace(SerializeToString=lambda: event)  # as one of TensorFlow's
    assert load_tensor_from_event(message) == 5
    assert Event(memoryview(event)).watch_key == "a:0:DebugIdentity"
    assert Event(memoryview(event)).device_name == CPU0
    assert Event(memoryview(told := b"".join(message_event("hi", START)))).device_name == ""
    assert (Event(memoryview(told)).message, Event(memoryview(told)).watch_key) == ("hi", "")
    told = b"".join(message_event("hello", START))
    assert told.startswith(wire.put_double(1, START))
    with pytest.raises(DumpError):
        extract_core_metadata_from_event_proto(event)
    with pytest.raises(DumpError, match="something is missing"):
        extract_core_metadata_from_event_proto(b"".join(message_event('{"global_step":1}')))


def test_dumps_of_two_devices_are_in_the_order_of_time(maker):
    maker.tensor("late", time=START + 5, device=CPU0)
    maker.tensor("early", time=START, device=CPU1)
    maker.tensor("between", time=START + 2, device=CPU0)
    names = [datum.node_name for datum in maker.open().data()]
    assert names == ["early", "between", "late"]
