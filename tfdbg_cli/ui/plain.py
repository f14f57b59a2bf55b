"""The plain UI: stable text on stdout, errors on stderr, no escape codes, nothing wrapped."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from itertools import islice
from typing import TextIO

from tfdbg_cli.commands.reply import Service, Toast
from tfdbg_cli.common.documents import Line
from tfdbg_cli.common.streams import Streams, TextSink
from tfdbg_cli.ui.text import TextUI

__all__ = ["PlainUI"]

_BLOCK = 512


class PlainUI(TextUI):
    """Prints Documents as plain text and reads commands from the queue, then from stdin.

    Args:
        stdin: where commands come from; default: that of ``streams``.
        stdout: where Documents go; default: that of ``streams``.
        stderr: where errors go; default: that of ``streams``.
        streams: those of the process; default: as they are now.
    """

    def __init__(
        self,
        stdin: TextIO | None = None,
        stdout: TextIO | None = None,
        stderr: TextIO | None = None,
        streams: Streams | None = None,
    ) -> None:
        super().__init__()
        self.streams = streams or Streams()
        if stdin is not None:
            self.streams = Streams(stdin)
        self._out = TextSink(stdout) if stdout is not None else self.streams.out
        self._err = TextSink(stderr) if stderr is not None else self.streams.err

    @property
    def interactive(self) -> bool:
        """Whether stdin is a terminal, or a notebook's input box."""
        return self.streams.asks_a_person or self._in_notebook

    @property
    def _in_notebook(self) -> bool:
        is_kernels = type(sys.stdout).__module__.startswith("ipykernel")
        return is_kernels and self.streams.stdin is sys.stdin

    @property
    def is_cut_short(self) -> bool:
        """Whether stdout is full."""
        return self._out.is_full

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
        if self.interactive:
            self._out.write(prompt)
        try:
            text = self.streams.readline()
        except (OSError, ValueError):  # closed, or not text
            raise EOFError from None
        if not text:
            raise EOFError
        return text.rstrip("\r\n")
