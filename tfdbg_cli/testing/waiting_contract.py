"""What every engine promises while a filter is awaited, and of what the user gets to see."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
import threading
import traceback
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tfdbg_cli.common.settings import FIELDS
from tfdbg_cli.dumps.dump import Dump
from tfdbg_cli.dumps.graph import node_name_of
from tfdbg_cli.dumps.run_folder.dump import RunFolderDump
from tfdbg_cli.dumps.run_folder.writer import write_run_folder
from tfdbg_cli.dumps.sources import is_engine_path, own_frame
from tfdbg_cli.engines.base import ProgramEngine, Watch
from tfdbg_cli.filters.builtin import has_inf_or_nan
from tfdbg_cli.filters.causes.find import cause_of
from tfdbg_cli.filters.lineage import TensorLineage
from tfdbg_cli.testing.contract_program import (
    EngineProgram,
    debugged,
    given_of,
    names_of,
    value_of,
)

__all__ = ["WaitingContract"]

# Modules alone don't show what is lost inside of them.
_LEVELS = ("values", "ops")
_WAITING = Watch(filter_name="has_inf_or_nan", predicate=has_inf_or_nan)
# The program in a process of its own: an interrupt and an error end it as they do without us.
_SCRIPT = """\
import importlib.util, sys
import numpy as np
for name in {modules!r}:  # as a program does, before anything of the engine
    importlib.import_module(name)
spec = importlib.util.spec_from_file_location("program", {file!r})
module = sys.modules["program"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
program = module.{name}()
print(program.array(program.swallow(np.array([1, -1], np.float32))))
program.{end}(np.array([1, 2], np.float32))
"""


def _reason(dump: Dump, name: str) -> str:
    """Why a tensor is bad, as `why` says it; empty: nothing is said."""
    found = cause_of(TensorLineage(dump), dump.by_tensor(name)[0])
    return found.text if found is not None else ""


def _said(text: str) -> list[str]:
    """What a program has on stderr, without the debugger's own lines.

    The marks below a line of a traceback tell which way a framework with hooks has taken.
    """
    lines = text.splitlines()
    return [each for each in lines if not each.startswith("tfdbg: ") and each.strip(" ^~")]


class WaitingContract(ABC):
    """The part of `EngineContract` about bad values."""

    @abstractmethod
    def make(self) -> EngineProgram:
        """The program, newly made."""

    @pytest.fixture
    def setting(self, program: EngineProgram) -> Iterator[dict[str, Any]]:
        """The settings, which have their defaults but for what a test puts in here."""
        traits = program.engine.traits
        more = traits.settings if traits is not None else ()
        values = {field.name: field.default for field in (*FIELDS, *more)}
        defaults = dict(values)
        program.engine.configure(values.__getitem__)
        yield values
        program.engine.configure(defaults.__getitem__)

    def _needs_bad(self, program: EngineProgram) -> None:
        if not program.bad:
            pytest.skip("the program has no run with a bad value")

    @pytest.mark.parametrize("level", _LEVELS)
    def test_a_bad_value_that_the_program_loses_is_found_at_each_level(
        self, program: EngineProgram, setting: dict[str, Any], level: str
    ) -> None:
        self._needs_bad(program)
        setting["level"] = level
        with debugged(program) as hosts:
            hosts.watch = _WAITING
            result = program.array(program.swallow(given_of(1, -1)))
            assert np.isfinite(result).all()
        dump = hosts.dump()
        assert [each.tensor_name for each in dump.find(has_inf_or_nan, 1)] == [program.bad]
        assert hosts.ends[-1].capture.filter_passed is not False
        graph = dump.graph()
        assert graph is not None
        node = graph.nodes[node_name_of(program.bad)]
        for name in node.inputs:
            assert dump.by_tensor(name), f"{program.bad} was made of {name}, which isn't there"
        assert program.reason in _reason(dump, program.bad)
        own = own_frame(node.frames or ())
        assert own is not None
        assert own.file == inspect.getfile(type(program))

    @pytest.mark.parametrize("level", _LEVELS)
    def test_nothing_is_found_where_nothing_is_bad(
        self, program: EngineProgram, setting: dict[str, Any], level: str
    ) -> None:
        self._needs_bad(program)
        setting["level"] = level
        with debugged(program) as hosts:
            hosts.watch = _WAITING
            program.swallow(given_of(1, 2))
            program.run(given_of(1, 2))
        assert len(hosts.starts) == 2
        for end in hosts.ends:
            assert end.dump is None or not end.dump.find(has_inf_or_nan)
            assert end.capture.filter_passed is not True

    def test_the_folder_says_the_same_where_nobody_knows_the_engine(
        self, program: EngineProgram, tmp_path: Path
    ) -> None:
        self._needs_bad(program)
        with debugged(program) as hosts:
            program.swallow(given_of(1, -1))
        live = hosts.dump()
        write_run_folder(live, tmp_path / "run")
        told = tmp_path / "run" / "run.json"
        text = json.loads(told.read_text(encoding="utf-8"))
        told.write_text(json.dumps({**text, "engine": "nobody's"}), encoding="utf-8")
        offline = RunFolderDump(tmp_path / "run")
        assert names_of(offline) == names_of(live)
        assert offline.find(has_inf_or_nan)[0].tensor_name == program.bad
        assert _reason(offline, program.bad) == _reason(live, program.bad)
        assert program.reason in _reason(offline, program.bad)

    def test_values_beyond_the_limit_are_there_all_the_same(self, program: EngineProgram) -> None:
        with debugged(program) as hosts:
            hosts.watch = Watch(limit=1)
            result = program.array(program.run(given_of(1, 2))).copy()
        assert value_of(hosts.dump(), program.product).tolist() == [3, 8]
        assert value_of(hosts.dump(), program.result).tobytes() == result.tobytes()

    def test_a_second_thread_computes_the_same_and_is_not_debugged(
        self, program: EngineProgram
    ) -> None:
        if not isinstance(program.engine, ProgramEngine):
            pytest.skip("sessions are debugged on every thread")
        twin, found = self.make(), []
        wanted = twin.array(twin.run(given_of(1, 2))).tobytes()
        twin.close()
        program = self.make()  # as it is at its beginning, whatever it shares with its twin
        with debugged(program) as hosts:
            thread = threading.Thread(
                target=lambda: found.append(program.array(program.run(given_of(1, 2))).tobytes())
            )
            thread.start()
            thread.join()
            assert not hosts.ends
            program.run(given_of(1, 2))
            assert len(hosts.ends) == 1
        assert found == [wanted]

    def test_an_error_has_no_frames_of_the_engines_package(self, program: EngineProgram) -> None:
        with debugged(program), pytest.raises(program.error) as told:
            program.fail(given_of(1, 2))
        frames = [frame for frame, _ in traceback.walk_tb(told.value.__traceback__)]
        files = [frame.f_code.co_filename for frame in frames]
        assert [each for each in files if is_engine_path(each)] == []

    def test_a_gradient_leads_back_to_its_forward_op(self, program: EngineProgram) -> None:
        if not program.gradient:
            pytest.skip("the program has no backward pass")
        with debugged(program) as hosts:
            program.run(given_of(1, 2))
        dump = hosts.dump()
        graph = dump.graph()
        assert graph is not None
        nodes = graph.nodes
        forward, gradient = (node_name_of(each) for each in (program.product, program.gradient))
        assert dump.by_tensor(program.gradient)
        assert nodes[gradient].attributes["_phase"] == "backward"
        assert nodes[gradient].attributes["_forward_node"] == forward
        assert nodes[forward].attributes["_phase"] == "forward"
        assert gradient.startswith("gradients/")
        assert own_frame(nodes[gradient].frames or ()) == own_frame(nodes[forward].frames or ())

    @pytest.mark.parametrize("end", ["run", "fail", "interrupt"])
    def test_the_program_ends_as_it_does_without_the_debugger(
        self, program: EngineProgram, tmp_path: Path, end: str
    ) -> None:
        self._needs_bad(program)
        kind = type(program)
        script = tmp_path / "script.py"
        modules = tuple(program.engine.modules)
        file, name = inspect.getfile(kind), kind.__qualname__
        script.write_text(_SCRIPT.format(modules=modules, file=file, name=name, end=end))
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        commands = 2 * ["-c", "run -f has_inf_or_nan"]
        plain, told = (
            subprocess.run(
                [sys.executable, *words, script],
                env=environment,
                capture_output=True,
                text=True,
                timeout=300,
                check=False,
            )
            for words in ((), ("-m", "tfdbg_cli", "--batch", *commands))
        )
        assert told.returncode == plain.returncode
        assert _said(told.stderr) == _said(plain.stderr)
        assert plain.stdout in told.stdout
        assert "dumped tensor(s) passing filter" in told.stdout
