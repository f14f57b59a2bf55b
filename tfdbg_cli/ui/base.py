"""The one face of every UI, and the queue of commands that were given beforehand."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from tfdbg_cli.commands.reply import Leave, Reply, Service, Toast
from tfdbg_cli.common.errors import UserError

__all__ = ["CommandQueue", "UserInterface"]


# What stands for stdin among commands.
_STDIN = "-"
# Scripts and aliases may call each other so deep.
_DEEPEST = 100


class CommandQueue:
    """Commands of ``-c`` (and of a pipe), taken one by one over all stops of the program.

    Args:
        commands: command lines; among them ``-``: further ones are on stdin.
        batch: nobody is there to ask.
        reads_stdin: whether further commands are on stdin; default: unless it is a batch.

    Attributes:
        batch: nobody is there to ask: an empty queue means that the program runs on.
        reads_stdin: further commands are on stdin, though it may be no terminal.
        failed: whether a command of the queue was in error.
    """

    def __init__(
        self,
        commands: Iterable[str] = (),
        batch: bool = False,
        reads_stdin: bool | None = None,
    ) -> None:
        given = list(commands)
        # Each with how many scripts, aliases and lines with ; it came out of.
        self._commands = deque((command, 0) for command in given if command != _STDIN)
        self._depth = 0
        self.batch = batch
        self.reads_stdin = _STDIN in given or (not batch if reads_stdin is None else reads_stdin)
        self.failed = False

    def __bool__(self) -> bool:
        return bool(self._commands)

    def extend(self, commands: Iterable[str]) -> None:
        """Queue more."""
        self._commands.extend((command, 0) for command in commands)

    @property
    def waiting(self) -> list[str]:
        """Those that are still to come, the next one first."""
        return [command for command, _ in self._commands]

    def peek(self) -> str:
        """What `take` would give; empty where there is nothing."""
        return self._commands[0][0] if self._commands else ""

    def take(self) -> str | None:
        """The next command, or ``None`` when the queue is used up."""
        command, self._depth = self._commands.popleft() if self._commands else (None, 0)
        return command

    def insert(self, commands: Sequence[str]) -> None:
        """Put in front what the command that was taken last, or was typed, is made of.

        Raises:
            UserError: commands call each other without end.
        """
        if self._depth >= _DEEPEST:
            self.abandon()
            raise UserError("The commands call each other without end.", "See alias, source.")
        self._commands.extendleft((command, self._depth + 1) for command in reversed(commands))

    @property
    def is_nested(self) -> bool:
        """Whether the command taken last came out of a script, an alias or a line with ``;``."""
        return self._depth > 0

    def accept(self, reply: Reply) -> Reply:
        """Queue what a Reply says comes after it; after an error, drop the script it was in.

        Returns:
            The Reply, with a message that also says what was dropped.
        """
        if reply.document is not None and reply.document.is_alarm:
            self.failed = True
        if reply.failed:
            assert reply.message is not None
            dropped = self.abandon()
            if dropped:
                also = " and" if "Not run: " in reply.message.text else " Not run:"
                text = f"{reply.message.text}{also} {dropped} more command(s)."
                return replace(reply, message=Toast(text, "error"))
        elif reply.rest:
            try:
                self.insert(reply.rest)
            except UserError as error:
                self.failed = True
                return Reply(reply.command, message=Toast(str(error), "error"))
        return reply

    def abandon(self) -> int:
        """Drop what is left of the script that the last command was in; returns how many."""
        dropped = 0
        while self._commands and self._commands[0][1] >= max(self._depth, 1):
            self._commands.popleft()
            dropped += 1
        return dropped


class UserInterface(ABC):
    """Shows Documents, asks for commands. One object serves all stops of a program.

    Attributes:
        second_interrupt: what a Ctrl-C does after the one that asks for a stop.
    """

    second_interrupt = "interrupts the program"
    #: Opens Python's debugger on the terminal; ``None``: there is nothing for it at this stop.
    pdb: Callable[[], None] | None = None

    @property
    def takes_interrupts(self) -> bool:
        """Whether a person watches who means the debugger by a Ctrl-C while the program runs."""
        return False

    @abstractmethod
    def interact(self, service: Service, queue: CommandQueue) -> Leave:
        """One stop: from the first screen to the command that gives control back.

        The first screen is ``service.initial_command``'s. Commands of the queue run before the
        user is asked; one of them may end the stop. The terminal is as it was found when this
        returns or raises.
        """

    def running(self, describe: Callable[[], str], announcement: str = "") -> None:
        """The program runs on until the next stop; a Ctrl-C is taken from now on.

        Args:
            describe: says how far it is, on one line; may be called from any thread.
            announcement: what is waited for; empty where it is the next run alone.
        """

    def refresh_progress(self) -> None:
        """What `running` was told to describe has changed."""

    def stopped(self) -> None:
        """The program runs no more: a stop or its end follows."""

    def close(self) -> None:
        """The program is at its end."""
