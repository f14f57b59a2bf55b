"""What is known of autograd's programs where autograd isn't installed."""

from tfdbg_cli.common.traits import EngineTraits, OpRoles, meaning

# Of a gradient function that isn't made of primitives, `came_back` makes an op: TYPE_vjp, whose
# inputs are what comes back, and then those of the forward op.
TRAITS = EngineTraits(
    "autograd",
    "autograd",
    package="autograd",
    op_roles=OpRoles(
        placing=frozenset({"full", "full_like"}),
        choosing=frozenset({"where", "take"}),
        batches=frozenset({"Input"}),
        meanings=meaning(
            log="log",
            log1p="log1p",
            sqrt="sqrt",
            div="divide true_divide log_vjp",
            sqrt_backward="sqrt_vjp",
            mul_backward="multiply_vjp",
            pow="power",
            exp="exp",
            add="add",
            sub="subtract",
            mul="multiply",
            square="square",
            linear="dot matmul tensordot einsum",
            sum="sum",
            max="max maximum",
            mean="mean",
            same="reshape transpose ravel squeeze",
        ),
    ),
)
