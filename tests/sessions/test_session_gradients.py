"""`GradientsDebugger`: gradients by the tensors that they are the gradients of."""

import importlib.util

import pytest

import tfdbg_cli as tf_debug

pytestmark = [
    pytest.mark.tensorflow,
    pytest.mark.skipif(importlib.util.find_spec("tensorflow") is None, reason="needs TensorFlow"),
]


@pytest.fixture
def model():
    import tensorflow.compat.v1 as tf

    tf_debug.clear_gradient_debuggers()
    with tf.Graph().as_default(), tf.Session() as session:
        u = tf.get_variable("u", initializer=2.0, use_resource=False)
        v = tf.get_variable("v", initializer=3.0, use_resource=False)
        w = tf.multiply(u.value(), v.value(), name="w")
        session.run(tf.global_variables_initializer())
        yield tf, session, u, v, w
    tf_debug.clear_gradient_debuggers()


def test_an_identified_tensor(model, tmp_path):
    tf, session, u, v, w = model
    debugger = tf_debug.GradientsDebugger()
    y = tf.square(debugger.identify_gradient(w), name="y")
    gradients = tf.gradients(y, [u, v])
    assert list(debugger.gradient_tensors()) == ["w:0"]
    assert debugger.gradient_tensor(w) is debugger.gradient_tensor("w:0")
    assert debugger.graph is session.graph
    wrapper = tf_debug.DumpingDebugWrapperSession(session, str(tmp_path / "root"))
    assert wrapper.run([*gradients, debugger.gradient_tensor(w)]) == [36.0, 24.0, 12.0]
    (run,) = (tmp_path / "root").iterdir()
    dump = tf_debug.DebugDumpDir(str(run))
    assert [float(g) for g in tf_debug.gradient_values_from_dump(debugger, w, dump)] == [12.0]
    with pytest.raises(ValueError, match="already contains an op named"):
        debugger.identify_gradient(w)


def test_tensors_named_after_the_forward_part_was_built(model):
    tf, session, u, _, w = model
    y = tf.square(w, name="y")
    debugger = tf_debug.GradientsDebugger(y)
    assert debugger.y_tensor is y
    with debugger.watch_gradients_by_tensor_names(session.graph, r"(w|u/read):0$"):
        train = tf.train.GradientDescentOptimizer(0.1).minimize(y)
    assert sorted(debugger.gradient_tensors()) == ["u/read:0", "w:0"]
    assert session.run(debugger.gradient_tensor("w:0")) == 12.0
    assert session.run(y) == 36.0
    session.run(train)
    assert session.run(u) == pytest.approx(2.0 - 0.1 * 36.0)


def test_tensors_given_after_the_forward_part_was_built(model):
    tf, session, u, _, w = model
    y = tf.square(w, name="y")
    debugger = tf_debug.GradientsDebugger()
    with debugger.watch_gradients_by_tensors(session.graph, [w]):
        tf.gradients(y, u)
    assert session.run(debugger.gradient_tensor(w)) == 12.0


def test_of_several_debuggers_the_active_one_is_told(model):
    tf, session, u, _, w = model
    first, second = tf_debug.GradientsDebugger(), tf_debug.GradientsDebugger()
    y = tf.square(second.identify_gradient(first.identify_gradient(w)))
    with second:
        tf.gradients(y, u)
    assert first.gradient_tensors() == {}
    assert session.run(second.gradient_tensor("w_0/gradient_debug_" + first._uuid + ":0")) == 12.0


def test_mistakes(model):
    tf, _, _, _, w = model
    debugger = tf_debug.GradientsDebugger()
    with pytest.raises(LookupError, match="has not received any gradient tensor for x-tensor w:0"):
        debugger.gradient_tensor(w)
    with pytest.raises(TypeError, match=r"x_tensor must be a str or tf.Tensor or tf.Variable"):
        debugger.gradient_tensor(3)
    tf.gradients(debugger.identify_gradient(w) * 2.0, w)
    with tf.Graph().as_default():
        other = tf.constant(1.0, name="other")
        with pytest.raises(ValueError, match="not the same as the graph"):
            tf.gradients(debugger.identify_gradient(other) * 2.0, other)
