"""``lt``: the dumped tensors of a run, one a line, in time order."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from tfdbg_cli.commands import completers
from tfdbg_cli.commands.context import TENSOR_MODES, Context, compile_regex
from tfdbg_cli.commands.parsing import quoted
from tfdbg_cli.commands.registry import Argument, Command, Result
from tfdbg_cli.commands.units import bytes_text
from tfdbg_cli.documents import (
    ChainDocument,
    LazyDocument,
    Line,
    Link,
    MenuItem,
    Span,
    TextDocument,
    line,
)
from tfdbg_cli.dumps.dump import Datum, Dump
from tfdbg_cli.errors import DumpError, UserError, one_line

__all__ = ["COMMANDS"]

# A dump with hundreds of damaged files must not push its good tensors off the screen.
_WARNINGS = 6

_SORT_KEYS = ("timestamp", "dump_size", "op_type", "tensor_name")


def _sort_key(key: str, dump: Dump) -> Callable[[Datum], Any]:
    if key == "dump_size":
        return lambda datum: datum.nbytes
    if key == "op_type":
        return lambda datum: dump.op_type(datum.node_name)
    if key == "tensor_name":
        return lambda datum: datum.tensor_name
    return lambda datum: 0  # data() is in time order, and sorting is stable


def _select(context: Context, arguments: argparse.Namespace) -> tuple[list[Datum], list[str]]:
    """The tensors that pass every filter, and one line for each tensor a filter choked on."""
    dump = context.need_dump()
    failures: list[str] = []
    if arguments.filter_exclude_node_names and not arguments.tensor_filter:
        raise UserError("-fenn is valid only together with -f FILTER.")
    node = compile_regex(arguments.node_name_filter, "-n") if arguments.node_name_filter else None
    op = compile_regex(arguments.op_type_filter, "-t") if arguments.op_type_filter else None
    predicate = exclude = None
    if arguments.tensor_filter:
        predicate = context.filters.predicate(arguments.tensor_filter)
        if arguments.filter_exclude_node_names:
            exclude = compile_regex(arguments.filter_exclude_node_names, "-fenn")
    found = []
    for datum in dump.data():
        if node is not None and not node.search(datum.node_name):
            continue
        if op is not None and not op.search(dump.op_type(datum.node_name)):
            continue
        if exclude is not None and exclude.search(datum.node_name):
            continue
        if predicate is not None:
            try:
                if not predicate(datum, dump.value(datum)):
                    continue
            except DumpError as error:
                if not dump.warnings:  # most dumps have said it themselves
                    failures.append(f"{datum.tensor_name}: {error}")
                continue
            except Exception as error:
                failures.append(f"{datum.tensor_name}: {one_line(error)}")
                continue
        found.append(datum)
    found.sort(key=_sort_key(arguments.sort_by, dump), reverse=arguments.reverse)
    if arguments.reverse and arguments.sort_by == "timestamp":
        found.reverse()
    return found, failures


def _repeat_flags(arguments: argparse.Namespace) -> str:
    """The options of this list, for the links that sort it anew."""
    parts = ["lt"]
    for flag, value in (
        ("-f", arguments.tensor_filter),
        ("-fenn", arguments.filter_exclude_node_names),
        ("-n", arguments.node_name_filter),
        ("-t", arguments.op_type_filter),
    ):
        if value:
            parts += [flag, quoted(value)]
    return " ".join(parts)


def _shape_text(datum: Datum) -> str:
    shape = datum.shape
    return "?" if shape is None else "(" + ", ".join(map(str, shape)) + ")"


class _Table:
    """The rows, formatted one by one when somebody looks."""

    def __init__(self, dump: Dump, found: list[Datum]) -> None:
        self.dump, self.found = dump, found
        self.t0 = dump.t0()
        last = max((datum.timestamp for datum in found), default=self.t0)
        self.time_width = max(len(self._time(last)), len("t (ms)"))
        types = {dump.op_type(datum.node_name) for datum in found}
        self.type_width = max([len("Op type"), *(len(name) for name in types)])
        self.repeated = {d.tensor_name for d in dump.data() if d.execution}

    def _time(self, timestamp: int) -> str:
        return f"[{(timestamp - self.t0) / 1000:.3f}]"

    def heads(self, arguments: argparse.Namespace) -> Line:
        again = _repeat_flags(arguments)

        def head(text: str, key: str, width: int) -> list[Span]:
            is_key = arguments.sort_by == key
            turn = " -r" if is_key and not arguments.reverse else ""
            pad = " " * (width - len(text) + 1)
            return [Span(text, "heading", Link(f"{again} -s {key}{turn}")), Span(pad)]

        return Line(
            [
                *head("t (ms)", "timestamp", self.time_width),
                *head("Size (B)", "dump_size", 8),
                *head("Op type", "op_type", self.type_width),
                Span(f"{'Dtype':<9} {'Shape':<14} ", "heading"),
                *head("Tensor name", "tensor_name", 11),
            ]
        )

    def row(self, number: int) -> Line:
        datum = self.found[number]
        try:
            size, dtype, shape = bytes_text(datum.nbytes), datum.dtype, _shape_text(datum)
        except UserError:
            size, dtype, shape = "?", "(damaged)", "?"
        name = quoted(datum.tensor_name)
        label, command = datum.tensor_name, f"pt {name}"
        if datum.tensor_name in self.repeated:
            label += f" (#{datum.execution})"
            command += f" -n {datum.execution}"
        return Line(
            [
                Span(f"{self._time(datum.timestamp):<{self.time_width}} ", "dim"),
                Span(f"{size:<8} "),
                Span(f"{self.dump.op_type(datum.node_name):<{self.type_width}} ", "op_type"),
                Span(f"{dtype:<9} {shape:<14} "),
                Span(label, "link", Link(command)),
            ]
        )


def _list_tensors(context: Context, arguments: argparse.Namespace) -> Result:
    dump = context.need_dump()
    found, failures = _select(context, arguments)
    passing = f' passing filter "{arguments.tensor_filter}"' if arguments.tensor_filter else ""
    header = [*context.take_notes(), line((f"{len(found)} dumped tensor(s){passing}:", "bold"))]
    if arguments.op_type_filter:
        header.append(line(f'Op type regex filter: "{arguments.op_type_filter}"'))
    if arguments.node_name_filter:
        header.append(line(f'Node name regex filter: "{arguments.node_name_filter}"'))
    header += [line((f"Warning: {text}", "warning")) for text in dump.warnings[:_WARNINGS]]
    if len(dump.warnings) > _WARNINGS:
        header.append(
            line((f"Warning: {len(dump.warnings) - _WARNINGS} more like these", "warning"))
        )
    if failures:
        count = len(failures)
        header.append(
            line((f"Warning: the filter raised for {count} tensor(s): {failures[0]}", "warning"))
        )
    if not dump.data():
        header.append(line(("This run dumped nothing.", "dim")))
    table = _Table(dump, found)
    header += [line(), table.heads(arguments)]
    return ChainDocument(
        [TextDocument(header), LazyDocument(len(found), table.row)],
        title="",
        menu=(
            MenuItem("list_tensors", "lt", enabled=bool(passing)),
            MenuItem("run_info", "run_info"),
            MenuItem("help", "help"),
        ),
    )


LIST_TENSORS = Command(
    "list_tensors",
    ("lt",),
    "tensors",
    "List the tensors of this run in the order in which they were computed.",
    _list_tensors,
    (
        Argument(
            ("-f", "--tensor_filter"),
            "only tensors that pass this filter",
            "FILTER",
            default="",
            complete=completers.filters,
        ),
        Argument(
            ("-fenn", "--filter_exclude_node_names"),
            "with -f: leave out nodes whose name matches",
            "REGEX",
            default="",
        ),
        Argument(("-n", "--node_name_filter"), "only nodes whose name matches", "REGEX", ""),
        Argument(("-t", "--op_type_filter"), "only ops whose type matches", "REGEX", ""),
        Argument(
            ("-s", "--sort_by"),
            f"one of {', '.join(_SORT_KEYS)}",
            "KEY",
            default="timestamp",
            choices=_SORT_KEYS,
        ),
        Argument(("-r", "--reverse"), "in descending order"),
    ),
    modes=TENSOR_MODES,
    examples=(
        ("lt", "every tensor, the first one on top"),
        ("lt -f has_inf_or_nan", "only those with a nan or an infinity"),
        ("lt -n hidden -t MatMul", "regexes match anywhere in the name"),
        ("lt -s dump_size -r", "the largest first"),
    ),
)

COMMANDS = (LIST_TENSORS,)
