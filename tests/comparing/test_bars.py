"""What is allowed of two tensors, and what is said of those beyond it: rules, dtypes, inputs."""

import math

import numpy as np
import pytest

from tfdbg_cli.common.errors import UserError
from tfdbg_cli.comparing.alignment import align, read_map
from tfdbg_cli.comparing.bars import Bars, make_bars, read_rules
from tfdbg_cli.comparing.comparison import Comparison
from tfdbg_cli.comparing.gaps import Gap, beyond, difference, gap
from tfdbg_cli.dumps.dump import RunInfo
from tfdbg_cli.dumps.graph import Graph, Node
from tfdbg_cli.dumps.memory import MemoryDump

EPSILON = 2.0**-23
SCALE = 3.0


def bar(bars, *dtypes, op="Add", added=1, same_inputs=False):
    """What may differ of a tensor whose largest element is `SCALE`: by how much, and how many."""
    found = bars.bar(dtypes or ("float32", "float32"), op, added, same_inputs=same_inputs)
    return found.limit_of(SCALE), found.share


def test_without_rules_the_dtype_and_what_was_added_up_count():
    assert bar(Bars()) == (16 * EPSILON * 3, 0.0)
    assert bar(Bars(), added=25) == (16 * 5 * EPSILON * 3, 0.0)
    assert bar(Bars(), added=25, same_inputs=True) == (4 * EPSILON * 3, 0.0)
    # The coarser dtype counts, and another one is another kernel.
    mixed = bar(Bars(), "float32", "float16", same_inputs=True)
    assert mixed == (16 * 2.0**-10 * 3, 0.0)
    assert bar(Bars(0.5, 0.25)) == (0.25 + 1.5, 0.0)
    assert bar(Bars(0.5, 0.25), "int32", "int32") == (0.0, 0.0)


def test_elements_flip_where_a_last_bit_decides():
    for op in ("Relu", "aten::where", "select", "ArgMax", "Greater", "ge_", "ne"):
        assert bar(Bars(), op=op)[1] == 0.01
        assert bar(Bars(), op=op, same_inputs=True)[1] == 0.0
    assert bar(Bars(), op="MatMul")[1] == 0.0


def test_the_first_rule_that_fits_counts(tmp_path):
    (tmp_path / "rules").write_text(
        "# of ours\n\nMatMul float16 rtol=1e-2  # why\n"
        "Add float32 atol=2 share=0.5\nAdd .* rtol=9\n"
    )
    bars = make_bars(0.5, None, "", str(tmp_path / "rules"))
    assert bar(bars) == (2 + 0.5 * 3, 0.5)
    assert bar(bars, "float64", "float64") == (9 * 3, 0.0)
    assert bar(bars, "int64", "int64") == (9 * 3, 0.0)
    assert bar(bars, op="MatMul") == (0.5 * 3, 0.0)
    assert bar(bars, "float32", "float16", op="MatMul") == (1e-2 * 3, 0.0)


@pytest.mark.parametrize(
    "line",
    [
        "Add",
        "Add float32",
        "Add float32 rtol",
        "Add float32 rtol=x",
        "Add float32 tol=1",
        "( . rtol=1",
    ],
)
def test_a_line_that_is_no_rule_is_told_with_its_number(tmp_path, line):
    path = tmp_path / "rules"
    path.write_text(f"Add float32 rtol=1\n{line}\n")
    with pytest.raises(UserError, match=f"{path}:2: "):
        read_rules(str(path))


def test_what_a_rule_lacks_is_named(tmp_path):
    path = tmp_path / "rules"
    for line, lacks in (("Add . tol=1 by=2", "tol, by"), ("Add .", "rtol=, atol= or share=")):
        path.write_text(f"{line} # more # of it\n")
        with pytest.raises(UserError) as raised:
            read_rules(str(path))
        assert raised.value.message.endswith(f"there is no {lacks}")


@pytest.mark.parametrize(
    "line", ["a", "a ->", "-> b", "( -> b", "(a) -> \\2", "a -> \\g<x>", "a -> \\"]
)
def test_a_line_that_is_no_name_is_told_with_its_number(tmp_path, line):
    path = tmp_path / "map"
    path.write_text(f"# ours\n(a) -> \\1b\n{line}\n")
    with pytest.raises(UserError, match=f"{path}:3: "):
        read_map(str(path))


def test_bars_of_an_angle():
    assert make_bars(None, None, "cosine", "").cosine == 0.999
    assert make_bars(None, None, "cosine:0.5", "").cosine == 0.5
    for text in ("cosine:x", "angle:1"):
        with pytest.raises(UserError, match="--bar"):
            make_bars(None, None, text, "")


def test_gaps_of_whole_numbers_and_texts():
    found = gap(np.array([1, -9, 3]), np.array([1, -5, 5]))
    assert (found.total, found.max_abs, found.scale, found.differing) == (3, 4.0, 9.0, 2)
    assert not gap(np.array([b"a"], object), np.array([b"b"], object)).is_equal
    assert gap(np.array(["a"], object), np.array(["a"], object)).is_equal
    left, right = np.array([1, -9, 3]), np.array([1, -5, 5])
    assert [beyond(left, right, limit) for limit in (0, 2, 4)] == [2, 1, 0]
    assert beyond(np.array([1.0, np.nan, 3]), np.array([1.5, np.nan, np.inf]), 0.5) == 1


def test_gaps_of_floats_in_several_dtypes():
    one = np.float32([1, 2, np.nan])
    assert gap(one, one.astype(np.float64)) == Gap(3, True, 0.0, 2.0, 0)
    assert gap(one, np.float64([1, 4, np.nan]))._replace(differing=0) == Gap(3, False, 2.0, 2.0)
    assert gap(one, np.float64([1, 4, np.nan])).differing >= 1
    assert gap(one, one.copy()) == Gap(3, True)


def test_a_difference_is_relative_to_the_first():
    found = difference(np.array([0.0, 2.0, -4.0, 1.0]), np.array([1.0, 3.0, 4.0, -1.0]))
    assert (found.max_abs, found.max_rel, found.flips) == (8.0, 2.0, 2)
    assert math.isclose(found.cosine, (6 - 16 - 1) / math.sqrt(21 * 27))


# Runs of a graph: x -> a -> b, and an input.


def run(engine="numpy", alone="", **values):
    graph = Graph(
        [
            Node("x", "Placeholder"),
            Node("a", "Add", ["x:0"]),
            Node("b", "Mul", ["a:0", *([f"{alone}:0"] if alone else [])]),
            *([Node(alone, "Const")] if alone else []),
        ]
    )
    dump = MemoryDump(graph, run_info=RunInfo(engine=engine))
    for at, (name, value) in enumerate(values.items()):
        dump.add(name, 0, np.float32(value), timestamp=at)
    return dump


def said(first, second, **bars):
    comparison = Comparison(first, second, align(first, second), Bars(**bars))
    assert not any(row.said or row.others for row in comparison.rows() if not row.is_beyond)
    rows = {row.datum.node_name: row.said for row in comparison.rows() if row.is_beyond}
    apart = comparison.first_apart()
    return rows, apart.datum.node_name if apart is not None else None


ONE = {"x": [1, 2], "a": [2, 3], "b": [4, 6]}


@pytest.mark.parametrize(
    ("changes", "rows", "first"),
    [
        ({}, {}, None),
        ({"b": [4, 7]}, {"b": "made here"}, "b"),
        ({"a": [2, 4], "b": [4, 7]}, {"a": "made here", "b": "inputs differ"}, "a"),
        ({"x": [1, 9]}, {"x": "given"}, "x"),
        ({"b": [4, 6 * (1 + EPSILON)]}, {}, None),
        ({"b": [4, np.nan]}, {"b": "made here"}, "b"),
        ({"b": [4, 6, 8]}, {"b": "made here"}, "b"),
    ],
)
def test_where_two_runs_part(changes, rows, first):
    assert said(run(**ONE), run(**{**ONE, **changes})) == (rows, first)


def test_tensors_that_are_alone():
    rows, first = said(run(**ONE, alone="c", c=[1, 1]), run(**{**ONE, "b": [5, 5]}))
    assert rows == {"b": "other inputs", "c": "only in A"}
    assert first == "b"
    assert said(run(**ONE), run(**ONE, alone="c", c=[1, 1]))[0] == {"c": "only in B"}


def pairs_with(other_b):
    graph = Graph([Node("x", "Placeholder"), Node("p", "Add", ["x:0"]), Node("q", "Mul", ["p:0"])])
    second = MemoryDump(graph, run_info=RunInfo(engine="numpy"))
    for at, (name, value) in enumerate({"x": [1, 2], "p": [2, 3], "q": other_b}.items()):
        second.add(name, 0, np.float32(value), timestamp=at)
    found = [[each and each.node_name for each in pair[:2]] for pair in align(run(**ONE), second)]
    return sorted(found, key=str)


def test_nodes_of_other_names_are_told_by_op_and_shape():
    assert pairs_with([4, 6]) == [["a", "p"], ["b", "q"], ["x", "x"]]
    assert pairs_with([4, 6, 8]) == [["a", "p"], ["b", None], ["x", "x"], [None, "q"]]


def test_an_angle_alone_counts():
    longer = {**ONE, "b": [8, 12]}
    assert said(run(**ONE), run(**longer), cosine=0.999) == ({}, None)
    turned = {**ONE, "b": [6, -4]}
    assert said(run(**ONE), run(**turned), cosine=0.999) == ({"b": "made here"}, "b")
