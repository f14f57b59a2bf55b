"""Who is stepped through and by whom: a run of the program at a prompt, or a call of a function."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from tfdbg_cli.common.interpreter.program_signals import pass_on
from tfdbg_cli.common.streams import tell_failure
from tfdbg_cli.engines.base import Capture, SteppedRun
from tfdbg_cli.engines.torch.around.process_patches import PROCESS_PATCHES
from tfdbg_cli.engines.torch.stepping.op_gate import GO, EndEvent, OpGate
from tfdbg_cli.engines.torch.stepping.stepper import TorchStepper
from tfdbg_cli.engines.torch.stepping.thread_state import apart
from tfdbg_cli.stepping.coroutine import Coroutine

if TYPE_CHECKING:
    from tfdbg_cli.engines.torch.record.capture_levels import FullLevel
    from tfdbg_cli.engines.torch.record.run_recorder import RunRecorder

__all__ = ["PromptedRun", "away"]


@contextlib.contextmanager
def away(recorder: RunRecorder) -> Iterator[None]:
    """Around a switch from the program to somebody else, whose doings are no part of the run."""
    PROCESS_PATCHES.helpers.own(None)
    try:
        with apart(fresh=True):
            yield
    finally:
        PROCESS_PATCHES.helpers.own(recorder if recorder.is_on else None)


class PromptedRun:
    """A run of the program, which stands still while a person decides what comes next.

    The program is where it always is; whoever steps through it is the one in a strand.

    Args:
        watcher: of the run.
        conduct: steps through it for as long as it likes.
        busy: around what is no part of the program.
    """

    def __init__(
        self,
        watcher: FullLevel,
        conduct: Callable[[SteppedRun], None],
        busy: Callable[[], contextlib.AbstractContextManager[None]],
    ) -> None:
        self._recorder = watcher
        self._busy = busy
        self._strand = Coroutine(lambda: conduct(self._stepper))
        self._passage = OpGate(self._recorder.ops, self._pause)
        self._stepper = TorchStepper(self._recorder, self._passage, self._tell, self._conclude)
        self._recorder.ops.passage = self._passage

    def end(self, error: BaseException | None) -> None:
        """The run is at its end, and nothing is recorded any more."""
        self._pause(EndEvent(None, error))
        for note in self._stepper.notes():
            self._recorder.note(note)
        self._passage.release()

    def _pause(self, event: Any) -> str:
        """The program's side: what it is to do next."""
        strand = self._strand
        if strand.is_done:
            return GO
        if not strand.is_started:
            self._stepper.hear(event)
        try:
            with self._busy(), away(self._recorder):
                command = strand.resume(event)
            if not strand.is_done:
                return str(command)
            self._passage.is_watched = False
            return self._stepper.let_go()
        except Exception as error:
            self._passage.is_watched = False
            pass_on(error)
            tell_failure(error)
        return GO

    def _tell(self, command: str) -> Any:
        """The other side: what has happened to the program."""
        with apart(fresh=True):
            return self._strand.pause(command)

    def _conclude(self, ended: EndEvent, notes: Sequence[str]) -> Capture:
        return Capture(None, self._stepper.dump(), ended.error)
