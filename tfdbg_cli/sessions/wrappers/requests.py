"""What a wrapper session is asked and answers at its stops: requests, responses, actions.

The names and fields are those of the original's ``tensorflow/python/debug/wrappers/framework.py``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from tfdbg_cli.dumps.dump import RunError, RunInfo
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.engines.base import Capture, RunAction, Watch

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
    "anchored",
    "check_type",
    "either",
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


class OnRunStartAction(RunAction):
    """What may happen to a run."""

    ALL = (
        RunAction.DEBUG_RUN,
        RunAction.PROFILE_RUN,
        RunAction.NON_DEBUG_RUN,
        RunAction.INVOKE_STEPPER,
    )


class OnRunStartRequest:
    """Given to `BaseDebugWrapperSession.on_run_start`.

    Attributes:
        fetches: as the caller gave them.
        feed_dict: likewise.
        run_options: the caller's options; read-only.
        run_metadata: the caller's metadata object.
        run_call_count: 1 for the first run of the session.
        is_callable_runner: whether the run was asked for through a callable.
        run_info: the same in plain names (new in tfdbg_cli); made when somebody asks for it.
        kind: what kind of run it is, where an engine has several (new in tfdbg_cli).
    """

    def __init__(
        self,
        fetches: Any,
        feed_dict: Any,
        run_options: Any,
        run_metadata: Any,
        run_call_count: int,
        is_callable_runner: bool = False,
        run_info: RunInfo | Callable[[], RunInfo] | None = None,
        kind: str = "run",
    ) -> None:
        self.fetches = fetches
        self.feed_dict = feed_dict
        self.run_options = run_options
        self.run_metadata = run_metadata
        self.run_call_count = run_call_count
        self.is_callable_runner = is_callable_runner
        self.kind = kind
        self._run_info = run_info or RunInfo(call_count=run_call_count)

    @property
    def run_info(self) -> RunInfo:
        """The run in plain names."""
        if callable(self._run_info):
            self._run_info = self._run_info()
        return self._run_info


class OnRunStartResponse:
    """The answer to an `OnRunStartRequest`.

    Attributes:
        action: one of `OnRunStartAction`.
        debug_urls: where dumps go; an empty list keeps them in memory (new in tfdbg_cli).
        debug_ops: name(s) of debug ops.
        node_name_regex_allowlist, op_type_regex_allowlist, tensor_dtype_regex_allowlist: which
            tensors to watch; ``None``: all. As in the original a name has to begin with a match.
        tolerate_debug_op_creation_failures: leave out what can't be watched.

    What else engines can be asked for is in a `Watch`, which stands for all but the action then
    (new in tfdbg_cli).
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
        *,
        watch: Watch | None = None,
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
        self._watch = watch

    def watch(self) -> Watch:
        """The same as the engines take it."""
        if self._watch is not None:
            return self._watch
        ops = (self.debug_ops,) if isinstance(self.debug_ops, str) else tuple(self.debug_ops)
        return Watch(
            anchored(self.node_name_regex_allowlist),
            anchored(self.op_type_regex_allowlist),
            anchored(self.tensor_dtype_regex_allowlist),
            tuple(self.debug_urls),
            ops,
            self.tolerate_debug_op_creation_failures,
        )


_FLAGS = re.compile(r"(?:\(\?[aiLmsux]+\))*")


def anchored(regex: str | None) -> str | None:
    """A regex that ``search`` finds where ``match`` finds the given one."""
    if regex is None:
        return None
    flags = _FLAGS.match(regex)
    start = flags.end() if flags is not None else 0
    return f"{regex[:start]}\\A(?:{regex[start:]})"


class OnRunEndRequest:
    """Given to `BaseDebugWrapperSession.on_run_end`.

    Attributes:
        performed_action: what was done, one of `OnRunStartAction`.
        run_metadata: the engine's record of the run, or ``None``.
        client_graph_def: kept for the original's signature; ``None`` (a graph is made on demand).
        tf_error: the exception of the run, which is raised after `on_run_end` returns.
        error: the same error in plain words (new in tfdbg_cli).
        run_start_response: what `BaseDebugWrapperSession.on_run_start` had answered (new).
        capture: all that the engine has told of the run (new). Whoever takes its dump to disk sets
            that to ``None``, as nothing else holds the tensors.
    """

    def __init__(
        self,
        performed_action: str,
        run_metadata: Any = None,
        client_graph_def: Any = None,
        tf_error: BaseException | None = None,
        error: RunError | None = None,
        run_start_response: OnRunStartResponse | None = None,
        capture: Capture | None = None,
    ) -> None:
        check_type(performed_action, str)
        self.performed_action = performed_action
        self.run_metadata = run_metadata
        self.client_graph_def = client_graph_def
        self.tf_error = tf_error
        self.error = error
        self.run_start_response = run_start_response
        self.capture = capture or Capture(None, None)

    @property
    def dump(self) -> MemoryDump | None:
        """The run's tensors, ``None`` after a non-debug run (new in tfdbg_cli).

        After a run that failed it has no tensors, but the graph.
        """
        return self.capture.dump


class OnRunEndResponse:
    """The answer to an `OnRunEndRequest`; it says nothing."""


class WatchOptions:
    """What a ``watch_fn`` returns: debug ops and which tensors they watch.

    Attributes:
        debug_ops: name(s) of debug ops.
        node_name_regex_allowlist, op_type_regex_allowlist, tensor_dtype_regex_allowlist: a
            tensor is watched if its name, op type and dtype begin with a match; ``None``: all do.
        tolerate_debug_op_creation_failures: leave out what can't be watched.

    The keywords of TensorFlow 1 (``node_name_regex_whitelist`` and so on) are understood too.

    Raises:
        TypeError: a list was given under its old and its new name.
    """

    def __init__(
        self,
        debug_ops: str | Sequence[str] | None = None,
        node_name_regex_allowlist: str | None = None,
        op_type_regex_allowlist: str | None = None,
        tensor_dtype_regex_allowlist: str | None = None,
        tolerate_debug_op_creation_failures: bool = False,
        *,
        node_name_regex_whitelist: str | None = None,
        op_type_regex_whitelist: str | None = None,
        tensor_dtype_regex_whitelist: str | None = None,
    ) -> None:
        self.debug_ops = debug_ops or ["DebugIdentity"]
        nodes, op_types, dtypes = either(
            node_name_regex=(node_name_regex_allowlist, node_name_regex_whitelist),
            op_type_regex=(op_type_regex_allowlist, op_type_regex_whitelist),
            tensor_dtype_regex=(tensor_dtype_regex_allowlist, tensor_dtype_regex_whitelist),
        )
        self.node_name_regex_allowlist = nodes
        self.op_type_regex_allowlist = op_types
        self.tensor_dtype_regex_allowlist = dtypes
        self.tolerate_debug_op_creation_failures = tolerate_debug_op_creation_failures

    def __repr__(self) -> str:
        return (
            f"WatchOptions({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"
        )


def either(**lists: tuple[str | None, str | None]) -> list[str | None]:
    """The values of lists that were given under their new or under their old names.

    Raises:
        TypeError: both were given.
    """
    for name, (new, old) in lists.items():
        if new is not None and old is not None:
            raise TypeError(f"{name}_allowlist was given twice, under its old and its new name.")
    return [old if new is None else new for new, old in lists.values()]
