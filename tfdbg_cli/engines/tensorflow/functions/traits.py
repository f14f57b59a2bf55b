"""What is known of this engine without its framework."""

from __future__ import annotations

import dataclasses

from tfdbg_cli.engines.tensorflow.traits import TRAITS as SESSIONS

__all__ = ["TRAITS"]

TRAITS = dataclasses.replace(
    SESSIONS,
    name="tensorflow2",
    title="TensorFlow 2",
    has_hooks=False,
    steps_calls=True,
    has_debug_ops=False,
    unlisted=frozenset(
        ["Const", "ExpandDims", "Rank", "Reshape", "Shape", "ShapeN", "Size", "Squeeze"]
    ),
)
