"""A small graph framework in the style of TensorFlow 1 that needs NumPy only.

    from tfdbg_cli.engines import numpy as tf

    x = tf.placeholder(tf.float32, [None, 3], name="x")
    y = tf.reduce_sum(tf.square(x))
    with tf.Session() as session:
        print(session.run(y, feed_dict={x: [[1, 2, 3]]}))

It is what `tfdbg_cli.engines.numpy.debugging` debugs, and the engine to copy when adding another
(docs/engines.md). It has the ops that the examples and the tests use.
"""

from __future__ import annotations

from tfdbg_cli.engines.numpy import errors as errors
from tfdbg_cli.engines.numpy.dtypes import bool_
from tfdbg_cli.engines.numpy.dtypes import float16 as float16
from tfdbg_cli.engines.numpy.dtypes import float32 as float32
from tfdbg_cli.engines.numpy.dtypes import float64 as float64
from tfdbg_cli.engines.numpy.dtypes import int32 as int32
from tfdbg_cli.engines.numpy.dtypes import int64 as int64
from tfdbg_cli.engines.numpy.dtypes import string as string
from tfdbg_cli.engines.numpy.graph import Graph as Graph
from tfdbg_cli.engines.numpy.graph import control_dependencies as control_dependencies
from tfdbg_cli.engines.numpy.graph import get_default_graph as get_default_graph
from tfdbg_cli.engines.numpy.graph import name_scope as name_scope
from tfdbg_cli.engines.numpy.graph import reset_default_graph as reset_default_graph
from tfdbg_cli.engines.numpy.ops import nn as nn
from tfdbg_cli.engines.numpy.ops import train as train
from tfdbg_cli.engines.numpy.ops.array_ops import constant as constant
from tfdbg_cli.engines.numpy.ops.array_ops import identity as identity
from tfdbg_cli.engines.numpy.ops.array_ops import ones as ones
from tfdbg_cli.engines.numpy.ops.array_ops import placeholder as placeholder
from tfdbg_cli.engines.numpy.ops.array_ops import reshape as reshape
from tfdbg_cli.engines.numpy.ops.array_ops import transpose as transpose
from tfdbg_cli.engines.numpy.ops.array_ops import unique as unique
from tfdbg_cli.engines.numpy.ops.array_ops import where as where
from tfdbg_cli.engines.numpy.ops.array_ops import zeros as zeros
from tfdbg_cli.engines.numpy.ops.control_flow import while_loop as while_loop
from tfdbg_cli.engines.numpy.ops.math_ops import *  # noqa: F403
from tfdbg_cli.engines.numpy.ops.train import gradients as gradients
from tfdbg_cli.engines.numpy.ops.variables import Variable as Variable
from tfdbg_cli.engines.numpy.ops.variables import assign as assign
from tfdbg_cli.engines.numpy.ops.variables import assign_add as assign_add
from tfdbg_cli.engines.numpy.ops.variables import assign_sub as assign_sub
from tfdbg_cli.engines.numpy.ops.variables import global_variables as global_variables
from tfdbg_cli.engines.numpy.ops.variables import (
    global_variables_initializer as global_variables_initializer,
)
from tfdbg_cli.engines.numpy.ops.variables import group as group
from tfdbg_cli.engines.numpy.ops.variables import trainable_variables as trainable_variables
from tfdbg_cli.engines.numpy.session import Session as Session
from tfdbg_cli.engines.numpy.session import get_default_session as get_default_session

bool = bool_
