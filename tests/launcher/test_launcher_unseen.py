"""A program that the debugger can't see is told so at its first call, and a batch fails."""

import importlib.util

import pytest
from samples import sample

BATCH = ("--batch", "-c", "run -f has_inf_or_nan", "-c", "lt")

TENSORFLOW = {
    "function": "@tf.function\ndef f(x):\n    return tf.math.log(x)\nprint(f(tf.zeros(2)))\n",
    "eager": "import numpy as np\nprint(tf.math.log(np.zeros(2, 'f4')))\n",
    "tape": "v = tf.Variable(1.0)\nwith tf.GradientTape() as tape:\n    y = v * v\n"
    "print(tape.gradient(y, v))\n",
    "keras": "import keras, numpy as np\nkeras.utils.set_random_seed(1)\n"
    "model = keras.Sequential([keras.layers.Dense(1)])\nmodel.compile('sgd', 'mse')\n"
    "model.fit(np.ones((4, 2)), np.ones(4), verbose=0)\nprint(model.weights[0].numpy())\n",
}
ONNX = """\
import numpy as np, onnx, onnxruntime
from onnx import TensorProto, helper
ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy"]
graph = helper.make_graph([helper.make_node("Log", ["x"], ["y"])], "g", ends[:1], ends[1:])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
session = onnxruntime.InferenceSession(model.SerializeToString())
print(session.run(None, {"x": np.zeros(2, "f4")}), session.run(None, {"x": np.ones(2, "f4")}))
"""


RUN_ASYNC = """
import threading
done = threading.Event()
session.run_async(None, {"x": np.ones(2, "f4")}, lambda *given: done.set(), None)
done.wait()
"""


def needs(*modules):
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    return pytest.mark.skipif(bool(missing), reason=f"needs {', '.join(missing)}")


@needs("tensorflow", "keras")
@pytest.mark.tensorflow
@pytest.mark.parametrize("kind", [*sample(TENSORFLOW, 2)])
def test_tensorflow_2_is_seen(runner, kind):
    """Its programs do the same; only what is computed in no run leaves commands undone."""
    script = runner.write("s.py", f"import tensorflow as tf\n{TENSORFLOW[kind]}")
    ready = ("tensorflow", "keras")  # where how it is imported makes no difference
    plain = runner.forked(ready, script)
    assert plain.status == 0, plain.stderr
    for options in (BATCH, ("--batch",), ()):
        done = runner.forked(ready, "-m", "tfdbg_cli", *options, script)
        shown = done.stdout.splitlines()
        own = [line for line in shown if line in plain.stdout.splitlines()]
        assert own == plain.stdout.splitlines()
        assert "not debugged" not in done.stderr
        assert done.status == (1 if options == BATCH and kind == "eager" else 0)
        if options == BATCH:
            is_found = any("dumped tensor(s) passing filter" in line for line in shown)
            assert is_found == (kind == "function")
        else:
            assert done.stdout == plain.stdout
            no_run = [
                "tfdbg: the program ended without a run to stop at. "
                "with tfdbg_cli.run(): makes its block a run."
            ]
            assert done.notes == (no_run if kind == "eager" else [])


@needs("onnxruntime", "onnx")
def test_onnx_runtime(runner):
    """Seen; what it computes on threads of its own isn't."""
    script = runner.write("s.py", ONNX)
    plain = runner.python(script)
    done = runner.tfdbg(*BATCH, script)
    assert (done.status, done.notes) == (0, [])
    assert "1 dumped tensor(s) passing filter" in done.stdout
    assert plain.stdout.splitlines()[-1] in done.stdout
    assert runner.tfdbg("--batch", script).stdout == plain.stdout
    script = runner.write("s.py", ONNX + RUN_ASYNC)
    done = runner.tfdbg("--batch", script)
    assert (done.status, done.stdout) == (0, plain.stdout)
    assert [note.partition(" is not")[0] for note in done.notes] == [
        "tfdbg: ONNX Runtime's run_async"
    ]


@needs("tensorflow")
@pytest.mark.tensorflow
def test_functions_and_constants_of_a_graph_are_seen(runner):
    runner.write(
        "s.py",
        "import tensorflow as tf\n"
        "@tf.function\n"
        "def f(x):\n"
        "    return tf.math.log(x)\n"
        "with tf.Graph().as_default():\n"
        "    y = f(tf.constant([0.0]))\n"
        "    with tf.compat.v1.Session() as session:\n"
        "        print('got', session.run(y))\n",
    )
    done = runner.tfdbg(*BATCH, "s.py")
    assert (done.status, done.notes) == (0, [])
    assert "got [-inf]" in done.stdout


def test_a_batch_whose_commands_had_nothing_to_run_at(runner):
    runner.write("s.py", "import numpy as np\nprint(np.log(np.ones(2)))\n")
    done = runner.tfdbg(*BATCH, "s.py")
    assert (done.status, done.stdout) == (1, "[0. 0.]\n")
    assert "computations with NumPy itself can't be seen" in done.notes[0]
    assert done.notes[1].startswith("tfdbg: 2 command(s) were not run")
    assert runner.tfdbg("--batch", "s.py").status == 0
    runner.write("s.py", "raise SystemExit(3)\n")
    assert runner.tfdbg(*BATCH, "s.py").status == 3


def test_a_filter_that_never_fires_is_no_failure(runner):
    runner.write(
        "s.py",
        "from tfdbg_cli.engines import numpy as tf\n"
        "y = tf.log(tf.constant([1.0]))\ntf.Session().run(y)\n",
    )
    done = runner.tfdbg(*BATCH, "s.py")
    assert done.status == 0
    assert "1 command(s) were not run: lt" in done.notes[-1]


def test_the_help_says_what_is_debugged(runner):
    text = runner.tfdbg("--help").stdout
    assert "debugged today:" in text
    for name in ("PyTorch", "TensorFlow 2", "JAX", "ONNX Runtime"):
        assert f"\n  {name} " in text
