"""Which tensor of one run is which of another, pair by pair, in the order of a comparison."""

import re

import numpy as np

from tfdbg_cli.common.errors import DumpError
from tfdbg_cli.comparing.alignment import align, read_map
from tfdbg_cli.dumps.datum import Datum
from tfdbg_cli.dumps.graph import Graph, Node
from tfdbg_cli.dumps.memory import MemoryDump


def run(*steps, has_graph=True):
    """A run from (name, op type, inputs, size, more of `MemoryDump.add`)."""
    nodes = {step[0]: Node(*step[:3]) for step in steps}
    dump = MemoryDump(Graph(nodes.values()) if has_graph else None)
    for at, (name, _, _, size, *more) in enumerate(steps):
        options = {"output_slot": 0, **(more[0] if more else {})}
        dump.add(name, value=np.zeros(size), timestamp=at, **options)
    return dump


def matched(first, second, renamed=()):
    """Names of the first and of the second run, and by what they were matched."""
    return [
        (*(each and each.node_name for each in pair[:2]), pair.matched_by)
        for pair in align(first, second, renamed)
    ]


def test_the_names_of_a_map_are_whole_ones_and_the_first_that_fits_counts():
    first = run(("net/a", "Add", (), 1), ("net", "Add", (), 2), ("b", "Add", (), 3))
    second = run(("t/a", "Mul", (), 9), ("net", "Add", (), 4), ("b", "Add", (), 3))
    names = [(re.compile("net/(.*)"), r"t/\1"), (re.compile("n.*|B"), "b")]
    assert matched(first, second, names) == [
        ("net/a", "t/a", "map"),
        (None, "net", ""),
        ("net", "b", "map"),
        ("b", None, ""),
    ]


def test_a_file_of_names(tmp_path):
    path = tmp_path / "names"
    path.write_text("# ours\n\n  # more\na(.) -> b\\1 -> c\n x -> y \n")
    found = [(pattern.pattern, name) for pattern, name in read_map(str(path))]
    assert found == [("a(.)", "b\\1 -> c"), ("x", "y")]


def test_the_rest_is_matched_in_its_order():
    first, second = (
        run(*((name, "Const", (), size) for name, size in zip(names, sizes, strict=True)))
        for names, sizes in (("abcd", (2, 3, 2, 7)), ("pqrs", (2, 5, 3, 2)))
    )
    assert matched(first, second) == [
        ("a", "p", "order"),
        (None, "q", ""),
        ("b", "r", "order"),
        ("c", "s", "order"),
        ("d", None, ""),
    ]
    # What is only in the second run stands where it came, in front of all as well.
    later = run(("new", "Neg", (), 9), ("a", "Const", (), 2), ("z", "Neg", (), 8))
    assert matched(first, later)[:3] == [(None, "new", ""), ("a", "a", "name"), (None, "z", "")]


def test_without_graphs_shapes_and_order_tell():
    first = run(("a", "Add", (), 2), ("b", "Mul", (), 3), has_graph=False)
    second = run(("p", "Neg", (), 2), ("q", "Neg", (), 3), has_graph=False)
    assert matched(first, second) == [("a", "p", "order"), ("b", "q", "order")]


def test_neighbours_are_of_one_kind_and_shape_and_follow_one_another():
    first = run(
        ("x", "In", (), 1),
        ("a", "Add", ["x:0"], 2),
        ("b", "Mul", ["a:0"], 2),
        ("c", "Mul", ["a:0"], 2),
        ("d", "Sub", ["x:0", "c:0"], 2),
        ("e", "Neg", ["gone:0", "b:0"], 2),
    )
    second = run(
        ("x", "In", (), 1),
        ("k", "Add", ["x:0"], 2),
        ("l", "Mul", ["k:0"], 2),
        ("n", "Add", ["x:0"], 3),
        ("m", "Mul", ["k:0"], 2),
        ("p", "Sub", ["x:0", "m:0"], 2),
        ("o", "Neg", ["w:0", "l:0"], 2),
    )
    assert matched(first, second) == [
        ("x", "x", "name"),
        ("a", "k", "neighbours"),
        ("b", "l", "neighbours"),
        (None, "n", ""),
        ("c", "m", "neighbours"),
        ("d", "p", "neighbours"),
        ("e", "o", "order"),
    ]


def test_slots_executions_and_debug_ops_are_told_apart():
    slots = [("a", "Split", (), 2, {"output_slot": slot}) for slot in (0, 1)]
    again = ("a", "Split", (), 2, {"output_slot": 1})
    other = ("a", "Split", (), 2, {"output_slot": 0, "debug_op": "DebugNanCount"})
    first, second = run(*slots, again, other), run(other, again, *slots)
    found = [
        [(each.watch_key, each.execution) for each in pair[:2]] for pair in align(first, second)
    ]
    assert all(one == same for one, same in found)
    assert [each[0] for each in found] == [
        ("a:0:DebugIdentity", 0),
        ("a:1:DebugIdentity", 0),
        ("a:1:DebugIdentity", 1),
        ("a:0:DebugNanCount", 0),
    ]


def test_devices_are_told_apart_where_both_runs_have_them():
    def on(*devices):
        return run(*(("w", "Add", (), 1, {"device_name": device}) for device in devices))

    pairs = align(on("gpu:0", "gpu:1"), on("gpu:1", "gpu:0"))
    assert [[each.device_name for each in pair[:2]] for pair in pairs] == [
        ["gpu:0", "gpu:0"],
        ["gpu:1", "gpu:1"],
    ]
    assert [pair.matched_by for pair in align(on("gpu:0"), on("gpu:1"))] == ["name"]


def test_views_and_what_is_damaged():
    def damaged():
        raise DumpError("cut off")

    first, second = run(("a", "Add", (), 1)), run(("a", "Add", (), 1))
    for dump, name in ((first, "lost"), (second, "gone")):
        dump.add_datum(Datum("view", 0, lambda: np.zeros(1), timestamp=8, is_view=True))
        dump.add_datum(Datum(name, 0, damaged, timestamp=9))
    assert matched(first, second) == [("a", "a", "name"), ("lost", "gone", "order")]
