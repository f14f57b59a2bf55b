"""The reasons that one op and its inputs show, element by element."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from tfdbg_cli.common.arrays import Array, np
from tfdbg_cli.filters.magnitude import largest_number

__all__ = [
    "BINARY",
    "BY_ELEMENT",
    "CLOSE",
    "MOST_OF_MATRIX",
    "NUMPY_NAMES",
    "RULES",
    "Case",
    "can_give",
    "places_of",
]

#: Of a matrix with more elements no eigenvalues and singular values are computed.
MOST_OF_MATRIX = 1 << 16
#: Those count as equal, or as 0, that differ by this share of the largest one.
CLOSE = 1e-6


class Case(NamedTuple):
    """One op whose result is bad.

    Attributes:
        made: the bad elements.
        given: per input its elements where the result is bad; ``None``: they aren't known, and
            were finite.
        dtype: of the result.
        places: the indices of the bad elements, an array for each axis.
    """

    made: Array
    given: Sequence[Array | None]
    dtype: str
    places: tuple[Array, ...]

    def at(self, mask: Array) -> str:
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


def places_of(mask: Array) -> str:
    """`Case.at` of all elements of a tensor."""
    return Case(mask[mask], (), "", np.nonzero(mask) if mask.ndim else ()).at(mask[mask])


_Found = Iterator[tuple[str, str, Array]]


def _positions(lowest: float, name: str, edge: str, number: int = 0) -> Callable[[Case], _Found]:
    """A function with a pole at a number, and nothing below it: ``log``, ``rsqrt``.

    Args:
        lowest: where the pole is.
        name: of the function.
        edge: the number as the reason has it.
        number: which of the inputs the argument is.
    """

    def find(case: Case) -> _Found:
        kind = "log" if name == "logarithm" else "division"
        yield kind, f"the {name} of {edge}{{at}}", np.isinf(case.made) & _is(case, number, lowest)
        below = np.isnan(case.made) & _is(case, number, below=lowest)
        rest = "a negative number" if not lowest else f"a number below {edge}"
        yield ("log" if kind == "log" else "sqrt"), f"the {name} of {rest}{{at}}", below

    return find


def _is(case: Case, number: int, value: float | None = None, below: float = math.inf) -> Array:
    """Where an input is a number, or below one; everywhere, if it isn't known."""
    if not case.known(number):
        return np.ones(case.made.shape, bool)
    given: Any = case.given[number]
    return np.asarray(given == value if value is not None else given < below)


def _roots(case: Case) -> _Found:
    yield (
        "sqrt",
        "the square root of a negative number{at}",
        np.isnan(case.made) & _is(case, 0, below=0),
    )


def _domain(name: str, low: float, high: float) -> Callable[[Case], _Found]:
    def find(case: Case) -> _Found:
        outside = np.isnan(case.made)
        if case.known(0):
            given: Any = case.given[0]
            outside = np.asarray((given < low) | (given > high))
        yield "domain", f"{name} of a number outside of [{low:g}, {high:g}]{{at}}", outside
        ends = np.isinf(case.made) & ~outside
        if case.known(0):
            ends &= (given == low) | (given == high)
        yield "domain", f"{name} at the end of its domain{{at}}", ends

    return find


def _gamma(case: Case) -> _Found:
    """The logarithm of the gamma function and its derivatives have poles at 0, -1, -2 and so on."""
    if case.known(0):
        given: Any = case.given[0]
        pole = (given <= 0) & (given == np.floor(given))
        yield "domain", "the gamma function at 0 or a negative whole number{at}", pole


def _divisions(case: Case) -> _Found:
    if not case.known(1):
        yield "division", "0 / 0{at}", np.isnan(case.made)
        return
    divisor = case.given[1]
    assert divisor is not None
    if case.known(0):
        dividend = case.given[0]
        assert dividend is not None
        both = np.isnan(case.made) & np.isinf(divisor) & np.isinf(dividend)
        yield "difference", "an infinity divided by an infinity{at}", both
        yield "division", "0 / 0{at}", (divisor == 0) & (dividend == 0)
        with np.errstate(all="ignore"):
            exact = dividend.astype(np.float64) / divisor
        finite = np.isfinite(dividend) & np.isfinite(divisor)
        large = (divisor != 0) & _beyond(exact, case.dtype) & finite
        yield "overflow", f"a quotient beyond the range of {case.dtype}{{at}}", large
    else:
        yield "division", "0 / 0{at}", (divisor == 0) & np.isnan(case.made)
    yield "division", "a division by 0{at}", (divisor == 0) & np.isinf(case.made)


def _sums_of_quotients(case: Case) -> _Found:
    if case.known(2):
        is_zero = _is(case, 1, 0) if case.known(1) else np.zeros_like(case.made, bool)
        yield "division", "0 / 0{at}", _is(case, 2, 0) & is_zero
        yield "division", "a division by 0{at}", _is(case, 2, 0) & ~is_zero


def _remainders(case: Case) -> _Found:
    yield "division", "a remainder of a division by 0{at}", _is(case, 1, 0)


def _inverses(case: Case) -> _Found:
    if case.known(0):
        yield "division", "a division by 0{at}", _is(case, 0, 0)
        yield "overflow", f"a quotient beyond the range of {case.dtype}{{at}}", ~_is(case, 0, 0)


def _powers(case: Case) -> _Found:
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


def _exponentials(name: str, logarithm: Callable[[float], float]) -> Callable[[Case], _Found]:
    def find(case: Case) -> _Found:
        largest = largest_number(case.dtype)
        if largest is None:
            return
        end = f"{name} ends at {logarithm(largest):.4g} in {case.dtype}"
        at = np.isinf(case.made)
        if case.known(0):
            at = at & np.isfinite(case.given[0])  # type: ignore[arg-type]
            given = case.given[0][at] if at.any() else None  # type: ignore[index]
            number = f" of {_farthest(given):.5g}" if given is not None else ""
            yield "exp", f"{name}{number}{{at}}, and {end}", at
        else:
            yield "exp", f"{name} beyond the range{{at}}: {end}", at

    return find


def _farthest(given: Array) -> float:
    return float(given[np.argmax(np.abs(given))])


def _beyond(exact: Array, dtype: str) -> Array:
    largest = largest_number(dtype)
    # Numbers up to half a unit above the largest one are rounded to it.
    return np.isinf(exact) if largest is None else np.abs(exact) > largest


def _overflows(case: Case, compute: Callable[..., Array] | None) -> _Found:
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


def _sums(sign: int) -> Callable[[Case], _Found]:
    def find(case: Case) -> _Found:
        if case.known(0, 1):
            one, other = case.given[0], case.given[1]
            assert one is not None
            assert other is not None
            both = np.isinf(one) & np.isinf(other) & (np.sign(one) == -sign * np.sign(other))
            both &= np.isnan(case.made)
            yield "difference", "an infinity minus an infinity{at}", both
        yield from _overflows(case, np.add if sign > 0 else np.subtract)

    return find


def _products(case: Case) -> _Found:
    zero = np.zeros(case.made.shape, bool)
    for one, other in ((0, 1), (1, 0)):
        if case.known(one):
            # Of what isn't known it is known that it was finite.
            infinite = np.isinf(case.given[one])  # type: ignore[arg-type]
            zero |= np.isnan(case.made) & infinite & _is(case, other, 0)
    yield "product", "0 times an infinity{at}", zero
    yield from _overflows(case, np.multiply)


def _linear(case: Case) -> _Found:
    """Sums and products: of finite numbers they are bad for one reason only."""
    yield from _overflows(case._replace(made=np.full(case.made.shape, np.inf)), None)


def _root_gradients(number: int) -> Callable[[Case], _Found]:
    def find(case: Case) -> _Found:
        if case.known(number):
            yield "gradient", "the gradient of a square root at 0{at}", _is(case, number, 0)

    return find


def _cast_gradients(case: Case) -> _Found:
    """What came back, in the dtype of the forward op's input."""
    yield from _overflows(case._replace(given=case.given[:1]), lambda given: given)


def _product_gradients(case: Case) -> _Found:
    """Of what came back, and of the operands, each of which may be its factor."""
    for other in range(1, len(case.given)):
        yield from _products(case._replace(given=[case.given[0], case.given[other]]))


#: What an op computes -> the reasons that it may have.
RULES: Mapping[str, Callable[[Case], _Found]] = {
    "log": _positions(0, "logarithm", "0"),
    "log1p": _positions(-1, "logarithm", "1 + (-1)"),
    "xlogy": _positions(0, "logarithm", "0", 1),
    "xlog1py": _positions(-1, "logarithm", "1 + (-1)", 1),
    "rsqrt": _positions(0, "inverse square root", "0"),
    "sqrt": _roots,
    "asin": _domain("asin", -1, 1),
    "acos": _domain("acos", -1, 1),
    "atanh": _domain("atanh", -1, 1),
    "acosh": _domain("acosh", 1, math.inf),
    "erfinv": _domain("erfinv", -1, 1),
    "logit": _domain("logit", 0, 1),
    "gamma": _gamma,
    "div": _divisions,
    "mod": _remainders,
    "reciprocal": _inverses,
    "pow": _powers,
    "exp": _exponentials("exp", math.log),
    "exp2": _exponentials("exp2", math.log2),
    "sinh": _exponentials("sinh", lambda largest: math.log(largest) + math.log(2)),
    "cosh": _exponentials("cosh", lambda largest: math.log(largest) + math.log(2)),
    "add": _sums(1),
    "addcdiv": _sums_of_quotients,
    "sub": _sums(-1),
    "mul": _products,
    "square": lambda case: _overflows(case, np.square),
    "cast": lambda case: _overflows(case, lambda given: given),
    "linear": _linear,
    "scale": _linear,
    "prod": _linear,
    "sum": _linear,
    "norm": _linear,
    "sqrt_grad": _root_gradients(0),
    "sqrt_backward": _root_gradients(1),
    "mul_backward": _product_gradients,
    "cast_backward": _cast_gradients,
}
#: What NumPy calls it: its functions are asked for where somebody asks for a reason.
NUMPY_NAMES = {
    "log": "log",
    "log1p": "log1p",
    "sqrt": "sqrt",
    "asin": "arcsin",
    "acos": "arccos",
    "atanh": "arctanh",
    "acosh": "arccosh",
    "div": "divide",
    "mod": "remainder",
    "reciprocal": "reciprocal",
    "pow": "power",
    "exp": "exp",
    "exp2": "exp2",
    "sinh": "sinh",
    "cosh": "cosh",
    "add": "add",
    "sub": "subtract",
    "mul": "multiply",
    "square": "square",
    "cast": "positive",
}
# Of the largest number: ops round on their way, and not all as NumPy does.
_NEAR = 0.99
_SMALLEST = 2.0**-126


def can_give(meaning: str, case: Case) -> bool:
    """Whether an op can have made something bad of what it is said to have been given.

    It is computed once more in float64; of sums and products of matrices there is only a bound.

    Args:
        meaning: what the op computes.
        case: its bad elements.

    Returns:
        ``False``: it would have made finite numbers of these. They were written over since, or the
        op computes in another way.
    """
    given = [each for each in case.given if each is not None]
    if len(given) != len(case.given) or not given:
        return True
    largest = largest_number(case.dtype)
    limit = np.inf if largest is None else largest * _NEAR
    wide = [each.astype(np.float64) for each in given]
    with np.errstate(all="ignore"):
        if meaning in NUMPY_NAMES and len(wide) == (2 if meaning in BINARY else 1):
            found = np.zeros(case.made.shape, bool)
            # Compilers and devices may take numbers below the normal ones for 0.
            for each in (wide, [np.where(np.abs(x) < _SMALLEST, 0, x) for x in wide]):
                exact = getattr(np, NUMPY_NAMES[meaning])(*each)
                found |= ~np.isfinite(exact) | (np.abs(exact) >= limit)
            return bool(found.all())
        if meaning in ("linear", "sum", "norm"):
            tops = [max(np.abs(each).max(initial=0), 1.0) for each in wide]
            count = max(each.size for each in wide)
            power = 2 if meaning == "norm" else 1
            # A nan is not a number below the limit. (Of Python's numbers a square that is out of
            # range would be an error.)
            return not count * np.prod(tops) ** power < limit
    return True


#: Whose inputs have the shape of the result, or one that is stretched to it.
BY_ELEMENT = frozenset(RULES) - {"linear", "norm", "prod", "sum"}
#: Of two operands, either of which may be a number that is not a tensor.
BINARY = frozenset(["add", "div", "mod", "mul", "pow", "sub"])
