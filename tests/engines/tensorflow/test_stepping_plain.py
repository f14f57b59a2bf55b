"""A stepped run of TensorFlow, without overrides, is the plain run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from program_server import Programs, environment

from tfdbg_cli.common.errors import UserError
from tfdbg_cli.engines.base import CannotStep, Watch
from tfdbg_cli.engines.tensorflow.sessions.adapter import TensorFlowAdapter
from tfdbg_cli.engines.tensorflow.sessions.engine import ENGINE

tf1 = tf.compat.v1

ROOT = Path(__file__).resolve().parents[3]
BATCH = np.linspace(-1, 1, 24, dtype=np.float32).reshape(2, 3, 4)


def plainly(session, fetches, feed_dict):
    return session.run(fetches, feed_dict), None


def debugged(session, fetches, feed_dict):
    capture = ENGINE.adapt(session).debug_run(fetches, feed_dict, None, None, Watch())
    return capture.value, capture.dump


def exactly(session, fetches, feed_dict):
    adapter = TensorFlowAdapter(session, is_exact=lambda: True)
    capture = adapter.debug_run(fetches, feed_dict, None, None, Watch())
    assert capture.dump.data()
    return capture.value, None


def step_through(session, fetches, feed_dict):
    stepper = ENGINE.adapt(session).stepper(fetches, feed_dict, None, None)
    while stepper.next is not None:
        stepper.advance()
    capture = stepper.finish()
    assert capture.error is None
    return capture.value, capture.dump


def shown(dump):
    found = {}
    for datum in dump.data():
        found.setdefault(datum.tensor_name, []).append(datum.get_tensor())
    return found


def both_ways(build, steps=3):
    """Train plain, stepped, and debugged with ``exact``: results, variables, random numbers.

    Besides, the stepper shows what the debugged run shows.
    """
    seen, dumps = [], []
    for way in (plainly, step_through, debugged, exactly):
        with tf.Graph().as_default() as graph:
            tf1.set_random_seed(7)
            fetches, feeds = build()
            following = tf.random.uniform([3], name="following")
            init = tf1.global_variables_initializer()
            version = graph.version
            with tf1.Session() as session:
                session.run(init)
                runs = [way(session, fetches, feeds) for _ in range(steps)]
                results = [value for value, _ in runs]
                results.append(session.run([following, tf1.global_variables()]))
            assert graph.version == version
            seen.append(results)
            dumps.append(runs[-1][1])
    plain, stepped, _, exact = map(tf.nest.flatten, seen)
    for results in (stepped, exact):
        for expected, found in zip(plain, results, strict=True):
            assert type(found) is type(expected)
            np.testing.assert_array_equal(found, expected)
    tensors, expected = shown(dumps[1]), shown(dumps[2])
    # Inside of functions the optimizer folds constants.
    missing = [name for name in expected if name not in tensors and "/body/" not in name]
    assert missing == [] and dumps[1].warnings == []
    for name in expected.keys() & tensors.keys():
        values = expected[name]
        for value, found in zip(values, tensors[name], strict=True):
            if isinstance(value, np.ndarray) and value.dtype.kind == "f":
                np.testing.assert_allclose(found, value, rtol=1e-3, atol=1e-4, err_msg=name)


def trained(loss, optimizer=None):
    optimizer = optimizer or tf1.train.AdamOptimizer(0.05)
    updates = tf1.get_collection(tf1.GraphKeys.UPDATE_OPS)
    with tf.control_dependencies(updates):
        return optimizer.minimize(loss)


def variable(name, shape, resource=True):
    start = tf.random.stateless_normal(shape, seed=[len(name), shape[0]])
    return tf1.get_variable(name, initializer=start, use_resource=resource)


def normalized(x, name, resource):
    """Batch normalization whose moving averages are updated on the way."""
    size = x.shape[-1]
    kind = {"trainable": False, "use_resource": resource}
    mean = tf1.get_variable(f"{name}_mean", initializer=tf.zeros([size]), **kind)
    var = tf1.get_variable(f"{name}_var", initializer=tf.ones([size]), **kind)
    batch_mean, batch_var = tf.nn.moments(x, [0])
    for kept, new in ((mean, batch_mean), (var, batch_var)):
        update = tf1.assign_sub(kept, 0.1 * (kept - new))
        tf1.add_to_collection(tf1.GraphKeys.UPDATE_OPS, update)
    return tf.nn.batch_normalization(x, batch_mean, batch_var, None, None, 1e-3)


@pytest.mark.parametrize("resource", [True, False], ids=["resource", "reference"])
def test_dropout_batch_normalization_and_adam(resource):
    def build():
        x = tf1.placeholder(tf.float32, [None, 4])
        w = variable("w", [4, 3], resource)
        hidden = normalized(tf.nn.dropout(tf.matmul(x, w), rate=0.5), "norm", resource)
        loss = tf.reduce_mean(tf.square(tf.nn.softmax(hidden)))
        # TensorFlow itself orders no read of a resource variable that is merely fetched.
        read = w.read_value() if resource else w
        with tf.control_dependencies([read] if resource else []):
            train = trained(loss)
        return {"loss": loss, "train": train, "both": (read, hidden)}, {x: BATCH[0]}

    both_ways(build)


def test_a_recurrent_network_with_old_control_flow(old_control_flow):
    def build():
        x = tf1.placeholder(tf.float32, [2, 3, 4])
        w = variable("w", [4 + 5, 5], resource=False)
        xs = tf.TensorArray(tf.float32, 3).unstack(tf.transpose(x, [1, 0, 2]))

        def body(i, state, states):
            noise = tf.random.uniform([2, 5])
            new = tf.tanh(tf.concat([xs.read(i), state], 1) @ w) * noise
            return i + 1, new, states.write(i, new)

        start = (0, tf.zeros([2, 5]), tf.TensorArray(tf.float32, 3))
        # One iteration at a time: the numbers are drawn in a fixed order.
        loop = tf1.while_loop(lambda i, *_: i < 3, body, start, parallel_iterations=1)
        out = loop[2].stack()
        loss = tf.reduce_sum(tf.square(out))
        return [loss, out, trained(loss, tf1.train.MomentumOptimizer(0.1, 0.9))], {x: BATCH}

    both_ways(build)


def test_a_recurrent_network_with_new_control_flow(graph):
    def build():
        x = tf1.placeholder(tf.float32, [2, 3, 4])
        w = variable("w", [4 + 5, 5])

        def body(i, state):
            noise = tf.random.uniform([2, 5])
            return i + 1, tf.tanh(tf.concat([x[:, i], state], 1) @ w) * noise

        start = (0, tf.zeros([2, 5]))
        state = tf.while_loop(lambda i, _: i < 3, body, start, parallel_iterations=1)[1]
        picked = tf.cond(tf.reduce_sum(state) > 0, lambda: state * 2, lambda: tf.square(state))
        loss = tf.reduce_sum(tf.square(picked))
        return [loss, trained(loss)], {x: BATCH}

    both_ways(build)


def test_a_transformer_block():
    def build():
        x = tf1.placeholder(tf.float32, [2, 3, 4])
        q, k, v = (tf.tensordot(x, variable(name, [4, 4]), 1) for name in ("q", "kk", "vvv"))
        scores = tf.nn.softmax(tf.matmul(q, k, transpose_b=True) / 2.0)
        mixed = x + tf.nn.dropout(tf.matmul(scores, v), rate=0.3)
        mean, var = tf.nn.moments(mixed, [-1], keepdims=True)
        flat = (mixed - mean) * tf1.rsqrt(var + 1e-5)
        deep = flat + tf.tensordot(
            tf.nn.gelu(tf.tensordot(flat, variable("up", [4, 8]), 1)), variable("down", [8, 4]), 1
        )
        loss = tf.reduce_mean(tf.square(deep - x))
        return [loss, trained(loss)], {x: BATCH}

    both_ways(build)


def test_a_shuffled_data_set_and_a_random_generator():
    def build():
        data = tf1.data.Dataset.range(20).shuffle(20, seed=1).batch(3)
        batch = tf1.data.make_one_shot_iterator(data).get_next()
        return [batch, tf.random.shuffle(batch), tf.strings.as_string(batch)], None

    both_ways(build)


def test_a_python_function_is_called_once(graph):
    calls = []

    def double(x):
        calls.append(x)
        return x * 2

    x = tf1.placeholder(tf.float32, [2], name="x")
    out = tf1.py_func(double, [x], tf.float32, name="double")
    with tf1.Session() as session:
        stepper = ENGINE.adapt(session).stepper(out + 1.0, {x: [1, 2]}, None, None)
        assert any("double" in caveat for caveat in stepper.caveats)
        while stepper.next is not None:
            stepper.advance()
        for _ in range(3):
            stepper.back()
        assert stepper.finish().value.tolist() == [3, 5]
    assert len(calls) == 1


MNIST = """
import argparse, sys
import numpy as np
sys.path.insert(0, "examples")
import debug_mnist as mnist
from tfdbg_cli.engines.base import Watch
from tfdbg_cli.engines.tensorflow.sessions.engine import ENGINE

tf = mnist.load_framework("tensorflow")
options = argparse.Namespace(hidden_units=500, stable=False, learning_rate=0.1)
images, labels = mnist.load_digits()[0]

def train(run, steps):
    with tf.Graph().as_default():
        tf.set_random_seed(1)
        x, y, step, accuracy = mnist.build_model(tf, options)
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            found, shuffle = [], np.random.RandomState(1)
            for _ in range(steps):
                rows = shuffle.randint(len(images), size=100)
                found += run(session, ["cross_entropy/Mean:0", step, accuracy],
                             {x: images[rows], y: labels[rows]})
            return found, session.run(tf.global_variables())

def stepped(session, fetches, feeds):
    stepper = ENGINE.adapt(session).stepper(fetches, feeds, None, None)
    while stepper.next:
        stepper.advance()
    return stepper.finish().value

def clipped(session, fetches, feeds):
    stepper = ENGINE.adapt(session).stepper(fetches, feeds, None, None)
    while not stepper.has("Softmax:0"):
        stepper.advance()
    stepper.override("Softmax:0", np.clip(stepper.value("Softmax:0"), 1e-8, 1))
    while stepper.next:
        stepper.advance()
    assert np.isfinite(stepper.value("cross_entropy/Mean:0"))
    return stepper.finish().value

plain, weights = train(lambda s, f, d: s.run(f, d), 30)
again, stepped_weights = train(stepped, 30)
assert np.isnan(weights[0]).any(), "the bug is gone"
for a, b in zip(plain + weights, again + stepped_weights):
    np.testing.assert_array_equal(a, b)
cured, weights = train(clipped, 30)
assert all(np.isfinite(each) for each in cured if each is not None)
assert all(np.isfinite(each).all() for each in weights)
print("done")
"""


def test_the_mnist_example_is_the_same_and_can_be_cured(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(MNIST)
    made = Programs(environment(tmp_path), ("tensorflow", "keras"), ROOT).plain(program)
    assert made.out.endswith("done\n"), made.err


def test_going_back_and_forth(classifier):
    feeds = {classifier.x: np.ones([2, 8]), classifier.y: np.eye(3)[:2]}
    with tf1.Session() as session:
        session.run(classifier.init)
        stepper = ENGINE.adapt(session).stepper(
            [classifier.loss, classifier.train], feeds, None, None
        )
        names = [step.node for step in stepper.steps]
        assert len(set(names)) == len(names)
        assert set(names[:2]) == {"input/x-input", "input/y-input"}
        assert stepper.has("input/x-input:0") and not stepper.has("Softmax:0")
        with pytest.raises(KeyError):
            stepper.value("Softmax:0")
        while stepper.next.node != "Softmax":
            stepper.advance()
        before = len(stepper.dump().data())
        assert stepper.dump().by_node("Softmax") == []
        outcome = stepper.advance()
        assert outcome.step.node == "Softmax" and outcome.step.outputs == ("Softmax:0",)
        value = stepper.value("Softmax:0")
        assert stepper.dump().by_node("Softmax")[0].get_tensor().tolist() == value.tolist()
        value[:] = 0  # nobody else's
        assert stepper.value("Softmax:0").sum() == pytest.approx(2)
        assert stepper.back().node == "Softmax"
        assert len(stepper.dump().data()) == before and not stepper.has("Softmax:0")
        changed = []
        while stepper.next is not None:
            changed += stepper.advance().updated
        assert sorted(set(changed)) == sorted(stepper.updated)
        assert len([name for name in changed if "hidden_weights" in name]) == 3  # it, and Adam's
        data = stepper.dump().data()
        stamps = [datum.timestamp for datum in data]
        assert stamps == sorted(stamps)
        with pytest.raises(UserError, match="end"):
            stepper.advance()
        while stepper.position:
            stepper.back()
        with pytest.raises(UserError, match="No step"):
            stepper.back()
        whole = stepper.finish().dump
        assert {"Softmax:0", "input/x-input:0"} <= set(whole.tensor_names())


def test_loops_are_one_step(old_control_flow, graph):
    x = tf1.placeholder(tf.float32, [], name="x")
    loop = tf1.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * x), (0, 1.0), name="wl")
    tf.add(loop[1], 1.0, name="after")
    slope = tf.gradients(loop[1], x, name="slopes")[0]
    with tf1.Session() as session:
        stepper = ENGINE.adapt(session).stepper(["after:0", slope], {x: 2.0}, None, None)
        (wl,) = [step for step in stepper.steps if step.node == "wl"]
        assert wl.op_type == "while_loop" and {"wl/mul", "wl/Exit_1"} <= set(wl.members)
        assert "wl/Exit_1:0" in wl.outputs and "x:0" in wl.inputs
        assert sum(step.op_type == "while_loop" for step in stepper.steps) == 2
        while stepper.next.node != "wl":
            stepper.advance()
        assert not stepper.has("wl/mul:0")
        stepper.advance()
        mul = stepper.dump().by_tensor("wl/mul:0")
        assert [datum.get_tensor().item() for datum in mul] == [2, 4, 8]
        assert stepper.value("wl/Exit_1:0") == 8 and not stepper.has("after:0")
        with pytest.raises(UserError, match="inside wl"):
            stepper.override("wl/mul:0", 1.0)
        stepper.override("wl/Exit_1:0", 10.0)
        assert stepper.finish().value == [11.0, 12.0]


def test_wrong_arguments_run_nothing(graph):
    count = tf1.get_variable("count", initializer=0)
    up = tf1.assign_add(count, 1)
    with tf1.Session() as session:
        session.run(count.initializer)
        adapter = ENGINE.adapt(session)
        with pytest.raises(ValueError, match="no_such"):
            adapter.stepper([up, "no_such:0"], None, None, None)
        with pytest.raises(TypeError):
            adapter.stepper([up, 3.0], None, None, None)
        with pytest.raises(CannotStep, match="handle"):
            adapter.stepper(count.handle, None, None, None)
        assert session.run(count) == 0
