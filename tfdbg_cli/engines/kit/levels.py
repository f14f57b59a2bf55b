"""The levels at which a run of a program may be watched."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.dumps.series.history import MeasuredTensor
from tfdbg_cli.engines.base import Capture, Watch

__all__ = ["CHECKED", "FULL", "MODULES", "ONLY_BAD", "ORIGIN", "RECORDS", "CaptureLevel"]

#: What dumps of a level say of themselves that keeps the values of what is bad.
ONLY_BAD = "Only the first bad tensors and their inputs have values (`run` keeps all values)."
#: The filter that asks where something bad began.
ORIGIN = "origin_of_nonfinite"
#: The filters that only a tensor with a nan or an infinity passes.
CHECKED = frozenset({"has_inf_or_nan", ORIGIN})
#: What comes out of the larger parts of the program, and what is bad op by op afterwards.
MODULES = "modules"
#: Every op, without its values.
RECORDS = "op records"
#: Every op and every value.
FULL = "everything"


class CaptureLevel:
    """Looks at one run; this one at nothing.

    Attributes:
        guarded: methods that are called while the program runs: what they raise never gets there.
        dump: what was seen, for levels that fill one while they look; ``None``: nothing.
        watch: what was asked for.
        level: how closely it looks.
        kind: of the run.
        names_late: the names of what the run gets are asked for at its end, if at all.
        is_large: the values have not fitted in memory.
        is_bare: it has seen no module called, though it looks for them.
        is_regular: nothing out of the ordinary was done that took time.
        refusal: why a bad part could not be done once more; empty: it could, or none was bad.
        seconds: how long the run has taken.
        since: when it began to look ahead; 0: it didn't.
        seconds_before: how long it has looked ahead.
    """

    guarded: Sequence[str] = ["start", "enter_phase", "leave_phase"]
    level = ""
    names_late = False
    is_bare = False

    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        self.kind = ""
        self.dump: MemoryDump | None = None
        self.is_large = False
        self.is_regular = True
        self.refusal = ""
        self.seconds = self.since = self.seconds_before = 0.0
        self._began = 0.0

    def serves(self, watch: Watch) -> bool:
        """Whether it does for something else that is asked for, which it does from now on."""
        return self.watch == watch

    def start(self) -> None:
        """Look from now on, on this thread."""

    def stop(self) -> None:
        """Look away; `start` may follow."""

    def look_ahead(self) -> None:
        """The run has not begun, and it may take long until it does."""

    def begin_run(self) -> None:
        """The run begins; what was seen before belongs to it only as far as it uses it."""
        self._began = time.perf_counter()
        self.seconds_before = self._began - (self.since or self._began)

    def enter_phase(self, phase: str, owner: Any = None) -> None:
        """A backward pass (of the tensors ``owner``) or a step of an optimizer begins."""

    def leave_phase(self) -> None:
        """It ends."""

    def name_inputs(self, tensors: Callable[[], Mapping[str, Any]]) -> None:
        """What the user calls tensors that the run gets."""

    def name_outputs(self, tensors: Mapping[str, Any]) -> None:
        """What the user calls tensors at the end of the run."""

    def tensor_name(self, tensor: Any) -> str:
        """``node:slot`` of a tensor that the run has made; empty if it hasn't."""
        return ""

    def name_later(self, tensor: Any) -> Callable[[], str]:
        """Gives `tensor_name` of what a tensor is now, when the run is over."""
        name = self.tensor_name(tensor)
        return lambda: name

    def failed_op(self, error: BaseException) -> str:
        """The node that raised an error; empty: none of this run."""
        return ""

    def progress(self) -> str:
        """``in NODE`` or ``after NODE``, asked on another thread; empty: it isn't known."""
        return ""

    def glimpse(self) -> MemoryDump | None:
        """What is known by now of a run that goes on, while nothing is recorded; ``None``: nothing.

        Neither the run nor what comes of it changes by that.
        """
        return None

    def finish(self, error: BaseException | None) -> Capture:
        """What came of the run; the watcher is not used any more."""
        self.seconds = time.perf_counter() - self._began
        return Capture(None, self.dump, error)

    def measured(self) -> tuple[Sequence[MeasuredTensor], Iterable[float]]:
        """Tensors and their largest magnitudes, after `finish`, as far as they cost nothing."""
        return (), ()

    def seen(self) -> MemoryDump | None:
        """The values that were held, after `finish`; ``None``: none were, at this level."""
        return self.dump

    def close(self) -> None:
        """The run was told of: nobody makes a dump of it any more."""

    def discard(self) -> None:
        """Nobody wants to know."""
        self.stop()
