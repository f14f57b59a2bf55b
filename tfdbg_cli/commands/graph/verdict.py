"""``why``: what went wrong in a run, where, why, and what became of it, on one screen."""

from __future__ import annotations

import argparse
import re
import textwrap
from collections.abc import Iterator, Sequence

from tfdbg_cli.commands.context import TENSOR_MODES, Context, Place, compile_regex
from tfdbg_cli.commands.graph.first_bad import origins_of
from tfdbg_cli.commands.graph.phases import phase_of
from tfdbg_cli.commands.registry import Argument, Command, Result
from tfdbg_cli.commands.reply import Toast
from tfdbg_cli.commands.series.loss_line import loss_lines
from tfdbg_cli.commands.shell import completers
from tfdbg_cli.commands.shell.parsing import quoted, tokenize
from tfdbg_cli.commands.tensors.facts import TensorFacts
from tfdbg_cli.commands.tensors.health import TensorHealth
from tfdbg_cli.commands.tensors.list_tensors import LIST_TENSORS
from tfdbg_cli.commands.wrapping import UNBROKEN, columns_of, wrapped
from tfdbg_cli.common.documents import ChainDocument, Document, Line, Link, Span, TextDocument, line
from tfdbg_cli.common.errors import UserError
from tfdbg_cli.dumps.dump import Datum, Dump, Predicate
from tfdbg_cli.dumps.graph import Graph, Node, node_name_of
from tfdbg_cli.dumps.sources import Frame, own_frame
from tfdbg_cli.filters.absorbed import Absorption
from tfdbg_cli.filters.builtin import has_inf_or_nan
from tfdbg_cli.filters.cause_ops import forward_node
from tfdbg_cli.filters.causes import ADVICE, cause_of
from tfdbg_cli.filters.lineage import TensorLineage, inputs_of
from tfdbg_cli.filters.origins import absorbed_by, began_here, came_in, origin_of_nonfinite

__all__ = ["COMMANDS", "verdict"]

_AROUND = 2
_INDENT = 7
_MOST_INPUTS = 6
# What has become of it is told of runs that are not larger.
_MOST_STEPS = 20_000
_MOST_ENDS = 3
# Causes of what is made of infinities that are meant.
_OF_INFINITIES = frozenset({"difference", "masked", "product"})


def verdict(dump: Dump, begin: Datum, width: int = 80, columns: int = UNBROKEN) -> list[Line]:
    """What is to be said of a tensor in which something bad began.

    Args:
        dump: whose tensor it is.
        begin: the tensor.
        width: columns that a curve may fill.
        columns: that a sentence may fill before it is broken.
    """
    made = _Verdict(dump, begin)
    loss = loss_lines(*dump.tracks_of(begin.node_name), width=width)
    before = wrapped([*made.head(), *made.reason()], columns, _INDENT)
    behind = wrapped([*made.inputs(), *made.aftermath()], columns, _INDENT)
    return [*before, *made.place(), *behind, *loss]


def first_origin(dump: Dump, exclude: re.Pattern[str] | None = None) -> Datum | None:
    """Where something bad began in a run; ``None``: nowhere, or on purpose.

    Nodes whose name matches ``exclude`` are left out.

    A logarithm of 0 is bad itself, and what reaches the parameters is its gradient, which began to
    be bad in an op of its own, of the same input. The logarithm is told.
    """

    def counts(datum: Datum) -> bool:
        return exclude is None or not exclude.search(datum.node_name)

    origin = next(filter(counts, _passing(dump, origin_of_nonfinite)), None)
    given = _given(dump, origin) if origin is not None else frozenset()
    for datum in dump.maybe_nonfinite(dump.data()) if given else ():
        if datum is origin:
            break
        if datum.is_view or not counts(datum):
            continue
        if given & _given(dump, datum) and began_here(dump, datum):
            return datum
    return origin


def _passing(dump: Dump, predicate: Predicate) -> Iterator[Datum]:
    """The tensors for which a filter is true; what can't be read passes none."""
    return dump.iter_find(predicate, on_error=lambda datum, error: None)


def _given(dump: Dump, datum: Datum) -> frozenset[str]:
    graph = dump.graph()
    node = graph.nodes.get(datum.node_name) if graph is not None else None
    return frozenset(node.inputs) if node is not None else frozenset()


class _Verdict:
    def __init__(self, dump: Dump, begin: Datum) -> None:
        self._dump, self._begin = dump, begin
        self._health = TensorHealth(TensorFacts(dump))
        self._graph: Graph = dump.graph() or Graph([])
        self._node: Node | None = self._graph.nodes.get(begin.node_name)
        self._cause = cause_of(TensorLineage.of(dump), begin)

    def head(self) -> Iterator[Line]:
        """The tensor in which it began, and how bad it is."""
        op_type = self._node.op_type if self._node is not None else "?"
        yield line(
            ("It began in ", "bold"),
            (f"[{op_type}] ", "op_type"),
            self._health.name(self._begin),
            "  ",
            *self._health.words(self._begin),
        )
        if self._begin.note:
            yield line(("Note:  ", "bold"), self._begin.note)

    def reason(self) -> Iterator[Line]:
        """Why, where that can be shown."""
        cause = self._cause
        if cause is not None:
            yield line(("Why:   ", "bold"), (cause.text, "error"))
            yield line("       ", cause.advice, "  ", ("help why", "link", "help why"))
        source = came_in(self._dump, self._begin)
        if source is not None and (cause is None or cause.kind in _OF_INFINITIES):
            node = self._graph.nodes.get(source.node_name)
            yield line(
                "       Its infinities came in at ",
                (f"[{node.op_type if node is not None else '?'}] ", "op_type"),
                self._health.name(source),
                _line_of(node),
            )

    def place(self) -> Iterator[Line]:
        """The line of the program that has made it, and those around it."""
        node = self._node
        if node is None:
            return
        forward = forward_node(self._graph, node)
        if self._cause is not None and forward is None:
            forward = self._graph.nodes.get(self._cause.forward)
        frame = own_frame((forward or node).frames or ())
        what = "Line:  " if forward is None else "Line of the forward op: "
        if frame is None and not node.inputs:  # it comes in: where it is read
            frame, what = self._reading(), "Read at: "
        if frame is None:
            return
        sources = self._dump.sources()
        lines = sources.lines(frame.file)
        shown = f"{frame.file}:{frame.line}"
        link = Link(f"ps {quoted(frame.file)} -b {frame.line}") if lines is not None else None
        yield line((what, "bold"), Span(shown, "link" if link else "", link))
        if lines is None or frame.line > len(lines):
            yield line(("  > ", "error"), (frame.text, "bold"))
            return
        first = max(frame.line - _AROUND, 1)
        around = lines[first - 1 : frame.line + _AROUND]
        while len(around) > frame.line - first + 1 and not around[-1].strip():
            around.pop()
        width = len(str(first + len(around)))
        texts = textwrap.dedent("\n".join(each.expandtabs() for each in around)).split("\n")
        for number, text in enumerate(texts, first):
            if number == frame.line:
                yield line(("  > ", "error"), f"{number:{width}}  ", (text, "bold"))
            else:
                yield line(f"    {number:{width}}  ", (text, "source"))

    def _reading(self) -> Frame | None:
        """The line of the first op that takes over what came in."""
        for datum in self._taken_over():
            reader = self._graph.nodes.get(datum.node_name)
            frame = own_frame(reader.frames or ()) if reader is not None else None
            if frame is not None:
                return frame
        return None

    def inputs(self) -> Iterator[Line]:
        """What it was computed from."""
        node = self._node
        names = list(dict.fromkeys(inputs_of(node, self._begin))) if node is not None else []
        head = "From:  "
        for name in names[:_MOST_INPUTS]:
            given = TensorLineage.of(self._dump).as_given(self._begin, name)
            maker = self._graph.nodes.get(node_name_of(name))
            op_type = Span(f"[{maker.op_type if maker is not None else '?'}] ", "op_type")
            if given is not None:
                between = self._health.range(given)
                words = [self._health.name(given), Span("  "), *self._health.words(given)]
                words += [Span(f"  {between}")] if between else []
            else:
                is_clean = self._dump.lists_only_bad
                link = Link(f"ni -a -d -t {quoted(name)}") if maker is not None else None
                how = ("  clean", "success") if is_clean else ("  not dumped", "dim")
                words = [Span(name, "link" if link else "", link), Span(*how)]
            yield line((head, "bold"), op_type, *words)
            head = "       "
        if len(names) > _MOST_INPUTS:
            command = f"li {quoted(self._begin.node_name)}"
            yield line(
                head,
                (f"and {len(names) - _MOST_INPUTS} more: ", "dim"),
                Span(command, "link", Link(command)),
            )

    def aftermath(self) -> Iterator[Line]:
        """What has taken it over: results, gradients, parameters."""
        taken = self._taken_over()
        info = self._dump.run_info()
        absorbed = absorbed_by(self._dump, self._begin)
        if absorbed is not None:
            yield self._absorption(absorbed)
        if not taken or info is None:
            return
        head = "       " if absorbed is not None else "Then:  "
        called = {tensor: name for name, tensor in info.outputs.items()}
        kinds: dict[str, list[Datum]] = {}
        for datum in taken:
            kind = self._kind_of_end(datum, called, info.fetches)
            if kind:
                kinds.setdefault(kind, []).append(datum)
        parts: list[Span] = []
        for kind, word in _ENDS:
            found = kinds.get(kind, [])
            if not found:
                continue
            parts.append(Span(", " if parts else ""))
            if len(found) > _MOST_ENDS:
                parts.append(Span(f"{len(found)} {word}, the first "))
                found = found[:1]
            for at, datum in enumerate(found):
                name = called.get(datum.tensor_name, "")
                own = f"{name} = " if name and name != datum.tensor_name else ""
                parts.append(Span(f"{', ' if at else ''}{own}"))
                parts.append(self._health.name(datum))
        if not parts:
            numbers = [each for each in taken if each.shape == ()][:_MOST_ENDS]
            parts = [Span(f"{len(taken)} tensor(s), {'among them' if numbers else 'the last'} ")]
            for at, datum in enumerate(numbers or taken[-1:]):
                parts += [Span(", " if at else ""), self._health.name(datum)]
        yield line((head, "bold"), "taken over by ", *parts)

    def _absorption(self, absorbed: Absorption) -> Line:
        node = absorbed.node
        command = f"ni -a -d -t {quoted(node.name)}"
        return line(
            ("Then:  ", "bold"),
            "absorbed by ",
            (f"[{node.op_type}] ", "op_type"),
            Span(node.name, "link", Link(command)),
            _line_of(node),
            f": it gives {absorbed.made} there",
        )

    def _taken_over(self) -> list[Datum]:
        """The bad tensors that were computed from it, in order of time."""
        lineage = TensorLineage.of(self._dump)
        found: dict[int, Datum] = {}
        waiting = [self._begin]
        seen: set[str] = set()
        while waiting and len(seen) < _MOST_STEPS:
            source = waiting.pop()
            for edge in self._graph.recipients(source.node_name, control=False):
                if edge.node in seen:
                    continue
                for datum in self._dump.by_node(edge.node):
                    if lineage.bad(datum) and lineage.takes_over(datum, source):
                        seen.add(edge.node)
                        found[id(datum)] = datum
                        waiting.append(datum)
        return sorted(found.values(), key=lambda each: each.timestamp)

    def _kind_of_end(
        self,
        datum: Datum,
        called: dict[str, str],
        fetches: Sequence[str],
    ) -> str:
        name = datum.tensor_name
        phase = phase_of(self._dump, datum.node_name).name
        if phase == "forward" and datum.shape == () and (name in called or name in fetches):
            return "scalar"
        if phase == "backward" or "/gradients/" in f"/{datum.node_name}":
            return "gradient"
        if phase == "optimizer":
            return "update"
        return "result" if name in called or name in fetches else ""


def _line_of(node: Node | None) -> str:
    frame = own_frame(node.frames or ()) if node is not None else None
    return f", line {frame.line}" if frame is not None else ""


_ENDS = (
    ("scalar", "numbers"),
    ("result", "results"),
    ("gradient", "gradient tensors"),
    ("update", "tensors of the optimizer"),
)


_MEANT = (
    "Nothing went bad of itself: what is bad is meant (a mask), or is memory from before the run, "
    "or came to nothing."
)


def _first_of_all(dump: Dump) -> Iterator[Line]:
    """The first tensor that is bad though nothing came of it, if it is so out of clean inputs."""
    bad = (each for each in dump.maybe_nonfinite(dump.data()) if began_here(dump, each))
    begin = next(bad, None)
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
    if arguments.next:
        begin: Datum | None = _next_origin(context, pattern)
        if begin is None:
            text = "No other op of this run made a nan or an infinity of clean inputs."
            return Toast(text, "warning")
    else:
        begin = None if arguments.tensor_filter else _origin_of(context, arguments.node_name)
        begin = begin or first_origin(dump, pattern)
    if begin is not None:
        data = dump.by_tensor(begin.tensor_name)
        context.place = Place(begin.tensor_name, data.index(begin) if len(data) > 1 else None)
        context.extra["loss is told"] = True
        lines = verdict(dump, begin, context.width, columns_of(context))
    elif next(_passing(dump, has_inf_or_nan), None) is not None:
        lines = [line((_MEANT, "info")), *_first_of_all(dump)]
        lines = wrapped(lines, columns_of(context), _INDENT)
    else:
        lines = [line(("No tensor of this run holds a nan or an infinity.", "success"))]
    if not arguments.tensor_filter:
        shown = TextDocument(lines)
        shown.kind = "verdict" if begin is not None else ""
        return shown
    parts = [TextDocument([*lines, line()])]
    words = ["-f", quoted(arguments.tensor_filter)]
    if without:
        words += ["-fenn", quoted(without)]
    listed = LIST_TENSORS.run(context, LIST_TENSORS.parse(tokenize(" ".join(words))))
    assert isinstance(listed, Document)
    document = ChainDocument([*parts, listed], menu=listed.menu)
    document.kind = "verdict" if begin is not None else ""
    return document


def _next_origin(context: Context, exclude: re.Pattern[str] | None) -> Datum | None:
    """The tensor that went bad by itself after the one of the current place, or the first one."""
    found = [
        datum
        for datum in _passing(context.need_dump(), origin_of_nonfinite)
        if exclude is None or not exclude.search(datum.node_name)
    ]
    names = [datum.tensor_name for datum in found]
    at = names.index(context.place.name) + 1 if context.place.name in names else 0
    if at == len(found) or (at == 0 and names == [context.place.name]):
        return None
    return found[at]


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
        "Say what went bad, at which line, why, and what became of it.",
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
            Argument(("-n", "--next"), "the next tensor that went bad by itself"),
        ),
        modes=TENSOR_MODES,
        examples=(
            ("why", "where the nan or infinity that one looks at came from"),
            ("why loss", "where the nan of this tensor came from"),
        ),
        details="\n".join(
            [
                "A reason is told where op, inputs and dtype show it, and left out otherwise:",
                *(f"  {kind:<10} {text}" for kind, text in ADVICE.items()),
            ]
        ),
    ),
)
