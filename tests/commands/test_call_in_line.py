"""Where in a line the call is: what Python knows of real frames, and words where nobody knows."""

import sys

import pytest

from tfdbg_cli.commands.source.call_in_line import call_in
from tfdbg_cli.dumps.sources import Frame
from tfdbg_cli.engines.kit.stacks import take


class Tensor:
    """Says by which frame its op was called."""

    def __init__(self):
        self.frame = None

    def op(self, *args, **kwargs):
        self.frame = take(sys._getframe(1), None, None).frames()[-1]
        return self

    __add__ = __matmul__ = __pow__ = __neg__ = __getitem__ = __lt__ = __iadd__ = op

    def other(self, *args, **kwargs):
        return self


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("y = x.op(x.other(1)) ; x.other()", "x.op(x.other(1))"),
        ("y = x.other(x).other(2).op(k=[1, 2]).other()", "op(k=[1, 2])"),
        ("y = x.other(1) + x.other(2)", "+"),
        ("y = (x.other('+')) @ (x.other(2))", "@"),
        ("é = (x.other('層') ** x).other('π')", "**"),
        ("x.other('層'); é = x.other('層').op('é')", "op('é')"),
        ("y = x.other(-x, 2)", "-x"),
        ("y = x.other(x[1, 2], 2)", "x[1, 2]"),
        ("y = x.other(1) < x", "x.other(1) < x"),
        ("y = x; y += x.other(5)", "y += x.other(5)"),
        ("y = [x.other(1).op(n) for n in range(2)]", "op(n)"),
        ("y = x.op(1,\n  2)", "x.op(1,"),
        ("y = (x.other(1)\n  .op(\n  2))", "op("),
    ],
)
def test_what_made_a_node_is_found_in_its_line(line, expected):
    x = Tensor()
    exec(compile(f"if True:\n\t{line}\n", "program.py", "exec"), {"x": x})
    text = f"if True:\n\t{line}".split("\n")[x.frame.line - 1]
    start, end = call_in(text, x.frame, "op")
    assert text[start:end] == expected


@pytest.mark.parametrize(
    ("text", "op_type", "expected"),
    [
        ("  y = tf.math.log(x) + tf.abs(x)", "Log", "log"),
        ("  y = tf.math.log(x) + tf.math.log(z)", "Log", "y = tf.math.log(x) + tf.math.log(z)"),
        ("  y = catalogue(x)  ", "Log", "y = catalogue(x)"),
        ("  y = x / z", "", "y = x / z"),
    ],
)
def test_without_columns_the_one_word_counts(text, op_type, expected):
    start, end = call_in(text, Frame("a.py", 1, "f"), op_type)
    assert text[start:end] == expected


@pytest.mark.parametrize("columns", [(4, 9000), (9000, 9001), (9, 3), (0, 0), (1, 1)])
def test_columns_of_another_text_mark_the_line_or_a_part_of_it(columns):
    text = "    é = log(x)"
    start, end = call_in(text, Frame("a.py", 1, "f", "", columns), "log")
    assert text[start:end].strip()
