"""What a trace block may be put around: a session's run, a call, or calls in the block itself."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tfdbg_cli.common.traits import all_traits
from tfdbg_cli.dumps.dump import RunInfo
from tfdbg_cli.dumps.elements import node_name_of
from tfdbg_cli.engines.base import (
    CannotStep,
    Engine,
    HasFunctions,
    SessionAdapter,
    SteppedRun,
    StepsCalls,
    StepsRuns,
)
from tfdbg_cli.engines.registry import engine_for, imported
from tfdbg_cli.sessions.wrappers.intervening import intervene
from tfdbg_cli.sessions.wrappers.surface import SessionSurface
from tfdbg_cli.stepping.calls import paths_of
from tfdbg_cli.tracing.asked import scope_of_node
from tfdbg_cli.tracing.errors import TraceError
from tfdbg_cli.tracing.order import tensor_name

__all__ = ["BlockSubject", "CallSubject", "SessionSubject", "Subject", "subject_of"]

#: Drives a run to wherever it likes; whoever calls it finishes the run.
Around = Callable[[SteppedRun, Callable[[], RunInfo]], None]


class Subject(ABC):
    """Something that has runs.

    Attributes:
        asked: the tensors that the block asks for; ``None``: that isn't known.
    """

    asked: frozenset[str] | None = None

    @abstractmethod
    def start(self) -> SteppedRun:
        """A run at its beginning.

        Raises:
            TraceError: runs of this kind can't be stepped through.
        """

    @abstractmethod
    def info(self) -> RunInfo:
        """What the run is asked for."""

    def name_of(self, tensor: Any) -> str:
        """The name of a tensor, ``node:slot``.

        Args:
            tensor: a name, without a slot that of output 0; or the framework's own tensor.

        Raises:
            TraceError: it is neither.
        """
        return tensor_name(tensor)

    @abstractmethod
    def intercept(self, around: Around) -> Callable[[], None]:
        """Apply something to every run of the program's from now on.

        Returns:
            A function that ends it; it may be called more than once.
        """


class SessionSubject(Subject):
    """A run of a session, past debuggers and patches.

    Args:
        session: the framework's.
        engine: which it belongs to.
        adapter: the engine's for it.
        arguments: those of its ``run``.
    """

    def __init__(
        self, session: Any, engine: Engine, adapter: SessionAdapter, arguments: Mapping[str, Any]
    ) -> None:
        self._session = session
        self._engine = engine
        self._adapter = adapter
        self._fetches = arguments.get("fetches")
        self._feed_dict = arguments.get("feed_dict")
        self._rest = (arguments.get("options"), arguments.get("run_metadata"))

    def start(self) -> SteppedRun:
        # ONNX Runtime takes no names for all.
        is_nothing = self._feed_dict is None or self._adapter.is_empty([])
        if self._fetches is None and is_nothing:
            raise TraceError(
                "This trace has no fetches, so there is no run to do.",
                "Write trace(sess, fetches, feed_dict); only trace(sess).every() needs none.",
            )
        if not isinstance(self._adapter, StepsRuns):
            raise TraceError(f"The {self._engine.name} engine has no stepper.")
        try:
            return self._adapter.stepper(self._fetches, self._feed_dict, *self._rest)
        except CannotStep as error:
            raise TraceError(str(error)) from error

    def info(self) -> RunInfo:
        """Its fetches and feeds."""
        return RunInfo(
            fetches=self._adapter.fetch_names(self._fetches),
            feeds=self._adapter.feeds(self._feed_dict),
            engine=self._adapter.engine_name,
        )

    def intercept(self, around: Around) -> Callable[[], None]:
        return intervene(self._session, self._engine, around)


class CallSubject(Subject):
    """A call of a function.

    Args:
        engine: whose operations it calls.
        function: what is called.
        args, kwargs: with what.
    """

    def __init__(
        self,
        engine: StepsCalls,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
    ) -> None:
        self._engine = engine
        self._function = function
        self._args, self._kwargs = args, kwargs

    def start(self) -> SteppedRun:
        return self._start(self._function, self._args, self._kwargs)

    def _start(
        self, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> SteppedRun:
        return self._engine.call_stepper(function, args, kwargs, self._scopes(function))

    def _scopes(self, function: Callable[..., Any]) -> frozenset[str] | None:
        """The modules whose ops have to be watched; ``None``: all, and all other ops."""
        if not self.asked:
            return self.asked
        module: Any = getattr(function, "__self__", function)
        is_module = self._engine.is_module(module)
        scopes = set()
        for key in self.asked:
            try:
                node = node_name_of(tensor_name(key))
            except TraceError:
                return None  # it is the block that gets this error
            scope = scope_of_node(node)
            if scope is None:
                return None
            is_there = not is_module or any(
                self._engine.has_module(module, path) for path in paths_of(scope)
            )
            if not is_there or hasattr(module, node):
                return None
            scopes.add(scope)
        return frozenset(scopes)

    def info(self) -> RunInfo:
        """The function and its arguments."""
        feeds = {str(index): value for index, value in enumerate(self._args)}
        name = getattr(self._function, "__qualname__", type(self._function).__name__)
        return RunInfo(
            fetches=[name],
            feeds={**feeds, **self._kwargs},
            engine=self._engine.name,
            kind="call",
            unit="program",
        )

    def name_of(self, tensor: Any) -> str:
        """The name of a tensor; parameters and buffers of the module are found by identity."""
        module: Any = getattr(self._function, "__self__", self._function)
        if not isinstance(tensor, str) and self._engine.is_module(module):
            for name, held in self._engine.module_tensors(module):
                if held is tensor:
                    return f"{name}:0"
        return super().name_of(tensor)

    def intercept(self, around: Around) -> Callable[[], None]:
        function = self._function
        if not (_is_own(self._engine, function) or self._engine.is_module(function)):
            raise TraceError(
                "A block can't be applied to later calls of a function.",
                "Give the module that it calls: trace(module).every().",
            )

        def instead(call: Callable[..., Any], args: Any, kwargs: Any) -> Any:
            run = self._start(call, args, kwargs)
            around(run, CallSubject(self._engine, self._function, args, kwargs).info)
            capture = run.finish()
            if capture.error is not None:
                raise capture.error
            return capture.value

        return self._engine.intercept(self._function, instead)


class BlockSubject(CallSubject):
    """A module that the block itself calls."""

    def __init__(self, engine: StepsCalls, module: Callable[..., Any]) -> None:
        super().__init__(engine, module, (), {})

    def start_program(self, program: Callable[[], None], is_mixed: bool) -> SteppedRun:
        """What the block does, at its beginning.

        Args:
            program: does it.
            is_mixed: what it asks and what it does is the same code.
        """
        if is_mixed:
            self.asked = None
        return self._start(program, (), {})


def subject_of(thing: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Subject:
    """What a call of `tfdbg_cli.trace` is about.

    Raises:
        TypeError: it is nothing that has runs, or these aren't the arguments of one.
    """
    while isinstance(thing, SessionSurface):
        thing = thing.session
    engine = engine_for(thing)
    adapter = engine.adapt(thing) if engine is not None else None
    if engine is not None and isinstance(adapter, SessionAdapter):
        return SessionSubject(thing, engine, adapter, _session_arguments(args, kwargs))
    if not callable(thing):
        raise TypeError(f"Expected a session, a module or a function; got type {type(thing)}")
    stepping = _call_engine(thing, args, kwargs)
    if not args and not kwargs and stepping.is_module(thing):
        return BlockSubject(stepping, thing)
    return CallSubject(stepping, thing, args, kwargs)


def _session_arguments(args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    names = ("fetches", "feed_dict", "options", "run_metadata")
    if len(args) > len(names):
        raise TypeError(f"A session's run takes {', '.join(names)}; {len(args)} were given.")
    found = dict(zip(names, args, strict=False))
    for name, value in kwargs.items():
        if name not in names or name in found:
            raise TypeError(f"A session's run takes {', '.join(names)}; not another {name}.")
        found[name] = value
    return found


@functools.cache
def _has_functions(engine: Engine) -> bool:
    return isinstance(engine, HasFunctions)


def _is_own(engine: Any, function: Any) -> bool:
    """Whether a function is of the engine's framework."""
    return _has_functions(engine) and engine.is_own(function)


@functools.cache  # there are few, for as long as the program runs
def _steps_calls(engine: Engine) -> bool:
    return isinstance(engine, StepsCalls)


def _call_engine(thing: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> StepsCalls:
    """The engine whose runs are calls.

    Of several the one whose module or function it is, then the one whose tensors it gets.
    """
    found: list[Any] = [engine for engine in imported() if _steps_calls(engine)]
    for engine in found:
        if _is_own(engine, thing):
            return engine  # type: ignore[no-any-return]
        if engine.is_module(getattr(thing, "__self__", thing)):
            return engine  # type: ignore[no-any-return]
    if len(found) > 1:
        packages = [_package_of(value) for value in _parts(args, kwargs)]
        for engine in found:
            if any(each.startswith(engine.traits.package) for each in packages):
                return engine  # type: ignore[no-any-return]
    if found:  # who has functions of its own is meant by these
        return min(found, key=_has_functions)  # type: ignore[no-any-return]
    calls = " or ".join(traits.title for traits in all_traits() if traits.steps_calls)
    raise TraceError(
        f"Calls of functions are runs with {calls} only, and it is not imported.",
        "With a framework that has sessions, give a session and its fetches.",
    )


def _package_of(value: Any) -> str:
    """Where the class of a value comes from: ``torch``, ``jaxlib``."""
    return type(value).__module__.partition(".")[0]


def _parts(*values: Any) -> Iterator[Any]:
    """What is in containers, in those within, and so on."""
    for value in values:
        if isinstance(value, Mapping):
            yield from _parts(*value.values())
        elif isinstance(value, list | tuple):
            yield from _parts(*value)
        else:
            yield value
