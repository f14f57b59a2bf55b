"""What a start under the debugger costs: whole processes in turns, to the program's end."""

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.harness import Row, Table, main

ROOT = Path(__file__).resolve().parents[1]
#: What a program imports -> by how many milliseconds its start may take longer.
_IMPORTS = {
    "": 150,
    "torch": 250,
    "tensorflow": 250,
    "jax": 250,
    "onnxruntime": 250,
}


def _whole(words: list[str], home: str) -> float:
    """Milliseconds that a process computes, which other work on the machine changes least."""
    process = subprocess.Popen(
        [sys.executable, *words],
        env=os.environ
        | dict.fromkeys(("XDG_CONFIG_HOME", "XDG_STATE_HOME"), home)
        | {"PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, words
    return 1e3 * (used.ru_utime + used.ru_stime)


def tables(quick: bool) -> list[Table]:
    """One, of all imports."""
    rows = []
    for name, most in _IMPORTS.items():
        with tempfile.TemporaryDirectory() as home:
            program = Path(home, "program.py")
            program.write_text(f"import {name}\n" if name else "")
            plain, ours = [str(program)], ["-m", "tfdbg_cli", *("-c", "run -f"), str(program)]
            pairs = [(_whole(ours, home), _whole(plain, home)) for _ in range(3 if quick else 12)][
                1:
            ]  # the first compiles what wasn't yet
        longer = statistics.median(mine - other for mine, other in pairs)
        mine, other = (statistics.median(each) for each in zip(*pairs, strict=True))
        what = f"import {name}" if name else "an empty script"
        rows.append(Row(what, mine, peer=other, ratio=longer, goal=most))
    note = "CPU time of whole processes in turns, that run nothing; another 200 packages installed."
    return [Table("Start", rows, peer="plain", ratio="ms more", note=note)]


if __name__ == "__main__":
    main(tables)
