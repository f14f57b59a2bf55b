from __future__ import annotations

import threading

import numpy as np
import pytest
import tensorflow as tf
from floats_kit import assert_close

from tfdbg_cli.engines.base import Watch
from tfdbg_cli.engines.tensorflow.sessions.engine import ENGINE

tf1 = tf.compat.v1

RNG = np.random.default_rng(3)
X = RNG.normal(size=(6, 8)).astype(np.float32)
Y = np.eye(3, dtype=np.float32)[[0, 1, 2, 0, 1, 2]]


def debug(session, fetches, feed_dict=None, options=None, run_metadata=None, **watch):
    capture = ENGINE.adapt(session).debug_run(
        fetches, feed_dict, options, run_metadata, Watch(**watch)
    )
    assert capture.error is None
    assert capture.dump.warnings == []
    return capture


def values(dump):
    return {datum.tensor_name: datum.get_tensor() for datum in dump.data()}


def test_every_intermediate_is_listed_under_the_users_name(classifier):
    with tf1.Session() as session:
        session.run(classifier.init)
        dump = debug(session, classifier.loss, {classifier.x: X, classifier.y: Y}).dump
    names = dump.tensor_names()
    for name in (
        "input/x-input:0",
        "hidden/Wx_plus_b/MatMul:0",
        "hidden/Wx_plus_b/add:0",
        "hidden/Relu:0",
        "Softmax:0",
        "cross_entropy/Log:0",
        "cross_entropy/Mean:0",
    ):
        assert name in names
    assert len(names) == len(set(names)) == len(dump.data())
    assert not [name for name in names if "_Mkl" in name or name.startswith(("_", "__"))]


def test_values_are_those_that_fetching_gives(classifier):
    feed = {classifier.x: X, classifier.y: Y}
    with tf1.Session() as session:
        session.run(classifier.init)
        listed = values(debug(session, classifier.loss, feed).dump)
        names = [name for name in listed if "input" not in name]
        for name, expected in zip(names, session.run(names, feed), strict=True):
            assert_close(listed[name], expected, terms=8)
    np.testing.assert_array_equal(listed["input/x-input:0"], X)


def test_a_producer_comes_before_its_consumers(classifier):
    with tf1.Session() as session:
        session.run(classifier.init)
        feed = {classifier.x: X, classifier.y: Y}
        dump = debug(session, [classifier.train, classifier.loss], feed).dump
    at = {datum.node_name: i for i, datum in enumerate(dump.data())}
    stamps = [datum.timestamp for datum in dump.data()]
    assert stamps == sorted(set(stamps))
    graph = dump.graph()
    for name, place in at.items():
        for edge in graph.inputs(name):
            assert at.get(edge.node, -1) < place


def test_the_first_bad_tensor_comes_first(classifier):
    with tf1.Session() as session:
        session.run(classifier.init)
        feed = {classifier.x: X * 1e4, classifier.y: Y}
        dump = debug(session, [classifier.loss, classifier.train], feed).dump
    bad = [
        datum.tensor_name
        for datum in dump.data()
        if datum.dtype.startswith("float") and not np.isfinite(datum.get_tensor()).all()
    ]
    assert bad[0] == "cross_entropy/Log:0"


def test_training_is_the_same_with_and_without_the_debugger(classifier):
    feed = {classifier.x: X, classifier.y: Y}
    variables = tf1.global_variables()
    with tf1.Session() as plain, tf1.Session() as debugged:
        adapter = ENGINE.adapt(debugged)
        plain.run(classifier.init)
        adapter.debug_run(classifier.init, None, None, None, Watch())
        for _ in range(5):
            expected = plain.run([classifier.loss, classifier.train], feed)
            capture = adapter.debug_run(
                [classifier.loss, classifier.train], feed, None, None, Watch()
            )
            assert capture.value[1] is None and expected[1] is None
            np.testing.assert_allclose(capture.value[0], expected[0], rtol=1e-5)
        for one, other in zip(plain.run(variables), debugged.run(variables), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


def test_random_streams_and_integer_updates_are_bit_equal(graph):
    tf1.set_random_seed(7)
    noise = tf1.random_uniform([5])
    more = tf1.random_normal([3], seed=11)
    count = tf1.get_variable("count", initializer=0)
    step = tf1.assign_add(count, 3)
    total = tf.identity(step) * 10 + tf.cast(noise[0] * 1000, tf.int32)
    init = tf1.global_variables_initializer()
    with tf1.Session() as plain, tf1.Session() as debugged:
        adapter = ENGINE.adapt(debugged)
        plain.run(init)
        debugged.run(init)
        for turn in range(6):
            fetches = {"noise": noise, "all": [more, total]}
            expected = plain.run(fetches)
            if turn % 3 == 2:  # undebugged runs in between go on with the same streams
                got = debugged.run(fetches)
            else:
                got = adapter.debug_run(fetches, None, None, None, Watch()).value
            np.testing.assert_array_equal(got["noise"], expected["noise"])
            np.testing.assert_array_equal(got["all"][0], expected["all"][0])
            assert got["all"][1] == expected["all"][1]
        assert plain.run(count) == debugged.run(count) == 18


def test_stateful_operations_run_exactly_once(graph):
    calls = []

    def note(value):
        calls.append(1)
        return value

    queue = tf1.FIFOQueue(10, [tf.int32], shapes=[[]])
    fill = queue.enqueue_many([list(range(10))])
    item = queue.dequeue()
    noted = tf1.py_func(note, [item], tf.int32, stateful=True)
    total = noted + 1
    with tf1.Session() as session:
        debug(session, fill)
        assert [debug(session, total).value for _ in range(4)] == [1, 2, 3, 4]
        assert len(calls) == 4
        assert session.run(queue.size()) == 6


def test_watch_filters_are_found_anywhere_in_the_name(classifier):
    feed = {classifier.x: X, classifier.y: Y}
    with tf1.Session() as session:
        session.run(classifier.init)
        names = debug(session, classifier.loss, feed, node_name="Wx_plus").dump.tensor_names()
        assert names and all("Wx_plus" in name for name in names)
        types = debug(session, classifier.loss, feed, op_type="^(Relu|MatMul)$").dump
        assert types.tensor_names() == [
            "hidden/Wx_plus_b/MatMul:0",
            "hidden/Relu:0",
            "logits/Wx_plus_b/MatMul:0",
        ]
        integers = debug(session, classifier.loss, feed, tensor_dtype="int").dump
        assert {datum.dtype for datum in integers.data()} == {"int32"}
        both = debug(session, classifier.loss, feed, node_name="Relu", tensor_dtype="int").dump
        assert both.data() == []


def test_feeds_are_kept_as_they_were(graph):
    x = tf1.placeholder(tf.float64, [3], name="x")
    y = x * 2
    given = np.array([1.0, 2.0, 3.0])
    with tf1.Session() as session:
        capture = debug(session, [x, y], {x: given})
        got = values(capture.dump)
        given[:] = -1
        capture.value[1][:] = -1
        np.testing.assert_array_equal(got["x:0"], [1, 2, 3])
        np.testing.assert_array_equal(got["mul:0"], [2, 4, 6])
        listed = values(debug(session, y, {x: [1, 2, 3]}).dump)
    assert listed["x:0"].dtype == np.float64


def test_what_is_cut_off_by_a_feed_is_not_computed(graph):
    queue = tf1.FIFOQueue(3, [tf.float32], shapes=[[]])
    item = queue.dequeue(name="item")  # would wait for ever
    out = item + 1
    with tf1.Session() as session:
        capture = debug(session, out, {item: 4.0})
    assert capture.value == 5.0
    assert values(capture.dump)["item:0"] == 4.0


def test_composite_feeds_and_fetches(graph):
    sparse = tf1.sparse_placeholder(tf.float32, name="sp")
    dense = tf.sparse.to_dense(sparse) * 2
    given = tf1.SparseTensorValue([[0, 1], [1, 0]], [3.0, 4.0], [2, 2])
    ragged = tf1.ragged.placeholder(tf.int32, 1, name="rag")
    total = tf.reduce_sum(ragged)
    lists = tf1.ragged.constant_value([[1, 2], [3]], dtype=np.int32)
    with tf1.Session() as session:
        adapter = ENGINE.adapt(session)
        feed = {sparse: given, ragged: lists}
        capture = debug(session, {"a": dense, "b": (sparse, total)}, feed)
        np.testing.assert_array_equal(capture.value["a"], [[0, 6], [8, 0]])
        assert isinstance(capture.value["b"][0], tf1.SparseTensorValue)
        assert capture.value["b"][1] == 6
        assert set(adapter.feeds(feed)) == {"sp", "rag"}
        assert adapter.feeds(feed)["sp"] is given
    np.testing.assert_array_equal(values(capture.dump)["sp/values:0"], [3, 4])


def test_names_of_fetches_and_feeds(graph):
    x = tf1.placeholder(tf.float32, [], name="x")
    pair = (tf1.placeholder(tf.int32, [], name="p"), tf1.placeholder(tf.int32, [], name="q"))
    v = tf1.get_variable("v", initializer=1.0)
    op = tf.group(x, name="all")
    slices = tf.IndexedSlices(tf.constant([1.0], name="val"), tf.constant([0], name="ind"))
    with tf1.Session() as session:
        adapter = ENGINE.adapt(session)
        assert adapter.fetch_names(["x:0", {"b": (x, op)}, v]) == ["x:0", "x:0", "all", "v:0"]
        assert adapter.fetch_names(slices) == ["val:0", "ind:0"]
        assert adapter.fetch_names("all") == ["all"]
        assert adapter.fetch_names([None, 3]) == ["None", "3"]
        assert adapter.feeds({pair: (1, 2), "x:0": 5}) == {"p:0": 1, "q:0": 2, "x:0": 5}
        assert adapter.feeds(None) == {}
        assert list(adapter.feeds({3: 1, x: 2}).values()) == [1, 2]
        assert adapter.is_empty([[], {}]) and not adapter.is_empty([x])


def test_options_of_the_caller_are_left_alone_and_metadata_is_filled(old_control_flow, graph):
    loop = tf1.while_loop(lambda i: i < 3, lambda i: i + 1, [0])
    options = tf1.RunOptions(trace_level=tf1.RunOptions.FULL_TRACE, output_partition_graphs=True)
    before = options.SerializeToString()
    metadata = tf1.RunMetadata()
    with tf1.Session() as session:
        capture = debug(session, loop, None, options, metadata)
    assert capture.value == 3
    assert options.SerializeToString() == before
    assert capture.run_metadata is metadata
    assert metadata.step_stats.dev_stats and metadata.partition_graphs


def test_profile_run_measures_and_leaves_the_callers_options_alone(graph):
    y = tf.matmul(tf.ones([8, 8]), tf.ones([8, 8])) + tf1.random_uniform([])
    options = tf1.RunOptions()
    metadata = tf1.RunMetadata()
    with tf1.Session() as session:
        capture = ENGINE.adapt(session).profile_run(y, None, options, metadata)
    assert capture.value.shape == (8, 8)
    assert capture.run_metadata.step_stats.dev_stats
    assert not metadata.step_stats.dev_stats and not options.trace_level


def test_two_threads_at_once(old_control_flow, graph):
    x = tf1.placeholder(tf.int32, [], name="x")
    out = tf1.while_loop(lambda i: i < x, lambda i: i + 1, [0])
    wrong = []
    with tf1.Session() as session:
        adapter = ENGINE.adapt(session)

        def work(limit):
            for _ in range(10):
                capture = adapter.debug_run(out, {x: limit}, None, None, Watch())
                adds = [d for d in capture.dump.data() if d.node_name.endswith("/add")]
                if capture.value != limit or len(adds) != limit:
                    wrong.append((limit, capture.value, len(adds)))

        threads = [threading.Thread(target=work, args=(n,)) for n in (2, 5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert wrong == []


def test_memory_is_given_back(classifier):
    resource = pytest.importorskip("resource")

    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * resource.getpagesize()

    big = tf.reduce_sum(tf.ones([400, 1000]) * classifier.x[0, 0])  # 1.6 MB an intermediate
    feed = {classifier.x: X, classifier.y: Y}
    with tf1.Session() as session:
        session.run(classifier.init)
        adapter = ENGINE.adapt(session)
        fetches = [classifier.loss, classifier.train, big]
        for _ in range(20):
            adapter.debug_run(fetches, feed, None, None, Watch())
        before = resident()
        for _ in range(200):
            adapter.debug_run(fetches, feed, None, None, Watch())
        assert resident() - before < 30e6


def test_native_dumps_go_where_the_watch_says(graph, tmp_path):
    x = tf1.placeholder(tf.float32, [3], name="x")
    out = tf.cumsum(tf.math.log(x, name="log"), name="sum")
    watch = Watch(debug_urls=(f"file://{tmp_path}",))
    with tf1.Session() as session:
        capture = ENGINE.adapt(session).debug_run(out, {x: [1.0, 1.0, 1.0]}, None, None, watch)
    assert capture.error is None
    assert capture.value.tolist() == [0.0, 0.0, 0.0]
    (folder,) = tmp_path.glob("_tfdbg_device_*")
    names = {path.name.rpartition("_")[0] for path in folder.iterdir()}
    assert {"log_0_DebugIdentity", "sum_0_DebugIdentity", "_arg_x_0_0_0_DebugIdentity"} <= names


def test_other_debug_ops_are_computed_by_the_runtime(graph):
    x = tf1.placeholder(tf.float32, [3], name="x")
    out = tf.cumsum(tf.math.log(x, name="log"), name="sum")
    watch = Watch(debug_ops=("DebugNanCount",), node_name="log|sum", op_type="Log")
    with tf1.Session() as session:
        dump = ENGINE.adapt(session).debug_run(out, {x: [1.0, -1.0, -2.0]}, None, None, watch).dump
    (datum,) = dump.data()
    assert datum.watch_key == "log:0:DebugNanCount"
    assert datum.get_tensor().tolist() == [2]


def _with_several_outputs(make):
    """The ops whose outputs but the first nobody reads, of constants or of what is fed."""
    x, i = make(RNG.random((4, 6), np.float32)), make(RNG.integers(0, 5, 8, np.int32))
    square, image = make(RNG.random((3, 3), np.float32)), make(RNG.random((2, 3, 3, 2), np.float32))
    ones, raw = make(np.ones(2, np.float32)), tf.raw_ops
    yield raw.Split(axis=0, value=x, num_split=2)
    yield raw.SplitV(value=x, size_splits=[1, 3], axis=0, num_split=2)
    yield raw.Unpack(value=x, num=4)
    yield raw.Unique(x=i)
    yield raw.UniqueWithCounts(x=i)
    yield raw.TopKV2(input=x, k=2)
    yield raw.Svd(input=square)
    yield raw.Qr(input=square)
    yield raw.SelfAdjointEigV2(input=square)
    yield raw.LogMatrixDeterminant(input=square)
    yield raw.Lu(input=square)
    yield raw.SparseSoftmaxCrossEntropyWithLogits(features=x, labels=i[:4])
    yield raw.SoftmaxCrossEntropyWithLogits(features=x, labels=x)
    yield raw.MaxPoolWithArgmax(
        input=image, ksize=[1, 2, 2, 1], strides=[1, 1, 1, 1], padding="SAME"
    )
    yield raw.ListDiff(x=i, y=i[:2])
    yield raw.DynamicPartition(data=i, partitions=i % 2, num_partitions=2)
    yield raw.IdentityN(input=[x, i])
    yield raw.ShapeN(input=[x, square])
    given = {"x": image, "scale": ones, "offset": ones, "mean": ones, "variance": ones}
    fixed = {name: tf.constant(np.ones(2, np.float32)) for name in [*given][1:]}
    for is_training in (True, False):
        for each in (given, given | fixed):
            empty = tf.constant(np.zeros(0, np.float32)) if is_training else each["mean"]
            inputs = each | {"mean": empty, "variance": empty}
            for op in (raw.FusedBatchNorm, raw.FusedBatchNormV2, raw.FusedBatchNormV3):
                yield op(**inputs, is_training=is_training)


@pytest.mark.parametrize("is_fed", [True, False])
def test_outputs_that_nobody_reads_fail_no_run(is_fed):
    feeds = {}

    def make(array):
        if not is_fed:
            return tf.constant(array)
        tensor = tf1.placeholder(array.dtype, array.shape)
        feeds[tensor] = array
        return tensor

    with tf.Graph().as_default():
        for made in _with_several_outputs(make):
            first = made[0]
            end = tf.identity(first)
            with tf1.Session() as session:
                plain = session.run(end, feeds)
                capture = debug(session, end, feeds)
            assert_close(capture.value, plain, terms=8)
            assert first.name in capture.dump.tensor_names()
