"""Bodies of functions: only the program's own tensors are shown, and all of it hangs together."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from floats_kit import assert_close
from stop_kit import stop_over
from tensorflow.core.protobuf import config_pb2

from tfdbg_cli.dumps.dump import RunInfo
from tfdbg_cli.engines.base import Watch
from tfdbg_cli.engines.tensorflow.sessions.engine import ENGINE
from tfdbg_cli.filters.origins import origin_of_nonfinite

tf1 = tf.compat.v1


def debug(session, fetches, feed_dict=None, **watch):
    adapter = ENGINE.adapt(session)
    capture = adapter.debug_run(fetches, feed_dict, None, None, Watch(**watch))
    info = RunInfo(1, adapter.fetch_names(fetches), adapter.feeds(feed_dict), "tensorflow")
    if capture.error is not None:
        info.error = adapter.describe_error(capture.error)
    capture.dump.set_run_info(info)
    return capture


def reply(dump, command, mode="run-end"):
    service = stop_over(dump, mode, title="", initial_command="lt")
    return service.run(command, 100)


def lines(dump, command):
    answer = reply(dump, command)
    assert not answer.failed, (answer.message, answer.details)
    assert answer.document is not None
    return [line.text for line in answer.document]


def values(dump, tensor):
    return [datum.get_tensor().tolist() for datum in dump.by_tensor(tensor)]


def ending(dump, name):
    """The full name of the only node whose name ends so."""
    (found,) = [node for node in dump.graph().nodes if node.endswith(f"/{name}")]
    return found


def unoptimized():
    config = tf1.ConfigProto()
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    return config


def doubled_and_tripled(i, a):
    return i + 1, tf.multiply(tf.multiply(a, 2.0, name="m1"), 3.0, name="m2")


# What the optimizer has rewritten.


@pytest.fixture(params=["functions", "frames"])
def control_flow(request):
    """Loops as functions, and as they were before: with frames."""
    if request.param == "frames":
        tf1.disable_control_flow_v2()
    yield request.param
    tf1.enable_control_flow_v2()


def test_a_rewritten_node_is_not_shown_under_the_users_name(graph, control_flow):
    # (a * 2) * 3 becomes a * 6: the node of a * 2 holds the 6.
    x = tf1.placeholder(tf.float32, [2], name="x")
    loop = tf1.while_loop(lambda i, a: i < 2, doubled_and_tripled, [0, x], name="wl")
    with tf1.Session() as session:
        expected = session.run(loop[1], {x: [1, 2]})
        capture = debug(session, loop[1], {x: [1, 2]})
        dump = capture.dump
        assert capture.value.tolist() == expected.tolist()
        m1, m2 = ending(dump, "m1"), ending(dump, "m2")
        assert values(dump, f"{m2}:0") == [[6, 12], [36, 72]]
        assert not dump.by_node(m1)
        (warning,) = dump.warnings
        assert re.search(rf"1 node\(s\) were rewritten .*: {m1}$", warning)
        shown = " ".join(" ".join(lines(dump, "lt")).split())
        assert f"Warning: {warning}" in shown
        assert "optimizer has rewritten it" in reply(dump, f"pt {m1}").message.text
        assert "optimizer has rewritten it" in reply(dump, f"pt {m1}:0").message.text
        assert any("optimizer has rewritten it" in line for line in lines(dump, f"ni -d {m1}"))
        # The next run uses the same executor; the runtime doesn't show its graph again.
        again = debug(session, loop[1], {x: [1, 2]}).dump
        assert not again.by_node(m1) and again.warnings == [warning]
    with tf1.Session(config=unoptimized()) as session:
        dump = debug(session, loop[1], {x: [1, 2]}).dump
        assert values(dump, f"{ending(dump, 'm1')}:0") == [[2, 4], [12, 24]]
        assert dump.warnings == []


def test_fused_and_merged_nodes_keep_their_tensors(graph, control_flow):
    x = tf1.placeholder(tf.float32, [1, 2], name="x")
    weights = tf.constant([[0.5, 1.0], [-1.0, 0.25]])

    def body(i, a):
        for layer in range(3):
            product = tf.matmul(a, weights, name=f"mm{layer}")
            a = tf.nn.relu(tf.nn.bias_add(product, [0.1, 0.2]), name=f"r{layer}")
        twin = tf.math.sinh(tf.exp(a, name="e1"), name="s1")
        other = tf.tanh(tf.exp(a, name="e2"), name="t2")
        return i + 1, tf.maximum(twin, other, name="end")

    loop = tf1.while_loop(lambda i, a: i < 2, body, [0, x], name="wl")
    shown = {}
    for kind, config in (("optimized", None), ("plain", unoptimized())):
        with tf1.Session(config=config) as session:
            dump = debug(session, loop[1], {x: [[1, 2]]}).dump
            assert dump.warnings == []
            shown[kind] = {
                name: values(dump, f"{ending(dump, name)}:0")
                for name in ("r0", "r1", "s1", "t2", "end")
            }
            if config is None:
                message = reply(dump, f"pt {ending(dump, 'mm0')}").message.text
                assert "optimizer has removed it" in message
    for name, plain in shown["plain"].items():
        assert len(plain) == 2
        np.testing.assert_allclose(shown["optimized"][name], plain, rtol=1e-5, err_msg=name)


def test_a_chain_that_became_one_node_is_shown_as_its_last(graph):
    x = tf1.placeholder(tf.float32, [2], name="x")

    def body(i, a):
        return i + 1, tf.math.log(tf.exp(tf.tanh(a * a), name="ex"), name="lg") + 1.0

    loop = tf.while_loop(lambda i, a: i < 2, body, [0, x], name="wl")
    with tf1.Session() as session:
        dump = debug(session, loop, {x: [1, 2]}).dump
    assert_close(np.float32(values(dump, f"{ending(dump, 'lg')}:0")[0]), np.tanh([1, 4]), terms=4)


_OPS = {
    "scale": lambda a, b, n: tf.multiply(a, 3.0, name=n),
    "shift": lambda a, b, n: tf.add(2.0, a, name=n),
    "times": lambda a, b, n: tf.multiply(a, b, name=n),
    "minus": lambda a, b, n: tf.subtract(a, b, name=n),
    "neg": lambda a, b, n: tf.negative(a, name=n),
    "square": lambda a, b, n: tf.multiply(a, a, name=n),
    "turn": lambda a, b, n: tf.transpose(a, name=n),
    "by_sum": lambda a, b, n: tf.multiply(a, tf.reduce_sum(b, name=f"{n}_s"), name=n),
    "root": lambda a, b, n: tf.pow(tf.abs(a) + 0.1, 0.5, name=n),
    "unary": lambda a, b, n: tf.math.log(tf.exp(tf.tanh(a), name=f"{n}_e"), name=n),
    "cast": lambda a, b, n: tf.cast(tf.transpose(tf.cast(a, tf.float64)), tf.float32, name=n),
    "sum3": lambda a, b, n: tf.add_n([a, b, a], name=n),
    "shape": lambda a, b, n: tf.add(a, tf.cast(tf.shape(b)[0], tf.float32, name=f"{n}_c"), name=n),
}


@pytest.mark.parametrize("seed", range(6))
def test_whatever_the_optimizer_does_no_wrong_value_is_shown(seed, control_flow):
    """Random bodies, beside the same ones in a session without the optimizer."""
    fed = np.random.default_rng(seed).normal(size=(2, 2, 2))
    shown = []
    for config in (None, unoptimized()):
        random = np.random.default_rng(seed)
        with tf.Graph().as_default(), tf1.Session(config=config) as session:
            x = tf1.placeholder(tf.float32, [2, 2], name="x")
            y = tf1.placeholder(tf.float32, [2, 2], name="y")

            def body(i, a, b, random=random, y=y):
                pool = [a, b, y]
                for number in range(8):
                    kind = str(random.choice(list(_OPS)))
                    first, second = (pool[k] for k in random.integers(len(pool), size=2))
                    pool.append(_OPS[kind](first, second, f"op{number}_{kind}"))
                return i + 1, tf.tanh(pool[-1]), tf.tanh(pool[-2])

            loop = tf1.while_loop(lambda i, a, b: i < 3, body, [0, x, y], parallel_iterations=1)
            capture = debug(session, loop[1:], {x: fed[0], y: fed[1]})
            assert capture.error is None
            found: dict[str, Any] = {}
            for name in capture.dump.tensor_names():
                if "/op" in name:
                    found[name[name.index("/op") :]] = values(capture.dump, name)
            shown.append(found)
    optimized, plain = shown
    common = set(optimized) & set(plain)  # constants are folded in either
    assert common
    for name in common:
        np.testing.assert_allclose(optimized[name], plain[name], rtol=2e-3, atol=1e-4, err_msg=name)


def test_what_an_inlined_function_returns(graph):
    x = tf1.placeholder(tf.float32, [2], name="x")

    @tf.function
    def twice(a):
        return tf.multiply(tf.tanh(a, name="th"), 2.0, name="by2")

    out = tf.identity(twice(x) + 1.0, name="out")
    with tf1.Session() as session:
        expected = session.run(out, {x: [1, 2]})
        capture = debug(session, out, {x: [1, 2]})
    dump = capture.dump
    assert capture.value.tolist() == expected.tolist()
    (call,) = [node.name for node in dump.graph().nodes.values() if "Call" in node.op_type]
    inside = values(dump, f"{ending(dump, 'by2')}:0")
    assert values(dump, f"{call}:0") == inside
    assert_close(np.float32(inside[0]), np.tanh([1, 2]) * 2)
    order = [datum.tensor_name for datum in dump.data()]
    assert order.index(f"{ending(dump, 'by2')}:0") < order.index(f"{call}:0")
    assert order.index(f"{call}:0") < order.index("out:0")


# How bodies hang together with their callers.


def first_bad(dump, name=""):
    """Origin and its dump number, as ``li --to-first-bad`` says."""
    shown = lines(dump, f"li --to-first-bad {name}")
    (origin,) = [line for line in shown if line.endswith("here it began")]
    return re.search(r"\] (\S+):0(?: \(dump (\d+)\))? ", origin).groups(), shown


def test_back_through_the_iterations_of_a_loop(graph):
    x = tf1.placeholder(tf.float32, [3], name="x")

    def body(i, a):
        return i + 1, tf.sqrt(tf.subtract(a, 1.0, name="sub"), name="root")

    out = tf.while_loop(lambda i, a: i < 5, body, [tf.constant(0), x], name="lp")
    res = tf.identity(out[1], name="res")
    with tf1.Session() as session:
        dump = debug(session, res, {x: [5, 2, 100]}).dump
    root, sub = ending(dump, "root"), ending(dump, "sub")
    (origin, number), shown = first_bad(dump, "res")
    assert (origin, number) == (root, "2")
    assert sum(f"{root}:0 (dump" in line for line in shown) == 3
    assert any(f"{sub}:0 (dump 2)" in line and "clean" in line for line in shown)
    # Time goes forward on a path, in a body and around it.
    there = lines(dump, f"lo --path {sub} {root}")
    assert [line for line in there if "(dump 2)" in line] == [there[2], there[4]]
    round_again = lines(dump, f"lo --path {root} {sub}")
    assert f"{root}:0 (dump 2)" in round_again[2] and f"{sub}:0 (dump 3)" in round_again[-1]
    # Both ways, each node once.
    nodes = [node for node in dump.graph().nodes if node.startswith("lp")]
    assert len(nodes) == len(set(nodes))
    assert root in dump.graph().ancestors("res")
    assert {edge.node for edge in dump.graph().recipients(root)} >= {"lp"}
    assert any("lp/body" in line and "root" in line for line in lines(dump, "li lp"))


def test_back_through_branches_calls_and_lists(graph):
    x = tf1.placeholder(tf.float32, [2], name="x")

    @tf.function
    def inner(a):
        return tf.math.log(a, name="innerlog")

    @tf.function
    def outer(a):
        y = inner(a - 1.0) if tf.reduce_sum(a) > 0 else a * 2.0
        for _ in range(2):
            y = y * 2.0
        return y

    b = tf.identity(outer(x), name="b")

    def body(i, a):
        return i + 1, tf.cond(i > 1, lambda: tf.sqrt(a - 5.0, name="incond"), lambda: a)

    c = tf.identity(tf.while_loop(lambda i, a: i < 4, body, [0, x], name="w")[1], name="c")
    stacked = tf.map_fn(lambda v: tf.sqrt(v - 1.5, name="inmap"), x)
    with tf1.Session() as session:
        dump = debug(session, [b, c, stacked], {x: [1, 2]}).dump
    assert first_bad(dump, "b")[0] == (ending(dump, "innerlog"), None)
    assert first_bad(dump, "c")[0] == (ending(dump, "incond"), "0")
    assert first_bad(dump, stacked.op.name)[0] == (ending(dump, "inmap"), "0")


def test_a_branch_that_only_sometimes_makes_it_bad(graph):
    # Bad in the second iteration, by the branch that the third doesn't take.
    x = tf1.placeholder(tf.float32, [2], name="x")

    def body(i, a):
        return i + 1, tf.cond(
            tf.equal(i, 1),
            lambda: tf.math.log(a - 1.0, name="down"),
            lambda: tf.add(a, 1.0, name="up"),
        )

    loop = tf.while_loop(lambda i, a: i < 4, body, [0, x], name="w")
    end = tf.identity(loop[1], name="end")
    with tf1.Session() as session:
        dump = debug(session, end, {x: [-1.0, 3.0]}).dump
    (origin, number), shown = first_bad(dump, "end")
    assert (origin, number) == (ending(dump, "down"), None)
    assert sum("/up:0 (dump" in line for line in shown) >= 2
    assert any(f"{ending(dump, 'up')}:0 (dump 2)" in line for line in shown)


def test_a_loop_in_a_loop_is_left_where_it_was_entered(graph):
    x = tf1.placeholder(tf.float32, [], name="x")

    def outer(i, a):
        entry = tf.sqrt(a - 2.0, name="entry")
        again = tf.while_loop(
            lambda j, b: j < 2, lambda j, b: (j + 1, tf.add(b, 0.5, name="inc")), [0, entry]
        )
        return i + 1, tf.identity(again[1], name="left") * 1.5

    loop = tf.while_loop(lambda i, a: i < 3, outer, [0, x], parallel_iterations=1, name="w")
    end = tf.identity(loop[1], name="end")
    with tf1.Session() as session:
        dump = debug(session, end, {x: 3.0}).dump
    # 3 -> 1 -> 2 -> 3 -> 1 ... stays well; 2.1 -> 0.32 -> 1.97 -> nan in the second iteration.
    assert "is not bad" in lines(dump, "li --to-first-bad end")[0]
    with tf1.Session() as session:
        dump = debug(session, end, {x: 2.1}).dump
    assert first_bad(dump, "end")[0] == (ending(dump, "entry"), "1")


def test_gradients_through_loops_can_be_walked(graph):
    x = tf1.placeholder(tf.float32, [], name="x")
    loop = tf.while_loop(
        lambda i, a: i < 3, lambda i, a: (i + 1, tf.sqrt(a, name="rt")), [0, x], name="w"
    )
    slope = tf.identity(tf.gradients(loop[1], x)[0], name="slope")
    with tf1.Session() as session:
        dump = debug(session, slope, {x: 0.0}).dump
    (origin, _), shown = first_bad(dump, "slope")
    assert "grad" in origin or origin.endswith("/rt")
    assert len(shown) > 4


# Errors, timings, handles.


def test_an_error_in_a_body_names_the_node_of_the_graph(graph):
    x = tf1.placeholder(tf.float32, [None], name="x")

    def body(i, a):
        return i + 1, tf.debugging.check_numerics(tf.sqrt(a - 1.0, name="rt"), "boo", name="chk")

    loop = tf.while_loop(lambda i, a: i < 4, body, [0, x], name="wl")
    with tf1.Session() as session:
        for _ in range(2):
            capture = debug(session, loop[1], {x: [1.0, 2.0]})
            error = capture.dump.run_info().error
            assert error.op_name == ending(capture.dump, "chk")
            assert capture.dump.op_type(error.op_name) == "CheckNumerics"
            assert first_bad(capture.dump)[0] == (ending(capture.dump, "rt"), "1")


def test_an_error_in_a_function_that_was_not_inlined(graph):
    x = tf1.placeholder(tf.float32, [2], name="x")

    @tf.function
    def checked(a):
        return tf.debugging.check_numerics(tf.math.log(a, name="lg"), "boo", name="chk")

    out = checked(x)
    with tf1.Session() as session:
        capture = debug(session, out, {x: [0.0, 2.0]})
    name = capture.dump.run_info().error.op_name
    assert name == f"{out.op.name}/chk" and name in capture.dump.graph()
    assert "Node " + name in lines(capture.dump, f"ni {name}")[0]


def test_nodes_of_the_optimizer_lead_back_to_the_users(graph):
    x = tf1.placeholder(tf.float32, [2, 3], name="x")
    with tf1.name_scope("scope"):
        chain = tf.sqrt(tf.math.log(tf.exp(tf.abs(x)), name="lg"), name="sq")
    folded = tf1.unique(tf.constant([3, 3, 5]), name="uniq")
    out = [tf.reduce_sum(chain + 1.0), folded]
    with tf1.Session() as session:
        capture = ENGINE.adapt(session).profile_run(out, {x: np.ones([2, 3])}, None, None)
    entries = {entry.runtime_name: entry for entry in capture.dump.profile()}
    composed = next(entry for name, entry in entries.items() if "composition" in name)
    assert (composed.node, composed.op_type) == ("scope/sq", "Sqrt")
    constant = next(entry for name, entry in entries.items() if "__cf__" in name)
    assert (constant.node, constant.op_type) == ("uniq", "Unique")
    for entry in (composed, constant):
        assert entry.place is not None and entry.place.file == __file__
    answer = reply(capture.dump, "li --to-first-bad", mode="profile")
    assert answer.failed and "has no tensors" in answer.message.text


@pytest.mark.parametrize(
    ("runtime", "node"),
    [
        ("x-0-CastToBf16-0-AutoMixedPrecision", "x"),
        ("by-2-name-0-TransposeNHWCToNCHW-LayoutOptimizer", "by-2-name"),
        ("Recomputed/x", "x"),
        ("swap_out_x_0", "x"),
        ("x/_3__cf__3", "x"),
    ],
)
def test_names_that_optimizers_make(graph, runtime, node):
    from tfdbg_cli.engines.tensorflow.sessions.bodies.origins import NodeExecution, Origins
    from tfdbg_cli.engines.tensorflow.shared.body_nodes import Functions

    x = tf1.placeholder(tf.float32, [2], name="x")
    tf.negative(x, name="by-2-name")
    one = NodeExecution(runtime, "Cast", (), 0, 1, 1)
    assert Origins(graph, Functions(graph), [one]).of(one).node == node


def test_a_resource_handle_says_where_its_value_is(graph):
    v = tf1.get_variable("v", initializer=[1.0, 2.0], use_resource=True)
    out = tf.identity(v * 2.0, name="out")
    with tf1.Session() as session:
        session.run(v.initializer)
        dump = debug(session, out).dump
    message = reply(dump, "pt v").message.text
    assert "handle of a resource" in message
    reader = re.search(r"Its value is in (\S+?)[,.]", message)[1]
    assert values(dump, f"{reader}:0") == [[1, 2]]


def test_sparse_and_ragged_feeds_have_the_callers_names(graph):
    sparse = tf1.sparse_placeholder(tf.float32, name="some/spf")
    ragged = tf1.ragged.placeholder(tf.float32, 1, name="rag")
    plain = tf1.placeholder(tf.float32, [], name="x")
    out = tf.sparse.reduce_sum(sparse) + tf.reduce_sum(ragged.flat_values) + plain
    given = tf1.SparseTensorValue([[0, 0], [0, 1]], [2.0, 5.0], [1, 2])
    lists = tf1.ragged.constant_value([[1.0, 2.0], [3.0]], dtype="float32")
    with tf1.Session() as session:
        feed = {sparse: given, ragged: lists, plain: 1.0}
        dump = debug(session, out, feed).dump
        assert list(dump.run_info().feeds) == ["some/spf", "rag", "x:0"]
        assert dump.run_info().feeds["some/spf"] is given
        assert any("values" in line for line in lines(dump, "pf some/spf"))
        assert "array([2., 5.])" in lines(dump, "pf some/spf.values")
        assert any("array([1., 2., 3.]" in line for line in lines(dump, "pf rag.values"))
        assert any("7." in line for line in lines(dump, "eval '`some/spf.values`.sum()'"))
        feeds = ENGINE.adapt(session).feeds({sparse: ([[0, 0]], [2.0], [1, 2])})
        assert feeds["some/spf"].values == [2.0]


def test_run_options_of_the_program_are_left_alone(graph):
    x = tf1.placeholder(tf.float32, [2], name="x")
    loop = tf.while_loop(lambda i, a: i < 2, doubled_and_tripled, [0, x], name="wl")
    options, record = config_pb2.RunOptions(), config_pb2.RunMetadata()
    with tf1.Session() as session:
        adapter = ENGINE.adapt(session)
        capture = adapter.debug_run(loop, {x: [1, 2]}, options, record, Watch())
    assert capture.error is None
    assert options == config_pb2.RunOptions() and not record.partition_graphs


@pytest.mark.parametrize("end", ["out", "log", "variable", "loop"])
def test_what_stays_local_is_no_origin(end):
    with tf.Graph().as_default():
        x = tf1.placeholder(tf.float32, [2], name="x")
        log = tf.math.log(x, name="log")
        out = tf.where(x > 1, log * 2.0, x, name="out")
        variable = tf1.get_variable("v", [2], initializer=tf1.zeros_initializer())
        update = tf1.assign_add(variable, log)
        loop = tf.while_loop(lambda i, y: i < 2, lambda i, y: (i + 1, y + log), [0, x])[1]
        fetches = {"out": out, "log": [out, log], "variable": [out, update.op], "loop": loop}[end]
        with tf1.Session() as session:
            session.run(tf1.global_variables_initializer())
            dump = debug(session, fetches, {x: [0.0, 2.0]}).dump
    found = [datum.node_name for datum in dump.find(origin_of_nonfinite)]
    assert found == ([] if end == "out" else ["log"])
