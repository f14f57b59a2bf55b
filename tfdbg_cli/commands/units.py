"""Numbers for people: sizes and times."""

from __future__ import annotations

__all__ = ["bytes_text", "node_menu"]

from tfdbg_cli.commands.parsing import quoted
from tfdbg_cli.documents import MenuItem


def bytes_text(count: int, unit: str = "") -> str:
    """A number of bytes, ``182``, ``2.18k``, ``1.50M``, ``3.20G``."""
    value = float(count)
    for suffix in ("", "k", "M", "G", "T"):
        if value < 1000 or suffix == "T":
            return f"{count}{unit}" if not suffix else f"{value:.2f}{suffix}{unit}"
        value /= 1024
    raise AssertionError


def node_menu(node: str, current: str) -> tuple[MenuItem, ...]:
    """The menu of a screen about one node; the command it shows is disabled."""
    items = (
        ("node_info", f"ni -a -d -t {quoted(node)}"),
        ("print_tensor", f"pt {quoted(node)}"),
        ("list_inputs", f"li -c -r {quoted(node)}"),
        ("list_outputs", f"lo -c -r {quoted(node)}"),
        ("list_tensors", "lt"),
    )
    return tuple(MenuItem(name, command, name != current) for name, command in items)
