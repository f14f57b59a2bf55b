"""Loops of traced functions over a dataset (``for batch in data:``).

Autograph makes three steps of a pipeline of such a loop. The first one computes its body for each
element, and gives what the loop's variables are then; the second one ends it early (``break``),
where there is something to end it; the third one takes the last of what it is given.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from tensorflow.core.framework import op_def_pb2, types_pb2

from tfdbg_cli.engines.tensorflow.functions.twins.nodes import add_constant, add_node

__all__ = [
    "ELEMENT",
    "SCAN",
    "DatasetLoop",
    "extend_loop",
    "is_bad",
    "keep_one",
    "loop_of",
    "variable",
]

#: The op type of the first step.
SCAN = "ScanDataset"
#: What stands for the elements, as in loops over an iterator.
ELEMENT = "IteratorGetNext"
_WHILE, _REDUCE = "TakeWhileDataset", "ReduceDataset"


class DatasetLoop(NamedTuple):
    """The steps of a loop.

    Attributes:
        states: how many variables it has.
        elements: of how many tensors an element consists.
        between: the name of the second step; empty: there is none.
        end: of the third one.
    """

    states: int
    elements: int
    between: str
    end: str

    def arguments(self, given: Sequence[Any], element: Any) -> list[Any]:
        """Per argument of the body where it comes from.

        Args:
            given: per input of the first step.
            element: where elements come from.
        """
        variables, others = given[1 : self.states + 1], given[self.states + 1 :]
        return [*variables, *[element] * self.elements, *others]


def loop_of(node: Any, nodes: Mapping[str, Any], find: Callable[[str], Any]) -> DatasetLoop | None:
    """The loop that a first step belongs to; ``None``: it is a pipeline's own.

    Args:
        node: ``NodeDef`` of the step.
        nodes: name -> ``NodeDef`` of the function's nodes.
        find: gives the ``FunctionDef`` of a name.
    """
    body = find(node.attr["f"].func.name)
    at, between = _reader(node, nodes), ""
    if at is not None and at.op == _WHILE:
        at, between = _reader(at, nodes), at.name
    if body is None or at is None or at.op != _REDUCE:
        return None
    states, others = len(node.attr["Tstate"].list.type), len(node.attr["Targuments"].list.type)
    return DatasetLoop(states, len(body.signature.input_arg) - states - others, between, at.name)


def _reader(node: Any, nodes: Mapping[str, Any]) -> Any:
    """The only node that reads a dataset; ``None``: there are others."""
    own = f"{node.name}:"
    found = [each for each in nodes.values() if any(item.startswith(own) for item in each.input)]
    return found[0] if len(found) == 1 and found[0].input[0].startswith(own) else None


def keep_one(definition: Any, argument: str, reference: str, kind: int, keeps: str) -> str:
    """Have a list of one tensor: what it had before, or the one of this iteration.

    Args:
        definition: of the loop's body.
        argument: the list.
        reference: the tensor.
        kind: its type.
        keeps: 1 where what the list has is to stay, otherwise 0.
    """
    made = argument
    for size in (keeps, "", add_constant(definition, 1)):
        if size:
            node = add_node(definition, "TensorListResize", [made, size])
        else:
            node = add_node(definition, "TensorListPushBack", [made, reference])
            node.attr["element_dtype"].type = kind
        made = f"{node.name}:output_handle:0"
    return made


def is_bad(definition: Any, health: str) -> str:
    """1 where any of the numbers of health is above zero, otherwise 0."""
    most = add_node(definition, "Max", [health, add_constant(definition, 0)])
    most.attr["T"].type, most.attr["Tidx"].type = types_pb2.DT_FLOAT, types_pb2.DT_INT32
    cast = add_node(definition, "Cast", [f"{most.name}:output:0"])
    cast.attr["SrcT"].type, cast.attr["DstT"].type = types_pb2.DT_FLOAT, types_pb2.DT_INT32
    return f"{cast.name}:y:0"


def extend_loop(
    loop: DatasetLoop,
    node: Any,
    outer: Any,
    body: Any,
    find: Callable[[str], Any],
    mark: Callable[[Any], Any],
    more: Sequence[tuple[int, str, str]],
) -> list[Any]:
    """Give a loop more variables.

    Args:
        loop: which.
        node: ``NodeDef`` of its first step, in the definition that is changed.
        outer: that definition.
        body: a copy of the body's definition; it has none of them yet.
        find: gives the ``FunctionDef`` of a name.
        mark: copies one under a new name.
        more: of each variable the type, what it is at first, and what the body makes of it. In the
            body it is `variable` of its number.

    Returns:
        The definitions that were made besides.
    """
    kinds = [kind for kind, _, _ in more]
    steps = {each.name: each for each in outer.node_def}
    results = [(f"{variable(at)}_next", kind, made) for at, (kind, _, made) in enumerate(more)]
    given = [(variable(at), kind) for at, kind in enumerate(kinds)]
    _add_arguments(body, loop.states, given)
    outputs = [(each.name, each.type, body.ret[each.name]) for each in body.signature.output_arg]
    again = [(f"{name}_element", kind, made) for name, kind, made in results]
    _set_results(body, [*outputs[: loop.states], *results, *outputs[loop.states :], *again])
    node.attr["f"].func.name = body.signature.name
    _add_inputs(node, loop.states, [first for _, first, _ in more])
    node.attr["Tstate"].list.type.extend(kinds)
    _more_elements(node, kinds)
    made = []
    if loop.between:
        step = steps[loop.between]
        predicate = mark(find(step.attr["predicate"].func.name))
        _add_arguments(predicate, len(outputs) - loop.states, given)
        step.attr["predicate"].func.name = predicate.signature.name
        _more_elements(step, kinds)
        made.append(predicate)
    end = steps[loop.end]
    last = mark(find(end.attr["f"].func.name))
    states = len(end.attr["Tstate"].list.type)
    elements = [(f"{name}_element", kind) for name, kind in given]
    # The elements first, as their place is behind the states.
    _add_arguments(last, states + len(outputs) - loop.states, elements)
    _add_arguments(last, states, given)
    own = [(each.name, each.type, last.ret[each.name]) for each in last.signature.output_arg]
    _set_results(last, [*own, *((f"{name}_next", kind, name) for name, kind in elements)])
    end.attr["f"].func.name = last.signature.name
    _add_inputs(end, states, [first for _, first, _ in more])
    end.attr["Tstate"].list.type.extend(kinds)
    _more_elements(end, kinds)
    return [*made, last]


def variable(at: int) -> str:
    """What a variable that was added is called in the body."""
    return f"tfdbg_argument_{at}"


def _add_arguments(definition: Any, at: int, arguments: Sequence[tuple[str, int]]) -> None:
    signature = definition.signature
    own = list(signature.input_arg)
    del signature.input_arg[:]
    for name, kind in arguments:
        own.insert(at, _argument(name, kind))
        at += 1
    signature.input_arg.extend(own)
    definition.arg_attr.clear()  # by the numbers of arguments
    definition.resource_arg_unique_id.clear()


def _argument(name: str, kind: int) -> Any:
    return op_def_pb2.OpDef.ArgDef(name=name, type=kind)


def _set_results(definition: Any, results: Sequence[tuple[str, int, str]]) -> None:
    del definition.signature.output_arg[:]
    definition.ret.clear()
    for name, kind, reference in results:
        definition.signature.output_arg.add(name=name, type=kind)
        definition.ret[name] = reference


def _add_inputs(node: Any, states: int, inputs: Sequence[str]) -> None:
    own = list(node.input)
    del node.input[:]
    node.input.extend([*own[: states + 1], *inputs, *own[states + 1 :]])


def _more_elements(node: Any, kinds: Sequence[int]) -> None:
    node.attr["output_types"].list.type.extend(kinds)
    for _ in kinds:
        node.attr["output_shapes"].list.shape.add().unknown_rank = True
    node.ClearField("experimental_type")
    if "_output_shapes" in node.attr:
        del node.attr["_output_shapes"]
