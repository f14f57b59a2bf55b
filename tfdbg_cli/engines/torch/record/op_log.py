"""One flat list of what ops have done, and the records that are made of it when somebody asks.

While a filter is waited for, nearly every run is thrown away unread. An `OpRecord` for each op and
an `OpOutput` for each tensor would take longer to make than small ops take to run, and Python's
garbage collector would visit all of them again and again. Items of one list cost a single ``+=``
per op, and the list is one object to the collector.

The list consists of blocks, whose kinds are below. An ordinary op adds two of them: OP when it
begins (`QuickOps._start`) and DONE when it has returned (`QuickOps._done`). A tensor is known by
its *place*, the index of the first item of its output, so the inputs of an op are integers. `_live`
maps the ``id`` of a tensor to its place. Ids are used again: the place counts only if the weak
reference there still leads to this very tensor.

`catch_up` reads on from where it stopped last, and makes the records and outputs that `OpRecorder`
would have made at once. An op that isn't ordinary (a subclass of Tensor, a sparse tensor, another
thread) first catches up and then goes to `OpRecorder.begin`. Its record is put into the list as a
RECORD block, so all ops stay in one order.
"""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Mapping
from types import FrameType
from typing import Any

import torch

from tfdbg_cli.engines.torch.names.contexts import ThreadState
from tfdbg_cli.engines.torch.record.op_record import OpOutput, OpRecord
from tfdbg_cli.engines.torch.record.op_recorder import OpRecorder
from tfdbg_cli.engines.torch.record.schemas import facts_of
from tfdbg_cli.engines.torch.runs.exact_check import Verdicts

__all__ = [
    "AGAIN",
    "DONE",
    "DTYPE",
    "IS_VIEW",
    "JUDGED_AT",
    "KEY",
    "OP",
    "OP_HEAD",
    "OUTPUT",
    "OWNER",
    "LoggedOps",
]

# Blocks of the list: what it is, its length, and then: ...
OP = 0  # index, facts, thread, place, script, sequence, phase, owner, three counts, and those
DONE = 1  # the block of the op, time, what it returned, how many outputs, and those
RECORD = 2  # a record that is there already
KNOWN_OUTPUT = 3  # an output that is there already
AGAIN = 4  # a tensor that is made of an output's memory; the output
RESULT = 5  # an output that is a result of the run
OP_HEAD, DONE_HEAD = 13, 6
# An output is known by where its first item is: reference, key, dtype, whether it is judged, owner,
# the `OpOutput` once it is made; and if it wasn't there before:
# device, is it a view, held, was it written to, offset, dimensions, shape, stride.
KEY, DTYPE, JUDGED_AT, OWNER, OUTPUT, IS_VIEW, OUT_HEAD = 1, 2, 3, 4, 5, 7, 12


class LoggedOps(OpRecorder):
    """The ops of one run, as far as somebody adds them to a list.

    Python's garbage collector need not look at its items one by one. `catch_up` makes the records
    and outputs of it that `OpRecorder` would have made at once; that is done when somebody asks,
    and before an op that is left to `OpRecorder`.

    Attributes:
        is_quick: ops may be added.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        check = self._check
        self._may_be_quick = self._wanted.is_open and (check is None or type(check) is Verdicts)
        self.is_quick = self._may_be_quick
        self._lock = threading.RLock()
        self._own: ThreadState | None = None  # others are no more quick
        self._is_noting = False
        # How many records were noted, and how many of those are there.
        self._noted = self._made = 0
        self._forget()

    def _forget(self) -> None:
        self._log: list[Any] = []
        self._caught_up_to = 0
        # By the address of a tensor: which output it is, if that refers to this tensor.
        self._live: dict[int, int] = {}
        self._again: dict[int, tuple[weakref.ref[torch.Tensor], int]] = {}
        # By storage: the outputs in it, and the last one that was written to.
        self._places: dict[int, int | list[int]] = {}
        self._last: dict[int, int] = {}
        self._records: dict[int, OpRecord] = {}
        # Storages from before the run.
        self._prior = self._tracker.storages()

    @property
    def count(self) -> int:
        """How many records there are."""
        return len(self._describer.raw) + self._noted - self._made

    def _find_at(self, tensor: torch.Tensor) -> int | None:
        at = self._live.get(id(tensor))
        if at is not None and self._log[at]() is tensor:
            return at
        again = self._again.get(id(tensor))
        return again[1] if again is not None and again[0]() is tensor else None

    def _closest(self, tensor: torch.Tensor, found: list[int]) -> int:
        """The last of the outputs in a storage that lies just like a tensor, else the first."""
        try:
            place = (tensor.storage_offset(), tensor.stride(), tensor.shape, tensor.dtype)
        except RuntimeError:  # a nested tensor
            return found[0]
        for at in reversed(found):
            if place == self._place(at):
                return at
        return found[0]

    def _place(self, at: int) -> tuple[Any, ...]:
        """Offset, stride, shape and dtype of an output."""
        log = self._log
        output = log[at + OUTPUT]
        if output is not None:
            return output.offset, output.stride, output.shape, output.dtype
        offset, count = log[at + OUT_HEAD - 2], log[at + OUT_HEAD - 1]
        first = at + OUT_HEAD
        shape, stride = log[first : first + count], log[first + count : first + 2 * count]
        return offset, (*stride,), torch.Size(shape), log[at + DTYPE]

    # What `OpRecorder` does, it tells here.

    def begin(
        self, op: Any, args: Any, kwargs: Mapping[str, Any], frame: FrameType | None
    ) -> OpRecord | None:
        if facts_of(op).is_ignored:
            return None
        self.catch_up()
        return super().begin(op, args, kwargs, frame)

    def begin_run(self) -> None:
        super().begin_run()
        self._own = None
        self.is_quick = self._may_be_quick
        with self._lock:
            self._forget()

    def hand_over(self, tensor: torch.Tensor) -> None:
        at = self._find_at(tensor) if self.is_quick and self._is_own() else None
        if at is None or self._last.get(self._log[at + KEY], at) > at:  # it was written to since
            super().hand_over(tensor)
        else:
            self._log += (RESULT, 3, at)

    def _record_of_leaf(self, tensor: torch.Tensor) -> OpRecord | str:
        at = self._find_at(tensor) if self.is_quick else None
        if at is not None and self._log[at + OUTPUT] is None:
            # An op has made it, or has written to it.
            if found := self._leaves.plain_name(tensor):
                return found
            self.catch_up()
        return super()._record_of_leaf(tensor)

    def _know(self, tensor: torch.Tensor, output: OpOutput) -> None:
        super()._know(tensor, output)
        if not self.is_quick or self._is_ahead or not self._is_own():
            return
        log, key = self._log, output.key
        at = len(log) + 2
        owner = output.record.owner_of
        # Whether it is judged is known later.
        log += (KNOWN_OUTPUT, 8, output.reference, key, output.dtype, None, owner, output)
        self._live[id(tensor)] = at
        if key:
            found = self._places.get(key)
            if found is None:
                self._places[key] = at
            elif isinstance(found, list):
                found.append(at)
            else:
                self._places[key] = [found, at]

    def _wrote(self, output: OpOutput) -> None:
        super()._wrote(output)
        if not self.is_quick:
            return
        tensor = output.reference()
        at = self._find_at(tensor) if tensor is not None else None
        is_known = at is not None and self._log[at + OUTPUT] is output
        self._last[output.key] = at if is_known and at is not None else sys.maxsize

    def _is_own(self) -> bool:
        """Whether this is the thread whose ops are noted."""
        if self._own is not None and self.contexts.local.state is not self._own:
            self.is_quick = False
        return self.is_quick

    def _add(self, record: OpRecord) -> None:
        if self._is_noting and self.contexts.local.state is self._own:
            self._log += (RECORD, 3, record)
            self._noted += 1
        else:
            super()._add(record)

    # What is made of it.

    def catch_up(self) -> None:
        if self._caught_up_to == len(self._log):
            return
        with self._lock:
            log = self._log
            while (at := self._caught_up_to) < len(log):
                try:
                    self._read_block(log[at], at)
                except Exception as error:  # whoever asks may be an op of the program's
                    # Where it is a signal handler's the block is read once more, later.
                    self._trouble(error)
                self._caught_up_to = at + log[at + 1]

    def _read_block(self, kind: int, at: int) -> None:
        log = self._log
        if kind == OP:
            self._make(at)
        elif kind == DONE:
            self._complete(at)
        elif kind == RECORD:
            self._append(at, log[at + 2])
        elif kind == AGAIN:
            self._tracker.know_again(log[at + 2], log[log[at + 3] + OUTPUT])
        elif kind == RESULT:
            log[log[at + 2] + OUTPUT].is_result = True

    def _append(self, at: int, record: OpRecord) -> None:
        """What a block was read for; a signal that comes in then finds it done."""
        self._made += 1
        self._caught_up_to = at + self._log[at + 1]
        self._describer.raw.append(record)

    def _outputs_at(self, places: list[int]) -> list[OpOutput]:
        """The outputs that are known there; those of an op that was lost aren't."""
        return [made for at in places if (made := self._log[at + OUTPUT]) is not None]

    def _make(self, at: int) -> None:
        log = self._log
        (
            index,
            facts,
            state,
            where,
            script,
            sequence,
            phase,
            owner,
            inputs,
            constants,
            over,
        ) = log[at + 2 : at + OP_HEAD]
        first = at + OP_HEAD
        second = first + inputs
        third = second + constants
        fourth = third + over
        record = OpRecord(index, facts.op_type, facts, self._outputs_at(log[first:second]))
        record.constants = log[second:third]
        if facts.has_writes:
            record.overwrites = self._outputs_at(log[third:fourth])
        record.frames = (*log[fourth : at + log[at + 1]],)
        record.state, record.place = state, where
        record.script, record.sequence = script, sequence
        record.phase, record.owner_of = phase, owner
        self._records[at] = record
        self._append(at, record)

    def _complete(self, at: int) -> None:
        log, tracker = self._log, self._tracker
        began = log[at + 2]
        record = self._records[began]
        record.time, count = log[at + 3], log[at + 5]
        if not count:
            record.result = log[at + 4]
        record.outputs = []
        at += DONE_HEAD
        for slot in range(count):
            reference, key, dtype, judged, _, _, device, is_view, held, is_written, offset, size = (
                log[at : at + OUT_HEAD]
            )
            first = at + OUT_HEAD
            output = OpOutput.noted(record, slot, reference, key, dtype, device)
            output.judged, output.is_view, output.held = judged, is_view, held
            output.shape = torch.Size(log[first : first + size])
            end = first + size
            if key:
                output.offset, output.stride = offset, (*log[end : end + size],)
                end += size
            record.outputs.append(output)
            log[at + OUTPUT] = output
            tracker.add_later(output)
            if is_written:
                tracker.written(output)
            at = end
        del self._records[began]
