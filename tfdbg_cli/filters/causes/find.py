"""Why the elements of a tensor are bad, where op, inputs and dtype show it."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from tfdbg_cli.common.arrays import Array, np
from tfdbg_cli.common.interpreter.unwarned import unwarned
from tfdbg_cli.common.node_words import (
    ALPHA,
    ARGUMENT,
    BACKWARD,
    FACTORS,
    PHASE,
)
from tfdbg_cli.dumps.dump import CannotRedo, Datum, Dump
from tfdbg_cli.dumps.graph import Graph, Node, node_name_of
from tfdbg_cli.dumps.run_info import CALLS, traits_of_run
from tfdbg_cli.filters.causes.advice import ADVICE, Cause, advice_in
from tfdbg_cli.filters.causes.given import before_run, from_outside, of_memory, written_before
from tfdbg_cli.filters.causes.inside import WholeOp, inside
from tfdbg_cli.filters.causes.ops import (
    forward_node,
    has_own_line,
    of_gradient,
    written_as,
)
from tfdbg_cli.filters.causes.patterns import Makers, constant, later_phase, number_of
from tfdbg_cli.filters.causes.rules import BINARY, BY_ELEMENT, RULES, Case, can_give, places_of
from tfdbg_cli.filters.collapsed import why_constant
from tfdbg_cli.filters.lineage import (
    TensorLineage,
    array_of,
    floats,
    inputs_of,
    value_of,
)
from tfdbg_cli.filters.magnitude import largest_number
from tfdbg_cli.filters.pairs import why_broadcast
from tfdbg_cli.filters.unused import why_unused
from tfdbg_cli.filters.updates import why_stuck
from tfdbg_cli.tensors.numeric import dtype_kind, widened

__all__ = ["beginning_of", "cause_of", "forward_op"]

# Values of more elements aren't looked at: the first screen is there at once.
_MOST = 1 << 26
# An op isn't computed again where its inputs have more bytes.
_MOST_AGAIN = 1 << 26
# What comes back to an op is made so many times smaller, to see whether it was too large.
_SMALLER = (2**8, 2**16)


# Ops that divide -> the place of the divisor.
_DIVISORS = {"div": 1, "addcdiv": 2}
_NOT_THESE = (
    "not from the inputs shown below: they were overwritten since, or the op computes in "
    "another precision"
)
_NOTHING = Cause("nothing", "the mean of nothing: no element is left", ADVICE["nothing"])
_ONE = Cause("one", "the variance of one element: it divides by n - 1, which is 0", ADVICE["one"])


def forward_op(graph: Graph, node: Node, cause: Cause | None) -> Node | None:
    """The forward op whose line is that of a node of a backward pass; ``None``: it has its own.

    Args:
        graph: of the run.
        node: of it.
        cause: why what the node has made is bad.
    """
    if has_own_line(node):
        return None
    told = forward_node(graph, node)
    return told if told is not None or cause is None else graph.nodes.get(cause.forward)


def cause_of(lineage: TensorLineage, datum: Datum) -> Cause | None:
    """Why a tensor is bad, as far as that can be shown.

    Args:
        lineage: of the dump.
        datum: a tensor in which something bad began, or whose numbers are wrong and yet finite.

    Returns:
        ``None``: nothing is claimed.
    """
    if not lineage.bad(datum):
        return _of_finite(lineage, datum)
    found, node = _cause_of(lineage, datum), lineage.node(datum)
    if found is None or node is None:
        return found
    info, beginning = lineage.dump.run_info(), beginning_of(lineage.dump)
    is_inference = beginning == "model" or (info is not None and info.kind in CALLS)
    situation = node.attributes.get(PHASE, "")
    if situation not in ("backward", "optimizer"):
        situation = "inference" if is_inference else "forward"
    written = written_as(lineage, node, found.text)
    if written is not None:
        return Cause("gradient", *written)
    advice = advice_in(found, situation, beginning)
    if advice == ADVICE["weights"]:
        known = lineage.once(_last_finite)
        # TensorFlow measures the variable, and the run reads it.
        name = next((each for each in (datum.tensor_name, *node.inputs) if each in known), "")
        if name:
            advice = f"{name} was finite at run {known[name]}: see what has changed it since then."
    return found._replace(advice=advice)


def _last_finite(lineage: TensorLineage) -> Mapping[str, int]:
    """The last run before this one at which a tensor is known to have been finite."""
    tracks, info = lineage.dump.tracks_of("")[0], lineage.dump.run_info()
    if tracks is None or info is None:
        return {}
    found: dict[str, int] = {}
    for tensor, series in tracks.history.series(info.measured_as).items():
        runs, _, values = series.points()
        earlier = runs[np.isfinite(values) & (runs < (info.number or info.call_count))]
        found.update({tensor.name: int(earlier[-1])} if earlier.size else {})
    return found


def beginning_of(dump: Dump) -> str:
    """Why no earlier run has written what a run began with: ``model`` (the engine never trains) or
    ``first`` (none was seen); empty: one may have.
    """
    info = dump.run_info()
    traits = traits_of_run(info)
    if traits is not None and traits.only_infers:
        return "model"
    return "first" if info is not None and info.call_count == 1 else ""


def _of_finite(lineage: TensorLineage, datum: Datum) -> Cause | None:
    """What the filters of these names find."""
    found = {
        "broadcast": why_broadcast,
        "constant": why_constant,
        "stuck": why_stuck,
        "unused": why_unused,
    }
    for kind, why in found.items():
        if text := why(lineage, datum):
            return Cause(kind, text, ADVICE[kind])
    return None


def _cause_of(lineage: TensorLineage, datum: Datum) -> Cause | None:
    node = lineage.node(datum)
    if node is None or (datum.shape is not None and _count(datum.shape) > _MOST):
        return None
    roles = lineage.roles
    if node.op_type in roles.reading | roles.batches | roles.weights:
        is_weight = node.op_type in roles.reading | roles.weights
        found = written_before(lineage, node) if is_weight else before_run(lineage, datum, node)
        return found or from_outside(datum, node, is_weight)
    if found := of_memory(lineage, node):
        return found
    made = floats(datum)
    inputs = [_Input(lineage, datum, name) for name in inputs_of(node, datum)]
    makers = Makers(lineage, datum)
    again = _again(lineage, node, datum) if made is not None else None
    is_proven = False
    if made is not None and again is not None and again.shape == made.shape:
        if np.isfinite(again).all():
            return Cause("inputs", makers.written_over(node) or _NOT_THESE, ADVICE["inputs"])
        is_proven = np.array_equal(np.isfinite(again), np.isfinite(made))
    given = [each.value for each in inputs]
    if made is not None and (
        told := inside(WholeOp(lineage, node, datum.output_slot, made, given))
    ):
        return Cause(*told, ADVICE[told[0]])
    if made is not None and (written := of_gradient(node, made, given)):
        return Cause("gradient", *written)
    if made is None or not inputs or not all(each.is_sure for each in inputs):
        return None
    meaning = roles.computes(node.op_type)
    if meaning in ("softmax", "mean", "variance"):
        found = _of_rows(meaning, made, inputs[0].value)
        return found or _of_total(meaning, made, inputs[0].value, datum.dtype)
    cause = None
    if meaning == "sub" and makers.is_below_its_maximum(node):
        cause = _of_rows("softmax", made, inputs[0].value)
    elif meaning == "div" and np.isnan(made).all():
        cause = _of_none(makers, node)
    if cause is None and meaning in RULES:
        cause = _by_rules(makers, node, meaning, made, inputs, datum.dtype, is_proven)
    cause = cause or _of_number(lineage, node, made, inputs)
    return cause or (_of_large_gradient(lineage, node, datum, made) if is_proven else None)


def _again(lineage: TensorLineage, node: Node, datum: Datum, smaller: int = 1) -> Array | None:
    """What the framework's own op makes of the inputs that are shown; ``None``: nobody can tell.

    Args:
        lineage: of the dump.
        node: the op.
        datum: the output that is asked for.
        smaller: by how much the gradients among the inputs are made smaller.
    """
    nodes = lineage.graph.nodes if lineage.graph is not None else {}
    values, size = [], 0
    for name in node.inputs if lineage.dump.redo is not None else ():
        given = lineage.as_given(datum, name)
        value = value_of(given) if given is not None else None
        if not isinstance(value, np.ndarray | np.generic):
            return None
        array = np.asarray(value)
        if smaller > 1 and later_phase(nodes, node_name_of(name)) == BACKWARD:
            array = np.asarray(array * array.dtype.type(1 / smaller))
        values.append(array)
        size += array.nbytes
    if not values or size > _MOST_AGAIN or lineage.dump.redo is None:
        return None
    try:
        with unwarned(), np.errstate(all="ignore"):
            found = lineage.dump.redo(node.name, values, [])
    except CannotRedo:
        return None
    if found is None or datum.output_slot >= len(found):
        return None
    made = np.asarray(found[datum.output_slot])
    return widened(made) if dtype_kind(made.dtype) == "float" else None


def _of_large_gradient(
    lineage: TensorLineage, node: Node, datum: Datum, made: Array
) -> Cause | None:
    """Of a gradient that is finite where what comes back to its op is smaller: it overflows."""
    nodes = lineage.graph.nodes if lineage.graph is not None else {}
    if later_phase(nodes, node.name) != BACKWARD:
        return None
    for smaller in _SMALLER:
        found = _again(lineage, node, datum, smaller)
        if found is not None and np.isfinite(found).all():
            given = (lineage.as_given(datum, name) for name in node.inputs)
            is_half = "float16" in {datum.dtype, *(e.dtype for e in given if e is not None)}
            kind = "half" if is_half else "overflow"
            at = places_of(~np.isfinite(made))
            text = f"an overflow{at}: a gradient {smaller} times smaller gives finite numbers"
            return Cause(kind, text, ADVICE[kind])
    return None


class _Input:
    """A tensor that an op was given.

    Attributes:
        name: of it.
        value: its elements; ``None``: they aren't there.
        is_sure: whether it is known that it was finite, or what was in it.
    """

    def __init__(self, lineage: TensorLineage, reader: Datum, name: str) -> None:
        self.name = name
        given = lineage.as_given(reader, name)
        self.value = floats(given) if given is not None else None
        if given is not None and self.value is None and given.shape is not None:
            self.value = _whole_numbers(given)
        if given is None and not lineage.dump.lists_only_bad:
            self.value = _written_down(lineage, name)
        self.is_sure = self.value is not None or lineage.dump.lists_only_bad


def _written_down(lineage: TensorLineage, name: str) -> Array | None:
    """A constant of the graph that isn't in the dump: the runtime's optimizer needs none there."""
    nodes, redo = lineage.graph.nodes if lineage.graph is not None else {}, lineage.dump.redo
    node = nodes.get(node_name_of(name))
    if node is None or redo is None or node.inputs or node.op_type not in lineage.roles.placing:
        return None
    try:
        found = redo(node.name, [], [])
    except CannotRedo:
        return None
    made = array_of(found[0], "float") if found else None
    return widened(made) if made is not None else None


def _whole_numbers(datum: Datum) -> Array | None:
    value = np.asarray(value_of(datum))
    return value.astype(np.float64) if value.dtype.kind in "iub" else None


def _of_number(
    lineage: TensorLineage, node: Node, made: Array, inputs: Sequence[_Input]
) -> Cause | None:
    """Of a number that isn't finite, in the call or in a tensor of one element."""
    if np.isfinite(made).any():
        return None
    for name in FACTORS:
        number = number_of(node, name)
        if number is not None and not np.isfinite(number):
            called = name.removeprefix(ARGUMENT)
            return Cause(
                "number", f"the number {number:g} in the call ({called})", ADVICE["number"]
            )
    if lineage.roles.computes(node.op_type) not in BINARY:
        return None
    for place in (0, 1):
        number = constant(node, place)
        if number is not None and not np.isfinite(number):
            return Cause("number", f"the number {number:g} in the call", ADVICE["number"])
    for each in inputs:
        value = each.value
        if value is not None and value.size == 1 < made.size and not np.isfinite(value).all():
            text = f"{each.name} is {float(value.reshape(())):g}"
            return Cause("number", text, ADVICE["number"])
    return None


def _of_rows(meaning: str, made: Array, given: Array | None) -> Cause | None:
    """Of results that are one for many elements."""
    if given is None:
        return None
    if meaning == "softmax":
        for axis in reversed(range(made.ndim if given.shape == made.shape else 0)):
            masked = (given == -np.inf).all(axis)
            if masked.any() and np.array_equal(np.isnan(made).all(axis), masked):
                first = [int(each) for each in np.argwhere(masked)[0]]
                text = (
                    f"{int(masked.sum())} row(s) of softmax are -inf as a whole, the first {first}"
                    if first
                    else "the one row of softmax is -inf as a whole"
                )
                return Cause("masked", text, ADVICE["masked"])
        return None
    if not given.size and np.isnan(made).all():
        return _NOTHING
    if meaning == "variance" and given.size == made.size and np.isnan(made).all():
        return _ONE
    return None


def _of_total(meaning: str, made: Array, given: Array | None, dtype: str) -> Cause | None:
    """Of a mean whose sum is beyond the range, where the op adds in the dtype of its result."""
    largest = largest_number(dtype)
    if meaning != "mean" or given is None or largest is None or not np.isfinite(given).all():
        return None
    axes = _axes_between(given.shape, made.shape)
    bad = ~np.isfinite(made)
    totals = np.abs(given.astype(np.float64)).sum(axes).reshape(made.shape)[bad] if axes else None
    if totals is None or not (totals > largest).all():
        return None
    kind = "half" if dtype == "float16" else "overflow"
    text = (
        f"the sum inside of the mean leaves {dtype}: its limit is {largest:.5g}, and numbers are "
        f"added up to {totals.max():.5g}"
    )
    return Cause(kind, text, ADVICE[kind])


def _axes_between(given: Sequence[int], made: Sequence[int]) -> tuple[int, ...]:
    """The axes over which a shape was reduced to another one; none: it can't be told."""
    if len(given) == len(made):
        return tuple(at for at, size in enumerate(given) if made[at] != size)
    choices = itertools.combinations(range(len(given)), len(given) - len(made))
    fitting = [
        each
        for each in choices
        if [size for at, size in enumerate(given) if at not in each] == [*made]
    ]
    return fitting[0] if len(fitting) == 1 else ()


def _of_none(makers: Makers, node: Node) -> Cause | None:
    """Of a sum that is divided by a count of 0."""
    if makers.is_mean_of_nothing(node):
        return _NOTHING
    return _ONE if makers.is_variance_of_one(node) else None


def _by_rules(
    makers: Makers,
    node: Node,
    meaning: str,
    made: Array,
    inputs: Sequence[_Input],
    dtype: str,
    is_proven: bool,
) -> Cause | None:
    bad = ~np.isfinite(made)
    places = np.nonzero(bad) if made.ndim else ()
    given: list[Array | None] = [each.value for each in inputs]
    if meaning in BY_ELEMENT:
        try:
            given = [None if x is None else np.broadcast_to(x, made.shape)[bad] for x in given]
        except ValueError:
            return None
    if any(x is not None and np.isnan(x).any() for x in given):
        return None  # it is no reason that the op has made a nan of
    if meaning in BINARY and len(given) == 1:
        numbers = [constant(node, place) for place in (0, 1)]
        if numbers.count(None) != 1:
            return None
        place = 0 if numbers[0] is not None else 1
        given.insert(place, np.full(np.count_nonzero(bad), numbers[place]))
    factor = number_of(node, ALPHA) if meaning in ("add", "sub") else None
    if factor is not None and not np.isfinite(factor):
        return None
    if factor is not None:
        given[1:] = [None if x is None else x.astype(np.float64) * factor for x in given[1:]]
    case = Case(made[bad], given, dtype, places)
    if not is_proven and not can_give(meaning, case):
        return Cause("inputs", makers.written_over(node) or _NOT_THESE, ADVICE["inputs"])
    found = [each for each in RULES[meaning](case) if each[2].any()]
    if not found:
        return None
    found.sort(key=lambda each: -int(np.count_nonzero(each[2])))
    kind, text, mask = found[0]
    others = [each for each in found[1:] if each[0] == kind]
    texts = [text.format(at=case.at(mask)) for _, text, mask in (found[0], *others)]
    text = ", and ".join(texts)
    if kind in ("division", "gradient") and (root := makers.root_of_gradient(node, meaning)):
        norm = ", the norm of a zero vector" if makers.norm(root) else ""
        kind, text = "gradient", f"the gradient of a square root at 0{case.at(mask)}{norm}"
    elif kind == "division" and meaning == "div" and (norm := makers.divisor_norm(node)):
        kind, text = "norm", f"{text}: it is {norm}, the norm of a zero vector"
    elif kind == "division" and meaning == "div" and makers.divides_by_spread(node):
        text = f"{text}: the divisor is the spread of elements that are equal"
    elif kind == "division" and meaning in _DIVISORS:
        lost = makers.lost_number(inputs[min(_DIVISORS[meaning], len(inputs) - 1)].name, dtype)
        if lost:
            kind, text = "eps", f"{text}: {lost}"
    if kind in ("log", "division") and (at := makers.of_determinant(node, bad)) is not None:
        of = "the gradient of " if kind == "division" else ""
        kind, text = "matrix", f"{of}the logarithm of the determinant of a singular matrix{at}"
    limit = largest_number(dtype)
    if kind in ("half", "overflow") and limit is not None:
        finite = np.abs(made[np.isfinite(made)])
        top = finite.max() if finite.size else _largest_input(case)
        # Where nothing else is near the limit the number says nothing.
        is_near = top is not None and limit**0.5 < top <= limit
        what = "finite number beside it" if finite.size else "input"
        beside = f", the largest {what} {top:.5g}" if is_near else ""
        scaled = f", alpha is {factor:g}" if factor is not None else ""
        text = f"{text}: its limit is {limit:.5g}{beside}{scaled}"
    return Cause(kind, text, ADVICE[kind])


def _largest_input(case: Case) -> float | None:
    tops = [
        float(np.abs(each[np.isfinite(each)]).max())
        for each in case.given
        if each is not None and np.isfinite(each).any()
    ]
    return max(tops, default=None)


def _count(shape: Sequence[int]) -> int:
    return int(np.prod(shape, dtype=np.int64))
