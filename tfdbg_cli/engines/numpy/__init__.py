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

from tfdbg_cli.engines.numpy import errors
from tfdbg_cli.engines.numpy.dtypes import bool_ as bool
from tfdbg_cli.engines.numpy.dtypes import float16, float32, float64, int32, int64, string
from tfdbg_cli.engines.numpy.gradients import gradients
from tfdbg_cli.engines.numpy.graph import (
    Graph,
    control_dependencies,
    get_default_graph,
    name_scope,
    reset_default_graph,
)
from tfdbg_cli.engines.numpy.nodes import Operation, Tensor
from tfdbg_cli.engines.numpy.ops import nn, train
from tfdbg_cli.engines.numpy.ops.array_ops import identity, reshape, transpose, unique, where
from tfdbg_cli.engines.numpy.ops.constants import constant, ones, placeholder, zeros
from tfdbg_cli.engines.numpy.ops.control_flow import while_loop
from tfdbg_cli.engines.numpy.ops.math_ops import (
    add,
    argmax,
    cast,
    check_numerics,
    divide,
    equal,
    exp,
    floordiv,
    greater,
    less,
    log,
    matmul,
    multiply,
    negative,
    reduce_mean,
    reduce_sum,
    sqrt,
    square,
    subtract,
    tanh,
)
from tfdbg_cli.engines.numpy.ops.random_ops import (
    random_uniform,
    set_random_seed,
    truncated_normal,
)
from tfdbg_cli.engines.numpy.ops.variables import (
    Variable,
    assign,
    assign_add,
    assign_sub,
    global_variables,
    global_variables_initializer,
    group,
    trainable_variables,
)
from tfdbg_cli.engines.numpy.session import Session, get_default_session

__all__ = [
    "Graph",
    "Operation",
    "Session",
    "Tensor",
    "Variable",
    "add",
    "argmax",
    "assign",
    "assign_add",
    "assign_sub",
    "bool",
    "cast",
    "check_numerics",
    "constant",
    "control_dependencies",
    "divide",
    "equal",
    "errors",
    "exp",
    "float16",
    "float32",
    "float64",
    "floordiv",
    "get_default_graph",
    "get_default_session",
    "global_variables",
    "global_variables_initializer",
    "gradients",
    "greater",
    "group",
    "identity",
    "int32",
    "int64",
    "less",
    "log",
    "matmul",
    "multiply",
    "name_scope",
    "negative",
    "nn",
    "ones",
    "placeholder",
    "random_uniform",
    "reduce_mean",
    "reduce_sum",
    "reset_default_graph",
    "reshape",
    "set_random_seed",
    "sqrt",
    "square",
    "string",
    "subtract",
    "tanh",
    "train",
    "trainable_variables",
    "transpose",
    "truncated_normal",
    "unique",
    "where",
    "while_loop",
    "zeros",
]
