"""Where the processes of one distributed program find each other."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from tfdbg_cli.common.interpreter.program_signals import contained

__all__ = ["KeyMeeting", "Meeting"]

# Our keys are apart from those of the program and of its framework.
_PREFIX = "tfdbg/"


class Meeting(ABC):
    """Where the processes of one distributed program find each other.

    Attributes:
        rank: of this process, from 0.
        size: how many processes there are.
        counts_alone: it counts where no launcher has said which rank a process is.
    """

    rank: int = 0
    size: int = 1
    counts_alone: bool = False

    @abstractmethod
    def put(self, name: str, text: str) -> None:
        """Leave something for the other processes. Raises nothing."""

    @abstractmethod
    def look(self, name: str) -> str | None:
        """What a process has left under a name; ``None``: nothing yet. Never waits or raises."""

    def where(self) -> str:
        """What this process does right now, for people: ``in OP, called at train.py:12``.

        Called on another thread than the program's; raises nothing. Empty: nobody knows.
        """
        return ""


class KeyMeeting(Meeting):
    """By a framework's own store of keys, which may be gone at any time.

    Args:
        rank: of this process.
        size: how many there are.
        whereabouts: tells where the program is.
    """

    def __init__(self, rank: int, size: int, whereabouts: Callable[[], str] = str) -> None:
        self.rank, self.size, self.whereabouts = rank, size, whereabouts

    @abstractmethod
    def set_key(self, key: str, text: str) -> None:
        """Write one; it may raise."""

    @abstractmethod
    def get_key(self, key: str) -> str | None:
        """Read one; where it isn't there, ``None`` or an error."""

    def put(self, name: str, text: str) -> None:
        """Leave something under a key of ours."""
        with contained:  # the store is gone: nobody is going to look
            self.set_key(_PREFIX + name, text)

    def look(self, name: str) -> str | None:
        """What is under a key of ours."""
        with contained:
            return self.get_key(_PREFIX + name)
        return None

    def where(self) -> str:
        """The op and the line."""
        with contained:  # the program goes on meanwhile
            return self.whereabouts()
        return ""
