"""Sizes for people, and the menu that screens about a node share."""

from __future__ import annotations

__all__ = ["bytes_text", "node_menu"]

from tfdbg_cli.commands.shell.parsing import quoted
from tfdbg_cli.common.documents import MenuItem
from tfdbg_cli.dumps.dump import Dump
from tfdbg_cli.dumps.profile import is_profile_only


def bytes_text(count: int, unit: str = "") -> str:
    """A number of bytes, ``182``, ``2.18k``, ``1.50M``, ``3.20G``."""
    value = float(count)
    for suffix in ("", "k", "M", "G", "T"):
        if value < 1000 or suffix == "T":
            return f"{count}{unit}" if not suffix else f"{value:.2f}{suffix}{unit}"
        value /= 1024
    raise AssertionError


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
