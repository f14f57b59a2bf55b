"""The record of one op: small, quick to make, and put into words only when somebody looks."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import torch

    from tfdbg_cli.engines.kit.stacks import Stack
    from tfdbg_cli.engines.torch.names.contexts import RawPlace, ThreadState
    from tfdbg_cli.engines.torch.names.scopes import Leaf, ModuleName
    from tfdbg_cli.engines.torch.record.holding import HeldValue
    from tfdbg_cli.engines.torch.record.schemas import OpFacts

__all__ = [
    "BACKWARD",
    "CLEAN_IF_INPUTS_ARE",
    "FORWARD",
    "JUDGED",
    "NOT_JUDGED",
    "OPTIMIZER",
    "RECOMPUTE",
    "OpFailure",
    "OpOutput",
    "OpRecord",
]

FORWARD = "forward"
BACKWARD = "backward"
OPTIMIZER = "optimizer"
RECOMPUTE = "recompute"

NOT_JUDGED, JUDGED, CLEAN_IF_INPUTS_ARE = range(3)

_reference = weakref.ref


class OpOutput:
    """One output of an op: what it looked like, and its value if that is held.

    It doesn't keep the record of its op, which has it: values are let go of as soon as a run is.

    Attributes:
        index: of the record of its op.
        slot: which of its outputs.
        reference: the tensor, as long as the program keeps it.
        shape: ``None`` where it has none (nested tensors).
        key: of its storage (`private.storage_key`).
        offset, stride: where in the storage it lies.
        is_view: it has no memory of its own.
        is_result: the run hands it over: a model's output, what a backward pass begins with.
        judged: whether its elements were looked at (`NOT_JUDGED`, `JUDGED`), or needn't be, as they
            are clean if those that it was made of are (`CLEAN_IF_INPUTS_ARE`).
        is_pending: what others wrote to its memory is in it, and nobody has read it yet: its value
            is held as soon as somebody does.
        held: the value; ``None``: nobody asked for it.
    """

    __slots__ = (
        "_record",
        "device",
        "dtype",
        "held",
        "index",
        "is_pending",
        "is_result",
        "is_view",
        "judged",
        "key",
        "offset",
        "reference",
        "shape",
        "slot",
        "stride",
    )

    def __init__(self, record: OpRecord, slot: int, tensor: torch.Tensor, key: int) -> None:
        self._record = _reference(record)
        self.index = record.index
        self.slot = slot
        self.is_view = self.is_pending = self.is_result = False
        self.judged = NOT_JUDGED
        self.held: HeldValue | None = None
        # As in `place`: this is done for every output of every op.
        self.key = key
        self.reference = _reference(tensor)
        self.dtype = tensor.dtype
        self.device = tensor.device
        self.shape: tuple[int, ...] | None = None
        self.stride: tuple[int, ...] = ()
        self.offset = 0
        try:
            self.shape = tensor.shape
            if key:
                self.stride = tensor.stride()
                self.offset = tensor.storage_offset()
        except RuntimeError:  # of a nested tensor, which has several shapes
            pass

    @classmethod
    def noted(
        cls,
        record: OpRecord,
        slot: int,
        reference: weakref.ref[torch.Tensor],
        key: int,
        dtype: torch.dtype,
        device: torch.device,
    ) -> OpOutput:
        """One of which this was noted; the rest is still to be said."""
        self = cls.__new__(cls)
        self._record = _reference(record)
        self.index = record.index
        self.slot = slot
        self.is_view = self.is_pending = self.is_result = False
        self.judged = NOT_JUDGED
        self.held = None
        self.key = key
        self.reference = reference
        self.dtype = dtype
        self.device = device
        self.shape, self.stride, self.offset = None, (), 0
        return self

    def place(self, tensor: torch.Tensor, key: int) -> None:
        """It is this tensor, in this storage, from now on."""
        again = OpOutput(self.record, self.slot, tensor, key)
        self.key, self.reference = key, again.reference
        self.dtype, self.device = again.dtype, again.device
        self.offset, self.stride, self.shape = again.offset, again.stride, again.shape

    @property
    def record(self) -> OpRecord:
        """The op."""
        found = self._record()
        assert found is not None  # the run has all of them
        return found

    @property
    def is_late(self) -> bool:
        """Whether its value is there only when the program has waited for it."""
        facts = self.record.facts
        return facts is not None and facts.is_late

    @property
    def name(self) -> str:
        """``node:slot``."""
        return f"{self.record.name}:{self.slot}"


class OpRecord:
    """One op, or a tensor that was there before (a leaf).

    Thousands of these are made in a second, and a processor has more to do with the memory that
    they take than with making them. So what is noted of every op has a slot; the rest, most of
    which is known only when `Describer` has put the record into words, has its default in the
    class.

    Attributes:
        index: records are numbered in the order in which they were made.
        op_type: ``addmm``, or ``Parameter``, ``Buffer``, ``Input``, ``State``, or ``written``: a
            tensor after others that share its memory were written to (`written.make_written`).
        facts: of the operator; ``None`` for leaves.
        inputs: what it read.
        outputs: what it made, what it wrote to included.
        name: of the node.
        base: the name without the number that makes it unique.
        phase: ``forward``, ``backward``, ``optimizer`` or ``recompute``; empty for leaves.
        prefix: of the name: all but the op.
        scope: the prefix of the module, empty outside of modules.
        module: that was being called.
        owner: for ops of an optimizer: the parameter that is updated.
        overwrites: what it overwrote, as it was before.
        overwritten: the tensors, while the op runs.
        constants: its arguments that are no tensors: position or name, value, and so on.
        result: what it returned, where that is not a tensor.
        place, state: where it happened, and on which thread, until that is put into words.
        frames: the places of the frames within that, as `Stack` has them.
        sequence: of the autograd node that it made; -1: it made none.
        leaf: what a leaf is called, until that is put into words.
        note: of a leaf, what its elements don't tell.
        owner_of: the record of the parameter that an op of an optimizer is about, or its name.
        forward: for ops of a backward pass: the op whose gradient it computes.
        stack: where it was called.
        script: where TorchScript's interpreter was.
        called_at: for ops of a backward pass: where that was called.
        time: nanoseconds of the performance counter, when it was done.
        error: what it raised.
        aliases: what the program calls its outputs: slot and name.
        is_adopted: it belongs to the run.
        is_made_inside: of a leaf, the program has computed it in this run where nobody looked.
        made_by: of a leaf, the autograd node of what has computed it.
        written_by: of a leaf, an op that has written to it between runs, and its line.
    """

    __slots__ = (
        "__dict__",
        "__weakref__",
        "constants",
        "facts",
        "frames",
        "index",
        "inputs",
        "op_type",
        "outputs",
        "overwrites",
        "overwritten",
        "owner_of",
        "phase",
        "place",
        "script",
        "sequence",
        "state",
        "time",
    )

    name = ""
    base = ""
    prefix = ""
    scope = ""
    module: ModuleName | None = None
    owner = ""
    result: Any = None
    leaf: Leaf | None = None
    note = ""
    forward: OpRecord | None = None
    stack: Stack | None = None
    called_at: Stack | None = None
    error = ""
    aliases: list[tuple[int, str]] | None = None
    is_adopted = True
    is_made_inside = False
    made_by = ""
    written_by = ""

    def __init__(
        self, index: int, op_type: str, facts: OpFacts | None, inputs: Sequence[OpOutput]
    ) -> None:
        self.index = index
        self.op_type = op_type
        self.facts = facts
        self.inputs = inputs
        self.outputs: list[OpOutput] = []
        self.constants: Sequence[Any] = ()
        self.overwrites: Sequence[OpOutput] | None = None
        self.overwritten: list[torch.Tensor] | None = None
        self.owner_of: OpRecord | str | None = None
        self.phase = ""
        self.place: RawPlace | None = None
        self.state: ThreadState | None = None
        self.frames: tuple[Any, ...] = ()
        self.script: Any = None
        self.sequence = -1
        self.time = 0


class OpFailure(NamedTuple):
    """An op that raised.

    Attributes:
        exception: what it raised.
        node_name: its node.
        op_type: its type.
        inputs: the tensors that it was given, as ``node:slot``.
    """

    exception: BaseException
    node_name: str
    op_type: str
    inputs: tuple[str, ...]
