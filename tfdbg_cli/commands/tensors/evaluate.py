"""``eval``: Python and NumPy over dumped tensors, written in backticks."""

from __future__ import annotations

import argparse
from typing import Any

from tfdbg_cli.commands.context import Context
from tfdbg_cli.commands.registry import Argument, Command, Result
from tfdbg_cli.commands.shell import completers
from tfdbg_cli.commands.tensors.expressions import check_name, evaluate
from tfdbg_cli.commands.tensors.values import result_document, value_arguments
from tfdbg_cli.common.arrays import np
from tfdbg_cli.common.documents import Document, TextDocument, line
from tfdbg_cli.common.errors import UserError
from tfdbg_cli.tensors.numeric import dtype_name

__all__ = ["COMMANDS"]


def _stored_names(context: Context) -> Document:
    if not context.names:
        return TextDocument(
            [
                line("No results are stored."),
                line(("eval -o NAME EXPRESSION stores one.", "dim")),
            ]
        )
    width = max(map(len, context.names))
    lines = [line(f"{len(context.names)} stored result(s):"), line()]
    for name, value in context.names.items():
        lines.append(
            line("  ", (name, "link", f"eval {name}"), " " * (width - len(name) + 2), _kind(value))
        )
    return TextDocument(lines)


def _kind(value: Any) -> str:
    if isinstance(value, np.ndarray | np.generic):
        return f"{dtype_name(value.dtype)} {value.shape}"
    return type(value).__name__


def _kept(value: Any) -> Any:
    """A result that holds nothing of the run's dump: an array may be a view of it."""
    return value.copy() if isinstance(value, np.ndarray) else value


def _evaluate(context: Context, arguments: argparse.Namespace) -> Result:
    expression = " ".join(arguments.expression).strip()
    name = arguments.output
    if name:
        check_name(name)
    if not expression:
        if name or arguments.write_path:
            raise UserError("eval: there is no expression.", "Write for example eval `node:slot`.")
        return _stored_names(context)
    value = evaluate(context, expression, arguments.number)
    document = result_document(
        context,
        value,
        arguments,
        name=f"from eval of expression '{expression}'",
        key=name or "result",
        show_summary=True,
        notes=(line((f"Stored as {name}", "success")),) if name else (),
    )
    if name:
        context.names[name] = _kept(value)
    return document


EVAL = Command(
    "eval",
    ("ev",),
    "tensors",
    "Evaluate a Python expression: tensor names in backticks, NumPy as np.",
    _evaluate,
    (
        Argument(
            ("expression",),
            "quote it if it has blanks; none: list the stored results",
            "EXPRESSION",
            nargs="*",
            complete=completers.expression,
        ),
        Argument(
            ("-o", "--output"),
            "store the result under this name, for later expressions at this and later stops",
            "NAME",
            default="",
            complete=completers.stored,
        ),
        *value_arguments("which dump of repeated tensors, for references without [index]"),
    ),
    examples=(
        ('eval "np.argwhere(np.isinf(`cross_entropy/Log:0`))"', "the indices of the infinities"),
        ('eval "`hidden/Relu:0` > 3"', "a > inside quotes is not a redirection"),
        ("eval np.sum(`loop/body:0[2]`)", "the third dump of a tensor"),
        ("eval `/device:GPU:0:hidden/Relu:0:DebugIdentity`", "by device and debug op"),
        ("eval -o before \"fetches['loss']\"", "store a fetch, to compare it at the next stop"),
        ("eval fetches['loss']-before", "use the stored value"),
        ("eval _.max()", "_ is the tensor that was last looked at"),
        ("eval", "list the stored results"),
    ),
    details=(
        "A reference is `[device:]node[:slot[:DebugOp]][[execution]]`, the name of a feed, "
        "or (PyTorch) of a variable of the program that run_info lists, like `loss`. The "
        "device may be abbreviated: /device:CPU:0. The execution counts from 0, and from the "
        "end if it is negative. Backticks inside Python strings are literal.\n\n"
        "Names: _ (the tensor of the current place), np, stored results, and the run's "
        "fetches and feeds by name, with or without :0: fetches['loss'], feeds['x:0']; "
        "selected has the selected tensors, by name. They are read when they are used.\n\n"
        "The expression is run by Python as it is: it can do what your program can do."
    ),
)

COMMANDS = (EVAL,)
