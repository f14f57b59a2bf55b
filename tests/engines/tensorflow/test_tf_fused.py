"""What the optimizer of TensorFlow makes one op of, it makes one of under the debugger, too."""

import re

import pytest
from samples import sample
from tf2_kit import MARK

LAYERS = """
    import hashlib
    import random

    ACTIVATIONS = (
        *(tf.nn.relu, tf.nn.relu6, tf.nn.elu, tf.nn.leaky_relu, tf.nn.tanh, tf.nn.sigmoid),
        *(tf.nn.gelu, tf.nn.swish, tf.nn.softmax, tf.exp, tf.square, tf.identity),
        lambda x: tf.nn.gelu(x, approximate=True),
        lambda x: x * tf.tanh(tf.math.softplus(x)),
        lambda x: tf.maximum(x, x * 0.1),
        lambda x: tf.math.log(tf.nn.softmax(x)),
        lambda x: tf.math.log(1.0 + tf.abs(x)) * 2.0 * 0.3,
        lambda x: tf.math.rsqrt(tf.square(x) + 1e-3),
        lambda x: tf.nn.relu(x) + x,
        lambda x: x / tf.sqrt(tf.reduce_sum(x * x, -1, keepdims=True)),
        lambda x: x * x * tf.tanh(x) + tf.nn.softplus(x),
        lambda x: x / (tf.sqrt(tf.abs(x)) + 0.0),
    )

    def program(seed, held=None):
        chance, numbers = random.Random(seed), np.random.RandomState(seed)
        kind = chance.choice((*[tf.float32] * 4, tf.bfloat16, tf.float16))
        is_image = chance.random() < 0.4 and kind != tf.float16
        size = chance.choice((4, 8, 16))

        def number(*shape):
            made = tf.cast(numbers.randn(*shape) * chance.choice((0.1, 0.3, 1.0)), kind)
            return held(made) if held is not None and chance.random() < 0.6 else made

        layers = []
        for _ in range(chance.randint(1, 4)):
            act = chance.choice(ACTIVATIONS[:1] if chance.random() < 0.4 else ACTIVATIONS)
            shape = chance.choice(((3, 3, size, size), (3, 3, size, 1)))
            weights = number(*(shape if is_image else (size, size)))
            bias, scale = number(size), tf.abs(numbers.randn(size).astype("float32")) + 0.5
            add = chance.choice(("bias", "add", "none", "bias", "normalize"))
            around = chance.choice(("", "", "rest", "call", "branch", "loop", "steps"))
            layers.append((act, weights, bias, scale, add, around))

        def once(x, act, weights, bias, scale, add, around):
            if not is_image:
                x = x @ weights
            elif weights.shape[-1] == 1:
                x = tf.nn.depthwise_conv2d(x, weights, [1] * 4, "SAME")
            else:
                x = tf.nn.conv2d(x, weights, 1, "SAME")
            if add == "bias":
                x = tf.nn.bias_add(x, bias)
            elif add == "add":
                x = x + bias
            elif add == "normalize" and is_image:
                four = dict(mean=scale, variance=scale, is_training=False)
                x = tf.compat.v1.nn.fused_batch_norm(x, scale, scale, **four)[0]
            elif add == "normalize":
                scale = tf.cast(scale, kind)
                x = tf.nn.batch_normalization(x, bias, scale, bias, scale, 1e-3)
            return act(x)

        times = tf.Variable(0.0) if held is None else None

        def looped(x, layer, steps):
            def body(at, x):
                if steps and times is not None:
                    times.assign_add(1.0)  # so that the values in the loop are held
                return at + 1, tf.ensure_shape(once(x, *layer), x.shape)

            return tf.while_loop(lambda at, _: at < 2, body, (0, x))[1]

        def several(x):
            for layer in layers:
                around, before = layer[-1], x
                if around == "call":
                    x = tf.function(lambda x, layer=layer: once(x, *layer))(x)
                elif around == "branch":
                    is_there = tf.size(x) > 0
                    x = tf.cond(is_there, lambda: once(before, *layer), lambda: before)
                elif around in ("loop", "steps"):
                    x = looped(x, layer, around == "steps")
                else:
                    x = once(x, *layer)
                    x = x + before if around == "rest" else x
            return x

"""
IN_FUNCTIONS = """
        with_gradient, count = chance.random() < 0.5, tf.Variable(0.0)
        sums = tf.Variable(tf.zeros([size])) if chance.random() < 0.5 else None

        @tf.function
        def whole(x):
            if chance.random() < 0.5:
                count.assign_add(1.0)
            if not with_gradient:
                y = several(x)
                if sums is not None:
                    mean = tf.cast(tf.reduce_mean(y, [*range(len(y.shape) - 1)]), tf.float32)
                    sums.assign_add(mean / (tf.sqrt(mean * mean) + 0.0))
                return [y]
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = several(x)
            return [y, tape.gradient(y, x)]

        shape = (4, 6, 6, size) if is_image else (6, size)
        for factor, bad in ((1, 0.0), (1, np.nan), (1, np.inf), (1e38, 0.0)):
            x = numbers.randn(*shape) * factor
            x.flat[chance.randrange(x.size)] += bad
            made, is_bad = hashlib.sha1(), False
            if sums is not None:
                sums.assign(tf.zeros([size]))  # what was bad before isn't looked at once more
            for each in whole(tf.cast(x, kind)) + [sums] * (sums is not None):
                bits = tf.cast(each, tf.float32).numpy()
                made.update(np.where(np.isnan(bits), np.float32(1e30), bits).tobytes())
                is_bad = is_bad or not np.isfinite(bits).all()
            tell(seed, made.hexdigest(), "is bad" if is_bad else "")

    for seed in range({first}, {first} + 6):
        try:
            program(seed)
        except tf.errors.OpError as error:  # a batch norm with a tanh, fused by oneDNN
            tell(seed, type(error).__name__)
"""
IN_SESSIONS = """
        with_gradient, count = chance.random() < 0.5, tf1.Variable(0.0)
        shape = (4, 6, 6, size) if is_image else (6, size)
        fed = tf1.placeholder(kind, shape if chance.random() < 0.7 else [None, *shape[1:]])
        (tf1.disable_control_flow_v2 if chance.random() < 0.5 else tf1.enable_control_flow_v2)()
        y = several(fed)
        results = [y, *(tf.gradients(y, fed) if with_gradient else ())]
        if chance.random() < 0.5:
            results.append(tf1.assign_add(count, tf.cast(tf.reduce_sum(y), tf.float32)))
        trained = tf1.trainable_variables() if kind == tf.float32 else []
        if chance.random() < 0.3 and trained and tf.gradients(y, trained[0])[0] is not None:
            optimizer = chance.choice((tf1.train.AdamOptimizer, tf1.train.GradientDescentOptimizer))
            loss, made = tf.reduce_mean(tf.square(tf.cast(y, tf.float32))), optimizer(0.1)
            pairs = made.compute_gradients(loss, gate_gradients=made.GATE_GRAPH)
            with tf.control_dependencies([each for each in results if each is not None]):
                results.append(made.apply_gradients(pairs))
        with tf1.Session() as session:
            session.run(tf1.global_variables_initializer())
            for factor, bad in ((1, 0.0), (1, np.nan), (1, np.inf), (1e38, 0.0)):
                x = (numbers.randn(*shape) * factor).astype("float32")
                x.flat[chance.randrange(x.size)] += bad
                made, is_bad = hashlib.sha1(), False
                for each in session.run(results, {fed: x.astype(kind.as_numpy_dtype)}):
                    if each is not None:
                        bits = np.asarray(each).astype("float32")
                        made.update(np.where(np.isnan(bits), np.float32(1e30), bits).tobytes())
                        is_bad = is_bad or not np.isfinite(bits).all()
                tell(seed, made.hexdigest(), "is bad" if is_bad else "")

    tf1 = tf.compat.v1
    tf1.disable_eager_execution()

    def held(value):
        return tf1.Variable(value, use_resource=bool(np.random.randint(2)))

    for seed in range({first}, {first} + 6):
        np.random.seed(seed)
        with tf.Graph().as_default():
            program(seed, held)
"""


@pytest.mark.parametrize("ending", [IN_FUNCTIONS, IN_SESSIONS], ids=["functions", "sessions"])
@pytest.mark.parametrize("first", [*sample([*range(0, 240, 6), 570], 40)])
def test_what_the_optimizer_fuses_stays_fused(both, first, ending):
    """Programs by chance, to the bit: a fused relu of oneDNN makes 0 of a nan, for example.

    What isn't read hides no result that is bad.
    """
    path = both.write((LAYERS + ending).replace("{first}", str(first)))
    try:
        done = both.same(path, *("run -f has_inf_or_nan -fenn ^input/",) * 31)
    except AssertionError:
        alone = both.alone(path).out
        if any(both.programs.plain(path).out != alone for _ in range(50)):
            pytest.skip("alone, it doesn't give the same bits each time")
        raise
    is_stopped = False
    for line in done.out.splitlines():
        assert is_stopped or not line.endswith("is bad"), f"not stopped at: {line}"
        is_stopped = line.startswith("--- run-end") or (is_stopped and not line.startswith(MARK))
    both.same(path, *("run",) * 4, "exit --detach")


DROPPED = """
    weights, bias, count = tf.ones([8, 8]), tf.zeros([8]), tf.Variable(0.0)

    def layer(x):
        return tf.nn.relu(tf.nn.bias_add(tf.matmul(x, weights), bias))

    @tf.function
    def f(x):
        {lines}

    for value in (1.0, np.nan):
        tell(f(tf.fill([4, 8], value)).numpy())
"""
HELD = """for _ in tf.range(2):
            count.assign_add(1.0)
            x = layer(x)
        return tf.reduce_sum(x)"""


@pytest.mark.parametrize("lines", ["return tf.reduce_sum(layer(x))", HELD], ids=["again", "held"])
def test_a_fused_relu_shows_what_it_has_made(both, lines):
    """What is within a fused op is computed by itself for whoever looks."""
    path = both.write(DROPPED.replace("{lines}", lines))
    inner = "while/BiasAdd:0 -n 0" if lines == HELD else "BiasAdd:0"
    done = both.same(path, "run -f has_inf_or_nan", "lt", f"pt {inner}")
    is_dropped = "nan" not in done.out.rpartition("program: ")[2]
    made = re.search(r"(ok|\d+ nan) +(?:while/)?Relu:0(?: \(#0\))?$", done.out, re.MULTILINE)
    assert made[1] == ("ok" if is_dropped else "32 nan"), done.out
    assert ("no bad value reached a result" in done.out) == is_dropped, done.out
    assert ("(recomputed from its inputs" in done.out) == is_dropped, done.out
    assert re.search(r"32 nan +(while/)?MatMul:0( \(#0\))?$", done.out, re.MULTILINE), done.out


COMPOSED = """
    def f(x):
        return tf.tanh(tf.nn.selu(x, name="inner"), name="outer")

    values = [np.array([start, 1.0], np.float16) for start in (1.0, 64000.0)]
    {lines}
"""
IN_A_FUNCTION = """for value in values:
        tell(tf.function(f)(value).numpy())"""
IN_A_SESSION = """tf1 = tf.compat.v1
    with tf.Graph().as_default(), tf1.Session() as session:
        x = tf1.placeholder(tf.float16, [2])
        y = f(x)
        for value in values:
            tell(session.run(y, {x: value}))"""


@pytest.mark.parametrize("lines", [IN_A_FUNCTION, IN_A_SESSION], ids=["function", "session"])
def test_what_overflows_within_a_composition_is_seen(both, lines):
    """Of two ops of one input the optimizer makes one, which does both as they are."""
    done = both.same(both.write(COMPOSED.replace("{lines}", lines)), "run -f")
    assert "It began in [Selu] inner:0" in done.out, done.out
