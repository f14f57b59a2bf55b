"""What ``-s`` adds to a value: its summary, and links to other scales of the histogram."""

from __future__ import annotations

import argparse
from typing import Any

from tfdbg_cli.commands.context import Context
from tfdbg_cli.commands.registry import Argument
from tfdbg_cli.common.arrays import np
from tfdbg_cli.common.documents import Document, Line, line
from tfdbg_cli.tensors.summary_document import summary_document

__all__ = ["LOG_ARGUMENT", "log_words", "summary_of"]

LOG_ARGUMENT = Argument(
    ("--log",),
    "with -s: logarithms on the axis of the values (x), of the counts (y), or both (xy)",
    "AXES",
    default="",
    choices=("x", "y", "xy"),
)


def log_words(axes: str) -> str:
    """The option as a command line has it."""
    return f" --log {axes}" if axes else ""


def summary_of(
    context: Context,
    array: np.ndarray[Any, Any],
    arguments: argparse.Namespace,
    again: str,
) -> Document:
    """The numeric summary of an array; briefly where nobody has asked for it.

    Args:
        context: for the width.
        array: which.
        arguments: the options of the command.
        again: the command with all its options but ``--log``, for links; empty: there are none.
    """
    axes = arguments.log
    return summary_document(
        array,
        context.width,
        is_log="x" in axes,
        log_counts="y" in axes,
        choices=_choices(axes, again),
        is_brief=not arguments.numeric_summary,
    )


def _choices(axes: str, again: str) -> Line:
    """``Histogram  values: linear log  counts: linear log``: each other scale is a link."""
    parts: list[str | tuple[str, str] | tuple[str, str, str]] = [("Histogram", "heading")]
    for axis, what in (("x", "values"), ("y", "counts")):
        parts.append(f"  {what}: ")
        if not again:
            parts.append("logarithmic" if axis in axes else "linear")
            continue
        other = "".join(each for each in "xy" if (each in axes) != (each == axis))
        for name, is_chosen in (("linear", axis not in axes), ("log", axis in axes)):
            parts += [" "] if name == "log" else []
            is_link = not is_chosen
            parts.append((name, "link", again + log_words(other)) if is_link else (name, "bold"))
    return line(*parts)
