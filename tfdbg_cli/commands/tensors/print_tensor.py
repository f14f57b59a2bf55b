"""``pt``: the value of a dumped tensor."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable
from typing import Any

from tfdbg_cli.commands.context import TENSOR_MODES, Context, Place
from tfdbg_cli.commands.registry import Argument, Command, Result
from tfdbg_cli.commands.shell import completers
from tfdbg_cli.commands.shell.parsing import quoted
from tfdbg_cli.commands.tensors.program_names import is_own_name, own_names_of, resolve_program_name
from tfdbg_cli.commands.tensors.values import (
    check_number,
    option_words,
    result_document,
    value_arguments,
    value_document,
)
from tfdbg_cli.commands.units import bytes_text, execution_word, node_menu, watch_name
from tfdbg_cli.common.arrays import np
from tfdbg_cli.common.documents import ChainDocument, Document, Line, TextDocument, line
from tfdbg_cli.common.errors import UserError, did_you_mean
from tfdbg_cli.dumps.dump import Datum, Dump, InconvertibleTensorProto
from tfdbg_cli.dumps.elements import parse_execution, parse_tensor_name, parse_watch_key
from tfdbg_cli.filters.lineage import value_of
from tfdbg_cli.filters.quantized import quantized
from tfdbg_cli.tensors.files.saving import save_values
from tfdbg_cli.tensors.slicing import split_slice

__all__ = ["COMMANDS"]

# So many of the selected tensors are printed.
_MOST_SHOWN = 20
# Of a larger tensor nothing is counted: its first lines would wait for that.
_MOST_COUNTED = 1 << 24
# The first numbers of a list in a note, and those that are left out.
_MANY_NUMBERS = re.compile(r"((?:[\d.e+-]+, ){8})(?:[\d.e+-]+, ){8,}")


def _of_watch_key(dump: Dump, name: str) -> list[Datum]:
    """The dumps of ``node:slot:DebugOp``."""
    return [datum for datum in dump.by_node(parse_watch_key(name)[0]) if datum.watch_key == name]


def _is_dumped(dump: Dump, name: str) -> bool:
    return bool(dump.by_tensor(name) or dump.by_node(name) or _of_watch_key(dump, name))


def _dumps_of(dump: Dump, name: str, own: Iterable[str]) -> list[Datum]:
    """The dumps of a tensor or a watch key; for a node name without a slot, of all its slots."""
    node, slot = parse_tensor_name(name)
    if slot is not None:
        return dump.tensor(name)
    found = dump.by_node(node) or _of_watch_key(dump, name)
    if found:
        return found
    graph = dump.graph()
    if graph is not None and node in graph:
        raise UserError(f'Node "{node}" did not generate any dumps.', dump.why_absent(node))
    raise UserError(
        f'Node "{node}" does not exist in the graph.',
        did_you_mean(node, [*own, *dump.tensor_names()]),
    )


def _notes(context: Context, datum: Datum) -> tuple[Line, ...]:
    """What the program calls the tensor, and what its array doesn't tell."""
    own = own_names_of(context, datum.node_name, datum.output_slot)
    texts = [f"the program calls it {', '.join(own)}"] if own else []
    texts += [_MANY_NUMBERS.sub(r"\1…, ", datum.note)] if datum.note else []
    if datum.note or datum.dtype.removeprefix("u").startswith("int"):
        value = value_of(datum)
        is_small = isinstance(value, np.ndarray) and value.size <= _MOST_COUNTED
        codes = quantized(context.need_dump(), datum, value) if is_small else None
        texts += [codes.words()] if codes is not None else []
    return tuple(line((f"({text})", "dim")) for text in texts)


def _choose_slot(
    dump: Dump, node: str, slots: list[int], slicing: str, arguments: argparse.Namespace
) -> Document:
    lines = [
        line(f'Node "{node}" generated debug dumps from {len(slots)} output slots:'),
        line("Please specify the output slot:"),
    ]
    for slot in slots:
        tensor = f"{node}:{slot}"
        command = f"pt {quoted(tensor + slicing)}{_number(arguments)}{option_words(arguments)}"
        lines.append(line("  ", (tensor, "link", command)))
    return TextDocument(lines, menu=node_menu(dump, node, "print_tensor"))


def _choose_dump(
    dump: Dump, name: str, data: list[Datum], arguments: argparse.Namespace
) -> Document:
    shown, t0 = data[0].tensor_name, dump.t0()
    word = execution_word(dump)
    lines = [line(f'Tensor "{shown}" generated {len(data)} {word}s:')]
    for number, datum in enumerate(data):
        when = f"{(datum.timestamp - t0) / 1000:.3f} ms"
        command = f"print_tensor {quoted(name)} -n {number}{option_words(arguments)}"
        lines.append(line(f"#{number} [{when}] ", (watch_name(dump, datum), "link", command)))
    lines += [
        line(),
        line(f"You can use the -n (--number) flag to specify which {word} to print."),
        line(f"For example: print_tensor {quoted(name)} -n 0"),
    ]
    return TextDocument(lines, menu=node_menu(dump, data[0].node_name, "print_tensor"))


def _print_selected(context: Context, arguments: argparse.Namespace) -> Document:
    """The values of the selection, the first ones in full; or all of them into one file."""
    dump = context.need_dump()
    names = list(context.selected)
    if not names:
        raise UserError("No tensor is selected.", "select NAME does, or Space in a table.")
    last = {name: dump.tensor(name)[-1] for name in names}
    if arguments.write_path:
        arrays = ((name, _array(dump.value(datum), name)) for name, datum in last.items())
        target, size = save_values(arrays, arguments.write_path)
        text = f"Saved {len(names)} value(s) to: {target} ({bytes_text(size, 'B')})"
        return TextDocument([line((text, "success"))])
    parts: list[Document] = [TextDocument([line((f"{len(names)} selected tensor(s):", "bold"))])]
    for name in names[:_MOST_SHOWN]:
        value = dump.value(last[name])
        shown = value_document(context, value, arguments, name=name, dtype=last[name].dtype)
        parts += [TextDocument([line()]), shown]
    if len(names) > _MOST_SHOWN:
        text = f"and {len(names) - _MOST_SHOWN} more: "
        more = line((text, "dim"), ("lt --selected", "link", "lt --selected"))
        parts.append(TextDocument([line(), more]))
    return ChainDocument(parts)


def _array(value: Any, name: str) -> np.ndarray[Any, Any]:
    if isinstance(value, InconvertibleTensorProto):
        raise UserError(f'"{name}" holds no array that could be saved.', f"select -d {name}")
    return np.asarray(value)


def _print_tensor(context: Context, arguments: argparse.Namespace) -> Result:
    if arguments.selected:
        if arguments.tensor_name:
            raise UserError("pt takes a tensor, or --selected.", "select adds to the selection.")
        if arguments.json:
            raise UserError("--json prints one tensor.", "lt --selected --json lists the selected.")
        return _print_selected(context, arguments)
    dump, names = context.need_dump(), context.names
    typed = arguments.tensor_name or ""
    if not typed or typed.startswith("["):
        place = context.here("TENSOR[SLICE]")
        typed = place.name + typed
        if arguments.number is None:
            arguments.number = place.number
    name, slicing = split_slice(
        typed,
        lambda text: _is_dumped(dump, text) or is_own_name(context, text) or text in names,
    )
    name, number = parse_execution(name)  # as lists write it
    if number is not None and arguments.number is None:
        arguments.number = number
    asked, name = name, resolve_program_name(context, name)
    if asked in names and not _is_dumped(dump, name):
        check_number(arguments.number, 1, f"result {name}", "is one value")
        return result_document(
            context, names[name], arguments, name=name, slicing=slicing, key=name
        )
    found = _dumps_of(dump, name, context.run_info.outputs)
    slots = sorted({datum.output_slot for datum in found})
    if arguments.json and len(slots) > 1:
        known = ", ".join(f"{found[0].node_name}:{slot}" for slot in slots)
        raise UserError(f'Node "{found[0].node_name}" has several outputs.', f"Name one: {known}.")
    if arguments.json and arguments.number is None:
        arguments.number = len(found) - 1
    if len(slots) > 1:
        return _choose_slot(dump, found[0].node_name, slots, slicing, arguments)
    if arguments.number is None and len(found) > 1:
        return _choose_dump(dump, name + slicing, found, arguments)
    tensor = f"tensor {found[0].tensor_name}"
    datum = found[check_number(arguments.number, len(found), tensor, "generated one dump")]
    context.place = Place(datum.tensor_name, arguments.number)
    return value_document(
        context,
        dump.value(datum),
        arguments,
        name=datum.tensor_name,
        suffix=watch_name(dump, datum).removeprefix(datum.tensor_name),
        which=_which(dump, found.index(datum), len(found)) if len(found) > 1 else "",
        slicing=slicing,
        dtype=datum.dtype,
        notes=_notes(context, datum),
        menu=node_menu(dump, datum.node_name, "print_tensor"),
        command=f"pt {quoted(datum.tensor_name + slicing)}{_number(arguments)}",
        dump=(found.index(datum), len(found)),
    )


def _which(dump: Dump, number: int, count: int) -> str:
    """Which one of several values is shown."""
    word = execution_word(dump)
    return f" ({word} {'#' if word == 'dump' else ''}{number} of {count})"


def _number(arguments: argparse.Namespace) -> str:
    return "" if arguments.number is None else f" -n {arguments.number}"


PRINT_TENSOR = Command(
    "print_tensor",
    ("pt",),
    "tensors",
    "Print the value of a dumped tensor.",
    _print_tensor,
    (
        Argument(
            ("tensor_name",),
            "node:slot, with a slice if you like: hidden/Relu:0[0:5, -1]; none: the current place",
            "TENSOR[SLICE]",
            nargs="?",
            complete=completers.tensors,
        ),
        Argument(("--selected",), "the selected tensors; -w saves all in one .npz"),
        *value_arguments("which dump of a tensor with several dumps, from 0; -1: last"),
    ),
    modes=TENSOR_MODES,
    examples=(
        ("pt hidden/Relu:0", "the value; big ones with ellipses"),
        ("pt hidden/Relu:0[0:5, ::-1]", "a slice, as in NumPy"),
        ("pt [0]", "a slice of the tensor that was last looked at"),
        (
            "pt hidden/Relu:0[_ > 3]",
            "the elements for which an expression is true; _ is the tensor",
        ),
        ("pt hidden/Relu:0 -s", "with counts of nan and inf, statistics, quantiles, a histogram"),
        ("pt hidden/Relu:0 -s --log xy", "the histogram with logarithms of values and counts"),
        ("pt hidden/Relu:0 -r [-1,1]", "highlight the elements in a range"),
        ("pt hidden/Relu:0 --bad", "the bad elements; n and N step through them"),
        ("pt hidden/Relu:0 --sort-by-magnitude", "the largest elements first"),
        ("pt attn:0 --map", "as a heat map; key v switches between map and numbers"),
        ("pt attn:0 --map --multiples", "all heads (or channels) side by side"),
        ("pt fc1/W:0 --map > fc1.png", "the map as an image"),
        ("pt loop/body:0 -n 3", "the fourth of several dumps"),
        ("pt loss", "PyTorch: by the name of the program's variable"),
        ("pt hidden/Relu:0 -w relu.npy", "and save it"),
        ("pt --selected -w values.npz", "save all selected tensors, each under its name"),
    ),
    details=(
        "A slice holds numbers, start:stop:step, ..., newaxis and lists of numbers, as in "
        "NumPy. Anything else between the brackets is a Python expression: _ is the tensor, "
        "np is NumPy, other tensors are written in backticks, and results of eval -o by "
        "their names. Quote names with blanks or brackets.\n\n"
        "PyTorch: the program's variables at the end of the run are names as well, unless a "
        "node has the same name; run_info lists them.\n\n"
        "-w saves as .npy (also without an extension), .npz under the tensor's name, "
        ".safetensors or .csv (one or two dimensions). Nothing is pickled: in .npy and .npz "
        "strings become NumPy strings of fixed width, and bfloat16 and float8 become exact "
        "float32.\n\n"
        "Bytes that are valid UTF-8 are shown with their characters: b'größer'.\n\n"
        "Beside the bars of the histogram are those of -inf, nan and +inf. A bar that is too "
        "high ends at the top; the number below it is the count. On a logarithmic axis, "
        "negative values are on the left, zero is in the middle, and every bar covers the "
        "same share of the decades. The scales above the histogram are links.\n\n"
        "--map draws the last two dimensions (or those of --axes), and one dimension as a "
        "strip. Keys [ and ], or a slice, choose among the other dimensions. A cell of many "
        "elements shows their mean (or --cells), but a nan or an infinity among them is "
        "always shown. Colours go from min to max; quantile: from 2% to 98%; symmetric: "
        "around 0; log: by magnitude. Complex numbers are shown by their magnitude. A large "
        "map is first drawn from a sample, and says so until everything is read. F1 lists "
        "the keys: zoom, pan, colours, the next nan; the wheel and dragging work too. "
        "Without colours there are shades, and letters: N for nan, + and - for the "
        "infinities, ! for several kinds.\n\n"
        "Above 16 million elements, quantiles and histogram are those of a random sample, "
        "and say so. Above 2 million elements, a screen first shows a sample, and says so "
        "until all elements are read in the background."
    ),
)

COMMANDS = (PRINT_TENSOR,)
