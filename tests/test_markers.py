"""The quick run: what it leaves out, and that it imports no framework."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PROGRAM = """
import gc
import sys
import pytest

gc.disable()  # all that is collected stays: looking for garbage would be a third of the time

class Collected:
    def pytest_collection_finish(self, session):
        for name in ("tensorflow", "torch", "tty", "slow"):
            assert not any(item.get_closest_marker(name) for item in session.items)
        imported = [name for name in ("tensorflow", "torch") if name in sys.modules]
        files = sorted({item.path.name for item in session.items})
        print("collected", len(session.items), imported, *files)

raise SystemExit(pytest.main(["--collect-only", "-q", "-m", sys.argv[1]], [Collected()]))
"""


@pytest.mark.slow
def test_the_quick_run_imports_no_framework_and_opens_no_terminal():
    script = (ROOT / "scripts" / "test").read_text(encoding="utf-8")
    (expression,) = re.findall(r"QUICK=\(-m '(.*)'\)", script)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, expression],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
        check=True,
    )
    (line,) = re.findall(r"^collected (.*)$", done.stdout, re.M)
    count, imported, *files = line.split()
    assert int(count) > 4000
    assert imported == "[]"
    assert {"test_golden.py", "test_command_lists.py", "test_numpy_session.py"} <= set(files)
    assert {
        "test_terminal.py",
        "test_tmux.py",
        "test_trace_torch.py",
        "test_tf_graph.py",
    }.isdisjoint(files)
