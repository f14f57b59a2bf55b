"""What everything that prints a value shares: its options, and the screen they make."""

from __future__ import annotations

import argparse
import pprint
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from tfdbg_cli.commands.context import Context
from tfdbg_cli.commands.json_lines import JSON_ARGUMENT, json_document
from tfdbg_cli.commands.registry import Argument
from tfdbg_cli.commands.shell import completers
from tfdbg_cli.commands.shell.parsing import quoted
from tfdbg_cli.commands.tensors.expressions import select
from tfdbg_cli.commands.tensors.pictures import (
    ValueDocument,
    Views,
    check_map,
    look_of,
    map_arguments,
    map_words,
)
from tfdbg_cli.commands.tensors.summaries import LOG_ARGUMENT, log_words, summary_of
from tfdbg_cli.commands.tensors.value_records import value_records
from tfdbg_cli.commands.units import bytes_text
from tfdbg_cli.common.arrays import Array, np
from tfdbg_cli.common.documents import (
    ChainDocument,
    Document,
    Line,
    MenuItem,
    Span,
    TextDocument,
    line,
)
from tfdbg_cli.common.errors import UserError, one_line
from tfdbg_cli.dumps.dump import InconvertibleTensorProto
from tfdbg_cli.tensors.badness import BAD_PATTERN, BadSteps, can_be_bad, find_bad
from tfdbg_cli.tensors.files.saving import save_value
from tfdbg_cli.tensors.formatting import TensorView
from tfdbg_cli.tensors.magnitude import MagnitudeView
from tfdbg_cli.tensors.numeric import blocks, dtype_kind, dtype_name
from tfdbg_cli.tensors.pictures.reduction import HOWS
from tfdbg_cli.tensors.pictures.scales import SCALES
from tfdbg_cli.tensors.ranges import Ranges
from tfdbg_cli.tensors.slicing import apply_slice

__all__ = [
    "check_number",
    "option_words",
    "parts_document",
    "result_document",
    "value_arguments",
    "value_document",
]

# A Python object is written over several lines up to so many items; of its text so much is shown.
_PRETTY, _LONGEST = 1000, 20_000


def value_arguments(number: str) -> tuple[Argument, ...]:
    """The options of a command that prints a value.

    Args:
        number: the help of ``-n``.
    """
    return (
        Argument(("-n", "--number"), number, "K", default=None, kind=int),
        Argument(
            ("-r", "--ranges"),
            "highlight the elements in these closed ranges; complex ones by absolute value",
            "RANGES",
            default="",
        ),
        Argument(("-a", "--all"), "every element, no ellipses"),
        Argument(
            ("-s", "--numeric_summary"),
            "counts of nan, inf, signs; min, max, mean, std; quantiles and a histogram",
        ),
        LOG_ARGUMENT,
        Argument(
            ("--bad",), "count nan and inf and list the first ones; n and N step through them"
        ),
        Argument(
            ("--sort-by-magnitude",), "one element a line, largest absolute value and nan first"
        ),
        Argument(("--reverse",), "with --sort-by-magnitude: smallest first"),
        Argument(
            ("-w", "--write_path"),
            "save the (sliced) value: .npy, .npz, .safetensors or .csv by extension",
            "PATH",
            default="",
            complete=completers.files,
        ),
        *map_arguments(),
        JSON_ARGUMENT,
    )


def option_words(arguments: argparse.Namespace) -> str:
    """The options of `value_arguments` that are given, but ``-n``, as a command line ends."""
    words = []
    for flag, is_given in (
        ("-a", arguments.all),
        ("-s", arguments.numeric_summary),
        ("--bad", arguments.bad),
        ("--sort-by-magnitude", arguments.sort_by_magnitude),
        ("--reverse", arguments.reverse),
    ):
        words += [flag] if is_given else []
    for flag, value in (("-r", arguments.ranges), ("-w", arguments.write_path)):
        words += [flag, quoted(value)] if value else []
    words += map_words(arguments)
    return "".join(f" {word}" for word in words) + log_words(arguments.log)


def _again(command: str, arguments: argparse.Namespace) -> str:
    """A command with the same options, but those that write a file or scale the histogram."""
    options = argparse.Namespace(**vars(arguments))
    options.log, options.write_path, options.numeric_summary = "", "", True
    return command + option_words(options)


def check_number(number: int | None, count: int, what: str, generated: str) -> int:
    """The index of ``-n`` among so many values; the first where it isn't given.

    Args:
        number: as given; negative ones count from the end.
        count: how many there are.
        what: whose, e.g. ``tensor a:0``.
        generated: how one value is described, e.g. ``generated one dump``.

    Raises:
        UserError: there is no such value.
    """
    at = number or 0
    if -count <= at < count:
        return at
    if count == 1:
        raise UserError(
            f"Invalid number ({number}) for {what}, which {generated}.", "Leave out -n, or use 0."
        )
    raise UserError(
        f"Specified number ({number}) exceeds the number of available dumps ({count}) for {what}.",
        f"Use 0 to {count - 1}.",
    )


def _count_in(ranges: Ranges, value: Array) -> int:
    return sum(int(np.count_nonzero(ranges.mask(block))) for block in blocks(value))


def _no_array(value: InconvertibleTensorProto, title: Line, name: str, dtype: str) -> list[Line]:
    head = "Uninitialized tensor:" if not value.initialized else "Not a tensor of numbers:"
    return [
        title,
        line(f"  dtype: {dtype}") if dtype else line(),
        line(),
        line((head, "warning")),
        *[line(f"  {text}") for text in str(value.description).splitlines()],
    ]


def _check_options(arguments: argparse.Namespace) -> None:
    """Refuse options that don't go together."""
    if arguments.log and not arguments.numeric_summary:
        raise UserError("--log goes with -s.")
    if arguments.reverse and not arguments.sort_by_magnitude:
        raise UserError("--reverse goes with --sort-by-magnitude.")
    check_map(arguments)
    if arguments.json and (arguments.write_path or arguments.map):
        raise UserError("--json goes with a slice, -n and --bad, not with -w and --map.")


def value_document(
    context: Context,
    value: Any,
    arguments: argparse.Namespace,
    *,
    name: str,
    suffix: str = "",
    which: str = "",
    slicing: str = "",
    dtype: str = "",
    key: str = "",
    menu: tuple[MenuItem, ...] = (),
    force_summary: bool = False,
    notes: tuple[Line, ...] = (),
    command: str = "",
    dump: tuple[int, int] = (0, 1),
) -> Document:
    """A value with its title, dtype, shape, and what the options ask for.

    Args:
        context: for the width, the settings, and the names in a slice that is an expression.
        value: an array, an `InconvertibleTensorProto`, or what NumPy makes an array of.
        arguments: the options of `value_arguments`.
        name: what is printed, bold in the title line.
        suffix: the debug op or another word behind the name.
        which: words on which of several dumps it is.
        slicing: ``[...]``, or empty.
        dtype: the dtype's name where the array's own isn't the true one.
        key: the name of the array in a file that has names; default: ``name``.
        menu: of the screen.
        force_summary: show the numeric summary without ``-s``.
        notes: lines above the elements.
        command: what shows the value, without options, for the links of the histogram; empty: it
            has none.
        dump: which of how many dumps of a tensor it is.

    Raises:
        UserError: the slice or an option doesn't suit the value.
    """
    _check_options(arguments)
    if isinstance(value, InconvertibleTensorProto):
        if arguments.write_path:
            raise UserError(f'"{name}" holds no array that could be saved.')
        if arguments.json:
            return value_records(value, name=name, dtype=dtype, dump=dump)
        title = line("Tensor ", (f'"{name}{suffix}"', "bold"), f"{which}:")
        return TextDocument(_no_array(value, title, name, dtype), menu=menu)
    array = np.asarray(value)
    if slicing:
        array = apply_slice(array, slicing, f'"{name}"', lambda of, text: select(context, of, text))
    if arguments.json:
        return value_records(
            array,
            name=name,
            dtype=dtype,
            slicing=slicing,
            is_bad_only=arguments.bad,
            dump=dump,
        )
    views = _views(context, array, arguments, f"{name}{suffix}{slicing}", which, dtype, menu, notes)
    if arguments.map:
        return views.picture()
    ranges = Ranges(arguments.ranges) if arguments.ranges else None
    title_parts = [("Tensor ", ""), (f'"{name}{suffix}{slicing}"', "bold"), (f"{which}:", "")]
    if ranges is not None:
        title_parts.append(
            (f" Highlighted({ranges.description}): {_share(ranges, array)}", "highlight")
        )
    shape = "(" + ", ".join(map(str, array.shape)) + ("," if array.ndim == 1 else "") + ")"
    header = [
        line(*title_parts),
        line(f"  dtype: {dtype or dtype_name(array.dtype)}"),
        line(f"  shape: {shape}"),
        line(),
    ]
    head: list[Document] = [TextDocument(header)]
    if notes:
        head.append(TextDocument([*notes, line()]))
    if arguments.numeric_summary or force_summary:
        again = _again(command, arguments) if command else ""
        head += [
            TextDocument([line(("Numeric summary:", "heading"))]),
            summary_of(context, array, arguments, again),
            TextDocument([line()]),
        ]
    bad = None
    if arguments.bad:
        lines, bad = _bad_lines(array)
        head.append(TextDocument([*lines, line()]))
    is_all = bool(arguments.all)
    body = _body(context, array, arguments, ranges, bad, show_all=is_all or bad is not None)
    if arguments.write_path:
        # Last: what is refused for another reason writes nothing.
        target, size = save_value(array, arguments.write_path, key or name, dtype)
        text = f"Saved value to: {target} ({bytes_text(size, 'B')})"
        head.insert(1, TextDocument([line((text, "success")), line()]))
    printed = None
    if bad is not None and not is_all:
        # Only on a screen can one step through all elements without reading them.
        shown = _body(context, array, arguments, ranges, bad, show_all=False)
        printed = ChainDocument([*head, *shown])
        printed.steps = "bad element"
    document = ValueDocument([*head, *body], menu, views)
    views.show(document)
    if bad is not None:
        document.initial_search, document.steps = BAD_PATTERN, "bad element"
        document.printed = printed
    return document


def _views(
    context: Context,
    array: Array,
    arguments: argparse.Namespace,
    name: str,
    which: str,
    dtype: str,
    menu: tuple[MenuItem, ...],
    notes: tuple[Line, ...],
) -> Views:
    """The array as numbers and as a picture."""
    dtype = dtype or dtype_name(array.dtype)
    kind = f"{which}: {dtype} {tuple(array.shape)}"
    look = look_of(arguments, array)

    def make(show_all: bool) -> Document:
        options = argparse.Namespace(**vars(arguments))
        options.map = options.multiples = False
        options.scale, options.cells = SCALES[0], HOWS[0]
        options.axes = options.write_path = ""
        options.log, options.all = "", options.all or show_all
        return value_document(
            context, array, options, name=name, which=which, dtype=dtype, menu=menu, notes=notes
        )

    title = (Span("Tensor "), Span(f'"{name}"', "bold"), Span(kind))
    return Views(array, title, context.width, menu, look, make)


def _share(ranges: Ranges, array: Array) -> str:
    count, total = _count_in(ranges, array), int(array.size)
    share = 100 * count / total if total else 0.0
    return f"{count} of {total} element(s) ({share:.2f}%)"


def _bad_lines(array: Array) -> tuple[list[Line], BadSteps | None]:
    """How many bad elements of which kind, and links to the first ones; the way through all."""
    found = find_bad(array)
    if not found.count:
        return [line((f"No bad elements among {found.total}.", "success"))], None
    kinds = ", ".join(f"{count} {label}" for label, count in found.counts.items() if count)
    lines = [line((f"Bad elements: {found.count} of {found.total} ({kinds})", "error"))]
    for at in range(0, len(found.places), 5):
        spans: list[str | tuple[str, str, str]] = []
        for place in found.places[at : at + 5]:
            text = f"@[{','.join(map(str, place))}]"
            spans += ["  ", (text, "link", text)] if place else []
        if spans:
            lines.append(line(*spans))
    if found.count > len(found.places):
        text = f"(the first {len(found.places)}; on the screen Esc, then n and N step through all)"
        lines.append(line((f"  {text}", "dim")))
    return lines, BadSteps(array, found)


def _body(
    context: Context,
    array: Array,
    arguments: argparse.Namespace,
    ranges: Ranges | None,
    bad: BadSteps | None,
    *,
    show_all: bool,
) -> list[Document]:
    limit = int(context.settings.get("max_elements"))
    if arguments.sort_by_magnitude:
        limit = 0 if show_all else limit
        order = MagnitudeView(
            array, limit=limit, is_reversed=arguments.reverse, ranges=ranges, bad=bad
        )
        hint = f"({array.size - order.line_count} more of {array.size} elements; -a shows all)"
        return _with_hint(order, hint, order.line_count < array.size)
    threshold = 0 if show_all else limit
    view = TensorView(array, context.width, threshold=threshold, ranges=ranges, bad=bad)
    hint = f"(… stands for elements left out of {array.size}; -a shows all, [i:j] a part)"
    return _with_hint(view, hint, 0 < threshold < array.size)


def _with_hint(document: Document, hint: str, is_needed: bool) -> list[Document]:
    if not is_needed:
        return [document]
    return [document, TextDocument([line(), line((hint, "dim"))])]


def parts_document(
    context: Context,
    parts: dict[str, Any],
    arguments: argparse.Namespace,
    *,
    name: str,
    title: Line,
    menu: tuple[MenuItem, ...],
) -> Document:
    """A value that consists of several tensors: each under its name.

    Raises:
        UserError: an option needs a single tensor, or suits none of them.
    """
    if arguments.write_path or arguments.json:
        known = ", ".join(f"{name}.{part}" for part in parts)
        raise UserError(f'"{name}" consists of several tensors.', f"Name one of {known}.")
    documents: list[Document] = [TextDocument([title])]
    search = steps = ""
    for part, value in parts.items():
        array = np.asarray(value)
        options = argparse.Namespace(**vars(arguments))
        options.bad = arguments.bad and can_be_bad(array.dtype)
        shown = value_document(context, array, options, name=f"{name}.{part}")
        search, steps = search or shown.initial_search, steps or shown.steps
        documents += [TextDocument([line(), line((f"{part}:", "heading"))]), shown]
    document = ChainDocument(documents, menu=menu)
    document.initial_search, document.steps = search, steps
    return document


def result_document(
    context: Context,
    value: Any,
    arguments: argparse.Namespace,
    *,
    name: str,
    slicing: str = "",
    key: str = "result",
    show_summary: bool = False,
    notes: tuple[Line, ...] = (),
) -> Document:
    """The result of an expression: an array as `value_document`, anything else by its ``repr``.

    Args:
        context: see `value_document`.
        value: any Python object.
        arguments: the options of `value_arguments`.
        name: what is printed.
        slicing: of an array.
        key: the name of the array in a file that has names.
        show_summary: show the numeric summary of numbers without ``-s``.
        notes: lines above the value.

    Raises:
        UserError: the slice or an option doesn't suit the value.
    """
    # A masked array says more than its elements do.
    is_array = isinstance(value, np.ndarray | np.generic | InconvertibleTensorProto)
    if is_array and not isinstance(value, np.ma.MaskedArray):
        return value_document(
            context,
            value,
            arguments,
            name=name,
            slicing=slicing,
            key=key,
            force_summary=show_summary and _is_numeric(value),
            notes=notes,
        )
    needs_array = (slicing, arguments.write_path, arguments.ranges, arguments.numeric_summary)
    if any(needs_array) or arguments.bad or arguments.sort_by_magnitude:
        what = "saved" if arguments.write_path else "measured or sliced"
        raise UserError(
            f"Only arrays can be {what}, and this is of type {type(value).__name__}.",
            "Wrap the expression in np.array(…).",
        )
    if arguments.json:
        text = "\n".join(_repr_lines(value, context.width, arguments.all))
        record = {"name": name, "type": type(value).__name__, "text": text}
        return json_document(1, lambda at: record)
    title = line("Result ", (name, "bold"), ":")
    lines = [title, line(f"  type: {type(value).__name__}"), line(), *notes]
    lines += [line()] if notes else []
    return TextDocument([*lines, *map(line, _repr_lines(value, context.width, arguments.all))])


def _is_numeric(value: Any) -> bool:
    kind = dtype_kind(value.dtype) if isinstance(value, np.ndarray | np.generic) else "other"
    return kind not in ("string", "other")


def _plain_scalars() -> AbstractContextManager[object]:
    """NumPy's numbers in lists as numbers, without ``np.float32(...)`` around them."""
    if np.lib.NumpyVersion(np.__version__) < "2.0.0":
        return nullcontext()
    return np.printoptions(legacy="1.25")


def _repr_lines(value: Any, width: int, show_all: bool) -> list[str]:
    try:
        is_small = isinstance(value, list | tuple | dict | set) and len(value) <= _PRETTY
        with _plain_scalars():
            text = pprint.pformat(value, width=width, sort_dicts=False) if is_small else repr(value)
    except Exception as error:
        raise UserError(f"The result can't be shown: {one_line(error)}.") from error
    if len(text) > _LONGEST and not show_all:
        text = f"{text[:_LONGEST]}…\n(cut; -a shows all)"
    return text.splitlines()
