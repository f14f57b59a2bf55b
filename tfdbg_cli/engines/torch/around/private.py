"""The parts of PyTorch's compiler that have no public name: see `engines.torch.private`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any, NamedTuple

import torch

from tfdbg_cli.engines.torch.private import python_dispatch


class CompilerFlag(NamedTuple):
    """What PyTorch's compiler asks: whether modes are on, and of which kind.

    Attributes:
        name: of the answer.
        kept: in which attribute a mode that is on keeps the answer before it.
        counts: whether a mode is of this kind.
    """

    name: str
    kept: str
    counts: Callable[[Any], bool]


_WITHOUT_IGNORE = "_is_in_any_mode_without_ignore_compile_internals"

#: Those that this version has.
COMPILER_FLAGS = [
    flag
    for flag in (
        CompilerFlag("_is_in_torch_dispatch_mode", "old_dispatch_mode_flags", lambda mode: True),
        CompilerFlag(
            "_is_in_non_infra_torch_dispatch_mode",
            "old_non_infra_dispatch_mode_flags",
            lambda mode: not getattr(mode, "is_infra_mode", bool)(),
        ),
        CompilerFlag(
            _WITHOUT_IGNORE,
            "old_without_ignore_compile_internals_dispatch_mode_flags",
            lambda mode: not getattr(mode, "ignore_compile_internals", bool)(),
        ),
    )
    if hasattr(python_dispatch, flag.name)
]
_put_ignore: Callable[[bool], None] = getattr(
    python_dispatch, "set_is_in_mode_without_ignore_compile_internals", lambda value: None
)


def put_compiler_flag(flag: CompilerFlag, value: bool) -> None:
    """Give the compiler another answer."""
    setattr(python_dispatch, flag.name, value)
    if flag.name == _WITHOUT_IGNORE:
        _put_ignore(value)


def put_compiler_flags(values: dict[str, bool]) -> None:
    """Give the compiler other answers, by their names; all of them."""
    vars(python_dispatch).update(values)
    if _WITHOUT_IGNORE in values:
        _put_ignore(values[_WITHOUT_IGNORE])


#: The compiler's module that decides which code runs compiled; it comes with its first use.
COMPILER = "torch._dynamo.eval_frame"
#: Where PyTorch is, and its compilers within.
PYTORCH = torch.__path__[0]
COMPILERS = tuple(
    os.path.join(PYTORCH, name, "") for name in ("_dynamo", "_functorch", "_inductor")
)
_frames: Any = torch._C._dynamo.eval_frame


def keep_out(function: Callable[..., Any]) -> None:
    """Let the compiler skip the frame of a function; what that calls is compiled as ever.

    Where it can't be told, it compiles that frame as well.
    """
    assert isinstance(function, FunctionType)
    keep_out_code(function.__code__)


def keep_out_code(code: CodeType) -> None:
    """As `keep_out`, of any function that has this code."""
    skip = getattr(_frames, "skip_code", None)  # in older versions
    if skip is not None:
        skip(code)
    elif hasattr(_frames, "_FrameExecStrategy"):
        action = _frames._FrameAction
        strategy = _frames._FrameExecStrategy(action.SKIP, action.DEFAULT)
        _frames.set_code_exec_strategy(code, strategy)


def know_call(old: Any, new: Any) -> None:
    """Tell the compiler that ``Module.__call__`` is replaced.

    It goes straight to ``forward`` where it knows ``__call__``.
    """
    for name in ("torch._dynamo.utils", "torch._dynamo.variables.nn_module"):
        module: Any = sys.modules.get(name)
        if getattr(module, "unpatched_nn_module_call", None) is old:
            module.unpatched_nn_module_call = new


def stance() -> Any:
    """What the compiler is asked to do, once it is imported; ``None``: before PyTorch 2.6."""
    return getattr(sys.modules[COMPILER], "_stance", None)


def put_stance(wanted: Any) -> None:
    """Ask it for something else."""
    compiler: Any = sys.modules[COMPILER]
    compiler._stance = wanted


def put_compiler_callback(function: Callable[[Any], Any]) -> None:
    """What it uses as `set_callback`, where it has no stance."""
    compiler: Any = sys.modules[COMPILER]
    compiler.set_eval_frame = function
