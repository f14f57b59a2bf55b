"""Runs the debugger on the example in a terminal emulator and draws its screen as docs/screen.svg.

.venv/bin/python scripts/screenshot.py
"""

import html
import os
import pathlib
import sys
import tempfile
import time

import pexpect
import pyte

ROOT = pathlib.Path(__file__).resolve().parent.parent
COLUMNS, ROWS = 104, 26
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


def colour(name: str, fallback: str) -> str:
    """A pyte colour as CSS."""
    if name == "default":
        return fallback
    return NAMED.get(name) or f"#{name}"


def capture(commands: dict[str, str]) -> pyte.Screen:
    """The screen after typing the commands, each until the text that it must bring is shown."""
    screen = pyte.Screen(COLUMNS, ROWS)
    stream = pyte.ByteStream(screen)
    with tempfile.TemporaryDirectory() as home:
        child = pexpect.spawn(
            sys.executable,
            ["-m", "tfdbg_cli", "examples/debug_mnist.py"],
            cwd=ROOT,
            dimensions=(ROWS, COLUMNS),
            env={
                **os.environ,
                "TERM": "xterm-256color",
                "XDG_CONFIG_HOME": home,
                "XDG_STATE_HOME": home,
            },
        )

        def settle(text: str) -> None:
            deadline = time.monotonic() + 30
            while time.monotonic() < deadline:
                try:
                    stream.feed(child.read_nonblocking(65536, timeout=0.5))
                except pexpect.TIMEOUT:
                    if any(text in row for row in screen.display):
                        return
            raise SystemExit(f"{text!r} never appeared")

        settle("run_info")
        for command, shown in commands.items():
            child.send(command + "\r")
            settle(shown)
        child.close(force=True)
    return screen


def draw(screen: pyte.Screen) -> str:
    """The screen as an SVG."""
    width, height = COLUMNS * CELL_WIDTH + 16, ROWS * CELL_HEIGHT + 16
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        'font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="14">',
        f'<rect width="100%" height="100%" rx="6" fill="{BACKGROUND}"/>',
    ]
    for y in range(ROWS):
        x = 0
        while x < COLUMNS:
            cell = screen.buffer[y][x]
            end = x
            text = ""
            while end < COLUMNS and screen.buffer[y][end]._replace(data="") == cell._replace(
                data=""
            ):
                text += screen.buffer[y][end].data
                end += 1
            front, back = colour(cell.fg, NAMED["default"]), colour(cell.bg, BACKGROUND)
            if cell.reverse:
                front, back = back, front
            left, top = 8 + x * CELL_WIDTH, 8 + y * CELL_HEIGHT
            if back != BACKGROUND:
                parts.append(
                    f'<rect x="{left:.1f}" y="{top}" width="{(end - x) * CELL_WIDTH:.1f}" '
                    f'height="{CELL_HEIGHT}" fill="{back}"/>'
                )
            if text.strip():
                style = ' font-weight="bold"' if cell.bold else ""
                style += ' text-decoration="underline"' if cell.underscore else ""
                parts.append(
                    f'<text x="{left:.1f}" y="{top + 13.5}" fill="{front}"{style} '
                    f'textLength="{(end - x) * CELL_WIDTH:.1f}" xml:space="preserve">'
                    f"{html.escape(text)}</text>"
                )
            x = end
    return "\n".join([*parts, "</svg>"]) + "\n"


def main() -> None:
    """Capture and draw."""
    screen = capture({"run -f has_inf_or_nan": "| lt -f has_inf_or_nan"})
    (ROOT / "docs" / "screen.svg").write_text(draw(screen), encoding="utf-8")


if __name__ == "__main__":
    main()
