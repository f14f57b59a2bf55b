"""What some code can change besides what it is given: globals, closures, classes, hooks."""

from __future__ import annotations

import dis
import functools
import io
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import CellType, CodeType, FunctionType, MethodType, ModuleType, SimpleNamespace
from typing import Any

import torch

from tfdbg_cli.dumps.sources import is_library_path
from tfdbg_cli.engines.torch.modules.effects import ReplayRefusal
from tfdbg_cli.engines.torch.private import children_of, global_hooks
from tfdbg_cli.engines.torch.values.access import PLAIN

__all__ = ["Reach", "is_of_the_program"]

_GLOBAL_OPS = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "STORE_GLOBAL", "DELETE_GLOBAL"})
_SIMPLE = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device, *PLAIN)
# Where a walk ends: what is further away is hardly what a forward pass writes to.
_MOST, _MOST_ITEMS = 20_000, 10_000
_CONTAINED = ("builtins", "collections")
_EMPTY: Any = object()


def is_of_the_program(kind: type) -> bool:
    """Whether objects of a class may be put back: those of libraries may be other threads' too."""
    return kind is SimpleNamespace or kind.__module__ == "__main__" or _is_own(kind.__module__)


def _is_own(name: str) -> bool:
    file: str = getattr(sys.modules.get(name), "__file__", None) or ""
    return bool(file) and not is_library_path(file)


class Reach:
    """What the code of a module with its parts and hooks, or of an optimizer, can get hold of.

    That is what it is given, and what the program's own functions find in globals and closures, in
    the functions found there, and so on. What libraries keep for themselves isn't looked at.

    Args:
        thing: the module or optimizer.
        given: the arguments of its call.

    Attributes:
        modules: it with its parts, and others that are reached.
        values: what the names stand for.

    Raises:
        ReplayRefusal: there is something among it that nobody can put back.
    """

    def __init__(self, thing: Any, given: Any = ()) -> None:
        self.modules: list[torch.nn.Module] = []
        self.values: list[Any] = []
        self._classes: dict[int, type] = {}
        self._globals: dict[int, tuple[dict[str, Any], set[str]]] = {}
        self._cells: list[CellType] = []
        self._seen: dict[int, Any] = {}  # they live as long as their ids are asked for
        self._part = thing  # whose code it is that is looked at
        self._pending: list[tuple[Any, str, Any]] = []
        self._add([("", each) for each in (*global_hooks(), given, thing)])
        while self._pending and len(self._seen) < _MOST:
            self._part, name, value = self._pending.pop()
            if isinstance(value, _SIMPLE) or id(value) in self._seen:
                continue
            self._seen[id(value)] = value
            try:
                self._take(name, value)
            except ReplayRefusal as refusal:
                refusal.modules = () if self._part is thing else (self._part,)
                raise

    def keep(self) -> Callable[[], None]:
        """Remember what the names stand for, in each class, too; returns the way back."""
        places: list[tuple[dict[str, Any], dict[str, Any]]] = [
            (owner, {name: owner.get(name, _EMPTY) for name in names})
            for owner, names in self._globals.values()
        ]
        cells = [(cell, _content(cell)) for cell in self._cells]
        classes = [(kind, dict(vars(kind))) for kind in self._classes.values()]

        def restore() -> None:
            for owner, before in places:
                _put(owner.get, owner.__setitem__, owner.__delitem__, before)
            for cell, content in cells:
                if content is not _EMPTY and _content(cell) is not content:
                    cell.cell_contents = content
            for kind, before in classes:
                added = dict.fromkeys(vars(kind).keys() - before.keys(), _EMPTY)
                _put(
                    vars(kind).get,
                    functools.partial(setattr, kind),
                    functools.partial(delattr, kind),
                    before | added,
                )

        return restore

    # The walk.

    def _add(self, pairs: Iterable[tuple[str, Any]]) -> None:
        self._pending += [(self._part, name, value) for name, value in pairs]

    def _take(self, name: str, value: Any) -> None:
        if isinstance(value, torch.nn.Module):
            self.modules.append(value)
            self._part = value
            self._add(_named(vars(value)))
            self._add(_named(children_of(value)))
            self._take_class(type(value))
        elif isinstance(value, FunctionType):
            self._take_function(value)
        elif isinstance(value, MethodType):
            self._add([("", value.__func__), ("", value.__self__)])
        elif isinstance(value, staticmethod | classmethod):
            self._add([("", value.__func__)])
        elif isinstance(value, property):
            self._add(("", each) for each in (value.fget, value.fset))
        elif isinstance(value, functools.partial):
            self._add(("", each) for each in (value.func, *value.args, *value.keywords.values()))
        elif isinstance(value, type):
            self._take_class(value)
        elif isinstance(value, ModuleType):
            pass  # what is looked up in it is: see `_note`
        elif isinstance(value, Mapping):
            self.values.append(value)
            if type(value).__module__ in _CONTAINED and len(value) <= _MOST_ITEMS:
                self._add(_named(value))
        elif isinstance(value, list | tuple | set | frozenset):
            self.values.append(value)
            if len(value) <= _MOST_ITEMS:
                self._add(("", each) for each in list(value))
        else:
            self._take_object(name, value)

    def _take_object(self, name: str, value: Any) -> None:
        named = f" ({name})" if name else ""
        if isinstance(value, Iterator) and not isinstance(value, io.IOBase):
            raise ReplayRefusal(f"its code can reach an iterator{named}")
        if isinstance(value, io.IOBase) and not value.closed and value.writable():
            raise ReplayRefusal(f"its code can reach an open file{named}")
        self.values.append(value)
        kind = type(value)
        if is_of_the_program(kind) and hasattr(value, "__dict__"):
            self._add(_named(vars(value)))
            self._take_class(kind)

    def _take_class(self, kind: type) -> None:
        for each in kind.__mro__:
            if id(each) not in self._classes and is_of_the_program(each):
                self._classes[id(each)] = each
                self._add(_named(vars(each)))

    def _take_function(self, function: FunctionType) -> None:
        is_own = not is_library_path(function.__code__.co_filename)
        for cell in function.__closure__ or ():
            if is_own:
                self._cells.append(cell)
            self._add([("", _content(cell))])
        self._add(("", each) for each in function.__defaults__ or ())
        self._add(_named(vars(function)))
        if is_own:
            looked_up, names = _names_in(function.__code__)
            self._note(function.__globals__, looked_up, names)

    def _note(self, owner: dict[str, Any], looked_up: set[str], names: set[str]) -> None:
        """Some names are looked up, or written to.

        Args:
            owner: the globals of a module, or its attributes.
            looked_up: there.
            names: in modules that are found there.
        """
        known = self._globals.setdefault(id(owner), (owner, set()))[1]
        new = looked_up - known
        known |= new
        for name in new:
            value = owner.get(name)
            self._add([(name, value)])
            if isinstance(value, ModuleType) and _is_own(value.__name__):
                self._note(vars(value), names, names)


def _named(owner: Mapping[Any, Any]) -> list[tuple[str, Any]]:
    return [(str(name), value) for name, value in list(owner.items())]


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # nothing was assigned yet
        return _EMPTY


def _names_in(code: CodeType) -> tuple[set[str], set[str]]:
    """The names that some code looks up in, or writes to, its globals; and all of its names."""
    names = set(code.co_names)
    looked_up = {each.argval for each in dis.get_instructions(code) if each.opname in _GLOBAL_OPS}
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            more_looked_up, more_names = _names_in(constant)
            looked_up, names = looked_up | more_looked_up, names | more_names
    return looked_up, names


def _put(
    get: Callable[[str, Any], Any],
    put: Callable[[str, Any], None],
    drop: Callable[[str], None],
    before: Mapping[str, Any],
) -> None:
    for name, value in before.items():
        found = get(name, _EMPTY)
        if value is _EMPTY and found is not _EMPTY:
            drop(name)
        elif found is not value:
            put(name, value)
