"""The program's service, history and Documents, as a UI in another process sees them."""

from __future__ import annotations

import contextlib
import dataclasses
import re
import time
import weakref
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from tfdbg_cli.commands.reply import CommandInfo, Completion, Leave, Reply, Toast
from tfdbg_cli.commands.shell.history import History
from tfdbg_cli.common.documents import (
    Cell,
    Document,
    ElementStep,
    Field,
    Line,
    OtherView,
    TableLines,
    line,
)
from tfdbg_cli.common.errors import UserError
from tfdbg_cli.common.printable import printable
from tfdbg_cli.common.settings import Settings
from tfdbg_cli.net.wire import MalformedError
from tfdbg_cli.ui.remote import codec
from tfdbg_cli.ui.remote.connection import (
    Connection,
    Disconnection,
    OverError,
    StopOverError,
    StoppedProgram,
)

__all__ = ["RemoteDocument", "RemoteHistory", "RemoteService"]

# Lines are asked for in blocks, and so many blocks of a Document are kept.
_BLOCK = 128
_MOST_BLOCKS = 64

# How long lines with placeholders are shown before they are asked for again.
_PENDING_SECONDS = 0.15

_MOST_STATUSES = 64
_MOST_CELLS = 1_000

_Part = TypeVar("_Part", Cell, Field)


class RemoteHistory(History):
    """The history of the program, which keeps it; here is a copy to look back in.

    Args:
        connection: to the program.
    """

    def __init__(self, connection: Connection) -> None:
        super().__init__(None)
        self._connection = connection
        self._stop = 0

    def arrive(self, stop: int) -> None:
        """The program is at a stop; what it sent of its history is here now."""
        self._stop = stop
        self.items += self._connection.history
        self._connection.history = []

    def add(self, text: str) -> str:
        expanded = super().add(text)
        self._connection.notify("typed", self._stop, text=expanded)
        return expanded

    def play(self, text: str) -> str:
        expanded = super().play(text)
        self._connection.notify("played", self._stop, text=expanded)
        return expanded


class RemoteService:
    """One stop of the program; fulfils `tfdbg_cli.commands.reply.Service`.

    Args:
        connection: to the program.
        stop: which one.
        settings: of this terminal; what a command changes there is obeyed here.
        history: of the program.
    """

    def __init__(
        self,
        connection: Connection,
        stop: StoppedProgram,
        settings: Settings,
        history: RemoteHistory,
    ) -> None:
        self._connection = connection
        self._stop = stop.number
        self.title, self.title_role = stop.title, stop.title_role
        self.prompt, self.initial_command = stop.prompt, stop.initial_command
        self.settings = settings
        self.history: History = history
        self._commands: list[CommandInfo] | None = None

    def run(self, text: str, width: int = 80) -> Reply:
        """Run one command line in the program. A Ctrl-C cancels it there."""
        try:
            data = self._connection.call(self._stop, "run", text=text, width=width)
            reply = codec.REPLY.decode(data)
            for name, value in dict(data["settings"]).items():
                if isinstance(value, str | int):
                    self.settings.override(str(name), value)
            self.prompt = printable(str(data["prompt"]))
            if data["document"] is None:
                self._connection.looks += 1
            return _with_document(reply, self._connection, data["document"])
        except UserError as error:
            return Reply(text, message=Toast(str(error), "error"))
        except (StopOverError, OverError):  # what the program is at says the rest
            return Reply(text, leave=Leave(None))
        except (MalformedError, TypeError, KeyError, ValueError) as error:
            return Reply(text, message=Toast(f"The answer can't be read: {error}.", "error"))

    def complete(self, text: str, cursor: int) -> Completion:
        """Complete the word before the cursor; nothing where that fails."""
        try:
            return codec.COMPLETION.decode(
                self._connection.call(self._stop, "complete", text=text, cursor=cursor)
            )
        except (UserError, StopOverError, OverError, MalformedError):
            return Completion(cursor)

    def commands(self) -> Sequence[CommandInfo]:
        """The commands of this stop, asked for once."""
        if self._commands is None:
            try:
                data = self._connection.call(self._stop, "commands")
                self._commands = codec.COMMANDS.decode(data)
            except (UserError, StopOverError, OverError, MalformedError):
                return ()
        return self._commands


def _with_document(reply: Reply, connection: Connection, data: Any) -> Reply:
    if data is None:
        return reply
    return dataclasses.replace(reply, document=RemoteDocument(connection, data))


class RemoteDocument(Document):
    """A Document of the program. Its lines come when somebody looks, and some are kept.

    Args:
        connection: to the program.
        data: what `codec.encode_document` made.

    Raises:
        MalformedError: that is something else.
    """

    def __init__(self, connection: Connection, data: Mapping[str, Any]) -> None:
        head = codec.HEAD.decode(data)
        self._connection = connection
        self._number, self._count, self._pends = head.number, head.count, head.pends
        self.title, self.title_role, self.menu = head.title, head.title_role, head.menu
        self.initial_line, self.initial_search = head.initial_line, head.initial_search
        self.initial_element = head.initial_element
        self.is_data, self.steps, self._tables = head.is_data, head.steps, head.tables
        self.kind = head.kind
        self.turns, self._is_paged = head.turns, head.is_paged
        self._blocks: OrderedDict[int, list[Line]] = OrderedDict()
        # Blocks with placeholders, and until when they are good enough.
        self._until: dict[int, float] = {}
        self._statuses: dict[tuple[int, int], str] = {}
        self._cells: dict[int, list[Cell]] = {}
        self._fields: dict[int, list[Field]] = {}
        self._looks = connection.looks
        self._searched: _SearchState | None = None
        weakref.finalize(self, connection.released.append, self._number).atexit = False

    def _ask(self, name: str, **arguments: Any) -> Any:
        state = self._connection.state
        if isinstance(state, Disconnection):
            raise OverError(state.text)
        if not isinstance(state, StoppedProgram):
            raise UserError("The program runs on already.")
        try:
            return self._connection.call(state.number, name, document=self._number, **arguments)
        except StopOverError:
            raise UserError("The program runs on already.") from None

    @property
    def tables(self) -> Sequence[TableLines]:
        """Where the program has tables."""
        return self._tables

    @property
    def line_count(self) -> int:
        return self._count

    def lines(self, start: int, stop: int) -> list[Line]:
        """The lines ``start`` to ``stop - 1``; those that aren't here are asked for in blocks.

        What the program can't make becomes a line that says why, as the UIs expect no errors here.
        """
        start, stop = max(start, 0), min(stop, self._count)
        made: list[Line] = []
        if self._looks != self._connection.looks:  # a command has changed what they show
            self._looks = self._connection.looks
            self._blocks.clear()
            self._fields.clear()
        for block in range(start // _BLOCK, -(-stop // _BLOCK)) if start < stop else ():
            first = block * _BLOCK
            if not self._has(block):
                try:
                    self._fetch(block, -(-stop // _BLOCK))
                except UserError as error:
                    made.append(line((f"This part can't be shown: {error}", "error")))
                    break
            made += self._blocks[block][max(start - first, 0) : stop - first]
        return made

    def _has(self, block: int) -> bool:
        if block not in self._blocks:
            return False
        until = self._until.get(block)
        if until is not None and time.monotonic() > until:
            return False
        self._blocks.move_to_end(block)
        return True

    def _fetch(self, block: int, behind: int) -> None:
        """Get a block, and those after it that are missing too, as far as one answer goes."""
        last = block + 1
        while last < behind and last - block < _MOST_BLOCKS // 2 and not self._has(last):
            last += 1
        start, end = block * _BLOCK, min(last * _BLOCK, self._count)
        made: list[Line] = []
        is_pending = False
        while len(made) < min(_BLOCK, end - start):
            part, pends = codec.PART.decode(self._ask("lines", start=start + len(made), stop=end))
            if not part:
                raise UserError("The program sent no lines.")
            made += part
            is_pending = is_pending or pends
        for number in range(block, last):
            first = number * _BLOCK
            lines = made[first - start : first - start + _BLOCK]
            if len(lines) == min(_BLOCK, self._count - first):
                self._keep(number, lines, is_pending)

    def _keep(self, block: int, lines: list[Line], is_pending: bool) -> None:
        if self._blocks.get(block) != lines:
            self._fields.clear()  # columns may have grown
        self._blocks[block] = lines
        self._blocks.move_to_end(block)
        if is_pending:
            self._until[block] = time.monotonic() + _PENDING_SECONDS
        elif self._until.pop(block, None) is not None:
            self._statuses.clear()  # they may tell of what was pending
        while len(self._blocks) > _MOST_BLOCKS:
            oldest, _ = self._blocks.popitem(last=False)
            self._until.pop(oldest, None)

    @property
    def pending(self) -> bool:
        """Whether lines that came hold placeholders.

        Raises:
            OverError: the connection is over. A screen that waits for keys asks this now and then,
                and learns of the program's end in this way.
        """
        state = self._connection.state
        if isinstance(state, Disconnection) and not self._connection.is_leaving:
            raise OverError(state.text)
        return bool(self._until)

    def settle(self, start: int, stop: int) -> None:
        if self._pends:
            with contextlib.suppress(UserError):  # the lines themselves say why
                self._ask("settle", start=max(start, 0), stop=max(stop, 0))
            for block in list(self._until):
                if start < (block + 1) * _BLOCK and stop > block * _BLOCK:
                    self._blocks.pop(block, None)
                    del self._until[block]

    def _search(self, name: str, pattern: re.Pattern[str], **place: int) -> Any:
        flags = pattern.flags & ~re.UNICODE
        return self._ask(name, pattern=pattern.pattern, flags=flags, **place)

    def find(
        self, pattern: re.Pattern[str], start: int, direction: int = 1, stop: int | None = None
    ) -> int | None:
        end = self._count if direction > 0 else -1
        if stop is not None:
            end = min(stop, end) if direction > 0 else max(stop, end)
        at = max(start, 0) if direction > 0 else min(start, self._count - 1)
        while (end - at) * direction > 0:
            known = self._searched
            if known is None or not known.covers(pattern, direction, at):
                data = self._search("find", pattern, start=at, direction=direction)
                hit, upto = codec.HIT.decode(data)
                known = self._searched = _SearchState(pattern, direction, at, upto, hit)
                if hit is None and upto == at:
                    return None
            if known.hit is not None:
                return known.hit if (end - known.hit) * direction > 0 else None
            at = known.upto
        return None

    def matches(self, pattern: re.Pattern[str], start: int, stop: int) -> list[int]:
        """Which lines match. The program searches."""
        at, end = max(start, 0), min(stop, self._count)
        found: list[int] = []
        while at < end:
            data = self._search("matches", pattern, start=at, stop=end)
            hits, upto = codec.HITS.decode(data)
            found += hits
            if upto <= at:
                break
            at = upto
        return found

    def locate(self, indices: Sequence[int]) -> int:
        return codec.PLACE.decode(self._ask("locate", indices=[int(index) for index in indices]))

    def _in_line(
        self, name: str, number: int, known: dict[int, list[_Part]], kind: codec.Kind[list[_Part]]
    ) -> list[_Part]:
        """What is asked of a line once, until the line itself is asked for again."""
        if number not in known and 0 <= number < self._count:
            if len(known) >= _MOST_CELLS:
                known.clear()
            with contextlib.suppress(UserError):
                known[number] = kind.decode(self._ask(name, line=number))
        return known.get(number, [])

    def cells(self, number: int) -> list[Cell]:
        return self._in_line("cells", number, self._cells, codec.CELLS)

    def fields(self, number: int) -> list[Field]:
        return self._in_line("fields", number, self._fields, codec.FIELDS)

    def table_command(self, number: int, column: str, verb: str) -> str:
        answer = self._ask("table_command", line=max(number, 0), column=column, verb=verb)
        return codec.COMMAND.decode(answer)

    def element(self, indices: Sequence[int]) -> Document | None:
        """All about one element."""
        try:
            data = self._ask("element", indices=[int(index) for index in indices])
        except UserError:
            return None
        return None if data is None else RemoteDocument(self._connection, data)

    def step(self, indices: Sequence[int] | None, direction: int = 1) -> ElementStep | None:
        place = None if indices is None else [int(index) for index in indices]
        return codec.STEP.decode(self._ask("step", indices=place, direction=direction))

    def status(self, start: int, stop: int) -> str:
        place = (max(start, 0), max(stop, 0))
        if place not in self._statuses or self._until:
            if len(self._statuses) >= _MOST_STATUSES:
                self._statuses.clear()
            text = self._ask("status", start=place[0], stop=place[1])
            self._statuses[place] = printable(str(text))
        return self._statuses[place]

    def resized(self, width: int) -> Document:
        try:
            data = self._ask("resized", width=width)
        except UserError:
            return self
        return self._other(data)

    def paged(self, rows: int) -> Document:
        if not self._is_paged:
            return self
        try:
            return self._other(self._ask("paged", rows=max(rows, 1)))
        except UserError:
            return self

    def turned(self, way: str, indices: Sequence[int] | None = None) -> OtherView:
        place = None if indices is None else [int(index) for index in indices]
        data, found = codec.TURNED.decode(self._ask("turned", way=way, indices=place))
        return OtherView(self._other(data), found)

    def _other(self, data: Any) -> Document:
        """The Document that the program has sent, which may be this one."""
        is_same = codec.HEAD.decode(data).number == self._number
        return self if is_same else RemoteDocument(self._connection, data)


class _SearchState:
    """Where the program has searched for a pattern, and what it found at the end."""

    def __init__(
        self, pattern: re.Pattern[str], direction: int, start: int, upto: int, hit: int | None
    ) -> None:
        self._pattern, self._direction = pattern, direction
        self._start, self.upto, self.hit = start, upto, hit

    def covers(self, pattern: re.Pattern[str], direction: int, at: int) -> bool:
        """Whether that tells what a search from this line on finds first."""
        if pattern != self._pattern or direction != self._direction:
            return False
        last = self.upto if self.hit is None else self.hit + direction
        return (at - self._start) * direction >= 0 and (last - at) * direction > 0
