"""``track`` and ``plot``: numbers over runs, followed while the program goes on."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping, Sequence

from tfdbg_cli.commands.context import Context
from tfdbg_cli.commands.json_lines import JSON_ARGUMENT, json_document
from tfdbg_cli.commands.registry import Argument, Command, Result, positive
from tfdbg_cli.commands.reply import Candidate, Toast
from tfdbg_cli.commands.series.files import save_series
from tfdbg_cli.commands.series.loss_line import number_role, number_text, spark_spans
from tfdbg_cli.commands.series.norms import GRADIENT, PARAMETER, STEP, norm_expressions
from tfdbg_cli.commands.series.plot_document import PlotDocument, between
from tfdbg_cli.commands.shell import completers
from tfdbg_cli.commands.shell.parsing import quoted
from tfdbg_cli.commands.tensors.references import parse_reference, parse_template
from tfdbg_cli.common.documents import (
    ChainDocument,
    Document,
    Line,
    Link,
    MenuItem,
    Span,
    TextDocument,
    line,
)
from tfdbg_cli.common.errors import UserError, did_you_mean
from tfdbg_cli.common.printable import cut
from tfdbg_cli.common.traits import all_traits
from tfdbg_cli.dumps.series.event_files import write_events
from tfdbg_cli.dumps.series.points import CAPACITY, Points, Series
from tfdbg_cli.dumps.series.tracks import LOSS, Tracks
from tfdbg_cli.tensors.sparkline import sparkline

__all__ = ["COMMANDS"]

_SPARK = 24
_LONGEST_NAME, _LONGEST = 40, 100
# Rows of a curve, by how many there are.
_HEIGHTS = {1: 12, 2: 8}
_LEAST_HEIGHT = 6
_MOST_CURVES = 50
_NOTHING = UserError(
    "No number is followed yet.",
    "The loss is, as soon as a run has one; track EXPRESSION follows another one.",
)


def _tracks(context: Context, names: Sequence[str] = ()) -> tuple[Tracks, str]:
    """What is followed, or was up to the run that is looked at; all of it is there to read.

    Args:
        context: of the stop. Where it is about another rank, that rank's numbers are meant.
        names: that are asked for: what only this rank follows is this rank's.

    Returns:
        The numbers, and whose they are, where there are several ranks: ``of rank 1``.
    """
    found, whose = context.numbers()
    if context.tracks is not None and any(n not in (found or ()) for n in names):
        found, whose = context.tracks, ""
    found = found if found is not None else Tracks()
    found.settle()
    return found, whose


def _track(context: Context, arguments: argparse.Namespace) -> Result:
    text = " ".join(arguments.expression).strip()
    wants_more = arguments.norms or arguments.ranges
    if not text and not wants_more and not arguments.delete:
        found, whose = _tracks(context)
        return _records(found) if arguments.json else _list(found, whose)
    if arguments.json:
        raise UserError("--json lists the series: leave the rest out.")
    if context.tracks is None:
        raise UserError("There is no running program here.", "plot shows the numbers so far.")
    if arguments.delete:
        if text or wants_more:
            raise UserError("-d takes the name of a followed number, and nothing else.")
        return _forget(context.tracks, arguments.delete)
    if wants_more and (text or (arguments.norms and arguments.ranges)):
        option = "--norms" if arguments.norms else "--ranges"
        raise UserError(f"{option} takes no expression and no other option.", "Give two commands.")
    if arguments.ranges:
        context.tracks.has_ranges = True
        return Toast("While run -f waits, what growth lists is measured in each run.")
    if arguments.norms:
        return _follow_norms(context, context.tracks)
    if text == LOSS and not getattr(arguments, "as"):
        return _follow_loss(context.tracks)
    template = parse_template(text)
    if not template.references:
        raise UserError(
            f'"{text}" names no tensor, so no run has a value for it.',
            "Write tensors in backticks: track `node:slot`.",
        )
    for name in template.references.values():
        parse_reference(name)
    try:
        compile(template.code, "<expression>", "eval")
    except (SyntaxError, ValueError) as error:
        raise UserError(f'"{text}" is not a Python expression: {error}.') from None
    name = getattr(arguments, "as") or cut(text.replace("`", ""), _LONGEST_NAME)
    if name in context.tracks and not context.tracks[name].expression:
        raise UserError(
            f"{name} is followed already, without being asked for.", "--as gives another name."
        )
    context.tracks.follow(name, text)
    return Toast(f"{name} is followed from the next run on; plot {quoted(name)} shows it.")


def _follow_loss(tracks: Tracks) -> Toast:
    if LOSS in tracks:
        return Toast("The loss is followed already: plot loss shows it.")
    return Toast("The loss is followed as soon as a run has one.")


def _follow_norms(context: Context, tracks: Tracks) -> Toast:
    """Follow norms: an engine's own, or as expressions over what this run has."""
    tracks.has_norms = True
    if any(traits.has_norms and traits.package in sys.modules for traits in all_traits()):
        return Toast("Norms of gradients and parameters are followed from the next run on.")
    if context.dump is None:
        return Toast(
            "track --norms needs a finished run: type it after one.",
            "warning",
        )
    found = norm_expressions(context.dump)
    if not found:
        return Toast("This run has no gradients that an optimizer reads.", "warning")
    for name, expression in found.items():
        tracks.follow(name, expression)
    many = f"{len(found)} norms are followed from the next run on"
    return Toast(f"{many}; plot {GRADIENT} shows that of all gradients.")


def _forget(tracks: Tracks, name: str) -> Toast:
    if name == "--ranges" or (name not in tracks and name.strip("-") == "ranges"):
        tracks.has_ranges = False
        return Toast("What growth lists is measured in some runs again.")
    if name == "--norms" or (name not in tracks and name.strip("-") == "norms"):
        tracks.has_norms = False
        for each in [*tracks]:
            if each.partition(".")[0] in (GRADIENT, PARAMETER, STEP):
                tracks.forget(each)
        return Toast("Norms are no longer followed.")
    if name not in tracks:
        raise UserError(f'"{name}" is not followed.', did_you_mean(name, tracks))
    tracks.forget(name)
    return Toast(f"{name} is no longer followed.")


def _list(tracks: Tracks, whose: str) -> Document:
    if not tracks:
        return TextDocument(
            [
                line("No number is followed yet."),
                line(("The loss is, as soon as a run has one (track -h).", "dim")),
            ]
        )
    lines: list[Line] = [line(f"{len(tracks)} number(s) over runs{whose and f' {whose}'}:"), line()]
    width = min(max(map(len, tracks)), _LONGEST_NAME)
    for name in tracks:
        lines.append(_row(tracks[name], width))
        if tracks[name].problem:
            lines.append(line("    ", (tracks[name].problem, "warning")))
    menu = (MenuItem("plot", "plot"),)
    return TextDocument(lines, title="Numbers over runs", menu=menu)


def _records(tracks: Tracks) -> Document:
    """The series for ``--json``."""
    series = [*tracks.values()]

    def record(at: int) -> dict[str, object]:
        points = series[at].points()
        has_any = len(points.runs) > 0
        return {
            "name": series[at].name,
            "expression": series[at].expression,
            "numbers": len(points.runs),
            "run": int(points.runs[-1]) if has_any else None,
            "value": float(points.values[-1]) if has_any else None,
            "problem": series[at].problem,
        }

    return json_document(len(series), record)


def _numbers(points: Mapping[str, Points]) -> Document:
    """The numbers of series for ``--json``, the last run first: it is what people look for."""
    rows = [
        (name, int(run), float(value))
        for name, each in points.items()
        for run, value in zip(each.runs[::-1], each.values[::-1], strict=True)
    ]
    rows.sort(key=lambda row: -row[1])
    return json_document(
        len(rows), lambda at: dict(zip(("name", "run", "value"), rows[at], strict=True))
    )


def _row(series: Series, width: int) -> Line:
    link = Link(f"plot {quoted(series.name)}")
    parts = [Span("  "), Span(f"{series.name:{width}}", "link", link), Span("  ")]
    if not len(series):
        return Line([*parts, Span("no number yet", "dim")])
    points = series.points()
    last = float(points.values[-1])
    blocks = sparkline(points.values, _SPARK)
    parts += [*spark_spans(blocks), Span(" " * (_SPARK - len(blocks) + 2))]
    parts += [Span(number_text(last), number_role(last)), Span(f" at run {points.runs[-1]}")]
    if series.expression and series.expression.replace("`", "") != series.name:
        # Norms are over many tensors.
        parts.append(Span(f"  {cut(series.expression, _LONGEST)}", "dim"))
    return Line(parts)


def _plot(context: Context, arguments: argparse.Namespace) -> Result:
    tracks, whose = _tracks(context, arguments.names)
    series = {**_magnitudes(context, tracks, arguments.names), **tracks}
    names = _names(series, arguments.names)
    points = {name: series[name].points() for name in names}
    if arguments.runs:
        runs = _read_runs(arguments.runs, points)
        points = {name: between(each, runs) for name, each in points.items()}
        points = {name: each for name, each in points.items() if len(each.runs)}
        if not points:
            raise UserError(f"There is no number in runs {runs[0]} to {runs[1]}.")
    if arguments.json:
        return _numbers(points)
    if arguments.save:
        path = save_series(arguments.save, points, tracks.marks, is_log=arguments.log)
        return Toast(f"{len(points)} number(s) over runs saved to {path}", "success")
    if arguments.tensorboard:
        file = write_events(arguments.tensorboard, points)
        return Toast(f"{len(points)} scalar(s) written to {file}", "success")
    if not arguments.runs:
        runs = _extent(points.values())
    whole = _extent(series[name].points() for name in points)
    return _picture(context, arguments, tracks, points, (runs, whole), whose)


def _magnitudes(context: Context, tracks: Tracks, wanted: Sequence[str]) -> Mapping[str, Series]:
    """The series of ``growth`` that are asked for by their names."""
    history = tracks.history
    own = context.run_info.measured_as
    found: dict[str, Series] = {}
    for kind in (*(each for each in history.kinds if each != own), own) if wanted else ():
        found |= {each.name: series for each, series in history.series(kind).items()}
    return {name: found[name] for name in wanted if name in found}


def _names(tracks: Mapping[str, Series], wanted: Sequence[str]) -> list[str]:
    """The series that are meant, those with numbers in them.

    Raises:
        UserError: there is none, or not one of this name.
    """
    if not tracks:
        raise _NOTHING
    for name in wanted:
        if name not in tracks:
            known = did_you_mean(name, tracks) or f"There are {', '.join([*tracks][:10])}."
            raise UserError(f'"{name}" is not followed.', known)
    found = [name for name in wanted or tracks if len(tracks[name])]
    if not found:
        problem = next((tracks[n].problem for n in wanted or tracks if tracks[n].problem), "")
        raise UserError("No run has had a number yet.", problem)
    return found


def _read_runs(text: str, points: dict[str, Points]) -> tuple[int, int]:
    """The first and the last run of ``FROM:TO``, each of which may be left out, or negative."""
    first, last = _extent(points.values())
    begin, colon, end = text.partition(":")
    try:
        numbers = [int(each) if each.strip() else None for each in (begin, end)]
    except ValueError:
        numbers = [None, None]
        colon = ""
    if not colon:
        raise UserError(
            f'"{text}" is not a stretch of runs.', "Write -r 100:200, -r 100: or -r=-50:."
        )
    found = [
        default if number is None else last + 1 + number if number < 0 else number
        for number, default in zip(numbers, (first, last), strict=True)
    ]
    if found[0] > found[1]:
        raise UserError(
            f"Runs {found[0]} to {found[1]}: the first number has to be the smaller one."
        )
    return found[0], found[1]


def _extent(points: Iterable[Points]) -> tuple[int, int]:
    """The first and the last run that series have numbers of."""
    ends = [(int(each.runs.min()), int(each.runs.max())) for each in points]
    return min(first for first, _ in ends), max(last for _, last in ends)


def _picture(
    context: Context,
    arguments: argparse.Namespace,
    tracks: Tracks,
    points: dict[str, Points],
    stretch: tuple[tuple[int, int], tuple[int, int]],
    whose: str,
) -> Document:
    runs, whole = stretch
    shown = [*points][:_MOST_CURVES]
    height = arguments.rows or _HEIGHTS.get(len(shown), _LEAST_HEIGHT)
    parts: list[Document] = []
    for name in shown:
        if parts:
            parts.append(TextDocument([line()]))
        parts.append(
            PlotDocument(
                len(parts),
                name,
                points[name],
                tracks.marks,
                runs,
                context.width,
                height,
                is_log=arguments.log,
            )
        )
    if len(points) > len(shown):
        more = f"and {len(points) - len(shown)} more: plot NAME shows one, track lists them."
        parts.append(TextDocument([line(), line((more, "dim"))]))
    menu = _menu(arguments, runs, whole)
    what = f"{', '.join(shown[:3])}{', ...' * (len(shown) > 3)}{whose and f' {whose}'}"
    title = f"{what}: runs {runs[0]} to {runs[1]}"
    return ChainDocument(parts, title=title, menu=menu)


def _menu(
    arguments: argparse.Namespace, runs: tuple[int, int], whole: tuple[int, int]
) -> list[MenuItem]:
    """Ways to other stretches of runs."""
    words = ["plot", *map(quoted, arguments.names)]
    words += ["--rows", str(arguments.rows)] if arguments.rows else []
    log = ["--log"] if arguments.log else []
    first, last = runs
    span = last - first + 1

    def of(begin: int, end: int) -> str:
        begin, end = max(begin, whole[0]), min(end, whole[1])
        return " ".join([*words, *log, "-r", f"{begin}:{end}"])

    half = max(span // 2, 1)
    other = [*words, *([] if log else ["--log"]), *(["-r", arguments.runs] * bool(arguments.runs))]
    return [
        MenuItem("zoom in", of(last - half + 1, last), enabled=span > 2),
        MenuItem("zoom out", of(first - half, last + half), enabled=runs != whole),
        MenuItem("earlier", of(first - half, last - half), enabled=first > whole[0]),
        MenuItem("later", of(first + half, last + half), enabled=last < whole[1]),
        MenuItem("linear" if log else "logarithmic", " ".join(other)),
        MenuItem("track", "track"),
    ]


def _complete(context: Context, prefix: str) -> Iterable[Candidate]:
    found = context.tracks if context.tracks is not None else context.run_info.tracks
    for name in found or ():
        yield Candidate(name)


TRACK = Command(
    "track",
    (),
    "numbers over runs",
    "Follow a number over runs while the program goes on; without arguments: list the series.",
    _track,
    (
        Argument(
            ("expression",),
            "a Python expression with one number as its result, tensor names in backticks; or loss",
            "EXPRESSION",
            nargs="*",
            complete=completers.expression,
        ),
        Argument(("--as",), "the name of the series", "NAME", default=""),
        Argument(("--norms",), "norms of gradients and parameters, module by module"),
        Argument(("--ranges",), "measure in each run what growth lists, not in some"),
        Argument(
            ("-d", "--delete"),
            "stop following it; norms, ranges: what --norms, --ranges began",
            "NAME",
            default="",
            complete=_complete,
        ),
        JSON_ARGUMENT,
    ),
    examples=(
        ('track "np.linalg.norm(`fc1.weight:0`)" --as weight', "one number of each run"),
        ("track `logits:0`.max()", "followed from the next run on"),
        ("track --norms", "norms of gradients and parameters of each module"),
        ("track --ranges", "largest magnitudes in each run, for growth"),
        ("track", "all series, each with its last numbers"),
        ("track -d weight", "stop following it"),
    ),
    details=(
        "The loss is followed without being asked for, if a run has one: the tensor on which "
        "backward() is called (PyTorch), the tensor whose gradients a tape computes or the result "
        "of a training step (TensorFlow 2), a fetched number with such a name, or the only one "
        "fetched beside a training op (sessions).\n\n"
        f"The last {CAPACITY} numbers are kept, even while no run is debugged. Only the "
        "tensors that an expression names are watched for it."
    ),
)

PLOT = Command(
    "plot",
    (),
    "numbers over runs",
    "Draw the followed numbers over the runs, or save them as a picture or a table.",
    _plot,
    (
        Argument(
            ("names",),
            "a name that track lists; none: all",
            "NAME",
            nargs="*",
            complete=_complete,
        ),
        Argument(
            ("-r", "--runs"),
            "only these runs: FROM:TO; negative numbers count from the last run",
            "INTERVAL",
        ),
        Argument(("--log",), "logarithmic axis"),
        Argument(("--rows",), "height of a curve, in rows", "N", kind=positive("number of rows")),
        Argument(
            ("--save",),
            "write them to a file: .csv, .svg or .png (with matplotlib)",
            "FILE",
            complete=completers.files,
        ),
        Argument(
            ("--tensorboard",),
            "write scalars for TensorBoard",
            "DIR",
            complete=completers.files,
        ),
        JSON_ARGUMENT,
    ),
    examples=(
        ("plot", "all series, one below the other"),
        ("plot loss --log -r=-100:", "the last hundred runs, logarithmic"),
        ("plot --save curves.svg", "a picture for a report; .csv for a spreadsheet"),
        ("plot --tensorboard logs/debug", "then: tensorboard --logdir logs"),
    ),
    details=(
        "▲ marks a run at which the program stopped, × a bad one; nan and infinities are "
        "above the curve. c puts a cursor on the curve: the status line shows run and "
        "number, Enter lists the numbers around. The menu zooms."
    ),
)

COMMANDS = (TRACK, PLOT)
