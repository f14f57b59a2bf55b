"""Which timings `lp` and `ps` are about: the options they have in common, and what passes them."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Iterable
from typing import NamedTuple

from tfdbg_cli.commands.context import Context, compile_regex
from tfdbg_cli.commands.list_command import pattern_argument
from tfdbg_cli.commands.registry import Argument
from tfdbg_cli.commands.reply import Candidate
from tfdbg_cli.commands.shell.parsing import quoted
from tfdbg_cli.commands.tensors.intervals import TIME_UNITS, Interval
from tfdbg_cli.common.errors import UserError
from tfdbg_cli.dumps.profile import Profile, ProfileEntry

__all__ = [
    "DEVICE_ARGUMENT",
    "NODE_ARGUMENT",
    "OP_TYPE_ARGUMENT",
    "TIME_UNIT_ARGUMENT",
    "DeviceSelection",
    "filters_of",
    "options_text",
    "select",
]


def _profile_of(context: Context) -> Profile:
    found: Profile | None = context.dump.profile() if context.dump is not None else None
    return found or Profile()


def _devices(context: Context, typed: str) -> Iterable[Candidate]:
    names = [device.name for device in _profile_of(context).devices]
    return [Candidate(quoted(name), "device") for name in names if name.startswith(typed)]


def _op_types(context: Context, typed: str) -> Iterable[Candidate]:
    counts = Counter(entry.op_type for entry in _profile_of(context))
    return [
        Candidate(quoted(name), f"{count} execution(s)")
        for name, count in sorted(counts.items())
        if name.startswith(typed)
    ]


DEVICE_ARGUMENT = pattern_argument(
    ("-d", "--device_name_filter"), "only devices whose name matches", _devices
)
NODE_ARGUMENT = pattern_argument(("-n", "--node_name_filter"), "only nodes whose name matches")
OP_TYPE_ARGUMENT = pattern_argument(
    ("-t", "--op_type_filter"),
    "only ops whose type, or the type of their kernel, matches",
    _op_types,
)
TIME_UNIT_ARGUMENT = Argument(
    ("--time_unit",), "unit of all times shown", "UNIT", default="us", choices=tuple(TIME_UNITS)
)

# The options that choose what is listed: flag, name in the namespace, what the header calls it.
_FILTERS = (
    ("-d", "device_name_filter", "Device name regex filter"),
    ("-n", "node_name_filter", "Node name regex filter"),
    ("-t", "op_type_filter", "Op type regex filter"),
    ("-f", "file_path_filter", "File path regex filter"),
    ("--min_lineno", "min_lineno", "Lines from"),
    ("--max_lineno", "max_lineno", "Lines before"),
    ("-e", "execution_time", "Exec time"),
    ("-o", "op_time", "Op time"),
)


class DeviceSelection(NamedTuple):
    """What is listed of one device.

    Attributes:
        number: of the device among all, from 1.
        device: its name.
        entries: those that pass the filters.
    """

    number: int
    device: str
    entries: list[ProfileEntry]


def filters_of(arguments: argparse.Namespace) -> list[tuple[str, str, str]]:
    """Flag, value and caption of each filter that was given; see `select` for ``arguments``."""
    found = []
    for flag, name, caption in _FILTERS:
        value = getattr(arguments, name, None)
        if isinstance(value, Interval):
            found.append((flag, value.text, caption))
        elif value is not None and value not in ("", -1):
            found.append((flag, str(value), caption))
    return found


def options_text(arguments: argparse.Namespace) -> str:
    """The filters and the unit in effect, as they are written on a command line."""
    parts = [f" {flag} {quoted(value)}" for flag, value, _ in filters_of(arguments)]
    unit = f" --time_unit {arguments.time_unit}" if arguments.time_unit != "us" else ""
    return "".join(parts) + unit


def _passes(arguments: argparse.Namespace) -> Callable[[ProfileEntry], bool]:
    """The filters on entries, the cheap ones first: the line is looked up when all others pass."""
    tests: list[Callable[[ProfileEntry], bool]] = []
    if arguments.node_name_filter:
        node = compile_regex(arguments.node_name_filter, "-n")
        tests.append(lambda e: bool(node.search(e.node) or node.search(e.runtime_name)))
    if arguments.op_type_filter:
        op = compile_regex(arguments.op_type_filter, "-t")
        tests.append(lambda e: bool(op.search(e.op_type) or op.search(e.kernel)))
    for name in ("execution_time", "op_time"):
        interval: Interval | None = getattr(arguments, name, None)
        if interval is not None:
            tests.append(_within(interval, name))
    if getattr(arguments, "file_path_filter", ""):
        path = compile_regex(arguments.file_path_filter, "-f")
        tests.append(lambda e: e.place is not None and bool(path.search(e.place.file)))
    low, high = getattr(arguments, "min_lineno", -1), getattr(arguments, "max_lineno", -1)
    if low > 0:
        tests.append(lambda e: e.place is not None and e.place.line >= low)
    if high > 0:
        tests.append(lambda e: e.place is not None and e.place.line < high)
    return lambda entry: all(test(entry) for test in tests)


def _within(interval: Interval, name: str) -> Callable[[ProfileEntry], bool]:
    if name == "op_time":
        return lambda entry: interval.contains(entry.op_time)
    return lambda entry: interval.contains(entry.exec_time)


def select(profile: Profile, arguments: argparse.Namespace) -> list[DeviceSelection]:
    """The entries that pass the filters, of the devices that do.

    Args:
        profile: the timings.
        arguments: the filters; those that a command doesn't have count as not given.

    Raises:
        UserError: a regex is malformed, or no device has such a name.
    """
    passes = _passes(arguments)
    chosen = list(enumerate(profile.devices, 1))
    if arguments.device_name_filter:
        pattern = compile_regex(arguments.device_name_filter, "-d")
        chosen = [(number, device) for number, device in chosen if pattern.search(device.name)]
        if not chosen and profile.devices:
            names = ", ".join(device.name for device in profile.devices)
            raise UserError(
                f'No device matches "{arguments.device_name_filter}".', f"There are {names}."
            )
    return [
        DeviceSelection(number, device.name, [entry for entry in device.entries if passes(entry)])
        for number, device in chosen
    ]
