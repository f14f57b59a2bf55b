"""``pt --map``, ``eval --map`` and ``pf --map`` as text, in files, and offline."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from command_kit import Shell, link_of

from tfdbg_cli.common.documents import write_text
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.dumps.open import open_dump
from tfdbg_cli.dumps.run_folder.writer import write_run_folder
from tfdbg_cli.tensors.measurements import halt


def test_a_map_says_what_it_shows(shell):
    lines = shell.lines("pt bad/Log:0 --map")
    assert lines[0] == 'Tensor "bad/Log:0:DebugIdentity": float32 (2, 2)'
    assert lines[1] == "1.792 ..,,:;;=ooxx%##@ 1.792  - -inf"
    assert lines[2] == "min to max, exact"
    assert lines[3] == "0 oooooooooooooooo"
    assert lines[7] == "1 ----------------"
    assert lines[-1] == "  0       1"
    assert shell.lines("pt bad/Mul:0[1] --map")[1] == "no finite element  N NaN"


def test_a_slice_an_expression_and_a_feed(shell):
    assert "(50, 30)" in shell.text("pt big:0[:50] --map")
    assert "float64 (100, 100)" in shell.text("eval 'np.cov(`big:0`)' --map --scale symmetric")
    assert "(2, 3)" in shell.text("pf input/x:0 --map")
    assert "complex128 (2,)" in shell.text("pt cplx:0 --map")
    assert "N NaN" in shell.text("pt cplx:0 --map")
    assert "bool (2, 3)" in shell.text("pt flags:0 --map")


def test_what_makes_no_map_is_one_line(shell):
    assert "type string" in shell.error("pt text:0 --map")
    assert "empty" in shell.error("pt empty:0 --map")
    assert "single element" in shell.error("pt big:0[0,0] --map")
    assert "-s numbers" in shell.error("pt big:0 --map -s")
    assert "> FILE.png" in shell.error("pt big:0 --map -w x.npy")
    assert "go with --map" in shell.error("pt big:0 --multiples")
    assert "go with --map" in shell.error("pt big:0 --axes 0,1")
    for axes in ("0", "0,0", "0,5", "a,b", "0,1,2"):
        assert "not two dimensions" in shell.error(f"pt big:0 --map --axes {axes}")
    assert "rows: axis 1, columns: axis 0" in shell.text("pt big:0 --map --axes=-1,0")
    assert "one picture" in shell.error("pt big:0 --map --multiples")
    assert "go with --map" in shell.error("pt big:0 --cells max")
    assert "choose from" in shell.error("pt big:0 --map --scale loud")


def test_the_options_go_along_to_the_slots(shell):
    document = shell.document("pt uniq --map --scale log --cells max")
    command = link_of(document, "uniq:1")
    assert command == "pt uniq:1 --map --scale log --cells max"
    assert "log of the magnitude" in shell.text(command)


def test_a_file_is_an_image_or_text(shell, tmp_path):
    target = tmp_path / "big.png"
    shell.reply(f"pt big:0 --map > {target}")
    assert target.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    target = tmp_path / "big.txt"
    shell.reply(f"pt big:0 --map > {target}")
    assert target.read_text().startswith('Tensor "big:0')


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e5m2", "float8_e4m3fn", "float16", "int4"])
def test_small_types(dtype):
    dump = MemoryDump()
    kind = getattr(ml_dtypes, dtype, None) or dtype
    value = np.arange(-4.0, 4.0).reshape(2, 4).astype(kind)
    if dtype not in {"int4"}:
        value[0, 1] = np.nan
    dump.add("small", 0, value)
    text = Shell(dump).text("pt small:0 --map")
    assert f"{dtype} (2, 4)" in text
    assert ("N" * 8 in text) is (dtype != "int4")


def test_a_printed_map_is_exact_and_offline_it_is_the_same(tmp_path):
    dump = MemoryDump()
    value = np.zeros((3000, 1000), np.float32)
    value[2999, 999] = np.inf
    dump.add("large", 0, value)
    printed: list[str] = []
    write_text(Shell(dump).document("pt large:0 --map"), printed.append)
    assert "exact" in printed[2]
    assert "sample" not in printed[2]
    assert printed[-2].rstrip().endswith("+")
    write_run_folder(dump, tmp_path / "run")
    again: list[str] = []
    write_text(Shell(open_dump(tmp_path / "run")).document("pt large:0 --map"), again.append)
    assert again[1:] == printed[1:]


def test_without_its_thread_a_sample_says_that_it_is_one():
    dump = MemoryDump()
    dump.add("large", 0, np.zeros((3000, 1000), np.float32))
    document = Shell(dump).document("pt large:0 --map")
    assert "by a sample" in document.lines(0, 9)[2].text
    halt(10)
    assert "by a sample" in document.lines(0, 9)[2].text
