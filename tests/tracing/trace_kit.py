"""What the tests of trace blocks share."""

import numpy as np

from tfdbg_cli.engines import numpy as tf

X = np.array([[1.0, 2.0], [3.0, 4.0]], np.float32)
W = np.array([[1.0, 0.0], [0.0, 2.0]], np.float32)

#: The beginning of programs that are run as text.
PROGRAM = """\
import numpy as np
import tfdbg_cli
from tfdbg_cli.engines import numpy as tf
x = tf.placeholder(tf.float32, [None, 2], name="x")
y = tf.multiply(x, 2.0, name="y")
total = tf.reduce_sum(y, name="total")
sess = tf.Session()
feed = {x: [[1.0, 2.0]]}
"""


class Model:
    """``total = sum(relu(x @ w) ** 2)`` and a step that takes 0.5 from ``w``."""

    def __init__(self):
        self.x = tf.placeholder(tf.float32, [None, 2], name="x")
        self.w = tf.Variable(W, name="w")
        self.y = tf.matmul(self.x, self.w, name="y")
        self.h = tf.nn.relu(self.y, name="h")
        self.square = tf.multiply(self.h, self.h, name="square")
        self.total = tf.reduce_sum(self.square, name="total")
        with tf.control_dependencies([self.total]):
            self.step = tf.assign_sub(self.w, np.full((2, 2), 0.5, np.float32), name="step")
        self.sess = tf.Session(seed=7)
        self.sess.run(tf.global_variables_initializer())
        self.feed = {self.x: X}

    def weights(self):
        return self.sess.run(self.w)


def total_of(h):
    return float(np.sum(np.square(h)))
