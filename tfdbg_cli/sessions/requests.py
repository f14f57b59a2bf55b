"""What a wrapper session is asked and answers at its stops: requests, responses, actions.

The names and fields are those of the original's ``tensorflow/python/debug/wrappers/framework.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tfdbg_cli.dumps.dump import RunError, RunInfo
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.engines.base import Watch

__all__ = [
    "OnRunEndRequest",
    "OnRunEndResponse",
    "OnRunStartAction",
    "OnRunStartRequest",
    "OnRunStartResponse",
    "OnSessionInitAction",
    "OnSessionInitRequest",
    "OnSessionInitResponse",
    "WatchOptions",
    "check_type",
]


def check_type(obj: object, expected: type | tuple[type, ...]) -> None:
    """Raise TypeError unless an object is of the expected type."""
    if not isinstance(obj, expected):
        raise TypeError(f"Expected type {expected}; got type {type(obj)}")


class OnSessionInitAction:
    """What `BaseDebugWrapperSession.on_session_init` may ask for."""

    PROCEED = "proceed"
    REMOTE_INSTR_LOOP = "remote_instr_loop"


class OnSessionInitRequest:
    """Given to `BaseDebugWrapperSession.on_session_init`.

    Attributes:
        session: the session that is being wrapped.
    """

    def __init__(self, sess: Any) -> None:
        self.session = sess


class OnSessionInitResponse:
    """The answer to an `OnSessionInitRequest`.

    Attributes:
        action: one of `OnSessionInitAction`.
    """

    def __init__(self, action: str) -> None:
        check_type(action, str)
        self.action = action


class OnRunStartAction:
    """What may happen to a run."""

    DEBUG_RUN = "debug_run"
    PROFILE_RUN = "profile_run"
    NON_DEBUG_RUN = "non_debug_run"

    ALL = (DEBUG_RUN, PROFILE_RUN, NON_DEBUG_RUN)


class OnRunStartRequest:
    """Given to `BaseDebugWrapperSession.on_run_start`.

    Attributes:
        fetches: as the caller gave them.
        feed_dict: likewise.
        run_options: the caller's options; read-only.
        run_metadata: the caller's metadata object.
        run_call_count: 1 for the first run of the session.
        is_callable_runner: whether the run was asked for through a callable.
        run_info: the same in plain names (new in tfdbg_cli).
    """

    def __init__(
        self,
        fetches: Any,
        feed_dict: Any,
        run_options: Any,
        run_metadata: Any,
        run_call_count: int,
        is_callable_runner: bool = False,
        run_info: RunInfo | None = None,
    ) -> None:
        self.fetches = fetches
        self.feed_dict = feed_dict
        self.run_options = run_options
        self.run_metadata = run_metadata
        self.run_call_count = run_call_count
        self.is_callable_runner = is_callable_runner
        self.run_info = run_info or RunInfo(call_count=run_call_count)


class OnRunStartResponse:
    """The answer to an `OnRunStartRequest`.

    Attributes:
        action: one of `OnRunStartAction`.
        debug_urls: where dumps go; an empty list keeps them in memory (new in tfdbg_cli).
        debug_ops: name(s) of debug ops.
        node_name_regex_allowlist, op_type_regex_allowlist, tensor_dtype_regex_allowlist: which
            tensors to watch; ``None``: all.
        tolerate_debug_op_creation_failures: leave out what can't be watched.
    """

    def __init__(
        self,
        action: str,
        debug_urls: Sequence[str] = (),
        debug_ops: str | Sequence[str] = "DebugIdentity",
        node_name_regex_allowlist: str | None = None,
        op_type_regex_allowlist: str | None = None,
        tensor_dtype_regex_allowlist: str | None = None,
        tolerate_debug_op_creation_failures: bool = False,
    ) -> None:
        check_type(action, str)
        check_type(debug_urls, (list, tuple))
        for url in debug_urls:
            check_type(url, str)
        self.action = action
        self.debug_urls = list(debug_urls)
        self.debug_ops = debug_ops
        self.node_name_regex_allowlist = node_name_regex_allowlist
        self.op_type_regex_allowlist = op_type_regex_allowlist
        self.tensor_dtype_regex_allowlist = tensor_dtype_regex_allowlist
        self.tolerate_debug_op_creation_failures = tolerate_debug_op_creation_failures

    def watch(self) -> Watch:
        """The same as the engines take it."""
        ops = (self.debug_ops,) if isinstance(self.debug_ops, str) else tuple(self.debug_ops)
        return Watch(
            node_name=self.node_name_regex_allowlist,
            op_type=self.op_type_regex_allowlist,
            tensor_dtype=self.tensor_dtype_regex_allowlist,
            debug_urls=tuple(self.debug_urls),
            debug_ops=ops,
            tolerate_failures=self.tolerate_debug_op_creation_failures,
        )


class OnRunEndRequest:
    """Given to `BaseDebugWrapperSession.on_run_end`.

    Attributes:
        performed_action: what was done, one of `OnRunStartAction`.
        run_metadata: the engine's record of the run, or ``None``.
        client_graph_def: kept for the original's signature; ``None`` (a graph is made on demand).
        tf_error: the exception of the run, which is raised after `on_run_end` returns.
        dump: the run's tensors, ``None`` after a non-debug run (new in tfdbg_cli).
        error: the same error in plain words (new in tfdbg_cli).
    """

    def __init__(
        self,
        performed_action: str,
        run_metadata: Any = None,
        client_graph_def: Any = None,
        tf_error: BaseException | None = None,
        dump: MemoryDump | None = None,
        error: RunError | None = None,
    ) -> None:
        check_type(performed_action, str)
        self.performed_action = performed_action
        self.run_metadata = run_metadata
        self.client_graph_def = client_graph_def
        self.tf_error = tf_error
        self.dump = dump
        self.error = error


class OnRunEndResponse:
    """The answer to an `OnRunEndRequest`; it says nothing."""


class WatchOptions:
    """What a ``watch_fn`` returns: debug ops and which tensors they watch."""

    def __init__(
        self,
        debug_ops: Sequence[str] | None = None,
        node_name_regex_allowlist: str | None = None,
        op_type_regex_allowlist: str | None = None,
        tensor_dtype_regex_allowlist: str | None = None,
        tolerate_debug_op_creation_failures: bool = False,
    ) -> None:
        self.debug_ops = list(debug_ops) if debug_ops else ["DebugIdentity"]
        self.node_name_regex_allowlist = node_name_regex_allowlist
        self.op_type_regex_allowlist = op_type_regex_allowlist
        self.tensor_dtype_regex_allowlist = tensor_dtype_regex_allowlist
        self.tolerate_debug_op_creation_failures = tolerate_debug_op_creation_failures

    def __repr__(self) -> str:
        return (
            f"WatchOptions(debug_ops={self.debug_ops}, "
            f"node_name_regex_allowlist={self.node_name_regex_allowlist}, "
            f"op_type_regex_allowlist={self.op_type_regex_allowlist}, "
            f"tensor_dtype_regex_allowlist={self.tensor_dtype_regex_allowlist}, "
            "tolerate_debug_op_creation_failures="
            f"{self.tolerate_debug_op_creation_failures})"
        )
