"""The face of a wrapped session: what it shares with the session below it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Self

from tfdbg_cli.engines.base import SessionAdapter

__all__ = ["SessionSurface"]


class SessionSurface:
    """Stands for a session; everything it doesn't define is forwarded to that session.

    Args:
        sess: the session.
        adapter: how to drive it.
    """

    def __init__(self, sess: Any, adapter: SessionAdapter) -> None:
        self._sess = sess
        self._adapter = adapter
        self._default_contexts: list[Any] = []

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """One run of the session."""
        raise NotImplementedError

    @property
    def graph(self) -> Any:
        """The wrapped session's graph."""
        return self._adapter.framework_graph

    @property
    def graph_def(self) -> Any:
        """The wrapped session's graph_def."""
        return self._sess.graph_def

    @property
    def sess_str(self) -> Any:
        """The wrapped session's target."""
        return self._sess.sess_str

    @property
    def session(self) -> Any:
        """The wrapped session itself."""
        return self._sess

    def run_step_fn(self, step_fn: Callable[..., Any]) -> Any:
        """``run_step_fn`` of the wrapped monitored session; its runs come back through `run`."""
        return step_fn(_StepContext(self))

    @contextmanager
    def as_default(self) -> Iterator[Self]:
        """Make this the default session: ``tensor.eval()`` goes through the debugger."""
        with self._enter_default():
            yield self

    def _enter_default(self) -> Any:
        default = getattr(self._adapter, "default_session", None)
        return default(self) if default is not None else self._sess.as_default()

    def __enter__(self) -> Self:
        # The wrapped session's own with statement (its graph, its closing, the exceptions that a
        # monitored session swallows), and inside it the wrapper as the default session.
        if hasattr(type(self._sess), "__enter__"):
            self._sess.__enter__()
        context = self._enter_default()
        context.__enter__()
        self._default_contexts.append(context)
        return self

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> bool:
        swallowed = False
        try:
            self._default_contexts.pop().__exit__(exc_type, exc_value, traceback)
        finally:
            if hasattr(type(self._sess), "__exit__"):
                swallowed = bool(self._sess.__exit__(exc_type, exc_value, traceback))
            else:
                self.close()
        return swallowed

    def list_devices(self, *args: Any, **kwargs: Any) -> Any:
        """The wrapped session's devices."""
        return self._sess.list_devices(*args, **kwargs)

    def reset(self, *args: Any, **kwargs: Any) -> Any:
        """The wrapped session's ``reset``."""
        return self._sess.reset(*args, **kwargs)

    def close(self) -> None:
        """Close the wrapped session."""
        self._sess.close()

    def should_stop(self) -> bool:
        """Whether a monitored session should stop.

        Raises:
            ValueError: the wrapped session has no such method.
        """
        if not hasattr(self._sess, "should_stop"):
            raise ValueError(
                "The wrapped session does not have a method named 'should_stop'. "
                "Do you intend to wrap a tf.MonitoredSession?"
            )
        return bool(self._sess.should_stop())

    def __getattr__(self, name: str) -> Any:
        if name in ("_sess", "_adapter"):  # not set yet: an error in __init__, not a lookup
            raise AttributeError(name)
        return getattr(self._sess, name)


class _StepContext:
    """What a ``step_fn`` gets: the session and a way to run its hooks."""

    def __init__(self, wrapper: SessionSurface) -> None:
        self._wrapper = wrapper

    @property
    def session(self) -> SessionSurface:
        return self._wrapper

    def run_with_hooks(self, *args: Any, **kwargs: Any) -> Any:
        return self._wrapper.run(*args, **kwargs)

    def request_stop(self) -> None:
        raise StopIteration("step_fn has requested the iterations to stop.")
