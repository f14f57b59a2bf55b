"""A terminal debugger for tensors.

Around an unmodified script: ``python -m tfdbg_cli script.py``. By hand, a drop-in for
``from tensorflow.python import debug as tf_debug``::

    import tfdbg_cli as tf_debug

    sess = tf_debug.LocalCLIDebugWrapperSession(sess)
    sess.add_tensor_filter("big", lambda datum, tensor: abs(tensor).max() > 1e6)

The public names are resolved on first use: importing the package imports no UI and no framework.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from tfdbg_cli.version import __version__

if TYPE_CHECKING:
    from tfdbg_cli.dumps.directory import (
        DebugDumpDir,
        DebugTensorDatum,
        load_tensor_from_event_file,
    )
    from tfdbg_cli.filters.builtin import has_inf_or_nan
    from tfdbg_cli.sessions.framework import (
        BaseDebugWrapperSession,
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
    from tfdbg_cli.sessions.local_cli import LocalCLIDebugWrapperSession

_HOMES = {
    "tfdbg_cli.dumps.directory": (
        "DebugDumpDir",
        "DebugTensorDatum",
        "load_tensor_from_event_file",
    ),
    "tfdbg_cli.filters.builtin": ("has_inf_or_nan",),
    "tfdbg_cli.sessions.framework": (
        "BaseDebugWrapperSession",
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
    "tfdbg_cli.sessions.local_cli": ("LocalCLIDebugWrapperSession",),
}
_WHERE = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "BaseDebugWrapperSession",
    "DebugDumpDir",
    "DebugTensorDatum",
    "LocalCLIDebugWrapperSession",
    "OnRunEndRequest",
    "OnRunEndResponse",
    "OnRunStartAction",
    "OnRunStartRequest",
    "OnRunStartResponse",
    "OnSessionInitAction",
    "OnSessionInitRequest",
    "OnSessionInitResponse",
    "WatchOptions",
    "__version__",
    "has_inf_or_nan",
    "load_tensor_from_event_file",
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
