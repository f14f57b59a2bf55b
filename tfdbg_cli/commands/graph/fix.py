"""``fix``: the remedies for a bad tensor, each tried on the values of its run."""

from __future__ import annotations

import argparse
import contextlib
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from tfdbg_cli.commands.context import TENSOR_MODES, Context
from tfdbg_cli.commands.graph.why import begin_of
from tfdbg_cli.commands.json_lines import JSON_ARGUMENT, json_document
from tfdbg_cli.commands.registry import Argument, Command, Result, positive
from tfdbg_cli.commands.reply import Script, Toast
from tfdbg_cli.commands.shell import completers
from tfdbg_cli.commands.shell.parsing import quoted
from tfdbg_cli.commands.tensors.facts import TensorFacts
from tfdbg_cli.commands.tensors.health import TensorHealth
from tfdbg_cli.commands.wrapping import Prose, columns_of
from tfdbg_cli.common.arrays import Array
from tfdbg_cli.common.documents import ChainDocument, Line, Span, TextDocument, line
from tfdbg_cli.common.errors import DumpError, UserError
from tfdbg_cli.common.files import near_path, written
from tfdbg_cli.dumps.dump import CannotRedo, Datum, Dump
from tfdbg_cli.dumps.finite import count_bad
from tfdbg_cli.dumps.run_info import traits_of_run
from tfdbg_cli.filters.builtin import RECOMMENDED
from tfdbg_cli.filters.causes.find import beginning_of, cause_of
from tfdbg_cli.filters.lineage import TensorLineage
from tfdbg_cli.remedies.tried import TriedRemedy, tried, written_variables
from tfdbg_cli.tensors.numeric import has_nonfinite

__all__ = ["COMMANDS"]

_SECONDS = 20.0
_MOST_TENSORS = 12
_MOST_NAMES = 8

_EDIT = "fix N --apply FILE writes the change of the line: run the program again with it."
_HAS_VALUES = "The program has the values of this run already."
_NO_RUN = "There is no run here whose results the program still waits for."
_NONE = "No remedy of the table fits this reason."
_UNKNOWN = "The reason isn't known, so there is no remedy to try."
_KEEP = "config set level values"


def _fix(context: Context, arguments: argparse.Namespace) -> Result:
    dump = context.need_dump()
    begin = begin_of(context, arguments.tensor)
    if begin is None:
        return Toast("No tensor of this run went bad from clean inputs.", "success")
    if arguments.number is None and (arguments.go or arguments.apply):
        raise UserError("Which remedy?", "fix lists them: fix 1 --go, fix 1 --apply FILE.")
    if dump.redo is None:
        raise UserError(
            "The run can't be recomputed: the program that ran it is gone, or its engine can't "
            "recompute single ops.",
            "Use fix at the stop of run -f.",
        )
    found = tried(dump, begin, _SECONDS)
    if arguments.json:
        return json_document(len(found), lambda at: found[at].record())
    if not found:
        return TextDocument(_without(dump, begin))
    if arguments.number is None:
        return _list(context, dump, begin, found)
    if arguments.number > len(found):
        raise UserError(f"There are {len(found)} remedies here.", "fix lists them.")
    chosen = found[arguments.number - 1]
    if arguments.go:
        return _go(context, chosen)
    if arguments.apply:
        return _apply(chosen, arguments.apply)
    return ChainDocument(
        [Prose(_page(dump, chosen), columns_of(context)), TextDocument(_change(chosen))]
    )


def _without(dump: Dump, begin: Datum) -> list[Line]:
    """Where there is nothing to try: what to look at next."""
    is_known = cause_of(TensorLineage.of(dump), begin) is not None
    return [line((_NONE if is_known else _UNKNOWN, "info")), _next(dump, begin)]


def _next(dump: Dump, begin: Datum) -> Line:
    """What to look at where the bad value came from elsewhere."""
    cause = cause_of(TensorLineage.of(dump), begin)
    kind = cause.kind if cause is not None else ""
    name = quoted(begin.tensor_name)
    nexts = {
        "batch": (f"pt {name} --map", "shows which rows of the batch are bad"),
        "weights": (
            "run -f",
            "from the start of the program on finds the run that wrote them, if one did",
        ),
        "memory": (f"li {quoted(begin.node_name)}", "shows where the memory comes from"),
        "number": (f"ni -t {quoted(begin.node_name)}", "shows where the number is written"),
        "inputs": (_KEEP, "keeps the inputs of each op from the next run on; they show the reason"),
    }
    known = ("why", "tells the reason and what people do about it")
    if not kind and _has_inputs(dump, begin):
        nexts["inputs"] = (f"li {quoted(begin.node_name)}", "shows what it was made of")
    if beginning_of(dump):
        text = "shows which elements are bad; they were so before the first run of the program"
        nexts["weights"] = (f"pt {name} --map", text)
    command, text = nexts.get(kind or "inputs", known)
    return line((command, "link", command), (f" {text}.", "dim"))


def _has_inputs(dump: Dump, begin: Datum) -> bool:
    """Whether a dump has all that an op was given, so that no level shows more of it."""
    node = TensorLineage.of(dump).node(begin)
    if node is None or _keeps_some(dump):
        return False
    return bool(node.returns) or all(map(dump.by_tensor, node.inputs))


def _keeps_some(dump: Dump) -> bool:
    """Whether a level keeps more of a run than a dump has."""
    return dump.lists_only_bad or bool(dump.kept)


def _list(context: Context, dump: Dump, begin: Datum, found: Sequence[TriedRemedy]) -> TextDocument:
    """All remedies; below each other where the screen is too narrow for a table."""
    health = TensorHealth(TensorFacts(dump))
    is_any = any(each.outcome.count for each in found)
    how = ", tried on the values of this run:" if is_any else "; none could be tried:"
    head = [line("Remedies for ", health.name(begin), how), line()]
    end = [line(), line(("fix 1", "link", "fix 1"), (" shows the first one in full.", "dim"))]
    cause = cause_of(TensorLineage.of(dump), begin)
    if cause is not None and cause.kind == "batch":
        end.append(_next(dump, begin))
    if _keeps_some(dump) and any("isn't in the dump" in each.outcome.why for each in found):
        text = " keeps all values from the next run on, so that more can be computed again."
        end.append(line((_KEEP, "link", _KEEP), (text, "dim")))
    columns, table = columns_of(context), _table(found)
    if max(len(each.text) for each in table) <= columns:
        return TextDocument([*head, *table, *end])
    return Prose([*head, *_entries(found), *end], columns, indent=3)


def _table(found: Sequence[TriedRemedy]) -> list[Line]:
    rows = [(each.text, each.then, _loss(each), each.elsewhere) for each in found]
    heads = ("change", "then", "loss", "changed elsewhere")
    widths = [max(len(row[at]) for row in (heads, *rows)) for at in range(3)]
    lines = [
        line(
            "   ",
            *((f"{heads[at]:{widths[at]}}  ", "bold") for at in range(3)),
            (heads[3], "bold"),
        )
    ]
    for number, (each, row) in enumerate(zip(found, rows, strict=True), 1):
        lines.append(
            line(
                (f"{number}  ", "link", f"fix {number}"),
                f"{row[0]:{widths[0]}}  ",
                (f"{row[1]:{widths[1]}}  ", _role(each)),
                f"{row[2]:{widths[2]}}  ",
                (row[3], "dim"),
            )
        )
    return lines


def _entries(found: Sequence[TriedRemedy]) -> Iterator[Line]:
    for number, each in enumerate(found, 1):
        loss = f", loss {_loss(each)}" if each.loss is not None else ""
        yield line((f"{number}  ", "link", f"fix {number}"), each.text)
        yield line("   ", (each.then, _role(each)), f"{loss}; ", (_elsewhere(each), "dim"))


def _loss(each: TriedRemedy) -> str:
    return f"{each.loss[1]:.5g}" if each.loss is not None else ""


def _elsewhere(each: TriedRemedy) -> str:
    return f"changed elsewhere: {each.elsewhere}"


def _role(each: TriedRemedy) -> str:
    return "success" if each.helps else "error"


def _page(dump: Dump, chosen: TriedRemedy) -> list[Line]:
    health = TensorHealth(TensorFacts(dump))
    outcome = chosen.outcome
    lines = [
        line(("Change: ", "bold"), chosen.text),
        line(("Then:   ", "bold"), (chosen.then, "success" if chosen.helps else "error")),
    ]
    if chosen.loss is not None:
        lines.append(line(("Loss:   ", "bold"), f"{chosen.loss[1]:.6g}  ({chosen.loss[0]})"))
    if outcome.count:
        lines += _computed(health, dump, chosen)
    lines.append(line())
    if chosen.edit is None or chosen.frame is None:
        lines.append(line(f"{_place(dump, chosen)} by hand: ", (chosen.text, "bold")))
    return lines


def _place(dump: Dump, chosen: TriedRemedy) -> str:
    """What has to be changed, where no rule can write it."""
    traits, frame = traits_of_run(dump.run_info()), chosen.frame
    if traits is not None and traits.only_infers:  # the program's line only calls the model
        return f"{chosen.candidate.change.node} has to be changed in the model"
    if frame is None:
        return "To be changed"
    return f"The line at {near_path(frame.file)}:{frame.line} has to be changed"


def _computed(health: TensorHealth, dump: Dump, chosen: TriedRemedy) -> list[Line]:
    """What is other with a remedy."""
    outcome = chosen.outcome
    lines = [line(("Other elements of the result that changed: ", "bold"), chosen.elsewhere)]
    ops = f"{outcome.count} ops" if outcome.count != 1 else "1 op"
    end = f"; not {outcome.unknown} and what reads it: {outcome.why}" if outcome.unknown else ""
    lines.append(line(("Computed again: ", "bold"), f"{ops}, from the values of this run{end}"))
    lines += [line(), line(("Tensors: ", "bold"), "in the run, and with the change")]
    for name, value in [*outcome.values.items()][:_MOST_TENSORS]:
        data = dump.by_tensor(name)
        before = [Span("  "), *health.words(data[0])] if data else [Span("  not dumped", "dim")]
        shown = [health.name(data[0])] if data else [Span(name)]
        lines.append(line("  ", *shown, *before, "  →  ", *_range(value)))
    if len(outcome.values) > _MOST_TENSORS:
        lines.append(line((f"  and {len(outcome.values) - _MOST_TENSORS} more", "dim")))
    return lines


def _change(chosen: TriedRemedy) -> list[Line]:
    """The edit, whose lines aren't broken."""
    lines = []
    for text in chosen.diff:
        role = {"+": "success", "-": "error"}.get(text[:1], "dim")
        lines.append(line((text, role)))
    return lines


def _range(value: Any) -> list[Span]:
    count = sum(count_bad(value))
    if count:
        return [Span(f"{count} bad of {value.size}", "error")]
    if not value.size or value.dtype.kind not in "fiuV":
        return [Span("clean", "success")]
    low, high = float(value.min()), float(value.max())
    between = f"{low:g}" if low == high else f"min {low:g}, max {high:g}"
    return [Span("clean", "success"), Span(f"  {between}")]


def _apply(chosen: TriedRemedy, path: str) -> Result:
    if chosen.edit is None:
        raise UserError(
            "This remedy can't be written as a patch.", f"Change the call by hand: {chosen.text}"
        )
    with written(path), open(os.path.expanduser(path), "x", encoding="utf-8") as file:
        file.write("\n".join((*chosen.diff, "")))
    return Toast(f"Wrote {path}. Apply it with: patch -p1 < {path}", "success")


def _is_bad(dump: Dump, name: str) -> bool:
    with contextlib.suppress(DumpError):
        data = dump.maybe_nonfinite(dump.by_tensor(name))
        return any(has_nonfinite(each.get_tensor()) for each in data)
    return False


def _go(context: Context, chosen: TriedRemedy) -> Result:
    """Let the program go on with what the run would have given."""
    if not chosen.helps:
        raise UserError(f"With this remedy the run isn't clean: {chosen.then}.")
    if context.replace is None:
        raise UserError(_HAS_VALUES if context.mode == "run-end" else _NO_RUN, _EDIT)
    dump = context.need_dump()
    new = _NewValues(dump, chosen)
    node = dump.node(new.node)
    if node is not None and not node.inputs:
        raise UserError(
            f"{new.node} came into the run from outside: the program's data isn't changed.",
            "Leave the rows out where the data is read.",
        )
    try:
        context.replace(new)
    except CannotRedo as error:
        raise UserError(f"The program can't go on with this: {error}.", _EDIT) from None
    if not new.given:
        raise UserError("Nothing that the run returns depends on the changed op.", _EDIT)
    text = f"The program gets {_some(new.given)} with the change."
    if new.written:
        text += f" These variables were written again: {_some(new.written)}."
    if new.bad:
        text += f" Still bad, from elsewhere: {_some(new.bad)}."
    name = context.run_info.filter_name or RECOMMENDED
    return Script((f"run -f {quoted(name)}",), Toast(text, "warning" if new.bad else "success"))


def _some(names: Iterable[str]) -> str:
    """The first of some names, and how many more there are."""
    each = [*dict.fromkeys(names)]
    more = f" and {len(each) - _MOST_NAMES} more" if len(each) > _MOST_NAMES else ""
    return f"{', '.join(each[:_MOST_NAMES])}{more}"


class _NewValues:
    """What the program gets, as it asks for it.

    Args:
        dump: of the run.
        chosen: the remedy.

    Attributes:
        node: the changed op.
        written: variables that would have got other values in the run.
        given: the tensors that are other ones.
        bad: those that are as they were, and bad.
    """

    def __init__(self, dump: Dump, chosen: TriedRemedy) -> None:
        self._dump, self._chosen = dump, chosen
        self.node = chosen.candidate.change.node
        self.written = written_variables(dump, chosen.outcome)
        self.given: list[str] = []
        self.bad: list[str] = []

    def __call__(self, name: str) -> Array | None:
        """The value of a tensor with the change; ``None``: what it was."""
        value = self._chosen.value(name)
        if value is not None:
            self.given.append(name)
        elif _is_bad(self._dump, name):
            self.bad.append(name)
        return value


COMMANDS = (
    Command(
        "fix",
        (),
        "graph",
        "Try the remedies for a bad tensor on the values of this run.",
        _fix,
        (
            Argument(
                ("number",),
                "show this remedy in full",
                "N",
                nargs="?",
                kind=positive("number"),
            ),
            Argument(
                ("-t", "--tensor"),
                "of this bad tensor; default: the current place, or where the run went bad",
                "NAME",
                complete=completers.tensors,
            ),
            Argument(
                ("--apply",),
                "write the change to this new file, as a patch",
                "FILE",
                complete=completers.files,
            ),
            Argument(
                ("--go",),
                "let the program go on with the results that this remedy gives, and wait for the "
                "next bad tensor as run -f does",
            ),
            JSON_ARGUMENT,
        ),
        modes=TENSOR_MODES,
        examples=(
            ("fix", "all remedies for the current tensor, and the result of each"),
            ("fix 1", "the first one: its tensors, and the change of the line"),
            ("fix 1 --apply clamp.patch", "the change as a file for patch -p1"),
            ("fix 1 --go", "the program goes on as if its line had been changed in this run"),
        ),
        details="fix tries each remedy on copies of the recorded values, with the framework's own "
        "ops: it recomputes the changed op and every op that depends on it, gradients and updates "
        "included. The program and its files don't change. Only --go gives the program other "
        "results of this run: of functions of JAX and TensorFlow, of sessions, of ONNX Runtime, "
        "and of PyTorch at the level values. fix names the ops that it can't recompute; config "
        "set level values keeps the values that they need.",
    ),
)
