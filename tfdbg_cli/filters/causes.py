"""Why the elements of a tensor are bad, where op, inputs and dtype show it."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tfdbg_cli.common.arrays import Array, np
from tfdbg_cli.common.interpreter.unwarned import unwarned
from tfdbg_cli.common.node_words import (
    ALPHA,
    ARGUMENT,
    BACKWARD,
    FACTORS,
    MADE_BY,
    MADE_INSIDE,
    NUMBER,
    PHASE,
    WRITES,
    WRITTEN_BY,
)
from tfdbg_cli.dumps.dump import CannotRedo, Datum, Dump
from tfdbg_cli.dumps.graph import Graph, Node, node_name_of
from tfdbg_cli.dumps.run_info import CALLS, traits_of_run
from tfdbg_cli.filters.cause_inside import WholeOp, inside
from tfdbg_cli.filters.cause_ops import forward_node, has_own_line, of_gradient, written_as
from tfdbg_cli.filters.cause_patterns import Makers, constant, later_phase, number_of
from tfdbg_cli.filters.cause_rules import BINARY, BY_ELEMENT, RULES, Case, can_give, places_of
from tfdbg_cli.filters.collapsed import why_constant
from tfdbg_cli.filters.lineage import (
    WRITTEN,
    TensorLineage,
    array_of,
    floats,
    holds_others,
    inputs_of,
    value_of,
)
from tfdbg_cli.filters.magnitude import largest_number
from tfdbg_cli.filters.pairs import why_broadcast
from tfdbg_cli.filters.unused import why_unused
from tfdbg_cli.filters.updates import why_stuck
from tfdbg_cli.tensors.numeric import dtype_kind, widened

__all__ = ["ADVICE", "OF_INFINITIES", "Cause", "beginning_of", "cause_of", "forward_op"]

# Values of more elements aren't looked at: the first screen is there at once.
_MOST = 1 << 26
_MOST_ROWS = 4
# An op isn't computed again where its inputs have more bytes.
_MOST_AGAIN = 1 << 26
# What comes back to an op is made so many times smaller, to see whether it was too large.
_SMALLER = (2**8, 2**16)


class Cause(NamedTuple):
    """One reason.

    Attributes:
        kind: which of those that docs/why.md explains.
        text: what happened, and at which elements.
        advice: what people do about it.
        forward: the node of the op whose gradient went bad, where it is told by that.
    """

    kind: str
    text: str
    advice: str
    forward: str = ""


#: What people do about each kind of cause.
ADVICE = {
    "log": "Compute the loss from logits, or keep the argument above 0: log(x.clip(1e-7)).",
    "division": "Add a small number to the divisor, or divide only where it isn't 0.",
    "eps": "Use a larger eps (1e-4 in float16), or keep the optimizer's state in float32.",
    "sqrt": "Keep the argument at 0 or above: rounding can make a difference of equals negative.",
    "power": "Use a whole exponent, or keep the base above 0.",
    "exp": "Subtract the largest argument first (logsumexp, softmax), or clip it.",
    "half": "Keep this op in float32, use bfloat16, or make its operands smaller before it.",
    "overflow": "Find what grew: the learning rate, the initial weights, unclipped gradients.",
    "difference": "Mask with a large finite number instead of an infinity, or leave elements out.",
    "product": "Choose with where() instead of multiplying a mask of zeros with infinities.",
    "masked": "Leave at least one element of each row unmasked, or set such rows to 0 afterwards.",
    "gradient": "Add a small number under the root: sqrt(x + 1e-12); where() alone doesn't help.",
    "norm": "Divide by max(norm, 1e-12), as normalize() does with its eps.",
    "nothing": "Skip batches in which nothing is left, or divide by max(count, 1).",
    "one": "Use the biased variant, which divides by n, or batches of two and more.",
    "domain": "Clip the argument to the domain of the function; rounding can overstep its end.",
    "batch": "Look at how the data is read: a missing value, a division in the preprocessing.",
    "inside": "A module has made it and doesn't return it: start again with config set level ops.",
    "before": "config set level ops: the next run then has the ops before it.",
    "number": "Find where the number comes from: the op combines it with every element.",
    "matrix": "Add a small multiple of the identity, x + 1e-6 * eye(n), or leave such ones out.",
    "determinant": "Use slogdet(x)[1], of the absolute value, or a positive definite matrix.",
    "variance": "Find what has written the variance: no batch has one below 0.",
    "ctc": "Leave such examples out, or use CTCLoss(zero_infinity=True).",
    "memory": "Fill the memory where it is made (zeros), or leave out elements never written.",
    "inputs": "config set level values keeps the inputs of each op.",
    "index": "Look at the labels or token ids, and at the size of what they choose from.",
    "constant": "Normalize over another axis, or look for what has saturated or died before it.",
    "broadcast": "Give both one shape before: x.squeeze(-1), or y[:, None].",
    "stuck": "Use a larger rate, or keep the parameters (a copy for the optimizer) in float32.",
    "unused": "Look for a detach, a factor of 0 or a dead layer before the loss; or freeze it.",
    "weights": "It was bad before this run: start run -f earlier, or see how it is made.",
}

#: Kinds of what is made of infinities that are meant.
OF_INFINITIES = frozenset({"difference", "masked", "product"})

# Where a kind has other advice: in a backward pass, in an optimizer's step, without training, in an
# engine that never trains, in the first run.
_ADVICE_IN = {
    ("half", "backward"): "Scale the loss less (a gradient scaler finds the scale by itself), "
    "or use bfloat16.",
    ("half", "optimizer"): "Keep the optimizer's state in float32, or lower the learning rate.",
    ("log", "inference"): "Keep the argument above 0: log(x.clip(1e-7)).",
    ("overflow", "inference"): "Look at what is large: the inputs, the weights.",
    ("batch", "inference"): "Look at how it was read or made: a missing value, a division "
    "before this call.",
    ("weights", "model"): "The model itself holds it: see how it was trained or exported.",
    ("weights", "first"): "No earlier run was seen: look at how it is made, or loaded.",
}

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
    advice = _ADVICE_IN.get((found.kind, situation), found.advice)
    advice = _ADVICE_IN.get((found.kind, beginning), advice)
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
        found = _written_before(lineage, node) if is_weight else _before_run(lineage, datum, node)
        return found or _from_outside(datum, node, is_weight)
    if found := _of_memory(lineage, node):
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


# In the names of what adds a gradient to that of earlier backward passes.
_ACCUMULATING = "/AccumulateGrad/"


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


def _written_before(lineage: TensorLineage, node: Node) -> Cause | None:
    """Of a variable that is read because an op of the same run has written to it."""
    nodes = lineage.graph.nodes if lineage.graph is not None else {}
    for name in node.control_inputs:
        writer = nodes.get(name)
        if writer is None or not writer.op_type.startswith("Assign"):
            continue
        if writer.inputs[:1] == node.inputs[:1]:
            given = ", ".join(writer.inputs[1:])
            advice = f"li {name} shows what that was made of."
            return Cause("weights", f"{name} wrote it in this run, from {given}", advice)
    return None


def _before_run(lineage: TensorLineage, datum: Datum, node: Node) -> Cause | None:
    """Of a tensor that the program has computed itself, where the run began with its gradient."""
    graph, made_by = lineage.graph, node.attributes.get(MADE_BY, "")
    edges = graph.recipients(node.name, control=False) if graph is not None else ()
    phases = {graph.nodes[each.node].attributes.get(PHASE) for each in edges} if graph else {}
    name = f"{datum.tensor_name}{_rows(floats(datum))}"
    if edges and all(_ACCUMULATING in each.node for each in edges):
        text = f"it was in the gradient before this backward pass added to it ({name})"
        return Cause("before", text, "Call zero_grad() before each step, or start run -f earlier.")
    if MADE_INSIDE in node.attributes:
        by = f", by {made_by}" if made_by else ""
        text = f"it was computed in this run{by}, where nothing was recorded ({name})"
        return Cause("before", text, ADVICE["inside"])
    text = f"it was computed before this run, by {made_by} ({name})"
    if not made_by:
        text = f"it was there before this run, which began with a backward pass ({name})"
    is_before = made_by or phases == {BACKWARD}
    return Cause("before", text, ADVICE["before"]) if is_before else None


def _from_outside(datum: Datum, node: Node, is_weight: bool) -> Cause:
    value = floats(datum)
    if NUMBER in node.attributes and value is not None:
        return Cause("number", f"{datum.tensor_name} is {float(value):g}", ADVICE["number"])
    name = f"{datum.tensor_name}{_rows(floats(datum))}"
    if is_weight:
        return _given("weights", f"it came in with the weights ({name})", node)
    return _given("batch", f"it came in from outside ({name})", node)


def _given(kind: str, text: str, node: Node) -> Cause:
    """Of what the run was given; an op before it may have written that."""
    by = node.attributes.get(WRITTEN_BY)
    written = f"{by} wrote to it before this run: see what that was given."
    return Cause(kind, text, written if by else ADVICE[kind])


def _rows(value: Array | None) -> str:
    """Which rows of a table are bad, where others aren't."""
    if value is None or value.ndim < 2:
        return ""
    is_bad = ~np.isfinite(value).reshape(len(value), -1).all(1)
    rows = [int(each) for each in np.flatnonzero(is_bad)]
    if not rows or len(rows) == len(value):
        return ""
    if len(rows) > 1 and rows[-1] - rows[0] == len(rows) - 1:
        return f", rows {rows[0]} to {rows[-1]}"
    shown = ", ".join(map(str, rows[:_MOST_ROWS]))
    more = f" and {len(rows) - _MOST_ROWS} more" if len(rows) > _MOST_ROWS else ""
    return f", row{'s' if len(rows) > 1 else ''} {shown}{more}"


def _of_memory(lineage: TensorLineage, node: Node) -> Cause | None:
    """Of what was in memory before the run, and that an op lets out."""
    graph, roles = lineage.graph, lineage.roles
    computed = roles.computes(node.op_type)
    # What is written over needn't be read.
    over = node.attributes.get(WRITES, "").split(", ") if computed not in BINARY else ()
    # Names, and whether something bad is in memory that was written to in parts, on the way there.
    waiting = [(name, False) for name in node.inputs if name not in over]
    seen = set[str]()
    while waiting and graph is not None:
        name, is_rest_bad = waiting.pop(0)
        source = graph.nodes.get(node_name_of(name))
        if source is None or name in seen:
            continue
        seen.add(name)
        is_buffer = source.op_type in roles.buffers
        if is_buffer or roles.unwritten.fullmatch(source.op_type):
            data = lineage.dump.by_tensor(name)
            bad = [found for each in data if (found := lineage.bad(each))]
            # What nobody has written to isn't always kept.
            is_gone = not (is_buffer or data or lineage.dump.lists_only_bad)
            if bad or (is_gone and (is_rest_bad or computed in BY_ELEMENT)):
                if not is_buffer:
                    text = f"it reads memory that was never written ({name})"
                    return Cause("memory", text, ADVICE["memory"])
                what = "nan" if bad[0].nan else "infinite"
                text = f"it reads {name}, a buffer that has been {what} since before this run"
                return _given("memory", text, source)
        elif holds_others(source):
            if source.op_type == WRITTEN:
                is_rest_bad = any(map(lineage.bad, lineage.dump.by_tensor(name)))
            waiting += [(each, is_rest_bad) for each in source.inputs]
    return None


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
        beside = f", the largest finite number beside it {top:.5g}" if is_near else ""
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
