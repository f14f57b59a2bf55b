"""What a stepped run was told to do differently, and since when."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tfdbg_cli.common.errors import UserError
from tfdbg_cli.engines.tensorflow.sessions.capture.topology import edge_of
from tfdbg_cli.engines.tensorflow.sessions.stepping.layout import UnitLayout
from tfdbg_cli.engines.tensorflow.sessions.stepping.region import Change

__all__ = ["OverrideSet"]


class OverrideSet:
    """Overrides and restored variables. Nothing here is changed in place: `copy` is cheap.

    Args:
        layout: the steps of the run.

    Attributes:
        overrides: tensor name -> the value for all steps to come.
    """

    def __init__(self, layout: UnitLayout) -> None:
        self._layout = layout
        self.overrides: dict[str, Any] = {}
        # Overrides that were taken back when steps had used them, and the first step after that.
        self._past: dict[str, tuple[Any, int]] = {}
        # Variable -> the steps whose writes don't count, and the first step that sees it restored.
        self._undone: dict[Any, frozenset[int]] = {}
        self._restored: dict[Any, int] = {}

    def copy(self) -> OverrideSet:
        """The same, to go on from."""
        made = OverrideSet(self._layout)
        made.overrides, made._past = self.overrides, self._past
        made._undone, made._restored = self._undone, self._restored
        return made

    def __bool__(self) -> bool:
        return bool(self.overrides or self._past or self._restored)

    def readers(self, tensor_name: str) -> Sequence[int]:
        """The steps that a tensor goes into."""
        return self._layout.readers.get(edge_of(self._layout.tensors[tensor_name]), ())

    def replaces(self, index: int) -> bool:
        """Whether all that a step is there for is overridden, so that it may as well fail."""
        if index >= len(self._layout.units):
            return False
        unit = self._layout.units[index]
        names = unit.step.outputs
        return bool(names) and not unit.writes and all(name in self.overrides for name in names)

    def set(self, tensor_name: str, value: Any) -> None:
        """Override a tensor that no step has used."""
        self.overrides = self.overrides | {tensor_name: value}
        self._past = {name: past for name, past in self._past.items() if name != tensor_name}

    def take_back(self, tensor_name: str, position: int) -> None:
        """Remove an override, for the steps from a position on."""
        value = self.overrides[tensor_name]
        self.overrides = {name: v for name, v in self.overrides.items() if name != tensor_name}
        if any(index < position for index in self.readers(tensor_name)):
            self._past = self._past | {tensor_name: (value, position)}

    def restore(self, variables: Iterable[Any], position: int) -> None:
        """Let what steps before a position have written to variables not count from there on.

        Raises:
            UserError: a step has written to others as well, which is needed.
        """
        undone = {
            variable: frozenset(i for i in self._layout.writers(variable) if i < position)
            for variable in variables
        }
        self._undone = self._undone | undone
        self._restored = self._restored | dict.fromkeys(undone, position)
        change = self.change()
        for variable, since in self._restored.items():
            if not any(index >= since for index in self._layout.users[variable]):
                continue
            for index in self._undone[variable]:
                unit = self._layout.units[index]
                if not change.skips(unit):
                    names = ", ".join(sorted(each.name for each in unit.writes))
                    raise UserError(
                        f"{unit.step.node} has changed several variables, and a step to come uses "
                        f"{variable.name}.",
                        f"Restore them together: {names}.",
                    )

    def go_back(self, position: int) -> bool:
        """Forget what came after a position; whether that was anything."""
        before = self._past, self._undone, self._restored
        self._past = {
            name: (value, min(until, position))
            for name, (value, until) in self._past.items()
            if any(index < position for index in self.readers(name))
        }
        undone = {
            variable: frozenset(index for index in indices if index < position)
            for variable, indices in self._undone.items()
        }
        self._undone = {variable: indices for variable, indices in undone.items() if indices}
        self._restored = {
            variable: min(self._restored[variable], position) for variable in self._undone
        }
        return before != (self._past, self._undone, self._restored)

    def counts(self, variable: Any, index: int) -> bool:
        """Whether what a step has written to a variable is to stay."""
        return index not in self._undone.get(variable, ())

    def change(self) -> Change:
        """All of it, as what the run is to be."""
        values = {name: value for name, (value, _) in self._past.items()} | self.overrides
        edges = {name: edge_of(self._layout.tensors[name]) for name in values}
        until = {name: end for name, (_, end) in self._past.items() if name not in self.overrides}
        return Change(
            {edges[name]: value for name, value in values.items()},
            {edges[name]: end for name, end in until.items()},
            self._undone,
            self._restored,
        )

    def cut(self, position: int) -> Change:
        """As `change`, and nothing is written from a position on."""
        change = self.change()
        undone = dict(change.undone)
        for variable in self._layout.variables:
            later = {index for index in self._layout.writers(variable) if index >= position}
            if later:
                undone[variable] = undone.get(variable, frozenset()) | later
        return Change(change.values, change.until, undone, change.restored)
