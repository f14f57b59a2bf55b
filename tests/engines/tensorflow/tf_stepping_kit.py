"""What several modules on the steps of TensorFlow share."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tfdbg_cli.engines.tensorflow.sessions.engine import ENGINE

tf1 = tf.compat.v1


KINDS = pytest.mark.parametrize("resource", [True, False], ids=["resource", "reference"])


X = np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4)


W = np.linspace(-0.5, 0.7, 12, dtype=np.float32).reshape(4, 3)


def stepper_of(session, fetches, feed_dict=None):
    return ENGINE.adapt(session).stepper(fetches, feed_dict, None, None)


def until(stepper, tensor):
    while not stepper.has(tensor):
        stepper.advance()


def to_the_end(stepper):
    while stepper.next is not None:
        stepper.advance()
