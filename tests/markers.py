"""Which tests need a framework or a terminal, read from what they use: no list goes stale."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType

import pytest

__all__ = ["is_left_out", "marks"]

_FRAMEWORKS = ("tensorflow", "torch", "jax", "onnx", "mlx")
# What opens a terminal: pexpect and pty, and what the tests have made of them.
_TERMINALS = {"Screen", "Terminal", "Tmux", "openpty", "pexpect", "terminals"}
# Rooms and files whose tests start programs, one or several each.
_PROGRAMS = re.compile(
    r"^(agents|launcher|remote|fate|mutation)/|^test_(\w*example\w*|story|tour)\.py$|test_(notebook|trace_source)\.py$"
)


def is_left_out(path: Path, expression: str) -> bool:
    """Whether ``-m`` leaves out all that is in a folder or file: then it isn't even imported."""
    names = [name for name in _FRAMEWORKS if f"not {name}" in expression]
    if path.is_dir():
        return path.parent.name == "engines" and path.name in names
    if path.suffix != ".py" or not path.name.startswith("test_"):
        return False
    return not _imported(path).isdisjoint(names)


def marks(item: pytest.Function, root: Path) -> set[str]:
    """The markers of a test besides those that are written at it."""
    path = item.path.relative_to(root)
    found = {name for name in _FRAMEWORKS if path.parts[:2] == ("engines", name)}
    found |= _imported(item.path)
    callspec = getattr(item, "callspec", None)
    given = callspec.params.values() if callspec else ()
    found |= {
        name for name in _FRAMEWORKS if any(name == value for value in given if type(value) is str)
    }
    fixtures = item._fixtureinfo.name2fixturedefs.values()
    for function in (item.function, *(made.func for several in fixtures for made in several)):
        found |= _used(getattr(function, "__wrapped__", function))
    if _PROGRAMS.search(path.as_posix()):
        found.add("slow")
    return found


@functools.cache
def _imported(path: Path) -> frozenset[str]:
    """The frameworks that a module imports when it is collected."""
    text = path.read_text(encoding="utf-8")
    wanted = [name for name in _FRAMEWORKS if re.search(rf"^\w.*\b{name}\b", text, re.M)]
    found = set()
    for line in ast.parse(text).body if wanted else ():
        if isinstance(line, ast.Import | ast.ImportFrom):
            said = ast.unparse(line)
        elif isinstance(line, ast.Assign | ast.Expr) and isinstance(line.value, ast.Call):
            said = ast.unparse(line.value)
            if not said.startswith("pytest.importorskip("):
                continue
        else:
            continue
        found |= {name for name in wanted if re.match(rf"\S+[ (]'?{name}\b", said)}
    return frozenset(found)


@functools.cache
def _used(function: object) -> frozenset[str]:
    """What a function of the tests uses, itself or through others."""
    found = set()
    seen: set[object] = set()
    waiting = [function]
    while waiting:
        part = waiting.pop()
        if not isinstance(part, FunctionType | type) or part in seen or not _is_ours(part):
            continue
        seen.add(part)
        if isinstance(part, type):
            waiting += vars(part).values()
            continue
        for code in _codes(part.__code__):
            names = {*code.co_names, *code.co_varnames}
            asked = code.co_consts if "importorskip" in names else ()
            found |= {name for name in _FRAMEWORKS if name in names or name in asked}
            if not _TERMINALS.isdisjoint(names):
                found.add("tty")
            waiting += [part.__globals__.get(name) for name in code.co_names]
    return frozenset(found)


def _is_ours(part: FunctionType | type) -> bool:
    return part.__module__.startswith(("test_", "conftest")) or part.__module__.endswith("_kit")


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for part in code.co_consts:
        if isinstance(part, CodeType):
            yield from _codes(part)
