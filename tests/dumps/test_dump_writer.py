import subprocess
import sys
import textwrap
import time

import ml_dtypes
import numpy as np
import pytest
from dump_samples import ROOT, START, make_dump, same

from tfdbg_cli.common.errors import UserError
from tfdbg_cli.dumps.dump import Datum, RunInfo
from tfdbg_cli.dumps.graph import Graph, Node
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.dumps.tfdbg_dir.debug_dump_dir import DebugDumpDir
from tfdbg_cli.dumps.tfdbg_dir.writer import DEFAULT_DEVICE, write_dump_directory


def test_a_dump_is_the_same_again(dump, tmp_path):
    assert write_dump_directory(dump, tmp_path / "d") == []
    found = DebugDumpDir(tmp_path / "d", validate=True)
    graph = found.graph()
    mine = [d for d in found.data() if d.node_name != "flag"]
    assert [d.watch_key for d in mine] == [d.watch_key for d in dump.data()]
    for new, old in zip(mine, dump.data(), strict=True):
        left, right = new.get_tensor(), old.get_tensor()
        assert same(left, right) or str(right) in str(left)
        assert (new.device_name, new.execution) == (old.device_name, old.execution)
    assert set(graph.nodes) >= set(dump.graph().nodes)
    for name, node in dump.graph().nodes.items():
        other = graph.node(name)
        assert (other.op_type, other.inputs) == (node.op_type, node.inputs)
        assert dict(other.attributes) == dict(node.attributes)
    info = found.run_info()
    assert (info.call_count, info.fetches) == (3, ["h/Relu:0", "train"])
    assert found.core_metadata[:3] == (-1, 3, 0)
    assert found.run_fetches_info == "['h/Relu:0', 'train']"
    assert found.run_feed_keys_info == "dict_keys(['x:0', 'flag:0', 'odd:0'])"
    next((tmp_path / "d").glob("_tfdbg_core_metadata_*")).unlink()
    told = DebugDumpDir(tmp_path / "d").run_info()
    assert (told.fetches, [*told.feeds]) == (["h/Relu:0", "train"], ["x:0", "flag:0", "odd:0"])
    assert info.feeds["flag:0"].tolist() is True
    assert list(info.feeds) == ["x:0", "flag:0", "odd:0"]
    assert "no value" in str(info.feeds["odd:0"])
    assert found.warnings == []


def test_a_copy_of_a_copy_is_the_same(dump, tmp_path):
    write_dump_directory(dump, tmp_path / "one")
    one = DebugDumpDir(tmp_path / "one")
    write_dump_directory(one, tmp_path / "two")
    two = DebugDumpDir(tmp_path / "two")
    for left, right in zip(one.data(), two.data(), strict=True):
        assert left.watch_key == right.watch_key
        assert same(left.get_tensor(), right.get_tensor())


def test_times_increase_in_the_order_of_the_dump(dump, tmp_path):
    write_dump_directory(dump, tmp_path / "d")
    times = [datum.timestamp for datum in DebugDumpDir(tmp_path / "d").data()]
    assert times == sorted(set(times))
    assert START in times


def test_feeds_that_were_not_dumped_are_written_with_their_slots(tmp_path):
    feeds = {"x": 1.5, "y:1": 2.5, "z:0": 3.5}
    dump = MemoryDump(run_info=RunInfo(1, feeds=feeds))
    dump.add("z", 0, np.array(3.5), timestamp=START)
    write_dump_directory(dump, tmp_path / "d")
    found = DebugDumpDir(tmp_path / "d")
    names = ["_arg_x_0_0", "_arg_y_1_1", "z"]
    assert sorted(datum.node_name for datum in found.dumped_tensor_data) == names
    assert sorted(datum.tensor_name for datum in found.data()) == ["x:0", "y:1", "z:0"]
    assert {name: float(value) for name, value in found.run_info().feeds.items()} == feeds


@pytest.mark.parametrize("start", [0, 10**14, 10**16])
def test_a_clock_of_another_kind_becomes_one_that_sorts(start, tmp_path):
    dump = MemoryDump()
    for number in range(12):
        dump.add("x", 0, np.array(number), timestamp=start + number * 3)
    before = time.time_ns() // 1000
    write_dump_directory(dump, tmp_path / "d")
    data = DebugDumpDir(tmp_path / "d").data()
    assert [int(datum.get_tensor()) for datum in data] == list(range(12))
    assert all(len(str(datum.timestamp)) == 16 for datum in data)
    assert data[1].timestamp - data[0].timestamp == 3
    assert before <= data[0].timestamp <= time.time_ns() // 1000
    assert data[0].device_name == DEFAULT_DEVICE


def test_inputs_come_before_outputs(tmp_path):
    nodes = [Node("a", "Const"), Node("b", "Neg", ["a:1", "hidden:0"]), Node("c", "Neg", ["b:0"])]
    graph = Graph([*nodes, Node("hidden", "Const")])
    dump = MemoryDump(graph)
    for name, slot, at in (("c", 0, 0), ("b", 0, 1), ("a", 0, 2), ("a", 1, 50)):
        dump.add(name, slot, np.array(slot), timestamp=START + at)
    write_dump_directory(dump, tmp_path / "d")
    found = DebugDumpDir(tmp_path / "d")
    found.graph()
    assert [datum.tensor_name for datum in found.data()] == ["a:0", "a:1", "b:0", "c:0"]
    assert found.warnings == []


@pytest.mark.parametrize(
    "name",
    ["../../etc/x", "/abs", "a//b", "aten::mm", "%41", "x" * 400, "a/./b", "^c", ".d", "ü_1_2"],
)
def test_any_name_stays_below_the_folder(name, tmp_path):
    dump = MemoryDump(Graph([Node(name, "Op"), Node("next", "Op", [f"{name}:0"])]))
    dump.add(name, 0, np.array(5), timestamp=START)
    assert write_dump_directory(dump, tmp_path / "d" / "e") == []
    assert [path.name for path in tmp_path.iterdir()] == ["d"]
    assert [path.name for path in (tmp_path / "d").iterdir()] == ["e"]
    found = DebugDumpDir(tmp_path / "d" / "e")
    (datum,) = found.data()
    assert datum.get_tensor() == 5
    if len(name) < 100:
        assert datum.node_name == name.replace("//", "/").removeprefix("/")
    found.graph()
    assert found.warnings == []


def test_what_cannot_be_stored_is_named(tmp_path):
    dump = MemoryDump()
    dump.add("bad", 0, np.array([object()]))
    dump.add("good", 0, np.array(1))
    (problem,) = write_dump_directory(dump, tmp_path / "d")
    assert "bad:0" in problem
    assert [datum.node_name for datum in DebugDumpDir(tmp_path / "d").data()] == ["good"]


def test_nothing_is_overwritten(dump, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="is not empty"):
        write_dump_directory(dump, tmp_path)
    with pytest.raises(UserError, match="is a file"):
        write_dump_directory(dump, tmp_path / "file")
    with pytest.raises(UserError, match=r"Can't write .*file/sub"):
        write_dump_directory(dump, tmp_path / "file" / "sub")


def test_a_value_is_asked_for_only_when_it_is_written(tmp_path):
    asked = []
    dump = MemoryDump(run_info=RunInfo())

    def load(name):
        return lambda: asked.append(name) or np.array(1.0)

    for name in ("a", "b"):
        dump.add_datum(Datum(name, 0, load(name), timestamp=START))
    dump.data()
    assert asked == []
    write_dump_directory(dump, tmp_path / "d")
    assert set(asked) == {"a", "b"}


FULL_DISK = """
    import resource, signal, sys
    sys.path.insert(0, sys.argv[3])
    import numpy as np
    from tfdbg_cli.dumps.memory import MemoryDump
    from tfdbg_cli.dumps.run_folder.dump import write_run_folder
    from tfdbg_cli.dumps.tfdbg_dir.writer import write_dump_directory
    from tfdbg_cli.common.errors import UserError

    dump = MemoryDump()
    dump.add("small", 0, np.array(1.0))
    dump.add("large", 0, np.zeros(1 << 18))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
    write = {"directory": write_dump_directory, "folder": write_run_folder}[sys.argv[1]]
    try:
        write(dump, sys.argv[2])
    except UserError as error:
        print(error)
"""


@pytest.mark.parametrize(("kind", "name"), [("directory", "large_0"), ("folder", "tensors-00000")])
def test_a_file_that_cannot_grow_is_named_and_not_left_behind(kind, name, tmp_path):
    command = [sys.executable, "-c", textwrap.dedent(FULL_DISK), kind, tmp_path / "d", ROOT]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert name in done.stdout and "File too large" in done.stdout
    left = [path.name for path in (tmp_path / "d").rglob("*") if path.is_file()]
    assert not any(name in each or each.startswith(".tmp") for each in left)


@pytest.mark.tensorflow
def test_tensorflow_opens_what_is_written(tmp_path):
    debug_data = pytest.importorskip("tensorflow.python.debug.lib.debug_data")
    from tensorflow.python.framework import dtypes

    dump = make_dump()
    for number, dtype in enumerate(
        [
            *("float16", "uint8", "int8", "uint16", "uint32", "uint64", "bool", "complex64"),
            *(ml_dtypes.bfloat16, ml_dtypes.float8_e5m2, ml_dtypes.float8_e4m3fn),
            # TensorFlow 2.12 can't read it.
            *([ml_dtypes.int4] if hasattr(dtypes, "int4") else []),
        ]
    ):
        dump.add(f"types/t{number}", 0, np.arange(3).astype(dtype), timestamp=START + 20 + number)
    dump.add("types/e8m0", 0, np.array([2, 4], ml_dtypes.float8_e8m0fnu), timestamp=START + 50)
    write_dump_directory(dump, tmp_path / "d")
    theirs = debug_data.DebugDumpDir(str(tmp_path / "d"), validate=True)
    ours = DebugDumpDir(tmp_path / "d")
    assert theirs.size == ours.size == len(dump.data()) + 1
    assert set(theirs.nodes()) == set(ours.nodes())
    for mine, old in zip(theirs.dumped_tensor_data, ours.dumped_tensor_data, strict=True):
        assert mine.watch_key == old.watch_key
        value = mine.get_tensor()
        assert same(value, old.get_tensor()) or "a queue" in str(value)
    for datum in dump.data():
        found = theirs.get_tensors(
            datum.node_name,
            datum.output_slot,
            datum.debug_op,
            device_name=datum.device_name or None,
        )
        value = datum.get_tensor()
        if isinstance(value, np.ndarray) and value.dtype.name != "float8_e8m0fnu":
            assert same(found[datum.execution], value)
    assert theirs.core_metadata.session_run_index == 3
    assert theirs.run_fetches_info == "['h/Relu:0', 'train']"
    assert theirs.find(debug_data.has_inf_or_nan)[0].node_name == "h/MatMul"


def test_a_merge_follows_the_first_of_its_inputs_and_others_the_last(tmp_path):
    nodes = [
        Node("first", "Const"),
        Node("merge", "Merge", ["first:0", "second:0"]),
        Node("second", "Neg"),
        Node("sum", "Add", ["first:0", "second:0"]),
    ]
    dump = MemoryDump(Graph(nodes), run_info=RunInfo(1))
    for at, name in enumerate(["first", "merge", "sum", "second"]):
        dump.add(name, 0, np.array(at), timestamp=START + 10 * at)
    write_dump_directory(dump, tmp_path / "d")
    found = DebugDumpDir(tmp_path / "d", validate=True)
    found.graph()
    assert [datum.node_name for datum in found.data()] == ["first", "merge", "second", "sum"]
    times = {datum.node_name: datum.timestamp for datum in found.data()}
    assert times["merge"] == START + 10
    assert times["sum"] == times["second"] + 1
    assert found.warnings == []
