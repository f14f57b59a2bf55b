"""Batches that come in bad: the function of the ``tf.data`` pipeline that has made them so.

Each program is planted with a mistake in the line that ends with ``# BAD``.
"""

import pytest
from samples import night, sample
from tf2_kit import listed, needs_keras_3

PIPELINE = """
    def prepared(x):
        x = tf.cast(x, tf.float32)
        return tf.stack([tf.math.log(tf.abs(x - 13.0)), x])  # BAD

    def scaled(x):
        return x * 0.1

    data = tf.data.Dataset.range(24).map(prepared, num_parallel_calls=2)
    data = data.filter(lambda x: x[1] > 1.0).map(scaled){order}.batch(4).prefetch(1)
    w = tf.Variable([1.0, 2.0], name="w")
"""
USES = {
    "an eager loop": """
    for batch in data:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(batch * w)
        w.assign_sub(0.1 * tape.gradient(loss, w))
        tell(loss.numpy())
    """,
    "a function for each batch": """
    @tf.function
    def step(batch):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(batch * w)
        w.assign_sub(0.1 * tape.gradient(loss, w))
        return loss

    for batch in data:
        tell(step(batch).numpy())
    """,
    "a loop in a function": """
    @tf.function
    def epoch(data):
        total = 0.0
        for batch in data:
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(batch * w)
            w.assign_sub(0.1 * tape.gradient(loss, w))
            total += loss
        return total

    for count in (2, 1, 5):
        tell(epoch(data.take(count)).numpy(), w.numpy())
    """,
    "a loop in a function that ends early": """
    @tf.function
    def epoch():
        total = 0.0
        for batch in data:
            if not tf.math.is_finite(total):
                break
            total += tf.reduce_mean(batch * w)
        return total

    tell(epoch().numpy())
    """,
    "a function that takes the batch": """
    @tf.function
    def step(iterator):
        return tf.reduce_mean(next(iterator) * w)

    iterator = iter(data)
    for _ in range(5):
        tell(step(iterator).numpy())
    """,
}
FIT = """
    import keras
    keras.utils.set_random_seed(3)
    model = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse", {options})
    model.fit(data.map(lambda x: (x, x[:, :1])), verbose=0)
    tell(model.predict(data, verbose=0).ravel())
"""
FITS = ("", "jit_compile=False", "run_eagerly=True", "jit_compile=False, steps_per_execution=2")

NODE = "pipeline/prepared/Log"


def found(both, text):
    """What a program shows whose batch was led back to the function that has made it."""
    done = both.finds(text, NODE, ("li --to-first-bad IteratorGetNext",))
    assert "is bad: made by the pipeline, by prepared at program.py:" in done.out
    assert f'"{NODE}:0"' in done.out and "Abs:0" in done.out
    return done


@pytest.mark.parametrize("use", [*sample(USES, 2)])
def test_the_function_that_has_made_a_batch_bad(both, use):
    found(both, PIPELINE.format(order="") + USES[use])


@pytest.mark.parametrize("options", [*sample(FITS, 2)])
def test_a_batch_of_keras(both, options):
    needs_keras_3(FIT)
    text = PIPELINE.format(order="") + FIT.format(options=options)
    done = both.finds(text, NODE)
    assert "is bad: made by the pipeline" in done.out


def test_elements_in_another_order_are_led_back_as_well(both):
    text = PIPELINE.format(order=".shuffle(8, seed=3)") + USES["a function for each batch"]
    done = both.finds(text, NODE, ("fix",))
    assert "Computed again, the first bad batch of it is made by prepared" in done.out
    assert "not tried: tf.data has computed it" in done.out


def test_data_that_are_bad_from_the_beginning(both):
    text = """
        given = np.ones((12, 2), "float32")
        given[9, 1] = np.nan
        data = tf.data.Dataset.from_tensor_slices(given).map(lambda x: x * 2.0).batch(4)

        @tf.function
        def step(batch):
            return tf.reduce_sum(batch)

        for batch in data:
            tell(step(batch).numpy())
    """
    shown = ("lt", "li --to-first-bad Sum", "run -t 100")
    done = both.same(both.write(text), "run -f origin_of_nonfinite", *shown)
    assert listed(done.out)[0] == "pipeline/TensorSliceDataset"
    assert "made by the pipeline, from bad data in Dataset.from_tensor_slices" in done.out
    assert 'began with, "pipeline/TensorSliceDataset:0"' in done.out


REPLICAS = """
    (cpu,) = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
"""
SHARED_OUT = {
    "a function for each batch": """
    @tf.function
    def step(batch):
        return strategy.run(lambda each: tf.reduce_mean(each * w), (batch,))

    for batch in strategy.experimental_distribute_dataset(data):
        tell([each.numpy() for each in step(batch).values])
    """,
    "a function that takes the batch": """
    @tf.function
    def step(iterator):
        return strategy.run(lambda each: tf.reduce_mean(each * w), (next(iterator),))

    iterator = iter(strategy.experimental_distribute_dataset(data))
    for _ in range(5):
        tell([each.numpy() for each in step(iterator).values])
    """,
    "ops that are executed by themselves": """
    for batch in strategy.experimental_distribute_dataset(data):
        made = strategy.run(lambda each: tf.reduce_mean(each * w), (batch,))
        tell([each.numpy() for each in made.values])
    """,
    "Keras": """
    import keras
    keras.utils.set_random_seed(3)
    with strategy.scope():
        model = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(1)])
        model.compile("sgd", "mse", jit_compile=False)
    model.fit(data.map(lambda x: (x, x[:, :1])), verbose=0)
    tell(model.predict(data, verbose=0).ravel())
    """,
}


@pytest.mark.parametrize("use", [*sample(SHARED_OUT, ("a function for each batch",))])
def test_batches_that_a_strategy_shares_out(both, use):
    needs_keras_3(SHARED_OUT[use])
    done = both.finds(REPLICAS + PIPELINE.format(order="") + SHARED_OUT[use], NODE)
    assert "Computed again, the first bad batch of it is made by prepared" in done.out


def test_arrays_that_keras_is_given(both):
    text = """
        import keras
        keras.utils.set_random_seed(3)
        x = np.ones((12, 2), "float32")
        x[9, 1] = np.nan
        model = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(1)])
        model.compile("sgd", "mse", jit_compile=False)
        tell(model.fit(x, x[:, :1], batch_size=4, verbose=0).history["loss"])
    """
    needs_keras_3(text)
    done = both.same(both.write(text), "run -f origin_of_nonfinite", "lt", "run -t 100")
    assert listed(done.out)[0] == "pipeline/TensorDataset"
    assert "it came in from outside (pipeline/TensorDataset:0, row 9)" in done.out
    assert "Tried: without row " in done.out
    words = "made by the pipeline, from bad data in Dataset.from_tensors, where its bad rows are."
    assert words in done.out


def test_bad_data_that_the_pipeline_mends_are_not_blamed(both):
    """The function after that can't be called again, and so nobody knows what it was given."""
    text = """
        def mended(x):
            return tf.where(tf.math.is_nan(x), 1.0, x)

        def noisy(x):
            return tf.math.log(tf.floor(x - tf.random.uniform([2]) * 0.001))

        given = np.ones((12, 2), "float32")
        given[9, 1] = np.nan
        data = tf.data.Dataset.from_tensor_slices(given).map(mended).map(noisy).batch(4)

        @tf.function
        def step(batch):
            return tf.reduce_sum(batch)

        for batch in data:
            tell(step(batch).numpy())
    """
    done = both.same(both.write(text), "run -f origin_of_nonfinite", "lt", "run -t 100")
    assert "it isn't known by which step (noisy has effects or draws random numbers" in done.out
    assert "It began in [IteratorGetNext] IteratorGetNext:0" in done.out
    assert "bad data" not in done.out


def test_functions_that_cannot_be_called_again_are_named(both):
    text = """
        def noisy(x):
            return tf.math.log(tf.floor(tf.random.uniform([2]) * 2.0))

        def scaled(x):
            return x * 0.1

        tf.random.set_seed(4)
        data = tf.data.Dataset.range(24).map(noisy).map(scaled).batch(4)

        @tf.function
        def step(batch):
            return tf.reduce_sum(batch)

        for batch in data:
            tell(step(batch).numpy())
    """
    shown = ("li --to-first-bad Sum", "ni -t pipeline/noisy", "run -t 100")
    done = both.same(both.write(text), "run -f origin_of_nonfinite", *shown)
    assert "it isn't known by which step (noisy has effects or draws random numbers" in done.out
    assert "[MapDataset] pipeline/noisy:0" in done.out and "def noisy(x):" in done.out
    both(text)


LOOP = """
    w = tf.Variable([1.0, 2.0], name="w")
    data = tf.data.Dataset.range(6).map(lambda x: tf.stack([tf.cast(x, tf.float32), 1.0]))

    @tf.function
    def epoch(data):
        total, words = 0.0, tf.constant("")
        for batch in data:
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.math.log(tf.abs(batch - 3.0)) * w)  # BAD
            w.assign_sub(0.1 * tape.gradient(loss, w))
            total += loss
            words = tf.strings.join([words, tf.strings.as_string(batch[0])])
            if batch[0] > 4.0:
                break
        return total, words

    for count in (2, 0, 6):
        tell([each.numpy() for each in epoch(data.take(count))], w.numpy())
"""


def test_the_iteration_of_a_loop_over_a_dataset_that_is_bad(both):
    done = both.finds(LOOP, "cond/Log", ("pt IteratorGetNext:0", "run_info"))
    assert "3., 1." in done.out.replace("[ ", "[")
    assert "of one iteration, the first bad one or the last" in done.out


@night
def test_loops_over_datasets_do_what_they_do_alone(both):
    both("""
        tf.random.set_seed(3)
        parts = {"a": np.arange(6, dtype="f4"), "b": ["x", "yy", "z", "w", "v", "u"]}
        data = tf.data.Dataset.from_tensor_slices(parts).map(lambda d: (d["a"], d["b"]))
        ragged = tf.data.Dataset.from_tensor_slices(tf.ragged.constant([[1.0], [2.0, 3.0], []]))
        v = tf.Variable(0.0)

        @tf.function
        def numbered():
            total = 0.0
            for i, (a, b) in enumerate(data):
                total += a * tf.cast(i, tf.float32) * tf.random.uniform([])
                total += tf.cast(tf.strings.length(b), tf.float32)
            for row in ragged:
                total += tf.reduce_sum(row)
            return total

        @tf.function
        def nested():
            made, i = tf.TensorArray(tf.float32, 0, dynamic_size=True), 0
            for a, _ in data.batch(2):
                for c in tf.data.Dataset.range(2):
                    made = made.write(i, tf.reduce_sum(a) * tf.cast(c, tf.float32))
                    i += 1
                if i > 3:
                    continue
                v.assign_add(1.0)
            return made.stack()

        @tf.function
        def within(flag):
            if flag:
                for a, _ in data.take(2):
                    v.assign_add(a)
            for x in tf.range(2):
                for a, _ in data.take(2):
                    v.assign_add(a)
            return v.read_value(), data.reduce(0.0, lambda total, each: total + each[0])

        for flag in (True, False, True):
            tell(numbered().numpy(), nested().numpy())
            tell([each.numpy() for each in within(tf.constant(flag))])
    """)
