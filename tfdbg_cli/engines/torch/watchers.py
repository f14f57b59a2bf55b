"""What is done with the ops of a run that is debugged: the levels at which it may be watched."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tfdbg_cli.engines.base import Capture, Watch
from tfdbg_cli.engines.torch.recorder import Names, Recorder

__all__ = ["FullWatcher", "Watcher"]


class Watcher:
    """Looks at one run; this one at nothing.

    Attributes:
        watch: what was asked for.
    """

    def __init__(self, watch: Watch) -> None:
        self.watch = watch

    def start(self) -> None:
        """Look from now on, on this thread."""

    def stop(self) -> None:
        """Look away; `start` may follow."""

    def begin_run(self) -> None:
        """The run begins; what was seen before belongs to it only as far as it uses it."""

    def enter_module(self, module: Any) -> None:
        """A module is called, by the program or by another module."""

    def leave_module(self, module: Any, output: Any) -> None:
        """The call returns, or (with ``None``) raises."""

    def enter_phase(self, phase: str, owner: Any = None) -> None:
        """A backward pass or an optimizer's step begins."""

    def leave_phase(self) -> None:
        """It ends."""

    def name_inputs(self, tensors: Mapping[str, Any]) -> None:
        """What the user calls tensors that the run gets."""

    def name_outputs(self, tensors: Mapping[str, Any]) -> None:
        """What the user calls tensors at the end of the run."""

    def tensor_name(self, tensor: Any) -> str:
        """``node:slot`` of a tensor that the run has made; empty if it hasn't."""
        return ""

    def failed_op(self, error: BaseException) -> str:
        """The node that raised an error; empty: none of this run."""
        return ""

    def finish(self, error: BaseException | None) -> Capture:
        """What came of the run; the watcher is not used any more."""
        return Capture(None, None, error)

    def discard(self) -> None:
        """Nobody wants to know."""
        self.stop()


class FullWatcher(Watcher):
    """Records every op and holds the values."""

    def __init__(self, watch: Watch, names: Names) -> None:
        super().__init__(watch)
        self.recorder = Recorder(watch, hold=True, limit=watch.limit, names=names)

    def start(self) -> None:
        """Record from now on, on this thread."""
        self.recorder.start()

    def stop(self) -> None:
        """Don't record."""
        self.recorder.stop()

    def begin_run(self) -> None:
        """What was recorded before is kept only as far as the run uses it."""
        self.recorder.begin_run()

    def enter_module(self, module: Any) -> None:
        """Names are under the module from now on."""
        self.recorder.enter_module(module)

    def leave_module(self, module: Any, output: Any) -> None:
        """Names are under the caller again."""
        self.recorder.leave_module(module)

    def enter_phase(self, phase: str, owner: Any = None) -> None:
        """Ops belong to a backward pass or an optimizer from now on."""
        self.recorder.enter_phase(phase, owner)

    def leave_phase(self) -> None:
        """They don't any more."""
        self.recorder.leave_phase()

    def name_inputs(self, tensors: Mapping[str, Any]) -> None:
        """These are ``input/NAME``."""
        self.recorder.name_inputs(tensors)

    def name_outputs(self, tensors: Mapping[str, Any]) -> None:
        """These are told in the nodes' attributes."""
        self.recorder.name_outputs(tensors)

    def tensor_name(self, tensor: Any) -> str:
        """``node:slot``."""
        return self.recorder.tensor_name(tensor)

    def failed_op(self, error: BaseException) -> str:
        """The node that raised an error; it may since have been raised from or within another."""
        failure = self.recorder.failure
        current: BaseException | None = error
        seen = 0
        while failure is not None and current is not None and seen < 20:
            if current is failure.exception:
                return failure.node_name
            current = current.__cause__ or current.__context__
            seen += 1
        return ""

    def finish(self, error: BaseException | None) -> Capture:
        """The dump of the run."""
        self.recorder.stop()
        return Capture(None, self.recorder.dump(), error)
