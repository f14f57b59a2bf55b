"""Does a tape once more: its ops one by one, and the backward pass of what was differentiated."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import mlx.core as mx

from tfdbg_cli.common.errors import one_line
from tfdbg_cli.common.interpreter.program_signals import pass_on
from tfdbg_cli.common.node_words import BACKWARD
from tfdbg_cli.engines.kit.stacks import Stack
from tfdbg_cli.engines.mlx.tape import Call, Differentiation, Op, Ref, Tape, arrays_in, filled

__all__ = ["Replay", "Step", "are_computed"]

_vjp, _grad, _custom, _equal, _where = mx.vjp, mx.grad, mx.custom_function, mx.allclose, mx.isfinite
_ones_like, _eval = mx.ones_like, mx.eval
# Of differentiated functions: their order is that in which gradients come back to ops.
_Event = tuple[int, int, mx.array]


class Step(NamedTuple):
    """An op with the arrays that it was given and has made.

    Attributes:
        type, args, kwargs: of the op.
        outputs: arrays.
        stack, modules, phase: as of the tape.
        error: that it has raised.
        forward: an array that the op has made whose gradient this one computes.
        given: what comes back to that op, if this is its whole gradient.
    """

    type: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    outputs: list[mx.array]
    stack: Stack
    modules: tuple[Any, ...] = ()
    phase: str = ""
    error: Exception | None = None
    forward: mx.array | None = None
    given: list[mx.array] | None = None


class _Probe:
    """Sees what comes back to the operands and the outputs of ops, and changes nothing."""

    def __init__(self) -> None:
        self.to_outputs: list[_Event] = []
        self.to_inputs: dict[tuple[int, int], mx.array] = {}
        # By identity, for arrays that are held here: their makers, op and slot; a parameter has -1.
        self.makers: dict[int, tuple[int, int]] = {}
        self.uses: dict[tuple[int, int], list[tuple[int, int]]] = {}
        self._held: list[mx.array] = []

    def parameter(self, place: int, array: mx.array) -> None:
        """An array is differentiated."""
        self._know(array, (-1, place))

    def given(self, op: int, position: int, array: mx.array) -> mx.array:
        """What the op is to get as an operand."""
        maker = self.makers.get(id(array))
        if maker is None or not _has_gradient(array):
            return array
        self.uses.setdefault(maker, []).append((op, position))

        def told(cotangent: mx.array) -> None:
            self.to_inputs[op, position] = cotangent

        seen: mx.array = _same(told)(array)
        return seen

    def made(self, op: int, slot: int, array: mx.array) -> mx.array:
        """What the others are to get as an output of the op."""
        seen = array
        if _has_gradient(array):
            seen = _same(lambda cotangent: self.to_outputs.append((op, slot, cotangent)))(array)
        self._know(seen, (op, slot))
        return seen

    def _know(self, array: mx.array, maker: tuple[int, int]) -> None:
        self._held.append(array)
        self.makers[id(array)] = maker


def _has_gradient(array: mx.array) -> bool:
    return bool(mx.issubdtype(array.dtype, mx.inexact))


def _same(told: Callable[[mx.array], None]) -> Any:
    """A function that returns what it is given, and tells what comes back."""

    @_custom
    def same(x: mx.array) -> mx.array:
        return x

    @same.vjp
    def back(primals: Any, cotangent: mx.array, output: Any) -> mx.array:
        told(cotangent)
        return cotangent

    return same


class Replay:
    """A tape with values.

    Args:
        tape: of a run.

    Attributes:
        steps: in their order.
        leaves: arrays that no op has made, by identity: the tape that holds them, and their number.
        values: of the tape's tensors.
        trouble: why some of it could not be done, or not as in the program; empty: all of it was.
        gap: why values are missing; empty: none is.
    """

    def __init__(self, tape: Tape) -> None:
        self.values: dict[Ref, mx.array] = {**tape.leaves, **tape.held}
        self.leaves = {id(array): (tape, ref) for ref, array in tape.leaves.items()}
        self.gradients: list[tuple[mx.array, mx.array]] = []
        self.steps: list[Step] = []
        self._ops: list[Step] = []  # those of forward passes
        self.gap = self.trouble = ""
        try:
            self._forward(tape.top, self.values, tape.held, None, ())
        except Exception as error:
            pass_on(error)
            self.gap = self.trouble = f"not every op could be done once more: {one_line(error)}"
        self._compute()

    def _compute(self) -> None:
        """Let MLX compute what was made; what can't be computed is left out."""
        if not are_computed([each for step in self.steps for each in step.outputs]):
            self.gap = self.trouble = "not every value could be computed"
            for place, step in enumerate(self.steps):
                self.steps[place] = step._replace(outputs=[*filter(are_computed, step.outputs)])

    def _forward(
        self,
        body: Iterable[Op | Call | Differentiation],
        values: dict[Ref, mx.array],
        held: Mapping[Ref, mx.array],
        outer: Stack | None,
        modules: tuple[Any, ...],
    ) -> None:
        for each in body:
            if isinstance(each, Op):
                self._op(each, values, held, outer, modules)
            elif isinstance(each, Call):
                self._call(each, values, held, outer, modules)
            else:
                for inner, given in each.given:
                    values[inner] = values[given]
                first = len(self._ops)
                self._forward(each.body, values, held, outer, modules)
                for value, made in each.values:
                    values.setdefault(value, values[made])
                if each.gradients:
                    self._backward(each, values, held, first, outer)

    def _op(
        self,
        op: Op,
        values: dict[Ref, mx.array],
        held: Mapping[Ref, mx.array],
        outer: Stack | None,
        modules: tuple[Any, ...],
    ) -> None:
        args, kwargs = (filled(each, values.__getitem__) for each in (op.args, op.kwargs))
        if op.error is None and not all(each in held for each in op.outputs):
            assert op.redo is not None
            made = [*arrays_in(op.redo(*args, **kwargs))]
            found = [held.get(ref, array) for ref, array in zip(op.outputs, made, strict=True)]
        else:
            found = [held[each] for each in op.outputs]
        values.update(zip(op.outputs, found, strict=True))
        stack = _joined(op.stack, outer)
        step = Step(
            op.type, args, kwargs, found, stack, (*modules, *op.modules), op.phase, op.error
        )
        self.steps.append(step)
        self._ops.append(step)

    def _call(
        self,
        call: Call,
        values: dict[Ref, mx.array],
        held: Mapping[Ref, mx.array],
        outer: Stack | None,
        modules: tuple[Any, ...],
    ) -> None:
        inputs = [values[each] for each in call.inputs]
        stack, modules = _joined(call.stack, outer), (*modules, *call.modules)
        trace = call.trace(inputs)
        if trace is None:
            found = [held[each] for each in call.outputs]
            step = Step("compiled", (*inputs,), {}, found, stack, modules, call.phase)
            self.steps.append(step)
            self._ops.append(step)
        else:
            inner = {**trace.leaves, **dict(zip(trace.inputs, inputs, strict=True))}
            self.leaves.update((id(array), (trace, ref)) for ref, array in trace.leaves.items())
            pairs = zip(trace.outputs, call.outputs, strict=True)
            own = {made: held[ref] for made, ref in pairs if ref in held and made not in inner}
            self._forward(trace.top, inner, own, stack, modules)
            found = [inner[each] for each in trace.outputs]
        values.update(zip(call.outputs, found, strict=True))

    # Backward passes.

    def _backward(
        self,
        of: Differentiation,
        values: dict[Ref, mx.array],
        held: Mapping[Ref, mx.array],
        first: int,
        outer: Stack | None,
    ) -> None:
        """What has come back through the ops of a differentiated function."""
        chosen = [of.given[place][0] for place in of.chosen]
        own = [held.get(each) for each in of.gradients]
        if of.is_seen and of.result is not None:
            probe = _Probe()
            result = of.result

            def function(*parameters: mx.array) -> mx.array:
                inner = {**values, **dict(zip(chosen, parameters, strict=True))}
                for place, each in enumerate(parameters):
                    probe.parameter(place, each)
                _again(of.body, inner, held, probe, [0])
                return inner[result]

            try:
                loss = values[result]
                parameters = [values[each] for each in chosen]
                found = _vjp(function, parameters, [_ones_like(loss)])[1]
                program = [
                    held.get(ref, each) for ref, each in zip(of.gradients, found, strict=True)
                ]
                self._came_back(of, probe, values, first, found, program, outer)
                return
            except Exception as error:
                pass_on(error)
                self.trouble = f"the backward pass could not be done once more: {one_line(error)}"
        known = [each for each in own if each is not None]
        if len(known) == len(own):
            values.update(zip(of.gradients, known, strict=True))
            forward = values.get(of.result) if of.result is not None else None
            stack = _joined(of.stack, outer)
            args = (forward,) if forward is not None else ()
            made = [values[each] for each in of.gradients]
            step = Step("vjp", args, {}, made, stack, (), BACKWARD, forward=forward)
            self.steps.append(step)
            self._told_gradients(of, values)

    def _came_back(
        self,
        of: Differentiation,
        probe: _Probe,
        values: dict[Ref, mx.array],
        first: int,
        found: list[mx.array],
        own: list[mx.array],
        outer: Stack | None,
    ) -> None:
        stack = _joined(of.stack, outer)
        if not all(map(_is_like, own, found)):
            self.trouble = (
                "the backward pass, done once more, has given other gradients than the program's: "
                "its ops are not shown as they were"
            )
        values.update(zip(of.gradients, own, strict=True))
        parts = self._parts(probe, own)
        order: dict[int, dict[int, mx.array]] = {}
        for op, slot, cotangent in probe.to_outputs:
            order.setdefault(op, {})[slot] = cotangent
        for op, cotangents in order.items():
            forward = self._ops[first + op]
            given = [
                self._total(probe, (op, slot), each, parts, forward, stack)
                for slot, each in sorted(cotangents.items())
            ]
            positions = sorted(at for number, at in parts if number == op)
            gradients = [parts[op, at] for at in positions]
            if gradients:
                step = Step(
                    f"{forward.type}_vjp",
                    (*given, *arrays_in((forward.args, forward.kwargs))),
                    {},
                    gradients,
                    stack,
                    forward.modules,
                    BACKWARD,
                    forward=forward.outputs[0],
                    given=given,
                )
                self.steps.append(step)
        for place, gradient in enumerate(own):
            uses = [parts[use] for use in probe.uses.get((-1, place), ()) if use in parts]
            if len(uses) != 1:
                kind = "sum_of_gradients" if uses else "no_gradient"
                self.steps.append(Step(kind, (*uses,), {}, [gradient], stack, (), BACKWARD))
        self._told_gradients(of, values)

    def _parts(self, probe: _Probe, gradients: list[mx.array]) -> dict[tuple[int, int], mx.array]:
        """What has come back to operands; what is all of a gradient is the gradient itself."""
        parts = dict(probe.to_inputs)
        for place, gradient in enumerate(gradients):
            uses = [use for use in probe.uses.get((-1, place), ()) if use in parts]
            if len(uses) == 1:
                parts[uses[0]] = gradient
        return parts

    def _total(
        self,
        probe: _Probe,
        output: tuple[int, int],
        cotangent: mx.array,
        parts: Mapping[tuple[int, int], mx.array],
        forward: Step,
        stack: Stack,
    ) -> mx.array:
        """What has come back to an output, from all that has used it."""
        uses = [parts[use] for use in probe.uses.get(output, ()) if use in parts]
        if len(uses) == 1:
            return uses[0]
        if uses:
            made = forward.outputs[output[1]]
            self.steps.append(
                Step(
                    "sum_of_gradients",
                    (*uses,),
                    {},
                    [cotangent],
                    stack,
                    forward.modules,
                    BACKWARD,
                    forward=made,
                )
            )
        return cotangent

    def _told_gradients(self, of: Differentiation, values: Mapping[Ref, mx.array]) -> None:
        for place, gradient in zip(of.chosen, of.gradients, strict=True):
            self.gradients.append((values[of.given[place][1]], values[gradient]))


def are_computed(arrays: mx.array | list[mx.array]) -> bool:
    """Let MLX compute arrays; whether it could."""
    try:
        _eval(arrays)
    except Exception as error:
        pass_on(error)
        return False
    return True


def _is_like(own: mx.array, found: mx.array) -> bool:
    """Whether a gradient is the same, but for the order in which it was summed up."""
    if own.shape != found.shape:
        return False
    if mx.array_equal(_where(own), _where(found)).item() is False:
        return False
    left, right = (mx.nan_to_num(each.astype(mx.float32)) for each in (own, found))
    return bool(_equal(left, right, 1e-2, 1e-2).item())


def _joined(stack: Stack, outer: Stack | None) -> Stack:
    return Stack(stack.places, outer) if outer is not None else stack


def _again(
    body: Iterable[Op | Call | Differentiation],
    values: dict[Ref, mx.array],
    held: Mapping[Ref, mx.array],
    probe: _Probe | None,
    count: list[int],
) -> None:
    """Do what a differentiated function has done, for another differentiation.

    Args:
        body: of it.
        values: of tensors; get those that it makes.
        held: values of ops that can't be done again.
        probe: what comes back to the ops is told to it.
        count: how many ops were done.
    """
    for each in body:
        if isinstance(each, Op):
            number, position = count[0], [0]
            count[0] += 1
            if each.error is not None:
                continue

            def given(ref: Ref, number: int = number, position: list[int] = position) -> mx.array:
                position[0] += 1
                array = values[ref]
                return probe.given(number, position[0] - 1, array) if probe is not None else array

            if each.redo is None:
                made = [held[ref] for ref in each.outputs]
            else:
                args = filled(each.args, given)
                made = [*arrays_in(each.redo(*args, **filled(each.kwargs, given)))]
            if probe is not None:
                made = [probe.made(number, slot, array) for slot, array in enumerate(made)]
            values.update(zip(each.outputs, made, strict=True))
        elif isinstance(each, Call):
            inputs = [values[ref] for ref in each.inputs]
            trace = each.trace(inputs)
            if trace is None:
                count[0] += 1
                values.update((ref, held[ref]) for ref in each.outputs)
                continue
            inner = {**trace.leaves, **dict(zip(trace.inputs, inputs, strict=True))}
            _again(trace.top, inner, held, probe, count)
            outputs = [inner[ref] for ref in trace.outputs]
            values.update(zip(each.outputs, outputs, strict=True))
        else:
            _differentiated(each, values, held, count)


def _differentiated(
    of: Differentiation,
    values: dict[Ref, mx.array],
    held: Mapping[Ref, mx.array],
    count: list[int],
) -> None:
    """A function's gradients, to be differentiated once more."""
    outer = [values[given] for _, given in of.given]
    before = count[0]
    seen: dict[Ref, mx.array] = {}

    def function(*parameters: mx.array) -> mx.array:
        count[0] = before
        inner = {**values, **{ref: each for (ref, _), each in zip(of.given, outer, strict=True)}}
        inner.update(zip([of.given[place][0] for place in of.chosen], parameters, strict=True))
        _again(of.body, inner, held, None, count)
        seen.update((value, inner[made]) for value, made in of.values)
        assert of.result is not None
        return inner[of.result]

    assert of.result is not None
    chosen = [outer[place] for place in of.chosen]
    found = _grad(function, argnums=(*range(len(chosen)),))(*chosen)
    if len(chosen) == 1:
        found = (found,)
    values.update(seen)
    values.update(zip(of.gradients, found, strict=True))
