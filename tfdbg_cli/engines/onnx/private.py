"""The names of ONNX Runtime that it promises nobody."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import onnxruntime

from tfdbg_cli.engines.kit.patching.private_names import PrivateNames

__all__ = [
    "ERRORS",
    "NAMES",
    "IOBinding",
    "Session",
    "bound_inputs",
    "bound_outputs",
    "initial_options",
    "model_source",
    "named_values",
]

NAMES = PrivateNames("ONNX Runtime", str(onnxruntime.__version__), ("1.32",))
_COLLECTION = "onnxruntime.capi.onnxruntime_inference_collection"
#: The class that has ``run`` and its kin.
Session: Any = NAMES.require(f"{_COLLECTION}:Session")
IOBinding: Any = NAMES.require(f"{_COLLECTION}:IOBinding")
#: Where the classes of its errors are.
ERRORS = "onnxruntime.capi.onnxruntime_pybind11_state"


def model_source(session: Any) -> str | bytes | None:
    """The path or the bytes that a session was made of; ``None``: it doesn't say."""
    found: str | bytes | None = getattr(session, "_model_bytes", None)
    return found or getattr(session, "_model_path", None)


def initial_options(session: Any) -> Any:
    """The options that the program has given; ``None``: none."""
    return getattr(session, "_sess_options_initial", None)


def bound_inputs(binding: Any) -> Mapping[str, Any]:
    """What is bound as inputs, as far as that is known; ``None``: a bare address."""
    found = dict(getattr(binding, "_bound_inputs", {}))
    found.update(getattr(binding, "_numpy_obj_references", {}))
    return found


def named_values(names: Sequence[str], vector: Any) -> dict[str, Any]:
    """The values of an ``OrtValueVector``, as a program has them, by their names."""
    return {
        str(name): onnxruntime.OrtValue(value) for name, value in zip(names, vector, strict=False)
    }


def bound_outputs(binding: Any) -> Sequence[str]:
    """The names of the outputs, in the order of its values."""
    return list(getattr(binding, "_bound_outputs", {}))
