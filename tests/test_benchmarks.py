"""The benchmarks run: what they call is the house's own, which goes on changing."""

import subprocess
import sys
from pathlib import Path

import pytest
from samples import sample

from benchmarks.__main__ import BENCHMARKS

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.slow
@pytest.mark.parametrize("name", [*sample(BENCHMARKS, ["screens"])])
def test_a_benchmark_runs(name):
    command = [sys.executable, "-m", "benchmarks", "--quick", name]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
