"""Makes the records of a run: inputs, outputs, names and values of each op."""

from __future__ import annotations

import functools
import itertools
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import FrameType
from typing import Any

import torch

from tfdbg_cli.common.errors import message_of, one_line
from tfdbg_cli.common.program_signals import pass_on
from tfdbg_cli.engines.kit.stacks import Stack
from tfdbg_cli.engines.kit.watch_matcher import WatchMatcher
from tfdbg_cli.engines.torch.names.contexts import Contexts, ThreadState
from tfdbg_cli.engines.torch.names.leaves import Leaves
from tfdbg_cli.engines.torch.names.optimizers import Updates
from tfdbg_cli.engines.torch.names.scopes import Leaf, Names
from tfdbg_cli.engines.torch.private import (
    MAY_CAPTURE,
    current_node,
    functions_seen,
    is_capturing,
    next_sequence,
    quiet,
    storage_key,
)
from tfdbg_cli.engines.torch.record.clean_ops import REAL
from tfdbg_cli.engines.torch.record.describing import Describer
from tfdbg_cli.engines.torch.record.generated import script_place
from tfdbg_cli.engines.torch.record.holding import Holder
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
from tfdbg_cli.engines.torch.record.schemas import OpFacts, facts_of
from tfdbg_cli.engines.torch.record.tracking import Tracker
from tfdbg_cli.engines.torch.record.written import make_written
from tfdbg_cli.engines.torch.runs.failures import is_framework_error
from tfdbg_cli.engines.torch.runs.updates_by_hand import Update
from tfdbg_cli.engines.torch.values.layouts import PLAIN

__all__ = ["OpRecorder"]

_Tensor = torch.Tensor
_ACCUMULATE = "AccumulateGrad/"
# Leaves that are checked though they aren't held: not the many bytes of a model.
_JUDGED = frozenset(["Buffer", "Input"])
_NO_OTHERS: frozenset[torch.dtype] = frozenset()
# What is recorded before a run begins, which may never come.
_MOST_AHEAD = 20_000
_MOST_BYTES_AHEAD = 1 << 30


class OpRecorder:
    """The ops of one run.

    Args:
        names: of modules, parameters and optimizers.
        wanted: which values are held.
        holder: holds them; ``None``: nobody does.
        check: is told of every output as it is made.

    While the program runs an op costs one record, as it comes: what it was given, where the frames
    stand, what it has made. Whoever asks for `records` gets them in words (`Describer`).

    Attributes:
        raw: in the order in which they were begun; the latest may not be in words yet.
        contexts: the calls that are open.
        failure: the last op that raised.
        troubles: what went wrong in here.
        update: that a run waits for, by hand.
        passage: lets ops pass one by one; ``None``: they pass as they come.
    """

    def __init__(
        self, names: Names, wanted: WatchMatcher, holder: Holder | None, check: Any = None
    ) -> None:
        self.failure: OpFailure | None = None
        self.troubles: list[str] = []
        self.passage: Any = None
        self.update: Update | None = None
        self._after_update: Callable[[], OpRecorder | None] = lambda: None
        self.tracker = Tracker()
        self.holder = holder if holder is not None else Holder()
        # Neither of these keeps what keeps it: memory is let go of as soon as a run is.
        myself = weakref.proxy(self)
        self._leaf_of = functools.partial(OpRecorder._record_of_leaf, myself)
        self.contexts = Contexts(self._leaf_of)
        self._describer = Describer(self.contexts, functools.partial(OpRecorder._trouble, myself))
        self.raw = self._describer.raw
        self._holds = holder is not None
        self._wanted = wanted
        # Whether an op's name says whether its values are held.
        self.is_eager = not wanted.is_open
        self._check = check
        self._names = names
        self._leaves = Leaves(names, self._leaf_of)
        self._indices = itertools.count()
        self._unnamed = itertools.count()
        # Records with a lower index are from before the run.
        self._begins_at = 0
        self._is_ahead = False
        self._is_over = False
        self._kept: list[OpOutput] = []  # at the end
        self._has_pending = False

    @property
    def records(self) -> list[OpRecord]:
        """In the order in which they were begun, in words."""
        return self._describer.records()

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.raw)

    def has_written(self, start: int) -> bool:
        """Whether an op has written to memory since there were so many records."""
        return any(record.overwrites for record in self.raw[start:])

    # What the modes call. None of it raises.

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
            facts = facts_of(op)
            if facts.is_ignored:
                return None
            if self._is_ahead and self._is_too_much():
                self._start_over()
            inputs: list[OpOutput] = []
            constants: list[Any] = []
            has_list = False
            if not facts.is_source:
                tracker, begins_at = self.tracker, self._begins_at
                known, writes = tracker.known, tracker.writes
                given = (*enumerate(args), *kwargs.items()) if kwargs else enumerate(args)
                for place, value in given:
                    kind = type(value)
                    if kind in PLAIN or isinstance(value, _Tensor):
                        output = known.get(id(value))
                        if (
                            output is None
                            or output.reference() is not value
                            or output.index < begins_at
                            or (output.key in writes and writes[output.key][-1] is not output)
                        ):
                            with quiet():
                                output = self._input(state, value, frame)
                        inputs.append(output)
                    elif kind is list or kind is tuple:
                        if value and self._list(state, value, inputs, frame):
                            has_list = True
                        else:
                            constants += (place, value)
                    elif value is not None:
                        constants += (place, value)
            if MAY_CAPTURE and is_capturing():
                return None
            if self._has_pending and not facts.may_alias:  # making a view reads nothing
                self._read_pending(facts, inputs)
            record = OpRecord(next(self._indices), facts.op_type, facts, (*inputs,))
            if constants:
                record.constants = (*constants,)
            record.api = state.api
            record.script = script_place()
            top = state.top
            boundary = top.frame if top is not None else None
            outer: Stack | None = None
            places: list[Any] = []
            while frame is not None:
                if frame is boundary:
                    assert top is not None
                    outer = top.outer
                    break
                places += (frame.f_code, frame.f_lasti)
                frame = frame.f_back
            node = current_node()
            mark = self.contexts.mark(state, node) if node is not None else None
            record.place = (state, top, mark, (*places,), outer)
            last = next_sequence() - 1
            if last != state.last_sequence:
                # Nodes are numbered as they are made, just before their op gets here.
                state.last_sequence = record.sequence = last
            if top is not None and top.updates is not None:
                self._update(record, top.updates, args, has_list)
            if facts.writes or facts.out:
                self._before_write(facts, record, args, kwargs)
            self.raw.append(record)
            if self.is_eager:
                self.describe()
            return record
        except Exception as error:
            self._trouble(error)
            return None

    def end(self, record: OpRecord, result: Any) -> None:
        """It is done."""
        record.time = time.perf_counter_ns()
        try:
            if type(result) in PLAIN and not functions_seen():
                self._output(record, result)
                if record.overwritten is not None:
                    self._after_write(record, record.overwritten, result)
                    record.overwritten = None
            else:  # a class of the program's may see it, too
                with quiet():
                    self._end(record, result)
        except Exception as error:
            self._trouble(error)

    def failed(self, record: OpRecord, error: Exception) -> None:
        """It has raised."""
        self.describe()
        record.time = time.perf_counter_ns()
        record.error = f"{type(error).__name__}: {message_of(error)}"
        inputs = tuple(output.name for output in record.inputs)
        self.failure = OpFailure(error, record.name, record.op_type, inputs)

    def call_failed(
        self,
        function: Any,
        args: Any,
        kwargs: Mapping[str, Any],
        frame: FrameType | None,
        error: Exception,
    ) -> None:
        """A function of the API has raised, maybe before it came to any op."""
        known = self.failure is not None and self.failure.exception is error
        if known or not is_framework_error(error):
            return
        record = self.begin(function, args, kwargs, frame)
        if record is not None:
            self.failed(record, error)

    def await_update(self, update: Update, after: Callable[[], OpRecorder | None]) -> None:
        """Wait for an update by hand.

        Args:
            update: where it is.
            after: gives those that are to be told of what comes after it; ``None``: these.
        """
        self.update, self._after_update = update, after

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

    def _trouble(self, error: Exception) -> None:
        pass_on(error)
        text = f"An op could not be recorded: {one_line(error)}"
        if text not in self.troubles:
            self.troubles.append(text)

    def describe(self) -> None:
        """Put all records into words, up to now."""
        self._describer.records()

    def _end(self, record: OpRecord, result: Any) -> None:
        if isinstance(result, _Tensor):
            self._output(record, result)
        elif type(result) is tuple or type(result) is list:
            for tensor in _flat(result):
                self._output(record, tensor)
        else:
            record.result = result
        if record.overwritten is not None:
            self._after_write(record, record.overwritten, result)
            record.overwritten = None

    # Inputs.

    def _input(self, state: ThreadState, tensor: torch.Tensor, frame: FrameType | None) -> OpOutput:
        output = self.tracker.find(tensor)
        if output is None:
            output = self._discover(state, tensor, frame)
        elif not output.record.is_adopted:
            found = self._known_leaf(state, tensor)
            if found is not None and found[0] is tensor:
                # A parameter is one, though it may have been made just before the first run.
                return self._leaf(tensor, found[1])
            output = self._current(tensor, output)
            if not output.record.is_adopted:
                self._adopt(output.record)
            return output
        return self._current(tensor, output)

    def _current(self, tensor: torch.Tensor, output: OpOutput) -> OpOutput:
        """What a tensor is after what was written to its memory through others."""
        if output.key not in self.tracker.writes or self._is_over:
            return output
        sources = self.tracker.sources(tensor, output)
        if len(sources) == 1:
            if sources[0] is not output:
                self.tracker.stand_for(tensor, sources[0])
            return sources[0]
        for each in sources:
            if not each.record.is_adopted:
                self._adopt(each.record)
        record = make_written(next(self._indices), tensor, sources)
        (output,) = record.outputs
        self.tracker.add(tensor, output)
        self._add(record)
        self._has_pending = True
        return output

    def _read(self, output: OpOutput) -> None:
        """The value of an output that waits for this is going to be used."""
        tensor = output.reference()
        if tensor is None:
            return
        output.is_pending = False
        is_held = self._holds and not tensor.is_meta
        record = output.record
        if is_held and self._wants(record, output):
            output.held = self.holder.hold(tensor, output.key)

    def _read_pending(self, facts: OpFacts, inputs: Iterable[OpOutput]) -> None:
        for output in inputs:
            if output.is_pending and not (facts.is_collective and output.is_late):
                with quiet():
                    self._read(output)

    def _wants(self, record: OpRecord, output: OpOutput) -> bool:
        wanted = self._wanted
        return wanted.is_open or wanted.wants(record.name, record.op_type, output.dtype)

    def _list(
        self, state: ThreadState, values: Any, inputs: list[OpOutput], frame: FrameType | None
    ) -> bool:
        """Add the tensors of a list; whether it is one of tensors."""
        found = False
        for value in values:
            if isinstance(value, _Tensor):
                inputs.append(self._input(state, value, frame))
                found = True
            elif type(value) is list or type(value) is tuple:
                found = self._list(state, value, inputs, frame) or found
            elif value is not None and not found:
                return False
        return found

    def _before_write(
        self, facts: OpFacts, record: OpRecord, args: Any, kwargs: Mapping[str, Any]
    ) -> None:
        if facts.writes == (0,) and not facts.out and args and type(args[0]) in PLAIN:
            record.overwritten = [args[0]]
            record.overwrites = record.inputs[:1]
            if not facts.keeps_elements:
                self.holder.before_write(storage_key(args[0]))
            return
        with quiet():
            self._before_writes(facts, record, args, kwargs)

    def _before_writes(
        self, facts: OpFacts, record: OpRecord, args: Any, kwargs: Mapping[str, Any]
    ) -> None:
        tensors = list(_flat(facts.written(args, kwargs)))
        record.overwritten = tensors
        find, before_write = self.tracker.find, self.holder.before_write
        overwrites = []
        for tensor in tensors:
            output = find(tensor)
            if output is not None:
                overwrites.append(output)
            if not facts.keeps_elements:
                before_write(storage_key(tensor))
        record.overwrites = overwrites

    def _after_write(self, record: OpRecord, overwritten: list[torch.Tensor], result: Any) -> None:
        assert record.facts is not None
        if len(overwritten) == 1 and overwritten[0] is result:  # nearly always
            if not record.facts.keeps_elements:
                self.tracker.written(record.outputs[0])
            return
        returned = {id(tensor) for tensor in _flat((result,))}
        for tensor in overwritten:
            if id(tensor) not in returned:
                self._output(record, tensor)
        if record.facts.keeps_elements:
            return
        addresses = {id(tensor) for tensor in overwritten}
        for output in record.outputs:
            if id(output.reference()) in addresses:
                self.tracker.written(output)

    # Outputs.

    def _output(self, record: OpRecord, tensor: torch.Tensor) -> None:
        key = storage_key(tensor)
        output = OpOutput(record, len(record.outputs), tensor, key)
        record.outputs.append(output)
        self.tracker.add(tensor, output)
        facts = record.facts
        assert facts is not None
        if key and (facts.may_alias or facts.keeps_elements):
            is_view = any(each.key == key for each in record.inputs)
            output.is_view = is_view and not self.contexts.is_gradient(record)
        if facts.is_late:
            output.is_pending = self._has_pending = True
            return
        has_value = not facts.is_uninitialized and output.device.type != "meta"
        if has_value and self._check is not None:
            if output.is_view:
                output.judged = _judged(output, record.inputs, _NO_OTHERS)
            else:
                rule = facts.clean
                if rule is not None and self._may_skip() and output.dtype in REAL:
                    inputs = () if rule.is_certain else record.inputs
                    output.judged = _judged(output, inputs, rule.dtypes)
                if not output.judged:
                    output.judged = JUDGED
                    self._check.add(record, output.slot, tensor)
        is_watched = self._holds and has_value and (not output.is_view or self._wanted.names_ops)
        if is_watched and self._wants(record, output):
            output.held = self.holder.hold(tensor, key)
            return
        if output.is_view and self._has_pending:
            output.is_pending = any(e.is_pending and e.key == key for e in record.inputs)

    def _may_skip(self) -> bool:
        """Whether the check need not see what is clean if its inputs are."""
        return bool(getattr(self._check, "may_skip", False))

    # Leaves.

    def _discover(
        self, state: ThreadState, tensor: torch.Tensor, frame: FrameType | None
    ) -> OpOutput:
        """The record of a tensor that nobody has made."""
        found = self._known_leaf(state, tensor)
        if found is not None:
            origin, leaf = found
            if origin is not tensor:
                known = self.tracker.find(origin)
                if known is None:
                    self._leaf(origin, leaf)
                output = self.tracker.find(tensor)
                if output is not None:
                    return output
            return self._leaf(tensor, leaf)
        name = self._leaves.variable(tensor, frame) or f"tensor_{next(self._unnamed)}"
        return self._leaf(tensor, Leaf(tensor, f"input/{name}", "Input"))

    def _known_leaf(
        self, state: ThreadState, tensor: torch.Tensor
    ) -> tuple[torch.Tensor, Leaf] | None:
        """The tensor of a model or of the optimizer at work that a tensor is a part of."""
        context = next((each for each in reversed(state.contexts) if each.updates), None)
        updates, prefix = (context.updates, context.prefix) if context else (None, "")
        return self._leaves.leaf(tensor, updates, prefix)

    def _leaf(self, tensor: torch.Tensor, leaf: Leaf) -> OpOutput:
        record = OpRecord(next(self._indices), leaf.op_type, None, [])
        record.time = time.perf_counter_ns()
        record.leaf = leaf
        if leaf.op_type == "State":
            record.owner_of = leaf.parameter
        output = OpOutput(record, 0, tensor, storage_key(tensor))
        record.outputs.append(output)
        self.tracker.add(tensor, output)
        self._add(record)
        is_held = self._holds and not tensor.is_meta
        if is_held and self._wants(record, output):
            output.held = self.holder.hold(tensor, output.key, is_owned=True)
            output.judged = JUDGED  # at the end
        elif self._check is not None and leaf.op_type in _JUDGED and not tensor.is_meta:
            output.judged = JUDGED
            self._check.add(record, 0, tensor)
        return output

    def _add(self, record: OpRecord) -> None:
        self.raw.append(record)
        if self.is_eager:
            self.describe()

    def _record_of_leaf(self, tensor: torch.Tensor) -> OpRecord | str:
        """The record of the leaf that a tensor is, or what it is called."""
        output = self.tracker.find(tensor)
        if output is not None and output.record.facts is None:
            return output.record
        found = self._leaves.plain_name(tensor)
        if found:
            return found
        if output is None:
            output = self._discover(self.contexts.state(), tensor, None)
        return output.record

    # Names.

    def _update(self, record: OpRecord, updates: Updates, args: Any, has_list: bool) -> None:
        """Say whether an op is an optimizer's own, and which parameter it is about."""
        assert record.place is not None
        _, _, _, places, outer = record.place
        if outer is not None and updates.is_closure(places[::2]):
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
        tensors = [value for value in args if isinstance(value, _Tensor)]
        while True:
            for tensor in tensors:
                parameter = updates.owner(tensor)
                if parameter is not None:
                    record.owner_of = self._record_of_leaf(parameter)
                    return
            if not tensors or not updates.find():
                return

    # The beginning of the run.

    def look_ahead(self) -> None:
        """No run has begun: of what is recorded now only the latest part is kept."""
        self._is_ahead = True

    def _is_too_much(self) -> bool:
        return len(self.raw) > _MOST_AHEAD or self.holder.held_bytes > _MOST_BYTES_AHEAD

    def _start_over(self) -> None:
        """Forget all that was recorded: hardly any of it is going to be used by a run."""
        self._describer.clear()
        self.holder.close()
        self.tracker = Tracker()
        self._leaves = Leaves(self._names, self._leaf_of)
        self._unnamed = itertools.count()
        self.contexts.forget()

    def begin_run(self) -> None:
        """What was recorded so far belongs to the run only as far as the run uses it."""
        self._is_ahead = False
        for record in self.raw:
            record.is_adopted = False
        self._begins_at = next(self._indices)
        self._unnamed = itertools.count()
        self._describer.begin_run()

    def _adopt(self, record: OpRecord) -> None:
        """The run uses an op from before: it and all that it depends on belong to it."""
        found: dict[int, OpRecord] = {}
        pending = [record]
        while pending:
            current = pending.pop()
            if current.is_adopted or current.index in found:
                continue
            found[current.index] = current
            pending += [output.record for output in current.inputs]
        adopted = [found[index] for index in sorted(found)]
        for current in adopted:
            current.is_adopted = True
        self._describer.name_again(adopted)
        if not self.is_eager:
            return
        self.describe()
        for current in adopted:
            if not self._wanted.wants_name(current.name):
                for output in current.outputs:
                    if output.held is not None:
                        self.holder.drop(output.held)
                        output.held = None

    # What the recorder asks.

    def find(self, tensor: torch.Tensor) -> OpOutput | None:
        """The output that a tensor is now; ``None``: nobody has made it."""
        output = self.tracker.find(tensor)
        if output is not None:
            output = self._current(tensor, output)
            if output.is_pending and not self._is_over:
                self._read(output)
        return output

    def finish(self) -> None:
        """The run is over: what was written to and not read since is shown as it is now."""
        for tensor, known in list(self.tracker.living()):
            if not known.record.is_adopted:
                continue
            made = self.tracker.find_now(tensor, known)
            has_changed = made.is_pending or made.key in self.tracker.writes
            output = self.find(tensor) if has_changed else made
            if output is not None and output.record.facts is not None:
                self._kept.append(output)
        self._is_over = True

    def results(self) -> dict[str, bool]:
        """What the run leaves behind, see `RunInfo.results`; after `finish`."""
        found = {output.name: False for output in self._kept}
        for record in self.records:
            is_gradient = record.prefix.endswith(_ACCUMULATE)
            for output in record.outputs if record.is_adopted else ():
                if output.is_result or is_gradient:
                    found[output.name] = True
        return found

    def name_input(self, name: str, tensor: torch.Tensor) -> None:
        """A tensor that the run gets."""
        state = self.contexts.state()
        output = self.find(tensor)
        if output is not None:
            if not output.record.is_adopted:
                self._adopt(output.record)
            return
        found = self._leaves.leaf(tensor, None, "")
        if found is not None:
            self._discover(state, tensor, None)
        else:
            self._leaf(tensor, Leaf(tensor, f"input/{name}", "Input"))


def _judged(output: OpOutput, inputs: Iterable[OpOutput], dtypes: frozenset[torch.dtype]) -> int:
    """Whether an output is clean if the inputs are: they may have its dtype, or some others.

    Args:
        output: of an op that makes nothing bad.
        inputs: what it was made of.
        dtypes: the others.
    """
    dtype = output.dtype
    for each in inputs:
        if not each.judged or not (each.dtype is dtype or each.dtype in dtypes):
            return NOT_JUDGED
    return CLEAN_IF_INPUTS_ARE


def _flat(values: Any) -> Iterator[torch.Tensor]:
    """The tensors of nested lists."""
    for value in values:
        if isinstance(value, _Tensor):
            yield value
        elif type(value) is list or type(value) is tuple:
            yield from _flat(value)
