"""Programs debugged while calls of the debugger's fail: what becomes of them is as without it."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import time
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

from fate_kit import APART, PRELOADED, compare
from fate_processes import Client, Companion, Done, Processes, Typist

from tfdbg_cli.common.errors import UserError
from tfdbg_cli.dumps.open import list_runs, open_dump

__all__ = ["MODES", "PROGRAMS", "SITUATIONS", "Call", "Faults"]

MODES = "once", "on", "other"
#: What comes in before one.
SIGNALS = "SIGKILL", "SIGTERM", "SIGHUP", "SIGINT"
# Seconds that a process of ours has to tidy up after the program's end.
_TIDY = 10.0

_END = """
for number in range(3):
    print(number, step(number))
    open("results", "a").write(f"{number}\\n")
print("done")
"""
_SESSION = """
x = tf.placeholder(tf.float32, [None], name="x")
w = tf.Variable(np.ones(40000, np.float32), name="w")
y = tf.log(x * 1.0, name="y")
z = tf.reduce_sum(w * 2.0, name="z")
session = tf.Session()
session.run(tf.global_variables_initializer())
def step(number):
    return session.run([y, z], {x: [1.0 - number]})
"""
#: A program for each engine; its second step makes the first nan.
PROGRAMS = {
    "numpy": """
import numpy as np
from tfdbg_cli.engines import numpy as tf
"""
    + _SESSION,
    "tensorflow": """
import numpy as np
import tensorflow
tf = tensorflow.compat.v1
tf.disable_eager_execution()
"""
    + _SESSION,
    "torch": """
import torch
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(200, 200), torch.nn.ReLU(), torch.nn.Linear(200, 1))
optimizer = torch.optim.SGD(net.parameters(), 0.01)
def step(number):
    optimizer.zero_grad()
    loss = torch.log(net(torch.ones(4, 200)).square() * (1.0 - number)).mean()
    loss.backward()
    optimizer.step()
    return loss.item()
""",
}
_LOOK = (
    *("lt", "lt -f has_inf_or_nan", "ni -t {op}", "li -r {op}", "ps script.py", "pt {op}:0"),
    *("ri", "find has_inf_or_nan"),
)
_COMMANDS = tuple(word for line in _LOOK for word in ("-c", line))
_RUNS = ("-c", "run") * 3
_FILES = (
    *("-c", "pt {op}:0 > {dumps}.txt", "-c", "pt {op}:0 -w {dumps}.npy", "-c", "ni {op} | cat"),
    *("-c", "config set graph_recursion_depth 3"),
)
#: Options of the debugger, and what somebody types.
SITUATIONS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "stop": (("--batch", "-c", "run -f has_inf_or_nan", *_COMMANDS, "-c", "run"), ()),
    "spill": (("--batch", "--dump-limit", "1", *_RUNS, *_COMMANDS, *_RUNS * 3), ()),
    "keep": (
        ("--batch", "--keep-dumps", "--dump-root", "{dumps}", *_RUNS, *_COMMANDS, *_RUNS * 3),
        (),
    ),
    "files": (
        ("--batch", *_RUNS, *_FILES, *_RUNS * 3),
        (),
    ),
    "line": (
        ("--ui", "line"),
        ("run", "run", "run", "lt", "pt {op}:0", "run -f has_inf_or_nan", "exit --detach"),
    ),
    "listen": (("--listen", "unix:{address}"), ()),
}


class _Client(Client):
    """Comes as soon as there is a way in: nobody may be able to tell of it."""

    def is_awaited(self) -> bool:
        return self._err.with_name("socket").exists()


_UNSEEN = "what the debugger shows can't be written any more"


@dataclass(frozen=True)
class Call:
    """One call of the debugger's.

    Attributes:
        kind: of call.
        name: of the function.
        place: who has made it.
    """

    kind: str
    name: str
    place: str


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
        self._text = "\n" + PROGRAMS[engine] + _END
        self._name = f"{engine} {situation}"
        self._op = "log" if engine == "torch" else "y"
        self._log = folder / "calls"
        self._dumps = folder / "dumps"
        self._processes = Processes(folder, PRELOADED[engine], "fault_shim")
        # Its stdout is a file of its own: what stops show isn't the program's.
        self._text = APART + self._text
        self._plain = self._run(plain=True)
        #: Calls of a run without a fault.
        self.calls: list[Call] = []
        self._whole = self._run()
        self.calls = self._read_calls()

    def _read_calls(self) -> list[Call]:
        lines = self._log.read_text().splitlines() if self._log.exists() else []
        return [Call(*line.split(" ")[1:]) for line in lines]

    def _run(self, number: int = 0, mode: str = "once", plain: bool = False) -> Done:
        for path in (self._dumps, self._folder / "tmp"):
            _remove(path)
        (self._folder / "tmp").mkdir(exist_ok=True)
        _remove(self._folder / "XDG_CONFIG_HOME")
        processes, address = self._processes, str(self._folder / "socket")
        processes.environment.pop("FATE_FAULT", None)
        if plain:
            return processes.run(self._text, [], Companion(), True)
        processes.environment["FATE_FAULT"] = f"{number}:{mode} {self._log}"
        dumps = str(self._dumps)
        options = [
            option.replace("{address}", address).replace("{dumps}", dumps).replace("{op}", self._op)
            for option in self._options
        ]
        companion = Companion()
        if self._typed:
            companion = Typist([line.replace("{op}", self._op) for line in self._typed])
        elif "--listen" in options:
            companion = _Client(f"unix:{address}", processes.err, processes.environment)
        return processes.run(self._text, ["-m", "tfdbg_cli", *options], companion, True)

    def found(self, number: int = 0, mode: str = "once") -> str:
        """What is wrong with a run in which a call fails; empty: nothing."""
        done = self._run(number, mode) if number else self._whole
        calls = self._read_calls()
        failed = calls[number - 1] if 0 < number <= len(calls) else None
        told = [
            line
            for line in done.stderr.decode(errors="replace").splitlines()
            if line.startswith("tfdbg: ")
        ]
        if mode in SIGNALS:
            lines = self._killed(done, mode) if failed is not None else []
        else:
            is_untold = mode == "on" or (failed is not None and "streams" in failed.place)
            lines = self._failed(done, told, is_untold)
        if not (failed is not None and failed.kind in ("remove", "list")) and mode != "on":
            lines += [f"left in the temporary folder: {name}" for name in self._left()]
        text = "\n".join(line for line in lines if line)
        if not text:
            return ""
        what = f"{failed.kind} {failed.name} at {failed.place}" if failed else "no fault"
        said = "".join(f"\n  {line}" for line in told)
        return f"{self._name}, {number}:{mode} ({what}):\n{text}{said}"

    def _failed(self, done: Done, told: list[str], is_untold: bool) -> list[str]:
        """What is wrong where calls have failed."""
        said = [line for line in done.stderr.splitlines(True) if line.startswith(b"ERROR: ")]
        if said:  # commands that failed: a batch tells of them by its exit status, too
            rest = [line for line in done.stderr.splitlines(True) if line not in said]
            status = 0 if done.status == 1 else done.status
            done = replace(done, status=status, stderr=b"".join(rest))
        elif done.status == 1 and (is_untold or any(_UNSEEN in line for line in told)):
            done = replace(done, status=0)  # nor could they be told of
        again = [
            f"said {count} times: {line}" for line, count in Counter(told).items() if count > 1
        ]
        return [compare(self._plain, done), *again]

    def _killed(self, done: Done, mode: str) -> list[str]:
        """What is wrong where a signal has come in."""
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

    def _left(self) -> list[str]:
        """What is there when all have had their time to tidy up."""
        end = time.monotonic() + _TIDY
        while (left := sorted(os.listdir(self._folder / "tmp"))) and time.monotonic() < end:
            time.sleep(0.02)
        return left

    def close(self) -> None:
        """End its processes."""
        self._processes.close()


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)  # what our process tidies up after its end
    else:
        path.unlink(missing_ok=True)
    for other in path.parent.glob(re.escape(path.name) + ".*"):
        other.unlink()
