"""A small real Service: a handful of commands over Documents, for the tests of the UIs."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable

from tfdbg_cli.commands.list_command import ColumnChoice, ListCommand
from tfdbg_cli.commands.reply import (
    Candidate,
    Choice,
    CommandInfo,
    Completion,
    Leave,
    Question,
    Reply,
    Toast,
    UiRequest,
)
from tfdbg_cli.commands.shell.history import History
from tfdbg_cli.commands.table import LazyTable
from tfdbg_cli.common.documents import (
    Document,
    LazyDocument,
    Line,
    Link,
    MenuItem,
    Span,
    TextDocument,
    line,
)
from tfdbg_cli.common.errors import UserError
from tfdbg_cli.common.settings import Settings

MENU = (MenuItem("numbers", "numbers 100"), MenuItem("run", "run"), MenuItem("dead", "no", False))
NODES = ("hidden/Relu:0", "hidden/Relu:1", "hidden/weights/read:0", "loss:0", "日本/語:0")


class TableDocument(LazyDocument):
    """A tensor of shape (rows, 2): a row is one line, or two in a narrow terminal."""

    def __init__(self, rows: int, width: int = 80) -> None:
        self.rows, self.width = rows, width
        self.per_row = 1 if width >= 40 else 2
        super().__init__(rows * self.per_row, self._line, title=f"table of {rows}")

    def _line(self, number: int) -> Line:
        row, part = divmod(number, self.per_row)
        columns = range(2) if self.per_row == 1 else [part]
        made = line(f"[{row:5d}] " + " ".join(f"{row}.{column}" for column in columns))
        made.indices = ((row, columns[0]), (row, columns[-1]))
        return made

    def locate(self, indices: tuple[int, ...]) -> int:  # type: ignore[override]
        if len(indices) != 2 or not 0 <= indices[0] < self.rows:
            raise UserError(f"There is no element {list(indices)}.", "The shape is [rows, 2].")
        return indices[0] * self.per_row + (indices[1] if self.per_row == 2 else 0)

    def status(self, start: int, stop: int) -> str:
        return f"[{start // self.per_row},0]-[{(stop - 1) // self.per_row},1]"

    def resized(self, width: int) -> Document:
        made = TableDocument(self.rows, width)
        return self if made.per_row == self.per_row else made


class SmallService:
    """Commands: see the ``do_`` methods. ``ran`` holds every command line that came in."""

    def __init__(self, title: str = "run-start: run #1", title_role: str = "start") -> None:
        self.title = title
        self.title_role = title_role
        self.prompt = "tfdbg> "
        self.initial_command = "info"
        self.settings = Settings(None)
        self.history = History(None)
        self.ran: list[str] = []
        self.widths: list[int] = []

    def run(self, text: str, width: int = 80) -> Reply:
        self.ran.append(text)
        self.widths.append(width)
        if text.startswith("/"):
            return Reply(text, request=UiRequest("search", text[1:]))
        if text.startswith("@"):
            return Reply(text, request=UiRequest("scroll", text[1:].strip("[]")))
        name, _, rest = text.partition(" ")
        command: Callable[[str, str], Reply] | None = getattr(self, "do_" + name, None)
        if command is None:
            return Reply(text, message=Toast(f'There is no command "{name}".', "error"))
        return command(text, rest)

    def complete(self, text: str, cursor: int) -> Completion:
        before = text[:cursor]
        start = before.rfind(" ") + 1
        word = before[start:]
        if start == 0:
            found = [
                Candidate(name[3:], (getattr(self, name).__doc__ or "").strip())
                for name in sorted(dir(self))
                if name.startswith("do_" + word)
            ]
        else:
            found = [Candidate(name, "a tensor") for name in NODES if name.startswith(word)]
        return Completion(start, tuple(found))

    def commands(self) -> list[CommandInfo]:
        found = []
        for name in sorted(dir(self)):
            if name.startswith("do_"):
                summary = (getattr(self, name).__doc__ or "").strip()
                found.append(CommandInfo(name[3:], (), summary, name == "do_pick"))
        return found

    def do_info(self, text: str, rest: str) -> Reply:
        """what the run is"""
        lines = [line(("Run 1", "heading")), line("Next: ", ("numbers", "link", "numbers 50"))]
        return Reply(text, TextDocument(lines, menu=MENU))

    def do_numbers(self, text: str, rest: str) -> Reply:
        """that many lines, each with two links"""

        def make(i: int) -> Line:
            return line(
                f"line {i} ",
                ("first", "link", f"pick {i} 1"),
                " ",
                ("second", "op_type", f"pick {i} 2"),
            )

        return Reply(text, LazyDocument(int(rest or 100), make, title=f"numbers {rest}", menu=MENU))

    def do_pick(self, text: str, rest: str) -> Reply:
        """what a link leads to"""
        return Reply(text, TextDocument([f"picked {rest}"]))

    def do_table(self, text: str, rest: str) -> Reply:
        """a tensor"""
        return Reply(text, TableDocument(int(rest or 100)))

    def do_at(self, text: str, rest: str) -> Reply:
        """lines that open at a later one"""
        document = LazyDocument(100, lambda i: line(f"row {i}"))
        document.initial_line = int(rest)
        return Reply(text, document)

    def do_wide(self, text: str, rest: str) -> Reply:
        """wide, combining and long lines"""
        return Reply(
            text,
            TextDocument(
                [
                    "日本語のテンソル|" * 12,
                    "e\u0301a\u0308 combined",
                    "abcdefghij" * 30 + "END",
                    Line([Span("日", "nan"), Span("本" * 60, "inf"), Span("x", "bold")]),
                ],
                title="wide 日本語",
            ),
        )

    def do_list(self, text: str, rest: str) -> Reply:
        """rows with links"""

        def cells(number: int) -> dict[str, list[Span]]:
            name = f"node_{number}:0"
            return {"Node": [Span(name, "link", Link(f"pt {name}"))]}

        written = ListCommand("list", shown=(ColumnChoice("Node"),), flag="")
        return Reply(text, LazyTable(40, written, {"Node": ("Node", 20)}, cells))

    def do_preview(self, text: str, rest: str) -> Reply:
        """what a pane shows; of one row it takes long"""
        if rest.startswith("node_1:0"):
            self.do_slow(text, "")
        return Reply(text, TextDocument([f"about {rest}"]))

    def do_say(self, text: str, rest: str) -> Reply:
        """a message"""
        return Reply(text, message=Toast(rest, "info"))

    def do_fail(self, text: str, rest: str) -> Reply:
        """an error with details"""
        details = ("Traceback (most recent call last):", '  File "x.py", line 1', "ValueError: no")
        return Reply(text, message=Toast("It failed. Try again.", "error"), details=details)

    def do_alert(self, text: str, rest: str) -> Reply:
        """a Document with an alert title"""
        return Reply(text, TextDocument(["bad"], title="NaN found", title_role="error"))

    def do_ask(self, text: str, rest: str) -> Reply:
        """a question"""
        return Reply(
            text,
            question=Question(
                "Really?", (Choice("y", "yes", "say yes it is"), Choice("n", "no", ""))
            ),
        )

    def do_exit(self, text: str, rest: str) -> Reply:
        """leave"""
        if rest == "--detach":
            return Reply(text, leave=Leave("detach"))
        if rest == "--end":
            return Reply(text, leave=Leave("end"))
        choices = (
            Choice("c", "let the program continue", "exit --detach"),
            Choice("e", "end it", "exit --end"),
            Choice("s", "stay", ""),
        )
        return Reply(text, question=Question("Leave the debugger?", choices))

    def do_run(self, text: str, rest: str) -> Reply:
        """go on"""
        return Reply(text, leave=Leave(f"run {rest}".strip()))

    def do_prev(self, text: str, rest: str) -> Reply:
        """the screen before"""
        return Reply(text, request=UiRequest("prev"))

    def do_next(self, text: str, rest: str) -> Reply:
        """the next screen"""
        return Reply(text, request=UiRequest("next"))

    def do_link(self, text: str, rest: str) -> Reply:
        """the links of the last output"""
        return Reply(text, request=UiRequest("link", rest))

    def do_data(self, text: str, rest: str) -> Reply:
        """lines for other programs"""
        document = LazyDocument(int(rest), lambda i: line(f'{{"line": {i}}}'))
        document.is_data = True
        return Reply(text, document)

    def do_mouse(self, text: str, rest: str) -> Reply:
        """take the mouse or not"""
        return Reply(text, request=UiRequest("mouse", rest))

    def do_set(self, text: str, rest: str) -> Reply:
        """set a setting"""
        name, _, value = rest.partition(" ")
        self.settings.set(name, value)
        return Reply(text, message=Toast(f"{name} is {value}", "success"))

    def do_print(self, text: str, rest: str) -> Reply:
        """what a program does behind the screen"""
        print("printed: " + rest, flush=True)
        print("logged: " + rest, file=sys.stderr, flush=True)
        return Reply(text, message=Toast("done"))

    def do_crash(self, text: str, rest: str) -> Reply:
        """a bug that gets through"""
        raise RuntimeError("crash " + rest)

    def do_die(self, text: str, rest: str) -> Reply:
        """end the process without a chance to clean up"""
        sys.stderr.write("last words\n")
        if rest == "exit":
            os._exit(3)
        os.kill(os.getpid(), getattr(signal, rest))
        time.sleep(30)
        raise AssertionError("still alive")

    def do_slow(self, text: str, rest: str) -> Reply:
        """a command that takes long"""
        until = time.monotonic() + float(rest or 30)
        while time.monotonic() < until:
            time.sleep(0.01)
        return Reply(text, message=Toast("slept"))
