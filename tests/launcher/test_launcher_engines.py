"""Real frameworks under the launcher: installed when they are imported, gone without a trace."""

import importlib.util
from pathlib import Path

import pytest
from samples import sample

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "debug_mnist.py"
STORY = ("--batch", "-c", "run -f has_inf_or_nan", "-c", "lt")

NUMPY = """\
from tfdbg_cli.engines import numpy as tf
x = tf.placeholder(tf.float32, [2], name="x")
y = tf.square(x, name="y")
session = tf.Session()
"""

tensorflow = pytest.mark.skipif(
    importlib.util.find_spec("tensorflow") is None, reason="needs TensorFlow"
)


def test_the_example_stops_at_its_first_bad_tensor(runner):
    done = runner.tfdbg(*STORY, EXAMPLE, "--max-steps", "6")
    assert done.status == 0, done.stderr
    assert "cross_entropy/Log:0" in done.stdout
    assert "Accuracy at step 5" in done.stdout
    assert done.notes == []
    plain = runner.python(EXAMPLE, "--max-steps", "6")
    assert set(plain.stdout.splitlines()) <= set(done.stdout.splitlines())


def test_a_command_that_fails_sets_the_status_of_a_batch(runner):
    runner.write("s.py", NUMPY + "session.run(y, {x: [1, 2]})")
    runner.write("t.py", NUMPY + "session.run(y, {x: [1, 2]})\nraise SystemExit(3)")
    bad = ("--batch", "-c", "no_such_command", "-c", "run", "-c", "lt")
    done = runner.tfdbg(*bad, "s.py")
    assert done.status == 1
    assert "y:0" in done.stdout
    assert runner.tfdbg(*bad, "t.py").status == 3
    assert runner.tfdbg("--batch", "-c", "run", "-c", "lt", "s.py").status == 0


def test_an_error_of_a_run_has_the_programs_frames_only(runner):
    runner.write("s.py", NUMPY + "def step():\n    return session.run(y)\nstep()\n")
    plain = runner.python("s.py")
    done = runner.tfdbg("--batch", "-c", "run", "s.py")
    assert done.status == plain.status == 1
    frames = [line for line in done.stderr.splitlines() if line.startswith('  File "')]
    expected = [line for line in plain.stderr.splitlines() if line.startswith('  File "')]
    # The embedded framework hands a debugged run on from one line above its plain one.
    assert frames[:2] == expected[:2]
    assert [f.rpartition(",")[2] for f in frames] == [f.rpartition(",")[2] for f in expected]
    for part in ("launcher", "sessions", "commands", "debugging"):
        assert f"/{part}" not in done.stderr
    assert done.stderr.splitlines()[-1] == plain.stderr.splitlines()[-1]


def test_a_program_without_a_run_is_told_apart(runner):
    runner.write("s.py", NUMPY)
    done = runner.tfdbg("s.py")
    assert done.notes == [
        "tfdbg: the program ended without a run to stop at. "
        "with tfdbg_cli.run(): makes its block a run."
    ]
    done = runner.tfdbg("--engine", "tensorflow", "s.py")
    assert done.notes == [
        "tfdbg: the program imported no framework that the debugger knows"
        " (only TensorFlow was watched)."
    ]


def test_runs_in_threads_and_exit_handlers_are_debugged(runner):
    runner.write(
        "s.py",
        NUMPY + "import atexit, threading\n"
        "run = lambda name: print(name, session.run(y, {x: [1, 2]}))\n"
        "atexit.register(run, 'exit handler')\n"
        "threading.Thread(target=run, args=('thread',)).start()\n",
    )
    commands = ("-c", "run", "-c", "lt")
    done = runner.tfdbg("--batch", *commands, *commands, "s.py")
    assert done.status == 0, done.stderr
    assert done.stdout.count("--- run-end") == 2
    assert done.stdout.index("thread [1. 4.]") < done.stdout.index("exit handler [1. 4.]")
    assert done.notes == []


def test_the_module_of_an_engine_looks_untouched(runner):
    runner.write(
        "s.py",
        "import sys\nfrom tfdbg_cli.engines import numpy as tf\n"
        "print(type(tf.__spec__.loader), type(tf.__loader__), tf.__file__)\n",
    )
    runner.same("s.py")


def test_a_framework_that_fails_to_import_fails_as_in_python(runner):
    runner.write("tensorflow/__init__.py", "")
    runner.write("tensorflow/python/__init__.py", "")
    runner.write("tensorflow/python/client/__init__.py", "")
    runner.write("tensorflow/python/client/session.py", "raise ImportError('no such library')")
    runner.write("s.py", "def load():\n    import tensorflow.python.client.session\nload()\n")
    assert "no such library" in runner.same("s.py").stderr


def test_an_engine_that_can_not_be_installed_is_a_line(runner):
    for folder in ("tensorflow", "tensorflow/python", "tensorflow/python/client"):
        runner.write(f"{folder}/__init__.py", "")
    runner.write("tensorflow/python/client/session.py", "")
    runner.write("s.py", "import tensorflow.python.client.session\nprint('goes on')\n")
    done = runner.tfdbg("s.py")
    assert (done.status, done.stdout) == (0, "goes on\n")
    assert done.notes[0].startswith("tfdbg: the tensorflow engine can't be used, ")
    assert len(done.notes) == 2


@tensorflow
@pytest.mark.tensorflow
@pytest.mark.parametrize(
    "first",
    [
        *sample(
            [
                "import tensorflow.compat.v1 as tf",
                "import tensorflow as tf2; tf = tf2.compat.v1",
                "from tensorflow.python.client import session; import tensorflow.compat.v1 as tf",
            ],
            2,
        )
    ],
)
def test_tensorflow_is_debugged_however_it_is_imported(runner, first):
    runner.write(
        "s.py",
        f"{first}\n"
        "with tf.Graph().as_default():\n"
        "    root = tf.log(tf.constant(1.0, name='one'), name='root')\n"
        "    with tf.Session() as session:\n"
        "        print('result', session.run(root))\n",
    )
    done = runner.tfdbg("--batch", "-c", "run", "-c", "lt", "-c", "run", "s.py")
    assert done.status == 0, done.stderr
    assert "one:0" in done.stdout
    assert "root:0" in done.stdout
    assert "result 0.0" in done.stdout
    assert done.notes == []


def test_a_dump_that_was_kept_is_looked_at_later(runner):
    runner.write("s.py", NUMPY + "session.run(y, {x: [1, 2]})")
    commands = ("-c", "run", "-c", "lt", "-c", "run")
    runner.tfdbg("--batch", "--keep-dumps", "--dump-root", "dumps", *commands, "s.py")
    done = runner.tfdbg("--batch", "-c", "lt", "--dump-dir", "dumps")
    assert done.status == 0, done.stderr
    assert "y:0" in done.stdout
    done = runner.tfdbg("--batch", "-c", "pt nope:0", "--dump-dir", "dumps")
    assert done.status == 1
    assert "nope" in done.stderr


def test_no_color_is_honoured(runner):
    runner.write("s.py", NUMPY + "session.run(y, {x: [1, 2]})")
    runner.environment["NO_COLOR"] = "1"
    done = runner.tfdbg("--ui", "plain", "-c", "run", "-c", "lt", "-c", "exit", "s.py")
    assert "\x1b" not in done.stdout


def test_a_framework_that_the_program_bars_is_not_there(runner):
    # ``None`` in sys.modules makes an import fail: some programs bar an optional framework so.
    runner.write(
        "s.py",
        "import sys\nsys.modules['torch'] = sys.modules['tensorflow'] = None\n"
        "import tfdbg_cli\nfrom tfdbg_cli.engines import numpy as tf\n"
        "x = tf.constant([1.0, 2.0], name='x')\n"
        "with tfdbg_cli.run():\n    print('in')\n"
        "print(tfdbg_cli.wrap(tf.Session()).run(x).tolist())\n",
    )
    for done in (runner.python("s.py"), runner.tfdbg("--batch", "s.py")):
        assert done.status == 0, done.stderr
        assert done.stdout.splitlines()[0] == "in"
        assert done.stdout.splitlines()[-1] == "[1.0, 2.0]"
        assert done.own_stderr == ""
