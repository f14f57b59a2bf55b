"""A terminal debugger for tensors.

Around an unmodified script: ``python -m tfdbg_cli script.py``. By hand, a drop-in for
``from tensorflow.python import debug as tf_debug``::

    import tfdbg_cli as tf_debug

    sess = tf_debug.LocalCLIDebugWrapperSession(sess)
    sess.add_tensor_filter("big", lambda datum, tensor: abs(tensor).max() > 1e6)

The public names are resolved on first use: importing the package imports no UI and no framework.
"""

from __future__ import annotations

from tfdbg_cli.front import start  # noqa: F401 (before anything else is imported)

# isort: split
import importlib
from typing import TYPE_CHECKING, Any

from tfdbg_cli.common.version import __version__

if TYPE_CHECKING:
    from tfdbg_cli.dumps.tfdbg_dir.debug_dump_dir import (
        DebugTensorDatum,
        InconvertibleTensorProto,
        load_tensor_from_event,
        load_tensor_from_event_file,
    )
    from tfdbg_cli.dumps.tfdbg_dir.reconstruct import reconstruct_non_debug_graph_def
    from tfdbg_cli.engines.tensorflow.debug_data import DebugDumpDir
    from tfdbg_cli.engines.tensorflow.gradients import (
        GradientsDebugger,
        clear_gradient_debuggers,
        gradient_values_from_dump,
    )
    from tfdbg_cli.filters.builtin import has_inf_or_nan
    from tfdbg_cli.front.control import (
        disable,
        enable,
        listen,
        listen_for_signal,
        run,
        set_trace,
        wrap,
    )
    from tfdbg_cli.sessions.compat.node_stepper import NodeStepper
    from tfdbg_cli.sessions.compat.watch_options import (
        add_debug_tensor_watch,
        watch_graph,
        watch_graph_with_blacklists,
        watch_graph_with_denylists,
    )
    from tfdbg_cli.sessions.wrappers.dumping import (
        DumpingDebugWrapperSession,
        NonInteractiveDebugWrapperSession,
    )
    from tfdbg_cli.sessions.wrappers.framework import (
        BaseDebugWrapperSession,
        OnInstrEndRequest,
        OnInstrEndResponse,
        OnInstrStartAction,
        OnInstrStartRequest,
        OnInstrStartResponse,
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
    from tfdbg_cli.sessions.wrappers.grpc_wrapper import GrpcDebugWrapperSession
    from tfdbg_cli.sessions.wrappers.hooks import DumpingDebugHook, GrpcDebugHook, LocalCLIDebugHook
    from tfdbg_cli.sessions.wrappers.local_cli import LocalCLIDebugWrapperSession
    from tfdbg_cli.tracing.api import runs, trace
    from tfdbg_cli.tracing.errors import OutOfOrderError, WithBlockNotFoundError
    from tfdbg_cli.tracing.tracer import Tracer

_HOMES = {
    "tfdbg_cli.front.control": (
        "disable",
        "enable",
        "listen",
        "listen_for_signal",
        "run",
        "set_trace",
        "wrap",
    ),
    "tfdbg_cli.front.notebook": ("load_ipython_extension", "unload_ipython_extension"),
    "tfdbg_cli.dumps.tfdbg_dir.debug_dump_dir": (
        "DebugTensorDatum",
        "InconvertibleTensorProto",
        "load_tensor_from_event",
        "load_tensor_from_event_file",
    ),
    "tfdbg_cli.dumps.tfdbg_dir.reconstruct": ("reconstruct_non_debug_graph_def",),
    "tfdbg_cli.engines.tensorflow.debug_data": ("DebugDumpDir",),
    "tfdbg_cli.engines.tensorflow.gradients": (
        "GradientsDebugger",
        "clear_gradient_debuggers",
        "gradient_values_from_dump",
    ),
    "tfdbg_cli.filters.builtin": ("has_inf_or_nan",),
    "tfdbg_cli.sessions.wrappers.dumping": (
        "DumpingDebugWrapperSession",
        "NonInteractiveDebugWrapperSession",
    ),
    "tfdbg_cli.sessions.wrappers.framework": (
        "BaseDebugWrapperSession",
        "OnInstrEndRequest",
        "OnInstrEndResponse",
        "OnInstrStartAction",
        "OnInstrStartRequest",
        "OnInstrStartResponse",
        "OnRunEndRequest",
        "OnRunEndResponse",
        "OnRunStartAction",
        "OnRunStartRequest",
        "OnRunStartResponse",
        "OnSessionInitAction",
        "OnSessionInitRequest",
        "OnSessionInitResponse",
        "WatchOptions",
    ),
    "tfdbg_cli.sessions.wrappers.grpc_wrapper": ("GrpcDebugWrapperSession",),
    "tfdbg_cli.sessions.wrappers.hooks": ("DumpingDebugHook", "GrpcDebugHook", "LocalCLIDebugHook"),
    "tfdbg_cli.sessions.wrappers.local_cli": ("LocalCLIDebugWrapperSession",),
    "tfdbg_cli.sessions.compat.node_stepper": ("NodeStepper",),
    "tfdbg_cli.sessions.compat.watch_options": (
        "add_debug_tensor_watch",
        "watch_graph",
        "watch_graph_with_blacklists",
        "watch_graph_with_denylists",
    ),
    "tfdbg_cli.tracing.api": ("runs", "trace"),
    "tfdbg_cli.tracing.errors": ("OutOfOrderError", "WithBlockNotFoundError"),
    "tfdbg_cli.tracing.tracer": ("Tracer",),
}
_WHERE = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "BaseDebugWrapperSession",
    "DebugDumpDir",
    "DebugTensorDatum",
    "DumpingDebugHook",
    "DumpingDebugWrapperSession",
    "GradientsDebugger",
    "GrpcDebugHook",
    "GrpcDebugWrapperSession",
    "InconvertibleTensorProto",
    "LocalCLIDebugHook",
    "LocalCLIDebugWrapperSession",
    "NodeStepper",
    "NonInteractiveDebugWrapperSession",
    "OnInstrEndRequest",
    "OnInstrEndResponse",
    "OnInstrStartAction",
    "OnInstrStartRequest",
    "OnInstrStartResponse",
    "OnRunEndRequest",
    "OnRunEndResponse",
    "OnRunStartAction",
    "OnRunStartRequest",
    "OnRunStartResponse",
    "OnSessionInitAction",
    "OnSessionInitRequest",
    "OnSessionInitResponse",
    "OutOfOrderError",
    "Tracer",
    "WatchOptions",
    "WithBlockNotFoundError",
    "__version__",
    "add_debug_tensor_watch",
    "clear_gradient_debuggers",
    "disable",
    "enable",
    "gradient_values_from_dump",
    "has_inf_or_nan",
    "listen",
    "listen_for_signal",
    "load_tensor_from_event",
    "load_tensor_from_event_file",
    "reconstruct_non_debug_graph_def",
    "run",
    "runs",
    "set_trace",
    "trace",
    "watch_graph",
    "watch_graph_with_blacklists",
    "watch_graph_with_denylists",
    "wrap",
]


def __getattr__(name: str) -> Any:
    module = _WHERE.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_WHERE})
