"""The table of remedies: for each kind of reason what people change, as functions of the values."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tfdbg_cli.common.arrays import Array, np
from tfdbg_cli.dumps.dump import CannotRedo
from tfdbg_cli.dumps.graph import Node
from tfdbg_cli.dumps.sources import own_frame
from tfdbg_cli.filters.causes.ops import is_decomposition
from tfdbg_cli.filters.causes.rules import BY_ELEMENT
from tfdbg_cli.filters.magnitude import largest_number
from tfdbg_cli.remedies.edits import number_text
from tfdbg_cli.remedies.merged import (
    binary_cross_entropy,
    is_sigmoid,
    is_softmax,
    log_sigmoid,
    log_softmax,
    log_sum_exp,
)
from tfdbg_cli.remedies.ranges import hypot, near_one, norms_kept, scaled_before_product, wider
from tfdbg_cli.remedies.situation import Candidate, Situation, changed_input, small_number
from tfdbg_cli.remedies.trial import Change
from tfdbg_cli.remedies.updates import (
    clipped_gradients,
    larger_eps,
    smaller_loss_scale,
    smaller_rate,
)

__all__ = ["CANDIDATES", "candidates", "remedy"]

# More of them aren't named.
_MOST_ROWS = 8

_Make = Callable[[Situation], Iterator[Candidate]]
_Function = Callable[[Array], Array]


#: Kind of the reason -> what others have added (`remedy`).
_ADDED: dict[str, list[_Make]] = {}


def remedy(kind: str, text: str, *, place: int = 0) -> Callable[[_Function], _Function]:
    """Add a remedy of one's own, by decorating a function in a file of ``--filters``.

    The function makes of an input of the op (float64, of any shape) the one that it is given
    instead. Those that are added are tried first.

    Args:
        kind: of the reasons that it helps against, one of docs/why.md: ``log``, ``division`` …
        text: the change as the program would have it, with ``{x}`` for the argument:
            ``softplus({x})``; or in words, without it.
        place: of the input, from 0; of the argument as well.
    """

    def add(function: _Function) -> _Function:
        def make(situation: Situation) -> Iterator[Candidate]:
            name, is_code = situation.node.op_type.rstrip("_"), "{x}" in text
            told = f"{name}({text.format(x='x')})" if is_code else text
            change = Change(situation.node.name, changed_input(place, function))
            yield Candidate(told, change, place if is_code else -1, text if is_code else "")

        _ADDED.setdefault(kind, []).append(make)
        function.is_remedy = True  # type: ignore[attr-defined]
        return function

    return add


def candidates(situation: Situation) -> list[Candidate]:
    """The remedies that fit, those that most often help first.

    Args:
        situation: that they are for.
    """
    found: dict[tuple[str, str], Candidate] = {}
    for make in (*_ADDED.get(situation.kind, ()), *CANDIDATES.get(situation.kind, ())):
        with contextlib.suppress(CannotRedo):  # what it would change isn't known
            for each in make(situation):
                for one in _with_others(situation, make, each):
                    found.setdefault((one.text, one.change.wide), one)
    return [*found.values()]


def _with_others(situation: Situation, make: _Make, one: Candidate) -> Iterator[Candidate]:
    """A remedy for an op, and for the others of its line that are of its kind.

    The line may say so several times, as ``log(p) + log(1 - p)``, or be computed several times: in
    a function of several layers, or once more by checkpointing. Then nobody can change one alone.
    """
    change = one.change
    is_of_line = bool(one.edit) or (change.node == situation.node.name and not change.wide)
    others = situation.beside() if is_of_line else []
    places = {own_frame(each.frames or ()) for each in (situation.node, *others)}
    is_one_call = len(places) == 1 and all(each and each.columns for each in places)
    where = "each time" if is_one_call else "at both ops of the line"
    if not is_one_call and len(others) > 1:
        where = f"at all {len(others) + 1} ops of the line"
    together = [*_at_all(situation, make, one, others, where)]
    yield from together
    if not together or not is_one_call:
        yield one


def _at_all(
    situation: Situation, make: _Make, one: Candidate, others: Sequence[Node], where: str
) -> Iterator[Candidate]:
    changes = [
        each.change
        for other in others
        for each in make(situation._replace(node=other))
        if (each.edit, each.argument, each.numbers) == (one.edit, one.argument, one.numbers)
        and (one.edit or each.text == one.text)
    ]
    if not others or len(changes) != len(others) or one.change.inner:
        return
    change = copy.copy(one.change)
    change.others = changes
    yield one._replace(text=f"{one.text}, {where}", change=change)


def _called(
    place: int, situation: Situation, edit: str, numbers: tuple[float, ...], otherwise: str
) -> str:
    """An op of one input ``x``, with a change of that in the engine's own words, if it has any.

    Args:
        place: of the input.
        situation: that the change is for.
        edit: one of `EngineTraits.spelling`.
        numbers: that it takes.
        otherwise: what is said of the input where there are none.
    """
    op = situation.node.op_type.rstrip("_")
    spelling = situation.spelling.get(edit, "")
    if not spelling or len(situation.node.inputs) > 1:
        first = "first input" if len(situation.node.inputs) > 1 else "input"
        return f"the {'divisor' if place else first} of {op} {otherwise}"
    return f"{op}({spelling.format(*map(number_text, numbers), x='x')})"


def _low(place: int, low: float, situation: Situation) -> Candidate:
    """An input kept at a number or above."""
    return _between(place, low, np.inf, situation)


def _between(place: int, low: float, high: float, situation: Situation) -> Candidate:
    def passes(given: list[Any]) -> Array:
        x = given[place].astype(np.float64)
        return np.asarray((x >= low) & (x <= high))

    name = "low" if high == np.inf else "high" if low == -np.inf else "between"
    numbers = tuple(each for each in (low, high) if np.isfinite(each))
    text = " and ".join(map(number_text, numbers))
    text = f"kept at {text} or above" if name == "low" else f"clipped at {text}"
    return Candidate(
        _called(place, situation, name, numbers, text),
        Change(situation.node.name, changed_input(place, lambda x: np.clip(x, low, high)), passes),
        place,
        name,
        numbers,
    )


def _plus(
    place: int, number: float, situation: Situation, argument: int | None = None, of: str = ""
) -> Candidate:
    """A small number added to an input, away from 0."""
    of = of or ("the divisor" if argument or place else "x")
    return Candidate(
        f"{number_text(number)} added to {of} of {situation.node.op_type.rstrip('_')}",
        Change(situation.node.name, changed_input(place, lambda x: x + number)),
        place if argument is None else argument,
        "add",
        (number,),
    )


def _cast(situation: Situation) -> Iterator[Candidate]:
    """A cast to a dtype of less range."""
    largest = largest_number(situation.dtype)
    if situation.meaning == "cast" and largest is not None:
        yield _between(0, -largest, largest, situation)
    elif situation.dtype in ("float16", "bfloat16"):
        yield from wider(situation)


def _kept(situation: Situation) -> Iterator[Candidate]:
    """A result that is kept within the range of its dtype."""
    largest, name = largest_number(situation.dtype), f"{situation.node.name}:0"
    if largest is None or situation.meaning not in BY_ELEMENT:
        return

    def replace(given: list[Any]) -> list[Array]:
        made = situation.value(name)
        if np.isnan(made.astype(np.float64)).any():
            raise CannotRedo("a part of the result is nan")
        return [np.clip(made.astype(np.float64), -largest, largest).astype(made.dtype)]

    def passes(given: list[Any]) -> Array:
        return np.asarray(np.isfinite(situation.value(name).astype(np.float64)))

    change = Change(situation.node.name, passes=passes, replace=replace)
    yield Candidate(f"the result of {situation.node.op_type} clipped at {largest:.5g}", change)


def _logarithm(situation: Situation) -> Iterator[Candidate]:
    maker = situation.maker(0)
    meaning = situation.computes(maker.op_type) if maker is not None else ""
    with contextlib.suppress(CannotRedo):  # which line it is needs values: a loop has several
        yield from binary_cross_entropy(situation)
    if maker is not None and situation.meaning == "log":
        if meaning == "softmax":
            yield log_softmax(situation, maker)
        elif is_sigmoid(maker):
            yield log_sigmoid(situation, maker)
    small = small_number(situation)
    if situation.meaning == "log1p":
        yield _low(0, max(small, 1e-6) - 1, situation)
    elif situation.meaning == "log":
        yield _low(0, small, situation)
        yield _plus(0, small, situation)
    elif situation.meaning == "xlogy":
        yield _plus(1, small, situation, of="the second argument")


def _matrix(situation: Situation) -> Iterator[Candidate]:
    (matrix, [first, *others]), share = situation.of_matrix(), 1e-6
    with contextlib.suppress(CannotRedo):
        top = float(np.abs(situation.value(matrix).astype(np.float64)).max(initial=1))
        share *= float(10 ** np.round(np.log10(top)))

    def moved(x: Array) -> Array:
        return np.asarray(x + share * np.eye(x.shape[-1]), x.dtype)

    def changed(node: Node) -> Change:
        places = [at for at, name in enumerate(node.inputs) if name == matrix]

        def give(given: list[Any]) -> list[Any]:
            for place in places:
                given = changed_input(place, moved)(given)
            return given

        return Change(node.name, give)

    change = changed(first)
    change.others = [changed(each) for each in others]
    yield Candidate(f"{number_text(share)} times the identity added to the matrix", change)


def _determinant(situation: Situation) -> Iterator[Candidate]:
    def positive(x: Array) -> Array:
        """Matrices with the same determinants, but for their signs."""
        x = x.copy()
        x[..., 0, :] *= np.linalg.slogdet(x.astype(np.float64))[0][..., None].astype(x.dtype)
        return x

    is_whole = situation.node.op_type != "where"  # which is to choose no nan
    change = changed_input(0, positive if is_whole else np.zeros_like)
    yield Candidate(
        "slogdet(x)[1], of the absolute value of the determinant",
        Change(situation.node.name, change),
    )


def _division(situation: Situation) -> Iterator[Candidate]:
    if situation.meaning in ("div", "mod") and len(situation.node.inputs) == 2:
        yield _plus(1, small_number(situation), situation)
        yield _where_zero(situation)
    elif situation.meaning in ("reciprocal", "rsqrt"):
        yield _plus(0, small_number(situation), situation)
        yield _low(0, small_number(situation), situation)
    elif situation.meaning == "div":  # the other number isn't a tensor
        yield _plus(0, small_number(situation), situation, argument=1)
    elif situation.meaning == "pow":
        yield _plus(0, small_number(situation), situation)
    elif situation.meaning == "addcdiv":
        yield _plus(2, small_number(situation), situation)


def _where_zero(situation: Situation) -> Candidate:
    """Divide only where the divisor isn't 0; the result is 0 there."""
    return Candidate(
        "where(divisor == 0, 0, x / where(divisor == 0, 1, divisor))",
        Change(
            situation.node.name,
            lambda given: [
                np.where(given[1] == 0, 0, given[0]).astype(given[0].dtype),
                np.where(given[1] == 0, 1, given[1]).astype(given[1].dtype),
            ],
        ),
    )


def _norm(situation: Situation) -> Iterator[Candidate]:
    if "weight_norm" in situation.node.op_type:
        yield _plus(0, max(small_number(situation), 1e-6), situation, of="the vectors")
    elif situation.meaning == "div" and len(situation.node.inputs) == 2:
        yield _low(1, small_number(situation), situation)
        yield _plus(1, small_number(situation), situation)


def _count(situation: Situation) -> Iterator[Candidate]:
    if situation.meaning == "div" and len(situation.node.inputs) == 2:
        yield _low(1, 1.0, situation)
    elif situation.meaning in ("div", "mean"):
        yield _zeros(situation, "0 where no element is left")
    elif situation.node.op_type.startswith("nll_loss"):
        yield _zeros(situation, "0 where no label counts")


def _one(situation: Situation) -> Iterator[Candidate]:
    if situation.meaning == "variance":
        yield _zeros(situation, "the biased variant (correction 0)")
    elif situation.meaning == "div" and len(situation.node.inputs) == 2:
        yield _low(1, 1.0, situation)


def _zeros(situation: Situation, text: str) -> Candidate:
    name = situation.node.name

    def replace(given: list[Any]) -> list[Array]:
        return [np.zeros_like(situation.value(f"{name}:0"))]

    return Candidate(text, Change(name, replace=replace))


def _root(situation: Situation) -> Iterator[Candidate]:
    if situation.meaning in ("sqrt", "rsqrt"):
        yield _low(0, 0.0 if situation.meaning == "sqrt" else small_number(situation), situation)
        yield _low(0, small_number(situation), situation)


def _base(situation: Situation) -> Iterator[Candidate]:
    if situation.meaning == "pow":
        yield _low(0, small_number(situation), situation)
        yield Candidate(
            "abs() of the base",
            Change(situation.node.name, changed_input(0, np.abs)),
            0,
            "magnitude",
        )


def _exponential(situation: Situation) -> Iterator[Candidate]:
    with contextlib.suppress(CannotRedo):  # what it is part of needs values: a loop has several
        if situation.meaning == "exp" and is_softmax(situation):
            text = _called(0, situation, "shifted", (), "minus its maximum")
            change = Change(
                situation.node.name, changed_input(0, lambda x: x - x.max(-1, keepdims=True))
            )
            yield Candidate(text, change, 0, "shifted")
        if situation.meaning == "exp":
            yield from log_sum_exp(situation)
    largest = largest_number(situation.dtype)
    ends = {"exp": np.log, "exp2": np.log2, "sinh": np.log, "cosh": np.log}
    if largest is not None and situation.meaning in ends:
        end = float(np.floor(ends[situation.meaning](largest)))
        yield _between(0, -np.inf if situation.meaning in ("exp", "exp2") else -end, end, situation)
    yield from _cast(situation)


def _domain(situation: Situation) -> Iterator[Candidate]:
    inside = {"float16": 1e-3, "bfloat16": 1e-2}.get(situation.dtype, 1e-6)
    ends = {
        **dict.fromkeys(("asin", "acos", "atanh", "erfinv"), (-1 + inside, 1 - inside)),
        "acosh": (1 + inside, np.inf),
        "logit": (inside, 1 - inside),
    }
    if situation.meaning == "gamma":
        yield _plus(0, inside, situation)
    elif situation.meaning in ends:
        yield _between(0, *ends[situation.meaning], situation)


def _gradient(situation: Situation) -> Iterator[Candidate]:
    if situation.meaning in ("sqrt", "rsqrt", "pow"):
        yield _plus(0, small_number(situation), situation)
        yield _low(0, small_number(situation), situation)
    elif situation.meaning in ("log", "log1p"):
        yield from _logarithm(situation)
    elif situation.node.op_type.lower() == "atan2":
        yield _plus(1, small_number(situation), situation, of="the second input")
    elif situation.node.op_type in ("logsumexp", "logaddexp"):
        yield from _infinities(situation)
    elif is_decomposition(situation.node.op_type):
        yield _apart(situation)
    yield from _domain(situation)


def _apart(situation: Situation) -> Candidate:
    """A diagonal of rising numbers added to a matrix, whose singular values then differ."""
    share = 1e-2 if situation.dtype in ("float16", "bfloat16") else 1e-4

    def moved(x: Array) -> Array:
        rows, columns = x.shape[-2:]
        top = max(float(np.abs(x).max(initial=0)), 1.0)
        steps = share * top * np.arange(1, min(rows, columns) + 1) / min(rows, columns)
        added = np.zeros((rows, columns))
        np.fill_diagonal(added, steps)
        return x + added

    return Candidate(
        f"{number_text(share)} of the largest element, rising, added to the diagonal of the input",
        Change(situation.node.name, changed_input(0, moved)),
    )


def _without_rows(situation: Situation) -> Iterator[Candidate]:
    """An input without its bad rows; so that all shapes stay, a good row is there twice."""
    name = f"{situation.node.name}:0"
    value = situation.value(name)
    if value.ndim < 2 or value.dtype.kind not in "fV":
        return
    is_good = np.isfinite(value.astype(np.float64)).reshape(len(value), -1).all(-1)
    bad, good = np.flatnonzero(~is_good).tolist(), np.flatnonzero(is_good).tolist()
    if not good or not 0 < len(bad) <= _MOST_ROWS:
        return

    def replace(given: list[Any]) -> list[Array]:
        made = np.array(value)
        made[bad] = value[good[0]]
        return [made]

    rows = f"row {bad[0]}" if len(bad) == 1 else f"rows {', '.join(map(str, bad))}"
    text = f"without {rows} of {situation.node.name} (tried with row {good[0]} in place)"
    yield Candidate(text, Change(situation.node.name, replace=replace, is_own=True))


def _infinities(situation: Situation) -> Iterator[Candidate]:
    """Large finite numbers in place of infinities."""
    largest = largest_number(situation.dtype)
    if largest is None:
        return
    bound = min(1e9, largest / 2)
    values = [situation.value(name) for name in situation.node.inputs]
    places = [at for at, x in enumerate(values) if x.dtype.kind in "fV" and np.isinf(x).any()]

    def give(given: list[Any]) -> list[Any]:
        for place in places:
            given = changed_input(place, lambda x: np.clip(x, -bound, bound))(given)
        return given

    if places:
        # Whoever writes it into a mask needs the sign.
        signs = [
            sign for sign in ("", "-") if any((x == float(f"{sign}inf")).any() for x in values)
        ]
        yield Candidate(
            ", ".join(f"{sign}{number_text(bound)} in place of {sign}inf" for sign in signs),
            Change(situation.node.name, give),
            places[0] if len(places) == 1 else -1,
            "between",
            (-bound, bound),
        )


def _rows(situation: Situation) -> Iterator[Candidate]:
    def unmasked(x: Array) -> Array:
        return np.where((x == -np.inf).all(-1, keepdims=True), 0, x)

    yield from _infinities(situation)
    if situation.meaning == "softmax":
        yield Candidate(
            "rows that are masked as a whole left out (0 in place of -inf)",
            Change(situation.node.name, changed_input(0, unmasked)),
        )


def _product(situation: Situation) -> Iterator[Candidate]:
    if len(situation.node.inputs) == 2:

        def give(given: list[Any]) -> list[Any]:
            one, other = given
            return [
                np.where(np.broadcast_to(other == 0, one.shape), 0, one).astype(one.dtype)
                if other.shape == one.shape or other.size == 1 else one,
                np.where(np.broadcast_to(one == 0, other.shape), 0, other).astype(other.dtype)
                if other.shape == one.shape or one.size == 1 else other,
            ]  # fmt: skip

        yield Candidate(
            "where(mask, x, 0) in place of the product", Change(situation.node.name, give)
        )
    yield from _infinities(situation)


#: Kind of the reason -> what makes its remedies, in the order in which they are tried.
CANDIDATES: Mapping[str, tuple[_Make, ...]] = {
    "log": (_logarithm, _cast),
    "division": (norms_kept, near_one, _division, _cast),
    "eps": (larger_eps, _cast),
    "sqrt": (_root,),
    "power": (_base,),
    "exp": (_exponential,),
    "half": (
        smaller_loss_scale,
        clipped_gradients,
        scaled_before_product,
        hypot,
        _cast,
        _infinities,
        _kept,
    ),
    "batch": (_without_rows,),
    "overflow": (
        smaller_rate,
        clipped_gradients,
        scaled_before_product,
        hypot,
        _cast,
        wider,
        _kept,
    ),
    "difference": (_infinities,),
    "product": (_product,),
    "masked": (_rows,),
    "gradient": (_gradient, _cast),
    "norm": (norms_kept, _norm, _division),
    "nothing": (_count,),
    "one": (_one,),
    "domain": (_domain,),
    "matrix": (_matrix,),
    "determinant": (_determinant,),
}
