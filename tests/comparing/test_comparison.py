"""What is said of each pair of two runs, by their values and through views."""

import math

import numpy as np
import pytest
from comparing_kit import EPSILON, ONE, compared, floats, run, said, viewed

from tfdbg_cli.common.errors import DumpError
from tfdbg_cli.comparing.gaps import Gap
from tfdbg_cli.dumps.memory import MemoryDump

# Bars by how many numbers are added up.


@pytest.mark.parametrize(
    ("shapes", "made", "added"),
    [
        ([], (3,), 1),
        ([], (), 1),
        ([(3,)], (3,), 1),
        ([(12, 3)], (3,), 12),
        ([(12, 3)], (), 36),
        ([(5, 7), (7, 2)], (5, 2), 7),
        ([(5, 7), (7, 2), (2,)], (5, 2), 7),
        ([(64, 3), (3,)], (3,), 64),
        ([(4, 9), (4, 9)], (4, 9), 6),
        ([(), ()], (0, 3), 1),
    ],
)
def test_how_many_numbers_make_one(shapes, made, added):
    def given(value):
        steps = [
            (f"x{at}", "Placeholder", (), np.full(shape, value)) for at, shape in enumerate(shapes)
        ]
        y = "y", "Dot", [f"{name}:0" for name, *_ in steps], np.ones(made, np.float32)
        return run(*steps, y)

    def roundings(value):
        return compared(given(1.0), given(value)).row_of("y:0").bar.rtol / EPSILON

    assert roundings(1.0) == (4 if shapes else 16)
    assert roundings(np.nextafter(1.0, 2)) == pytest.approx(16 * math.sqrt(added), rel=1e-12)


def test_without_a_graph_an_element_is_one_number():
    first, second = MemoryDump(), MemoryDump()
    for dump, value in ((first, 1), (second, 2)):
        dump.add("y", 0, floats(value))
    (row,) = compared(first, second).beyond()
    assert (row.bar.rtol, row.said) == (16 * EPSILON, "given")


def test_an_input_that_was_not_dumped_counts_as_one_number():
    def with_x(value):
        return run(
            ("x", "Placeholder", (), floats(value)),
            ("h", "Neg", ["x:0"], None),
            ("y", "Sum", ["h:0"], floats(1, 2)),
        )

    row = compared(with_x(1), with_x(1 + EPSILON)).row_of("y:0")
    assert row.bar.rtol == 16 * EPSILON
    # What was computed from a difference differs by it, through what wasn't dumped as well.
    other = run(
        ("x", "Placeholder", (), floats(2)),
        ("h", "Neg", ["x:0"], None),
        ("y", "Sum", ["h:0"], floats(1, 3)),
    )
    assert said(compared(with_x(1), other)) == {"x": "given", "y": "inputs differ"}


def test_memory_differs_at_the_start():
    def with_w(value):
        return run(
            ("w", "Parameter", (), floats(value)),
            ("b", "buffer", ["w:0"], floats(value)),
            ("y", "add", ["w:0"], floats(value)),
            engine="torch",
        )

    found = said(compared(with_w(1), with_w(2)))
    assert found == {"w": "at the start", "b": found["b"], "y": "inputs differ"}


def test_another_op_of_the_same_name_is_another_kernel():
    def with_op(op):
        return run(("x", "In", (), floats(1)), ("y", op, ["x:0"], floats(1, 1 + 8 * EPSILON)))

    one = run(("x", "In", (), floats(1)), ("y", "Add", ["x:0"], floats(1, 1)))
    assert said(compared(one, with_op("Add"))) == {"y": "made here"}
    assert said(compared(one, with_op("AddV2"))) == {}


def test_what_parts_first_is_what_is_told():
    def with_values(x, y):
        return run(
            ("x", "In", (), x),
            ("c", "Cast", ["x:0"], y),
            ("k", "In", (), x * 0),
            ("m", "Neg", ["k:0"], y),
        )

    comparison = compared(with_values(floats(1), floats(1)), with_values(floats(9), floats(2)))
    assert said(comparison) == {"x": "given", "c": "inputs differ", "m": "made here"}
    assert comparison.first_apart().datum.node_name == "x"


def test_of_two_engines_the_coarsest_dtype_so_far_counts():
    def of(engine, offset):
        values = (np.float32, np.float16, np.float32, np.int64, np.float32)
        steps = [
            (f"n{at}", "op", (), np.array([at, 5 + offset], dtype))
            for at, dtype in enumerate(values)
        ]
        return run(*steps, engine=engine)

    rows = compared(of("torch", 0), of("jax", 1)).rows()
    rtols = [row.bar.rtol / 16 for row in rows]
    assert rtols == [EPSILON, 2.0**-10, 2.0**-10, 0.0, 2.0**-10]


def test_some_elements_flip_where_a_last_bit_decides():
    def flipped(count):
        value = np.ones(200, np.float32)
        value[:count] = 0
        return run(("x", "In", (), floats(1 if not count else 2)), ("y", "Relu", ["x:0"], value))

    found = [said(compared(flipped(0), flipped(count))) for count in (1, 2, 3)]
    assert [each.get("y") for each in found] == [None, None, "inputs differ"]


def test_a_cycle_of_what_was_not_dumped_is_left():
    def with_y(value):
        return run(
            ("a", "Merge", ["b:0", "b:1"], None),
            ("b", "Next", ["a:0"], None),
            ("y", "Add", ["a:0"], floats(value)),
        )

    assert said(compared(with_y(1), with_y(2))) == {"y": "made here"}


# Rows that are asked for.


def several():
    return run(
        ("x", "In", (), floats(1)),
        ("y", "Add", ["x:0"], floats(1, 2)),
        ("y", "Add", ["x:0"], floats(1, 2)),
        ("v", "View", ["y:0"], floats(1, 2), True),
        ("alone", "Neg", ["y:0"], floats(1)),
    )


def test_rows_by_name():
    other = run(
        ("x", "In", (), floats(1)),
        ("y", "Mul", ["x:0"], floats(1, 2)),
        ("y", "Mul", ["x:0"], floats(1, 9)),
        ("v", "View", ["y:0"], floats(1, 5), True),
        ("new", "Exp", ["y:0"], floats(1, 2, 3)),
    )
    comparison = compared(several(), other)
    # The first one beyond the bar, else the last.
    assert comparison.row_of("y:0").pair.first.execution == 1
    assert comparison.row_of("x:0").gap.is_equal
    assert comparison.row_of("v:0") is comparison.row_of("nothing:0") is None
    alone, new = comparison.row_of("alone:0"), comparison.row_of("new:0")
    assert [(row.is_pair, row.said) for row in (alone, new)] == [
        (False, "only in A"),
        (False, "only in B"),
    ]
    names = ("y:0", "alone:0", "new:0")
    ops = [comparison.op_type(comparison.row_of(name)) for name in names]
    assert ops == ["Add", "Neg", "Exp"]
    view = comparison.view("v:0")
    assert (view.said, view.gap.max_abs, view.is_beyond) == ("made here", 3.0, True)
    assert comparison.view("y:0") is comparison.view("nothing:0") is None
    assert [row.datum.node_name for row in comparison.beyond()] == ["y", "new", "alone"]
    assert comparison.first_apart().datum.node_name == "y"
    same = compared(several(), several())
    assert same.row_of("y:0").pair.first.execution == 1
    assert (same.first_apart(), same.beyond()) == (None, [])
    assert same.view("v:0")[1:] == (Gap(2, True), same.view("v:0").bar, False, "", (), True)


def test_what_was_judged_by_some_elements_is_told_exactly_when_asked():
    first, second = np.ones(1 << 18, np.float32), np.ones(1 << 18, np.float32)
    second[5], second[-1], first[-2] = 3, 9, -4
    second[1 << 17 :] *= -1
    dumps = [run(("y", "Add", (), value)) for value in (first, second)]
    comparison = compared(*dumps)
    row = comparison.row_of("y:0")
    assert row.is_beyond and row.gap.is_partial
    exact = comparison.exact(row)
    assert (exact.gap.max_abs, exact.gap.scale, exact.bar.scale) == (10.0, 4.0, 4.0)
    assert exact.gap.differing > row.gap.differing
    assert not exact.gap.is_partial
    assert comparison.exact(exact) is exact

    bad = first.copy()
    bad[0] = np.nan
    other = compared(dumps[0], run(("y", "Add", (), bad)))
    row = other.row_of("y:0")
    assert (row.gap.is_bad, row.gap.is_partial, row.bar.scale) == (True, True, 1.0)
    exact = other.exact(row)
    assert (exact.gap.scale, exact.bar.scale, exact.gap.max_abs) == (4.0, 4.0, 0.0)

    def lost():
        raise DumpError("gone\nfor good")

    row.pair.second._load = lost
    again = comparison.exact(row)
    assert again.gap == row.gap._replace(problem="gone for good")


def test_what_cannot_be_read_is_beyond_and_says_why():
    def damaged():
        raise DumpError("cut\noff")

    rows = compared(run(("y", "Add", (), floats(1))), run(("y", "Add", (), damaged))).beyond()
    assert [(row.gap.problem, row.said) for row in rows] == [("cut off", "given")]


# Views.


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({3: floats(1, 3)}, {"y": "made here"}),
        ({2: floats(2, 1), 3: floats(1, 3)}, {"two": "made here", "y": "inputs differ"}),
        (
            {1: floats(2, 1), 2: floats(2, 1), 3: floats(1, 3)},
            {"one": "made here", "y": "inputs differ"},
        ),
        # A last bit is none, another shape is, and what can't be told isn't claimed.
        ({2: floats(1, 2 + 20 * EPSILON), 3: floats(1, 3)}, {"y": "made here"}),
        (
            {2: floats(1, 2 + 40 * EPSILON), 3: floats(1, 3)},
            {"two": "made here", "y": "inputs differ"},
        ),
        ({2: floats(1, 2 + 2 * EPSILON), 3: floats(1, 3)}, {"y": "made here"}),
        ({2: floats(1, 2, 3), 3: floats(1, 3)}, {"two": "made here", "y": "inputs differ"}),
        ({2: floats(1, np.nan), 3: floats(1, 3)}, {"two": "made here", "y": "inputs differ"}),
        ({2: lambda: 1 / 0, 3: floats(1, 3)}, None),
        ({0: floats(3, 4), 3: floats(1, 3)}, {"x": "given", "y": "inputs differ"}),
    ],
)
def test_the_view_by_which_inputs_differ(changes, found):
    second = [changes.get(at, value) for at, value in enumerate(ONE)]
    if found is None:
        with pytest.raises(ZeroDivisionError):
            said(compared(viewed(*ONE), viewed(*second)))
        return
    assert said(compared(viewed(*ONE), viewed(*second))) == found


def test_a_view_is_told_once():
    def with_views(value, more=()):
        return run(
            ("x", "In", (), floats(1, 2)),
            ("v", "View", (), value, True),
            ("y", "Add", ["v:0", *more], value),
            ("z", "Neg", ["v:0"], -value),
        )

    # Of nodes with other numbers of inputs as well, and of views that nothing leads to.
    rows = compared(with_views(floats(1, 2)), with_views(floats(2, 1), ["x:0"])).beyond()
    assert [(row.datum.node_name, row.said) for row in rows] == [
        *(("v", "made here"), ("y", "inputs differ"), ("z", "inputs differ")),
    ]


def test_a_view_that_cannot_be_read_is_not_claimed_to_differ():
    def damaged():
        raise DumpError("cut off")

    second = viewed(ONE[0], ONE[1], damaged, floats(1, 3))
    comparison = compared(viewed(*ONE), second)
    assert said(comparison) == {"y": "made here"}
    assert comparison.view("two:0").gap.problem == "cut off"


def test_views_of_a_loop_are_those_of_the_same_turn():
    def looped(*turns):
        steps = [("x", "In", (), floats(1))]
        for view, y in turns:
            steps += [("v", "View", ["x:0"], view, True), ("y", "Add", ["v:0"], y)]
        return run(*steps)

    one = looped((floats(1), floats(1)), (floats(2), floats(2)))
    other = looped((floats(1), floats(1)), (floats(3), floats(3)))
    rows = [row for row in compared(one, other).rows() if row.is_beyond]
    assert [(row.datum.node_name, row.datum.execution) for row in rows] == [("v", 1), ("y", 1)]
    # Of fewer turns of a view the last one.
    less = looped((floats(1), floats(1)), (None, floats(3)))
    assert said(compared(one, less)) == {"v": "made here", "y": "inputs differ"}
