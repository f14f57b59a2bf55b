"""What is known of the NumPy engine without importing it.

It stands beside the engine's folder: to import anything in there is to use the framework.
"""

from __future__ import annotations

import re

from tfdbg_cli.common.traits import EngineTraits, OpRoles, meaning

__all__ = ["TRAITS"]

TRAITS = EngineTraits(
    "numpy",
    "the NumPy engine",
    has_debug_ops=True,
    op_roles=OpRoles(
        placing=frozenset(
            [
                *("BroadcastTo", "Const", "Fill", "MatrixBandPart", "Pad", "PadV2"),
                *("Select", "SelectV2"),
            ]
        ),
        choosing=frozenset(["Select", "SelectV2"]),
        replacing=frozenset(["Assign"]),
        reading=frozenset(["ReadVariable"]),
        weights=frozenset(["Variable", "VariableV2"]),
        batches=frozenset(["Placeholder"]),
        meanings=meaning(
            log="Log",
            div="FloorDiv RealDiv",
            reciprocal="Reciprocal",
            exp="Exp",
            add="Add AddV2",
            sub="Sub",
            mul="Mul",
            square="Square",
            cast="Cast",
            linear="AddN MatMul",
            sum="Sum",
            softmax="LogSoftmax Softmax",
            mean="Mean",
            same="BroadcastTo Identity Reshape",
        ),
        writing=re.compile("Assign|Apply"),
    ),
    spelling={"add": "{x} + {0}"},
)
