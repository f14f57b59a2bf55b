"""Why the elements of a tensor are bad, where op, inputs and dtype show it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tfdbg_cli.dumps.dump import Datum
from tfdbg_cli.dumps.graph import Node, node_name_of, parse_tensor_name
from tfdbg_cli.filters.lineage import TensorLineage, floats
from tfdbg_cli.filters.magnitude import largest_number

__all__ = ["ADVICE", "Cause", "cause_of"]

_Array = np.ndarray[Any, Any]

# Values of more elements aren't looked at: the first screen is there at once.
_MOST = 1 << 26
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?|[-+]?inf|nan", re.IGNORECASE)


class Cause(NamedTuple):
    """One reason.

    Attributes:
        kind: which of those that docs/why.md explains.
        text: what happened, and at which elements.
        advice: what people do about it.
    """

    kind: str
    text: str
    advice: str


#: What people do about each kind of cause.
ADVICE = {
    "log": "Compute the loss from logits, or keep the argument above 0: log(x.clip(1e-7)).",
    "division": "Add a small number to the divisor, or divide only where it isn't 0.",
    "sqrt": "Keep the argument at 0 or above: rounding takes a difference of equals below it.",
    "power": "Use a whole exponent, or keep the base above 0.",
    "exp": "Subtract the largest argument first (logsumexp, softmax), or clip it.",
    "half": "Scale the loss (a gradient scaler), keep this op in float32, or use bfloat16.",
    "overflow": "Look at what grew: the learning rate, the initial weights, gradients not clipped.",
    "difference": "Mask with a large finite number instead of an infinity, or leave elements out.",
    "product": "Choose with where() instead of multiplying a mask of zeros with infinities.",
    "masked": "Leave at least one element of each row unmasked, or set such rows to 0 afterwards.",
    "gradient": "Add a small number under the root: sqrt(x + 1e-12); where() alone doesn't help.",
    "norm": "Divide by max(norm, 1e-12), as normalize() does with its eps.",
    "nothing": "Skip batches in which nothing is left, or divide by max(count, 1).",
    "one": "Use the biased variant, which divides by n, or batches of two and more.",
    "domain": "Clip the argument to the domain of the function; rounding leaves it by a last bit.",
    "batch": "Look at how the data is read: a missing value, a division in the preprocessing.",
    "weights": "It was there before this run: run -f from an earlier run on, or a damaged file.",
}


class _Case(NamedTuple):
    """One op whose result is bad.

    Attributes:
        made: the bad elements.
        given: per input its elements where the result is bad; ``None``: they aren't known, and
            were finite.
        dtype: of the result.
        places: the indices of the bad elements, an array for each axis.
    """

    made: _Array
    given: Sequence[_Array | None]
    dtype: str
    places: tuple[_Array, ...]

    def at(self, mask: _Array) -> str:
        """``at [1, 2]``, ``at 3 elements, the first at [1, 2]``."""
        count = int(np.count_nonzero(mask))
        if not self.places:
            return ""
        first = [int(axis[np.argmax(mask)]) for axis in self.places]
        return f" at {first}" if count == 1 else f" at {count} elements, the first at {first}"

    def known(self, *numbers: int) -> bool:
        """Whether inputs are there to be looked at."""
        return all(
            number < len(self.given) and self.given[number] is not None for number in numbers
        )


_Found = Iterator[tuple[str, str, _Array]]


def _positions(lowest: float, name: str, edge: str) -> Callable[[_Case], _Found]:
    """A function with a pole at a number, and nothing below it: ``log``, ``rsqrt``."""

    def find(case: _Case) -> _Found:
        kind = "log" if name == "logarithm" else "division"
        yield kind, f"the {name} of {edge}{{at}}", np.isinf(case.made) & _is(case, 0, lowest)
        below = np.isnan(case.made) & _is(case, 0, below=lowest)
        rest = "a negative number" if not lowest else f"a number below {edge}"
        yield ("log" if kind == "log" else "sqrt"), f"the {name} of {rest}{{at}}", below

    return find


def _is(case: _Case, number: int, value: float | None = None, below: float = np.inf) -> _Array:
    """Where an input is a number, or below one; everywhere, if it isn't known."""
    if not case.known(number):
        return np.ones(case.made.shape, bool)
    given: Any = case.given[number]
    return np.asarray(given == value if value is not None else given < below)


def _roots(case: _Case) -> _Found:
    yield (
        "sqrt",
        "the square root of a negative number{at}",
        np.isnan(case.made) & _is(case, 0, below=0),
    )


def _domain(name: str, low: float, high: float) -> Callable[[_Case], _Found]:
    def find(case: _Case) -> _Found:
        if case.known(0):
            given: Any = case.given[0]
            outside = np.asarray((given < low) | (given > high))
            yield "domain", f"{name} of a number outside of [{low:g}, {high:g}]{{at}}", outside
            ends = np.isinf(case.made) & ~outside
            yield "domain", f"{name} at the end of its domain{{at}}", ends

    return find


def _divisions(case: _Case) -> _Found:
    if not case.known(1):
        yield "division", "0 / 0{at}", np.isnan(case.made)
        return
    divisor = case.given[1]
    assert divisor is not None
    if case.known(0):
        dividend = case.given[0]
        assert dividend is not None
        both = np.isinf(divisor) & np.isinf(dividend)
        yield "difference", "an infinity divided by an infinity{at}", both
        yield "division", "0 / 0{at}", (divisor == 0) & (dividend == 0)
        with np.errstate(all="ignore"):
            exact = dividend.astype(np.float64) / divisor
        large = (divisor != 0) & _beyond(exact, case.dtype) & np.isfinite(divisor)
        yield "overflow", f"a quotient beyond the range of {case.dtype}{{at}}", large
    yield "division", "a division by 0{at}", (divisor == 0) & np.isinf(case.made)


def _remainders(case: _Case) -> _Found:
    yield "division", "a remainder of a division by 0{at}", _is(case, 1, 0)


def _inverses(case: _Case) -> _Found:
    if case.known(0):
        yield "division", "a division by 0{at}", _is(case, 0, 0)
        yield "overflow", f"a quotient beyond the range of {case.dtype}{{at}}", ~_is(case, 0, 0)


def _powers(case: _Case) -> _Found:
    if case.known(0):
        negative = np.isnan(case.made) & _is(case, 0, below=0)
        yield "power", "a power of a negative number whose exponent isn't whole{at}", negative
        if case.known(1):
            zero = _is(case, 0, 0) & _is(case, 1, below=0) & np.isinf(case.made)
            yield "division", "0 to a negative power{at}", zero
            yield from _overflows(case, np.power)
    else:
        text = "a power of a negative number whose exponent isn't whole{at}"
        yield "power", text, np.isnan(case.made)


def _exponentials(case: _Case) -> _Found:
    largest = largest_number(case.dtype)
    if largest is None:
        return
    end = f"exp ends at {np.log(largest):.4g} in {case.dtype}"
    at = np.isinf(case.made)
    if case.known(0):
        at = at & np.isfinite(case.given[0])  # type: ignore[arg-type]
        given = case.given[0][at] if at.any() else None  # type: ignore[index]
        number = f" of {given.max():.5g}" if given is not None else ""
        yield "exp", f"exp{number}{{at}}, and {end}", at
    else:
        yield "exp", f"exp beyond the range{{at}}: {end}", at


def _beyond(exact: _Array, dtype: str) -> _Array:
    largest = largest_number(dtype)
    # Numbers up to half a unit above the largest one are rounded to it.
    return np.isinf(exact) if largest is None else np.abs(exact) > largest


def _overflows(case: _Case, compute: Callable[..., _Array] | None) -> _Found:
    """Infinities out of finite numbers."""
    at = np.isinf(case.made)
    if compute is not None and all(each is not None for each in case.given):
        with np.errstate(all="ignore"):
            wide = [each.astype(np.float64) for each in case.given if each is not None]
            finite = np.logical_and.reduce([np.isfinite(each) for each in wide])
            at = at & finite & _beyond(compute(*wide), case.dtype)
    elif any(each is not None and not np.isfinite(each).all() for each in case.given):
        return
    yield ("half" if case.dtype == "float16" else "overflow"), f"{case.dtype} overflows{{at}}", at


def _sums(sign: int) -> Callable[[_Case], _Found]:
    def find(case: _Case) -> _Found:
        if case.known(0, 1):
            one, other = case.given[0], case.given[1]
            assert one is not None
            assert other is not None
            both = np.isinf(one) & np.isinf(other) & (np.sign(one) == -sign * np.sign(other))
            yield "difference", "an infinity minus an infinity{at}", both
        yield from _overflows(case, np.add if sign > 0 else np.subtract)

    return find


def _products(case: _Case) -> _Found:
    if case.known(0, 1):
        one, other = case.given[0], case.given[1]
        assert one is not None
        assert other is not None
        zero = ((one == 0) & np.isinf(other)) | ((other == 0) & np.isinf(one))
        yield "product", "0 times an infinity{at}", zero
    yield from _overflows(case, np.multiply)


def _linear(case: _Case) -> _Found:
    """Sums of products: of finite numbers they are bad for one reason only."""
    yield from _overflows(case._replace(made=np.full(case.made.shape, np.inf)), None)


def _root_gradients(case: _Case) -> _Found:
    if case.known(0):
        yield "gradient", "the gradient of a square root at 0{at}", _is(case, 0, 0)


_RULES: Mapping[str, Callable[[_Case], _Found]] = {
    "log": _positions(0, "logarithm", "0"),
    "log1p": _positions(-1, "logarithm", "1 + (-1)"),
    "rsqrt": _positions(0, "inverse square root", "0"),
    "sqrt": _roots,
    "asin": _domain("asin", -1, 1),
    "acos": _domain("acos", -1, 1),
    "atanh": _domain("atanh", -1, 1),
    "acosh": _domain("acosh", 1, np.inf),
    "div": _divisions,
    "mod": _remainders,
    "reciprocal": _inverses,
    "pow": _powers,
    "exp": _exponentials,
    "add": _sums(1),
    "sub": _sums(-1),
    "mul": _products,
    "square": lambda case: _overflows(case, np.square),
    "cast": lambda case: _overflows(case, lambda given: given),
    "linear": _linear,
    "norm": _linear,
    "sqrt_grad": _root_gradients,
}
# Whose inputs have the shape of the result, or one that is stretched to it.
_BY_ELEMENT = frozenset(_RULES) - {"linear", "norm"}


def cause_of(lineage: TensorLineage, datum: Datum) -> Cause | None:
    """Why a tensor is bad, as far as that can be shown.

    Args:
        lineage: of the dump.
        datum: a tensor in which something bad began.

    Returns:
        ``None``: nothing is claimed.
    """
    node = lineage.node(datum)
    if node is None or (datum.shape is not None and _count(datum.shape) > _MOST):
        return None
    roles = lineage.roles
    if not node.inputs or node.op_type in roles.reading | roles.batches:
        return _from_outside(datum, node.op_type in roles.reading | roles.weights)
    made = floats(datum)
    if made is None:
        return None
    meaning = roles.meanings.get(node.op_type) or roles.meanings.get(node.op_type.rstrip("_"), "")
    inputs = [_Input(lineage, datum, name) for name in node.inputs]
    if not all(each.is_sure for each in inputs):
        return None
    if meaning in ("softmax", "mean", "variance"):
        return _of_rows(meaning, made, inputs)
    if meaning not in _RULES:
        return None
    if meaning == "div" and _is_root_gradient(lineage, node):
        meaning = "sqrt_grad_by_division"
    return _by_rules(lineage, node, meaning, made, inputs, datum.dtype)


class _Input:
    """A tensor that an op was given.

    Attributes:
        name: of it.
        value: its elements; ``None``: they aren't there.
        is_sure: whether it is known that it was finite, or what was in it.
    """

    def __init__(self, lineage: TensorLineage, reader: Datum, name: str) -> None:
        self.name = name
        given = lineage.as_given(reader, name)
        self.value = floats(given) if given is not None else None
        if given is not None and self.value is None and given.shape is not None:
            self.value = _whole_numbers(given)
        self.is_sure = self.value is not None or lineage.dump.lists_only_bad


def _whole_numbers(datum: Datum) -> _Array | None:
    value = np.asarray(datum.get_tensor())
    return value.astype(np.float64) if value.dtype.kind in "iub" else None


def _from_outside(datum: Datum, is_weight: bool) -> Cause:
    name = datum.tensor_name
    if is_weight:
        return Cause("weights", f"it came in with the weights ({name})", ADVICE["weights"])
    return Cause("batch", f"it came in from outside ({name})", ADVICE["batch"])


def _of_rows(meaning: str, made: _Array, inputs: Sequence[_Input]) -> Cause | None:
    """Of results that are one for many elements."""
    given = inputs[0].value
    if given is None:
        return None
    if meaning == "softmax":
        for axis in reversed(range(made.ndim if given.shape == made.shape else 0)):
            masked = (given == -np.inf).all(axis)
            if masked.any() and np.array_equal(np.isnan(made).all(axis), masked):
                first = [int(each) for each in np.argwhere(masked)[0]]
                text = (
                    f"{int(masked.sum())} row(s) of softmax are -inf as a whole, the first {first}"
                )
                return Cause("masked", text, ADVICE["masked"])
        return None
    if not given.size and np.isnan(made).all():
        return Cause("nothing", "the mean of nothing: no element is left", ADVICE["nothing"])
    if meaning == "variance" and given.size == made.size and np.isnan(made).all():
        text = "the variance of one element: it divides by n - 1, which is 0"
        return Cause("one", text, ADVICE["one"])
    return None


def _is_root_gradient(lineage: TensorLineage, node: Node) -> bool:
    """Whether a division is the one in the gradient of a square root."""
    assert lineage.graph is not None
    forward = lineage.graph.nodes.get(node.attributes.get("_forward_node", ""))
    return forward is not None and lineage.roles.meanings.get(forward.op_type) == "sqrt"


def _by_rules(
    lineage: TensorLineage,
    node: Node,
    meaning: str,
    made: _Array,
    inputs: Sequence[_Input],
    dtype: str,
) -> Cause | None:
    is_gradient = meaning == "sqrt_grad_by_division"
    bad = ~np.isfinite(made)
    places = np.nonzero(bad) if made.ndim else ()
    given: list[_Array | None] = [each.value for each in inputs]
    if meaning in _BY_ELEMENT or is_gradient:
        try:
            given = [None if x is None else np.broadcast_to(x, made.shape)[bad] for x in given]
        except ValueError:
            return None
        given = _with_constants(node, given, int(bad.sum()))
    case = _Case(made[bad], given, dtype, places)
    rule = _divisions if is_gradient else _RULES[meaning]
    found = [(kind, text, mask) for kind, text, mask in rule(case) if mask.any()]
    if not found:
        return None
    found.sort(key=lambda each: -int(np.count_nonzero(each[2])))
    kind, text, mask = found[0]
    others = [each for each in found[1:] if each[0] == kind]
    texts = [text.format(at=case.at(mask)) for _, text, mask in (found[0], *others)]
    text = ", and ".join(texts)
    if is_gradient and kind == "division":
        kind, text = "gradient", f"the gradient of a square root at 0{case.at(mask)}"
    elif kind == "division" and (norm := _norm(lineage, node)):
        kind, text = "norm", f"{text}: it is {norm}, the norm of a zero vector"
    limit = largest_number(dtype)
    if kind in ("half", "overflow") and limit is not None:
        finite = np.abs(made[np.isfinite(made)])
        top = finite.max() if finite.size else _largest_input(case)
        beside = f", the largest finite number beside it {top:.5g}" if top is not None else ""
        text = f"{text}: its limit is {limit:.5g}{beside}"
    return Cause(kind, text, ADVICE[kind])


def _with_constants(node: Node, given: list[_Array | None], count: int) -> list[_Array | None]:
    """With the numbers among an op's arguments, which are no tensors."""
    if len(given) != 1:
        return given
    for name in ("_arg_self", "_arg_other", "_arg_exponent"):
        text = node.attributes.get(name, "")
        if _NUMBER.fullmatch(text):
            constant = np.full(count, float(text))
            return [constant, given[0]] if name == "_arg_self" else [given[0], constant]
    return given


def _norm(lineage: TensorLineage, node: Node) -> str:
    """The norm that a division divides by; empty: it is none."""
    if len(node.inputs) < 2 or lineage.graph is None:
        return ""
    source = node.inputs[1]
    maker = lineage.graph.nodes.get(node_name_of(source))
    while maker is not None and len(maker.inputs) == 1 and "_view" in maker.attributes:
        source = maker.inputs[0]
        maker = lineage.graph.nodes.get(node_name_of(source))
    is_norm = maker is not None and lineage.roles.meanings.get(maker.op_type) == "norm"
    return parse_tensor_name(source)[0] if is_norm else ""


def _largest_input(case: _Case) -> float | None:
    tops = [
        float(np.abs(each[np.isfinite(each)]).max())
        for each in case.given
        if each is not None and np.isfinite(each).any()
    ]
    return max(tops, default=None)


def _count(shape: Sequence[int]) -> int:
    return int(np.prod(shape, dtype=np.int64))
