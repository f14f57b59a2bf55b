"""The Fibonacci sequence in half precision: a loop that overflows to infinity on its way.

    python examples/debug_fibonacci.py                      # the golden ratio comes out as nan
    python -m tfdbg_cli examples/debug_fibonacci.py         # find out where it was lost
    python examples/debug_fibonacci.py --debug              # the same with the wrapper session

Each pass of the loop dumps its tensors anew: `lt -f has_inf_or_nan` names the first bad pass.
"""

import argparse
import os


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


def build_graph(tf, length):
    """The ratio of the last two of ``length`` Fibonacci numbers."""

    def next_pass(index, previous, current):
        # The bug: beyond 65504 a float16 is infinite, and that is number 25 already.
        following = tf.add(previous, current, name="following")
        return index + 1, current, following

    with tf.name_scope("fibonacci"):
        _, previous, current = tf.while_loop(
            lambda index, previous, current: tf.less(index, length),
            next_pass,
            [
                tf.constant(2),
                tf.constant(1.0, tf.float16, name="first"),
                tf.constant(1.0, tf.float16, name="second"),
            ],
        )
    return tf.divide(current, previous, name="golden_ratio")


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--engine", choices=["numpy", "tensorflow"], default="numpy")
    parser.add_argument("--length", type=int, default=30, metavar="N")
    parser.add_argument("--debug", action="store_true", help="wrap the session by hand")
    parser.add_argument("--ui_type", default="auto", help="of the debugger")
    return parser.parse_args()


def main():
    options = parse_options()
    tf = load_framework(options.engine)
    ratio = build_graph(tf, options.length)
    sess = tf.Session()
    if options.debug:
        import tfdbg_cli as tf_debug

        sess = tf_debug.LocalCLIDebugWrapperSession(sess, ui_type=options.ui_type)
    print(f"The golden ratio is about {sess.run(ratio):.4f}")
    sess.close()


if __name__ == "__main__":
    main()
