"""The plain UI: stable text on stdout, errors on stderr, no escape codes, nothing wrapped."""

from __future__ import annotations

import contextlib
import io
import os
import select
import sys
from collections.abc import Iterable
from itertools import islice
from typing import TextIO

from tfdbg_cli.commands.reply import Service, Toast
from tfdbg_cli.documents import Line
from tfdbg_cli.ui.text import TextUI

__all__ = ["PlainUI", "TextSink"]

_BLOCK = 512


class TextSink:
    """Writes text to a stream in order with what the program prints there.

    A reader that went away (``| head``) silences the sink and nothing else. Text for a real file
    goes past the stream's buffer, so that none of ours is left in it to fail at the program's next
    print.

    Args:
        stream: the program's stdout or stderr.
    """

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.broken = False

    def _fileno(self) -> int | None:
        # Only a real text file: the streams of notebooks have a fileno that isn't theirs.
        if os.name == "nt" or not isinstance(self.stream, io.TextIOWrapper):
            return None
        with contextlib.suppress(OSError, ValueError):
            return self.stream.fileno()
        return None

    def write(self, text: str) -> None:
        """Write text, after everything that was written to the stream before."""
        if self.broken or not text:
            return
        try:
            self.stream.flush()
            fd = self._fileno()
            if fd is None:
                self.stream.write(text)
                self.stream.flush()
            else:
                self._write_bytes(fd, text.encode(self.stream.encoding or "utf-8", "replace"))
        except (OSError, ValueError):
            # A closed pipe, a full disk, a stream that the program closed: nobody reads us.
            self.broken = True

    @staticmethod
    def _write_bytes(fd: int, data: bytes) -> None:
        view = memoryview(data)
        while view:
            try:
                view = view[os.write(fd, view) :]
            except BlockingIOError:
                select.select([], [fd], [])


class PlainUI(TextUI):
    """Prints Documents as plain text and reads commands from the queue, then from stdin.

    Args:
        stdin: where commands come from; default: the process's stdin as it is now.
        stdout: where Documents go; default: the process's stdout as it is now.
        stderr: where errors go; default: the process's stderr as it is now.
    """

    def __init__(
        self,
        stdin: TextIO | None = None,
        stdout: TextIO | None = None,
        stderr: TextIO | None = None,
    ) -> None:
        super().__init__()
        self.stdin = stdin if stdin is not None else sys.stdin
        self._out = TextSink(stdout if stdout is not None else sys.stdout)
        self._err = TextSink(stderr if stderr is not None else sys.stderr)

    @property
    def interactive(self) -> bool:
        """Whether stdin is a terminal, or a notebook's input box."""
        try:
            return self.stdin.isatty() or self._in_notebook
        except (AttributeError, ValueError):  # no stdin at all, or a closed one
            return False

    @property
    def _in_notebook(self) -> bool:
        return self.stdin is sys.stdin and type(sys.stdout).__module__.startswith("ipykernel")

    def print_lines(self, lines: Iterable[Line]) -> None:
        """Print lines a block at a time."""
        rest = iter(lines)
        while block := list(islice(rest, _BLOCK)):
            self._out.write("".join(made.text + "\n" for made in block))
            if self._out.broken:
                return

    def print_title(self, text: str, role: str) -> None:
        """Print ``--- title ---``."""
        self._out.write(f"--- {text} ---\n")

    def print_message(self, message: Toast) -> None:
        """Print a message: errors on stderr, the rest on stdout."""
        if message.role == "error":
            self._err.write(f"ERROR: {message.text}\n")
        else:
            self._out.write(f"{message.text}\n")

    def read_command(self, service: Service) -> str:
        """The next line of stdin, with a prompt if a person is there."""
        return self._read(service.prompt)

    def read_answer(self, prompt: str) -> str:
        """The next line of stdin."""
        return self._read(prompt)

    def _read(self, prompt: str) -> str:
        if self._in_notebook:
            return input(prompt)
        if self.stdin is None:
            raise EOFError
        if self.interactive:
            self._out.write(prompt)
        try:
            text = self.stdin.readline()
        except (OSError, ValueError):  # closed, or not text
            raise EOFError from None
        if not text:
            raise EOFError
        return text.rstrip("\r\n")
