"""A call of a compiled function that is gone through op by op, with other values if asked.

The compiled function is called once, before the first step: what no override has changed is what
it has returned, bit for bit. The ops are done one by one beside it; they have no state, so that
going back is free.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jax import numpy as jnp

from tfdbg_cli.common.errors import UserError
from tfdbg_cli.common.interpreter.program_signals import contained, pass_on
from tfdbg_cli.dumps.dump import Datum
from tfdbg_cli.dumps.elements import execution_name, parse_execution
from tfdbg_cli.dumps.graph import Graph
from tfdbg_cli.engines.base import CannotStep, Capture, HasGradients, SteppedRun
from tfdbg_cli.engines.jax.plans.plan import Plan
from tfdbg_cli.engines.jax.plans.values import as_array, datum_of, is_floating
from tfdbg_cli.engines.jax.private import writes_to_arguments
from tfdbg_cli.engines.jax.runs.calls import Call
from tfdbg_cli.engines.jax.stepping.given import (
    device_value,
    elements_dtype,
    elements_shape,
    given_array,
)
from tfdbg_cli.engines.jax.stepping.gradients import gradient_of
from tfdbg_cli.engines.jax.stepping.layout import CallLayout
from tfdbg_cli.engines.jax.stepping.worlds import ComputedTensor, InnerValue, World
from tfdbg_cli.engines.kit.clock import Clock
from tfdbg_cli.engines.kit.fitting import fitted_array, nobody_elses
from tfdbg_cli.engines.kit.replayed import ReplayStepper, StepReader
from tfdbg_cli.stepping.stepper import Step, StepOutcome

__all__ = ["CallStepper"]


class CallStepper(ReplayStepper, HasGradients):
    """Goes through a call.

    Args:
        call: that was made, with what it got, what it has returned or raised.
    """

    engine_name = "jax"
    can_iterate = numbers_values = True

    def __init__(self, call: Call) -> None:
        if writes_to_arguments(call.jaxpr.jaxpr):
            raise CannotStep(
                f"{call.title} writes to mutable arrays (jax.new_ref).",
                "What it does is not done twice.",
            )
        if call.is_spread:
            raise CannotStep(
                f"{call.title} is computed by several processes together.",
                "Debug the run (run): all of them do it once more, op by op.",
            )
        leaves = call.named()
        self._plan = Plan(call.jaxpr, [leaf.path for leaf in leaves], caller=call.frames)
        self._layout = CallLayout(self._plan)
        super().__init__(self._layout.steps, self._layout.readers)
        self._call = call
        values = [leaf.value for leaf in leaves]
        self._inputs = dict(zip(self._plan.block.inputs, values, strict=True))
        self._base = World(self._layout.ops, self._inputs, call.callbacks.copy(), call.error)
        self._overrides: dict[str, Any] = {}
        #: The iterations of the next step that are done, where that is a loop.
        self._round = 0
        self._changed: World | None = None
        # Place -> the gradient that was set; step -> the tensor of it whose gradient was taken.
        self._given_gradients: dict[int, Any] = {}
        self._graded: dict[int, str] = {}
        self._graph = Graph(self._plan.nodes)
        self._begun = Clock().now()
        self.caveats = tuple(self._caveats())

    def _caveats(self) -> list[str]:
        ops = self._layout.ops
        found = ["The compiled function was called before the first step."]
        once = [op.name for op in ops if op.op_type == "io_callback"]
        if once:
            found.append(
                "Done once, and what they gave stays whatever is overridden before: "
                f"{', '.join(once[:3])}."
            )
        if any(op.bodies for op in ops):
            found.append("A loop or a branch is one step; of a loop `step -i` does an iteration.")
        return found

    @property
    def real(self) -> Capture:
        """The call as it was made."""
        return Capture(self._call.result, None, self._call.error)

    # Going on and back.

    @property
    def _world(self) -> World:
        if not self._overrides:
            return self._base
        if self._changed is None:
            others = {
                place: value
                for name, value in self._overrides.items()
                if name in self._layout.places
                if not self._is_computed_value(name, value)
                for place in [self._layout.places[name]]
            }
            self._changed = World(
                self._layout.ops,
                self._inputs,
                self._call.callbacks.copy(),
                None,
                self._base,
                {place: self._device_value(place, value) for place, value in others.items()},
                self._values_inside(),
            )
            self._changed.reach(self._position)
            if self._round:  # what fails in a later iteration is told when it is come to
                with contextlib.suppress(Exception):
                    self._changed.reach(self._position + 1)
        return self._changed

    @property
    def _inner(self) -> dict[str, InnerValue]:
        """Of the overrides those of what is inside of steps."""
        named = ((name, *parse_execution(name)) for name in self._overrides)
        return {
            name: InnerValue(tensor, number or 0)
            for name, tensor, number in named
            if tensor in self._layout.inside
        }

    def _values_inside(self) -> dict[int, dict[InnerValue, Any]]:
        found: dict[int, dict[InnerValue, Any]] = {}
        for name, inside in self._inner.items():
            values = found.setdefault(self._layout.makers[inside.tensor], {})
            aval = self._layout.inside[inside.tensor].aval
            values[inside] = device_value(self._overrides[name], aval)
        return found

    def _is_computed_value(self, name: str, value: np.ndarray[Any, Any]) -> bool:
        """Whether an override is the very value that is computed."""
        maker = self._layout.makers[name]
        if self._base.done <= maker:
            return False
        own = as_array(self._base.known[self._layout.places[name]])
        return isinstance(own, np.ndarray) and own.tobytes() == value.tobytes()

    def _device_value(self, place: int, value: np.ndarray[Any, Any]) -> Any:
        own = self._base.known.get(place)
        aval = self._aval(self._plan.block.tensors[place])
        return device_value(value, aval, getattr(own, "sharding", None))

    def advance(self, iteration: bool = False) -> StepOutcome:
        self.check_open()
        self.check_not_at_end()
        index = self._position
        try:
            self._do(index)
        except Exception as error:
            pass_on(error)
            if not (iteration and self._iterate(index)):
                raise
            return StepOutcome(self.steps[index], is_partial=True)
        if iteration and self._iterate(index):
            return StepOutcome(self.steps[index], is_partial=True)
        outcome = super().advance()
        self._round = 0
        return outcome

    def _do(self, index: int) -> None:
        self._world.reach(index + 1)

    def _iterate(self, index: int) -> bool:
        """Whether one more iteration was done of a step, and it isn't the last one."""
        if not self._layout.is_loop(index):
            return False
        last = max(
            (each.rounds[0] for each in self._world.told_of(index) if each.rounds), default=0
        )
        if self._round >= last:
            return False
        self._round += 1
        self._shown = None
        return True

    def back(self) -> Step:
        self.check_open()
        if not self._round:
            return super().back()
        self._round -= 1
        self._shown = None
        return self.steps[self._position]

    # Values.

    def _is_there(self, tensor_name: str) -> bool:
        tensor, number = parse_execution(tensor_name)
        maker = self._layout.makers.get(tensor)
        if maker is None or maker >= self._position + bool(self._round):
            return False
        if tensor in self._layout.places:
            return maker < self._position and number is None
        return self._inside(tensor, number) is not None

    def _inside(self, tensor: str, number: int | None = None) -> Any:
        """A value of a tensor inside of a step, or its last one; ``None``: there is none."""
        values = self._done_values(tensor)
        if number is None:
            return values[-1] if values else None
        return values[number] if number < len(values) else None

    def _done_values(self, tensor: str) -> list[Any]:
        return _values(self._done_of(self._world, self._layout.makers[tensor]), tensor)

    def _done_of(self, world: World, index: int) -> Sequence[ComputedTensor]:
        """What a step has made, as far as it was done."""
        told = world.told_of(index)
        return _until(told, self._round if index >= self._position else None)

    def _found(self, tensor_name: str) -> Any:
        return as_array(self._raw(tensor_name))

    def _raw(self, tensor_name: str) -> Any:
        place = self._layout.places.get(tensor_name)
        if place is not None:
            return self._world.known[place]
        return self._inside(*parse_execution(tensor_name))

    def original(self, tensor_name: str) -> Any | None:
        inside = self._inner.get(tensor_name)
        if inside is not None:
            index = self._layout.makers[inside.tensor]
            with contextlib.suppress(Exception):  # the call's own
                self._base.reach(index + 1)
            values = _values(self._base.told_of(index), inside.tensor)
            at = inside.number
            return nobody_elses(as_array(values[at])) if at < len(values) else None
        maker = self._layout.makers.get(tensor_name)
        place = self._layout.places.get(tensor_name)
        if maker is None or place is None or maker >= self._position:
            return None
        with contained:  # the call's own error
            self._base.reach(maker + 1)
            return nobody_elses(as_array(self._base.known[place]))
        return None

    def shape(self, tensor_name: str) -> tuple[int, ...] | None:
        inside = self._layout.inside.get(parse_execution(tensor_name)[0])
        if inside is not None:
            return inside.shape
        aval = self._aval(tensor_name)
        return elements_shape(aval) if aval is not None else None

    def _aval(self, tensor_name: str) -> Any:
        maker = self._layout.makers.get(tensor_name)
        if maker is None or tensor_name not in self._layout.places:
            return None
        if maker < 0:
            return self._inputs[self._layout.places[tensor_name]]
        slot = int(tensor_name.rpartition(":")[2])
        return self._layout.ops[maker].equation.outvars[slot].aval

    # Other values.

    def override(self, tensor_name: str, value: Any) -> None:
        self.check_open()
        super().override(self._meant(tensor_name), given_array(value))

    def _meant(self, tensor_name: str) -> str:
        """The name of the value that is meant by a tensor's name.

        Raises:
            UserError: one that is done, or that never comes; it could be any.
        """
        tensor, number = parse_execution(tensor_name)
        self.check_known(tensor, self._layout.makers)
        inside = self._layout.inside.get(tensor)
        if inside is None:
            if number:
                raise UserError(f"{tensor} has one value in a run.")
            return tensor
        index = self._layout.makers[tensor]
        step = self.steps[index]
        self._check_to_come(index, tensor)
        done = len(self._done_values(tensor)) if index == self._position else 0
        if number is None:
            if index > self._position and inside.is_in_loop:
                raise UserError(
                    f"{tensor} has a value in each iteration of {step.node}.",
                    f"`override -n 17 {tensor} …`: its value (#17); if {step.node} is the next "
                    "step, the next value is meant.",
                )
            number = done
        if inside.most is not None and number >= inside.most:
            raise UserError(f"{tensor} has {inside.most} value(s) at most; they count from 0.")
        if number < done:
            raise UserError(f"{execution_name(tensor, number)} is done.", "`step -b` goes back.")
        return execution_name(tensor, number) if inside.is_in_loop else tensor

    def _overridable(self, tensor_name: str) -> tuple[np.dtype[Any], Sequence[int | None] | None]:
        tensor, _ = parse_execution(tensor_name)
        inside = self._layout.inside.get(tensor)
        if inside is not None:
            return elements_dtype(inside.aval), inside.shape
        self.check_unread(tensor)
        aval = self._aval(tensor)
        return elements_dtype(aval), elements_shape(aval)

    def _override(self, tensor_name: str, value: np.ndarray[Any, Any] | None) -> None:
        self._overrides.pop(tensor_name, None)  # the last one that was given is the last one
        if value is not None:
            self._overrides[tensor_name] = value
        self._changed = None

    def _check_to_come(self, index: int, name: str) -> None:
        if index < self._position:
            raise UserError(f"{name} was used in {self.steps[index].node}.", "`step -b` goes back.")

    def _check_takes_back(self, tensor_name: str) -> None:
        inside = self._inner.get(tensor_name)
        if inside is None:
            self.check_unread(tensor_name)
            return
        index = self._layout.makers[inside.tensor]
        self._check_to_come(index, tensor_name)
        if index == self._position and inside.number < len(self._done_values(inside.tensor)):
            raise UserError(f"{tensor_name} is done.", "`step -b` goes back.")

    # Gradients.

    def gradient(self, tensor_name: str) -> Any:
        place, maker = self._graded_place(tensor_name)
        for inside in self._inner.values():
            if self._layout.makers[inside.tensor] > maker:
                raise UserError(
                    f"{inside.tensor} is overridden inside a later step, so there is no gradient.",
                    "restore takes the override back.",
                )
        if place in self._given_gradients:
            return np.array(self._given_gradients[place])
        self._world.reach(len(self.steps))
        known, given = self._world.known, self._given_gradients
        found = gradient_of(self._plan, self._layout, known, place, maker, given)
        self._graded[maker] = tensor_name
        return found

    def _graded_place(self, tensor_name: str) -> tuple[int, int]:
        """The place of a tensor that has a gradient, and the step that makes it."""
        if not self.has(tensor_name):
            raise KeyError(tensor_name)
        place = self._layout.places.get(tensor_name)
        if place is None:
            raise UserError(
                f"{tensor_name} is inside a loop: gradients are taken with respect to the loop's "
                "inputs and outputs."
            )
        if not is_floating(self._raw(tensor_name)):
            raise UserError(f"{tensor_name} is not a floating point number: it has no gradient.")
        return place, self._layout.makers[tensor_name]

    def set_gradient(self, tensor_name: str, value: Any) -> None:
        place, maker = self._graded_place(tensor_name)
        earlier = next((name for at, name in self._graded.items() if at < maker), None)
        if earlier is not None:
            raise UserError(
                f"The gradient with respect to {tensor_name} can't be changed any more: that of "
                f"{earlier} was made with it.",
                "Set it before that is read.",
            )
        own = self._raw(tensor_name)
        title = f"The gradient of {tensor_name}"
        self._given_gradients[place] = jnp.asarray(
            fitted_array(title, given_array(value), elements_dtype(own), np.shape(own))
        )

    def is_gradient_open(self, tensor_name: str) -> bool:
        return all(at >= self._layout.makers[tensor_name] for at in self._graded)

    def has_gradient(self, tensor_name: str, *, is_to_set: bool = False) -> bool:
        del is_to_set
        return self.has(tensor_name)

    # What there is.

    def graph(self) -> Graph:
        return self._graph

    def made(self, outcome: StepOutcome) -> Sequence[Datum]:
        return SteppedRun.made(self, outcome)

    def _to_show(self) -> Mapping[str, Any]:
        return {}  # they are among what the ops have made

    @property
    def _end(self) -> int:
        return self._position + bool(self._round)

    def _reader(self) -> StepReader:
        plan, world, position, rounds = self._plan, self._world, self._position, self._round

        def read(index: int) -> list[Datum]:
            if index < 0:
                inputs = zip(plan.input_names, plan.block.inputs, strict=True)
                given = [*plan.constants, *((name, world.known[place]) for name, place in inputs)]
                return [datum_of(name, 0, value, 0) for name, value in given]
            made = []
            for each in _until(world.told_of(index), rounds if index == position else None):
                shards = plan.sharded.get(each.node)
                note = shards.note if shards is not None else None
                made.append(datum_of(each.node, each.slot, each.value, 0, note))
            return made

        return read

    # The ends.

    def _finished(self) -> Capture:
        world, error = self._world, self._call.error
        try:
            world.reach(len(self.steps))
            error = error if world is self._base else None
        except Exception as raised:
            pass_on(raised)
            error = error if world is self._base else raised
        self._round = 0
        if error is None and world is self._base:
            self._position = len(self.steps)
            return Capture(self._call.result, None)
        if error is not None:
            self._position = world.done
            return Capture(None, None, error)
        self._position = len(self.steps)
        return Capture(self._result(world), None)

    def _result(self, world: World) -> Any:
        """What the call returns: what was computed anew, and the rest as it was returned."""
        outputs = self._call.outputs if self._call.error is None else None
        leaves = []
        for at, operand in enumerate(self._plan.block.outputs):
            if isinstance(operand, int) and (operand in world.changed or outputs is None):
                leaves.append(jnp.asarray(world.known[operand]))
            elif outputs is not None:
                leaves.append(outputs[at])
            else:
                leaves.append(jnp.asarray(getattr(operand, "value", None)))
        return self._call.rebuild(leaves)

    def _forget(self) -> None:
        self._overrides.clear()
        self._given_gradients.clear()
        self._graded.clear()
        self._changed = None


def _until(told: Sequence[ComputedTensor], rounds: int | None) -> Sequence[ComputedTensor]:
    """What a step has made in its first iterations; ``None``: in all of them."""
    if rounds is None:
        return told
    return [each for each in told if each.rounds and each.rounds[0] < rounds]


def _values(told: Sequence[ComputedTensor], tensor: str) -> list[Any]:
    """The values of a tensor, in their order."""
    node, _, slot = tensor.rpartition(":")
    return [each.value for each in told if (each.node, each.slot) == (node, int(slot))]
