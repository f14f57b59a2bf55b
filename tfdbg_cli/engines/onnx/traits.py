"""What is known of this engine without its framework."""

from __future__ import annotations

from tfdbg_cli.common.traits import RESULTS, EngineTraits, OpRoles, meaning

__all__ = ["TRAITS"]

TRAITS = EngineTraits(
    "onnx",
    "ONNX Runtime",
    "onnxruntime",
    settings=(RESULTS,),
    layers=frozenset(["onnx"]),
    only_infers=True,
    op_roles=OpRoles(
        placing=frozenset(
            [
                *("Constant", "ConstantOfShape", "Expand", "Pad", "Range", "ScatterElements"),
                *("ScatterND", "Where"),
            ]
        ),
        choosing=frozenset(["Where"]),
        lifting=frozenset(["Initializer"]),
        weights=frozenset(["Initializer"]),
        batches=frozenset(["Input"]),
        meanings=meaning(
            log="Log",
            sqrt="Sqrt",
            asin="Asin",
            acos="Acos",
            atanh="Atanh",
            acosh="Acosh",
            sinh="Sinh",
            cosh="Cosh",
            div="Div",
            mod="Mod",
            reciprocal="Reciprocal",
            pow="Pow",
            exp="Exp",
            add="Add",
            sub="Sub",
            mul="Mul",
            cast="Cast CastLike",
            linear="Conv ConvTranspose CumSum Einsum Gemm MatMul Sum",
            scale="LeakyRelu PRelu Selu",
            prod="ReduceProd",
            sum="ReduceSum",
            max="ReduceMax",
            norm="ReduceL2",
            softmax="LogSoftmax Softmax",
            mean="GlobalAveragePool Mean ReduceMean",
            clip="Clip Max Min",
            relu="Relu",
            sigmoid="Erf HardSigmoid Sigmoid",
            tanh="Tanh",
            quantize="DynamicQuantizeLinear QuantizeLinear",
            same="Expand Flatten Identity Reshape Squeeze Unsqueeze",
        ),
    ),
    # What convert_float_to_float16 of onnxconverter-common and ONNX Runtime's optimizer take.
    keeping='{"about": $about,\n "op_block_list": [],\n "node_block_list": $names}\n',
)
