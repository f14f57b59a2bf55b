"""The protocol between an engine and the sessions that debug it.

An engine knows one framework: what its sessions are, where a run begins and ends, how to compute
the same run and keep its intermediate tensors. It knows nothing of commands or screens.
docs/engines.md walks through it step by step with the NumPy engine as the example.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tfdbg_cli.common.errors import UserError
from tfdbg_cli.dumps.dump import Predicate, RunError, RunInfo
from tfdbg_cli.dumps.graph import Graph
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.stepping.calls import ModuleCalls, Spot
from tfdbg_cli.stepping.stepper import Stepper

__all__ = [
    "Capture",
    "Engine",
    "Meeting",
    "ProgramRun",
    "RunCall",
    "SessionAdapter",
    "SteppedRun",
    "Watch",
    "WrapSession",
]


@dataclass(frozen=True)
class Watch:
    """Which tensors of a run to keep. Regexes are searched anywhere; ``None`` keeps all.

    Attributes:
        node_name: on the node's name.
        op_type: on its op type.
        tensor_dtype: on the name of the output's dtype (``float32``).
        debug_urls: where an engine that can writes its own dumps; most engines ignore it.
        debug_ops: as in the original; ``DebugIdentity`` keeps the value.
        tolerate_failures: a debug op that can't be made for a tensor is left out.
        filter_name: the filter that the run is watched for (``run -f``); empty: none. An engine
            that can tell more cheaply than by keeping every value whether it passes may do so.
        exclude: nodes whose name this regex is found in don't count for it.
        predicate: the filter itself.
        limit: bytes of values that may be held in memory; ``None``: no limit. Only engines that
            hold values while a run lasts look at it.
    """

    node_name: str | None = None
    op_type: str | None = None
    tensor_dtype: str | None = None
    debug_urls: tuple[str, ...] = ()
    debug_ops: tuple[str, ...] = ("DebugIdentity",)
    tolerate_failures: bool = False
    filter_name: str = ""
    exclude: str = ""
    predicate: Predicate | None = field(default=None, compare=False)
    limit: int | None = None


@dataclass
class Capture:
    """What a debugged run gave.

    Attributes:
        value: what the plain run would have returned; meaningless if ``error`` is set.
        dump: the tensors; after an error, those that were computed before it; ``None`` after an
            undebugged run.
        error: the exception of the run itself, to be raised after it was shown.
        late: what to tell of ``error`` where the program's own code (a hook, a callback) has raised
            it after the framework's work; ``None``: it is the framework's, or no failure.
        run_metadata: the engine's own record of the run, if it has one.
        passes: whether a tensor passed the watch's filter, where the engine has found that out
            itself; ``None``: it is still to be looked for in the dump.
        said: what the engine saw of the run, in a few words for the progress line.
        gap: why the run isn't fully known, so that what passes a filter, or doesn't, is no answer;
            empty: it is.
        later: makes the dump of a run in which nothing passed, for somebody who wants to see it
            all the same; to be called before the program goes on. ``None``: it can't be made.
    """

    value: Any
    dump: MemoryDump | None
    error: BaseException | None = None
    run_metadata: Any = None
    late: RunError | None = None
    passes: bool | None = None
    said: str = ""
    gap: str = ""
    later: Callable[[], MemoryDump] | None = None


@dataclass(frozen=True)
class RunCall:
    """One run that was asked for, by whichever way, and what can be done with it.

    Attributes:
        fetches: the names of what it computes.
        feeds: feed name -> value as the caller gave it.
        run: does it, untouched by the debugger.
        debug: does it and keeps what is watched.
        profile: does it, timed op by op; ``None``: this kind of run can't be timed.
        stepper: does it step by step; ``None``: this kind of run can't be.
        runner: a sentence instead of fetches and feeds, where they aren't known.
        plain: ``run`` where it can tell an error that the program's own code has raised after the
            framework's work from a wrong argument; ``None``: it can't, or there is no such code.
    """

    fetches: Sequence[str]
    feeds: Mapping[str, Any]
    run: Callable[[], Any]
    debug: Callable[[Watch], Capture]
    profile: Callable[[], Capture] | None = None
    stepper: Callable[[], SteppedRun] | None = None
    runner: str = ""
    plain: Callable[[], Capture] | None = None


@dataclass(frozen=True)
class ProgramRun:
    """A run that is a stretch of the program and not a call of ours.

    Engines without sessions see where such a run begins and ends; see
    ``BaseDebugWrapperSession.open_run``.

    Attributes:
        kind: in two words, e.g. ``training run``.
        describe: what is known at its beginning: called only where somebody is to be told.
        can_profile: whether the engine can time its ops.
        can_step: whether it can stop at each of them.
    """

    kind: str
    describe: Callable[[], RunInfo]
    can_profile: bool = True
    can_step: bool = True


class SteppedRun(Stepper):
    """A run that an engine does step by step, and its two ends."""

    @property
    def real(self) -> Capture | None:
        """The run as it is without overrides, where it was made before the first step."""
        return None

    @abstractmethod
    def finish(self) -> Capture:
        """Do the rest of the run, overrides included.

        Returns:
            What the caller of the run gets, with the dump of the whole run. An error of the run
            itself is in `Capture.error`.
        """

    @abstractmethod
    def discard(self) -> Capture | None:
        """Give the run up as if it had never begun: state and random streams as before it.

        Returns:
            ``None``: the run can be made anew. Where that is not so, the run as it is without
            overrides: whoever asked for the run gets this instead of another one.

        Raises:
            UserError: what was done can't be taken back; the message says why, and nothing has
                changed.
        """

    def withhold(self) -> None:
        """Let the program's variables be what they were before the run, until it is finished.

        For an engine that makes the run before the first step. Where nothing else is said they
        are as that has left them.
        """

    def again(self) -> SteppedRun | None:
        """After a `discard` that has given a capture: the run from its beginning, once more.

        Returns:
            ``None``: it can't be gone through again.
        """
        return None

    def variable(self, name: str) -> Any:
        """The value of a variable as the steps that were done have left it; ``None``: it has none.

        Args:
            name: of the variable's node.
        """
        return self.value(f"{name}:0") if self.has(f"{name}:0") else None

    def stop(self) -> None:
        """End the run where it is: what was done stays, nothing more is computed or updated.

        Raises:
            UserError: this run can't be ended here; nothing has changed.
        """

    def look(self) -> None:
        """To be called by the program itself, where it drives itself: something is done."""

    def is_blind_to(self, tensor_name: str) -> bool:
        """Whether something may have been done with a tensor that nobody has watched."""
        return False

    @property
    def modules(self) -> ModuleCalls:
        """The calls of modules that it makes.

        Raises:
            UserError: there are no modules.
        """
        raise UserError(
            f"Runs of the {self.engine_name} engine have no modules.",
            "Their tensors go by the names of the graph.",
        )

    def reach_call(self, spot: Spot) -> bool:
        """Go on until a moment of a module's call is at hand; whether it is."""
        return self.go_on(lambda: self.modules.is_at_hand(spot))

    def name_tensor(self, tensor: Any) -> str:
        """A name, of any kind, for a tensor of the run that is no part of a graph.

        Raises:
            KeyError: it isn't known.
        """
        raise KeyError(tensor)

    def mark(self, value: Any) -> Any:
        """What tells later whether a value that was given out was written to.

        Args:
            value: what `Stepper.value` or `gradient` has given.

        Returns:
            ``None``: it can't be written to.
        """
        is_writable = isinstance(value, np.ndarray) and value.flags.writeable
        return value.copy() if is_writable else None

    def is_written(self, value: Any, mark: Any) -> bool:
        """Whether a value was written to since `mark` was made of it."""
        if (value.shape, value.dtype) != (mark.shape, mark.dtype):
            return True
        if value.dtype.hasobject:
            return any(one is not other for one, other in zip(value.flat, mark.flat, strict=True))
        return bool(value.tobytes() != mark.tobytes())

    def gradient(self, tensor_name: str) -> Any:
        """The gradient with respect to a tensor, where gradients aren't tensors of the graph.

        Raises:
            KeyError: it is not computed yet.
            UserError: the tensor has none.
        """
        raise UserError(
            f"The {self.engine_name} engine has no .grad.",
            "Gradients are tensors of the graph like any other: read them by their name.",
        )

    def set_gradient(self, tensor_name: str, value: Any) -> None:
        """Let the rest of the backward pass have another gradient with respect to a tensor.

        Raises:
            KeyError: there is no such tensor yet.
            UserError: it has none, or can't have this one, or it has been used.
        """
        self.gradient(tensor_name)

    def has_gradient(self, tensor_name: str, *, is_to_set: bool = False) -> bool:
        """Whether `gradient` has an answer by now, be it an error; or `set_gradient`."""
        return True

    def is_gradient_open(self, tensor_name: str) -> bool:
        """Whether a gradient that is computed can still be set."""
        return False

    def before_each(self, look: Callable[[], None]) -> None:
        """Call something before each op of a program that drives itself."""

    @property
    def unused_gradients(self) -> Sequence[str]:
        """Tensors whose gradient was set and never came."""
        return ()


class Meeting(ABC):
    """Where the processes of one distributed program find each other.

    Attributes:
        rank: of this process, from 0.
        size: how many processes there are.
    """

    rank: int = 0
    size: int = 1

    @abstractmethod
    def put(self, name: str, text: str) -> None:
        """Leave something for the other processes. Raises nothing."""

    @abstractmethod
    def look(self, name: str) -> str | None:
        """What a process has left under a name; ``None``: nothing yet. Never waits or raises."""

    def where(self) -> str:
        """What this process does right now, for people: ``in OP, called at train.py:12``.

        Called on another thread than the program's; raises nothing. Empty: nobody knows.
        """
        return ""


class SessionAdapter(ABC):
    """One session of the framework, as the wrapper session sees it.

    Attributes:
        session: the framework's own session object.
    """

    engine_name: str = ""

    def __init__(self, session: Any) -> None:
        self.session = session

    @abstractmethod
    def run(self, fetches: Any, feed_dict: Any, options: Any, run_metadata: Any) -> Any:
        """The run, untouched by the debugger."""

    @abstractmethod
    def debug_run(
        self, fetches: Any, feed_dict: Any, options: Any, run_metadata: Any, watch: Watch
    ) -> Capture:
        """The same run, with the watched tensors kept.

        The result, the state it leaves, the random streams and the exception are those of `run`;
        nothing that belongs to the caller is changed. An exception of the framework that the run
        itself raised is returned in `Capture.error`; anything else is raised.
        """

    def profile_run(self, fetches: Any, feed_dict: Any, options: Any, run_metadata: Any) -> Capture:
        """The same run, timed op by op; `Capture.dump` has a `Dump.profile`."""
        raise NotImplementedError(f"The {self.engine_name} engine doesn't measure op times yet.")

    def stepper(self, fetches: Any, feed_dict: Any, options: Any, run_metadata: Any) -> SteppedRun:
        """The same run, to be done step by step.

        Raises:
            NotImplementedError: runs of this engine can't be stepped through.
            Exception: what the framework says of arguments that are wrong.
        """
        raise NotImplementedError(f"The {self.engine_name} engine has no stepper.")

    def call(self, fetches: Any, feed_dict: Any, options: Any, run_metadata: Any) -> RunCall:
        """The run of these arguments."""
        arguments = (fetches, feed_dict, options, run_metadata)
        return RunCall(
            self.fetch_names(fetches),
            self.feeds(feed_dict),
            run=lambda: self.run(*arguments),
            debug=lambda watch: self.debug_run(*arguments, watch),
            profile=lambda: self.profile_run(*arguments),
            stepper=lambda: self.stepper(*arguments),
        )

    def callable_call(
        self, callable_options: Any, values: Sequence[Any], run_metadata: Any
    ) -> RunCall:
        """The run that a callable made of ``CallableOptions`` does with these values.

        Raises:
            NotImplementedError: the framework has no such callables.
        """
        raise NotImplementedError(f"The {self.engine_name} engine knows no CallableOptions.")

    def make_callable(
        self, fetches: Any, feed_list: Any, accept_options: bool
    ) -> Callable[..., Any] | None:
        """The session's own callable, untouched by the debugger; ``None``: it makes none.

        Raises:
            Exception: what the framework says of arguments that are wrong.
        """
        make = getattr(self.session, "make_callable", None)
        return make(fetches, feed_list, accept_options) if make is not None else None

    def partial_run_setup(self, fetches: Any, feeds: Any) -> Any:
        """Prepare a run that is done in parts; its handle.

        Raises:
            NotImplementedError: the framework has no partial runs.
        """
        raise NotImplementedError(f"Sessions of the {self.engine_name} engine run as a whole.")

    def partial_call(self, handle: Any, fetches: Any, feed_dict: Any) -> RunCall:
        """One part of a prepared run.

        Raises:
            NotImplementedError: the framework has no partial runs.
        """
        raise NotImplementedError(f"Sessions of the {self.engine_name} engine run as a whole.")

    def next_run(self, fetches: Any, take: Callable[[RunCall], Any]) -> Callable[[], None]:
        """Hand over the run that a framework with hooks is about to make on this thread.

        Args:
            fetches: the very object that the user asked for; hooks may fetch more.
            take: does the run; it returns the run's value or raises its error.

        Returns:
            A function that takes the wish back; to be called in any case.

        Raises:
            NotImplementedError: the framework has no hooks.
        """
        raise NotImplementedError(f"The {self.engine_name} engine has no hooks.")

    def meeting(self) -> Meeting | None:
        """Where the processes of the program meet; ``None``: it is alone, or not known yet."""
        return None

    @abstractmethod
    def fetch_names(self, fetches: Any) -> list[str]:
        """The names of the fetches, flattened, as a user would write them. Never raises."""

    @abstractmethod
    def feeds(self, feed_dict: Any) -> Mapping[str, Any]:
        """Feed name -> value as the caller gave it. Never raises."""

    def is_empty(self, fetches: Any) -> bool:
        """Whether the fetches ask for nothing (``[]``, ``{}``, ``[[], ()]``)."""
        if isinstance(fetches, Mapping):
            return all(self.is_empty(item) for item in fetches.values())
        if isinstance(fetches, list | tuple):
            return all(self.is_empty(item) for item in fetches)
        return False

    @abstractmethod
    def graph(self) -> Graph:
        """The session's graph as it is now; lazy."""

    @property
    @abstractmethod
    def framework_graph(self) -> Any:
        """The framework's own graph object."""

    @abstractmethod
    def describe_error(self, error: BaseException) -> RunError | None:
        """What the framework says of an error of a run; ``None`` if it isn't the framework's."""


#: Given a framework's session, the wrapper that debugs it (the same one each time).
WrapSession = Callable[[Any], Any]


class Engine(ABC):
    """One framework.

    Attributes:
        name: as ``--engine`` takes it.
        modules: the engine is loaded once the script has imported any of these.
    """

    name: str = ""
    modules: Sequence[str] = ()

    @abstractmethod
    def is_session(self, obj: Any) -> bool:
        """Whether an object is a session of this framework that `adapt` takes."""

    @abstractmethod
    def adapt(self, session: Any) -> SessionAdapter:
        """An adapter for a session; its methods bypass what `install` has put in place."""

    def session_interface(self) -> type | None:
        """The class that the framework demands of whatever stands for a session, if any."""
        return None

    def hook_interface(self) -> type | None:
        """The class that the framework demands of a hook on its runs, if it has hooks."""
        return None

    def call_stepper(
        self,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        scopes: frozenset[str] | None = None,
    ) -> SteppedRun:
        """A call of a function as a run to be done step by step; its result is the run's.

        Args:
            function: what is called.
            args, kwargs: with what.
            scopes: only ops whose names begin so, with the rest of the name behind, are steps; all
                else is done as ever. ``None``: all are.

        Raises:
            NotImplementedError: the framework's runs are no calls.
        """
        raise NotImplementedError(f"Runs of the {self.name} engine are those of its sessions.")

    def configure(self, setting: Callable[[str], Any]) -> None:
        """Take a function that tells the value of a setting by its name, now and later."""

    def failed(self, error: BaseException) -> None:
        """The program is about to end with an error that nobody caught.

        Engines that only see a part of what a run does may have to show an error screen now.
        """

    @abstractmethod
    def install(self, wrap: WrapSession) -> Callable[[], None]:
        """Make every session of the framework debugged, also those that exist already.

        Each run that the user's program asks for becomes
        ``wrap(session).run(fetches, feed_dict, options, run_metadata)``, or has its ``callable_``
        keywords where it was asked for through a callable; runs that the framework makes for its
        own housekeeping, and those an adapter makes, go straight through.

        Returns:
            A function that undoes it.
        """
