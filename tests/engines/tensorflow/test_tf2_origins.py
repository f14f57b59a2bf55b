"""The first bad tensor of programs of TensorFlow 2: its node, and the line that made it.

Each program is planted with a mistake in the line that ends with ``# BAD``.
"""

import importlib.util
import re

import pytest
from samples import night, sample
from tf2_kit import IS_2_12, needs_keras_3

PROGRAMS = {
    "a step with its tape in a function": (
        "Exp",
        """
        w = tf.Variable(tf.ones([3, 2]), name="w")

        @tf.function
        def step(x, k):
            with tf.GradientTape() as tape:
                p = tf.exp(tf.matmul(x, w) * k)  # BAD
                loss = tf.reduce_mean(p / (1.0 + p))
            w.assign_sub(0.1 * tape.gradient(loss, w))
            return loss

        for k in (1.0, 1.0, 100.0):
            tell(step(tf.ones([4, 3]), tf.constant(k)).numpy(), w.numpy().sum())
        """,
    ),
    "a tape around a function": (
        "Log",
        """
        import keras
        w = tf.Variable([1.0, 2.0], name="w")
        optimizer = keras.optimizers.SGD(0.1)

        @tf.function
        def loss_of(x):
            return tf.reduce_sum(tf.math.log(x * w))  # BAD

        for x in ([1.0, 2.0], [2.0, 1.0], [0.0, 1.0]):
            with tf.GradientTape() as tape:
                loss = loss_of(tf.constant(x))
            optimizer.apply([tape.gradient(loss, w)], [w])
            tell(loss.numpy(), w.numpy())
        """,
    ),
    "a quotient behind a loop that has a gradient": (
        "truediv",
        """
        w = tf.Variable([1.0, 2.0])

        @tf.function
        def step(x, mask):
            with tf.GradientTape() as tape:
                for _ in tf.range(2):
                    x = x * w
                loss = tf.reduce_sum(x * mask) / tf.reduce_sum(mask)  # BAD
            w.assign_sub(0.1 * tape.gradient(loss, w))
            return loss

        for mask in ([1.0, 1.0], [0.0, 1.0], [0.0, 0.0]):
            tell(step(tf.ones(2), tf.constant(mask)).numpy(), w.numpy())
        """,
    ),
    "a gradient in a backward function": (
        "gradients/Sqrt_grad/SqrtGrad",
        """
        w = tf.Variable([1.0, 2.0], name="w")

        @tf.function
        def loss_of(x):
            return tf.reduce_sum(tf.sqrt(x * w))

        for x in ([1.0, 2.0], [2.0, 1.0], [0.0, 1.0]):
            with tf.GradientTape() as tape:
                loss = loss_of(tf.constant(x))  # BAD
            w.assign_sub(0.1 * tape.gradient(loss, w))
            tell(loss.numpy(), w.numpy())
        """,
    ),
    "an eager loop by hand": (
        "Log",
        """
        w = tf.Variable([[1.0], [2.0]])
        for x in ([[1.0, 2.0]], [[3.0, 4.0]], [[0.0, 0.0]]):
            with tf.GradientTape() as tape:
                y = tf.matmul(tf.constant(x), w)
                loss = tf.reduce_sum(tf.math.log(y))  # BAD
            w.assign_sub(0.1 * tape.gradient(loss, w))
            tell(loss.numpy(), w.numpy().ravel())
        """,
    ),
    "an eager loop with a Keras optimizer": (
        "RealDiv",
        """
        import keras
        keras.utils.set_random_seed(1)
        model = keras.Sequential([keras.layers.Dense(4, "relu"), keras.layers.Dense(1)])
        optimizer = keras.optimizers.Adam(0.01)
        for divisor in (2.0, 2.0, 0.0, 2.0):
            x = tf.ones([8, 3])
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(model(x) ** 2) / divisor  # BAD
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables))
            tell(loss.numpy())
        """,
    ),
    "a saved model": (
        "root",
        """
        class Model(tf.Module):
            def __init__(self):
                self.w = tf.Variable([2.0])

            @tf.function(input_signature=[tf.TensorSpec([None], tf.float32)])
            def __call__(self, x):
                return tf.sqrt(x * self.w, name="root")

        import tempfile
        folder = tempfile.mkdtemp()
        tf.saved_model.save(Model(), folder)
        model = tf.saved_model.load(folder)
        for x in ([1.0, 4.0], [-1.0, 4.0]):
            tell(model(tf.constant(x)).numpy())  # BAD
        """,
    ),
    "two replicas": (
        "Log",
        """
        (cpu,) = tf.config.list_physical_devices("CPU")
        tf.config.set_logical_device_configuration(
            cpu, [tf.config.LogicalDeviceConfiguration()] * 2
        )
        strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
        with strategy.scope():
            w = tf.Variable([1.0, 2.0])

        @tf.function
        def train(x):
            def step(x):
                with tf.GradientTape() as tape:
                    loss = tf.reduce_sum(tf.math.log(w * x))  # BAD
                gradient = tape.gradient(loss, w)
                replica = tf.distribute.get_replica_context()
                w.assign_add(replica.all_reduce("sum", gradient) * -0.1)
                return loss

            return strategy.run(step, (x,))

        for x in (1.0, 2.0, 0.0):
            tell([each.numpy() for each in train(tf.constant([x, 1.0])).values])
        """,
    ),
    "two replicas that run eagerly": (
        "replica_1/Log",
        """
        (cpu,) = tf.config.list_physical_devices("CPU")
        tf.config.set_logical_device_configuration(
            cpu, [tf.config.LogicalDeviceConfiguration()] * 2
        )
        strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
        with strategy.scope():
            w = tf.Variable([1.0, 2.0])

        @tf.function
        def scaled(x):
            return x * 2.0

        def step(x):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(tf.math.log(w * scaled(x)))  # BAD
            gradient = tape.gradient(loss, w)
            replica = tf.distribute.get_replica_context()
            w.assign_add(replica.all_reduce("sum", gradient) * -0.1)
            return loss

        for second in (1.0, 2.0, 0.0):
            x = strategy.experimental_distribute_values_from_function(
                lambda at: tf.constant([(1.0, second)[at.replica_id_in_sync_group], 1.0])
            )
            tell([each.numpy() for each in strategy.run(step, (x,)).values])
            tell([each.numpy() for each in strategy.run(lambda x: x + 1.0, (x,)).values])
        """,
    ),
    "the condition of a loop": (
        "while/Log",
        """
        @tf.function
        def f(x):
            while tf.reduce_sum(tf.math.log(x)) > -3.0:  # BAD
                x = x - 0.25
            return tf.reduce_sum(tf.nn.relu(x)) + 1.0

        for x in (0.9, 0.8, 1.0):
            tell(f(tf.constant([x, x])).numpy())
        """,
    ),
    "a condition that reads what the loop writes": (
        "while/cond/Sqrt",
        """
        v = tf.Variable(3.0, name="v")

        @tf.function
        def f(x):
            n = 0
            while v > 0.5 and tf.sqrt(v - 1.4) > 0.0:  # BAD
                v.assign_sub(1.0)
                x += v
                n += 1
            v.assign(3.0)
            return x, n

        for x in (1.0, 2.0):
            tell([each.numpy() for each in f(tf.constant(x))], v.numpy())
        """,
    ),
    "a condition in a loop in a branch": (
        "cond/while/while/Sqrt",
        """
        @tf.function
        def f(x):
            n = 0
            if x > 0.0:
                for _ in tf.range(2):
                    while tf.sqrt(x - 3.0) > 1.0:  # BAD
                        x -= 1.0
                        n += 1
                    x += 1.0
            return x, n

        for x in (6.0, 4.5, -2.0, 1.0):
            tell([each.numpy() for each in f(tf.constant(x))])
        """,
    ),
    "a function that is called with XLA and without": (
        "Log",
        """
        @tf.function
        def inner(x):
            return tf.math.log(x)  # BAD

        @tf.function(jit_compile=True)
        def compiled(x):
            return inner(x) + 1.0

        @tf.function
        def f(x):
            return inner(x) + compiled(x * 2.0) + inner(x * 4.0)

        for x in (1.0, 2.0, 0.0):
            tell(f(tf.fill([3], x)).numpy())
        """,
    ),
    "a condition under XLA": (
        "while/Log",
        """
        @tf.function(jit_compile=True)
        def f(x):
            while tf.reduce_sum(tf.math.log(x)) > -3.0:  # BAD
                x = x - 0.25
            return tf.reduce_sum(tf.nn.relu(x)) + 1.0

        for x in (0.9, 0.8, 1.0):
            tell(f(tf.constant([x, x])).numpy())
        """,
    ),
    "a while loop": (
        "while/Log",
        """
        @tf.function
        def f(x):
            for i in tf.range(4):
                x = tf.math.log(x)  # BAD
            return x

        tell(f(tf.constant(1e30)).numpy(), f(tf.constant(1.0)).numpy())
        """,
    ),
    "a loop in a loop": (
        "while/while/truediv",
        """
        @tf.function
        def f(x):
            total = 0.0
            for i in tf.range(2):
                for j in tf.range(3):
                    total += x / tf.cast(2 - i - j, tf.float32)  # BAD
            return total

        tell(f(tf.constant(1.0)).numpy())
        """,
    ),
    "a branch": (
        "cond/Log",
        """
        @tf.function
        def f(x):
            if tf.reduce_sum(x) > 1.0:
                y = tf.sqrt(x)
            else:
                y = tf.math.log(x)  # BAD
            return y * 2.0

        tell(f(tf.constant([1.0, 1.0])).numpy(), f(tf.constant([0.0, 0.5])).numpy())
        """,
    ),
    "a switch": (
        "switch_case/indexed_case/Log",
        """
        @tf.function
        def f(at, x):
            def logarithm():
                return tf.math.log(x)  # BAD

            # Autograph gives all lambdas of one expression the line of the last one.
            return tf.switch_case(at, {0: lambda: tf.sqrt(x), 1: logarithm, 2: lambda: x / 2.0})

        for at in (0, 2, 1):
            tell(f(tf.constant(at), tf.constant([0.0])).numpy())
        """,
    ),
    "map_fn": (
        "map/while/Log",
        """
        @tf.function
        def f(x):
            return tf.map_fn(lambda t: tf.math.log(t) * 2.0, x)  # BAD

        tell(f(tf.constant([1.0, 2.0])).numpy(), f(tf.constant([1.0, 0.0])).numpy())
        """,
    ),
    "a TensorArray": (
        "while/truediv",
        """
        @tf.function
        def f(x):
            made = tf.TensorArray(tf.float32, 3)
            for i in tf.range(3):
                made = made.write(i, 1.0 / (x - tf.cast(i, tf.float32)))  # BAD
            return made.stack()

        tell(f(tf.constant(5.0)).numpy(), f(tf.constant(1.0)).numpy())
        """,
    ),
    "an LSTM": (
        "truediv",
        """
        import keras
        keras.utils.set_random_seed(1)
        layer = keras.layers.LSTM(3, return_sequences=True)

        @tf.function
        def f(x):
            hidden = layer(x)
            return tf.reduce_sum(hidden / x[..., :1])  # BAD

        tell(f(tf.ones([2, 4, 3])).numpy(), f(tf.zeros([2, 4, 3])).numpy())
        """,
    ),
    "nested functions that are called twice": (
        "inner/Log",
        """
        @tf.function
        def inner(x):
            return tf.math.log(x)  # BAD

        @tf.function
        def outer(x):
            return inner(x + 5.0) + inner(x)

        tell(outer(tf.constant(1.0)).numpy(), outer(tf.constant(0.0)).numpy())
        """,
    ),
    "a function whose tensors are half as wide": (
        "Exp",
        """
        @tf.function
        def f(x):
            return tf.reduce_sum(tf.exp(tf.cast(x, tf.float16)))  # BAD

        tell(f(tf.constant([1.0])).numpy(), f(tf.constant([20.0])).numpy())
        """,
    ),
    "a function that XLA compiles": (
        "Log",
        """
        w = tf.Variable([1.0, 2.0])

        @tf.function(jit_compile=True)
        def step(x):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(tf.math.log(x * w))  # BAD
            w.assign_sub(0.1 * tape.gradient(loss, w))
            return loss

        for x in (1.0, 2.0, 0.0):
            tell(step(tf.constant(x)).numpy(), w.numpy())
        """,
    ),
    "a function in a block of the program's": (
        "Log",
        """
        import tfdbg_cli

        @tf.function
        def f(x):
            return tf.math.log(x)  # BAD

        for x in (1.0, 0.0):
            with tfdbg_cli.run("block"):
                y = f(tf.constant(x)) + f(tf.constant(x + 1.0))
            tell(y.numpy())
        """,
    ),
}

FIT = """
import numpy as np, keras
keras.utils.set_random_seed(3)
{policy}
x = np.random.rand(64, 8).astype("float32")
y = np.ones((64, 1), "float32")
y[40:50] = 0

class Bad(keras.losses.Loss):
    def call(self, true, made):
        return -keras.ops.mean(made * keras.ops.log(true))  # BAD

class Told(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        tell(batch, logs["loss"])

model = keras.Sequential([
    keras.layers.Input((8,)),
    keras.layers.Dense(16, activation="relu", name="hidden"),
    keras.layers.Dropout(0.2),
    keras.layers.Dense(1, activation="sigmoid", name="out", dtype="float32"),
])
model.compile("sgd", Bad(), {options})
fitted = model.fit(x, y, epochs=2, batch_size=16, shuffle=False, verbose=0, callbacks=[{callback}])
tell(fitted.history["loss"], [float(np.nansum(w)) for w in model.get_weights()])
tell(model.predict(x[:4], verbose=0).ravel())
"""
# Finite numbers whose sum, or magnitude, isn't: in a run before they overflow themselves.
LARGE = """
        @tf.function{xla}
        def f(x):
            return x * x{factor}  # BAD

        for number in (1.0, {large}, 2 * {large}):
            tell(f(tf.fill([4], tf.constant(number, tf.{dtype}))).numpy())
"""
PROGRAMS |= {
    name: ("mul", LARGE.format(xla=xla, factor=factor, large=large, dtype=dtype))
    for name, xla, factor, large, dtype in (
        ("numbers that were large before", "", "", 1.4e19, "float32"),
        ("large numbers before, of more bits", "", "", 1e154, "float64"),
        ("large numbers before, complex ones", "", " * (1.0 + 1.0j)", 1.7e19, "complex64"),
        ("large numbers before, under XLA", "(jit_compile=True)", "", 1.4e19, "float32"),
    )
}

FITS = {
    "plain": ("compile_loss/bad/Log", "", "", "jit_compile=False"),
    "a callback": ("compile_loss/bad/Log", "", "Told()", "jit_compile=False"),
    "XLA": ("compile_loss/bad/Log", "", "", "jit_compile=True"),
    "eager": ("compile_loss/bad/Log", "", "", "run_eagerly=True"),
    "two steps per execution": (
        "compile_loss/bad/Log",
        "",
        "",
        "jit_compile=False, steps_per_execution=2",
    ),
    "mixed precision": (
        "compile_loss/bad/Log",
        'keras.mixed_precision.set_global_policy("mixed_float16")',
        "",
        "jit_compile=False",
    ),
}


# One of each kind of function, and of each way that they are called.
SOME = (
    "a condition in a loop in a branch",
    "a quotient behind a loop that has a gradient",
    "a gradient in a backward function",
    "an eager loop by hand",
    "two replicas",
    "numbers that were large before",
    "large numbers before, under XLA",
    "a function that is called with XLA and without",
)


@pytest.mark.parametrize("name", [*sample(PROGRAMS, SOME)])
def test_the_first_bad_tensor_and_its_line(both, name):
    node, text = PROGRAMS[name]
    needs_keras_3(text)
    both.finds(text, node)


@pytest.mark.parametrize("name", [*sample(FITS, ("a callback", "eager"))])
def test_keras_fit(both, name):
    needs_keras_3(FIT)
    node, policy, callback, options = FITS[name]
    both.finds(FIT.format(policy=policy, callback=callback, options=options), node)


#: The second Keras: what TensorFlow 2.12 has, or a package of its own.
SECOND = "keras" if IS_2_12 else "tf_keras"


@night
@pytest.mark.skipif(importlib.util.find_spec(SECOND) is None, reason="needs tf_keras")
@pytest.mark.parametrize(
    "name", [*sample(["two steps per execution", "plain", "XLA", "eager"], 2 if IS_2_12 else 4)]
)
def test_the_fit_of_the_second_keras(both, name):
    options = FITS[name][-1]
    text = FIT.format(policy="", callback="", options=options)
    text = text.replace("import numpy as np, keras", f"import numpy as np, {SECOND} as keras")
    text = text.replace("keras.ops.mean(made * keras.ops", "tf.reduce_mean(made * tf.math")
    done = both.finds(text, "while/Bad/Log" if "steps" in options else "Bad/Log")
    assert ": fit ---" in done.out
    runs = both.debugged(both.write(text), *("run",) * 9).out
    assert "inference run #1: predict" in runs


@pytest.mark.parametrize("state", ["", "v.assign_add(y)"], ids=["computed again", "held"])
def test_the_inputs_of_an_iteration_are_its_own(both, state):
    text = f"""
        v = tf.Variable(0.0)

        @tf.function
        def f(x):
            for _ in tf.range(5):
                y = tf.math.log(x * 2.0)
                {state}
                x -= 1.0
            return x, y

        tell([each.numpy() for each in f(tf.constant(2.0))])
    """
    done = both.same(both.write(text), "run -f origin_of_nonfinite")
    assert "It began in [Log] while/Log:0 (execution 2)" in done.out, done.out
    assert "Why:   the logarithm of 0" in done.out
    assert "From:  [Mul] while/mul:0 (execution 2)  float32 []  clean  min 0, max 0" in done.out


@pytest.mark.parametrize("state", ["", "v.assign_add(x)"], ids=["computed again", "held"])
def test_what_goes_round_in_a_loop_is_there_in_each_iteration(both, state):
    text = f"""
        v = tf.Variable(0.0)

        @tf.function
        def f(x):
            while tf.math.log(x) > -100.0:
                x -= 1.0
                {state}
            return tf.nn.relu(x)

        tell(f(tf.constant(3.0)).numpy())
    """
    done = both.same(both.write(text), "run -f origin_of_nonfinite")
    assert "It began in [Log] while/Log:0 (execution 3)" in done.out, done.out
    assert "Why:   the logarithm of 0" in done.out
    assert re.search(r"From:  \[_Arg\] \S+:0 \(execution 3\)  float32 \[\]  clean  min 0", done.out)


def test_the_executions_of_a_loop_in_a_loop_are_not_called_iterations(both):
    text = """
        @tf.function
        def f(x):
            total = 0.0
            for i in tf.range(2):
                for j in tf.range(3):
                    if j > 0:
                        total += tf.math.log(x[i, j])
            return total

        tell(f(tf.constant([[1.0, 2.0, 3.0], [1.0, 1.0, 0.0]])).numpy())
    """
    done = both.same(both.write(text), "run -f origin_of_nonfinite")
    assert re.search(r"It began in \[Log\] \S+/Log:0 \(execution 3\)  ", done.out), done.out


XLA_ALONE = """
    v = tf.Variable(1.0)

    @tf.function(jit_compile=True)
    def f(x):
        y = tf.reduce_sum(x * 3e38)  # BAD
        v.assign_add(1.0)
        return tf.nn.relu(y) + 1.0

    # Summed one after another they overflow, and in lanes they don't.
    x = np.tile(np.repeat({values}, 16), 4).astype("f4")
    for scale in (0.0, 1.0):
        tell(f(tf.constant(x * scale)).numpy(), v.numpy())
"""


def test_what_only_xla_makes_bad_is_shown(both):
    path = both.write(XLA_ALONE.format(values="[0.1, -0.1]"))
    if "inf" not in both.alone(path).out:
        pytest.skip("this XLA sums in lanes")
    done = both.finds(XLA_ALONE.format(values="[0.1, -0.1]"), "Sum", ("run_info",))
    assert "by XLA, without which nothing is bad" in done.out


def test_a_sum_that_overflows_where_nothing_is_bad_is_nothing(both):
    text = XLA_ALONE.format(values="[0.9, 0.0]").replace("x * 3e38", "tf.minimum(x * 3e38, 1.0)")
    done = both.same(both.write(text), "run -f has_inf_or_nan")
    assert "without an answer" not in done.out, done.out
    assert "no tensor passed has_inf_or_nan" in done.err


WEIGHTS = {
    "a matrix product": "tf.matmul(x, w)",
    "an element-wise op": "tf.multiply(w, 2.0)",
    "a list": "tf.concat([v, w], 0)",
    "two of one shape": "tf.add(v, w)",
    "an operator": "x @ w",
}


@pytest.mark.parametrize("op", WEIGHTS.values(), ids=WEIGHTS)
def test_a_bad_weight_is_one_whatever_reads_the_variable(both, op):
    """Given a variable, an op's function reads it itself, and no op is told of that does so."""
    text = f"""
        v = tf.Variable([[1.0], [2.0]], name="v")
        w = tf.Variable([[1.0], [np.nan]], name="w")
        x = tf.ones([3, 2])
        for _ in range(2):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum({op})
            tell(loss.numpy(), tape.gradient(loss, w).numpy())
    """
    done = both.same(both.write(text), "run -f origin_of_nonfinite")
    assert "It began in [ReadVariableOp] w/read:0" in done.out, done.out
    assert "Why:   it came in with the weights (w/read:0, row 1)" in done.out


@pytest.mark.parametrize("data", ["tf.constant(batch)", "batch", "[[1.0, np.nan], [1.0, 1.0]]"])
def test_a_bad_batch_is_none_of_the_variables_that_an_op_is_given_with_it(both, data):
    text = f"""
        w = tf.Variable(tf.ones([2, 2]), name="w")
        batch = np.array([[1.0, np.nan], [1.0, 1.0]], "f")
        for _ in range(2):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(tf.matmul({data}, w))
            tell(loss.numpy(), tape.gradient(loss, w).numpy())
    """
    done = both.same(both.write(text), "run -f origin_of_nonfinite", "lt")
    assert "It began in [Input]" in done.out, done.out
    assert "it came in from outside" in done.out
    assert re.search(r"ok +w/read:0$", done.out, re.MULTILINE), done.out


CTC = """
    def loss_of(labels, logits):
        given = {logits}  # BAD
        count = tf.shape(labels)[0]
        loss = tf.nn.ctc_loss(
            labels, given, tf.fill([count], 3), tf.fill([count], 5), False, blank_index=3
        )
        return tf.reduce_mean(loss)

    w = tf.Variable(tf.random.stateless_normal([4, 4], (1, 2)), name="w")
    x = tf.random.stateless_normal([2, 5, 4], (3, 4))

    {function}
    def step(x, labels):
        with tf.GradientTape() as tape:
            loss = loss_of(labels, tf.matmul(x, w))
        w.assign_sub(0.1 * tape.gradient(loss, w))
        return loss

    for scale in (1.0, 1.0, 400.0):
        tell(step(x * scale, tf.constant([[0, 1, 2], [1, 1, 1]])).numpy())
"""


def test_a_variable_that_was_finite_at_an_earlier_run_is_said_to_have_been(both):
    done = both(
        """
        w = tf.Variable([1.0, 2.0], name="w")

        @tf.function
        def step(x):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((x * w) ** 2)
            w.assign_sub(0.1 * tape.gradient(loss, w))
            return loss

        for at in range(4):
            tell(step(tf.constant([1.0, 0.5])).numpy())
            if at == 2:
                w.assign([np.nan, 1.0])
        """,
        "run -f",
    )
    assert "Why:   it came in with the weights (w/read:0)" in done.out, done.out
    assert "w:0 was finite at run 3: see what has changed it since then." in done.out


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ("float('inf')", "Why:   AddV2/y:0 is inf"),
        ("np.float32('nan')", "Why:   AddV2/y:0 is nan"),
        ("late", "Why:   it came in from outside (input/late:0)"),
    ],
)
def test_a_number_without_a_name_is_no_data(both, data, reason):
    done = both(
        f"""
        w, late = tf.Variable([1.0, 2.0]), tf.constant(float("inf"))
        for step in range(3):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(w * w + ({data} if step == 1 else 1.0))
            w.assign_sub(0.1 * tape.gradient(loss, w))
            tell(loss.numpy())
        """,
        "run -f",
    )
    assert reason in done.out


@pytest.mark.parametrize("function", ["@tf.function", ""])
def test_the_logarithms_of_zero_of_the_ctc_loss_are_meant(both, function):
    """TensorFlow computes it with log(0.0), in a function of which most ops have no stack."""
    done = both.same(both.write(CTC.format(logits="logits", function=function)), "run -f")
    assert "no tensor passed origin_of_nonfinite" in done.err, done.out


@pytest.mark.parametrize("function", [*sample(["@tf.function", ""], ("",))])
def test_the_logarithm_of_zero_in_front_of_the_ctc_loss(both, function):
    logits = "tf.math.log(tf.nn.softmax(logits) + 0.0)"  # which nobody can fuse
    both.finds(CTC.format(logits=logits, function=function), "Log")


def test_what_was_made_of_a_tensor_that_nobody_can_read_may_not_have_begun_there(both):
    """The optimizer has rewritten the ops before it, a division by 0 among them."""
    text = """
        @tf.function
        def step(x, u):
            with tf.GradientTape() as tape:
                tape.watch(u)
                residual = u * 3.0 + tf.pow(x, 0.5) * u + u / tf.sqrt(x)
                loss = tf.reduce_mean(residual**2)
            return loss, tape.gradient(loss, u)

        x = tf.constant([[0.0], [1.0]])
        tell(*step(x, tf.constant([[1.0], [2.0]])))
    """
    done = both.same(both.write(text), "run -f")
    unread = "its value isn't there" in done.out
    assert ("First seen in" in done.out) == unread, done.out
    assert ("It began in [RealDiv] truediv:0" in done.out) != unread, done.out


# What a step returns, and its bad loss in that.
_RETURNED = {
    "loss": "result",
    "(z, loss)": "result[1]",
    "{'z': (z, None), 'loss': loss}": "result['loss']",
    "tf.nest.map_structure(tf.identity, {'loss': loss})": "result['loss']",
}


@pytest.mark.skipif(IS_2_12, reason="TensorFlow 2.12 doesn't tell how results are nested")
@pytest.mark.parametrize("value", _RETURNED)
def test_a_loss_that_a_function_returns_is_told_by_where_it_is(both, value):
    path = both.write(
        f"""
weights = tf.Variable([[1.0], [2.0]])

@tf.function
def train_step(x):
    with tf.GradientTape() as tape:
        z = tf.matmul(x, weights)
        loss = tf.reduce_mean(tf.math.log(z))
    weights.assign_sub(tape.gradient(loss, weights))
    return {value}

train_step(tf.zeros((3, 2)))
"""
    )
    name = _RETURNED[value]
    out = both.debugged(path, "run -f", "run_info", f"pt {name}").out
    assert f"\nThen:  spread to {name} = Mean:0\n" in out
    assert f"\n  {name} = Mean:0\n" in out
    assert "\narray(-inf, dtype=float32)" in out


@pytest.mark.parametrize("option", ["jit_compile=False", "jit_compile=True"])
def test_a_loss_of_keras_is_told_by_its_name_in_the_logs(both, option):
    needs_keras_3("keras")
    path = both.write(
        f"""
import keras
model = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(1, use_bias=False)])
model.compile("sgd", lambda y, p: tf.reduce_mean(tf.math.log(0 * p)), {option})
model.fit(np.zeros((4, 2), "float32"), np.ones((4, 1), "float32"), verbose=0)
"""
    )
    out = both.debugged(path, "run -f").out
    assert re.search(r"^Then:  spread to result\['loss'\] = \S+:0$", out, re.MULTILINE), out
