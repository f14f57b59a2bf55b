"""Callables and partial runs, debugged and plain side by side."""

import importlib.util
from collections import namedtuple

import numpy as np
import pytest
from session_kit import wrap

pytestmark = [
    pytest.mark.tensorflow,
    pytest.mark.skipif(importlib.util.find_spec("tensorflow") is None, reason="needs TensorFlow"),
]


@pytest.fixture
def tf():
    import tensorflow.compat.v1 as tf

    # Variables by reference can be named by their tensors.
    tf.disable_resource_variables()
    yield tf
    tf.enable_resource_variables()


@pytest.fixture
def model(tf):
    """Two stages with a feed each, a counter that each complete run moves, and a session."""
    with tf.Graph().as_default(), tf.Session() as session:
        a, b, c = (tf.placeholder(tf.float32, [], name=name) for name in "abc")
        count = tf.get_variable("count", initializer=0.0)
        doubled = tf.multiply(a, 2.0, name="doubled")
        first = tf.add(doubled, b, name="first")
        with tf.control_dependencies([tf.assign_add(count, 1.0)]):
            scaled = tf.multiply(first, c, name="scaled")
        second = tf.math.log(scaled, name="second")
        tf.check_numerics(second, "no logarithm", name="checked")
        session.run(count.initializer)
        yield session


def in_two_parts(session, second="second:0", c=1.0):
    """Results and the counter after a partial run of two parts."""
    handle = session.partial_run_setup(["first:0", {"s": second}], ["a:0", "b:0", "c:0"])
    assert isinstance(handle, str)
    first = session.partial_run(handle, "first:0", {"a:0": 1.0, "b:0": 2.0})
    rest = session.partial_run(handle, {"s": second}, feed_dict={"c:0": c})
    return first, rest


def test_a_partial_run_stops_at_each_part(model):
    plain = in_two_parts(model)
    assert model.run("count:0") == 1.0
    sess, ui = wrap(model)
    assert in_two_parts(sess) == plain == (4.0, {"s": pytest.approx(np.log(4.0), rel=1e-5)})
    assert model.run("count:0") == 2.0
    assert ui.modes == "see"
    assert ui.stops[1].title == "run-end: run #1: 1 fetch (first:0); 2 feeds"
    assert {"a:0", "b:0", "doubled:0", "first:0"} <= set(ui.stops[1].names)
    assert not {"c:0", "scaled:0"} & set(ui.stops[1].names)
    assert {"c:0", "scaled:0", "second:0"} <= set(ui.stops[2].names)
    (datum,) = ui.stops[2].dump.by_tensor("scaled:0")
    assert datum.get_tensor() == 4.0


@pytest.mark.parametrize("commands", [["run -n"] * 3, ["run -t 2"], ["run -n", "run"]])
def test_parts_that_go_undebugged_end_the_run_as_well(model, commands):
    sess, ui = wrap(model, *commands)
    for _ in range(2):
        assert in_two_parts(sess)[0] == 4.0
    assert model.run("count:0") == 2.0
    assert "e" in ui.modes or commands == ["run -n"] * 3


def test_a_narrowed_part(model):
    sess, ui = wrap(model, "run --node_name_filter doub")
    in_two_parts(sess)
    assert ui.stops[1].names == ["doubled/y:0", "doubled:0"]


def test_a_part_that_fails_is_shown_and_raised(tf, model):
    sess, ui = wrap(model)
    with pytest.raises(tf.errors.InvalidArgumentError, match="no logarithm"):
        in_two_parts(sess, "checked:0", c=-1.0)
    assert ui.stops[-1].initial == "error"
    assert "Op name:    checked" in ui.stops[-1].first_screen
    assert {"a:0", "doubled:0", "first:0"} <= set(ui.stops[-1].names)
    assert "those of earlier parts" in ui.stops[-1].service.run("lt").document.text


@pytest.mark.parametrize(
    ("fetches", "feeds", "part", "given"),
    [
        (["first:0", "second:0"], ["a:0", "b:0"], "second:0", {"a:0": 1.0}),
        (["first:0"], ["a:0", "b:0"], "second:0", {"a:0": 1.0, "b:0": 1.0}),
        (["first:0"], ["a:0", "b:0"], "first:0", {"a:0": [1.0, 2.0], "b:0": 1.0}),
        (["nowhere:0"], ["a:0"], None, None),
        (["first:0"], ["doubled"], None, None),
        (["first:0"], [3], None, None),
        (None, ["a:0"], None, None),
    ],
)
def test_mistakes_are_those_of_the_plain_session(model, fetches, feeds, part, given):
    def fail(session):
        try:
            handle = session.partial_run_setup(fetches, feeds)
            session.partial_run(handle, part, given)
        except Exception as error:
            return error
        raise AssertionError("it did not fail")

    sess, _ = wrap(model)
    plain, debugged = fail(model), fail(sess)
    assert type(debugged) is type(plain)
    assert str(debugged) == str(plain)


def test_a_handle_from_elsewhere(model):
    handle = model.partial_run_setup(["first:0"], ["a:0", "b:0"])
    sess, ui = wrap(model)
    assert sess.partial_run(handle, "first:0", {"a:0": 1.0, "b:0": 2.0}) == 4.0
    assert "its setup isn't known" in ui.stops[1].first_screen


def test_empty_parts_pass_by(model):
    sess, ui = wrap(model)
    handle = sess.partial_run_setup(["first:0"], ["a:0", "b:0"])
    assert sess.partial_run(handle, [], {"a:0": 1.0}) == []
    assert ui.modes == ""
    assert sess.partial_run(handle, ["first:0"], {"b:0": 1.0}) == [3.0]
    assert ui.modes == "se"


def test_the_inside_of_loops_is_said_to_be_missing(tf):
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, [], name="x")
        loop = tf.while_loop(lambda a: a < 5.0, lambda a: a + x, [x], return_same_structure=False)
        sess, ui = wrap(session)
        handle = sess.partial_run_setup([loop], [x])
        assert sess.partial_run(handle, loop, {x: 2.0}) == 6.0
    shown = " ".join(ui.stops[1].first_screen.split())
    assert "tensors of loops, branches and functions are missing" in shown


def test_every_way_to_run_is_debugged_when_installed(model):
    """As under the launcher: the session itself is asked."""
    from tfdbg_cli.engines.tensorflow.sessions.engine import ENGINE

    sess, ui = wrap(model)
    undo = ENGINE.install(lambda session: sess)
    try:
        assert in_two_parts(model)[0] == 4.0
    finally:
        undo()
    assert ui.modes == "see"
    assert in_two_parts(model)[0] == 4.0
    assert ui.modes == "see"


# Callables made of CallableOptions.


def options(tf, **fields):
    from tensorflow.core.protobuf import config_pb2

    return config_pb2.CallableOptions(**fields)


def outcome(call, *values, **kwargs):
    """What came of a call: types and values, or the error."""
    try:
        result = call(*values, **kwargs)
    except Exception as error:
        return type(error), str(error)
    return type(result), [(type(item), np.asarray(item).tolist()) for item in result]


@pytest.mark.parametrize(
    ("fields", "values"),
    [
        ({"feed": ["a:0", "b:0"], "fetch": ["first:0", "doubled:0"]}, (3.0, 4.0)),
        ({"feed": ["a:0", "b:0"], "fetch": ["first:0"], "target": ["count/Assign"]}, (3.0, 4.0)),
        ({"target": ["count/Assign"]}, ()),
        ({"fetch": ["doubled/y:0"]}, ()),
        ({"feed": ["a:0", "b:0"], "fetch": ["first:0"]}, (3.0,)),
        ({"feed": ["a:0"], "fetch": ["doubled:0"]}, ([3.0, 4.0],)),
        ({"feed": ["a:0"], "fetch": ["first:0"]}, (3.0,)),
        # The name of an operation stands for its first output.
        ({"feed": ["a", "b:0"], "fetch": ["first"], "target": ["count/Assign"]}, (3.0, 4.0)),
        ({"fetch": ["doubled/y", "doubled/y:0"]}, ()),
    ],
)
@pytest.mark.parametrize("kind", [np.float32, float])
def test_a_callable_does_what_the_plain_one_does(tf, model, fields, values, kind):
    given = [np.asarray(value, kind) if kind is np.float32 else value for value in values]
    made = options(tf, **fields)
    before = made.SerializeToString()
    sess, ui = wrap(model)
    call = sess._make_callable_from_options(made)
    plain = outcome(model._make_callable_from_options(made), *given)
    for _ in range(2):
        debugged = outcome(call, *given)
        assert debugged[0] == plain[0]
        # Session.run tells more of an error than a callable does, and of two it may be either.
        assert debugged == plain or plain[0] is not list
    assert made.SerializeToString() == before
    assert ui.modes == "see"
    if plain[0] is list and kind is np.float32 and "first:0" in fields.get("fetch", ()):
        assert {"a:0", "b:0", "doubled:0", "first:0"} <= set(ui.stops[1].names)
        assert ui.stops[1].title.startswith("run-end: run #1: 2 fetches; 2 feeds")


def test_callables_when_installed(tf, model):
    """As under the launcher; Keras' own steps are such callables."""
    from tfdbg_cli.engines.tensorflow.sessions.engine import ENGINE

    made = options(tf, feed=["a", "b:0"], fetch=["first", "doubled:0"], target=["count/Assign"])
    given = np.float32(3.0), np.float32(4.0)
    wrong = np.float64(3.0), np.float32(4.0)  # a callable converts nothing
    expected = outcome(model._make_callable_from_options(made), *given)
    refused = outcome(model._make_callable_from_options(made), *wrong)
    assert refused[0] is not list
    sess, ui = wrap(model, "invoke_stepper", ["override doubled:0 1", "cont", "exit"], "run", "run")
    undo = ENGINE.install(lambda session: sess)
    try:
        call = model._make_callable_from_options(made)
        assert outcome(call, *given)[1] != expected[1]  # overridden
        assert outcome(call, *given) == expected
        with pytest.raises(TypeError):
            call(*given, no_such=1)
        assert outcome(call, *wrong)[0] is refused[0]
    finally:
        undo()
    assert [stop.mode for stop in ui.stops[:4]] == ["run-start", "stepper", "run-end", "run-end"]
    assert {"a:0", "b:0", "doubled:0", "first:0"} <= set(ui.stops[3].names)


@pytest.mark.parametrize(
    "fields", [{"fetch": ["none"]}, {"feed": ["none"], "fetch": ["a"]}, {"target": ["none"]}]
)
def test_a_callable_of_what_there_is_not(tf, model, fields):
    made = options(tf, **fields)
    with pytest.raises(Exception, match="none") as plain:
        model._make_callable_from_options(made)
    sess, _ = wrap(model)
    call = sess._make_callable_from_options(made)
    with pytest.raises(type(plain.value), match="none"):
        call(*[np.float32(1.0) for _ in made.feed])


def test_a_callable_with_options_and_metadata(tf, model):
    made = options(tf, feed=["a:0"], fetch=["doubled:0"])
    made.run_options.trace_level = tf.RunOptions.FULL_TRACE
    sess, ui = wrap(model, "run", "run -p")
    metadata = tf.RunMetadata()
    call = sess._make_callable_from_options(made)
    assert call(np.float32(2.0), run_metadata=metadata) == [4.0]
    assert metadata.step_stats.dev_stats
    assert call(np.float32(2.0)) == [4.0]
    assert ui.modes == "sep"


def test_a_callable_that_connects_tensors_runs_as_it_is(tf, model):
    made = options(tf, feed=["b:0"], fetch=["first:0"])
    made.tensor_connection.add(from_tensor="doubled/y:0", to_tensor="a:0")
    sess, ui = wrap(model)
    expected = model._make_callable_from_options(made)(np.float32(1.0))
    assert sess._make_callable_from_options(made)(np.float32(1.0)) == expected == [5.0]
    assert "connects tensors" in ui.stops[1].first_screen


def test_a_failing_callable_is_shown_and_raised(tf, model):
    made = options(tf, feed=["scaled:0"], fetch=["checked:0"])
    sess, ui = wrap(model, "run -f has_inf_or_nan")
    call = sess._make_callable_from_options(made)
    with pytest.raises(tf.errors.InvalidArgumentError, match="no logarithm"):
        call(np.float32(-1.0))
    assert ui.stops[-1].initial == "error"
    assert "second:0" in ui.stops[-1].names


def test_callables_are_refused_together_with_fetches(tf, model):
    sess, _ = wrap(model)
    made = options(tf, fetch=["doubled/y:0"])
    with pytest.raises(ValueError, match="callable_options and fetches/feed_dict"):
        sess.run("first:0", callable_options=made)
    with pytest.raises(ValueError, match="callable_runner and callable_options"):
        sess.run(callable_runner=lambda: 1, callable_options=made)


def test_a_runner_of_the_plain_session_gets_options_and_metadata(tf, model):
    sess, _ = wrap(model)
    runner = model.make_callable("doubled:0", ["a:0"], accept_options=True)
    metadata = tf.RunMetadata()
    result = sess.run(
        callable_runner=runner,
        callable_runner_args=(1.0,),
        options=tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE),
        run_metadata=metadata,
    )
    assert result == 2.0
    assert metadata.step_stats.dev_stats


# Fetches and feeds of every kind.

Pair = namedtuple("Pair", "left right")


def test_fetches_and_feeds_of_every_kind(tf):
    with tf.Graph().as_default(), tf.Session() as session:
        sparse = tf.sparse_placeholder(tf.float32, [2, 2], name="sparse")
        ragged = tf.ragged.placeholder(tf.float32, 1, value_shape=[], name="ragged")
        summed = tf.reduce_sum(tf.sparse_tensor_to_dense(sparse), name="summed")
        doubled = ragged * 2.0
        feeds = {
            sparse: tf.SparseTensorValue([[0, 1]], [3.0], [2, 2]),
            ragged: tf.ragged.constant_value([[1.0], [2.0, 3.0]], dtype=np.float32),
        }
        fetches = {
            "pair": Pair(summed, [sparse]),
            "ragged": (doubled,),
            "empty": [],
            "op": summed.op,
        }
        sess, ui = wrap(session)
        plain, debugged = session.run(fetches, feeds), sess.run(fetches, feeds)
    assert type(debugged["pair"]) is Pair
    assert debugged["pair"].left == plain["pair"].left == 3.0
    assert type(debugged["pair"].right[0]) is type(plain["pair"].right[0])
    np.testing.assert_array_equal(debugged["pair"].right[0].values, [3.0])
    assert debugged["ragged"][0].to_list() == plain["ragged"][0].to_list() == [[2.0], [4.0, 6.0]]
    assert debugged["op"] is None
    assert debugged["empty"] == []
    assert "summed:0" in ui.stops[1].names
    assert "sparse/values:0" in ui.stops[1].names
