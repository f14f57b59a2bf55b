"""What went wrong in a run, where, why, and what became of it, on one screen."""

from __future__ import annotations

import functools
import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence

from tfdbg_cli.commands.graph.phases import phase_of
from tfdbg_cli.commands.series.loss_line import loss_lines
from tfdbg_cli.commands.series.magnitudes import growth_lines
from tfdbg_cli.commands.series.step_facts import step_lines
from tfdbg_cli.commands.shell.parsing import quoted
from tfdbg_cli.commands.source.call_in_line import call_in
from tfdbg_cli.commands.spans import node_span, op_span, source_span
from tfdbg_cli.commands.tensors.facts import TensorFacts
from tfdbg_cli.commands.tensors.health import TensorHealth
from tfdbg_cli.commands.wrapping import CodeLine
from tfdbg_cli.common.documents import Line, Link, Span, line
from tfdbg_cli.common.files import near_path
from tfdbg_cli.common.node_words import BACKWARD, BESIDE, FORWARD_FRAMES, PHASE, WATCHED, WRITTEN_BY
from tfdbg_cli.dumps.dump import Datum, Dump
from tfdbg_cli.dumps.graph import Graph, Node, node_name_of
from tfdbg_cli.dumps.sources import Frame, in_package, model_frame, own_frame
from tfdbg_cli.filters.absorbed import Absorption
from tfdbg_cli.filters.causes.advice import OF_INFINITIES
from tfdbg_cli.filters.causes.find import cause_of, forward_op
from tfdbg_cli.filters.causes.ops import forward_node, has_forward_frames
from tfdbg_cli.filters.lineage import TensorLineage, holds_others, inputs_of
from tfdbg_cli.filters.origins import (
    absorbed_by,
    began_here,
    came_in,
    decided_by,
    origin_of_nonfinite,
    stayed_local,
)
from tfdbg_cli.remedies.tried import tried_at_stop

__all__ = ["as_page", "first_origin", "given_to", "own_gradient", "spread_to", "verdict"]

_AROUND = 2
_MOST_INPUTS = 6
# What has become of it is told of runs that are not larger.
_MOST_STEPS = 20_000
_MOST_ENDS = 3


def verdict(dump: Dump, begin: Datum, width: int = 80) -> list[Line]:
    """What is to be said of a tensor in which something bad began.

    Args:
        dump: whose tensor it is.
        begin: the tensor.
        width: columns that a curve may fill.
    """
    made = _Verdict(dump, begin)
    tracks, whose = dump.tracks_of(begin.node_name)
    return [
        *made.head(),
        *made.reason(),
        *made.place(),
        *made.inputs(),
        *made.decided(),
        *made.aftermath(),
        *made.remedy(),
        *growth_lines(dump, begin, width),
        *step_lines(tracks, dump),
        *loss_lines(tracks, whose, width=width),
    ]


def as_page(lines: Iterable[Line]) -> list[Line]:
    """A verdict for a page that takes no commands: without the links that ask for more."""

    def is_shown(span: Span) -> bool:
        return span.link is None or not span.link.command.startswith(
            ("fix", "growth", "help ", "plot ")
        )

    kept = (Line(list(filter(is_shown, each.spans))) for each in lines)
    return [Line(trimmed(each.spans)) for each in kept]


def trimmed(spans: Sequence[Span]) -> list[Span]:
    """Spans without blanks at their end."""
    found = list(spans)
    while found and not found[-1].text.strip():
        found.pop()
    return found


def first_origin(dump: Dump, exclude: re.Pattern[str] | None = None) -> Datum | None:
    """Where something bad began in a run; ``None``: nowhere, or on purpose.

    Nodes whose name matches ``exclude`` are left out.

    A logarithm of 0 is bad itself, and what reaches the parameters is its gradient, which began to
    be bad in an op of its own, of the same input. The logarithm is told. JAX computes some
    derivatives before the loss: what is bad in the loss of itself is told before them.
    """

    def counts(datum: Datum) -> bool:
        return exclude is None or not exclude.search(datum.node_name)

    def is_beside(datum: Datum) -> bool:
        return _says(dump, datum, FORWARD_FRAMES, BESIDE)

    passing = dump.passing(origin_of_nonfinite, exclude)
    origin = next(passing, None)
    if origin is not None and is_beside(origin):
        later = (each for each in passing if not _says(dump, each, PHASE, BACKWARD))
        origin = next(later, origin)
    given = _given(dump, origin) if origin is not None else frozenset()
    for datum in dump.maybe_nonfinite(dump.data()) if given else ():
        if datum is origin:
            break
        if datum.is_view or not counts(datum) or is_beside(datum):
            continue
        if given & _given(dump, datum) and began_here(dump, datum):
            return datum
    return origin


def _says(dump: Dump, datum: Datum, attribute: str, value: str) -> bool:
    """Whether the node of a tensor has an attribute of this value."""
    node = dump.node(datum.node_name)
    return node is not None and node.attributes.get(attribute) == value


def _given(dump: Dump, datum: Datum) -> frozenset[tuple[str, int]]:
    """What an op was given when it made a tensor, and which execution of its maker that was of."""
    lineage, node = TensorLineage.of(dump), dump.node(datum.node_name)
    return frozenset(
        (name, id(lineage.as_given(datum, name))) for name in (node.inputs if node else ())
    )


def given_to(dump: Dump, begin: Datum) -> list[tuple[str, Datum | None]]:
    """What the op of a tensor was given: the names under which that is dumped, and the dumps.

    Args:
        dump: of the run.
        begin: the tensor.
    """
    lineage = TensorLineage.of(dump)
    node = lineage.node(begin)
    names = dict.fromkeys(inputs_of(node, begin)) if node is not None else ()
    found = ((name, lineage.as_given(begin, name)) for name in names)
    return [(name if given is None else given.tensor_name, given) for name, given in found]


def own_gradient(dump: Dump, begin: Datum) -> Datum | None:
    """What the gradient of a tensor's op made that is bad of itself, of the same input.

    Args:
        dump: of the run.
        begin: the tensor, which began to be bad.
    """
    return _Verdict(dump, begin).own_gradient()


def spread_to(dump: Dump, begin: Datum) -> list[tuple[str, str, Datum]]:
    """The results, gradients and parameters that something bad has spread to.

    Args:
        dump: whose tensor it is.
        begin: the tensor in which it began.

    Returns:
        Kind (``scalar``, ``result``, ``gradient``, ``update``), the program's own name, the tensor.
    """
    return _Verdict(dump, begin).spread()


class _Verdict:
    def __init__(self, dump: Dump, begin: Datum) -> None:
        self._dump, self._begin = dump, begin
        self._health = TensorHealth(TensorFacts(dump))
        self._graph: Graph = dump.graph() or Graph([])
        self._node: Node | None = self._graph.nodes.get(begin.node_name)
        self._cause = cause_of(TensorLineage.of(dump), begin)

    def head(self) -> Iterator[Line]:
        """The tensor in which it began, and how bad it is."""
        yield line(
            ("First seen in " if self._is_beyond() else "It began in ", "bold"),
            op_span(self._node),
            self._health.name(self._begin),
            "  ",
            *self._health.words(self._begin),
        )
        if self._begin.note:
            yield line(("Note:  ", "bold"), self._begin.note)

    def _is_beyond(self) -> bool:
        """Whether it may have begun in something of which there are no tensors."""
        node = self._node
        if node is None or WATCHED in node.attributes or WRITTEN_BY in node.attributes:
            return node is not None
        if self._cause is not None or self._dump.lists_only_bad:
            return False
        unseen = (each for each in node.inputs if not self._is_seen(each))
        makers = (self._graph.nodes.get(node_name_of(each)) for each in unseen)
        return any(each and each.inputs and not holds_others(each) for each in makers)

    def _is_seen(self, name: str) -> bool:
        """Whether the dump shows of an input whether it was bad."""
        given = TensorLineage.of(self._dump).as_given(self._begin, name)
        return given is not None and not self._health.is_unknown(given)

    def reason(self) -> Iterator[Line]:
        """Why, where that can be shown."""
        cause = self._cause
        if cause is not None:
            yield line(("Why:   ", "bold"), (cause.text, "error"))
            yield line("       ", cause.advice, "  ", ("help why", "link", "help why"))
        source = came_in(TensorLineage.of(self._dump), self._begin)
        if source is not None and (cause is None or cause.kind in OF_INFINITIES):
            node = self._graph.nodes.get(source.node_name)
            bad = TensorLineage.of(self._dump).bad(source)
            what = "nan" if bad is not None and bad.nan else "infinities"
            yield line(
                f"       Its {what} came in at ",
                op_span(node),
                self._health.name(source),
                _line_of(node),
            )

    def place(self) -> Iterator[Line]:
        """The line of the program that has made it, and those around it."""
        node = self._node
        if node is None:
            return
        forward = forward_op(self._graph, node, self._cause)
        shown_node = forward or node
        frame = own_frame(shown_node.frames or ())
        is_forward = forward is not None or has_forward_frames(node)
        what = "Line of the forward op: " if is_forward else "Line:  "
        if frame is None and not node.inputs:  # it comes in: where it is read
            frame, what = self._reading(), "Read at: "
        if frame is None:
            return
        sources = self._dump.sources()
        lines = sources.lines(frame.file)
        shown = f"{near_path(frame.file)}:{frame.line}"
        yield line((what, "bold"), source_span(sources, frame.file, frame.line, shown))
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
            head, call = Span(f"{number:{width}}  "), None
            if number == frame.line:
                call = _call_in(lines[number - 1], text, frame, shown_node)
            mark = Span("    ") if call is None else Span("  > ", "error")
            yield CodeLine([mark, head], text, call)
        inner = model_frame(shown_node.frames or ())
        if inner is not None:
            link = Link(f"ps {quoted(inner.file)} -b {inner.line}")
            shown = f"{in_package(inner.file)}:{inner.line}"
            before = Span("In:    ", "bold"), Span(shown, "link", link), Span("  ")
            text, known = sources.text(inner), sources.lines(inner.file) or []
            whole = known[inner.line - 1] if inner.line <= len(known) else text
            yield CodeLine(before, text, _call_in(whole, text, inner, shown_node))

    def _reading(self) -> Frame | None:
        """The line of the first op that takes over what came in."""
        for datum in self._taken_over:
            reader = self._graph.nodes.get(datum.node_name)
            frame = own_frame(reader.frames or ()) if reader is not None else None
            if frame is not None:
                return frame
        return None

    def inputs(self) -> Iterator[Line]:
        """What it was computed from."""
        inputs = given_to(self._dump, self._begin)
        head = "From:  "
        for name, given in inputs[:_MOST_INPUTS]:
            maker = self._graph.nodes.get(node_name_of(name))
            if given is not None:
                words = self._health.described(given)
            else:
                is_clean = self._dump.lists_only_bad and name not in self._not_kept
                how = ("  clean", "success") if is_clean else ("  not dumped", "dim")
                words = [node_span(self._graph, name), Span(*how)]
            yield line((head, "bold"), op_span(maker), *words)
            head = "       "
        if len(inputs) > _MOST_INPUTS:
            command = f"li {quoted(self._begin.node_name)}"
            yield line(
                head,
                (f"and {len(inputs) - _MOST_INPUTS} more: ", "dim"),
                Span(command, "link", Link(command)),
            )

    def decided(self) -> Iterator[Line]:
        """What was bad before, and came to this by way of a comparison."""
        found = decided_by(self._dump, self._begin)
        if found is None:
            return
        datum, node = found
        yield line(
            ("Note:  ", "bold"),
            f"bad before this{_line_of(self._graph.nodes.get(datum.node_name))}: ",
            self._health.name(datum),
            "  ",
            *self._health.words(datum),
        )
        yield line(
            "       A value that came of it was compared, by ",
            op_span(node),
            node_span(self._graph, node.name),
            ", and the inputs above depend on the outcome: look at it first.",
        )

    def aftermath(self) -> Iterator[Line]:
        """What has taken it over: results, gradients, parameters."""
        absorbed = absorbed_by(self._dump, self._begin)
        head = Span("Then:  ", "bold")
        if absorbed is not None:
            yield self._absorption(absorbed)
            head = Span("       ")
        parts = self._spread_words()
        if parts:
            yield line(head, "spread to ", *parts)
            head = Span("       ")
        gradient = self.own_gradient()
        if gradient is not None:
            onward = _Verdict(self._dump, gradient)
            taken = {*map(id, self._taken_over)}
            if onward._taken_over and taken.issuperset(map(id, onward._taken_over)):
                return  # what became of it is said
            own = "a gradient computed from the same input is bad too, "
            parts = onward._spread_words()
            parts = [Span("; that spread to "), *parts] if parts else []
            yield line(head, own, self._health.name(gradient), *parts)

    def own_gradient(self) -> Datum | None:
        """What the gradient of the op made that is bad of itself, as a logarithm's at 0 is.

        A quotient has two gradients: the one is told that got somewhere.
        """
        found = [*self._own_gradients()]
        return next(
            (e for e in found if not stayed_local(self._dump, [e])), next(iter(found), None)
        )

    def _own_gradients(self) -> Iterator[Datum]:
        lineage = TensorLineage.of(self._dump)
        names = self._node.inputs if self._node is not None else ()
        edges = (self._graph.recipients(node_name_of(name), control=False) for name in names)
        for name in dict.fromkeys(edge.node for each in edges for edge in each):
            if self._is_gradient(self._graph.nodes[name]):
                for datum in filter(lineage.bad, self._dump.by_node(name)):
                    if began_here(self._dump, datum) and datum not in self._taken_over:
                        yield datum

    def _is_gradient(self, node: Node) -> bool:
        """Whether a node that reads the op's input is of the op's gradient, as far as is told."""
        forward = forward_node(self._graph, node)
        if forward is not None or self._node is None:
            return forward is self._node
        names = (self._node.name, node.name)
        return [phase_of(self._dump, each).name for each in names] == ["forward", "backward"]

    def _spread_words(self) -> list[Span]:
        """The results, gradients and parameters, else the tensors, that have taken it over."""
        taken = self._taken_over
        if not taken or self._dump.run_info() is None:
            return []
        kinds: dict[str, list[tuple[str, Datum]]] = {}
        for kind, name, datum in self.spread():
            kinds.setdefault(kind, []).append((name, datum))
        parts: list[Span] = []
        for kind, word in _ENDS:
            found = kinds.get(kind, [])
            if not found:
                continue
            parts.append(Span(", " if parts else ""))
            if len(found) > _MOST_ENDS:
                parts.append(Span(f"{len(found)} {word}, the first "))
                found = found[:1]
            for at, (name, datum) in enumerate(found):
                own = f"{name} = " if name and name != datum.tensor_name else ""
                parts.append(Span(f"{', ' if at else ''}{own}"))
                parts.append(self._health.name(datum))
        if not parts:
            numbers = [each for each in taken if each.shape == ()][:_MOST_ENDS]
            named = numbers or taken[-1:]
            if len(taken) > len(named):
                parts.append(
                    Span(f"{len(taken)} tensors, {'among them' if numbers else 'the last'} ")
                )
            for at, datum in enumerate(named):
                parts += [Span(", " if at else ""), self._health.name(datum)]
        if self._not_kept:
            count = len(self._not_kept)
            were = "tensor wasn't" if count == 1 else "tensors weren't"
            parts.append(Span(f"; {count} more bad {were} kept"))
        return parts

    @functools.cached_property
    def _not_kept(self) -> frozenset[str]:
        """Of a dump that lists only what is bad: what else was."""
        suspects = self._dump.suspects if self._dump.lists_only_bad else None
        return frozenset(name for name in suspects or () if not self._dump.by_tensor(name))

    def remedy(self) -> Iterator[Line]:
        """The first remedy that makes the run clean, where one was found in a moment."""
        found = tried_at_stop(self._dump, self._begin)
        if found and found[0].helps:
            first = found[0]
            loss = f", loss {first.loss[1]:.5g}" if first.loss is not None else ""
            yield line(
                ("Tried: ", "bold"),
                first.text,
                (f": {first.then}{loss}", "success"),
                "  ",
                ("fix", "link", "fix"),
            )

    def spread(self) -> list[tuple[str, str, Datum]]:
        """See `spread_to`."""
        info = self._dump.run_info()
        if info is None:
            return []
        called = {tensor: name for name, tensor in info.outputs.items()}
        kinds = (
            (self._kind_of_end(each, called, info.fetches), called.get(each.tensor_name, ""), each)
            for each in self._taken_over
        )
        return [found for found in kinds if found[0]]

    def _absorption(self, absorbed: Absorption) -> Line:
        node = absorbed.node
        name = node_span(self._graph, node.name)
        words = f"{_line_of(node)}: {absorbed.words}"
        return line(("Then:  ", "bold"), "absorbed by ", op_span(node), name, words)

    @functools.cached_property
    def _taken_over(self) -> list[Datum]:
        """The bad tensors that were computed from it, in order of time."""
        lineage = TensorLineage.of(self._dump)
        # What read which tensor: of a loop, one iteration is not the others.
        readers: dict[int, list[Datum]] = {}
        names, seen = [self._begin.node_name], set[str]()
        while names and len(seen) < _MOST_STEPS:
            for edge in self._graph.recipients(names.pop(), control=False):
                if edge.node in seen:
                    continue
                seen.add(edge.node)
                data = self._dump.by_node(edge.node)
                bad = list(filter(lineage.bad, data))
                # Of what a call hands on there may be lists, which aren't dumped.
                if bad or not data or self._graph.nodes[edge.node].returns:
                    names.append(edge.node)
                for datum in bad:
                    for source in filter(lineage.bad, lineage.inputs(datum)):
                        if lineage.takes_over(datum, source):
                            readers.setdefault(id(source), []).append(datum)
        found: set[int] = set()
        waiting = [self._begin]
        while waiting:
            new = [e for e in readers.get(id(waiting.pop()), ()) if id(e) not in found]
            found.update(map(id, new))
            waiting += new
        taken = (each for each in self._dump.data() if id(each) in found)
        return sorted(taken, key=lambda each: each.timestamp)

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
            return "result" if name in called else "gradient"
        if phase == "optimizer":
            return "update"
        return "result" if name in called or name in fetches else ""


def _call_in(whole: str, text: str, frame: Frame, node: Node) -> tuple[int, int]:
    """The characters of a line that made a tensor.

    Args:
        whole: the line of the file.
        text: the same as it is shown: with other blanks at its beginning.
        frame: whose line it is.
        node: that made it.
    """
    start, end = call_in(whole, frame, node.op_type)
    left = len(whole.rstrip().expandtabs()) - len(text.rstrip())
    return len(whole[:start].expandtabs()) - left, len(whole[:end].expandtabs()) - left


def _line_of(node: Node | None) -> str:
    frame = own_frame(node.frames or ()) if node is not None else None
    return f", line {frame.line}" if frame is not None else ""


_ENDS = (
    ("scalar", "numbers"),
    ("result", "results"),
    ("gradient", "gradient tensors"),
    ("update", "tensors of the optimizer"),
)
