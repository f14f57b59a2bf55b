"""What ops do with nan and infinities: the words for it, and the search for the tensors to look at.

Bad is a tensor with a nan or an infinity in it, clean is any other. Each engine has one table,
op type -> `Fact`, and a function that describes an op of its framework as an `Op`. What a table
doesn't claim isn't assumed: an op without an entry may make something bad of clean inputs, and may
absorb what is bad in them. `tfdbg_cli.testing.op_facts_contract` tries each claim on the framework.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

__all__ = [
    "ALL",
    "BOUNDED",
    "FIRST",
    "MOVED",
    "MOVED_FIRST",
    "NONE",
    "PICKED",
    "ROUNDED",
    "SPREAD",
    "SPREAD_FIRST",
    "WITH_INFINITIES",
    "Fact",
    "Op",
    "SameDtype",
    "Search",
    "Value",
    "always",
    "each",
    "fits",
    "has_elements",
    "is_real",
    "keeps_bad",
    "never",
]


class Value(NamedTuple):
    """An input or an output of an op.

    Attributes:
        key: the same for all that is said of one tensor; ``None``: nobody has to know of it.
        dtype: its name; empty: unknown.
        shape: ``None``: unknown.
    """

    key: Hashable
    dtype: str = ""
    shape: tuple[int, ...] | None = None

    @property
    def may_be_bad(self) -> bool:
        """Whether its dtype has nan and infinities, as far as anybody knows."""
        return not self.dtype or self.dtype.startswith(("float", "bfloat", "complex"))

    @property
    def is_complex(self) -> bool:
        """Whether its dtype is known to be complex."""
        return self.dtype.startswith("complex")


class Op(NamedTuple):
    """One op of a function, a model or a program.

    Attributes:
        type: as the engine's table has it.
        inputs, outputs: in the order that the table's places speak of.
        attributes: in whatever form the framework has them.
    """

    type: str
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    attributes: Mapping[str, Any] = MappingProxyType({})


#: What is asked of an op; only what is known for sure counts as true.
Condition = Callable[[Op], bool]


def always(op: Op) -> bool:
    """Whatever the op is like."""
    return True


def never(op: Op) -> bool:
    """In no case."""
    return False


def is_real(op: Op) -> bool:
    """No complex numbers are involved: they overflow where no part of them does."""
    return all(each.dtype and not each.is_complex for each in (*op.inputs, *op.outputs))


def has_elements(op: Op) -> bool:
    """The first input has elements: the largest one of none is an infinity."""
    shape = op.inputs[0].shape
    return shape is not None and 0 not in shape


#: The largest number of a dtype, or of a part of it.
_LARGEST = {
    **{f"int{bits}": 2.0 ** (bits - 1) for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": 2.0**bits for bits in (8, 16, 32, 64)},
    **{"bool": 1.0, "float16": 65504.0, "bfloat16": 3.3895e38, "float32": 3.4028e38},
    **{"float64": 1.7e308, "complex64": 3.4028e38, "complex128": 1.7e308},
}
#: The dtypes in which an infinity stays one.
WITH_INFINITIES = frozenset(
    {"float16", "bfloat16", "float32", "float64", "complex64", "complex128"}
)


def fits(op: Op) -> bool:
    """Every number of the first input's dtype has room in that of the output."""
    most = _LARGEST.get(op.inputs[0].dtype)
    return most is not None and most <= _LARGEST.get(op.outputs[0].dtype, 0.0)


def keeps_bad(op: Op) -> bool:
    """A conversion to the output's dtype leaves neither infinities nor imaginary parts out."""
    given, made = op.inputs[0], op.outputs[0]
    is_part = given.is_complex and not made.is_complex
    return bool(given.dtype) and made.dtype in WITH_INFINITIES and not is_part


@dataclass(frozen=True)
class SameDtype:
    """The condition that nothing is converted: outputs are real, and so are inputs of their dtype.

    Attributes:
        besides: the dtypes of inputs that tell which elements are meant.
    """

    besides: frozenset[str] = frozenset()

    def __call__(self, op: Op) -> bool:
        dtypes = {each.dtype for each in op.outputs if each.may_be_bad}
        given = {each.dtype for each in op.inputs}
        return is_real(op) and len(dtypes) == 1 and given <= dtypes | self.besides


ALL, FIRST, NONE = slice(None), slice(1), slice(0)


class Fact(NamedTuple):
    """What is known of an op type.

    Attributes:
        clean: when its outputs are clean if its inputs are, all finite numbers considered.
        absorbs: where they are clean, they are so whatever its inputs are.
        spreads: inputs of which each bad element makes something bad in the outputs, as long as
            these have elements.
        into: the outputs in one of which that is.
        when: where it isn't so, the op may absorb what is bad.
    """

    clean: Condition = never
    absorbs: bool = False
    spreads: slice = NONE
    into: slice = ALL
    when: Condition = always


#: All elements get to the outputs, with another sign at most; or those of the first input.
MOVED, MOVED_FIRST = Fact(always, spreads=ALL), Fact(always, spreads=FIRST)
#: Each element of the outputs is one of an input, or a finite number in its place.
PICKED = Fact(always)
#: Each is the number nearby, or without its sign, of one of an input.
ROUNDED = Fact(is_real, spreads=ALL)
#: Real numbers get to be between small ones, or not larger than they were.
BOUNDED = Fact(is_real)
#: Nothing bad is lost, but some is made.
SPREAD, SPREAD_FIRST = Fact(spreads=ALL), Fact(spreads=FIRST)

_UNKNOWN = Fact()


def each(names: str, fact: Fact) -> dict[str, Fact]:
    """The entries of several op types, separated by spaces."""
    return dict.fromkeys(names.split(), fact)


class Search:
    """Finds the fewest tensors that tell of all others, in one pass from the last op to the first.

    What is bad and spreads is looked at where it gets to, if at all; what can't be bad unless an
    input is isn't looked at.

    Args:
        facts: the engine's table.
        told: the keys of tensors that are looked at anyway.

    Attributes:
        told: the keys of all tensors that are covered so far: looked at, or spread to such a one.
    """

    def __init__(self, facts: Mapping[str, Fact], told: Iterable[Hashable] = ()) -> None:
        self._facts = facts
        self.told: set[Hashable] = {*told}

    def check(self, op: Op) -> list[int]:
        """The places of an op's outputs to be looked at; what uses them was here before."""
        fact = self._facts.get(op.type, _UNKNOWN)
        slots = [
            slot
            for slot, value in enumerate(op.outputs)
            if value.may_be_bad and value.key not in self.told
        ]
        if slots and fact.clean(op):
            slots = []
        self.told.update(op.outputs[slot].key for slot in slots)
        shown = [value for value in op.outputs[fact.into] if value.may_be_bad]
        if (
            shown
            and all(value.key in self.told and 0 not in (value.shape or ()) for value in shown)
            and fact.when(op)
        ):
            self.told.update(value.key for value in op.inputs[fact.spreads])
        return slots
