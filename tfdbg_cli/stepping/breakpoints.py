"""Breakpoints inside a run: a name, an op type, or a filter that a tensor passes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from tfdbg_cli.common.errors import UserError, compile_regex, one_line
from tfdbg_cli.dumps.dump import Datum, Dump, Predicate, takes_dump
from tfdbg_cli.filters.builtin import has_inf_or_nan
from tfdbg_cli.stepping.stepper import Step

__all__ = ["Breakpoint", "Breakpoints"]

# Filters that want the whole dump, and that only a tensor with a nan or an infinity passes.
_OF_BAD_TENSORS = frozenset({"origin_of_nonfinite"})


@dataclass(frozen=True)
class Breakpoint:
    """One breakpoint.

    Attributes:
        number: what `delete` calls it.
        text: a node's name, an op type, or a regex found in names; empty: it is one of a filter.
        filter_name: a tensor that passes this filter stops the run before the op that reads it.
        predicate: that filter.
        exclude: nodes whose name this is found in don't count for the filter.
    """

    number: int
    text: str = ""
    filter_name: str = ""
    predicate: Predicate | None = field(default=None, compare=False)
    exclude: re.Pattern[str] | None = None

    def describe(self) -> str:
        """``Softmax``, or ``-f has_inf_or_nan``."""
        if not self.filter_name:
            return self.text
        exclude = f" -fenn {self.exclude.pattern}" if self.exclude is not None else ""
        return f"-f {self.filter_name}{exclude}"

    def is_at(self, step: Step) -> bool:
        """Whether the run is to stop before a step because of what it is."""
        if not self.text:
            return False
        names = step.members or (step.node,)
        if self.text == step.op_type or self.text.removesuffix(":0") in names:
            return True
        return any(re.search(self.text, name) for name in (step.node, *names))


def _passes(breakpoint: Breakpoint, datum: Datum, dump: Callable[[], Dump]) -> bool:
    """Whether a tensor passes a filter; the dump is made only for those that want it."""
    predicate = breakpoint.predicate
    assert predicate is not None
    value = datum.get_tensor()
    if not takes_dump(predicate):
        return bool(predicate(datum, value))
    if breakpoint.filter_name in _OF_BAD_TENSORS and not has_inf_or_nan(datum, value):
        return False
    whole = dump()
    known = whole.by_tensor(datum.tensor_name)
    return bool(known) and bool(predicate(known[-1], value, whole))


class Breakpoints:
    """Those of one run, and the tensors that wait for somebody to read them."""

    def __init__(self) -> None:
        self._all: list[Breakpoint] = []
        self._last = 0
        #: Tensors that have passed a filter -> the breakpoint.
        self._caught: dict[str, Breakpoint] = {}
        # Filter -> where it raised, until that was told; a filter is told of once.
        self._failures: dict[str, list[str]] = {}
        self._told: set[str] = set()

    def __iter__(self) -> Iterator[Breakpoint]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)

    @property
    def has_filters(self) -> bool:
        """Whether values have to be looked at."""
        return any(each.predicate is not None for each in self._all)

    def add(
        self,
        text: str = "",
        filter_name: str = "",
        predicate: Predicate | None = None,
        exclude: re.Pattern[str] | None = None,
    ) -> Breakpoint:
        """One more.

        Raises:
            UserError: the text is not a regular expression.
        """
        compile_regex(text)
        self._last += 1
        made = Breakpoint(self._last, text, filter_name, predicate, exclude)
        self._all.append(made)
        return made

    def delete(self, number: int | None = None) -> int:
        """Remove one, or all; returns how many.

        Raises:
            UserError: there is none of that number.
        """
        kept = [each for each in self._all if number is not None and each.number != number]
        count = len(self._all) - len(kept)
        if number is not None and not count:
            numbers = ", ".join(str(each.number) for each in self._all)
            raise UserError(
                f"There is no breakpoint {number}.", f"There are {numbers}." if numbers else ""
            )
        self._all = kept
        self._caught = {t: b for t, b in self._caught.items() if b in kept}
        return count

    def look(self, data: Iterable[Datum], dump: Callable[[], Dump]) -> None:
        """New tensors: which of them pass a filter?

        Args:
            data: the tensors.
            dump: makes the dump that they are from, for filters that want it.
        """
        data = list(data)
        for each in self._all:
            if each.predicate is None or not data:
                continue
            for datum in data:
                if each.exclude is not None and each.exclude.search(datum.node_name):
                    continue
                try:
                    passes = _passes(each, datum, dump)
                except Exception as error:
                    if each.filter_name not in self._told:
                        failures = self._failures.setdefault(each.filter_name, [])
                        failures.append(f"{datum.tensor_name}: {one_line(error)}")
                    continue
                if passes:
                    self._caught[datum.tensor_name] = each

    def take_failures(self) -> list[str]:
        """What filters have raised: a line for each filter, the first time that it has."""
        lines = []
        for name, found in self._failures.items():
            more = f" (and {len(found) - 1} more tensors)" if len(found) > 1 else ""
            lines.append(f'The filter "{name}" raised at {found[0]}{more}; the run goes on.')
        self._told.update(self._failures)
        self._failures.clear()
        return lines

    def caught(self, step: Step) -> tuple[Breakpoint, str] | None:
        """The filter that a tensor has passed which a step is about to read, and that tensor.

        It is told once.
        """
        for tensor in step.inputs:
            found = self._caught.pop(tensor, None)
            if found is not None:
                return found, tensor
        return None

    def forget(self) -> None:
        """The run has gone back: what was caught may not be there any more."""
        self._caught.clear()

    def at(self, step: Step) -> Breakpoint | None:
        """The breakpoint that a step is at by its name or type."""
        return next((each for each in self._all if each.is_at(step)), None)
