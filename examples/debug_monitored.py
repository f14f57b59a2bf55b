"""A linear model in a MonitoredTrainingSession; its learning rate is far too high.

python examples/debug_monitored.py                      # the loss explodes
python -m tfdbg_cli examples/debug_monitored.py         # debug it as it is
python examples/debug_monitored.py --debug              # with a LocalCLIDebugHook
python examples/debug_monitored.py --dump_root DIR      # with a DumpingDebugHook
"""

import argparse
import os

import numpy as np

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import tensorflow.compat.v1 as tf

import tfdbg_cli as tf_debug


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--max_steps", type=int, default=8, metavar="N")
    parser.add_argument("--learning_rate", type=float, default=1e12, metavar="R")
    parser.add_argument("--debug", action="store_true", help="add a LocalCLIDebugHook")
    parser.add_argument("--dump_root", metavar="DIR", help="add a DumpingDebugHook")
    parser.add_argument("--ui_type", default="auto", help="of the debugger")
    return parser.parse_args()


def large_weights(datum, tensor):
    """A filter: weights beyond a million."""
    return datum.node_name.startswith("weights") and bool((abs(tensor) > 1e6).any())


def main():
    options = parse_options()
    tf.logging.set_verbosity(tf.logging.ERROR)
    tf.disable_v2_behavior()

    random = np.random.RandomState(0)
    inputs = random.uniform(-1, 1, [32, 4]).astype(np.float32)
    x = tf.placeholder(tf.float32, [None, 4], name="x")
    weights = tf.get_variable("weights", [4, 1], initializer=tf.zeros_initializer())
    wanted = tf.reduce_sum(x, axis=1, keepdims=True)
    loss = tf.reduce_mean(tf.squared_difference(tf.matmul(x, weights), wanted), name="loss")
    step = tf.train.get_or_create_global_step()
    train = tf.train.GradientDescentOptimizer(options.learning_rate).minimize(loss, step)

    hooks = [tf.train.StopAtStepHook(last_step=options.max_steps)]
    if options.debug:
        hook = tf_debug.LocalCLIDebugHook(ui_type=options.ui_type)
        hook.add_tensor_filter("large_weights", large_weights)
        hooks.append(hook)
    if options.dump_root:
        hooks.append(tf_debug.DumpingDebugHook(options.dump_root))

    with tf.train.MonitoredTrainingSession(hooks=hooks) as session:
        while not session.should_stop():
            reached, _ = session.run([loss, train], feed_dict={x: inputs})
            print(f"loss {reached:.3g}")


if __name__ == "__main__":
    main()
