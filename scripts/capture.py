"""The debugger on a terminal emulator: types keys, and draws its screen as text or SVG."""

import html
import os
import pathlib
import sys
import tempfile
import time
from types import TracebackType
from typing import Self

import pexpect
import pyte

ROOT = pathlib.Path(__file__).resolve().parent.parent
CELL_WIDTH, CELL_HEIGHT = 8.4, 18
NAMED = {
    "default": "#d8dee9",
    "black": "#1d2129",
    "red": "#bf616a",
    "green": "#8fbf7f",
    "brown": "#d7ba7d",
    "blue": "#5e81ac",
    "magenta": "#b48ead",
    "cyan": "#6cb6c4",
    "white": "#e5e9f0",
    "brightblack": "#7b8494",
    "brightred": "#e06c75",
    "brightgreen": "#a3d39c",
    "brightbrown": "#ebcb8b",
    "brightblue": "#81a1e1",
    "brightmagenta": "#c8a2d8",
    "brightcyan": "#88d0e0",
    "brightwhite": "#ffffff",
}
BACKGROUND = "#1d2129"
HALF = "▀"


def colour(name: str, fallback: str) -> str:
    """A pyte colour as CSS."""
    if name == "default":
        return fallback
    return NAMED.get(name) or f"#{name}"


class Player:
    """A program on a terminal of a given size; a context manager.

    Args:
        arguments: of ``python``.
        size: columns and rows.
    """

    def __init__(self, *arguments: str, size: tuple[int, int] = (104, 26)) -> None:
        self.columns, self.rows = size
        self.screen = pyte.Screen(*size)
        # What was written, and when.
        self.written: list[tuple[float, bytes]] = []
        self._stream = pyte.ByteStream(self.screen)
        self._arguments = arguments
        self._home = tempfile.TemporaryDirectory()
        self._child: pexpect.spawn | None = None

    def __enter__(self) -> Self:
        home = self._home.name
        self._child = pexpect.spawn(
            sys.executable,
            list(self._arguments),
            cwd=ROOT,
            dimensions=(self.rows, self.columns),
            env={
                **os.environ,
                "TERM": "xterm-256color",
                "COLORTERM": "truecolor",
                "XDG_CONFIG_HOME": home,
                "XDG_STATE_HOME": home,
            },
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._child is not None
        self._child.close(force=True)
        self._home.cleanup()

    def type(self, keys: str, shown: str) -> None:
        """Type keys, and wait until a text is shown and nothing moves any more.

        Raises:
            SystemExit: it never is.
        """
        self.send(keys)
        self.settle(shown)

    def send(self, keys: str) -> None:
        """Type keys."""
        assert self._child is not None
        self._child.send(keys)

    def settle(self, shown: str) -> None:
        """Wait until a text is shown and nothing moves any more."""
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            if not self._read(0.4) and shown in self.text:
                return
        raise SystemExit(f"{shown!r} never appeared:\n{self.text}")

    def watch(self, seconds: float) -> None:
        """Look on for a while."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            self._read(left)

    def _read(self, seconds: float) -> bool:
        """Whether anything comes within a time."""
        assert self._child is not None
        try:
            data = self._child.read_nonblocking(65536, timeout=seconds)
        except pexpect.TIMEOUT:
            return False
        self.written.append((time.monotonic(), data))
        self._stream.feed(data)
        return True

    @property
    def text(self) -> str:
        """The screen as text."""
        return "\n".join(_elsewhere(row).rstrip() for row in self.screen.display)

    def svg(self) -> str:
        """The screen as an SVG."""
        return draw(self.screen).replace(str(ROOT), _ANYWHERE)


# Where the repository is, on no machine in particular.
_ANYWHERE = "/home/you/tfdbg_cli"


def _elsewhere(row: str) -> str:
    """A row of the screen with another path in it, and the scroll bar where it was."""
    if str(ROOT) not in row:
        return row
    text, bar = row[:-1].rstrip(), row[-1]
    text = text.replace(str(ROOT), _ANYWHERE)
    return text.ljust(len(row) - 1)[: len(row) - 1] + bar


def draw(screen: pyte.Screen) -> str:
    """The screen as an SVG."""
    rows = [draw_row(screen, y, 8 + y * CELL_HEIGHT) for y in range(screen.lines)]
    return "\n".join([*head(screen), *filter(None, rows), "</svg>"]) + "\n"


def head(screen: pyte.Screen) -> list[str]:
    """What an SVG of a screen begins with."""
    width, height = screen.columns * CELL_WIDTH + 16, screen.lines * CELL_HEIGHT + 16
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        'font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="14">',
        f'<rect width="100%" height="100%" rx="6" fill="{BACKGROUND}"/>',
    ]


def draw_row(screen: pyte.Screen, y: int, top: int) -> str:
    """One row of the screen as a part of an SVG."""
    parts = []
    x = 0
    while x < screen.columns:
        cell = screen.buffer[y][x]
        end = x
        text = ""
        while end < screen.columns and screen.buffer[y][end]._replace(data="") == cell._replace(
            data=""
        ):
            text += screen.buffer[y][end].data
            end += 1
        front, back = colour(cell.fg, NAMED["default"]), colour(cell.bg, BACKGROUND)
        if cell.reverse:
            front, back = back, front
        left = 8 + x * CELL_WIDTH
        # Neighbouring pixels would show a seam.
        crisp = "" if text.strip(HALF) else ' shape-rendering="crispEdges"'
        if back != BACKGROUND:
            parts.append(
                f'<rect x="{left:.1f}" y="{top}" width="{(end - x) * CELL_WIDTH:.1f}" '
                f'height="{CELL_HEIGHT}" fill="{back}"{crisp}/>'
            )
        if crisp:  # as pixels: letters leave gaps between them
            parts.append(
                f'<rect x="{left:.1f}" y="{top}" width="{(end - x) * CELL_WIDTH:.1f}" '
                f'height="{CELL_HEIGHT / 2}" fill="{front}"{crisp}/>'
            )
        elif text.strip():
            style = ' font-weight="bold"' if cell.bold else ""
            style += ' text-decoration="underline"' if cell.underscore else ""
            parts.append(
                f'<text x="{left:.1f}" y="{top + 13.5}" fill="{front}"{style} '
                f'textLength="{(end - x) * CELL_WIDTH:.1f}" xml:space="preserve">'
                f"{html.escape(text)}</text>"
            )
        x = end
    return "\n".join(parts)
