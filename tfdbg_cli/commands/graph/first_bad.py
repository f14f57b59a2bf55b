"""``li --to-first-bad``: from a tensor with nan or inf back to where they began."""

from __future__ import annotations

from typing import Any

from tfdbg_cli.commands.context import Context
from tfdbg_cli.commands.graph.node_info import find_node
from tfdbg_cli.commands.graph.node_origin import stack_label
from tfdbg_cli.commands.graph.verdict import first_origin, own_gradient
from tfdbg_cli.commands.json_lines import json_document
from tfdbg_cli.commands.registry import Result
from tfdbg_cli.commands.shell.parsing import quoted
from tfdbg_cli.commands.spans import node_span, op_span, source_span
from tfdbg_cli.commands.tensors.facts import TensorFacts
from tfdbg_cli.commands.tensors.health import TensorHealth
from tfdbg_cli.commands.tensors.program_names import resolve_program_name
from tfdbg_cli.commands.units import node_menu
from tfdbg_cli.common.documents import (
    ChainDocument,
    LazyDocument,
    Line,
    Span,
    TextDocument,
    line,
)
from tfdbg_cli.dumps.ancestry import Ancestry, AncestryStep, Origin
from tfdbg_cli.dumps.dump import Datum, Dump
from tfdbg_cli.dumps.elements import node_name_of
from tfdbg_cli.dumps.graph import Graph, parse_tensor_name
from tfdbg_cli.dumps.sources import own_frame
from tfdbg_cli.filters.origins import began_here, stayed_local

__all__ = ["first_bad_document", "nothing_bad", "origins_of"]


def nothing_bad(dump: Dump) -> Line:
    """What is said where no tensor is bad: less, if the run has tensors that aren't here."""
    info = dump.run_info()
    error = info.error if info is not None else None
    if error is not None and not error.is_late:
        where = f" at {error.op_name}" if error.op_name else ""
        text = f"The run failed{where}; of the tensors before, none holds a nan or an infinity."
        return line((text, "warning"))
    if dump.warnings:
        text = "None of the tensors that are here holds a nan or an infinity; run_info says more."
        return line((text, "warning"))
    return line(("No tensor of this run holds a nan or an infinity.", "success"))


def first_bad_document(context: Context, graph: Graph, name: str | None, as_json: bool) -> Result:
    """The way from a bad tensor back to its origin.

    Args:
        context: of its dump the tensors on the way are read, and their inputs.
        graph: the dump's.
        name: a node or tensor; ``None``: that with which the verdict says that it began.
        as_json: one object an origin, nearest first.

    Raises:
        UserError: there is no such node.
    """
    dump = context.need_dump()
    health = TensorHealth(TensorFacts(dump))
    if name is None:
        # Where something went wrong rather than at a mask of infinities, if there is such a place.
        start = first_origin(dump)
        if start is None or start.node_name not in graph:
            start = health.first_bad([d for d in dump.data() if d.node_name in graph])
        why = nothing_bad(dump)
        origins = _origins(dump, graph, health, start)
    else:
        origins, text = origins_of(context, graph, name)
        why = line((text, "success"))
    if as_json:
        return json_document(len(origins), lambda at: _record(origins[at], health, dump))
    if not origins:
        return TextDocument([why])
    screen = _AncestryScreen(dump, graph, health, origins)
    origin = origins[0]
    last = origin.chain[-1].datum
    assert last is not None
    return ChainDocument(
        [
            TextDocument(screen.head()),
            LazyDocument(len(origin.chain), screen.step),
            TextDocument(screen.inputs(origin)),
            TextDocument(screen.sense(origin)),
            TextDocument(screen.advice(last)),
            TextDocument(screen.others()),
        ],
        menu=node_menu(dump, last.node_name, ""),
    )


def origins_of(
    context: Context, graph: Graph, name: str, number: int | None = None
) -> tuple[list[Origin], str]:
    """Where a tensor went bad, nearest first; none: it isn't bad, as the sentence says.

    Args:
        context: of the tensor.
        graph: of its dump.
        name: a node or tensor.
        number: of one of its dumps; ``None``: the first bad one.

    Raises:
        UserError: there is no such node.
    """
    health = TensorHealth(TensorFacts(context.need_dump()))
    start, why = _start(context, graph, name, health, number)
    return _origins(context.need_dump(), graph, health, start), why


def _origins(
    dump: Dump, graph: Graph, health: TensorHealth, start: Datum | str | None
) -> list[Origin]:
    if start is None:
        return []
    ancestry = Ancestry(dump, graph, health.is_bad, lambda datum: began_here(dump, datum))
    return ancestry.origins(start)


def _start(
    context: Context, graph: Graph, name: str, health: TensorHealth, number: int | None
) -> tuple[Datum | str | None, str]:
    """Where to begin; ``None`` if the tensor isn't bad, with the sentence that says so."""
    dump = context.need_dump()
    node = find_node(context, graph, name).name
    slot = parse_tensor_name(resolve_program_name(context, name))[1]
    data = dump.by_node(node) if slot is None else dump.by_tensor(f"{node}:{slot}")
    if not data:
        why = f'"{name}" was not dumped, and none of its inputs holds nan or inf.'
        return node, why
    bad = health.first_bad(data if number is None else data[number : number + 1])
    if len(data) == 1:
        return bad, f'"{name}" is not bad: its dumped tensor holds no nan and no infinity.'
    return bad, f'"{name}" is not bad: none of its {len(data)} dumped tensors holds nan or inf.'


class _AncestryScreen:
    """The parts of the screen."""

    def __init__(
        self,
        dump: Dump,
        graph: Graph,
        health: TensorHealth,
        origins: list[Origin],
    ) -> None:
        self._dump = dump
        self._graph = graph
        self._health = health
        self._origins = origins

    def head(self) -> list[Line]:
        """What is shown."""
        chain = self._origins[0].chain
        begin, end = _name_of(chain[0]), _name_of(chain[-1])
        if len(chain) == 1:
            return [line((f'"{end}"', "bold"), " is bad, and nothing bad leads to it:")]
        return [
            line(
                "From ",
                (f'"{begin}"', "bold"),
                " back to the bad tensor it began with, ",
                (f'"{end}"', "bold"),
                f": {len(chain) - 1} step(s)",
            )
        ]

    def step(self, at: int) -> Line:
        """A line of the chain."""
        chain = self._origins[0].chain
        step = chain[at]
        head = Span("  " if at == 0 else "  <- ")
        op_type = self._op(step.node)
        if step.datum is None:
            name = node_span(self._graph, step.node)
            return line(head, op_type, name, ("  (not dumped)", "dim"))
        words = self._health.words(step.datum)
        mark = [Span("   here it began", "bold")] if at == len(chain) - 1 else []
        return line(head, op_type, self._health.name(step.datum), "  ", *words, *mark)

    def _op(self, name: str) -> Span:
        return op_span(self._graph.nodes.get(name))

    def inputs(self, origin: Origin) -> list[Line]:
        """What the origin was computed from."""
        lines = [line()]
        suspects = self._dump.suspects or frozenset()
        is_clean = self._dump.lists_only_bad and suspects.isdisjoint(origin.unknown)
        if not origin.clean and not origin.unknown:
            return [*lines, line(("It has no inputs: the value comes in here.", "info"))]
        if origin.clean:
            text = "Its inputs were clean:"
            if any(map(self._health.is_bad, origin.clean)):
                text = "Its inputs; bad values in them are intended, or were there before the run:"
            elif origin.unknown and not is_clean:
                text = "Its dumped inputs were clean:"
            lines.append(line((text, "success")))
        for datum in origin.clean:
            lines.append(line("  ", self._op(datum.node_name), *self._health.described(datum)))
        if origin.unknown and is_clean:
            lines.append(line(("Not dumped, as only what is bad was kept:", "success")))
        elif origin.unknown:
            lines.append(line(("Not dumped, so their health is unknown:", "warning")))
        for tensor in origin.unknown:
            lines.append(line("  ", self._op(node_name_of(tensor)), node_span(self._graph, tensor)))
        return lines

    def sense(self, origin: Origin) -> list[Line]:
        """What `origin_of_nonfinite` makes of it, where it doesn't stop at it."""
        datum = origin.chain[-1].datum
        assert datum is not None
        if not origin.began:
            text = (
                "No origin: the program has written it down (a mask, a constant), or it is memory "
                "from before the run."
            )
        elif not stayed_local(self._dump, _way(origin)):
            return []
        elif (gradient := own_gradient(self._dump, datum)) is not None:
            text = "A gradient computed from the same input is bad too:"
            return [line((text, "info")), line("  ", *self._health.described(gradient))]
        else:
            text = "It stayed local: it makes nothing bad that the run returns or updates."
        return [line((text, "info"))]

    def advice(self, datum: Datum) -> list[Line]:
        """The line of the program that made the origin, and what to look at next."""
        lines = []
        node = self._graph.nodes.get(datum.node_name)
        frame = own_frame(node.frames or ()) if node is not None else None
        if node is not None and frame is not None:
            sources = self._dump.sources()
            place = source_span(sources, frame.file, frame.line)
            lines.append(line(f"{stack_label(node)} ", place, f": {sources.text(frame)}"))
        lines.append(
            line(
                "Next: ",
                ("ni -t", "link", f"ni -t {quoted(datum.node_name)}"),
                " (who made it)   ",
                Span("pt --bad", "link", self._health.link(datum, bad=True)),
                " (its bad elements)",
            )
        )
        return lines

    def others(self) -> list[Line]:
        """The other origins, nearest first."""
        others = [origin.chain for origin in self._origins[1:]]
        if not others:
            return []
        lines = [line(), line((f"{len(others)} more bad tensor(s) with clean inputs:", "heading"))]
        for chain in others:
            datum = chain[-1].datum
            assert datum is not None
            link = f"li --to-first-bad {quoted(datum.tensor_name)}"
            name = self._health.name(datum).text
            steps = f"  {len(chain) - 1} step(s) away"
            lines.append(line("  ", self._op(datum.node_name), (name, "link", link), steps))
        return lines


def _way(origin: Origin) -> list[Datum]:
    return [step.datum for step in origin.chain if step.datum is not None]


def _name_of(step: AncestryStep) -> str:
    return step.node if step.datum is None else step.datum.tensor_name


def _record(origin: Origin, health: TensorHealth, dump: Dump) -> dict[str, Any]:
    last = origin.chain[-1].datum
    assert last is not None
    return {
        **health.record(last),
        "chain": [_name_of(step) for step in origin.chain],
        "clean_inputs": [datum.tensor_name for datum in origin.clean],
        "unknown_inputs": origin.unknown,
        "began_here": origin.began,
        "stayed_local": stayed_local(dump, _way(origin)),
    }
