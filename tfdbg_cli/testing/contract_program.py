"""A program as the contract of engines wants it, and who debugs it."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tfdbg_cli.common.errors import UserError
from tfdbg_cli.dumps.dump import Dump
from tfdbg_cli.engines import registry
from tfdbg_cli.engines.base import Engine, Watch
from tfdbg_cli.sessions.wrappers.framework import (
    BaseDebugWrapperSession,
    OnRunEndRequest,
    OnRunEndResponse,
    OnRunStartAction,
    OnRunStartRequest,
    OnRunStartResponse,
    OnSessionInitAction,
    OnSessionInitRequest,
    OnSessionInitResponse,
)

__all__ = ["EngineProgram", "Hosts", "debugged", "given_of", "names_of", "value_of"]


class EngineProgram(ABC):
    """A small program; one is like the other when it is made, random numbers included.

    Each of its runs takes an input of two float32 numbers and a variable, ``[3, 4]`` at first, and
    in this order

    - computes `product`, input times variable;
    - draws two random numbers, `noise`;
    - computes `total`, product plus noise, and `result`, twice the total;
    - adds 1 to the variable;

    and returns the result. Runs may do more besides.

    Attributes:
        engine: of its framework.
        product, noise, total, result: the names of tensors, ``node:slot``.
        given: the name of the input as a tensor of the dump; empty: it is none.
        error: the class of what `fail` raises.
        failing: the node that fails in `fail`.
        bad: the name of the tensor that `swallow` makes bad; empty: there is no `swallow`.
        reason: what `why` says of it: ``the square root of a negative number``; empty: nothing.
        gradient: the name of a tensor of the backward pass in `run`, a gradient of what the op of
            `product` was given; empty: there is no backward pass.
        keeps_values: dumps stay as they are when the program goes on. An engine that would have to
            copy every value for it may do without: dumps are looked at, and written, before.
    """

    engine: Engine
    product: str = ""
    noise: str = ""
    total: str = ""
    result: str = ""
    given: str = ""
    error: type[Exception] = Exception
    failing: str = ""
    keeps_values: bool = True
    bad: str = ""
    reason: str = ""
    gradient: str = ""

    @abstractmethod
    def run(self, given: NDArray[np.float32]) -> Any:
        """One run, as a program asks for it; what it returns, or a tensor that shows it."""

    @abstractmethod
    def fail(self, given: NDArray[np.float32]) -> None:
        """One run of which an op fails once the product is there: raises `error`."""

    @abstractmethod
    def interrupt(self, given: NDArray[np.float32]) -> None:
        """One run in the middle of which KeyboardInterrupt is raised."""

    def swallow(self, given: NDArray[np.float32]) -> Any:
        """One run as `run`, in which an op makes `bad` of the product, with a nan in it.

        The program loses it again: nobody uses it, and the result is that of a `run`. It is the
        square root of the product, say: the input is ``[1, -1]``, and nothing bad comes of inputs
        above 0.
        """
        raise NotImplementedError

    @abstractmethod
    def value(self) -> NDArray[np.float32]:
        """The variable now."""

    def array(self, result: Any) -> NDArray[np.float32]:
        """What `run` has returned as an array; it may share its memory."""
        return np.asarray(result)

    def close(self) -> None:
        """It isn't used any more."""


class _Host(BaseDebugWrapperSession):
    """Does with each run what the test says, and remembers what it saw."""

    def on_session_init(self, request: OnSessionInitRequest) -> OnSessionInitResponse:
        self.action = OnRunStartAction.DEBUG_RUN
        self.watch = Watch()
        self.starts: list[OnRunStartRequest] = []
        self.ends: list[OnRunEndRequest] = []
        return OnSessionInitResponse(OnSessionInitAction.PROCEED)

    def on_run_start(self, request: OnRunStartRequest) -> OnRunStartResponse:
        self.starts.append(request)
        return OnRunStartResponse(self.action, watch=self.watch)

    def on_run_end(self, request: OnRunEndRequest) -> OnRunEndResponse:
        if request.dump is not None:
            self.ends.append(request)
        return OnRunEndResponse()


class Hosts:
    """Whoever debugs: a host for each session, the same one each time."""

    def __init__(self) -> None:
        self._all: dict[int, tuple[Any, _Host]] = {}
        self.action = OnRunStartAction.DEBUG_RUN
        self.watch = Watch()

    def __call__(self, session: Any) -> _Host:
        host = self._all.setdefault(id(session), (session, _Host(session)))[1]
        host.action, host.watch = self.action, self.watch
        return host

    @property
    def starts(self) -> list[OnRunStartRequest]:
        """What was asked at the beginnings of runs."""
        return [each for _, host in self._all.values() for each in host.starts]

    @property
    def ends(self) -> list[OnRunEndRequest]:
        """What was told of debugged runs, and of those that failed."""
        return [each for _, host in self._all.values() for each in host.ends]

    def dump(self, at: int = -1) -> Dump:
        """Of one of the debugged runs."""
        found = self.ends[at].dump
        assert found is not None
        return found


def given_of(*numbers: float) -> NDArray[np.float32]:
    """An input of the program."""
    return np.array(numbers, np.float32)


def names_of(dump: Dump) -> list[str]:
    """The tensors of a dump."""
    return [datum.tensor_name for datum in dump.data()]


def value_of(dump: Dump, name: str) -> NDArray[np.float32]:
    """The value of a tensor of a dump."""
    return np.array(dump.by_tensor(name)[0].get_tensor())


@contextlib.contextmanager
def debugged(program: EngineProgram) -> Iterator[Hosts]:
    """All runs of the program's framework are debugged."""
    engine = program.engine
    try:
        loaded = registry.load(engine.name)
    except UserError as error:
        pytest.fail(f"{error} Install the package that has the engine: pip install -e .")
    assert loaded is engine, f"another engine is called {engine.name}"
    hosts = Hosts()
    undo = program.engine.install(hosts)
    try:
        yield hosts
    finally:
        undo()
