"""The conditions of loops in twins.

A loop gives nothing that its condition makes but its answer. So what that computes is computed in
the body, too, and once more behind the loop, of what it has tested there; what must not be done
twice isn't.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from tensorflow.core.framework import types_pb2

from tfdbg_cli.engines.tensorflow.functions.definitions import BodyNode, FunctionBody
from tfdbg_cli.engines.tensorflow.functions.effects import can_repeat, touches_state
from tfdbg_cli.engines.tensorflow.functions.twins.layouts import Part
from tfdbg_cli.engines.tensorflow.functions.twins.nodes import add_call

__all__ = ["LoopTest"]


class LoopTest:
    """What a condition makes, as a function.

    Args:
        condition: of a loop.
        make: makes a part of a body.
        has_values, has_health: what is to be told.

    Attributes:
        layout: of what it makes.
        definition: of the function; ``None``: there is nothing to tell.
    """

    def __init__(
        self,
        condition: FunctionBody,
        make: Callable[[FunctionBody], Part],
        has_values: bool,
        has_health: bool,
    ) -> None:
        body = copy.copy(condition)
        left = _unrepeatable(body)
        body.live = body.live - left
        made = make(body)
        self.layout = made.layout
        if not has_values:
            self.layout.dtypes.clear()
        self._reads = touches_state(body)
        self._health = made.health if has_health and made.health.is_needed else None
        self.kinds = list(self.layout.dtypes)
        self.references = made.references[: len(self.kinds)]
        if self._health is not None:
            self.kinds.append(types_pb2.DT_FLOAT)
            self.references.append(self._health.joined())
        self.definition = made.definition if self.kinds else None
        if self.kinds:
            _keep_nothing(made.definition, left)
        # Those who wait for it wait for these.
        for each in made.definition.node_def if self._reads else ():
            made.definition.signature.control_output.append(each.name)
            made.definition.control_ret[each.name] = each.name

    def add_to(self, part: Part, inputs: list[str], loop: str = "") -> list[str]:
        """Call it, and have its health told; where what it makes comes from.

        Args:
            part: where.
            inputs: that it tests.
            loop: behind which; empty: before all else in the part.
        """
        if self.definition is None:
            return []
        waits = [f"^{loop}"] if loop and self._reads else []
        call = add_call(part.definition, self.definition, [*inputs, *waits], self._reads)
        made = [f"{call.name}:output:{at}" for at in range(len(self.kinds))]
        if self._health is not None:
            part.health.add(made.pop(), self._health.size)
        if self._reads:  # before somebody writes
            waiting = {node.name for node in part.layout.body.nodes if _is_behind(node, loop)}
            for each in part.definition.node_def:
                if each.name in waiting:
                    each.input.append(f"^{call.name}")
        return made


def _is_behind(node: BodyNode, loop: str) -> bool:
    """Whether a node may write what somebody reads right behind a loop, or before all else."""
    if loop in node.control:
        return True
    return not can_repeat(node) and (not loop or any(name == loop for name, _ in node.inputs))


def _unrepeatable(body: FunctionBody) -> set[str]:
    """The nodes of a function that must not be executed twice, and those that need them."""
    found: set[str] = set()
    for node in body.nodes:
        if not can_repeat(node) or any(source in found for source, _ in node.inputs):
            found.add(node.name)
    return found


def _keep_nothing(definition: Any, left: set[str]) -> None:
    """Take a function's results away, and some of its nodes."""
    del definition.signature.output_arg[:]
    del definition.signature.control_output[:]
    definition.ret.clear()
    definition.control_ret.clear()
    kept = [node for node in definition.node_def if node.name not in left]
    waits = {f"^{name}" for name in left}
    for node in kept:
        inputs = [item for item in node.input if item not in waits]
        del node.input[:]
        node.input.extend(inputs)
    del definition.node_def[:]
    definition.node_def.extend(kept)
