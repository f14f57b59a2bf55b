"""``lt``: the dumped tensors of a run, one a line, in time order."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from tfdbg_cli.commands.context import TENSOR_MODES, Context, compile_regex
from tfdbg_cli.commands.graph.verdict import first_origin
from tfdbg_cli.commands.json_lines import JSON_ARGUMENT, json_document
from tfdbg_cli.commands.list_command import (
    NODE_ARGUMENTS,
    ListCommand,
    by_key,
    exclude_argument,
    filter_argument,
    pattern_argument,
)
from tfdbg_cli.commands.registry import Argument, Command, Result
from tfdbg_cli.commands.shell import completers
from tfdbg_cli.commands.shell.parsing import quoted
from tfdbg_cli.commands.tensors.columns import (
    COLUMNS,
    WIDE,
    column,
    columns,
    complete_column,
    complete_columns,
)
from tfdbg_cli.commands.tensors.facts import TensorFacts
from tfdbg_cli.commands.tensors.table import TensorTable
from tfdbg_cli.commands.tensors.unlisted import has_unlisted, without_unlisted
from tfdbg_cli.commands.units import counted
from tfdbg_cli.commands.wrapping import columns_of, wrapped
from tfdbg_cli.common.documents import ChainDocument, Line, Link, MenuItem, Span, TextDocument, line
from tfdbg_cli.common.errors import DumpError, UserError, one_line
from tfdbg_cli.dumps.dump import Datum, Dump
from tfdbg_cli.filters.origins import decided_by, left_out

__all__ = ["COMMANDS", "LIST_TENSORS", "passing"]

# A dump with hundreds of damaged files must not push its good tensors off the screen.
_WARNINGS = 6


class _Selection(NamedTuple):
    """What passes the filters.

    Attributes:
        found: the tensors.
        hidden: how many views there are besides, whether or not they pass the tensor filter.
        failures: one line for each tensor that a filter choked on.
    """

    found: Sequence[Datum]
    hidden: int
    failures: list[str]


def _without_views(
    context: Context, arguments: argparse.Namespace
) -> tuple[Sequence[Datum], Sequence[Datum]]:
    """The tensors, and those that are listed where nothing else is asked for."""
    dump = context.need_dump()
    data = dump.data()
    if arguments.selected:
        chosen = [datum for datum in data if datum.tensor_name in context.selected]
        return chosen, chosen
    return data, data if arguments.views else dump.tables().without_views()


def passing(context: Context, arguments: argparse.Namespace) -> _Selection:
    """The tensors that pass every filter."""
    dump = context.need_dump()
    if arguments.filter_exclude_node_names and not arguments.tensor_filter:
        raise UserError("-fenn is valid only together with -f FILTER.")
    options = ("node_name_filter", "op_type_filter", "dtype", "filter_exclude_node_names")
    node, op, dtype, exclude = (
        _regex(getattr(arguments, option), flag)
        for option, flag in zip(options, ("-n", "-t", "--dtype", "-fenn"), strict=True)
    )
    predicate = None
    if arguments.tensor_filter:
        predicate = context.filters.predicate(arguments.tensor_filter)
        if (known := _found_before(context, arguments)) is not None:
            return known
    data, seen = _without_views(context, arguments)
    if predicate is None and not (arguments.views or arguments.selected):
        seen = without_unlisted(dump, seen)
    hidden = len(data) - len(seen)
    failures: list[str] = []

    def failed(datum: Datum, error: Exception) -> None:
        if not isinstance(error, DumpError):
            failures.append(f"{datum.tensor_name}: {one_line(error)}")
        elif not dump.warnings:  # most dumps have said it themselves
            failures.append(f"{datum.tensor_name}: {error}")

    def named() -> Iterator[Datum]:
        nonlocal hidden
        for datum in data:
            if node is not None and not node.search(datum.node_name):
                continue
            if exclude is not None and exclude.search(datum.node_name):
                continue
            if op is not None and not op.search(dump.op_type(datum.node_name)):
                continue
            try:
                if dtype is not None and not dtype.search(datum.dtype):
                    continue
            except Exception as error:
                failed(datum, error)
                continue
            if datum.is_view and not arguments.views:
                hidden += 1
                continue
            yield datum

    if any((node, op, dtype, exclude)):
        hidden = 0
        seen = list(named())
    if predicate is None:
        return _Selection(seen, hidden, failures)
    found = [*dump.iter_find(predicate, on_error=failed, among=seen)]
    return _Selection(found, hidden, failures)


def _found_before(context: Context, arguments: argparse.Namespace) -> _Selection | None:
    """What passes the tensor filter, if that is known and nothing else is asked for."""
    names = ("node_name_filter", "op_type_filter", "dtype", "filter_exclude_node_names")
    if any(getattr(arguments, name) for name in (*names, "selected", "views")):
        return None
    known = context.found_before(arguments.tensor_filter)
    if known is None:
        return None
    data, seen = _without_views(context, arguments)
    return _Selection(known, len(data) - len(seen), [])


def _regex(text: str, what: str) -> re.Pattern[str] | None:
    return compile_regex(text, what) if text else None


def _sort(facts: TensorFacts, found: Sequence[Datum], name: str, reverse: bool) -> Sequence[Datum]:
    """The tensors by a column; those that it says nothing of come last in either direction."""
    if name == "time":
        return found[::-1] if reverse else found
    read = column(name).key
    return by_key(found, lambda datum: read(facts, datum), reverse)


def _written(arguments: argparse.Namespace) -> ListCommand:
    """This list as a command line."""
    return ListCommand(
        "lt",
        {
            "-f": arguments.tensor_filter,
            "-fenn": arguments.filter_exclude_node_names,
            "-n": arguments.node_name_filter,
            "-t": arguments.op_type_filter,
            "--dtype": arguments.dtype,
        },
        ("--views",) * arguments.views + ("--selected",) * arguments.selected,
        chosen=arguments.columns,
        sort_by=column(arguments.sort_by).name,
        reverse=arguments.reverse,
        unsorted="time",
    )


def _header(dump: Dump, arguments: argparse.Namespace, selection: _Selection) -> list[Line]:
    passing = f' passing filter "{arguments.tensor_filter}"' if arguments.tensor_filter else ""
    count = len(selection.found)
    header = [line((f"{count} dumped tensor(s){passing}:", "bold"))]
    failures = selection.failures
    if selection.hidden and not arguments.tensor_filter:
        views = counted(selection.hidden, "view")
        if has_unlisted(dump):
            views = f"{selection.hidden} constants, shapes and views"
        again = f"{_written(arguments).again} --views"
        header[0] = line((header[0].text, "bold"), " ", (f"({views} hidden)", "dim", again))
    for what, regex in (
        ("Op type", arguments.op_type_filter),
        ("Node name", arguments.node_name_filter),
        ("Dtype", arguments.dtype),
    ):
        if regex:
            header.append(line(f'{what} regex filter: "{regex}"'))
    warnings = dump.warnings[:_WARNINGS]
    if len(dump.warnings) > _WARNINGS:
        warnings.append(f"{len(dump.warnings) - _WARNINGS} more like these")
    if failures:
        what = "the filter raised for" if arguments.tensor_filter else "the values can't be read of"
        warnings.append(f"{what} {len(failures)} tensor(s): {failures[0]}")
    header += [line((f"Warning: {text}", "warning")) for text in warnings]
    if dump.kept:
        header.append(line((dump.kept, "dim")))
    header += _left_out(dump, arguments)
    if not dump.data():
        header.append(line(("This run dumped nothing.", "dim")))
    return header


def _left_out(dump: Dump, arguments: argparse.Namespace) -> list[Line]:
    """What `origin_of_nonfinite` passes over though it went bad; told of whole lists only."""
    rest = (
        arguments.node_name_filter,
        arguments.op_type_filter,
        arguments.dtype,
        arguments.filter_exclude_node_names,
    )
    if arguments.tensor_filter != "origin_of_nonfinite" or any(rest):
        return []
    found = left_out(dump)
    if found:  # something bad came of what is told first: the gradient of a log that a where drops
        told = first_origin(dump)  # in a loop, of any of its executions
        decided = decided_by(dump, told) if told is not None else None
        apart = {each.tensor_name for each in (told, *(decided or ())[:1]) if each is not None}
        found = [each for each in found if each.tensor_name not in apart]
    if not found:
        return []
    name = found[0].tensor_name
    more = f" and {len(found) - 1} more" if len(found) > 1 else ""
    makes = "they make" if more else "it makes"
    text = f"{more} stayed local: {makes} nothing bad that the run returns or updates."
    link = f"li --to-first-bad {quoted(name)}"
    return [line(Span(name, "link", Link(link)), (text, "dim"))]


def _record(facts: TensorFacts, datum: Datum, has_histogram: bool) -> Mapping[str, Any]:
    """A tensor for ``--json``."""
    found = facts.measured(datum)
    row = facts.facts(datum, found)
    record = {
        "tensor": datum.tensor_name,
        "node": datum.node_name,
        "slot": datum.output_slot,
        "debug_op": datum.debug_op,
        "execution": datum.execution,
        "device": datum.device_name,
        "time_ms": row.milliseconds,
        "op_type": row.op_type,
        "dtype": row.dtype,
        "shape": None if row.shape is None else list(row.shape),
        "bytes": row.nbytes,
        "health": None if found.health is None else found.health._asdict(),
        "min": found.minimum,
        "max": found.maximum,
        "mean": found.mean,
        "error": found.error or None,
    }
    if has_histogram:
        bins = facts.measurements.histogram(datum)
        record["histogram"] = {"edges": list(bins.edges), "counts": list(bins.counts)}
    return record


def _list_tensors(context: Context, arguments: argparse.Namespace) -> Result:
    dump = context.need_dump()
    sort_by = column(arguments.sort_by).name
    facts = TensorFacts(dump)
    selection = passing(context, arguments)
    found = _sort(facts, selection.found, sort_by, arguments.reverse)
    # Says what is wrong with them.
    chosen = columns(arguments.columns) if arguments.columns else ()
    if arguments.json:
        has_histogram = any(each.name == "hist" for each in chosen)
        return json_document(
            len(found), lambda number: _record(facts, found[number], has_histogram)
        )
    table = TensorTable(
        facts,
        found,
        max(context.width, WIDE - 1) if context.is_printed else context.width,
        written=_written(arguments),
        selected=context.selected,
    )
    told = [*context.take_notes(), *_header(dump, arguments, selection)]
    header = [*wrapped(told, columns_of(context), len("Warning: ")), line()]
    return ChainDocument(
        [TextDocument(header), table],
        menu=(
            MenuItem("list_tensors", "lt", enabled=bool(arguments.tensor_filter)),
            MenuItem("run_info", "run_info"),
            MenuItem("help", "help"),
        ),
    )


_DETAILS = "\n".join(
    [
        "Columns, for -o and -s:",
        *(f"  {item.name:<8} {item.summary}" for item in COLUMNS),
        "",
        "min, max and mean are shown on screens of 120 columns and more, or with -o.",
        "The tensor's name comes last unless -o places it. After a column's name, :20 sets its",
        "width, and ! puts it first and keeps it in sight while the others scroll sideways.",
        "",
        "Health, min, max, mean and histograms are computed while you look: … isn't computed yet,",
        "? can't be read, - doesn't exist for a tensor of this type.",
        "Sorting by one of them computes it for every tensor of the list.",
        "",
        "PyTorch: tensors that share the elements of another one (x.t(), x.view(-1)) are left out",
        "without --views. The nodes are there in any case: li and lo pass through them.",
        "TensorFlow 2: constants, shapes, what is computed from shapes, and reshaped or sliced",
        "tensors are left out as well, unless a filter is given.",
        "",
        "The original's keys timestamp, dump_size and tensor_name mean time, size and name.",
    ]
)

LIST_TENSORS = Command(
    "list_tensors",
    ("lt",),
    "tensors",
    "List the tensors of this run in the order in which they were computed.",
    _list_tensors,
    (
        filter_argument("only tensors that pass this filter"),
        exclude_argument("with -f: leave out nodes whose name matches"),
        *NODE_ARGUMENTS,
        pattern_argument(
            ("--dtype",), "only tensors whose element type matches", completers.dtypes
        ),
        Argument(
            ("-o", "--columns"),
            "columns to show, separated by commas: time,health,mean",
            "COLUMNS",
            default="",
            complete=complete_columns,
        ),
        Argument(
            ("-s", "--sort_by"),
            "the column to sort by",
            "COLUMN",
            default="time",
            complete=complete_column,
        ),
        Argument(("-r", "--reverse"), "in descending order"),
        Argument(("--selected",), "only selected tensors"),
        Argument(
            ("--views",),
            "also tensors that share another tensor's elements; Keras: also constants and shapes",
        ),
        JSON_ARGUMENT,
    ),
    modes=TENSOR_MODES,
    examples=(
        ("lt", "every tensor, the first one on top"),
        ("lt -f has_inf_or_nan", "only those with a nan or an infinity"),
        ("lt -n hidden -t MatMul", "regexes match anywhere in the name"),
        ("lt -s size -r", "the largest first"),
        ("lt -s health -r -o health,min,max", "those with the most bad elements first"),
        (
            "lt -o name!,time,op_type:24,health",
            "the name first and fixed, op types 24 characters wide",
        ),
        ("lt -o hist,min,max", "a small histogram of each tensor"),
        ("lt -n ^gradients/ -o phase,module,health", "PyTorch: by phase and module"),
        ("lt --dtype ^float16 --json", "for other programs"),
    ),
    details=_DETAILS,
)

COMMANDS = (LIST_TENSORS,)
