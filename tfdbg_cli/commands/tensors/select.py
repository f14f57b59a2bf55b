"""``select``: the tensors that later commands of this stop are about."""

from __future__ import annotations

import argparse
from collections.abc import Iterable

from tfdbg_cli.commands.context import TENSOR_MODES, Context
from tfdbg_cli.commands.registry import Argument, Command, Result
from tfdbg_cli.commands.reply import Toast
from tfdbg_cli.commands.shell import completers
from tfdbg_cli.commands.shell.parsing import quoted
from tfdbg_cli.commands.tensors.list_tensors import LIST_TENSORS, passing
from tfdbg_cli.commands.tensors.program_names import resolve_program_name
from tfdbg_cli.common.documents import Document, TextDocument, line
from tfdbg_cli.common.errors import UserError, did_you_mean
from tfdbg_cli.dumps.dump import Dump
from tfdbg_cli.dumps.elements import parse_tensor_name

__all__ = ["COMMANDS"]

# -f, -fenn, -n, -t and --dtype, as lt has them.
_FILTERS = LIST_TENSORS.arguments[:5]


def _named(context: Context, dump: Dump, name: str) -> Iterable[str]:
    """A tensor, or all that a node has dumped."""
    name = resolve_program_name(context, name)
    node, slot = parse_tensor_name(name)
    found = dump.by_node(node) if slot is None else dump.by_tensor(name)
    if not found:
        hint = dump.why_absent(node) if slot is None else ""
        raise UserError(
            f'No tensor of this run is called "{name}".',
            did_you_mean(name, dump.tensor_names()) or hint or "lt lists them.",
        )
    return [datum.tensor_name for datum in found]


def _select(context: Context, arguments: argparse.Namespace) -> Result:
    dump, selected = context.need_dump(), context.selected
    if arguments.clear:
        selected.clear()
        return Toast("No tensor is selected.", "success")
    names = [each for name in arguments.tensor_name for each in _named(context, dump, name)]
    filters = ("tensor_filter", "node_name_filter", "op_type_filter", "dtype")
    if any(getattr(arguments, name) for name in filters):
        options = argparse.Namespace(**vars(arguments), views=False, selected=False)
        names += [datum.tensor_name for datum in passing(context, options).found]
    elif not names and not arguments.drop:
        return _selected(selected)
    for name in dict.fromkeys(names):
        if arguments.drop:
            selected.pop(name, None)
        else:
            selected[name] = None
    count = f"{len(selected)} tensor(s)" if selected else "No tensor"
    return Toast(f"{count} selected; lt --selected lists them.", "success")


def _selected(selected: Iterable[str]) -> Document:
    names = list(selected)
    if not names:
        return TextDocument([line("No tensor is selected."), line(("select NAME does.", "dim"))])
    return TextDocument(
        [
            line((f"{len(names)} tensor(s) selected:", "bold")),
            line(),
            *(line("  ", (name, "link", f"pt {quoted(name)}")) for name in names),
        ]
    )


COMMANDS = (
    Command(
        "select",
        (),
        "tensors",
        "Select tensors for pt --selected, eval and lt --selected; without arguments: list them.",
        _select,
        (
            Argument(
                ("tensor_name",),
                "tensors, or nodes (all their tensors)",
                "TENSOR",
                nargs="*",
                complete=completers.tensors,
            ),
            *_FILTERS,
            Argument(("-d", "--drop"), "deselect these"),
            Argument(("--clear",), "deselect all"),
        ),
        modes=TENSOR_MODES,
        examples=(
            ("select fc1.weight:0 fc2.weight:0", "two tensors"),
            ("select -t MatMul", "and all matrix products"),
            ("select -d fc1.weight:0", "but not this one"),
            ("select -n ^gradients/ -f has_inf_or_nan", "the bad gradients"),
            ("select", "the selection"),
        ),
        details="pt --selected -w values.npz saves the selected tensors, and eval knows them "
        "by name:\n    "
        'eval "{name: np.linalg.norm(value) for name, value in selected.items()}"\n\n'
        "Each select adds to the selection of this stop. In a table of the full "
        "screen Space selects a row, and a comma all rows with the same cell. For a "
        "tensor with several dumps, all commands use the last one.",
    ),
)
