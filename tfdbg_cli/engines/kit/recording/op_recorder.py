"""Records the ops of a run as an engine tells of them: their names, values, inputs and stacks."""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import FrameType
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from tfdbg_cli.common.errors import one_line, related
from tfdbg_cli.common.interpreter.program_signals import pass_on
from tfdbg_cli.common.node_words import (
    API,
    ARGUMENT,
    BACKWARD,
    BACKWARD_CALLED_AT,
    ERROR,
    FORWARD,
    FORWARD_NODE,
    GRAD_OF,
    GRADIENTS,
    INPUTS,
    PHASE,
)
from tfdbg_cli.dumps.dtypes import name_of
from tfdbg_cli.dumps.dump import Datum, InconvertibleTensorProto
from tfdbg_cli.dumps.graph import Graph, Node
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.dumps.sources import Frame, own_frame
from tfdbg_cli.engines.base import Capture, Watch
from tfdbg_cli.engines.kit.clock import Clock
from tfdbg_cli.engines.kit.levels import CHECKED, FULL, RECORDS, CaptureLevel
from tfdbg_cli.engines.kit.numbering import Numbering
from tfdbg_cli.engines.kit.recording.holding import Holder
from tfdbg_cli.engines.kit.sites import name_in
from tfdbg_cli.engines.kit.stacks import Stack, call_frame, take, user_frame
from tfdbg_cli.engines.kit.thread_follower import ThreadFollower
from tfdbg_cli.engines.kit.watch_matcher import WatchMatcher
from tfdbg_cli.tensors.numeric import has_nonfinite

__all__ = ["OpRecorder", "RecordingEngine"]

# How deep tensors may be in lists and dictionaries among an op's operands.
_DEEPEST = 3
_LONGEST_TEXT = 80
_NOT_HELD = "Only bad tensors and what they were computed from are held at this level."


class RecordingEngine(Protocol):
    """The engine of a recorder; `ProgramKit` is one.

    Attributes:
        recorders: the recorder that is on, by thread.
    """

    recorders: dict[int, OpRecorder]

    def value(self, name: str) -> Any:
        """The value of a setting now, the engine's own included."""


class _Tensor(NamedTuple):
    """A tensor of the program's that the run has made or was given.

    Attributes:
        node, slot: its name.
        time: when it was made.
        get: gives it, as long as it is there.
    """

    node: str
    slot: int
    time: int
    get: Callable[[], Any]


class _Place(NamedTuple):
    """Where a thread is in the run: its phases, and the forward op whose gradient is computed."""

    phases: tuple[str, ...] = ()
    forward: str = ""


class OpRecorder(CaptureLevel):
    """Records one run: the engine calls `op` after each op, and `failed` if one has raised.

    At the level `FULL` every value is held. At `RECORDS`, while a filter is awaited that only nan
    and infinities pass, a bad tensor is held, and what its op was given; all else is let go at
    once. Ops of the thread on which the run was opened are recorded, and of threads that it starts
    in the run.

    A subclass says what a tensor is. Public methods that it adds are guarded: what they raise never
    reaches the program, and they return nothing.

    Args:
        watch: what is asked for.
        level: `FULL` or `RECORDS`.
        engine: whose run it is.

    Attributes:
        tensors: the classes of tensors. Scalars that no op of the run has made are numbers.
        copies: the framework, or the program, may overwrite a tensor: values are copied at once.
            Otherwise tensors are held, and `array` is called when somebody looks at them.
        framework: the beginning of the paths of the framework's own files, whose frames are left
            out; empty: it is installed, so that they are known as a library's.
    """

    tensors: ClassVar[tuple[type, ...]] = (np.ndarray, np.generic)
    copies: ClassVar[bool] = True
    framework: ClassVar[str] = ""
    guarded = (
        *CaptureLevel.guarded,
        *("op", "came_back", "failed", "goes_back", "gradient"),
    )

    def __init_subclass__(cls) -> None:
        own = [n for n, each in vars(cls).items() if callable(each) and not n.startswith("_")]
        cls.guarded = (*cls.guarded, *(n for n in own if not hasattr(OpRecorder, n)))

    def __init__(self, watch: Watch, level: str, engine: RecordingEngine) -> None:
        super().__init__(watch)
        self.level = level
        self.setting = engine.value
        self._recorders = engine.recorders
        self._matcher, self._names, self._clock = WatchMatcher(watch), Numbering(), Clock()
        self._holder = Holder(watch.limit, self._converted)
        self._threads = ThreadFollower()
        self._places: dict[int, _Place] = {}
        self._nodes: dict[str, Node] = {}
        self._known: dict[int, _Tensor] = {}  # by identity: what a tensor is called now
        self._tensors: dict[str, _Tensor] = {}
        self._gradients: dict[str, str] = {}
        self._failed: tuple[BaseException | None, str] = (None, "")
        self._is_checked = watch.filter_name in CHECKED
        self._last, self._count, self._has_bad = "", 0, False
        nodes = self._nodes  # not by way of this, which has references to the program's tensors
        self.dump: MemoryDump = MemoryDump(lambda: Graph(nodes.values()))
        if level == RECORDS:
            self.dump.lists_only_bad, self.dump.suspects = True, frozenset()
            self.dump.absence = lambda node: _NOT_HELD if node in nodes else ""

    # What a framework's tensors are.

    def plain(self, value: Any) -> Any:
        """What the program has as a tensor: without what the framework wraps around it."""
        return value

    def array(self, tensor: Any) -> Any:
        """The elements of a tensor as a NumPy array."""
        return np.asarray(tensor)

    def dtype(self, tensor: Any) -> str:
        """The element type of a tensor, as NumPy calls it."""
        return name_of(self.array(tensor).dtype)

    def is_bad(self, tensor: Any) -> bool:
        """Whether a tensor has a nan or an infinity."""
        return has_nonfinite(self.array(tensor))

    # What the program does.

    def op(
        self,
        op_type: str,
        inputs: Iterable[Any],
        outputs: Any,
        frame: FrameType | Stack | None = None,
        *,
        name: str = "",
        phase: str = "",
        forward: Any = None,
        numbers: Mapping[str, Any] | None = None,
        words: Mapping[str, str] | None = None,
    ) -> None:
        """An op is done.

        Args:
            op_type: as `OpRoles` knows it.
            inputs: its operands in their order, tensors and others, also in lists. A number is
                the attribute ``_arg_1``, say, from which reasons are found.
            outputs: a tensor, or several in a list.
            frame: where it was called, or the stack of that; default: the innermost frame that
                isn't the debugger's.
            name: of its node; default: the op type.
            phase: ``forward``, ``backward``, ``optimizer``; default: the one that was entered.
            forward: a tensor that a forward op has made, whose gradient it computes; default: that
                of `goes_back`.
            numbers: further arguments by name: ``_arg_axis``.
            words: further attributes of the node, as `node_words` calls them.
        """
        node = self._node(op_type, inputs, frame, name, phase, forward, numbers or {}, words)
        self._has_made(node, self._outputs(outputs))

    def came_back(
        self,
        forward: Any,
        given: Any,
        gradients: Any,
        frame: FrameType | Stack | None = None,
        *,
        words: Mapping[str, str] | None = None,
    ) -> None:
        """Gradients have come back through a forward op, maybe by functions that were not seen.

        Args:
            forward: a tensor that the op has made.
            given: the gradients of what it has made.
            gradients: of its inputs. If ops that were seen have made all of them, nothing is added;
                else a node that has the forward op's type with ``_vjp`` behind it, and as its
                inputs what came back, then the forward op's.
            frame: where the backward pass was called, as of `op`.
            words: as of `op`.
        """
        made, maker = self._outputs(gradients), self._nodes.get(self._maker(forward))
        if maker is not None and not all(self.tensor_name(each) for each in made):
            op_type, given = f"{maker.op_type}_vjp", self._outputs(given)
            more = maker.inputs
            node = self._node(op_type, given, frame, "vjp", BACKWARD, forward, {}, words, more)
            self._has_made(node, made)

    def failed(
        self,
        error: BaseException,
        op_type: str,
        inputs: Iterable[Any],
        frame: FrameType | Stack | None = None,
        *,
        name: str = "",
        numbers: Mapping[str, Any] | None = None,
        words: Mapping[str, str] | None = None,
    ) -> None:
        """An op has raised an error; what it has gone through on its way out says nothing new."""
        if not any(each is self._failed[0] for each in related(error)):
            given = {**(numbers or {}), ERROR: one_line(error)}
            node = self._node(op_type, inputs, frame, name, "", None, given, words)
            self._failed = (error, node)

    def goes_back(self, made: Any) -> None:
        """The ops that follow compute gradients of the op that has made a tensor."""
        place = self._place()
        self._move(place._replace(forward=self._maker(made)))

    def gradient(self, of: Any, value: Any) -> None:
        """A tensor is the gradient of an input or a parameter of the run."""
        self._gradients[self._maker(value)] = self._maker(of)

    def enter_phase(self, phase: str, owner: Any = None) -> None:
        """The ops that follow are in a phase, on this thread: ``backward``, ``optimizer``."""
        place = self._place()
        self._move(_Place((*place.phases, phase)))

    def leave_phase(self) -> None:
        """The phase ends."""
        self._move(_Place(self._place().phases[:-1]))

    def name_inputs(self, tensors: Callable[[], Mapping[str, Any]]) -> None:
        """They are nodes called ``input/NAME``."""
        for name, value in tensors().items():
            self._add(f"{INPUTS}{name}", "Input", [self.plain(value)])

    # On and off, on several threads.

    @property
    def is_on(self) -> bool:
        """Whether it records at the moment."""
        return self in self._recorders.values()

    def start(self) -> None:
        """Record what this thread does, and threads that it starts."""
        self._recorders[threading.get_ident()] = self
        self._threads.own(self)
        self._threads.enter()

    def stop(self) -> None:
        """Record nothing."""
        self._threads.leave()
        for thread, recorder in list(self._recorders.items()):
            if recorder is self:
                del self._recorders[thread]

    def here(self) -> Any:
        """Where the calling thread is in the run."""
        return self._place()

    def join(self, place: Any) -> Callable[[], None]:
        """The calling thread belongs to the run from now on; the way back."""
        thread = threading.get_ident()
        self._recorders[thread] = self
        self._places[thread] = place

        def leave() -> None:
            if self._recorders.get(thread) is self:
                del self._recorders[thread]

        return leave

    # What is asked of it.

    def tensor_name(self, tensor: Any) -> str:
        """``node:slot``."""
        found = self._find(tensor)
        return f"{found.node}:{found.slot}" if found is not None else ""

    def failed_op(self, error: BaseException) -> str:
        """The node that raised an error, or what it was raised from."""
        failed, name = self._failed
        is_ours = failed is not None and any(each is failed for each in related(error))
        return name if is_ours else ""

    def progress(self) -> str:
        """``after NODE``."""
        return f"after {self._last}" if self._last else ""

    def glimpse(self) -> MemoryDump | None:
        """The ops until now."""
        made = MemoryDump(Graph(tuple(self._nodes.values())))
        made.lists_only_bad, made.suspects = self.dump.lists_only_bad, self.dump.suspects
        made.absence = self.dump.absence
        for datum in tuple(self.dump.added):
            made.add_datum(datum)
        return made

    def seen(self) -> MemoryDump | None:
        """The values, if they were held."""
        return self.dump if self.level == FULL else None

    def finish(self, error: BaseException | None) -> Capture:
        """The dump; none if it is known that nothing in it is bad."""
        capture = super().finish(error)
        capture.progress_text = f"none of {self._count} ops"
        self.is_large = self._holder.spilled_bytes > 0
        capture.held = self.dump.arrays
        if self._holder.problem:
            self.dump.warnings.append(self._holder.problem)
        if self._is_checked and error is None and not self._has_bad:
            dump, capture.dump, capture.filter_passed = self.dump, None, False
            capture.make_dump = (lambda: dump) if self.level == FULL else None
        elif self.level == RECORDS:
            self.dump.kept = f"{_NOT_HELD[:-1]} (`config set level values` keeps all)."
        self._known.clear()
        self._tensors.clear()
        return capture

    # Nodes.

    def _node(
        self,
        op_type: str,
        inputs: Iterable[Any],
        at: FrameType | Stack | None,
        name: str,
        phase: str,
        forward: Any,
        numbers: Mapping[str, Any],
        words: Mapping[str, str] | None = None,
        more: Iterable[str] = (),
    ) -> str:
        self._count += 1
        place = self._place()
        frame = None if isinstance(at, Stack) else self._caller(at)
        taken: list[str] = []
        attributes: dict[str, str] = {}
        for position, value in enumerate(inputs):
            self._take(f"{ARGUMENT}{position}", value, frame, taken, attributes)
        for key, value in numbers.items():
            self._take(key if key == ERROR else f"{ARGUMENT}{key}", value, frame, taken, attributes)
        taken += more
        phase = phase or (place.phases[-1] if place.phases else FORWARD)
        attributes |= {PHASE: phase, API: op_type, **(words or {})}
        base = name or op_type
        source = self._maker(forward) if forward is not None else place.forward
        stack = at if isinstance(at, Stack) else take(frame, None, None)
        if phase == BACKWARD:
            base = f"{GRADIENTS}{source}/{base}" if source else f"{GRADIENTS}{base}"
            attributes |= {FORWARD_NODE: source} if source else {}
        elif phase != FORWARD:
            base = f"{phase}/{base}"
        return self._add(base, op_type, (), taken, attributes, stack)

    def _take(
        self,
        name: str,
        value: Any,
        frame: FrameType | None,
        taken: list[str],
        attributes: dict[str, str],
    ) -> None:
        """Note an operand: the tensors in it, or else what it is in words."""
        found = list(self._parts(value))
        taken += [self.tensor_name(each) or self._constant(each, frame) for each in found]
        text = "" if found else _text(self.plain(value))
        if text:
            attributes[name] = text

    def _constant(self, tensor: Any, frame: FrameType | None) -> str:
        name = name_in(user_frame(frame), tensor) or self._names.unnamed()
        return self._add(name, "Constant", [tensor], stack=take(frame, None, None)) + ":0"

    def _add(
        self,
        base: str,
        op_type: str,
        outputs: Iterable[Any],
        inputs: Iterable[str] = (),
        attributes: dict[str, str] | None = None,
        stack: Stack | None = None,
    ) -> str:
        name = self._names.name(base)
        nodes, gradients, framework = self._nodes, self._gradients, self.framework
        source = (attributes or {}).get(FORWARD_NODE, "")

        def frames() -> tuple[Frame, ...]:
            if source in nodes:  # the line that is to blame for a gradient
                return nodes[source].frames or ()
            return _without(stack, framework)

        def words() -> dict[str, str]:
            found = dict(attributes or {})
            if name in gradients:
                found[GRAD_OF] = gradients[name]
            if found.get(PHASE) == BACKWARD:
                own = own_frame(_without(stack, framework))
                found |= {BACKWARD_CALLED_AT: _place_of(own)} if own is not None else {}
            return found

        nodes[name] = Node(name, op_type, inputs, attributes=words, frames=frames)
        self._has_made(name, outputs)
        self._last = name
        return name

    # Values.

    def _has_made(self, name: str, outputs: Iterable[Any]) -> None:
        """A node's outputs are there; at the level without values only bad ones are held."""
        node = self._nodes[name]
        for slot, value in enumerate(outputs):
            made = _Tensor(name, slot, self._clock.now(), _reference(value, self._known))
            is_bad = self._is_checked and self.is_bad(value)
            self._has_bad = self._has_bad or is_bad
            if is_bad and self.level != FULL:
                self._keep_inputs(node, value)
            self._known[id(value)] = self._tensors[f"{name}:{slot}"] = made
            if is_bad or self.level == FULL:
                self._keep(made, value, node.op_type)

    def _keep_inputs(self, node: Node, value: Any) -> None:
        for name in node.inputs:
            each = self._tensors.get(name)
            tensor = each.get() if each is not None else None
            # One that was overwritten since is known by another name.
            if each is not None and tensor is not value and self._known.get(id(tensor)) is each:
                self._keep(each, tensor, self._nodes[each.node].op_type)

    def _keep(self, made: _Tensor, value: Any, op_type: str) -> None:
        if not self._matcher.wants(made.node, op_type, self.dtype(value)):
            return
        name = f"{made.node}:{made.slot}"
        if self.level != FULL and self.dump.by_tensor(name):
            return
        held = np.array(self.array(value)) if self.copies else value
        size = getattr(held, "nbytes", 0)
        size = int(size) if isinstance(size, int | np.integer) else 0  # a method, elsewhere
        read = self._holder.hold(held, size)
        self.dump.add_datum(
            Datum(
                made.node,
                made.slot,
                read,
                timestamp=made.time,
                dtype=self.dtype(value),
                shape=tuple(getattr(held, "shape", ())),
                nbytes=size,
            )
        )

    def _converted(self, held: Any) -> Any:
        try:
            return held if isinstance(held, np.ndarray) else self.array(held)
        except Exception as error:
            pass_on(error)
            return InconvertibleTensorProto(one_line(error))

    # Tensors.

    def _outputs(self, value: Any) -> list[Any]:
        value = self.plain(value)
        several = value if isinstance(value, list | tuple) else (value,)
        return [each for each in map(self.plain, several) if isinstance(each, self.tensors)]

    def _parts(self, value: Any, depth: int = _DEEPEST) -> Iterator[Any]:
        """The tensors of an operand."""
        value = self.plain(value)
        if isinstance(value, list | tuple):
            for each in value if depth else ():
                yield from self._parts(each, depth - 1)
        elif isinstance(value, Mapping):
            for each in value.values() if depth else ():
                yield from self._parts(each, depth - 1)
        elif self._find(value) is not None or (
            isinstance(value, self.tensors) and not isinstance(value, np.generic)
        ):
            yield value

    def _find(self, tensor: Any) -> _Tensor | None:
        tensor = self.plain(tensor)
        found = self._known.get(id(tensor))
        return found if found is not None and found.get() is tensor else None

    def _maker(self, tensor: Any) -> str:
        found = self._find(tensor)
        return found.node if found is not None else ""

    # Where it is called.

    def _place(self) -> _Place:
        return self._places.get(threading.get_ident(), _Place())

    def _move(self, place: _Place) -> None:
        self._places[threading.get_ident()] = place

    def _caller(self, frame: FrameType | None) -> FrameType | None:
        found = frame or call_frame(sys._getframe(1))
        while found is not None and self._is_framework(found):
            found = found.f_back
        return found

    def _is_framework(self, frame: FrameType) -> bool:
        path = self.framework
        return bool(path) and frame.f_code.co_filename.startswith(path)


def _reference(value: Any, known: dict[int, _Tensor]) -> Callable[[], Any]:
    """Gives a tensor as long as the program has it; one that can't be told so is held."""
    key = id(value)

    def gone(reference: Any) -> None:
        found = known.get(key)
        if found is not None and found.get is reference:
            del known[key]

    try:
        return weakref.ref(value, gone)
    except TypeError:
        return lambda: value


def _without(stack: Stack | None, framework: str) -> tuple[Frame, ...]:
    frames = stack.frames() if stack is not None else ()
    if not framework:
        return frames
    return tuple(each for each in frames if not each.file.startswith(framework))


def _place_of(frame: Frame) -> str:
    return f"{frame.file}:{frame.line} in {frame.function}"


def _text(value: Any) -> str:
    """An operand that is no tensor in words; empty: none that cost nothing."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, list | tuple):
        if not all(isinstance(each, int | float | str | slice | None) for each in value):
            return ""
    elif not isinstance(value, int | float | complex | str | slice | np.dtype | type):
        return ""
    return str(value)[:_LONGEST_TEXT]
