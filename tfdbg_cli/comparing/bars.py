"""How far two tensors may be apart before that is worth telling."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tfdbg_cli.common.errors import UserError, one_line
from tfdbg_cli.common.files import lines_of
from tfdbg_cli.comparing.gaps import epsilon

__all__ = ["Bar", "Bars", "Rule", "make_bars", "read_rules"]

# So many roundings are ordinary where the inputs differ; where they are the same, bit for bit, the
# same operation makes the same of them, but for the order in which another kernel adds.
_ROUNDINGS, _ROUNDINGS_OF_EQUALS = 16.0, 4.0
# Coarse dtypes, or many numbers that are added up, don't let pass what is no rounding any more.
_MOST, _MOST_STEPS = 0.1, 2.0
# Ops in which a last bit decides which element is taken: some elements of theirs flip.
_FLIPS = re.compile(
    r"relu|threshold|dropout|where|select|max|min|sign|clamp|clip|floor|ceil|round|bernoulli|topk"
    r"|sort|one_?hot|gather|mask|greater|less|equal|eq$|ne$|[gl][te]_?$",
    re.IGNORECASE,
)
_SHARE_OF_FLIPS = 0.01


class Rule(NamedTuple):
    """What a file of rules says of some ops; what it doesn't say stays as it is."""

    op_type: re.Pattern[str]
    dtype: re.Pattern[str]
    rtol: float | None
    atol: float | None
    share: float | None


class Bar(NamedTuple):
    """What is allowed of one tensor.

    Attributes:
        rtol, atol: relative to its largest element, and besides.
        share: of the elements may be beyond that.
        scale: its largest element, without the sign.
        floor: what rounding may do to it by all that it was computed from, where that is more.
        dtype: the coarsest of what it was computed in; empty: somebody has said what is allowed.
    """

    rtol: float = 0.0
    atol: float = 0.0
    share: float = 0.0
    scale: float = 0.0
    floor: float = 0.0
    dtype: str = ""

    @property
    def limit(self) -> float:
        """The largest absolute difference."""
        return self.limit_of(self.scale)

    def limit_of(self, scale: float) -> float:
        """That of a tensor whose largest element is so large."""
        return max(self.atol + self.rtol * scale, self.floor)

    @property
    def plain_limit(self) -> float:
        """The largest absolute difference, were it not for what it was computed from."""
        return self.atol + self.rtol * self.scale


@dataclass(frozen=True)
class Bars:
    """What is allowed of the tensors of two runs.

    Attributes:
        rtol: relative to the largest element of the tensor; ``None``: by the dtype, and the root
            of how many numbers were added up for an element.
        atol: besides.
        cosine: the least cosine of the angle between two tensors, which alone counts then;
            ``None``: it doesn't.
        rules: the first that fits counts.
    """

    rtol: float | None = None
    atol: float = 0.0
    cosine: float | None = None
    rules: Sequence[Rule] = ()

    def bar(self, dtypes: Sequence[str], op_type: str, added: int, *, same_inputs: bool) -> Bar:
        """That of one tensor, whose scale isn't known yet.

        Args:
            dtypes: of both; the coarser one counts.
            op_type: of its node.
            added: how many numbers make one element of it.
            same_inputs: whether it was computed from the same, bit for bit, by the same op.
        """
        rule = next(
            (
                each
                for each in self.rules
                if each.op_type.search(op_type) and any(map(each.dtype.search, dtypes))
            ),
            None,
        )
        rtol = rule.rtol if rule is not None and rule.rtol is not None else self.rtol
        atol = rule.atol if rule is not None and rule.atol is not None else self.atol
        step = max(map(epsilon, dtypes), default=0.0)
        if not step and rule is None:
            rtol = atol = 0.0  # whole numbers are equal, or they aren't
        dtype = ""
        if rtol is None:
            if self.cosine is None:
                dtype = max(dtypes, key=epsilon, default="")
            same_dtype = len(set(dtypes)) == 1
            few = same_inputs and same_dtype
            rtol = step * (_ROUNDINGS_OF_EQUALS if few else _ROUNDINGS * math.sqrt(max(added, 1)))
            rtol = min(rtol, max(_MOST, _MOST_STEPS * step))
        share = 0.0
        if rule is not None and rule.share is not None:
            share = rule.share
        elif not same_inputs and _FLIPS.search(op_type):
            share = _SHARE_OF_FLIPS
        return Bar(rtol, atol, share, dtype=dtype)


def make_bars(rtol: float | None, atol: float | None, bar: str, rules: str) -> Bars:
    """What is allowed, as options say it.

    Args:
        rtol, atol: as `Bars` has them.
        bar: ``cosine`` or ``cosine:0.999``; empty: none.
        rules: a file of rules; empty: none.

    Raises:
        UserError: an option says something else, or the file can't be read.
    """
    cosine = None
    if bar:
        name, _, least = bar.partition(":")
        if name != "cosine":
            raise UserError(f'--bar: there is no bar "{name}".', "Use cosine or cosine:0.999.")
        try:
            cosine = float(least) if least else 0.999
        except ValueError:
            raise UserError(f'--bar: "{least}" is not a number.') from None
    return Bars(rtol, atol or 0.0, cosine, read_rules(rules) if rules else ())


def read_rules(path: str) -> list[Rule]:
    """The rules of a file.

    A line has regexes for op type and dtype and what is allowed: ``MatMul float16 rtol=1e-2
    atol=1e-5 share=0.001``. What follows ``#`` is a comment.

    Raises:
        UserError: the file can't be read, or a line says something else.
    """
    rules = []
    for number, text in enumerate(lines_of(path), 1):
        words = text.split("#", 1)[0].split()
        if not words:
            continue
        try:
            op_type, dtype, *given = words
            numbers = {name: float(value) for name, _, value in (w.partition("=") for w in given)}
            rule = Rule(
                re.compile(op_type),
                re.compile(dtype),
                *(numbers.pop(name, None) for name in ("rtol", "atol", "share")),
            )
            if numbers or not given:
                raise ValueError(f"there is no {', '.join(numbers) or 'rtol=, atol= or share='}")
        except (ValueError, RecursionError, OverflowError, re.error) as error:
            raise UserError(
                f"{path}:{number}: {one_line(error)}",
                "A line reads: OP_REGEX DTYPE_REGEX rtol=1e-3 atol=1e-6 share=0.01",
            ) from None
        rules.append(rule)
    return rules
