"""What is read from a list, an array or a stack was made where it was put in: in a loop."""

import re
import textwrap

import pytest
import tensorflow as tf
from samples import sample

from tfdbg_cli.commands.graph.verdict import verdict
from tfdbg_cli.engines.base import Watch
from tfdbg_cli.engines.tensorflow.sessions.engine import ENGINE
from tfdbg_cli.filters.origins import origin_of_nonfinite

tf1 = tf.compat.v1

# Each leaves a nan or an infinity in `l`; all origins are of the type that is named first.
FUNCTIONS = {
    "a stacked array": ("Log", "l = tf.reduce_sum(tf.map_fn(tf.math.log, x))"),
    "elements that are read again": (
        "Log",
        """
            ta = tf.TensorArray(tf.float32, size=0, dynamic_size=True)
            for i in tf.range(5):
                ta = ta.write(ta.size(), tf.math.log(x[i]))
            l = ta.read(2) + tf.reduce_sum(ta.gather([1, 2]))
        """,
    ),
    "an element that is read in a later iteration": (
        "Log",
        """
            ta = tf.TensorArray(tf.float32, size=5, clear_after_read=False)
            l = 0.0
            for i in tf.range(5):
                ta = ta.write(i, tf.math.log(x[i]) if i == 2 else x[i])
                if i > 1:
                    l = l + ta.read(2)
        """,
    ),
    "an array that is concatenated": (
        "Log",
        """
            ta = tf.TensorArray(tf.float32, size=3, infer_shape=False, element_shape=[None])
            for i in tf.range(3):
                ta = ta.write(i, tf.math.log(x[i:]))
            l = tf.reduce_sum(ta.concat())
        """,
    ),
    "a loop over a dataset": (
        "Log",
        """
            ta, i = tf.TensorArray(tf.float32, size=5), 0
            for v in ds:
                ta = ta.write(i, tf.math.log(v))
                i += 1
            l = tf.reduce_sum(ta.stack())
        """,
    ),
    "arrays of a loop in a loop": (
        "Log",
        """
            ta = tf.TensorArray(tf.float32, size=3)
            for i in tf.range(3):
                tb = tf.TensorArray(tf.float32, size=3)
                for j in tf.range(3):
                    tb = tb.write(j, tf.math.log(x[i + j]))
                ta = ta.write(i, tf.reduce_sum(tb.stack()))
            l = tf.reduce_sum(ta.stack())
        """,
    ),
    "the gradient of a scan": (
        "Log Reciprocal",
        "l = tf.reduce_sum(tf.scan(lambda a, v: a * tf.math.log(v), x))",
    ),
    "the gradient of a branch in a loop": (
        "Log Reciprocal",
        """
            l = x[0]
            for i in tf.range(1, 5):
                if x[i] > -1.0:
                    l = l * tf.math.log(x[i])
        """,
    ),
    "the gradient of a loop in a loop": (
        "Log Reciprocal",
        """
            l = 0.0
            for i in tf.range(2):
                h = tf.constant(1.0)
                for j in tf.range(3):
                    h = h * tf.math.log(x[i + j])
                l = l + h
        """,
    ),
    "what only the gradient makes bad": ("SqrtGrad", "l = tf.reduce_sum(tf.map_fn(tf.sqrt, x))"),
}


@pytest.mark.parametrize(
    "name", [*sample(FUNCTIONS, ("an array that is concatenated", "the gradient of a scan"))]
)
def test_what_a_loop_of_a_function_has_put_into_a_list_began_there(both, name):
    ops, text = FUNCTIONS[name]
    gradient = "tape.gradient(l, x)" if "gradient" in name else "l"
    body = textwrap.indent(textwrap.dedent(text).strip(), " " * 8)
    program = f"""
ds = tf.data.Dataset.from_tensor_slices([2.0, 3.0, 0.0, 4.0, 1.0])

@tf.function
def f(x):
    with tf.GradientTape() as tape:
        tape.watch(x)
{body}
    return {gradient}

tell(f(tf.constant([2.0, 3.0, 0.0, 4.0, 1.0])).numpy())
"""
    out = both.same(both.write(program), "run -f origin_of_nonfinite").out
    _, listed, rest = out.partition("passing filter")
    assert listed, out
    found = re.findall(r"^ *(?:\[[\d.]+\] +)?\d+ +(\w+) +float32 ", rest, re.MULTILINE)
    assert sorted(set(found)) == ops.split(), out


def _array(x):
    return tf1.TensorArray(tf.float32, size=4, infer_shape=False)


def _loop(x, array=None, at=lambda x, i: x[i]):
    array = array or _array(x)

    def write(i, a):
        return i + 1, a.write(i, tf.math.log(at(x, i), name="log"))

    return tf1.while_loop(lambda i, a: i < 4, write, [0, array], name="loop")[1]


def _product(x):
    def multiply(i, h):
        return i + 1, h * tf.math.log(x[i], name="log")

    return tf1.while_loop(lambda i, h: i < 4, multiply, [0, 2.0], name="loop")[1]


def _products(x):
    def write(i, a):
        return i + 1, a.write(i, _product(x[:4] + tf.cast(i, tf.float32)))

    return tf1.while_loop(lambda i, a: i < 4, write, [0, _array(x)])[1].stack()


SESSIONS = {
    "a stacked array": ("loop/log", lambda x: _loop(x).stack()),
    "an element": ("loop/log", lambda x: _loop(x).read(2)),
    "some elements": ("loop/log", lambda x: _loop(x).gather([1, 2])),
    "an array that is concatenated": (
        "loop/log",
        lambda x: _loop(x, at=lambda x, i: x[i : i + 1]).concat(),
    ),
    "an array that was filled at once": (
        "log",
        lambda x: _array(x).unstack(tf.math.log(x, name="log")).read(2),
    ),
    "an array that was filled in parts": (
        "log",
        lambda x: _array(x).split(tf.math.log(x, name="log"), [1, 1, 1, 1]).read(2),
    ),
    "the gradient of an array": (
        "gradients/map/while/root_grad/SqrtGrad",
        lambda x: tf.gradients(tf.map_fn(lambda v: tf.sqrt(v, name="root"), x), x)[0],
    ),
    "the gradient of a loop, whose stacks keep what it made": (
        "loop/log gradients/loop/log_grad/Reciprocal",
        lambda x: tf.gradients(_product(x), x)[0],
    ),
    "what is computed twice in a loop, and once by the runtime": (
        "loop/Log loop/Log_1",
        lambda x: tf1.while_loop(
            lambda i, a: i < 4,
            lambda i, a: (i + 1, a.write(i, tf.math.log(x[i]) * 2.0 - tf.math.log(x[i]) * x[i])),
            [0, _array(x)],
            name="loop",
        )[1].stack(),
    ),
    "the gradient of a loop in a loop": (
        "while/loop/log gradients/while/loop/log_grad/Reciprocal",
        lambda x: tf.gradients(_products(x), x)[0],
    ),
}


@pytest.mark.parametrize("name", [*sample(SESSIONS, 3)])
def test_what_a_loop_of_a_session_has_put_into_an_array_began_there(old_control_flow, graph, name):
    ops, make = SESSIONS[name]
    x = tf1.placeholder(tf.float32, [4], name="x")
    made = make(x)
    with tf1.Session() as session:
        capture = ENGINE.adapt(session).debug_run(
            made, {x: [2.0, 3.0, 0.0, 4.0]}, None, None, Watch()
        )
    found = dict.fromkeys(each.node_name for each in capture.dump.find(origin_of_nonfinite))
    assert list(found) == ops.split()


# A loop that counts up from 0 does what the runtime's own counter does; a quotient is computed by
# another op, and of what is computed twice one is left.
LOOPS = {
    "a division by a constant": ("Log", lambda v: tf.math.log(v) / 3.0),
    "a division of 1": ("truediv", lambda v: tf.reduce_sum(1.0 / tf.stack([v, 1.0]))),
    "what is computed twice": ("Log Log_1", lambda v: tf.math.log(v) * 2.0 - tf.math.log(v) * v),
}


def _dump_of_loop(compute):
    x = tf1.placeholder(tf.float32, [4], name="x")
    array = tf1.TensorArray(tf.float32, size=4)
    made = tf1.while_loop(
        lambda i, a: i < 4, lambda i, a: (i + 1, a.write(i, compute(x[i]))), [0, array], name="loop"
    )[1].stack()
    total = tf.reduce_sum(made, name="total")
    with tf1.Session() as session:
        adapter = ENGINE.adapt(session)
        return adapter.debug_run(total, {x: [2.0, 3.0, 0.0, 4.0]}, None, None, Watch()).dump


@pytest.mark.parametrize("name", LOOPS)
def test_what_a_loop_of_a_functions_kind_has_put_into_an_array_began_there(graph, name):
    ops, compute = LOOPS[name]
    found = dict.fromkeys(
        each.node_name for each in _dump_of_loop(compute).find(origin_of_nonfinite)
    )
    assert all(each.startswith("loop/body/") for each in found), found
    assert [each.rpartition("/")[2] for each in found] == ops.split()


def _verdict_of_loop(compute):
    dump = _dump_of_loop(compute)
    begin = next(iter(dump.find(origin_of_nonfinite)))
    return "\n".join("".join(span.text for span in each.spans) for each in verdict(dump, begin))


def test_constants_that_were_folded_are_known_and_lists_hand_on_what_is_bad(graph):
    text = _verdict_of_loop(LOOPS["a division of 1"][1])
    assert text.startswith("It began in [RealDiv] loop/body/"), text
    assert "Why:   a division by 0 at [0]\n" in text, text
    assert "Then:  spread to " in text and "total:0" in text, text


def test_where_a_kernel_computes_two_ops_it_is_not_said_to_have_begun_in_the_second(graph):
    text = _verdict_of_loop(lambda v: tf.math.log(v) * tf.math.log(v))
    assert text.startswith("First seen in [Mul] loop/body/"), text
    assert not re.search("^Why:", text, re.MULTILINE), text
    assert re.search(r"^From:  \[Log\] .*not dumped$", text, re.MULTILINE), text
