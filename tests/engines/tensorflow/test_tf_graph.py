from __future__ import annotations

import subprocess
import sys
import textwrap

import numpy as np
import tensorflow as tf
from program_server import python_in

from tfdbg_cli.engines.base import Watch
from tfdbg_cli.engines.tensorflow.sessions.engine import ENGINE

tf1 = tf.compat.v1


def make_log(x):
    return tf.math.log(x, name="log")


def test_nodes_edges_and_attributes(graph):
    x = tf1.placeholder(tf.float32, [None, 3], name="x")
    log = make_log(x)
    with tf.control_dependencies([log]):
        end = tf.identity(x, name="end")
    tf.constant(np.zeros([100, 100]), name="large")
    tf.constant([1, 2], name="small")
    tf.concat([x, end], axis=0, name="joined")
    with tf1.Session() as session:
        adapter = ENGINE.adapt(session)
        made = adapter.graph()
        assert made.node("log").op_type == "Log"
        assert made.node("log").inputs == ("x:0",)
        assert made.node("end").control_inputs == ("log",)
        assert made.node("x").attributes["shape"] == "[?, 3]"
        assert made.node("log").attributes["T"] == "float32"
        assert made.node("large").attributes == {"dtype": "float64", "value": "float64 [100, 100]"}
        assert made.node("small").attributes["value"] == "int32 [2] [1, 2]"
        assert made.node("joined").attributes["N"] == "2"
        assert adapter.graph() is made
        tf.constant(1.0, name="new")
        assert "new" not in made and "new" in adapter.graph()
        assert adapter.framework_graph is graph


def test_frames_lead_to_the_users_line(graph):
    log = make_log(tf1.placeholder(tf.float32, [], name="x"))
    with tf1.Session() as session:
        frames = ENGINE.adapt(session).graph().node(log.op.name).frames
    mine = [frame for frame in frames if frame.file == __file__]
    assert [frame.function for frame in mine] == ["test_frames_lead_to_the_users_line", "make_log"]
    assert mine[1].text == 'return tf.math.log(x, name="log")'
    assert frames.index(mine[0]) < frames.index(mine[1])


def test_frames_of_code_that_autograph_rewrote(graph):
    @tf.function
    def choose(x):
        if x > 0:  # noqa: SIM108
            y = tf.sqrt(x, name="root")
        else:
            y = -x
        return y

    concrete = choose.get_concrete_function(tf.TensorSpec([], tf.float32))
    with tf1.Session(graph=concrete.graph) as session:
        made = ENGINE.adapt(session).graph()
    (node,) = [node for node in made.nodes.values() if node.op_type in ("If", "StatelessIf")]
    mine = [frame for frame in node.frames if frame.file == __file__]
    assert any(frame.text.startswith("if x > 0:") for frame in mine)


def clip(y):
    if tf.reduce_sum(y) > 0:
        y = tf.exp(y, name="inner")
    return y


CONVERTED = """
import tensorflow as tf
tf1 = tf.compat.v1
tf1.disable_eager_execution()

def clip(y):
    if tf.reduce_sum(y) > 0:
        y = tf.exp(y, name="inner")
    return y

made = tf.autograph.to_graph(clip)(tf1.placeholder(tf.float32, [], name="x"))
with tf1.Session() as session:
    session.run(tf.identity(made, name="out"), {"x:0": 1.0})
"""


def test_frames_of_code_that_was_converted_by_hand(tmp_path):
    # Under the launcher: elsewhere TensorFlow's stacks may point to code that is gone.
    script = tmp_path / "converted.py"
    script.write_text(CONVERTED)
    command = [sys.executable, "-m", "tfdbg_cli", "--batch", "-c", "run", "-c", "ni -t cond"]
    done = subprocess.run(
        [*command, str(script)], capture_output=True, text=True, check=False, timeout=100
    )
    assert done.returncode == 0, done.stderr
    _, _, trace = done.stdout.partition("Traceback of node construction:")
    assert trace.count("converted.py") == 2
    assert "Function: clip\n  Text:     if tf.reduce_sum(y) > 0:" in trace
    assert "autograph_generated" not in trace


def lines_of(dump, name):
    """The user's own source lines that made a node."""
    frames = dump.graph().node(name).frames
    return [frame.text for frame in frames if frame.file == __file__]


def test_frames_of_the_bodies_of_functions_branches_and_loops(graph):
    @tf.function
    def outer(x):
        while x < 10.0:
            x = tf.multiply(x, 2.0, name="twice")
        return clip(x)

    x = tf1.placeholder(tf.float32, [], name="x")
    total = tf.cond(x > 0, lambda: tf.sqrt(x, name="root"), lambda: -x) + outer(x)
    loop = tf.while_loop(lambda i: i < 3, lambda i: tf.add(i, 1, name="step"), [tf.constant(0)])
    with tf1.Session() as session:
        adapter = ENGINE.adapt(session)
        capture = adapter.debug_run([total, loop], {x: 2.0}, None, None, Watch())
        assert capture.error is None
        dump = capture.dump
        by_end = {name.rpartition("/")[2]: name for name in dump.graph().nodes}
        for end, text in (
            ("twice", 'x = tf.multiply(x, 2.0, name="twice")'),
            ("inner", 'y = tf.exp(y, name="inner")'),
            ("root", "total = tf.cond("),
            ("step", "loop = tf.while_loop("),
        ):
            assert lines_of(dump, by_end[end])[-1].startswith(text), end


def test_freed_code_does_not_crash(tmp_path):
    """Cells of a notebook, ``exec``: TensorFlow notes code objects that are gone afterwards."""
    program = tmp_path / "program.py"
    program.write_text(
        textwrap.dedent(
            """
            import tensorflow as tf
            v1 = tf.compat.v1
            v1.disable_eager_execution()
            SOURCE = "def made(x):\\n    return tf.math.log(x, name='log%d')\\nc = made(x)\\n"

            def cell(number):
                names = {"tf": tf, "x": x}
                exec(compile(SOURCE % number, "<string>", "exec"), names)
                return names["c"]

            if EARLY:
                import tfdbg_cli.engines.tensorflow.sessions.install as install
                undo = install.install(lambda session: session)
            x = v1.placeholder(tf.float32, [], name="x")
            made = [cell(number) for number in range(30)]
            made.append(tf.negative(x, name="plain"))
            keep = [compile(f"def f{n}(a): return a + {n}", f"/gone{n}.py", "exec")
                    for n in range(3000)]
            from tfdbg_cli.engines.tensorflow.sessions.engine import ENGINE
            with v1.Session() as session:
                nodes = ENGINE.adapt(session).graph().nodes
                for tensor in made:
                    frames = nodes[tensor.op.name].frames
                    mine = [f.line for f in frames or () if f.file == __file__]
                    assert not any(f.file.startswith("/gone") for f in frames or ())
                    functions = [f.function for f in frames or ()]
                    print(tensor.op.name, sorted(set(mine)), "made" in functions)
            print("end")
            """
        )
    )
    for early in (True, False):
        text = program.read_text().replace("EARLY", str(early))
        path = tmp_path / f"early_{early}.py"
        path.write_text(text)
        done = python_in(tmp_path, str(path))
        assert done.returncode == 0, done.stderr[-2000:]
        lines = done.stdout.splitlines()
        assert lines[-1] == "end" and len(lines) == 32
        assert lines[-2] == "plain [17] False"
        if early:  # then the code is kept
            assert {text.partition(" ")[2] for text in lines[:30]} == {"[9, 16] True"}
