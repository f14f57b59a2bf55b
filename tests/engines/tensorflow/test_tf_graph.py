from __future__ import annotations

import numpy as np
import tensorflow as tf

from tfdbg_cli.engines.tensorflow.engine import ENGINE

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
