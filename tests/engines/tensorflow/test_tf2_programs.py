"""What programs of TensorFlow 2 do, alone and under the debugger: the same."""

import re

import pytest
from samples import night, sample
from tf2_kit import IS_2_12, listed, needs_keras_3

PROGRAMS = {
    "ragged and sparse tensors": """
        @tf.function
        def f(ragged, sparse):
            total = tf.reduce_sum(tf.sqrt(ragged), axis=1)
            return total, tf.sparse.reduce_sum(sparse, 1), ragged * 2.0

        for at in range(3):
            ragged = tf.ragged.constant([[1.0], [2.0, 3.0 + at], []])
            sparse = tf.sparse.from_dense([[0.0, at], [2.0, 0.0]])
            a, b, c = f(ragged, sparse)
            tell(a.numpy(), b.numpy(), c.to_list())
    """,
    "texts": """
        @tf.function
        def f(x):
            parts = tf.strings.split(x, " ")
            return tf.strings.join([x, "!"]), tf.strings.length(x), parts.flat_values

        for x in (["a b", "c"], [""]):
            tell([each.numpy().tolist() for each in f(tf.constant(x))])
    """,
    "complex numbers and small floats": """
        @tf.function
        def f(x):
            z = tf.signal.fft(tf.cast(x, tf.complex64))
            small = tf.cast(x, tf.bfloat16) * 3
            eight = tf.cast(tf.cast(x, tf.dtypes.experimental.float8_e4m3fn), tf.float32)
            return z, tf.cast(small, tf.float32), eight, tf.cast(x, tf.float16)

        for x in ([1.0, 2.0], [0.5, 7.0]):
            tell(*(each.numpy() for each in f(tf.constant(x))))
    """,
    "a function that returns nothing": """
        v = tf.Variable(1.0)
        seen = []

        @tf.function
        def f(x):
            seen.append("traced")
            v.assign_add(x)

        for x in (1.0, 2.0):
            tell(f(tf.constant(x)), v.numpy(), seen)
        f(2.0)
        tell(v.numpy(), seen)
    """,
    "results that are nested, and none at all": """
        @tf.function
        def f(x):
            return {"a": [x, (x * 2.0, None)], "b": 3, "c": tf.constant(2)}

        @tf.function
        def g(x):
            return x

        concrete = f.get_concrete_function(tf.constant(1.0))
        tell(f(tf.constant(1.0)), g(tf.constant(2.0)), concrete.structured_outputs)
    """,
    "a function that calls itself": """
        @tf.function(input_signature=[tf.TensorSpec([], tf.int32)])
        def f(n):
            if n <= 1:
                return 1
            return n * f.get_concrete_function()(n - 1) if False else n * 2

        @tf.function(autograph=False)
        def power(x, n):
            return x if not n else power(x, n - 1) * x

        tell(f(tf.constant(5)).numpy(), power(tf.constant(2.0), 4).numpy())
    """,
    "a function that is its own function": """
        @tf.function(reduce_retracing=True)
        def count(n):
            return tf.cond(n > 0, lambda: 1 + count(n - 1), lambda: 0)

        try:
            tell(count(tf.constant(3)).numpy())
        except Exception as error:
            tell(type(error).__name__)
    """,
    "variables made by the first call": """
        class Model(tf.Module):
            def __init__(self):
                self.v = None

            @tf.function
            def __call__(self, x):
                if self.v is None:
                    self.v = tf.Variable(tf.ones_like(x) * 3.0)
                self.v.assign_add(x)
                return self.v * x

        model = Model()
        for x in (1.0, 2.0):
            tell(model(tf.constant([x, 1.0])).numpy(), model.v.numpy())
    """,
    "a tape that is asked twice": """
        v = tf.Variable([1.0, 2.0])

        @tf.function
        def f(x):
            return tf.reduce_sum(v * x * v)

        with tf.GradientTape(persistent=True) as tape:
            a, b = f(tf.constant(2.0)), f(tf.constant(3.0))
            c = a * b
        tell(tape.gradient(a, v).numpy(), tape.gradient(b, v).numpy(), tape.gradient(c, v).numpy())
        with tf.GradientTape() as outer:
            with tf.GradientTape() as inner:
                a = f(tf.constant(2.0)) ** 2
            gradient = inner.gradient(a, v)
        tell(outer.jacobian(gradient, v).numpy())
    """,
    "forward gradients": """
        @tf.function
        def f(x):
            return tf.sin(x) * x

        x = tf.constant([1.0, 2.0])
        with tf.autodiff.ForwardAccumulator(x, tf.ones_like(x)) as forward:
            y = f(x)
        tell(y.numpy(), forward.jvp(y).numpy())
    """,
    "gradients of its own": """
        @tf.custom_gradient
        def twice(x):
            return x * 2.0, lambda upstream: upstream * 5.0

        @tf.function
        def f(x):
            return twice(x) + tf.recompute_grad(lambda t: tf.sin(t))(x)

        x = tf.constant([1.0])
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = f(x)
        tell(y.numpy(), tape.gradient(y, x).numpy())
    """,
    "Python inside": """
        calls = []

        def own(x):
            calls.append(float(x[0]))
            return np.float32(x * 2)

        @tf.function
        def f(x):
            a = tf.numpy_function(own, [x], tf.float32)
            b = tf.py_function(lambda t: t + 1.0, [a], tf.float32)
            return a, b

        for x in (1.0, 2.0, 3.0):
            tell([each.numpy() for each in f(tf.constant([x]))], calls)
    """,
    "threads": """
        import threading
        found = [None] * 3
        v = tf.Variable(0.0)

        @tf.function
        def f(x):
            v.assign_add(x)
            return tf.reduce_sum(x * tf.ones([10]))

        def work(at):
            found[at] = [f(tf.constant(float(i))).numpy() for i in range(5)]

        f(tf.constant(1.0))
        threads = [threading.Thread(target=work, args=(at,)) for at in range(3)]
        for thread in threads:
            thread.start()
        for _ in range(3):
            with tf.GradientTape():
                f(tf.constant(0.0))
        for thread in threads:
            thread.join()
        tell(found, v.numpy())
    """,
    "a generator and a table": """
        tf.random.set_seed(5)
        generator = tf.random.Generator.from_seed(3)
        table = tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer(["a", "b"], [1.0, 2.0]), -1.0
        )

        @tf.function
        def f(x):
            return table.lookup(x), generator.normal([2]), tf.random.normal([2])

        for _ in range(4):
            tell(*(each.numpy() for each in f(tf.constant(["a", "c"]))))
    """,
    "streams of random numbers": """
        tf.random.set_seed(5)

        @tf.function
        def f():
            a = tf.random.normal([2], seed=3)
            for _ in tf.range(2):
                # TensorFlow draws for several iterations at a time, in whatever order.
                tf.autograph.experimental.set_loop_options(parallel_iterations=1)
                a += tf.random.uniform([2])
            return a

        @tf.function
        def g():
            return tf.nn.dropout(tf.ones([6]), 0.5), tf.random.shuffle(tf.range(5))

        for _ in range(14):
            tell(f().numpy(), *(each.numpy() for each in g()), tf.random.normal([1]).numpy())
    """,
    "pipelines": """
        def prepared(x):
            return tf.random.stateless_uniform([2], [x, 1]) + tf.cast(x, tf.float32)

        data = tf.data.Dataset.range(8).map(prepared, num_parallel_calls=2)
        data = data.filter(lambda x: x[0] > 0.5).batch(3).prefetch(1)

        @tf.function
        def step(batch):
            return tf.reduce_sum(batch)

        @tf.function
        def all_of():
            total = 0.0
            for batch in data:
                total += step(batch)
            return total

        for batch in data:
            tell(step(batch).numpy())
        iterator = iter(data)

        @tf.function
        def pull(iterator):
            return tf.reduce_sum(next(iterator))

        tell(pull(iterator).numpy(), pull(iterator).numpy(), all_of().numpy())
    """,
    "shapes that change": """
        @tf.function(input_signature=[tf.TensorSpec([None], tf.float32)])
        def f(x):
            n = tf.constant(0)
            while tf.size(x) > 1:
                x = x[: tf.size(x) // 2] * 2.0
                n += 1
            return x, n

        for size in (1, 5, 9):
            tell([each.numpy() for each in f(tf.ones([size]))])
    """,
    "texts and lists in branches and loops": """
        @tf.function
        def f(x, n):
            made = tf.TensorArray(tf.string, 0, dynamic_size=True)
            for i in tf.range(n):
                if i % 2 == 0:
                    word = tf.strings.as_string(x * tf.cast(i, tf.float32))
                else:
                    word = tf.constant("odd")
                made = made.write(i, word)
            return made.stack(), made.size()

        tell([each.numpy() for each in f(tf.constant(1.5), tf.constant(5))])
        tell([each.numpy() for each in f(tf.constant(1.5), tf.constant(0))])
    """,
    "a replica of a strategy": """
        strategy = tf.distribute.OneDeviceStrategy("CPU:0")
        with strategy.scope():
            v = tf.Variable(2.0)

        @tf.function
        def step(x):
            def one(x):
                replica = tf.distribute.get_replica_context()
                v.assign_add(replica.all_reduce("sum", x))
                return v * x

            return strategy.run(one, (x,))

        for x in (1.0, 2.0):
            tell(step(tf.constant(x)).numpy(), v.numpy())
    """,
    "functions of functions": """
        @tf.function
        def f(x):
            return x * 2.0

        concrete = f.get_concrete_function(tf.TensorSpec([None], tf.float32))
        tell(concrete(tf.constant([1.0])).numpy(), len(concrete.captured_inputs))
        pruned = tf.compat.v1.wrap_function(lambda x: x + 1.0, [tf.TensorSpec([], tf.float32)])
        tell(pruned(tf.constant(1.0)).numpy())
        tell(tf.vectorized_map(lambda t: tf.reduce_sum(t * t), tf.ones([3, 2])).numpy())
        tell(tf.map_fn(lambda t: f(t), tf.ones([2])).numpy())
        eager = tf.function(lambda x: x * 3.0, jit_compile=True)
        tell(eager(tf.constant([1.0])).numpy())
        tf.config.run_functions_eagerly(True)
        tell(f(tf.constant(4.0)).numpy())
    """,
    "graphs and sessions beside": """
        @tf.function
        def f(x):
            return x * 2.0

        tell(f(tf.constant(1.0)).numpy())
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            tell(session.run(f(tf.constant(3.0))))
        tell(f(tf.constant(2.0)).numpy())
    """,
    "hooks that raise": """
        import keras
        keras.utils.set_random_seed(1)

        class Stop(keras.callbacks.Callback):
            def on_train_batch_begin(self, batch, logs=None):
                if batch == 2:
                    raise ValueError("enough")

        model = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(1)])
        model.compile("sgd", "mse", jit_compile=False)
        try:
            model.fit(np.ones((8, 2)), np.ones(8), batch_size=2, verbose=0, callbacks=[Stop()])
        except ValueError as error:
            tell(error)
        model.fit(np.ones((8, 2)), np.ones(8), batch_size=2, verbose=0)
        tell([w.tolist() for w in model.get_weights()])
    """,
    "a tape that raises": """
        v = tf.Variable(1.0)
        for _ in range(3):
            try:
                with tf.GradientTape() as tape:
                    y = v * 2.0
                    raise ValueError("enough")
            except ValueError as error:
                tell(error)
            with tf.GradientTape() as tape:
                y = v * 2.0
            v.assign_sub(tape.gradient(y, v))
        tell(v.numpy())
    """,
    "a loop of losses": """
        import keras
        keras.utils.set_random_seed(2)
        v = keras.Variable(np.ones((3, 2), "float32"))
        optimizer = keras.optimizers.Adam(0.1)

        @tf.function
        def step(x):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(tf.matmul(x, v.value)))
            optimizer.apply([tape.gradient(loss, v.value)], [v])
            return loss

        for _ in range(6):
            x = tf.random.normal([4, 3])
            tell(step(x).numpy(), v.numpy().ravel())
    """,
}


# One of each kind: of what is given and made, functions, variables, gradients, Python, ends.
SOME = (
    "a function that returns nothing",
    "variables made by the first call",
    "forward gradients",
    "Python inside",
)


@pytest.mark.parametrize("name", [*sample(PROGRAMS, SOME)])
def test_the_program_does_what_it_does_alone(both, name):
    needs_keras_3(PROGRAMS[name])
    both(PROGRAMS[name])


@night
def test_what_the_conditions_of_loops_do_is_done_once(both):
    """Also what they draw, print, assert, write and leave to Python."""
    text = """
        import sys
        tf.random.set_seed(3)
        v, seen = tf.Variable(0.0), []

        def below(x):
            tf.print("program: test", v, output_stream=sys.stdout)
            tf.debugging.Assert(x < 1e6, [x])
            v.assign_add(1.0)
            tf.numpy_function(lambda x: seen.append(float(x)), [x], [])
            return tf.math.log(x) < 2.0

        @tf.function
        def f(x):
            n = 0
            while tf.random.uniform([]) < 0.8 and tf.math.log(x) < 1.0:
                x += 1.0
                n += 1
            while below(x):
                x *= 2.0
            return x, n

        for x in (1.0, 0.5, 2.0, 1.0, 0.1, 0.2):
            tell([each.numpy() for each in f(tf.constant(x))], v.numpy(), len(seen))
    """
    both(text)


def test_the_tests_of_a_loop_read_what_it_writes(both):
    """Before each iteration, and when the last one is over."""
    text = """
        v = tf.Variable(4.0, name="v")

        @tf.function
        def f(x):
            while tf.sqrt(v) * x > 1.0:
                v.assign_sub(1.0)
            v.assign(9.0)
            return x

        tell(f(tf.constant(1.0)).numpy(), v.numpy())
    """
    path = both.write(text)
    done = both.same(path, "run", *(f"pt while/Sqrt:0 -n {at}" for at in range(4)))
    found = [float(each) for each in re.findall(r"array\(([\d.]+), dtype=float32\)", done.out)]
    assert found == pytest.approx([4.0**0.5, 3.0**0.5, 2.0**0.5, 1.0])


def test_prints_and_assertions_keep_their_order(both):
    text = """
        import sys
        @tf.function
        def f(x):
            tf.print("program: before", x, output_stream=sys.stdout)
            y = x * 2.0
            tf.debugging.Assert(y < 5.0, [y])
            tf.print("program: after", y, output_stream=sys.stdout)
            return y

        for x in (1.0, 2.0, 3.0, 1.0):
            try:
                tell(f(tf.constant(x)).numpy())
            except tf.errors.InvalidArgumentError as error:
                tell("failed", "__tfdbg" in str(error), "assertion failed: [6]" in str(error))
    """
    done = both(text)
    assert "program: after 4" in done.out


FAILING = """
    import traceback
    v = tf.Variable([1.0, 2.0])

    @tf.function
    def inner(y, at):
        return tf.gather(y * 3.0, at)

    @tf.function
    def f(x, at):
        y = x * v
        {body}

    for at in (1, 0, 9, 1):
        try:
            tell(f(tf.constant([1.0, 2.0]), tf.constant(at)).numpy())
        except tf.errors.InvalidArgumentError as error:
            frames = traceback.extract_tb(error.__traceback__)
            tell(type(error).__name__, "tfdbg_" in str(error).replace("test_", ""))
            tell([frame.name for frame in frames], error.op, error.node_def)
            lines = [line for line in str(error).splitlines() if line.strip()]
            # A server of the tests runs both.
            stack = [line for line in lines if "File" in line and "server" not in line]
            tell([line for line in stack if "runpy" not in line])
            tell([line for line in lines if "File" not in line])
"""


@pytest.mark.skipif(
    IS_2_12,
    reason="2.12 looks for creation stacks under the names of functions, which are the twins'",
)
@pytest.mark.parametrize(
    "body",
    [
        *sample(
            [
                pytest.param("return tf.gather(y, at) + 1.0", id="op"),
                pytest.param("return inner(y, at)", id="nested"),
                pytest.param(
                    "return tf.cond(at > -1, lambda: tf.gather(y, at), lambda: y[0])", id="branch"
                ),
            ],
            3,
        )
    ],
)
def test_an_op_that_fails_in_a_function(both, body):
    """The program's error is TensorFlow's own; what came before it is in the dump."""
    path = both.write(FAILING.format(body=body))
    alone = both.alone(path)
    shown = both.debugged(path, "run", "run", "run", "lt", "run -t 100")
    own = [line for line in shown.out.splitlines() if line.startswith("program:")]
    # TensorFlow numbers its functions anew for nobody: messages are the same to the letter.
    assert own == [line for line in alone.out.splitlines() if line.startswith("program:")]
    if "tf.gather(y, at) + 1" in body:
        assert "mul" in listed(shown.out, -2)
    for way in (("run -f has_inf_or_nan",), ("run -t 1000",), ("exit --detach",)):
        both.same(path, *way)


def test_an_error_of_the_program_ends_it_alike(both):
    text = """
        @tf.function
        def f(x, at):
            return tf.gather(x * 2.0, at)

        tell("begins")
        f(tf.constant([1.0]), tf.constant(7))
    """
    path = both.write(text)
    for way in (("run", "run"), ("run -f has_inf_or_nan",), ("run -t 1000",)):
        alone, done = both.alone(path), both.debugged(path, *way)
        assert done.status == alone.status == 1
        assert alone.err.splitlines()[-1].split("[Op")[0] in done.err
        assert "__tfdbg_" not in done.err
        assert not re.search(r'File ".*/tfdbg_cli/engines', done.err)


ALTERNATING = """
    tf.random.set_seed(5)

    @tf.function
    def f():
        return tf.random.normal([2]) + tf.random.uniform([2], seed=3)

    for _ in range(14):
        tell(f().numpy(), tf.random.normal([1]).numpy())
"""


@pytest.mark.parametrize(
    "commands",
    [
        *sample(
            [
                ("run", "run -n", "run", "run -n", "run", "run"),
                ("run -n", "run -n", "run", "run", "run -t 3", "run"),
                ("run", "run", "exit --detach"),
                ("run -n", "run -t 4", "exit --detach"),
                ("run -f has_inf_or_nan -fenn .",),
            ],
            3,
        )
    ],
    ids=str,
)
def test_streams_of_random_numbers_go_on(both, commands):
    both.same(both.write(ALTERNATING), *commands)
