"""What a UI and the command service say to each other. Plain data: it could cross a socket.

All text in it that may be shown is printable.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from tfdbg_cli.commands.shell.history import History
from tfdbg_cli.common.documents import Document
from tfdbg_cli.common.printable import printable, printed
from tfdbg_cli.common.settings import Settings

__all__ = [
    "Candidate",
    "Choice",
    "CommandInfo",
    "Completion",
    "Leave",
    "Question",
    "Reply",
    "Script",
    "Service",
    "Toast",
    "UiRequest",
]


@printed
class Toast(NamedTuple):
    """A one-line message; ``role`` is ``info``, ``success``, ``warning`` or ``error``."""

    text: str
    role: str = "info"


class Script(NamedTuple):
    """Command lines to run one after the other, and a message about them."""

    commands: tuple[str, ...]
    message: Toast | None = None


class Leave(NamedTuple):
    """The UI is to give control back to the session, with this token."""

    action: Any


class UiRequest(NamedTuple):
    """Something only a UI can do.

    Attributes:
        name: ``prev``, ``next`` (screen history), ``search`` (argument: a regex, empty: the next
            match), ``filter`` (argument: a regex for the lines to show, empty: all), ``scroll``
            (argument: ``i,j``, the element that must be visible), ``mouse``
            (argument: ``on``, ``off`` or empty to show the state), ``link`` (argument: the number
            of the link to follow, empty: list them), ``keys`` (all of
            them), ``pdb`` (Python's debugger, where there is a traceback).
        argument: see ``name``.
    """

    name: str
    argument: str = ""


@printed
class Choice(NamedTuple):
    """One answer to a `Question`: the key to press, what it means, the command that it runs."""

    key: str
    caption: str
    command: str


@printed
class Question(NamedTuple):
    """A question with a few answers. An empty command of a choice means: never mind."""

    text: str
    choices: tuple[Choice, ...]

    def choice(self, answer: str) -> Choice | None:
        """The choice that an answer means: its key, or the first word of its caption; else none.

        Nothing else counts, so that a command typed by somebody who didn't see the question is
        not taken for an answer.
        """
        wanted = answer.strip().lower()
        for choice in self.choices:
            words = choice.caption.lower().split()
            if wanted and wanted in (choice.key.lower(), *words[:1]):
                return choice
        return None


@dataclass(frozen=True)
class Reply:
    """The answer to one command line.

    Attributes:
        command: the command line as it was understood.
        document: a new screen.
        message: a toast; errors are toasts with role ``error``, never exceptions.
        details: lines (a traceback) that a UI offers when asked for more about an error.
        leave: control goes back to the session.
        request: something the UI does itself.
        question: the UI asks, and runs the command of the answer.
        rest: command lines to run after this one, at the next stop if this one leaves. The UI
            puts them in front of its queue.
    """

    command: str = ""
    document: Document | None = None
    message: Toast | None = None
    details: tuple[str, ...] = ()
    leave: Leave | None = None
    request: UiRequest | None = None
    question: Question | None = None
    rest: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Write out control characters."""
        object.__setattr__(self, "command", printable(self.command))
        object.__setattr__(self, "details", tuple(map(printable, self.details)))

    @property
    def failed(self) -> bool:
        """Whether the command was in error."""
        return self.message is not None and self.message.role == "error"


@printed
class CommandInfo(NamedTuple):
    """A command in short.

    Attributes:
        name: long name.
        aliases: short names.
        summary: one line.
        needs_argument: whether the name alone is no whole command.
    """

    name: str
    aliases: tuple[str, ...]
    summary: str
    needs_argument: bool = False


@printed
class Candidate(NamedTuple):
    """One completion: the text that replaces the word, and a few words on what it is."""

    text: str
    summary: str = ""


@dataclass(frozen=True)
class Completion:
    """Completions of the word before the cursor.

    Attributes:
        start: where the word begins in the text; candidates replace ``text[start:cursor]``.
        candidates: in the order to show them; complete words, without a trailing blank.
    """

    start: int
    candidates: Sequence[Candidate] = field(default_factory=tuple)

    @property
    def common_prefix(self) -> str:
        """The longest text that every candidate begins with."""
        texts = [candidate.text for candidate in self.candidates]
        if not texts:
            return ""
        low, high = min(texts), max(texts)
        at = 0
        while at < min(len(low), len(high)) and low[at] == high[at]:
            at += 1
        return low[:at]


class Service(Protocol):
    """The one door between a UI and everything below it.

    Attributes:
        title: for the title bar, e.g. ``run-end: run #2: 1 fetch (train/Adam); 2 feeds``.
        title_role: ``start``, ``end``, ``error`` (a filter fired, or the run failed), ``offline``.
        initial_command: the command whose Document is the first screen of this stop.
        settings: what `config` shows and sets; UIs obey it.
        history: what was typed, kept between sessions.
    """

    title: str
    title_role: str
    initial_command: str
    settings: Settings
    history: History

    @property
    def prompt(self) -> str:
        """``tfdbg> ``, or the current place: ``log:0 › ``."""
        ...

    def run(self, text: str, width: int = 80) -> Reply:
        """Run one command line for a screen of ``width`` columns. Never raises."""
        ...

    def complete(self, text: str, cursor: int) -> Completion:
        """Complete the word before the cursor. Never raises."""
        ...

    def commands(self) -> Sequence[CommandInfo]:
        """The commands of this stop, in the order of the help."""
        ...
