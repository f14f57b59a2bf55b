"""Calls of PyTorch's API that fail before they come to any op, read off the error's traceback."""

from __future__ import annotations

import ast
import dis
import sys
from collections.abc import Iterator, Mapping, Sequence
from types import ModuleType, TracebackType
from typing import Any, NamedTuple

import torch

from tfdbg_cli.dumps.sources import is_debugger_code
from tfdbg_cli.engines.kit.stacks import variables
from tfdbg_cli.engines.torch.names.called import expression_at
from tfdbg_cli.engines.torch.private import API_FILES

__all__ = ["FailedCall", "failed_call"]

# What instructions call that aren't calls.
_METHODS = {
    "BINARY_SUBSCR": "__getitem__",
    "BINARY_SLICE": "__getitem__",
    "STORE_SUBSCR": "__setitem__",
    "GET_ITER": "__iter__",
}

# The bit of a `COMPARE_OP` that asks for a truth value (Python/bytecodes.c).
_TO_BOOL = 16


class FailedCall(NamedTuple):
    """A call that has raised.

    Attributes:
        function: of the API.
        tensors: that it was given, as far as they have names.
        places: codes and positions of the frames within the calls that the error has left.
        is_test: whether an expression was tested for its truth.
        is_certain: whether it is a method of a tensor's, whatever it has raised.
    """

    function: Any
    tensors: Sequence[torch.Tensor]
    places: tuple[Any, ...]
    is_test: bool = False
    is_certain: bool = False


def failed_call(error: BaseException) -> FailedCall | None:
    """The call of the API that an error comes from; ``None``: it can't be told."""
    traces = [*_traces(error.__traceback__)]
    inner: TracebackType | None = None
    while traces and traces[-1].tb_frame.f_code.co_filename in API_FILES:
        inner = traces.pop()
    if not traces:
        return None
    places = tuple(part for trace in reversed(traces) for part in _place(trace))
    if inner is not None:
        return _in_python(inner, places)
    last = traces[-1]
    code = last.tb_frame.f_code
    operation, argument = (*code.co_code[last.tb_lasti : last.tb_lasti + 2],)
    name = dis.opname[operation]
    expression = expression_at(code, last.tb_lasti)
    known = {**last.tb_frame.f_globals, **variables(last.tb_frame)}
    if "JUMP" in name or name in ("UNARY_NOT", "TO_BOOL") or _is_tested(name, argument):
        return FailedCall(torch.Tensor.__bool__, _tensors(expression, known), places, is_test=True)
    if name in _METHODS:
        owner = expression.value if isinstance(expression, ast.Subscript) else expression
        found = _tensors(owner, known)
        function = getattr(torch.Tensor, _METHODS[name])
        return FailedCall(function, found, places, is_certain=True) if found else None
    called = _named(expression.func, known) if isinstance(expression, ast.Call) else None
    return FailedCall(called, _tensors(expression, known), places) if called is not None else None


def _is_tested(name: str, argument: int) -> bool:
    """Whether a comparison tests its own result, as Python 3.13 and later have it."""
    return name == "COMPARE_OP" and sys.version_info >= (3, 13) and bool(argument & _TO_BOOL)


def _in_python(inner: TracebackType, places: tuple[Any, ...]) -> FailedCall | None:
    """A function of the API that is written in Python."""
    frame = inner.tb_frame
    code, found = frame.f_code, variables(frame)
    function = getattr(torch.Tensor, code.co_name, None) or frame.f_globals.get(code.co_name)
    given = (found.get(name) for name in code.co_varnames[: code.co_argcount])
    tensors = [each for each in given if isinstance(each, torch.Tensor)]
    return FailedCall(function, tensors, places) if function is not None else None


def _traces(trace: TracebackType | None) -> Iterator[TracebackType]:
    while trace is not None:
        if not is_debugger_code(trace.tb_frame.f_code):
            yield trace
        trace = trace.tb_next


def _place(trace: TracebackType) -> tuple[Any, int]:
    return trace.tb_frame.f_code, trace.tb_lasti


def _named(callee: ast.expr, known: Mapping[str, Any]) -> Any:
    """The function that an expression stands for, as far as it can be told without calling any."""
    if isinstance(callee, ast.Name):
        return known.get(callee.id)
    if not isinstance(callee, ast.Attribute):
        return None
    owner = known.get(callee.value.id) if isinstance(callee.value, ast.Name) else None
    if isinstance(owner, ModuleType):
        return getattr(owner, callee.attr, None)
    return getattr(torch.Tensor, callee.attr, None)


def _tensors(expression: ast.AST | None, known: Mapping[str, Any]) -> list[torch.Tensor]:
    """The tensors that have names in an expression."""
    nodes = ast.walk(expression) if expression is not None else ()
    values = [known.get(node.id) for node in nodes if isinstance(node, ast.Name)]
    return [each for each in values if isinstance(each, torch.Tensor)]
