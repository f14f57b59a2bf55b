"""What call stacks have to know of PyTorch: its own codes, generated lines, checkpoints."""

from __future__ import annotations

from collections.abc import Iterator
from types import CodeType

from tfdbg_cli.engines.kit.stacks import DEBUGGER, Stack, add_codes, add_frames
from tfdbg_cli.engines.torch.private import code_of, engine_codes, recompute_codes
from tfdbg_cli.engines.torch.record.generated import graph_frames

__all__ = ["ENGINE", "FUNCTION", "RECOMPUTE_CODE", "scope_of_checkpoint"]

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
