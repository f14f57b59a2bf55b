"""Programs of TensorFlow 2 under the stepper's prompt, in trace blocks, and timed."""

import re

import pytest
from tf2_kit import both, needs_keras_3, server  # noqa: F401 (fixtures)

STEP = """
w = tf.Variable([1.0, 2.0])


@tf.function
def step(x):
    h = tf.multiply(x, w, name="h")
    y = tf.nn.relu(h)
    loss = tf.reduce_sum(tf.math.log(y))
    w.assign_sub(0.1 * h)
    return loss


for scale in (1.0, 0.0, 1.0):
    tell(step(tf.constant([1.0, scale])).numpy(), w.numpy(), tf.random.uniform([1]).numpy())
"""


def told(done):
    return [line.split(" ", 1)[1] for line in done.out.splitlines() if line.startswith("program:")]


def test_a_program_that_is_stepped_through_does_what_it_does(both):  # noqa: F811
    path = both.write("tf.random.set_seed(3)\n" + STEP)
    done = both.same(path, "invoke_stepper", "step 3", "step -b", "cont", "exit", *["run"] * 3)
    assert re.search(r"Made:\n +h:0 +float32 \[2\]", done.out), done.out
    both.same(path, "invoke_stepper", "step", "exit --discard", "run", *["run"] * 3)


def test_an_override_at_the_prompt_reaches_the_program(both):  # noqa: F811
    path = both.write(STEP)
    done = both.debugged(
        path,
        "run -t 1",
        "invoke_stepper",
        "cont Relu",
        "override Relu:0 [0.5, 0.5]",
        "cont",
        "diff",
        "exit",
        "lt",
        "run",
        "run",
    )
    plain, changed = told(both.alone(path)), told(done)
    assert plain[1].startswith("-inf [")
    assert changed[1].startswith("-1.386")
    assert changed[0].split(" [")[1] == plain[0].split(" [")[1]
    assert changed[1].split(" [")[1] == plain[1].split(" [")[1]  # h isn't changed
    assert "Overridden in the stepper: Relu:0." in done.out
    assert re.search(r"1 -inf +ok +Log:0", done.out), done.out


KERAS = """
import keras

keras.utils.set_random_seed(3)
model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2, "relu", name="out")])
model.compile(keras.optimizers.Adam(0.1), lambda y, p: keras.ops.mean(keras.ops.log(p * p)))
with tf.device("cpu"):
    x = np.float32([[1, 2, 3], [0, 0, 0]])
for _ in range(2):
    model.fit(x, np.zeros((2, 2), np.float32), verbose=0, shuffle=False)
    tell(bool(np.isfinite(model.get_weights()[0]).all()), int(model.optimizer.iterations.numpy()))
"""


def test_the_step_of_a_fit_is_mended(both):  # noqa: F811
    needs_keras_3(KERAS)
    path = both.write(KERAS)
    assert told(both.alone(path)) == ["False 1", "False 2"]
    node = "sequential/out/Relu"
    done = both.debugged(
        path,
        "invoke_stepper",
        f"cont {node}",
        f"override {node}:0 np.abs(`{node}:0`) + 1",
        "exit",
        "run",
        "exit",
    )
    assert told(done)[0] == "True 1", done.out + done.err


def test_a_failed_call_is_mended(both):  # noqa: F811
    path = both.write("""
v = tf.Variable(1.0)


@tf.function
def run(x):
    v.assign_add(1.0)
    return tf.debugging.check_numerics(tf.math.log(x), "bad", name="checked") * 2.0


for _ in range(2):
    try:
        tell(run(tf.constant([0.0])).numpy(), v.numpy())
    except tf.errors.InvalidArgumentError as error:
        tell("bad : Tensor had Inf" in str(error), v.numpy())
""")
    mend = ("invoke_stepper", "cont", "override Log:0 [4]", "cont", "exit")
    done = both.debugged(path, *mend, "run", "run")
    assert "checked failed: " in done.out
    assert told(done) == ["[8.] 2.0", "True 3.0"], done.out + done.err
    both.same(path, "invoke_stepper", "cont", "exit", "run", "run")


def test_a_run_of_single_ops_is_gone_through_when_it_was_made(both):  # noqa: F811
    path = both.write("""
w = tf.Variable(2.0)
for _ in range(2):
    with tf.GradientTape() as tape:
        loss = tf.math.log(w) * 3.0
    w.assign_sub(tape.gradient(loss, w))
    tell(w.numpy())
""")
    done = both.debugged(
        path, "invoke_stepper", "w", "cont Log", "override Log:0 1", "exit", *["run"] * 2
    )
    assert told(done) == told(both.alone(path))
    assert "The run was made before the first step" in done.out
    assert "Log:0 can't be overridden" in done.err
    assert re.search(r"Log:0 +float32 \[\] +clean", done.out), done.out


def test_trace_blocks(both):  # noqa: F811
    path = both.write(
        "tf.random.set_seed(3)\n"
        + STEP
        + """
import tfdbg_cli

with tfdbg_cli.trace(step, tf.constant([1.0, 2.0])) as t:
    h = t["h:0"].value
    t["Relu:0"].value = t["Relu:0"].value * 0 + 0.5
tell(h.shape, t.result.numpy())
with tfdbg_cli.trace(step, tf.constant([1.0, 2.0])) as t:
    t["h:0"].value[:] = 0
tell(t.result.numpy(), w.numpy())
before = w.numpy()
try:
    with tfdbg_cli.trace(step, tf.constant([1.0, 2.0])) as t:
        t["h:0"].value = [9, 9]
        raise KeyError
except KeyError:
    tell("as before", (w.numpy() == before).all())
for t in tfdbg_cli.runs(step, iter([tf.constant([1.0, 1.0]), tf.constant([2.0, 2.0])])):
    tell("run", t["input/x"].value)
try:
    with tfdbg_cli.trace(step, tf.constant([1.0, 2.0])) as t:
        t["Log:0"].value
        t["h:0"].value = 0
except Exception as error:
    tell(type(error).__name__, "Relu has used it" in str(error))
"""
    )
    lines = told(both.alone(path))[3:]
    assert lines[0].startswith("(2,) -1.386")
    assert lines[1].startswith("-inf [")
    assert lines[2:] == [
        "as before True",
        "run [1. 1.]",
        "run [2. 2.]",
        "OutOfOrderError True",
    ]
    both.same(path, *["run"] * 9)


def test_a_block_is_applied_to_later_calls(both):  # noqa: F811
    path = both.write("""
import tfdbg_cli


class Model(tf.Module):
    @tf.function
    def __call__(self, x):
        return self.double(x) + 1.0

    @tf.function
    def double(self, x):
        return tf.multiply(x, 2.0, name="h")


model, other = Model(), Model()
with tfdbg_cli.trace(model.double).every(2) as t:
    t["h:0"].value = np.minimum(t["h:0"].value, 1)
x = tf.constant([4.0])
tell(other.double(x).numpy())
tell(model(x).numpy())
for _ in range(3):
    tell(model.double(x).numpy())
try:
    with tfdbg_cli.trace(lambda x: model(x), x).every() as t:
        t["h:0"].value
except Exception as error:
    tell(type(error).__name__)
""")
    assert told(both.alone(path)) == ["[8.]", "[9.]", "[1.]", "[1.]", "[8.]", "TraceError"]
    assert told(both.debugged(path, *["run"] * 9)) == told(both.alone(path))


@pytest.mark.parametrize("kind", ["function", "ops"])
def test_ops_are_timed(both, kind):  # noqa: F811
    path = both.write(
        """
w = tf.Variable(tf.ones([64, 64]))


def layer(x):
    h = tf.nn.relu(tf.matmul(x, w))  # TIMED
    for _ in tf.range(2):
        h = tf.tanh(h)
    return tf.reduce_sum(h)


def step(x):
    with tf.GradientTape() as tape:
        loss = layer(x)
    w.assign_sub(tape.gradient(loss, w))
    return loss


if KIND == "function":
    layer = tf.function(layer)
    step = tf.function(step)
for _ in range(3):
    tell(step(tf.ones([2048, 64])).numpy())  # cheap kernels may be left out
""".replace("KIND", repr(kind))
    )
    done = both.same(path, "run -n", "run -p", "lp", "run", "run")
    line = path.read_text().splitlines().index("    h = tf.nn.relu(tf.matmul(x, w))  # TIMED") + 1
    assert re.search(rf"MatMul.*\d+\.\dus.*program.py:{line}\(layer\)", done.out), done.out
    assert re.search(r"Tanh.*(while/)?Tanh", done.out), done.out
    assert "can't be timed" not in done.out


def test_the_condition_of_a_loop_is_timed_under_its_names(both):  # noqa: F811
    path = both.write("""
@tf.function
def f(x):
    while tf.reduce_sum(tf.tanh(x)) > 1.0:  # TIMED
        x *= 0.1
    return x


for _ in range(3):
    tell(tf.reduce_sum(f(tf.ones([2048, 64]))).numpy())
""")
    done = both.same(path, "run -n", "run -p", "lp", "run", "run")
    lines = path.read_text().splitlines()
    line = next(at for at, each in enumerate(lines, 1) if "# TIMED" in each)
    assert re.search(rf"while/Tanh +Tanh.*us.*program.py:{line}\(f\)", done.out), done.out


def test_a_program_that_profiles_itself_goes_on_doing_so(both):  # noqa: F811
    path = both.write("""
import tempfile

f = tf.function(lambda x: x + 1.0)
with tempfile.TemporaryDirectory() as folder:
    tf.profiler.experimental.start(folder)
    tell(f(tf.constant(1.0)).numpy())
    tf.profiler.experimental.stop()
tell(f(tf.constant(2.0)).numpy())
""")
    done = both.same(path, "run -p", "lp", "run")
    assert "Nothing was timed: TensorFlow's profiler is in use" in done.out, done.out + done.err


def test_a_loaded_signature_whose_model_nobody_holds(both):  # noqa: F811
    path = both.write("""
import tempfile

import tfdbg_cli


class Model(tf.Module):
    def __init__(self):
        self.w = tf.Variable([1.0, 2.0])

    @tf.function(input_signature=[tf.TensorSpec([2])])
    def run(self, x):
        return {"y": tf.nn.relu(x * self.w, name="h") + 1.0}


model = Model()
with tempfile.TemporaryDirectory() as folder:
    tf.saved_model.save(model, folder, signatures=model.run)
    run = tf.saved_model.load(folder).signatures["serving_default"]
x = tf.constant([1.0, -1.0])
tell(run(x=x)["y"].numpy())
with tfdbg_cli.trace(run, x=x) as t:
    t["h:0"].value = t["h:0"].value * 0 + 4
tell(t.result["y"].numpy())
""")
    done = both.same(path, "run", "lt", "run", "run")
    assert told(done) == ["[2. 1.]", "[5. 5.]"]
    assert "mul:0" in done.out, done.out + done.err
