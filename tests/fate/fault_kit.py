"""Programs debugged while calls of the debugger's fail: what becomes of them is as without it."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fate_kit import APART, PRELOADED, compare
from fate_processes import Client, Companion, Done, Processes, Typist
from fault_situations import END, FAIL, OPS, PROGRAMS, RANKS, SIGNALS, SITUATIONS, STRUCK
from long_run import StoppedError

from tfdbg_cli.common.errors import UserError
from tfdbg_cli.common.temporary import SHARED_MEMORY
from tfdbg_cli.dumps.open import list_runs, open_dump

__all__ = ["Call", "Faults", "may_mount"]

# Below so many bytes of a file nothing can be said.
_SHORT = 4096
# With fewer descriptors a folder can't be removed; the next start does it.
_FEW = 12
# Seconds that a rank waits for one whose debugger can't begin, here: it would be half a minute.
_PATIENCE = 8.0
# Seconds that a process of ours has to tidy up after the program's end.
_TIDY = 10.0


class _Client(Client):
    """Comes as soon as there is a way in: nobody may be able to tell of it.

    Attributes:
        fault: of the first one's calls, and where they are noted; ``None``: none fails.
    """

    fault: tuple[str, str] | None = None

    def command(self) -> list[str]:
        fault, self.fault = self.fault, None
        if fault is None:
            return super().command()
        return [str(Path(__file__).with_name("fault_client.py")), *fault, *super().command()[2:]]

    def is_awaited(self) -> bool:
        return self._err.with_name("socket").exists()


class _Mate(Companion):
    """The other rank: the same program at the same time.

    Args:
        processes: that start it.
        text: of the program.
        arguments: of python.
    """

    def __init__(self, processes: Processes, text: str, arguments: Sequence[str]) -> None:
        self._done: list[Done] = []

        def run() -> None:
            with contextlib.suppress(StoppedError):
                self._done.append(processes.run(text, arguments, Companion(), True))

        self._thread = threading.Thread(target=run)
        self._thread.start()

    @property
    def result(self) -> Done:
        """What became of it."""
        return self._done[0]

    def close(self) -> None:
        self._thread.join()


# What a batch tells of by its exit status, too.
_UNDONE = "the debugger's output can't be written any more", "could not be kept"


@dataclass(frozen=True)
class Call:
    """One call of the debugger's.

    Attributes:
        kind: of call.
        name: of the function.
        place: who has made it.
        late: ``late`` where the program has ended and Python does.
    """

    kind: str
    name: str
    place: str
    late: str = ""


class Faults:
    """Runs the program of one engine in one situation, with one fault each time.

    Args:
        folder: for all that is needed.
        engine: whose program.
        situation: one of `SITUATIONS`.
    """

    def __init__(self, folder: Path, engine: str, situation: str) -> None:
        self._folder = folder
        self._options, self._typed = SITUATIONS[situation]
        program = RANKS if situation in STRUCK else PROGRAMS[engine]
        # Its stdout is a file of its own: what stops show isn't the program's.
        self._text = APART + "\n" + program + END + (FAIL if situation == "mortem" else "")
        self._name = f"{engine} {situation}"
        self._is_struck = situation != "client"
        self._op = OPS[engine]
        self._checks = situation == "check"
        self._log = folder / "calls"
        self._dumps = folder / "dumps"
        self._bytecode = str(folder / "bytecode")
        self._processes = Processes(folder, PRELOADED[engine], "fault_shim")
        self._other: Processes | None = None
        self._mate: _Mate | None = None
        if situation in STRUCK:
            self._other = Processes(folder / "other", PRELOADED[engine], "fault_shim")
            self._be_ranks(STRUCK[situation], self._processes, self._other)
        self._plain = self._run(plain=True)
        # ONNX Runtime leaves a file there in a plain run as well.
        self._left_plain = {name for folder in self._temporary for name in os.listdir(folder)}
        self._plain_mate = self._mate.result if self._mate else None
        #: Calls of a run without a fault.
        self.calls: list[Call] = []
        self._whole = self._run()
        self._whole_kept = self._kept()
        self.calls = self._read_calls()

    def _be_ranks(self, struck: int, *both: Processes) -> None:
        for processes, rank in zip(both, (struck, 1 - struck), strict=True):
            processes.environment |= {
                "RANK": str(rank),
                "WORLD_SIZE": "2",
                "LOCAL_WORLD_SIZE": "2",
                "FATE_MEETING": str(self._folder / "meeting"),
                "FATE_PATIENCE": str(_PATIENCE),
            }

    def _read_calls(self) -> list[Call]:
        lines = self._log.read_text().splitlines() if self._log.exists() else []
        return [Call(*line.split(" ")[1:]) for line in lines]

    def _run(self, number: int = 0, mode: str = "once", plain: bool = False) -> Done:
        for path in (self._dumps, self._folder / "meeting", *self._temporary):
            _remove(path)
        for path in self._temporary:
            path.mkdir(exist_ok=True)
        _remove(self._folder / "XDG_CONFIG_HOME")
        processes, address = self._processes, str(self._folder / "socket")
        processes.environment.pop("FATE_FAULT", None)
        if plain:
            return processes.run(self._text, [], self._companion([]), True)
        if mode and self._is_struck:
            processes.environment["FATE_FAULT"] = f"{number}:{mode} {self._log}"
        dumps = str(self._dumps)
        options = [
            option.replace("{address}", address).replace("{dumps}", dumps).replace("{op}", self._op)
            for option in self._options
        ]
        arguments = ["-m", "tfdbg_cli", *options]
        companion = self._companion(arguments)
        if mode and not self._is_struck and isinstance(companion, _Client):
            companion.fault = f"{number}:{mode}", str(self._log)
        return processes.run(self._text, arguments, companion, True)

    def _companion(self, arguments: Sequence[str]) -> Companion:
        """Who is there while a program runs."""
        if self._other is not None:
            self._mate = _Mate(self._other, self._text, arguments)
            return self._mate
        if not arguments:
            return Companion()
        if self._typed:
            return Typist([line.replace("{op}", self._op) for line in self._typed])
        if "--listen" in arguments:
            environment = dict(self._processes.environment)
            if self._is_struck:  # each client is a fresh python: it needn't compile us anew
                bytecode = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": self._bytecode}
                environment |= bytecode
            return _Client(arguments[-1], self._processes.err, environment)
        return Companion()

    @property
    def _temporary(self) -> list[Path]:
        """Folders for temporary files."""
        return [self._folder / "tmp", *([self._folder / "other/tmp"] if self._other else [])]

    def found(self, number: int = 0, mode: str = "once") -> str:
        """What is wrong with a run in which a call fails; empty: nothing."""
        done = self._run(number, mode) if number else self._whole
        calls = self._read_calls()
        failed = calls[number - 1] if 0 < number <= len(calls) else None
        if not self._is_struck:
            said = (self._folder / "client-stderr").read_text()
            lines = [compare(self._plain, done), said if "Traceback" in said else ""]
        elif mode in SIGNALS:
            lines = self._killed(done, mode, failed) if failed is not None else []
            if self._mate is not None and failed is not None:
                # From its first message on the other one knows of it.
                has_met = any(call.name == "send" for call in calls[: number - 1])
                lines += self._widowed(self._mate.result, has_met)
        else:
            is_untold = mode == "on" or (failed is not None and "streams" in failed.place)
            lines = self._failed(self._plain, done, is_untold)
            if self._mate is not None and self._plain_mate is not None:
                lines += self._failed(self._plain_mate, self._mate.result, False)
            if not is_untold and self._kept() != self._whole_kept and not self._is_told(done):
                lines.append(f"only these are kept, and nothing says so: {self._kept()}")
        if not (failed is not None and failed.kind in ("remove", "list")) and mode != "on":
            lines += [f"left in the temporary folder: {name}" for name in self._left()]
        text = "\n".join(line for line in lines if line)
        if not text:
            return ""
        what = f"{failed.kind} {failed.name} at {failed.place}" if failed else "no fault"
        said = "".join(f"\n  {line}" for line in _told(done))
        if self._mate is not None:
            said += "".join(f"\n  the other: {line}" for line in _told(self._mate.result))
        return f"{self._name}, {number}:{mode} ({what}):\n{text}{said}"

    def _kept(self) -> dict[str, int]:
        """Dumps, and how much is in them that no warning of theirs tells of."""
        found = {}
        for path in sorted(self._dumps.rglob("run_0*")):
            with contextlib.suppress(UserError):
                found[str(path.relative_to(self._dumps))] = len(open_dump(path).data())
        return found

    def _is_told(self, done: Done) -> bool:
        mate = _told(self._mate.result) if self._mate is not None else []
        return bool(mate or _told(done) or b"ERROR: " in done.stderr)

    def limited(self, name: str, value: int) -> str | None:
        """What is wrong with a run that the system itself gives less.

        Args:
            name: one of `LIMITS`.
            value: which of its values.

        Returns:
            Empty: nothing; ``None``: a plain run fails as well, the debugger can't even begin, or
            it has left too little memory.
        """
        with self._little_room(value) if name == "DISK" else contextlib.nullcontext():
            if name != "DISK":
                self._processes.environment["FATE_LIMIT"] = f"{name}:{value}"
            try:
                plain = self._run(plain=True)
                if plain != self._plain:
                    return None
                done = self._run(mode="")
            finally:
                self._processes.environment.pop("FATE_LIMIT", None)
            if done.status and not done.stdout and done.stderr and not done.files:
                return None
            if name == "AS" and done.stderr.count(b"Not enough memory"):
                return None  # the program's own: the debugger has taken what there was
            lines = self._failed(plain, done, is_untold=True)
            # Where files are as short as that, nothing can be said either.
            can_say = name != "FSIZE" or value >= _SHORT
            if can_say and self._kept() != self._whole_kept and not self._is_told(done):
                lines.append(f"only these are kept, and nothing says so: {self._kept()}")
            if name != "NOFILE" or value >= _FEW:
                lines += [f"left in the temporary folder: {left}" for left in self._left()]
        text = "\n".join(line for line in lines if line)
        said = "".join(f"\n  {line}" for line in _told(done))
        return f"{self._name}, {name} {value}:\n{text}{said}" if text else ""

    @contextlib.contextmanager
    def _little_room(self, kilobytes: int) -> Iterator[None]:
        """A disk of its own for dumps and temporary files."""
        folders = [self._dumps, *self._temporary]
        mounted: list[Path] = []
        try:
            for folder in folders:
                folder.mkdir(exist_ok=True)
                _mount(folder, kilobytes).check_returncode()
                mounted.append(folder)
            yield
        finally:
            for folder in mounted:
                _unmount(folder)

    def _failed(self, plain: Done, done: Done, is_untold: bool) -> list[str]:
        """What is wrong where calls have failed."""
        told = _told(done)
        said = [line for line in done.stderr.splitlines(True) if line.startswith(b"ERROR: ")]
        if (
            said and done is not self._whole
        ):  # commands that failed: a batch tells of them by its exit status, too
            rest = [line for line in done.stderr.splitlines(True) if line not in said]
            status = plain.status if done.status == 1 else done.status
            done = replace(done, status=status, stderr=b"".join(rest))
        elif done.status == 1 and (
            is_untold or any(text in line for line in told for text in _UNDONE)
        ):
            done = replace(done, status=plain.status)
        if self._checks and done.status in (1, 3):  # whether the line that says so was written
            done = replace(done, status=plain.status)
        again = [
            f"said {count} times: {line}" for line, count in Counter(told).items() if count > 1
        ]
        return [compare(plain, done), *again]

    def _killed(self, done: Done, mode: str, before: Call) -> list[str]:
        """What is wrong where a signal has come in."""
        if before.late and mode == "SIGINT":
            # Python drops it then, and prints so; no line of that is to be ours.
            if b"/tfdbg_cli/" not in done.stderr:
                done = replace(done, stderr=self._plain.stderr)
            if self._checks and done.status == 3:  # the check's own
                done = replace(done, status=self._plain.status)
            return [compare(self._plain, done)]
        lines = []
        if done.status != -getattr(signal, mode):
            lines.append(f"exit status {done.status} after {mode}")
        if not self._plain.stdout.startswith(done.stdout):
            lines.append(f"the program printed {done.stdout!r}")
        with contextlib.suppress(UserError):  # said in a line
            for run in list_runs(self._dumps) if self._dumps.is_dir() else ():
                dump = open_dump(run)
                for datum in dump.data():
                    dump.value(datum)
        return lines

    def _widowed(self, done: Done, has_met: bool) -> list[str]:
        """What is wrong with the rank that a signal has left alone."""
        assert self._plain_mate is not None
        lines = []
        is_lost = done.status == 1 and b"gloo" in done.stderr  # it needed the other one
        if isinstance(done.status, str) and not has_met:
            return []  # it waits at the meeting, as it would without us
        if not is_lost and done.status != 0:
            lines.append(f"the other rank: exit status {done.status}")
        if not self._plain_mate.stdout.startswith(done.stdout):
            lines.append(f"the other rank printed {done.stdout!r}")
        if is_lost and has_met and not any(" is gone" in line for line in _told(done)):
            lines.append("the other rank says nothing of it")
        return lines

    def _left(self) -> list[str]:
        """What is there when all have had their time to tidy up."""
        end = time.monotonic() + _TIDY
        while (left := self._names_left()) and time.monotonic() < end:
            time.sleep(0.02)
        return left

    def _names_left(self) -> list[str]:
        temporary = (name for folder in self._temporary for name in os.listdir(folder))
        return sorted([*({*temporary} - self._left_plain), *_orphans()])

    def close(self) -> None:
        """End its processes."""
        self._processes.close()
        if self._other is not None:
            self._other.close()


def may_mount(folder: Path) -> bool:
    """Whether disks of their own can be had, as root can."""
    may = shutil.which("mount") is not None and not _mount(folder, 4).returncode
    if may:
        _unmount(folder)
    return may


def _mount(folder: Path, kilobytes: int) -> subprocess.CompletedProcess[bytes]:
    command = ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", str(folder)]
    return subprocess.run(command, check=False, capture_output=True, start_new_session=True)


def _unmount(folder: Path) -> None:
    subprocess.run(["umount", "-l", folder], check=True, start_new_session=True)


def _orphans() -> list[str]:
    """Folders in shared memory whose owner is dead, whoever's."""
    found = []
    for path in Path(SHARED_MEMORY).glob("tfdbg-*"):
        with contextlib.suppress(OSError, ValueError):
            owner = int((path / ".owner").read_text(encoding="ascii"))
            if not Path(f"/proc/{owner}").exists():
                found.append(str(path))
    return found


def _told(done: Done) -> list[str]:
    """What the debugger has said on stderr."""
    lines = done.stderr.decode(errors="replace").splitlines()
    return [line for line in lines if line.startswith("tfdbg: ")]


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)  # what our process tidies up after its end
    else:
        path.unlink(missing_ok=True)
    for other in path.parent.glob(re.escape(path.name) + ".*"):
        other.unlink()
