"""``why``: what went bad, at which line, why, and what became of it."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterator

from tfdbg_cli.commands.context import TENSOR_MODES, Context, Place, compile_regex
from tfdbg_cli.commands.graph.first_bad import nothing_bad, origins_of
from tfdbg_cli.commands.graph.verdict import first_origin, verdict
from tfdbg_cli.commands.json_lines import JSON_ARGUMENT, json_document
from tfdbg_cli.commands.registry import Argument, Command, Result
from tfdbg_cli.commands.reply import Toast
from tfdbg_cli.commands.report.finding import Finding
from tfdbg_cli.commands.shell import completers
from tfdbg_cli.commands.shell.parsing import quoted, tokenize
from tfdbg_cli.commands.tensors.facts import TensorFacts
from tfdbg_cli.commands.tensors.health import TensorHealth
from tfdbg_cli.commands.tensors.list_tensors import LIST_TENSORS
from tfdbg_cli.commands.wrapping import Prose, columns_of
from tfdbg_cli.common.documents import ChainDocument, Document, Line, line
from tfdbg_cli.common.errors import UserError
from tfdbg_cli.dumps.dump import Datum, Dump, is_explained
from tfdbg_cli.filters.builtin import has_inf_or_nan
from tfdbg_cli.filters.causes.advice import ADVICE
from tfdbg_cli.filters.causes.find import cause_of
from tfdbg_cli.filters.lineage import TensorLineage
from tfdbg_cli.filters.origins import began_here, origin_of_nonfinite

__all__ = ["COMMANDS", "begin_of"]

_INDENT = 7

_MEANT = (
    "No op made a bad value from clean inputs: the program has written the bad values down (a "
    "mask, a constant), or they are memory from before the run."
)
_LOCAL = (
    "What went bad stayed local: no bad value reached a result of the run, other than intended "
    "ones (a mask)."
)


def _without_origin(dump: Dump) -> Iterator[Line]:
    """Why there is no verdict; the first tensor that went bad though nothing came of it."""
    bad = (each for each in dump.maybe_nonfinite(dump.data()) if began_here(dump, each))
    begin = next(bad, None)
    yield line((_MEANT if begin is None else _LOCAL, "info"))
    if begin is None:
        return
    health = TensorHealth(TensorFacts(dump))
    cause = cause_of(TensorLineage.of(dump), begin)
    yield line("The first is ", health.name(begin), "  ", *health.words(begin))
    if cause is not None:
        yield line(("Why:   ", "bold"), (cause.text, "info"))
        yield line("       ", cause.advice)


def _why(context: Context, arguments: argparse.Namespace) -> Result:
    dump = context.need_dump()
    without = arguments.filter_exclude_node_names
    pattern = compile_regex(without, "-fenn") if without else None
    explained = _explained(context, arguments.tensor_filter)
    if arguments.next:
        begin: Datum | None = _next_origin(context, pattern)
        if begin is None:
            text = "No other op of this run made a nan or an infinity from clean inputs."
            return Toast(text, "warning")
    else:
        begin = None if arguments.tensor_filter else _origin_of(context, arguments.node_name)
        begin = begin or (first_origin if explained is None else explained)(dump, pattern)
    if begin is not None:
        data = dump.by_tensor(begin.tensor_name)
        context.place = Place(begin.tensor_name, data.index(begin) if len(data) > 1 else None)
    if arguments.json:
        found = [Finding.of(context, begin)] if begin is not None else []
        return json_document(len(found), lambda at: found[at].record())
    if begin is not None:
        context.extra["loss is told"] = True
        lines = verdict(dump, begin, context.width)
    elif explained is not None:
        lines = [line((f"No tensor of this run passes {arguments.tensor_filter}.", "success"))]
    elif next(dump.passing(has_inf_or_nan), None) is not None:
        lines = [*_without_origin(dump)]
    else:
        lines = [nothing_bad(dump)]
    if not arguments.tensor_filter:
        shown = Prose(lines, columns_of(context), _INDENT)
        shown.kind = "verdict" if begin is not None else ""
        return shown
    parts = [Prose([*lines, line()], columns_of(context), _INDENT)]
    words = ["-f", quoted(arguments.tensor_filter)]
    if without:
        words += ["-fenn", quoted(without)]
    listed = LIST_TENSORS.run(context, LIST_TENSORS.parse(tokenize(" ".join(words))))
    assert isinstance(listed, Document)
    document = ChainDocument([*parts, listed], menu=listed.menu)
    document.kind = "verdict" if begin is not None else ""
    return document


def _explained(context: Context, name: str) -> Callable[..., Datum | None] | None:
    """Finds the first tensor that passes a filter with reasons of its own; ``None``: it has none.

    Args:
        context: of the dump.
        name: of the filter; empty: there is none.
    """
    predicate = context.filters.predicate(name) if name else None
    if predicate is None or not is_explained(predicate):
        return None

    return lambda dump, exclude: next(dump.passing(predicate, exclude), None)


def _next_origin(context: Context, exclude: re.Pattern[str] | None) -> Datum | None:
    """The tensor that went bad by itself after the one of the current place, or the first one."""
    found = [*context.need_dump().passing(origin_of_nonfinite, exclude)]
    names = [datum.tensor_name for datum in found]
    at = names.index(context.place.name) + 1 if context.place.name in names else 0
    if at == len(found) or (at == 0 and names == [context.place.name]):
        return None
    return found[at]


def begin_of(context: Context, name: str | None) -> Datum | None:
    """Where something bad began, as ``why`` tells it; ``None``: nothing did.

    Args:
        context: of the dump.
        name: of a bad tensor; ``None``: of the current place, or the run's first origin.

    Raises:
        UserError: the named tensor isn't bad.
    """
    return _origin_of(context, name) or first_origin(context.need_dump())


def _origin_of(context: Context, name: str | None) -> Datum | None:
    """Where a tensor went bad first, the current one if none is named; ``None``: it isn't bad."""
    graph = context.need_dump().graph()
    if graph is None or not (name or context.place.name):
        return None
    origins, clean = origins_of(context, graph, *context.here("NAME", name))
    if name and not origins:
        raise UserError(clean)
    return origins[0].chain[-1].datum if origins else None


COMMANDS = (
    Command(
        "why",
        (),
        "graph",
        "Explain the first bad tensor: the reason, the line, the inputs, the results that "
        "became bad.",
        _why,
        (
            Argument(
                ("node_name",),
                "a tensor or a node; none: the current place, if it is bad, or the whole run",
                "NAME",
                nargs="?",
                complete=completers.tensors,
            ),
            *LIST_TENSORS.arguments[:2],  # -f and -fenn
            Argument(("-n", "--next"), "the next origin"),
            JSON_ARGUMENT,
        ),
        modes=TENSOR_MODES,
        examples=(
            ("why", "why the current place, or the run, is bad"),
            ("why loss", "why this tensor is bad"),
        ),
        details="\n".join(
            [
                "A reason is given if op, inputs and dtype show it:",
                *(f"  {kind:<10} {text}" for kind, text in ADVICE.items()),
            ]
        ),
    ),
)
