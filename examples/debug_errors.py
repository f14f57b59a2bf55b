"""Runs that fail: the debugger stops with the op that failed, its inputs and its line.

    python examples/debug_errors.py --error shape_mismatch
    python -m tfdbg_cli examples/debug_errors.py --error uninitialized_variable
    python examples/debug_errors.py --error shape_mismatch --debug   # the wrapper session

When the stop at the error is left, the program gets the error that it would have got anyway.
"""

import argparse
import os
import sys

import numpy as np


def load_framework(engine):
    """The module that the graph is built with: TensorFlow 1's names, whichever it is."""
    if engine == "numpy":
        from tfdbg_cli.engines import numpy as tf

        return tf
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    import tensorflow.compat.v1 as tf

    tf.logging.set_verbosity(tf.logging.ERROR)
    tf.disable_v2_behavior()
    return tf


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--engine", choices=["numpy", "tensorflow"], default="numpy")
    parser.add_argument(
        "--error",
        choices=["shape_mismatch", "uninitialized_variable", "no_error"],
        default="shape_mismatch",
    )
    parser.add_argument("--debug", action="store_true", help="wrap the session by hand")
    parser.add_argument("--ui_type", default="auto", help="of the debugger")
    return parser.parse_args()


def main():
    options = parse_options()
    tf = load_framework(options.engine)

    x = tf.placeholder(tf.float32, [None, None], name="ph_float")
    y = tf.transpose(x, name="y")
    z = tf.matmul(x, y + 1.0, name="m")
    v = tf.Variable(np.ones([2, 2], dtype=np.float32), name="v")
    w = tf.matmul(x, v, name="w")

    sess = tf.Session()
    if options.debug:
        import tfdbg_cli as tf_debug

        sess = tf_debug.LocalCLIDebugWrapperSession(sess, ui_type=options.ui_type)

    try:
        if options.error == "shape_mismatch":
            sess.run(tf.global_variables_initializer())
            sess.run(w, feed_dict={x: np.ones([2, 3], dtype=np.float32)})
        elif options.error == "uninitialized_variable":
            sess.run(w, feed_dict={x: np.ones([2, 2], dtype=np.float32)})
        else:
            print("Result:", sess.run(z, feed_dict={x: np.eye(2, dtype=np.float32)}).sum())
    except tf.errors.OpError as error:
        print(f"The run failed with {type(error).__name__}.", file=sys.stderr)
        sys.exit(3)
    finally:
        sess.close()


if __name__ == "__main__":
    main()
