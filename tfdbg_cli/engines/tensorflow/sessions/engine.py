"""The engine object that the registry loads."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from tfdbg_cli.common.errors import UserError
from tfdbg_cli.engines.base import SessionAdapter, SessionEngine, WrapSession
from tfdbg_cli.engines.tensorflow.sessions.traits import TRAITS

__all__ = ["ENGINE", "TensorFlowEngine"]

_SESSION = "tensorflow.python.client.session"


def _is_monitored(obj: object) -> bool:
    """Whether an object is a monitored session of a TensorFlow that can be debugged."""
    try:
        from tfdbg_cli.engines.tensorflow.shared.private import monitored_class
    except UserError:
        return False
    kind = monitored_class()
    return kind is not None and isinstance(obj, kind)


class TensorFlowEngine(SessionEngine):
    """Sessions of ``tf.compat.v1``; TensorFlow is imported by the first method that needs it."""

    name = "tensorflow"
    modules = (_SESSION,)
    traits = TRAITS

    def __init__(self) -> None:
        self._setting: Callable[[str], Any] = {"exact": False}.get

    def configure(self, setting: Callable[[str], Any]) -> None:
        """Use these settings from now on."""
        self._setting = setting

    def _is_exact(self) -> bool:
        return bool(self._setting("exact"))

    def is_session(self, obj: Any) -> bool:
        """Whether it is a ``Session``, an ``InteractiveSession`` or a monitored session."""
        module = sys.modules.get(_SESSION)  # which may not be imported yet
        kind = getattr(module, "BaseSession", None)
        return kind is not None and (isinstance(obj, kind) or _is_monitored(obj))

    def adapt(self, session: Any) -> SessionAdapter:
        from tfdbg_cli.engines.tensorflow.sessions.adapter import TensorFlowAdapter
        from tfdbg_cli.engines.tensorflow.sessions.monitored import MonitoredAdapter

        if _is_monitored(session):
            return MonitoredAdapter(session)
        return TensorFlowAdapter(session, self._is_exact)

    def session_interface(self) -> type:
        """``SessionInterface``, which savers and queue runners ask for."""
        from tensorflow.python.client.session import SessionInterface

        return SessionInterface  # type: ignore[no-any-return]

    def hook_interface(self) -> type:
        """``SessionRunHook``."""
        from tensorflow.python.training.session_run_hook import SessionRunHook

        return SessionRunHook  # type: ignore[no-any-return]

    def install(self, wrap: WrapSession) -> Callable[[], None]:
        """Debug the runs of every session of the process; returns the way back."""
        from tfdbg_cli.engines.tensorflow.sessions.install import install

        return install(wrap)


#: What the registry loads.
ENGINE = TensorFlowEngine()
