"""`trace` and `runs`: what a program calls."""

from __future__ import annotations

import dis
import gc
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import FrameType, TracebackType
from typing import Any

from tfdbg_cli.dumps.sources import without_debugger
from tfdbg_cli.tracing.drive import Drive
from tfdbg_cli.tracing.errors import TraceError
from tfdbg_cli.tracing.skip import raise_in
from tfdbg_cli.tracing.subjects import BlockSubject, SessionSubject, Subject, subject_of
from tfdbg_cli.tracing.tracer import Tracer

__all__ = ["runs", "trace"]

# Raised again by one of these, an error leaves no new trace of the frame that it passes.
_RAISING = frozenset({"RAISE_VARARGS", "RERAISE"})


def trace(subject: Any, /, *args: Any, keep: bool = False, **kwargs: Any) -> Tracer:
    """A run with a block of code that reads and changes its values while it is computed.

    ::

        with tfdbg_cli.trace(sess, fetches=train_op, feed_dict=feed) as t:
            p = t["Softmax:0"].value              # waits until the run has computed it
            t["Softmax:0"].value = np.clip(p, 1e-8, 1)    # the rest of the run sees this
            worst = float(p.min())
        print(worst, t.result)

    The block is plain code: it is run where it stands, with the variables that are there, and what
    it binds or deletes is bound or deleted afterwards. Its errors are raised as they are. Then the
    run is taken back as if it had never been; where that can't be done, it gets its end without
    what the block has changed.

    The run goes on as far as the block asks, and to its end after the block. Values have to be
    asked for in the order in which they are computed (`Tracer.names`), unless all are kept. The
    result of a block that changes nothing is that of the plain run, bit for bit. (TensorFlow makes
    the whole run first, and then what the block's changes make different of it.)

    Of PyTorch programs ``t.module("encoder.layers.0")`` gives what a module returns and is called
    with (`Tracer.module`). Only that is watched which the text of the block asks for, as far as it
    tells.

    ``return``, ``yield``, ``await``, and ``break`` and ``continue`` of a loop around the block are
    refused before anything is run. `Tracer.stop` ends the run and the block early.

    Args:
        subject: one of

            - a session of TensorFlow or of the NumPy engine, or a debugger's wrapper of one. The
              other arguments are those of its ``run``. The run goes past the debugger.
            - a function or a PyTorch module, with the arguments that it is called with. The call
              is the run.
            - a PyTorch module without arguments: the code in the block is the run. Statements that
              mention the tracer, and later ones that mention a name that such a statement sets,
              watch; the others run, whichever of them come first. A statement that watches waits
              for earlier ones that set names that it mentions. Where every statement mentions the
              tracer (a loop, for example) they run as they stand: what was computed before a line
              can be read there, and what comes after it can be assigned to. A name without a
              call's number (``fc/addmm``, not ``fc-2/addmm``) then means the last call of its
              module; assigned to once that was used or assigned to, the next call. (An op of the
              outermost module itself has no such number: ``relu``, ``relu_1``.) Such a run has no
              result.
        args, kwargs: see above.
        keep: hold every value, so that they may be read in any order, and after the block.

    Raises:
        TypeError: the subject has no runs, or not with these arguments.
        WithBlockNotFoundError: (at the block) its source isn't known.
        TraceBlockError: (at the block) a statement would leave it; or, where the code in the block
            is the run, a statement that runs sets a name that one above it, which watches, uses.
    """
    return Tracer(subject_of(subject, args, kwargs), keep)


def runs(
    subject: Any, /, *args: Any, times: int | None = None, keep: bool = False, **kwargs: Any
) -> Iterator[Tracer]:
    """Runs one after the other, each with the body of a loop around it.

    ::

        for t in tfdbg_cli.runs(sess, [train_op, loss], feed_dict, times=100):
            if t["loss:0"].value > 10:
                break

    The body is ordinary code, nothing is captured. Each run is finished when the body comes to its
    end or leaves the loop; an error in the body takes its run back, if that can be done, as in
    `trace`. `Tracer.stop` ends the run, and the body goes on. Where the iterator is held in a
    variable, or the loop is a comprehension, the last run is finished when the iterator is let go,
    whatever the reason.

    Args:
        subject, args, kwargs: as in `trace`. To have other values each time, ``feed_dict`` may be a
            function that gives them or an iterable of them; an argument of a function's call may be
            an iterator. The runs end with it.
        times: how many runs at most; ``None``: until the feeds end, or the loop is left.
        keep: as in `trace`.

    Yields:
        The tracer of each run.

    Raises:
        TypeError: as in `trace`.
        TraceError: ``times`` is negative.
    """
    if times is not None and times < 0:
        raise TraceError(f"There are no {times} runs.", "Give times=None for as many as there are.")
    first = subject_of(subject, args, kwargs)
    if isinstance(first, BlockSubject):
        raise TypeError("The runs of a module need the arguments that it is called with.")
    return _runs(subject, args, kwargs, times, keep)


def _runs(
    subject: Any, args: tuple[Any, ...], kwargs: dict[str, Any], times: int | None, keep: bool
) -> Iterator[Tracer]:
    given = _given(subject, args, kwargs)
    count = 0
    while times is None or count < times:
        count += 1
        try:
            made = next(given)
        except StopIteration:
            return
        tracer = Tracer(made, keep)
        drive = tracer._driven = Drive(made.start(), made.info, keep=keep)
        # Not the frame itself, which would be kept alive.
        loop = id(sys._getframe(1)), sys._getframe(1).f_code
        try:
            yield tracer
        except GeneratorExit:
            frame = sys._getframe(1)
            if _is_raising(frame):
                drive.give_up(may_finish=True)
            else:
                _finish_late(drive, frame if (id(frame), frame.f_code) == loop else None)
            raise
        drive.close()


def _finish_late(drive: Drive, loop: FrameType | None) -> None:
    """Finish a run whose iterator is let go: Python only prints what that raises.

    Args:
        drive: of the run.
        loop: the frame that has left the loop, which raises instead; ``None``: it isn't known.
    """
    try:
        drive.close()
    except BaseException as error:
        if loop is None or not raise_in(loop, error):
            raise
        error.__context__ = None  # that the iterator is closed
        error.__traceback__ = without_debugger(error.__traceback__)


def _given(subject: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[Subject]:
    """The subject with the arguments of each run."""
    if not isinstance(subject_of(subject, args, kwargs), SessionSubject):
        values = [_each(value) for value in args]
        named = {name: _each(value) for name, value in kwargs.items()}
        while True:
            try:
                now = [take() for take in values]
                then = {name: take() for name, take in named.items()}
            except StopIteration:
                return
            yield subject_of(subject, now, then)
    feed_dict = kwargs.get("feed_dict", args[1] if len(args) > 1 else None)
    take = _feeds(feed_dict)
    while True:
        try:
            feeds = take()
        except StopIteration:
            return
        if len(args) > 1:
            yield subject_of(subject, (args[0], feeds, *args[2:]), kwargs)
        else:
            yield subject_of(subject, args, {**kwargs, "feed_dict": feeds})


def _feeds(feed_dict: Any) -> Callable[[], Any]:
    if feed_dict is None or isinstance(feed_dict, Mapping):
        return lambda: feed_dict
    if callable(feed_dict):
        return feed_dict  # type: ignore[no-any-return]
    if isinstance(feed_dict, Iterable):
        return iter(feed_dict).__next__
    return lambda: feed_dict


def _each(value: Any) -> Callable[[], Any]:
    return value.__next__ if isinstance(value, Iterator) else lambda: value


def _is_raising(frame: FrameType) -> bool:
    """Whether an error is leaving a loop of a frame.

    The generator can't tell: Python closes it whatever the reason, and shows it no error. But an
    error that passes a frame has a traceback that holds the frame, at its very instruction.
    """
    at = frame.f_lasti
    if dis.opname[frame.f_code.co_code[at]] in _RAISING:
        return True
    return any(
        isinstance(found, TracebackType) and found.tb_frame is frame and found.tb_lasti == at
        for found in gc.get_referrers(frame)
    )
