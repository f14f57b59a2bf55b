"""The names of a framework that it promises nobody, and the versions that have been tried."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

from tfdbg_cli.common.errors import UserError
from tfdbg_cli.common.streams import tell

__all__ = ["PrivateNames"]


class PrivateNames:
    """Looks private names up, once, and knows what can't be done where one is not there.

    Args:
        title: what people call the framework.
        version: of the one that is imported.
        tested: the versions that the tests are run with, the oldest first.

    Attributes:
        framework: title and version.
        required: the names that the engine can't do without, as ``module:attribute``.
        abilities: the names that one ability needs, by what can't be done without them.
    """

    def __init__(self, title: str, version: str, tested: Sequence[str]) -> None:
        self.framework = f"{title} {version}"
        self.required: list[str] = []
        self.abilities: dict[str, list[str]] = {}
        self._version = version
        self._tested = tested
        self._missing: dict[str, list[str]] = {}
        self._has_told = False

    def require(self, path: str) -> Any:
        """What stands under a name that no run can be watched without; see `check`.

        Args:
            path: ``module:attribute.attribute``.

        Returns:
            ``None``: there is none.
        """
        self.required.append(path)
        return self._look(path, "")

    def need(self, ability: str, path: str) -> Any:
        """What stands under a name that an ability needs; ``None``: there is none.

        Args:
            ability: what can't be done without it, in the passive: ``stepped through``.
            path: ``module:attribute.attribute``.
        """
        self.abilities.setdefault(ability, []).append(path)
        return self._look(path, ability)

    def _look(self, path: str, ability: str) -> Any:
        module, _, attributes = path.partition(":")
        try:
            found = importlib.import_module(module)
            for name in attributes.split("."):
                found = getattr(found, name)
        except (ImportError, AttributeError):
            self._missing.setdefault(ability, []).append(path.replace(":", "."))
            return None
        return found

    def check(self) -> None:
        """To be called before anything is changed.

        Raises:
            UserError: a name is missing that no run can be watched without.
        """
        missing = self._missing.get("")
        if missing:
            raise UserError(f"{self.framework} has no {', '.join(missing)}.", self._advice)

    def why_not(self, ability: str) -> str:
        """Why runs can't be ..., one sentence; empty: they can.

        Args:
            ability: as `need` got it.
        """
        missing = self._missing.get(ability)
        if not missing:
            return ""
        return f"Its runs can't be {ability}: {self.framework} has no {', '.join(missing)}."

    @property
    def _advice(self) -> str:
        *others, last = self._tested
        tested = f"{', '.join(others)} and {last}" if others else last
        return f"The debugger was tested with {tested}."

    def tell_version(self) -> None:
        """Say so, once, if the version is older or newer than all that were tested."""
        if self._has_told:
            return
        self._has_told = True
        oldest, newest = _release(self._tested[0]), _release(self._tested[-1])
        if not oldest <= _release(self._version) <= newest:
            tell(f"{self.framework} was not tested with this debugger. {self._advice}")


def _release(version: str) -> tuple[int, ...]:
    """The first two numbers of a version: the others promise that nothing is gone."""
    return tuple(int(part) for part in version.split(".")[:2] if part.isdecimal())
