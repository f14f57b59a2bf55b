"""``precision``: what float16, bfloat16 or float8 would make of the run."""

from __future__ import annotations

import argparse
import os
import weakref

from tfdbg_cli.commands.context import TENSOR_MODES, Context
from tfdbg_cli.commands.json_lines import JSON_ARGUMENT, json_document
from tfdbg_cli.commands.list_command import ListCommand, order_arguments
from tfdbg_cli.commands.precision.keeping import kept_lines, write_kept
from tfdbg_cli.commands.precision.table import SORT_KEYS, error_text, precision_table, record
from tfdbg_cli.commands.registry import Argument, Command, Result, positive
from tfdbg_cli.commands.reply import Candidate
from tfdbg_cli.commands.shell import completers
from tfdbg_cli.commands.units import counted
from tfdbg_cli.common.documents import ChainDocument, Line, MenuItem, TextDocument, line
from tfdbg_cli.common.errors import UserError
from tfdbg_cli.common.settings import Settings
from tfdbg_cli.common.traits import EngineTraits
from tfdbg_cli.dumps.dump import Dump
from tfdbg_cli.dumps.run_info import traits_of_run
from tfdbg_cli.precision.study import Study
from tfdbg_cli.precision.target import TYPES, Target, target_of

__all__ = ["BAR", "COMMANDS", "SECONDS", "known_lines", "summary", "targets_of"]

#: What a run may be off by, where nobody says it, and the time for the ops of a run.
BAR, SECONDS = 0.01, 20

# Rows of a report; the list has all of them.
_MOST_REPORTED = 40

# Of each session: the studies over its runs, and which dumps they have.
_Studies = dict[object, tuple[Study, weakref.WeakSet[Dump]]]
_studies: weakref.WeakKeyDictionary[Settings, _Studies] = weakref.WeakKeyDictionary()


def targets_of(text: str) -> list[Target]:
    """The types of an option, with commas between.

    Raises:
        UserError: one is none, or there is none.
    """
    names = [*filter(None, map(str.strip, text.split(",")))]
    if not names:
        raise UserError("Which type?", "float16, bfloat16 or float8_e4m3, for example.")
    return [*dict.fromkeys(map(target_of, names))]


def _types(context: Context, typed: str) -> list[Candidate]:
    head, comma, last = typed.rpartition(",")
    return [Candidate(f"{head}{comma}{each}") for each in TYPES if each.startswith(last)]


def _bar(text: str) -> float:
    value = float(text)
    if not 0 <= value < 1:
        raise ValueError
    return value


_bar.__name__ = "error (0 to 1, e.g. 0.01)"


def _study(
    context: Context, dump: Dump, targets: list[Target], by_module: bool, seconds: int
) -> Study:
    """That of the session, with this run in it."""
    key = (*(each.name for each in targets), by_module)
    known = _studies.setdefault(context.settings, {})
    study, dumps = known.setdefault(key, (Study(targets, by_module=by_module), weakref.WeakSet()))
    if dump not in dumps:
        dumps.add(dump)
        study.add(dump, seconds)
    return study


def _precision(context: Context, arguments: argparse.Namespace) -> Result:
    dump = context.need_dump()
    targets = targets_of(arguments.to)
    traits = traits_of_run(dump.run_info())
    if arguments.keep:
        return _keep(context, dump, targets, traits, arguments)
    by_module = arguments.by == "module"
    study = _study(context, dump, targets, by_module, arguments.seconds)
    rows = study.rows
    if arguments.sort_by != "worst":
        rows.sort(key=SORT_KEYS[arguments.sort_by])
    if arguments.reverse:
        rows.reverse()
    if arguments.json:
        return json_document(len(rows), lambda at: record(rows[at]))
    lines = [*context.take_notes(), *summary(study)]
    if not rows:
        return TextDocument([*lines, line(("No tensor of this run is floating point.", "dim"))])
    written = ListCommand(
        "precision",
        {
            "--to": "" if arguments.to == "float16" else arguments.to,
            "--by": "module" if by_module else "",
        },
        sort_by=arguments.sort_by,
        reverse=arguments.reverse,
    )
    table = precision_table(dump, rows, written, by_module, arguments.columns)
    return ChainDocument(
        [TextDocument([*lines, line()]), table],
        menu=(
            MenuItem("by module", "precision --by module", enabled=not by_module),
            MenuItem("list_tensors", "lt"),
            MenuItem("help", "help precision"),
        ),
    )


def summary(study: Study) -> list[Line]:
    """What is said above the rows: of each type what the whole run would be in it.

    Args:
        study: of the runs.
    """
    runs = counted(study.runs, "run")
    lines = []
    for target in study.targets:
        rows = [row for row in study.rows if row.target == target]
        beyond = sum(bool(row.range.beyond) for row in rows)
        whole = study.whole.get(target.name)
        text, role = "What comes of the errors isn't known: the program is gone.", "dim"
        if whole is not None and whole.bad:
            text, role = f"All in {target.name}: overflow at {whole.bad}.", "error"
        elif whole is not None:
            text, role = f"All in {target.name}: the results are off by ", ""
            text += f"{error_text(whole.error)}."
        gone = whole.unknown if whole is not None else ""
        lines += [
            line(
                (f"{target.name}, over {runs}: ", "bold"),
                f"{beyond} of {len(rows)} go beyond its limit, {target.limit:g}.",
            ),
            line((text, role), (f" {gone} can't be computed again." * bool(gone), "dim")),
        ]
    if study.left:
        text = f"The time didn't suffice for {study.left} of them: precision --seconds 120, say."
        lines.append(line((text, "warning")))
    return lines


def known_lines(context: Context) -> list[Line]:
    """What `precision` has shown of a stop's run, for a report; empty: nobody has asked.

    Args:
        context: of the stop.
    """
    dump = context.dump
    lines: list[Line] = []
    for study, dumps in _studies.get(context.settings, {}).values():
        if dump is not None and dump in dumps and study.rows:
            rows = study.rows[:_MOST_REPORTED]
            table = precision_table(dump, rows, ListCommand("precision"), False, "")
            lines += [*summary(study), line(), *table.lines(0, table.line_count), line()]
    return lines


def _keep(
    context: Context,
    dump: Dump,
    targets: list[Target],
    traits: EngineTraits | None,
    arguments: argparse.Namespace,
) -> Result:
    if len(targets) > 1:
        raise UserError("--keep is for one type.", "precision --to float16 --keep FILE")
    if dump.redo is None:
        raise UserError(
            "The run can't be recomputed: the program that ran it is gone, or its engine can't "
            "recompute single ops.",
            "Use precision at a stop of the program.",
        )
    by_module = traits is not None and traits.keeps_modules
    study = _study(context, dump, targets, by_module, arguments.seconds)
    kept = study.keep(dump, targets[0], arguments.bar, arguments.seconds)
    path = os.path.expanduser(arguments.keep)
    write_kept(path, kept, targets[0], dump, traits)
    shown = [
        line("  ", (name or "(ops of no module)", "link" if name else "")) for name in kept.names
    ]
    texts = kept_lines(kept, targets[0], traits)
    return TextDocument([*map(line, texts), *shown, line((f"Wrote {path}.", "success"))])


COMMANDS = (
    Command(
        "precision",
        (),
        "tensors",
        "Show what float16, bfloat16 or float8 would make of the run, worst ops first.",
        _precision,
        (
            Argument(("--to",), "types, with commas between", "TYPE", "float16", complete=_types),
            Argument(
                ("--by",),
                "a row for each op or for each module",
                "WHAT",
                "op",
                choices=("op", "module"),
            ),
            Argument(
                ("--keep",),
                "write what has to stay in float32 to this file, as the framework's tools take it",
                "FILE",
                complete=completers.files,
            ),
            Argument(("--bar",), "with --keep: what the results may be off by", "X", BAR, _bar),
            Argument(
                ("--seconds",), "how long to compute at most", "N", SECONDS, positive("seconds")
            ),
            *order_arguments(tuple(SORT_KEYS), "worst"),
            JSON_ARGUMENT,
        ),
        modes=TENSOR_MODES,
        examples=(
            ("precision", "each op in float16: its range, its error, and the error of the results"),
            ("precision --to bfloat16,float8_e4m3", "in two other types"),
            ("precision --by module -s beyond -r", "modules, those that overflow most first"),
            ("precision --keep keep.json", "the fewest ops that have to stay in float32"),
        ),
        details="The framework itself recomputes each op: the inputs and the result are rounded to "
        "the type, and the op computes in float32, as on GPUs and NPUs. Error is the error of the "
        "op's own result. At end is the error of the run's results if this op alone is in the "
        "type. Both are the norm of the difference, divided by the norm of the tensor. Lost: "
        "nonzero elements that become 0. Small: elements that keep fewer digits. The numbers cover "
        "all runs at which you gave the command.\n\nMasks (the lowest number of float32) may "
        "overflow. An op that accumulates in float16 makes larger errors than these.",
    ),
)
