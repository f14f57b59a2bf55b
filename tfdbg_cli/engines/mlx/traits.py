"""What is known of this engine without its framework."""

from __future__ import annotations

from tfdbg_cli.common.traits import EngineTraits, OpRoles, meaning

__all__ = ["TRAITS"]

# Of the ops that compute a gradient the replay makes one node: TYPE_vjp, whose inputs are what
# comes back, and then those of the forward op.
TRAITS = EngineTraits(
    "mlx",
    "MLX",
    "mlx",
    layers=frozenset(["mlx_lm", "mlx_vlm", "mlx_embeddings"]),
    op_roles=OpRoles(
        placing=frozenset(["full", "full_like", "put_along_axis", "setitem", "where"]),
        choosing=frozenset(["where"]),
        weights=frozenset(["Parameter"]),
        batches=frozenset(["Constant", "Input"]),
        meanings=meaning(
            log="log log2 log10",
            log1p="log1p",
            sqrt="sqrt",
            rsqrt="rsqrt",
            asin="arcsin",
            acos="arccos",
            atanh="arctanh",
            acosh="arccosh",
            erfinv="erfinv",
            sinh="sinh",
            cosh="cosh",
            div="divide log_vjp",
            mod="remainder",
            reciprocal="reciprocal",
            pow="power",
            exp="exp expm1",
            add="add",
            sub="subtract",
            mul="multiply",
            square="square",
            cast="astype",
            linear="""
                matmul addmm inner outer tensordot einsum conv1d conv2d conv3d conv_general cumsum
            """,
            scale="abs",
            prod="cumprod prod",
            sum="sum",
            max="max maximum",
            norm="norm",
            sqrt_backward="sqrt_vjp",
            mul_backward="multiply_vjp",
            softmax="softmax",
            mean="mean",
            variance="var",
            clip="clip minimum",
            sigmoid="sigmoid erf",
            tanh="tanh",
            same="""
                reshape transpose squeeze expand_dims broadcast_to swapaxes moveaxis flatten
                unflatten contiguous stop_gradient getitem
            """,
        ),
    ),
    unlisted=frozenset(["reshape", "transpose", "swapaxes", "moveaxis", "expand_dims", "squeeze"]),
    spelling={
        "low": "mx.maximum({x}, {0})",
        "high": "mx.minimum({x}, {0})",
        "between": "mx.clip({x}, {0}, {1})",
        "add": "{x} + {0}",
        "magnitude": "mx.abs({x})",
        "shifted": "{x} - {x}.max(-1, keepdims=True)",
        "logsumexp": "mx.logsumexp({args}, -1)",
        "logaddexp": "mx.logaddexp({args})",
        "expm1": "mx.expm1({args})",
    },
)
