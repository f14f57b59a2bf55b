"""The pairs, and by what a planted bug has to be told."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["PAIRS", "Pair"]


class Pair(NamedTuple):
    """Two variants of a program.

    Attributes:
        engine, model: of the program.
        first, second: the variants.
        words: what is different.
        bug: a regex for what has to be told; empty: there is none.
    """

    engine: str
    model: str
    first: str
    second: str
    words: str
    bug: str = ""

    @property
    def name(self) -> str:
        """Of its programs."""
        return f"{self.engine} {self.model} {self.first} {self.second}"


_EQUAL = {
    "torch transformer none": """
        again: the same program again
        sdpa: attention by hand, and as one kernel
        fused: three projections, and one of them all
        scale_first: scores scaled, and queries scaled
        einsum: a product of matrices, and einsum
        softmax_by_hand: softmax, and by exponentials
        norm_by_hand: layer norm, and by hand
        gelu_by_hand: GELU, and by the error function
        loss_by_hand: cross entropy, and by hand
        mean_by_sum: a mean, and a sum divided
        checkpoint: without and with checkpoints
        compile: eager and compiled (aot_eager)
        threads: two threads and one
        bf16: float32 and bfloat16
        float64: float32 and float64
        autocast: float32 and autocast to bfloat16
    """,
    "torch transformer sdpa": "bf16: attention as one kernel, and by hand in bfloat16",
    "torch transformer adam": """
        adam_foreach: Adam by tensor, and for all tensors at once
        adam_fused: Adam, and its fused kernel
        adam_bf16: Adam in float32 and in bfloat16
    """,
    "torch convolutions none": """
        channels_last: a bias before a batch norm, in another memory format
        threads: two threads and one
        pool_module: a mean, and a pooling layer
        inplace: relu, and relu in place
        autocast: float32 and autocast to bfloat16
    """,
    "torch convolutions adam": "adam_channels_last: the same with Adam",
    "torch convolutions eval": "eval_folded: batch norm, and folded into the convolution",
    "torch recurrent none": """
        cell: LSTM, and its cells by hand
        weight_norm: a weight, and its norm and direction
    """,
    "tensorflow keras calm": "calm_bf16: float32 and mixed bfloat16",
    "tensorflow function none": """
        norm_by_hand: moments, and by sums
        einsum: a product of matrices, and einsum
        sigmoid_by_hand: sigmoid, and by exponentials
        mean_by_sum: a mean, and a sum divided
        assign: assign_sub, and assign of a difference
    """,
    "tensorflow session none": "resource: a reference variable, and a resource",
    "jax transformer none": """
        einsum: a product of matrices, and einsum
        softmax_by_hand: softmax, and by exponentials
        norm_by_hand: variance, and by sums
        bf16: an island of bfloat16
        remat: without and with checkpoints
        vmap: a batch, and vmap
        mean_by_sum: a mean, and a sum divided
        update_by_add: w - 0.1 g, and w + (-0.1) g
    """,
    "onnx perceptron none": """
        gemm: MatMul and Add, and Gemm
        gelu_by_hand: Gelu, and by the error function
        norm_by_hand: LayerNormalization, and by hand
        cast: an island of float16
        threads: another number of threads
        qdq: float32 and QDQ
        dynamic: float32 and quantized dynamically
    """,
    "onnx convolutions none": "folded: batch norm, and folded into the convolution",
}
_BUGS = {
    "torch transformer none": r"""
        scale: another scale of scores ~ div.*argument differs: other
        softmax_dim: softmax over the other dimension ~ softmax.*dim
        eps: another eps ~ native_layer_norm.*eps
        gelu: another form of GELU ~ gelu.*approximate
        residual: a residual forgotten ~ only A computes it from .*add
        lr: another learning rate ~ add_.*alpha -0.05 in A, -0.06 in B
        init: a weight initialised otherwise ~ down.1.weight.*at the start
        batch: another batch ~ input/x.*given differently
        smoothing: label smoothing ~ loss|cross_entropy|nll|part at
        sum: a sum for a mean ~ nll_loss_forward.*reduction
        clip: gradients clipped ~ foreach_mul_|mul_
        frozen: one parameter not updated ~ head.bias
        mean_dim: one op more ~ only B from
        momentum: momentum added ~ optimizer
    """,
    "torch transformer momentum_a": "momentum: another momentum ~ mul_|argument differs: other 0.9",
    "torch transformer sdpa": "sdpa_causal: a mask that only one has ~ attention.1.*is_causal",
    "torch transformer fused": "fused_swapped: parts swapped in a fused weight ~ qkv.weight",
    "torch transformer none ": r"""
        fused_swapped: the same beside three projections ~ only A computes it from .*k/addmm
    """,
    "torch transformer adam": r"""
        adamw: Adam and AdamW ~ optimizer
        adam_eps: another eps of Adam ~ add_.*other 1e-08 in A, 0.001 in B
        adam_beta: another beta of Adam ~ optimizer.*argument
    """,
    "torch convolutions none": r"""
        padding: another padding ~ one
        bn_eps: another eps ~ native_batch_norm.*eps
        bn_momentum: another momentum ~ native_batch_norm.*momentum|running
        slope: another slope ~ leaky_relu.*negative_slope
        pool: a maximum for a mean ~ amax|only A computes it from mean
    """,
    "torch convolutions eval": "eval_folded_wrong: folded without the mean ~ one|norm",
    "torch recurrent none": "cell_gates: gates in another order ~ head",
    "tensorflow keras none": r"""
        eps: another epsilon ~ norm/.*given
        dropout: another rate ~ drop
        lr: another learning rate ~ learning_rate|adam
        beta: another beta ~ adam
        logits: probabilities for logits ~ part at
    """,
    "tensorflow function none": r"""
        eps: another epsilon ~ add.*given
        sigmoid: another factor ~ only B from
        sign: an update of the wrong sign ~ AssignSubVariableOp in A, AssignAddVariableOp in B
        overwritten: a variable overwritten ~ AssignSubVariableOp in A, AssignVariableOp in B
    """,
    "tensorflow session none": r"""
        sign: an update of the wrong sign ~ update.*AssignSub in A, AssignAdd in B
    """,
    "tensorflow session resource": r"""
        resource_sign: an update of the wrong sign ~ AssignSubVar.* in A, AssignAddVar.* in B
        resource_rate: another rate ~ mul.*given
    """,
    "jax transformer none": r"""
        eps: another epsilon ~ add.*argument
        scale: another scale ~ div.*argument
        axis: softmax over the other axis ~ reduce_max|axes
        gelu: another form of GELU ~ part at
        rate: another learning rate ~ mul.*argument differs: 0 0.1 in A, 0.2 in B
        sign: an update of the wrong sign ~ sub in A, add in B
        clip: gradients clipped ~ only B from
    """,
    "onnx perceptron none": r"""
        eps: another epsilon ~ LayerNormalization.*epsilon
        alpha: another alpha ~ LeakyRelu.*alpha
        axis: softmax over the other axis ~ Softmax.*axis
        gelu: another form of GELU ~ Gelu.*approximate
        weight: another weight ~ w1.*at the start
        qdq_range: calibrated on other inputs ~ Quantize|Dequantize|part at
    """,
    "onnx convolutions none": "folded_wrong: folded with another epsilon ~ part at",
}


def _pairs(listed: dict[str, str], has_bug: bool) -> list[Pair]:
    made = []
    for name, text in listed.items():
        engine, model, first = name.split()
        for each in filter(str.strip, text.splitlines()):
            second, _, rest = each.strip().partition(": ")
            words, _, bug = rest.partition(" ~ ")
            made.append(Pair(engine, model, first, second, words, bug if has_bug else ""))
    return made


#: All of them.
PAIRS = _pairs(_EQUAL, has_bug=False) + _pairs(_BUGS, has_bug=True)
