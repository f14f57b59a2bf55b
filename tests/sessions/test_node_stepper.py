"""The stepper as an API, on real sessions of the NumPy engine and of TensorFlow."""

from types import SimpleNamespace

import numpy as np
import pytest
from session_kit import ENGINES, descend, framework

import tfdbg_cli as tf_debug
from tfdbg_cli.common.errors import UserError


@pytest.fixture(params=ENGINES)
def model(request):
    """``loss`` = sum of (x w)^2, and a step of gradient descent."""
    tf = framework(request.param)
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [2, 3], name="x")
        kind = {"use_resource": False} if request.param == "tensorflow" else {}
        weights = tf.Variable(tf.ones([3, 2]), name="w", **kind)
        h = tf.matmul(x, weights, name="h")
        loss = tf.reduce_sum(tf.square(h, name="squares"), name="loss")
        train = descend(tf, 0.5, loss, [weights], name="train")
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            yield SimpleNamespace(
                tf=tf, session=session, x=x, h=h, loss=loss, train=train, weights=weights
            )


FED = np.array([[1, 2, 3], [4, 5, 6]], np.float32)


def test_the_names_of_the_original(model):
    with tf_debug.NodeStepper(model.session, model.loss, {model.x: FED}) as stepper:
        nodes = stepper.sorted_nodes()
        assert nodes.index("h") < nodes.index("squares") < nodes.index("loss")
        assert stepper.placeholders() == ["x"]
        assert stepper.is_placeholder("x")
        assert not stepper.is_placeholder("h:0")
        assert {"h", "h:0", "loss:0"} <= set(stepper.closure_elements())
        assert stepper.output_slots_in_closure("h") == [0]
        assert stepper.is_feedable("h:0")
        np.testing.assert_array_equal(stepper.cont("h:0"), FED @ np.ones((3, 2), np.float32))
        assert stepper.handle_names() == ["h:0"]
        assert stepper.handle_node_names() == {"h"}
        assert stepper.last_feed_types()["x:0"] == tf_debug.NodeStepper.FEED_TYPE_CLIENT
        stepper.override_tensor("h:0", np.ones((2, 2), np.float32))
        assert stepper.override_names() == ["h:0"]
        assert stepper.cont(model.loss) == 4
        assert "squares:0" in stepper.intermediate_tensor_names()
        assert stepper.last_feed_types()["h:0"] == "override"
        stepper.remove_override("h:0")
        assert stepper.override_names() == []
        assert stepper.get_tensor_value("h:0").tolist() == [[6, 6], [15, 15]]
        assert stepper.finalize() == 2 * 36 + 2 * 225


def test_targets_may_be_nested(model):
    stepper = tf_debug.NodeStepper(model.session, [model.loss, model.train], {model.x: FED})
    found = stepper.cont({"both": (model.h, [model.loss])})
    assert found["both"][0].shape == (2, 2)
    assert found["both"][1] == [522]


def test_variables_are_updated_once(model):
    stepper = tf_debug.NodeStepper(model.session, [model.loss, model.train], {model.x: FED})
    stepper.cont("loss")
    assert stepper.dirty_variables() == set()
    stepper.cont("train")
    assert stepper.dirty_variables() == {"w:0"}
    assert stepper.last_updated() == {"w:0"}
    stepper.finalize()
    # d/dw of the sum of squares of x w is 2 x^T (x w).
    step = 2 * FED.T @ (FED @ np.ones((3, 2), np.float32))
    np.testing.assert_allclose(model.session.run(model.weights), 1 - 0.5 * step)


def test_variables_can_be_restored(model):
    stepper = tf_debug.NodeStepper(model.session, [model.loss, model.train], {model.x: FED})
    stepper.cont("train")
    stepper.restore_variable_values()
    assert stepper.dirty_variables() == set()
    stepper.finalize()
    np.testing.assert_array_equal(model.session.run(model.weights), np.ones((3, 2)))


def test_mistakes(model):
    with pytest.raises(ValueError, match="must not be None"):
        tf_debug.NodeStepper(model.session, None)
    with pytest.raises(TypeError, match="Expected a session"):
        tf_debug.NodeStepper(object(), model.loss)
    stepper = tf_debug.NodeStepper(model.session, model.loss, {model.x: FED})
    with pytest.raises(ValueError, match='"nowhere" is not in this run'):
        stepper.cont("nowhere")
    with pytest.raises(ValueError, match="is not in this run"):
        stepper.override_tensor("nowhere:0", 1)
    with pytest.raises(ValueError, match="No override is registered"):
        stepper.remove_override("h:0")
    with pytest.raises(ValueError, match="has no access to the value"):
        stepper.get_tensor_value("loss:0")


def test_a_wrapped_session_is_stepped_through_without_stops(model):
    class Silent(tf_debug.BaseDebugWrapperSession):
        def on_session_init(self, request):
            return tf_debug.OnSessionInitResponse(tf_debug.OnSessionInitAction.PROCEED)

        def on_run_start(self, request):
            raise AssertionError("it stops")

        on_run_end = on_run_start

    stepper = tf_debug.NodeStepper(Silent(model.session), model.loss, {model.x: FED})
    assert stepper.finalize() == 522


def test_a_wrapper_session_may_ask_for_the_stepper(model):
    class Stepping(tf_debug.BaseDebugWrapperSession):
        def on_session_init(self, request):
            return tf_debug.OnSessionInitResponse(tf_debug.OnSessionInitAction.PROCEED)

        def on_run_start(self, request):
            return tf_debug.OnRunStartResponse(tf_debug.OnRunStartAction.INVOKE_STEPPER)

        def on_run_end(self, request):
            self.action = request.performed_action
            return tf_debug.OnRunEndResponse()

        def invoke_node_stepper(self, node_stepper, restore_variable_values_on_exit=True):
            node_stepper.override_tensor("h:0", np.ones((2, 2), np.float32))

    sess = Stepping(model.session)
    assert sess.run(model.loss, {model.x: FED}) == 4
    assert sess.action == "invoke_stepper"


def test_variables_are_the_sessions_own_until_the_end(model):
    def weights():
        return model.session.run(model.weights)

    ones = np.ones((3, 2))
    asked = (model.session, [model.loss, model.train], {model.x: FED})
    with tf_debug.NodeStepper(*asked):
        np.testing.assert_array_equal(weights(), ones)
    np.testing.assert_array_equal(weights(), ones)
    with tf_debug.NodeStepper(*asked) as stepper:
        stepper.cont("train")
        assert stepper.dirty_variables()
        np.testing.assert_array_equal(weights(), ones)
    np.testing.assert_array_equal(weights(), ones)
    with tf_debug.NodeStepper(*asked) as stepper:
        stepper.cont("train")
        stepper.restore_variable_values()
        np.testing.assert_array_equal(weights(), ones)
    with tf_debug.NodeStepper(*asked) as stepper:
        stepper.cont("train")
        stepper.discard()
        np.testing.assert_array_equal(weights(), ones)
        with pytest.raises(UserError, match="discarded"):
            stepper.finalize()
    np.testing.assert_array_equal(weights(), ones)
    with tf_debug.NodeStepper(*asked) as stepper:
        assert stepper.finalize()[0] == 522
    assert not np.array_equal(weights(), ones)
    plain = weights()
    model.session.run(model.weights.initializer)
    model.session.run([model.loss, model.train], {model.x: FED})
    np.testing.assert_array_equal(plain, weights())


@pytest.mark.parametrize("engine", ENGINES[1:])
def test_what_cannot_be_given_back_is_told(engine):
    tf = framework(engine)
    with tf.Graph().as_default(), tf.Session() as session:
        v = tf.Variable(2.0, name="v")
        double = tf.assign(v, v * 2.0)
        stepper = tf_debug.NodeStepper(session, v.initializer)
        assert any("can't be given back: v " in caveat for caveat in stepper.run.caveats)
        assert session.run(v) == 2
        stepper = tf_debug.NodeStepper(session, double)
        assert not any("given back" in caveat for caveat in stepper.run.caveats)
        session.run(v.initializer, {v.initial_value: 7.0})  # somebody else
        capture = stepper.finish()
        assert session.run(v) == 4
        assert any("v was set by other code" in warning for warning in capture.dump.warnings)
        stepper.discard()
        assert session.run(v) == 7
