"""What can be asked of the calls of modules that a run makes."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

__all__ = ["INPUT", "OUTPUT", "ModuleCalls", "Spot", "numbered", "paths_of"]

#: The moments of a call: it has its arguments; it has its result.
INPUT = "input"
OUTPUT = "output"


_NUMBERED = re.compile(r"(?P<path>.+)-(?P<number>\d+)")


def numbered(path: str) -> tuple[str, int] | None:
    """The path and the number of a call, ``fc-1``; ``None``: it has none."""
    found = _NUMBERED.fullmatch(path)
    return None if found is None else (found["path"], int(found["number"]))


def paths_of(scope: str) -> set[str]:
    """The modules that what stands in front of an op's name may mean: ``fc/``, ``fc-1/``."""
    path = scope.removesuffix("/")
    call = numbered(path)
    return {path} if call is None else {path, call[0]}


class Spot(NamedTuple):
    """A moment of a call of a module.

    Attributes:
        module: the framework's own object; ``None``: it is known by its path.
        path: of the module, as the names of nodes have it.
        number: of the call, from 0.
        moment: `INPUT` or `OUTPUT`.
    """

    module: Any
    path: str
    number: int
    moment: str

    @property
    def label(self) -> str:
        """How it is called in messages."""
        call = f", call {self.number}" if self.number else ""
        return f"the {self.moment} of {self.path or 'the model'}{call}"


class ModuleCalls(ABC):
    """The calls of modules in one run, which stands still at one of their moments, or elsewhere.

    What is read there are the program's own objects.
    """

    @abstractmethod
    def find(self, module: Any, number: int | None, moment: str) -> Spot:
        """The moment that a user means.

        Args:
            module: its object, or its path, which may have the number of the call: ``fc-1``.
            number: of the call; ``None``: the first, or what the path says.
            moment: `INPUT` or `OUTPUT`.

        Raises:
            UserError: there is no such module.
        """

    @abstractmethod
    def count(self, spot: Spot) -> int:
        """How many calls of the module have come to this moment."""

    @abstractmethod
    def is_at_hand(self, spot: Spot) -> bool:
        """Whether `get` has something to give."""

    @abstractmethod
    def is_open(self, spot: Spot) -> bool:
        """Whether the run stands still there: what is put now, the program gets."""

    @abstractmethod
    def get(self, spot: Spot) -> Any:
        """The result, or the arguments: positional ones and others.

        Raises:
            KeyError: the run isn't there, and nobody has kept it.
        """

    @abstractmethod
    def put(self, spot: Spot, value: Any) -> None:
        """Let the program go on with another result, or other arguments; now or when it is there.

        Raises:
            UserError: it doesn't fit.
        """

    @abstractmethod
    def take_back(self) -> None:
        """Forget what was put for moments that are still to come."""

    @property
    @abstractmethod
    def missed(self) -> Sequence[Spot]:
        """Moments for which something was put and that never came."""

    @property
    @abstractmethod
    def paths(self) -> Sequence[str]:
        """Of the modules that may be asked for, as far as they are known."""

    @abstractmethod
    def keep(self, *, only_last: bool) -> None:
        """Hold the results and arguments of all calls from now on, or of the last one of each."""
