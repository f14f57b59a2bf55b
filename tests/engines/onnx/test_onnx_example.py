"""The example is led to its node."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "debug_onnx.py"


def test_the_blank_picture_is_found(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "tfdbg_cli", "--batch", "-c", "run -f has_inf_or_nan", EXAMPLE],
        env={**os.environ, "XDG_CONFIG_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "run-end: run #13" in done.stdout
    assert "It began in [Div] encoder_norm:0  float32 [2, 4]  4 nan of 8" in done.stdout
    assert "Why:   0 / 0 at 4 elements" in done.stdout
    assert 'return session.run(None, {"x": request})[0]' in done.stdout
