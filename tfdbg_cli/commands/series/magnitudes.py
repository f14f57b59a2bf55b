"""What grew before a stop: the largest magnitudes of modules' outputs and of gradients."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping

from tfdbg_cli.commands.graph.phases import phase_of
from tfdbg_cli.commands.series.loss_line import number_role, number_text, spark_spans
from tfdbg_cli.commands.units import counted
from tfdbg_cli.common.arrays import Array, np
from tfdbg_cli.common.documents import Line, Link, Span, line
from tfdbg_cli.common.node_words import MODULE
from tfdbg_cli.dumps.dump import Datum, Dump
from tfdbg_cli.dumps.elements import node_name_of
from tfdbg_cli.dumps.graph import Node
from tfdbg_cli.dumps.run_info import roles_of
from tfdbg_cli.dumps.series.history import (
    GRADIENT,
    OUTPUT,
    OUTPUT_GRADIENT,
    Growth,
    MeasuredTensor,
)
from tfdbg_cli.dumps.series.points import Points, Series
from tfdbg_cli.tensors.sparkline import sparkline

__all__ = ["doubling_text", "factor_text", "growth_curve", "growth_lines", "nearest"]

# Nodes that are looked at on the way from a tensor to the nearest one that was measured.
_MOST_NODES = 500
_LEAST_BLOCKS, _MOST_BLOCKS = 12, 40
_FEWEST = 3
# Below it nothing leaves the range of a dtype, however it has grown.
_SMALL = 1.0


def growth_lines(dump: Dump, begin: Datum, width: int = 80) -> list[Line]:
    """How the tensor in which something bad began has grown, or the nearest that was measured.

    Args:
        dump: of the run that has stopped.
        begin: the tensor.
        width: columns that the curve may fill.
    """
    tracks, info = dump.tracks_of(begin.node_name)[0], dump.run_info()
    if tracks is None or info is None or not tracks.history:
        return []
    known = tracks.history.series(info.measured_as)
    found = nearest(dump, begin, {each: s for each, s in known.items() if len(s) >= _FEWEST})
    points = _before(dump, found, known[found].points()) if found is not None else None
    growth = Growth.of(points) if points is not None else None
    if found is None or points is None or growth is None or not growth.last:
        return []
    if growth.has_grown and growth.last < _SMALL:
        return []
    command = Link("growth")
    words = [Span(f"{found.name}, "), *_words(growth)]
    tail = Span("growth", "link", command)
    taken = sum(len(span.text) for span in (*words, tail)) + 11
    room = min(max(width - taken, _LEAST_BLOCKS), _MOST_BLOCKS)
    curve = [*spark_spans(growth_curve(points.values, room)), Span("  ")]
    return [
        line(("Grew:  " if growth.has_grown else "Before: ", "bold"), *curve, *words, "  ", tail)
    ]


def _before(dump: Dump, tensor: MeasuredTensor, points: Points) -> Points:
    """The magnitudes of a tensor without what the run itself has made of it, if that is finite.

    A variable, or what a function returns, is measured when the run is over: a large one may have
    come of what is bad.
    """
    info, graph, name = dump.run_info(), dump.graph(), node_name_of(tensor.name)
    edges = graph.recipients(name, control=False) if graph is not None and name in graph else ()
    ops = (graph.nodes[each.node].op_type for each in edges) if graph is not None else ()
    is_written = any(map(roles_of(info).writing.match, ops))
    if info is None or not len(points.runs) or not (is_written or tensor.name in info.outputs):
        return points
    is_last = points.runs[-1] == (info.number or info.call_count)
    if not is_last or not np.isfinite(points.values[-1]):
        return points
    return Points(*(each[:-1] for each in points))


def growth_curve(values: Array, width: int) -> str:
    """Magnitudes as blocks, on a logarithmic scale; 0 is as high as the smallest other one."""
    positive = values[np.isfinite(values) & (values > 0)]
    lowest = float(positive.min()) if positive.size else 1.0
    return sparkline(np.log2(np.maximum(values, lowest)), width)


def _words(growth: Growth) -> Iterator[Span]:
    """``max |x| 310 → 65504 at run 53, in 41 runs, doubling every 6 runs, then inf``."""
    yield Span("max |x| ")
    if growth.has_grown:
        yield Span(number_text(growth.first), "number")
        yield Span(" → ")
    yield Span(number_text(growth.last), "number")
    yield Span(f" at run {growth.at}")
    if growth.has_grown:
        runs = counted(growth.runs, "run")
        measured = f" ({growth.measured} measured)" if growth.measured <= growth.runs else ""
        yield Span(f", in {runs}{measured}")
        if growth.doubling is not None:
            yield Span(f", {_pace(growth, growth.doubling)}")
    else:
        yield Span(", it had hardly grown" if growth.factor > 1 else ", it hadn't grown")
    if growth.end is not None:
        yield Span(", then ")
        yield Span(number_text(growth.end), number_role(growth.end))


def _pace(growth: Growth, doubling: float) -> str:
    if doubling < 1:
        return f"{growth.factor ** (1 / growth.runs):.2g} times as large each run"
    return f"doubling every {doubling:.2g} runs"


def doubling_text(growth: Growth) -> str:
    """In how many runs it doubles: ``6``; empty: it doesn't."""
    return f"{growth.doubling:.2g}" if growth.doubling is not None else ""


def factor_text(growth: Growth) -> str:
    """How many times as large it has become: ``211x``."""
    return "inf" if math.isinf(growth.factor) else f"{growth.factor:.3g}x"


def nearest(
    dump: Dump, begin: Datum, known: Mapping[MeasuredTensor, Series]
) -> MeasuredTensor | None:
    """The tensor nearest to another one among those that were measured.

    That is what its own module returns (in a backward pass: the gradient of that, or of a parameter
    of the module), else the same of the ops before it, else of the modules around it. Of a
    parameter it is the gradient; of what comes in, the same of the ops that read it. Where tensors
    are measured by their own names, it is the one it was computed from that has grown most.

    Args:
        dump: of the run.
        begin: the other one.
        known: what was measured.
    """
    graph = dump.graph()
    places: dict[tuple[str, str], list[MeasuredTensor]] = {}
    for each in known:
        places.setdefault((each.module, each.what), []).append(each)
    if graph is None or not places:
        return None

    def at(path: str, kinds: Iterable[str]) -> MeasuredTensor | None:
        for what in kinds:
            found = places.get((path, what))
            if found:
                return max(found, key=lambda each: _factor(known[each]))
        return None

    info = dump.run_info()
    results = info.outputs if info is not None else {}
    tensors = {results.get(each.name, each.name): each for each in known}
    for name in (begin.tensor_name, f"gradient of {begin.node_name}"):
        if name in tensors:  # it was measured itself, or it is a parameter
            return tensors[name]
    waiting, seen = [begin.node_name], {begin.node_name}
    start = graph.nodes.get(begin.node_name)
    if start is not None and not start.inputs:  # it comes in: what reads it is the nearest
        waiting += [edge.node for edge in graph.recipients(start.name, control=False)]
    given: list[MeasuredTensor] = []
    for name in waiting:  # grows on the way: the nearest come first
        node = graph.nodes.get(name)
        if node is None:
            continue
        path = _module_of(node)
        found = at(path, _kinds(dump, name)) if path is not None else None
        if found is not None:
            return found
        for tensor in node.inputs:
            if tensor in tensors:
                given.append(tensors[tensor])
                continue
            giver = node_name_of(tensor)
            if giver not in seen and len(seen) < _MOST_NODES:
                seen.add(giver)
                waiting.append(giver)
    if given:
        return max(given, key=lambda each: _factor(known[each]))
    path = _module_of(graph.nodes.get(begin.node_name))
    while path:
        path = path.rpartition(".")[0]
        found = at(path, _kinds(dump, begin.node_name))
        if found is not None:
            return found
    return None


def _factor(series: Series) -> float:
    growth = Growth.of(series.points())
    return growth.factor if growth is not None else 0.0


def _kinds(dump: Dump, node: str) -> tuple[str, ...]:
    """What to look for beside a node."""
    phase = phase_of(dump, node).name
    if phase == "optimizer":
        return (GRADIENT,)
    return (OUTPUT_GRADIENT, GRADIENT) if phase == "backward" else (OUTPUT,)


def _module_of(node: Node | None) -> str | None:
    """The path of the module that has called an op; empty: the main one, ``None``: none has."""
    text = node.attributes.get(MODULE, "") if node is not None else ""
    if not text:
        return None
    path, _, kind = text.partition(" (")
    return path if kind and path != kind.removesuffix(")") else ""
