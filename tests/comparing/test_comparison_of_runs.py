"""Runs beside hashes alone, parameters over several runs, references for living programs."""

import numpy as np
import pytest
from comparing_kit import EPSILON, ONE, compared, floats, kept, run, said, viewed

from tfdbg_cli.common.errors import UserError
from tfdbg_cli.comparing.gaps import Gap
from tfdbg_cli.comparing.history import different_since
from tfdbg_cli.comparing.options import TERMS
from tfdbg_cli.comparing.reference import Reference, run_name
from tfdbg_cli.comparing.terms import Terms
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.dumps.open import open_dump
from tfdbg_cli.dumps.run_folder.writer import write_run_folder
from tfdbg_cli.dumps.run_info import RunInfo

# Hashes and statistics in place of values.


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


def test_a_living_run_beside_hashes(tmp_path):
    memory = MemoryDump(run_info=RunInfo(engine="numpy"))
    for at, (name, value) in enumerate(OTHERS.items()):
        memory.add(name, 0, value, timestamp=at)
    folder = kept(tmp_path / "A", values=False, **TENSORS)
    for first, second in ((folder, memory), (memory, folder)):
        rows = {row.datum.node_name: row for row in compared(first, second).rows()}
        assert rows["same"].gap == Gap(2, True)
        assert rows["near"].gap.max_abs == 2 * EPSILON
        assert rows["far"].gap.max_abs == 2.0
        assert " | " in rows["far"].gap.note
        found = {name for name, row in rows.items() if row.is_beyond}
        assert found == {"far", "bad", "whole", "shape", "turned", "texts"}


def test_what_has_one_hash_is_not_read(tmp_path):
    folders = [kept(tmp_path / name, **TENSORS) for name in "AB"]
    for path in tmp_path.glob("*/tensors-*.safetensors"):
        path.write_bytes(bytes(path.stat().st_size))
    assert [row.gap.is_equal for row in compared(*folders).rows()] == [True] * len(TENSORS)


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
