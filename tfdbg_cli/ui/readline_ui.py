"""The readline UI: plain text, with the line editing, completion and history of readline."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from types import ModuleType

from tfdbg_cli.commands.reply import Leave, Service
from tfdbg_cli.ui.base import CommandQueue
from tfdbg_cli.ui.plain import PlainUI

__all__ = ["ReadlineUI", "make_completer"]


def _readline() -> ModuleType | None:
    """The readline module, GNU's or pyreadline3's; ``None``: lines are read without it."""
    try:
        import readline
    except ImportError:
        return None
    return readline


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
    """`PlainUI` with readline at the prompt. The program's own use of readline is not disturbed."""

    def interact(self, service: Service, queue: CommandQueue) -> Leave:
        """One stop, with readline set up for the debugger while it lasts."""
        readline = _readline() if self.interactive else None
        if readline is None:
            return super().interact(service, queue)
        with _borrowed(readline, service):
            return super().interact(service, queue)

    def _read(self, prompt: str) -> str:
        return input(prompt) if self.interactive else super()._read(prompt)


@contextlib.contextmanager
def _borrowed(readline: ModuleType, service: Service) -> Iterator[None]:
    """Give readline our completer, delimiters and history, and what it had back afterwards."""
    completer = readline.get_completer()
    delimiters = readline.get_completer_delims()
    count = readline.get_current_history_length()
    items = [readline.get_history_item(i + 1) for i in range(count)]

    def line_state() -> tuple[str, int, int]:
        return readline.get_line_buffer(), readline.get_begidx(), readline.get_endidx()

    readline.clear_history()
    for text in service.history.items:
        readline.add_history(text)
    readline.set_completer(make_completer(service, line_state))
    readline.set_completer_delims(" \t")
    readline.parse_and_bind("tab: complete")
    try:
        yield
    finally:
        readline.set_completer(completer)
        readline.set_completer_delims(delimiters)
        readline.clear_history()
        for text in items:
            if text is not None:
                readline.add_history(text)
