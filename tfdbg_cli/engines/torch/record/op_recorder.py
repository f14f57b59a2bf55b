"""Makes the records of a run: inputs, outputs, names and values of each op."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import FrameType
from typing import Any

import torch

from tfdbg_cli.common.errors import message_of
from tfdbg_cli.common.interpreter.signal_gate import uninterrupted
from tfdbg_cli.engines.kit.stacks import Stack
from tfdbg_cli.engines.kit.watch_matcher import WatchMatcher
from tfdbg_cli.engines.torch.names.failed_calls import FailedCall, failed_call
from tfdbg_cli.engines.torch.names.optimizers import Updates
from tfdbg_cli.engines.torch.names.scopes import Names
from tfdbg_cli.engines.torch.private import (
    MAY_CAPTURE,
    current_node,
    functions_seen,
    is_capturing,
    next_sequence,
    quiet,
    storage_key,
)
from tfdbg_cli.engines.torch.record.generated import script_place
from tfdbg_cli.engines.torch.record.holding import Holder
from tfdbg_cli.engines.torch.record.op_facts import REAL
from tfdbg_cli.engines.torch.record.op_record import (
    CLEAN_IF_INPUTS_ARE,
    FORWARD,
    JUDGED,
    NOT_JUDGED,
    OPTIMIZER,
    OpFailure,
    OpOutput,
    OpRecord,
)
from tfdbg_cli.engines.torch.record.recorded_tensors import RecordedTensors
from tfdbg_cli.engines.torch.record.schemas import KNOWN, OpFacts, facts_of
from tfdbg_cli.engines.torch.runs.failures import is_framework_error
from tfdbg_cli.engines.torch.runs.updates_by_hand import Update
from tfdbg_cli.engines.torch.values.access import PLAIN

__all__ = ["TENSOR", "WRITES", "OpRecorder", "flat", "with_gaps"]

#: Stands for a tensor in a list with gaps.
TENSOR = "tensor"
#: An op that writes to memory which no run reads.
WRITES = "writes"

_Tensor, _Parameter = torch.Tensor, torch.nn.Parameter
_NO_OTHERS: frozenset[torch.dtype] = frozenset()
_COPY = "aten::copy_"


class OpRecorder(RecordedTensors):
    """The ops of one run.

    While the program runs an op costs one record, as it comes: what it was given, where the frames
    stand, what it has made. Whoever asks for `records` gets them in words (`Describer`).

    Args:
        names: of modules, parameters and optimizers.
        wanted: which values are held.
        holder: holds them; ``None``: nobody does.
        check: is told of every output as it is made.

    Attributes:
        failure: the last op that raised.
        update: that a run waits for, by hand.
        passage: lets ops pass one by one; ``None``: they pass as they come.
        is_quick: `start` may note ops without a record.
    """

    is_quick = False

    def __init__(
        self, names: Names, wanted: WatchMatcher, holder: Holder | None, check: Any = None
    ) -> None:
        super().__init__(names, wanted, holder, check)
        self.failure: OpFailure | None = None
        self.passage: Any = None
        self.update: Update | None = None
        self._after_update: Callable[[], OpRecorder | None] = lambda: None

    # What the modes call. None of it raises.

    def start(self, op: Any, args: Any, kwargs: Mapping[str, Any], frame: FrameType | None) -> Any:
        """As `begin`, if there are quicker ways than a record; ``None``: there are none.

        Returns:
            What `done` is to be told then, or `undone`.
        """

    def done(self, started: Any, result: Any) -> None:
        """As `end`."""

    def undone(self, started: Any) -> OpRecord | None:
        """A record after all: of an op that has raised; ``None``: making it went wrong."""
        raise NotImplementedError

    @uninterrupted
    def unused_place(self, op: Any, args: Any, kwargs: Mapping[str, Any], frame: FrameType) -> Any:
        """The place of an op that needn't be recorded: it is before a run, and none will use it.

        Returns:
            What `is_unused` is to be told then; `WRITES`: nothing; ``None``: it is one for `begin`.
        """
        if not self._is_ahead or self.unused is None or self.passage is not None:
            return None
        if functions_seen():
            return None
        try:
            facts = facts_of(op)
            if not facts.has_writes:
                return self.unused.place(frame)
            memory = self._memory_of(facts, args, kwargs)
            is_unused = memory and self.unused.writes(facts.op_type, frame, memory)
            return WRITES if is_unused and self._tracker.pins.keys.isdisjoint(memory) else None
        except Exception as error:
            self._trouble(error)
            return None

    def _memory_of(
        self, facts: OpFacts, args: Any, kwargs: Mapping[str, Any]
    ) -> dict[int, torch.Tensor]:
        """The keys of the storages that an op writes to, and tensors in them.

        Empty: there is more to it, or no memory.
        """
        if facts.is_collective or facts.keeps_elements:
            return {}
        given = [*flat((*args, *kwargs.values()))]
        if torch.is_grad_enabled() and any(each.requires_grad for each in given):
            return {}
        found = {storage_key(each): each for each in flat(facts.written(args, kwargs))}
        return {} if 0 in found else found

    @uninterrupted
    def is_unused(self, place: Any, result: Any) -> bool:
        """Whether what such an op has made needn't be known either: it is clean."""
        if place is WRITES:
            return True
        try:
            return self.unused is not None and self.unused.is_clean(place, result)
        except Exception as error:
            self._trouble(error)
            return False

    @uninterrupted
    def begin(  # noqa: PLR0915
        self, op: Any, args: Any, kwargs: Mapping[str, Any], frame: FrameType | None
    ) -> OpRecord | None:
        """An op is about to be done.

        Args:
            op: the overload, or higher-order operator.
            args, kwargs: of the call.
            frame: of the call.

        Returns:
            Its record so far; ``None``: it is not recorded.
        """
        # Everything in one piece: after each op of the program's most of what is called here has
        # to be fetched into the processor's caches again.
        state = self.contexts.local.state
        if state.is_busy:
            return None
        try:
            if functions_seen():  # it would see every attribute that is read
                with quiet():
                    return self.begin(op, args, kwargs, frame)
            known_op = KNOWN.get(id(op))
            facts = known_op[1] if known_op is not None else facts_of(op)
            if facts.is_ignored:
                return None
            if self._is_ahead and self._is_too_much():
                self._start_over()
            inputs: list[OpOutput] = []
            constants: list[Any] = []
            has_list = False
            if not facts.is_source:
                known, writes = self._tracker.known, self._tracker.writes
                begins_at = self._begins_at
                given = (*enumerate(args), *kwargs.items()) if kwargs else enumerate(args)
                for place, value in given:
                    kind = type(value)
                    if kind is _Tensor or kind is _Parameter or isinstance(value, _Tensor):
                        output = known.get(id(value))
                        if (
                            output is None
                            or output.reference() is not value
                            or output.index < begins_at
                            or (output.key in writes and writes[output.key][-1] is not output)
                        ):
                            if kind is _Tensor or kind is _Parameter:
                                output = self._input(state, value, frame)
                            else:  # its class would see what is asked
                                with quiet():
                                    output = self._input(state, value, frame)
                        inputs.append(output)
                    elif kind is list or kind is tuple:
                        if value and self._list(state, value, inputs, frame):
                            has_list = True
                            if any(each is None for each in value):
                                constants += (place, with_gaps(value))
                        else:
                            constants += (place, value)
                    elif value is not None:
                        constants += (place, value)
            if MAY_CAPTURE and is_capturing():
                return None
            if self._has_pending and not facts.may_alias:  # making a view reads nothing
                self._read_pending(facts, inputs)
            record = OpRecord(next(self._indices), facts.op_type, facts, inputs)
            if constants:
                # Whoever lets go of a process group last waits for its threads with Python's lock,
                # which these may want: that is for the program to do.
                keeps_all = not facts.is_collective
                record.constants = constants if keeps_all else [*map(_without_group, constants)]
            record.script = script_place()
            top = state.top
            boundary = top.frame if top is not None else None
            outer: Stack | None = None
            frames: list[Any] = []
            while frame is not None:
                if frame is boundary:
                    assert top is not None
                    outer = top.outer
                    break
                frames += (frame.f_code, frame.f_lasti)
                frame = frame.f_back
            record.frames = (*frames,)
            node = current_node()
            mark = self.contexts.mark(state, node) if node is not None else None
            where = state.place
            if where[0] is not top or where[1] is not mark or where[2] is not outer:
                where = state.place = (top, mark, outer)
            record.place, record.state = where, state
            last = next_sequence() - 1
            if last != state.last_sequence:
                # Nodes are numbered as they are made, just before their op gets here.
                state.last_sequence = record.sequence = last
            if top is not None and top.updates is not None:
                self._update(record, top.updates, args, has_list)
            if facts.has_writes:
                self._before_write(facts, record, args, kwargs)
            self._add(record)
            return record
        except Exception as error:
            self._trouble(error)
            return None

    @uninterrupted
    def end(self, record: OpRecord, result: Any) -> None:
        """It is done."""
        record.time = time.perf_counter_ns()
        try:
            kind = type(result)
            if (kind is _Tensor or kind is _Parameter) and not functions_seen():
                output = self._output(record, result)
                overwritten = record.overwritten
                if overwritten is None:
                    return
                record.overwritten = None
                if len(overwritten) != 1 or overwritten[0] is not result:
                    self._after_write(record, overwritten, result)
                elif not record.facts.keeps_elements:  # type: ignore[union-attr]  # it is an op's
                    self._wrote(output)
            else:  # a class of the program's may see it, too
                with quiet():
                    self._end(record, result)
        except Exception as error:
            self._trouble(error)

    @uninterrupted
    def failed(self, record: OpRecord, error: Exception) -> None:
        """It has raised."""
        self.describe()
        record.time = time.perf_counter_ns()
        record.error = f"{type(error).__name__}: {message_of(error)}"
        inputs = tuple(output.name for output in record.inputs)
        self.failure = OpFailure(error, record.name, record.op_type, inputs)

    @uninterrupted
    def call_failed(self, error: BaseException) -> None:
        """An error leaves the program's innermost call that is known; maybe no op has raised it."""
        if not isinstance(error, Exception) or (self.failure and self.failure.exception is error):
            return
        try:
            found = failed_call(error)
            if found is not None and (found.is_certain or is_framework_error(error)):
                self.failed(self._failed_record(found), error)
        except Exception as own:
            self._trouble(own)

    def _failed_record(self, found: FailedCall) -> OpRecord:
        state = self.contexts.local.state
        last = next((each for each in reversed(self.raw) if each.facts is not None), None)
        if found.is_test and last is not None and last.frames[:1] == found.places[:1]:
            inputs = last.outputs  # it had no name
        else:
            inputs = [self._input(state, tensor, None) for tensor in found.tensors]
        facts = facts_of(found.function)
        record = OpRecord(next(self._indices), facts.op_type, facts, inputs)
        record.frames, record.state, top = found.places, state, state.top
        record.place = (top, None, top.outer if top is not None else None)
        self._add(record)
        return record

    def await_update(self, update: Update, after: Callable[[], OpRecorder | None]) -> None:
        """Wait for an update by hand.

        Args:
            update: where it is.
            after: gives those that are to be told of what comes after it; ``None``: these.
        """
        self.update, self._after_update = update, after

    @uninterrupted
    def follow(self, arguments: Any, frame: FrameType | None) -> OpRecorder:
        """Who is to be told of an op that comes while an update is waited for."""
        try:
            if self.update is None or not self.update.is_over(arguments, frame):
                return self
            self.update = None
            return self._after_update() or self
        except Exception as error:
            self._trouble(error)
            return self

    def _end(self, record: OpRecord, result: Any) -> None:
        if isinstance(result, _Tensor):
            self._output(record, result)
        elif type(result) is tuple or type(result) is list:
            for tensor in flat(result):
                self._output(record, tensor)
        elif not isinstance(result, torch.ScriptObject):
            record.result = result
        if record.overwritten is not None:
            self._after_write(record, record.overwritten, result)
            record.overwritten = None

    def _read_pending(self, facts: OpFacts, inputs: Iterable[OpOutput]) -> None:
        # What is copied over isn't read: the gloo backend hands out by that what has arrived.
        over = next(iter(inputs), None) if facts.overload == _COPY else None
        for output in inputs:
            is_awaited = output.is_late and (facts.is_collective or output is over)
            if output.is_pending and not is_awaited:
                with quiet():
                    self._read(output)

    def _update(self, record: OpRecord, updates: Updates, args: Any, has_list: bool) -> None:
        """Say whether an op is an optimizer's own, and which parameter it is about."""
        assert record.place is not None
        if record.place[2] is not None and updates.is_closure(record.frames[::2]):
            record.phase = FORWARD
            return
        record.phase = OPTIMIZER
        if has_list:
            return
        for output in record.inputs:
            owner = output.record.owner_of
            if owner is not None:
                record.owner_of = owner
                return
        record.owner_of = self._owner(updates, args)

    def _owner(self, updates: Updates, args: Any) -> OpRecord | str | None:
        """The parameter that an optimizer's op is about, as far as it knows the tensors."""
        tensors = [value for value in args if isinstance(value, _Tensor)]
        while True:
            for tensor in tensors:
                parameter = updates.owner(tensor)
                if parameter is not None:
                    return self._record_of_leaf(parameter)
            if not tensors or not updates.find():
                return None

    def _before_write(
        self, facts: OpFacts, record: OpRecord, args: Any, kwargs: Mapping[str, Any]
    ) -> None:
        if facts.writes == (0,) and not facts.out and args and type(args[0]) in PLAIN:
            record.overwritten = [args[0]]
            record.overwrites = record.inputs[:1]
            if not facts.keeps_elements:
                if self._check is not None:
                    self._judge_before_write(record.inputs[0])
                self.holder.before_write(storage_key(args[0]))
            return
        with quiet():
            self._before_writes(facts, record, args, kwargs)

    def _before_writes(
        self, facts: OpFacts, record: OpRecord, args: Any, kwargs: Mapping[str, Any]
    ) -> None:
        tensors = list(flat(facts.written(args, kwargs)))
        record.overwritten = tensors
        find, before_write = self._tracker.find, self.holder.before_write
        overwrites = []
        for tensor in tensors:
            output = find(tensor)
            if output is not None:
                overwrites.append(output)
                if self._check is not None and not facts.keeps_elements:
                    self._judge_before_write(output)
            if not facts.keeps_elements:
                before_write(storage_key(tensor))
        record.overwrites = overwrites

    def _after_write(self, record: OpRecord, overwritten: list[torch.Tensor], result: Any) -> None:
        assert record.facts is not None
        if len(overwritten) == 1 and overwritten[0] is result:  # nearly always
            if not record.facts.keeps_elements:
                self._wrote(record.outputs[0])
            return
        returned = {id(tensor) for tensor in flat((result,))}
        for tensor in overwritten:
            if id(tensor) not in returned:
                self._output(record, tensor)
        if record.facts.keeps_elements:
            return
        addresses = {id(tensor) for tensor in overwritten}
        for output in record.outputs:
            if id(output.reference()) in addresses:
                self._wrote(output)

    # Outputs.

    def _output(self, record: OpRecord, tensor: torch.Tensor) -> OpOutput:
        # In one piece, as `begin`.
        key = storage_key(tensor)
        outputs, inputs = record.outputs, record.inputs
        output = OpOutput(record, len(outputs), tensor, key)
        outputs.append(output)
        self._know(tensor, output)
        facts = record.facts
        assert facts is not None
        is_view = False
        if key and facts.may_be_view:
            for each in inputs:
                if each.key == key:
                    is_view = output.is_view = not self.contexts.is_gradient(record)
                    break
        if facts.is_late:
            output.is_pending = self._has_pending = True
            self.given.append(record)
            return output
        if facts.is_uninitialized or output.device.type == "meta":
            has_value = False
        else:
            has_value, check = True, self._check
            if check is not None:
                dtype, rule = output.dtype, facts.clean
                judged = NOT_JUDGED
                if is_view or (
                    rule is not None and dtype in REAL and getattr(check, "may_skip", False)
                ):
                    # Whether it is clean if the inputs are, which may have certain other dtypes.
                    judged = CLEAN_IF_INPUTS_ARE
                    others = _NO_OTHERS if is_view or rule is None else rule.dtypes
                    if is_view or rule is None or not rule.is_certain:
                        for each in inputs:
                            if not each.judged or not (each.dtype is dtype or each.dtype in others):
                                judged = NOT_JUDGED
                                break
                if not judged and not is_view:
                    judged = JUDGED
                    check.add(record, output.slot, tensor)
                output.judged = judged
        is_watched = self._holds and has_value and (not is_view or self._wanted.names_ops)
        if is_watched and (self._wanted.is_open or self._wants(record, output)):
            output.held = self.holder.hold(tensor, key)
            return output
        if is_view and self._has_pending:
            output.is_pending = any(e.is_pending and e.key == key for e in inputs)
        return output


def _without_group(value: Any) -> Any:
    return str(value) if isinstance(value, torch.ScriptObject) else value


def with_gaps(values: Iterable[Any]) -> tuple[str | None, ...]:
    """A list of tensors some of which aren't there, as the record of the op has it."""
    return tuple(None if each is None else TENSOR for each in values)


def flat(values: Any) -> Iterator[torch.Tensor]:
    """The tensors of nested lists."""
    for value in values:
        if isinstance(value, _Tensor):
            yield value
        elif type(value) is list or type(value) is tuple:
            yield from flat(value)
