"""Programs that are debugged for long, and whether what they hold meanwhile grows."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from soak_meter import Sample
from soak_programs import PROGRAMS

__all__ = ["SITUATIONS", "Figures", "Situation", "so_far", "soak"]

_HERE = Path(__file__).parent
_ROOT = _HERE.parents[1]
sys.path.append(str(_ROOT / "tests" / "ui"))

#: Seconds after which a program that hangs is killed, beyond those it may take.
_PATIENCE = 300.0
# Of the rounds: until then caches fill, and threads and folders are made.
_WARM = 0.2
# The last stops so many of which are marked in pictures of numbers over runs.
_MARKS = 1_000
_NEVER = str(_ROOT / "tests" / "fate" / "never.py")
_FILTER = ("--batch", "--filters", _NEVER, "-c", "run -f never")
# Commands, and what is on the screen then.
_LOOKS = (
    ("pt z:0", 'Tensor "z:0'),
    ("ni -t z", "Traceback of node"),
    ("ri", "Session"),
    ("lo w", "Recipients of"),
    ("ls", "script.py"),
)


@dataclass(frozen=True)
class Situation:
    """How a program is debugged, and for how long.

    Attributes:
        count: rounds.
        what: a round is called.
        options: of the debugger.
        commands: a command for each round.
        terminal: it stops at each round on a terminal.
        listens: somebody attaches and leaves.
        room: bytes that the process may have for data; 0: no limit.
        warm: rounds until caches and what is kept of the last stops are full.
    """

    count: int
    what: str = "runs"
    options: Sequence[str] = _FILTER
    commands: str = ""
    terminal: bool = False
    listens: bool = False
    room: int = 0
    warm: int = 0

    @property
    def stops(self) -> bool:
        """Whether the program stops in each round."""
        return self.terminal or bool(self.commands)

    @property
    def has_company(self) -> bool:
        """Whether somebody comes, or sits at it."""
        return self.terminal or self.listens


_SPILL = ("--batch", "--dump-limit", "1000000")
#: By the name of the program.
SITUATIONS: Mapping[str, Situation] = {
    "numpy steps": Situation(100_000),
    "tensorflow steps": Situation(40_000),
    "torch steps": Situation(20_000),
    "jax steps": Situation(20_000),
    "onnx steps": Situation(20_000),
    "numpy threads": Situation(200_000),
    "tensorflow threads": Situation(40_000),
    "numpy graph": Situation(40, "runs of 50,014 ops"),
    "tensorflow graph": Situation(40, "runs of 50,014 ops"),
    "tensorflow fetches": Situation(40, "runs that fetch 50,014 tensors"),
    "numpy values": Situation(400, "dumps above --dump-limit", _SPILL, "run"),
    "tensorflow values": Situation(400, "dumps above --dump-limit", _SPILL, "run"),
    "torch values": Situation(150, "dumps above --dump-limit", _SPILL, "run"),
    "jax values": Situation(150, "dumps above --dump-limit", _SPILL, "run"),
    "onnx values": Situation(400, "dumps above --dump-limit", _SPILL, "run"),
    "numpy screens": Situation(
        1_000, "stops with screens", ("--ui", "screen"), terminal=True, warm=60
    ),
    "numpy attach": Situation(1_000, "clients", ("--listen", "unix:{folder}/socket"), listens=True),
    "torch model": Situation(5, "runs of 7.7 GB", ("--batch",), "run", room=1 << 30),
    "tensorflow model": Situation(3, "runs of 5.2 GB", ("--batch",), "run", room=1 << 30),
}


@dataclass(frozen=True)
class Figures:
    """What a process held while it was soaked.

    Attributes:
        name: of the situation.
        situation: it.
        samples: in their order.
        status: the process's exit status.
        err: what the debugger has told.
    """

    name: str
    situation: Situation
    samples: Sequence[Sample]
    status: int
    err: str = field(repr=False)

    @property
    def warm(self) -> Sequence[Sample]:
        """Those after the beginning."""
        begun = max(self.samples[-1].done * _WARM, self.situation.warm)
        return [each for each in self.samples if each.done >= begun]

    @property
    def slope(self) -> float:
        """Bytes of memory for each 1,000 rounds, by least squares."""
        warm = self.warm
        done = [each.done for each in warm]
        memory = [each.memory for each in warm]
        middle, mean = sum(done) / len(done), sum(memory) / len(memory)
        spread = sum((each - middle) ** 2 for each in done)
        if not spread:
            return 0.0
        pairs = zip(done, memory, strict=True)
        return 1000 * sum((x - middle) * (y - mean) for x, y in pairs) / spread

    def __str__(self) -> str:
        first, last = self.warm[0], self.samples[-1]
        counts = (
            f"{name} {getattr(first, name):,}→{getattr(last, name):,}"
            for name in ("descriptors", "threads", "children", "files", "objects")
        )
        memory = f"memory {first.memory / 1e6:.1f}→{last.memory / 1e6:.1f} MB"
        return (
            f"{self.name}: {last.done:,} {self.situation.what}, {last.seconds:.0f} s, {memory} "
            f"({self.slope / 1e6:+.2f} MB in 1,000), {', '.join(counts)}"
        )

    def grown(self) -> list[str]:
        """What isn't flat."""
        warm, found = self.warm, []
        first, last = warm[0], warm[-1]
        middle = len(warm) // 2
        for name in ("descriptors", "threads", "children", "files"):
            counts = [getattr(each, name) for each in warm]
            # Those of a moment come and go.
            early, late = max(counts[: middle + 1]), min(counts[middle:])
            if late > early:
                found.append(f"{name}: {early} → {late}")
        rounds = last.done - first.done
        stops = min(last.done, _MARKS) - min(first.done, _MARKS) if self.situation.stops else 0
        if last.objects - first.objects > 200 + rounds // 50 + stops:
            found.append(f"objects: {first.objects} → {last.objects}")
        if last.memory - first.memory > 16e6 + 0.05 * first.memory:
            found.append(f"memory: {first.memory} → {last.memory}")
        return found


def so_far(folder: Path, name: str) -> Figures | None:
    """What the program that runs in a folder has told until now."""
    try:
        return Figures(name, SITUATIONS[name], _samples(folder / "program"), 0, "")
    except FileNotFoundError:
        return None


def _samples(path: Path) -> list[Sample]:
    return [Sample(**each) for each in json.loads(path.read_text(encoding="utf-8"))]


def soak(
    folder: Path, name: str, count: int, seconds: float | None = None, plain: bool = False
) -> list[Figures]:
    """Debug a program for long; figures of each process that was looked at.

    Args:
        folder: for all that is needed; empty.
        name: of a situation.
        count: rounds.
        seconds: it ends after them, however many rounds it has done.
        plain: without the debugger.
    """
    situation = SITUATIONS[name]
    for inner in ("tmp", "here"):
        (folder / inner).mkdir(parents=True)
    script = folder / "here" / "script.py"
    script.write_text(PROGRAMS[name], encoding="utf-8")
    (folder / "here" / "gone").touch()
    options = [option.replace("{folder}", str(folder)) for option in situation.options]
    if situation.commands:
        options += [part for _ in range(count) for part in ("-c", situation.commands)]
    command = [sys.executable, "-m", "tfdbg_cli", *options, str(script)]
    if plain:
        name, command = f"{name}, plain", [sys.executable, str(script)]
    run = _Run(folder, name, situation, count, seconds)
    if situation.terminal:
        return [run.at_terminal(command)]
    if situation.listens:
        return run.attached(command, f"unix:{folder}/socket")
    return [run.alone(command)]


@dataclass(frozen=True)
class _Run:
    folder: Path
    name: str
    situation: Situation
    count: int
    seconds: float | None

    def environment(self, who: str) -> dict[str, str]:
        folder = self.folder
        made = {name: text for name, text in os.environ.items() if not name.startswith("PYTEST_")}
        made |= {home: str(folder / home) for home in ("XDG_CONFIG_HOME", "XDG_STATE_HOME")}
        return made | {
            "PYTHONPATH": os.pathsep.join([str(_ROOT), str(_HERE)]),
            "TMPDIR": str(folder / "tmp"),
            "SOAK_COUNT": str(self.count),
            "SOAK_SECONDS": "" if self.seconds is None else str(self.seconds),
            "SOAK_FIGURES": str(folder / who),
            "TF_CPP_MIN_LOG_LEVEL": "3",
            "OMP_NUM_THREADS": "1",
        }

    def figures(self, who: str, status: int, err: str) -> Figures:
        path = self.folder / who
        if status or not path.exists():
            raise RuntimeError(f"{self.name}: {who} ended with {status}\n{err[-4000:]}")
        samples = _samples(path)
        name = self.name if who == "program" else f"{self.name}, {who}"
        return Figures(name, self.situation, samples, status, err)

    def start(self, command: Sequence[str], who: str) -> subprocess.Popen[bytes]:
        with open(self.folder / f"{who}.out", "wb") as out, open(self.err(who), "wb") as err:
            return subprocess.Popen(
                command,
                cwd=self.folder / "here",
                env=self.environment(who),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,  # a Ctrl-C is for the script that waits
            )

    def err(self, who: str) -> Path:
        return self.folder / f"{who}.err"

    def ends(self, process: subprocess.Popen[bytes], who: str) -> Figures:
        limit = None if self.seconds is None else self.seconds + _PATIENCE
        try:
            process.wait(limit)
        finally:
            process.kill()
            process.wait()
        return self.figures(who, process.returncode, self.err(who).read_text(errors="replace"))

    def alone(self, command: Sequence[str]) -> Figures:
        room = self.situation.room
        if room:
            command = ["sh", "-c", f'ulimit -d {room >> 10}; exec "$@"', "sh", *command]
        return self.ends(self.start(command, "program"), "program")

    def attached(self, command: Sequence[str], address: str) -> list[Figures]:
        program = self.start(command, "program")
        try:
            client = [sys.executable, str(_HERE / "soak_client.py"), address]
            while not Path(address.removeprefix("unix:")).exists() and program.poll() is None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    program.wait(0.05)
            client_figures = self.ends(self.start(client, "client"), "client")
            (self.folder / "here" / "over").touch()
            return [self.ends(program, "program"), client_figures]
        finally:
            program.kill()
            program.wait()

    def at_terminal(self, command: Sequence[str]) -> Figures:
        from terminal_kit import Terminal

        shown = Terminal(command=command, size=(100, 30), **self.environment("program"))
        try:
            shown.until("run-start: run #1")
            with contextlib.suppress(AssertionError):  # the program has ended: see the figures
                for number in itertools.count(1):
                    shown.type("run\r")
                    shown.until(f"run-end: run #{number}:")
                    command, seen = _LOOKS[number % len(_LOOKS)]
                    shown.type(f"{command}\r")
                    shown.until(seen)
                    shown.raw = ""
            if not (self.folder / "program").exists():
                raise RuntimeError(f"{self.name}: it has come to a halt at\n{shown.text}")
            return self.figures("program", shown.ends(), shown.text)
        finally:
            shown.child.close(force=True)
