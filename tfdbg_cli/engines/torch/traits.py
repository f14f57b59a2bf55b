"""What is known of this engine without its framework."""

from __future__ import annotations

import re

from tfdbg_cli.common.fields import Field, to_bool, to_function
from tfdbg_cli.common.traits import EngineTraits, OpRoles, meaning

__all__ = ["TRAITS"]

# The file that ``precision --keep`` writes.
_KEEPING = """\
# Modules that stay in float32 under torch.autocast: keep_float32(model) before the training.
import torch

ABOUT = $about
MODULES = $names
# The ops that have to stay, with their lines. keep_float32 doesn't reach those of no module: write
# `with torch.autocast("cuda", enabled=False):` around their line, and `.float()` at their inputs.
OPS = $ops


def keep_float32(model):
    for name, module in model.named_modules():
        if name in MODULES:
            module.forward = _without_autocast(module.float().forward)
    return model


def _without_autocast(forward):
    def in_float32(*args, **kwargs):
        tensors = (each for each in (*args, *kwargs.values()) if isinstance(each, torch.Tensor))
        device = next((each.device.type for each in tensors), "cpu")
        with torch.autocast(device, enabled=False):
            return forward(*map(_widened, args), **{k: _widened(v) for k, v in kwargs.items()})

    return in_float32


def _widened(value):
    is_tensor = isinstance(value, torch.Tensor)
    return value.float() if is_tensor and value.is_floating_point() else value
"""

TRAITS = EngineTraits(
    "torch",
    "PyTorch",
    "torch",
    settings=(
        Field(
            "run_end",
            "",
            to_function,
            "PyTorch: module.function whose return ends a training run; empty: the optimizer step.",
        ),
        Field(
            "compiled",
            "eager",
            str,
            "PyTorch: whether debugged runs execute compiled regions op by op (eager) or "
            "compiled (opaque).",
            ("eager", "opaque"),
        ),
        Field(
            "expand", False, to_bool, "PyTorch: whether fused kernels are split into their parts."
        ),
        Field(
            "keep",
            "reference",
            str,
            "PyTorch: whether values are kept by reference, or cloned at once.",
            ("reference", "clone"),
        ),
    ),
    layers=frozenset(["einops", "functorch"]),
    steps_calls=True,
    has_norms=True,
    op_roles=OpRoles(
        placing=frozenset(
            [
                *("constant_pad_nd", "fill", "fill_", "full", "full_like", "index_fill"),
                *("index_fill_", "masked_fill", "masked_fill_", "new_full", "scalar_tensor"),
                *("scatter", "scatter_", "where"),
            ]
        ),
        choosing=frozenset(["fill_", "masked_fill", "masked_fill_", "where"]),
        replacing=frozenset(["copy_"]),
        lifting=frozenset(["lift", "lift_fresh", "lift_fresh_copy"]),
        buffers=frozenset(["Buffer"]),
        telling=frozenset(["_local_scalar_dense"]),
        weights=frozenset(["Buffer", "Parameter", "State"]),
        batches=frozenset(["Input", "lift", "lift_fresh", "lift_fresh_copy", "set_"]),
        # Some are several ops to autograd: under inference mode they are seen as one.
        meanings=meaning(
            log="log log10 log2",
            log1p="log1p special_log1p",
            xlogy="special_xlogy xlogy",
            xlog1py="special_xlog1py",
            sqrt="sqrt",
            rsqrt="rsqrt",
            asin="arcsin asin",
            acos="acos arccos",
            atanh="arctanh atanh",
            acosh="acosh arccosh",
            erfinv="erfinv special_erfinv",
            logit="logit special_logit",
            gamma="digamma lgamma polygamma special_gammaln",
            sinh="sinh",
            cosh="cosh",
            div="div divide floor_divide true_divide",
            mod="fmod remainder",
            reciprocal="reciprocal",
            pow="float_power pow",
            exp="exp expm1 special_expm1",
            exp2="exp2 special_exp2",
            add="add",
            addcdiv="addcdiv",
            sub="sub subtract",
            mul="mul multiply",
            square="square",
            cast="_to_copy to type_as",
            quantize="quantized_decomposed.quantize_per_channel "
            "quantized_decomposed.quantize_per_tensor",
            linear="addbmm addcmul addmm addmv addr baddbmm bilinear bmm chain_matmul conv1d "
            "conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d convolution cumsum "
            "dot einsum ger inner kron linalg_multi_dot linalg_vecdot linear matmul mm mv outer "
            "tensordot vdot",
            scale="_prelu_kernel abs elu leaky_relu prelu rrelu selu",
            prod="cumprod prod",
            sum="sum",
            max="amax max",
            norm="frobenius_norm linalg_norm linalg_vector_norm norm",
            softmax="_log_softmax _safe_softmax _softmax log_softmax softmax special_log_softmax "
            "special_softmax",
            mean="mean",
            clip="clamp clip clamp_max clamp_min fmax fmin hardtanh maximum minimum",
            relu="relu",
            sigmoid="erf sigmoid",
            tanh="tanh",
            variance="std std_mean var var_mean",
            same="clone",
            sqrt_backward="SqrtBackward0",
            mul_backward="MulBackward0",
            cast_backward="AddBackward0 SubBackward0 ToCopyBackward0",
        ),
        unwritten=re.compile(r"(new_)?empty(_like|_strided|_permuted)?|resize_(as_)?"),
        receiving=frozenset(["c10d.recv_", "c10d.recv_any_source_"]),
        sending=re.compile(r"_?c10d(_functional)?\."),
    ),
    detours=frozenset(["torch.overrides"]),
    spelling={
        "low": "{x}.clamp(min={0})",
        "high": "{x}.clamp(max={0})",
        "between": "{x}.clamp({0}, {1})",
        "add": "{x} + {0}",
        "magnitude": "{x}.abs()",
        "shifted": "{x} - {x}.amax(-1, keepdim=True)",
        "hypot": "torch.hypot({args})",
        "log_softmax": "torch.log_softmax({args})",
        "log_sigmoid": "torch.nn.functional.logsigmoid({args})",
        "logsumexp": "torch.logsumexp({args}, -1)",
        "logaddexp": "torch.logaddexp({args})",
        "expm1": "torch.expm1({args})",
    },
    keeping=_KEEPING,
    keeps_modules=True,
)
