"""What is done with the ops of a run that is debugged: the levels at which it may be watched."""

from __future__ import annotations

import dataclasses
import functools
import time
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any

import torch

from tfdbg_cli.common.interpreter.program_signals import contained
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.dumps.series.history import MeasuredTensor
from tfdbg_cli.engines.base import Capture, Watch
from tfdbg_cli.engines.kit.levels import CHECKED, ONLY_BAD
from tfdbg_cli.engines.torch.around.process_patches import PROCESS_PATCHES
from tfdbg_cli.engines.torch.around.surrounding import Around, Invocation
from tfdbg_cli.engines.torch.names.scopes import Names
from tfdbg_cli.engines.torch.record.fast_steps import FastStep
from tfdbg_cli.engines.torch.record.holding import HeldValue
from tfdbg_cli.engines.torch.record.op_record import (
    CLEAN_IF_INPUTS_ARE,
    OPTIMIZER,
    OpOutput,
    OpRecord,
)
from tfdbg_cli.engines.torch.record.run_recorder import RunRecorder
from tfdbg_cli.engines.torch.runs.exact_check import Verdicts, is_nonfinite
from tfdbg_cli.engines.torch.runs.failures import is_framework_error
from tfdbg_cli.engines.torch.runs.magnitudes import Sizes
from tfdbg_cli.engines.torch.runs.replacing import cannot_replace, replace_tensors
from tfdbg_cli.engines.torch.values.access import PLAIN

__all__ = ["FullLevel", "RecordingLevel", "RecordsLevel"]

# Values that are kept where otherwise none is: of bad tensors, the first ones.
_MOST_KEPT = 100
# More of them are kept as long as all take no more than that.
_MOST_BYTES = 8 << 20
# Ops in which something bad has begun, whose inputs are kept as well: they tell why.
_MOST_BEGUN = 4
# An op that is under way is among the last ones: others begin within it, or on other threads.
_MOST_UNDER_WAY = 20


class RecordingLevel(RunRecorder):
    """Records every op, and says what came of the run.

    Args:
        watch: what is asked for.
        allowance: bytes that may be copied or kept while a bad tensor is waited for; ``None``: any
            number.
        checks: makes what judges outputs as they are made, given what is to be told of a bad one;
            ``None``: nothing does.
        options: of the recorder.

    Attributes:
        sizes: gets the largest magnitudes; ``None``: nobody wants them.
    """

    sizes: Sizes | None = None
    is_bare = True
    _fast: FastStep | None = None  # that was made, and nobody has looked into

    def __init__(
        self,
        watch: Watch,
        allowance: int | None,
        checks: Callable[[Any], Verdicts[OpRecord]] | None,
        **options: Any,
    ) -> None:
        # No circle: what was recorded is let go of as soon as the run is.
        keep = functools.partial(type(self)._keep, weakref.proxy(self))
        self._checks = checks(keep) if checks is not None else None
        super().__init__(watch, check=self._checks, allowance=allowance, **options)
        self._allowance = allowance
        self._bad_outputs: list[OpOutput] = []
        self._bad_ids: set[int] = set()  # of those
        self._kept = self._kept_bytes = self._begun = 0

    def begin_run(self) -> None:
        super().begin_run()
        if self.sizes is not None:
            self.sizes.begin(self.kind)

    def enter_module(self, module: Any, arguments: Any = None) -> None:
        """Names are under the module from now on."""
        self.is_bare = False
        super().enter_module(module)

    def leave_module(self, module: Any, output: Any = None) -> None:
        """Names are under the caller again."""
        super().leave_module(module, output)
        if self.sizes is not None:
            self.sizes.output(module, output)

    def backward_done(self, is_grad: bool, value: Any = None) -> None:
        """Gradients of parameters are measured."""
        if self.sizes is not None and not is_grad:
            self.sizes.gradients()

    def measured(self) -> tuple[Sequence[MeasuredTensor], Iterable[float]]:
        return self.sizes.row() if self.sizes is not None else ((), ())

    def make_step(self, optimizer: Any, make: Callable[[], Any]) -> Around:
        """Make the step that ends the run, and look into it only if there is something to see.

        If there is, it is made once more; so it is for a dump that somebody wants all the same.

        Args:
            optimizer: whose step it is; without a closure.
            make: makes it.
        """
        call: Invocation = make, (), {}
        if self.sees_alone:
            with self.unseen():
                step = self._fast_step(optimizer, make)
                if step is not None:
                    try:
                        value = yield call
                        if step.is_clean():
                            self._fast = step
                            return value
                    except Exception as error:
                        if not is_framework_error(error):
                            raise
                    self.is_regular = False
                    step.put_back()
        return (yield call)

    def _fast_step(self, optimizer: Any, make: Callable[[], Any]) -> FastStep | None:
        """A step that may go unseen; ``None``: there is something to be seen by now."""
        with contained:
            checks, ops = self.checked(), self.ops
            if checks is None or not checks.has_nothing or ops.troubles or ops.failure is not None:
                return None
            top = ops.contexts.local.state.top
            outer = top.outer if top is not None else None
            return FastStep.of(optimizer, make, outer, self._allowance)
        return None

    def checked(self) -> Verdicts[OpRecord] | None:
        """The checks of all that is there by now; ``None``: there are none."""
        return self._checks

    def glimpse(self) -> MemoryDump | None:
        """The ops that are done."""
        return self.so_far(lambda record: record.facts is not None and not record.time)

    def _whole(self) -> MemoryDump:
        """The run as a dump, with the step that nobody has looked into."""
        step, self._fast = self._fast, None
        if step is not None:
            step.put_back()
            self.hand_over(self)  # it has ended
            self.start()
            try:
                self.enter_phase(OPTIMIZER, step.optimizer, step.outer)
                step.make()
                self.leave_phase()
            finally:
                self.end()
        return self.make_dump()

    def failed_op(self, error: BaseException) -> str:
        """The node that raised an error; it may since have been raised from or within another."""
        if self.is_on:
            self.ops.call_failed(error)
        failure = self.ops.failure
        current: BaseException | None = error
        seen = 0
        while failure is not None and current is not None and seen < 20:
            if current is failure.exception:
                return failure.node_name
            current = current.__cause__ or current.__context__
            seen += 1
        return ""

    def _gap(self) -> str:
        """What couldn't be recorded, in a sentence; empty: everything could."""
        troubles = self.ops.troubles
        more = f" (and {len(troubles) - 1} more)" if len(troubles) > 1 else ""
        return f"{troubles[0]}{more}" if troubles else ""

    def progress(self) -> str:
        """The op that has begun and not ended, or the last one."""
        latest = [r for r in self.ops.records[-_MOST_UNDER_WAY:] if r.facts is not None]
        for record in reversed(latest):
            if not record.time:
                return f"in {record.name}"
        return f"after {latest[-1].name}" if latest else ""

    def _said(self) -> str:
        """That nothing was bad."""
        more = " and of the update" if self._fast is not None else ""
        return f"none of {self.ops.count} ops{more}"

    def _passes(self, dump: MemoryDump, names: Collection[str]) -> bool | None:
        """Whether one of some tensors passes the filter; ``None``: it could not be asked."""
        if self.watch.predicate is None:
            return None
        asked = (datum for datum in dump.data() if datum.tensor_name in names)
        with contained:  # whoever looks at the dump tells of it
            return self.watch.passes(dump, asked)
        return None

    # Where the values aren't held, or aren't any more.

    def _keep(self, record: OpRecord, slot: int, tensor: torch.Tensor) -> None:
        """A bad tensor is there now: the first ones are kept, and what they were made of."""
        size = tensor.nbytes if type(tensor) in PLAIN else 0
        if self._kept >= _MOST_KEPT and self._kept_bytes + size > _MOST_BYTES:
            return
        self._kept += 1
        self._kept_bytes += size
        output, ops = record.outputs[slot], self.ops
        known = self._bad_ids
        is_first = bool(record.inputs) and not any(id(each) in known for each in record.inputs)
        self._take([output])
        if output.held is None or output.held.is_gone:
            output.held = ops.holder.hold(tensor, output.key)
        if is_first and self._begun < _MOST_BEGUN:
            self._begun += 1
            ops.hold_inputs(record)
            self._take(record.inputs)

    def _take(self, outputs: Sequence[OpOutput]) -> None:
        self._bad_outputs += outputs
        self._bad_ids.update(map(id, outputs))

    def _held_bad(self) -> Iterator[HeldValue | None]:
        return (output.held for output in self._bad_outputs)

    def _finish_without_values(self, error: BaseException | None) -> Capture:
        """The graph of the run and its bad values, if there are any."""
        self.end()
        assert self._checks is not None
        bad = {record.outputs[slot].name for record, slot in self._bad()}
        passes, dump, gap = None, None, self._gap()
        if error is not None or bad or gap:
            dump = self._whole()
            dump.lists_only_bad = True
            dump.suspects = frozenset(
                record.outputs[slot].name
                for record, slot in self._checks.bad()
                if record.is_adopted
            )
            dump.kept = ONLY_BAD
        if error is None:
            passes = bool(bad)
            if bad and dump is not None and self._kept:
                passes = self._passes(dump, bad)
            if passes is False and not gap:
                dump = None
        self.seconds = time.perf_counter() - self._began
        said = self._said()
        return Capture(
            None,
            dump,
            error,
            filter_passed=passes,
            progress_text=said,
            gap=gap,
            replaced=cannot_replace,
        )

    def _bad(self) -> list[tuple[OpRecord, int]]:
        assert self._checks is not None
        found = self._checks.bad()
        if found:
            self.ops.describe()
        return [
            (record, slot)
            for record, slot in found
            if record.is_adopted and not self.watch.excludes(record.name)
        ]


class FullLevel(RecordingLevel):
    """Records every op and holds the values.

    Where only a tensor with a nan or an infinity passes the filter, a quick check of each tells
    which values have to be looked at: mostly none, and no dump is made.

    Args:
        names: what things are called.
        allowance: as above: with more values than that it goes on as `RecordsLevel` does.
        options: of the recorder.

    Attributes:
        has_nonfinite: there was a nan or an infinity, whatever the filter says; known at the end.
    """

    level = "everything"

    def __init__(
        self,
        watch: Watch,
        names: Names,
        allowance: int | None = None,
        **options: Any,
    ) -> None:
        is_checked = watch.filter_name in CHECKED
        allowance = allowance if is_checked else None
        checks = Verdicts if allowance is not None else _judged_later
        super().__init__(
            watch,
            allowance,
            checks if is_checked else None,
            limit=watch.limit,
            names=names,
            precious=functools.partial(type(self)._held_bad, weakref.proxy(self)),
            **options,
        )
        self.has_nonfinite = False

    def can_renew(self) -> bool:
        """Whether nothing of what was recorded is of interest: another run may be, by the same."""
        ops, holder = self.ops, self.holder
        is_partial = ops.troubles or ops.failure or holder.is_spent or holder.spilled_bytes
        # Others have had a hand in it, or may still have.
        is_shared = self._guests or self._is_followed or self._notes or self._expanding is not None
        if is_partial or is_shared or PROCESS_PATCHES.compiled.was_used or not self.can_resume:
            return False
        checks = self.checked()
        return checks is not None and not checks.bad()

    def is_like(self, watch: Watch, allowance: int | None) -> bool:
        """Whether it records as one that is made for a run; it holds as much from now on."""
        is_like = self.watch == watch and self._ways == PROCESS_PATCHES.ways
        if not is_like or (allowance is None) != (self._allowance is None):
            return False
        if allowance is not None:
            self.holder.allow(allowance)
        return True

    def serves(self, watch: Watch) -> bool:
        """It does for the same without a filter as well."""
        unfiltered = dataclasses.replace(self.watch, filter_name="", exclude="", predicate=None)
        holder = self.holder
        if watch == unfiltered and not holder.is_spent:
            holder.allow(None)
            self.watch, self._checks = watch, None
        return super().serves(watch)

    def finish(self, error: BaseException | None) -> Capture:
        """The dump of the run; none if it is known that nothing in it passes."""
        if self.holder.is_spent:
            self.is_large = True
            return self._finish_without_values(error)
        self.end()
        passes, said, make_dump = None, "", self._whole
        dump: MemoryDump | None = None
        if error is None and self._checks is not None:
            found = self._nonfinite(self._checks)
            self.has_nonfinite = bool(found)
            passes, said = False, self._said()
            make_dump = functools.partial(self._with_suspects, found)
            if found:
                dump = make_dump()
                passes = self._passes(dump, dump.suspects or ())
                if passes is False:
                    dump = None
        else:
            dump = make_dump()
        self.is_large = self.holder.spilled_bytes > 0
        self.seconds = time.perf_counter() - self._began
        return Capture(
            None,
            dump,
            error,
            filter_passed=passes,
            progress_text=said,
            gap=self._gap(),
            make_dump=make_dump if dump is None else None,
            replaced=functools.partial(replace_tensors, dump),
        )

    def _with_suspects(self, found: Sequence[OpOutput]) -> MemoryDump:
        dump = self._whole()  # which gives them their names
        dump.suspects = frozenset(output.name for output in found)
        return dump

    def seen(self) -> MemoryDump | None:
        """All but a step that went unseen."""
        return self.make_dump()

    def checked(self) -> Verdicts[OpRecord] | None:
        """The checks of all that is there by now; ``None``: there are none."""
        if self._checks is not None:
            # Inputs and parameters are made by no op; what others send comes after theirs.
            given = [*self.ops.given]
            _add_held(self._checks, given, None)
            del self.ops.given[: len(given)]  # other threads of the program may have added some
        return self._checks

    def _nonfinite(self, checks: Verdicts[OpRecord]) -> list[OpOutput]:
        """The held values that are bad."""
        ops = self.ops
        self.checked()
        if not checks.bad():
            return []
        # What is clean if its inputs are.
        _add_held(checks, ops.raw, CLEAN_IF_INPUTS_ARE)
        found = []
        for record, slot in checks.bad():
            output = record.outputs[slot]
            if not record.is_adopted or output.is_view or output.held is None:
                continue
            value = output.held.get()
            if value is not None and is_nonfinite(value):
                found.append(output)
        return sorted(found, key=lambda output: output.index)


def _judged_later(keep: Any) -> Verdicts[OpRecord]:
    """Nothing has to be kept of a bad tensor: it is there at the end."""
    return Verdicts(is_last=False)


def _add_held(checks: Verdicts[OpRecord], records: Iterable[OpRecord], judged: int | None) -> None:
    """Check the held values of records, all or those that were judged in one way."""
    for record in records:
        for output in record.outputs:
            held = output.held
            if held is None or (judged is not None and output.judged != judged):
                continue
            for each in (held, *held.parts):
                if each.tensor is not None:
                    checks.add(record, output.slot, each.tensor)


class RecordsLevel(RecordingLevel):
    """Records every op, and holds the first bad values only, and what those were made of.

    That is where they can be told: on a CPU.
    """

    level = "op records"

    def __init__(self, watch: Watch, names: Names, allowance: int | None = None) -> None:
        super().__init__(watch, allowance, Verdicts, hold=False, names=names)

    def finish(self, error: BaseException | None) -> Capture:
        """The graph of the run and its bad values, if there are any."""
        return self._finish_without_values(error)
