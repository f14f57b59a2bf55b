"""Real TensorFlow sessions in graph mode, debugged and plain side by side."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from tf2_kit import both, server

__all__ = ["both", "server"]

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

if importlib.util.find_spec("tensorflow") is None:
    collect_ignore_glob = ["test_*.py"]
else:
    import tensorflow as tf

    tf1 = tf.compat.v1


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = os.path.dirname(__file__)
    for item in items:
        if str(item.path).startswith(here):
            item.add_marker(pytest.mark.tensorflow)


@pytest.fixture
def graph() -> Iterator[Any]:
    """A graph that is the default while the test runs."""
    with tf.Graph().as_default() as made:
        yield made


@pytest.fixture
def old_control_flow() -> Iterator[None]:
    """Loops and conds made of Switch, Merge and frames."""
    tf1.disable_control_flow_v2()
    yield
    tf1.enable_control_flow_v2()


@pytest.fixture(params=[True, False], ids=["resource", "reference"])
def classifier(graph: Any, request: pytest.FixtureRequest) -> SimpleNamespace:
    """A two-layer softmax classifier with Adam, with the node names of the original's guide.

    Once with variables as resources, as TensorFlow 2 has them, and once by reference.
    """
    with tf1.name_scope("input"):
        x = tf1.placeholder(tf.float32, [None, 8], name="x-input")
        y = tf1.placeholder(tf.float32, [None, 3], name="y-input")

    def layer(before: Any, inputs: int, units: int, name: str, act: Any) -> Any:
        with tf1.name_scope(name):
            start = tf.random.stateless_normal([inputs, units], seed=[units, 1])
            kind = {"use_resource": request.param}
            weights = tf1.get_variable(name + "_weights", initializer=start, **kind)
            biases = tf1.get_variable(name + "_biases", initializer=tf.zeros([units]), **kind)
            with tf1.name_scope("Wx_plus_b"):
                summed = tf.matmul(before, weights) + biases
            return act(summed)

    hidden = layer(x, 8, 5, "hidden", tf.nn.relu)
    softmax = tf.nn.softmax(layer(hidden, 5, 3, "logits", tf.identity), name="Softmax")
    with tf1.name_scope("cross_entropy"):
        loss = tf.reduce_mean(-(y * tf.math.log(softmax)))
    with tf1.name_scope("train"):
        train = tf1.train.AdamOptimizer(0.05).minimize(loss)
    return SimpleNamespace(
        graph=graph,
        x=x,
        y=y,
        softmax=softmax,
        loss=loss,
        train=train,
        init=tf1.global_variables_initializer(),
    )
