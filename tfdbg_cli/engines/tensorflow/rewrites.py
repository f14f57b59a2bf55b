"""Which nodes of the graph that ran still compute what the user's graph says under their name.

TensorFlow's optimizer (grappler) rewrites whatever a run doesn't fetch: ``(a * 2) * 3`` becomes
``a * 6``, for which the node of ``a * 2`` is given other inputs but keeps its name. What a debug
watch sees of such a node is not the user's tensor.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from tensorflow.core.framework import graph_pb2
from tensorflow.python.framework import tensor_util

from tfdbg_cli.dumps.names import parse_feed_node_name
from tfdbg_cli.engines.tensorflow.functions import Functions, Inner, argument_index, kind_of

__all__ = ["Rewrites"]

_CONTROL = frozenset({"Enter", "Exit", "LoopCond", "Merge", "NextIteration", "Switch"})
# What hands on its input as it is. The runtime adds and removes such nodes as it likes.
_PASSING = frozenset({"Identity", "IdentityN", "StopGradient"})
_SENT = frozenset({"_HostRecv", "_HostSend", "_Recv", "_Send"})
# The values of these follow from shapes alone, which TensorFlow's own shape inference knows.
_OF_SHAPES = frozenset({"BroadcastGradientArgs", "Rank", "Shape", "ShapeN", "Size"})
# Nodes that stand for one of the user's under a name of their own.
_REPLACED = re.compile(
    r"(.+)/unary_ops_composition|(.*/)?ArithmeticOptimizer/ReplaceMulWithSquare_(.+)"
)
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
    "Pow": frozenset({"Reciprocal", "Rsqrt", "Sqrt", "Square"}),
    "Prod": _REDUCED,
    "Sum": _REDUCED,
    "Transpose": _REDUCED,
}
# Chains longer than this are not looked through.
_MOST = 2000
# Nodes are compared with others that may compute the same up to so far back.
_DEEP = 12


class _Leaf(NamedTuple):
    """Where a tensor comes from.

    Attributes:
        kind: ``node``: an operation of the user's; ``loop``: the argument of a loop's body;
            ``out``: a result of a call; ``made``: a node that the runtime has made.
        name: the user's name of the node or call; the runtime's of a node it has made.
        slot: the output, or the number of the argument.
    """

    kind: str
    name: str
    slot: int


class _Place(NamedTuple):
    """A tensor of the user's graph, and the calls that lead to it."""

    op: Any
    slot: int
    prefix: str
    calls: tuple[tuple[str, Any], ...]


class _Made(NamedTuple):
    """A node of the graph that ran."""

    op: str
    inputs: tuple[tuple[str, int], ...]
    attributes: Any


class Rewrites:
    """Compares the graph that ran with the user's, node by node.

    A node is the user's if it reads what the user's node reads (through whatever was fused,
    folded or inserted on the way) and all of that is the user's as well; or if a node that is the
    user's reads it as in the user's graph: what a rewritten part hands on to the rest, such as
    the result of a loop's body, is as it was.

    Args:
        graphs: serialized ``GraphDef`` of the partitions of a run, with their debug nodes.
        main: gives the operation of the outermost graph with a name, or ``None``.
        find: gives the node of a function's body with a name of the runtime's, or ``None``.
        functions: of the outermost graph.
        safe: the names of the outermost graph's nodes that the run fetched: the optimizer leaves
            those alone.
    """

    def __init__(
        self,
        graphs: Iterable[Any],
        main: Callable[[str], Any],
        find: Callable[[str], Inner | None],
        functions: Functions,
        safe: Iterable[str],
    ) -> None:
        self._find = find
        self._main = main
        self._functions = functions
        self._safe = frozenset(safe)
        self._nodes: dict[str, _Made] = {}
        self._users: dict[str, Inner | None] = {}
        self._sent: dict[str, str] = {}
        self._prefixes: dict[str, set[str]] = {}
        self._matching: set[tuple[_Leaf, _Leaf]] = set()
        for data in graphs:
            self._read(graph_pb2.GraphDef.FromString(bytes(data)))
        #: The bodies that the graph holds, by prefix.
        self.bodies: dict[str, Inner] = {}
        self._present: dict[str, str] = {}
        for name in self._nodes:
            user = self._user(name)
            if user is not None:
                self._present[user.name] = name
                if user.calls:
                    self.bodies.setdefault(user.prefix, user)
        for prefix, body in self.bodies.items():
            at, call = body.calls[-1]
            self._prefixes.setdefault(at + call.name, set()).add(prefix)
        #: The runtime's names of the nodes whose tensors are not the user's.
        self.changed: frozenset[str] = self._changed()
        #: The same in the user's names.
        self.names = frozenset(
            user.name for name in self.changed if (user := self._user(name)) is not None
        )

        #: The runtime's names of nodes that it has made in place of others -> those others.
        self.aliases: dict[str, Inner] = dict(self._replaced())

    def _replaced(self) -> Iterator[tuple[str, Inner]]:
        for name in self._nodes:
            match = _REPLACED.fullmatch(name)
            user = self._user("".join(filter(None, match.groups()))) if match is not None else None
            if user is not None and user.name not in self._present:
                reads = {
                    self._present.get(leaf.name)
                    for leaf in self._read_by(self._nodes[name].inputs) or ()
                }
                if self._reads_alike(self._nodes[name].inputs, user) and not reads & self.changed:
                    yield name, user

    def removed(self, name: str) -> bool:
        """Whether a node, by the user's name, is not in the graph that ran.

        Of the outermost graph's nodes only those that the run computes are to be asked for.
        """
        if name in self._present or any(user.name == name for user in self.aliases.values()):
            return False
        return self._main(name) is not None or any(name.startswith(at) for at in self.bodies)

    def result(self, call: Any, slot: int) -> tuple[str, int]:
        """What an inlined call of the outermost graph returns, by node and output."""
        leaf = self._origin(_Place(call, slot, "", ()))[0]
        return leaf.name, leaf.slot

    # The graph that ran.

    def _read(self, graph: Any) -> None:
        for node in graph.node:
            if node.name.startswith("__dbg_"):
                continue
            inputs = tuple(_split(text) for text in node.input if not text.startswith("^"))
            if node.op in _SENT:
                key = str(node.attr["tensor_name"].s)
                if node.op.endswith("Send"):
                    self._sent[key] = node.name
                else:
                    inputs = ((f"\0{key}", 0),)
            self._nodes[node.name] = _Made(node.op, inputs, node.attr)

    def _user(self, name: str) -> Inner | None:
        """The user's operation behind a name of the runtime's."""
        if name not in self._users:
            op = self._main(name)
            own = Inner(name, op, "", (), True) if op is not None else self._find(name)
            self._users[name] = own
        return self._users[name]

    def _direct(self, name: str, slot: int) -> tuple[str, int]:
        """A tensor before debug operations copied it and devices sent it to each other."""
        for _ in range(_MOST):
            if name.startswith("\0"):
                name, slot = self._sent.get(name[1:], name[1:]), 0
            node = self._nodes.get(name)
            if node is None or not node.inputs:
                return name, slot
            if node.op not in _SENT and not (
                node.op in ("Copy", "CopyHost") and name.startswith("__copy_")
            ):
                return name, slot
            name, slot = node.inputs[0]
        return name, slot

    def _trace(self, name: str, slot: int) -> _Leaf:
        """Where a tensor of the graph that ran comes from."""
        for _ in range(_MOST):
            name, slot = self._direct(name, slot)
            node, user = self._nodes.get(name), self._user(name)
            if node is None:
                break
            handed = (node.op in _PASSING or _enters_once(node.op, node.attributes)) and (
                user is None
                or user.op.type in _PASSING
                or user.op.type == node.op
                or self._functions.is_call(user.op)
            )
            if handed or (user is None and node.op in _CONTROL and node.op != "Merge"):
                inputs = node.inputs
                if not inputs:
                    break
                name, slot = inputs[slot if node.op == "IdentityN" else 0]
                continue
            if user is not None:
                return _Leaf("node", user.name, slot)
            if node.op == "Merge":
                ways = [each for each in node.inputs if self._op(*each) != "NextIteration"]
                if len(ways) == len(node.inputs):
                    return _Leaf("out", name, -1)
                if len(ways) == 1 and self._comes_round(name):
                    name, slot = ways[0]
                    continue
                return _Leaf("loop", name, -1)
            fed = parse_feed_node_name(name) if node.op == "_Arg" else None
            return _Leaf("made", name, slot) if fed is None else _Leaf("node", fed[0], fed[1])
        return _Leaf("made", name, slot)

    def _comes_round(self, merge: str) -> bool:
        """Whether a loop hands on the variable of a Merge unchanged."""
        name, slot = next(e for e in self._nodes[merge].inputs if self._op(*e) == "NextIteration")
        for _ in range(_MOST):
            name, slot = self._direct(name, slot)
            node = self._nodes.get(name)
            if node is None or node.op not in _PASSING | _CONTROL or not node.inputs:
                return False
            if node.op == "Merge":
                return name == merge
            name, slot = node.inputs[slot if node.op == "IdentityN" else 0]
        return False

    def _op(self, name: str, slot: int) -> str:
        node = self._nodes.get(self._direct(name, slot)[0])
        return node.op if node is not None else ""

    def _read_by(self, inputs: Iterable[tuple[str, int]]) -> set[_Leaf] | None:
        """What tensors of the graph that ran come down to of the user's; constants aside."""
        found: set[_Leaf] = set()
        waiting, seen = list(inputs), set()
        while waiting:
            leaf = self._trace(*waiting.pop())
            if leaf in seen:
                continue
            seen.add(leaf)
            if len(seen) > _MOST:
                return None
            if leaf.kind != "made":
                if not self._is_constant(leaf):
                    found.add(leaf)
            elif leaf.name in self._nodes:
                waiting += self._nodes[leaf.name].inputs
        return found

    def _is_constant(self, leaf: _Leaf) -> bool:
        """Whether it is one of the user's constants, with its value."""
        name = self._present.get(leaf.name)
        user = self._user(name) if name is not None else None
        return user is not None and user.op.type == "Const" and self._matches(str(name))

    # The user's graph.

    def _origin(self, place: _Place) -> tuple[_Leaf, _Place]:
        """Where a tensor of the user's graph comes from."""
        for _ in range(_MOST):
            op, slot, prefix, calls = place
            name = prefix + op.name
            index = argument_index(op) if calls else None
            if index is not None:
                at, call = calls[-1]
                if kind_of(call) == "While" and not self._is_invariant(call, index):
                    return _Leaf("loop", at + call.name, index), place
                outer = self._functions.passed(call, index)
                if outer is None:
                    break
                place = _Place(outer.op, outer.value_index, at, calls[:-1])
            elif op.type in _PASSING or _enters_once(op.type, op.node_def.attr):
                source = op.inputs[slot if op.type == "IdentityN" else 0]
                place = _Place(source.op, source.value_index, prefix, calls)
            elif self._functions.is_call(op) and not self._runs_as_is(name, op):
                inside = self._functions.results(op).get("")
                if inside is None:
                    return _Leaf("out", name, slot), place
                result = inside[slot]
                place = _Place(result.op, result.value_index, f"{name}/", (*calls, (prefix, op)))
            else:
                break
        return _Leaf("node", place.prefix + place.op.name, place.slot), place

    def _runs_as_is(self, name: str, op: Any) -> bool:
        node = self._nodes.get(self._present.get(name, ""))
        return node is not None and node.op == op.type

    def _is_invariant(self, call: Any, index: int) -> bool:
        results = self._functions.results(call).get("body")
        return results is not None and argument_index(results[index].op) == index

    def _wanted_by(self, places: Iterable[_Place], have_all: set[_Leaf]) -> set[_Leaf] | None:
        """What tensors of the user's graph come down to, of what is left in the graph that ran.

        Of nodes that compute the same the runtime keeps one: ``have_all`` is what it reads.
        """
        found: set[_Leaf] = set()
        seen: set[_Leaf] = set()
        waiting = list(places)
        while waiting:
            leaf, place = self._origin(waiting.pop())
            if leaf in seen:
                continue
            seen.add(leaf)
            if len(seen) > _MOST:
                return None
            if leaf.kind != "node" or leaf.name in self._present or not place.op.inputs:
                if place.op.type != "Const" or self._is_folded(leaf):
                    found.add(leaf)
                continue
            twin = next((have for have in have_all if self._are_twins(place, have)), None)
            if twin is not None:
                found.add(twin)
            else:  # folded, fused or bypassed
                for tensor in place.op.inputs:
                    inside = _Place(tensor.op, tensor.value_index, place.prefix, place.calls)
                    waiting.append(inside)
        return found

    def _are_twins(self, place: _Place, have: _Leaf) -> bool:
        """Whether a node of the user's graph computes the same as one that ran."""
        other = self._user(self._present.get(have.name, ""))
        if have.kind != "node" or other is None or have.slot != place.slot:
            return False
        return self._equal(place, _Place(other.op, have.slot, other.prefix, other.calls), _DEEP)

    def _equal(self, one: _Place, other: _Place, depth: int) -> bool:
        first, second = one.op, other.op
        if (
            not depth
            or one.slot != other.slot
            or first.type != second.type
            or first.op_def.is_stateful
            or not first.inputs
            or len(first.inputs) != len(second.inputs)
            or _attributes(first) != _attributes(second)
        ):
            return False
        for left, right in zip(first.inputs, second.inputs, strict=True):
            a, from_a = self._origin(_Place(left.op, left.value_index, one.prefix, one.calls))
            b, from_b = self._origin(_Place(right.op, right.value_index, other.prefix, other.calls))
            if a == b:
                continue
            if from_a.op.type == from_b.op.type == "Const":
                if from_a.op.get_attr("value") != from_b.op.get_attr("value"):
                    return False
            elif a.kind != "node" or b.kind != "node" or not self._equal(from_a, from_b, depth - 1):
                return False
        return True

    def _is_folded(self, leaf: _Leaf) -> bool:
        name = self._present.get(leaf.name)
        return name is not None and not self._matches(name)

    # Both.

    def _matches(self, name: str) -> bool:
        """Whether a node reads what the user's reads, and does the same with constants."""
        node, user = self._nodes[name], self._user(name)
        assert user is not None
        if user.op.type == "Const":
            return node.op == "Const" and _same_value(node, user.op)
        if user.op.type in _OF_SHAPES and node.op == "Const":
            value = tensor_util.constant_value(user.op.outputs[0])
            if value is not None and _same_array(_constant(node), value):
                return True
        if _plain_type(node.op) != user.op.type or len(node.inputs) != len(user.op.inputs):
            return self._is_known_change(node, user) and self._reads_alike(node.inputs, user)
        orders = [node.inputs]
        if user.op.type in _COMMUTATIVE:
            orders.append(node.inputs[::-1])
        return any(
            all(
                self._same_input(have, _place(want, user), user)
                for have, want in zip(order, user.op.inputs, strict=True)
            )
            for order in orders
        )

    def _is_known_change(self, node: _Made, user: Inner) -> bool:
        """Whether the optimizer gives a node another type without changing what it computes."""
        before, now = user.op.type, node.op
        if now.startswith("_") or now in _ANYWHERE or now in _CHANGES.get(before, ()):
            return True
        if before in _DIVISIONS and now == "Mul":  # by the reciprocal of a constant
            divisor = self._origin(_place(user.op.inputs[1], user))[1].op
            factors = [self._nodes.get(self._direct(*each)[0]) for each in node.inputs]
            constants = [_constant(each) for each in factors if each and each.op == "Const"]
            if divisor.type == "Const" and len(constants) == 1:
                product = constants[0] * tensor_util.MakeNdarray(divisor.get_attr("value"))
                return bool(np.allclose(np.asarray(product, np.complex128), 1, atol=1e-2))
        return False

    def _same_input(self, have: tuple[str, int], want: _Place, user: Inner) -> bool:
        """Whether an input of a node that ran is the one that the user's node has there."""
        leaf, place = self._origin(want)
        found = self._trace(*have)
        source = self._nodes.get(self._direct(*have)[0])
        if source is not None and source.op == place.op.type == "Const":
            return _same_value(source, place.op)
        if leaf == found:
            return True
        if source is not None and source.op == "Const":
            return not self._wanted_by([want], set())  # folded, of nothing but constants
        if place.op.type == "Const" and leaf.kind == "node":
            return False
        return self._alike(leaf, found, user) or self._sets_alike([have], [want], user)

    def _reads_alike(self, inputs: Iterable[tuple[str, int]], user: Inner) -> bool:
        """Whether a node that ran reads all in all what a node of the user's graph reads."""
        return self._sets_alike(inputs, [_place(each, user) for each in user.op.inputs], user)

    def _sets_alike(
        self, inputs: Iterable[tuple[str, int]], places: Iterable[_Place], user: Inner
    ) -> bool:
        have_all = self._read_by(inputs)
        want_all = self._wanted_by(places, have_all) if have_all is not None else None
        if have_all is None or want_all is None:
            return False
        return all(any(self._alike(w, h, user) for h in have_all) for w in want_all) and all(
            any(self._alike(w, h, user) for w in want_all) for h in have_all
        )

    def _alike(self, want: _Leaf, have: _Leaf, user: Inner) -> bool:
        """Whether a tensor of the user's graph and one of the graph that ran are the same."""
        if want == have:
            return True
        if want.kind == "node" or (want, have) in self._matching:
            # A pair that is being compared further out decides there.
            return want.kind != "node"
        self._matching.add((want, have))
        try:
            if want.kind == "loop":
                return self._same_variable(want, have, user)
            return self._same_result(want, have, user)
        finally:
            self._matching.discard((want, have))

    def _same_variable(self, want: _Leaf, have: _Leaf, user: Inner) -> bool:
        """Whether a Merge is that of a loop's variable: what begins it and what goes on."""
        place = self._call(want.name, user)
        if place is None:
            return False
        call = place.op
        if have.kind != "loop":
            return self._begins(place, want.slot, have, user)
        if not have.name.startswith(f"{want.name}/"):
            return False
        begin = again = None
        for name, slot in self._nodes[have.name].inputs:
            if self._op(name, slot) == "NextIteration":
                again = self._trace(name, slot)
            else:
                begin = self._trace(name, slot)
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

    def _begins(self, place: _Place, index: int, have: _Leaf, user: Inner) -> bool:
        first = place.op.inputs[index]
        begin = _Place(first.op, first.value_index, place.prefix, place.calls)
        return self._comes_from(begin, have, user)

    def _goes_on(self, place: _Place, index: int, have: _Leaf, user: Inner) -> bool:
        results = self._functions.results(place.op).get("body")
        if results is None:
            return False
        name = place.prefix + place.op.name
        inner = (*place.calls, (place.prefix, place.op))
        op, slot = results[index].op, results[index].value_index
        return any(
            self._comes_from(_Place(op, slot, body, inner), have, user)
            for body in self._prefixes.get(name, ())
            if body.startswith(f"{name}/body/")
        )

    def _same_result(self, want: _Leaf, have: _Leaf, user: Inner) -> bool:
        """Whether a tensor is a result of a call: a loop's variable, or what a branch gives."""
        place = self._call(want.name, user)
        if place is None:
            return False
        if kind_of(place.op) == "While":
            return self._alike(_Leaf("loop", want.name, want.slot), have, user)
        if have.kind == "out" and not have.name.startswith(f"{want.name}/"):
            return False
        given = [have]
        if have.kind == "out":
            given = [self._trace(*each) for each in self._nodes[have.name].inputs]
        inner = (*place.calls, (place.prefix, place.op))
        for step, results in self._functions.results(place.op).items():
            result = results[want.slot]
            known = [p for p in self._prefixes.get(want.name, ()) if step in p[len(want.name) :]]
            for prefix in known or [f"{want.name}/{step}/"]:
                at = _Place(result.op, result.value_index, prefix, inner)
                if any(self._comes_from(at, each, user) for each in given):
                    return True
        return False

    def _comes_from(self, place: _Place, have: _Leaf, user: Inner) -> bool:
        want, source = self._origin(place)
        if source.op.type == "Const":
            if have.kind == "made":
                return self._nodes[have.name].op == "Const" if have.name in self._nodes else False
            return self._is_constant(have) or want == have
        return self._alike(want, have, user)

    def _call(self, name: str, user: Inner) -> _Place | None:
        """The call with a name of the user's."""
        calls: tuple[tuple[str, Any], ...] = ()
        for at, call in user.calls:
            if at + call.name == name:
                return _Place(call, 0, at, calls)
            calls = (*calls, (at, call))
        op = self._main(name)
        if op is not None:
            return _Place(op, 0, "", ())
        for prefix in sorted(self.bodies, key=len, reverse=True):
            if name.startswith(prefix):
                body = self.bodies[prefix]
                graph = body.op.graph
                try:
                    op = graph.get_operation_by_name(name[len(prefix) :])
                except (KeyError, ValueError):
                    continue
                return _Place(op, 0, prefix, body.calls)
        return None

    # Which are the user's.

    def _changed(self) -> frozenset[str]:
        mine = [name for name in self._nodes if self._is_candidate(name)]
        candidates = set(mine)
        reads: dict[str, set[str]] = {}
        readers: dict[str, list[str]] = {}
        matching = {name for name in mine if self._matches(name)}
        for name in matching:
            leaves = self._read_by(self._nodes[name].inputs) or set()
            reads[name] = {
                self._present[leaf.name]
                for leaf in leaves
                if leaf.kind == "node" and self._present.get(leaf.name) in candidates
            }
            for source in reads[name]:
                readers.setdefault(source, []).append(name)
        good: set[str] = set()
        waiting = [name for name in matching if not reads[name]]
        waiting += self._handed_on(candidates, matching)
        while waiting:
            name = waiting.pop()
            if name in good:
                continue
            good.add(name)
            if name in matching:  # what it reads is right, or it would not be
                waiting += reads[name] - good
            for reader in readers.get(name, ()):
                if reader not in good and reads[reader] <= good:
                    waiting.append(reader)
        return frozenset(candidates - (good - self._laid_out(mine)))

    def _is_candidate(self, name: str) -> bool:
        user = self._user(name)
        return user is not None and (bool(user.calls) or name not in self._safe)

    def _handed_on(self, candidates: set[str], matching: set[str]) -> Iterator[str]:
        """The nodes whose values leave the part of the graph that may be rewritten as a whole."""
        results = {
            id(tensor.op)
            for body in self.bodies.values()
            for tensor in (
                *getattr(body.op.graph, "outputs", ()),
                *(
                    tensor
                    for op in body.op.graph.get_operations()
                    if self._functions.is_call(op)
                    for tensor in op.inputs
                ),
            )
        }
        bypassed = self._bypassed(results)
        for name, node in self._nodes.items():
            if node.op in ("Copy", "CopyHost"):
                continue
            user = self._user(name)
            if user is not None and self._functions.is_call(user.op) and node.op in _PASSING:
                user = None  # an inlined call: it hands on what its body gave
            if user is None or name not in candidates:
                if user is None and node.op not in _CONTROL | _PASSING | _SENT | {"_Retval"}:
                    continue
                sources = {self._direct(*each)[0] for each in node.inputs} & candidates
                if sources and (user is None or self._matches(name)):
                    for source in sources:
                        mine = self._user(source)
                        if mine is not None and (not mine.calls or id(mine.op) in bypassed):
                            yield source
            elif name in matching and (node.op in _CONTROL or user.op.op_def.is_stateful):
                yield name

    def _bypassed(self, results: set[int]) -> set[int]:
        """With the operations that lead to these through nothing but Identity."""
        found = set(results)
        for body in self.bodies.values():
            for op in reversed(body.op.graph.get_operations()):
                if id(op) in found and op.type in _PASSING:
                    found.update(id(tensor.op) for tensor in op.inputs)
        return found

    def _laid_out(self, mine: list[str]) -> set[str]:
        """Nodes whose values have another layout, from the layout optimizer on."""
        found: set[str] = set()
        for name in mine:
            user, format_ = self._user(name), self._nodes[name].attributes
            if user is not None and "data_format" in format_:
                before = user.op.node_def.attr
                if "data_format" in before and before["data_format"] != format_["data_format"]:
                    found.add(name)
        if not found:
            return found
        grown = True
        while grown:
            grown = False
            for name in mine:
                if name not in found and any(
                    self._direct(*each)[0] in found for each in self._nodes[name].inputs
                ):
                    found.add(name)
                    grown = True
        return found


def _split(text: str) -> tuple[str, int]:
    name, colon, slot = text.rpartition(":")
    return (name, int(slot)) if colon and slot.isdigit() else (text, 0)


def _enters_once(op_type: str, attributes: Any) -> bool:
    """Whether a node hands the same tensor to all iterations of a loop."""
    return op_type == "Enter" and bool(attributes["is_constant"].b)


def _place(tensor: Any, user: Inner) -> _Place:
    return _Place(tensor.op, tensor.value_index, user.prefix, user.calls)


def _attributes(op: Any) -> dict[str, Any]:
    return {key: value for key, value in op.node_def.attr.items() if not key.startswith("_")}


def _plain_type(op_type: str) -> str:
    for prefix in _ONE_DNN:
        if op_type.startswith(prefix):
            return op_type.removeprefix(prefix)
    return op_type


def _constant(node: _Made) -> Any:
    return tensor_util.MakeNdarray(node.attributes["value"].tensor)


def _same_value(node: _Made, op: Any) -> bool:
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
