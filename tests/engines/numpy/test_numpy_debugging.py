"""The engine through the debugger's protocol."""

import linecache

import numpy as np
import pytest

from tfdbg_cli.dumps.dump import InconvertibleTensorProto
from tfdbg_cli.engines import numpy as tf
from tfdbg_cli.engines.base import Watch
from tfdbg_cli.engines.numpy.debugging import ENGINE
from tfdbg_cli.engines.numpy.registry import define
from tfdbg_cli.engines.registry import engine_for, load
from tfdbg_cli.sessions.wrappers.framework import (
    BaseDebugWrapperSession,
    OnRunEndResponse,
    OnRunStartAction,
    OnRunStartResponse,
    OnSessionInitAction,
    OnSessionInitResponse,
)


@pytest.fixture(autouse=True)
def _fresh_graph():
    with tf.Graph().as_default():
        yield


class Wrapper(BaseDebugWrapperSession):
    """Debugs every run and remembers what it saw."""

    def on_session_init(self, request):
        self.starts, self.ends = [], []
        return OnSessionInitResponse(OnSessionInitAction.PROCEED)

    def on_run_start(self, request):
        self.starts.append(request)
        return OnRunStartResponse(OnRunStartAction.DEBUG_RUN)

    def on_run_end(self, request):
        self.ends.append(request)
        return OnRunEndResponse()


def debug(session, fetches, feed_dict=None, **watch):
    return ENGINE.adapt(session).debug_run(fetches, feed_dict, None, None, Watch(**watch))


def dumped(capture):
    return [datum.tensor_name for datum in capture.dump.data()]


def classifier():
    x = tf.placeholder(tf.float32, [None, 3], name="x")
    with tf.name_scope("hidden"):
        w = tf.Variable(tf.truncated_normal([3, 2]), name="w")
        y = tf.nn.relu(tf.matmul(x, w) + tf.truncated_normal([2], stddev=0.01))
    loss = tf.reduce_mean(y * y, name="loss")
    step = tf.train.AdamOptimizer(0.1).minimize(loss)
    total = tf.while_loop(lambda i, a: i < 4, lambda i, a: (i + 1, a * 2.0), [0, loss])[1]
    return x, w, loss, step, total


def test_the_engine_is_found_and_knows_its_sessions():
    session = tf.Session()
    assert load("numpy") is ENGINE
    assert engine_for(session) is ENGINE
    assert not ENGINE.is_session(object())
    adapter = ENGINE.adapt(session)
    assert adapter.framework_graph is session.graph


def test_a_debugged_run_is_the_same_run():
    x, w, loss, step, total = classifier()
    feed = {x: np.random.default_rng(0).normal(size=(5, 3))}

    def results(debugged):
        with tf.Session(seed=11) as session:
            adapter = ENGINE.adapt(session)
            session.run(tf.global_variables_initializer())
            made = []
            for turn in range(4):
                if debugged and turn % 2:
                    made.append(
                        adapter.debug_run([loss, total, step], feed, None, None, Watch()).value
                    )
                else:
                    made.append(session.run([loss, total, step], feed))
                made.append(session.run(w).tobytes())
            return made

    assert results(True) == results(False)


def test_every_output_is_dumped_in_the_order_of_execution():
    x = tf.placeholder(tf.float32, [2], name="x")
    y = tf.log(x, name="y")
    z = tf.reduce_sum(y * 2.0, name="z")
    tf.square(x, name="unused")
    distinct, _places = tf.unique(y, name="parts")
    with tf.Session() as session:
        capture = debug(session, [z, distinct], {x: [0.0, 1.0]})
    assert dumped(capture) == [
        "x:0",
        "y:0",
        "mul/y:0",
        "mul:0",
        "Const:0",
        "z:0",
        "parts:0",
        "parts:1",
    ]
    data = capture.dump.data()
    assert [d.timestamp for d in data] == sorted(d.timestamp for d in data)
    assert capture.error is None
    assert capture.value[0] == -np.inf
    first_bad = capture.dump.find(lambda datum, value: not np.isfinite(value).all(), first_n=1)
    assert first_bad[0].tensor_name == "y:0"
    assert first_bad[0].dtype == "float32"
    assert first_bad[0].device_name


def test_what_was_dumped_stays_as_it_was():
    v = tf.Variable([1.0, 2.0], name="v")
    x = tf.placeholder(tf.float32, [2], name="x")
    update = v.assign_add(x)
    given = np.array([10.0, 20.0], np.float32)
    with tf.Session() as session:
        session.run(v.initializer)
        capture = debug(session, [update, v], {x: given})
        given[:] = -1
        capture.value[0][:] = -1
        session.run(v.assign([0.0, 0.0]))
        values = {d.tensor_name: d.get_tensor() for d in capture.dump.data()}
    np.testing.assert_array_equal(values["x:0"], [10, 20])
    np.testing.assert_array_equal(values["v:0"], [1, 2])
    np.testing.assert_array_equal(values["AssignAdd:0"], [11, 22])


def test_feeds_are_listed_under_their_own_names():
    x = tf.placeholder(tf.float32, [2], name="x")
    y = tf.square(x, name="y")
    z = y + 1.0
    with tf.Session() as session:
        adapter = ENGINE.adapt(session)
        capture = debug(session, z, {"y:0": [1.0, 2.0]})
        assert adapter.feeds({y: 3, "x:0": 4}) == {"y:0": 3, "x:0": 4}
        assert adapter.feeds(None) == {}
        assert adapter.feeds(17) == {}
    assert dumped(capture) == ["y:0", "add/y:0", "add:0"]


@pytest.mark.parametrize(
    ("watch", "expected"),
    [
        ({"node_name": "den/M"}, ["hidden/MatMul:0"]),
        ({"op_type": "^Relu$"}, ["hidden/Relu:0"]),
        ({"tensor_dtype": "int32", "node_name": "Merge"}, ["while/Merge:0"] * 5),
        ({"node_name": "^nothing$"}, []),
    ],
)
def test_watches_search_names_types_and_dtypes(watch, expected):
    x, _, loss, _, total = classifier()
    with tf.Session(seed=0) as session:
        session.run(tf.global_variables_initializer())
        capture = debug(session, [loss, total], {x: np.ones((2, 3))}, **watch)
    assert [name for name in dumped(capture) if not name.endswith(":1") and "_1" not in name] == (
        expected
    )


def test_a_loop_gives_one_dump_for_each_iteration():
    i = tf.while_loop(lambda i: i < 3, lambda i: i + 1, [0])
    with tf.Session() as session:
        capture = debug(session, i)
    counts = {name: len(capture.dump.by_tensor(name)) for name in dumped(capture)}
    assert counts == {
        "while/Const:0": 1,
        "while/Enter:0": 1,
        "while/Merge:0": 4,
        "while/Merge:1": 4,
        "while/Less/y:0": 4,
        "while/Less:0": 4,
        "while/LoopCond:0": 4,
        "while/Switch:1": 3,
        "while/Switch:0": 1,
        "while/Identity:0": 3,
        "while/add/y:0": 3,
        "while/add:0": 3,
        "while/NextIteration:0": 3,
        "while/Exit:0": 1,
    }
    made = capture.dump.by_tensor("while/add:0")
    assert [int(d.get_tensor()) for d in made] == [1, 2, 3]
    assert [d.execution for d in made] == [0, 1, 2]


def test_after_an_error_the_dump_has_what_came_before():
    x = tf.placeholder(tf.float32, name="x")
    before = tf.log(x, name="before")
    failing = tf.reshape(before, [7], name="failing")
    after = tf.square(failing, name="after")
    with tf.Session() as session:
        adapter = ENGINE.adapt(session)
        capture = debug(session, after, {x: [0.0]})
        with pytest.raises(tf.errors.InvalidArgumentError) as plain:
            session.run(after, {x: [0.0]})
    assert dumped(capture) == ["x:0", "before:0", "failing/shape:0"]
    assert str(capture.error) == str(plain.value)
    described = adapter.describe_error(capture.error)
    assert described.type_name == "InvalidArgumentError"
    assert described.op_name == "failing"
    assert "cannot reshape" in described.message
    assert adapter.describe_error(ValueError()) is None


def test_mistakes_in_asking_are_raised_not_captured():
    def interrupt(step, op, inputs):
        raise KeyboardInterrupt

    define("Interrupting", interrupt)
    x = tf.constant(1.0)
    with tf.Session() as session:
        with pytest.raises(ValueError, match="nope"):
            debug(session, "nope:0")
        with pytest.raises(KeyboardInterrupt):
            debug(session, tf.get_default_graph().create_op("Interrupting", [x], []))


def test_variables_without_a_value_are_shown_as_such():
    v = tf.Variable(1.0, name="v")
    with tf.Session() as session:
        capture = debug(session, v * 2.0)
        (datum,) = capture.dump.by_tensor("v:0")
        value = datum.get_tensor()
        init = debug(session, v.initializer)
    assert isinstance(value, InconvertibleTensorProto)
    assert not value.initialized
    assert isinstance(capture.error, tf.errors.FailedPreconditionError)
    assert init.dump.by_tensor("v/Assign:0")[0].get_tensor() == 1.0


def test_the_graph_is_lazy_and_follows_the_version():
    x = tf.constant([1.0, 2.0], name="x")
    with tf.control_dependencies([x]):
        y = tf.reduce_sum(tf.constant([3.0], name="c") * 2.0, name="y")
    session = tf.Session()
    adapter = ENGINE.adapt(session)
    graph = adapter.graph()
    assert adapter.graph() is graph
    assert graph.node("y").op_type == "Sum"
    assert graph.node("y").inputs == ("mul:0", "Const:0")
    assert graph.node("c").control_inputs == ("x",)
    assert graph.node("x").attributes == {"value": "[1. 2.]", "output:0": "float32 (2,)"}
    frame = graph.node("y").frames[-1]
    assert frame.file == __file__
    assert "reduce_sum" in linecache.getline(frame.file, frame.line)
    tf.identity(y, name="later")
    assert "later" in adapter.graph()
    assert "later" not in graph


def test_a_loop_is_a_cycle_that_walks_get_over():
    i = tf.while_loop(lambda i: i < 3, lambda i: i + 1, [0])
    graph = ENGINE.adapt(tf.Session()).graph()
    assert "while/NextIteration" in graph.ancestors("while/Merge")
    visits = list(graph.walk(i.op.name, depth=50))
    again = [visit.edge.node for visit in visits if visit.repeated]
    assert [visit.edge.node for visit in visits][:2] == ["while/Switch", "while/Merge"]
    assert "while/Merge" in again


def test_names_of_fetches():
    x = tf.constant(1.0, name="x")
    v = tf.Variable(1.0, name="v")
    adapter = ENGINE.adapt(tf.Session())
    assert adapter.fetch_names({"a": [x, x.op], "b": (v, "x:0")}) == ["x:0", "x", "v:0", "x:0"]
    assert adapter.fetch_names(3) == ["3"]


def test_install_takes_every_run_of_the_program_and_only_those():
    x = tf.placeholder(tf.float32, [], name="x")
    y = x * 2.0
    old = tf.Session()
    double = old.make_callable(y, [x])
    wrappers = {}

    def wrap(session):
        if session not in wrappers:
            wrappers[session] = Wrapper(session)
        return wrappers[session]

    undo = ENGINE.install(wrap)
    try:
        assert old.run(y, {x: 1.0}) == 2.0
        assert double(2.0) == 4.0
        with old.as_default():
            assert y.eval({x: 3.0}) == 6.0
        with tf.Session() as new:
            assert new.run(y, feed_dict={x: 4.0}) == 8.0
            ENGINE.adapt(new).run(y, {x: 1.0}, None, None)
            debug(new, y, {x: 1.0})
    finally:
        undo()
    undo()
    assert wrappers[old].run_call_count == 3
    assert wrappers[new].run_call_count == 1
    assert old.run(y, {x: 1.0}) == 2.0
    assert wrappers[old].run_call_count == 3
    assert [float(end.dump.by_tensor("mul:0")[0].get_tensor()) for end in wrappers[old].ends] == [
        2.0,
        4.0,
        6.0,
    ]


def test_installs_can_be_undone_in_any_order():
    x = tf.constant(1.0)
    session = tf.Session()
    first, second = Wrapper(session), Wrapper(session)
    undo_first = ENGINE.install(lambda _: first)
    undo_second = ENGINE.install(lambda _: second)
    undo_first()
    session.run(x)
    undo_second()
    session.run(x)
    assert (first.run_call_count, second.run_call_count) == (0, 1)


def test_a_wrapper_made_by_hand():
    x = tf.placeholder(tf.float32, [], name="x")
    y = tf.square(x, name="y")
    bad = tf.check_numerics(x, "bad", name="check")
    session = tf.Session()
    wrapper = Wrapper(session)
    with wrapper:
        assert tf.get_default_session() is wrapper
        assert y.eval({x: 4.0}) == 16.0
        assert wrapper.run("y:0", {x: 9.0}) == 81.0
        with pytest.raises(tf.errors.InvalidArgumentError):
            wrapper.run(bad, {x: np.nan})
    assert tf.get_default_session() is None
    assert wrapper.run_call_count == 3
    assert wrapper.ends[-1].error.op_name == "check"
    assert wrapper.starts[0].run_info.fetches == ["y:0"]
    with pytest.raises(RuntimeError, match="closed"):
        session.run(y, {x: 1.0})


def test_errors_of_a_debugged_loop_keep_the_iterations_before():
    i = tf.while_loop(lambda i: i < 9, lambda i: i + 6 // tf.cast(i < 2, tf.int32), [0])
    with tf.Session() as session:
        capture = debug(session, i)
    assert isinstance(capture.error, tf.errors.InvalidArgumentError)
    assert [int(d.get_tensor()) for d in capture.dump.by_tensor("while/Identity:0")] == [0, 6]
