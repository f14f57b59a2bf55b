"""Ops that programs of TensorFlow 2 execute by themselves, outside of tapes and functions."""

import pytest
from samples import sample
from tf2_kit import IS_2_12, listed

BEFORE = """
    w = tf.Variable(tf.ones([2, 2]), name="w")

    @tf.function
    def f(x):
        return tf.reduce_sum(tf.matmul(x, w))

    for k in (1.0, 2.0, 0.0):
        x = tf.constant([[1.0, 2.0]])
        unused = tf.exp(x)
        y = tf.math.log(x * k)  # BAD
        tell(f(y).numpy())
"""

STEPS = """
    import numpy as np, keras
    keras.utils.set_random_seed(3)
    x = np.random.rand(8, 4).astype("float32")
    x[5] = 0

    class Model(keras.Model):
        def __init__(self):
            super().__init__()
            self.dense = keras.layers.Dense(1)

        def call(self, x):
            return tf.math.log(tf.reduce_sum(x, 1)) + self.dense(x)  # BAD

    model = Model()
    model.compile("sgd", "mse", run_eagerly=True)
    tell(np.asarray(model.{call}).ravel())
"""
CALLS = {
    "evaluate": "evaluate(x, x[:, :1], batch_size=4, verbose=0)",
    "predict": "predict(x, batch_size=4, verbose=0)",
    "test_on_batch": "test_on_batch(x, x[:, :1])",
    "predict_on_batch": "predict_on_batch(x)",
}

REPLICAS = """
    import traceback

    strategy = tf.distribute.get_strategy()

    @tf.function
    def step(x, at):
        return strategy.run(lambda t: tf.gather(t * 2.0, at), (x,))

    for at in (0, 7):
        try:
            tell(step(tf.constant([1.0]), tf.constant(at)).numpy())
        except tf.errors.InvalidArgumentError as error:
            tell([frame.name for frame in traceback.extract_tb(error.__traceback__)])
            # A server of the tests runs both.
            lines = [line for line in str(error).splitlines() if line.strip()]
            tell([line for line in lines if "server" not in line and "runpy" not in line])
"""


def test_what_came_before_a_run_belongs_to_it_as_far_as_it_is_used(both):
    done = both.finds(BEFORE, "Log")
    shown = both.debugged(both.write(BEFORE), "run -f has_inf_or_nan", "lt")
    assert "Exp" not in listed(shown.out)
    assert "inference run #3" in done.out


def test_an_op_that_fails_outside_of_runs_is_shown(both):
    text = """
        @tf.function
        def f(x):
            return x * 2.0

        tell(f(tf.constant([1.0])).numpy())
        tf.gather(tf.constant([1.0]) * 3.0, 5)
    """
    done = both.same(both.write(text), "run -f has_inf_or_nan", "lt")
    assert "GatherV2" in done.out


@pytest.mark.parametrize("method", [*sample(CALLS, 3)])
def test_steps_of_keras_that_are_run_eagerly(both, method):
    text = STEPS.format(call=CALLS[method])
    done = both.finds(text, "model/Log")
    assert "inference run #" in done.out and f": {method}" in done.out


@pytest.mark.skipif(
    IS_2_12,
    reason="2.12 looks for creation stacks under the names of functions, which are the twins'",
)
def test_what_a_strategy_runs_fails_as_it_does_alone(both):
    both(REPLICAS)


def test_ops_of_a_gradient_that_a_tape_computes_eagerly(both):
    text = """
        w = tf.Variable([1.0, 2.0], name="w")
        for x in ([1.0, 2.0], [0.0, 1.0]):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(tf.sqrt(x * w))
            gradient = tape.gradient(loss, w)  # BAD
            w.assign_sub(0.1 * gradient)
            tell(loss.numpy(), w.numpy())
    """
    done = both.finds(text, "gradients/SqrtGrad")
    # Its own frames are those of the gradient; the line of the forward op is beside them.
    _, _, at = done.out.partition("Gradient of Sqrt, called at:")
    assert at.splitlines()[2].endswith("loss = tf.reduce_sum(tf.sqrt(x * w))"), done.out


def test_runs_of_another_thread(both):
    text = """
        import threading

        @tf.function
        def f(x):
            return tf.math.log(x)

        def work():
            for x in (2.0, 1.0, 0.0):
                tell(f(tf.constant(x)).numpy())

        tell(f(tf.constant(1.0)).numpy())
        thread = threading.Thread(target=work, name="trainer")
        thread.start()
        thread.join()
    """
    path = both.write(text)
    try:
        seen = both.same(path, "config set threads trainer", "run -f has_inf_or_nan", "lt").out
    finally:  # it is kept for the programs that follow
        alone = both.same(path, "config set threads MainThread", "run -f has_inf_or_nan", "lt")
    assert "trainer: inference run #4: f" in seen and "Log" in listed(seen)
    assert "no tensor passed has_inf_or_nan" in alone.err
