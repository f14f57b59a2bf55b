"""``eval``: Python and NumPy over dumped tensors, written in backticks."""

from __future__ import annotations

import argparse
import re
from typing import Any

import numpy as np

from tfdbg_cli.commands import completers
from tfdbg_cli.commands.context import Context
from tfdbg_cli.commands.print_tensor import value_arguments, value_document
from tfdbg_cli.commands.registry import Argument, Command, Result
from tfdbg_cli.documents import TextDocument, line
from tfdbg_cli.dumps.dump import Datum, Dump, InconvertibleTensorProto
from tfdbg_cli.errors import UserError, did_you_mean, one_line

__all__ = ["COMMANDS", "find_reference"]

# [device:]node[:slot[:debug_op]][[execution]]; a device begins with a slash, a node never does.
_REFERENCE = re.compile(
    r"(?:(?P<device>/.+?):(?=[^:/]+:\d+(?::|\[|\Z)|[^:]*/[^:]*:\d+(?::|\[|\Z)))?"
    r"(?P<node>[^:\[\]]+)(?::(?P<slot>\d+)(?::(?P<op>[A-Za-z]\w*(?:\(.*\))?))?)?"
    r"(?:\[(?P<execution>-?\d+)\])?\Z"
)


def find_reference(dump: Dump, text: str) -> Datum:
    """The datum of a backtick reference.

    Args:
        dump: where to look.
        text: ``node``, ``node:slot``, ``node:slot:DebugOp``, with a device and a colon in front
            and the index of the execution in brackets behind, if wanted.

    Raises:
        UserError: malformed, or no such dump.
    """
    match = _REFERENCE.match(text.strip())
    if match is None:
        raise UserError(
            f"`{text}` names no tensor.",
            "Write `node:slot`, `node:slot:DebugOp` or `node:slot[2]`.",
        )
    node, slot = match["node"], match["slot"]
    if slot is None:
        slots = {datum.output_slot for datum in dump.by_node(node)}
        if len(slots) > 1:
            names = ", ".join(f"`{node}:{index}`" for index in sorted(slots))
            raise UserError(f"`{text}` has several output slots.", f"Use one of {names}.")
        slot = str(slots.pop()) if slots else "0"
    found = dump.tensor(f"{node}:{slot}")
    if match["op"]:
        found = [datum for datum in found if datum.debug_op == match["op"]]
    if match["device"]:
        found = [datum for datum in found if datum.device_name == match["device"]]
    if not found:
        raise UserError(f"No dump of {node}:{slot} is like `{text}`.")
    execution = int(match["execution"] or 0)
    if not -len(found) <= execution < len(found):
        raise UserError(f"`{text}`: there are {len(found)} dump(s), from [0] on.")
    return found[execution]


def _value(context: Context, reference: str) -> Any:
    feeds = context.run_info.feeds
    dump = context.dump
    if dump is None or (reference in feeds and not dump.by_tensor(reference)):
        if reference not in feeds:
            raise UserError(
                f"`{reference}` is not known at this stop.",
                did_you_mean(reference, feeds) or "Only feeds are there before the run.",
            )
        return np.asarray(feeds[reference])
    value = dump.value(find_reference(dump, reference))
    if isinstance(value, InconvertibleTensorProto):
        raise UserError(f"The value of `{reference}` is no array: {value}.")
    return value


def _split(expression: str) -> tuple[str, list[str]]:
    """The expression with names for its references, and the references.

    Raises:
        UserError: a backtick has no partner.
    """
    pieces = expression.split("`")
    if len(pieces) % 2 == 0:
        raise UserError("A backtick has no partner.", "Write tensors as `node:slot`.")
    references = pieces[1::2]
    names = iter(f"_tensor_{number}" for number in range(len(references)))
    code = "".join(part if at % 2 == 0 else next(names) for at, part in enumerate(pieces))
    return code, references


def _evaluate(context: Context, arguments: argparse.Namespace) -> Result:
    expression = " ".join(arguments.expression).strip()
    code, references = _split(expression)
    names: dict[str, Any] = {"np": np, "numpy": np}
    for number, reference in enumerate(references):
        names[f"_tensor_{number}"] = _value(context, reference)
    try:
        with np.errstate(all="ignore"):
            value = eval(compile(code.strip(), "<eval>", "eval"), names)
    except Exception as error:
        text = one_line(error)
        for number, reference in enumerate(references):
            text = text.replace(f"_tensor_{number}", f"`{reference}`")
        raise UserError(f"The expression failed: {text}.") from error
    title = f"from eval of expression '{expression}'"
    plain_number = isinstance(value, bool | int | float | complex | str | bytes | type(None))
    if plain_number or not _is_array_like(value):
        if arguments.write_path:
            raise UserError("Only arrays can be saved.", "Wrap the expression in np.array(…).")
        lines = [line("Result ", (title, "bold"), ":"), line(f"  type: {type(value).__name__}")]
        lines += [line(), *(line(text) for text in repr(value).splitlines())]
        return TextDocument(lines)
    return value_document(
        context,
        value,
        arguments,
        name=title,
        force_summary=np.asarray(value).dtype.kind in "fciub",
    )


def _is_array_like(value: object) -> bool:
    if isinstance(value, np.ndarray | np.generic):
        return True
    if not isinstance(value, list | tuple):
        return False
    try:
        return np.asarray(value).dtype.kind != "O"
    except ValueError:
        return False


EVAL = Command(
    "eval",
    ("ev",),
    "tensors",
    "Evaluate a Python expression; tensors stand in backticks, NumPy is np.",
    _evaluate,
    (
        Argument(
            ("expression",),
            "quote it if it has blanks",
            "EXPRESSION",
            nargs="+",
            complete=completers.expression,
        ),
        *value_arguments(with_number=False),
    ),
    examples=(
        ('eval "np.argwhere(np.isinf(`cross_entropy/Log:0`))"', "the places of the infinities"),
        ('eval "`hidden/Relu:0` > 3"', "a > inside quotes is no redirection"),
        ("eval np.sum(`loop/body:0[2]`)", "the third dump of a tensor"),
    ),
    details="The expression is run by Python as it is: it can do what your program can do.",
)

COMMANDS = (EVAL,)
