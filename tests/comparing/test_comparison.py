"""What is said of each pair of two runs: by values, by hashes alone, through views, over runs."""

import math

import numpy as np
import pytest

from tfdbg_cli.common.errors import DumpError, UserError
from tfdbg_cli.comparing.alignment import align
from tfdbg_cli.comparing.bars import Bars
from tfdbg_cli.comparing.comparison import Comparison
from tfdbg_cli.comparing.gaps import Gap
from tfdbg_cli.comparing.history import different_since
from tfdbg_cli.comparing.options import TERMS
from tfdbg_cli.comparing.reference import Reference, run_name
from tfdbg_cli.comparing.terms import Terms
from tfdbg_cli.dumps.datum import Datum
from tfdbg_cli.dumps.graph import Graph, Node
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.dumps.open import open_dump
from tfdbg_cli.dumps.run_folder.writer import write_run_folder
from tfdbg_cli.dumps.run_info import RunInfo

EPSILON = 2.0**-23


def run(*steps, engine="numpy", number=1):
    """A run from (name, op type, inputs, value, whether it is a view); `None`: not dumped."""
    nodes = {step[0]: Node(*step[:3]) for step in steps}
    dump = MemoryDump(Graph(nodes.values()), run_info=RunInfo(number, engine=engine))
    for at, (name, _, _, value, *is_view) in enumerate(steps):
        if value is not None:
            load = value if callable(value) else lambda value=value: value
            dump.add_datum(Datum(name, 0, load, timestamp=at, is_view=bool(is_view)))
    return dump


def compared(first, second, **bars):
    return Comparison(first, second, align(first, second), Bars(**bars))


def said(comparison):
    return {row.datum.node_name: row.said for row in comparison.rows() if row.is_beyond}


def floats(*values):
    return np.float32(values)


# Bars by how many numbers are added up.


@pytest.mark.parametrize(
    ("shapes", "made", "added"),
    [
        ([], (3,), 1),
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
    assert same.view("v:0")[1:] == (Gap(2, True), same.view("v:0").bar, False, "", ())


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


def viewed(*values, inputs=("x:0",), **options):
    """Two views, one of the other, and what was computed with the second."""
    x, one, two, y = values
    return run(
        ("x", "In", (), x),
        ("one", "View", inputs, one, True),
        ("two", "View", ["one:0"], two, True),
        ("y", "Add", ["two:0"], y),
        **options,
    )


ONE = floats(1, 2), floats(1, 2), floats(1, 2), floats(1, 2)


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


# Hashes and statistics in place of values.


def kept(path, values=True, **tensors):
    dump = MemoryDump(run_info=RunInfo(engine="numpy"))
    for at, (name, value) in enumerate(tensors.items()):
        dump.add(name, 0, value, timestamp=at)
    write_run_folder(dump, path, values=values)
    return open_dump(path)


TENSORS = {
    "same": floats(1, 2),
    "near": floats(1, 2),
    "far": floats(1, 2),
    "bad": floats(1, 2),
    "whole": np.array([1, 2]),
    "turned": np.array([1, 2]),
    "wide": np.array([1, 2]),
    "shape": floats(1, 2),
    "kind": np.zeros(2, np.float32),
    "texts": np.array([b"a", b"b"], object),
    "complex": np.complex64([1, 2]),
    "order": floats(1, 2, 3),
}
OTHERS = {
    **TENSORS,
    "near": floats(1, 2 + 2 * EPSILON),
    "far": floats(1, 4),
    "bad": floats(np.inf, 2),
    "whole": np.array([1, 3]),
    "turned": np.array([2, 1]),
    "wide": np.array([1, 2], np.int32),
    "shape": floats(1, 2, 3),
    "kind": np.zeros(2, np.int32),
    "complex": np.complex64([1, 2j]),
    "order": floats(2, 1, 3),
}


@pytest.mark.parametrize("sides", [(True, False), (False, True), (False, False)])
def test_runs_without_values(tmp_path, sides):
    folders = [
        kept(tmp_path / name, values, **tensors)
        for name, values, tensors in zip("AB", sides, (TENSORS, OTHERS), strict=True)
    ]
    rows = {row.datum.node_name: row for row in compared(*folders).rows()}
    gaps = {name: row.gap for name, row in rows.items()}
    assert gaps["same"] == Gap(2, True) == gaps["texts"]
    assert gaps["near"].max_abs == 2 * EPSILON
    note = "1 to 2, mean 1.5, std 0.5 | 1 to 4, mean 2.5, std 1.5"
    assert gaps["far"] == Gap(2, False, 2.0, 2.0, 2, False, note=note)
    assert gaps["bad"]._replace(note="") == Gap(2, False, 1.0, 2.0, 2, True)
    assert gaps["whole"].max_abs == 1.0
    assert gaps["shape"] == Gap(2, problem="the shapes differ: [2] and [3]")
    assert gaps["kind"]._replace(note="") == Gap(2, False, 0.0, 0.0, 2)
    assert gaps["complex"] == Gap(2, False, 0.0, 0.0, 2, note="other elements")
    for name in ("order", "turned", "wide"):
        assert (gaps[name].max_abs, gaps[name].is_equal) == (0.0, False)
    # What can't be told isn't claimed: in another order the same numbers have the same statistics.
    apart = {name for name, row in rows.items() if row.is_beyond}
    assert apart == {"far", "bad", "whole", "shape", "turned"}
    # Of an angle nothing is known.
    angle = said(compared(*folders, cosine=0.9))
    assert angle.keys() == {"shape"}


def test_equal_hashes_of_other_dtypes_are_looked_at(tmp_path):
    first = kept(tmp_path / "A", x=np.zeros(2, np.float32))
    second = kept(tmp_path / "B", x=np.zeros(2, np.int32))
    (row,) = compared(first, second).rows()
    assert row.gap == Gap(2, True, 0.0, 0.0, 0)
    memory = MemoryDump()
    memory.add("x", 0, np.array([b"a"], object))
    second = kept(tmp_path / "C", values=False, x=np.array([b"a"], object))
    (row,) = compared(memory, second).rows()
    assert row.is_beyond and row.gap.problem


# Several runs.


@pytest.fixture
def runs(tmp_path):
    """Folders of two sides: of equal runs, of different ones, and of one that isn't there."""
    found = {}
    for name, other in (("equal", 1), ("apart", 2)):
        kept(tmp_path / name / "A", w=floats(1), other=floats(1)).close()
        kept(tmp_path / name / "B", w=floats(other), other=floats(1)).close()
        found[name] = tmp_path / name / "A", tmp_path / name / "B"
    kept(tmp_path / "lacks", v=floats(1)).close()
    found["gone"] = tmp_path / "gone", tmp_path / "apart" / "B"
    found["lost"] = tmp_path / "apart" / "A", tmp_path / "gone"
    found["lacks"] = tmp_path / "lacks", tmp_path / "apart" / "B"
    found["lacking"] = tmp_path / "apart" / "A", tmp_path / "lacks"
    return found


@pytest.mark.parametrize(
    ("names", "since"),
    [
        ("", None),
        ("equal", None),
        ("gone", None),
        ("apart", (0, True)),
        ("apart equal", (1, True)),
        ("apart apart equal apart", (2, True)),
        ("apart apart", (0, True)),
        ("apart gone apart", (2, False)),
        ("apart lost apart", (2, False)),
        ("apart lacks", (1, False)),
        ("apart lacking", (1, False)),
        (" ".join(["apart"] * 60), (10, False)),
    ],
)
def test_since_when_a_parameter_is_different(runs, names, since):
    first, second = map(open_dump, runs["apart"])
    comparison = compared(first, second)
    row = comparison.first_apart()
    each = names.split()
    earlier = [(len(each) - 1 - at, *runs[name]) for at, name in enumerate(each)]
    assert different_since(comparison, row, earlier) == since
    # On the terms of the comparison.
    wide = compared(first, second, rtol=2.0)
    assert different_since(wide, row, earlier) is None


def passing(reference, dump):
    return [datum.node_name for datum in dump.data() if reference(datum, None, dump)]


def test_a_reference_passes_the_first_tensor_that_differs(tmp_path, monkeypatch):
    assert [run_name(number) for number in (1, 23, 1234567)] == [
        *("run_000001", "run_000023", "run_1234567"),
    ]
    monkeypatch.chdir(tmp_path)
    for number in (1, 2):
        write_run_folder(viewed(*ONE, number=number), tmp_path / "kept" / run_name(number))
    reference = Reference("kept")
    monkeypatch.chdir("/")
    assert (reference.folder, reference.shown_by) == (str(tmp_path / "kept"), "")
    assert passing(reference, viewed(*ONE, number=2)) == []
    changed = viewed(*ONE[:3], floats(1, 3), number=2)
    assert passing(reference, changed) == ["y"]
    # Views aren't asked for: what was computed with it comes next.
    turned = viewed(*ONE[:2], floats(2, 1), floats(1, 3), number=2)
    assert passing(reference, turned) == ["y"]
    assert passing(reference, viewed(*ONE[:3], floats(1, 3), number=3)) == []
    unknown = viewed(*ONE[:3], floats(1, 3))
    unknown.set_run_info(None)
    assert passing(reference, unknown) == []


def test_a_reference_is_on_terms(tmp_path, monkeypatch):
    write_run_folder(run(("y", "Add", (), floats(1))), tmp_path / "kept" / run_name(1))
    changed = run(("z", "Neg", (), floats(1.01)))
    monkeypatch.setenv("HOME", str(tmp_path))
    assert passing(Reference("~/kept"), changed) == []
    names = tmp_path / "names"
    names.write_text("z -> y\n")
    assert passing(Reference("~/kept", Terms(map=str(names))), changed) == ["z"]
    assert passing(Reference("~/kept", Terms(0.1, map=str(names))), changed) == []
    with pytest.raises(UserError):
        Reference(str(tmp_path / "nowhere"))
    with pytest.raises(UserError, match="no bar"):
        Reference("~/kept", Terms(bar="sine"))


def test_terms(tmp_path, monkeypatch):
    assert [(term.name, term.default) for term in TERMS] == [
        *(("--rtol", None), ("--atol", None), ("--bar", ""), ("--rules", ""), ("--map", "")),
    ]
    assert [term.kind("1") for term in TERMS] == [1.0, 1.0, "1", "1", "1"]
    assert Terms().given() == []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    terms = Terms(0.0, None, "cosine", "rules", "~/names")
    assert terms.given() == [
        *(("--rtol", "0.0"), ("--bar", "cosine"), ("--rules", "rules"), ("--map", "~/names")),
    ]
    away = terms.anywhere()
    assert away == (0.0, None, "cosine", f"{tmp_path}/rules", f"{tmp_path}/home/names")
    assert Terms().anywhere() == Terms()
