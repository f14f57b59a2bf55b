from __future__ import annotations

import time

import pytest
import tensorflow as tf

from tfdbg_cli.engines.base import Watch
from tfdbg_cli.engines.tensorflow import adapter as adapter_module
from tfdbg_cli.engines.tensorflow.engine import ENGINE
from tfdbg_cli.engines.tensorflow.plan import make_plan
from tfdbg_cli.engines.tensorflow.requests import resolve

tf1 = tf.compat.v1


@pytest.fixture
def plans(monkeypatch):
    """One item for each plan that was made."""
    made = []

    def counted(graph, request, watch, inline_calls=False):
        made.append(request)
        return make_plan(graph, request, watch, inline_calls)

    monkeypatch.setattr(adapter_module, "make_plan", counted)
    return made


def test_a_plan_is_made_once_for_equal_requests(graph, plans):
    x = tf1.placeholder(tf.float32, [], name="x")
    y, z = tf.add(x, 1.0, name="y"), tf.add(x, 2.0, name="z")
    with tf1.Session() as session:
        adapter = ENGINE.adapt(session)

        def run(fetches, feed, **watch):
            return adapter.debug_run(fetches, feed, None, None, Watch(**watch))

        for value in range(3):
            run(y, {x: value})
        run("y:0", {"x:0": 1})
        assert len(plans) == 1
        run(z, {x: 1})
        run([y, z], {x: 1})
        run(y, {x: 1}, node_name="y")
        run(y, {y: 1})
        assert len(plans) == 5
        tf.constant(1.0)  # the graph has grown
        run(y, {x: 1})
        assert len(plans) == 6


def big(count):
    with tf.Graph().as_default() as graph:
        for i in range(count // 100):
            at = tf.constant(1.0, name=f"start_{i}")
            for _ in range(99):
                at = tf.raw_ops.Neg(x=at)
            tf.identity(at, name=f"end_{i}")
    return graph


def test_a_large_graph_is_planned_quickly_and_only_as_far_as_it_runs(plans):
    graph = big(20_000)
    everything = [f"end_{i}:0" for i in range(200)]
    request = resolve(graph, everything, None)
    start = time.process_time()
    plan = make_plan(graph, request, Watch())
    assert time.process_time() - start < 30  # squared, it would be minutes
    assert len(plan.ops) == 20_200
    small = make_plan(graph, resolve(graph, "end_7:0", None), Watch())
    assert len(small.ops) == 101
    with tf1.Session(graph=graph) as session:
        adapter = ENGINE.adapt(session)
        for _ in range(3):
            dump = adapter.debug_run("end_7:0", None, None, None, Watch()).dump
            assert len(dump.data()) == 101
        assert len(plans) == 1
        assert adapter._graph_view()._nodes == []  # nobody has looked at the graph


def test_a_deep_chain_needs_no_recursion(graph):
    at = tf.constant(1.0)
    for _ in range(3_000):
        at = tf.raw_ops.Neg(x=at)
    plan = make_plan(graph, resolve(graph, at, None), Watch())
    assert len(plan.ops) == 3_001
    assert [entry.position for entry in plan.entries] == sorted(e.position for e in plan.entries)
