"""A TensorFlow program under TensorFlow's own dumping wrapper: ``tf_program.py SESSION_ROOT``."""

import sys

import tensorflow as tf
from tensorflow.python.debug.wrappers.dumping_wrapper import DumpingDebugWrapperSession

v1 = tf.compat.v1
CASTS = [
    "float64",
    "float16",
    "bfloat16",
    "float8_e5m2",
    "float8_e4m3fn",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "complex64",
    "complex128",
    "bool",
]


def build():
    x = v1.placeholder(tf.float32, [None, 2], name="input/x")
    text = v1.placeholder(tf.string, [3], name="text")
    with tf.device("/device:CPU:0"):
        relu = tf.nn.relu(x * 2.0, name="hidden/Relu")
        fetches = [tf.cast(relu, dtype, name=f"cast_{dtype}") for dtype in CASTS]
        fetches.append(tf.strings.join([text, ["", "", "z"]], name="joined"))
        fetches.append(tf.boolean_mask(relu, tf.less(x[:, 0], -100.0), name="empty"))
        ref = v1.get_variable("refvar", initializer=[1.0, 2.0], use_resource=False)
        unset = v1.get_variable("uninit", initializer=[1.0, 2.0], use_resource=False)
        fetches.append(v1.is_variable_initialized(unset).op)
        res = v1.get_variable("resvar", initializer=[3.0, 4.0], use_resource=True)
        fetches += [res.read_value(), v1.assign_add(ref, [1.0, 1.0], name="update")]
        fetches += list(tf.quantization.quantize(relu, 0.0, 10.0, tf.quint8, name="quant"))
        fetches += tf.split(relu, 2, axis=1, name="halves")[1:]
        fetches.append(tf.math.log(x, name="log"))
    with tf.device("/device:CPU:1"):
        there = tf.exp(relu, name="on_cpu1")
    with tf.device("/device:CPU:0"):
        fetches.append(tf.add(there, 1.0, name="back"))
    with tf.control_dependencies([relu]):
        fetches.append(tf.identity(x, name="after"))
    loop = v1.while_loop(
        lambda i: tf.less(i, 5), lambda i: tf.add(i, 1, name="body"), [tf.constant(0)], name="wl"
    )
    fetches.append(loop)
    return fetches, {x: [[1.0, 2.0], [3.0, -4.0]], text: [b"abc", b"", b"\xff\x00"]}, [ref, res]


def main(session_root):
    v1.disable_v2_behavior()
    with tf.Graph().as_default() as graph:
        fetches, feeds, variables = build()
    config = v1.ConfigProto(device_count={"CPU": 2})
    with v1.Session(graph=graph, config=config) as session:
        session.run([variable.initializer for variable in variables])
        wrapped = DumpingDebugWrapperSession(session, session_root)
        for _ in range(3):
            wrapped.run(fetches, feeds)


if __name__ == "__main__":
    main(sys.argv[1])
