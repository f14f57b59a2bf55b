"""Where nan and infinities began, and what was meant to be infinite."""

import gc
import weakref

import numpy as np
import pytest
from filter_kit import INF, NAN, Op, dump_of, passing

from tfdbg_cli.common.errors import DumpError
from tfdbg_cli.dumps.dump import Datum
from tfdbg_cli.engines import numpy as tf
from tfdbg_cli.engines.base import Watch
from tfdbg_cli.engines.numpy.debugging import ENGINE
from tfdbg_cli.filters.builtin import has_inf_or_nan
from tfdbg_cli.filters.origins import origin_of_nonfinite

HALF = np.float16
LOWEST, LOWEST_HALF = np.finfo(np.float32).min, np.finfo(np.float16).min


def x(value=(1.0, 2.0), kind=np.float32):
    return Op("x", "Input", (), value, kind)


#: What happened -> the ops of the run, and where it began.
BUGS = {
    # What multiplies, divides or is added everywhere is no mask, however it is written down.
    "an infinite number": ([x(), Op("add", "add", ["x"], [-INF, -INF], other="-inf")], ["add"]),
    "an infinite scale": (
        [
            x(),
            Op("k", "scalar_tensor", (), INF, s="inf"),
            Op("mul", "mul", ["x", "k"], [INF, -INF]),
        ],
        ["mul"],
    ),
    "a large number divided by 0": (
        [x([-2.5e9, 1.0]), Op("y", "Input", (), [0, 2]), Op("div", "div", ["x", "y"], [-INF, 0.5])],
        ["div"],
    ),
    "divergence to minus infinity": (
        [
            x(),
            Op("w", "Parameter", (), [[1]]),
            Op("mm", "mm", ["x", "w"], [-3e38, 1]),
            Op("add", "add", ["mm", "mm"], [-INF, 2]),
        ],
        ["add"],
    ),
    "nan of memory beside a mask": (
        [
            Op("mask", "masked_fill", ["x"], [0, -INF], value="-inf"),
            Op("cache", "Buffer", (), [1, NAN]),
            Op("attend", "_scaled_dot_product", ["mask", "cache"], [NAN, NAN]),
        ],
        ["attend"],
    ),
    "log of zero": (
        [x([0.0, 1.0]), Op("log", "log", ["x"], [-INF, 0]), Op("neg", "neg", ["log"], [INF, 0])],
        ["log"],
    ),
    "zero by zero": (
        [x([0.0]), Op("y", "Input", (), [0.0]), Op("div", "div", ["x", "y"], [NAN])],
        ["div"],
    ),
    "exp overflow": ([x([100.0]), Op("exp", "exp", ["x"], [INF])], ["exp"]),
    "matmul overflow in float16": (
        [
            x([[300.0]], HALF),
            Op("w", "Parameter", (), [[300.0]], HALF),
            Op("mm", "mm", ["x", "w"], [[INF]], HALF),
            Op("softmax", "_softmax", ["mm"], [[NAN]], HALF, dim=-1, half_to_float=False),
        ],
        ["mm"],
    ),
    "sqrt of a negative": ([x([-1.0]), Op("sqrt", "sqrt", ["x"], [NAN])], ["sqrt"]),
    "a bad batch": ([x([1.0, NAN]), Op("mul", "mul", ["x"], [2.0, NAN], other=2)], ["x"]),
    "an infinite batch": ([x([1.0, -INF]), Op("sum", "sum", ["x"], -INF)], ["x"]),
    "a bad parameter": (
        [Op("w", "Parameter", (), [NAN]), Op("t", "t", ["w"], [NAN])],
        ["w"],
    ),
    "in a function that a node calls": (
        [
            x([0.0, 1.0]),
            Op("f/log", "Log", ["x"], [-INF, 0.0]),
            Op("f", "StatefulPartitionedCall", ["x"]),
            Op("out", "Neg", ["f"], [INF, 0.0]),
        ],
        ["f/log"],
    ),
    "numbers of Python's": ([x(), Op("data", "lift_fresh", (), [NAN, 1.0])], ["data"]),
    "a weight of one number": ([x(), Op("scale", "Initializer", (), NAN)], ["scale"]),
    "two of them": (
        [
            x([0.0]),
            Op("log", "log", ["x"], [-INF]),
            Op("exp", "exp", ["y"], [INF]),
            Op("add", "add", ["log", "exp"], [NAN]),
        ],
        ["log", "exp"],
    ),
    "through views that were not dumped": (
        [
            x([[0.0, 1.0]]),
            Op("t", "t", ["x"]),
            Op("log", "log", ["t"], [[-INF], [0]]),
            Op("view", "view", ["log"]),
            Op("expand", "expand", ["view"]),
            Op("mul", "mul", ["expand"], [-INF, 0]),
        ],
        ["log"],
    ),
    "through a write to the memory of another tensor": (
        [
            x([1.0]),
            Op("select", "select", ["x"], [1.0]),
            Op("div_", "div_", ["select"], [INF], other=0),
            Op("x_written", "written", ["x", "div_"], [INF]),
            Op("add", "add", ["x_written"], [INF]),
        ],
        ["div_"],
    ),
    "a number that became nan": ([x([1.0]), Op("mul", "mul", ["x"], [NAN], other="nan")], ["mul"]),
    "zero times an infinite number": (
        [x([0.0]), Op("mul", "mul", ["x"], [NAN], other="inf")],
        ["mul"],
    ),
    "memory that was never written": (
        [
            Op("empty", "empty", (), [NAN]),
            x([1.0]),
            Op("add", "add", ["empty", "x"], [NAN]),
        ],
        ["add"],
    ),
    "a row that is masked as a whole": (
        [
            x([[1.0, 2.0]]),
            Op("mask", "masked_fill", ["x"], [[-INF, -INF]], value="-inf"),
            Op("softmax", "_softmax", ["mask"], [[NAN, NAN]]),
            Op("mm", "mm", ["softmax"], [[NAN]]),
        ],
        ["softmax"],
    ),
    "a masked row, the mask from outside": (
        [
            x([1.0]),
            Op("mask", "Buffer", (), [-INF]),
            Op("add", "add", ["x", "mask"], [-INF]),
            Op("softmax", "_softmax", ["add"], [NAN]),
        ],
        ["softmax"],
    ),
    "an overflow upwards beside a mask number": (
        [
            x([LOWEST_HALF, 60000], HALF),
            Op("mul", "mul", ["x"], [-INF, INF], HALF, other=2),
        ],
        ["mul"],
    ),
    "a large negative overflow is no mask": (
        [x([-70000.0]), Op("half", "_to_copy", ["x"], [-INF], HALF, dtype="torch.float16")],
        ["half"],
    ),
}

MASKS = {
    "full": [
        x(),
        Op("full", "full", (), [0, -INF], fill_value="-inf", size="[2]"),
        Op("triu", "triu", ["full"], [0, -INF]),
        Op("add", "add", ["x", "triu"], [1, -INF]),
        Op("softmax", "_softmax", ["add"], [1, 0]),
    ],
    "masked_fill": [x(), Op("masked", "masked_fill", ["x", "m"], [1, -INF], value="-inf")],
    "masked_fill with a tensor": [
        x(),
        Op("value", "lift_fresh", (), -INF),
        Op("masked", "masked_fill", ["x", "value"], [1, -INF]),
    ],
    "where": [
        x(),
        Op("value", "scalar_tensor", (), -INF, s="-inf"),
        Op("where", "where", ["x", "value"], [1, -INF]),
        Op("sub", "sub", ["where"], [0, -INF]),
    ],
    "the start of a maximum": [
        Op("best", "full", (), [-INF], fill_value="-inf"),
        x(),
        Op("max", "maximum", ["best", "x"], [1]),
    ],
    "plus infinity for a minimum": [Op("best", "lift_fresh", (), INF), x()],
    "one number of Python's that is nan": [Op("missing", "lift_fresh", (), NAN), x()],
    "a weight of one infinite number": [Op("limit", "Initializer", (), INF), x()],
    "a mask from outside": [
        x(),
        Op("mask", "Buffer", (), [[0, -INF], [0, 0]]),
        Op("add", "add", ["x", "mask"], [[1, -INF], [1, 2]]),
    ],
    "a mask with biases": [Op("alibi", "Input", (), [[-INF, -0.5], [-1, 0]])],
    "in a list": [x(), Op("f", "f", ["x"], [INF, 1], bounds="[0.0, inf]")],
    "added to a product of matrices": [
        Op("mask", "masked_fill", ["x"], [[0, -INF]], value="-inf"),
        Op("scores", "baddbmm", ["mask", "q", "k"], [[1, -INF]]),
    ],
    "finfo.min twice": [
        x([1.0, LOWEST]),
        Op("add", "add", ["x", "x"], [2.0, -INF]),
    ],
    "finfo.min and a score": [
        Op("mask", "mul", ["m"], [0, LOWEST_HALF], HALF, other=LOWEST_HALF),
        Op("scores", "mm", ["q"], [3, -40], HALF),
        Op("add", "add", ["scores", "mask"], [3, -INF], HALF),
    ],
    "finfo.min of a wider type": [
        x([0, LOWEST]),
        Op("half", "_to_copy", ["x"], [0, -INF], HALF, dtype="torch.float16"),
    ],
    "-1e9 in float16": [
        Op("m", "Input", (), [0, 1], HALF),
        Op("mul", "mul", ["m"], [0, -INF], HALF, other="-1000000000.0"),
    ],
    "-1e9 of a wider type": [x([0, -1e9]), Op("half", "_to_copy", ["x"], [0, -INF], HALF)],
    "memory that was written": [
        Op("empty", "empty_like", ["x"], [NAN, INF]),
        Op("fill_", "fill_", ["empty"], [1, 1], value=1),
    ],
    "memory that was written in part": [
        Op("empty", "empty_like", ["x"], [NAN, INF]),
        Op("select", "select", ["empty"], [NAN]),
        Op("fill_", "fill_", ["select"], [1], value=1),
        Op("empty_written", "written", ["empty", "fill_"], [1, INF]),
    ],
    "nan that was asked for": [
        Op("full", "full", (), [NAN, NAN], fill_value="nan"),
        Op("view", "view", ["full"], [NAN, NAN]),
    ],
    "TensorFlow's constants": [
        Op("c", "Const", (), [-INF, INF]),
        Op("x", "Placeholder", (), [1, 2]),
        Op("select", "SelectV2", ["m", "x", "c"], [1, INF]),
    ],
    "a constant that was not dumped": [
        x(),
        Op("c", "Const"),
        Op("fill", "Fill", ["d", "c"], [-INF, -INF]),
        Op("add", "AddV2", ["x", "fill"], [-INF, -INF]),
    ],
}


@pytest.mark.parametrize("name", BUGS)
def test_where_it_began(name):
    ops, expected = BUGS[name]
    assert passing(dump_of(*ops), origin_of_nonfinite) == expected


@pytest.mark.parametrize("name", MASKS)
def test_what_was_meant_stops_nobody(name):
    dump = dump_of(*MASKS[name])
    assert passing(dump, has_inf_or_nan)
    assert passing(dump, origin_of_nonfinite) == []


def test_arguments_that_only_look_infinite():
    ops = [x([0.0]), Op("log", "log", ["x"], [-INF], mode="info", name="minf_inference", k="1e3")]
    assert passing(dump_of(*ops), origin_of_nonfinite) == ["log"]


def test_nothing_bad_and_nothing_floating():
    ops = [x([1.0]), Op("i", "Input", (), [1], np.int64), Op("b", "Input", (), [True], bool)]
    assert passing(dump_of(*ops), origin_of_nonfinite) == []


def test_without_a_graph_all_but_masks_are_origins():
    ops = [x([NAN]), Op("y", "exp", ["x"], [INF]), Op("mask", "full", (), [-INF, 0])]
    assert passing(dump_of(*ops, graph=False), origin_of_nonfinite) == ["x", "y"]


def test_the_question_may_come_in_any_order():
    ops, expected = BUGS["matmul overflow in float16"]
    dump = dump_of(*ops)
    found = [
        datum.node_name
        for datum in reversed(dump.data())
        if origin_of_nonfinite(datum, datum.get_tensor(), dump)
    ]
    assert found == expected


@pytest.mark.slow
def test_a_long_way_back_reads_each_tensor_once():
    ops = [x([0.0]), Op("n0", "log", ["x"], [-INF])]
    ops += [Op(f"n{i}", "add", [f"n{i - 1}", "x"], [-INF]) for i in range(1, 10_000)]
    dump = dump_of(*ops)
    last = dump.data()[-1]
    assert not origin_of_nonfinite(last, np.array([-INF]), dump)
    assert last.node_name not in dump.reads
    assert len(dump.reads) == 10_000
    assert set(dump.reads.values()) == {1}
    dump.reads.clear()
    assert origin_of_nonfinite(dump.data()[1], np.array([-INF]), dump)
    assert not dump.reads


def test_clean_tensors_are_read_by_nobody_else():
    ops = [x([1.0])]
    ops += [Op(f"n{i}", "add", [f"n{i - 1}" if i else "x"], [1.0]) for i in range(100)]
    dump = dump_of(*ops)
    assert passing(dump, origin_of_nonfinite) == []
    assert set(dump.reads.values()) == {1}


def test_what_is_remembered_does_not_keep_the_dump():
    ops, _ = BUGS["log of zero"]
    dump = dump_of(*ops)
    assert passing(dump, origin_of_nonfinite)
    reference = weakref.ref(dump)
    gc.disable()
    try:
        del dump
        assert reference() is None
    finally:
        gc.enable()


def test_a_dump_that_grows_is_looked_at_anew():
    dump = dump_of(x([1.0]), Op("log", "log", ["x"]))
    assert passing(dump, origin_of_nonfinite) == []
    dump.add("log", 0, np.float32([-INF]), timestamp=5)
    assert passing(dump, origin_of_nonfinite) == ["log"]


def test_iterations_of_a_loop():
    with tf.Graph().as_default():
        start = tf.constant(2.0, name="start")

        def body(i, value):
            return tf.add(i, 1), tf.log(value, name="log")

        _, end = tf.while_loop(
            lambda i, value: tf.less(i, 4), body, [tf.constant(0), start], name="loop"
        )
        with tf.Session() as session:
            adapter = ENGINE.adapt(session)
            dump = adapter.debug_run(end, None, None, None, Watch()).dump
    found = dump.find(origin_of_nonfinite)
    # log 2, log 0.69 = -0.37, and the logarithm of that is nan.
    assert [(datum.node_name, datum.execution) for datum in found] == [("loop/log", 2)]


def test_a_bad_view_of_what_was_not_dumped():
    dump = dump_of(
        Op("w", "Parameter"),
        Op("t", "t", ["w"], [NAN]),
        Op("view", "view", ["t"], [NAN]),
        Op("mm", "mm", ["view"], [NAN]),
        Op("relu", "relu", ["mm"], [NAN]),
    )
    for datum in dump.data()[:2]:
        datum.is_view = True
    assert passing(dump, origin_of_nonfinite) == ["mm"]


@pytest.mark.parametrize("only_bad", [False, True])
def test_a_tensor_of_a_node_that_the_graph_does_not_have(only_bad):
    dump = dump_of(x([1.0]))
    dump.lists_only_bad = only_bad
    dump.add("stranger", 0, np.float32([NAN]))
    assert passing(dump, origin_of_nonfinite) == ["stranger"]


def test_what_cannot_be_read_hides_nothing_else():
    def gone():
        raise DumpError("gone")

    dump = dump_of(
        x([0.0]),
        Op("log", "log", ["x"], [-INF]),
        Op("lost", "neg", ["x"]),
        Op("out", "add", ["log", "lost"], [-INF]),
    )
    dump.add_datum(Datum("lost", 0, gone, timestamp=2, dtype="float32", shape=(1,), nbytes=4))
    passed = [
        name
        for name in ("log", "out")
        for datum in dump.by_node(name)
        if origin_of_nonfinite(datum, datum.get_tensor(), dump)
    ]
    assert passed == ["log"]


@pytest.mark.parametrize("only_bad", [False, True])
def test_a_dump_of_bad_tensors_only(only_bad):
    dump = dump_of(
        Op("mask", "full", (), [-INF], fill_value="-inf"),
        Op("softmax", "_softmax", ["mask"]),
        Op("log", "log", ["softmax"], [-INF]),
        Op("view", "view", ["log"]),
        Op("neg", "neg", ["view"], [INF]),
    )
    dump.graph().nodes["view"].attributes["_view"] = "true"
    dump.lists_only_bad = only_bad
    # Else the softmax is unknown, and what comes after it may have come from the mask.
    assert passing(dump, origin_of_nonfinite) == (["log"] if only_bad else [])


def test_what_is_read_twice_hides_nothing_in_a_dump_of_bad_tensors_only():
    out = Op("out", "addcmul", ["log", "x", "x"], [-INF])
    dump = dump_of(Op("x", "Input"), Op("log", "log", ["x"], [-INF]), out)
    dump.lists_only_bad = True
    assert passing(dump, origin_of_nonfinite) == ["log"]
