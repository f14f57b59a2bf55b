"""What a report tells of a run, part by part; each part is left out where nothing is known."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from tfdbg_cli.commands.context import PROFILE_MODES, Context, compile_regex
from tfdbg_cli.commands.graph.draw import picture_of
from tfdbg_cli.commands.graph.drawing.neighbourhood import between
from tfdbg_cli.commands.graph.drawing.svg import svg_of
from tfdbg_cli.commands.graph.verdict import as_page, first_origin, verdict
from tfdbg_cli.commands.precision.command import known_lines
from tfdbg_cli.commands.report.charts import histogram_chart
from tfdbg_cli.commands.report.heat_map import heat_map
from tfdbg_cli.commands.report.html import Markup, element, joined, shown_lines
from tfdbg_cli.commands.report.source import source_lines
from tfdbg_cli.commands.run.error_screen import error_document
from tfdbg_cli.commands.series.files import svg_text
from tfdbg_cli.commands.shell.parsing import quoted
from tfdbg_cli.commands.tensors.facts import TensorFacts
from tfdbg_cli.commands.tensors.health import TensorHealth
from tfdbg_cli.commands.units import describe_run, has_debug_ops
from tfdbg_cli.common.arrays import np
from tfdbg_cli.common.documents import Line, Span, line
from tfdbg_cli.common.errors import one_line
from tfdbg_cli.common.files import near_path
from tfdbg_cli.common.interpreter.program_signals import pass_on
from tfdbg_cli.common.program_facts import program_facts
from tfdbg_cli.dumps.dump import Datum, Dump, is_explained
from tfdbg_cli.dumps.graph import node_name_of
from tfdbg_cli.dumps.sources import own_frame
from tfdbg_cli.filters.causes.find import cause_of, forward_op
from tfdbg_cli.filters.lineage import TensorLineage
from tfdbg_cli.tensors.summary import summarize

__all__ = ["Section", "sections"]

# Of a larger tensor there is no histogram: it would be long in coming.
_LARGEST = 1 << 29
# So many nodes of the way from where it began to where it came out are in the picture.
_MOST_ON_WAY = 12
_MOST_CURVES = 12
# So many inputs of its node, and half as many of each of those.
_MOST_INPUTS = 6
# Among so many is looked for bad ones, which are drawn before others.
_MOST_RANKED = 1000


class Section(NamedTuple):
    """A part with its heading."""

    name: str
    title: str
    content: Markup


class _Subject(NamedTuple):
    """What a report is about: the tensor, and how it came to be that one."""

    datum: Datum | None
    is_origin: bool = False
    problem: str = ""


def sections(context: Context, *, exclude: str = "") -> Iterator[Section]:
    """All parts, in their order. One that a damaged dump can't give says so, and the others come.

    Args:
        context: of the stop that it is about.
        exclude: a regex for names of nodes to leave out.
    """
    dump = context.dump
    subject = _Subject(None)
    if dump is not None and context.mode not in PROFILE_MODES:
        subject = _subject(context, dump, exclude)
    datum = subject.datum
    parts: list[tuple[str, str, Callable[[], Markup | None]]] = [
        ("what", "What happened", lambda: _what(context, dump, subject))
    ]
    if dump is not None and datum is not None:
        health = TensorHealth(TensorFacts(dump))
        title = "The first bad tensor" if subject.is_origin else "The tensor"
        parts.append(("tensor", title, lambda: _tensor(health, datum)))
        parts.append(("source", "The line that made it", lambda: _source(dump, datum)))
        parts.append(("graph", "What it was computed from", lambda: _graph(context, dump, datum)))
    parts.append(("precision", "In a narrower type", lambda: _precision(context)))
    parts.append(("curves", "Followed over the runs", lambda: _curves(context)))
    parts.append(("run", "The run", lambda: _facts(context)))
    parts.append(("again", "See for yourself", lambda: _again(context, datum)))
    for name, title, make in parts:
        try:
            content = make()
        except Exception as error:
            pass_on(error)
            text = f"This part can't be shown: {one_line(error)}"
            content = element("p", text, class_="note")
        if content is not None:
            yield Section(name, title, content)


def _subject(context: Context, dump: Dump, exclude: str) -> _Subject:
    pattern = compile_regex(exclude, "-fenn") if exclude else None
    name = context.run_info.filter_name
    try:
        origin = first_origin(dump, pattern)
        if origin is not None:
            return _Subject(origin, True)
        if not name or name not in context.filters:  # one of the program's, offline
            return _Subject(None)
        predicate = context.filters.predicate(name)
        return _Subject(next(dump.passing(predicate, pattern), None), is_explained(predicate))
    except Exception as error:  # a value that can't be read
        pass_on(error)
        return _Subject(None, problem=one_line(error))


def _what(context: Context, dump: Dump | None, subject: _Subject) -> Markup:
    info = context.run_info
    told = []
    if info.filter_name:
        told.append(f"The filter {info.filter_name} stopped the program here. ")
    told.append(f"It was {describe_run(context.run_info)}.")
    parts = [element("p", "".join(told))]
    if info.error is not None:
        parts.append(shown_lines(error_document(context)))
    elif dump is not None and subject.is_origin and subject.datum is not None:
        parts.append(shown_lines(as_page(verdict(dump, subject.datum))))
    elif subject.problem:
        text = f"The origin can't be found: {subject.problem}"
        parts.append(element("p", text, class_="note"))
    elif dump is not None and subject.datum is None and context.mode not in PROFILE_MODES:
        parts.append(element("p", "No op of this run made a bad value from clean inputs."))
    return joined(parts)


# -- the tensor


def _tensor(health: TensorHealth, datum: Datum) -> Markup:
    found = health.facts.facts(datum)
    head = joined([element("code", health.name(datum).text), f"  {found.op_type}"])
    parts = [element("p", head), shown_lines([_line_of(health, datum)])]
    if found.nbytes is not None and found.nbytes > _LARGEST:
        note = "It is too large for statistics here: pt -s shows them."
        return joined([*parts, element("p", note, class_="note")])
    try:
        value = datum.get_tensor()
    except Exception as error:
        note = f"Its value can't be read: {one_line(error)}"
        return joined([*parts, element("p", note, class_="note")])
    if not isinstance(value, np.ndarray | np.generic):
        return joined(parts)
    return joined([*parts, *_pictures(np.asarray(value), datum.tensor_name)])


def _line_of(health: TensorHealth, datum: Datum) -> Line:
    spread = health.range(datum)
    return Line([*health.words(datum), *([Span(f"  {spread}")] if spread else [])])


def _pictures(value: np.ndarray[Any, Any], name: str) -> Iterator[Markup]:
    summary = summarize(value)
    counts = [(label, count) for label, count in summary.counts.items() if count]
    numbers = [
        (label, f"{number:.6g}")
        for label, number in (
            ("min", summary.minimum),
            ("max", summary.maximum),
            ("mean", summary.mean),
            ("std", summary.std),
        )
        if number is not None
    ]
    rows = [(label, f"{count:,}") for label, count in [*counts, ("total", summary.total)]]
    yield _row_of([*rows, *numbers])
    if summary.note:
        yield element("p", f"({summary.note})", class_="note")
    if summary.histogram is not None:
        yield element("h3", "Histogram")
        yield element("figure", histogram_chart(summary.histogram))
        if summary.histogram.sampled:
            note = f"Of a random sample of {summary.histogram.sampled:,} elements."
            yield element("p", note, class_="note")
    drawn = heat_map(value)
    if drawn is not None:
        yield element("h3", "Heat map")
        yield drawn


# -- the line and the graph


def _source(dump: Dump, datum: Datum) -> Markup | None:
    graph = dump.graph()
    node = graph.nodes.get(datum.node_name) if graph is not None else None
    if graph is None or node is None:
        return None
    forward = forward_op(graph, node, cause_of(TensorLineage.of(dump), datum))
    frame = own_frame((forward or node).frames or ())
    lines = source_lines(dump, frame) if frame is not None else None
    if frame is None or lines is None:
        return None
    words = [element("code", f"{near_path(frame.file)}:{frame.line}"), f" in {frame.function}"]
    if forward is not None:
        words.append(", the line of its forward op")
    parts = [element("p", *words), lines]
    note = dump.sources().note(frame.file)
    if note:
        parts.append(element("p", note, class_="note"))
    legend = "✗ a tensor of this line is bad, ✓ all that were looked at are clean"
    return joined([*parts, element("p", legend, class_="note")])


def _graph(context: Context, dump: Dump, datum: Datum) -> Markup | None:
    """Its inputs, two edges far, and the way to what came out bad in the end."""
    graph = dump.graph()
    if graph is None or datum.node_name not in graph:
        return None
    every = dict.fromkeys(edge.node for edge in graph.inputs(datum.node_name, False))
    health = TensorHealth(TensorFacts(dump))
    near = sorted(
        [*every][:_MOST_RANKED], key=lambda name: health.first_bad(dump.by_node(name)) is None
    )
    near = near[:_MOST_INPUTS]
    far = [
        edge.node
        for name in near
        if name in graph
        for edge in graph.inputs(name, False)[: _MOST_INPUTS // 2]
    ]
    way, result = _way_out(context, dump, datum)
    names = [datum.node_name, *near, *way[:_MOST_ON_WAY], *far]
    picture = picture_of(dump, between(graph, dict.fromkeys(names), datum.node_name))
    svg = svg_of(picture, title=f"The graph around {datum.node_name}", is_inline=True)
    legend = "Bad tensors in thick red lines, clean ones in thin green lines."
    if len(every) > len(near):
        legend += f" Of its {len(every):,} inputs {len(near)} are drawn."
    if len(way) > _MOST_ON_WAY:
        legend += f" {len(way) - _MOST_ON_WAY:,} more nodes lead on to {result}."
    # A picture that is scrolled has to be reached by keys, too.
    figure = element("div", Markup(svg), class_="wide", tabindex="0")
    return element("figure", figure, element("figcaption", legend))


def _way_out(context: Context, dump: Dump, datum: Datum) -> tuple[Sequence[str], str]:
    """The nodes from a tensor to the first bad result of its run, and that result's name."""
    graph = dump.graph()
    assert graph is not None
    health = TensorHealth(TensorFacts(dump))
    info = context.run_info
    for name, tensor in [*info.outputs.items(), *((name, name) for name in info.fetches)]:
        data = dump.by_tensor(tensor) if node_name_of(tensor) in graph else []
        if data and health.is_bad(data[-1]):
            way = graph.path(datum.node_name, node_name_of(tensor), False)
            if way is not None:
                return way, name
    return (), ""


# -- the rest


def _precision(context: Context) -> Markup | None:
    lines = known_lines(context)
    return shown_lines(lines) if lines else None


def _curves(context: Context) -> Markup | None:
    tracks = context.run_info.tracks
    if not tracks:
        return None
    tracks.settle()
    parts = []
    for name, series in [*tracks.items()][:_MOST_CURVES]:
        points = series.points()
        if points.values.size:
            drawn = svg_text({name: points}, tracks.marks, is_inline=True)
            parts += [element("h3", name), element("figure", Markup(drawn))]
    if len(tracks) > _MOST_CURVES:
        text = f"{len(tracks) - _MOST_CURVES:,} more series are not drawn here."
        parts.append(element("p", text, class_="note"))
    return joined(parts) if parts else None


def _facts(context: Context) -> Markup:
    info = context.run_info
    facts = [("Run", describe_run(context.run_info)), *info.details]
    fetches, feeds_of = ("Fetches", "Feeds") if has_debug_ops(info) else ("Outputs", "Inputs")
    facts += [(fetches, ", ".join(info.fetches[:_MOST_NAMED]))] if info.fetches else []
    feeds = [*info.feeds][:_MOST_NAMED]
    facts += [(feeds_of, ", ".join(feeds))] if feeds else []
    program = [*info.program] or (program_facts() if context.mode not in _OFFLINE else [])
    parts = [_table([*facts, *program])]
    if not program:
        note = "The dump doesn't have the program's command line."
        parts.append(element("p", note, class_="note"))
    return joined(parts)


def _again(context: Context, datum: Datum | None) -> Markup:
    info = context.run_info
    filter_name = info.filter_name or "has_inf_or_nan"
    program = dict(info.program).get("Program") or "SCRIPT [ARGUMENTS]"
    if context.mode not in _OFFLINE and not info.program:
        program = dict(program_facts())["Program"]
    asked = shlex.quote(f"run -f {quoted(filter_name)}")
    at_stop = [("what happened", "why")]
    if datum is not None:
        name = quoted(datum.tensor_name)
        at_stop += [
            ("the bad elements", f"pt {name} --bad"),
            ("the way back to where it began", f"li --to-first-bad {quoted(datum.node_name)}"),
            ("the graph around it", f"graph {quoted(datum.node_name)}"),
        ]
    at_stop.append(("all tensors of the run", "lt"))
    parts = [
        element("p", "This stops at the first run with such a tensor:"),
        shown_lines([line(f"tfdbg -c {asked} {program}")]),
        element("p", "There, these commands show the same as this page:"),
    ]
    return joined([*parts, _table([(element("code", c), text) for text, c in at_stop])])


_OFFLINE = frozenset({"offline", "offline-profile"})
_MOST_NAMED = 20


def _table(rows: Iterable[tuple[str, str]]) -> Markup:
    made = [element("tr", element("th", a, scope="row"), element("td", b)) for a, b in rows]
    return element("div", element("table", element("tbody", *made)), class_="box", tabindex="0")


def _row_of(cells: Sequence[tuple[str, str]]) -> Markup:
    """A table of one row under its heads."""
    heads = [element("th", label, scope="col") for label, _ in cells]
    values = [element("td", text) for _, text in cells]
    head, body = element("tr", *heads), element("tr", *values)
    table = element("table", element("thead", head), element("tbody", body))
    return element("div", table, class_="wide", tabindex="0")
