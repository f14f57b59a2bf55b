"""What ops do with nan and infinities: the words for it, and the search for the tensors to look at.

A tensor with a nan or an infinity is bad, any other is clean. Each engine has one table, op type ->
`Fact`, and describes the ops of its framework as `Op`. What a table doesn't claim isn't assumed: an
op without an entry may make something bad of clean inputs, and may absorb what is bad in them.
`tfdbg_cli.testing.op_facts_contract` tries each claim on the framework.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from operator import itemgetter
from types import MappingProxyType
from typing import Any, NamedTuple

__all__ = ["ALL", "FIRST", "KINDS", "NONE", "Fact", "Op", "Search", "Value", "is_real", "table"]


class Value(NamedTuple):
    """An input or an output of an op.

    Attributes:
        key: the same wherever the tensor is spoken of; ``None``: it is a number in the program.
        dtype: its name; empty: unknown; ``float``: real numbers of any size.
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
    """One op of a function, a model or a program; attributes are as the framework has them."""

    type: str
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    attributes: Mapping[str, Any] = MappingProxyType({})


#: What is asked of an op; only what is known for sure counts as true.
Condition = Callable[[Op], bool]


def _always(op: Op) -> bool:
    return True


def is_real(op: Op) -> bool:
    """No complex numbers are involved: they overflow where no part of them does."""
    return all(each.dtype and not each.is_complex for each in (*op.inputs, *op.outputs))


def _has_elements(op: Op) -> bool:
    """The first input has elements: the largest one of none is an infinity."""
    shape = op.inputs[0].shape
    return shape is not None and 0 not in shape


#: The largest number of a dtype, or of a part of it.
_LARGEST = {
    **{f"{sign}int{bits}": 2.0**bits for sign in ("", "u") for bits in (8, 16, 32, 64)},
    **{"bool": 1.0, "int16": 2.0**15, "float16": 65504.0, "bfloat16": 3.3895e38},
    **{"float32": 3.4028e38, "float64": 1.7e308, "complex64": 3.4028e38, "complex128": 1.7e308},
}


def _fits(op: Op) -> bool:
    """Every number of the first input's dtype has room in that of the output."""
    most = _LARGEST.get(op.inputs[0].dtype)
    return most is not None and most <= _LARGEST.get(op.outputs[0].dtype, 0.0)


def _keeps_bad(op: Op) -> bool:
    """The output's dtype leaves neither infinities nor imaginary parts out."""
    given, made = op.inputs[0], op.outputs[0]
    has_infinities = made.may_be_bad and made.dtype in _LARGEST
    return bool(given.dtype) and has_infinities and not (given.is_complex and not made.is_complex)


#: Takes some inputs or outputs out of all: ``itemgetter(0, 9)``, or ``itemgetter(slice(1))``.
Pick = Callable[[Sequence[Any]], Sequence[Any]]
ALL, FIRST, NONE = (itemgetter(slice(end)) for end in (None, 1, 0))


class Fact(NamedTuple):
    """What is known of an op type.

    Attributes:
        clean: when its outputs are clean if its inputs are, all finite numbers considered;
            ``None``: in no case.
        absorbs: where they are clean, they are so whatever its inputs are.
        spreads: inputs of which each bad element makes something bad in the outputs, as long as
            these have elements.
        into: the outputs in one of which that is.
        when: where it isn't so, the op may absorb what is bad.
    """

    clean: Condition | None = None
    absorbs: bool = False
    spreads: Pick = NONE
    into: Pick = ALL
    when: Condition = _always


#: The facts that hold for many ops.
KINDS = {
    # All elements get to the outputs, with another sign at most; or those of the first input.
    "moved": Fact(_always, spreads=ALL),
    "moved_first": Fact(_always, spreads=FIRST),
    # Each element of the outputs is one of an input, or a finite number in its place.
    "picked": Fact(_always),
    "largest": Fact(_has_elements),
    # Each is the number nearby, or the magnitude, of one of an input.
    "rounded": Fact(is_real, spreads=ALL),
    # Real numbers get to be between small ones, or not larger than they were.
    "bounded": Fact(is_real),
    # What is made doesn't depend on the inputs' elements, or has no infinities.
    "made": Fact(_always, absorbs=True),
    "converted": Fact(_fits, spreads=FIRST, when=_keeps_bad),
    # Nothing bad is lost, but some is made.
    "spread": Fact(spreads=ALL),
    "spread_first": Fact(spreads=FIRST),
}


def table(others: Mapping[str, Fact], **kinds: str) -> dict[str, Fact]:
    """A table: the op types of each of the `KINDS`, separated by spaces, and others."""
    found = {name: KINDS[kind] for kind, names in kinds.items() for name in names.split()}
    return {**found, **others}


class Search:
    """Finds the fewest tensors that tell of all others, in one pass from the last op to the first.

    What is bad and spreads is looked at where it gets to, if at all; what can't be bad unless an
    input is isn't looked at.

    Args:
        facts: the engine's table.
        told: the keys of tensors that are looked at anyway.
        hidden: the keys of tensors that can't be looked at; what is made of them is.

    Attributes:
        told: the keys of all tensors that are covered so far: looked at, or spread to such a one.
    """

    def __init__(
        self,
        facts: Mapping[str, Fact],
        told: Iterable[Hashable] = (),
        hidden: Collection[Hashable] = (),
    ) -> None:
        self._facts, self._hidden = facts, hidden
        self.told: set[Hashable] = {*told}

    def check(self, op: Op) -> list[int]:
        """The places of an op's outputs to be looked at; what uses them was here before."""
        fact = self._facts.get(op.type, Fact())
        slots = [
            slot
            for slot, value in enumerate(op.outputs)
            if value.may_be_bad and value.key not in self.told and value.key not in self._hidden
        ]
        if slots and fact.clean is not None and fact.clean(op):
            are_known = fact.absorbs or not any(
                each.key in self._hidden and each.key not in self.told for each in op.inputs
            )
            slots = [] if are_known else slots
        self.told.update(op.outputs[slot].key for slot in slots)
        shown = [value for value in fact.into(op.outputs) if value.may_be_bad]
        are_told = all(each.key in self.told and 0 not in (each.shape or ()) for each in shown)
        if shown and are_told and fact.when(op):
            self.told.update(value.key for value in fact.spreads(op.inputs))
        return slots
