"""What is known of this engine without its framework."""

from __future__ import annotations

import dataclasses

from tfdbg_cli.engines.tensorflow.shared.traits import COMMON

__all__ = ["TRAITS"]

# The file that ``precision --keep`` writes, for Keras 3.
_KEEPING = """\
# Layers that stay in float32 under mixed precision, which begins before the model is made:
#   keras.mixed_precision.set_global_policy("mixed_float16")
#   model = keras.models.clone_model(model, clone_function=keep_float32)
ABOUT = $about
LAYERS = $names
# The ops that have to stay, with their lines. keep_float32 doesn't reach those of no layer: cast
# their inputs to float32 at their line.
OPS = $ops


def keep_float32(layer):
    config = layer.get_config()
    if layer.name in LAYERS:
        config["dtype"] = "float32"
    return type(layer).from_config(config)
"""

TRAITS = dataclasses.replace(
    COMMON,
    name="tensorflow2",
    title="TensorFlow 2",
    steps_calls=True,
    keeping=_KEEPING,
    keeps_modules=True,
    unlisted=frozenset(["ExpandDims", "Reshape", "Squeeze", "StridedSlice"]),
    constants=frozenset(["Const", "Rank", "Shape", "ShapeN", "Size"]),
)
