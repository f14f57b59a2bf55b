"""``pf``: the values of the feed_dict, with all that ``pt`` has."""

from collections import namedtuple

import numpy as np
import pytest
from command_kit import FED, Shell, link_of

from tfdbg_cli.dumps.dump import RunInfo

Sparse = namedtuple("Sparse", ["indices", "values", "dense_shape"])
SPARSE = Sparse([[0, 0], [1, 2]], np.array([1.5, np.nan], np.float32), [3, 4])


def test_feeds_as_they_were_given(shell, start):
    for at in (shell, start):
        lines = at.lines("pf input/x:0")
        assert lines[0] == 'Tensor "input/x:0 (feed)":'
        assert lines[1:3] == ["  dtype: float64", "  shape: (2, 3)"]
        assert at.lines("print_feed input/x:0") == lines
        assert at.lines("pf input/x") == lines
    assert start.lines("pf input/x:0[1, 0]")[-1] == "array(-1.)"
    assert "mean" in start.text("pf -s input/x:0")
    assert "Highlighted" in start.text("pf input/x:0 -r 0,9")


def test_a_feed_can_be_saved(start, tmp_path):
    start.document(f"pf input/x:0[0] -w {tmp_path}/x.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), FED[0])


def test_odd_feeds():
    feeds = {'Sparse("a", b)': [[1], [2, 3]], "it's": "text", "none": None}
    shell = Shell(None, info=RunInfo(1, [], feeds))
    for command in shell.links("run_info"):
        if command.startswith("pf"):
            shell.document(command)
    assert "[2, 3]" in shell.text("pf 'Sparse(\"a\", b)'")
    assert "no feeds" not in shell.error("pf nothing")
    assert "is empty" in Shell(None).error("pf x")


def test_everything_that_pt_has(start, tmp_path):
    assert start.lines("pf input/x[[1, 0], ::-1]")[-2:] == [
        "array([[-3., -2., -1.],",
        "       [ 3.,  2.,  1.]])",
    ]
    assert start.lines("pf input/x[_ > 1]")[-1] == "array([2., 3.])"
    assert start.lines("pf input/x[`input/x:0`[:, 0] < 0, 1]")[-1] == "array([-2.])"
    assert start.lines("pf input/x -n 0") == start.lines("pf input/x -n -1")
    assert start.lines("pf input/x --sort-by-magnitude")[4] == "[0,2]  3.0"
    assert "No bad elements among 6." in start.text("pf input/x --bad")
    assert start.lines("pf input/x -s")[-4].split() == ["-3", "-2", "-1", "0", "1", "2", "3"]
    assert "pf input/x:0 -s --log x" in start.links("pf input/x -s")
    start.document(f"pf input/words -w {tmp_path}/w.csv")
    assert (tmp_path / "w.csv").read_text() == "a\nb\n"
    start.document(f"pf input/x -w {tmp_path}/x.npz")
    with np.load(tmp_path / "x.npz") as archive:
        assert archive.files == ["input/x:0"]


def test_the_dtype_that_the_run_made_of_it(shell, start):
    assert "(fed as float64; the run used it as float32)" in shell.text("pf input/x")
    assert "the run used" not in start.text("pf input/x")


def test_a_list_has_dtype_and_shape():
    shell = Shell(None, info=RunInfo(1, [], {"a:0": [[1, 2], [3, 4]], "b:0": 7, "r:0": [[1], []]}))
    assert shell.lines("pf a[1, 0] -s")[:3] == [
        'Tensor "a:0 (feed)[1, 0]":',
        "  dtype: int64",
        "  shape: ()",
    ]
    assert shell.lines("pf b")[-1] == "array(7)"
    assert "[[1], []]" in shell.text("pf r")
    assert "no array" in shell.error("pf r -w x.npy")


@pytest.mark.parametrize(
    ("command", "parts"),
    [
        ("pf a", ["does not contain", "input/x:0"]),
        ("pf input/y:0", ["does not contain", "Did you mean input/x:0"]),
        ("pf input/x:0 -n 1", ["Invalid number (1) for feed input/x:0", "one value"]),
        ("pf input/x:0 -n -2", ["Invalid number (-2)"]),
        ("pf input/x:0[7]", ["does not fit", "(2, 3)"]),
        ("pf input/x:0[0", ["not closed"]),
        ("pf input/words -r 0,1", ["strings"]),
        ("pf input/words --bad", ["never nan"]),
        ("pf", ["required", "FEED[SLICE]"]),
    ],
)
def test_mistakes(start, command, parts):
    text = start.error(command)
    for part in parts:
        assert part in text


def test_a_composite_feed_part_by_part(tmp_path):
    shell = Shell(None, info=RunInfo(1, [], {"a/sp": SPARSE, "x:0": 1.0}))
    text = shell.text("pf a/sp")
    assert 'Feed "a/sp (feed)", a Sparse:' in text
    headings = [line.text for line in shell.document("pf a/sp") if line.text.endswith(":")]
    assert headings[1::2] == ["indices:", "values:", "dense_shape:"]
    assert "array([1.5, nan], dtype=float32)" in text
    assert "(1 NaN)" in shell.text("pf a/sp --bad")
    assert shell.document("pf a/sp --bad").initial_search
    assert shell.lines("pf a/sp.indices[1, -1]")[-1] == "array(2)"
    assert shell.lines("eval `a/sp.values`[0]+`x`")[-1] == "array(2.5)"
    shell.document(f"pf a/sp.values -w {tmp_path}/v.npy")
    assert np.load(tmp_path / "v.npy")[0] == 1.5
    known = "Slice one of a/sp.indices[0], a/sp.values[0], a/sp.dense_shape[0]."
    assert known in shell.error("pf a/sp[0]")
    assert "a/sp.indices" in shell.error(f"pf a/sp -w {tmp_path}/x.npy")
    assert "a/sp" in shell.error("pf a/sp.nothing")
    assert shell.complete("pf a/sp.va") == ["pf a/sp.values"]
    assert link_of(shell.document("run_info"), "a/sp") == "pf a/sp"


@pytest.mark.tensorflow
def test_composite_feeds_of_tensorflow():
    tf = pytest.importorskip("tensorflow").compat.v1
    ragged = tf.ragged.constant_value([[[1.0, 2.0], []], [[3.0]]])
    sparse = tf.SparseTensorValue([[0, 1]], [5], [2, 2])
    shell = Shell(
        None, info=RunInfo(1, [], {"r": ragged, "SparseTensor(indices=Tensor(...))": sparse})
    )
    assert "a RaggedTensorValue:" in shell.text("pf r")
    assert shell.lines("pf r.values.row_splits")[-1].startswith("array([0, 2, 2, 3]")
    assert shell.lines("pf r.values.values")[-1] == "array([1., 2., 3.])"
    command = link_of(shell.document("run_info"), "SparseTensor(indices=Tensor(...))")
    assert "a SparseTensorValue:" in shell.text(command)
