"""Tensors after others were written to that share their memory: nodes of their own."""

from __future__ import annotations

import time
from collections.abc import Sequence

import torch

from tfdbg_cli.engines.torch.private import storage_key
from tfdbg_cli.engines.torch.record.op_record import (
    CLEAN_IF_INPUTS_ARE,
    OpOutput,
    OpRecord,
)
from tfdbg_cli.engines.torch.record.schemas import OpFacts

__all__ = ["describe_written", "is_written", "make_written"]

_SUFFIX = "_written"


def written() -> None:
    """What such nodes are called; nothing is computed."""


_FACTS = OpFacts(written)


def is_written(record: OpRecord) -> bool:
    """Whether a record is of this kind."""
    return record.facts is _FACTS


def make_written(index: int, tensor: torch.Tensor, sources: Sequence[OpOutput]) -> OpRecord:
    """The record of a tensor as it is now.

    Args:
        index: of the record.
        tensor: of the program.
        sources: the tensor before the writes, and what was written to.
    """
    record = OpRecord(index, _FACTS.op_type, _FACTS, list(sources))
    record.time = time.perf_counter_ns()
    record.owner_of = sources[0].record.owner_of
    output = OpOutput(record, 0, tensor, storage_key(tensor))
    output.is_pending = True
    if all(source.judged for source in sources):
        output.judged = CLEAN_IF_INPUTS_ARE
    record.outputs.append(output)
    return record


def describe_written(record: OpRecord) -> None:
    """Put it into words.

    It belongs where the tensor was made; what is said of its line is that of the last write.
    """
    before, writer = record.inputs[0].record, record.inputs[-1].record
    record.base = before.base if is_written(before) else f"{before.base}{_SUFFIX}"
    record.prefix, record.scope, record.module = before.prefix, before.scope, before.module
    record.owner = before.owner
    record.phase, record.stack = writer.phase, writer.stack
    record.called_at = writer.called_at
