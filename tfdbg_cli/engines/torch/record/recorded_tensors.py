"""Which records the tensors of a run are, and what belongs to the run at all."""

from __future__ import annotations

import bisect
import functools
import itertools
import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from types import FrameType
from typing import Any

import torch

from tfdbg_cli.common.errors import one_line
from tfdbg_cli.common.interpreter.program_signals import pass_on
from tfdbg_cli.engines.kit.watch_matcher import WatchMatcher
from tfdbg_cli.engines.torch.names.contexts import Contexts, ThreadState
from tfdbg_cli.engines.torch.names.leaves import Leaves
from tfdbg_cli.engines.torch.names.scopes import Leaf, Names
from tfdbg_cli.engines.torch.private import NO_SEQUENCE, next_sequence, sequence_of, storage_key
from tfdbg_cli.engines.torch.record.describing import Describer
from tfdbg_cli.engines.torch.record.holding import Holder
from tfdbg_cli.engines.torch.record.op_record import JUDGED, NOT_JUDGED, OpOutput, OpRecord
from tfdbg_cli.engines.torch.record.tracking import Tracker
from tfdbg_cli.engines.torch.record.written import make_written
from tfdbg_cli.engines.torch.runs.unused import UnusedOps
from tfdbg_cli.engines.torch.values.access import is_given_back

__all__ = ["RecordedTensors"]

_Tensor = torch.Tensor
_ACCUMULATE = "AccumulateGrad/"
# Leaves that are checked though they aren't held: not the many bytes of a model.
_JUDGED = frozenset(["Buffer", "Input", "State"])
# What is recorded before a run begins, which may never come.
_MOST_AHEAD = 20_000
_MOST_BYTES_AHEAD = 1 << 30


class RecordedTensors:
    """The records of one run, and the tensors that they know.

    Args:
        names: of modules, parameters and optimizers.
        wanted: which values are held.
        holder: holds them; ``None``: nobody does.
        check: is told of every output as it is made.

    Attributes:
        contexts: the calls that are open.
        given: what no op has made, and what other processes have sent; whoever looks takes it.
        holder: of the values.
        troubles: what went wrong in here.
        unused: which ops before the run aren't recorded; ``None``: all are.
        is_eager: records are put into words at once: their names say which values are held.
    """

    def __init__(
        self, names: Names, wanted: WatchMatcher, holder: Holder | None, check: Any = None
    ) -> None:
        self.troubles: list[str] = []
        self._tracker = Tracker()
        self.holder = holder if holder is not None else Holder()
        # None of these keeps what keeps it: memory is let go of as soon as a run is.
        myself = weakref.proxy(self)
        kind = type(self)
        self._leaf_of = functools.partial(kind._record_of_leaf, myself)
        self.contexts = Contexts(self._leaf_of)
        self._describer = Describer(self.contexts, functools.partial(kind._trouble, myself))
        self._holds = holder is not None
        self.holder.spent = functools.partial(kind._hold_no_more, myself)
        self._wanted = wanted
        self.is_eager = not wanted.is_open
        self._check = check
        self._names = names
        self._leaves = Leaves(names, self._leaf_of)
        self._indices = itertools.count()
        self._unnamed = itertools.count()
        # Records with a lower index are from before the run.
        self._begins_at = 0
        self._first_sequence = NO_SEQUENCE
        self._is_ahead = False
        self.unused: UnusedOps | None = None
        self._is_over = False
        self.given: list[OpRecord] = []
        self._kept: list[OpOutput] = []  # at the end
        self._has_pending = False

    @property
    def raw(self) -> list[OpRecord]:
        """In the order in which they were begun; the latest may not be in words yet."""
        self.catch_up()
        return self._describer.raw

    @property
    def tracker(self) -> Tracker:
        """Which output a tensor is."""
        self.catch_up()
        return self._tracker

    def catch_up(self) -> None:
        """Make records of what was noted so far."""

    @property
    def is_checked(self) -> bool:
        """Whether each output is looked at as it is made: a filter is awaited."""
        return self._check is not None

    @property
    def records(self) -> list[OpRecord]:
        """In the order in which they were begun, in words."""
        self.catch_up()
        return self._describer.records()

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.raw)

    def has_written(self, start: int) -> bool:
        """Whether an op has written to memory since there were so many records."""
        return any(record.overwrites for record in self.raw[start:])

    def describe(self) -> None:
        """Put all records into words, up to now."""
        self.catch_up()
        self._describer.records()

    def _trouble(self, error: Exception) -> None:
        pass_on(error)
        text = f"An op could not be recorded: {one_line(error)}"
        if text not in self.troubles:
            self.troubles.append(text)

    def _know(self, tensor: torch.Tensor, output: OpOutput) -> None:
        """A tensor is this output from now on."""
        self._tracker.add(tensor, output)

    def _wrote(self, output: OpOutput) -> None:
        """An op has written to the memory of an output of its own."""
        self._tracker.written(output)

    # Inputs.

    def _input(self, state: ThreadState, tensor: torch.Tensor, frame: FrameType | None) -> OpOutput:
        output = self._tracker.find(tensor)
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
        if output.key not in self._tracker.writes or self._is_over:
            return output
        sources = self._tracker.sources(tensor, output)
        if len(sources) == 1:
            if sources[0] is not output:
                self._tracker.stand_for(tensor, sources[0])
            return sources[0]
        for each in sources:
            if not each.record.is_adopted:
                self._adopt(each.record)
        record = make_written(next(self._indices), tensor, sources)
        (output,) = record.outputs
        self._know(tensor, output)
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
        elif self._check is not None and not (output.is_late or self._holds or tensor.is_meta):
            # Something bad that was there before may be gone, whatever its sources are; a view may
            # be all of what was written to that anyone reads.
            output.judged = JUDGED
            self._check.add(record, output.slot, tensor)

    def hold_inputs(self, record: OpRecord) -> None:
        """Hold what an op was given that has just been done, as far as it is as it was.

        Parameters, which nobody has looked at, are looked at.
        """
        writes = self._tracker.writes
        # What the op itself has written isn't noted yet.
        own = {each.key for each in record.overwrites or ()}
        for given in [*record.inputs, *_bases(record.inputs)]:
            tensor = given.reference()
            is_changed = given.key in own or (
                given.key in writes and writes[given.key][-1].index > given.index
            )
            if tensor is None or is_changed or tensor.is_meta:
                continue
            is_leaf = given.record.facts is None
            if is_leaf and given.judged == NOT_JUDGED and self._check is not None:
                given.judged = JUDGED
                self._check.add(given.record, given.slot, tensor)
            if given.held is None or given.held.is_gone:
                given.held = self.holder.hold(tensor, given.key, is_owned=is_leaf)

    def _judge_before_write(self, output: OpOutput) -> None:
        """An op is about to write to this: whether what no op has made was bad is known only now.

        Nobody has looked at parameters, and without that they would count as clean.
        """
        for each in (output, *_bases((output,))):
            tensor = each.reference()
            is_leaf = each.record.facts is None
            if is_leaf and each.judged == NOT_JUDGED and tensor is not None and not tensor.is_meta:
                each.judged = JUDGED
                self._check.add(each.record, each.slot, tensor)

    def _hold_no_more(self) -> None:
        self._holds = False

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

    # Leaves.

    def _discover(
        self, state: ThreadState, tensor: torch.Tensor, frame: FrameType | None
    ) -> OpOutput:
        """The record of a tensor that nobody has made."""
        found = self._known_leaf(state, tensor)
        if found is not None:
            origin, leaf = found
            if origin is not tensor:
                known = self._tracker.find(origin)
                if known is None:
                    self._leaf(origin, leaf)
                output = self._tracker.find(tensor)
                if output is not None:
                    return output
            return self._leaf(tensor, leaf)
        return self._unknown_leaf(tensor, frame)

    def _unknown_leaf(self, tensor: torch.Tensor, frame: FrameType | None) -> OpOutput:
        """The record of a tensor that belongs to nothing that has names."""
        name = self._leaves.variable(tensor, frame) or f"tensor_{next(self._unnamed)}"
        leaf = Leaf(tensor, f"input/{name}", "Input")
        if self.unused is not None:
            leaf.place = self.unused.place_of(tensor)
            if not self._is_ahead:
                self.unused.use(leaf.place)
        output = self._leaf(tensor, leaf)
        if tensor.grad_fn is not None:
            # Autograd numbers its nodes, on each thread: this one is of the run, or from before.
            number = sequence_of(tensor.grad_fn)
            output.record.made_by = tensor.grad_fn.name()  # the program may let go of the tensor
            output.record.is_made_inside = self._first_sequence <= number < next_sequence()
        return output

    def _known_leaf(
        self, state: ThreadState, tensor: torch.Tensor
    ) -> tuple[torch.Tensor, Leaf] | None:
        """The tensor of a model or of the optimizer at work that a tensor is a part of."""
        context = state.top
        while context is not None and context.updates is None:
            context = context.caller
        if context is None:
            return self._leaves.leaf(tensor, None, "")
        return self._leaves.leaf(tensor, context.updates, context.prefix)

    def _leaf(self, tensor: torch.Tensor, leaf: Leaf) -> OpOutput:
        record = OpRecord(next(self._indices), leaf.op_type, None, [])
        record.time = time.perf_counter_ns()
        record.leaf = leaf
        if self.unused is not None and not self._is_ahead:
            record.written_by = self.unused.read([tensor])
        if leaf.op_type == "State":
            record.owner_of = leaf.parameter
        output = OpOutput(record, 0, tensor, storage_key(tensor))
        record.outputs.append(output)
        self._know(tensor, output)
        self._add(record)
        self.given.append(record)
        is_held = self._holds and not tensor.is_meta
        if is_held and self._wants(record, output):
            output.held = self.holder.hold(tensor, output.key, is_owned=True)
            is_there_later = not self.holder.is_limited
            output.judged = JUDGED if is_there_later else NOT_JUDGED
        is_checked = self._check is not None and leaf.op_type in _JUDGED
        if is_checked and not output.judged and not tensor.is_meta:
            output.judged = JUDGED
            self._check.add(record, 0, tensor)
        return output

    def _add(self, record: OpRecord) -> None:
        self._describer.raw.append(record)
        if self.is_eager:
            self.describe()

    def _record_of_leaf(self, tensor: torch.Tensor) -> OpRecord | str:
        """The record of the leaf that a tensor is, or what it is called."""
        output = self._tracker.find(tensor)
        if output is None:
            output = self.tracker.find(tensor)
        if output is not None and output.record.facts is None:
            return output.record
        found = self._leaves.plain_name(tensor)
        if found:
            return found
        if output is None:
            output = self._discover(self.contexts.local.state, tensor, None)
        return output.record

    # The beginning of the run.

    def look_ahead(self) -> None:
        """No run has begun: of what is recorded now only the latest part is kept."""
        self._is_ahead = True
        self._first_sequence = NO_SEQUENCE

    def _is_too_much(self) -> bool:
        return len(self.raw) > _MOST_AHEAD or self.holder.held_bytes > _MOST_BYTES_AHEAD

    def _start_over(self) -> None:
        """Forget all that was recorded: hardly any of it is going to be used by a run."""
        self._describer.clear()
        self.given.clear()
        self.holder.close()
        self._tracker = Tracker()
        self._leaves = Leaves(self._names, self._leaf_of)
        self._unnamed = itertools.count()
        self.contexts.forget()

    def begin_run(self) -> None:
        """What was recorded so far belongs to the run only as far as the run uses it."""
        if self.unused is not None and self._is_ahead:  # it is no replay
            self.unused.begin_run()
        self._is_ahead = False
        for record in self.raw:
            record.is_adopted = False
        self._begins_at = next(self._indices)
        self._first_sequence = next_sequence()
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
            if self.unused is not None:
                leaf = current.leaf
                place = self.unused.place_in(current.frames) if leaf is None else leaf.place
                self.unused.use(place)
                if leaf is not None and (tensor := current.outputs[0].reference()) is not None:
                    self.use_memory([tensor])
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

    def use(self, tensor: torch.Tensor) -> None:
        """The run reads a tensor where no op is recorded: what made it before belongs to it."""
        output = self._tracker.find(tensor)
        if output is not None and not output.record.is_adopted:
            self._adopt(output.record)
        if output is None and self.unused is not None:
            self.unused.use(self.unused.place_of(tensor))
            self.use_memory([tensor])

    def use_memory(self, tensors: Iterable[torch.Tensor]) -> None:
        """The run reads tensors that ops may have written to between runs."""
        if self.unused is not None:
            self.unused.read(tensors)

    def name_used(self, tensor: torch.Tensor, when: int) -> None:
        """Likewise, at the end: it gets a name if it has none.

        Args:
            tensor: what was read; nobody has written to it since.
            when: it was read, in nanoseconds of the performance counter.
        """
        output = self.find(tensor)
        record = (output or self._discover(self.contexts.local.state, tensor, None)).record
        if record.time <= when:
            return
        # Whoever has named it, at the end of the run, has noted it too late: it was there by then.
        record.time = when
        found = self.records  # all are in words: they may be put in order
        found.remove(record)
        found.insert(bisect.bisect(found, when, key=lambda each: each.time), record)

    def find(self, tensor: torch.Tensor) -> OpOutput | None:
        """The output that a tensor is now; ``None``: nobody has made it."""
        self.catch_up()
        output = self._tracker.find(tensor)
        if output is not None:
            output = self._current(tensor, output)
            if output.is_pending and not self._is_over:
                self._read(output)
        return output

    def followed(self, tensor: torch.Tensor) -> Callable[[], None]:
        """What a tensor is now it will be in other memory; to be called when it is there."""
        known = self._tracker.find(tensor)
        output = self._tracker.find_now(tensor, known) if known is not None else None

        def follow() -> None:
            if output is not None and storage_key(tensor) != output.key:
                self._tracker.move(tensor, output)

        return follow

    def finish(self) -> None:
        """The run is over: what was written to and not read since is shown as it is now."""
        self.catch_up()
        for tensor, known in list(self._tracker.living()):
            if not known.record.is_adopted or is_given_back(tensor):
                continue
            made = self._tracker.find_now(tensor, known)
            has_changed = made.is_pending or made.key in self._tracker.writes
            output = self.find(tensor) if has_changed else made
            if output is not None and output.record.facts is not None:
                self._kept.append(output)
        self._is_over = True

    def hand_over(self, tensor: torch.Tensor) -> None:
        """A tensor is a result of the run, whatever the program does with it."""
        if self.tracker.find(tensor) is None:
            return  # nobody has made it, and it isn't asked for
        output = self.find(tensor)  # with what was written to its memory
        if output is not None:
            output.is_result = True

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
        state = self.contexts.local.state
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


def _bases(outputs: Iterable[OpOutput]) -> Iterator[OpOutput]:
    """What some outputs are views of, up to what owns the memory."""
    for output in outputs:
        base: OpOutput | None = output
        while base is not None and base.is_view:
            base = next((each for each in base.record.inputs if each.key == output.key), None)
            if base is not None:
                yield base
