"""The readline UI: plain text, with the line editing, completion and history of readline."""

from __future__ import annotations

import contextlib
import ctypes
import shutil
import sys
from collections.abc import Callable, Iterator
from types import ModuleType

from tfdbg_cli.commands.reply import Leave, Service
from tfdbg_cli.common.streams import Streams
from tfdbg_cli.ui.base import CommandQueue
from tfdbg_cli.ui.plain import PlainUI

__all__ = ["ReadlineUI", "make_completer"]


@contextlib.contextmanager
def _readline() -> Iterator[ModuleType | None]:
    """The readline module, GNU's or pyreadline3's; ``None``: lines are read without it.

    Its import makes `input()` edit lines: behind the block that is so only if the program has
    imported it itself, or does.
    """
    global _ours
    is_programs = "readline" in sys.modules
    reader = _reader()
    before = None if reader is None else reader.value
    if _ours is not None and not is_programs and reader is not None:
        readline, reader.value = _ours
    else:
        try:
            import readline
        except ImportError:
            yield None
            return
    try:
        yield readline
    finally:
        if not is_programs and reader is not None:
            _ours = readline, reader.value
            reader.value = before
            sys.modules.pop("readline", None)


#: The module and what it makes `input()` read lines with, where the program has none.
_ours: tuple[ModuleType, int | None] | None = None


def _reader() -> ctypes.c_void_p | None:
    """What Python reads lines with at a terminal; ``None``: that isn't known."""
    try:
        return ctypes.c_void_p.in_dll(ctypes.pythonapi, "PyOS_ReadlineFunctionPointer")
    except (AttributeError, ValueError):
        return None


def make_completer(
    service: Service, line_state: Callable[[], tuple[str, int, int]]
) -> Callable[[str, int], str | None]:
    """A readline completer over ``service.complete``.

    Args:
        service: asked once for each Tab.
        line_state: the line, where readline's word begins, and where the cursor is.
    """
    candidates: list[str] = []

    def complete(word: str, state: int) -> str | None:
        if state == 0:
            text, begin, cursor = line_state()
            completion = service.complete(text, cursor)
            start = completion.start
            # readline replaces its own word; ours may begin before or after it.
            candidates[:] = [
                candidate.text[begin - start :]
                if start <= begin
                else text[begin:start] + candidate.text
                for candidate in completion.candidates
            ]
        return candidates[state] if state < len(candidates) else None

    return complete


class ReadlineUI(PlainUI):
    """`PlainUI` with readline at the prompt, and output by the screenful.

    The program's own use of readline is not disturbed, nor does a program get it that has none.
    """

    def __init__(self, streams: Streams | None = None) -> None:
        super().__init__(streams=streams)
        self._readline: ModuleType | None = None
        self._service: Service | None = None

    @property
    def width(self) -> int:
        """The columns of the terminal, as they are now; where it isn't one, those of a file."""
        return super().width if self.page_size is None else self.page_size[1]

    @property
    def page_size(self) -> tuple[int, int] | None:
        """The terminal's size, as it is now; ``None`` where no terminal shows the output."""
        if self._readline is None or not self._out.is_terminal:
            return None
        size = shutil.get_terminal_size()
        return size.lines, max(size.columns, 1)

    def interact(self, service: Service, queue: CommandQueue) -> Leave:
        """One stop, with readline set up for the debugger while it lasts."""
        if not self.interactive or queue.batch:
            return super().interact(service, queue)
        with _readline() as readline:
            if readline is None:
                return super().interact(service, queue)
            self._readline, self._service = readline, service
            try:
                with _borrowed(readline, service):
                    return super().interact(service, queue)
            finally:
                self._readline = self._service = None

    def _read(self, prompt: str) -> str:
        readline, service = self._readline, self._service
        if readline is None or service is None or self.streams.is_redirected:
            return super()._read(prompt)  # readline knows only the descriptors of the process
        # Afresh each time: answers to questions went into it, and `!lt` didn't as what it means.
        readline.clear_history()
        for text in service.history.items:
            readline.add_history(text)
        try:
            return input(prompt)
        except (EOFError, KeyboardInterrupt):
            self._out.write("\n")  # readline leaves the cursor behind the prompt
            raise


@contextlib.contextmanager
def _borrowed(readline: ModuleType, service: Service) -> Iterator[None]:
    """Give readline our completer and delimiters, and what it had back afterwards."""
    completer = readline.get_completer()
    delimiters = readline.get_completer_delims()
    count = readline.get_current_history_length()
    items = [readline.get_history_item(i + 1) for i in range(count)]
    is_libedit = "libedit" in (readline.__doc__ or "")

    def line_state() -> tuple[str, int, int]:
        return readline.get_line_buffer(), readline.get_begidx(), readline.get_endidx()

    readline.set_completer(make_completer(service, line_state))
    readline.set_completer_delims(" \t")
    readline.parse_and_bind("bind ^I rl_complete" if is_libedit else "tab: complete")
    try:
        yield
    finally:
        readline.set_completer(completer)
        readline.set_completer_delims(delimiters)
        if completer is None:
            # Nobody can ask what a key was bound to; without a completer, Python binds Tab so.
            readline.parse_and_bind("bind ^I ed-insert" if is_libedit else "tab: tab-insert")
        readline.clear_history()
        for text in items:
            if text is not None:
                readline.add_history(text)
