"""What waiting costs a program, measured as its user does: whole processes that time their steps.

The programs of ``benchmarks/programs`` know no debugger; each prints the median of its own steps,
without the first quarter of them. The ways to run one take turns, each in a process of its own, and
a ratio is the median of those within rounds.
"""

import os
import re
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.harness import Row, Table, main

ROOT = Path(__file__).resolve().parents[1]
_ATTACHED, _DEFAULT = "attached, not watched", "run -f"
#: By their names: the commands.
_WAYS = {
    _ATTACHED: ("run -t 1000000",),
    _DEFAULT: ("run -f",),
    **{
        f"run -f, level {level}": (f"config set level {level}", "run -f")
        for level in ("modules", "ops", "values")
    },
}


@dataclass(frozen=True)
class Program:
    """A program, and what waiting may cost it.

    Attributes:
        name: what it computes.
        file: in ``benchmarks/programs``.
        argument: its first.
        steps: how many it makes.
        goals: multiples of the plain step, by the way.
    """

    name: str
    file: str
    argument: str
    steps: int
    goals: dict[str, float] = field(default_factory=dict)


def _goals(attached: float, default: float, *levels: float) -> dict[str, float]:
    names = [*_WAYS] if len(levels) != 1 else [_ATTACHED, _DEFAULT, "run -f, level ops"]
    return dict(zip(names, (attached, default, *levels), strict=False))


_TORCH, _TF2, _TF1 = "torch_steps.py", "tensorflow2_steps.py", "session_steps.py"
PROGRAMS = (
    Program("PyTorch, MLP", _TORCH, "mlp", 400, _goals(1.02, 1.2, 1.15, 1.6, 2.2)),
    Program("PyTorch, ResNet", _TORCH, "resnet", 40, _goals(1.01, 1.05, 1.03, 1.15, 1.25)),
    Program("PyTorch, transformer", _TORCH, "transformer", 120, _goals(1.01, 1.08, 1.05, 1.4, 1.5)),
    Program("PyTorch, with a closure", _TORCH, "closure", 120, _goals(1.01, 1.08)),
    Program("PyTorch, a loader of images", _TORCH, "loader", 300, _goals(1.02, 1.1)),
    Program("TensorFlow 2, CNN", _TF2, "cnn", 200, _goals(1.01, 1.12)),
    Program("TensorFlow 2, transformer", _TF2, "transformer", 150, _goals(1.01, 1.12)),
    Program("TensorFlow 2, eager", _TF2, "eager", 300, _goals(1.03, 1.3)),
    Program("JAX, MLP", "jax_steps.py", "mlp", 300, _goals(1.01, 1.05, 1.15)),
    Program("JAX, attention", "jax_steps.py", "attention", 200, _goals(1.01, 1.05, 1.15)),
    Program("ONNX Runtime, transformer", "onnx_runs.py", "", 300, _goals(1.01, 1.03, 1.3)),
    Program("sessions, MNIST", _TF1, "mnist", 600, _goals(1.02, 1.6)),
    Program("sessions, 1,400 ops", _TF1, "deep", 2000, _goals(1.1, 4)),
)


def _step(program: Program, way: str, steps: int, home: str) -> float:
    """Milliseconds of a step."""
    debugger = ["-m", "tfdbg_cli", "--batch"] if way else []
    for command in _WAYS.get(way, ()):
        debugger += ["-c", command]
    path = ROOT / "benchmarks" / "programs" / program.file
    done = subprocess.run(
        [sys.executable, *debugger, str(path), program.argument, str(steps)],
        env=os.environ
        | dict.fromkeys(("XDG_CONFIG_HOME", "XDG_STATE_HOME"), home)
        | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "TF_CPP_MIN_LOG_LEVEL": "3"}
        | {"JAX_PLATFORMS": "cpu"}
        | {"XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"},
        capture_output=True,
        text=True,
        check=True,
    )
    found = re.search(r"^MS ([\d.]+)", done.stdout, re.MULTILINE)
    # A failure of the debugger's is contained, and would be timed as a debugger that costs nothing.
    assert found is not None, done.stderr
    assert "the debugger failed" not in done.stderr, done.stderr
    return float(found[1])


def rows(program: Program, rounds: int, share: float) -> list[Row]:
    """The ways to run one program.

    Args:
        program: which.
        rounds: how often each way is gone.
        share: of its steps, that are made.
    """
    ways = ["", *program.goals]
    taken: dict[str, list[float]] = {way: [] for way in ways}
    with tempfile.TemporaryDirectory() as home:
        for turn in range(rounds):
            for way in ways if turn % 2 == 0 else reversed(ways):
                taken[way].append(_step(program, way, int(program.steps * share), home))
    plain = taken[""]
    found = []
    for way, goal in program.goals.items():
        ratios = [mine / other for mine, other in zip(taken[way], plain, strict=True)]
        ours, peer, ratio = map(statistics.median, (taken[way], plain, ratios))
        found.append(Row(program.name, ours, way, peer, ratio=ratio, goal=goal))
    return found


def tables(quick: bool) -> list[Table]:
    """One, of all programs."""
    rounds, share = (1, 0.25) if quick else (5, 1)
    note = (
        "Whole processes in turns, each timing its own steps (`benchmarks/programs`), one thread "
        f"each; medians of {rounds} ratios."
    )
    found = [row for program in PROGRAMS for row in rows(program, rounds, share)]
    return [
        Table(
            "The price of waiting", found, peer="plain (ms)", ratio="times the plain one", note=note
        )
    ]


if __name__ == "__main__":
    main(tables)
