"""Calls of traced functions, gone through step by step and with other values."""

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

from tensorflow.python.eager import context  # noqa: E402

from tfdbg_cli.common.errors import UserError  # noqa: E402
from tfdbg_cli.engines.base import Watch  # noqa: E402
from tfdbg_cli.engines.tensorflow.functions.engine import ENGINE  # noqa: E402
from tfdbg_cli.engines.tensorflow.functions.private import FUNCTION_CALLED  # noqa: E402
from tfdbg_cli.testing.contract_program import Hosts  # noqa: E402

X = np.float32([[1, -2, 3], [0.5, 4, -1]])


def stepper_of(function, *args, **kwargs):
    return ENGINE.call_stepper(function, args, kwargs)


def test_another_value_goes_on_through_functions_that_are_called_twice():
    @tf.function
    def twice(x):
        return tf.multiply(x, 2.0, name="twice")

    @tf.function
    def run(x):
        return twice(twice(x) + 1.0)

    stepper = stepper_of(run, tf.constant([1.0]))
    assert [step.node for step in stepper.steps if step.op_type == "Mul"] == [
        "twice",
        "twice/twice",
    ]
    stepper.override("twice:0", [10])
    stepper.reach("twice/twice:0")
    assert stepper.value("twice/twice:0").tolist() == [22]
    assert stepper.original("twice/twice:0").tolist() == [6]
    assert stepper.finish().value.numpy().tolist() == [22]


def test_the_function_returns_what_it_returns_in_its_own_structure():
    @tf.function
    def run(x):
        y = tf.nn.relu(x)
        return {"y": y, "both": (y + 1.0, [x])}

    stepper = stepper_of(run, tf.constant([1.0, -1.0]))
    stepper.override("Relu:0", [5, 6])
    value = stepper.finish().value
    assert value["y"].numpy().tolist() == [5, 6]
    assert value["both"][0].numpy().tolist() == [6, 7]
    assert value["both"][1][0].numpy().tolist() == [1, -1]


def test_another_argument():
    @tf.function
    def run(x):
        return x * 2.0

    stepper = stepper_of(run, tf.constant([1.0]))
    assert stepper.steps[0].is_feed
    stepper.override("input/x:0", [4])
    assert stepper.finish().value.numpy().tolist() == [8]


@pytest.mark.parametrize("optimizer", ["fused", "composed"])
def test_variables_get_what_overrides_have_led_to(optimizer):
    w, other = tf.Variable(np.float32([1, 2, 3])), tf.Variable([7.0])
    moments = tf.Variable(tf.zeros(3))

    @tf.function
    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.square(x * w), name="loss")
        gradient = tf.identity(tape.gradient(loss, w), name="gradient")
        if optimizer == "fused":
            tf.raw_ops.ResourceApplyMomentum(
                var=w.handle, accum=moments.handle, lr=0.5, grad=gradient, momentum=0.9
            )
        else:
            moments.assign(moments * 0.9 + gradient)
            w.assign_sub(moments * 0.5)
        other.assign_add([1.0])
        return loss

    before = w.numpy()
    stepper = stepper_of(step, tf.constant(X[0]))
    (name,) = [step.node for step in stepper.steps if step.node.endswith("gradient")]
    stepper.override(f"{name}:0", [2, 4, 6])
    stepper.finish()
    np.testing.assert_allclose(w.numpy(), before - [1, 2, 3])
    assert moments.numpy().tolist() == [2, 4, 6]
    assert other.numpy().tolist() == [8]  # once


def test_a_run_that_is_ended_in_the_middle_leaves_what_was_done():
    v = tf.Variable([1.0])

    @tf.function
    def run(x):
        v.assign_add(x)
        v.assign(v * 3.0)
        return v + 1.0

    stepper = stepper_of(run, tf.constant([1.0]))
    while not stepper.advance().updated:
        pass
    stepper.stop()
    assert v.numpy().tolist() == [2]


def test_a_variable_that_is_restored_is_so_for_the_steps_to_come():
    v = tf.Variable([1.0])

    @tf.function
    def run(x):
        v.assign_add(x)
        first = v.read_value() * 10.0
        v.assign_add(x)
        return first, v.read_value()

    stepper = stepper_of(run, tf.constant([1.0]))
    while not stepper.advance().updated:
        pass
    stepper.advance()
    (name,) = stepper.updated
    stepper.restore([name])
    first, second = stepper.finish().value
    assert first.numpy().tolist() == [20]  # read before
    assert second.numpy().tolist() == v.numpy().tolist() == [2]


def test_withheld_and_discarded_it_never_happened():
    v = tf.Variable([1.0])

    @tf.function
    def run(x):
        v.assign_add(x)
        return v * 2.0

    stepper = stepper_of(run, tf.constant([1.0]))
    assert v.numpy().tolist() == [2]
    stepper.withhold()
    assert v.numpy().tolist() == [1]
    stepper.override("input/x:0", [5])
    assert stepper.discard().value.numpy().tolist() == [4]
    assert v.numpy().tolist() == [1]


class TestLoops:
    def run(self):
        @tf.function
        def run(x):
            h = tf.nn.relu(x)
            for _ in tf.range(3):
                h = h * 2.0
            if tf.reduce_sum(h) > 10.0:  # noqa: SIM108 (a branch of the graph)
                h = h + 1.0
            else:
                h = h - 1.0
            return h

        return run

    def test_what_goes_in_is_overridden_and_the_other_side_is_taken(self):
        stepper = stepper_of(self.run(), tf.constant([1.0, 2.0]))
        stepper.override("Relu:0", [0.5, 0.25])
        assert stepper.finish().value.numpy().tolist() == [3, 1]

    def test_a_loop_is_one_step_with_its_iterations_inside(self):
        stepper = stepper_of(self.run(), tf.constant([1.0, 2.0]))
        while stepper.next.node != "while":
            stepper.advance()
        outcome = stepper.advance()
        made = [datum.tensor_name for datum in stepper.made(outcome)]
        assert made.count("while/mul:0") == 3
        assert "while/mul" in outcome.step.members
        assert stepper.value("while/mul:0").tolist() == [8, 16]

    def test_the_limit_of_an_earlier_run_is_none_of_later_ones(self):
        hosts = Hosts()
        hosts.watch = Watch(limit=1)
        undo = ENGINE.install(hosts)
        try:
            self.run()(tf.constant([1.0, 2.0]))
        finally:
            undo()
        assert len(hosts.ends) == 1
        self.test_a_loop_is_one_step_with_its_iterations_inside()

    def test_what_is_inside_is_not_overridden(self):
        stepper = stepper_of(self.run(), tf.constant([1.0, 2.0]))
        with pytest.raises(UserError, match="while/mul:0 is inside while") as caught:
            stepper.override("while/mul:0", [0, 0])
        assert caught.value.hint
        with pytest.raises(UserError, match="inside cond"):
            stepper.override("cond/add:0", [0, 0])

    def test_what_comes_out_is_overridden(self):
        stepper = stepper_of(self.run(), tf.constant([1.0, 2.0]))
        (loop,) = [step for step in stepper.steps if step.node == "while"]
        out = next(name for name in loop.outputs if name in _read(stepper))
        stepper.override(out, [0, 0])
        assert stepper.finish().value.numpy().tolist() == [-1, -1]

    def test_a_loop_that_draws_is_only_gone_through(self):
        @tf.function
        def run(x):
            for _ in tf.range(2):
                x += tf.random.uniform([1])
            return x * 2.0

        stepper = stepper_of(run, tf.constant([1.0]))
        assert any(
            text.startswith("Nothing in it can be overridden: while") for text in stepper.caveats
        )
        with pytest.raises(UserError, match="can be stepped through, but not changed: while"):
            stepper.override("input/x:0", [2])
        value = stepper.finish().value.numpy()
        assert value == stepper.value("mul:0")


def _read(stepper):
    return {name for step in stepper.steps if step.node != "while" for name in step.inputs}


def test_what_was_drawn_and_taken_stays():
    batches = iter(tf.data.Dataset.from_tensor_slices([[1.0], [2.0], [3.0]]))

    @tf.function
    def run(scale):
        batch = next(batches)
        return batch * scale + tf.random.uniform([1], name="drawn")

    stepper = stepper_of(run, tf.constant(10.0))
    stepper.override("input/scale:0", 100)
    value = stepper.finish().value.numpy()
    assert value == stepper.value("drawn/RandomUniform:0") + 100
    assert next(batches).numpy().tolist() == [2]


def test_what_xla_compiles_is_gone_through_without_it():
    @tf.function(jit_compile=True)
    def run(x):
        return tf.nn.relu(x) * 2.0

    stepper = stepper_of(run, tf.constant([1.0, -1.0]))
    assert any("XLA" in text for text in stepper.caveats)
    stepper.override("Relu:0", [3, 4])
    assert stepper.finish().value.numpy().tolist() == [6, 8]


def test_a_call_under_a_tape_has_the_gradient_of_what_was_overridden():
    @tf.function
    def run(x):
        return tf.square(tf.identity(x, name="held"))

    x = tf.constant([3.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        stepper = stepper_of(run, x)
        held = next(step for step in stepper.steps if step.node.startswith("held"))
        stepper.override(held.outputs[0], [5])
        y = stepper.finish().value
    assert y.numpy().tolist() == [25]
    assert tape.gradient(y, x).numpy().tolist() == [10]


def test_an_override_that_fails_a_step_tells_so_and_can_be_another():
    @tf.function
    def run(x):
        return tf.debugging.check_numerics(tf.math.log(x), "bad", name="checked") * 2.0

    stepper = stepper_of(run, tf.constant([1.0]))
    stepper.override("Log:0", [np.inf])
    while stepper.next.node != "checked":
        stepper.advance()
    with pytest.raises(tf.errors.InvalidArgumentError, match="bad : Tensor had Inf") as caught:
        stepper.advance()
    assert "__tfdbg" not in str(caught.value)
    stepper.override("Log:0", [4])
    assert stepper.finish().value.numpy().tolist() == [8]


def test_a_failed_call_that_took_a_batch_cannot_be_mended():
    batches = iter(tf.data.Dataset.from_tensor_slices([[1.0], [0.0]]))

    @tf.function
    def run():
        return tf.debugging.check_numerics(tf.math.log(next(batches)), "bad", name="checked")

    next(batches)
    stepper = stepper_of(run)
    with pytest.raises(tf.errors.InvalidArgumentError):
        stepper.go_on(None)
    assert not stepper.mendable()
    with pytest.raises(UserError, match="is lost with it"):
        stepper.override("Log:0", [1])
    assert isinstance(stepper.finish().error, tf.errors.InvalidArgumentError)


def test_what_is_made_op_by_op_is_only_gone_through():
    @tf.function
    def doubled(x):
        return tf.multiply(x, 2.0, name="doubled")

    def run(x):
        return doubled(tf.math.log(x)) + 1.0

    stepper = stepper_of(run, tf.constant([1.0]))
    assert [step.op_type for step in stepper.steps if step.op_type in ("Log", "Mul", "AddV2")] == [
        "Log",
        "Mul",
        "AddV2",
    ]
    stepper.reach("doubled:0")
    assert stepper.value("doubled:0").tolist() == [0]
    with pytest.raises(UserError, match="op by op"):
        stepper.override("doubled:0", [1])
    assert stepper.finish().value.numpy().tolist() == [1]


def test_nothing_is_left_behind():
    v = tf.Variable([1.0])

    @tf.function
    def run(x):
        v.assign_add(x)
        return v * 2.0

    run(tf.constant([0.0]))
    door, name = FUNCTION_CALLED
    before = vars(door)[name]
    for _ in range(2):
        stepper = stepper_of(run, tf.constant([1.0]))
        stepper.override("input/x:0", [0])
        stepper.finish()
    known = context.context().list_function_names()
    assert not [each for each in known if "replay" in str(each) or "before" in str(each)]
    assert v.numpy().tolist() == [1]
    assert vars(door)[name] is before
    assert run(tf.constant([2.0])).numpy().tolist() == [6]


def test_a_variable_that_a_loop_hands_on_and_its_gradient():
    w = tf.Variable([[0.5, 1.0], [-1.0, 2.0]])

    @tf.function
    def step(x):
        with tf.GradientTape() as tape:
            h = tf.nn.relu(x)
            for _ in tf.range(2):
                h = tf.gather(w, [1, 0]) * h
            loss = tf.reduce_sum(h)
        w.assign_sub(tf.convert_to_tensor(tape.gradient(loss, w)))
        return loss

    x = tf.constant([[1.0, -2.0], [3.0, 4.0]])
    before = w.numpy()
    expected = step(tf.abs(x)).numpy(), w.numpy()
    w.assign(before)
    stepper = stepper_of(step, x)
    stepper.override("Relu:0", np.abs(x.numpy()))
    assert stepper.finish().value.numpy() == expected[0]
    np.testing.assert_array_equal(w.numpy(), expected[1])
