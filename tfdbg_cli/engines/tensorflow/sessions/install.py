"""Doors in TensorFlow's session classes: the user's runs go to the debugger, the rest pass."""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from tensorflow.python.client import session as tf_session

from tfdbg_cli.common.errors import UserError
from tfdbg_cli.common.streams import tell
from tfdbg_cli.engines.base import WrapSession
from tfdbg_cli.engines.kit.patching.patches import PatchSet
from tfdbg_cli.engines.tensorflow.shared import guard
from tfdbg_cli.engines.tensorflow.shared.private import (
    CALLABLE_MADE,
    NAMES,
    RUN_DONE,
    monitored_class,
)
from tfdbg_cli.engines.tensorflow.shared.stacks import keep_code

__all__ = ["install", "open_doors"]

# Runs that these modules ask for are the framework's housekeeping: initializing, saving, feeding
# queues, deleting handles. What a MonitoredSession runs for the user comes through its own door.
_HOUSEKEEPING = (
    "tensorflow.python.checkpoint.",
    "tensorflow.python.client.session",
    "tensorflow.python.debug.",
    "tensorflow.python.framework.convert_to_constants",
    "tensorflow.python.framework.graph_util",
    "tensorflow.python.ops.session_ops",
    "tensorflow.python.saved_model.",
    "tensorflow.python.tools.",
    "tensorflow.python.training.",
    "tensorflow_estimator.",
)
# Keras reads and writes its variables through these.
_KERAS_BACKENDS = frozenset(
    {
        "keras.backend",
        "keras.src.backend",
        "tensorflow.python.keras.backend",
        "tf_keras.src.backend",
    }
)

_lock = threading.RLock()
_wraps: list[WrapSession] = []
_open = 0
_patches = PatchSet(NAMES.framework)
_monitored: type | None = None


def _housekeeping(depth: int) -> bool:
    """Whether the caller of a patched method is the framework itself."""
    name = sys._getframe(depth + 1).f_globals.get("__name__", "")
    return name.startswith(_HOUSEKEEPING) or name in _KERAS_BACKENDS


def install(wrap: WrapSession) -> Callable[[], None]:
    """Debug every session of the process, also those that exist already.

    A ``MonitoredSession`` is debugged at its own ``run``: the user's fetches are the run's, hooks
    are part of the run, and what the session does for itself passes.

    Args:
        wrap: gives the wrapper of a session.

    Returns:
        A function that undoes it; it may be called more than once.

    Raises:
        UserError: this TensorFlow has other sessions; nothing was changed.
    """
    with _lock:
        _open_doors()
        keep_code()
        _wraps.append(wrap)
    NAMES.tell_version()

    def undo() -> None:
        with _lock:
            _wraps.remove(wrap)
            _close_doors()

    undoing = ExitStack()  # closed once more, it does nothing
    undoing.callback(undo)
    return undoing.close


@contextmanager
def open_doors() -> Iterator[None]:
    """The patches are in place within, so that interceptions and ends of runs are seen."""
    with _lock:
        _open_doors()
    try:
        yield
    finally:
        with _lock:
            _close_doors()


def _is_open() -> bool:
    """Whether a run of the user's would be debugged now."""
    return bool(_wraps) and not guard.bypassed()


def _wrapper(session: Any) -> Any:
    """What does a run of the user's; ``None``: let it pass."""
    if guard.bypassed():
        return None
    with _lock:
        wrap = _wraps[-1] if _wraps else None
    return None if wrap is None else wrap(session)


def _open_doors() -> None:
    global _open
    if not _open:
        base = tf_session.BaseSession
        with _patches.together():
            _patches.replace(base, "run", _session_run)
            _patches.replace(base, "make_callable", _make_callable)
            _patches.replace(base, CALLABLE_MADE, _make_callable_from_options)
            _patches.replace(base, "partial_run_setup", _partial_run_setup)
            _patches.replace(base, "partial_run", _partial_run)
            _patches.replace(base, RUN_DONE, _do_run)
    _open += 1
    _patch_monitored()


def _patch_monitored() -> None:
    """Patch the monitored sessions once their module is there.

    A monitored session runs its initialization through a plain session first, so this is in time.
    """
    global _monitored
    owner = monitored_class()
    if owner is not None and owner is not _monitored:
        with _lock:
            if _open and owner is not _monitored:
                _monitored = owner
                try:
                    with _patches.together():
                        _patches.replace(owner, "run", _monitored_run)
                        _patches.replace(owner, "run_step_fn", _run_step_fn)
                except UserError as error:
                    _tell_once(f"runs of monitored sessions go undebugged: {error}")


_tell_once = functools.cache(tell)


def _close_doors() -> None:
    global _open, _monitored
    _open -= 1
    if not _open:
        _patches.undo()  # what somebody has patched on top of stays, and lets all pass
        _monitored = None


def _session_run(original: Callable[..., Any]) -> Callable[..., Any]:
    def run(
        self: Any,
        fetches: Any,
        feed_dict: Any = None,
        options: Any = None,
        run_metadata: Any = None,
    ) -> Any:
        plain: Callable[..., Any] = functools.partial(_apart, original, self)
        waiting = guard.interceptions(self, fetches)
        if waiting:
            for interception in reversed(waiting):
                plain = functools.partial(guard.hand_over, interception, self, plain)
            return plain(fetches, feed_dict, options, run_metadata)
        _patch_monitored()
        wrapper = None if _housekeeping(1) else _wrapper(self)
        if wrapper is None:
            return plain(fetches, feed_dict, options, run_metadata)
        with guard.entered(self, plain):
            return wrapper.run(fetches, feed_dict, options, run_metadata)

    return run


def _apart(original: Callable[..., Any], *arguments: Any) -> Any:
    with guard.aside():
        return original(*arguments)


def _make_callable(original: Callable[..., Any]) -> Callable[..., Any]:
    def make_callable(
        self: Any, fetches: Any, feed_list: Any = None, accept_options: bool = False
    ) -> Any:
        plain = original(self, fetches, feed_list, accept_options)
        if not _is_open() or _housekeeping(1):
            return plain

        @functools.wraps(plain)
        def call(*values: Any, **kwargs: Any) -> Any:
            wrapper = _wrapper(self)
            if wrapper is None or (values and not feed_list) or not kwargs.keys() <= _OPTIONS:
                return plain(*values, **kwargs)
            if kwargs and not accept_options and not feed_list:
                return plain(*values, **kwargs)
            feed_dict = dict(zip(feed_list, values, strict=False)) if feed_list else None
            return wrapper.run(fetches, feed_dict, **kwargs)

        return call

    return make_callable


_OPTIONS = {"options", "run_metadata"}


def _make_callable_from_options(original: Callable[..., Any]) -> Callable[..., Any]:
    def make_callable_from_options(self: Any, callable_options: Any) -> Any:
        plain = original(self, callable_options)
        if not _is_open() or callable_options.tensor_connection:
            return plain
        copied = type(callable_options)()
        copied.CopyFrom(callable_options)

        def call(*values: Any, run_metadata: Any = None) -> Any:
            wrapper = _wrapper(self)
            is_empty = not (copied.fetch or copied.target)
            if wrapper is None or is_empty or len(values) != len(copied.feed):
                return plain(*values, run_metadata=run_metadata)
            return wrapper.run(
                run_metadata=run_metadata, callable_options=copied, callable_runner_args=values
            )

        return call

    return make_callable_from_options


def _partial_run_setup(original: Callable[..., Any]) -> Callable[..., Any]:
    def partial_run_setup(self: Any, fetches: Any, feeds: Any = None) -> Any:
        wrapper = _wrapper(self)
        if wrapper is None:
            return original(self, fetches, feeds)
        with guard.entered(self, functools.partial(original, self), "partial_run_setup"):
            return wrapper.partial_run_setup(fetches, feeds)

    return partial_run_setup


def _partial_run(original: Callable[..., Any]) -> Callable[..., Any]:
    def partial_run(self: Any, handle: Any, fetches: Any, feed_dict: Any = None) -> Any:
        wrapper = _wrapper(self)
        if wrapper is None:
            return original(self, handle, fetches, feed_dict)
        with guard.entered(self, functools.partial(original, self), "partial_run"):
            return wrapper.partial_run(handle, fetches, feed_dict)

    return partial_run


def _do_run(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def _do_run(self: Any, *args: Any, **kwargs: Any) -> Any:
        extras, run = guard.awaited(), functools.partial(original, self)
        for each in extras:
            run = functools.partial(each.run, run, None if len(extras) > 1 else self)
        values = run(*args, **kwargs)
        guard.note_done()
        return values

    return _do_run


def _monitored_run(original: Callable[..., Any]) -> Callable[..., Any]:
    def run(
        self: Any,
        fetches: Any,
        feed_dict: Any = None,
        options: Any = None,
        run_metadata: Any = None,
    ) -> Any:
        return _debugged_run(
            self, functools.partial(original, self), fetches, feed_dict, options, run_metadata
        )

    return run


def _debugged_run(session: Any, plain: Callable[..., Any], *arguments: Any) -> Any:
    """A call of ``run`` of a monitored session, or of the context of one of its steps."""
    wrapper = _wrapper(session)
    if wrapper is None:
        return plain(*arguments)
    with guard.entered(session, plain):
        return wrapper.run(*arguments)


def _run_step_fn(original: Callable[..., Any]) -> Callable[..., Any]:
    def run_step_fn(self: Any, step_fn: Any) -> Any:
        from tensorflow.python.util import function_utils

        known = function_utils.fn_args(step_fn) in (("step_context",), ("self", "step_context"))
        if not _is_open() or not known:
            return original(self, step_fn)

        def debugged(step_context: Any) -> Any:
            plain = step_context.run_with_hooks

            def run_with_hooks(
                fetches: Any,
                feed_dict: Any = None,
                options: Any = None,
                run_metadata: Any = None,
            ) -> Any:
                return _debugged_run(self, plain, fetches, feed_dict, options, run_metadata)

            return step_fn(type(step_context)(step_context.session, run_with_hooks))

        return original(self, debugged)

    return run_step_fn
