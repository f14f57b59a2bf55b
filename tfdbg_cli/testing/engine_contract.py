"""What every engine promises, as tests to inherit.

Write the program that `EngineProgram` describes in the framework's own words, and let pytest
collect a subclass of the suite::

    from tfdbg_cli.testing.engine_contract import EngineContract

    class TestMyEngine(EngineContract):
        def make(self):
            return MyProgram()
"""

from __future__ import annotations

import inspect
import re
from abc import abstractmethod
from collections.abc import Iterator

import pytest

from tfdbg_cli.dumps.graph import Graph, node_name_of
from tfdbg_cli.dumps.sources import own_frame
from tfdbg_cli.engines.base import (
    ProgramAdapter,
    ProgramEngine,
    SessionAdapter,
    SessionEngine,
    Watch,
)
from tfdbg_cli.sessions.wrappers.framework import OnRunStartAction
from tfdbg_cli.testing.contract_program import (
    EngineProgram,
    Hosts,
    debugged,
    given_of,
    names_of,
    value_of,
)
from tfdbg_cli.testing.waiting_contract import WaitingContract

__all__ = ["EngineContract", "EngineProgram"]


class EngineContract(WaitingContract):
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
            found = [program.array(program.run(given_of(1, i))).tobytes() for i in range(count)]
            return [*found, program.value().tobytes()]
        finally:
            program.close()

    def test_it_is_of_one_of_two_kinds(self, program: EngineProgram) -> None:
        engine = program.engine
        assert isinstance(engine, SessionEngine | ProgramEngine)
        assert engine.name
        assert engine.modules
        assert not engine.is_session(object())
        with debugged(program) as hosts:
            program.run(given_of(1, 2))
        adapter = hosts(next(iter(hosts._all.values()))[0])._adapter
        wanted = SessionAdapter if isinstance(engine, SessionEngine) else ProgramAdapter
        assert isinstance(adapter, wanted)
        assert adapter.engine_name == engine.name

    @pytest.mark.parametrize("actions", ["dddd", "dpdp", "pddp"])
    def test_results_and_state_are_those_of_plain_runs(
        self, program: EngineProgram, actions: str
    ) -> None:
        found = []
        with debugged(program) as hosts:
            for i, action in enumerate(actions):
                is_debug = action == "d"
                hosts.action = (
                    OnRunStartAction.DEBUG_RUN if is_debug else OnRunStartAction.NON_DEBUG_RUN
                )
                found.append(program.array(program.run(given_of(1, i))).tobytes())
        assert len(hosts.ends) == actions.count("d")
        assert [*found, program.value().tobytes()] == self._plain_runs(len(actions))

    def test_tensors_come_in_the_order_in_which_they_were_computed(
        self, program: EngineProgram
    ) -> None:
        with debugged(program) as hosts:
            program.run(given_of(1, 2))
        dump = hosts.dump()
        names = names_of(dump)
        wanted = [program.product, program.total, program.result]
        assert [name for name in names if name in wanted] == wanted
        assert names.index(program.noise) < names.index(program.total)
        times = [datum.timestamp for datum in dump.data()]
        assert times == sorted(times)

    def test_values_are_those_that_were_computed(self, program: EngineProgram) -> None:
        with debugged(program) as hosts:
            result = program.array(program.run(given_of(1, 2))).copy()
        dump = hosts.dump()
        assert value_of(dump, program.product).tolist() == [3, 8]
        noise = value_of(dump, program.noise)
        assert value_of(dump, program.total).tobytes() == (given_of(3, 8) + noise).tobytes()
        assert value_of(dump, program.result).tobytes() == result.tobytes()
        if program.given:
            assert value_of(dump, program.given).tolist() == [1, 2]

    def test_what_was_kept_stays_as_it_was(self, program: EngineProgram) -> None:
        if not program.keeps_values:
            pytest.skip("dumps hold references once the program goes on")
        given = given_of(1, 2)
        with debugged(program) as hosts:
            result = program.run(given)
            kept = {
                name: value_of(hosts.dump(0), name).tobytes() for name in names_of(hosts.dump(0))
            }
            array = program.array(result)
            if array.flags.writeable:
                array[...] = -1
            given[...] = -1
            program.run(given_of(5, 6))
        first = hosts.dump(0)
        again = {name: value_of(first, name).tobytes() for name in names_of(first)}
        wanted = [program.product, program.noise, program.total, program.result, program.given]
        for name in filter(None, wanted):
            assert again[name] == kept[name], name

    def test_the_graph_leads_back_to_the_inputs(self, program: EngineProgram) -> None:
        with debugged(program) as hosts:
            program.run(given_of(1, 2))
        graph = hosts.dump().graph()
        assert isinstance(graph, Graph)
        ancestors = set(graph.ancestors(node_name_of(program.result)))
        wanted = (program.product, program.noise, program.total)
        assert {node_name_of(name) for name in wanted} <= ancestors

    def test_the_stack_of_an_op_ends_in_the_program(self, program: EngineProgram) -> None:
        with debugged(program) as hosts:
            program.run(given_of(1, 2))
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
            twin.fail(given_of(1, 2))
        twin.close()
        with debugged(program) as hosts, pytest.raises(program.error) as told:
            program.fail(given_of(1, 2))
        assert type(told.value) is type(plain.value)
        end = hosts.ends[-1]
        assert end.tf_error is told.value
        assert end.error is not None
        assert end.error.op_name == program.failing
        assert end.dump is not None
        assert value_of(end.dump, program.product).tolist() == [3, 8]

    def test_errors_of_others_are_none_of_the_frameworks(self, program: EngineProgram) -> None:
        with debugged(program) as hosts:
            program.run(given_of(1, 2))
            adapter = hosts(next(iter(hosts._all.values()))[0])._adapter
            assert adapter.describe_error(ZeroDivisionError("of the program's own")) is None

    def test_an_interrupt_goes_through_and_the_next_run_is_debugged(
        self, program: EngineProgram
    ) -> None:
        with debugged(program) as hosts:
            with pytest.raises(KeyboardInterrupt):
                program.interrupt(given_of(1, 2))
            count = len(hosts.ends)
            program.run(given_of(1, 2))
            program.run(given_of(1, 2))
        assert len(hosts.ends) > count
        assert program.product in names_of(hosts.dump())

    def test_a_watch_narrows_what_is_kept(self, program: EngineProgram) -> None:
        node = node_name_of(program.product)
        with debugged(program) as hosts:
            hosts.watch = Watch(node_name=f"^{re.escape(node)}$")
            program.run(given_of(1, 2))
            assert set(names_of(hosts.dump())) == {program.product}
            hosts.watch = Watch(tensor_dtype="no such type")
            program.run(given_of(1, 2))
            assert not hosts.dump().data()
            graph = hosts.dump(0).graph()
            assert graph is not None
            op_type = graph.nodes[node].op_type
            hosts.watch = Watch(op_type=f"^{re.escape(op_type)}$")
            program.run(given_of(1, 2))
            names = names_of(hosts.dump())
            assert program.product in names
            graph = hosts.dump().graph()
            assert graph is not None
            assert {graph.nodes[node_name_of(name)].op_type for name in names} == {op_type}

    def test_undone_it_sees_nothing(self, program: EngineProgram) -> None:
        first, second = Hosts(), Hosts()
        undo_first = program.engine.install(first)
        undo_second = program.engine.install(second)
        program.run(given_of(1, 2))
        assert (len(first.ends), len(second.ends)) == (0, 1)
        undo_second()
        program.run(given_of(1, 2))
        assert (len(first.ends), len(second.ends)) == (1, 1)
        undo_first()
        undo_first()
        undo_second()
        program.run(given_of(1, 2))
        assert (len(first.ends), len(second.ends)) == (1, 1)

    def test_a_run_says_what_it_is(self, program: EngineProgram) -> None:
        with debugged(program) as hosts:
            program.run(given_of(1, 2))
        info = hosts.starts[0].run_info
        assert info.engine == program.engine.name
        is_session = isinstance(program.engine, SessionEngine)
        assert info.unit == ("session" if is_session else "program")
        assert info.fetches or info.runner

    def test_a_block_is_one_run(self, program: EngineProgram) -> None:
        engine = program.engine
        if not isinstance(engine, ProgramEngine):
            pytest.skip("runs of sessions are told by their fetches")
        with debugged(program) as hosts:
            with engine.block("both"):
                program.run(given_of(1, 2))
                program.run(given_of(1, 2))
            assert len(hosts.ends) == 1
        assert program.product in names_of(hosts.dump())
