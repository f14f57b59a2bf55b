"""A list as a command line: its filters, order and columns, and the same list in another way."""

from __future__ import annotations

import argparse
import functools
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeVar

from tfdbg_cli.commands.context import Context
from tfdbg_cli.commands.registry import Argument, Completer
from tfdbg_cli.commands.reply import Candidate
from tfdbg_cli.commands.shell import completers
from tfdbg_cli.commands.shell.parsing import quoted
from tfdbg_cli.common.documents import Link, Span
from tfdbg_cli.common.errors import UserError, did_you_mean
from tfdbg_cli.filters.builtin import RECOMMENDED

__all__ = [
    "NODE_ARGUMENT",
    "NODE_ARGUMENTS",
    "ColumnChoice",
    "ListCommand",
    "by_key",
    "chosen_columns",
    "complete_chosen",
    "exclude_argument",
    "filter_argument",
    "order_arguments",
    "pattern_argument",
    "read_shown",
]


def pattern_argument(
    flags: tuple[str, ...], summary: str, complete: Completer = completers.node_patterns
) -> Argument:
    """An option whose value is a regex; empty: any."""
    return Argument(flags, summary, "REGEX", default="", complete=complete)


def exclude_argument(summary: str) -> Argument:
    """``-fenn``: what a filter leaves out."""
    return pattern_argument(("-fenn", "--filter_exclude_node_names"), summary)


def filter_argument(summary: str, name: str = "--tensor_filter") -> Argument:
    """``-f``: a filter; without its name the recommended one."""
    return Argument(
        ("-f", name),
        f"{summary}; without a name: {RECOMMENDED}",
        "FILTER",
        default="",
        complete=completers.filters,
        implied=RECOMMENDED,
    )


#: A node, by itself or as the maker of a tensor.
NODE_ARGUMENT = Argument(
    ("node_name",),
    "a node or one of its tensors; none: the current place",
    "NODE",
    nargs="?",
    complete=completers.nodes,
)
#: Of which nodes tensors are listed.
NODE_ARGUMENTS = (
    pattern_argument(("-n", "--node_name_filter"), "only nodes whose name matches"),
    pattern_argument(
        ("-t", "--op_type_filter"), "only ops whose type matches", completers.op_types
    ),
)

_SHOWN = re.compile(r"(?P<name>[^:!]*)(?P<before>!?)(:(?P<width>\d+))?(?P<frozen>!?)")
_BEHIND = re.compile("[:!]")
_WIDEST = 1000
_Item = TypeVar("_Item")


class ColumnChoice(NamedTuple):
    """A column as it is asked for: ``name``, ``name:20`` so wide, ``name!`` first and in sight."""

    name: str
    width: int = 0
    is_frozen: bool = False

    def __str__(self) -> str:
        width = f":{self.width}" if self.width else ""
        return f"{self.name}{width}{'!' * self.is_frozen}"


def read_shown(text: str, full_name: Callable[[str], str]) -> tuple[ColumnChoice, ...]:
    """The columns of an option, with commas between; those that stay in sight come first.

    Args:
        text: the value of the option.
        full_name: the name of a column by what it is called; raises a `UserError` if it is none.

    Returns:
        Each once; empty: none is named.
    """
    found: dict[str, ColumnChoice] = {}
    for part in filter(None, map(str.strip, text.split(","))):
        match = _SHOWN.fullmatch(part)
        name = full_name(match["name"].strip() if match is not None else part)
        assert match is not None  # no name has a colon
        width = min(int((match["width"] or "0")[:9]), _WIDEST)
        found.setdefault(name, ColumnChoice(name, width, bool(match["before"] or match["frozen"])))
    return tuple(sorted(found.values(), key=lambda shown: not shown.is_frozen))


def chosen_columns(text: str, keys: Sequence[str]) -> tuple[ColumnChoice, ...]:
    """The columns of ``--columns``; all of them where it isn't given.

    Raises:
        UserError: there is no such column.
    """

    def check(name: str) -> str:
        if name not in keys:
            hint = did_you_mean(name, keys) or f"There are {', '.join(keys)}."
            raise UserError(f'There is no column "{name}".', hint)
        return name

    return read_shown(text, check) or tuple(map(ColumnChoice, keys))


def order_arguments(keys: Sequence[str], default: str) -> tuple[Argument, ...]:
    """The options of a list for its order and its columns.

    Args:
        keys: the columns.
        default: which of them it is sorted by.
    """
    return (
        Argument(
            ("--columns",),
            f"columns: {keys[0]}!,{keys[1]}:20 (!: first and always in sight; :20: 20 wide)",
            "COLUMNS",
            default="",
            complete=functools.partial(complete_chosen, tuple(keys)),
        ),
        Argument(("-s", "--sort_by"), "the column to sort by", "KEY", default, choices=tuple(keys)),
        Argument(("-r", "--reverse"), "in descending order"),
    )


def by_key(items: Iterable[_Item], key: Callable[[_Item], Any], reverse: bool) -> list[_Item]:
    """Items by what a column says of them; those that it says nothing of come last in any case."""
    keys = [(key(item), item) for item in items]
    known = [pair for pair in keys if pair[0] is not None]
    known.sort(key=lambda pair: pair[0], reverse=reverse)
    return [item for _, item in known] + [item for found, item in keys if found is None]


def complete_chosen(keys: Sequence[str], context: Context, typed: str) -> Iterable[Candidate]:
    """The last of several columns with commas between; those that are there aren't offered."""
    head, comma, last = typed.rpartition(",")
    given = {_BEHIND.split(part, 1)[0] for part in head.split(",")}
    fitting = [key for key in keys if key.startswith(last) and key not in given]
    return [Candidate(f"{head}{comma}{key}") for key in fitting]


@dataclass(frozen=True)
class ListCommand:
    """The command line of a list, in parts.

    Attributes:
        name: of the command.
        options: flag -> value, but those of order and columns; empty ones aren't written.
        switches: flags without a value.
        shown: the columns on the screen.
        chosen: the columns as they were asked for; empty: they weren't.
        sort_by: the column that it is sorted by.
        reverse: in descending order.
        unsorted: the column whose order needs no option.
        sorts: the columns that it can be sorted by.
        filters: column -> the flag that takes a regular expression for it.
        flag: the option of the columns; empty: nothing is done to them.
        turned: the option of the descending order.
    """

    name: str
    options: Mapping[str, str] = field(default_factory=dict)
    switches: tuple[str, ...] = ()
    shown: tuple[ColumnChoice, ...] = ()
    chosen: str = ""
    sort_by: str = ""
    reverse: bool = False
    unsorted: str = ""
    sorts: Collection[str] = ()
    filters: Mapping[str, str] = field(default_factory=dict)
    flag: str = "-o"
    turned: str = "-r"

    @classmethod
    def of(
        cls,
        name: str,
        options: Mapping[str, str],
        order: argparse.Namespace,
        columns: Iterable[str],
        unsorted: str,
        **more: Any,
    ) -> ListCommand:
        """A list with the options of `order_arguments`.

        Args:
            name, options, unsorted: as the attributes.
            order: what was asked for.
            columns: those that there are.
            more: other attributes.
        """
        return cls(
            name,
            options,
            shown=chosen_columns(order.columns, [*columns]),
            chosen=order.columns,
            sort_by=order.sort_by,
            reverse=order.reverse,
            unsorted=unsorted,
            flag="--columns",
            **more,
        )

    @property
    def again(self) -> str:
        """The list without its order."""
        parts = [self.name]
        for flag, value in self.options.items():
            parts += [flag, quoted(value)] if value else []
        parts += [self.flag, quoted(self.chosen)] if self.chosen else []
        return " ".join([*parts, *self.switches])

    @property
    def text(self) -> str:
        """The whole command line."""
        is_sorted = self.sort_by and self.sort_by != self.unsorted
        return (
            self.again + f" -s {self.sort_by}" * bool(is_sorted) + f" {self.turned}" * self.reverse
        )

    def arrow(self, column: str) -> str:
        """Stands behind the head that the list is sorted by, if that was asked for."""
        if column != self.sort_by or (column == self.unsorted and not self.reverse):
            return ""
        return "↓" if self.reverse else "↑"

    def head(self, column: str, text: str) -> list[Span]:
        """The head of a column: it sorts, and says whether the list is sorted by it."""
        link, arrow = self.sorting_link(column), self.arrow(column)
        spans = [Span(text, "heading", link)]
        return [*spans, Span(arrow, "heading", link)] if arrow else spans

    def sorting_link(self, column: str) -> Link | None:
        """What a head does: sort the same list by its column, or turn it round."""
        if column not in self.sorts:
            return None
        turn = f" {self.turned}" if column == self.sort_by and not self.reverse else ""
        return Link(f"{self.again} -s {column}{turn}")

    def sorted(self, column: str, reverse: bool) -> str:
        """The list sorted by a column.

        Raises:
            UserError: it can't be.
        """
        if column not in self.sorts:
            keys = ", ".join(self.sorts)
            hint = f"It can be by {keys}." if keys else "& shows a part of it."
            raise UserError(f'This list can\'t be sorted by "{column}".', hint)
        return replace(self, sort_by=column, reverse=reverse).text

    def _showing(self, shown: Sequence[ColumnChoice]) -> str:
        if not shown:
            raise UserError("A list needs a column.")
        frozen_first = sorted(shown, key=lambda each: not each.is_frozen)
        return replace(self, chosen=",".join(map(str, frozen_first))).text

    @property
    def showing_all(self) -> str:
        """The list with the columns on the screen named."""
        return self._showing(self.shown)

    def without(self, column: str) -> str:
        """The list without a column."""
        return self._showing([each for each in self.shown if each.name != column])

    def as_wide(self, column: str, width: int) -> str:
        """The list with a column that is so wide; or as wide as ever, if it was given a width."""
        return self._showing(
            [
                each._replace(width=0 if each.width else width) if each.name == column else each
                for each in self.shown
            ]
        )

    def frozen(self, column: str) -> str:
        """The list with a column that comes first and stays in sight; or no longer does."""
        return self._showing(
            [
                each._replace(is_frozen=not each.is_frozen) if each.name == column else each
                for each in self.shown
            ]
        )

    def filtered(self, column: str, cell: str) -> str:
        """Only the rows with such a cell."""
        flag = self.filters.get(column)
        if flag is None:
            return rf"&(^|\s){re.escape(cell)}(\s|$)"
        return replace(self, options={**self.options, flag: f"^{re.escape(cell)}$"}).text
