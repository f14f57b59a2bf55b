"""The PyTorch program as the session that is debugged, and its adapter."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tfdbg_cli.common.errors import UserError, message_of, one_line
from tfdbg_cli.common.settings import FIELDS
from tfdbg_cli.dumps.dump import RunError
from tfdbg_cli.dumps.graph import Graph
from tfdbg_cli.engines.base import (
    Capture,
    Meeting,
    SessionAdapter,
    SteppedRun,
    Watch,
    WrapSession,
)
from tfdbg_cli.engines.torch.around.process_patches import PROCESS_PATCHES
from tfdbg_cli.engines.torch.private import NAMES, STEPPED
from tfdbg_cli.engines.torch.ranks import meeting
from tfdbg_cli.engines.torch.runs.failures import is_framework_error, place_of_error
from tfdbg_cli.engines.torch.runs.patches import Around, Patches
from tfdbg_cli.engines.torch.runs.runs import Runs

__all__ = ["Program", "TorchAdapter"]

_DEFAULTS = {field.name: field.default for field in FIELDS}


class Program:
    """This process, as far as it uses PyTorch: there is one.

    Attributes:
        setting: the value of a setting by its name.
        is_program: it is no session among others.
        runs: where its runs begin and end.
        patches: how that is seen.
    """

    is_program = True

    def __init__(self) -> None:
        self.setting: Callable[[str], Any] = _DEFAULTS.__getitem__
        PROCESS_PATCHES.setting = self._value
        self.runs = Runs(self)
        self.patches = Patches(self.runs)
        self._wraps: list[WrapSession] = []
        self._watchers = 0
        self._tfdbg_wrapper: Any = None
        self._asked: Any = None

    def _value(self, name: str) -> Any:
        return self.setting(name)

    def install(self, wrap: WrapSession) -> Callable[[], None]:
        """Watch the runs; returns the way back, which may be called more than once.

        Raises:
            UserError: see `Patches.install`; nothing is watched then.
        """
        if not self._wraps:
            # Which optimizers there are decides what a run is. It takes long: see `watched`.
            self.runs.optimizers.find()
        self.patches.install()
        NAMES.tell_version()
        self._wraps.append(wrap)
        try:
            self.runs.begin()
        except BaseException:
            self._wraps.remove(wrap)
            self._settle()
            raise

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
        if only_calls:
            self.patches.install_calls()
        else:
            self.patches.install()
        NAMES.tell_version()
        self._watchers += 1

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

        if why_not := NAMES.why_not(STEPPED):
            raise UserError(why_not)

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

    def wrapper(self) -> Any:
        """The wrapper session that is asked at each run; ``None``: nobody debugs."""
        self._asked = self._wraps[-1](self) if self._wraps else None
        return self._asked

    def is_idle(self) -> bool:
        """Whether nobody debugs at the moment, so that runs aren't even counted."""
        return self._asked is not None and bool(self._asked.is_idle)

    def gave_up(self, error: Exception) -> None:
        """The program isn't watched any more: nobody is to wait for its runs."""
        for wrap in self._wraps:
            wrap(self).gave_up(one_line(error))

    def failed(self, error: BaseException) -> None:
        """The program ends with this error."""
        self.runs.failed(error)


class TorchAdapter(SessionAdapter):
    """The program as the wrapper session sees it: it runs by itself, nobody runs it."""

    engine_name = "torch"

    def run(self, fetches: Any, feed_dict: Any, options: Any, run_metadata: Any) -> Any:
        """Call a function; ``feed_dict`` are its keyword arguments."""
        return fetches(**(feed_dict or {}))

    def debug_run(
        self, fetches: Any, feed_dict: Any, options: Any, run_metadata: Any, watch: Watch
    ) -> Capture:
        """Not there: a program's runs are opened by what it does."""
        raise NotImplementedError(
            "Runs of PyTorch begin and end where the program does; "
            "`with tfdbg_cli.run():` makes one."
        )

    def fetch_names(self, fetches: Any) -> list[str]:
        """The name of the function."""
        return [getattr(fetches, "__name__", str(fetches))]

    def feeds(self, feed_dict: Any) -> Mapping[str, Any]:
        """Its keyword arguments."""
        return dict(feed_dict or {})

    def meeting(self) -> Meeting | None:
        """The default process group's, once there is one."""
        found = meeting()
        if found is not None:
            found.whereabouts = self.session.runs.where
        return found

    def graph(self) -> Graph:
        """Empty: a graph is made of what a run did."""
        return Graph(())

    @property
    def framework_graph(self) -> Any:
        """There is none."""
        return None

    def describe_error(self, error: BaseException) -> RunError | None:
        """The error in words, if it is one of PyTorch's; its op where that is known."""
        runs = self.session.runs
        name = runs.failed_op(error) if isinstance(runs, Runs) else ""
        is_shown = isinstance(runs, Runs) and runs.ended_with(error)
        if not name and not is_shown and not is_framework_error(error):
            return None
        return RunError(type(error).__name__, message_of(error), name, *place_of_error(error))
