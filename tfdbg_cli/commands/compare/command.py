"""``compare``: the tensors of this run beside those of another one."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tfdbg_cli.commands.compare.arguments import comparison as comparison_command
from tfdbg_cli.commands.compare.arguments import terms_arguments
from tfdbg_cli.commands.compare.screens import PairScreen, record, table, written
from tfdbg_cli.commands.context import TENSOR_MODES, Context, compile_regex
from tfdbg_cli.commands.json_lines import JSON_ARGUMENT, json_document
from tfdbg_cli.commands.list_command import NODE_ARGUMENTS
from tfdbg_cli.commands.registry import Argument, Command, Result
from tfdbg_cli.commands.shell import completers
from tfdbg_cli.commands.tensors.program_names import resolve_program_name
from tfdbg_cli.commands.wrapping import columns_of, wrapped
from tfdbg_cli.common.documents import ChainDocument, Document, Line, Link, Span, TextDocument, line
from tfdbg_cli.common.errors import UserError, did_you_mean
from tfdbg_cli.comparing.alignment import align
from tfdbg_cli.comparing.comparison import AT_START, Comparison, Row
from tfdbg_cli.comparing.history import different_since, left_by
from tfdbg_cli.comparing.reference import run_name
from tfdbg_cli.comparing.shards import side_by_side
from tfdbg_cli.comparing.signals import signals
from tfdbg_cli.comparing.terms import Terms
from tfdbg_cli.comparing.verdicts import is_rounding, rounding, verdict
from tfdbg_cli.dumps.dump import Dump
from tfdbg_cli.dumps.open import find_ranks, list_runs, open_dump, open_ranks, rank_runs
from tfdbg_cli.dumps.remote.shadow import place_of, shadowed

__all__ = ["COMMANDS", "OtherRun", "compare_command"]

_KEPT = "comparison"
# Of `program_facts`: it has the options of the debugger, too.
_WHOLE_COMMAND = "Started as"
#: Less than this is lost everywhere, and is no news.
_LEAST_LOST_DECIBELS = 3


class OtherRun(NamedTuple):
    """The run that this one is compared with.

    Attributes:
        dump: its tensors.
        name: what it is called.
    """

    dump: Dump
    name: str


def _compare(
    context: Context,
    arguments: argparse.Namespace,
    open_run: _Opener | None,
    earlier: _Earlier | None,
) -> Result:
    dump = context.need_dump()
    comparison, other = _comparison(context, dump, arguments, open_run, earlier)
    again = comparison_command(Terms.of(arguments), arguments.folder, arguments.run)
    names = ("this run", other.name)
    if arguments.tensor is not None:
        row = _row(context, comparison, arguments.tensor)
        screen = PairScreen(comparison, row, names, again)
        return screen.picture(context.width) if arguments.delta else screen.document()
    if arguments.delta:
        raise UserError("--delta draws one tensor.", "compare DIR TENSOR --delta")
    rows = _chosen(comparison, arguments)
    beyond = [row for row in rows if row.is_beyond]
    apart = [row for row in beyond if row.is_pair]
    # Where two forms of a computation end in the same numbers, nothing is told of their inside.
    alone = [row for row in beyond if not row.is_pair] if apart or len(beyond) == len(rows) else []
    shown = rows if arguments.all else [*apart, *alone]
    if arguments.selected:
        shown = [row for row in shown if row.datum.tensor_name in context.selected]
    if arguments.json:
        return _marked(
            json_document(len(shown), lambda at: record(comparison, shown[at])), rows, ""
        )
    columns = 1000 if context.is_printed else context.width
    lines = [*context.take_notes(), *_head(comparison, rows, beyond, other)]
    first = next((row for row in beyond if row.is_pair), None)
    if first is not None and first.said == AT_START:
        lines += written(comparison, first)
        if earlier and arguments.folder is not None:
            lines += _history(comparison, first, arguments.folder, earlier)
    head = TextDocument([*wrapped(lines, columns_of(context)), line()])
    parts: list[Document] = [head, table(comparison, shown, again, columns)] if shown else [head]
    return _marked(ChainDocument(parts), rows, other.name)


def _chosen(comparison: Comparison, arguments: argparse.Namespace) -> list[Row]:
    """The rows that are asked for; each is judged by all that it was computed from."""
    rows = list(comparison.rows())
    if arguments.node_name_filter:
        name = compile_regex(arguments.node_name_filter, "-n")
        rows = [row for row in rows if name.search(row.datum.node_name)]
    if arguments.op_type_filter:
        kind = compile_regex(arguments.op_type_filter, "-t")
        rows = [row for row in rows if kind.search(comparison.op_type(row))]
    return rows


def _history(comparison: Comparison, row: Row, folder: str, earlier: _Earlier) -> Iterator[Line]:
    """Which run is the first in which a parameter is different."""
    pairs = _before(folder, earlier)
    before = [(number, path) for number, path, _ in pairs]
    found = different_since(comparison, row, pairs)
    if found is not None:
        number, is_sure = found
        is_so = "is the first that differs in it" if is_sure else "differs in it, too"
        yield line("Of the runs before, ", _link(number, dict(before)), f" {is_so}.")
    elif before:
        number = before[0][0]
        yield line("No run before differs in it: ", _link(number, dict(before)), " has left it so.")


def _before(folder: str, earlier: _Earlier) -> list[tuple[int, Path, Path]]:
    """The runs before this one that both folders have, the latest first."""
    place = Path(shadowed(folder))
    runs = list_runs(place)
    if runs == [place]:  # one run of a folder of runs
        runs = list_runs(place.resolve().parent)
    there = {path.name: path for path in runs}
    return [(number, path, there[path.name]) for number, path in earlier() if path.name in there]


def _link(number: int, paths: Mapping[int, Path]) -> Span:
    return Span(paths[number].name, "link", Link(f"use {number}"))


def _marked(document: Document, rows: list[Row], name: str) -> Document:
    pairs = [row for row in rows if row.is_pair]
    document.is_alarm = not pairs or any(row.is_beyond for row in pairs)
    document.title_role = "error" if document.is_alarm else ""
    if name:
        document.title = f"compare: this run (A) and {name} (B)"
    return document


def _comparison(
    context: Context,
    dump: Dump,
    arguments: argparse.Namespace,
    open_run: _Opener | None,
    earlier: _Earlier | None,
) -> tuple[Comparison, OtherRun]:
    """The comparison that was asked for, which is kept for as long as this stop shows this dump."""
    terms = Terms.of(arguments)
    asked = id(dump), arguments.folder, arguments.run, terms
    kept = context.extra.get(_KEPT)
    if kept is not None and kept[0] == asked:
        comparison, other = kept[1:]
        return comparison, other
    bars, renamed = terms.bars(), terms.renamed()
    other = _other(dump, arguments, open_run)
    first, second = side_by_side(dump, other.dump)
    pairs = align(first, second, renamed)
    comparison = Comparison(first, second, pairs, bars)
    apart = comparison.first_apart()
    if apart is not None and apart.said == AT_START and earlier and arguments.folder is not None:
        before = _before(arguments.folder, earlier)
        left = left_by(comparison, before, renamed)
        comparison = Comparison(first, second, pairs, bars, left)
    if kept is not None:
        kept[2].dump.close()
    context.extra[_KEPT] = asked, comparison, other
    return comparison, other


def _other(dump: Dump, arguments: argparse.Namespace, open_run: _Opener | None) -> OtherRun:
    if arguments.run is not None:
        if open_run is None:
            raise UserError(
                "compare -r works where the runs of a folder are open (--dump-dir).",
                "compare DIR takes the folder of the other run.",
            )
        if arguments.folder is not None and arguments.tensor is None:
            arguments.tensor, arguments.folder = arguments.folder, None
        return open_run(arguments.run)
    if arguments.folder is None:
        raise UserError(
            "compare: with which run?", "compare DIR takes the folder of a run that was kept."
        )
    path, info = shadowed(arguments.folder), dump.run_info()
    if info is not None:
        # Of a folder of runs the one of the same number.
        alike = [each for each in list_runs(path) if each.name == run_name(info.call_count)]
        if not alike:
            ranks = rank_runs(find_ranks(path))
            found = [run for run in ranks if run.name == run_name(info.call_count)]
            if found:
                return OtherRun(open_ranks(found[0]), f"{place_of(path)}, {found[0].name}")
        path = alike[0] if alike else path
    return OtherRun(open_dump(path), place_of(path))


def _row(context: Context, comparison: Comparison, name: str) -> Row:
    name = resolve_program_name(context, name)
    names = [name] if ":" in name else [f"{name}:0", name]
    for each in names:
        found = comparison.row_of(each) or comparison.view(each)
        if found is not None:
            return found
    known = [row.datum.tensor_name for row in comparison.rows()]
    raise UserError(
        f'Neither run has dumped a tensor "{name}".',
        did_you_mean(names[0], known) or "lt lists those of this run.",
    )


def _head(
    comparison: Comparison, rows: list[Row], beyond: list[Row], other: OtherRun
) -> list[Line]:
    pairs = [row for row in rows if row.is_pair]
    apart = [row for row in beyond if row.is_pair]
    alone = len(beyond) - len(apart)
    made = [
        line(
            ("A ", "bold"),
            "is this run, ",
            ("B ", "bold"),
            f"is {other.name}: {len(pairs)} pair(s) of tensors, ",
            (f"{len(apart)} beyond the bar", "error" if apart else "success"),
            f", {alone} that only one of them has." if alone else ".",
        )
    ]
    if pairs and alone and not apart:
        made.append(
            line(("What only one of them computes leads to the same (-a lists it).", "dim"))
        )
    made += _unlike(comparison.first, comparison.second)
    matched: dict[str, int] = {}
    for row in pairs:
        matched[row.pair.matched_by] = matched.get(row.pair.matched_by, 0) + 1
    if set(matched) - {"name"}:
        texts = ", ".join(f"{count} by {how}" for how, count in matched.items())
        made.append(line((f"Matched: {texts}.", "dim")))
    made += [line((f"Warning: {text}", "warning")) for text in other.dump.warnings[:3]]
    unequal = next((row for row in pairs if not row.gap.is_equal), None)
    if not pairs:
        made.append(line(("No tensor of one run is one of the other.", "warning")))
    elif unequal is None:
        made.append(line(("All pairs are equal in every bit.", "success")))
    elif not apart or unequal is not apart[0]:
        unequal = comparison.exact(unequal)
        made.append(
            line(
                "The first that isn't equal in every bit: ",
                (unequal.datum.tensor_name, "bold"),
                f", apart by {unequal.gap.max_abs:.3g}; {unequal.bar.limit:.3g} is allowed.",
            )
        )
    made += _rounding(pairs)
    made += _signal(comparison)
    if apart:
        first = comparison.first_apart()
        first = first if first in apart else apart[0]
        name = first.datum.tensor_name
        told = verdict(comparison, first)
        made.append(line(("They part at ", "bold"), (name, "bold"), f": {told.said}."))
        if told.arguments:
            text = told.differing()
            made.append(line((f"{text[:1].upper()}{text[1:]}.", "bold")))
        for letter, place in zip("AB", told.places, strict=True):
            if place is not None:
                where = f"{place.file}:{place.line}"
                made.append(line((f"{letter}  ", "bold"), (where, "dim"), f"  {place.text}"))
    return made


def _rounding(pairs: list[Row]) -> Iterator[Line]:
    """What is apart by more than such tensors mostly are, because rounding has grown."""
    found = [row for row in pairs if is_rounding(row)]
    if found:
        most = max(found, key=lambda row: row.gap.max_abs / row.bar.limit if row.bar.limit else 0)
        yield line(
            f"Only rounding explains {len(found)} pair(s); the farthest, ",
            (most.datum.tensor_name, "bold"),
            f", is apart by {most.gap.max_abs:.3g}, {rounding(most)}:"
            f" {most.bar.limit:.3g} is allowed.",
        )


def _signal(comparison: Comparison) -> Iterator[Line]:
    """Where codes of 8 bits lose most of the signal."""
    found = [each for each in signals(comparison) if each.lost >= _LEAST_LOST_DECIBELS]
    found = [each for each in found if each.before is not None]
    if found:
        most = max(found, key=lambda each: each.lost)
        yield line(
            "Codes of 8 bits lose most of the signal at ",
            (f"{most.row.pair.second.tensor_name if most.row.pair.second else ''}", "bold"),
            f": signal to noise falls from {most.before:.0f} to {most.decibels:.0f} dB.",
        )


def _unlike(first: Dump, second: Dump) -> Iterator[Line]:
    """What the programs were started as, and ran on, as far as that isn't the same."""
    infos = first.run_info(), second.run_info()
    numbers = [info.call_count if info is not None else 0 for info in infos]
    if all(numbers) and numbers[0] != numbers[1]:
        texts = ("A ", "bold"), f"is run {numbers[0]} of its program, ", ("B ", "bold")
        yield line(*texts, f"is run {numbers[1]} of its own.")
    facts, others = (dict(info.program) if info is not None else {} for info in infos)
    for label, text in facts.items():
        other = others.get(label, text)
        if other != text and label != _WHOLE_COMMAND:
            yield line((f"{label}: ", "dim"), ("A ", "bold"), f"{text}  ", ("B ", "bold"), other)


_Opener = Callable[[str], OtherRun]
#: The runs of the open folder before the one that is open, the latest first: number and folder.
_Earlier = Callable[[], Sequence[tuple[int, Path]]]


def compare_command(
    open_run: _Opener | None = None,
    modes: frozenset[str] = TENSOR_MODES,
    earlier: _Earlier | None = None,
) -> Command:
    """``compare``.

    Args:
        open_run: opens another run of the folder that is open, by what `use` calls it; ``None``:
            there is no such folder.
        modes: in which it exists.
        earlier: tells the runs before the one that is open, where there is such a folder.
    """

    def run(context: Context, arguments: argparse.Namespace) -> Result:
        return _compare(context, arguments, open_run, earlier)

    return Command(
        "compare",
        (),
        "tensors",
        "Compare this run with another one, tensor by tensor, and show where they part.",
        run,
        (
            Argument(
                ("folder",), "a run that was kept", "DIR", nargs="?", complete=completers.files
            ),
            Argument(
                ("tensor",),
                "show this one in both runs, side by side",
                "TENSOR",
                nargs="?",
                complete=completers.tensors,
            ),
            Argument(("-r", "--run"), "another run of the open folder, as use takes it", "K"),
            Argument(("-a", "--all"), "also pairs within the bar"),
            Argument(("--selected",), "only tensors chosen by select"),
            Argument(("--delta",), "with TENSOR: B - A as a heat map"),
            *NODE_ARGUMENTS,
            *terms_arguments(),
            JSON_ARGUMENT,
        ),
        modes=modes,
        examples=(
            ("compare /tmp/good/run_000001", "where this run parts from that one"),
            ("compare /tmp/good/run_000001 loss:0", "one tensor in both, side by side"),
            ("compare run/rank_1 -t Parameter", "replicas whose parameters should be equal"),
            (
                "compare DIR loss:0 --delta",
                "the other run's values minus this run's, as a heat map",
            ),
            ("compare -r 3", "with run 3 of the folder that is open"),
            ("compare DIR --rtol 1e-2", "float32 beside bfloat16: show only larger differences"),
        ),
        details="\n".join(
            [
                "Tensors are a pair if they have the same name. Otherwise (the column By says so)",
                "they are a pair if the same kind of op computed them from pairs, or if they stand",
                "between pairs. If names have counters and one run has an op more (tanh_2 is then",
                "tanh_3), the ops that they were computed from decide (By: call).",
                "Without --rtol, some roundings of the coarser dtype are allowed, times the root",
                "of the number of terms summed; fewer if the inputs are equal in every bit.",
                "Whole numbers and booleans are equal or not. For relu, dropout, masks and similar",
                "ops, one element in a hundred may flip if the inputs differ.",
                "With --batch the exit status is 1 if a pair is beyond the bar.",
            ]
        ),
    )


COMMANDS = (compare_command(modes=TENSOR_MODES - {"offline"}),)
