"""An engine of a program's runs that is made of four things: traits, a level, patches, errors."""

from __future__ import annotations

import functools
import os
import sys
import threading
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from typing import Any

from tfdbg_cli.common.traits import EngineTraits
from tfdbg_cli.dumps.sources import show_program_only
from tfdbg_cli.engines.base import Watch
from tfdbg_cli.engines.kit.engine import OneProgramEngine
from tfdbg_cli.engines.kit.levels import FULL, RECORDS, CaptureLevel
from tfdbg_cli.engines.kit.life import RunInputsOf, RunLife
from tfdbg_cli.engines.kit.patching.patches import PatchSet
from tfdbg_cli.engines.kit.patching.places import calling_at
from tfdbg_cli.engines.kit.patching.private_names import PrivateNames
from tfdbg_cli.engines.kit.policy import CapturePolicy, RunCosts
from tfdbg_cli.engines.kit.program import Program
from tfdbg_cli.engines.kit.recording.op_recorder import OpRecorder

__all__ = ["ProgramKit"]


class ProgramKit(OneProgramEngine[Program]):
    """An engine whose runs are stretches of a program, and whose level is an `OpRecorder`.

    Args:
        traits: of the engine.
        modules: the engine is loaded once the program has imported any of these.
        see: puts in place what sees the framework: ``see(engine, patches)``. All that it does by
            the `PatchSet` is taken back when nobody debugs any more; if it raises, at once.
        level: the recorder, whose class says what a tensor of the framework is.
        errors: classes of the framework's errors, or a function that knows one. Default: an error
            is the framework's if the framework's own code has raised it. An error of an op is
            known anyway.
        names: the framework's private names, which are checked before anything is changed.
        levels: those that the recorder is good for.

    Attributes:
        recorders: the recorder that is on, by thread.
    """

    def __init__(
        self,
        traits: EngineTraits,
        modules: Sequence[str],
        see: Callable[[ProgramKit, PatchSet], None],
        level: type[OpRecorder] = OpRecorder,
        errors: tuple[type[BaseException], ...] | Callable[[BaseException], bool] | None = None,
        names: PrivateNames | None = None,
        levels: Collection[str] = (FULL, RECORDS),
    ) -> None:
        super().__init__()
        self.name, self.modules, self.traits = traits.name, tuple(modules), traits
        self.see, self.level, self.names, self.levels = see, level, names, levels
        self.recorders: dict[int, OpRecorder] = {}
        self._errors = errors

    def make_program(self) -> Program:
        assert self.traits is not None
        program = Program(self.traits)
        policy = _Policy(program.value)
        policy.kit, policy.levels = self, self.levels
        program.runs = _Runs(program, policy)
        program.runs.kit = self
        program.patches = _Patches(self)
        return program

    def value(self, name: str) -> Any:
        """The value of a setting now, the engine's own included."""
        return self.program().value(name)

    # What the patches call.

    def run(
        self, kind: str, title: str = "", inputs: RunInputsOf = None
    ) -> AbstractContextManager[None]:
        """What is done within is a run, if somebody debugs and no other one is open.

        Args:
            kind: of run, in a word or two.
            title: what to call it.
            inputs: the tensors that it gets, by the user's names, or a function that tells.
        """
        return _Run(self.program().runs.stretch(kind, title, inputs))

    def begin(self, kind: str, title: str = "", inputs: RunInputsOf = None) -> None:
        """A run begins here that isn't one call, if somebody debugs and no other one is open.

        The arguments are those of `run`.
        """
        self.program().runs.begin_stretch(kind, title, inputs)

    def end(self, error: BaseException | None = None) -> None:
        """It ends, if it is open.

        Args:
            error: has left what is done in it. One that isn't the framework's cuts it short.
        """
        self.program().runs.end_stretch(error)

    @property
    def is_open(self) -> bool:
        """Whether a run has begun and isn't over."""
        return self.program().runs.is_open

    def recorder(self) -> Any:
        """What records this thread now: an object of the class `level`; ``None``: nothing does."""
        return self.recorders.get(threading.get_ident())

    def recorded(
        self,
        function: Callable[..., Any],
        op_type: str = "",
        unless: Callable[[Sequence[Any]], bool] | None = None,
    ) -> Callable[..., Any]:
        """A function of the framework's as an op: what stands for it tells the recorder.

        Args:
            function: what it computes by, without calling another recorded one.
            op_type: default: its name.
            unless: whether a call with these positional arguments is none of an op.
        """
        op_type = op_type or getattr(function, "__name__", "").strip("_") or "op"
        recorders = self.recorders

        @functools.wraps(function)
        def op(*args: Any, **kwargs: Any) -> Any:
            recorder = recorders.get(threading.get_ident())
            if recorder is not None and unless is not None and unless(args):
                recorder = None
            try:  # Python's warnings name the frame that they would without us
                result = calling_at(sys._getframe(1))(function, args, kwargs)
            except Exception as error:
                if recorder is not None:
                    recorder.failed(error, op_type, args, numbers=kwargs)
                show_program_only(error)
                raise
            if recorder is not None:
                recorder.op(op_type, args, result, numbers=kwargs)
            return result

        return op

    # What it knows.

    def is_framework_error(self, error: BaseException) -> bool:
        """Whether an error is one of the framework's."""
        if isinstance(self._errors, tuple):
            return isinstance(error, self._errors)
        if self._errors is not None:
            return self._errors(error)
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        folder = _folder(self.modules[0])
        return bool(trace and folder and trace.tb_frame.f_code.co_filename.startswith(folder))


def _folder(module: str) -> str:
    """Where the package of a module is; empty: it isn't imported."""
    file = getattr(sys.modules.get(module.partition(".")[0]), "__file__", None)
    is_package = file is not None and os.path.basename(file).startswith("__init__.")
    return os.path.join(os.path.dirname(file), "") if file and is_package else file or ""


class _Run(AbstractContextManager[None]):
    """A run; an error that leaves it has only frames of the program's and of the framework's."""

    # Not a generator: Python would give the error its former frames again.

    def __init__(self, stretch: AbstractContextManager[None]) -> None:
        self._stretch = stretch

    def __enter__(self) -> None:
        self._stretch.__enter__()

    def __exit__(self, *raised: Any) -> None:
        try:
            self._stretch.__exit__(*raised)
        finally:
            if raised[1] is not None:
                show_program_only(raised[1])


class _Policy(CapturePolicy):
    kit: ProgramKit

    def make(self, level: str, watch: Watch, costs: RunCosts) -> CaptureLevel:
        del costs
        return self.kit.level(watch, level, self.kit)


class _Runs(RunLife[Any]):
    kit: ProgramKit

    def is_framework_error(self, error: BaseException) -> bool:
        return self.kit.is_framework_error(error)


class _Patches:
    def __init__(self, kit: ProgramKit) -> None:
        assert kit.traits is not None
        title = kit.names.framework if kit.names is not None else kit.traits.title
        self._kit, self._patches = kit, PatchSet(title)

    def install(self) -> None:
        if self._patches:
            return
        if self._kit.names is not None:
            self._kit.names.check()
            self._kit.names.tell_version()
        with self._patches.together():
            self._kit.see(self._kit, self._patches)

    def undo(self) -> None:
        self._patches.undo()
