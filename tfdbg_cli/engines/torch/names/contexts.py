"""Where in the program an op happens: in which module's call, backward node or optimizer."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from tfdbg_cli.engines.kit.stacks import (
    DEBUGGER,
    USER,
    Stack,
    add_codes,
    add_frames,
    call_frame,
    kind_of,
    take,
)
from tfdbg_cli.engines.torch.private import (
    NO_SEQUENCE,
    code_of,
    current_node,
    engine_codes,
    next_sequence,
    recompute_codes,
    sequence_of,
)
from tfdbg_cli.engines.torch.record.generated import graph_frames
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

__all__ = ["Contexts", "NodeMark", "OpContext", "RawPlace", "ThreadState"]

_ACCUMULATE = "AccumulateGrad"


#: Where ops happen, as it is noted at that moment: the innermost call on their thread, the autograd
#: node if it is one of a backward pass, and the stack that the frames within the call continue.
#: `Contexts.describe` makes words of it.
RawPlace: TypeAlias = "tuple[OpContext | None, NodeMark | None, Stack | None]"


class NodeMark(NamedTuple):
    """An autograd node that runs.

    Attributes:
        sequence: its number.
        name: of its class.
        leaf: what its parameter is called, or the record of that; ``None``: it is about none.
        thread_count: how many threads have made nodes so far, each with numbers of its own.
        called_at: where the backward pass was called that a thread without calls of its own
            works for.
    """

    sequence: int
    name: str
    leaf: OpRecord | str | None
    thread_count: int
    called_at: Stack | None


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
        caller: the call that it was made in.
    """

    __slots__ = ("caller", "frame", "module", "outer", "phase", "prefix", "sequence", "updates")

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
        self.caller: OpContext | None = None

    def leave(self) -> None:
        """It returns: what is known of it stays, but nothing of the program is kept."""
        self.frame = self.updates = None


class ThreadState:
    """What is known of one thread of the program.

    Attributes:
        contexts: the calls that are open, outermost first.
        top: the innermost of them.
        forward: sequence number of an autograd node -> the op that made it.
        last_sequence: of the last node that was made.
        is_busy: what happens is the debugger's own.
        mark: of the node that ran last.
        place: of the last op, which the next one has in common with it most often.
    """

    def __init__(self) -> None:
        self.contexts: list[OpContext] = []
        self.top: OpContext | None = None
        self.forward: dict[int, OpRecord] = {}
        self.last_sequence = next_sequence() - 1
        self.is_busy = False
        self.mark: NodeMark | None = None
        self.place: RawPlace = (None, None, None)
        # What was said of a node last.
        self.told: NodeMark | None = None
        self.node_prefix = ""
        self.node_forward: OpRecord | None = None

    def begin(self) -> None:
        """Recording begins: the nodes so far belong to ops that were not seen."""
        self.last_sequence = next_sequence() - 1

    def push(self, context: OpContext) -> None:
        """A call begins."""
        context.caller = self.top
        self.contexts.append(context)
        self.top = context
        self.mark = None

    def pop(self) -> OpContext | None:
        """It ends."""
        context = self.contexts.pop() if self.contexts else None
        self.top = self.contexts[-1] if self.contexts else None
        self.mark = None
        if context is not None:
            context.leave()
        return context

    def clear(self) -> None:
        """Forget the calls that are open, and with them their frames."""
        while self.contexts:
            self.pop()


class _Local(threading.local):
    """Has a state for each thread, made when it first asks."""

    def __init__(self, states: list[ThreadState]) -> None:
        super().__init__()
        self.state = ThreadState()
        states.append(self.state)


class Contexts:
    """The threads of one run.

    `describe` makes words of what was noted of ops (`RawPlace`), one after the other in the order
    in which they began.

    Args:
        leaf_of: what a parameter is called, or the record that is going to be called so.

    Attributes:
        local: has the ``state`` of the calling thread.
    """

    def __init__(self, leaf_of: Callable[[torch.Tensor], OpRecord | str]) -> None:
        self._leaf_of = leaf_of
        self._states: list[ThreadState] = []
        self.local = _Local(self._states)

    def clear(self) -> None:
        """Forget the calls that are open."""
        for state in self._states:
            state.clear()

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

    # When an op happens.

    def mark(self, state: ThreadState, node: Any) -> NodeMark | None:
        """The autograd node whose work an op on a thread is; ``None``: it is something else's."""
        top = state.top
        if top is not None and top.updates is not None:
            return None
        sequence = sequence_of(node)
        if top is not None and top.module is not None and top.sequence == sequence:
            return None
        mark = state.mark
        # Several nodes share a number if they have none, or are those of several threads.
        is_shared = sequence == NO_SEQUENCE or len(self._states) > 1
        if mark is None or mark.sequence != sequence or is_shared:
            mark = state.mark = self._mark(state, node, sequence)
        return mark

    def _mark(self, state: ThreadState, node: Any, sequence: int) -> NodeMark:
        leaf: OpRecord | str | None = None
        if sequence == NO_SEQUENCE:
            tensor = getattr(node, "variable", None)
            leaf = self._leaf_of(tensor) if tensor is not None else None
        name = str(node.name()).rpartition("::")[2]
        called_at = self._called_elsewhere() if state.top is None else None
        return NodeMark(sequence, name, leaf, len(self._states), called_at)

    def _called_elsewhere(self) -> Stack | None:
        """Where the backward pass was called that a thread without calls of its own works for."""
        found = (_called_at(each.top) for each in self._states)
        return next((each for each in found if each is not None), None)

    def is_gradient(self, record: OpRecord) -> bool:
        """Whether an op hands a gradient over to its parameter."""
        if record.place is None:
            return record.prefix.endswith(f"/{_ACCUMULATE}/")
        return self.hands_over(record.place, record.frames)

    @staticmethod
    def hands_over(place: RawPlace, frames: tuple[Any, ...]) -> bool:
        """The same of an op that happens there."""
        _, mark, outer = place
        if mark is None or mark.name != _ACCUMULATE:
            return False
        kind = _kind_in(Stack(frames, outer))
        return kind not in (RECOMPUTE_CODE, USER)

    # When somebody wants to know.

    def describe(self, record: OpRecord) -> None:
        """Say in words where an op happened: its phase, prefix, module and stack."""
        assert record.place is not None
        assert record.state is not None
        (top, mark, outer), state = record.place, record.state
        record.place = record.state = None
        record.stack = Stack(record.frames, outer)
        if record.sequence >= 0:
            state.forward[record.sequence] = record
        if mark is not None:
            record.called_at = mark.called_at or _called_at(top)
            self._describe_in_backward(state, record, mark)
        elif top is None:
            record.phase = FORWARD
        elif record.phase == OPTIMIZER:
            record.prefix = top.prefix
        elif not record.phase:
            record.phase, record.prefix, record.module = top.phase, top.prefix, top.module
            if top.module is not None:
                record.scope = top.prefix
            elif top.phase == BACKWARD:
                record.called_at = top.outer

    def _describe_in_backward(self, state: ThreadState, record: OpRecord, mark: NodeMark) -> None:
        if mark is not state.told:
            state.node_prefix, state.node_forward = self._node(state, mark)
            state.told = mark
        forward = state.node_forward
        if forward is not None:
            record.scope, record.module = forward.scope, forward.module
        record.phase, record.prefix = BACKWARD, state.node_prefix
        assert record.stack is not None
        kind = _kind_in(record.stack)
        if kind == RECOMPUTE_CODE:
            if forward is not None and forward.stack is not None:
                record.scope = scope_of_checkpoint(forward.stack, record.scope)
            record.phase, record.prefix = RECOMPUTE, f"recompute/{record.scope}"
        elif kind == USER:
            record.prefix += "hook/"
        else:
            record.forward = forward
            is_own = kind == FUNCTION and _is_in_own_function(record.stack)
            if forward is not None and forward.stack is not None and not is_own:
                record.stack = forward.stack  # the line whose gradient it is

    def _node(self, state: ThreadState, mark: NodeMark) -> tuple[str, OpRecord | None]:
        """The prefix of an autograd node's ops, and the op that made it."""
        name, sequence = mark.name, mark.sequence
        if sequence == NO_SEQUENCE:
            leaf = mark.leaf
            path = leaf if isinstance(leaf, str) or leaf is None else leaf.name
            return _gradients(f"{path}/{name}" if path else name), None
        if name == "CopySlices":  # of an in-place op on a view; it comes after the op's own node
            sequence -= 1
        forward = self._forward(state, name, sequence, mark.thread_count)
        if forward is None:
            return _gradients(name), None
        if name[-1:].isdigit() or name == "CopySlices":
            return _gradients(f"{forward.name}_grad"), forward
        return _gradients(f"{forward.scope}{name}"), forward

    def _forward(
        self, state: ThreadState, name: str, sequence: int, thread_count: int
    ) -> OpRecord | None:
        """The op that made an autograd node; each thread of the program counts them for itself."""
        found = state.forward.get(sequence)
        if thread_count == 1 or (found is not None and _is_of(name, found)):
            return found
        others = (each.forward.get(sequence) for each in self._states if each is not state)
        candidates = [each for each in (found, *others) if each is not None]
        alike = (each for each in candidates if _is_of(name, each))
        return next(alike, candidates[0] if candidates else None)


def _called_at(context: OpContext | None) -> Stack | None:
    """Where the backward pass was called that a call is made in."""
    while context is not None:
        if context.phase == BACKWARD and context.module is None:
            return context.outer
        context = context.caller
    return None


def _is_of(name: str, record: OpRecord) -> bool:
    """Whether an autograd node is called after an op: ``MseLossBackward0``, ``mse_loss``."""
    return name.partition("Backward")[0].lower() == record.op_type.replace("_", "")


def _gradients(name: str) -> str:
    for phase in ("recompute/", "gradients/", "input/"):
        name = name.removeprefix(phase)
    return f"gradients/{name}/"


def _kind_in(stack: Stack) -> int:
    """What Python code a backward pass runs: its engine, a checkpoint, a function, a hook."""
    kind, is_mode, is_empty = USER, False, True
    for code in stack.all_codes():
        found = kind_of(code)
        if found == ENGINE:
            return ENGINE if is_empty or (is_mode and kind == USER) else kind
        is_empty = False
        if found == RECOMPUTE_CODE or (found == FUNCTION and kind != RECOMPUTE_CODE):
            kind = found
        if code.co_name == "__torch_dispatch__":
            is_mode = True  # of the program's: it does what the node would do by itself
        elif found == USER:
            is_mode = False
    return ENGINE if is_empty else kind


def _is_in_own_function(stack: Stack) -> bool:
    """Whether the backward of an `autograd.Function` that runs is the user's own code."""
    for code in stack.all_codes():
        kind = kind_of(code)
        if kind in (USER, FUNCTION):
            return kind == USER
    return False


#: Codes of the autograd engine; what calls a Python function's backward; what computes again.
ENGINE, FUNCTION, RECOMPUTE_CODE = range(DEBUGGER + 1, DEBUGGER + 4)

_CHECKPOINT = getattr(code_of("torch.utils.checkpoint", "checkpoint"), "co_filename", "")


def _codes() -> Iterator[tuple[CodeType | None, int]]:
    yield from ((code, ENGINE) for code in engine_codes())
    # What calls the backward of a Python `autograd.Function`.
    yield code_of("torch.autograd.function", "BackwardCFunction", "apply"), FUNCTION
    yield code_of("torch.autograd.function", "BackwardCFunction", "apply_boxed"), FUNCTION
    yield from ((code, RECOMPUTE_CODE) for code in recompute_codes())


add_codes(_codes)
add_frames(graph_frames)


def scope_of_checkpoint(stack: Stack | None, scope: str) -> str:
    """The module in whose call the innermost checkpoint was begun.

    Args:
        stack: of an op.
        scope: of this stack.
    """
    at = scope
    while stack is not None:
        if any(code.co_filename == _CHECKPOINT for code in stack.codes()):
            return at
        stack = stack.outer
        at = stack.scope if stack is not None else ""
    return scope
