"""What is said of a pair in words: how the runs come to differ, where, by which argument."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from tfdbg_cli.common.node_words import ARGUMENT
from tfdbg_cli.comparing.alignment import FED
from tfdbg_cli.comparing.comparison import (
    AT_START,
    GIVEN,
    INPUTS_DIFFER,
    MADE_HERE,
    ONLY_FIRST,
    ONLY_SECOND,
    OTHER_INPUTS,
    Comparison,
    Row,
)
from tfdbg_cli.comparing.gaps import CODES
from tfdbg_cli.dumps.datum import Datum
from tfdbg_cli.dumps.graph import Node
from tfdbg_cli.dumps.sources import own_frame

__all__ = ["Argument", "Place", "Verdict", "is_rounding", "rounding", "sentence", "verdict"]

_SENTENCES = {
    INPUTS_DIFFER: "its inputs differ already",
    AT_START: "it was different at the start of this run",
    GIVEN: "it was given differently: nothing in the run computes it",
    ONLY_FIRST: "only the first run has it",
    ONLY_SECOND: "only the second run has it",
}
# What an engine keeps of a node besides the arguments of its op, or says no more than its tensors.
_NO_ARGUMENT = re.compile(
    r"_(?!arg_)|T$|T[a-z]+$|dtype$|value$|(output|tensor):|container$|shared_name$|debug_name$"
    r"|allowed_devices$|_arg_(generator|device|layout|pin_memory|dtype|memory_format|size)$"
)
# Addresses of objects, and what stands for one that has no text.
_NO_VALUE = re.compile(r" at 0x[0-9a-f]+|^<.*>$")
_MOST_NAMES = 3
_NOT_GIVEN = "not given"


class Argument(NamedTuple):
    """An argument of an op that isn't the same in both runs; ``None``: it isn't given."""

    name: str
    first: str | None
    second: str | None


class Place(NamedTuple):
    """A line of the program's own code, and whether its file was kept with the run."""

    file: str
    line: int
    text: str
    is_kept: bool


class Verdict(NamedTuple):
    """What there is to say of a pair that is beyond the bar.

    Attributes:
        said: how the runs come to differ, in a sentence.
        ops: the op types in both runs, or of what wrote a variable.
        arguments: those that differ.
        places: the lines of both runs that have made the tensors; ``None``: unknown.
    """

    said: str
    ops: tuple[str, str]
    arguments: Sequence[Argument]
    places: tuple[Place | None, Place | None]

    def differing(self) -> str:
        """The arguments in words; empty: none differs."""
        texts = [
            f"{name} {_NOT_GIVEN if one is None else one} in A,"
            f" {_NOT_GIVEN if other is None else other} in B"
            for name, one, other in self.arguments
        ]
        if len(texts) < 2:
            return "".join(f"its argument differs: {text}" for text in texts)
        return f"its arguments differ: {'; '.join(texts)}"


def verdict(comparison: Comparison, row: Row) -> Verdict:
    """All that is said of a row."""
    first, second = (_maker(comparison, at, datum) for at, datum in enumerate(row.pair[:2]))
    arguments: Sequence[Argument] = ()
    if first is not None and second is not None and row.said in (MADE_HERE, OTHER_INPUTS):
        arguments = [*_arguments(first, second)]
    ops = tuple(node.op_type if node is not None else "" for node in (first, second))
    places = _place(comparison, 0, first), _place(comparison, 1, second)
    return Verdict(sentence(comparison, row), (ops[0], ops[1]), arguments, places)


def sentence(comparison: Comparison, row: Row) -> str:
    """How the runs come to differ in a row."""
    if row.said == OTHER_INPUTS:
        first, second = (", ".join(names[:_MOST_NAMES]) for names in row.others)
        texts = [f"only A computes it from {first}"] * bool(first)
        texts += [f"only B{'' if first else ' computes it'} from {second}"] * bool(second)
        return f"made here: {', '.join(texts)}"
    if row.said == MADE_HERE:
        return f"made here: {_how(comparison, row)}"
    if row.said == GIVEN and row.pair.matched_by == FED:
        return "it was given differently"
    if is_rounding(row):
        return f"within the bar: {rounding(row)}"
    return _SENTENCES.get(row.said, "within the bar" if row.pair.second is not None else "")


def is_rounding(row: Row) -> bool:
    """Whether a pair is within the bar because of how rounding grows, or of a dtype before it."""
    first, second = row.pair.first, row.pair.second
    if first is None or second is None or row.is_beyond or row.gap.is_equal or not row.bar.dtype:
        return False
    is_other = row.bar.dtype not in (first.dtype, second.dtype)
    return is_other or row.gap.max_abs > row.bar.plain_limit


def rounding(row: Row) -> str:
    """What such a pair is within, in words."""
    return f"within what {row.bar.dtype} {'do' if row.bar.dtype == CODES else 'does'} here"


def _how(comparison: Comparison, row: Row) -> str:
    makers = [_maker(comparison, at, datum) for at, datum in enumerate(row.pair[:2])]
    writers = [
        maker.op_type
        for maker, datum in zip(makers, row.pair[:2], strict=True)
        if maker is not None and datum is not None and maker.name != datum.node_name
    ]
    if len(writers) == 1:
        is_first = makers[0] is not None and makers[0].op_type == writers[0]
        return f"the parameter was written by {writers[0]} in {'A' if is_first else 'B'} alone"
    if writers:
        both = writers[0] if len({*writers}) == 1 else f"{writers[0]} in A, {writers[-1]} in B"
        if len({*writers}) == 1 and not row.is_sure:
            return f"the parameter was written by {both}, and what it held before wasn't kept"
        return f"the parameter was written by {both}"
    if not row.is_sure:
        return "its inputs weren't all kept or matched"
    ops = [maker.op_type for maker in makers if maker is not None]
    one, other = (side.roles for side in comparison.sides)
    if len(ops) == 2 and ops[0] != ops[1] and one is other:  # other engines have other names
        return f"its inputs agree, and it is {ops[0]} in A, {ops[1]} in B"
    return "its inputs agree"


def _maker(comparison: Comparison, at: int, datum: Datum | None) -> Node | None:
    """What has made a tensor: of what is read of a variable, what wrote it."""
    side = comparison.sides[at]
    node = side.nodes.get(datum.node_name) if datum is not None else None
    if node is None or node.op_type not in side.memory:
        return node
    writers = side.writers(node.name)
    return side.nodes.get(writers[0], node) if writers else node


def _arguments(first: Node, second: Node) -> Iterator[Argument]:
    known, others = _given(first.attributes), _given(second.attributes)
    if first.op_type != second.op_type:  # another op has other arguments
        both = known.keys() & others.keys()
        known, others = ({name: each[name] for name in both} for each in (known, others))
    for name in {**known, **others}:
        one, other = known.get(name), others.get(name)
        if one != other:
            yield Argument(name, one, other)


def _given(attributes: Mapping[str, str]) -> dict[str, str]:
    return {
        name.removeprefix(ARGUMENT): str(value)
        for name, value in attributes.items()
        if not _NO_ARGUMENT.match(name) and not _NO_VALUE.search(str(value))
    }


def _place(comparison: Comparison, at: int, node: Node | None) -> Place | None:
    frame = own_frame(node.frames or ()) if node is not None else None
    if frame is None:
        return None
    lines = comparison.sides[at].dump.sources().lines(frame.file)
    text = lines[frame.line - 1].strip() if lines and frame.line <= len(lines) else frame.text
    return Place(frame.file, frame.line, text or "", lines is not None)
