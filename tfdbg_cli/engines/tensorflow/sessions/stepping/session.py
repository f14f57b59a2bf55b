"""When a session's variables get what a stepped run has made of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tfdbg_cli.engines.tensorflow.sessions.stepping.counterfactual import Counterfactuals
from tfdbg_cli.engines.tensorflow.shared import guard

__all__ = ["SessionVariables"]


class SessionVariables:
    """The variables that a run may write, in the session.

    Args:
        worlds: of the run, which was made.
        is_shared: the session is on a server, and others work on its variables meanwhile.
    """

    def __init__(self, worlds: Counterfactuals, is_shared: bool) -> None:
        self._worlds, self._is_shared = worlds, is_shared
        self._overwritten: dict[Any, Any] = {}
        #: What the run has made of those that are as before it in the session.
        self._withheld: dict[Any, Any] = {}

    def withhold(self) -> Sequence[Any]:
        """Let them be what they were before the run, until `write`.

        Returns:
            Those that have the outcome of the run all the same.
        """
        worlds = self._worlds
        if not self._withheld and not self._is_shared:
            held = [each for each in worlds.initial if each not in worlds.stuck]
            with guard.bypass():
                self._withheld = worlds.read(held)
                worlds.write({each: worlds.initial[each] for each in self._withheld})
        return [each for each in worlds.layout.variables if each not in self._withheld]

    def write(self, values: Mapping[Any, Any]) -> Sequence[Any]:
        """Let them be what the run has made of them.

        Args:
            values: of those that overrides have changed.

        Returns:
            The withheld ones that somebody else has set meanwhile.
        """
        values = self._withheld | dict(values)
        if not values:
            return []
        with guard.bypass():
            self._overwritten = self._worlds.read(values)
            self._worlds.write(values)
        initial, now = self._worlds.initial, self._overwritten
        return [each for each in self._withheld if not _is_same(initial[each], now.get(each))]

    def after_run(self, variable: Any) -> Any:
        """What the run has made of a variable without overrides; ``None``: it has no value."""
        if variable in self._withheld:
            return self._withheld[variable]
        with guard.bypass():
            return self._worlds.read([variable]).get(variable)

    def take_back(self) -> None:
        """Undo `write`; nothing is withheld any more."""
        with guard.bypass():
            self._worlds.write(self._overwritten)
        self._overwritten, self._withheld = {}, {}


def _is_same(before: Any, now: Any) -> bool:
    if now is None or before.dtype != now.dtype or before.shape != now.shape:
        return False
    if before.dtype == object:
        return bool(np.array_equal(before, now))
    return bool(before.tobytes() == now.tobytes())
