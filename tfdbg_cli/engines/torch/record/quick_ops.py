"""Notes ops in one flat list while the program runs; what others ask for is made of it later."""

from __future__ import annotations

import math
import time
import weakref
from collections.abc import Mapping, Sequence
from types import FrameType
from typing import Any, TypeAlias

import torch

from tfdbg_cli.common.interpreter.signal_gate import uninterrupted
from tfdbg_cli.engines.torch.names.contexts import RawPlace, ThreadState
from tfdbg_cli.engines.torch.private import (
    MAY_CAPTURE,
    current_node,
    functions_seen,
    is_capturing,
    next_sequence,
    quiet,
    storage_address,
    storage_key,
)
from tfdbg_cli.engines.torch.record.generated import script_place
from tfdbg_cli.engines.torch.record.op_facts import REAL
from tfdbg_cli.engines.torch.record.op_log import (
    AGAIN,
    DONE,
    DTYPE,
    IS_VIEW,
    JUDGED_AT,
    KEY,
    OP,
    OP_HEAD,
    OUTPUT,
    OWNER,
    LoggedOps,
)
from tfdbg_cli.engines.torch.record.op_record import (
    CLEAN_IF_INPUTS_ARE,
    FORWARD,
    JUDGED,
    NOT_JUDGED,
    OPTIMIZER,
    OpRecord,
)
from tfdbg_cli.engines.torch.record.op_recorder import flat, with_gaps
from tfdbg_cli.engines.torch.record.schemas import KNOWN, OpFacts, facts_of
from tfdbg_cli.engines.torch.values.access import PLAIN, is_freed, is_seen

__all__ = ["QuickOps", "Started"]

_Tensor, _Parameter = torch.Tensor, torch.nn.Parameter
_reference = weakref.ref
_NO_OTHERS: frozenset[torch.dtype] = frozenset()
_NONE: frozenset[int] = frozenset()

#: An op that has begun: its block, facts, inputs, what it writes to, place, frames, owner.
Started: TypeAlias = (
    "tuple[int, OpFacts, list[int], list[torch.Tensor] | None, RawPlace, list[Any], Any]"
)


class QuickOps(LoggedOps):
    """The ops of one run, noted as they come, as far as they are ordinary."""

    # What the mode calls. None of it raises.

    @uninterrupted
    def start(
        self, op: Any, args: Any, kwargs: Mapping[str, Any], frame: FrameType | None
    ) -> Started | None:
        """An op is about to be done; ``None``: it is one for `begin`."""
        if self._is_ahead:
            return None
        state = self.contexts.local.state
        if state is not self._own:
            if self._own is not None:
                self.is_quick = False
                return None
            self._own = state
        if state.is_busy or self.is_eager or self._has_pending:
            return None
        self._is_noting = True
        try:
            if functions_seen():  # it would see every attribute that is read
                with quiet():
                    return self._start(state, op, args, kwargs, frame)
            return self._start(state, op, args, kwargs, frame)
        except Exception as error:
            self.is_quick = False  # what was noted of it may be half of it
            self._trouble(error)
            return None
        finally:
            self._is_noting = False

    @uninterrupted
    def done(self, started: Started, result: Any) -> None:
        """It is done."""
        now = time.perf_counter_ns()
        try:
            if functions_seen():
                with quiet():
                    is_noted = self._done(now, started, result)
            else:
                is_noted = self._done(now, started, result)
            if not is_noted:
                record = self.undone(started)
                if record is not None:
                    record.overwritten = started[3]
                    self.end(record, result)
        except Exception as error:
            self.is_quick = False
            self._trouble(error)

    @uninterrupted
    def undone(self, started: Started) -> OpRecord | None:
        """The record of an op that isn't done, and that isn't noted any further."""
        self.catch_up()
        return self._records.pop(started[0], None)

    def _start(  # noqa: PLR0915
        self,
        state: ThreadState,
        op: Any,
        args: Any,
        kwargs: Mapping[str, Any],
        frame: FrameType | None,
    ) -> Started | None:
        # In one piece, as `begin`.
        known = KNOWN.get(id(op))
        facts = known[1] if known is not None else facts_of(op)
        if facts.is_ignored or facts.is_late or (MAY_CAPTURE and is_capturing()):
            return None
        log, live, last = self._log, self._live, self._last
        inputs: list[int] = []
        constants: list[Any] = []
        has_list = False
        if not facts.is_source:
            given = (*enumerate(args), *kwargs.items()) if kwargs else enumerate(args)
            for place, value in given:
                kind = type(value)
                if kind is _Tensor or kind is _Parameter:
                    at: int | None = live.get(id(value))
                    if at is None or log[at]() is not value:
                        at = self._at(state, value, frame)
                        if at is None:
                            return None
                    elif last.get(log[at + KEY], at) > at:  # written to through another
                        return None
                    inputs.append(at)
                elif kind is list or kind is tuple:
                    found = self._all_at(state, value, inputs, frame) if value else False
                    if found is None:
                        return None
                    if found:
                        has_list = True
                        if any(each is None for each in value):
                            constants += (place, with_gaps(value))
                    else:
                        constants += (place, value)
                elif value is not None:
                    if isinstance(value, _Tensor):
                        return None
                    constants += (place, value)
        top = state.top
        boundary = top.frame if top is not None else None
        outer = None
        frames: list[Any] = []
        while frame is not None:
            if frame is boundary:
                assert top is not None
                outer = top.outer
                break
            frames += (frame.f_code, frame.f_lasti)
            frame = frame.f_back
        node = current_node()
        mark = self.contexts.mark(state, node) if node is not None else None
        where = state.place
        if where[0] is not top or where[1] is not mark or where[2] is not outer:
            where = state.place = (top, mark, outer)
        sequence = next_sequence() - 1
        if sequence != state.last_sequence:
            state.last_sequence = sequence
        else:
            sequence = -1
        phase, owner = "", None
        if top is not None and top.updates is not None:
            if outer is not None and top.updates.is_closure(frames[::2]):
                phase = FORWARD
            else:
                phase = OPTIMIZER
                if not has_list:
                    for each in inputs:
                        owner = log[each + OWNER]
                        if owner is not None:
                            break
                    else:
                        owner = self._owner(top.updates, args)
        overwritten: list[torch.Tensor] | None = None
        over: Sequence[int] = ()
        if facts.has_writes:
            if facts.writes == (0,) and not facts.out and args and type(args[0]) in PLAIN:
                overwritten, over = [args[0]], inputs[:1]
            else:
                overwritten = list(flat(facts.written(args, kwargs)))
                places = map(self._find_at, overwritten)
                over = [place for place in places if place is not None]
            if self._check is not None and not facts.keeps_elements:
                for each in over:
                    if log[each + JUDGED_AT] is None:
                        self._judge_before_write(log[each + OUTPUT])
                    elif log[each + IS_VIEW] and log[each + JUDGED_AT] == NOT_JUDGED:
                        return None  # maybe a view of what nobody has looked at
            if self.holder.has_shared and not facts.keeps_elements:
                for each in over:
                    self.holder.before_write(log[each + KEY])
        size = OP_HEAD + len(inputs) + len(constants) + len(over) + len(frames)
        log += (
            OP,
            size,
            next(self._indices),
            facts,
            state,
            where,
            script_place(),
            sequence,
            phase,
            owner,
            len(inputs),
            len(constants),
            len(over),
            *inputs,
            *constants,
            *over,
            *frames,
        )
        self._noted += 1
        return len(log) - size, facts, inputs, overwritten, where, frames, owner

    def _done(self, now: int, started: Started, result: Any) -> bool:  # noqa: PLR0915
        # In one piece, too.
        at, facts, inputs, overwritten, where, frames, owner = started
        log = self._log
        kind = type(result)
        value: Any = None
        outputs: Sequence[torch.Tensor] = ()
        if kind is _Tensor or kind is _Parameter:
            outputs = (result,)
        elif kind is tuple or kind is list:
            outputs = [*flat(result)]
        elif isinstance(result, _Tensor):
            return False
        else:
            value = result
        written, all_written = None, _NONE
        if overwritten:
            if len(overwritten) != 1 or overwritten[0] is not result:
                returned = set(map(id, outputs))
                outputs = [*outputs, *(each for each in overwritten if id(each) not in returned)]
            if not facts.keeps_elements:
                written = overwritten[0]
                if len(outputs) > 1:
                    all_written = frozenset(map(id, overwritten))
        base = len(log)
        block: list[Any] = [DONE, 0, at, now, value, len(outputs)]
        check, live, places, pins = self._check, self._live, self._places, self._tracker.pins
        suspects: list[int] = []
        for slot, tensor in enumerate(outputs):
            kind = type(tensor)
            if kind is not _Tensor and kind is not _Parameter:
                self.is_quick = False  # what is known here isn't told
                return False
            is_cpu = tensor.is_cpu
            try:
                key = storage_address(tensor.untyped_storage()) if is_cpu else storage_key(tensor)
                shape, dtype = tensor.shape, tensor.dtype
                stride, offset = (tensor.stride(), tensor.storage_offset()) if key else ((), 0)
            except (RuntimeError, NotImplementedError):  # it is sparse, or nested
                self.is_quick = False
                return False
            is_view = False
            if key and facts.may_be_view:
                for each in inputs:
                    if log[each + KEY] == key:
                        is_view = not self.contexts.hands_over(where, (*frames,))
                        break
            is_written = tensor is written or (len(outputs) > 1 and id(tensor) in all_written)
            device = tensor.device
            has_value = not facts.is_uninitialized and (is_cpu or device.type != "meta")
            judged = NOT_JUDGED
            if has_value and check is not None:
                rule = facts.clean
                if is_view or (rule is not None and dtype in REAL and check.may_skip):
                    judged = CLEAN_IF_INPUTS_ARE
                    if is_view or rule is None or not rule.is_certain:
                        others = _NO_OTHERS if is_view or rule is None else rule.dtypes
                        for each in inputs:
                            was = log[each + JUDGED_AT]
                            if was is None:
                                was = log[each + OUTPUT].judged
                            other = log[each + DTYPE]
                            if not was or (other is not dtype and other not in others):
                                judged = NOT_JUDGED
                                break
                if not judged and not is_view:
                    judged = JUDGED
                    if dtype in REAL:
                        if (
                            # What has an address and was made here is not a wrapper, nor zeros
                            # without memory. Of all else `access` decides, if it has to be known.
                            not (is_cpu and not offset and tensor.data_ptr())
                            or (not facts.is_fresh and is_freed(tensor))
                            or is_seen(tensor)
                            or not math.isfinite(tensor.sum().item())
                        ):
                            suspects.append(slot)
                    elif dtype.is_floating_point or dtype.is_complex:
                        suspects.append(slot)
            held = None
            if self._holds and has_value and not is_view:
                held = self.holder.hold(tensor, key)
            place = base + len(block)
            block += (
                _reference(tensor),
                key,
                dtype,
                judged,
                owner,
                None,
                device,
                is_view,
                held,
                is_written,
                offset,
                len(shape),
                *shape,
                *stride,
            )
            live[id(tensor)] = place
            if key:
                found = places.get(key)
                if found is None:
                    places[key] = place
                    pins.add(key, tensor)  # what is known by it is this storage for good
                elif isinstance(found, list):
                    found.append(place)
                else:
                    places[key] = [found, place]
                if is_written:
                    self._last[key] = place
        block[1] = len(block)
        log += block
        if suspects:
            self.catch_up()
            for slot in suspects:
                tensor = outputs[slot]
                made = log[live[id(tensor)] + OUTPUT]
                check.add(made.record, slot, tensor)
                if not tensor.is_cpu:  # each of them would be one
                    self.is_quick = False
        return True

    # Which output a tensor is.

    def _at(self, state: ThreadState, tensor: torch.Tensor, frame: FrameType | None) -> int | None:
        """An output that isn't known by its tensor; ``None``: that is not for here."""
        log = self._log
        again = self._again.get(id(tensor))
        key = storage_key(tensor)
        if again is not None and again[0]() is tensor:
            return again[1] if self._last.get(key, again[1]) <= again[1] else None
        if key in self._prior or self._tracker.has(tensor):
            return None
        found = self._places.get(key) if key else None
        if found is not None:
            at = self._closest(tensor, found) if isinstance(found, list) else found
            if self._last.get(key, at) > at:
                return None
            reference = _reference(tensor)
            self._again[id(tensor)] = (reference, at)
            log += (AGAIN, 4, reference, at)
            return at
        leaf = self._known_leaf(state, tensor)
        if leaf is None:
            self._unknown_leaf(tensor, frame)
        elif leaf[0] is tensor:
            self._leaf(tensor, leaf[1])
        else:
            return None
        return self._live[id(tensor)]

    def _all_at(
        self, state: ThreadState, values: Any, inputs: list[int], frame: FrameType | None
    ) -> bool | None:
        """Add the tensors of a list; whether it is one of tensors. ``None``: it isn't for here."""
        found = False
        for value in values:
            kind = type(value)
            if kind is _Tensor or kind is _Parameter:
                at = self._live.get(id(value))
                if at is None or self._log[at]() is not value:
                    at = self._at(state, value, frame)
                elif self._last.get(self._log[at + KEY], at) > at:
                    at = None
                if at is None:
                    return None
                inputs.append(at)
                found = True
            elif kind is list or kind is tuple:
                inner = self._all_at(state, value, inputs, frame)
                if inner is None:
                    return None
                found = inner or found
            elif isinstance(value, _Tensor):
                return None
            elif value is not None and not found:
                return False
        return found
