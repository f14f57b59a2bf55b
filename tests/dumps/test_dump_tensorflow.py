"""What TensorFlow writes is read as TensorFlow reads it."""

import numpy as np
import pytest
from dump_samples import same

from tfdbg_cli.dumps.dump import InconvertibleTensorProto
from tfdbg_cli.dumps.open import list_runs, open_dump
from tfdbg_cli.dumps.run_folder.dump import RunFolderDump, write_run_folder
from tfdbg_cli.dumps.tfdbg_dir.debug_dump_dir import (
    DebugDumpDir,
    device_path_to_device_name,
    extract_core_metadata_from_event_proto,
    load_tensor_from_event,
    load_tensor_from_event_file,
)
from tfdbg_cli.dumps.tfdbg_dir.writer import write_dump_directory

pytestmark = pytest.mark.tensorflow

CPU0, CPU1 = (f"/job:localhost/replica:0/task:0/device:CPU:{n}" for n in (0, 1))


@pytest.fixture(scope="module")
def theirs(tf_run):
    debug_data = pytest.importorskip("tensorflow.python.debug.lib.debug_data")
    return debug_data.DebugDumpDir(str(tf_run), validate=True)


@pytest.fixture
def ours(tf_run):
    return DebugDumpDir(tf_run, validate=True)


def equal(mine, other):
    if not isinstance(other, np.ndarray):
        return isinstance(mine, InconvertibleTensorProto) and mine.initialized == other.initialized
    if other.dtype.names:
        other = other[other.dtype.names[0]]
    return same(mine, other)


def test_every_value_is_equal(ours, theirs):
    assert ours.size == theirs.size > 100
    # TensorFlow leaves the order of equal times to the file system.
    expected = sorted(theirs.dumped_tensor_data, key=lambda d: (d.timestamp, d.node_name))
    for mine, other in zip(ours.dumped_tensor_data, expected, strict=True):
        assert str(mine) == str(other)
        assert mine.file_path == other.file_path
        assert mine.dump_size_bytes == other.dump_size_bytes
        assert mine.extended_timestamp == other.extended_timestamp
        value = mine.get_tensor()
        assert equal(value, other.get_tensor()), mine
        if isinstance(value, np.ndarray):
            assert mine.shape == value.shape
            assert value.dtype == object or mine.nbytes == value.nbytes
    ours.graph()
    assert ours.warnings == []


def test_every_type_is_there(ours):
    found = {datum.dtype for datum in ours.data()}
    assert found >= {
        *("float16", "float32", "float64", "bfloat16", "float8_e5m2", "float8_e4m3fn"),
        *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
        *("bool", "complex64", "complex128", "string", "resource", "quint8"),
    }
    (uninitialized,) = ours.by_tensor("uninit:0")
    assert uninitialized.get_tensor().initialized is False
    (resource,) = ours.by_tensor("resvar:0")
    assert "resvar" in str(resource.get_tensor())


def test_the_properties_are_equal(ours, theirs):
    assert tuple(ours.core_metadata) == tuple(theirs.core_metadata)
    assert ours.t0 == theirs.t0
    assert set(ours.devices()) == set(theirs.devices())
    assert ours.run_fetches_info == theirs.run_fetches_info
    assert ours.run_feed_keys_info == theirs.run_feed_keys_info
    assert ours.loaded_partition_graphs() is theirs.loaded_partition_graphs() is True
    assert sorted(ours.nodes()) == sorted(theirs.nodes())
    assert sorted(ours.nodes(CPU1)) == sorted(theirs.nodes(CPU1))


def test_every_node_is_equal(ours, theirs):
    for name in theirs.nodes():
        assert ours.node_exists(name)
        assert ours.node_device(name) == theirs.node_device(name)
        assert ours.node_op_type(name) == theirs.node_op_type(name)
        for control in (False, True):
            assert ours.node_inputs(name, control) == theirs.node_inputs(name, control)
            mine = ours.node_recipients(name, control)
            assert mine == theirs.node_recipients(name, control)
        assert set(ours.node_attributes(name)) == set(theirs.node_attributes(name))
        for key, value in theirs.node_attributes(name).items():
            mine = ours.node_attributes(name)[key]
            assert type(value).FromString(mine.SerializeToString()) == value
            assert (mine.s, mine.i, mine.b, mine.type) == (value.s, value.i, value.b, value.type)
        assert set(ours.debug_watch_keys(name)) == set(theirs.debug_watch_keys(name))
        for control in (False, True):
            mine = ours.transitive_inputs(name, control)
            assert mine == list(dict.fromkeys(theirs.transitive_inputs(name, control)))
            # The original turns every edge around, not only those of references.
            mine = ours.transitive_inputs(name, control, include_reversed_ref=True)
            assert set(mine) <= {name, *theirs.transitive_inputs(name, control, True)}


def test_every_tensor_is_equal(ours, theirs):
    for datum in theirs.dumped_tensor_data:
        key = (datum.node_name, datum.output_slot, datum.debug_op)
        assert ours.get_tensor_file_paths(*key) == theirs.get_tensor_file_paths(*key)
        assert ours.get_rel_timestamps(*key) == theirs.get_rel_timestamps(*key)
        assert ours.get_dump_sizes_bytes(*key) == theirs.get_dump_sizes_bytes(*key)
        pairs = zip(ours.get_tensors(*key), theirs.get_tensors(*key), strict=True)
        assert all(equal(mine, other) for mine, other in pairs)
        mine = ours.watch_key_to_data(datum.watch_key)
        other = theirs.watch_key_to_data(datum.watch_key)
        assert list(map(str, mine)) == list(map(str, other))


def test_paths_exist_where_they_do_for_tensorflow(ours, theirs):
    names = theirs.nodes(CPU0)
    for target in ("back", "update", "wl/body", "hidden/Relu", "_retval_back_0_0"):
        if target not in names:
            continue
        for source in names:
            mine = ours.find_some_path(source, target, device_name=CPU0)
            other = theirs.find_some_path(source, target, device_name=CPU0)
            if other is not None:
                assert mine is not None
                assert len(mine) <= len(other)
    assert ours.find_some_path("input/x", "back") == [
        *("input/x", "mul", "hidden/Relu", "on_cpu1", "back")
    ]


def test_graphs_are_equal(ours, theirs):
    for mine, other in zip(ours.partition_graphs(), ours.devices(), strict=True):
        found = next(g for g in theirs.partition_graphs() if g.node[0].device == other)
        assert [node.name for node in mine.node] == [node.name for node in found.node]
    rebuilt = theirs.reconstructed_non_debug_partition_graphs()
    for device, graph in ours.reconstructed_non_debug_partition_graphs().items():
        message = type(rebuilt[device]).FromString(graph.SerializeToString())
        assert list(message.node) == list(rebuilt[device].node)


def test_the_user_s_graph_has_the_user_s_names(ours):
    graph = ours.graph()
    assert not any(name.startswith(("__", "_arg_", "_retval_")) for name in graph.nodes)
    assert graph.node("mul").inputs[0] == "input/x:0"
    assert "on_cpu1:0" in graph.node("back").inputs
    assert graph.node("on_cpu1").inputs == ("hidden/Relu:0",)
    assert graph.node("on_cpu1").device == CPU1
    assert "input/x:0" in ours.tensor_names() and "text:0" in ours.tensor_names()
    assert graph.node("mul").attributes["T"] == "float32"
    for datum in ours.data():
        assert datum.node_name in graph
    info = ours.run_info()
    assert "back:0" in info.fetches
    assert info.feeds["input/x:0"].tolist() == [[1.0, 2.0], [3.0, -4.0]]
    assert info.feeds["text:0"].tolist() == [b"abc", b"", b"\xff\x00"]


def test_a_loop_has_its_dumps_in_order(ours):
    data = ours.by_tensor("wl/body:0")
    assert [int(datum.get_tensor()) for datum in data] == [1, 2, 3, 4, 5]
    assert [datum.execution for datum in data] == [0, 1, 2, 3, 4]


def test_bad_values_are_found_where_tensorflow_finds_them(ours, theirs):
    def bad(datum, value):
        return isinstance(value, np.ndarray) and value.dtype.kind == "f" and np.isnan(value).any()

    mine = [datum.node_name for datum in ours.find(bad)]
    assert "log" in mine
    assert set(mine) == {datum.node_name for datum in theirs.find(bad)}


def test_tensorflow_s_own_messages_are_taken(tf_run):
    event_pb2 = pytest.importorskip("tensorflow.core.util.event_pb2")
    path = next(tf_run.rglob("hidden/Relu_0_*"))
    event = event_pb2.Event.FromString(path.read_bytes())
    assert same(load_tensor_from_event(event), load_tensor_from_event_file(path))
    core = event_pb2.Event.FromString(next(tf_run.glob("*core_metadata*")).read_bytes())
    assert extract_core_metadata_from_event_proto(core).global_step == -1
    ours = DebugDumpDir(tf_run)
    tf = pytest.importorskip("tensorflow")
    with tf.Graph().as_default() as graph:
        tf.constant(1.0, name="hidden/Relu")
    ours.set_python_graph(graph)
    assert ours.node_traceback("hidden/Relu:0")[-1] is not None
    assert any(frame.file == __file__ for frame in ours.graph().node("hidden/Relu").frames)


def test_client_graphs_stand_in_for_missing_ones(tf_run, theirs, tmp_path):
    import shutil

    shutil.copytree(tf_run, tmp_path / "run")
    for path in (tmp_path / "run").rglob("_tfdbg_graph*"):
        path.unlink()
    bare = DebugDumpDir(tmp_path / "run")
    assert not bare.loaded_partition_graphs()
    assert bare.get_tensors("back", 0, "DebugIdentity")[0].shape == (2, 2)
    given = DebugDumpDir(tmp_path / "run", partition_graphs=theirs.partition_graphs())
    assert sorted(given.nodes()) == sorted(theirs.nodes())


def test_the_session_root_is_opened(tf_session_root, tf_run):
    runs = list_runs(tf_session_root)
    assert [int(path.name.rpartition("_")[2]) for path in runs] == [0, 1, 2]
    assert len(open_dump(tf_session_root).data()) == len(open_dump(runs[-1]).data())


@pytest.mark.parametrize("write", [write_run_folder, write_dump_directory])
def test_copies_are_equal(write, ours, tmp_path):
    write(ours, tmp_path / "copy")
    copy = open_dump(tmp_path / "copy")
    assert copy.warnings == []
    for mine, other in zip(copy.data(), ours.data(), strict=True):
        assert (mine.watch_key, mine.dtype, mine.shape) == (
            *(other.watch_key, other.dtype, other.shape),
        )
        assert same(mine.get_tensor(), other.get_tensor())
    for name, node in ours.graph().nodes.items():
        other = copy.graph().node(name)
        assert (other.op_type, other.inputs) == (node.op_type, node.inputs)
        assert dict(other.attributes) == dict(node.attributes)
    if isinstance(copy, RunFolderDump):
        return
    from tensorflow.python.debug.lib import debug_data

    again = debug_data.DebugDumpDir(str(tmp_path / "copy"), validate=True)
    assert again.size == ours.size
    for mine, other in zip(copy.dumped_tensor_data, again.dumped_tensor_data, strict=True):
        assert str(mine) == str(other)
        assert equal(mine.get_tensor(), other.get_tensor())


def test_a_device_folder_is_read_as_by_tensorflow(tf_run):
    debug_data = pytest.importorskip("tensorflow.python.debug.lib.debug_data")
    for path in tf_run.glob("_tfdbg_device_*"):
        assert device_path_to_device_name(str(path)) == debug_data.device_path_to_device_name(
            str(path)
        )


def test_the_public_class_gives_tensorflows_messages(tf_run, theirs):
    import tfdbg_cli

    ours = tfdbg_cli.DebugDumpDir(tf_run)
    assert isinstance(ours, DebugDumpDir)
    given = {graph.node[0].device: graph for graph in theirs.partition_graphs()}
    for graph, device in zip(ours.partition_graphs(), ours.devices(), strict=True):
        assert type(graph) is type(given[device])
        assert list(graph.node) == list(given[device].node)
    rebuilt = theirs.reconstructed_non_debug_partition_graphs()
    for device, graph in ours.reconstructed_non_debug_partition_graphs().items():
        assert type(graph) is type(rebuilt[device])
    for name in theirs.nodes():
        assert ours.node_attributes(name) == dict(theirs.node_attributes(name))
        assert all(
            type(ours.node_attributes(name)[key]) is type(value)
            for key, value in theirs.node_attributes(name).items()
        )


def test_inconvertible_values_are_of_both_classes(tf_run, theirs, tmp_path):
    import copy
    import pickle

    from tensorflow.python.debug.lib import debug_data

    import tfdbg_cli

    def programs_own(datum, tensor):  # as the original's users write it
        return not isinstance(tensor, debug_data.InconvertibleTensorProto)

    ours = tfdbg_cli.DebugDumpDir(tf_run)
    found = len(ours.find(programs_own))
    assert found == len(theirs.find(programs_own)) < ours.size
    (mine,) = ours.get_tensors("uninit", 0, "DebugIdentity")
    (other,) = theirs.get_tensors("uninit", 0, "DebugIdentity")
    for value in (mine, other, copy.deepcopy(mine), pickle.loads(pickle.dumps(mine))):
        assert isinstance(value, debug_data.InconvertibleTensorProto)
        assert isinstance(value, tfdbg_cli.InconvertibleTensorProto)
        assert value.initialized is False
        assert str(value).startswith("Uninitialized tensor")
    assert not isinstance(np.zeros(2), tfdbg_cli.InconvertibleTensorProto)
    assert not isinstance("text", tfdbg_cli.InconvertibleTensorProto)
    # What the original has read can be written here.
    write_dump_directory(_holding(other), tmp_path / "again")
    (again,) = DebugDumpDir(tmp_path / "again").data()
    assert "Uninitialized tensor" in str(again.get_tensor())


def _holding(value):
    from tfdbg_cli.dumps.graph import Graph
    from tfdbg_cli.dumps.memory import MemoryDump

    dump = MemoryDump(Graph([]))
    dump.add("uninit", 0, value)
    return dump
