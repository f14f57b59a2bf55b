"""``stuck``: a parameter that an update leaves as it is, since it is rounded away."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from tfdbg_cli.common.arrays import Array, np
from tfdbg_cli.common.node_words import ARGUMENT, FACTORS, SCALARS, WRITES
from tfdbg_cli.dumps.dtypes import LAYOUTS
from tfdbg_cli.dumps.dump import Datum, Dump, explained
from tfdbg_cli.dumps.elements import split_tensor_name
from tfdbg_cli.dumps.graph import Graph, Node, node_name_of
from tfdbg_cli.filters.causes.patterns import constant, number_of
from tfdbg_cli.filters.lineage import TensorLineage, floats, inputs_of

__all__ = ["stuck", "why_stuck"]

# Smaller gradients are those of a parameter that is where it should be.
_LEAST_GRADIENT = 1e-3
_UPDATES = frozenset({"add", "addcdiv", "sub"})
_PARTS = frozenset({"add", "sub"})
# Ops on a variable -> the input that it is moved by; of TensorFlow, where they give no tensor.
_ASSIGNING = re.compile(r"Assign(?:Add|Sub)(?:VariableOp)?|(?:Resource)?ApplyGradientDescent")
# Whole steps of an optimizer, of PyTorch; of these the ones that read how many there were.
_FUSED = re.compile(r"_fused_(?:adamw?|adagrad|sgd)_")
_COUNTED = re.compile(r"_fused_adamw?_")
_RATE = f"{ARGUMENT}lr"
_NUMBER = re.compile(r"[-+]?[\d.]+(?:e[-+]?\d+)?")
_MANTISSA = {"float32": 23, "float64": 52}
# What a step is computed from may have been rounded.
_ALMOST = 1.01
_MOST_WRITES = 20


class _Update(NamedTuple):
    """What moves a parameter.

    Attributes:
        weight: the name of the parameter's tensor.
        before: its value.
        step: what is added or subtracted.
        gradient: the largest magnitude of what the step is a small multiple of.
    """

    weight: str
    before: Array
    step: Array
    gradient: float


@explained
def stuck(datum: Datum, tensor: Any, dump: Dump) -> bool:
    """Whether an update changed no element of a parameter: it is below half a step of the dtype.

    The gradient, or what the optimizer has made of it, reaches 0.001: with a smaller one, the
    parameter may be where it should be. A rate of exactly 0 changes nothing on purpose. The tensor
    is the new value of the parameter, or the step where an op on a variable takes it. Of PyTorch's
    fused optimizers the parameter is compared before and after the op.

    Args:
        datum: the tensor.
        tensor: its value; not looked at.
        dump: whose tensor it is.
    """
    return bool(why_stuck(TensorLineage.of(dump), datum))


def why_stuck(lineage: TensorLineage, datum: Datum) -> str:
    """What doesn't move a parameter; empty: the tensor is of no update, or it has moved.

    Args:
        lineage: of the dump.
        datum: the tensor.
    """
    node = lineage.node(datum)
    if node is None or lineage.graph is None:
        return ""
    if _FUSED.fullmatch(node.op_type):
        return _why_fused(lineage, datum, node)
    found = _of_result(lineage, datum, node) or _of_step(lineage, datum)
    if found is None or not found.gradient >= _LEAST_GRADIENT or not found.step.any():
        return ""
    if not (np.isfinite(found.before).all() and np.isfinite(found.step).all()):
        return ""
    half = _half_steps(found.before, datum.dtype)
    if not (np.abs(found.step) <= _ALMOST * half).all():
        return ""  # something else has kept it
    at = int(np.argmax(np.abs(found.step) / half))
    return (
        f"no element of {found.weight} changes: the update is {abs(found.step.flat[at]):.2g} where "
        f"half an ulp of {datum.dtype} is {half.flat[at]:.2g}"
    )


def _of_result(lineage: TensorLineage, datum: Datum, node: Node) -> _Update | None:
    """The update whose result a tensor is, if it is the same as the parameter before."""
    what = lineage.roles.computes(node.op_type)
    given = inputs_of(node, datum)
    if what not in _UPDATES or len(given) != (3 if what == "addcdiv" else 2):
        return None
    weight = _weight(lineage, given[0])
    assert lineage.graph is not None
    is_kept = not lineage.graph.recipients(node.name, control=False)
    if not weight or not (is_kept or _written(node, datum.output_slot)):
        return None
    values = [lineage.floats_given(datum, each) for each in given]
    made, before = floats(datum), values[0]
    if made is None or before is None or not np.array_equal(made, before):
        return None
    if values[1] is None or values[-1] is None:
        return None
    with np.errstate(all="ignore"):
        moved = values[1] if what != "addcdiv" else values[1] / values[2]
        step = np.broadcast_to(moved * _factor(node, datum.output_slot), before.shape)
    size = _gradient(lineage, datum, given[1]) if what != "addcdiv" else float(np.abs(moved).max())
    return _Update(weight, before, step, size)


def _why_fused(lineage: TensorLineage, datum: Datum, node: Node) -> str:
    """The same of a tensor that a whole step of an optimizer has written, in one op.

    The op is given the parameters, their gradients, what the optimizer keeps of each, and in the
    end perhaps whether a gradient scaler leaves the step out.
    """
    written = [each for each in node.attributes.get(WRITES, "").split(", ") if each]
    weights = [each for each in written if _weight(lineage, each)]
    count, slot = len(weights), datum.output_slot
    if slot >= count or written[:count] != weights or len(node.inputs) < 2 * count:
        return ""
    rate, made = number_of(node, _RATE), floats(datum)
    before = lineage.floats_given(datum, node.inputs[slot])
    gradient = lineage.floats_given(datum, node.inputs[count + slot])
    if not rate or made is None or before is None or gradient is None:
        return ""
    size = float(np.abs(gradient).max()) if gradient.size else 0.0
    is_same = np.array_equal(made, before) and bool(np.isfinite(before).all())
    # What is neither written nor counts the steps of each parameter is a scaler's.
    rest = [each for each in node.inputs[2 * count :] if each not in written]
    rest = rest[count if _COUNTED.match(node.op_type) else 0 :]
    told = [lineage.floats_given(datum, each) for each in rest[-2:]]
    numbers = [float(each.max()) for each in told if each is not None and each.size]
    is_left_out = len(numbers) < len(told) or numbers[-1:] not in ([], [0])
    if len(numbers) == 2 and numbers[0]:
        size /= numbers[0]  # the op divides by the scale
    if is_left_out or not (is_same and _LEAST_GRADIENT <= size < np.inf):
        return ""
    return (
        f"no element of {weights[slot]} changes: {node.op_type} rounds the update away in "
        f"{datum.dtype}, at a rate of {rate:.2g} and a gradient of up to {size:.2g}"
    )


def _of_step(lineage: TensorLineage, datum: Datum) -> _Update | None:
    """The update whose step a tensor is, if the variable doesn't change by it."""
    graph = lineage.graph
    assert graph is not None
    for edge in graph.recipients(datum.node_name, control=False):
        node = graph.nodes[edge.node]
        is_descent = node.op_type.endswith("Descent")
        if not _ASSIGNING.fullmatch(node.op_type) or len(node.inputs) != 2 + is_descent:
            continue
        if node.inputs[-1] != datum.tensor_name:
            continue
        step = floats(datum)
        if is_descent and step is not None:
            rate = lineage.floats_given(datum, node.inputs[1])
            step = step * rate if rate is not None else None
        variable = node_name_of(node.inputs[0])
        edges = graph.recipients(variable, control=False)
        readers = [e.node for e in edges if graph.nodes[e.node].op_type in lineage.roles.reading]
        if _is_decay(graph, lineage, datum.tensor_name, {variable, *readers}):
            return None
        for reader in (*readers, variable):
            read = lineage.dump.by_node(reader)
            before = floats(read[0]) if read else None
            if before is None or step is None or before.shape != step.shape:
                continue
            after = before + step if "Add" in node.op_type else before - step
            if read[0].dtype not in _MANTISSA or not np.array_equal(after, before):
                return None
            size = _gradient(lineage, datum, datum.tensor_name)
            return _Update(variable, before, step, size)
    return None


def _is_decay(graph: Graph, lineage: TensorLineage, name: str, own: set[str]) -> bool:
    """Whether a step is the parameter itself times numbers: its decay, which may round to none."""
    for _ in range(3):
        maker = graph.nodes.get(node_name_of(name))
        if maker is None or lineage.roles.computes(maker.op_type) != "mul":
            return False
        name = next((each for each in maker.inputs if lineage.shape(each) != ()), name)
        if node_name_of(name) in own:
            return True
    return False


def _factor(node: Node, slot: int) -> float:
    """What an op multiplies its step by: one number, or one of each parameter."""
    numbers = _NUMBER.findall(node.attributes.get(SCALARS, ""))
    if slot < len(numbers):
        return float(numbers[slot])
    found = (number_of(node, each) for each in FACTORS)
    return next((each for each in found if each is not None), 1.0)


def _written(node: Node, slot: int) -> bool:
    """Whether an op has written to the memory of what it was given first."""
    written = node.attributes.get(WRITES, "").split(", ")
    return written[min(slot, len(written) - 1)] in node.inputs


def _weight(lineage: TensorLineage, name: str) -> str:
    """The parameter that a tensor is, or was before it was written to; empty: it is none."""
    assert lineage.graph is not None
    roles = lineage.roles
    for _ in range(_MOST_WRITES):
        node_name, slot = split_tensor_name(name)
        node = lineage.graph.nodes.get(node_name)
        if node is None:
            break
        if node.op_type in roles.weights - roles.buffers - {"State"}:
            return name
        written = node.attributes.get(WRITES, "").split(", ")
        if slot >= len(written) or not written[slot]:
            break
        name = written[slot]
    return ""


def _gradient(lineage: TensorLineage, datum: Datum, name: str, depth: int = 0) -> float:
    """The largest magnitude of a step, before it was multiplied by one number.

    Of a quotient (Adam) it is that of the numerator, divided by what is below it; of a sum
    (momentum) that of its parts.
    """
    assert lineage.graph is not None
    maker = lineage.graph.nodes.get(node_name_of(name))
    what = lineage.roles.computes(maker.op_type) if maker is not None else ""
    if maker is not None and maker.op_type in lineage.roles.reading and len(maker.inputs) == 2:
        return _gradient(lineage, datum, maker.inputs[1], depth + 1)  # just written there
    if maker is not None and what in _PARTS and len(maker.inputs) == 2:
        sizes = [_gradient(lineage, datum, each, depth + 1) for each in maker.inputs if depth < 2]
        return max(sizes, default=0.0)
    if maker is not None and what == "div" and len(maker.inputs) == 2:
        above = _unscaled(lineage, datum, maker.inputs[0])
        below = lineage.floats_given(datum, maker.inputs[1])
        if above is None or below is None or not above.size:
            return 0.0
        with np.errstate(all="ignore"):
            return float(np.abs(above / below).max())
    value = _unscaled(lineage, datum, name)
    return float(np.abs(value).max()) if value is not None and value.size else 0.0


def _unscaled(lineage: TensorLineage, datum: Datum, name: str) -> Array | None:
    """A tensor, before it was multiplied by one number if it was."""
    assert lineage.graph is not None
    maker = lineage.graph.nodes.get(node_name_of(name))
    if maker is not None and lineage.roles.computes(maker.op_type) == "mul":
        given = [each for each in maker.inputs if lineage.shape(each) != ()]
        is_scaled = len(given) < len(maker.inputs) or any(
            constant(maker, place) is not None for place in (0, 1)
        )
        name = given[0] if len(given) == 1 and is_scaled else name
    return floats(datum) if name == datum.tensor_name else lineage.floats_given(datum, name)


def _half_steps(value: Array, dtype: str) -> Array:
    """Half the distance from each element to the next number of a dtype."""
    layout = LAYOUTS.get(dtype)
    mantissa = layout.mantissa if layout is not None else _MANTISSA.get(dtype, 52)
    lowest = 1 - layout.bias if layout is not None else {"float32": -126}.get(dtype, -1022)
    exponent = np.where(value == 0, lowest, np.maximum(np.frexp(value)[1] - 1, lowest))
    return np.asarray(np.ldexp(0.5, exponent - mantissa))
