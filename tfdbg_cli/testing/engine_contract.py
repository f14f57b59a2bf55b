"""What every engine promises, as tests to inherit.

Write the program that `EngineProgram` describes in the framework's own words, and let pytest
collect a subclass of the suite::

    from tfdbg_cli.testing.engine_contract import EngineContract

    class TestMyEngine(EngineContract):
        def make(self):
            return MyProgram()
"""

from __future__ import annotations

import contextlib
import inspect
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tfdbg_cli.dumps.dump import Dump
from tfdbg_cli.dumps.graph import Graph, node_name_of
from tfdbg_cli.dumps.sources import own_frame
from tfdbg_cli.engines.base import (
    Engine,
    ProgramAdapter,
    ProgramEngine,
    SessionAdapter,
    SessionEngine,
    Watch,
)
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

__all__ = ["EngineContract", "EngineProgram"]


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

    @abstractmethod
    def run(self, given: NDArray[np.float32]) -> Any:
        """One run, as a program asks for it; what it returns, or a tensor that shows it."""

    @abstractmethod
    def fail(self, given: NDArray[np.float32]) -> None:
        """One run of which an op fails once the product is there: raises `error`."""

    @abstractmethod
    def interrupt(self, given: NDArray[np.float32]) -> None:
        """One run in the middle of which KeyboardInterrupt is raised."""

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


class _Hosts:
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


def _given(*numbers: float) -> NDArray[np.float32]:
    return np.array(numbers, np.float32)


def _names(dump: Dump) -> list[str]:
    return [datum.tensor_name for datum in dump.data()]


def _value(dump: Dump, name: str) -> NDArray[np.float32]:
    return np.array(dump.by_tensor(name)[0].get_tensor())


@contextlib.contextmanager
def _debugged(program: EngineProgram) -> Iterator[_Hosts]:
    """All runs of the program's framework are debugged."""
    hosts = _Hosts()
    undo = program.engine.install(hosts)
    try:
        yield hosts
    finally:
        undo()


class EngineContract(ABC):
    """What docs/engines.md asks of an engine."""

    @abstractmethod
    def make(self) -> EngineProgram:
        """The program, newly made."""

    @pytest.fixture
    def program(self) -> Iterator[EngineProgram]:
        """One that is closed at the end."""
        made = self.make()
        yield made
        made.close()

    def _plain_runs(self, count: int) -> list[bytes]:
        program = self.make()
        try:
            found = [program.array(program.run(_given(1, i))).tobytes() for i in range(count)]
            return [*found, program.value().tobytes()]
        finally:
            program.close()

    def test_it_is_of_one_of_two_kinds(self, program: EngineProgram) -> None:
        engine = program.engine
        assert isinstance(engine, SessionEngine | ProgramEngine)
        assert engine.name
        assert engine.modules
        assert not engine.is_session(object())
        with _debugged(program) as hosts:
            program.run(_given(1, 2))
        adapter = hosts(next(iter(hosts._all.values()))[0])._adapter
        wanted = SessionAdapter if isinstance(engine, SessionEngine) else ProgramAdapter
        assert isinstance(adapter, wanted)
        assert adapter.engine_name == engine.name

    @pytest.mark.parametrize("actions", ["dddd", "dpdp", "pddp"])
    def test_results_and_state_are_those_of_plain_runs(
        self, program: EngineProgram, actions: str
    ) -> None:
        found = []
        with _debugged(program) as hosts:
            for i, action in enumerate(actions):
                is_debug = action == "d"
                hosts.action = (
                    OnRunStartAction.DEBUG_RUN if is_debug else OnRunStartAction.NON_DEBUG_RUN
                )
                found.append(program.array(program.run(_given(1, i))).tobytes())
        assert len(hosts.ends) == actions.count("d")
        assert [*found, program.value().tobytes()] == self._plain_runs(len(actions))

    def test_tensors_come_in_the_order_in_which_they_were_computed(
        self, program: EngineProgram
    ) -> None:
        with _debugged(program) as hosts:
            program.run(_given(1, 2))
        dump = hosts.dump()
        names = _names(dump)
        wanted = [program.product, program.total, program.result]
        assert [name for name in names if name in wanted] == wanted
        assert names.index(program.noise) < names.index(program.total)
        times = [datum.timestamp for datum in dump.data()]
        assert times == sorted(times)

    def test_values_are_those_that_were_computed(self, program: EngineProgram) -> None:
        with _debugged(program) as hosts:
            result = program.array(program.run(_given(1, 2))).copy()
        dump = hosts.dump()
        assert _value(dump, program.product).tolist() == [3, 8]
        noise = _value(dump, program.noise)
        assert _value(dump, program.total).tobytes() == (_given(3, 8) + noise).tobytes()
        assert _value(dump, program.result).tobytes() == result.tobytes()
        if program.given:
            assert _value(dump, program.given).tolist() == [1, 2]

    def test_what_was_kept_stays_as_it_was(self, program: EngineProgram) -> None:
        if not program.keeps_values:
            pytest.skip("dumps hold references once the program goes on")
        given = _given(1, 2)
        with _debugged(program) as hosts:
            result = program.run(given)
            kept = {name: _value(hosts.dump(0), name).tobytes() for name in _names(hosts.dump(0))}
            array = program.array(result)
            if array.flags.writeable:
                array[...] = -1
            given[...] = -1
            program.run(_given(5, 6))
        first = hosts.dump(0)
        again = {name: _value(first, name).tobytes() for name in _names(first)}
        wanted = [program.product, program.noise, program.total, program.result, program.given]
        for name in filter(None, wanted):
            assert again[name] == kept[name], name

    def test_the_graph_leads_back_to_the_inputs(self, program: EngineProgram) -> None:
        with _debugged(program) as hosts:
            program.run(_given(1, 2))
        graph = hosts.dump().graph()
        assert isinstance(graph, Graph)
        ancestors = set(graph.ancestors(node_name_of(program.result)))
        wanted = (program.product, program.noise, program.total)
        assert {node_name_of(name) for name in wanted} <= ancestors

    def test_the_stack_of_an_op_ends_in_the_program(self, program: EngineProgram) -> None:
        with _debugged(program) as hosts:
            program.run(_given(1, 2))
        graph = hosts.dump().graph()
        assert graph is not None
        frames = graph.nodes[node_name_of(program.product)].frames
        assert frames
        # The framework's own frames, if it shows them, are told apart by where it is installed.
        own = own_frame(frames)
        assert own is not None
        assert own.file == inspect.getfile(type(program))

    def test_an_error_keeps_what_came_before_it(self, program: EngineProgram) -> None:
        twin = self.make()
        with pytest.raises(program.error) as plain:
            twin.fail(_given(1, 2))
        twin.close()
        with _debugged(program) as hosts, pytest.raises(program.error) as debugged:
            program.fail(_given(1, 2))
        assert type(debugged.value) is type(plain.value)
        end = hosts.ends[-1]
        assert end.tf_error is debugged.value
        assert end.error is not None
        assert end.error.op_name == program.failing
        assert end.dump is not None
        assert _value(end.dump, program.product).tolist() == [3, 8]

    def test_errors_of_others_are_none_of_the_frameworks(self, program: EngineProgram) -> None:
        with _debugged(program) as hosts:
            program.run(_given(1, 2))
            adapter = hosts(next(iter(hosts._all.values()))[0])._adapter
            assert adapter.describe_error(ZeroDivisionError("of the program's own")) is None

    def test_an_interrupt_goes_through_and_the_next_run_is_debugged(
        self, program: EngineProgram
    ) -> None:
        with _debugged(program) as hosts:
            with pytest.raises(KeyboardInterrupt):
                program.interrupt(_given(1, 2))
            count = len(hosts.ends)
            program.run(_given(1, 2))
            program.run(_given(1, 2))
        assert len(hosts.ends) > count
        assert program.product in _names(hosts.dump())

    def test_a_watch_narrows_what_is_kept(self, program: EngineProgram) -> None:
        node = node_name_of(program.product)
        with _debugged(program) as hosts:
            hosts.watch = Watch(node_name=f"^{re.escape(node)}$")
            program.run(_given(1, 2))
            assert set(_names(hosts.dump())) == {program.product}
            hosts.watch = Watch(tensor_dtype="no such type")
            program.run(_given(1, 2))
            assert not hosts.dump().data()
            graph = hosts.dump(0).graph()
            assert graph is not None
            op_type = graph.nodes[node].op_type
            hosts.watch = Watch(op_type=f"^{re.escape(op_type)}$")
            program.run(_given(1, 2))
            names = _names(hosts.dump())
            assert program.product in names
            graph = hosts.dump().graph()
            assert graph is not None
            assert {graph.nodes[node_name_of(name)].op_type for name in names} == {op_type}

    def test_undone_it_sees_nothing(self, program: EngineProgram) -> None:
        first, second = _Hosts(), _Hosts()
        undo_first = program.engine.install(first)
        undo_second = program.engine.install(second)
        program.run(_given(1, 2))
        assert (len(first.ends), len(second.ends)) == (0, 1)
        undo_second()
        program.run(_given(1, 2))
        assert (len(first.ends), len(second.ends)) == (1, 1)
        undo_first()
        undo_first()
        undo_second()
        program.run(_given(1, 2))
        assert (len(first.ends), len(second.ends)) == (1, 1)

    def test_a_run_says_what_it_is(self, program: EngineProgram) -> None:
        with _debugged(program) as hosts:
            program.run(_given(1, 2))
        info = hosts.starts[0].run_info
        assert info.engine == program.engine.name
        is_session = isinstance(program.engine, SessionEngine)
        assert info.unit == ("session" if is_session else "program")
        assert info.fetches or info.runner

    def test_a_block_is_one_run(self, program: EngineProgram) -> None:
        engine = program.engine
        if not isinstance(engine, ProgramEngine):
            pytest.skip("runs of sessions are told by their fetches")
        with _debugged(program) as hosts:
            with engine.block("both"):
                program.run(_given(1, 2))
                program.run(_given(1, 2))
            assert len(hosts.ends) == 1
        assert program.product in _names(hosts.dump())
