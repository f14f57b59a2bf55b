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

from tfdbg_cli.common.version import __version__ as __version__

# isort: off
if TYPE_CHECKING:
    from tfdbg_cli.dumps.tfdbg_dir.debug_dump_dir import (
        DebugTensorDatum as DebugTensorDatum,
        InconvertibleTensorProto as InconvertibleTensorProto,
        load_tensor_from_event as load_tensor_from_event,
        load_tensor_from_event_file as load_tensor_from_event_file,
    )
    from tfdbg_cli.dumps.tfdbg_dir.reconstruct import (
        reconstruct_non_debug_graph_def as reconstruct_non_debug_graph_def,
    )
    from tfdbg_cli.engines.tensorflow.sessions.debug_data import (
        DebugDumpDir as DebugDumpDir,
    )
    from tfdbg_cli.engines.tensorflow.sessions.gradients import (
        GradientsDebugger as GradientsDebugger,
        clear_gradient_debuggers as clear_gradient_debuggers,
        gradient_values_from_dump as gradient_values_from_dump,
    )
    from tfdbg_cli.filters.builtin import (
        has_inf_or_nan as has_inf_or_nan,
    )
    from tfdbg_cli.front.control import (
        disable as disable,
        enable as enable,
        listen as listen,
        listen_for_signal as listen_for_signal,
        run as run,
        set_trace as set_trace,
        wrap as wrap,
    )
    from tfdbg_cli.front.here import (
        here as here,
    )
    from tfdbg_cli.sessions.wrappers.node_stepper import (
        NodeStepper as NodeStepper,
    )
    from tfdbg_cli.sessions.wrappers.watch_options import (
        add_debug_tensor_watch as add_debug_tensor_watch,
        watch_graph as watch_graph,
        watch_graph_with_blacklists as watch_graph_with_blacklists,
        watch_graph_with_denylists as watch_graph_with_denylists,
    )
    from tfdbg_cli.sessions.wrappers.dumping import (
        DumpingDebugWrapperSession as DumpingDebugWrapperSession,
        NonInteractiveDebugWrapperSession as NonInteractiveDebugWrapperSession,
    )
    from tfdbg_cli.sessions.wrappers.framework import (
        BaseDebugWrapperSession as BaseDebugWrapperSession,
        OnInstrEndRequest as OnInstrEndRequest,
        OnInstrEndResponse as OnInstrEndResponse,
        OnInstrStartAction as OnInstrStartAction,
        OnInstrStartRequest as OnInstrStartRequest,
        OnInstrStartResponse as OnInstrStartResponse,
        OnRunEndRequest as OnRunEndRequest,
        OnRunEndResponse as OnRunEndResponse,
        OnRunStartAction as OnRunStartAction,
        OnRunStartRequest as OnRunStartRequest,
        OnRunStartResponse as OnRunStartResponse,
        OnSessionInitAction as OnSessionInitAction,
        OnSessionInitRequest as OnSessionInitRequest,
        OnSessionInitResponse as OnSessionInitResponse,
        WatchOptions as WatchOptions,
    )
    from tfdbg_cli.sessions.wrappers.grpc_wrapper import (
        GrpcDebugWrapperSession as GrpcDebugWrapperSession,
    )
    from tfdbg_cli.sessions.wrappers.hooks import (
        DumpingDebugHook as DumpingDebugHook,
        GrpcDebugHook as GrpcDebugHook,
        LocalCLIDebugHook as LocalCLIDebugHook,
    )
    from tfdbg_cli.sessions.wrappers.local_cli import (
        LocalCLIDebugWrapperSession as LocalCLIDebugWrapperSession,
    )
    from tfdbg_cli.tracing.api import (
        runs as runs,
        trace as trace,
    )
    from tfdbg_cli.tracing.errors import (
        OutOfOrderError as OutOfOrderError,
        WithBlockNotFoundError as WithBlockNotFoundError,
    )
    from tfdbg_cli.tracing.tracer import (
        Tracer as Tracer,
    )

# isort: on

#: Where the public names are; type checkers read the imports above.
_HOMES = {
    "tfdbg_cli.front.control": "disable enable listen listen_for_signal run set_trace wrap",
    "tfdbg_cli.front.here": "here",
    "tfdbg_cli.front.notebook": "load_ipython_extension unload_ipython_extension",
    "tfdbg_cli.dumps.tfdbg_dir.debug_dump_dir": (
        "DebugTensorDatum InconvertibleTensorProto load_tensor_from_event "
        "load_tensor_from_event_file"
    ),
    "tfdbg_cli.dumps.tfdbg_dir.reconstruct": "reconstruct_non_debug_graph_def",
    "tfdbg_cli.engines.tensorflow.sessions.debug_data": "DebugDumpDir",
    "tfdbg_cli.engines.tensorflow.sessions.gradients": (
        "GradientsDebugger clear_gradient_debuggers gradient_values_from_dump"
    ),
    "tfdbg_cli.filters.builtin": "has_inf_or_nan",
    "tfdbg_cli.sessions.wrappers.dumping": (
        "DumpingDebugWrapperSession NonInteractiveDebugWrapperSession"
    ),
    "tfdbg_cli.sessions.wrappers.framework": (
        "BaseDebugWrapperSession OnInstrEndRequest OnInstrEndResponse OnInstrStartAction "
        "OnInstrStartRequest OnInstrStartResponse OnRunEndRequest OnRunEndResponse "
        "OnRunStartAction OnRunStartRequest OnRunStartResponse OnSessionInitAction "
        "OnSessionInitRequest OnSessionInitResponse WatchOptions"
    ),
    "tfdbg_cli.sessions.wrappers.grpc_wrapper": "GrpcDebugWrapperSession",
    "tfdbg_cli.sessions.wrappers.hooks": "DumpingDebugHook GrpcDebugHook LocalCLIDebugHook",
    "tfdbg_cli.sessions.wrappers.local_cli": "LocalCLIDebugWrapperSession",
    "tfdbg_cli.sessions.wrappers.node_stepper": "NodeStepper",
    "tfdbg_cli.sessions.wrappers.watch_options": (
        "add_debug_tensor_watch watch_graph watch_graph_with_blacklists watch_graph_with_denylists"
    ),
    "tfdbg_cli.tracing.api": "runs trace",
    "tfdbg_cli.tracing.errors": "OutOfOrderError WithBlockNotFoundError",
    "tfdbg_cli.tracing.tracer": "Tracer",
}
_WHERE = {name: module for module, names in _HOMES.items() for name in names.split()}
# What IPython looks for is not a name for programs.
__all__ = [*(n for n in _WHERE if not n.endswith("_ipython_extension")), "__version__"]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    module = _WHERE.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_WHERE})
