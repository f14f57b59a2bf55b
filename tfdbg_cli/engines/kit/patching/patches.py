"""Replacing parts of a framework: all of them or none, and what is still ours is put back."""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import threading
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType
from typing import Any, NamedTuple

from tfdbg_cli.common.errors import UserError
from tfdbg_cli.engines.kit.patching.places import seem, seeming

__all__ = ["PatchSet", "replaced"]

_MISSING: Any = object()


class _Patch:
    """One replacement, from when it is put in place until nothing of it is left.

    Attributes:
        owner, name: of the attribute.
        value: what stands there instead.
        before: what stood there; `_MISSING`: the owner had inherited it.
        is_on: whether nobody has taken it back yet.
    """

    __slots__ = ("before", "is_on", "name", "owner", "value")

    def __init__(self, owner: Any, name: str, value: Any, before: Any) -> None:
        self.owner, self.name, self.value, self.before = owner, name, value, before
        self.is_on = True

    def restore(self) -> bool:
        """Put back what stood there; whether ours still did."""
        if vars(self.owner).get(self.name, _MISSING) is not self.value:
            return False
        if self.before is _MISSING:
            delattr(self.owner, self.name)
        else:
            setattr(self.owner, self.name, self.before)
        return True


class _Wrapper(NamedTuple):
    """What stands for an attribute, to be used again.

    Attributes:
        original: what stood there.
        make: has made it of that.
        value: it.
    """

    original: Any
    make: Callable[[Any], Any]
    value: Any

    def is_for(self, original: Any, make: Callable[[Any], Any]) -> bool:
        """Whether it is what would be made now."""
        return original is self.original and make == self.make


# What lies on top of each other, the lowest first: of two patches of ours the lower one may be
# taken back first, and is gone when the upper one is.
_stacks: dict[tuple[int, str], list[_Patch]] = {}
_lock = threading.RLock()


def _new_lock() -> None:
    """In a forked child: another thread may have had the lock, and isn't there to let it go."""
    global _lock
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_new_lock)


def _put(patch: _Patch) -> None:
    with _lock:
        setattr(patch.owner, patch.name, patch.value)
        _stacks.setdefault((id(patch.owner), patch.name), []).append(patch)


def _take_back(patch: _Patch) -> None:
    with _lock:
        patch.is_on = False
        place = id(patch.owner), patch.name
        stack = _stacks.get(place, [])
        if len(stack) == 1 and stack[0] is patch and patch.restore():  # nearly always
            del _stacks[place]
            return
        while stack and not stack[-1].is_on and stack[-1].restore():
            stack.pop()
        if not any(each.before is patch.value for each in stack) and patch in stack:
            stack.remove(patch)  # somebody has put something on top, and knows what is below
        if not stack:
            _stacks.pop(place, None)


def replaced() -> Iterator[tuple[str, Any, Any]]:
    """All that is replaced in this process: what it is called, what stood there, what does now."""
    with _lock:
        patches = [each for stack in _stacks.values() for each in stack]
    for each in patches:
        before = each.before
        if before is _MISSING:
            before = getattr(super(each.owner, each.owner), each.name)
        pair = (getattr(value, "__func__", value) for value in (before, each.value))
        yield f"{_title(each.owner)}.{each.name}", *pair


# The constant that stands for what a redirected function calls.
_INSTEAD = "tfdbg_cli: what is called instead"


def _redirected(self: Any, *args: Any, **kwargs: Any) -> Any:
    instead: Any = "tfdbg_cli: what is called instead"
    return instead(self, *args, **kwargs)


class _Redirection:
    """A function and the code that it has instead of its own, for as long as that is on.

    Attributes:
        function: a method that takes any arguments.
        before: its own code.
        code: what it has instead.
        copy: a function with its own code: the code of a frame is that of its function.
        is_on: whether nobody has taken it back.
    """

    def __init__(self, function: FunctionType, make: Callable[[Any], Any]) -> None:
        self.function = function
        self.before = function.__code__
        self.copy = FunctionType(
            self.before, function.__globals__, function.__name__, function.__defaults__
        )
        self.copy.__kwdefaults__ = function.__kwdefaults__
        self.copy.__qualname__ = function.__qualname__
        ours = make(self.copy)
        template = seeming(_redirected.__code__, self.before)
        constants = (ours if item == _INSTEAD else item for item in template.co_consts)
        self.code = template.replace(co_consts=(*constants,), co_name=self.before.co_name)
        self.is_on = False
        _redirections[id(self.code)] = self

    def put(self) -> None:
        """From now on."""
        self.is_on = True
        self.function.__code__ = self.code

    def take_back(self) -> None:
        """As it was; if somebody has put something on top, as soon as that is taken back."""
        self.is_on = False
        while (top := _redirections.get(id(self.function.__code__))) and not top.is_on:
            self.function.__code__ = top.before


# By the ids of their codes, which live as long as they.
_redirections: dict[int, _Redirection] = {}


class _WayBack:
    """Takes one replacement back, once.

    Args:
        undo: does it.
        ways: that are still to be gone; this one is going to be among them.
    """

    __slots__ = ("_undo", "_ways")

    def __init__(self, undo: Callable[[], None], ways: list[Callable[[], None]]) -> None:
        self._undo = undo
        self._ways = ways

    def __call__(self) -> None:
        if self in self._ways:
            self._ways.remove(self)
            self._undo()


class PatchSet:
    """What is replaced together and taken back together.

    What somebody else has put on top since stays; ours is then below it, and has to let everything
    pass by itself.

    Args:
        framework: whose parts they are, with its version: it is named where one isn't there.
        also: is told of each code that is put in place, once.
    """

    def __init__(self, framework: str, also: Callable[[CodeType], None] | None = None) -> None:
        self._framework = framework
        self._also = also
        self._undo: list[Callable[[], None]] = []
        self._redirections: dict[FunctionType, _Redirection] = {}
        self._made: dict[tuple[Any, str], _Wrapper] = {}

    def __bool__(self) -> bool:
        return bool(self._undo)

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """What is done within is done as a whole: if something raises, it is all taken back."""
        before = len(self._undo)
        try:
            yield
        except BaseException:
            self._undo_from(before)
            raise

    def replace(
        self, owner: Any, name: str, make: Callable[[Any], Any], *, wraps: bool = True
    ) -> Callable[[], None]:
        """Replace an attribute of a class or module.

        Args:
            owner: of the attribute, itself or by inheritance.
            name: of the attribute.
            make: gets what is there, as the attribute gives it, and makes what is to be there.
            wraps: whether what is made gets name and docstring of what is there.

        Returns:
            The way back for this one alone; `undo` goes it, too. It may be called more than once.

        Raises:
            UserError: there is no such attribute.
        """
        original = getattr(owner, name, _MISSING)
        if original is _MISSING:
            raise UserError(f"{self._framework} has no {_title(owner)}.{name}.")
        before = vars(owner).get(name, _MISSING)
        known = self._made.get((owner, name))
        if known is not None and known.is_for(original, make):
            value = known.value
        else:
            made = self.standing_for(original, make(original), wraps=wraps)
            value = staticmethod(made) if isinstance(before, staticmethod) else made
            self._made[owner, name] = _Wrapper(original, make, value)
        patch = _Patch(owner, name, value, before)
        _put(patch)
        return self._add(functools.partial(_take_back, patch))

    def standing_for(self, original: Any, made: Any, *, wraps: bool = True) -> Any:
        """What is to stand for a function, made to be taken for it.

        Args:
            original: the function.
            made: what stands for it.
            wraps: whether it gets its name and docstring.
        """
        seem(made, original)
        if self._also is not None and isinstance(made, FunctionType):
            self._also(made.__code__)
        return functools.wraps(original)(made) if wraps else made

    def redirect(self, function: Any, make: Callable[[Any], Any]) -> bool:
        """Let a method do something else, where it is: the class that has it isn't touched.

        A class whose attribute is replaced, and every class below it, forgets what is known of its
        methods. Where a thing is done and undone at each step of a program, that costs more than
        the thing.

        Args:
            function: the method.
            make: gets a function that does what it did, and makes what is to be called instead.
                What it has made is used again the next time.

        Returns:
            Whether it can be done: it takes any arguments and has no variables of functions around.
        """
        if type(function) is not FunctionType or not _can_be_redirected(function.__code__):
            return False
        known = self._redirections.get(function)
        if known is None or function.__code__ is not known.before:
            known = self._redirections[function] = _Redirection(function, make)
            if self._also is not None:
                self._also(known.code)
        known.put()
        self._add(known.take_back)
        return True

    def also(self, do: Callable[[], None], undo: Callable[[], None]) -> Callable[[], None]:
        """Do something else that belongs to it; returns its way back, as `replace` does."""
        do()
        return self._add(undo)

    def undo(self) -> None:
        """Take everything back, the latest first. May be called more than once."""
        self._undo_from(0)

    def _add(self, undo: Callable[[], None]) -> Callable[[], None]:
        way = _WayBack(undo, self._undo)
        self._undo.append(way)
        return way

    def _undo_from(self, count: int) -> None:
        try:
            while len(self._undo) > count:
                self._undo[-1]()
        finally:
            if len(self._undo) > count:  # one that fails doesn't keep the others from it
                self._undo_from(count)


def _can_be_redirected(code: CodeType) -> bool:
    """Whether another code can stand for one: for the same arguments, with the same cells."""
    template = _redirected.__code__
    shape = ("co_argcount", "co_posonlyargcount", "co_kwonlyargcount")
    takes_all = code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)
    return (
        not code.co_freevars
        and takes_all == inspect.CO_VARARGS | inspect.CO_VARKEYWORDS
        and all(getattr(code, name) == getattr(template, name) for name in shape)
    )


def _title(owner: Any) -> str:
    """A class or module by its full name."""
    module = getattr(owner, "__module__", None)
    name = getattr(owner, "__qualname__", None) or getattr(owner, "__name__", str(owner))
    return f"{module}.{name}" if module else str(name)
