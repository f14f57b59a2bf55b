"""Whether a node of the graph that ran reads and does what the user's node of its name does."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from tensorflow.python.framework import tensor_util

from tfdbg_cli.engines.tensorflow.sessions.bodies.lineage import (
    LONGEST_CHAIN,
    BodyLineage,
    BodyPlace,
    ExecutedNode,
    LineageLeaf,
    place_of,
)
from tfdbg_cli.engines.tensorflow.shared.body_nodes import Inner, kind_of

__all__ = ["NodeMatcher", "attributes_of"]

# The values of these follow from shapes alone, which TensorFlow's own shape inference knows.
_OF_SHAPES = frozenset({"BroadcastGradientArgs", "Rank", "Shape", "ShapeN", "Size"})
# oneDNN's kernels compute the same under another name of the operation.
_ONE_DNN = ("_MklNative", "_Mkl")
_COMMUTATIVE = frozenset({"Add", "AddV2", "LogicalAnd", "LogicalOr", "Maximum", "Minimum", "Mul"})
_DIVISIONS = frozenset({"Div", "RealDiv"})
# What the optimizer makes of nodes, under their name and with the same result: of any that turned
# out to do nothing or to be constant, and of some in particular.
_ANYWHERE = frozenset({"Const", "Identity", "Snapshot", "StopGradient"})
_REDUCED = frozenset({"Reshape", "Squeeze"})
_CHANGES = {
    "ExpandDims": _REDUCED,
    "Max": _REDUCED,
    "Mean": _REDUCED,
    "Min": _REDUCED,
    "Pack": frozenset({"ExpandDims"}),  # of one tensor
    "Pow": frozenset({"Reciprocal", "Rsqrt", "Sqrt", "Square"}),
    "Prod": _REDUCED,
    "Sum": _REDUCED,
    "Transpose": _REDUCED,
}
# Nodes are compared with others that may compute the same up to so far back.
_DEEP = 12


class NodeMatcher:
    """Compares nodes of the graph that ran with the user's.

    Args:
        lineage: where the tensors of both graphs come from.
    """

    def __init__(self, lineage: BodyLineage) -> None:
        self._lineage = lineage
        self._comparing: set[tuple[LineageLeaf, LineageLeaf]] = set()

    def matches(self, name: str) -> bool:
        """Whether a node reads what the user's reads, and does the same with constants.

        Args:
            name: the runtime's name of a node that stands for one of the user's.
        """
        node, user = self._lineage.nodes[name], self._lineage.user(name)
        assert user is not None
        if user.op.type == "Const":
            return node.op == "Const" and _same_value(node, user.op)
        if user.op.type in _OF_SHAPES and node.op == "Const":
            value = tensor_util.constant_value(user.op.outputs[0])
            if value is not None and _same_array(_constant(node), value):
                return True
        if _plain_type(node.op) != user.op.type or len(node.inputs) != len(user.op.inputs):
            return self._is_known_change(node, user) and self.reads_alike(node.inputs, user)
        orders = [node.inputs]
        if user.op.type in _COMMUTATIVE:
            orders.append(node.inputs[::-1])
        return any(
            all(
                self._same_input(have, place_of(want, user), user)
                for have, want in zip(order, user.op.inputs, strict=True)
            )
            for order in orders
        )

    def reads_alike(self, inputs: Iterable[tuple[str, int]], user: Inner) -> bool:
        """Whether a node that ran reads all in all what a node of the user's graph reads."""
        return self._sets_alike(inputs, [place_of(each, user) for each in user.op.inputs], user)

    def read_by(self, inputs: Iterable[tuple[str, int]]) -> set[LineageLeaf] | None:
        """What tensors of the graph that ran come down to of the user's; constants aside.

        Returns:
            Where they come from; ``None`` if that is more than can be looked through.
        """
        lineage = self._lineage
        found: set[LineageLeaf] = set()
        waiting, seen = list(inputs), set()
        while waiting:
            leaf = lineage.trace(*waiting.pop())
            if leaf in seen:
                continue
            seen.add(leaf)
            if len(seen) > LONGEST_CHAIN:
                return None
            if leaf.kind != "made":
                if not self._is_constant(leaf):
                    found.add(leaf)
            elif leaf.name in lineage.nodes:
                waiting += lineage.nodes[leaf.name].inputs
        return found

    def _is_constant(self, leaf: LineageLeaf) -> bool:
        """Whether it is one of the user's constants, with its value."""
        name = self._lineage.present.get(leaf.name)
        user = self._lineage.user(name) if name is not None else None
        return user is not None and user.op.type == "Const" and self.matches(str(name))

    def _is_folded(self, leaf: LineageLeaf) -> bool:
        name = self._lineage.present.get(leaf.name)
        return name is not None and not self.matches(name)

    def _is_known_change(self, node: ExecutedNode, user: Inner) -> bool:
        """Whether the optimizer gives a node another type without changing what it computes."""
        lineage = self._lineage
        before, now = user.op.type, node.op
        if now.startswith("_") or now in _ANYWHERE or now in _CHANGES.get(before, ()):
            return True
        if before in _DIVISIONS and now == "Reciprocal":  # of 1
            dividend = lineage.origin(place_of(user.op.inputs[0], user))[1].op
            is_known = dividend.type == "Const"
            return is_known and bool(
                (tensor_util.MakeNdarray(dividend.get_attr("value")) == 1).all()
            )
        if before in _DIVISIONS and now == "Mul":  # by the reciprocal of a constant
            divisor = lineage.origin(place_of(user.op.inputs[1], user))[1].op
            factors = [lineage.nodes.get(lineage.direct(*each)[0]) for each in node.inputs]
            constants = [_constant(each) for each in factors if each and each.op == "Const"]
            if divisor.type == "Const" and len(constants) == 1:
                product = constants[0] * tensor_util.MakeNdarray(divisor.get_attr("value"))
                return bool(np.allclose(np.asarray(product, np.complex128), 1, atol=1e-2))
        return False

    def _wanted_by(
        self, places: Iterable[BodyPlace], have_all: set[LineageLeaf]
    ) -> set[LineageLeaf] | None:
        """What tensors of the user's graph come down to, of what is left in the graph that ran.

        Of nodes that compute the same the runtime keeps one: ``have_all`` is what it reads.
        """
        found: set[LineageLeaf] = set()
        seen: set[LineageLeaf] = set()
        waiting = list(places)
        while waiting:
            leaf, place = self._lineage.origin(waiting.pop())
            if leaf in seen:
                continue
            seen.add(leaf)
            if len(seen) > LONGEST_CHAIN:
                return None
            if leaf.kind != "node" or leaf.name in self._lineage.present or not place.op.inputs:
                if place.op.type != "Const" or self._is_folded(leaf):
                    found.add(leaf)
                continue
            twin = next((have for have in have_all if self._are_twins(place, have)), None)
            if twin is not None:
                found.add(twin)
            else:  # folded, fused or bypassed
                for tensor in place.op.inputs:
                    inside = BodyPlace(tensor.op, tensor.value_index, place.prefix, place.calls)
                    waiting.append(inside)
        return found

    def _are_twins(self, place: BodyPlace, have: LineageLeaf) -> bool:
        """Whether a node of the user's graph computes the same as one that ran."""
        other = self._lineage.user(self._lineage.present.get(have.name, ""))
        if have.kind != "node" or other is None or have.slot != place.slot:
            return False
        return self._equal(place, BodyPlace(other.op, have.slot, other.prefix, other.calls), _DEEP)

    def _equal(self, one: BodyPlace, other: BodyPlace, depth: int) -> bool:
        first, second = one.op, other.op
        if (
            not depth
            or one.slot != other.slot
            or first.type != second.type
            or first.op_def.is_stateful
            or not first.inputs
            or len(first.inputs) != len(second.inputs)
            or attributes_of(first) != attributes_of(second)
        ):
            return False
        for left, right in zip(first.inputs, second.inputs, strict=True):
            here = BodyPlace(left.op, left.value_index, one.prefix, one.calls)
            there = BodyPlace(right.op, right.value_index, other.prefix, other.calls)
            a, from_a = self._lineage.origin(here)
            b, from_b = self._lineage.origin(there)
            if a == b:
                continue
            if from_a.op.type == from_b.op.type == "Const":
                if from_a.op.get_attr("value") != from_b.op.get_attr("value"):
                    return False
            elif a.kind != "node" or b.kind != "node" or not self._equal(from_a, from_b, depth - 1):
                return False
        return True

    def _same_input(self, have: tuple[str, int], want: BodyPlace, user: Inner) -> bool:
        """Whether an input of a node that ran is the one that the user's node has there."""
        lineage = self._lineage
        leaf, place = lineage.origin(want)
        found = lineage.trace(*have)
        source = lineage.nodes.get(lineage.direct(*have)[0])
        if source is not None and source.op == place.op.type == "Const":
            return _same_value(source, place.op)
        if leaf == found:
            return True
        if source is not None and source.op == "Const":
            return not self._wanted_by([want], set())  # folded, of nothing but constants
        if place.op.type == "Const" and leaf.kind == "node":
            return False
        return self._alike(leaf, found, user) or self._sets_alike([have], [want], user)

    def _sets_alike(
        self, inputs: Iterable[tuple[str, int]], places: Iterable[BodyPlace], user: Inner
    ) -> bool:
        have_all = self.read_by(inputs)
        want_all = self._wanted_by(places, have_all) if have_all is not None else None
        if have_all is None or want_all is None:
            return False
        return all(any(self._alike(w, h, user) for h in have_all) for w in want_all) and all(
            any(self._alike(w, h, user) for w in want_all) for h in have_all
        )

    def _alike(self, want: LineageLeaf, have: LineageLeaf, user: Inner) -> bool:
        """Whether a tensor of the user's graph and one of the graph that ran are the same."""
        if want == have:
            return True
        if want.kind == "node" or (want, have) in self._comparing:
            # A pair that is being compared further out decides there.
            return want.kind != "node"
        self._comparing.add((want, have))
        try:
            if want.kind == "loop":
                return self._same_variable(want, have, user)
            return self._same_result(want, have, user)
        finally:
            self._comparing.discard((want, have))

    def _same_variable(self, want: LineageLeaf, have: LineageLeaf, user: Inner) -> bool:
        """Whether a Merge is that of a loop's variable: what begins it and what goes on."""
        lineage = self._lineage
        place = lineage.call(want.name, user)
        if place is None:
            return False
        call = place.op
        if have.kind != "loop":
            return self._begins(place, want.slot, have, user)
        if not have.name.startswith(f"{want.name}/"):
            return False
        begin = again = None
        for name, slot in lineage.nodes[have.name].inputs:
            if lineage.op_type(name, slot) == "NextIteration":
                again = lineage.trace(name, slot)
            else:
                begin = lineage.trace(name, slot)
        if begin is None or not self._begins(place, want.slot, begin, user):
            return False
        if again is None or self._goes_on(place, want.slot, again, user):
            return True
        # What goes on was rewritten: only one variable of the loop may begin like this.
        return not any(
            self._begins(place, index, begin, user)
            for index in range(len(call.inputs))
            if index != want.slot
        )

    def _begins(self, place: BodyPlace, index: int, have: LineageLeaf, user: Inner) -> bool:
        first = place.op.inputs[index]
        begin = BodyPlace(first.op, first.value_index, place.prefix, place.calls)
        return self._comes_from(begin, have, user)

    def _goes_on(self, place: BodyPlace, index: int, have: LineageLeaf, user: Inner) -> bool:
        results = self._lineage.functions.results(place.op).get("body")
        if results is None:
            return False
        name = place.prefix + place.op.name
        inner = (*place.calls, (place.prefix, place.op))
        op, slot = results[index].op, results[index].value_index
        return any(
            self._comes_from(BodyPlace(op, slot, body, inner), have, user)
            for body in self._lineage.prefixes.get(name, ())
            if body.startswith(f"{name}/body/")
        )

    def _same_result(self, want: LineageLeaf, have: LineageLeaf, user: Inner) -> bool:
        """Whether a tensor is a result of a call: a loop's variable, or what a branch gives."""
        lineage = self._lineage
        place = lineage.call(want.name, user)
        if place is None:
            return False
        if kind_of(place.op) == "While":
            return self._alike(LineageLeaf("loop", want.name, want.slot), have, user)
        if have.kind == "out" and not have.name.startswith(f"{want.name}/"):
            return False
        given = [have]
        if have.kind == "out":
            given = [lineage.trace(*each) for each in lineage.nodes[have.name].inputs]
        inner = (*place.calls, (place.prefix, place.op))
        for step, results in lineage.functions.results(place.op).items():
            result = results[want.slot]
            known = [p for p in lineage.prefixes.get(want.name, ()) if step in p[len(want.name) :]]
            for prefix in known or [f"{want.name}/{step}/"]:
                at = BodyPlace(result.op, result.value_index, prefix, inner)
                if any(self._comes_from(at, each, user) for each in given):
                    return True
        return False

    def _comes_from(self, place: BodyPlace, have: LineageLeaf, user: Inner) -> bool:
        want, source = self._lineage.origin(place)
        if source.op.type == "Const":
            if have.kind == "made":
                made = self._lineage.nodes.get(have.name)
                return made is not None and made.op == "Const"
            return self._is_constant(have) or want == have
        return self._alike(want, have, user) or self._are_twins(source, have)


def attributes_of(op: Any) -> dict[str, Any]:
    """What an operation was made with, without what the runtime adds for itself."""
    return {key: value for key, value in op.node_def.attr.items() if not key.startswith("_")}


def _plain_type(op_type: str) -> str:
    for prefix in _ONE_DNN:
        if op_type.startswith(prefix):
            return op_type.removeprefix(prefix)
    return op_type


def _constant(node: ExecutedNode) -> Any:
    return tensor_util.MakeNdarray(node.attributes["value"].tensor)


def _same_value(node: ExecutedNode, op: Any) -> bool:
    before = op.get_attr("value")
    now: Mapping[str, Any] = node.attributes
    if "value" not in now:
        return False
    if now["value"].tensor == before:
        return True
    return _same_array(_constant(node), tensor_util.MakeNdarray(before))


def _same_array(first: Any, second: Any) -> bool:
    one, other = np.asarray(first), np.asarray(second)
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    if one.dtype.kind == "O":
        return bool((one == other).all())
    return one.tobytes() == other.tobytes()
