"""What ``scripts/nightly`` runs: every part, whatever becomes of the others."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
STUB = '#!/bin/sh\necho "$(basename $0) $* $TFDBG_TESTS_LONG" >>told\nexit ${STATUS:-0}\n'
PARTS = ["long", "strict", "random", "versions", "fate", "made", "faults", "limits", "soak"]
PARTS += ["fuzz", "agree", "mutate"]


@pytest.fixture
def night(tmp_path):
    """Runs the script with stand-ins for those that it starts; the lines that these were told."""
    (tmp_path / "scripts").mkdir()
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_bytes.py").write_text("from samples import sample\n")
    (tmp_path / "tests" / "test_other.py").write_text("import os\n")
    for name in ("nightly", "_env.sh"):
        shutil.copy(ROOT / "scripts" / name, tmp_path / "scripts")
    for name in ("test", "fate", "faults", "soak", "fuzz", "agree", "mutate"):
        (tmp_path / "scripts" / name).write_text(STUB)
        (tmp_path / "scripts" / name).chmod(0o755)

    def run(*parts, status=0):
        done = subprocess.run(
            [tmp_path / "scripts" / "nightly", *parts],
            env=os.environ | {"STATUS": str(status)},
            capture_output=True,
            text=True,
            check=False,
        )
        told = tmp_path / "told"
        return done, told.read_text().splitlines() if told.exists() else []

    return run


def test_all_parts_are_run_and_those_that_failed_are_named(night):
    done, told = night(status=3)
    assert done.returncode == 1
    assert done.stderr == f"Failed: {' '.join(PARTS)}\n"
    assert len(told) == len(PARTS)
    assert told[0].split() == ["test", "tests/test_bytes.py", "1"]
    assert "test versions all 1" in told
    assert {line.split()[0] for line in told[4:]} == {
        "fate",
        "faults",
        "soak",
        "fuzz",
        "agree",
        "mutate",
    }


def test_a_part_alone(night):
    done, told = night("strict")
    assert (done.returncode, done.stderr) == (0, "")
    assert told == ["test strict "]


def test_a_ctrl_c_in_a_part_ends_the_night(night):
    done, told = night("fate", "soak", status=130)
    assert done.returncode == 130
    assert len(told) == 1


def test_a_part_that_there_is_not(night):
    done, told = night("fates")
    assert (done.returncode, done.stderr) == (2, "No part of the night: fates\n")
    assert told == []
