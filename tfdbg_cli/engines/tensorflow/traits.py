"""What is known of this engine without its framework."""

from __future__ import annotations

import re

from tfdbg_cli.common.fields import Field, to_bool
from tfdbg_cli.common.traits import EngineTraits, OpRoles

__all__ = ["TRAITS"]

TRAITS = EngineTraits(
    "tensorflow",
    "TensorFlow",
    "tensorflow",
    settings=(
        Field(
            "exact",
            False,
            to_bool,
            "TensorFlow: whether debugged runs fetch only what can't be computed a second time.",
        ),
    ),
    has_hooks=True,
    files="tfdbg_cli.engines.tensorflow.gfile:files_at",
    op_roles=OpRoles(
        placing=frozenset(
            [
                *("BroadcastTo", "Const", "Fill", "MatrixBandPart", "Pad", "PadV2"),
                *("Select", "SelectV2"),
            ]
        ),
        choosing=frozenset(["Select", "SelectV2"]),
        replacing=frozenset(["Assign"]),
        reading=frozenset(["ReadVariableOp"]),
        unwritten=re.compile("Empty"),
    ),
)
