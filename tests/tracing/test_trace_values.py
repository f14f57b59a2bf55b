"""What a block reads and changes, and what becomes of the run."""

# ruff: noqa: PT012 - what raises is the whole block

import numpy as np
import pytest
from trace_kit import W, X, total_of

import tfdbg_cli
from tfdbg_cli.common.errors import UserError
from tfdbg_cli.dumps.open import open_dump
from tfdbg_cli.engines import numpy as tf
from tfdbg_cli.tracing.errors import TraceError

Y = X @ W


def test_a_value_is_read_changed_and_seen_by_the_rest(model):
    with tfdbg_cli.trace(model.sess, fetches=model.total, feed_dict=model.feed) as t:
        h = t["h:0"].value
        t["h:0"].value = np.clip(h, 0, 2)
        worst = float(h.max())
        clipped = t["h"].value
    np.testing.assert_array_equal(h, Y)
    np.testing.assert_array_equal(clipped, np.clip(Y, 0, 2))
    assert worst == 8.0
    assert t.result == total_of(np.clip(Y, 0, 2))


def test_a_block_that_changes_nothing_leaves_the_run_as_it_is():
    def results(traced):
        with tf.Graph().as_default():
            x = tf.placeholder(tf.float32, [None, 3], name="x")
            w = tf.Variable(tf.truncated_normal([3, 2]), name="w")
            y = tf.matmul(x, w) * tf.cast(tf.random_uniform([5, 2]) < 0.5, tf.float32)
            loss = tf.reduce_mean(y * y, name="loss")
            step = tf.train.AdamOptimizer(0.1).minimize(loss)
            total = tf.while_loop(lambda i, a: i < 4, lambda i, a: (i + 1, a * 2.0), [0, loss])[1]
            sess = tf.Session(seed=3)
            sess.run(tf.global_variables_initializer())
            feed = {x: np.random.default_rng(0).normal(size=(5, 3))}
            found = []
            for _ in range(4):
                if traced:
                    with tfdbg_cli.trace(sess, [step, loss, total], feed) as t:
                        _ = t["loss"].value
                    found.append(t.result[1:])
                else:
                    found.append(sess.run([step, loss, total], feed)[1:])
            return found, sess.run(w)

    plain, traced = results(False), results(True)
    assert np.array(plain[0]).tobytes() == np.array(traced[0]).tobytes()
    assert plain[1].tobytes() == traced[1].tobytes()


def test_tensors_go_by_name_or_by_the_framework_s_object(model):
    with tfdbg_cli.trace(model.sess, model.total, model.feed) as t:
        by_object = t[model.y].value
        handle = t["h"]
        first, second = handle.value, t["h:0"].value
    assert handle.name == "h:0"
    np.testing.assert_array_equal(by_object, Y)
    assert first is second
    with pytest.raises(TraceError, match="knows tensors by name; this is a int"):
        t[3]


def test_the_run_goes_no_further_than_it_is_asked(model):
    with tfdbg_cli.trace(model.sess, model.step, model.feed) as t:
        _ = t["h"].value
        done = [datum.node_name for datum in t.dump.data()]
        following = t.step.node
        weights = model.weights()
    assert "h" in done
    assert "square" not in done
    assert following == "square"
    np.testing.assert_array_equal(weights, W)
    np.testing.assert_array_equal(model.weights(), W - 0.5)
    assert t.step is None
    assert [name for name in t.names if name in {"x", "h", "total", "step"}] == [
        "x",
        "h",
        "total",
        "step",
    ]


def test_the_result_in_the_block_is_that_of_the_whole_run(model):
    with tfdbg_cli.trace(model.sess, [model.total, model.step], model.feed) as t:
        result = t.result
        weights = model.weights()
    assert result[0] == total_of(Y)
    np.testing.assert_array_equal(weights, W - 0.5)
    assert t.result is result


def test_stop_leaves_the_block_and_updates_nothing_more(model):
    after = []
    with tfdbg_cli.trace(model.sess, model.step, model.feed) as t:
        h = t["h"].value
        t.stop()
        after.append("reached")
    assert not after
    np.testing.assert_array_equal(h, Y)
    np.testing.assert_array_equal(model.weights(), W)
    with pytest.raises(TraceError, match=r"ended by t\.stop\(\): it has no result"):
        _ = t.result
    with pytest.raises(TraceError, match=r"ended by t\.stop\(\): total:0 was not read"):
        _ = t["total"].value


def test_a_value_that_was_passed_is_an_error_that_shows_the_order(model):
    with (
        pytest.raises(tfdbg_cli.OutOfOrderError) as caught,
        tfdbg_cli.trace(model.sess, model.total, model.feed) as t,
    ):
        _ = t["total"].value
        _ = t["y"].value
    message = str(caught.value)
    assert "y:0 was computed before total" in message
    assert "y  <--- asked for" in message
    assert "total  <--- done last" in message
    assert message.index("asked for") < message.index("h\n") < message.index("done last")
    assert "keep=True" in message
    assert isinstance(caught.value, UserError)


def test_kept_values_may_be_read_in_any_order_and_afterwards(model):
    with tfdbg_cli.trace(model.sess, model.total, model.feed, keep=True) as t:
        total = t["total"].value
        y = t["y"].value
    assert total == total_of(Y)
    np.testing.assert_array_equal(y, Y)
    np.testing.assert_array_equal(t["square"].value, np.square(Y))


def test_after_the_run_only_what_was_read_is_there(model):
    with tfdbg_cli.trace(model.sess, model.total, model.feed) as t:
        h = t["h"].value
    assert t["h"].value is h
    with pytest.raises(TraceError, match="The run is over: y:0 was not read before"):
        _ = t["y"].value
    with pytest.raises(TraceError, match="The run is over: h:0 can't be changed"):
        t["h"].value = h


def test_a_change_of_what_was_used_is_an_error_even_if_all_is_kept(model):
    with (
        pytest.raises(tfdbg_cli.OutOfOrderError, match="y:0 can't be changed") as caught,
        tfdbg_cli.trace(model.sess, model.total, model.feed, keep=True) as t,
    ):
        _ = t["square"].value
        t["y"].value = Y
    assert "h  <--- has used it" in str(caught.value)


def test_changes_may_be_made_ahead_in_any_order(model):
    with tfdbg_cli.trace(model.sess, model.total, model.feed) as t:
        t["square"].value = np.full((2, 2), 5, np.float32)
        t["y"].value = np.full((2, 2), 3, np.float32)
        h = t["h"].value
    np.testing.assert_array_equal(h, np.full((2, 2), 3))
    assert t.result == 20


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("hh", "There is no tensor hh:0. Did you mean h:0"),
        ("h:3", "h has no output 3. It has h:0"),
        ("step", "step:0 is in the graph, but this run doesn't compute it. Add it to the fetches"),
    ],
)
def test_unknown_names_are_errors_that_say_what_there_is(model, name, message):
    with (
        pytest.raises(TraceError) as caught,
        tfdbg_cli.trace(model.sess, model.total, model.feed) as t,
    ):
        _ = t[name].value
    assert message in str(caught.value)


def test_what_is_inside_a_loop_is_said_to_be():
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [], name="x")

        def body(i, a):
            return i + 1, tf.multiply(a, 2.0, name="twice")

        out = tf.while_loop(lambda i, a: i < 3, body, [0, x])[1]
        sess = tf.Session()
        inner = next(op.name for op in sess.graph.get_operations() if op.name.endswith("twice"))
        with tfdbg_cli.trace(sess, out, {x: 1.0}, keep=True) as t:
            last = t[inner].value
        assert t.result == 8
        assert last == 8


def test_an_unfit_value_is_refused_at_its_line(model):
    with (
        pytest.raises(UserError),
        tfdbg_cli.trace(model.sess, model.total, model.feed) as t,
    ):
        t["h"].value = "no number"


def test_gradients_of_a_graph_have_names_of_their_own(model):
    with (
        pytest.raises(UserError, match=r"numpy engine has no \.grad"),
        tfdbg_cli.trace(model.sess, model.total, model.feed) as t,
    ):
        _ = t["h"].grad


def test_the_error_of_a_run_is_raised_at_the_line_that_led_to_it(model):
    bad = tf.matmul(model.h, tf.placeholder(tf.float32, [None, None], name="z"), name="bad")
    z = model.sess.graph.as_graph_element("z:0")
    feed = {**model.feed, z: np.ones((3, 3))}
    with pytest.raises(tf.errors.OpError) as plain:
        model.sess.run(bad, feed)
    with (
        pytest.raises(type(plain.value)) as caught,
        tfdbg_cli.trace(model.sess, bad, feed) as t,
    ):
        _ = t["bad"].value
    assert str(caught.value) == str(plain.value)
    with pytest.raises(type(plain.value)), tfdbg_cli.trace(model.sess, bad, feed) as t:
        pass


def test_a_bad_op_can_be_mended_and_tried_again(model):
    z = tf.placeholder(tf.float32, [None, None], name="z")
    bad = tf.matmul(model.h, z, name="bad")
    with tfdbg_cli.trace(model.sess, bad, {**model.feed, z: np.ones((3, 3))}) as t:
        try:
            _ = t["bad"].value
        except tf.errors.OpError:
            t["z"].value = np.zeros((2, 3), np.float32)
            failed = True
    assert failed
    np.testing.assert_array_equal(t.result, np.zeros((2, 3)))


def test_what_was_computed_so_far_is_saved_and_opened(model, tmp_path):
    with tfdbg_cli.trace(model.sess, model.total, model.feed) as t:
        t["h"].value = Y + 1
        _ = t["square"].value
        t.save(tmp_path / "dump")
    dump = open_dump(str(tmp_path / "dump"))
    assert [datum.tensor_name for datum in dump.data()][-1] == "square:0"
    np.testing.assert_array_equal(dump.value(dump.by_tensor("h:0")[0]), Y + 1)
    assert list(dump.run_info().fetches) == ["total:0"]


def test_a_wrapped_session_is_traced_past_its_debugger(model):
    class Wrapper(tfdbg_cli.BaseDebugWrapperSession):
        def on_session_init(self, request):
            return tfdbg_cli.OnSessionInitResponse(tfdbg_cli.OnSessionInitAction.PROCEED)

        def on_run_start(self, request):
            raise AssertionError("the debugger stopped")

        on_run_end = on_run_start

    with tfdbg_cli.trace(Wrapper(model.sess), model.total, model.feed) as t:
        t["h"].value = np.zeros((2, 2))
    assert t.result == 0


def test_what_has_no_runs_is_refused(model):
    with pytest.raises(TypeError, match="Expected a session, a module or a function"):
        tfdbg_cli.trace(3)
    with pytest.raises(TypeError, match="not another fetch"):
        tfdbg_cli.trace(model.sess, fetch=model.total)
    with pytest.raises(TraceError, match="has no fetches"), tfdbg_cli.trace(model.sess) as t:
        _ = t
    t = tfdbg_cli.trace(model.sess, model.total, model.feed)
    with pytest.raises(TraceError, match="has not begun"):
        _ = t["h"].value


def test_an_output_that_a_node_has_not(model):
    for reads in (["h:9"], ["h", "h:9"], ["square", "h:9"]):
        with (
            pytest.raises(TraceError, match=r"h has no output 9\. It has h:0\."),
            tfdbg_cli.trace(model.sess, model.total, model.feed) as t,
        ):
            for name in reads:
                _ = t[name].value


def test_an_unknown_name_shows_where_the_run_is(model):
    with (
        pytest.raises(TraceError, match="There is no tensor nothing:0") as caught,
        tfdbg_cli.trace(model.sess, model.total, model.feed) as t,
    ):
        _ = t["y"].value
        _ = t["nothing"].value
    assert "h  <--- next" in str(caught.value)
