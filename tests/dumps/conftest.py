"""Dumps that the tests of this folder read and write."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from directory_kit import Maker
from dump_samples import make_dump


@pytest.fixture
def dump():
    return make_dump()


@pytest.fixture
def maker(tmp_path):
    """Writes a dump directory."""
    return Maker(tmp_path)


@pytest.fixture(scope="session")
def tf_session_root(tmp_path_factory):
    """Three runs as TensorFlow's own wrapper dumps them."""
    pytest.importorskip("tensorflow")
    root = tmp_path_factory.mktemp("tf") / "session"
    program = Path(__file__).with_name("tf_program.py")
    subprocess.run(
        [sys.executable, program, root],
        check=True,
        capture_output=True,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "3"},
    )
    return root


@pytest.fixture(scope="session")
def tf_run(tf_session_root):
    return min(tf_session_root.iterdir())
