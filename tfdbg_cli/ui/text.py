"""What the UIs that print have in common: they turn Replies into printed lines."""

from __future__ import annotations

import unicodedata
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator

from tfdbg_cli.commands.reply import Leave, Question, Reply, Service, Toast, UiRequest
from tfdbg_cli.common.documents import Document, Line, line
from tfdbg_cli.common.errors import UserError
from tfdbg_cli.ui.base import CommandQueue, UserInterface
from tfdbg_cli.ui.outputs import Outputs, parse_indices

__all__ = ["TextUI", "parse_indices", "rows_of"]


# Lines of a terminal that stand above and below what is to fit on it: titles, and the prompt.
_AROUND = 4


class TextUI(UserInterface):
    """A UI that prints Documents one after the other and never redraws.

    Subclasses say how a line is printed (`print_lines`, `print_message`) and where the next
    command comes from (`read_command`, `read_answer`).

    Attributes:
        more_hint: how a person gets to see the rest of output that was cut.
    """

    more_hint = "Enter shows them"

    def __init__(self) -> None:
        self._outputs = Outputs()
        self._pending_title = ""
        self._stop_title = ""
        #: Whether nobody sees what is typed: outputs then say whose they are.
        self._is_quiet = False
        self._was_left = self._data_shown = False
        self._typed_ahead = ""
        #: Output that was cut, and the line where.
        self._rest: tuple[Document, int] | None = None

    @property
    @abstractmethod
    def interactive(self) -> bool:
        """Whether a person is there to read prompts and to answer."""

    @property
    def width(self) -> int:
        """The columns that commands may fill."""
        return 80

    @property
    def page_size(self) -> tuple[int, int] | None:
        """Rows and columns of the screen that output pauses on; ``None``: it never pauses."""
        return None

    @property
    def is_cut_short(self) -> bool:
        """Whether what is printed is lost for want of room."""
        return False

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

    def read_more(self, prompt: str) -> str:
        """Ask after a screenful.

        Returns:
            Blank to go on, ``q`` to stop, anything else is the next command; raises like
            `read_command`.
        """
        return self.read_answer(prompt)

    def print_document(self, document: Document, start: int = 0, *, brief: bool = False) -> int:
        """Print a Document, a screenful at a time where `page_size` says so.

        Args:
            document: its lines are made as they are printed.
            start: the first line.
            brief: stop after the first screenful without asking.

        Returns:
            The first line that wasn't printed for want of room; the line count where a person
            has seen all, or enough.
        """
        count = document.line_count
        if self.page_size is None:
            self.print_lines(document.iterate(start))
            return count
        rows, columns = self.page_size
        # By the screenful, too: nobody waits for what is still computed further down.
        lines = document.iterate(start, block=rows)
        if not brief:
            self._page(lines, start, count)
            return count
        # The title, the note on what is left, and the prompt.
        first = next(screenfuls(lines, max(rows - 3, 5), columns), [])
        self.print_lines(first)
        return start + len(first)

    def _page(self, lines: Iterable[Line], done: int = 0, count: int | None = None) -> None:
        """Print lines; after each screenful ask whether to go on."""
        if self.page_size is None:
            self.print_lines(lines)
            return
        rows, columns = self.page_size
        blocks = screenfuls(lines, max(rows - 2, 5), columns)
        block = next(blocks, None)
        while block is not None:
            self.print_lines(block)
            done += len(block)
            block = next(blocks, None)
            if block is not None and not self._wants_more(done, count):
                return

    def _wants_more(self, done: int, count: int | None) -> bool:
        place = f"line {done}" if count is None else f"{done} of {count} lines"
        try:
            answer = self.read_more(f"-- more -- ({place}; Enter, q, or a command) ").strip()
        except EOFError:
            return False
        if answer.lower() in {"", "q"}:
            return not answer
        # Whoever types a command here has seen enough, and wants it run.
        self._typed_ahead = answer
        return False

    @property
    def takes_interrupts(self) -> bool:
        """Whether a person types the commands."""
        return self.interactive

    def running(self, describe: Callable[[], str], announcement: str = "") -> None:
        """Said once: nothing is ever drawn over what was printed."""
        if self.interactive and announcement:
            self.print_message(Toast(announcement))

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
        self._is_quiet = queue.batch or not self.interactive
        self._stop_title = self._pending_title = service.title
        self._data_shown = False
        if not self._is_quiet:
            self._flush_title(service)
        leave = self._converse(service, queue)
        if self._was_left and not self._data_shown:
            # A command led here, so this is an answer, also where nothing else was printed.
            self._flush_title(service)
        self._was_left = True
        self._forget()
        return leave

    def _forget(self) -> None:
        """Let go of what was printed: it holds on to the tensors of its run."""
        self._outputs.clear()
        self._rest = None

    def _converse(self, service: Service, queue: CommandQueue) -> Leave:
        """The first screen, and commands until one of them leaves."""
        leave = None
        # Without a person the first screen is printed only where it is news: a filter that fired,
        # an error of the run.
        first = service.initial_command
        if first and (not self._is_quiet or service.title_role == "error"):
            brief = not self._is_quiet
            leave = self._guarded(service, queue, first, from_user=False, brief=brief)
        while leave is None:
            command = None if self._typed_ahead else queue.take()
            if command is not None:
                if not queue.is_nested:
                    command = service.history.play(command)
                leave = self._guarded(service, queue, command, from_user=False)
                continue
            if not queue.reads_stdin and (queue.batch or not self.interactive):
                return self._let_go(service)
            try:
                command, self._typed_ahead = self._typed_ahead or self.read_command(service), ""
            except EOFError:
                leave = self.on_eof(service, queue)
                continue
            except KeyboardInterrupt:
                if not self.interactive:
                    raise
                continue
            if not command.strip():
                self.print_rest()
                continue
            if self.interactive:
                command = service.history.add(command)
            else:
                command = service.history.play(command)
            leave = self._guarded(service, queue, command, from_user=True)
        return leave

    def execute(self, service: Service, queue: CommandQueue, command: str) -> Leave | None:
        """Run one command line outside a stop, with all that follows from it; then return."""
        self._stop_title, self._pending_title = service.title, ""
        self._is_quiet = False
        leave = self._guarded(service, queue, command, from_user=True)
        while leave is None:
            following, self._typed_ahead = self._typed_ahead or queue.take() or "", ""
            if not following:
                break
            leave = self._guarded(service, queue, following, from_user=False)
        return leave

    def announce(self, service: Service) -> None:
        """Print the first screen of a stop at which nobody is asked for commands."""
        self._stop_title = self._pending_title = service.title
        self._flush_title(service)
        self._forget()
        self._is_quiet = False
        queue = CommandQueue()
        self._guarded(service, queue, service.initial_command, from_user=False, brief=True)

    def print_rest(self) -> bool:
        """Go on with output that was cut; returns whether there was any."""
        if self._rest is None:
            return False
        document, start = self._rest
        self._print(document, start)
        return True

    def _guarded(
        self,
        service: Service,
        queue: CommandQueue,
        command: str,
        *,
        from_user: bool,
        brief: bool = False,
    ) -> Leave | None:
        """Run a command; Ctrl-C ends the command, and the program only if nobody is there."""
        try:
            return self._run(service, queue, command, from_user=from_user, brief=brief)
        except KeyboardInterrupt:
            if not self.interactive or queue.batch:
                raise
            queue.abandon()
            self._typed_ahead = ""
            self.print_message(Toast("Cancelled.", "warning"))
            return None

    def _run(
        self,
        service: Service,
        queue: CommandQueue,
        command: str,
        *,
        from_user: bool,
        brief: bool = False,
    ) -> Leave | None:
        """Run one command line and print its Reply; questions and links lead to further ones."""
        while True:
            reply = service.run(command, self.width)
            if reply.failed and not (from_user and self.interactive):
                queue.failed = True
            reply = queue.accept(reply)
            if reply.document is not None:
                self._show(service, reply, brief=brief)
            command = ""
            if reply.request is not None:
                command = self._request(service, queue, reply.request)
            if reply.message is not None:
                self._flush_title(service)
                self.print_message(reply.message)
            queue.failed = queue.failed or (queue.batch and self.is_cut_short)
            if reply.leave is not None:
                return reply.leave
            if reply.question is not None:
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

    def _show(self, service: Service, reply: Reply, *, brief: bool) -> None:
        assert reply.document is not None
        document = reply.document.printed or reply.document
        if self.page_size is not None:
            document = document.paged(max(self.page_size[0] - _AROUND, 1))
        self._data_shown = self._is_quiet and document.is_data
        if not self._data_shown:
            self._flush_title(service)
            title = document.title
            if title and title != self._stop_title:
                self.print_title(title, document.title_role)
            elif self._is_quiet and reply.command:
                # Without a terminal nobody sees what was typed: say whose output this is.
                self.print_title(reply.command, "")
        self._outputs.add(reply.command, document)
        start = 0
        if self.page_size is not None and not self._is_quiet and not brief:
            start = min(document.initial_line, max(document.line_count - 1, 0))
        if start:
            note = f"({start} lines above: {reply.command} | cat shows all)"
            self.print_lines([line((note, "dim"))])
        self._print(document, start, brief=brief)

    def _print(self, document: Document, start: int = 0, *, brief: bool = False) -> None:
        """Print a Document, and say what is left of it where it had to be cut."""
        upto = self.print_document(document, start, brief=brief)
        left = document.line_count - upto
        self._rest = (document, upto) if left > 0 else None
        if left > 0:
            self.print_lines([line((f"({left} more lines: {self.more_hint})", "dim"))])

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
            self.print_message(Toast(f'"{answer}" is not an answer: {letters}, or Enter to stay.'))
        return ""

    def _request(self, service: Service, queue: CommandQueue, request: UiRequest) -> str:
        """What a screen would do by moving about, a UI that prints does by printing.

        Returns:
            The command of the link that is to be followed; else nothing.
        """
        try:
            if request.name == "pdb" and queue.batch:
                raise UserError("pdb needs somebody at a prompt.", "Leave --batch out.")
            self._do_request(service, request)
            if request.name == "link" and request.argument:
                return self._outputs.link(int(request.argument))
        except UserError as error:
            if not self.interactive or queue.batch:
                queue.failed = True
            self.print_message(Toast(str(error), "error"))
        return ""

    def _do_request(self, service: Service, request: UiRequest) -> None:
        outputs = self._outputs
        if request.name in {"prev", "next"}:
            self._reprint(-1 if request.name == "prev" else 1)
        elif request.name == "search" or (request.name == "filter" and request.argument):
            found = outputs.search(request.argument)
            self._flush_title(service)
            self._page(found)
        elif request.name == "filter":
            self._reprint(0)
        elif request.name == "scroll":
            shown = outputs.element(request.argument)
            self._flush_title(service)
            self.print_lines(shown)
        elif request.name == "link":
            if not request.argument:
                self._flush_title(service)
                self._page(outputs.links())
        elif request.name == "pdb" and self.pdb is not None:
            self._flush_title(service)
            self.pdb()
        else:
            raise UserError(f"This interface has no {request.name}.", "Use --ui screen.")

    def _reprint(self, step: int) -> None:
        command, document = self._outputs.move(step)
        self.print_title(document.title or command, document.title_role)
        self._print(document.resized(self.width))


def _width(text: str) -> int:
    """The columns of a text; wide characters take two, combining ones none."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(char) else 1 + (unicodedata.east_asian_width(char) in "WF")
        for char in text
    )


def rows_of(made: Line, columns: int) -> int:
    """How many rows a terminal of so many columns needs for a line, which it wraps."""
    return max(-(-_width(made.text) // columns), 1)


def screenfuls(lines: Iterable[Line], rows: int, columns: int) -> Iterator[list[Line]]:
    """Cut lines into blocks that fit on a screen; each has a line, however long that is.

    Args:
        lines: taken one beyond the block that is yielded, never further.
        rows: of the screen.
        columns: of the screen; longer lines take several rows.
    """
    block: list[Line] = []
    taken = 0
    for made in lines:
        needed = rows_of(made, columns)
        if block and taken + needed > rows:
            yield block
            block, taken = [], 0
        block.append(made)
        taken += needed
    if block:
        yield block
