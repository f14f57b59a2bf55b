"""One call of a compiled function: what it gets, what comes of it, and how it is done again."""

from __future__ import annotations

import collections
import contextlib
import functools
import inspect
import os
import re
import sys
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import FunctionType
from typing import Any, NamedTuple

import jax

from tfdbg_cli.common.errors import one_line
from tfdbg_cli.common.interpreter.program_signals import pass_on
from tfdbg_cli.dumps.sources import Frame
from tfdbg_cli.engines.jax.plans.names import Scope, frames_of
from tfdbg_cli.engines.jax.plans.replay import CallbackResults
from tfdbg_cli.engines.jax.plans.values import is_key, is_spread
from tfdbg_cli.engines.jax.private import argument_names as names_of
from tfdbg_cli.engines.jax.private import (
    array_of_ref,
    current_source,
    distributed_state,
    donated,
    is_ref,
    new_ref,
    result_tree,
    scope_of,
    statics,
    wrapped,
    writes_to_arguments,
)
from tfdbg_cli.engines.jax.ranks import AllProcesses
from tfdbg_cli.engines.jax.runs.copies import copied_arrays, spare_bytes
from tfdbg_cli.engines.jax.runs.earlier import EarlierState, EarlierStates
from tfdbg_cli.engines.jax.runs.owners import hides_names, names_of_arrays
from tfdbg_cli.engines.kit.sites import argument_names
from tfdbg_cli.engines.kit.stacks import call_frame, take

__all__ = [
    "Call",
    "FunctionCall",
    "JaxprCall",
    "Leaf",
    "by_path",
    "leaves_of",
    "place_of",
    "title_of",
]


# How many calls there were of each function: they are the same calls in all processes.
_NUMBERS: collections.Counter[str] = collections.Counter()
_PROCESSES = AllProcesses()
# Of each function what its arrays are called, by how they are nested.
_PATHS: weakref.WeakKeyDictionary[Any, dict[Any, Any]] = weakref.WeakKeyDictionary()


class Leaf(NamedTuple):
    """An array among the arguments of a call.

    Attributes:
        path: ``params['Dense_0']['kernel']``.
        value: it.
        argument: the position or the name of the argument that it is in.
        original: the array that the program has given; the value may be a copy of it.
        is_ref: that is a mutable array, the value what it held before the call.
    """

    path: str
    value: Any
    argument: int | str
    original: Any = None
    is_ref: bool = False


class Call(ABC):
    """A call of a compiled function.

    Attributes:
        title: the function's name.
        leaves: the arrays that it gets, in the order of the jaxpr's arguments, after `keep`.
        result: what it has returned.
        error: what it has raised.
        callbacks: what functions of the program's have given to it.
        written: what the mutable arrays that it gets hold after it, by their paths.
        seconds: how long it took until it returned, tracing and compiling included.
        is_fine: nothing bad is in what it has returned; ``None``: nobody has looked.
        replayed: how what it got was computed again; empty: it is there, or was copied.
        lost: why some of what it got isn't there afterwards; empty: all is.
    """

    #: What ``jax.jit`` has made, where that is called.
    function: Any = None
    #: JAX calls it, perhaps as a part of a gradient that isn't compiled.
    may_be_gradient = False

    def __init__(self, title: str) -> None:
        self.title = title
        _NUMBERS[title] += 1
        self._number = _NUMBERS[title]
        self._asked = 0
        self.leaves: list[Leaf] = []
        self.result: Any = None
        self.error: BaseException | None = None
        self.callbacks = CallbackResults()
        self.written: dict[str, Any] = {}
        self.seconds = 0.0
        self.is_fine: bool | None = None
        self.replayed = ""
        self.lost = ""
        self._stack = take(call_frame(sys._getframe(1)), None, None)
        # Of a backward pass outside of compiled functions, which is computed op by op.
        self._source = current_source()

    @property
    def hides_names(self) -> bool:
        """Whether its arguments are lists that a library has made."""
        return False

    @property
    def is_spread(self) -> bool:
        """Whether what it gets or gives is with several processes, which can only do it together.

        What a call would have given that has failed isn't known.
        """
        if distributed_state() is None:  # most programs: nothing is looked at
            return False
        return any(is_spread(leaf.value) for leaf in self.leaves) or any(
            is_spread(each) for each in self.outputs
        )

    def any_process(self, wants: bool) -> bool | None:
        """Whether one of the processes that make this call wants something.

        ``None``: they don't all ask.
        """
        self._asked += 1
        return _PROCESSES.any(f"{self.title}/{self._number}/{self._asked}", wants)

    def frames(self) -> tuple[Frame, ...]:
        """The stack of the call, outermost first; of a gradient, that of the forward op."""
        return self._stack.frames() if self._source is None else frames_of(self._source)

    @property
    def scope(self) -> Scope:
        """Where its ops are in the program."""
        return Scope() if self._source is None else Scope().inside(scope_of(self._source))

    @abstractmethod
    def inputs(self) -> list[Leaf]:
        """The arrays that it gets."""

    @abstractmethod
    def keep(self, states: EarlierStates | None = None) -> None:
        """Let what it gets be there afterwards: arrays that it may write over are copied.

        Args:
            states: take the place of copies that would be large; see `recall`.
        """

    def _copied(self, tree: Any) -> Any:
        """A copy, if it takes no more than a quarter of the memory that is left."""
        size = sum(getattr(each, "nbytes", 0) for each in jax.tree.leaves(tree) if not is_key(each))
        spare = spare_bytes(size)
        if size <= spare // 4:
            return copied_arrays(tree)
        self.lost = (
            f"{self.title} overwrites {size:,} bytes of its arguments (donate_argnums), and a copy "
            f"would take more than a quarter of the {spare:,} bytes that are free: the call can't "
            "be replayed"
        )
        return tree

    def recall(self) -> None:
        """Compute again what it got, where that wasn't copied."""

    def done(self) -> None:
        """It is over: what it has written to is looked at before others write to it."""
        self.written = {
            leaf.path: array_of_ref(leaf.original) for leaf in self.leaves if leaf.is_ref
        }

    def can_be_replayed(self) -> bool:
        """Whether what it got is there, and nothing of the program's would be written to again."""
        if self.lost:
            return False
        if not writes_to_arguments(self.jaxpr.jaxpr):
            return True
        are_kept = any(leaf.is_ref for leaf in self.leaves)
        return are_kept and not any(map(is_ref, self.jaxpr.consts))

    def values(self) -> list[Any]:
        """What it was given, to do it once more with."""
        return [new_ref(leaf.value) if leaf.is_ref else leaf.value for leaf in self.leaves]

    def copies(self) -> list[Any]:
        """The same, copied where it may be written over."""
        places = [at for at, leaf in enumerate(self.leaves) if leaf.value is not leaf.original]
        copied = copied_arrays([self.leaves[at].value for at in places])
        values = [leaf.value for leaf in self.leaves]
        for at, value in zip(places, copied, strict=True):
            values[at] = value
        return values

    def given(self) -> list[Any]:
        """What the program has given to it."""
        return [leaf.original for leaf in self.leaves]

    def is_used_up(self) -> bool:
        """Whether something of that is gone."""
        return any(isinstance(each, jax.Array) and each.is_deleted() for each in self.given())

    def again(self) -> Any:
        """Make it with copies of what it was given; only of a call with a `function`."""
        raise NotImplementedError

    def named(self) -> list[Leaf]:
        """The arrays that it gets, as the program calls them; ask while it is being made."""
        leaves = self.leaves or self.inputs()
        if not self.hides_names:
            return leaves
        known = names_of_arrays(sys._getframe(1))
        taken: dict[str, int] = {}
        found = []
        for leaf in leaves:
            path = known.get(id(leaf.original), leaf.path)
            taken[path] = taken.get(path, 0) + 1
            found.append(leaf._replace(path=path if taken[path] == 1 else leaf.path))
        return found

    @property
    @abstractmethod
    def jaxpr(self) -> Any:
        """What it computes: JAX has traced it already, if the call has come so far."""

    def rebuild(self, leaves: list[Any]) -> Any:
        """What it would return with other arrays."""
        return jax.tree.unflatten(jax.tree.structure(self.result), leaves)

    def forget(self) -> None:
        """Hold nothing of the program's."""
        self.leaves = []
        self.written = {}
        self.result = None

    @property
    def outputs(self) -> list[Any]:
        """The arrays that it has returned."""
        return jax.tree.leaves(self.result)

    @property
    def output_paths(self) -> list[str]:
        """Where they are in what it has returned: ``[0]['params']``."""
        return list(by_path(self.result))


class FunctionCall(Call):
    """A call of what ``jax.jit`` has made.

    Args:
        function: it.
        args, kwargs: what it gets.
        plain: calls it past whoever debugs.
    """

    def __init__(
        self,
        function: Any,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        plain: Callable[..., Any] | None = None,
    ) -> None:
        super().__init__(title_of(function))
        self.function = function
        self._given: tuple[Sequence[Any], Mapping[str, Any]] = (args, kwargs)
        self._plain = plain
        self._traced: Any = None
        self._earlier: EarlierState | None = None
        self._states: EarlierStates | None = None

    @property
    def hides_names(self) -> bool:
        return hides_names(_python_of(self.function))

    def inputs(self) -> list[Leaf]:
        return leaves_of(self.function, *self._given)

    def keep(self, states: EarlierStates | None = None) -> None:
        positions, names = donated(self.function)
        given = self.inputs()
        if not positions and not names:
            self.leaves = [_kept(leaf) for leaf in given]
            return
        args, kwargs = self._given
        chosen = (
            {at: value for at, value in enumerate(args) if at in positions},
            {key: value for key, value in kwargs.items() if key in names},
        )
        if states is not None and self._plain is not None:
            self._earlier = states.begin(self.function, self._given, chosen)
            if self._earlier is not None:
                self._states = states
                self.leaves = [_kept(leaf) for leaf in given]
                return
        copied, named = self._copied(chosen)
        self._given = [copied.get(at, v) for at, v in enumerate(args)], {**kwargs, **named}
        self._take(given)

    def _take(self, given: Sequence[Leaf]) -> None:
        """Its arguments are other arrays than those that the program has given."""
        self.leaves = [
            _kept(leaf)._replace(original=before.original)
            for leaf, before in zip(self.inputs(), given, strict=True)
        ]

    def done(self) -> None:
        super().done()
        if self._states is None:
            return
        # What it calls would be called once more.
        if self.error is not None or self.callbacks.has_any or self.jaxpr.effects:
            self._states.refuse(self.function)
        else:
            self._states.end(self.function, self.outputs)

    def recall(self) -> None:
        earlier, self._earlier = self._earlier, None
        if earlier is None:
            return
        assert self._plain is not None
        spare = spare_bytes(earlier.chain.size)
        try:
            if earlier.chain.size > spare // 2:
                raise LookupError(f"they take more than half of the {spare:,} bytes that are free")
            self._given = earlier.compute(self._plain, self.title)
        except Exception as error:
            pass_on(error)
            self.lost = (
                f"{self.title} has overwritten its arguments (donate_argnums), and they can't be "
                f"computed again: {one_line(error)}"
            )
            return
        self._take(self.leaves)
        before = earlier.until - 1
        calls, those = ("call", "that call was") if before == 1 else ("calls", "these calls were")
        since = f" of {before} {calls} earlier were read from disk, and {those} made again"
        self.replayed = (
            f"{self.title} has overwritten its arguments (donate_argnums): those"
            f"{since if before else ' were read from disk'}"
        )

    @property
    def jaxpr(self) -> Any:
        return self._trace().jaxpr

    def _trace(self) -> Any:
        if self._traced is None:
            args, kwargs = self._given
            self._traced = self.function.trace(*args, **kwargs)
        return self._traced

    def rebuild(self, leaves: list[Any]) -> Any:
        return jax.tree.unflatten(result_tree(self._trace()), leaves)

    def again(self) -> Any:
        args, kwargs = copied_arrays(self._given)
        return self.function(*args, **kwargs)

    def forget(self) -> None:
        super().forget()
        self._given = ((), {})
        self._earlier = None


class JaxprCall(Call):
    """A call of a jaxpr: where ``jax.grad`` makes one of a compiled function, or ahead of time.

    Args:
        title: the function's name.
        jaxpr: what it computes.
        values: the arrays that it gets.
        is_donated: whether it may write over some of them.
    """

    may_be_gradient = True

    def __init__(self, title: str, jaxpr: Any, values: Sequence[Any], is_donated: bool) -> None:
        super().__init__(title)
        self._jaxpr = jaxpr
        self._values = values
        self._is_donated = is_donated

    @property
    def jaxpr(self) -> Any:
        return self._jaxpr

    def inputs(self) -> list[Leaf]:
        names = names_of(self._jaxpr.jaxpr) or [""] * len(self._values)
        return [
            Leaf(name or f"args[{at}]", value, re.split(r"[\[.]", name or str(at))[0], value)
            for at, (name, value) in enumerate(zip(names, self._values, strict=False))
        ]

    def keep(self, states: EarlierStates | None = None) -> None:
        if self._is_donated:
            self._values = self._copied(list(self._values))
        self.leaves = [_kept(leaf) for leaf in self.inputs()]

    def forget(self) -> None:
        super().forget()
        self._values = ()


def _kept(leaf: Leaf) -> Leaf:
    if not is_ref(leaf.value):
        return leaf
    return leaf._replace(value=array_of_ref(leaf.value), is_ref=True)


def title_of(function: Any) -> str:
    """The name of a compiled function."""
    plain = wrapped(function) or function
    while isinstance(plain, functools.partial):
        plain = plain.func
    if getattr(plain, "__module__", "") == "jax._src.pmap":
        return "pmap"
    name = getattr(plain, "__qualname__", None) or getattr(plain, "__name__", None)
    return (name or type(plain).__name__).rpartition("<locals>.")[2]


def place_of(function: Any) -> str:
    """Where a compiled function is defined: ``train.py:12``; empty: it isn't known."""
    # What jax.grad and its like make is wrapped, by JAX and by us.
    code = getattr(inspect.unwrap(_python_of(function) or function), "__code__", None)
    return f"{code.co_filename.rpartition(os.sep)[2]}:{code.co_firstlineno}" if code else ""


def _python_of(function: Any) -> Callable[..., Any] | None:
    """The program's own function; ``None``: it isn't known."""
    return function if isinstance(function, FunctionType) else wrapped(function)


def by_path(tree: Any) -> dict[str, Any]:
    """The leaves of a tree by where they are: ``[0]['params']``."""
    found, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {jax.tree_util.keystr(path): leaf for path, leaf in found}


def leaves_of(function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Leaf]:
    """The arrays among the arguments of a call; those that are part of the function left out."""
    known: dict[Any, Any] = {}
    with contextlib.suppress(TypeError):  # an object of the program's that is no key
        known = _PATHS.setdefault(function, known)
    arguments = list(_arguments(function, args, kwargs, known))
    values, structure = jax.tree.flatten([value for _, _, value in arguments])
    key = (structure, *((name, place) for name, place, _ in arguments))
    paths = known.get(key)
    if paths is None:  # they take longer than all else
        paths = known[key] = [path for each in arguments for path in _paths(*each)]
    return [
        Leaf(path, value, place, value) for (path, place), value in zip(paths, values, strict=True)
    ]


def _arguments(
    function: Any, args: Sequence[Any], kwargs: Mapping[str, Any], known: dict[Any, Any]
) -> Iterator[tuple[str, int | str, Any]]:
    positions, names = statics(function)
    count = len(args)
    skipped = {at % count if -count <= at < count else at for at in positions} if count else set()
    called = known.get(count)
    if called is None:
        plain = _python_of(function)
        called = known[count] = _parameter_names(plain, args) if plain is not None else []
    for at, value in enumerate(args):
        if at not in skipped:
            name = called[at] if at < len(called) else f"args[{at}]"
            if name not in names:
                yield name, at, value
    for name in sorted(kwargs):
        if name not in names:
            yield name, name, kwargs[name]


def _paths(name: str, place: int | str, value: Any) -> Iterator[tuple[str, int | str]]:
    found, _ = jax.tree_util.tree_flatten_with_path(value)
    for path, _ in found:
        yield name + jax.tree_util.keystr(path), place


def _parameter_names(function: Callable[..., Any], args: Sequence[Any]) -> list[str]:
    """What positional arguments are called in a function."""
    marks = [object() for _ in args]
    found = argument_names(function, (*marks,), {})
    by_mark = {id(value): name for name, value in found.items()}
    return [by_mark.get(id(mark), f"args[{at}]") for at, mark in enumerate(marks)]
