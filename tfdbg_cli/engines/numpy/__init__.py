"""A small graph framework in the style of TensorFlow 1 that needs NumPy only.

    from tfdbg_cli.engines import numpy as tf

    x = tf.placeholder(tf.float32, [None, 3], name="x")
    y = tf.reduce_sum(tf.square(x))
    with tf.Session() as session:
        print(session.run(y, feed_dict={x: [[1, 2, 3]]}))

It is what `tfdbg_cli.engines.numpy.debugging` debugs, and the engine to copy when adding another
(docs/engines.md). It has the ops that the examples and the tests use.
"""

# ruff: noqa: F403
from __future__ import annotations

from tfdbg_cli.engines.numpy import errors as errors
from tfdbg_cli.engines.numpy.dtypes import bool_ as bool
from tfdbg_cli.engines.numpy.dtypes import float16, float32, float64, int32, int64, string
from tfdbg_cli.engines.numpy.gradients import *
from tfdbg_cli.engines.numpy.graph import *
from tfdbg_cli.engines.numpy.nodes import Operation as Operation
from tfdbg_cli.engines.numpy.nodes import Tensor as Tensor
from tfdbg_cli.engines.numpy.ops import gradient_rules, nn, train
from tfdbg_cli.engines.numpy.ops.array_ops import *
from tfdbg_cli.engines.numpy.ops.constants import *
from tfdbg_cli.engines.numpy.ops.control_flow import *
from tfdbg_cli.engines.numpy.ops.math_ops import *
from tfdbg_cli.engines.numpy.ops.random_ops import *
from tfdbg_cli.engines.numpy.ops.script_ops import *
from tfdbg_cli.engines.numpy.ops.variables import *
from tfdbg_cli.engines.numpy.session import *

#: What is not of one of the modules above.
__all__ = [
    "bool",
    "errors",
    "float16",
    "float32",
    "float64",
    "gradient_rules",
    "int32",
    "int64",
    "nn",
    "string",
    "train",
]
