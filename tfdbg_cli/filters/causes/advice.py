"""What a reason is, and what people do about each kind of them."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["ADVICE", "OF_INFINITIES", "Cause", "advice_in"]


class Cause(NamedTuple):
    """One reason.

    Attributes:
        kind: which of those that docs/why.md explains.
        text: what happened, and at which elements.
        advice: what people do about it.
        forward: the node of the op whose gradient went bad, where it is told by that.
    """

    kind: str
    text: str
    advice: str
    forward: str = ""


#: What people do about each kind of cause.
ADVICE = {
    "log": "Compute the loss from logits, or keep the argument above 0: log(x.clip(1e-7)).",
    "division": "Add a small number to the divisor, or divide only where it isn't 0.",
    "eps": "Use a larger eps (1e-4 in float16), or keep the optimizer's state in float32.",
    "sqrt": "Keep the argument at 0 or above: rounding can make a difference of equals negative.",
    "power": "Use a whole exponent, or keep the base above 0.",
    "exp": "Subtract the largest argument first (logsumexp, softmax), or clip it.",
    "half": "Keep this op in float32, use bfloat16, or make its operands smaller before it.",
    "overflow": "Find what grew: the learning rate, the initial weights, unclipped gradients.",
    "difference": "Mask with a large finite number instead of an infinity, or leave elements out.",
    "product": "Choose with where() instead of multiplying a mask of zeros with infinities.",
    "masked": "Leave at least one element of each row unmasked, or set such rows to 0 afterwards.",
    "gradient": "Add a small number under the root: sqrt(x + 1e-12); where() alone doesn't help.",
    "norm": "Divide by max(norm, 1e-12), as normalize() does with its eps.",
    "nothing": "Skip batches in which nothing is left, or divide by max(count, 1).",
    "one": "Use the biased variant, which divides by n, or batches of two and more.",
    "domain": "Clip the argument to the domain of the function; rounding can overstep its end.",
    "batch": "Look at how it was read or made: a missing value, a division in the preprocessing.",
    "inside": "A module has made it and doesn't return it: start again with config set level ops.",
    "before": "config set level ops: the next run then has the ops before it.",
    "number": "Find where the number comes from: the op combines it with every element.",
    "matrix": "Add a small multiple of the identity, x + 1e-6 * eye(n), or leave such ones out.",
    "determinant": "Use slogdet(x)[1], of the absolute value, or a positive definite matrix.",
    "variance": "Find what has written the variance: no batch has one below 0.",
    "ctc": "Leave such examples out, or use CTCLoss(zero_infinity=True).",
    "memory": "Fill the memory where it is made (zeros), or leave out elements never written.",
    "inputs": "config set level values keeps the inputs of each op.",
    "index": "Look at the labels or token ids, and at the size of what they choose from.",
    "constant": "Normalize over another axis, or look for what has saturated or died before it.",
    "broadcast": "Give both one shape before: x.squeeze(-1), or y[:, None].",
    "stuck": "Use a larger rate, or keep the parameters (a copy for the optimizer) in float32.",
    "unused": "Look for a detach, a factor of 0 or a dead layer before the loss; or freeze it.",
    "weights": "It was bad before this run: start run -f earlier, or see how it is made.",
}

#: Kinds of what is made of infinities that are meant.
OF_INFINITIES = frozenset({"difference", "masked", "product"})

# Where a kind has other advice: in a backward pass, in an optimizer's step, without training, in an
# engine that never trains, in the first run.
_ADVICE_IN = {
    ("half", "backward"): "Scale the loss less (a gradient scaler finds the scale by itself), "
    "or use bfloat16.",
    ("half", "optimizer"): "Keep the optimizer's state in float32, or lower the learning rate.",
    ("log", "inference"): "Keep the argument above 0: log(x.clip(1e-7)).",
    ("overflow", "inference"): "Look at what is large: the inputs, the weights.",
    ("weights", "model"): "The model itself holds it: see how it was trained or exported.",
    ("weights", "first"): "No earlier run was seen: look at how it is made, or loaded.",
}


def advice_in(cause: Cause, *situations: str) -> str:
    """What people do about a cause; the last situation that has advice of its own tells it.

    Args:
        cause: what it says itself holds wherever it isn't its kind's.
        situations: ``backward``, ``optimizer``, ``inference``, ``model``, ``first``.
    """
    if cause.advice != ADVICE.get(cause.kind):
        return cause.advice
    own = (_ADVICE_IN.get((cause.kind, each)) for each in reversed(situations))
    return next(filter(None, own), cause.advice)
