"""Sizes and runs in a few words, and the menu that screens about a node share."""

from __future__ import annotations

__all__ = [
    "bytes_text",
    "counted",
    "describe_run",
    "device_text",
    "execution_word",
    "has_debug_ops",
    "node_menu",
    "watch_name",
]

from tfdbg_cli.commands.shell.parsing import quoted
from tfdbg_cli.common.documents import MenuItem
from tfdbg_cli.common.traits import traits_of
from tfdbg_cli.dumps.dump import Datum, Dump, RunInfo
from tfdbg_cli.dumps.profile import is_profile_only


def bytes_text(count: int, unit: str = "") -> str:
    """A number of bytes, ``182``, ``2.18k``, ``1.50M``, ``3.20G``."""
    value = float(count)
    for suffix in ("", "k", "M", "G", "T"):
        if value < 1000 or suffix == "T":
            return f"{count}{unit}" if not suffix else f"{value:.2f}{suffix}{unit}"
        value /= 1024
    raise AssertionError


def has_debug_ops(info: RunInfo | None) -> bool:
    """Whether a run speaks of fetches, devices, debug ops and dumps as the original does."""
    if info is None or not info.engine:
        return True
    traits = traits_of(info.engine)
    return traits is not None and traits.has_debug_ops


def counted(count: int, word: str, many: str | None = None) -> str:
    """``1 run``, ``2 runs``."""
    return f"{count} {word if count == 1 else many or word + 's'}"


def describe_run(info: RunInfo) -> str:
    """A run in a few words: ``run #2: 1 fetch (train/Adam); 2 feeds``."""
    number = info.number or info.call_count
    head = f"{info.kind} #{number}: " if number else ""
    if info.runner:
        return head + info.runner
    if info.unit == "program" and not info.fetches:
        return head.removesuffix(": ") or info.kind
    fetch, feed = ("fetch", "feed") if has_debug_ops(info) else ("output", "input")
    fetches = counted(len(info.fetches), fetch, "fetches" if fetch == "fetch" else None)
    if len(info.fetches) == 1:
        fetches += f" ({info.fetches[0]})"
    feeds = counted(len(info.feeds), feed)
    if len(info.feeds) == 1:
        feeds += f" ({next(iter(info.feeds))})"
    return f"{head}{fetches}; {feeds}"


def device_text(dump: Dump, device: str) -> str:
    """A device as the program's own framework calls it: ``CPU:0``."""
    return device if has_debug_ops(dump.run_info()) else device.rpartition("/device:")[2]


def watch_name(dump: Dump, datum: Datum) -> str:
    """The name of a tensor, with the debug op where the framework has such."""
    is_plain = datum.debug_op == "DebugIdentity" and not has_debug_ops(dump.run_info())
    return datum.tensor_name if is_plain else datum.watch_key


def execution_word(dump: Dump) -> str:
    """What one of several values of a tensor is called.

    Not an iteration: of a loop in a loop, or of a branch in one, the numbers go on.
    """
    return "dump" if has_debug_ops(dump.run_info()) else "execution"


def node_menu(dump: Dump, node: str, current: str) -> tuple[MenuItem, ...]:
    """The menu of a screen about one node.

    The command that it shows is disabled, and those that the dump has nothing for.
    """
    graph = dump.graph()
    is_known = graph is not None and node in graph
    items = (
        ("node_info", f"ni -a -d -t {quoted(node)}", is_known),
        ("print_tensor", f"pt {quoted(node)}", bool(dump.by_node(node))),
        ("list_inputs", f"li -c -r {quoted(node)}", is_known),
        ("list_outputs", f"lo -c -r {quoted(node)}", is_known),
        ("graph", f"graph {quoted(node)}", is_known),
        ("list_profile", "lp", True) if is_profile_only(dump) else ("list_tensors", "lt", True),
    )
    return tuple(
        MenuItem(name, command, enabled and name != current) for name, command, enabled in items
    )
