"""The UI of notebooks: Documents are displayed as HTML, commands come from the input box."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from itertools import islice

from tfdbg_cli.commands.reply import Leave, Service, Toast
from tfdbg_cli.common.documents import Document, Image, Line, line
from tfdbg_cli.common.streams import in_kernel, tell
from tfdbg_cli.ui.base import CommandQueue
from tfdbg_cli.ui.notebook.html import image_html, to_html
from tfdbg_cli.ui.text import TextUI

__all__ = ["NotebookUI"]

# Lines of one output, and of the first screen of a stop.
_LONG = 200
_BRIEF = 25
# Characters of one output, beyond which lines are left out as well.
_LARGEST = 200_000


class _View:
    """Lines for IPython's display, in the forms that a front end may ask for."""

    def __init__(
        self, lines: list[Line], title: str, title_role: str, image: Image | None = None
    ) -> None:
        self._lines, self._title, self._title_role = lines, title, title_role
        self._image = image

    def __repr__(self) -> str:
        title = [f"--- {self._title} ---"] if self._title else []
        return "\n".join([*title, *(made.text for made in self._lines)])

    def _repr_html_(self) -> str:
        image = self._image
        if image is None:
            return to_html(self._lines, self._title, self._title_role)
        alt = image.above[0].text if image.above else self._title
        above = to_html(image.above, self._title, self._title_role)
        return f"{above}\n{image_html(image.png, alt)}"


class NotebookUI(TextUI):
    """Displays Documents in the output of a cell and asks for commands with ``input``.

    Long Documents are cut; Enter, or ``%tfdbg more`` outside a stop, displays what follows.
    """

    def __init__(self) -> None:
        super().__init__()
        self._can_ask = True
        self._title = ("", "")

    @property
    def interactive(self) -> bool:
        """Whether there is an input box; a notebook that is run by a program has none."""
        try:
            return self._can_ask and (in_kernel() or sys.stdin.isatty())
        except (AttributeError, ValueError):
            return False

    @property
    def width(self) -> int:
        """What fits into a cell's output without scrolling sideways, on most screens."""
        return 110

    def interact(self, service: Service, queue: CommandQueue) -> Leave:
        """One stop."""
        self._can_ask = True  # another front end may have taken over
        return super().interact(service, queue)

    def print_document(self, document: Document, start: int = 0, *, brief: bool = False) -> int:
        """Display lines, as many as a cell's output should hold."""
        if (image := document.image()) is not None:
            (title, role), self._title = self._title, ("", "")
            self._display(_View(list(document), title, role, image))
            return document.line_count
        lines: list[Line] = []
        size = 0
        limit = _BRIEF if brief else _LONG
        for made in islice(document.iterate(start, block=limit), limit):
            lines.append(made)
            size += len(made.text)
            if size > _LARGEST:
                break
        self.print_lines(lines)
        return start + len(lines)

    def print_lines(self, lines: Iterable[Line]) -> None:
        """Display lines, below the title that is due."""
        (title, role), self._title = self._title, ("", "")
        rest = iter(lines)
        shown = list(islice(rest, _LONG))
        if next(rest, None) is not None:
            shown.append(line((f"(only the first {_LONG} lines are shown)", "dim")))
        self._display(_View(shown, title, role))

    def print_title(self, text: str, role: str) -> None:
        """Keep the title for the lines that follow; two in a row are displayed."""
        if self._title[0]:
            self.print_lines([])
        self._title = (text, role)

    def print_message(self, message: Toast) -> None:
        """Print a message: errors on stderr, the rest on stdout."""
        if self._title[0]:
            self.print_lines([])
        if message.role == "error":
            print(f"ERROR: {message.text}", file=sys.stderr, flush=True)
        else:
            print(message.text, flush=True)

    def read_command(self, service: Service) -> str:
        """What is typed into the input box."""
        return self.read_answer(service.prompt)

    def read_answer(self, prompt: str) -> str:
        """What is typed into the input box."""
        if self._title[0]:
            self.print_lines([])
        try:
            return input(prompt if self.interactive else "")
        except (NotImplementedError, OSError):
            # nbconvert and papermill run cells without anybody there.
            self._can_ask = False
            tell("nobody can be asked here; the cell runs on.")
            raise EOFError from None

    @staticmethod
    def _display(view: _View) -> None:
        from IPython.display import display

        sys.stdout.flush()  # what was printed before stays above
        display(view)
