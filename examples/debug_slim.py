"""Training and evaluation by tf_slim, whose loops hide the session.

    python examples/debug_slim.py                           # train and evaluate
    python -m tfdbg_cli examples/debug_slim.py              # debug it as it is
    python examples/debug_slim.py --debug                   # session_wrapper= and hooks=
    python examples/debug_slim.py --dump_root DIR           # write the tensors of all runs

Needs tf_slim. Its supervisor counts steps in a thread of its own, which isn't debugged.
"""

import argparse
import os
import tempfile

import numpy as np

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import tensorflow.compat.v1 as tf
import tf_slim

import tfdbg_cli as tf_debug

THREADS = "MainThread$"


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--max_steps", type=int, default=4, metavar="N")
    parser.add_argument("--debug", action="store_true", help="stop in training and evaluation")
    parser.add_argument("--dump_root", metavar="DIR", help="write the tensors there")
    parser.add_argument("--ui_type", default="auto", help="of the debugger")
    return parser.parse_args()


def model():
    """A linear model's predictions and what they should be."""
    inputs = tf.constant(np.random.RandomState(0).uniform(size=[16, 4]).astype(np.float32))
    wanted = tf.reduce_sum(inputs, axis=1, keepdims=True)
    return tf_slim.fully_connected(inputs, 1, activation_fn=None, scope="linear"), wanted


def wrapper(options):
    """What tf_slim is to make of its session, if anything."""
    if options.debug:
        return lambda sess: tf_debug.LocalCLIDebugWrapperSession(
            sess, ui_type=options.ui_type, thread_name_filter=THREADS
        )
    if options.dump_root:
        root = os.path.join(options.dump_root, "train")
        return lambda sess: tf_debug.DumpingDebugWrapperSession(
            sess, root, thread_name_filter=THREADS
        )
    return None


def hooks(options):
    """The hooks of the evaluation."""
    if options.debug:
        return [tf_debug.LocalCLIDebugHook(ui_type=options.ui_type)]
    if options.dump_root:
        return [tf_debug.DumpingDebugHook(os.path.join(options.dump_root, "evaluate"))]
    return []


def train(options, folder):
    with tf.Graph().as_default():
        tf.set_random_seed(1)
        given, wanted = model()
        tf.losses.mean_squared_error(wanted, given)
        step = tf_slim.learning.create_train_op(
            tf.losses.get_total_loss(), tf.train.GradientDescentOptimizer(0.1)
        )
        loss = tf_slim.learning.train(
            step, folder, number_of_steps=options.max_steps, session_wrapper=wrapper(options)
        )
    print(f"Training ended with a loss of {loss:.4f}")


def evaluate(options, folder):
    with tf.Graph().as_default():
        given, wanted = model()
        error, update = tf.metrics.mean_squared_error(wanted, given)
        found = tf_slim.evaluation.evaluate_once(
            "",
            tf.train.latest_checkpoint(folder),
            os.path.join(folder, "evaluation"),
            num_evals=2,
            eval_op=update,
            final_op=error,
            hooks=hooks(options),
        )
    print(f"The mean squared error is {found:.4f}")


def main():
    options = parse_options()
    tf.logging.set_verbosity(tf.logging.ERROR)
    tf.disable_v2_behavior()
    with tempfile.TemporaryDirectory() as folder:
        train(options, folder)
        evaluate(options, folder)


if __name__ == "__main__":
    main()
