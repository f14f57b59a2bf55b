"""The remedies for the reason of a bad tensor, each tried on the values of its run."""

from __future__ import annotations

import contextlib
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tfdbg_cli.common.arrays import Array, np
from tfdbg_cli.common.interpreter.program_signals import contained, pass_on
from tfdbg_cli.common.interpreter.unwarned import unwarned
from tfdbg_cli.dumps.dump import CannotRedo, Datum, Dump
from tfdbg_cli.dumps.finite import count_bad
from tfdbg_cli.dumps.graph import Graph, Node, node_name_of
from tfdbg_cli.dumps.run_info import CALLS, RunInfo, traits_of_run
from tfdbg_cli.dumps.series.tracks import LOSS
from tfdbg_cli.dumps.sources import Frame, own_frame
from tfdbg_cli.filters.causes.advice import OF_INFINITIES
from tfdbg_cli.filters.causes.find import cause_of
from tfdbg_cli.filters.causes.ops import forward_node
from tfdbg_cli.filters.causes.patterns import later_phase
from tfdbg_cli.filters.causes.rules import NUMPY_NAMES
from tfdbg_cli.filters.forward import ForwardPass
from tfdbg_cli.filters.lineage import TensorLineage
from tfdbg_cli.filters.origins import came_in
from tfdbg_cli.remedies.candidates import candidates
from tfdbg_cli.remedies.edits import Edit, edited, merged
from tfdbg_cli.remedies.ends import is_end, writes
from tfdbg_cli.remedies.situation import Candidate, Situation
from tfdbg_cli.remedies.trial import Outcome, Trial, difference

__all__ = ["TriedRemedy", "tried", "tried_at_stop", "written_variables"]

# What has a gradient that is computed of its result.
_POLES = ("sqrt", "rsqrt", "pow")
# Seconds of the processor for all remedies where nobody has asked for them; on a busy machine they
# take longer by the clock.
_AT_A_STOP, _BY_THE_CLOCK = 0.3, 10
# A larger number that is written to a variable, or returned, is told: it is finite, and ruins a
# model as well.
_WILD = 1e6
# Further behind the source of a batch nobody looks.
_MOST_BEHIND = 20
# Of stops: several parts of a screen, and a report, tell the same.
_known: weakref.WeakKeyDictionary[Dump, dict[int, list[TriedRemedy]]] = weakref.WeakKeyDictionary()


@dataclass
class TriedRemedy:
    """One remedy and what came of it.

    Attributes:
        candidate: the remedy.
        outcome: what is other with it.
        helps: nothing that was computed again is bad.
        is_clean: that holds to the end of the forward pass, all of which was computed again.
        then: that in words.
        loss: tensor and value of the loss of the run; ``None``: it isn't computed from the op, or
            it isn't known which tensor it is.
        changed: of the op's result, how many elements that were finite are other ones.
        largest: the largest difference of those.
        frame: the program's line; ``None``: it isn't known.
        edit: of that line; ``None``: it can't be written by a rule.
        is_wild: what is written to variables, or returned, is so large that it hardly helps.
    """

    candidate: Candidate
    outcome: Outcome
    helps: bool
    is_clean: bool
    then: str
    loss: tuple[str, float] | None
    changed: int
    largest: float
    frame: Frame | None
    edit: Edit | None
    is_wild: bool

    @property
    def text(self) -> str:
        """The changed expression, or what is changed."""
        return self.edit.after if self.edit is not None else self.candidate.text

    @property
    def elsewhere(self) -> str:
        """What became of elements that were finite."""
        if not self.changed:
            return "nothing" if self.outcome.count else ""
        elements = "1 element" if self.changed == 1 else f"{self.changed} elements"
        return f"{elements}, none by more than {self.largest:.2g}"

    def value(self, name: str) -> Array | None:
        """What a tensor is with the change; ``None``: what it was.

        Args:
            name: of the tensor.

        Raises:
            CannotRedo: it depends on the change, and could not be computed.
        """
        outcome = self.outcome
        node = node_name_of(name)
        if node in outcome.left:
            cause, why = outcome.left[node]
            of = "" if node == cause else f"depends on {cause}, which "
            raise CannotRedo(f"{name} {of}wasn't recomputed: {why}")
        return outcome.values.get(name)

    def record(self) -> dict[str, Any]:
        """The structure of docs/json.md."""
        is_placed = self.edit is not None
        return {
            "change": self.text,
            "then": self.then,
            "clean": self.is_clean,
            "loss": self.loss[1] if self.loss is not None else None,
            "changed": self.changed,
            "largest_change": self.largest,
            "file": self.frame.file if self.frame is not None and is_placed else "",
            "line": self.frame.line if self.frame is not None and is_placed else 0,
            "patch": "\n".join((*self.diff, "")),
        }

    @property
    def diff(self) -> list[str]:
        """The lines of a patch for ``patch -p1``; empty: there is none."""
        if self.edit is None or self.frame is None:
            return []
        return self.edit.diff(self.frame.file)


def tried_at_stop(dump: Dump, begin: Datum) -> list[TriedRemedy]:
    """`tried` in `_AT_A_STOP` seconds, once for each tensor; the values aren't kept.

    Args:
        dump: of the run.
        begin: the tensor in which it began.
    """
    known = _known.setdefault(dump, {})
    if id(begin) not in known:
        known[id(begin)] = tried(dump, begin, _AT_A_STOP)
        for each in known[id(begin)]:
            each.outcome.values.clear()
    return known[id(begin)]


def tried(dump: Dump, begin: Datum, seconds: float) -> list[TriedRemedy]:
    """Try the remedies for the reason of a bad tensor: those that make the run clean come first.

    Args:
        dump: of the run.
        begin: the tensor in which it began.
        seconds: of the processor that may be spent in all, and ten times that by the clock; what
            isn't computed until then is told as unknown.
    """
    if dump.redo is None:
        return []
    # If it fails, whoever looks at the run sees the rest of the screen.
    with contained, unwarned(), np.errstate(all="ignore"):
        end, last = time.process_time() + seconds, time.monotonic() + _BY_THE_CLOCK * seconds
        return _tried(dump, begin, lambda: time.process_time() > end or time.monotonic() > last)
    return []


def _tried(dump: Dump, begin: Datum, is_late: Callable[[], bool]) -> list[TriedRemedy]:
    lineage = TensorLineage.of(dump)
    cause, node = cause_of(lineage, begin), lineage.node(begin)
    graph = lineage.graph
    if cause is None or node is None or graph is None:
        return []
    target = graph.nodes.get(cause.forward) if cause.forward else None
    if target is None and cause.kind == "gradient":
        makers = [graph.nodes.get(node_name_of(each)) for each in node.inputs]
        roots = [each for each in makers if each and lineage.roles.computes(each.op_type) in _POLES]
        target = forward_node(graph, node) or next(iter(roots), None)
    if cause.kind == "batch":  # what a pipeline reads comes to the run in its batches
        target = next(
            (e for e in _behind(lineage, node) if e.op_type in lineage.roles.batches), None
        )
        readers = graph.recipients(node.name, control=False)
        if readers and all(writes(lineage, each.node) for each in readers):
            return []  # the value of a variable, not examples
    target = target or node
    trial = Trial(dump, is_late)
    made, info = dump.by_node(target.name), dump.run_info()
    situation = Situation(
        cause.kind,
        graph,
        target,
        lineage.roles.computes(target.op_type),
        made[0].dtype if made else begin.dtype,
        trial.value,
        lambda name: any(map(lineage.bad, dump.by_node(name))),
        lineage.roles.computes,
        _spelling(dump),
        (info.tracks if info is not None else None) or {},
    )
    found = (_try(lineage, trial, situation, begin, each) for each in candidates(situation))
    order = [*filter(None, found)]
    return sorted(
        order, key=lambda each: (not each.is_clean or each.is_wild, not each.helps, each.is_wild)
    )


def _behind(lineage: TensorLineage, node: Node) -> Iterator[Node]:
    """The nodes that depend on a node, those that it leads to first."""
    assert lineage.graph is not None
    waiting, seen = [node.name], {node.name}
    while waiting and len(seen) < _MOST_BEHIND:
        for edge in lineage.graph.recipients(waiting.pop(0), control=False):
            if edge.node not in seen:
                seen.add(edge.node)
                waiting.append(edge.node)
                yield lineage.graph.nodes[edge.node]


def _try(
    lineage: TensorLineage,
    trial: Trial,
    situation: Situation,
    begin: Datum,
    candidate: Candidate,
) -> TriedRemedy | None:
    try:
        outcome = trial.run(candidate.change)
    except Exception as error:  # above all: there is no memory
        pass_on(error)
        return None
    dump, node = lineage.dump, situation.node
    if not candidate.text:
        candidate = candidate._replace(text=f"{_reach(outcome)} in {candidate.change.wide}")
    # Of a bad tensor that wasn't computed again nothing is known.
    helps = bool(outcome.count) and not outcome.bad and begin.node_name not in outcome.left
    nodes = lineage.graph.nodes if lineage.graph is not None else {}
    numbers = _numbers(lineage, outcome)
    loss = _loss(lineage, trial, numbers)
    # Of what several ops make together only the last one's result is the program's.
    is_inner = node.name in candidate.change.between
    before = _before(trial, outcome, candidate.change.node if is_inner else node.name)
    changed, largest = difference(
        before, {name: value for name, value in outcome.values.items() if name in before}
    )
    frame = own_frame(node.frames or ())
    edit = _edit(dump, node, situation, candidate, frame)
    if edit is None and candidate.edit == "between" and situation.kind in OF_INFINITIES:
        frame = _of_infinities(lineage, begin) or frame
    is_later = _is_behind(lineage, outcome, outcome.unknown)
    end = "clean to the loss" if loss is not None else ""
    if numbers and not end and all(_is_behind(lineage, outcome, name) for name in outcome.left):
        end = "clean to the end of the forward pass"
    is_whole = not outcome.unknown or (bool(end) and is_later)
    is_whole = is_whole or _is_up_to_update(nodes, outcome)
    is_whole = is_whole or all(_ends_well(lineage, outcome, name) for name in outcome.left)
    wild = _wild(lineage, outcome) if helps else ""
    then = _then(lineage, node, outcome, end, is_loss=loss is not None)
    return TriedRemedy(
        candidate,
        outcome,
        helps,
        helps and is_whole,
        then + wild,
        loss,
        changed,
        largest,
        frame,
        edit,
        bool(wild),
    )


def _of_infinities(lineage: TensorLineage, begin: Datum) -> Frame | None:
    """The line where the infinities came in of which an op has made something bad."""
    source = came_in(lineage, begin)
    maker = lineage.node(source) if source is not None else None
    return own_frame(maker.frames or ()) if maker is not None else None


def _reach(outcome: Outcome) -> str:
    """Which ops were computed in a wider dtype."""
    names = [*outcome.wide]
    if not names or outcome.wide[names[-1]]:
        return f"this op up to {names[-1]}" if len(names) > 1 else "this op"
    return "this op and what follows"


def _ends_well(lineage: TensorLineage, outcome: Outcome, name: str) -> bool:
    """Whether a node that wasn't computed gives whole numbers, or writes what is known."""
    data = lineage.dump.by_node(name)
    is_whole_number = all("int" in each.dtype or each.dtype == "bool" for each in data)
    return is_end(lineage, outcome.left, name) or (bool(data) and is_whole_number)


def _before(trial: Trial, outcome: Outcome, node: str) -> dict[str, Any]:
    found = {}
    for name in outcome.values:
        if node_name_of(name) == node:
            try:
                found[name] = trial.value(name)
            except CannotRedo:
                continue
    return found


def _numbers(lineage: TensorLineage, outcome: Outcome) -> dict[str, float]:
    """The numbers of the forward pass that are other ones."""
    later = lineage.once(_forward_pass).later
    return {
        tensor: float(value.astype(np.float64).reshape(()))
        for tensor, value in outcome.values.items()
        if value.size == 1 and value.dtype.kind in "fV" and node_name_of(tensor) not in later
    }


def _forward_pass(lineage: TensorLineage) -> ForwardPass:
    return ForwardPass(lineage.graph or Graph([]))


def _is_behind(lineage: TensorLineage, outcome: Outcome, name: str) -> bool:
    """Whether a node isn't of the forward pass, or writes what that has made."""
    return name in lineage.once(_forward_pass).later or is_end(lineage, outcome.left, name)


def _loss(
    lineage: TensorLineage, trial: Trial, numbers: Mapping[str, float]
) -> tuple[str, float] | None:
    """Which of the changed numbers is the loss of the run; ``None``: that isn't known."""
    info = lineage.dump.run_info()
    if info is None or info.kind in CALLS:
        return None
    told = _told_losses(info)
    if len(told) == 1:
        # Several may have had its value, above all nan: they have to agree in what they are now.
        # One of them may be as it was.
        made = dict.fromkeys((*_made_numbers(lineage), *numbers))
        found = [name for name in made if _was(trial, name, told[0])]
        found = [name for name in found if name in info.ends] or found
    else:
        found = [] if told else _only_end(lineage, info.ends, numbers)
    values = {*map(numbers.get, found)}
    is_known = len(values) == 1 and None not in values
    return (found[-1], numbers[found[-1]]) if is_known else None


def _told_losses(info: RunInfo) -> list[float]:
    """The followed loss of a run: several, where several backward passes were made."""
    runs, values = _losses(info)
    return [*map(float, values[runs == (info.number or info.call_count)])]


def _losses(info: RunInfo) -> tuple[Array, Array]:
    """The losses that were followed, and the runs that they are of."""
    series = info.tracks.get(LOSS) if info.tracks is not None else None
    if info.tracks is None or series is None or series.expression:
        return np.empty(0, int), np.empty(0)
    info.tracks.settle()
    runs, _, values = series.points()
    return runs, values


def _was(trial: Trial, name: str, number: float) -> bool:
    """Whether a tensor was this number in the run."""
    with contextlib.suppress(CannotRedo):
        return bool(np.array_equal(trial.value(name).astype(np.float64), number, equal_nan=True))
    return False


def _only_end(lineage: TensorLineage, ends: set[str], numbers: Mapping[str, float]) -> list[str]:
    """Of a run with gradients whose loss isn't followed: the only number that it hands over.

    Nor may another changed number be what the forward pass ends with: the loss itself, where what
    is handed over is a metric.
    """
    nodes = lineage.graph.nodes if lineage.graph is not None else {}
    forward = lineage.once(_forward_pass)
    if not any(later_phase(nodes, name) == "backward" for name in forward.later):
        return []
    handed = [each for each in _made_numbers(lineage) if each in ends]
    last = [each for each in numbers if not forward.is_read(each)]
    return handed if len(handed) == 1 and handed == last else []


def _made_numbers(lineage: TensorLineage) -> Iterator[str]:
    """The tensors of one number that ops of the forward pass have made."""
    for node in lineage.once(_forward_pass).nodes:
        for each in lineage.dump.by_node(node.name) if node.inputs else ():
            if each.shape == () and "float" in each.dtype:
                yield each.tensor_name


def _then(lineage: TensorLineage, node: Node, outcome: Outcome, end: str, *, is_loss: bool) -> str:
    if outcome.bad:
        bad = _words(outcome.bad_value)
        if node_name_of(outcome.bad) == node.name:
            return f"still {bad}"
        graph = lineage.graph
        other = graph.nodes.get(node_name_of(outcome.bad)) if graph is not None else None
        frame = own_frame(other.frames or ()) if other is not None else None
        return f"{bad} at {outcome.bad}{f', line {frame.line}' if frame is not None else ''}"
    if not outcome.count:
        return f"not tried: {outcome.why}" if outcome.why else "not tried"
    graph = lineage.graph
    nodes = graph.nodes if graph is not None else {}
    phases = {later_phase(nodes, node_name_of(name)) for name in outcome.values}
    known = end and (f"{end}, gradients too" if "backward" in phases else end)
    if all(is_end(lineage, outcome.left, name) for name in outcome.left):
        return known if is_loss else "clean to the end of the run"
    if not known and _is_up_to_update(nodes, outcome):
        return "gradients clean; the loss is as it was"
    is_update = later_phase(nodes, outcome.unknown) == "optimizer"
    if known and (is_update or is_end(lineage, outcome.left, outcome.unknown)):
        return known  # the update needs weights that aren't kept
    gone = f"{outcome.unknown} ({outcome.why})"
    if not known:
        return f"clean up to {gone}"
    if later_phase(nodes, outcome.unknown) == "backward":
        return f"{end}; gradients clean up to {outcome.unknown}"
    return f"{end} and on to {gone}"


def _is_up_to_update(nodes: Mapping[str, Node], outcome: Outcome) -> bool:
    """Whether gradients were computed again, and nothing but the update is left."""
    phases = {later_phase(nodes, node_name_of(name)) for name in outcome.values}
    return "backward" in phases and later_phase(nodes, outcome.unknown) == "optimizer"


def _wild(lineage: TensorLineage, outcome: Outcome) -> str:
    """What is said of wild numbers that go on to later runs; empty: there are none."""
    nodes = lineage.graph.nodes if lineage.graph is not None else {}
    written = (e for name in outcome.left if writes(lineage, name) for e in nodes[name].inputs)
    info = lineage.dump.run_info() or RunInfo()
    losses = np.abs(_losses(info)[1])
    usual = float(losses[np.isfinite(losses)].max(initial=0))
    for words, names, limit in (("writes", written, 0.0), ("returns", info.ends, 100 * usual)):
        values = (outcome.values[each] for each in names if each in outcome.values)
        floats = (x.astype(np.float64) for x in values if x.dtype.kind in "fV")
        largest = max((float(np.abs(x).max(initial=0)) for x in floats), default=0.0)
        if largest > max(_WILD, limit):
            return f", but {words} up to {largest:.2g}"
    return ""


def written_variables(dump: Dump, outcome: Outcome) -> list[str]:
    """The variables that a run has written, and would have written otherwise with a change.

    Args:
        dump: of the run.
        outcome: of the change.
    """
    lineage = TensorLineage.of(dump)
    nodes = lineage.graph.nodes if lineage.graph is not None else {}
    writers = (nodes[name] for name in outcome.left if writes(lineage, name))
    return sorted({node_name_of(each.inputs[0]) for each in writers if each.inputs})


def _words(value: Array | None) -> str:
    if value is None:
        return "bad"
    nan, negative, positive = count_bad(value)
    names = (("nan", nan), ("-inf", negative), ("inf", positive))
    return " and ".join(name for name, count in names if count)


def _spelling(dump: Dump) -> Mapping[str, str]:
    traits = traits_of_run(dump.run_info())
    return traits.spelling if traits is not None else {}


def _edit(
    dump: Dump, node: Node, situation: Situation, candidate: Candidate, frame: Frame | None
) -> Edit | None:
    spelling = situation.spelling.get(candidate.edit, "")
    spelling = spelling or candidate.edit * ("{x}" in candidate.edit)
    lines = dump.sources().lines(frame.file) if frame is not None and spelling else None
    if frame is None or lines is None:
        return None
    if candidate.composite is not None:
        outer, inner, count = candidate.composite
        node = situation.graph.nodes[outer]
        place = own_frame(node.frames or ())
        called = (node.op_type.rstrip("_").lower(), situation.computes(node.op_type))
        is_here = place is not None and place.file == frame.file
        return merged(lines, place, called, inner, count, spelling) if place and is_here else None
    if candidate.argument < 0:
        return None
    with contextlib.suppress(CannotRedo):
        if situation.is_written_as_int(candidate.argument):
            return None  # TensorFlow adds no fraction to them
    meaning = situation.meaning
    op = node.op_type.rstrip("_").lower()
    names = (op, meaning, NUMPY_NAMES.get(meaning, meaning))
    nodes = situation.graph.nodes
    others = (own_frame(nodes[each].frames or ()) for each in candidate.others)
    frames = [frame, *filter(None, others)]
    if len(frames) <= len(candidate.others) or {each.file for each in frames} != {frame.file}:
        return None
    if frame.columns is not None:  # a call that was made several times is one place
        frames = [*dict.fromkeys(frames)]
    found = edited(lines, frames, names, candidate.argument, spelling, candidate.numbers)
    if found is None and situation.meaning == "reciprocal":  # written as 1 / x
        found = edited(lines, frames, ("div",), 1, spelling, candidate.numbers)
    return found
