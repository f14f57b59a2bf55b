"""What the UIs that print have in common: they turn Replies into printed lines."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import chain

from tfdbg_cli.commands.reply import Leave, Question, Reply, Service, Toast, UiRequest
from tfdbg_cli.documents import Document, Line, Span, line
from tfdbg_cli.errors import UserError
from tfdbg_cli.ui.base import CommandQueue, UserInterface
from tfdbg_cli.ui.marks import cut_at, match_places

__all__ = ["TextUI", "parse_indices"]

#: How many Documents `prev` and `next` can go back to.
_KEPT = 50


def parse_indices(text: str) -> tuple[int, ...]:
    """Element indices of a ``scroll`` request, ``"1,0"`` or ``"[1, 0]"``.

    Raises:
        UserError: they are no numbers.
    """
    inner = text.strip().strip("[]")
    try:
        return tuple(int(part) for part in inner.split(",") if part.strip())
    except ValueError:
        raise UserError(f'"{text}" names no element.', "Use @[i,j].") from None


class TextUI(UserInterface):
    """A UI that prints Documents one after the other and never redraws.

    Subclasses say how a line is printed (`print_lines`, `print_message`) and where the next
    command comes from (`read_command`, `read_answer`).
    """

    def __init__(self) -> None:
        self._shown: deque[tuple[str, Document]] = deque(maxlen=_KEPT)
        self._at = -1
        self._pattern: re.Pattern[str] | None = None
        self._pending_title = ""
        self._stop_title = ""
        self._was_left = False

    @property
    @abstractmethod
    def interactive(self) -> bool:
        """Whether a person is there to read prompts and to answer."""

    @property
    def width(self) -> int:
        """The columns that commands may fill."""
        return 80

    @abstractmethod
    def print_lines(self, lines: Iterable[Line]) -> None:
        """Print lines, which may be made while they are printed."""

    @abstractmethod
    def print_title(self, text: str, role: str) -> None:
        """Print the title of a stop or of a Document."""

    @abstractmethod
    def print_message(self, message: Toast) -> None:
        """Print a message; one of role ``error`` belongs on stderr if there is no terminal."""

    @abstractmethod
    def read_command(self, service: Service) -> str:
        """Ask for a command line.

        Raises:
            EOFError: there will be no more.
            KeyboardInterrupt: the line was abandoned.
        """

    @abstractmethod
    def read_answer(self, prompt: str) -> str:
        """Ask for the answer to a question; raises like `read_command`."""

    def running(self, describe: Callable[[], str], announcement: str = "") -> bool:
        """Said once: nothing is ever drawn over what was printed."""
        if self.interactive and announcement:
            self.print_message(Toast(announcement))
        return self.interactive

    def on_eof(self, service: Service, queue: CommandQueue) -> Leave | None:
        """No more commands will come: a person is asked, else the program runs on.

        Returns:
            ``None`` to ask on.
        """
        if not self.interactive or queue.batch:
            return self._let_go(service)
        question = service.run("exit", self.width).question
        if question is None:
            return self._let_go(service)
        try:
            command = self._ask_choice(question)
        except EOFError:  # twice: the terminal is gone
            return self._let_go(service)
        except KeyboardInterrupt:
            command = ""
        return self._guarded(service, queue, command, from_user=True) if command else None

    def interact(self, service: Service, queue: CommandQueue) -> Leave:
        """One stop: the queue's commands, then the user's."""
        quiet = queue.batch or not self.interactive
        self._stop_title = self._pending_title = service.title
        if self._was_left or not quiet:
            self._flush_title(service)
        self._was_left = False
        leave = None
        # Without a person the first screen is printed only where it is news: a filter that fired,
        # an error of the run.
        if service.initial_command and (not quiet or service.title_role == "error"):
            leave = self._run(service, queue, service.initial_command, from_user=False)
        while leave is None:
            command = queue.take()
            if command is not None:
                if not queue.is_nested:
                    service.history.play(command)
                leave = self._guarded(service, queue, command, from_user=False)
                continue
            if queue.batch:
                return self._let_go(service)
            try:
                command = self.read_command(service)
            except EOFError:
                leave = self.on_eof(service, queue)
                continue
            except KeyboardInterrupt:
                if not self.interactive:
                    raise
                continue
            if not command.strip():
                continue
            if self.interactive:
                command = service.history.add(command)
            else:
                service.history.play(command)
            leave = self._guarded(service, queue, command, from_user=True)
        self._was_left = True
        return leave

    def _guarded(
        self, service: Service, queue: CommandQueue, command: str, *, from_user: bool
    ) -> Leave | None:
        """Run a command; Ctrl-C ends the command, and the program only if nobody is there."""
        try:
            return self._run(service, queue, command, from_user=from_user)
        except KeyboardInterrupt:
            if not self.interactive or queue.batch:
                raise
            queue.abandon()
            self.print_message(Toast("Cancelled.", "warning"))
            return None

    def _run(
        self, service: Service, queue: CommandQueue, command: str, *, from_user: bool
    ) -> Leave | None:
        """Run one command line and print its Reply; questions lead to further commands."""
        while True:
            reply = service.run(command, self.width)
            if reply.failed and not (from_user and self.interactive):
                queue.failed = True
            reply = queue.accept(reply)
            if reply.document is not None:
                self._show(service, reply, quiet=queue.batch or not self.interactive)
            if reply.request is not None:
                self._request(service, queue, reply.request)
            if reply.message is not None:
                self._flush_title(service)
                self.print_message(reply.message)
            if reply.leave is not None:
                return reply.leave
            if reply.question is None:
                return None
            command = self._answer(reply.question, batch=queue.batch)
            if not command:
                return None

    def _let_go(self, service: Service) -> Leave:
        reply = service.run("exit --detach", self.width)
        return reply.leave if reply.leave is not None else Leave(None)

    def _flush_title(self, service: Service) -> None:
        if self._pending_title:
            self.print_title(self._pending_title, service.title_role)
            self._pending_title = ""

    def _show(self, service: Service, reply: Reply, *, quiet: bool) -> None:
        document = reply.document
        assert document is not None
        self._flush_title(service)
        title = document.title
        if title and title != self._stop_title:
            self.print_title(title, document.title_role)
        elif quiet and reply.command:
            # Without a terminal nobody sees what was typed: say whose output this is.
            self.print_title(reply.command, "")
        self._shown.append((reply.command, document))
        self._at = len(self._shown) - 1
        if document.initial_search:
            self._pattern = re.compile(document.initial_search)
        self.print_lines(document)

    def _answer(self, question: Question, *, batch: bool) -> str:
        """The command of the chosen answer; empty: never mind.

        Where nobody can be asked, the first choice is taken: it is the harmless one.
        """
        if batch or not self.interactive:
            chosen = question.choices[0]
            self.print_message(Toast(f"{question.text} {chosen.caption}."))
            return chosen.command
        try:
            return self._ask_choice(question)
        except (EOFError, KeyboardInterrupt):
            return ""

    def _ask_choice(self, question: Question) -> str:
        """Ask until the answer is one of the choices; an empty one means: never mind.

        Raises:
            EOFError, KeyboardInterrupt: instead of an answer.
        """
        keys = "  ".join(f"[{choice.key}] {choice.caption}" for choice in question.choices)
        self.print_lines([line((question.text, "bold")), line(keys)])
        while answer := self.read_answer("? ").strip():
            choice = question.choice(answer)
            if choice is not None:
                return choice.command
            letters = ", ".join(choice.key for choice in question.choices)
            self.print_message(Toast(f'"{answer}" is no answer: {letters}, or Enter to stay.'))
        return ""

    def _request(self, service: Service, queue: CommandQueue, request: UiRequest) -> None:
        """What a screen would do by moving about, a UI that prints does by printing."""
        try:
            if request.name in {"prev", "next"}:
                self._move(-1 if request.name == "prev" else 1)
            elif request.name == "search" or (request.name == "filter" and request.argument):
                self._search(service, request.argument)
            elif request.name == "filter":
                self._move(0)
            elif request.name == "scroll":
                document = self._current()
                at = document.locate(parse_indices(request.argument))
                self._flush_title(service)
                self.print_lines(document.lines(at, at + 1))
            else:
                raise UserError(f"This interface has no {request.name}.", "Use --ui screen.")
        except UserError as error:
            if not self.interactive or queue.batch:
                queue.failed = True
            self.print_message(Toast(str(error), "error"))

    def _current(self) -> Document:
        if not self._shown:
            raise UserError("There is no output yet.")
        return self._shown[self._at][1]

    def _move(self, step: int) -> None:
        at = self._at + step
        if not 0 <= at < len(self._shown):
            end = "first" if step < 0 else "last"
            raise UserError(f"This is the {end} output.")
        self._at = at
        command, document = self._shown[at]
        self.print_title(document.title or command, document.title_role)
        self.print_lines(document)

    def _search(self, service: Service, regex: str) -> None:
        """Print the matching lines of the last Document, each with its number."""
        if regex:
            try:
                self._pattern = re.compile(regex)
            except re.error as error:
                raise UserError(f'"{regex}" is no regular expression: {error}.') from None
        if self._pattern is None:
            raise UserError("There was no search yet.", "Use /regex.")
        self._flush_title(service)
        found = self._matches(self._current(), self._pattern)
        first = next(found, None)
        if first is None:
            raise UserError(f'Nothing matches "{self._pattern.pattern}".')
        self.print_lines(chain([first], found))

    @staticmethod
    def _matches(document: Document, pattern: re.Pattern[str]) -> Iterator[Line]:
        at = document.find(pattern, 0)
        while at is not None:
            for made in document.lines(at, at + 1):
                number = Span(f"{at + 1}: ", "dim")
                yield Line((number, *_marked(made, pattern)), made.indices)
            at = document.find(pattern, at + 1)


def _marked(made: Line, pattern: re.Pattern[str]) -> Iterator[Span]:
    """The spans of a line, with what the pattern found cut out as spans of role ``match``."""
    places = match_places(pattern, made.text)
    for index, text, found in cut_at([span.text for span in made.spans], places):
        span = made.spans[index]
        yield span._replace(text=text, role="match" if found else span.role)
