"""Wrapper sessions that ask nobody: every run is debugged, and its tensors go to a folder."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

from tfdbg_cli.common.errors import UserError
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.dumps.tfdbg_dir.writer import write_dump_directory
from tfdbg_cli.sessions.wrappers.debug_ops import DebugOp, apply_debug_ops, parse_debug_op
from tfdbg_cli.sessions.wrappers.framework import BaseDebugWrapperSession
from tfdbg_cli.sessions.wrappers.requests import (
    OnRunEndRequest,
    OnRunEndResponse,
    OnRunStartAction,
    OnRunStartRequest,
    OnRunStartResponse,
    OnSessionInitAction,
    OnSessionInitRequest,
    OnSessionInitResponse,
    WatchOptions,
)
from tfdbg_cli.sessions.wrappers.run_folders import DISK_LIMIT, RunFolders

__all__ = [
    "DumpingDebugWrapperSession",
    "NonInteractiveDebugWrapperSession",
    "WatchFn",
]

#: Given fetches and feeds of a run: what to watch. The tuple is that of the first versions.
WatchFn = Callable[[Any, Any], WatchOptions | tuple[Any, ...]]


class NonInteractiveDebugWrapperSession(BaseDebugWrapperSession):
    """Debugs every run without asking; where the tensors go is left to the subclass.

    Args:
        sess: a session of TensorFlow or of the NumPy engine.
        watch_fn: called before each run with its fetches and feeds, returns `WatchOptions`;
            default: everything is watched.
        thread_name_filter: only runs on threads whose name begins with a match of this regex are
            debugged.
        pass_through_operrors: errors of a run are raised at once.

    Raises:
        TypeError: ``watch_fn`` can't be called, or ``sess`` is not a session.
    """

    def __init__(
        self,
        sess: Any,
        watch_fn: WatchFn | None = None,
        thread_name_filter: str | None = None,
        pass_through_operrors: bool | None = False,
    ) -> None:
        super().__init__(
            sess,
            thread_name_filter=thread_name_filter,
            pass_through_operrors=bool(pass_through_operrors),
        )
        if watch_fn is not None and not callable(watch_fn):
            raise TypeError("watch_fn is not callable")
        self._watch_fn = watch_fn

    @abstractmethod
    def prepare_run_debug_urls(self, fetches: Any, feed_dict: Any) -> str | list[str]:
        """The debug URLs of the run that begins."""

    def on_session_init(self, request: OnSessionInitRequest) -> OnSessionInitResponse:
        """Nothing to decide."""
        return OnSessionInitResponse(OnSessionInitAction.PROCEED)

    def on_run_start(self, request: OnRunStartRequest) -> OnRunStartResponse:
        """Watch what the ``watch_fn`` says, and let the runtime send it to the debug URLs."""
        urls, options = self._prepare_run_watch_config(request.fetches, request.feed_dict)
        return _response(options, [urls] if isinstance(urls, str) else urls)

    def on_run_end(self, request: OnRunEndRequest) -> OnRunEndResponse:
        """Nothing to do."""
        return OnRunEndResponse()

    def _prepare_run_watch_config(
        self, fetches: Any, feed_dict: Any
    ) -> tuple[str | list[str], WatchOptions]:
        return self.prepare_run_debug_urls(fetches, feed_dict), self._watched(fetches, feed_dict)

    def _watched(self, fetches: Any, feed_dict: Any) -> WatchOptions:
        if self._watch_fn is None:
            return WatchOptions()
        found = self._watch_fn(fetches, feed_dict)
        return WatchOptions(*found) if isinstance(found, tuple) else found


def _response(options: WatchOptions, urls: list[str]) -> OnRunStartResponse:
    return OnRunStartResponse(
        OnRunStartAction.DEBUG_RUN,
        urls,
        debug_ops=options.debug_ops,
        node_name_regex_allowlist=options.node_name_regex_allowlist,
        op_type_regex_allowlist=options.op_type_regex_allowlist,
        tensor_dtype_regex_allowlist=options.tensor_dtype_regex_allowlist,
        tolerate_debug_op_creation_failures=options.tolerate_debug_op_creation_failures,
    )


class _DumpingResponse(OnRunStartResponse):
    """A run whose tensors are kept in memory, and written to a folder at its end."""

    folder: str
    ops: list[DebugOp]


class DumpingDebugWrapperSession(NonInteractiveDebugWrapperSession):
    """Writes the tensors of each run to a folder that TensorFlow's tools read.

    Each run gets a folder ``run_<microseconds since the epoch>_<number from 0>``. Nothing of it
    stays in memory, and the runtime builds no executor for it: the tensors are fetched in the run
    and written by the debugger.

    The folders of a session may take ``TFDBG_DISK_BYTES_LIMIT`` bytes (an environment variable;
    100 GiB by default). What is beyond that, and what the disk doesn't take, is left out with a
    word on stderr; the program runs on.

    Args:
        sess: a session of TensorFlow or of the NumPy engine.
        session_root: where the folders are made; must be empty or absent. It may be an address
            (``gs://bucket/runs``) that TensorFlow's ``gfile`` knows, or else fsspec.
        watch_fn: called before each run with its fetches and feeds, returns `WatchOptions`;
            default: everything is watched. Debug ops other than ``DebugIdentity`` are computed of
            the values; one that a tensor's dtype doesn't allow is left out of the dump.
        thread_name_filter: only runs on threads whose name begins with a match of this regex are
            written.
        pass_through_operrors: a run that fails is not written.
        log_usage: taken for the original's sake; nothing is logged.
        folders: share the folder of another session; ``session_root`` isn't looked at then.

    Raises:
        ValueError: ``session_root`` is a file, or a folder that isn't empty.
        TypeError: ``watch_fn`` can't be called, or ``sess`` is not a session.
    """

    def __init__(
        self,
        sess: Any,
        session_root: str,
        watch_fn: WatchFn | None = None,
        thread_name_filter: str | None = None,
        pass_through_operrors: bool | None = None,
        log_usage: bool = True,
        *,
        folders: RunFolders | None = None,
    ) -> None:
        super().__init__(
            sess,
            watch_fn=watch_fn,
            thread_name_filter=thread_name_filter,
            pass_through_operrors=pass_through_operrors,
        )
        self.folders = folders or RunFolders(session_root)

    def prepare_run_debug_urls(self, fetches: Any, feed_dict: Any) -> list[str]:
        """Make the folder of a run, with what it fetches and feeds; its ``file://`` URL.

        Raises:
            UserError: the file system doesn't allow it.
        """
        return [f"file://{self.folders.new(fetches, feed_dict)}"]

    def on_run_start(self, request: OnRunStartRequest) -> OnRunStartResponse:
        """Make the run's folder and keep the run's tensors."""
        options = self._watched(request.fetches, request.feed_dict)
        names = options.debug_ops
        ops = [parse_debug_op(text) for text in ([names] if isinstance(names, str) else names)]
        if self.folders.is_full:
            return OnRunStartResponse(OnRunStartAction.NON_DEBUG_RUN)
        try:
            (url,) = self.prepare_run_debug_urls(request.fetches, request.feed_dict)
        except UserError as error:
            self.folders.report("folder", f"Run #{request.run_call_count} is not dumped: {error}")
            return OnRunStartResponse(OnRunStartAction.NON_DEBUG_RUN)
        plain = _response(options, [])
        response = _DumpingResponse(plain.action)
        response.__dict__.update(plain.__dict__, debug_ops="DebugIdentity")
        response.folder = url.removeprefix("file://")
        response.ops = ops
        return response

    def on_run_end(self, request: OnRunEndRequest) -> OnRunEndResponse:
        """Write the run's tensors."""
        response, dump = request.run_start_response, request.dump
        if isinstance(response, _DumpingResponse) and dump is not None:
            request.capture.dump = None
            self._write(dump, response)
        return OnRunEndResponse()

    def _write(self, dump: MemoryDump, response: _DumpingResponse) -> None:
        whole = all(op.name == "DebugIdentity" for op in response.ops)
        made = dump if whole else apply_debug_ops(dump, response.ops)
        info, folders = dump.run_info(), self.folders
        run = f"run #{info.call_count}" if info is not None else "a run"
        try:
            try:
                problems = write_dump_directory(
                    made, response.folder, is_new=False, allow=folders.allow
                )
            finally:
                folders.written(response.folder)
        except UserError as error:
            folders.report("disk", f"The dump of {run} is not complete: {error}")
            return
        if folders.is_full:
            folders.report(
                "limit",
                f"The dumps in {folders.root} reached the limit of {folders.limit} bytes in {run}: "
                "the rest of it and the runs to come are not dumped. "
                f"Set {DISK_LIMIT} to allow more.",
            )
        elif problems:
            more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
            folders.report("tensor", f"The dump of {run} is not complete: {problems[0]}{more}")
