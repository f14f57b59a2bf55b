"""Ops that are computed again from the values of a dump give the bits of the run."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from causes_kit import write_cases
from examples_kit import needs
from program_server import environment

sys.path.insert(0, str(Path(__file__).parent))
from table import program_of

FILTER = Path(__file__).parent / "redo_filter.py"
# Calls of functions of the program's, reads of variables, memory that was written to.
_MOST_LEFT_OUT = 4


@pytest.mark.parametrize(
    "engine",
    [
        "numpy",
        pytest.param("torch", marks=needs("torch")),
        pytest.param("tensorflow", marks=needs("tensorflow")),
        pytest.param("jax", marks=needs("jax")),
        pytest.param("onnx", marks=needs("onnxruntime", "onnx")),
    ],
)
def test_an_op_computed_again_gives_the_same(engine: str, tmp_path: Path) -> None:
    program = write_cases(tmp_path, engine, program_of(engine))
    count = program.read_text().count("\n    (")
    command = [sys.executable, "-m", "tfdbg_cli", "--batch", "--filters", str(FILTER)]
    done = subprocess.run(
        [*command, "-c", "run -f redone", str(program)],
        cwd=tmp_path,
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    assert not re.findall(r"^other .*$", done.stderr, re.M)
    told = [(int(a), int(b)) for a, b in re.findall(r"^redone (\d+) of (\d+)$", done.stderr, re.M)]
    assert len(told) >= count
    assert sum(total for _, total in told) - sum(done for done, _ in told) <= _MOST_LEFT_OUT
    assert sum(done for done, _ in told) >= count
