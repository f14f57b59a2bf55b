"""The PyTorch program as the session that is debugged, and its adapter."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tfdbg_cli.common.errors import message_of, one_line
from tfdbg_cli.dumps.dump import RunError
from tfdbg_cli.engines.base import (
    HostOf,
    Meeting,
    ProgramAdapter,
    RunHost,
    SteppedRun,
)
from tfdbg_cli.engines.torch.around.process_patches import PROCESS_PATCHES
from tfdbg_cli.engines.torch.ranks import meeting
from tfdbg_cli.engines.torch.runs.failures import is_framework_error, place_of_error
from tfdbg_cli.engines.torch.runs.patches import Around, Patches
from tfdbg_cli.engines.torch.runs.runs import Runs
from tfdbg_cli.engines.torch.traits import TRAITS

__all__ = ["Program", "TorchAdapter"]

_DEFAULTS = {field.name: field.default for field in TRAITS.settings}


class Program:
    """This process, as far as it uses PyTorch: there is one.

    Attributes:
        setting: the value of a setting by its name.
        runs: where its runs begin and end.
        patches: how that is seen.
    """

    def __init__(self) -> None:
        self.setting: Callable[[str], Any] = _DEFAULTS.__getitem__
        PROCESS_PATCHES.setting = self._value
        self.runs = Runs(self)
        self.patches = Patches(self.runs)
        self._wraps: list[HostOf] = []
        self._watchers = 0
        self._tfdbg_wrapper: Any = None
        self._asked: RunHost | None = None

    def _value(self, name: str) -> Any:
        return self.setting(name)

    def install(self, wrap: HostOf) -> Callable[[], None]:
        """Watch the runs; returns the way back, which may be called more than once."""
        if not self._wraps:
            # Which optimizers there are decides what a run is. It takes long: see `watched`.
            self.runs.optimizers.find()
        self._wraps.append(wrap)
        self.patches.install()
        self.runs.begin()

        def undo() -> None:
            if wrap in self._wraps:
                try:
                    if len(self._wraps) == 1:
                        self.runs.end()
                finally:
                    self._wraps.remove(wrap)
                    self._settle()

        return undo

    def watched(self, *, only_calls: bool = False) -> Callable[[], None]:
        """See what the program does, debugged or not, until what is returned is called.

        Args:
            only_calls: nothing but the calls of modules has to be seen.
        """
        self._watchers += 1
        if only_calls:
            self.patches.install_calls()
        else:
            self.patches.install()

        def undo() -> None:
            self._watchers -= 1
            self._settle()

        return undo

    def _settle(self) -> None:
        if not self._wraps and not self._watchers:
            self.patches.undo()

    def call_stepper(
        self,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        scopes: frozenset[str] | None = None,
    ) -> SteppedRun:
        """A call of a function, to be made step by step."""
        from tfdbg_cli.engines.torch.stepping.call import SteppedCall

        return SteppedCall(self, function, args, kwargs, scopes).stepper()

    def intercept(self, module: Any, around: Around) -> Callable[[], None]:
        """See `TorchEngine.intercept`."""
        unpatch, undo = self.watched(), self.patches.intercept(module, around)
        undone: list[bool] = []

        def give_up() -> None:
            if not undone:
                undone.append(True)
                undo()
                unpatch()

        return give_up

    def wrapper(self) -> RunHost | None:
        """Who is asked at each run; ``None``: nobody debugs."""
        self._asked = self._wraps[-1](self) if self._wraps else None
        return self._asked

    def is_idle(self) -> bool:
        """Whether nobody debugs at the moment, so that runs aren't even counted."""
        return self._asked is not None and self._asked.is_idle

    def gave_up(self, error: Exception) -> None:
        """The program isn't watched any more: nobody is to wait for its runs."""
        for wrap in self._wraps:
            wrap(self).gave_up(one_line(error))

    def failed(self, error: BaseException) -> None:
        """The program ends with this error."""
        self.runs.failed(error)


class TorchAdapter(ProgramAdapter):
    """The program as the wrapper session sees it: it runs by itself, nobody runs it."""

    engine_name = "torch"

    def meeting(self) -> Meeting | None:
        """The default process group's, once there is one."""
        found = meeting()
        if found is not None:
            found.whereabouts = self.session.runs.where
        return found

    def describe_error(self, error: BaseException) -> RunError | None:
        """The error in words, if it is one of PyTorch's; its op where that is known."""
        runs = self.session.runs
        name = runs.failed_op(error) if isinstance(runs, Runs) else ""
        is_shown = isinstance(runs, Runs) and runs.ended_with(error)
        if not name and not is_shown and not is_framework_error(error):
            return None
        return RunError(type(error).__name__, message_of(error), name, *place_of_error(error))
