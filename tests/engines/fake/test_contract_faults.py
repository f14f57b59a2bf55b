"""The contract tells an engine with a fault: each fault is put into the fake one by itself."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from faults import FAULTS
from samples import sample

HERE = Path(__file__).parent


def contract_of(fault, folder):
    info = folder / "fake-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: fake\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[tfdbg_cli.engines]\nfake.fake_framework = faulty_engine:ENGINE\n"
    )
    words = ["-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", "--tb=line"]
    return subprocess.run(
        [sys.executable, "-m", "pytest", *words, HERE / "faulty_contract.py"],
        env={
            **os.environ,
            "FAULT": fault,
            "PYTHONPATH": os.pathsep.join(map(str, (folder, HERE, HERE.parents[2]))),
        },
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def test_without_a_fault_it_has_nothing_to_say(tmp_path):
    done = contract_of("", tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("fault", [*sample(FAULTS, 9)])
def test_a_fault_is_told(fault, tmp_path):
    done = contract_of(fault, tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    assert re.search(r"^FAILED .*::test_", done.stdout, re.M)
