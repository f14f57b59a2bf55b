from __future__ import annotations

import numpy as np
import tensorflow as tf

from tfdbg_cli.engines.base import Watch
from tfdbg_cli.engines.tensorflow.sessions.engine import ENGINE

tf1 = tf.compat.v1


def listed(fetches, feed_dict=None):
    with tf1.Session() as session:
        capture = ENGINE.adapt(session).debug_run(fetches, feed_dict, None, None, Watch())
    assert capture.error is None and not capture.dump.warnings
    return {datum.tensor_name: datum for datum in capture.dump.data()}


def test_strings(graph):
    x = tf1.placeholder(tf.string, [None], name="x")
    joined = tf.strings.join([x, tf.constant("!")], name="joined")
    scalar = tf.strings.reduce_join(joined)
    data = listed(scalar, {x: ["a", "bc"]})
    assert data["x:0"].dtype == data["joined:0"].dtype == "string"
    assert data["joined:0"].get_tensor().tolist() == [b"a!", b"bc!"]
    assert data[scalar.name].get_tensor().item() == b"a!bc!"
    assert data[scalar.name].shape == ()


def test_small_floats(graph):
    x = tf1.placeholder(tf.float32, [3], name="x")
    brain = tf.cast(x, tf.bfloat16, name="brain")
    tiny = tf.cast(x, tf.dtypes.experimental.float8_e5m2, name="tiny")
    out = tf.cast(brain, tf.float32) + tf.cast(tiny, tf.float32)
    data = listed(out, {x: [1.0, np.nan, np.inf]})
    assert data["brain:0"].dtype == "bfloat16"
    assert data["tiny:0"].dtype == "float8_e5m2"
    for name in ("brain:0", "tiny:0"):
        value = data[name].get_tensor().astype(np.float32)
        np.testing.assert_array_equal(value, [1, np.nan, np.inf])


def test_the_other_types(graph):
    x = tf1.placeholder(tf.float32, [2], name="x")
    tensors = {
        "half": tf.cast(x, tf.float16, name="half"),
        "whole": tf.cast(x, tf.int64, name="whole"),
        "truth": tf.greater(x, 1.0, name="truth"),
        "imaginary": tf.complex(x, -x, name="imaginary"),
        "bytes": tf.cast(x, tf.uint8, name="bytes"),
        "empty": tf.zeros([0, 3], name="empty"),
        "quantized": tf.quantization.quantize(x, 0.0, 4.0, tf.quint8, name="quantized")[0],
    }
    copies = [tf.identity(tensor) for tensor in tensors.values()]
    data = listed(copies, {x: [1.0, 2.0]})
    assert data["half:0"].dtype == "float16"
    assert data["whole:0"].get_tensor().tolist() == [1, 2]
    assert data["truth:0"].dtype == "bool"
    assert data["imaginary:0"].get_tensor().tolist() == [1 - 1j, 2 - 2j]
    assert data["bytes:0"].dtype == "uint8"
    assert data["empty:0"].shape == (0, 3)
    assert data["quantized:0"].get_tensor().dtype == np.uint8


def test_constants_and_handles(graph):
    c = tf.constant(np.arange(6).reshape(2, 3), name="c")
    v = tf1.get_variable("v", initializer=1.0)
    handles = tf.raw_ops.TensorListReserve(
        element_shape=tf.constant([], tf.int32), num_elements=3, element_dtype=tf.float32
    )
    length = tf.raw_ops.TensorListLength(input_handle=handles)
    with tf1.Session() as session:
        session.run(v.initializer)
        adapter = ENGINE.adapt(session)
        fetches = [c + 1, v + 1.0, length]
        dumps = [adapter.debug_run(fetches, None, None, None, Watch()).dump for _ in range(2)]
    (datum,) = dumps[0].by_tensor("c:0")
    assert datum.get_tensor().tolist() == [[0, 1, 2], [3, 4, 5]]
    # Decoded once, for all runs.
    assert dumps[1].by_tensor("c:0")[0].get_tensor() is datum.get_tensor()
    assert not [name for name in dumps[0].tensor_names() if name in ("v:0", handles.name)]


def test_values_in_loops_have_the_same_types(old_control_flow, graph):
    x = tf1.placeholder(tf.float32, [2], name="x")

    def body(i, text, brain):
        return i + 1, tf.strings.join([text, "x"]), brain * tf.cast(x, tf.bfloat16)

    start = (0, tf.constant(""), tf.ones([2], tf.bfloat16))
    loop = tf1.while_loop(lambda i, *_: i < 2, body, start, name="wl")
    with tf1.Session() as session:
        capture = ENGINE.adapt(session).debug_run(loop, {x: [2.0, np.nan]}, None, None, Watch())
    texts = [d.get_tensor().item() for d in capture.dump.by_tensor("wl/StringJoin:0")]
    assert texts == [b"x", b"xx"]
    brains = capture.dump.by_tensor("wl/mul:0")
    assert [d.dtype for d in brains] == ["bfloat16", "bfloat16"]
    assert brains[1].get_tensor().astype(np.float32)[0] == 4.0
