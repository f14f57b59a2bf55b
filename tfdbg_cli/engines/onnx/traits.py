"""What is known of this engine without its framework."""

from __future__ import annotations

from tfdbg_cli.common.traits import EngineTraits, OpRoles, meaning

__all__ = ["TRAITS"]

TRAITS = EngineTraits(
    "onnx",
    "ONNX Runtime",
    "onnxruntime",
    op_roles=OpRoles(
        placing=frozenset(
            [
                *("Constant", "ConstantOfShape", "Expand", "Pad", "Range", "ScatterElements"),
                *("ScatterND", "Where"),
            ]
        ),
        choosing=frozenset(["Where"]),
        weights=frozenset(["Initializer"]),
        meanings=meaning(
            log="Log",
            sqrt="Sqrt",
            asin="Asin",
            acos="Acos",
            atanh="Atanh",
            acosh="Acosh",
            div="Div",
            mod="Mod",
            reciprocal="Reciprocal",
            pow="Pow",
            exp="Exp",
            add="Add",
            sub="Sub",
            mul="Mul",
            cast="Cast CastLike",
            linear="Conv ConvTranspose Einsum Gemm MatMul ReduceSum Sum",
            norm="ReduceL2",
            softmax="LogSoftmax Softmax",
            mean="Mean ReduceMean",
        ),
    ),
)
