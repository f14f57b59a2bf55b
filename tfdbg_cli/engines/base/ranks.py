"""Where the processes of one distributed program find each other."""

from __future__ import annotations

from abc import ABC, abstractmethod

__all__ = ["Meeting"]


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
