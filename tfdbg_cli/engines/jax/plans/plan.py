"""What a compiled function computes: its jaxpr as a list of ops with names."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax.extend.core  # noqa: F401  # (it is no attribute of jax before)
import numpy as np
from jax.extend import core

from tfdbg_cli.dumps.graph import Node
from tfdbg_cli.dumps.sources import Frame
from tfdbg_cli.engines.jax.plans.names import Scope, frames_of, modules_of, node_name
from tfdbg_cli.engines.jax.plans.shards import Shards
from tfdbg_cli.engines.jax.private import (
    argument_names,
    only,
    scan_counts,
    scope_of,
    shard_map_of,
)
from tfdbg_cli.engines.kit.numbering import Numbering

__all__ = [
    "CALLBACKS",
    "SILENT",
    "Block",
    "Constant",
    "Op",
    "Plan",
    "called_jaxpr",
    "computes_gradients",
    "value_of",
]

# Equations that do nothing but what is in a jaxpr of theirs.
_CALLS = frozenset(
    [
        *("jit", "pjit", "closed_call", "core_call", "call", "remat", "remat2", "checkpoint"),
        *("custom_jvp_call", "custom_vjp_call", "custom_vjp_call_jaxpr"),
    ]
)
_BODIES = ("jaxpr", "call_jaxpr", "fun_jaxpr")
#: Those that call functions of the program's.
CALLBACKS = frozenset(["io_callback", "pure_callback"])
#: Those that are there for what they do, and compute nothing.
SILENT = frozenset(["debug_callback", "debug_print"])
#: Those that read and write mutable arrays.
_OF_REFS = frozenset(["get", "swap", "addupdate"])
_LONGEST_TEXT = 200


class Constant:
    """An operand that is written down in the jaxpr."""

    __slots__ = ("tensor", "value")

    def __init__(self, value: Any, tensor: str = "") -> None:
        self.value = value
        self.tensor = tensor


class Op:
    """One equation.

    Attributes:
        name: of its node.
        kind: ``scan``, ``while``, ``cond``, ``shard_map``, ``callback``, ``silent``, or empty: any
            other.
        equation: as JAX has it, in a jaxpr.
        inputs: places in its block, or constants.
        outputs: places in its block.
        bodies: what it does again and again, or one of which it does.
        carried: the nodes of what goes from one iteration to the next, and of what each one gets.
        carried_avals: what is known of that before.
        frames: gives its stack.
        shards: of the ``shard_map`` that it is in.
        inside: of the one that it is itself.
    """

    __slots__ = (
        "__dict__",
        "_jaxpr",
        "bodies",
        "carried",
        "carried_avals",
        "equation",
        "frames",
        "inputs",
        "inside",
        "is_gradient",
        "kind",
        "name",
        "outputs",
        "shards",
    )

    def __init__(
        self,
        name: str,
        equation: Any,
        jaxpr: Any,
        inputs: Sequence[int | Constant],
        outputs: Sequence[int],
        frames: Callable[[], tuple[Frame, ...]],
    ) -> None:
        self.name = name
        self.equation = equation
        self._jaxpr = jaxpr
        self.inputs = inputs
        self.outputs = outputs
        self.frames = frames
        self.is_gradient = False
        self.shards: Shards | None = None
        self.inside: Shards | None = None
        self.bodies: Sequence[Block] = ()
        self.carried: Sequence[str] = ()
        self.carried_avals: Sequence[Any] = ()
        primitive = equation.primitive.name
        self.kind = primitive if primitive in ("scan", "while", "cond") else ""
        if primitive in CALLBACKS:
            self.kind = "callback"
        elif primitive in SILENT:
            self.kind = "silent"

    @property
    def op_type(self) -> str:
        """What it computes."""
        return str(self.equation.primitive.name)

    @property
    def tensors(self) -> Sequence[str]:
        """What it makes."""
        return [f"{self.name}:{slot}" for slot in range(len(self.outputs))]

    @functools.cached_property
    def function(self) -> Callable[..., Sequence[Any]]:
        """Computes it, given those of its inputs that are no literals."""
        equation = self.equation
        given = [each for each in equation.invars if not isinstance(each, core.Literal)]
        unique = list(dict.fromkeys(given))
        jaxpr = only(self._jaxpr, equation, unique)
        function: Callable[..., Sequence[Any]] = core.jaxpr_as_fun(core.ClosedJaxpr(jaxpr, ()))
        if len(unique) == len(given):
            return function
        places = [given.index(each) for each in unique]
        return lambda *values: function(*(values[place] for place in places))

    def compute(self, values: Sequence[Any]) -> Sequence[Any]:
        """Do it."""
        pairs = [
            (value, each)
            for value, each in zip(values, self.equation.invars, strict=True)
            if not isinstance(each, core.Literal)
        ]
        given = [value for value, _ in pairs]
        if self.shards is None:
            return self.function(*given)
        operands = [operand for _, operand in pairs]
        return self.shards.compute(self.equation, operands, self.function, given)

    def attributes(self) -> Mapping[str, str]:
        """Its parameters, and what is written down among its operands, as text."""
        made = {
            f"_arg_{at}": str(np.asarray(each.value))
            for at, each in enumerate(self.inputs)
            if isinstance(each, Constant) and not each.tensor and not getattr(each.value, "ndim", 0)
        }
        for name, value in self.equation.params.items():
            text = "" if "jaxpr" in name or callable(value) else str(value)
            if text and text not in ("None", "False", "()") and len(text) <= _LONGEST_TEXT:
                made[name] = text
        made["_phase"] = "backward" if self.is_gradient else "forward"
        scope = self.name.rpartition("/")[0]
        if scope:
            made["_module"] = scope
        return made


class Block:
    """Ops that are done one after the other, and the places of what they make.

    Attributes:
        inputs: the places of what it gets.
        ops: in their order.
        outputs: places, or constants.
        shards: of the ``shard_map`` that it is in.
        tensors: what there is at a place, where it has a name.
    """

    def __init__(self) -> None:
        self.inputs: list[int] = []
        self.ops: list[Op] = []
        self.outputs: list[int | Constant] = []
        self.shards: Shards | None = None
        self.tensors: list[str] = []

    def place(self, tensor: str) -> int:
        """A new one."""
        self.tensors.append(tensor)
        return len(self.tensors) - 1

    @functools.cached_property
    def done_with(self) -> Sequence[Sequence[int]]:
        """Per op the places that nothing reads after it."""
        last: dict[int, int] = dict.fromkeys(self.inputs, -1)
        for at, op in enumerate(self.ops):
            last.update((place, at) for place in (*op.inputs, *op.outputs) if type(place) is int)
        kept = {place for place in self.outputs if type(place) is int}
        found: list[list[int]] = [[] for _ in self.ops]
        for place, at in last.items():
            if at >= 0 and place not in kept:
                found[at].append(place)
        return found

    def tensor(self, operand: int | Constant) -> str:
        """Its name; empty: it has none."""
        return operand.tensor if isinstance(operand, Constant) else self.tensors[operand]


class Plan:
    """A jaxpr in words.

    Args:
        closed: the jaxpr, with what it has as constants.
        inputs: the paths of its arguments.
        numbering: of the names of a run that has several.
        given: per argument the tensor that it is, of what the run has made before; empty: none.
        weights: which arguments are parameters.
        caller: gives the frames of the call; ``None``: they aren't known.

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
        weights: Sequence[bool] = (),
        caller: Callable[[], tuple[Frame, ...]] | None = None,
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
        known: dict[Any, int | Constant] = {}
        for at, variable in enumerate(jaxpr.invars):
            tensor = given[at] if at < len(given) else ""
            name = ""
            if not tensor:
                path = inputs[at] if at < len(inputs) else f"args[{at}]"
                name = self._numbering.name(node_name(path) or f"input_{at}")
                is_weight = at < len(weights) and weights[at]
                kind = "Parameter" if is_weight else "Argument"
                self.nodes.append(Node(name, kind, attributes={"path": path}))
                tensor = f"{name}:0"
            self.input_names.append(name)
            place = self.block.place(tensor)
            self.block.inputs.append(place)
            known[variable] = place
        for variable, value in zip(jaxpr.constvars, closed.consts, strict=True):
            known[variable] = self._constant(value)
        self._fill(self.block, jaxpr, known, Scope(), caller)
        self.block.outputs = [_read(known, each) for each in jaxpr.outvars]

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
                here = Scope(modules_of(source), here.is_gradient)
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
            self.has_gradients = self.has_gradients or here.is_gradient
            name = self._numbering.name(here.name(equation.primitive.name))
            outputs = [block.place(f"{name}:{slot}") for slot in range(len(equation.outvars))]
            op = Op(name, equation, jaxpr, inputs, outputs, frames)
            op.is_gradient = here.is_gradient
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
        return [[tensor for tensor in several if tensor] for several in zip(*made, strict=True)]

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
            self._carried(op, name, "Carry" if at < carried else "Slice", tensor, again)
        return [
            [tensor if at < carried else self._collected(op, at, tensor)] if tensor else []
            for at, tensor in enumerate(made)
        ]

    def _collected(self, op: Op, slot: int, tensor: str) -> str:
        """What becomes of the values of all iterations: no op of its own, and not dumped."""
        name = self._numbering.name(f"{op.name}/collected_{slot}")
        self.nodes.append(Node(name, "_Collected", [tensor], frames=op.frames))
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
            self._carried(op, name, "Carry", tensor, again)
        return [[tensor] if tensor else [] for tensor in made]

    def _carried(self, op: Op, name: str, op_type: str, begins: str, again: str) -> None:
        """The node of what each iteration gets: from outside, and from the one before."""
        taken = [tensor for tensor in (begins, again) if tensor]
        if self._shards is not None:
            self.sharded[name] = self._shards
        self.nodes.append(Node(name, op_type, taken, frames=op.frames))

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


def computes_gradients(jaxpr: Any) -> bool:
    """Whether a backward pass is among the equations of a jaxpr."""
    for equation in jaxpr.eqns:
        if "transpose(" in scope_of(equation.source_info):
            return True
        called = called_jaxpr(equation)
        if called is not None and computes_gradients(called.jaxpr):
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
