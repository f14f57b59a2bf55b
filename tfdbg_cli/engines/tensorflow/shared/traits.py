"""What is known of TensorFlow without TensorFlow, for both of its engines."""

from __future__ import annotations

import re

from tfdbg_cli.common.fields import Field, to_bool
from tfdbg_cli.common.traits import EngineTraits, OpRoles, meaning

__all__ = ["COMMON"]

COMMON = EngineTraits(
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
    layers=frozenset(["keras", "tf_keras", "tf_slim"]),
    files="tfdbg_cli.engines.tensorflow.shared.gfile:files_at",
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
        weights=frozenset(["Variable", "VariableV2", "VarHandleOp"]),
        batches=frozenset(
            [
                *("Fed", "Input", "IteratorGetNext", "Placeholder", "PlaceholderWithDefault"),
                *("QueueDequeueManyV2", "QueueDequeueUpToV2", "QueueDequeueV2", "_Arg"),
                *("GeneratorDataset", "TensorDataset", "TensorSliceDataset"),
            ]
        ),
        meanings=meaning(
            log="Log",
            log1p="Log1p",
            xlogy="Xlogy",
            xlog1py="Xlog1py",
            sqrt="Sqrt",
            rsqrt="Rsqrt",
            asin="Asin",
            acos="Acos",
            atanh="Atanh",
            acosh="Acosh",
            erfinv="Erfinv",
            gamma="Digamma Lgamma",
            sinh="Sinh",
            cosh="Cosh",
            div="Div FloorDiv RealDiv TruncateDiv Xdivy",
            mod="FloorMod Mod TruncateMod",
            reciprocal="Inv Reciprocal",
            pow="Pow",
            exp="Exp Expm1",
            add="Add AddV2 BiasAdd",
            sub="Sub",
            mul="Mul",
            square="Square",
            cast="Cast",
            linear="AddN BatchMatMul BatchMatMulV2 BatchMatMulV3 Conv2D Conv3D Cumsum "
            "DepthwiseConv2dNative Einsum MatMul UnsortedSegmentSum",
            scale="Abs ComplexAbs LeakyRelu Selu",
            prod="Cumprod Prod",
            sum="Sum",
            max="Max",
            norm="EuclideanNorm L2Loss",
            sqrt_grad="SqrtGrad",
            softmax="LogSoftmax Softmax",
            mean="AvgPool Mean",
            clip="ClipByValue Maximum Minimum",
            relu="Relu Relu6",
            sigmoid="Erf Sigmoid",
            tanh="Tanh",
            same="BroadcastTo ExpandDims Identity Reshape Squeeze StopGradient",
        ),
        unwritten=re.compile("Empty"),
        writing=re.compile("(Resource|Sparse)*(Assign|Apply|Scatter)"),
    ),
    spelling={
        "low": "tf.maximum({x}, {0})",
        "high": "tf.minimum({x}, {0})",
        "between": "tf.clip_by_value({x}, {0}, {1})",
        "add": "{x} + {0}",
        "magnitude": "tf.abs({x})",
        "shifted": "{x} - tf.reduce_max({x}, -1, keepdims=True)",
        "log_softmax": "tf.nn.log_softmax({args})",
        "log_sigmoid": "tf.math.log_sigmoid({args})",
        "logsumexp": "tf.reduce_logsumexp({args}, -1)",
        "logaddexp": "tf.reduce_logsumexp(tf.stack([{args}]), 0)",
        "expm1": "tf.math.expm1({args})",
    },
)
