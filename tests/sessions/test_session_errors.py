"""Runs of TensorFlow that fail in every way: the screen first, then the same exception."""

import importlib.util
import threading

import numpy as np
import pytest
from samples import sample
from session_kit import wrap

pytestmark = [
    pytest.mark.tensorflow,
    pytest.mark.skipif(importlib.util.find_spec("tensorflow") is None, reason="needs TensorFlow"),
]
HERE = __file__


@pytest.fixture
def tf():
    import tensorflow.compat.v1 as tf

    with tf.Graph().as_default():
        yield tf


def shape_mismatch(tf):
    x = tf.placeholder(tf.float32, [None, None], name="x")
    before = tf.square(x, name="before")
    return tf.matmul(before, tf.ones([3, 2]), name="failing"), {x: np.ones([4, 5])}


def uninitialized(tf):
    x = tf.placeholder(tf.float32, [2], name="x")
    with tf.variable_scope("scope"):
        v = tf.get_variable("v", initializer=[1.0, 2.0], use_resource=True)
    with tf.name_scope("failing"):
        read = v.read_value()
    return tf.add(tf.square(x, name="before"), read, name="out"), {x: [1.0, 2.0]}


def placement(tf):
    x = tf.placeholder(tf.float32, [2], name="x")
    before = tf.square(x, name="before")
    with tf.device("/device:GPU:7"):
        return tf.negative(before, name="failing"), {x: [1.0, 2.0]}


def end_of_data(tf):
    item = tf.data.make_one_shot_iterator(tf.data.Dataset.range(0)).get_next(name="failing")
    return tf.add(item, 1, name="out"), None


def closed_queue(tf):
    queue = tf.FIFOQueue(2, [tf.float32], name="queue")
    close = queue.close(cancel_pending_enqueues=True)
    with tf.control_dependencies([close]):
        return queue.enqueue(1.0, name="failing"), None


KINDS = {
    shape_mismatch: ("InvalidArgumentError", {"x:0", "before:0"}),
    uninitialized: ("FailedPreconditionError", {"x:0", "before:0"}),
    placement: ("InvalidArgumentError", set()),
    end_of_data: ("OutOfRangeError", set()),
    closed_queue: ("CancelledError", set()),
}


@pytest.mark.parametrize(
    "command", [*sample(["run", "run -f never", "run -t 5", "run -n", "run -p"], 2)]
)
@pytest.mark.parametrize("build", [*sample(KINDS, 2)], ids=lambda build: build.__name__)
def test_every_kind_of_error_under_every_command(tf, build, command):
    kind, before = KINDS[build]
    fetches, feeds = build(tf)
    with tf.Session() as session, pytest.raises(getattr(tf.errors, kind)) as plain:
        session.run(fetches, feeds)
    with tf.Session() as session:
        sess, ui = wrap(session, command)
        sess.add_tensor_filter("never", lambda datum, tensor: False)
        with pytest.raises(getattr(tf.errors, kind)) as raised:
            sess.run(fetches, feeds)
    assert type(raised.value) is type(plain.value)
    assert raised.value.error_code == plain.value.error_code
    assert len(ui.modes) == 2
    stop = ui.stops[1]
    assert (stop.initial, stop.role) == ("error", "error")
    screen = stop.first_screen
    assert f"Error type: {kind}" in screen
    (name,) = [text.split()[-1] for text in screen.splitlines() if text.startswith("Op name:")]
    assert name.startswith("failing")
    for way in (f"ni -a -d -t {name}", f"li -r {name}", f"ps {HERE} -b "):
        (command_line,) = [
            span.link.command
            for line in stop.service.run("error").document
            for span in line.spans
            if span.link and span.link.command.startswith(way)
        ]
        assert not stop.service.run(command_line).failed
    if command in ("run", "run -f never"):
        assert before <= set(stop.names)


def test_a_run_that_is_cancelled_from_another_thread(tf):
    queue = tf.FIFOQueue(2, [tf.float32], name="queue")
    taken = tf.add(queue.dequeue(name="taken"), tf.square(2.0, name="before"))
    close = queue.close()
    with tf.Session() as session:
        sess, ui = wrap(session)
        timer = threading.Timer(0.3, session.run, [close])
        timer.start()
        with pytest.raises(tf.errors.OutOfRangeError):
            sess.run(taken)
        timer.join()
    assert ui.stops[1].initial == "error"
    assert "Op name:    taken" in ui.stops[1].first_screen


def test_an_error_in_a_callable(tf):
    fetches, feeds = shape_mismatch(tf)
    with tf.Session() as session:
        sess, ui = wrap(session)
        call = sess.make_callable(fetches, list(feeds))
        with pytest.raises(tf.errors.InvalidArgumentError):
            call(*feeds.values())
    assert ui.stops[1].initial == "error"
    assert "before:0" in ui.stops[1].names


def test_options_and_metadata_are_what_they_would_have_been(tf):
    x = tf.placeholder(tf.float32, [2], name="x")
    y = tf.math.log(tf.square(x), name="y")
    options = tf.RunOptions(
        trace_level=tf.RunOptions.FULL_TRACE, output_partition_graphs=True, timeout_in_ms=60_000
    )
    before = options.SerializeToString()
    with tf.Session() as session:
        sess, _ = wrap(session)
        for given in (options, None):
            plain, debugged = tf.RunMetadata(), tf.RunMetadata()
            session.run(y, {x: [1.0, 2.0]}, given, plain)
            sess.run(y, {x: [1.0, 2.0]}, given, debugged)
            assert bool(debugged.step_stats.dev_stats) == bool(plain.step_stats.dev_stats)
            assert len(debugged.partition_graphs) == len(plain.partition_graphs)
            assert not [
                node.name
                for graph in debugged.partition_graphs
                for node in graph.node
                if node.name.startswith(("__dbg_", "__copy_"))
            ]
    assert options.SerializeToString() == before
