"""What a run has called, so that it can be done again: ops, their operands, where they were called.

MLX computes nothing until somebody wants a value. So the tape holds no values either (unless it
`keeps` them): only the arrays that no op of the run has made, from which all others follow.
"""

from __future__ import annotations

import copy
import itertools
import math
import weakref
from collections.abc import Callable, Iterator, Mapping
from types import FrameType
from typing import Any

import mlx.core as mx

from tfdbg_cli.common.interpreter.program_signals import pass_on
from tfdbg_cli.common.node_words import FORWARD
from tfdbg_cli.engines.kit.sites import name_in
from tfdbg_cli.engines.kit.stacks import Stack, take, user_frame

__all__ = [
    "TAPES",
    "Call",
    "Differentiation",
    "Op",
    "Ref",
    "Tape",
    "arrays_in",
    "filled",
    "finite",
    "is_finite",
]

# The tape that records a thread now: a run's, or that of a function that is compiled.
TAPES: dict[int, Tape] = {}


class Ref(int):
    """A tensor of a tape, by a number that no other one of it has."""


class Op:
    """An op that was called.

    Attributes:
        type: of it.
        redo: computes its outputs of its operands once more; ``None``: it can't be done again, and
            its outputs are held.
        args, kwargs: its operands, with a `Ref` in the place of each tensor.
        outputs: the tensors that it has made.
        stack: where it was called.
        modules: in whose calls, outermost first.
        phase: of the step.
        error: that it has raised.
        key: what it is the same op by, if another run calls it.
    """

    __slots__ = (
        *("args", "error", "key", "kwargs", "modules", "outputs", "phase", "redo"),
        *("stack", "type"),
    )

    def __init__(
        self,
        op_type: str,
        redo: Callable[..., Any] | None,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        inputs: list[Any],
        outputs: tuple[Ref, ...],
        stack: Stack,
        modules: tuple[Any, ...],
        phase: str,
    ) -> None:
        self.type, self.redo, self.args, self.kwargs = op_type, redo, args, kwargs
        self.outputs, self.stack, self.modules, self.phase = outputs, stack, modules, phase
        self.error: Exception | None = None
        self.key = (op_type, inputs, outputs)

    @property
    def inputs(self) -> list[Ref]:
        """The tensors among its operands."""
        return [each for each in self.key[1] if type(each) is Ref]


class Call:
    """A call of a compiled function.

    Attributes:
        traces: what it computes, by kinds of inputs; the tapes of its traces.
        inputs, outputs: tensors.
        constants: arguments that are none.
        stack, modules, phase: as of an `Op`.
    """

    __slots__ = ("constants", "inputs", "modules", "outputs", "phase", "stack", "traces")

    def __init__(
        self,
        traces: list[Tape],
        inputs: list[Ref],
        constants: list[Any],
        outputs: list[Ref],
        stack: Stack,
        modules: tuple[Any, ...],
        phase: str,
    ) -> None:
        self.traces, self.inputs, self.outputs = traces, inputs, outputs
        self.constants = constants
        self.stack, self.modules, self.phase = stack, modules, phase

    def trace(self, inputs: list[mx.array]) -> Tape | None:
        """What it has computed of these; ``None``: that isn't known."""
        wanted = _kinds(inputs, self.constants)
        found = [each for each in self.traces if each.kinds == wanted]
        if not found:  # functions without shapes are traced for one of them
            plain = _ranks(wanted)
            found = [each for each in self.traces if _ranks(each.kinds) == plain]
        return found[-1] if found and not found[-1].is_opaque else None


def _kinds(inputs: list[mx.array], constants: list[Any]) -> list[Any]:
    return [*((each.dtype, each.shape) for each in inputs), constants]


def _ranks(kinds: list[Any]) -> list[Any]:
    return [*((dtype, len(shape)) for dtype, shape in kinds[:-1]), kinds[-1]]


class Differentiation:
    """A call of a function that computes gradients.

    Attributes:
        body: what the differentiated function has called.
        given: pairs of what that function was given, and what the outer one was.
        chosen: the places in `given` of what is differentiated.
        result: the function's first output, whose gradient it is.
        values: pairs of what the outer function has returned, and what the inner one has.
        gradients: tensors.
        is_seen: it is known which gradient is of what.
        stack, modules, phase: as of an `Op`.
    """

    def __init__(self, stack: Stack, modules: tuple[Any, ...], phase: str) -> None:
        self.body: list[Op | Call | Differentiation] = []
        self.given: list[tuple[Ref, Ref]] = []
        self.chosen: list[int] = []
        self.result: Ref | None = None
        self.values: list[tuple[Ref, Ref]] = []
        self.gradients: list[Ref] = []
        self.is_seen = False
        self.stack, self.modules, self.phase = stack, modules, phase


class Tape:
    """Records the ops of a run, or of the trace of a compiled function.

    Args:
        keeps: the arrays that ops have made are held.
        plan: the outputs to be checked while the program goes on: place of the op -> their slots.
        broken: is told of a failure of ours; nothing is recorded any more.
        boundary: the frame beyond which no stack reaches.

    Attributes:
        body: what is recorded now goes there.
        modules: the modules in whose calls we are.
        phase: of the step.
        leaves: the arrays that no op has made.
        held: those that ops have made, as far as they are held.
        names: of leaves.
        checks: for each output in the plan, whether it is finite, by `is_finite`: lazy arrays.
        exact: the places of checks that have to be exact.
        inputs, outputs: of a compiled function, with `kinds`: dtypes and shapes of the inputs.
        count: how many ops have made arrays.
        errors: that ops have raised, with the types of these.
        is_opaque: it has ops that can't be done once more.
        is_broken: we have failed, and nothing is recorded any more.
    """

    def __init__(
        self,
        keeps: bool = False,
        plan: Mapping[int, tuple[int, ...]] | None = None,
        broken: Callable[[Exception], None] | None = None,
        boundary: FrameType | None = None,
    ) -> None:
        self.body: list[Op | Call | Differentiation] = []
        self.top = self.body
        self.modules: tuple[Any, ...] = ()
        self.phase = FORWARD
        self.leaves: dict[Ref, mx.array] = {}
        self.held: dict[Ref, mx.array] = {}
        self.names: dict[Ref, str] = {}
        self.checks: list[mx.array] = []
        self.exact: frozenset[int] = frozenset()
        self.inputs: list[Ref] = []
        self.outputs: list[Ref] = []
        self.kinds: list[Any] = []
        self.count = 0
        self.is_opaque = self.is_broken = False
        self.errors: list[tuple[Exception, str]] = []
        self._keeps, self.plan, self._broken = keeps, plan or {}, broken
        self._boundary = boundary
        self._outer: Stack | None = None
        self._numbers = itertools.count()
        self._known: dict[int, tuple[Callable[[], Any], Ref]] = {}

    # Tensors.

    def find(self, array: Any) -> Ref | None:
        """The number of an array that the tape knows."""
        found = self._known.get(id(array))
        return found[1] if found is not None and found[0]() is array else None

    def ref(self, array: mx.array, frame: FrameType | None = None) -> Ref:
        """The number of an array; one that the tape doesn't know is held from now on."""
        found = self._known.get(id(array))
        if found is not None and found[0]() is array:
            return found[1]
        number = self._number(array)
        self.leaves[number] = array
        if frame is not None and not (self.modules and _has(self.modules[-1], array)):
            name = name_in(user_frame(frame), array)
            if name:
                self.names[number] = name
        return number

    def made(self, array: mx.array, is_held: bool = False) -> Ref:
        """The number of an array that is new."""
        number = self._number(array)
        if self._keeps or is_held:
            self.held[number] = array
        return number

    def _number(self, array: mx.array) -> Ref:
        number = Ref(next(self._numbers))
        self._known[id(array)] = (weakref.ref(array), number)
        return number

    def keep_from_change(self, array: mx.array) -> Ref:
        """An array is going to be overwritten: what it was until now is held by another one."""
        number = self.ref(array)
        for kept in (self.leaves, self.held):
            if number in kept:
                kept[number] = copy.copy(array)
        return number

    # What is called.

    def stack(self, frame: FrameType | None) -> Stack:
        """Of a frame."""
        return take(frame, self._boundary, self._outer)

    def base(self, frame: FrameType) -> tuple[FrameType | None, Stack | None]:
        """What is called from a frame, which stays where it is, has its stack in common.

        Returns:
            What `base_again` takes, when that is over.
        """
        before = self._boundary, self._outer
        self._outer = take(frame, *before)
        self._boundary = frame
        return before

    def base_again(self, before: tuple[FrameType | None, Stack | None]) -> None:
        """It is over."""
        self._boundary, self._outer = before

    def op(
        self,
        op_type: str,
        redo: Callable[..., Any] | None,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        result: Any,
        frame: FrameType | None,
        overwritten: Ref | None = None,
    ) -> None:
        """An op was called."""
        try:
            arrays = [result] if type(result) is mx.array else [*arrays_in(result)]
            if not arrays:
                return
            refs: list[Any] = []
            if overwritten is not None:
                refs.append(overwritten)
                operands = (overwritten, *[self._packed(each, frame, refs) for each in args[1:]])
            else:
                operands = tuple([self._packed(each, frame, refs) for each in args])
            named = {key: self._packed(each, frame, refs) for key, each in kwargs.items()}
            outputs = tuple([self.made(each, redo is None) for each in arrays])
            self.is_opaque = self.is_opaque or redo is None
            stack = take(frame, self._boundary, self._outer)
            made = Op(
                op_type, redo, operands, named, refs, outputs, stack, self.modules, self.phase
            )
            self.body.append(made)
            self._check(arrays)
        except Exception as error:
            self._fail(error)

    def failed(
        self,
        error: Exception,
        op_type: str,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        frame: FrameType | None,
    ) -> None:
        """An op has raised an error."""
        try:
            refs: list[Any] = []
            operands = tuple([self._packed(each, frame, refs) for each in args])
            named = {key: self._packed(each, frame, refs) for key, each in kwargs.items()}
            stack = self.stack(frame)
            made = Op(op_type, None, operands, named, refs, (), stack, self.modules, self.phase)
            made.error = error
            self.errors.append((error, op_type))
            self.body.append(made)
        except Exception as own:
            self._fail(own)

    def call(
        self,
        traces: list[Tape],
        inputs: list[Ref],
        constants: list[Any],
        made: list[mx.array],
        frame: FrameType | None,
    ) -> None:
        """A compiled function was called."""
        try:
            is_opaque = not traces or any(each.is_opaque for each in traces)
            self.is_opaque = self.is_opaque or is_opaque
            outputs = [self.made(each, is_opaque) for each in made]
            stack, modules, phase = self.stack(frame), self.modules, self.phase
            self.body.append(Call(traces, inputs, constants, outputs, stack, modules, phase))
            self._check(made)
        except Exception as error:
            self._fail(error)

    # Functions of functions.

    def same(self, arrays: list[mx.array], known: list[mx.array]) -> None:
        """Arrays that are others over again."""
        try:
            for array, other in zip(arrays, known, strict=True):
                self._known[id(array)] = (weakref.ref(array), self.ref(other))
        except Exception as error:
            self._fail(error)

    def is_for(self, arrays: list[mx.array]) -> bool:
        """Whether the compiled function gets the same when it gets these."""
        return [(each.dtype, each.shape) for each in arrays] == self.kinds[:-1]

    def takes(self, arrays: list[mx.array], constants: list[Any]) -> None:
        """It is that of a compiled function, which gets these."""
        self.inputs = [self.made(each) for each in arrays]
        self.kinds = _kinds(arrays, constants)

    def gives(self, arrays: list[mx.array]) -> None:
        """The compiled function returns these."""
        self.outputs = [self.ref(each) for each in arrays]
        self._known.clear()

    def differentiates(
        self, frame: FrameType | None
    ) -> tuple[Differentiation, list[Op | Call | Differentiation]]:
        """A function that computes gradients was called; it, and what was recorded until now."""
        made = Differentiation(self.stack(frame), self.modules, self.phase)
        self.body.append(made)
        return made, self.body

    def enter(self, of: Differentiation, inner: list[mx.array], given: list[mx.array]) -> None:
        """The differentiated function is called, with arrays that stand for those given."""
        try:
            self.body = of.body
            if len(inner) == len(given):
                outer = [self.ref(each) for each in given]
                of.given = [(self.made(each), ref) for each, ref in zip(inner, outer, strict=True)]
        except Exception as error:
            self._fail(error)

    def left(self, of: Differentiation, result: Any) -> None:
        """It has returned."""
        try:
            made = [self.ref(each) for each in arrays_in(result)]
            of.result = made[0] if made else None
            of.values = [(each, each) for each in made]
        except Exception as error:
            self._fail(error)

    def came_back(
        self,
        of: Differentiation,
        value: Any,
        chosen: list[mx.array],
        gradients: list[mx.array],
    ) -> None:
        """The function that computes gradients has returned.

        Args:
            of: the call.
            value: what the differentiated function has returned; ``None``: it isn't returned.
            chosen: what is differentiated.
            gradients: of that.
        """
        try:
            places: dict[Ref, list[int]] = {}
            for place, (_, outer) in enumerate(of.given):
                places.setdefault(outer, []).append(place)
            refs = [self.ref(each) for each in chosen]
            found = [places[each].pop(0) for each in refs if places.get(each)]
            of.is_seen = len(refs) == len(gradients) == len(found)
            of.chosen = found if of.is_seen else []
            is_held = self.is_opaque or not of.is_seen
            of.gradients = [self.made(each, is_held) for each in gradients]
            returned = [*arrays_in(value)]
            if len(returned) == len(of.values):
                pairs = zip(returned, of.values, strict=True)
                of.values = [(self.made(each), made) for each, (_, made) in pairs]
            else:
                of.values = []
            self._check(gradients)
        except Exception as error:
            self._fail(error)

    def goes_on(self, thread: int) -> None:
        """It records this thread again."""
        if not self.is_broken:
            TAPES[thread] = self

    def _check(self, arrays: list[mx.array]) -> None:
        slots = self.plan.get(self.count)
        self.count += 1
        for slot in slots or ():
            if slot < len(arrays):
                self.checks.append(finite(arrays[slot], len(self.checks) in self.exact))

    def _fail(self, error: Exception) -> None:
        pass_on(error)
        self.is_broken = True
        for thread, tape in list(TAPES.items()):
            if tape is self:
                del TAPES[thread]
        if self._broken is not None:
            self._broken(error)

    def _packed(self, value: Any, frame: FrameType | None, refs: list[Any]) -> Any:
        """An operand with numbers for its arrays; they, and dtypes, are added to `refs`."""
        kind = type(value)
        if kind is mx.array:
            number = self.ref(value, frame)
            refs.append(number)
            return number
        if kind is tuple or kind is list:
            return kind([self._packed(each, frame, refs) for each in value])
        if kind is dict:
            return {key: self._packed(each, frame, refs) for key, each in value.items()}
        if kind is mx.Dtype:
            refs.append(str(value))
        return value


def _has(module: Any, array: mx.array) -> bool:
    return any(each is array for each in module.values())


def arrays_in(value: Any) -> Iterator[mx.array]:
    """The arrays of a nested value, in MLX's order."""
    kind = type(value)
    if kind is mx.array:
        yield value
    elif isinstance(value, list | tuple):
        for each in value:
            yield from arrays_in(each)
    elif isinstance(value, dict):
        for each in value.values():
            yield from arrays_in(each)
    elif kind is _STATE:
        yield value[0]


_STATE = type(mx.random.state)


def filled(value: Any, get: Callable[[Ref], Any]) -> Any:
    """Operands with arrays in the place of their numbers."""
    kind = type(value)
    if kind is Ref:
        return get(value)
    if kind is tuple or kind is list:
        return kind([filled(each, get) for each in value])
    if kind is dict:
        return {key: filled(each, get) for key, each in value.items()}
    return value


_isfinite, _all, _sum = mx.isfinite, mx.all, mx.sum


def finite(array: mx.array, is_exact: bool = True) -> mx.array:
    """A number that tells whether all elements are finite, by `is_finite`; not computed yet.

    Args:
        array: real numbers or complex ones.
        is_exact: else it may say that finite elements aren't, if their sum isn't.
    """
    if not is_exact and array.dtype == mx.float32:
        return _sum(array)  # in one pass
    return _all(_isfinite(array))


def is_finite(number: mx.array) -> bool:
    """Whether the elements are, of which `finite` has made a number."""
    found: Any = number.item()
    return found if isinstance(found, bool) else math.isfinite(found)
