"""A program with many runs that prints as it goes, SECONDS (its argument) between them."""

import sys
import time

from tfdbg_cli.engines import numpy as tf


def main() -> None:
    pause = float(sys.argv[1]) if len(sys.argv) > 1 else 0.005
    x = tf.placeholder(tf.float32, [2], name="x")
    y = tf.multiply(x, 2.0, name="y")
    with tf.Session() as session:
        for step in range(100_000):
            session.run(y, {x: [step, 1.0]})
            print(f"step {step} of the program", flush=True)
            time.sleep(pause)


if __name__ == "__main__":
    main()
