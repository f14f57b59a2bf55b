"""The variables of a frame, for code that is run in its stead."""

from __future__ import annotations

import ctypes
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator
from types import CellType, CodeType, FrameType, FunctionType, MethodType
from typing import Any

from tfdbg_cli.tracing.block import CAN_DELETE
from tfdbg_cli.tracing.compiling import OPTIMIZED, variables_of

__all__ = ["FunctionScope", "NamespaceScope", "Scope", "scope_of"]

# Since Python 3.13 (PEP 667) writing to `f_locals` writes to the frame.
_WRITES_THROUGH = sys.version_info >= (3, 13)
_UNBOUND = object()
# What the body of a class sets by itself: the statements are compiled as one of their own.
_OF_CLASSES = (
    "__module__",
    "__qualname__",
    "__firstlineno__",
    "__static_attributes__",
    "__classcell__",
)


class Scope(ABC):
    """Runs compiled statements with the variables of a frame."""

    @abstractmethod
    def run(self, code: CodeType) -> Any:
        """Run what `compile_statements` has made."""

    @abstractmethod
    def pull(self) -> None:
        """Take over what the frame's variables hold now."""

    @abstractmethod
    def push(self) -> None:
        """Give the frame what the statements have bound, and take from it what they have deleted.

        A variable that they didn't touch stays as it is.
        """

    @abstractmethod
    def get(self, name: str) -> Any:
        """What a name means; ``None`` if nothing."""


class NamespaceScope(Scope):
    """A module, or a class whose body is being run: the statements use its own dictionaries."""

    def __init__(self, frame: FrameType) -> None:
        self._globals = frame.f_globals
        self._locals: Any = frame.f_locals

    def run(self, code: CodeType) -> Any:
        """Run statements in the namespace."""
        space = self._locals
        before = {name: space[name] for name in _OF_CLASSES if name in space}
        try:
            exec(code, self._globals, space)
        finally:
            if space is not self._globals:
                for name in _OF_CLASSES:
                    space.pop(name, None)
                space.update(before)

    def pull(self) -> None:
        """Nothing to do."""

    def push(self) -> None:
        """Nothing to do."""

    def get(self, name: str) -> Any:
        """What a name means."""
        return self._locals.get(name, self._globals.get(name))


class FunctionScope(Scope):
    """A function that is being run: each of its variables is a cell while the statements run.

    Variables that functions inside share with it are their very cells, where one of those
    functions can be found; the others are copies until `push`. A function that the statements
    themselves define keeps what its variables hold at the end of the block.
    """

    def __init__(self, frame: FrameType) -> None:
        self._frame: FrameType | None = frame
        self._globals = frame.f_globals
        self._shared = _shared_cells(frame)
        self._cells = {
            name: self._shared.get(name) or CellType() for name in variables_of(frame.f_code)
        }
        self._pulled: dict[str, Any] = {}
        self.pull()

    def run(self, code: CodeType) -> Any:
        """Run statements as a function without arguments."""
        cells = tuple(self._cells[name] for name in code.co_freevars)
        return FunctionType(code, self._globals, code.co_name, None, cells)()

    def pull(self) -> None:
        """Fill the cells; of a frame that is not being run any more nothing is taken."""
        if not self._is_running():
            return
        assert self._frame is not None
        values = self._frame.f_locals
        for name, cell in self._cells.items():
            if name not in self._shared:
                _fill(cell, values.get(name, _UNBOUND))
        self._pulled = {name: _content(cell) for name, cell in self._cells.items()}
        _let_go(self._frame)

    def push(self) -> None:
        """Bind and delete in the frame what was bound and deleted in the cells."""
        if not self._is_running():
            return
        assert self._frame is not None
        changed = {
            name: _content(cell)
            for name, cell in self._cells.items()
            if name not in self._shared and _content(cell) is not self._pulled[name]
        }
        if changed:
            _write(self._frame, changed)
            self._pulled.update(changed)
        _let_go(self._frame)

    def get(self, name: str) -> Any:
        """What a name means."""
        cell = self._cells.get(name)
        found = _UNBOUND if cell is None else _content(cell)
        return self._globals.get(name) if found is _UNBOUND else found

    def _is_running(self) -> bool:
        """Whether the frame is among those that are being run; it is let go once it isn't."""
        if self._frame is not None:
            caller: FrameType | None = sys._getframe(1)
            while caller is not None and caller is not self._frame:
                caller = caller.f_back
            self._frame = caller
        return self._frame is not None


def scope_of(frame: FrameType) -> Scope:
    """The scope of a frame that is being run."""
    if frame.f_code.co_flags & OPTIMIZED:
        return FunctionScope(frame)
    return NamespaceScope(frame)


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return _UNBOUND


def _fill(cell: CellType, value: Any) -> None:
    if value is not _UNBOUND:
        cell.cell_contents = value
    elif _content(cell) is not _UNBOUND:
        del cell.cell_contents


def _write(frame: FrameType, changed: dict[str, Any]) -> None:
    space = frame.f_locals
    for name, value in changed.items():
        if value is not _UNBOUND:
            space[name] = value
        elif CAN_DELETE:
            space.pop(name, None)
    if not _WRITES_THROUGH:
        # What debuggers do; 1: names that are gone from the dictionary become unbound.
        clear = ctypes.c_int(int(CAN_DELETE))
        ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), clear)


def _let_go(frame: FrameType) -> None:
    """Empty the copy of a frame's variables, which would keep what they held from being freed."""
    asked = {"locals", "vars", "dir", "eval", "exec"}
    if not _WRITES_THROUGH and not asked & {*frame.f_code.co_names}:
        frame.f_locals.clear()


def _shared_cells(frame: FrameType) -> dict[str, CellType]:
    """The cells of a frame's variables, as far as functions that share them can be found.

    Python shows a frame's values but not its cells; the functions that were made in it, and those
    made beside it, hold them.
    """
    code = frame.f_code
    wanted = {*code.co_cellvars, *code.co_freevars}
    found: dict[str, CellType] = {}
    if not wanted:
        return found
    values = frame.f_locals
    inner = {code, *_nested(code)}
    for function in _functions(frame):
        if function.__code__ in inner:
            cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
            for name, cell in cells:
                if name in wanted and _content(cell) is values.get(name, _UNBOUND):
                    found.setdefault(name, cell)
    return found


def _functions(frame: FrameType) -> Iterator[FunctionType]:
    """The functions that the variables of a frame hold, and those of the functions around it."""
    caller: FrameType | None = frame
    while caller is not None:
        if caller is frame or frame.f_code in _nested(caller.f_code):
            values = list(caller.f_locals.values())
            if caller is not frame and caller.f_code.co_flags & OPTIMIZED:
                _let_go(caller)
            for value in values:
                function = getattr(value, "__func__", value) if _is_method(value) else value
                if isinstance(function, FunctionType):
                    yield function
        caller = caller.f_back if frame.f_code.co_freevars else None


def _is_method(value: Any) -> bool:
    return isinstance(value, MethodType | classmethod | staticmethod)


def _nested(code: CodeType) -> Iterator[CodeType]:
    for item in code.co_consts:
        if isinstance(item, CodeType):
            yield item
            yield from _nested(item)
