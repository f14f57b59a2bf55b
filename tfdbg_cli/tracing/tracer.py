"""The tracer: what the code in a trace block sees of the run."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import Any, Self

from tfdbg_cli.dumps.dump import RunInfo
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.dumps.run_folder.writer import write_run_folder
from tfdbg_cli.dumps.sources import without_debugger
from tfdbg_cli.engines.base import SteppedRun
from tfdbg_cli.stepping.stepper import Step
from tfdbg_cli.tracing.applied import AppliedBlock
from tfdbg_cli.tracing.code_block import CodeBlock, capture
from tfdbg_cli.tracing.drive import Drive
from tfdbg_cli.tracing.errors import AbsentError, TraceError
from tfdbg_cli.tracing.handles import GivenHandle, Handle, ModuleHandle
from tfdbg_cli.tracing.skip import Skip
from tfdbg_cli.tracing.subjects import BlockSubject, Subject

__all__ = ["Tracer"]


class _StopError(BaseException):
    """Leaves a block after `Tracer.stop`."""


class Tracer:
    """A run and the block of code that reads and changes its values; see `tfdbg_cli.trace`.

    Args:
        subject: what the run is of.
        keep: every value may be read at any time.
    """

    def __init__(self, subject: Subject, keep: bool = False) -> None:
        self._subject = subject
        self._keep = keep
        self._driven: Drive | None = None
        self._skip: Skip | None = None
        self._is_in_block = False
        self._block: CodeBlock | None = None
        self._applied: list[AppliedBlock] = []
        self._applying: AppliedBlock | None = None
        #: Through which the block was entered, to be applied to later runs and to none of its own.
        self._only_applied: AppliedBlock | None = None

    # -- what the block uses

    def __getitem__(self, tensor: Any) -> Handle:
        """A tensor of the run.

        Args:
            tensor: its name, ``node:slot`` or ``node`` for output 0, or the framework's own tensor:
                one of the graph, or a parameter or buffer of the module that is called; or one that
                was read from a module's call (`module`), to have its gradient.
        """
        opened = self._driven.opened if self._driven is not None else None
        if opened is not None and not isinstance(tensor, str):
            with contextlib.suppress(KeyError):
                return GivenHandle(self, opened.name_tensor(tensor), tensor)
        return Handle(self, self._subject.name_of(tensor))

    def module(self, module: Any, call: int | None = None) -> ModuleHandle:
        """A module that the run calls (PyTorch): its ``output`` and its ``input``.

        Args:
            module: its path in the module that is called (``encoder.layers.0``; ``""`` is that
                itself), or the module.
            call: which of its calls, from 0; default: the first. The path may say it as well:
                ``fc-1``, as in the names of ops. Where every statement of the block is part of the
                run, the last call is meant, and by an assignment the next one.
        """
        return ModuleHandle(self, module, call)

    @property
    def result(self) -> Any:
        """What the run returns; in the block, the run goes to its end first.

        Raises:
            TraceError: it was ended by `stop`.
            Exception: what the run itself has raised.
        """
        return self._drive().result()

    def stop(self) -> None:
        """End the run here, and leave the block: nothing more is computed or updated.

        What was updated stays; there is no result. In a run that somebody else has asked for
        (`every`) it only leaves the block. The body of a loop over `runs` goes on after it.
        """
        self._drive().stop()
        if self._is_in_block:
            raise _StopError

    def breakpoint(self) -> None:
        """Open the debugger's screen in the middle of the run; returns when it is left.

        What was overridden there is so for the block and the rest of the run. Steps that were done
        there are done.
        """
        from tfdbg_cli.sessions.director.stepping import breakpoint_in

        drive = self._drive()
        drive.settle()
        _ = drive.step  # a program goes on to its next op, where a person can go on
        breakpoint_in(drive.run, drive.info())
        drive.overridden()

    def save(self, directory: str | os.PathLike[str]) -> None:
        """Write what was computed so far as a run folder; ``tfdbg --dump-dir`` opens it.

        Args:
            directory: a new or empty folder.

        Raises:
            UserError: it isn't empty or can't be written to.
        """
        write_run_folder(self.dump, directory)

    @property
    def dump(self) -> MemoryDump:
        """What was computed so far, as the debugger's commands see it."""
        return self._drive().dump()

    @property
    def names(self) -> Sequence[str]:
        """The nodes of the run in the order in which they are computed.

        Of a PyTorch program those up to now: the rest isn't known before it gets there.
        """
        return self._drive().names

    @property
    def step(self) -> Step | None:
        """What the run does next; ``None`` at its end."""
        return self._drive().step

    def every(self, times: int | None = None) -> AppliedBlock:
        """Apply this block to later runs of the same session or module, whoever asks for them.

        A run that doesn't compute what the block asks for is left alone and isn't counted. In the
        block or after it; or as ``with trace(sess).every(100) as t:``, whose block is
        applied to the next hundred runs and has none of its own. It uses its variables as they are
        then, as long as the function that it stands in is being run.

        Args:
            times: to so many runs; ``None``: until `remove`.

        Returns:
            A handle with ``remove()``; in a ``with`` statement after the block, the end of that
            statement removes it.

        Raises:
            TraceError: ``times`` is no positive whole number.
        """
        if times is not None and (not isinstance(times, int) or times < 1):
            raise TraceError(f"A block can't be applied to {times!r} runs.", "Try: t.every(100)")
        if self._applying is not None:
            return self._applying  # the block says it each time that it is applied
        if self._block is not None and not self._is_in_block:
            self._block.scope.attach(sys._getframe(1), self)
        made = AppliedBlock(self, times)
        self._applied.append(made)
        if self._block is not None:
            made.begin()
        return made

    def remove(self) -> None:
        """Apply the block to no more runs."""
        for applied in self._applied:
            applied.remove()
        self._applied.clear()

    def _drive(self) -> Drive:
        if self._driven is None:
            raise TraceError(
                "The run of this trace has not begun.",
                "Use it in its block: `with tfdbg_cli.trace(...) as t:`.",
            )
        return self._driven

    # -- the block

    def __enter__(self) -> Self:
        return self._enter(sys._getframe(1))

    def _enter(self, frame: FrameType, applied: AppliedBlock | None = None) -> Self:
        """Take the block that a frame is entering, and let it be skipped there."""
        if self._driven is not None or self._block is not None:
            raise TraceError("A trace can be entered only once.", "Make another one.")
        try:
            self._block = capture(frame)
            self._subject.asked = None if self._keep else self._block.asked
            if applied is None and not isinstance(self._subject, BlockSubject):
                self._driven = self._begin(self._subject.start())
        except BaseException as error:
            self._block = None
            error.__traceback__ = without_debugger(error.__traceback__)
            raise
        self._only_applied = applied
        self._is_in_block = True
        self._skip = Skip(frame)
        self._skip.arm()
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> bool:
        skip, self._skip = self._skip, None
        assert skip is not None
        assert self._block is not None
        if not skip.disarm(error):
            # It was run in its place: there is no tracing in a debugger's own commands.
            return self._end_in_place(error)
        try:
            self._block.bind(self)
            if self._only_applied is not None:
                self._block.scope.push()
                self._only_applied.begin()
            elif self._driven is None:
                self._run_program()
            else:
                self._run_block(self._driven)
        except BaseException as raised:
            skip.forget(raised)
            raised.__traceback__ = without_debugger(raised.__traceback__)
            raise
        finally:
            self._is_in_block = False
            if not self._applied and self._only_applied is None:
                self._block.scope.let_go(self)
        return True

    def _end_in_place(self, error: BaseException | None) -> bool:
        self._is_in_block = False
        drive = self._driven
        if drive is None:
            return False
        if error is None:
            drive.close()
        elif not isinstance(error, _StopError):
            drive.give_up(may_finish=isinstance(error, Exception))
        return isinstance(error, _StopError)

    def _begin(self, run: SteppedRun, from_inside: bool = False) -> Drive:
        return Drive(run, self._subject.info, keep=self._keep, from_inside=from_inside)

    def _run_block(self, drive: Drive) -> None:
        """Run the block against a run, and the rest of the run."""
        with self._variables(), _ending(drive):
            self._the_block().run()
        drive.close()

    def _run_program(self) -> None:
        """Run a block whose own code is the run."""
        subject, block = self._subject, self._the_block()
        assert isinstance(subject, BlockSubject)
        found = block.strands()
        is_mixed = all(strand.is_observer for strand in found)
        done = -1

        def program() -> None:
            nonlocal done
            if is_mixed:
                with contextlib.suppress(_StopError):
                    block.run()
                    self._drive().settle(is_end=True)
                return
            for index, strand in enumerate(found):
                if not strand.is_observer:
                    block.run_statement(index)
                    done = index
                    self._drive().program().look()

        def is_done(statement: int) -> bool:
            return done >= statement

        with self._variables():
            drive = self._driven = self._begin(subject.start_program(program, is_mixed), is_mixed)
            with _ending(drive):
                if not is_mixed:
                    for index, strand in enumerate(found):
                        if strand.is_observer:
                            drive.until(functools.partial(is_done, strand.waits_for))
                            block.run_statement(index)
            drive.close()

    @contextlib.contextmanager
    def _variables(self) -> Iterator[None]:
        """Whatever happens, the frame gets what the block has bound."""
        try:
            yield
        finally:
            self._the_block().scope.push()

    def _the_block(self) -> CodeBlock:
        assert self._block is not None
        return self._block

    def _apply(
        self, applied: AppliedBlock, run: SteppedRun, info: Callable[[], RunInfo]
    ) -> AbsentError | None:
        """Run the block against another run, as far as it goes.

        Returns:
            What the run doesn't compute, and was left alone therefore.
        """
        before = self._driven, self._is_in_block
        drive = self._driven = Drive(run, info, keep=self._keep, is_borrowed=True)
        self._applying, self._is_in_block = applied, True
        block = self._the_block()
        block.scope.pull()
        try:
            with self._variables(), _ending(drive):
                block.bind(self)
                block.run()
                drive.settle(is_end=True)
        except AbsentError as error:
            if drive.is_withdrawn:
                return error
            raise
        finally:
            self._applying = None
            self._driven, self._is_in_block = before
        return None


@contextlib.contextmanager
def _ending(drive: Drive) -> Iterator[None]:
    """What becomes of a run if its block doesn't come to its end."""
    try:
        yield
    except _StopError:
        pass
    except BaseException as error:
        if not drive.withdraw(error):
            drive.give_up(may_finish=isinstance(error, Exception))
        raise
