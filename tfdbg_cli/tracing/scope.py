"""The variables of a frame, for code that is run in its stead."""

from __future__ import annotations

import ctypes
import functools
import gc
import sys
import weakref
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator
from types import CellType, CodeType, FrameType, FunctionType, MethodType
from typing import Any

from tfdbg_cli.tracing.block import CAN_DELETE
from tfdbg_cli.tracing.statements import OPTIMIZED, variables_of

__all__ = ["FunctionScope", "NamespaceScope", "Scope", "scope_of"]

# Since Python 3.13 (PEP 667) writing to `f_locals` writes to the frame.
_WRITES_THROUGH = sys.version_info >= (3, 13)
_UNBOUND = object()
# Functions that are known for a code; a program rarely traces in more.
_MOST_CLOSURES = 256
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

    def let_go(self, value: Any) -> None:
        """The statements have been run, and nobody is going to run them again until `attach`.

        Args:
            value: that is bound anew before they are run again.
        """

    def attach(self, frame: FrameType | None, value: Any) -> None:
        """The statements may be run again.

        Args:
            frame: where whoever wants that is.
            value: one of the variables of the frame holds it.
        """


class NamespaceScope(Scope):
    """A module, or a class whose body is being run: the statements use its own dictionaries."""

    def __init__(self, frame: FrameType) -> None:
        self._globals = frame.f_globals
        self._locals: Any = frame.f_locals
        self._around = _cells_around(frame) if frame.f_code.co_freevars else {}

    def run(self, code: CodeType) -> Any:
        """Run statements in the namespace."""
        space = self._locals
        before = {name: space[name] for name in _OF_CLASSES if name in space}
        try:
            if code.co_freevars:
                cells = tuple(self._around[name] for name in code.co_freevars)
                exec(code, self._globals, space, closure=cells)
            else:
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
        if name not in self._locals and name in self._around:
            found = _content(self._around[name])
            return None if found is _UNBOUND else found
        return self._locals.get(name, self._globals.get(name))


class FunctionScope(Scope):
    """A function that is being run: each of its variables is a cell while the statements run.

    Variables that functions inside share with it, those that the statements define as well, are
    their very cells; the others are copies until `push`.

    Args:
        frame: of the function.
        used: the variables that the statements use.
    """

    def __init__(self, frame: FrameType, used: Collection[str]) -> None:
        self._frame: FrameType | None = frame
        self._code = frame.f_code
        self._globals = frame.f_globals
        self._shared = _shared_cells(frame, used)
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
        cell = self._cells.get(name)
        found = _UNBOUND if cell is None else _content(cell)
        return self._globals.get(name) if found is _UNBOUND else found

    def let_go(self, value: Any) -> None:
        # The frame has a variable that holds the value, and that the scope: nothing of it would go
        # before the garbage is collected.
        self._frame = None
        for name, cell in self._cells.items():
            if name not in self._shared and _content(cell) is value:
                del cell.cell_contents
        self._pulled = dict.fromkeys(self._cells, _UNBOUND)

    def attach(self, frame: FrameType | None, value: Any) -> None:
        while frame is not None and self._frame is None:
            if frame.f_code is self._code:
                if any(each is value for each in frame.f_locals.values()):
                    self._frame = frame
                _let_go(frame)
            frame = frame.f_back

    def _is_running(self) -> bool:
        """Whether the frame is among those that are being run; it is let go once it isn't."""
        if self._frame is not None:
            caller: FrameType | None = sys._getframe(1)
            while caller is not None and caller is not self._frame:
                caller = caller.f_back
            self._frame = caller
        return self._frame is not None


def scope_of(frame: FrameType, used: Collection[str]) -> Scope:
    """The scope of a frame that is being run.

    Args:
        frame: of a function, class or module.
        used: the variables of a function that are going to be used.
    """
    if frame.f_code.co_flags & OPTIMIZED:
        return FunctionScope(frame, used)
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


def _cells_around(frame: FrameType) -> dict[str, CellType]:
    """The cells that the body of a class has from the function around it."""
    names = frame.f_code.co_freevars
    around = frame.f_back
    while around is not None and not around.f_code.co_flags & OPTIMIZED:
        around = around.f_back
    cells: dict[str, CellType] = {} if around is None else _shared_cells(around, names)
    return {name: cells.get(name) or CellType() for name in names}


def _shared_cells(frame: FrameType, used: Collection[str]) -> dict[str, CellType]:
    """The cells of those of a frame's variables that other functions share.

    Python shows a frame's values but not its cells. In most cases one of its variables is a
    function that holds them; else they are looked for among all that there are.
    """
    code = frame.f_code
    wanted = {*code.co_cellvars, *code.co_freevars}.intersection(used) - _passing(code)
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
    if not {*code.co_freevars} & wanted <= found.keys():
        found.update((name, cell) for name, cell in _closure(frame) if name in wanted)
    missing = wanted - found.keys()
    if missing:
        found.update(_cells_among_all(frame, missing))
    return found


# Functions that Python makes for what is done at once, and lets go of.
_COMPREHENSIONS = frozenset({"<listcomp>", "<setcomp>", "<dictcomp>"})


@functools.lru_cache(maxsize=_MOST_CLOSURES)
def _passing(code: CodeType) -> frozenset[str]:
    """The variables of a function that only comprehensions in it share: none is being run now."""
    shared = {
        name
        for inner in _nested(code)
        if inner.co_name not in _COMPREHENSIONS
        for name in inner.co_freevars
    }
    return frozenset(code.co_cellvars) - shared


# Code -> the function that was last found to be run with it.
_closures: dict[CodeType, weakref.ref[FunctionType]] = {}


def _closure(frame: FrameType) -> Iterator[tuple[str, CellType]]:
    """The cells of the variables that a frame has of functions around it: its function has them."""
    code = frame.f_code
    known = _closures.get(code)
    function = known() if known is not None else None
    if function is None or not _is_function_of(function, frame):
        function = next((each for each in _called(frame) if _is_function_of(each, frame)), None)
    if function is not None:
        if len(_closures) >= _MOST_CLOSURES:
            _closures.clear()
        _closures[code] = weakref.ref(function)
        yield from zip(code.co_freevars, function.__closure__ or (), strict=True)


def _called(frame: FrameType) -> Iterator[FunctionType]:
    """The functions that a frame may be a call of.

    Mostly its caller has a name for it. All others take long to find, and aren't found where the
    program has frozen them (`gc.freeze`).
    """
    code, caller = frame.f_code, frame.f_back
    if caller is not None:
        values = list(caller.f_locals.values())
        if caller.f_code.co_flags & OPTIMIZED:
            _let_go(caller)
        yield from (each for each in _functions_in(values) if each.__code__ is code)
    yield from (each for each in gc.get_referrers(code) if isinstance(each, FunctionType))


def _is_function_of(function: FunctionType, frame: FrameType) -> bool:
    """Whether a frame is a call of a function."""
    cells = function.__closure__ or ()
    names = frame.f_code.co_freevars
    if function.__code__ is not frame.f_code or len(cells) != len(names):
        return False
    return all(_is_cell_of(cell, frame, name) for name, cell in zip(names, cells, strict=True))


def _cells_among_all(frame: FrameType, names: Collection[str]) -> Iterator[tuple[str, CellType]]:
    """The cells of a frame's variables, known by what happens to the variable with them."""
    values = dict(frame.f_locals)
    missing = {name: id(values.get(name, _UNBOUND)) for name in names}
    # Most are as young as the call.
    for generation in range(3):
        wanted = {*missing.values()}
        # What is in a cell, and which cells it is in.
        alike: dict[int, list[CellType]] = {}
        for thing in gc.get_objects(generation):
            if type(thing) is CellType and (content := id(_content(thing))) in wanted:
                alike.setdefault(content, []).append(thing)
        for name, content in tuple(missing.items()):
            for cell in alike.get(content, ()):
                if _is_cell_of(cell, frame, name):
                    del missing[name]
                    yield name, cell
                    break
        if not missing:
            return


def _is_cell_of(cell: CellType, frame: FrameType, name: str) -> bool:
    """Whether a variable changes with a cell."""
    before, probe = _content(cell), object()
    # Nothing is called here before it has its content again: no other thread gets its turn.
    cell.cell_contents = probe
    space = frame.f_locals
    changes = name in space and space[name] is probe
    if before is _UNBOUND:
        del cell.cell_contents
    else:
        cell.cell_contents = before
    _ = frame.f_locals  # as it was
    return changes


def _functions(frame: FrameType) -> Iterator[FunctionType]:
    """The functions that the variables of a frame hold, and those of the functions around it."""
    caller: FrameType | None = frame
    while caller is not None:
        if caller is frame or frame.f_code in _nested(caller.f_code):
            values = list(caller.f_locals.values())
            if caller is not frame and caller.f_code.co_flags & OPTIMIZED:
                _let_go(caller)
            yield from _functions_in(values)
        caller = caller.f_back if frame.f_code.co_freevars else None


def _functions_in(values: Iterable[Any]) -> Iterator[FunctionType]:
    for value in values:
        function = getattr(value, "__func__", value) if _is_method(value) else value
        if isinstance(function, FunctionType):
            yield function


def _is_method(value: Any) -> bool:
    return isinstance(value, MethodType | classmethod | staticmethod)


def _nested(code: CodeType) -> Iterator[CodeType]:
    for item in code.co_consts:
        if isinstance(item, CodeType):
            yield item
            yield from _nested(item)
