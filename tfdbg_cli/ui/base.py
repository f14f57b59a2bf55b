"""The one face of every UI, and the queue of commands that were given beforehand."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable

from tfdbg_cli.commands.reply import Leave, Service

__all__ = ["CommandQueue", "UserInterface"]


class CommandQueue:
    """Commands of ``-c`` (and of a pipe), taken one by one over all stops of the program.

    Attributes:
        batch: nobody is there to ask: an empty queue means that the program runs on.
        failed: whether a command of the queue was in error.
    """

    def __init__(self, commands: Iterable[str] = (), batch: bool = False) -> None:
        self._commands = deque(commands)
        self.batch = batch
        self.failed = False

    def __bool__(self) -> bool:
        return bool(self._commands)

    def extend(self, commands: Iterable[str]) -> None:
        """Queue more."""
        self._commands.extend(commands)

    def take(self) -> str | None:
        """The next command, or ``None`` when the queue is used up."""
        return self._commands.popleft() if self._commands else None


class UserInterface(ABC):
    """Shows Documents, asks for commands. One object serves all stops of a program."""

    @abstractmethod
    def interact(self, service: Service, queue: CommandQueue) -> Leave:
        """One stop: from the first screen to the command that gives control back.

        The first screen is ``service.initial_command``'s. Commands of the queue run before the
        user is asked; one of them may end the stop. The terminal is as it was found when this
        returns or raises.
        """

    def close(self) -> None:
        """The program is at its end."""
