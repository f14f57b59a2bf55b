"""Looks at a run of a TensorFlow 2 program: calls of traced functions, and ops between them."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tensorflow.python.framework import errors

from tfdbg_cli.common.interpreter.program_signals import contained
from tfdbg_cli.dumps.datum import Datum
from tfdbg_cli.dumps.dump import CannotRedo, NewValues
from tfdbg_cli.dumps.graph import Graph, Node
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.dumps.run_info import RunInfo
from tfdbg_cli.engines.base import Capture, Watch
from tfdbg_cli.engines.kit.clock import Clock
from tfdbg_cli.engines.kit.levels import CHECKED, FULL, ONLY_BAD, CaptureLevel
from tfdbg_cli.engines.kit.spill import SizeWarning
from tfdbg_cli.engines.kit.stacks import Stack, call_frame, take, user_frame, variables
from tfdbg_cli.engines.kit.watch_matcher import WatchMatcher
from tfdbg_cli.engines.tensorflow.functions.describing import (
    GRADIENT,
    Call,
    DescribedCall,
    Op,
    RunDescriber,
    returned,
)
from tfdbg_cli.engines.tensorflow.functions.keras_names import KerasNames
from tfdbg_cli.engines.tensorflow.functions.library import KnownFunction
from tfdbg_cli.engines.tensorflow.functions.ops import (
    MOST_AHEAD,
    MOST_BYTES_AHEAD,
    size_of,
    used,
    variables_given,
)
from tfdbg_cli.engines.tensorflow.functions.pipelines.described import ROOM
from tfdbg_cli.engines.tensorflow.functions.pipelines.iterators import Iterators
from tfdbg_cli.engines.tensorflow.functions.replicas import is_replica
from tfdbg_cli.engines.tensorflow.functions.slots import Slot, Slots, bad_of, is_bad
from tfdbg_cli.engines.tensorflow.functions.stepping.replacing import replace_results
from tfdbg_cli.engines.tensorflow.functions.traits import TRAITS
from tfdbg_cli.engines.tensorflow.functions.twins.twin import Twin
from tfdbg_cli.engines.tensorflow.functions.updates import handles_of, is_ordinary
from tfdbg_cli.engines.tensorflow.functions.variables import (
    holds_now,
    redo_reads,
    variable_values,
)
from tfdbg_cli.engines.tensorflow.shared.redo import redo_of
from tfdbg_cli.engines.tensorflow.shared.values import holdable

__all__ = ["ValuesLevel", "failing_node"]

# How the runtime's messages name the node that failed, before and after they are put into words.
_NODE = re.compile(r"(?:\{\{node |Detected at node '?)([^\s}']+)")
_OP = re.compile(r"\[Op:(\w+)\]")


class ValuesLevel(CaptureLevel):
    """Holds every tensor of a run.

    Args:
        watch: what is asked for.
        listen: sees ops from now on; returns what ends it.
        names: what Keras calls layers and variables.
        iterators: of the program.
        allowance: bytes that may be held while a bad tensor is waited for; ``None``: any number.
        spares_updates: ops of updates by optimizers that begin nothing bad aren't recorded.
    """

    level = FULL
    guarded = (*CaptureLevel.guarded, "op_done", "call_done", "begin_update", "end_update")

    def __init__(
        self,
        watch: Watch,
        listen: Callable[[Callable[..., None]], Callable[[], None]],
        names: KerasNames,
        iterators: Iterators,
        allowance: int | None = None,
        spares_updates: bool = False,
    ) -> None:
        super().__init__(watch)
        self.allowance, self._spares_updates = allowance, spares_updates
        self._warning = SizeWarning(None)
        self._listen, self._names, self._iterators = listen, names, iterators
        self._deafen: Callable[[], None] | None = None
        self._thread = threading.get_ident()
        self._matcher, self._clock = WatchMatcher(watch), Clock()
        self._events: list[Op | Call] = []
        self._is_ahead, self._bytes_ahead = False, 0
        self._backward = 0  # tapes that compute gradients, one within another
        self._is_asking = False
        self._updating: Any = None  # the optimizer whose ops aren't recorded
        self._updated = ""  # the class of one whose ops weren't
        self._begins_at = 0  # so many events came before the run
        self._inputs: dict[str, Any] = {}
        self._known: dict[int, Any] = {}  # held: no other tensor has its identity
        self._bytes = 0  # of what ops have made that were executed by themselves
        self._slots: Slots | None = None  # stand for them once they are too many
        self._failed: tuple[BaseException | None, str] = (None, "")
        self._made: tuple[list[Node], list[Datum], dict[int, str]] | None = None
        self.gap = ""
        self.returning: Sequence[Any] | None = None  # of the call that the run is
        self.stepped: MemoryDump | None = None  # of a run that somebody has stepped through
        self._definitions: dict[str, Any] = {}  # of the nodes, once they were described
        self.dump = self._dump = self._make_dump()
        self._calls: Sequence[DescribedCall] = ()

    def _make_dump(self) -> MemoryDump:
        info = RunInfo(engine=TRAITS.name)
        dump = MemoryDump(
            lambda: Graph(self._described()[0]), None, info, make=lambda: self._described()[1]
        )
        dump.redo = redo_reads(dump, redo_of(self._definition))
        return dump

    def start(self) -> None:
        if self._deafen is None:
            self._deafen = self._listen(self.op_done)

    def stop(self) -> None:
        deafen, self._deafen = self._deafen, None
        if deafen is not None:
            deafen()

    def enter_phase(self, phase: str, owner: Any = None) -> None:
        self._backward += 1

    def leave_phase(self) -> None:
        self._backward = max(self._backward - 1, 0)

    def begin_update(self, optimizer: Any) -> None:
        """An optimizer begins to apply gradients."""
        is_watched = self._deafen is not None and threading.get_ident() == self._thread
        if self._spares_updates and is_watched:
            self.stop()
            if is_ordinary(optimizer):
                self._updating = optimizer
            else:
                self.start()

    def end_update(self) -> None:
        """It has done so; what it has written to is looked at."""
        optimizer, self._updating = self._updating, None
        if optimizer is None:
            return
        values = variable_values(handles_of(optimizer))
        self._updated = kind = type(optimizer).__name__
        self.start()
        if bad_of(values.values()) and not self._has_bad():
            self.refusal = f"no op of {kind}'s update was recorded"
            for name, value in values.items():
                if is_bad(value):
                    self.op_done(kind, f"{name}/update", (), (), [value])
            self._dump.warnings.append(
                f"{kind}'s update made it, or found it in its state: no op of it was recorded "
                "(config set level ops). The next runs are watched op by op."
            )

    def _has_bad(self) -> bool:
        return any(
            event.news() if isinstance(event, Call) else any(map(is_bad, event.outputs))
            for event in self._events
        )

    def look_ahead(self) -> None:
        self._is_ahead = True

    def begin_run(self) -> None:
        super().begin_run()
        self._is_ahead, self._begins_at = False, len(self._events)

    def name_inputs(self, tensors: Callable[[], Mapping[str, Any]]) -> None:
        self._inputs.update(tensors())

    # While the program runs.

    def op_done(
        self,
        op_type: str,
        name: str,
        inputs: Sequence[Any],
        attributes: Any,
        outputs: Sequence[Any],
    ) -> None:
        """An op was executed by itself."""
        if self._is_asking or (threading.get_ident() != self._thread and not is_replica()):
            return
        event = Op(list(inputs), self._stack(), self._clock.now())
        self._name(event)
        if self._backward and not name.startswith(GRADIENT):
            name = f"{GRADIENT}{name}"
        event.op_type, event.name, event.attributes = op_type, name, tuple(attributes or ())
        event.outputs = list(outputs)
        self._events.append(event)
        self._keep(event)
        if self._is_ahead:
            self._bytes_ahead += size_of(outputs)
            if len(self._events) > MOST_AHEAD or self._bytes_ahead > MOST_BYTES_AHEAD:
                # Hardly any of it is going to be used by a run.
                self._bytes_ahead = 0
                self._events, self._known, self._inputs = [], {}, {}

    def _keep(self, event: Op) -> None:
        """Hold what an op has made, if there is room for it."""
        if self._slots is not None:
            self._slots.put(event)
            return
        for tensor in event.outputs:
            self._known[id(tensor)] = tensor
        self._bytes += size_of(event.outputs)
        self._warning.see(self._bytes)
        if self.allowance is not None and self._bytes > self.allowance:
            self._slots = Slots()
            for each in self._events:
                if isinstance(each, Op):
                    for tensor in each.outputs:
                        del self._known[id(tensor)]
                    self._slots.put(each)
            self._dump.lists_only_bad = True
            self._dump.kept = ONLY_BAD

    def _name(self, op: Op) -> None:
        """Note what the user calls the inputs of an op that nothing in the run has made."""
        found: dict[int, str] | None = None
        variables_left: list[Any] | None = None
        for tensor in op.inputs:
            is_made = self._slots is not None and self._slots.of(tensor) is not tensor
            if is_made or id(tensor) in self._known:
                continue
            self._known[id(tensor)] = tensor
            if variables_left is None:
                variables_left = variables_given(sys._getframe(2))
            if self._was_read(tensor, variables_left, op):
                continue
            if found is None:
                frame = user_frame(sys._getframe(2))
                held = variables(frame) if frame is not None else {}
                found = {id(value): name for name, value in held.items()}
            if id(tensor) in found:
                self._inputs.setdefault(found[id(tensor)], tensor)

    def _was_read(self, tensor: Any, given: list[Any], op: Op) -> bool:
        """Whether an input is what a variable holds; TensorFlow tells of no op that has read it.

        Args:
            tensor: the input.
            given: the variables that the op was called with and that aren't read yet.
            op: itself.
        """
        for variable in given:
            if variable.dtype != tensor.dtype or variable.shape != tensor.shape:
                continue
            self._is_asking = True  # our own read is no op of the program's
            is_held = holds_now(variable.handle, tensor)
            self._is_asking = False
            if is_held:
                given.remove(variable)
                event = Op([variable.handle], op.stack, op.timestamp)
                event.op_type = event.name = "ReadVariableOp"
                event.outputs = [tensor]
                self._events.append(event)
                self._keep(event)
                return True
        return False

    def call_done(
        self,
        function: Any,
        known: KnownFunction,
        arguments: Sequence[Any],
        results: Sequence[Any],
        added: Sequence[Any],
        twin: Twin | None = None,
    ) -> None:
        """A traced function was called, by its twin."""
        event = Call(list(arguments), self._stack(), self._clock.now())
        event.function, event.known = function, known
        event.twin = twin or known.twin()
        event.outputs, event.added = list(results), list(added)
        self._known.update((id(tensor), tensor) for tensor in results)
        self._events.append(event)

    def call_failed(
        self, function: Any, known: KnownFunction, arguments: Sequence[Any], error: BaseException
    ) -> None:
        """A call of a traced function has raised an error."""
        self.call_done(function, known, arguments, (), ())
        call = self._events[-1]
        assert isinstance(call, Call)
        call.failed = failing_node(error)
        self._failed = (error, call.failed)

    def op_failed(self, error: BaseException) -> None:
        """An error comes out of the run; maybe an op's that was executed by itself."""
        found = _OP.search(str(error))
        if self._failed[0] is None and found and isinstance(error, errors.OpError):
            event = Op([], self._stack(), self._clock.now())
            event.op_type, event.name = found[1], found[1]
            self._events.append(event)
            self._failed = (error, found[1])

    def _stack(self) -> Stack:
        return take(call_frame(sys._getframe(2)), None, None)

    def seen(self) -> MemoryDump:
        """Everything."""
        return self._dump

    @property
    def has_calls(self) -> bool:
        """Whether traced functions were called."""
        return any(isinstance(event, Call) for event in self._events)

    @property
    def has_one_call(self) -> bool:
        """Whether a call of a traced function is all that was done."""
        return len(self._events) == 1 and isinstance(self._events[0], Call)

    def discard(self) -> None:
        super().discard()
        self._events, self._known, self._inputs = [], {}, {}

    # Afterwards.

    def describing(self, has_values: bool = True) -> tuple[RunDescriber, list[Node], list[Datum]]:
        """The run in words as far as it has come, with what it is made of."""
        made = RunDescriber(self._inputs, self._matcher, self._names, has_values)
        nodes, data, _ = made.describe(self._events)
        return made, nodes, data

    def glimpse(self) -> MemoryDump:
        events = used(list(self._events), self._begins_at)
        nodes, data, _ = RunDescriber(self._inputs, self._matcher, self._names).describe(events)
        graph = Graph(nodes)
        return MemoryDump(lambda: graph, make=lambda: data)

    def tensor_name(self, tensor: Any) -> str:
        if self._slots is not None:
            tensor = self._slots.of(tensor)
        return self._described()[2].get(id(tensor), "")

    def name_later(self, tensor: Any) -> Callable[[], str]:
        return lambda: self.tensor_name(tensor)

    def failed_op(self, error: BaseException) -> str:
        failed, node = self._failed
        return node if error is failed else ""

    def finish(self, error: BaseException | None) -> Capture:
        capture = super().finish(error)
        self._events = used(self._events, self._begins_at)
        capture.gap = self.gap
        capture.replaced, capture.held = self._replaced, self._held
        if sum(isinstance(event, Call) for event in self._events) == 1:
            capture.value = self.returning
        if self.stepped is not None:
            capture.dump = self.stepped
        if error is None and self.watch.filter_name in CHECKED:
            calls = [(call, call.news()) for call in self._events if isinstance(call, Call)]
            made = (each for op in self._events if isinstance(op, Op) for each in op.outputs)
            has_bad = any(news for _, news in calls) or bool(bad_of(made))
            capture.filter_passed = has_bad and self._is_hit()
            unclear = [call for call, news in calls if news and call.is_of_xla]
            if unclear and not capture.filter_passed:
                found = self._is_hit_by_xla(unclear)
                capture.dump, capture.filter_passed = self._dump, found is True
                if found is False:  # its infinities are meant
                    unclear = [call for call in unclear if call.known.has_steps]
            ops = len(self._events) - len(calls)
            parts = [f"{len(calls)} call(s)"] if calls else []
            parts += [f"{ops} op(s)"] if ops or not calls else []
            capture.progress_text = f"none in {' and '.join(parts)}"
            if not capture.filter_passed:
                for call, news in calls:
                    if news and not call.is_kept:
                        capture.gap = (
                            f"{call.known.title} made a nan or an infinity after it wrote to "
                            "a variable, and its inputs aren't kept there; config set level values "
                            "keeps them"
                        )
                        continue
                    if call in unclear:
                        capture.gap = (
                            f"{call.known.title}, which XLA compiles, made a nan or an "
                            "infinity that isn't there when values are recomputed"
                        )
                    call.known.excused |= news
                capture.dump, capture.make_dump = None, lambda: self._dump
        return capture

    def _held(self) -> Iterator[tuple[str, Any]]:
        """What ops and calls were given and have made, and the variables; see `Capture.held`."""
        tensors = [each for event in self._events for each in (*event.inputs, *event.outputs)]
        # To name them takes longer than to read them, and mostly a run is like the last one: it
        # has the same ops, of the same variables and inputs, wired in the same way.
        order, inputs = dict[int, int](), {id(each): name for name, each in self._inputs.items()}
        key = (
            *(each.name if isinstance(each, Op) else each.twin.name for each in self._events),
            *(order.setdefault(id(each), len(order)) for each in tensors),
            *(inputs.get(at) for at in order),
            *(id(each) for each in tensors if not holdable(each.dtype)),
        )
        names = self._names.of_run(key, lambda: self._names_of(tensors))
        handles = {}
        for name, tensor in zip(names, tensors, strict=False):
            held = tensor.tensor if isinstance(tensor, Slot) else tensor
            if name and held is not None:
                if holdable(held.dtype):
                    yield name, held.numpy()
                else:
                    handles[name] = held
        for name, value in variable_values(handles).items():
            yield name, value.numpy()

    def _names_of(self, tensors: Sequence[Any]) -> Sequence[str]:
        """The names of tensors, each where it comes first; empty: it has none, or came before."""
        describer = RunDescriber(self._inputs, self._matcher, self._names, has_values=False)
        names = describer.describe(self._events)[2]
        return [names.pop(id(tensor), "") for tensor in tensors]

    def _replaced(self, value: Any, new: NewValues) -> Any:
        """See `Capture.replaced`."""
        if value is None:
            raise CannotRedo(
                "TensorFlow's eager tensors can't be changed, and the program has them already"
            )
        _, _, names = self._described()
        return replace_results(self._dump, self._calls[0], names, value, new)

    def _is_hit(self) -> bool:
        """Whether the filter passes."""
        return self.watch.passes(self._dump, on_error=lambda *_: None)

    def _is_hit_by_xla(self, calls: Sequence[Call]) -> bool | None:
        """Whether it does so with what XLA makes of calls when it computes them again.

        ``None``: it can't.
        """
        before, found = self._made, None
        self._dump, self._made = self._make_dump(), None
        with contained:  # XLA can't, with all that is to be given
            for call in calls:
                call.by_xla = True
            found = self._is_hit()
        if not found:
            for call in calls:
                call.by_xla = False
            self._dump, self._made = self._make_dump(), before
        self.dump = self._dump
        return found

    def details(self) -> list[tuple[str, str]]:
        """Where the values of traced functions come from."""
        calls = [event for event in self._events if isinstance(event, Call)]
        lost = dict.fromkeys(call.known.title for call in calls if not call.is_kept)
        calls = [call for call in calls if call.is_kept]
        held = {call.known.title: why for call in calls if (why := call.known.holds)}
        texts = [f"of {title} held, as {why}" for title, why in held.items()]
        texts += [f"of {title} not kept: its variables are large" for title in lost]
        if any(not call.known.holds for call in calls):
            texts.insert(0, "recomputed from each call's inputs")
        if any(call.by_xla for call in calls):
            texts[0] += ", by XLA, without which nothing is bad; none in loops and branches"
        elif any(call.is_of_xla for call in calls):
            texts[0] += ", without XLA"
        found = [("Values", text) for text in texts]
        if self._updated:
            text = f"not recorded, what it wrote was checked ({self._updated}): "
            found.append(("Update", f"{text}config set level ops records it"))
        return found

    def outputs(self) -> dict[str, str]:
        """Where each result of the call that the run is is in what it returns -> its tensor."""
        if self.returning is None:
            return {}
        calls = self._calls or self.describing(has_values=False)[0].calls
        if len(calls) != 1:
            return {}
        with contained:  # what a function returns is nested by rules that TensorFlow may change
            return returned(calls[0], self.returning)
        return {}

    def _definition(self, node: str) -> Any:
        """What `redo_of` finds."""
        found = self._definitions.get(node)
        if found is None and node.startswith(f"{ROOM}/"):
            raise CannotRedo("tf.data has computed it")
        return found

    def _described(self) -> tuple[list[Node], list[Datum], dict[int, str]]:
        """The nodes, the tensors, and the names of those that the program has."""
        if self._made is None:
            describing = RunDescriber(self._inputs, self._matcher, self._names)
            self._made = describing.describe(self._events)
            self._definitions.clear()
            self._definitions |= describing.definitions
            self._calls = describing.calls
            if note := describing.trace_input(self._iterators):
                self._dump.warnings.append(note)
            self._dump.warnings += describing.lacks
        return self._made


def failing_node(error: BaseException) -> str:
    """The node of a function that has raised an error, by its name in it; empty: not known."""
    found = _NODE.search(str(error))
    return found[1] if found else ""
