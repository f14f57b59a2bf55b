"""What a compiled function computes: its jaxpr as a list of ops with names."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from jax.extend import core

from tfdbg_cli.common.node_words import BESIDE
from tfdbg_cli.dumps.graph import CARRY, COLLECTED, Node
from tfdbg_cli.dumps.sources import Frame
from tfdbg_cli.engines.jax.plans.names import Scope, frames_of, modules_of, node_name
from tfdbg_cli.engines.jax.plans.ops import Block, Constant, Op
from tfdbg_cli.engines.jax.plans.shards import Shards
from tfdbg_cli.engines.jax.plans.values import is_floating
from tfdbg_cli.engines.jax.plans.weights import are_weights
from tfdbg_cli.engines.jax.private import (
    argument_names,
    inner_jaxprs,
    scan_counts,
    scope_of,
    shard_map_of,
)
from tfdbg_cli.engines.kit.numbering import Numbering

__all__ = ["Plan", "called_jaxpr", "computes_gradients", "value_of"]

# Equations that do nothing but what is in a jaxpr of theirs.
_CALLS = frozenset(
    [
        *("jit", "pjit", "closed_call", "core_call", "call", "remat", "remat2", "checkpoint"),
        *("custom_jvp_call", "custom_vjp_call", "custom_vjp_call_jaxpr"),
    ]
)
_BODIES = ("jaxpr", "call_jaxpr", "fun_jaxpr")
# Those that do it in another way.
_AROUND = frozenset(["cond", "scan", "shard_map", "while", "xla_pmap"])
#: Those that read and write mutable arrays.
_OF_REFS = frozenset(["get", "swap", "addupdate"])


class Plan:
    """A jaxpr in words.

    Args:
        closed: the jaxpr, with what it has as constants.
        inputs: the paths of its arguments.
        numbering: of the names of a run that has several.
        given: per argument the tensor that it is, of what the run has made before; empty: none.
        returned: the paths of its results, where these are known: they tell which arguments are
            weights.
        caller: gives the frames of the call; ``None``: they aren't known.
        scope: where in the program the call is.
        may_be_gradient: it may be a part of one that isn't compiled.

    Attributes:
        block: its ops.
        input_names: of the nodes, one per argument.
        constants: node -> value.
        nodes: of the graph.
        has_gradients: whether it computes any.
        written: the tensor of a mutable array -> that which was written to it last.
        sharded: node -> the ``shard_map`` that it is in.
    """

    def __init__(
        self,
        closed: Any,
        inputs: Sequence[str],
        numbering: Numbering | None = None,
        given: Sequence[str] = (),
        returned: Sequence[str] = (),
        caller: Callable[[], tuple[Frame, ...]] | None = None,
        scope: Scope | None = None,
        may_be_gradient: bool = False,
    ) -> None:
        self._numbering = numbering or Numbering()
        self.nodes: list[Node] = []
        self.block = Block()
        self.has_gradients = False
        self.written: dict[str, str] = {}
        self.sharded: dict[str, Shards] = {}
        self._shards: Shards | None = None
        self.input_names: list[str] = []
        self.constants: list[tuple[str, Any]] = []
        jaxpr = closed.jaxpr
        self._returned = _Returned(jaxpr, scope or Scope(), may_be_gradient)
        known: dict[Any, int | Constant] = {}
        for at, variable in enumerate(jaxpr.invars):
            tensor = given[at] if at < len(given) else ""
            name = ""
            if not tensor:
                path = inputs[at] if at < len(inputs) else f"args[{at}]"
                name = self._numbering.name(node_name(path) or f"input_{at}")
                self.nodes.append(Node(name, "Argument", attributes={"path": path}))
                tensor = f"{name}:0"
            self.input_names.append(name)
            place = self.block.place(tensor)
            self.block.inputs.append(place)
            known[variable] = place
        for variable, value in zip(jaxpr.constvars, closed.consts, strict=True):
            known[variable] = self._constant(value)
        self._fill(self.block, jaxpr, known, scope or Scope(), caller)
        self.block.outputs = [_read(known, each) for each in jaxpr.outvars]
        if self.has_gradients:
            self._tell_weights(inputs, returned, jaxpr)

    def _tell_weights(self, inputs: Sequence[str], returned: Sequence[str], jaxpr: Any) -> None:
        given = [each.aval for each in jaxpr.invars]
        made = [each.aval for each in jaxpr.outvars]
        is_weight = are_weights(inputs, given, returned, made, self.block.depends_on_gradients())
        found = {name for name, of_one in zip(self.input_names, is_weight, strict=False) if of_one}
        for node in self.nodes:
            if node.op_type == "Argument" and node.name in found:
                node.op_type = "Parameter"

    @property
    def outputs(self) -> Sequence[str]:
        """The tensors that it returns; empty names: what has none."""
        return [self.block.tensor(each) for each in self.block.outputs]

    def _constant(self, value: Any) -> Constant:
        if getattr(value, "ndim", 0) == 0:
            return Constant(value)
        name = self._numbering.name("constant")
        self.nodes.append(Node(name, "Constant"))
        self.constants.append((name, value))
        return Constant(value, f"{name}:0")

    def _fill(
        self,
        block: Block,
        jaxpr: Any,
        known: dict[Any, int | Constant],
        scope: Scope,
        caller: Callable[[], tuple[Frame, ...]] | None,
    ) -> None:
        """Add the equations of a jaxpr to a block, those of what they call in their place."""
        for equation in jaxpr.eqns:
            source = equation.source_info
            here = scope.inside(scope_of(source))
            if not here.parts:
                here = Scope(modules_of(source), here.phase, here.is_derived)
            if self._returned.is_factor(equation, here):
                here = Scope(here.parts, BESIDE)
            inputs = [_read(known, each) for each in equation.invars]
            frames = _frames(source, caller)
            called = called_jaxpr(equation)
            if called is not None:
                inner = dict(zip(called.jaxpr.invars, inputs, strict=True))
                for variable, value in zip(called.jaxpr.constvars, called.consts, strict=True):
                    inner[variable] = self._constant(value)
                name = equation.params.get("name")
                inside = here.function(name) if isinstance(name, str) else here
                self._fill(block, called.jaxpr, inner, inside, frames)
                for variable, result in zip(equation.outvars, called.jaxpr.outvars, strict=True):
                    known[variable] = _read(inner, result)
                continue
            self.has_gradients = self.has_gradients or here.phase == "backward"
            name = self._numbering.name(here.name(equation.primitive.name))
            outputs = [block.place(f"{name}:{slot}") for slot in range(len(equation.outvars))]
            op = Op(name, equation, jaxpr, inputs, outputs, frames)
            op.phase = here.phase
            op.is_unclear = self._returned.is_unclear(equation, here)
            self._place_in_shards(op)
            known.update(zip(equation.outvars, outputs, strict=True))
            returns = self._bodies(op, block, here.function(equation.primitive.name))
            if op.kind != "silent":
                taken = [tensor for each in inputs if (tensor := block.tensor(each))]
                if op.op_type in _OF_REFS:
                    self._read_and_write(op, taken)
                self.nodes.append(
                    Node(
                        name,
                        op.op_type,
                        taken,
                        attributes=op.attributes,
                        frames=frames,
                        returns=returns,
                    )
                )
            block.ops.append(op)

    def _read_and_write(self, op: Op, taken: list[str]) -> None:
        """What an op reads of a mutable array was written by another one before."""
        array, *given = taken
        if array in self.written:
            taken.append(self.written[array])
        if op.op_type != "get" and given:
            self.written[array] = given[0]

    def _place_in_shards(self, op: Op) -> None:
        if self._shards is not None:
            op.shards = self.sharded[op.name] = self._shards
        elif (parts := shard_map_of(op.equation)) is not None:
            op.kind, op.inside = "shard_map", Shards(op.equation, parts)

    def _bodies(self, op: Op, block: Block, scope: Scope) -> Sequence[Sequence[str]]:
        """What a loop or a condition does; per output what it may hand on."""
        tensors = [block.tensor(each) for each in op.inputs]
        if op.kind == "cond":
            return self._condition(op, tensors, scope)
        if op.kind == "scan":
            return self._scan(op, tensors, scope)
        if op.kind == "shard_map":
            return self._shard_map(op, tensors, scope)
        return self._while(op, tensors, scope) if op.kind == "while" else ()

    def _shard_map(self, op: Op, tensors: Sequence[str], scope: Scope) -> list[list[str]]:
        jaxpr = op.equation.params["jaxpr"]
        closed = jaxpr if hasattr(jaxpr, "consts") else core.ClosedJaxpr(jaxpr, ())
        names = argument_names(closed.jaxpr) or [""] * len(tensors)
        op.carried = [
            self._numbering.name(scope.name(node_name(name) or "shard")) for name in names
        ]
        op.carried_avals = [variable.aval for variable in closed.jaxpr.invars]
        self._shards = op.inside
        try:
            body = self._body(closed, [f"{name}:0" for name in op.carried], scope, op)
        finally:
            self._shards = None
        op.bodies = (body,)
        for name, tensor in zip(op.carried, tensors, strict=True):
            self._carried(op, name, "Shard", tensor, "")
            if op.inside is not None:
                self.sharded[name] = op.inside
        return [[tensor] if (tensor := body.tensor(each)) else [] for each in body.outputs]

    def _condition(self, op: Op, tensors: Sequence[str], scope: Scope) -> list[list[str]]:
        op.bodies = [
            self._body(closed, tensors[1:], scope.function(f"branch_{at}"), op)
            for at, closed in enumerate(op.equation.params["branches"])
        ]
        made = [[each.tensor(out) for out in each.outputs] for each in op.bodies]
        if isinstance(op.inputs[0], Constant) and not op.inputs[0].tensor:  # it is known by now
            chosen = min(max(int(op.inputs[0].value), 0), len(made) - 1)
            made = made[chosen : chosen + 1]
        return [list(several) for several in zip(*made, strict=True)]

    def _scan(self, op: Op, tensors: Sequence[str], scope: Scope) -> list[list[str]]:
        params = op.equation.params
        closed = params["jaxpr"]
        constants, carried = scan_counts(params)
        names = (argument_names(closed.jaxpr) or [""] * len(closed.jaxpr.invars))[constants:]
        op.carried = [
            self._numbering.name(scope.name(node_name(name) or ("carry", "slice")[at >= carried]))
            for at, name in enumerate(names)
        ]
        op.carried_avals = [variable.aval for variable in closed.jaxpr.invars[constants:]]
        inner = [*tensors[:constants], *(f"{name}:0" for name in op.carried)]
        body = self._body(closed, inner, scope, op)
        op.bodies = (body,)
        made = [body.tensor(each) for each in body.outputs]
        for at, (name, tensor) in enumerate(zip(op.carried, tensors[constants:], strict=True)):
            again = made[at] if at < carried else ""
            self._carried(op, name, CARRY if at < carried else "Slice", tensor, again)
        return [
            [tensor if at < carried else self._collected(op, at, tensor)] if tensor else []
            for at, tensor in enumerate(made)
        ]

    def _collected(self, op: Op, slot: int, tensor: str) -> str:
        """What becomes of the values of all iterations: no op of its own, and not dumped."""
        name = self._numbering.name(f"{op.name}/collected_{slot}")
        self.nodes.append(Node(name, COLLECTED, [tensor], frames=op.frames))
        return f"{name}:0"

    def _while(self, op: Op, tensors: Sequence[str], scope: Scope) -> list[list[str]]:
        params = op.equation.params
        tests, own = params["cond_nconsts"], params["body_nconsts"]
        jaxpr = params["body_jaxpr"].jaxpr
        names = (argument_names(jaxpr) or [""] * len(jaxpr.invars))[own:]
        op.carried = [
            self._numbering.name(scope.name(node_name(name) or "carry")) for name in names
        ]
        op.carried_avals = [variable.aval for variable in jaxpr.invars[own:]]
        inner = [f"{name}:0" for name in op.carried]
        asked = [*tensors[:tests], *inner]
        test = self._body(params["cond_jaxpr"], asked, scope.function("cond"), op)
        used = [*tensors[tests : tests + own], *inner]
        body = self._body(params["body_jaxpr"], used, scope, op)
        op.bodies = (test, body)
        made = [body.tensor(each) for each in body.outputs]
        for name, tensor, again in zip(op.carried, tensors[tests + own :], made, strict=True):
            self._carried(op, name, CARRY, tensor, again)
        return [[tensor] if tensor else [] for tensor in made]

    def _carried(self, op: Op, name: str, op_type: str, begins: str, again: str) -> None:
        """The node of what each iteration gets: from outside, and from the one before."""
        taken = [tensor for tensor in (begins, again) if tensor]
        if self._shards is not None:
            self.sharded[name] = self._shards
        numbers = (
            {} if begins else op.number(len(op.inputs) - len(op.carried) + op.carried.index(name))
        )
        self.nodes.append(Node(name, op_type, taken, attributes=numbers, frames=op.frames))

    def _body(self, closed: Any, tensors: Sequence[str], scope: Scope, op: Op) -> Block:
        block = Block()
        block.shards = self._shards
        known: dict[Any, int | Constant] = {}
        for variable, tensor in zip(closed.jaxpr.invars, tensors, strict=True):
            known[variable] = place = block.place(tensor)
            block.inputs.append(place)
        for variable, value in zip(closed.jaxpr.constvars, closed.consts, strict=True):
            known[variable] = self._constant(value)
        self._fill(block, closed.jaxpr, known, scope, op.frames)
        block.outputs = [_read(known, each) for each in closed.jaxpr.outvars]
        return block


class _Returned:
    """What of the forward pass leads to results of a function.

    The derivatives by which a gradient is multiplied are computed beside the forward ops, in the
    same scope and line. Only that no result is made of them tells them apart: where the loss is
    among the results.
    """

    def __init__(self, jaxpr: Any, scope: Scope, may_be_gradient: bool) -> None:
        # By identity: all that were looked at, which are those outside of loops and branches.
        self._leads_there: dict[int, bool] = {}
        self._has_loss = False
        self._may_be_gradient = may_be_gradient or computes_gradients(jaxpr)
        self._walk(jaxpr, {each for each in jaxpr.outvars if _is_variable(each)}, scope)

    def is_factor(self, equation: Any, scope: Scope) -> bool:
        """Whether an equation, in a scope, computes such a derivative."""
        is_one = self._has_loss and scope.is_derived and scope.phase == "forward"
        return is_one and not self._leads_there.get(id(equation), True)

    def is_unclear(self, equation: Any, scope: Scope) -> bool:
        """Whether an equation may be one of the forward pass, or compute such a derivative."""
        is_known = self._has_loss and id(equation) in self._leads_there
        return self._may_be_gradient and scope.phase == "forward" and not is_known

    def _walk(self, jaxpr: Any, needed: set[Any], scope: Scope) -> set[Any]:
        """Go back from results of a jaxpr; returns the variables that they are made of."""
        for equation in reversed(jaxpr.eqns):
            made = [at for at, each in enumerate(equation.outvars) if each in needed]
            here = scope.inside(scope_of(equation.source_info))
            is_needed = bool(made) and here.phase == "forward"
            known = self._leads_there.get(id(equation), False)  # one jaxpr may be called twice
            self._leads_there[id(equation)] = known or is_needed
            if not is_needed:
                continue
            is_loss = here.is_derived and any(_is_loss(equation.outvars[at]) for at in made)
            self._has_loss = self._has_loss or is_loss
            operands = equation.invars
            called = called_jaxpr(equation)
            if called is not None:
                results = [called.jaxpr.outvars[at] for at in made]
                used = self._walk(called.jaxpr, {e for e in results if _is_variable(e)}, here)
                inner = zip(called.jaxpr.invars, equation.invars, strict=True)
                operands = [each for inside, each in inner if inside in used]
            needed |= {each for each in operands if _is_variable(each)}
        return needed


def _is_variable(operand: Any) -> bool:
    return not isinstance(operand, core.Literal)


def _is_loss(variable: Any) -> bool:
    """Whether it may be one: a number."""
    aval = variable.aval
    return getattr(aval, "shape", None) == () and is_floating(aval)


def computes_gradients(jaxpr: Any) -> bool:
    """Whether a backward pass is among the equations of a jaxpr, those of loops included."""
    for equation in jaxpr.eqns:
        if "transpose(" in scope_of(equation.source_info):
            return True
        has_inner = equation.primitive.name in _CALLS | _AROUND  # others may know a transpose
        if has_inner and any(map(computes_gradients, inner_jaxprs(equation))):
            return True
    return False


def _read(known: Mapping[Any, int | Constant], operand: Any) -> int | Constant:
    if not isinstance(operand, core.Literal):
        return known[operand]
    return Constant(value_of(operand))


def value_of(literal: Any) -> Any:
    """What is written down as an operand, as an array of its dtype."""
    value = literal.val
    if hasattr(value, "shape"):
        return value
    return np.asarray(value, getattr(literal.aval, "dtype", None))


def called_jaxpr(equation: Any) -> Any:
    """What an equation calls, where it does nothing else; ``None``: it does something itself."""
    if equation.primitive.name not in _CALLS:
        return None
    for name in _BODIES:
        found = equation.params.get(name)
        if found is None:
            continue
        closed = found if hasattr(found, "consts") else core.ClosedJaxpr(found, ())
        if len(closed.jaxpr.invars) == len(equation.invars):
            return closed
    return None


def _frames(
    source: Any, caller: Callable[[], tuple[Frame, ...]] | None
) -> Callable[[], tuple[Frame, ...]]:
    return functools.cache(lambda: frames_of(source, caller() if caller is not None else None))
