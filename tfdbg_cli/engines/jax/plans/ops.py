"""The ops of a compiled function, as they are done one after the other."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from jax.extend import core

from tfdbg_cli.common.node_words import BACKWARD, BESIDE, FORWARD_FRAMES, PHASE, UNCLEAR_PHASE
from tfdbg_cli.dumps.sources import Frame
from tfdbg_cli.engines.jax.plans.shards import Shards
from tfdbg_cli.engines.jax.private import only, unchecked_function

__all__ = ["CALLBACKS", "SILENT", "Block", "Constant", "Op", "equation_function"]

#: Those that call functions of the program's.
CALLBACKS = frozenset(["io_callback", "pure_callback"])
#: Those that are there for what they do, and compute nothing.
SILENT = frozenset(["debug_callback", "debug_print"])
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
        "is_unclear",
        "kind",
        "name",
        "outputs",
        "phase",
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
        self.phase = "forward"
        self.is_unclear = False
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
        given = [each for each in self.equation.invars if not isinstance(each, core.Literal)]
        unique, function = equation_function(self._jaxpr, self.equation)
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

    def number(self, at: int) -> dict[str, str]:
        """The attribute of an operand that is a number written down; empty: it is none."""
        each = self.inputs[at]
        if not isinstance(each, Constant) or each.tensor or np.ndim(each.value):
            return {}
        return {f"_arg_{at}": str(np.asarray(each.value))}

    def attributes(self) -> Mapping[str, str]:
        """Its parameters, and what is written down among its operands, as text."""
        made: dict[str, str] = {}
        for at in range(len(self.inputs)):
            made |= self.number(at)
        for name, value in self.equation.params.items():
            text = "" if "jaxpr" in name or callable(value) else str(value)
            if text and text not in ("None", "False", "()") and len(text) <= _LONGEST_TEXT:
                made[name] = text
        is_gradient = self.phase in (BACKWARD, BESIDE)
        made[PHASE] = BACKWARD if is_gradient else self.phase
        if is_gradient:
            made[FORWARD_FRAMES] = BESIDE if self.phase == BESIDE else "1"
        if self.is_unclear:
            made[UNCLEAR_PHASE] = "1"
        scope = self.name.rpartition("/")[0]
        if scope:
            made["_module"] = scope
        return made


def equation_function(jaxpr: Any, equation: Any) -> tuple[list[Any], Callable[..., Sequence[Any]]]:
    """The operands of an equation that are no literals, each once, and what computes it of them."""
    given = (each for each in equation.invars if not isinstance(each, core.Literal))
    unique = list(dict.fromkeys(given))
    return unique, unchecked_function(core.ClosedJaxpr(only(jaxpr, equation, unique), ()))


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

    def ops_once(self) -> Iterator[Op]:
        """Its ops and those in branches: all that are done once at most each time that it is."""
        for op in self.ops:
            yield op
            for body in op.bodies if op.kind == "cond" else ():
                yield from body.ops_once()

    def depends_on_gradients(self) -> list[bool]:
        """Whether each output is a gradient, or was computed of one."""
        found = set[int | Constant]()
        for op in self.ops:
            if op.phase == BACKWARD or not found.isdisjoint(op.inputs):
                found.update(op.outputs)
            for body in op.bodies:  # not all results of a loop have to
                pairs = zip(op.outputs, body.depends_on_gradients(), strict=False)
                found.update(output for output, depends in pairs if depends)
        return [each in found for each in self.outputs]

    def tensor(self, operand: int | Constant) -> str:
        """Its name; empty: it has none."""
        return operand.tensor if isinstance(operand, Constant) else self.tensors[operand]
