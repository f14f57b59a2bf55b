"""What is called clean makes nothing bad of what is finite, at the ends of each dtype."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework import op_def_registry

from tfdbg_cli.engines.tensorflow.functions.bodies import read_body
from tfdbg_cli.engines.tensorflow.functions.library import find_function
from tfdbg_cli.engines.tensorflow.functions.twins.health import _CLEAN, to_check


def ends(dtype):
    """Numbers at the ends of a dtype."""
    if dtype.is_complex:
        parts = [3e38, -3e38, 1.0, 0.0, 1e30, -100.0, 1e-45]
        return tf.constant([complex(a, b) for a in parts for b in parts], dtype)
    top = float(dtype.max)
    return tf.constant([top, -top, 1e-7, 0.0, -0.0, 1, -1, 100, -100, top / 2], dtype)


def unary():
    """Ops of one tensor, each with what it is called with besides."""
    for name in (*sorted(_CLEAN), "Selu"):
        signature = op_def_registry.get(name)
        if signature is not None and len(signature.input_arg) == 1:
            argument = signature.input_arg[0]
            if not (argument.number_attr or argument.type_list_attr):
                yield name, argument.name, {}
    yield from (("LeakyRelu", "features", {"alpha": alpha}) for alpha in (0.2, 1.0, 3.0))


@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16, tf.float32, tf.float64, tf.complex64])
def test_an_op_that_is_called_clean_is_clean(dtype):
    tried = 0
    for name, argument, more in unary():

        @tf.function(autograph=False)
        def call(x, name=name, argument=argument, more=more):
            return getattr(tf.raw_ops, name)(**{argument: x}, **more)

        try:
            made = call(ends(dtype))
        except (TypeError, ValueError, tf.errors.OpError):
            continue  # it takes more, or other numbers
        function = call.get_concrete_function(ends(dtype))
        body = read_body(function.function_def.signature.name, find_function, {})
        is_looked_at = any(node.op == name for node in body.nodes) and any(
            reference.startswith(name) for reference, _ in to_check(body, False)
        )
        if isinstance(made, tf.Tensor) and (made.dtype.is_floating or made.dtype.is_complex):
            tried += not is_looked_at
            assert is_looked_at or np.isfinite(tf.cast(made, tf.complex128).numpy()).all(), name
    assert tried > 4
