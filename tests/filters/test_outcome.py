"""What is bad and comes to nothing stops nobody; what gets somewhere does."""

import numpy as np
import pytest
from filter_kit import INF, NAN, Op, dump_of, passing

from tfdbg_cli.commands.graph.verdict import verdict
from tfdbg_cli.dumps.dump import RunError, RunInfo
from tfdbg_cli.dumps.run_folder.dump import RunFolderDump
from tfdbg_cli.dumps.run_folder.writer import write_run_folder
from tfdbg_cli.engines import numpy as tf
from tfdbg_cli.engines.base import Watch
from tfdbg_cli.engines.numpy.debugging import ENGINE
from tfdbg_cli.filters.origins import began_here, left_out, origin_of_nonfinite, stayed_local

DROPPED = [
    Op("x", "Input", (), [0.0, 1.0]),
    Op("log", "log", ["x"], [-INF, 0.0]),
    Op("mul", "mul", ["log"], [-INF, 0.0]),
    Op("where", "where", ["c", "mul", "x"], [0.0, 0.0]),
    Op("out", "sum", ["where"], 0.0),
]
IN_MEMORY = [
    Op("memory", "Input", (), [NAN, NAN, NAN]),
    Op("div", "div", ["x"], [INF]),
    Op("memory_written", "written", ["memory", "div"], [INF, NAN, NAN]),
    Op("first", "index", ["memory_written"], [1.0]),
]


def of(ops, **info):
    dump = dump_of(*ops)
    dump.set_run_info(RunInfo(**info))
    return dump


def test_what_no_end_of_the_run_takes_over_stays_local():
    dump = of(DROPPED)
    assert passing(dump, origin_of_nonfinite) == []
    (log,) = dump.by_node("log")
    assert began_here(dump, log) and stayed_local(dump, [log])
    assert left_out(dump) == [log]


OVERFLOWN = [Op("x", "Input", (), [3e30, 1.0]), Op("square", "mul", ["x", "x"], [INF, 1.0])]


@pytest.mark.parametrize(
    ("reader", "by"),
    [
        (Op("out", "div", ["x", "square"], [0.0, 1.0]), "it gives 0"),
        (Op("out", "tanh", ["square"], [1.0, 0.76]), "it gives 1 or -1"),
        (Op("out", "clamp", ["square"], [9.0, 1.0]), "it gives its limit"),
        (Op("out", "where", ["c", "x", "square"], [3e30, 1.0]), "it gives what it takes instead"),
        (Op("out", "softmax", ["square"], [0.0, 1.0]), None),
        (Op("out", "exp", ["square"], [0.0, 1.0]), None),
        (Op("out", "argmin", ["square"], [1.0]), "its output shows nothing of it"),
        (Op("out", "gt", ["square", "x"], [0.0, 1.0]), "its output shows nothing of it"),
        (Op("out", "isfinite", ["square"], [0.0, 1.0]), None),
        (Op("out", "zeros_like", ["square"], [0.0, 0.0]), None),
        (Op("out", "shape_of", ["square"], [2.0]), None),
    ],
)
@pytest.mark.parametrize("is_sparse", [False, True])
def test_an_overflow_that_is_absorbed_is_an_origin(reader, by, is_sparse):
    handed_on = Op("root", "sqrt", ["square"], [INF, 1.0])
    ops = [*OVERFLOWN, handed_on, reader]
    if is_sparse:
        ops = [Op(op.name, op.op_type, op.inputs) if op.name in "x out" else op for op in ops]
    dump = of(ops, results={"out:0": True})
    dump.lists_only_bad = is_sparse
    assert passing(dump, origin_of_nonfinite) == (["square"] if by else [])
    (square,) = dump.by_node("square")
    assert stayed_local(dump, [square]) is (by is None)
    text = "\n".join(each.text for each in verdict(dump, square))
    assert (f"Then:  absorbed by [{reader.op_type}] out: {by}" in text) is (by is not None)


@pytest.mark.parametrize(
    ("op", "is_origin"),
    [
        (Op("bad", "div", ["one", "x"], [INF, 1.0]), False),  # a pole, which where() avoids
        (Op("bad", "div", ["one", "tiny"], [INF, 1.0]), True),
        (Op("bad", "pow", ["x"], [INF, 1.0], exponent=-1), False),
        (Op("bad", "exp", ["large"], [INF, 1.0]), False),
        (Op("bad", "_to_copy", ["large"], [INF, 1.0]), True),
    ],
)
def test_a_pole_that_is_left_out_is_none(op, is_origin):
    given = [
        Op("x", "Input", (), [0.0, 1.0]),
        Op("one", "Input", (), [1.0, 1.0]),
        Op("tiny", "Input", (), [1e-39, 1.0]),
        Op("large", "Input", (), [1e5, 1.0]),
    ]
    dump = of(
        [*given, op, Op("out", "where", ["c", "bad", "x"], [0.0, 1.0])], results={"out:0": True}
    )
    assert passing(dump, origin_of_nonfinite) == (["bad"] if is_origin else [])


def test_where_the_infinities_of_a_nan_came_in_is_told():
    ops = [
        Op("x", "Input", (), [0.0, 1.0]),
        Op("mask", "masked_fill", ["x"], [-INF, 1.0], value="-inf"),
        Op("copy", "clone", ["mask"], [-INF, 1.0]),
        Op("out", "sub", ["copy", "copy"], [NAN, 0.0]),
    ]
    dump = of(ops, results={"out:0": True})
    assert passing(dump, origin_of_nonfinite) == ["out"]
    (out,) = dump.by_node("out")
    text = "\n".join(each.text for each in verdict(dump, out))
    assert "Its infinities came in at [masked_fill] mask:0" in text


def test_where_there_is_no_graph_all_that_is_bad_is_an_end():
    dump = dump_of(Op("div", "div", ["x"], [NAN]), *DROPPED[3:], graph=False)
    (div,) = dump.by_node("div")
    assert began_here(dump, div) and not stayed_local(dump, [div])
    assert left_out(dump) == []


def test_what_is_fetched_is_an_end_though_others_read_it():
    dump = of([*DROPPED[:2], Op("out", "where", ["c", "log", "x"], [0.0, 1.0])], fetches=["log:0"])
    (log,) = dump.by_node("log")
    assert not stayed_local(dump, [log])


@pytest.mark.parametrize(
    ("info", "expected"),
    [
        ({"fetches": ["out:0"]}, []),
        ({"fetches": ["mul:0", "out:0"]}, ["log"]),
        ({"fetches": ["mul"]}, ["log"]),
        ({"results": {"out:0": True}}, []),
        ({"results": {"out:0": True, "x:0": False}}, []),
        ({"results": {"mul:0": True}}, ["log"]),
        ({"results": {"log:0": True}}, ["log"]),
        # The program still has it, but what has read it didn't take it over.
        ({"results": {"mul:0": False}}, []),
    ],
)
def test_the_ends_of_a_run(info, expected):
    assert passing(of(DROPPED, **info), origin_of_nonfinite) == expected


def test_a_nan_that_the_program_keeps_counts_whoever_has_read_it():
    ops = [*DROPPED[:2], Op("mul", "mul", ["log"], [NAN, 0.0]), *DROPPED[3:]]
    assert passing(of(ops, results={"mul:0": False}), origin_of_nonfinite) == ["log"]


def test_memory_counts_as_far_as_it_went_bad_in_the_run():
    kept = {"results": {"memory_written:0": False, "first:0": True}}
    assert passing(of(IN_MEMORY, **kept), origin_of_nonfinite) == []
    ops = [Op("memory", "Input", (), [1.0, NAN, NAN]), *IN_MEMORY[1:]]
    assert passing(of(ops, **kept), origin_of_nonfinite) == ["div"]
    ops[-1] = Op("last", "index", ["memory_written"], [NAN])
    kept["results"]["last:0"] = True
    assert passing(of(ops, **kept), origin_of_nonfinite) == ["memory", "div"]


def test_what_was_written_over_what_was_bad_got_somewhere():
    ops = [Op("memory", "Input", (), [1.0, NAN, NAN]), *IN_MEMORY[1:]]
    dump = of(ops, results={"memory_written:0": False, "first:0": True})
    (written,) = dump.by_node("memory_written")
    assert not stayed_local(dump, [written])


def test_a_number_that_goes_to_python():
    ops = [*DROPPED, Op("item", "_local_scalar_dense", ["mul"])]
    assert passing(of(ops, results={"out:0": True}), origin_of_nonfinite) == []
    ops[-1].attributes["_result"] = "-inf"
    assert passing(of(ops, results={"out:0": True}), origin_of_nonfinite) == ["log"]


def test_what_a_run_that_failed_made_last_is_an_end():
    made = {"results": {"out:0": True}}
    assert passing(of(DROPPED[:2], **made), origin_of_nonfinite) == []
    made["error"] = RunError("RuntimeError", "returned nan values")
    assert passing(of(DROPPED[:2], **made), origin_of_nonfinite) == ["log"]
    assert passing(of(DROPPED, **made), origin_of_nonfinite) == []


@pytest.mark.parametrize("shape", [[], [2]])
def test_a_number_in_a_condition(shape):
    ops = [*DROPPED, Op("ne", "ne", ["mul"]), Op("item", "_local_scalar_dense", ["ne"])]
    ops[-2].attributes |= {"T": "bool", "_output_shapes": f"[{shape}]"}
    ops[-1].attributes["_result"] = "False"
    found = passing(of(ops, results={"out:0": True}), origin_of_nonfinite)
    assert found == ([] if shape else ["log"])


def test_a_node_that_gives_no_tensor_is_an_end_of_the_runs_that_did_it():
    ops = [*DROPPED, Op("train", "NoOp", ["log"])]
    assert passing(of(ops, fetches=["train", "out:0"]), origin_of_nonfinite) == ["log"]
    assert passing(of(ops, fetches=["out:0"]), origin_of_nonfinite) == []


@pytest.mark.parametrize(("out", "expected"), [(0.0, []), (-INF, ["log"])])
def test_what_a_body_hands_on_is_no_end(out, expected):
    ops = [*DROPPED[:2], Op("call", "Call", ["x"], returns=[["log:0"]]), Op("out", "sum", ["call"])]
    ops[-1].value = np.float32(out)
    assert passing(of(ops), origin_of_nonfinite) == expected


def test_whoever_waits_for_a_tensor_has_not_read_it():
    ops = [*DROPPED[:2], Op("later", "add", ["x"], [0.0, 2.0], waits=["log"])]
    assert passing(of(ops), origin_of_nonfinite) == ["log"]


@pytest.mark.parametrize("results", [None, {"where:0": True}])
def test_a_where_that_took_the_other_one(results):
    ops = [
        *DROPPED[:2],
        Op("mask", "full", (), [1.0, -INF], fill_value="-inf"),
        Op("where", "where", ["c", "log", "mask"], [0.0, -INF]),
    ]
    assert passing(of(ops, results=results), origin_of_nonfinite) == []
    ops[-1] = Op("where", "where", ["c", "log", "mask"], [-INF, -INF])
    assert passing(of(ops, results=results), origin_of_nonfinite) == ["log"]


@pytest.mark.parametrize(
    ("where", "kind", "expected"),
    [
        ([NAN, 0.0], np.float32, ["mask"]),
        # Where it can't be told which one was taken, either may have been.
        ([NAN, 0.0], np.complex64, ["log", "mask"]),
        ([NAN, 0.0, 0.0], np.float32, ["log", "mask"]),
    ],
)
def test_a_where_that_took_another_one_that_was_bad(where, kind, expected):
    ops = [
        Op("x", "Input", (), [1.0, -1.0]),
        Op("log", "log", ["x"], [0.0, NAN]),
        Op("mask", "Input", (), [NAN, 0.0]),
        Op("where", "where", ["c", "mask", "log"], where, kind),
    ]
    assert passing(of(ops, results={"where:0": True}), origin_of_nonfinite) == expected


def test_who_reads_a_view_reads_what_it_is_of():
    view = Op("view", "view", ["log"])
    view.attributes["_view"] = "true"
    where = Op("where", "where", ["c", "view", "x"], [0.0, 0.0])
    assert passing(of([*DROPPED[:2], view, where]), origin_of_nonfinite) == []


@pytest.mark.parametrize("only_bad", [False, True])
def test_an_end_that_was_not_dumped(only_bad):
    ops = [*DROPPED[:2], Op("mul", "mul", ["log"]), Op("view", "view", ["log"])]
    ops[-1].attributes["_view"] = "true"
    for name, expected in (("mul:0", [] if only_bad else ["log"]), ("view:0", ["log"])):
        dump = of(ops, results={name: True})
        dump.lists_only_bad = only_bad  # else it was clean
        assert passing(dump, origin_of_nonfinite) == expected


def test_what_the_program_keeps_of_too_many_to_be_kept():
    dump = of([*DROPPED[:2], Op("mul", "mul", ["log"])], results={"mul:0": False})
    dump.suspects = frozenset(["log:0", "mul:0"])
    assert passing(dump, origin_of_nonfinite) == ["log"]


@pytest.mark.parametrize(
    ("writes", "before", "expected"),
    [
        ("other:0, memory:0", [0.0], ["other"]),
        ("other:0, memory:0", [NAN], []),
        ("memory:0", [0.0], ["other"]),
        ("memory:0", [NAN], []),
    ],
)
def test_an_op_that_writes_to_several_tensors(writes, before, expected):
    ops = [
        Op("memory", "empty", (), before),
        Op("other", "Input", (), [NAN]),
        Op("swap_", "swap_", ["other", "memory"]),
    ]
    ops[-1].attributes["_writes"] = writes
    dump = of(ops, results={"swap_:1": False})
    dump.add("swap_", 1, np.float32([NAN]), timestamp=3)
    assert passing(dump, origin_of_nonfinite) == expected


def test_memory_that_was_written_to_twice():
    ops = [
        *IN_MEMORY[:2],
        Op("once", "written", ["memory", "div"]),
        Op("twice", "written", ["once", "div"], [NAN, NAN, NAN]),
    ]
    kept = {"twice:0": False}
    assert passing(of(ops, results=kept), origin_of_nonfinite) == []
    ops[0] = Op("memory", "Input", (), [1.0, NAN, NAN])
    assert passing(of(ops, results=kept), origin_of_nonfinite) == ["div"]


def test_a_buffer_is_no_origin_but_what_comes_out_of_it():
    ops = [
        Op("least", "Buffer", (), INF),
        Op("x", "Input", (), [1.0]),
        Op("minimum", "minimum", ["least", "x"], [1.0]),
    ]
    assert passing(of(ops), origin_of_nonfinite) == []
    ops[-1] = Op("sub", "sub", ["x", "least"], [-INF])
    assert passing(of(ops), origin_of_nonfinite) == ["sub"]


@pytest.mark.parametrize("is_end_bad", [False, True])
def test_only_bad_tensors_that_were_too_many_to_be_kept(is_end_bad):
    ops = [*DROPPED[:2], Op("mul", "mul", ["log"]), Op("out", "sum", ["mul"])]
    dump = of(ops, results={"out:0": True})
    dump.lists_only_bad = True
    dump.suspects = frozenset(["log:0", "mul:0", *(["out:0"] if is_end_bad else [])])
    assert passing(dump, origin_of_nonfinite) == (["log"] if is_end_bad else [])


def test_clean_tensors_are_not_read_for_it():
    dump = of(DROPPED, results={"out:0": True, "where:0": True})
    dump.suspects = frozenset(["log:0", "mul:0"])
    (log,) = dump.by_node("log")
    assert not origin_of_nonfinite(log, log.get_tensor(), dump)
    assert "out" not in dump.reads and "where" not in dump.reads


def test_it_is_the_same_in_a_run_folder(tmp_path):
    for name, results in {"local": {"out:0": True}, "kept": {"mul:0": True}}.items():
        dump = of(DROPPED, results=results)
        write_run_folder(dump, tmp_path / name)
        again = RunFolderDump(tmp_path / name)
        assert again.run_info().results == results
        assert passing(again, origin_of_nonfinite) == passing(dump, origin_of_nonfinite)


@pytest.mark.parametrize("ends", [["out"], ["log"], ["state"]])
def test_numpy(ends):
    with tf.Graph().as_default():
        x = tf.constant(np.float32([0, 2]), name="x")
        log = tf.log(x, name="log")
        out = tf.where(tf.greater(x, 1.0), log, x, name="out")
        state = tf.Variable(np.float32([1, 1]), name="v")
        fetches = {"out": out, "log": [log, out], "state": [tf.assign(state, log), out]}[ends[0]]
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            adapter = ENGINE.adapt(session)
            dump = adapter.debug_run(fetches, None, None, None, Watch()).dump
            dump.set_run_info(RunInfo(fetches=adapter.fetch_names(fetches)))
    found = [datum.node_name for datum in dump.find(origin_of_nonfinite)]
    assert found == ([] if ends == ["out"] else ["log"])


def test_memory_that_a_write_before_the_last_one_made_bad():
    ops = [
        Op("x", "Input", (), [-1.0]),
        Op("log", "log", ["x"], [NAN]),
        Op("memory", "add", ["x"], [0.0]),
        Op("sub_", "sub_", ["memory", "log"], [NAN]),
        Op("abs_", "abs_", ["sub_"], [NAN]),
    ]
    ops[-2].attributes["_writes"] = "memory:0"
    ops[-1].attributes["_writes"] = "sub_:0"
    assert passing(of(ops, results={"abs_:0": False}), origin_of_nonfinite) == ["log"]
