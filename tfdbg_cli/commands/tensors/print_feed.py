"""``pf``: the value of a feed."""

from __future__ import annotations

import argparse

from tfdbg_cli.commands.context import Context
from tfdbg_cli.commands.registry import Argument, Command, Result
from tfdbg_cli.commands.shell import completers
from tfdbg_cli.commands.shell.parsing import quoted
from tfdbg_cli.commands.tensors.feeds import feed_name, feed_parts, feed_tensor, has_feed
from tfdbg_cli.commands.tensors.values import (
    check_number,
    parts_document,
    value_arguments,
    value_document,
)
from tfdbg_cli.common.documents import Line, MenuItem, line
from tfdbg_cli.common.errors import UserError
from tfdbg_cli.dumps.dump import InconvertibleTensorProto
from tfdbg_cli.tensors.numeric import dtype_name
from tfdbg_cli.tensors.slicing import split_slice

__all__ = ["COMMANDS"]

_MENU = (MenuItem("run_info", "run_info"),)


def _conversion(context: Context, name: str, fed: str) -> tuple[Line, ...]:
    """A word on the dtype that the run made of what was fed, where the dump knows it."""
    data = context.dump.by_tensor(name) if context.dump is not None else []
    used = data[0].dtype if data else ""
    if not used or used == fed:
        return ()
    return (line((f"(fed as {fed}; the run used it as {used})", "dim")),)


def _print_feed(context: Context, arguments: argparse.Namespace) -> Result:
    text, slicing = split_slice(arguments.feed_name, lambda name: has_feed(context, name))
    name = feed_name(context, text)
    check_number(arguments.number, 1, f"feed {name}", "has one value")
    value = feed_tensor(context, name)
    parts = feed_parts(value)
    if not parts:
        is_array = not isinstance(value, InconvertibleTensorProto)
        return value_document(
            context,
            value,
            arguments,
            name=name,
            suffix=" (feed)" if context.run_info.unit == "session" else " (input)",
            slicing=slicing,
            key=name,
            menu=_MENU,
            notes=_conversion(context, name, dtype_name(value.dtype)) if is_array else (),
            command=f"pf {quoted(name + slicing)}",
        )
    kind = type(value).__name__
    if slicing:
        known = ", ".join(f"{name}.{part}{slicing}" for part in parts)
        raise UserError(f'"{name}" is a {kind} of several tensors.', f"Slice one of {known}.")
    title = line("Feed ", (f'"{name} (feed)"', "bold"), f", a {kind}:")
    return parts_document(context, parts, arguments, name=name, title=title, menu=_MENU)


PRINT_FEED = Command(
    "print_feed",
    ("pf",),
    "tensors",
    "Print a feed or an input of the run.",
    _print_feed,
    (
        Argument(
            ("feed_name",),
            "the feed or input as run_info names it, with a slice if you like",
            "FEED[SLICE]",
            complete=completers.feeds,
        ),
        *value_arguments("0 or -1: a feed has one value"),
    ),
    examples=(
        ("pf input/x-input:0", "what was fed"),
        ("pf input/x-input:0[0] -s", "its first row, with statistics"),
        ("pf batch.input_ids", "PyTorch: an argument of the module, by the program's name for it"),
        ("pf sparse.values", "one part of a sparse or ragged feed"),
    ),
    details=(
        "Slices and options are those of print_tensor. A sparse, ragged or other composite "
        "feed is printed part by part; name.part is one part, to slice or to save."
    ),
)

COMMANDS = (PRINT_FEED,)
