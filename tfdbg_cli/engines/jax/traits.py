"""What is known of this engine without its framework."""

from __future__ import annotations

from tfdbg_cli.common.traits import RESULTS, EngineTraits, OpRoles, meaning

__all__ = ["TRAITS"]

TRAITS = EngineTraits(
    "jax",
    "JAX",
    "jax",
    settings=(RESULTS,),
    layers=frozenset(["einops", "equinox", "flax", "haiku", "jaxlib", "keras"]),
    steps_calls=True,
    runs="a call of a function that the program made by jax.jit or jax.grad",
    op_roles=OpRoles(
        placing=frozenset(["pad", "scatter", "select_n", "broadcast_in_dim"]),
        choosing=frozenset(["select_n"]),
        lifting=frozenset(["convert_element_type"]),
        weights=frozenset(["Parameter"]),
        batches=frozenset(["Argument", "Constant"]),
        meanings=meaning(
            log="log log2",
            log1p="log1p",
            sqrt="sqrt",
            rsqrt="rsqrt",
            asin="asin",
            acos="acos",
            atanh="atanh",
            acosh="acosh",
            erfinv="erf_inv",
            gamma="digamma lgamma",
            sinh="sinh",
            cosh="cosh",
            div="div",
            mod="rem",
            pow="integer_pow pow",
            exp="exp expm1",
            exp2="exp2",
            add="add add_any",
            sub="sub",
            mul="mul",
            square="square",
            cast="convert_element_type reduce_precision",
            linear="dot_general conv_general_dilated cumsum",
            scale="abs",
            prod="cumprod reduce_prod",
            sum="reduce_sum",
            max="max reduce_max",
            clip="clamp min",
            sigmoid="erf logistic",
            tanh="tanh",
            same="broadcast_in_dim copy expand_dims pvary reshape sharding_constraint squeeze "
            "stop_gradient",
        ),
    ),
    spelling={
        "low": "{x}.clip({0})",
        "high": "{x}.clip(None, {0})",
        "between": "{x}.clip({0}, {1})",
        "add": "{x} + {0}",
        "magnitude": "abs({x})",
        "shifted": "{x} - {x}.max(-1, keepdims=True)",
        "hypot": "jnp.hypot({args})",
        "log_softmax": "jax.nn.log_softmax({args})",
        "log_sigmoid": "jax.nn.log_sigmoid({args})",
        "logsumexp": "jax.nn.logsumexp({args}, -1)",
        "logaddexp": "jnp.logaddexp({args})",
        "expm1": "jnp.expm1({args})",
    },
)
