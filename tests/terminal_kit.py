"""Programs on pseudo-terminals, seen through a terminal emulator."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
import termios
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pexpect
import pyte

__all__ = [
    "ALTERNATE_OFF",
    "ALTERNATE_ON",
    "ROOT",
    "Make",
    "Terminal",
    "modes",
    "restored",
    "terminals",
]

UI = Path(__file__).parent / "ui"
ROOT = UI.parents[1]
ALTERNATE_ON, ALTERNATE_OFF = "\x1b[?1049h", "\x1b[?1049l"


def _take_signals() -> None:
    """As a shell at a terminal starts programs: tests in the background inherit other ways."""
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)


class Terminal:
    """A program on a pseudo-terminal, seen through a terminal emulator."""

    def __init__(
        self,
        *arguments: str,
        size: tuple[int, int] = (80, 24),
        command: Sequence[str] = (sys.executable, str(UI / "ui_program.py")),
        cwd: Path | None = None,
        **environ: str,
    ) -> None:
        cols, rows = size
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(UI)]),
            "TERM": "xterm-256color",
            "PYTHONWARNINGS": "error::DeprecationWarning",
        }
        environment["PROMPT_TOOLKIT_NO_CPR"] = "1"  # the emulator doesn't answer
        for name in ("NO_COLOR", "LINES", "COLUMNS"):
            environment.pop(name, None)
        self.display = pyte.Screen(cols, rows)
        self._stream = pyte.Stream(self.display)
        self.raw = ""
        self.child = pexpect.spawn(
            command[0],
            [*command[1:], *arguments],
            env=environment | environ,  # type: ignore[arg-type]
            dimensions=(rows, cols),
            encoding="utf-8",
            timeout=20,
            cwd=cwd,
            preexec_fn=_take_signals,
        )

    @property
    def text(self) -> str:
        return "\n".join(row.rstrip() for row in self.display.display)

    def until(self, condition: str | Callable[[], bool]) -> None:
        """Read until a text is on the screen, or a condition holds."""
        end = time.monotonic() + 60
        while not (condition in self.text if isinstance(condition, str) else condition()):
            assert time.monotonic() < end, f"no {condition!r} in\n{self.text}\n{self.raw[-2000:]!r}"
            try:
                self._feed(self.child.read_nonblocking(65536, timeout=0.1))
            except pexpect.TIMEOUT:
                continue
            except pexpect.EOF:
                raise AssertionError(f"no {condition!r} in\n{self.text}") from None

    def _feed(self, data: str) -> None:
        self.raw += data
        self._stream.feed(data)

    def ends(self) -> int:
        """Read to the end of the program; its exit status."""
        try:
            while True:
                self._feed(self.child.read_nonblocking(65536, timeout=60))
        except pexpect.EOF:
            self.child.close()
            return self.child.exitstatus if self.child.signalstatus is None else -1

    @property
    def normal_screen(self) -> str:
        """What was written outside of the alternate screen, which the emulator doesn't know."""
        parts = re.split(
            re.escape(ALTERNATE_ON) + ".*?" + re.escape(ALTERNATE_OFF), self.raw, flags=re.S
        )
        return re.sub(r"\x1b\[[0-9;?$]*[a-zA-Z]", "", "".join(parts)).replace("\r\n", "\n")

    def type(self, text: str) -> None:
        self.child.send(text)

    def kill(self) -> None:
        """As a crash of the machine does."""
        os.kill(self.child.pid, signal.SIGKILL)


def modes(fd: int) -> list[object]:
    return termios.tcgetattr(fd)[:4]


Make = Callable[..., Terminal]


@contextlib.contextmanager
def terminals(kind: Make = Terminal) -> Iterator[Make]:
    """What makes terminals, which are closed in the end."""
    opened: list[Terminal] = []

    def make(*arguments: object, **options: object) -> Terminal:
        opened.append(kind(*arguments, **options))
        return opened[-1]

    yield make
    for made in opened:
        made.child.close(force=True)


def restored(shown: Terminal) -> bool:
    """Whether the last word on each terminal mode was to switch it off."""
    pairs = {ALTERNATE_ON: ALTERNATE_OFF}
    for mode in ("1000", "1002", "1006", "2004"):
        pairs[f"\x1b[?{mode}h"] = f"\x1b[?{mode}l"
    return all(shown.raw.rfind(on) < shown.raw.rfind(off) for on, off in pairs.items())
