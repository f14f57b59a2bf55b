"""What a program that is stepped through has computed so far."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import torch

from tfdbg_cli.dumps.dump import Datum
from tfdbg_cli.dumps.elements import parse_tensor_name
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.engines.torch.private import unobserved
from tfdbg_cli.engines.torch.record.op_record import OpOutput, OpRecord
from tfdbg_cli.engines.torch.record.tracking import extent
from tfdbg_cli.engines.torch.record.views import ViewFinder
from tfdbg_cli.engines.torch.record.written import is_written
from tfdbg_cli.engines.torch.stepping.overrides import is_alias, plain_name
from tfdbg_cli.engines.torch.stepping.values import copied

if TYPE_CHECKING:
    from tfdbg_cli.engines.torch.record.run_recorder import RunRecorder

__all__ = ["RecordedOutputs"]

# The same few names are asked for again and again.
_parsed = functools.lru_cache(maxsize=1024)(parse_tensor_name)


class RecordedOutputs:
    """The outputs of a run that goes on, by name.

    Args:
        recorder: of the run.
        is_open: of a record: whether its op isn't done, or was undone.
    """

    def __init__(self, recorder: RunRecorder, is_open: Callable[[OpRecord], bool]) -> None:
        self._recorder = recorder
        self._is_open = is_open
        self._records: dict[str, OpRecord] = {}
        self._plain: dict[str, str] = {}
        self._count = 0
        self._unused: list[OpRecord] = []
        self._told = 0

    def find(self, name: str) -> OpOutput | None:
        """The output of this name, ``node:slot``; ``None``: there is none yet."""
        node, slot = _parsed(name)
        record = self._record(node)
        if record is None or self._is_open(record) or slot is None:
            return None
        return record.outputs[slot] if slot < len(record.outputs) else None

    def resolve(self, name: str) -> str:
        """The name of a node, or of a tensor, that has an underscore in front; else as it is."""
        node, _ = _parsed(name)
        if self._record(node) is not None:
            return name
        return self._plain.get(node, node) + name[len(node) :]

    def _record(self, node: str) -> OpRecord | None:
        records = self._recorder.ops.records
        found = self._records.get(node)
        if found is not None or self._count == len(records):
            return found
        new = [*self._unused, *records[self._count :]]
        self._count = len(records)
        # Records from before the run get their names when it uses them.
        self._unused = [each for each in new if not each.is_adopted]
        for each in new:
            if each.is_adopted:
                self._records[each.name] = each
                self._plain.setdefault(plain_name(each.name), each.name)
        return self._records.get(node)

    def load(self, output: OpOutput) -> torch.Tensor | None:
        """The value of an output, which others may use as well; ``None``: it is gone."""
        if output.held is not None:
            return output.held.get()
        facts = output.record.facts
        if facts is not None and facts.is_uninitialized:
            return None
        if output.is_view:
            views = ViewFinder()
            for record in self._recorder.ops.records:
                if record.index > output.index:
                    break
                for each in record.outputs if record.is_adopted else ():
                    if not each.is_view:
                        views.add(each)
            load = views.load(output)
            if load is not None:
                return load()
        return output.reference()

    def of_gradient(self, maker: OpRecord) -> Iterator[OpRecord]:
        """The ops that were done to compute the gradients of an op's inputs."""
        for record in self._recorder.ops.records:
            if record.forward is maker and not self._is_open(record):
                yield record

    def before_write(self, output: OpOutput) -> None:
        """The memory of an output is about to be written to: keep what was made in it."""
        with unobserved():
            self._recorder.holder.before_write(output.key)

    def renew(self, output: OpOutput, tensor: torch.Tensor) -> torch.Tensor:
        """The memory of an output is about to get other elements: hold those instead.

        Args:
            output: of an op.
            tensor: that has the memory.

        Returns:
            A copy of what is in it.
        """
        holder, old = self._recorder.holder, output.held
        is_copied = old is not None and bool(old.key)
        with unobserved():
            holder.before_write(output.key)
            before = old.get() if old is not None and is_copied else None
            output.held = holder.hold(tensor, output.key)
        if output.is_view:
            output.is_view = False  # what it was a view of has the elements no more
        return before if before is not None else copied(tensor)

    def swap(self, view: OpOutput, tensor: torch.Tensor) -> None:
        """Instead of a view the program gets a tensor with memory of its own."""
        recorder = self._recorder
        with unobserved():
            recorder.ops.tracker.move(tensor, view)
            view.held = recorder.holder.hold(tensor, view.key)
            view.is_view = view.is_pending = False

    def is_blind_to(self, name: str) -> bool:
        """Whether ops were done since a tensor was made that weren't recorded."""
        output = self.find(name)
        return output is not None and output.index < getattr(self._recorder, "gap", 0)

    def user(self, output: OpOutput, *, with_views: bool) -> str:
        """The first op that has used a value; empty: none has.

        Args:
            output: whose value.
            with_views: an op that only makes a view of it counts as well.
        """
        for record in self._recorder.ops.records:
            if record.index <= output.index or record.facts is None or is_written(record):
                continue
            if self._is_open(record) or not any(_overlap(each, output) for each in record.inputs):
                continue
            is_view = bool(record.outputs) and all(map(is_alias, record.outputs))
            if with_views or not is_view:
                return record.name
        return ""

    def sharing(self, output: OpOutput) -> str:
        """Another tensor of the program in the same memory, made earlier; empty: there is none."""
        if not is_alias(output):
            return ""
        for record in self._recorder.ops.records:
            if record.index >= output.index:
                break
            for each in record.outputs:
                if _overlap(each, output) and each.reference() is not None:
                    return each.name
        return ""

    def leaves(self) -> Iterator[tuple[str, OpOutput]]:
        """What no op has made, by the name of the node."""
        for record in self._recorder.ops.records:
            if record.facts is None and record.is_adopted and record.outputs:
                yield record.name, record.outputs[0]

    def made(self, node: str) -> Sequence[Datum]:
        """The tensors of an op that was done, and what was found since the last time.

        That is what the op at which the program waits reads and no op has made.
        """
        start, is_open = self._told, self._is_open
        for record in reversed(self._recorder.ops.records):
            if not is_open(record):
                self._told = max(record.index + 1, start)
                break

        def is_old(record: OpRecord) -> bool:
            return (record.index < start and record.name != node) or is_open(record)

        return self._recorder.so_far(is_old).data()

    def dump(self) -> MemoryDump:
        """All of it."""
        return self._recorder.so_far(self._is_open)


def _overlap(one: OpOutput, other: OpOutput) -> bool:
    """Whether two outputs have elements in common."""
    if one is other:
        return True
    if not one.key or one.key != other.key:
        return False
    first, end = extent(one.offset, one.stride, one.shape or (), one.dtype)
    start, stop = extent(other.offset, other.stride, other.shape or (), other.dtype)
    return first < stop and start < end
