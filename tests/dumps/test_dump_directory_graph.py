"""The graph of a dump directory: what is in it, and the walks over it."""

import pytest
from directory_kit import CPU0, CPU1, watched
from dump_samples import START

from tfdbg_cli.dumps.proto.graph_def import NodeDef
from tfdbg_cli.dumps.tfdbg_dir.debug_dump_dir import WatchKeyDoesNotExistInDebugDumpDirError
from tfdbg_cli.dumps.tfdbg_dir.partition import has_ref_output


def send_and_receive(name, tensor):
    def attr(key, value):
        from tfdbg_cli.dumps.proto import wire

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


def test_what_carries_a_value_out_of_the_run_hides_no_other_node(maker):
    nodes = [
        NodeDef("a", "Const", device=CPU0),
        NodeDef("_retval_a", "_Retval", ["a"], CPU0),
        NodeDef("b", "Neg", ["a", "^_retval_a"], CPU0),
    ]
    maker.graph(nodes)
    graph = maker.open().graph()
    assert [*graph.nodes] == ["a", "b"]
    assert graph.node("b").control_inputs == ("a",)


def test_the_newest_graph_is_the_runs(maker):
    for op, number, later in (("Old", 2, 0), ("New", 1, 5)):
        path = maker.graph([NodeDef("a", op, device=CPU0)], number=number)
        path.rename(path.with_name(f"_tfdbg_graph_hash{number}_{START + later}"))
    assert maker.open().graph().node("a").op_type == "New"


def test_what_other_executors_of_a_run_have_done_is_there_once(maker):
    first = [NodeDef("a", "Old"), NodeDef("b", "Neg", ["a"])]
    for number, nodes in ((1, first), (2, [NodeDef("a", "Const"), NodeDef("c", "Neg", ["a"])])):
        maker.graph(nodes, number=number)
    dump = maker.open()
    assert dump.nodes() == ["a", "c", "b"] and dump.node_op_type("a", CPU0) == "Const"
    assert dump.graph().node("b").inputs == ("a:0",)


def test_a_graph_that_is_damaged_leaves_the_others(maker):
    maker.graph([NodeDef("a", "Const", device=CPU0)], number=1)
    for number in (2, 3):
        path = maker.graph([NodeDef("b", "Const", device=CPU0)], number=number)
        path.write_bytes(path.read_bytes()[:-3])
    dump = maker.open()
    assert dump.nodes() == ["a"]
    assert [line.partition(" is damaged")[0][-18:] for line in dump.warnings] == [
        f"hash{number}_{START}"[-18:] for number in (3, 2)
    ]


def test_who_reads_a_node_and_who_waits_for_it(maker):
    nodes = [NodeDef("a", "Const", device=CPU0), NodeDef("reads", "Neg", ["a"], CPU0)]
    maker.graph([*nodes, NodeDef("waits", "NoOp", ["^a"], CPU0)])
    dump = maker.open()
    assert dump.node_recipients("a") == ["reads"]
    assert dump.node_recipients("a", is_control=True) == ["waits"]
    assert dump.node_inputs("waits", is_control=True) == ["a"]


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
    with pytest.raises(ValueError, match="Invalid device name"):
        dump.node_op_type("v", "/gpu:0")
    with pytest.raises(ValueError, match="None of the 1 device"):
        dump.node_op_type("only", CPU1)
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
    assert (names(1), names(2)) == (["a1"], ["a1", "a2"])
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


def test_several_edges_between_two_devices_are_told_apart(maker):
    first, to_first = send_and_receive("edge_1_a", "a")
    second, to_second = send_and_receive("edge_2_c", "c")
    maker.graph([*watched(NodeDef("a", "Const"), NodeDef("c", "Const")), first, second])
    maker.graph([to_first, to_second, NodeDef("b", "Sub", ["c/_1", "a/_1"], CPU1)], CPU1)
    for at, name in enumerate("ac"):
        maker.tensor(name, 1.0, time=START + at)
    maker.tensor("b", 0.0, device=CPU1, time=START + 2)
    graph = maker.open().graph()
    assert graph.node("b").inputs == ("c:0", "a:0")
    assert [edge.node for edge in graph.recipients("a", control=False)] == ["b"]


def test_whether_there_are_graphs_is_told(maker):
    maker.tensor("a", 1.0)
    assert maker.open(validate=False).loaded_partition_graphs() is False
    maker.graph(watched(NodeDef("a", "Const")))
    assert maker.open().loaded_partition_graphs() is True
    dump = maker.open()
    assert dump.node_attributes("a") == {}


def test_a_feed_that_was_dumped_several_times_is_numbered(maker):
    maker.graph([NodeDef("_arg_x_0_0", "_Arg"), NodeDef("y", "Neg", ["_arg_x_0_0"])])
    for at in range(3):
        maker.tensor("_arg_x_0_0", float(at), time=START + at)
    found = maker.open().by_tensor("x:0")
    assert [datum.execution for datum in found] == [0, 1, 2]
    assert [float(datum.get_tensor()) for datum in found] == [0.0, 1.0, 2.0]


@pytest.mark.parametrize(
    ("sent", "waits", "source"),
    [
        ("a/ctrl/_2", ["^a"], "a"),
        ("a/_2", ["^a"], "a"),
        ("other/ctrl/_2", ["^a"], "a"),
        ("_retval_a", ["^a"], "b/_5"),  # a value: no constant that only waits
        ("c/_2", ["^a"], "b/_5"),
        ("a/_2", ["^a", "^c"], "b/_5"),
        ("a/_2", [], "b/_5"),
    ],
)
def test_what_waits_for_a_node_of_another_device_waits_for_that(maker, sent, waits, source):
    send, receive = send_and_receive("edge", sent)
    send.input[:] = [sent]
    lost = NodeDef("lost", "_Send", [], CPU0)
    nodes = [NodeDef("a", "Const"), NodeDef("c", "Const"), NodeDef(sent, "Const", waits)]
    maker.graph([*nodes, lost, send])
    through = NodeDef("b/_5", "Identity", [receive.name], CPU1)
    maker.graph([receive, through, NodeDef("b", "NoOp", ["^b/_5"], CPU1)], CPU1)
    assert maker.open().graph().node("b").control_inputs == (source,)


@pytest.mark.parametrize(
    ("op", "has_one"),
    [
        ("VariableV2", True),
        ("ApplyAdam", True),
        ("SparseApplyFtrl", True),
        ("ScatterNdAdd", True),
        ("ScatterNd", False),
        ("ScatterNdNonAliasingAdd", False),
        ("ResourceApplyAdam", False),
        ("MatMul", False),
    ],
)
def test_which_ops_hand_out_references(op, has_one):
    assert has_ref_output(op) is has_one


def test_a_walk_goes_on_behind_what_it_knows(maker):
    nodes = [
        NodeDef("src", "Const"),
        NodeDef("merge", "Merge", ["src"]),
        NodeDef("far", "Neg", ["src"]),
        NodeDef("sum", "AddN", ["merge", "merge:1", "far"]),
        NodeDef("first", "AddN", ["far", "merge"]),
    ]
    maker.graph(nodes)
    dump = maker.open()
    assert dump.transitive_inputs("merge") == []
    assert dump.transitive_inputs("first") == ["far", "src", "merge"]
    assert dump.find_some_path("src", "sum") == ["src", "far", "sum"]
    assert dump.transitive_inputs("sum") == ["merge", "far", "src"]


def test_copies_that_the_graph_does_not_have_are_told_by_their_names(maker):
    names = ["__copy_a_0", "__copy_a_b_1", "__copy_odd", "__copy_a_x", "__copy__1", "^a"]
    maker.graph([NodeDef("a", "Const"), NodeDef("b", "Pack", names)])
    assert maker.open().node_inputs("b") == ["a", "a_b:1", *names[2:5]]


def test_a_value_that_can_not_be_read_is_told_to_who_asks(maker):
    maker.tensor("a", 1.0)
    path = maker.tensor("cut", 2.0, time=START + 1)
    path.write_bytes(path.read_bytes()[:-3])
    dump, told = maker.open(), []
    (found,) = dump.find(lambda datum, value: True, on_error=lambda *each: told.append(each))
    assert found.node_name == "a"
    ((datum, error),) = told
    assert datum.node_name == "cut" and "cut_0_DebugIdentity" in error.message
    assert [each.node_name for each in dump.watch_key_to_data("a:0:DebugIdentity")] == ["a"]
    assert dump.watch_key_to_data("b:0:DebugIdentity") == []
