"""The engine object that the registry loads."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tfdbg_cli.engines.base import SessionEngine, WrapSession
from tfdbg_cli.engines.onnx.traits import TRAITS

if TYPE_CHECKING:
    from tfdbg_cli.engines.onnx.adapter import OnnxAdapter

__all__ = ["ENGINE", "OnnxEngine"]


class OnnxEngine(SessionEngine):
    """Programs that use ONNX Runtime; it is imported by the program, and used from `install` on."""

    name = "onnx"
    modules = ("onnxruntime",)
    traits = TRAITS
    #: Every node is looked at, whatever the settings say.
    is_close = False

    def __init__(self) -> None:
        self._setting: Callable[[str], Any] = lambda name: "auto"

    def configure(self, setting: Callable[[str], Any]) -> None:
        self._setting = setting

    def setting(self, name: str) -> Any:
        """The value of a setting now."""
        if self.is_close and name == "level":
            return "ops"
        return self._setting(name)

    def is_session(self, obj: Any) -> bool:
        """Whether it is an ``onnxruntime.InferenceSession``."""
        onnxruntime = sys.modules.get("onnxruntime")
        kind = getattr(onnxruntime, "InferenceSession", None)
        return isinstance(kind, type) and isinstance(obj, kind)

    def adapt(self, session: Any) -> OnnxAdapter:
        from tfdbg_cli.engines.onnx.adapter import OnnxAdapter

        return OnnxAdapter(session, self.setting)

    def install(self, wrap: WrapSession) -> Callable[[], None]:
        from tfdbg_cli.engines.onnx.install import install

        return install(wrap)


#: What the registry loads.
ENGINE = OnnxEngine()
