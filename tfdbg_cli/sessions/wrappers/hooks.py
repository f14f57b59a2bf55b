"""The debugger as hooks of TensorFlow's monitored sessions and estimators."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Self

from tfdbg_cli.common.traits import all_traits
from tfdbg_cli.dumps.dump import Predicate
from tfdbg_cli.engines.base import RunCall
from tfdbg_cli.engines.interface import with_interface
from tfdbg_cli.engines.registry import load
from tfdbg_cli.sessions.debugger.debugger import Debugger
from tfdbg_cli.sessions.wrappers.abilities import AsksForHooks
from tfdbg_cli.sessions.wrappers.dumping import DumpingDebugWrapperSession, WatchFn
from tfdbg_cli.sessions.wrappers.framework import BaseDebugWrapperSession
from tfdbg_cli.sessions.wrappers.grpc_wrapper import GrpcDebugWrapperSession, GrpcReceivers
from tfdbg_cli.sessions.wrappers.local_cli import LocalCLIDebugWrapperSession
from tfdbg_cli.sessions.wrappers.requests import OnRunStartRequest

__all__ = ["DumpingDebugHook", "GrpcDebugHook", "LocalCLIDebugHook"]


class _DebugHook(ABC):
    """Debugs the runs of a monitored session through its hook protocol.

    A hook is asked before a run and told after it, but never of its failure: so the hook does
    the run itself, in the session's place, with the fetches, feeds and options of all hooks. Nor
    is it told of a run after which another hook raises: so the run's end is there, before any
    other hook hears of it.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """An instance that is a ``SessionRunHook`` as well."""
        found = (load(traits.name) for traits in all_traits() if traits.has_hooks)
        asks = next((engine for engine in found if isinstance(engine, AsksForHooks)), None)
        made: Self = object.__new__(with_interface(cls, asks.hook_interface() if asks else None))
        return made

    def __init__(self) -> None:
        self._wrapper: Any = None
        #: By thread: what takes back the wish to do its run.
        self._waiting: dict[int, Callable[[], None]] = {}

    @abstractmethod
    def _wrap(self, session: Any) -> BaseDebugWrapperSession:
        """The wrapper of the session of the first run, or of one that was created anew."""

    def begin(self) -> None:
        """Nothing to do before there is a session."""

    def before_run(self, run_context: Any) -> None:
        """Ask what to do with the run.

        Args:
            run_context: TensorFlow's ``SessionRunContext``.
        """
        self._leave()  # a run that another hook has stopped before it began
        wrapper = self._wrapper_of(run_context.session)
        count = wrapper.increment_run_call_count()
        adapter, asked = wrapper._adapter, run_context.original_args
        if wrapper.is_ignored() or adapter.is_empty(asked.fetches):
            return
        call = adapter.call(asked.fetches, asked.feed_dict, asked.options, None)
        request = OnRunStartRequest(
            asked.fetches,
            asked.feed_dict,
            asked.options,
            None,
            count,
            run_info=wrapper._info(call, count),
        )
        response = wrapper._begin(request)

        def take(call: RunCall) -> Any:
            request.run_info.feeds = call.feeds  # those of the other hooks as well
            action, capture = wrapper._perform(response, call)
            wrapper._end(action, capture, request.run_info, response)
            if capture.error is not None:
                raise capture.error
            return capture.value

        self._waiting[threading.get_ident()] = adapter.next_run(asked.fetches, take)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Nothing to do: the run was told of when it ended."""
        self._leave()

    def end(self, session: Any) -> None:
        """The session is at its end."""
        self._leave()

    def _wrapper_of(self, session: Any) -> Any:
        wrapper = self._wrapper
        if wrapper is None or wrapper.session is not session:
            # After a failure of a worker the monitored session goes on with a new session.
            count = wrapper.run_call_count if wrapper is not None else 0
            self._wrapper = wrapper = self._wrap(session)
            wrapper._run_call_count = count
        return wrapper

    def _leave(self) -> None:
        """The run that this thread was in is no longer waited for."""
        cancel = self._waiting.pop(threading.get_ident(), None)
        if cancel is not None:
            cancel()


class LocalCLIDebugHook(_DebugHook):
    """Stops before and after the runs of a monitored session, and at those that fail.

    Args:
        ui_type: as in `LocalCLIDebugWrapperSession`.
        dump_root: likewise.
        thread_name_filter: only runs on threads whose name begins with a match of this regex stop.
        config_file_path: settings file; default: the user's own.
        debugger: share everything with other sessions.
        log_usage: taken for the original's sake; nothing is logged.
    """

    def __init__(
        self,
        ui_type: str = "auto",
        dump_root: str | None = None,
        thread_name_filter: str | None = None,
        config_file_path: str | None = None,
        *,
        debugger: Debugger | None = None,
        log_usage: bool = True,
    ) -> None:
        super().__init__()
        self._ui_type = ui_type
        self._dump_root = dump_root
        self._thread_filter = thread_name_filter
        self._config_file_path = config_file_path
        self._debugger = debugger
        self._pending_filters: dict[str, Predicate] = {}

    def add_tensor_filter(self, filter_name: str, tensor_filter: Predicate) -> None:
        """Add a filter, also before the first run; see `LocalCLIDebugWrapperSession`."""
        if self._wrapper is not None:
            self._wrapper.add_tensor_filter(filter_name, tensor_filter)
        else:
            self._pending_filters[filter_name] = tensor_filter

    def _wrap(self, session: Any) -> LocalCLIDebugWrapperSession:
        wrapper = LocalCLIDebugWrapperSession(
            session,
            dump_root=self._dump_root,
            ui_type=self._ui_type,
            thread_name_filter=self._thread_filter,
            config_file_path=self._config_file_path,
            debugger=self._debugger,
        )
        self._debugger = wrapper.debugger
        for name, tensor_filter in self._pending_filters.items():
            wrapper.add_tensor_filter(name, tensor_filter)
        self._pending_filters.clear()
        return wrapper


class DumpingDebugHook(_DebugHook):
    """Writes the tensors of each run of a monitored session to a folder.

    Args:
        session_root: as in `DumpingDebugWrapperSession`.
        watch_fn: likewise.
        thread_name_filter: only runs on threads whose name begins with a match of this regex are
            written.
        log_usage: taken for the original's sake; nothing is logged.
    """

    def __init__(
        self,
        session_root: str,
        watch_fn: WatchFn | None = None,
        thread_name_filter: str | None = None,
        log_usage: bool = True,
    ) -> None:
        super().__init__()
        self._session_root = session_root
        self._watch_fn = watch_fn
        self._thread_filter = thread_name_filter

    def _wrap(self, session: Any) -> DumpingDebugWrapperSession:
        before: DumpingDebugWrapperSession | None = self._wrapper
        return DumpingDebugWrapperSession(
            session,
            self._session_root,
            watch_fn=self._watch_fn,
            thread_name_filter=self._thread_filter,
            folders=before.folders if before is not None else None,
        )


class GrpcDebugHook(_DebugHook):
    """Sends the tensors of each run of a monitored session to a debugger in another process.

    Args:
        grpc_debug_server_addresses: as in `GrpcDebugWrapperSession`.
        watch_fn: likewise.
        thread_name_filter: only runs on threads whose name begins with a match of this regex are
            sent.
        log_usage: taken for the original's sake; nothing is logged.

    Raises:
        TypeError: the addresses are neither a ``str`` nor a ``list`` of ``str``.
    """

    def __init__(
        self,
        grpc_debug_server_addresses: str | list[str],
        watch_fn: WatchFn | None = None,
        thread_name_filter: str | None = None,
        log_usage: bool = True,
    ) -> None:
        super().__init__()
        self._receivers = GrpcReceivers(grpc_debug_server_addresses)
        self._watch_fn = watch_fn
        self._thread_filter = thread_name_filter

    def _wrap(self, session: Any) -> GrpcDebugWrapperSession:
        return GrpcDebugWrapperSession(
            session,
            [],
            watch_fn=self._watch_fn,
            thread_name_filter=self._thread_filter,
            receivers=self._receivers,
        )
