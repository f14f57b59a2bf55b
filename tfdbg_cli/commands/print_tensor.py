"""``pt`` and ``pf``: the value of a dumped tensor, or of a feed."""

from __future__ import annotations

import argparse
import os
import tempfile
from typing import Any

import numpy as np

from tfdbg_cli.commands import completers
from tfdbg_cli.commands.context import TENSOR_MODES, Context
from tfdbg_cli.commands.parsing import quoted
from tfdbg_cli.commands.registry import Argument, Command, Result
from tfdbg_cli.commands.units import bytes_text, node_menu
from tfdbg_cli.documents import ChainDocument, Document, Line, MenuItem, TextDocument, line
from tfdbg_cli.dumps.dump import Datum, Dump, InconvertibleTensorProto
from tfdbg_cli.dumps.graph import parse_tensor_name
from tfdbg_cli.errors import UserError, did_you_mean
from tfdbg_cli.tensors.formatting import TensorView
from tfdbg_cli.tensors.numeric import blocks, dtype_name
from tfdbg_cli.tensors.ranges import Ranges
from tfdbg_cli.tensors.slicing import apply_slice, split_slice
from tfdbg_cli.tensors.summary import summarize, summary_lines

__all__ = ["COMMANDS", "value_arguments", "value_document"]


def _write(value: np.ndarray[Any, Any], path: str) -> str:
    """Save a value as .npy, whole or not at all; says where and how large."""
    target = os.path.expanduser(path)
    folder = os.path.dirname(target) or "."
    temporary = ""
    try:
        handle, temporary = tempfile.mkstemp(dir=folder, prefix=".tfdbg-")
        with os.fdopen(handle, "wb") as file:
            np.save(file, value, allow_pickle=value.dtype.kind == "O")
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)
        os.replace(temporary, target)
    except OSError as error:
        if temporary and os.path.exists(temporary):
            os.unlink(temporary)
        raise UserError(f"{path} can't be written: {error.strerror or error}.") from None
    return f"Saved value to: {target} ({bytes_text(os.path.getsize(target), 'B')})"


def _count_in(ranges: Ranges, value: np.ndarray[Any, Any]) -> int:
    return sum(int(np.count_nonzero(ranges.mask(block))) for block in blocks(value))


def value_document(
    context: Context,
    value: Any,
    arguments: argparse.Namespace,
    *,
    name: str,
    suffix: str = "",
    slicing: str = "",
    dtype: str = "",
    menu: tuple[MenuItem, ...] = (),
    force_summary: bool = False,
) -> Document:
    """A value with its title, dtype, shape, and what the options ask for.

    Args:
        context: for the width and the settings.
        value: an array, an `InconvertibleTensorProto`, or any Python object.
        arguments: the options of `value_arguments`.
        name: what is printed, bold in the title line.
        suffix: the debug op or another word behind the name.
        slicing: ``[...]``, or empty.
        dtype: the dtype's name where the array's own isn't the true one.
        menu: of the screen.
        force_summary: show the numeric summary without ``-s``.
    """
    if isinstance(value, InconvertibleTensorProto):
        if arguments.write_path:
            raise UserError(f'"{name}" holds no array that could be saved.')
        head = "Uninitialized tensor:" if not value.initialized else "Not a tensor of numbers:"
        lines = [
            line("Tensor ", (f'"{name}{suffix}"', "bold"), ":"),
            line(f"  dtype: {dtype}") if dtype else line(),
            line(),
            line((head, "warning")),
            *[line(f"  {text}") for text in str(value.description).splitlines()],
        ]
        return TextDocument(lines, menu=menu)
    array = np.asarray(value)
    if slicing:
        array = apply_slice(array, slicing, f'"{name}"')
        dtype = ""
    ranges = Ranges(arguments.ranges) if arguments.ranges else None
    title = [("Tensor ", ""), (f'"{name}{suffix}{slicing}"', "bold"), (":", "")]
    if ranges is not None:
        count, total = _count_in(ranges, array), int(array.size)
        share = 100 * count / total if total else 0.0
        text = f" Highlighted({ranges.description}): {count} of {total} element(s) ({share:.2f}%)"
        title.append((text, "highlight"))
    shape = "(" + ", ".join(map(str, array.shape)) + ("," if array.ndim == 1 else "") + ")"
    header: list[Line] = [
        line(*title),
        line(f"  dtype: {dtype or dtype_name(array.dtype)}"),
        line(f"  shape: {shape}"),
        line(),
    ]
    if arguments.write_path:
        header += [line((_write(array, arguments.write_path), "success")), line()]
    if arguments.numeric_summary or force_summary:
        header += [line(("Numeric summary:", "heading")), *summary_lines(summarize(array)), line()]
    threshold = 0 if arguments.all else int(context.settings.get("max_elements"))
    view = TensorView(array, context.width, threshold=threshold, ranges=ranges)
    parts: list[Document] = [TextDocument(header), view]
    if threshold and array.size > threshold:
        hint = f"(… stands for elements left out of {array.size}; -a shows all, [i:j] a part)"
        parts.append(TextDocument([line(), line((hint, "dim"))]))
    return ChainDocument(parts, menu=menu)


def value_arguments(*, with_number: bool) -> tuple[Argument, ...]:
    """The options that everything that prints a value takes."""
    number = Argument(
        ("-n", "--number"),
        "which dump of a tensor that was dumped several times, from 0",
        "K",
        default=None,
        kind=int,
    )
    return (
        *((number,) if with_number else ()),
        Argument(
            ("-r", "--ranges"),
            "highlight the elements in these closed ranges",
            "RANGES",
            default="",
        ),
        Argument(("-a", "--all"), "every element, no ellipses"),
        Argument(("-s", "--numeric_summary"), "counts of nan, inf, signs; min, max, mean, std"),
        Argument(
            ("-w", "--write_path"),
            "save the (sliced) value as a NumPy file",
            "PATH",
            default="",
            complete=completers.files,
        ),
    )


def _dumps_of(dump: Dump, name: str) -> list[Datum] | Document:
    """The dumps of a tensor; for a node name without a slot, of its one slot, or a choice."""
    node, slot = parse_tensor_name(name)
    if slot is None and name.count(":") >= 1 and not dump.by_node(name):
        # node:slot:DebugOp, a watch key
        tensor, _, debug_op = name.rpartition(":")
        found = [d for d in dump.by_tensor(tensor) if d.debug_op == debug_op]
        if found:
            return found
    if slot is not None:
        return dump.tensor(name)
    data = dump.by_node(node)
    slots = sorted({datum.output_slot for datum in data})
    if not slots:
        graph = dump.graph()
        if graph is not None and node in graph:
            raise UserError(
                f'Node "{node}" did not generate any dumps.',
                "It is in the graph, but this run did not compute or watch it.",
            )
        raise UserError(
            f'Node "{node}" does not exist in the graph.',
            did_you_mean(node, dump.tensor_names()),
        )
    if len(slots) == 1:
        return dump.tensor(f"{node}:{slots[0]}")
    lines = [
        line(f'Node "{node}" generated debug dumps from {len(slots)} output slots:'),
        line("Please specify the output slot:"),
    ]
    for index in slots:
        tensor = f"{node}:{index}"
        lines.append(line("  ", (tensor, "link", f"pt {quoted(tensor)}")))
    return TextDocument(lines, menu=node_menu(dump, node, "print_tensor"))


def _flags(arguments: argparse.Namespace) -> str:
    parts = []
    for flag, given in (("-a", arguments.all), ("-s", arguments.numeric_summary)):
        parts += [flag] if given else []
    if arguments.ranges:
        parts += ["-r", quoted(arguments.ranges)]
    return "".join(f" {part}" for part in parts)


def _choose_dump(
    dump: Dump, name: str, data: list[Datum], arguments: argparse.Namespace
) -> Document:
    shown, t0 = data[0].tensor_name, dump.t0()
    lines = [line(f'Tensor "{shown}" generated {len(data)} dumps:')]
    for number, datum in enumerate(data):
        when = f"{(datum.timestamp - t0) / 1000:.3f} ms"
        command = f"print_tensor {quoted(name)} -n {number}{_flags(arguments)}"
        lines.append(line(f"#{number} [{when}] ", (datum.watch_key, "link", command)))
    lines += [
        line(),
        line("You can use the -n (--number) flag to specify which dump to print."),
        line(f"For example: print_tensor {quoted(name)} -n 0"),
    ]
    return TextDocument(lines, menu=node_menu(dump, data[0].node_name, "print_tensor"))


def _print_tensor(context: Context, arguments: argparse.Namespace) -> Result:
    dump = context.need_dump()
    name, slicing = split_slice(arguments.tensor_name)
    found = _dumps_of(dump, name)
    if isinstance(found, Document):
        return found
    number = arguments.number
    tensor = found[0].tensor_name
    if number is None and len(found) > 1:
        return _choose_dump(dump, name + slicing, found, arguments)
    if number is not None and not -len(found) <= number < len(found):
        if len(found) == 1:
            raise UserError(
                f"Invalid number ({number}) for tensor {tensor}, which generated one dump."
            )
        raise UserError(
            f"Specified number ({number}) exceeds the number of available dumps "
            f"({len(found)}) for tensor {tensor}.",
            f"Use 0 to {len(found) - 1}.",
        )
    datum = found[number or 0]
    value = dump.value(datum)
    return value_document(
        context,
        value,
        arguments,
        name=datum.tensor_name,
        suffix=f":{datum.debug_op}",
        slicing=slicing,
        dtype=datum.dtype,
        menu=node_menu(dump, datum.node_name, "print_tensor"),
    )


def _print_feed(context: Context, arguments: argparse.Namespace) -> Result:
    feeds = context.run_info.feeds
    if not feeds:
        raise UserError("The feed_dict of the current run is empty.")
    name, slicing = arguments.feed_name.strip(), ""
    if name not in feeds:
        name, slicing = split_slice(name)
    if name not in feeds and f"{name}:0" in feeds:
        name = f"{name}:0"
    if name not in feeds:
        raise UserError(
            f'The feed_dict of the current run does not contain the key "{name}".',
            did_you_mean(name, feeds) or f"It has {', '.join(feeds)}.",
        )
    value = _feed_value(feeds[name])
    return value_document(
        context,
        value,
        arguments,
        name=name,
        suffix=" (feed)",
        slicing=slicing,
        menu=(MenuItem("run_info", "run_info"),),
    )


def _feed_value(value: Any) -> Any:
    """A feed as an array. Sparse and other composite values are shown part by part by name."""
    try:
        return np.asarray(value)
    except ValueError:  # a ragged list
        array = np.empty(len(value), dtype=object)
        array[:] = [repr(item) for item in value]
        return array


PRINT_TENSOR = Command(
    "print_tensor",
    ("pt",),
    "tensors",
    "Print the value of a dumped tensor.",
    _print_tensor,
    (
        Argument(
            ("tensor_name",),
            "node:slot, with a slice if you like: hidden/Relu:0[0:5, -1]",
            "TENSOR[SLICE]",
            complete=completers.tensors,
        ),
        *value_arguments(with_number=True),
    ),
    modes=TENSOR_MODES,
    examples=(
        ("pt hidden/Relu:0", "the value; big ones with ellipses"),
        ("pt hidden/Relu:0[0:5, :]", "a slice, as in NumPy"),
        ("pt hidden/Relu:0 -s", "with counts of nan and inf, and statistics"),
        ("pt hidden/Relu:0 -r [-1,1]", "with the elements in a range highlighted"),
        ("pt loop/body:0 -n 3", "the fourth of several dumps"),
        ("pt hidden/Relu:0 -w relu.npy", "and save it"),
    ),
)

PRINT_FEED = Command(
    "print_feed",
    ("pf",),
    "tensors",
    "Print a value of the feed_dict.",
    _print_feed,
    (
        Argument(
            ("feed_name",),
            "the feed as run_info names it, with a slice if you like",
            "FEED[SLICE]",
            complete=completers.feeds,
        ),
        *value_arguments(with_number=False),
    ),
    examples=(("pf input/x-input:0", "what was fed"),),
)

COMMANDS = (PRINT_TENSOR, PRINT_FEED)
