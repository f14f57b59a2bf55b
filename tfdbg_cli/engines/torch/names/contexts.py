"""Where in the program an op happens: in which module's call, backward node or optimizer."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Any

from tfdbg_cli.engines.kit.stacks import USER, Stack, call_frame, kind_of, take
from tfdbg_cli.engines.torch.names.stacks import (
    ENGINE,
    FUNCTION,
    RECOMPUTE_CODE,
    scope_of_checkpoint,
)
from tfdbg_cli.engines.torch.private import NO_SEQUENCE, current_node, next_sequence, sequence_of
from tfdbg_cli.engines.torch.record.generated import script_place
from tfdbg_cli.engines.torch.record.op_record import (
    BACKWARD,
    FORWARD,
    OPTIMIZER,
    RECOMPUTE,
    OpRecord,
)

if TYPE_CHECKING:
    import torch

    from tfdbg_cli.engines.torch.names.optimizers import Updates
    from tfdbg_cli.engines.torch.names.scopes import ModuleName

__all__ = ["Contexts", "OpContext", "ThreadState"]


class OpContext:
    """A call that ops happen in.

    Attributes:
        phase: of the ops.
        prefix: of their names.
        module: that is called, if it is one.
        updates: what an optimizer's step is about.
        sequence: number of the autograd node that ran when it was called; -1: none did.
        frame: where it was called from; it stands still until the call returns.
        outer: the stack from there on.
    """

    __slots__ = ("frame", "module", "outer", "phase", "prefix", "sequence", "updates")

    def __init__(
        self,
        phase: str,
        prefix: str,
        frame: FrameType | None,
        outer: Stack,
        sequence: int,
    ) -> None:
        self.phase = phase
        self.prefix = prefix
        self.frame = frame
        self.outer = outer
        self.sequence = sequence
        self.module: ModuleName | None = None
        self.updates: Updates | None = None


class ThreadState:
    """What is known of one thread of the program.

    Attributes:
        contexts: the calls that are open, outermost first.
        forward: sequence number of an autograd node -> the op that made it.
        last_sequence: of the last node that was made.
        api: the function of PyTorch's API that runs now.
        is_busy: what happens is the debugger's own.
    """

    def __init__(self) -> None:
        self.contexts: list[OpContext] = []
        self.top: OpContext | None = None
        self.forward: dict[int, OpRecord] = {}
        self.last_sequence = next_sequence() - 1
        self.api: Any = None
        self.is_busy = False
        self.node_sequence = -1
        self.node_prefix = ""
        self.node_forward: OpRecord | None = None

    def begin(self) -> None:
        """Recording begins: the nodes so far belong to ops that were not seen."""
        self.last_sequence = next_sequence() - 1

    def push(self, context: OpContext) -> None:
        """A call begins."""
        self.contexts.append(context)
        self.top = context
        self.node_sequence = -1

    def pop(self) -> OpContext | None:
        """It ends."""
        context = self.contexts.pop() if self.contexts else None
        self.top = self.contexts[-1] if self.contexts else None
        self.node_sequence = -1
        return context

    def made(self, record: OpRecord) -> None:
        """Note which autograd node belongs to an op, if it has one.

        Nodes are numbered as they are made, just before their op reaches the dispatcher.
        """
        last = next_sequence() - 1
        if last != self.last_sequence:
            self.last_sequence = last
            self.forward[last] = record


class Contexts:
    """The threads of one run.

    Args:
        leaf_name: what a parameter is called.
    """

    def __init__(self, leaf_name: Callable[[torch.Tensor], str]) -> None:
        self._leaf_name = leaf_name
        self._local = threading.local()
        self._states: list[ThreadState] = []

    def state(self) -> ThreadState:
        """Of the calling thread."""
        found: ThreadState | None = getattr(self._local, "state", None)
        if found is None:
            found = self._local.state = ThreadState()
            self._states.append(found)
        return found

    def clear(self) -> None:
        """Forget the calls that are open, and with them their frames."""
        for state in self._states:
            state.contexts.clear()
            state.top = None
            state.api = None

    def forget(self) -> None:
        """Forget which ops there were."""
        for state in self._states:
            state.forward.clear()

    # What opens a call.

    def open(
        self,
        state: ThreadState,
        phase: str,
        prefix: str,
        frame: FrameType | None,
        outer: Stack | None = None,
    ) -> OpContext:
        """A context at the calling frame; it still has to be pushed.

        Args:
            state: of its thread.
            phase, prefix: of its ops.
            frame: that opens it.
            outer: where it was called the first time, if this isn't it; default: here.
        """
        at = call_frame(frame)
        top = state.top
        if outer is None:
            outer = take(at, *((top.frame, top.outer) if top is not None else (None, None)))
        if top is not None and top.module is not None:
            outer.scope = top.prefix
        node = current_node()
        return OpContext(phase, prefix, at, outer, -1 if node is None else sequence_of(node))

    # What an op asks.

    def place(self, state: ThreadState, record: OpRecord, frame: FrameType | None) -> None:
        """Say where an op happens: its phase, prefix, module and stack.

        Args:
            state: of its thread.
            record: of the op.
            frame: that called it.
        """
        top = state.top
        node = current_node()
        if top is None:
            record.stack = take(frame, None, None)
        else:
            record.stack = take(frame, top.frame, top.outer)
        record.script = script_place()
        if node is not None and (top is None or top.updates is None):
            sequence = sequence_of(node)
            if top is None or top.module is None or top.sequence != sequence:
                self._place_in_backward(state, record, node, sequence, frame)
                return
        if top is None:
            record.phase = FORWARD
        elif top.updates is None:
            record.phase, record.prefix, record.module = top.phase, top.prefix, top.module
            if top.module is not None:
                record.scope = top.prefix
            elif top.phase == BACKWARD:
                record.called_at = top.outer
        elif record.stack.outer is not None and top.updates.is_closure(record.stack):
            record.phase = FORWARD
        else:
            record.phase, record.prefix = OPTIMIZER, top.prefix

    def _place_in_backward(
        self,
        state: ThreadState,
        record: OpRecord,
        node: Any,
        sequence: int,
        frame: FrameType | None,
    ) -> None:
        is_shared = sequence == NO_SEQUENCE or len(self._states) > 1  # by several nodes
        if sequence != state.node_sequence or is_shared:
            state.node_prefix, state.node_forward = self._node(state, node, sequence)
            state.node_sequence = sequence
        forward = state.node_forward
        if forward is not None:
            record.scope, record.module = forward.scope, forward.module
        record.called_at = self._called_at(state)
        record.phase, record.prefix = BACKWARD, state.node_prefix
        kind = ENGINE
        if frame is not None and kind_of(frame.f_code) != ENGINE:
            kind = _kind_between(frame)
        if kind == RECOMPUTE_CODE:
            if forward is not None and forward.stack is not None:
                record.scope = scope_of_checkpoint(forward.stack, record.scope)
            record.phase, record.prefix = RECOMPUTE, f"recompute/{record.scope}"
        elif kind == USER:
            record.prefix += "hook/"
        else:
            record.forward = forward
            is_own = kind == FUNCTION and _is_in_own_function(frame)
            if forward is not None and forward.stack is not None and not is_own:
                record.stack = forward.stack  # the line whose gradient it is

    def _called_at(self, state: ThreadState) -> Stack | None:
        """Where the backward pass was called that a thread works for."""
        # The threads of a GPU's backward passes have no calls of their own.
        for each in (state,) if state.contexts else self._states:
            for context in reversed(each.contexts):
                if context.phase == BACKWARD and context.module is None:
                    return context.outer
        return None

    def _node(self, state: ThreadState, node: Any, sequence: int) -> tuple[str, OpRecord | None]:
        """The prefix of an autograd node's ops, and the op that made it."""
        name = str(node.name()).rpartition("::")[2]
        if sequence == NO_SEQUENCE:
            tensor = getattr(node, "variable", None)
            path = self._leaf_name(tensor) if tensor is not None else ""
            return _gradients(f"{path}/{name}" if path else name), None
        if name == "CopySlices":  # of an in-place op on a view; it comes after the op's own node
            sequence -= 1
        forward = self._forward(state, name, sequence)
        if forward is None:
            return _gradients(name), None
        if name[-1:].isdigit() or name == "CopySlices":
            return _gradients(f"{forward.name}_grad"), forward
        return _gradients(f"{forward.scope}{name}"), forward

    def _forward(self, state: ThreadState, name: str, sequence: int) -> OpRecord | None:
        """The op that made an autograd node; each thread of the program counts them for itself."""
        found = state.forward.get(sequence)
        if len(self._states) == 1 or (found is not None and _is_of(name, found)):
            return found
        others = (each.forward.get(sequence) for each in self._states if each is not state)
        candidates = [each for each in (found, *others) if each is not None]
        alike = (each for each in candidates if _is_of(name, each))
        return next(alike, candidates[0] if candidates else None)


def _is_of(name: str, record: OpRecord) -> bool:
    """Whether an autograd node is called after an op: ``MseLossBackward0``, ``mse_loss``."""
    return name.partition("Backward")[0].lower() == record.op_type.replace("_", "")


def _gradients(name: str) -> str:
    for phase in ("recompute/", "gradients/", "input/"):
        name = name.removeprefix(phase)
    return f"gradients/{name}/"


def _kind_between(frame: FrameType | None) -> int:
    """What Python code a backward pass runs in a frame: of a checkpoint, a function, a hook."""
    kind = USER
    is_mode = False
    while frame is not None:
        found = kind_of(frame.f_code)
        if found == ENGINE:
            return ENGINE if is_mode and kind == USER else kind
        if found == RECOMPUTE_CODE or (found == FUNCTION and kind != RECOMPUTE_CODE):
            kind = found
        if frame.f_code.co_name == "__torch_dispatch__":
            is_mode = True  # of the program's: it does what the node would do by itself
        elif found == USER:
            is_mode = False
        frame = frame.f_back
    return kind


def _is_in_own_function(frame: FrameType | None) -> bool:
    """Whether the backward of an `autograd.Function` that runs is the user's own code."""
    while frame is not None:
        kind = kind_of(frame.f_code)
        if kind in (USER, FUNCTION):
            return kind == USER
        frame = frame.f_back
    return False
