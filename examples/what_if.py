"""What if the softmax had been clipped? The NaN of debug_mnist.py, repaired while it happens.

    python examples/what_if.py                     # the loss becomes nan
    python examples/what_if.py --repair            # a trace block clips the softmax, and it doesn't
    python -m tfdbg_cli examples/what_if.py        # the same by hand, without a line of code:

        tfdbg> run -f                              # it is run #3; exit --end, and start again
        tfdbg> s -t 3                              # step through that one
        tfdbg> b -f has_inf_or_nan                 # up to what would read the first bad tensor
        tfdbg> cont
        tfdbg> override Softmax:0 np.clip(`Softmax:0`, 1e-8, 1)
        tfdbg> cont cross_entropy/Mean             # the loss is finite
        tfdbg> diff                                # what the override has changed so far
        tfdbg> exit                                # the step is made with it, and kept

The model is that of debug_mnist.py, with the NumPy engine or with TensorFlow (--engine tensorflow).
"""

import argparse

import numpy as np
from debug_mnist import build_model, load_digits, load_framework

import tfdbg_cli

LOSS = "cross_entropy/Mean:0"


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--engine", choices=["numpy", "tensorflow"], default="numpy")
    parser.add_argument("--repair", action="store_true", help="clip the softmax in each step")
    parser.add_argument("--max-steps", type=int, default=20, metavar="N")
    parser.add_argument("--learning-rate", type=float, default=0.1, metavar="R")
    parser.add_argument("--hidden-units", type=int, default=1000, metavar="N")
    parser.add_argument("--batch-size", type=int, default=100, metavar="N")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    options.stable = False
    return options


def plain_step(sess, fetches, feed):
    """The step as it is."""
    return sess.run(fetches, feed_dict=feed)[1]


def repaired_step(sess, fetches, feed):
    """The same step, in which nothing is less probable than 1e-8."""
    with tfdbg_cli.trace(sess, fetches=fetches, feed_dict=feed) as t:
        probabilities = t["Softmax:0"].value  # waits until the run has computed it
        t["Softmax:0"].value = np.clip(probabilities, 1e-8, 1)  # the rest of the run sees this
        smallest = float(probabilities.min())
    if smallest == 0:
        print("    a probability was 0: clipped")
    return t.result[1]


def main():
    options = parse_options()
    tf = load_framework(options.engine)
    tf.set_random_seed(options.seed)
    (images, labels), test = load_digits()
    x, y_, train_step, accuracy = build_model(tf, options)
    shuffle = np.random.RandomState(options.seed)
    step = repaired_step if options.repair else plain_step
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for number in range(options.max_steps):
            batch = shuffle.randint(len(images), size=options.batch_size)
            feed = {x: images[batch], y_: labels[batch]}
            print(f"Loss at step {number}: {step(sess, [train_step, LOSS], feed):.4f}")
        reached = sess.run(accuracy, feed_dict=dict(zip((x, y_), test, strict=True)))
        print(f"Accuracy: {reached:.4f}")


if __name__ == "__main__":
    main()
