from __future__ import annotations

import time

import pytest
import tensorflow as tf

import tfdbg_cli
from tfdbg_cli.engines.base import Watch
from tfdbg_cli.engines.tensorflow.sessions import adapter as adapter_module
from tfdbg_cli.engines.tensorflow.sessions.capture.plan import make_plan
from tfdbg_cli.engines.tensorflow.sessions.engine import ENGINE
from tfdbg_cli.engines.tensorflow.sessions.requests import resolve

tf1 = tf.compat.v1


@pytest.fixture
def plans(monkeypatch):
    """One item for each plan that was made."""
    made = []

    def counted(graph, request, *arguments, **options):
        made.append(request)
        return make_plan(graph, request, *arguments, **options)

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


@pytest.mark.parametrize("regex", [".*_ref", "float32_ref", "float32$", "float32", "int32.*"])
def test_the_dtype_of_a_reference_is_told_apart(graph, tmp_path, regex):
    """As in the original, whose own wrapper session is asked too."""
    from tensorflow.python.debug.lib import debug_data
    from tensorflow.python.debug.wrappers import dumping_wrapper, framework

    v = tf1.get_variable("v", initializer=10.0, use_resource=False)
    n = tf1.get_variable("n", initializer=1, use_resource=False)
    inc = tf1.assign_add(v, 1.0, name="inc")
    out = tf.multiply(inc, tf.cast(n, tf.float32, name="cast"), name="out")
    found = []
    config = tf1.ConfigProto()
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    for name, kind, options in (
        ("theirs", dumping_wrapper.DumpingDebugWrapperSession, framework.WatchOptions),
        ("ours", tfdbg_cli.DumpingDebugWrapperSession, tfdbg_cli.WatchOptions),
    ):
        with tf1.Session(config=config) as session:
            session.run(tf1.global_variables_initializer())
            root = tmp_path / name
            chosen = options(tensor_dtype_regex_allowlist=regex)
            kind(session, str(root), watch_fn=lambda *_, chosen=chosen: chosen).run(out)
        (run,) = root.iterdir()
        dump = debug_data.DebugDumpDir(str(run), validate=False)
        found.append({datum.tensor_name for datum in dump.dumped_tensor_data})
    assert found[0] == found[1]
    assert found[0]
    with tf1.Session() as session:
        session.run(tf1.global_variables_initializer())
        watch = Watch(tensor_dtype=f"^(?:{regex})")
        capture = ENGINE.adapt(session).debug_run(out, None, None, None, watch)
    assert set(capture.dump.tensor_names()) == found[0]
