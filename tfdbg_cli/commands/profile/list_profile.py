"""``lp``: how long each operation of a timed run took, device by device."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tfdbg_cli.commands.context import PROFILE_MODES, Context
from tfdbg_cli.commands.graph.phases import PHASES, Phase, phases_of
from tfdbg_cli.commands.json_lines import JSON_ARGUMENT, json_document
from tfdbg_cli.commands.list_command import (
    ColumnChoice,
    ListCommand,
    order_arguments,
    pattern_argument,
)
from tfdbg_cli.commands.profile.filters import (
    DEVICE_ARGUMENT,
    NODE_ARGUMENT,
    OP_TYPE_ARGUMENT,
    TIME_UNIT_ARGUMENT,
    DeviceSelection,
    filters_of,
    select,
)
from tfdbg_cli.commands.registry import Argument, Command, Result
from tfdbg_cli.commands.shell import completers
from tfdbg_cli.commands.shell.parsing import quoted
from tfdbg_cli.commands.spans import node_span
from tfdbg_cli.commands.table import TableDocument
from tfdbg_cli.commands.tensors.intervals import parse_time_interval, time_text
from tfdbg_cli.common.documents import (
    ChainDocument,
    Document,
    Line,
    Link,
    MenuItem,
    Span,
    TextDocument,
    line,
)
from tfdbg_cli.dumps.dump import Dump
from tfdbg_cli.dumps.profile import Profile, ProfileEntry

__all__ = ["COMMANDS"]

# A profile in a damaged folder must not push its timings off the screen.
_WARNINGS = 6


def _line_of(entry: ProfileEntry) -> tuple[str, int, str]:
    return entry.place or ("", 0, "")


_SORT_KEYS: Mapping[str, Callable[[ProfileEntry], Any]] = {
    "node": lambda entry: entry.node,
    "op_type": lambda entry: (entry.op_type, entry.kernel),
    "start_time": lambda entry: entry.start,
    "op_time": lambda entry: entry.op_time,
    "exec_time": lambda entry: entry.exec_time,
    "line": _line_of,
}


class _Table(TableDocument):
    """One device's rows, formatted one by one when somebody looks."""

    def __init__(
        self, dump: Dump, selected: DeviceSelection, arguments: argparse.Namespace, width: int
    ) -> None:
        self._dump = dump
        self._entries = entries = selected.entries
        self._arguments = arguments
        self._unit = unit = arguments.time_unit
        self._totals = (
            time_text(sum(entry.op_time for entry in entries), unit),
            time_text(sum(entry.exec_time for entry in entries), unit),
        )
        columns = {
            "node": ("Node", max(len(_TOTAL), *(len(entry.node) for entry in entries))),
            "op_type": ("Op Type", max(len(_type_text(entry)) for entry in entries)),
            "start_time": (f"Start Time ({unit})", -len(time_text(entries[-1].start, unit))),
            "op_time": (f"Op Time ({unit})", -len(self._totals[0])),
            "exec_time": (f"Exec Time ({unit})", -len(self._totals[1])),
            "line": ("Filename:Lineno(function)", 0),
        }
        options = {flag: value for flag, value, _ in filters_of(arguments)}
        options["--time_unit"] = "" if unit == "us" else unit
        filters = {"node": "-n", "op_type": "-t"}
        sorts = tuple(_SORT_KEYS)
        written = ListCommand.of(
            "lp", options, arguments, columns, "start_time", sorts=sorts, filters=filters
        )
        taken = sum(max(abs(wide), len(head) * bool(wide)) + 2 for head, wide in columns.values())
        if not arguments.columns and taken > width and columns["node"][1] > _LONG_NAME:
            # The times come first, the names push only the rest.
            names = ("op_time", "exec_time", "op_type", "node", "start_time", "line")
            written = replace(written, shown=tuple(map(ColumnChoice, names)))
        super().__init__(len(entries), written, columns)
        entries.sort(key=_SORT_KEYS[arguments.sort_by], reverse=arguments.reverse)

    def rows(self, start: int, stop: int) -> list[Line]:
        """One execution of an op each."""
        return [self.row(self._cells(entry)) for entry in self._entries[start:stop]]

    def _cells(self, entry: ProfileEntry) -> Mapping[str, Sequence[Span]]:
        unit = self._unit
        return {
            "node": [node_span(self._dump.graph(), entry.node)],
            "op_type": [Span(_type_text(entry), "op_type")],
            "start_time": [Span(time_text(entry.start, unit), "dim")],
            "op_time": [Span(time_text(entry.op_time, unit), "number")],
            "exec_time": [Span(time_text(entry.exec_time, unit), "number")],
            "line": [self._place(entry)],
        }

    def _place(self, entry: ProfileEntry) -> Span:
        place = entry.place
        if place is None:
            return Span("")
        if self._dump.sources().lines(place.file) is None:
            return Span(str(place), "dim")
        parts = [f"ps {quoted(place.file)} --init_line {place.line}"]
        for flag, value, _ in filters_of(self._arguments):
            if flag in ("-d", "-n", "-t"):
                parts.append(f"{flag} {quoted(value)}")
        return Span(str(place), "link", Link(" ".join(parts)))

    def total(self) -> Line:
        """The sums of what is listed."""
        texts = zip(("node", "op_time", "exec_time"), (_TOTAL, *self._totals), strict=True)
        return self.row({name: [Span(text, "bold")] for name, text in texts})


_TOTAL = "Device Total"
# Names that are longer come last where the screen is too narrow for all columns.
_LONG_NAME = 40


def _type_text(entry: ProfileEntry) -> str:
    """``MatMul``, or ``Relu (_FusedMatMul)`` where another op was executed for it."""
    return f"{entry.op_type} ({entry.kernel})" if entry.kernel else entry.op_type


def _json(chosen: list[DeviceSelection]) -> Document:
    rows = [(one.device, entry) for one in chosen for entry in one.entries]

    def item(number: int) -> dict[str, Any]:
        device, entry = rows[number]
        file, line_number, function = _line_of(entry)
        return {
            "device": device,
            "node": entry.node,
            "op_type": entry.op_type,
            "kernel": entry.kernel or entry.op_type,
            "runtime_name": entry.runtime_name or entry.node,
            "start_time_us": round(entry.start, 3),
            "op_time_us": round(entry.op_time, 3),
            "exec_time_us": round(entry.exec_time, 3),
            "file": file or None,
            "line": line_number or None,
            "function": function or None,
        }

    return json_document(len(rows), item)


def _by_phase(dump: Dump, chosen: list[DeviceSelection], unit: str) -> list[Line]:
    """How long the parts of a training step took, where there are parts."""
    entries = [entry for one in chosen for entry in one.entries]
    phases = phases_of(dump, {entry.node for entry in entries})
    times: dict[Phase, float] = {}
    for entry in entries if phases else ():
        phase = phases[entry.node]
        times[phase] = times.get(phase, 0.0) + entry.exec_time
    parts = (f"{each.name} {time_text(times[each], unit)}" for each in PHASES if each in times)
    return [line(f"By phase: {', '.join(parts)}")] if times else []


def _header(
    context: Context, profile: Profile, chosen: list[DeviceSelection], arguments: argparse.Namespace
) -> list[Line]:
    dump = context.need_dump()
    count = sum(len(one.entries) for one in chosen)
    lines = context.take_notes()
    filters = filters_of(arguments)
    passing = f"{count} of {len(profile)}" if filters else str(count)
    devices = len(profile.devices)
    lines.append(line((f"{passing} op execution(s) on {devices} device(s):", "bold")))
    lines += [line(f'{caption}: "{value}"') for _, value, caption in filters]
    lines += _by_phase(dump, chosen, arguments.time_unit)
    lines += [line((f"Warning: {text}", "warning")) for text in dump.warnings[:_WARNINGS]]
    left = len(dump.warnings) - _WARNINGS
    if left > 0:
        lines.append(line((f"Warning: {left} more like these", "warning")))
    if not len(profile):
        lines.append(line(("There are no op timings of this run.", "dim")))
    return lines


def _list_profile(context: Context, arguments: argparse.Namespace) -> Result:
    dump = context.need_dump()
    profile: Profile = dump.profile() or Profile()
    chosen = select(profile, arguments)
    if arguments.json:
        for one in chosen:
            one.entries.sort(key=_SORT_KEYS[arguments.sort_by], reverse=arguments.reverse)
        return _json(chosen)
    parts: list[Document] = [TextDocument(_header(context, profile, chosen, arguments))]
    for one in chosen if len(profile) else ():
        name = f"Device {one.number} of {len(profile.devices)}: {one.device}"
        head = [line(), line((name, "bold")), line()]
        if not one.entries:
            parts.append(TextDocument([*head, line(("No op execution passes.", "dim"))]))
            continue
        table = _Table(dump, one, arguments, context.width)
        parts += [TextDocument(head), table]
        parts.append(TextDocument([line(), table.total()]))
    return ChainDocument(
        parts,
        menu=(
            MenuItem("list_profile", "lp", enabled=bool(filters_of(arguments))),
            MenuItem("run_info", "run_info"),
            MenuItem("help", "help"),
        ),
    )


LIST_PROFILE = Command(
    "list_profile",
    ("lp",),
    "profile",
    "List the times of this run's ops, in the order of their start.",
    _list_profile,
    (
        DEVICE_ARGUMENT,
        NODE_ARGUMENT,
        OP_TYPE_ARGUMENT,
        pattern_argument(
            ("-f", "--file_path_filter"),
            "only ops made in a file whose path matches",
            completers.source_files,
        ),
        Argument(("--min_lineno",), "only ops made on this line or below; -1: any", "N", -1, int),
        Argument(("--max_lineno",), "only ops made above this line; -1: any", "N", -1, int),
        Argument(
            ("-e", "--execution_time"),
            "only ops whose total time is in this interval: >100us, <=1ms or [10us,1ms)",
            "INTERVAL",
            kind=parse_time_interval,
        ),
        Argument(
            ("-o", "--op_time"),
            "only ops whose kernel time is in this interval: >100us, <=1ms or [10us,1ms)",
            "INTERVAL",
            kind=parse_time_interval,
        ),
        *order_arguments(tuple(_SORT_KEYS), "start_time"),
        TIME_UNIT_ARGUMENT,
        JSON_ARGUMENT,
    ),
    modes=PROFILE_MODES,
    examples=(
        ("lp", "every op, the first one on top"),
        ("lp -s exec_time -r", "the slowest first"),
        ("lp --columns exec_time,node:30,line", "these columns, the node in 30 characters"),
        ("lp -t MatMul -e >100us", "matrix products that took more than 0.1 ms"),
        ("lp -f train.py --min_lineno 40 --max_lineno 60", "the ops of lines 40 to 59"),
        ("lp --time_unit ms -o [1ms,10ms)", "in milliseconds"),
    ),
    details="Op time is the time of the op's kernel. Exec time also includes preparation and "
    "passing on the results. Start times count from the first op of the run. An op "
    "that the runtime fused, rewrote or made itself is listed under the node it "
    "comes from, with the executed op in parentheses. The line is the innermost line "
    "outside libraries that made the node.\n\n"
    "PyTorch: the time of an op on the CPU is that of its call. On a GPU op time is "
    "its time there, and exec time the same, or the time of the call if that is "
    "longer. Ops of a backward pass count for the line of their forward op.",
)

COMMANDS = (LIST_PROFILE,)
