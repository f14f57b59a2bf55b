"""How one tensor is, in a few words: not dumped, clean, or how many elements are bad."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

from tfdbg_cli.commands.shell.parsing import quoted
from tfdbg_cli.commands.spans import bad_spans
from tfdbg_cli.commands.tensors.facts import TensorFacts
from tfdbg_cli.commands.units import execution_word
from tfdbg_cli.common.documents import Link, Span
from tfdbg_cli.dumps.dump import Datum
from tfdbg_cli.tensors.statistics import Health

__all__ = ["TensorHealth"]

# Of larger tensors no minimum and maximum are computed on the side.
_CHEAP = 64 << 20


class TensorHealth:
    """Says how the tensors of a dump are; each is read at most once, and not before it is asked.

    Args:
        facts: of the dump.
    """

    def __init__(self, facts: TensorFacts) -> None:
        self.facts = facts

    def of(self, datum: Datum) -> Health | None:
        """The bad elements of a tensor; ``None`` where there can be none, or it can't be read."""
        return self.facts.measured(datum, numbers=False).health

    def is_bad(self, datum: Datum) -> bool:
        """Whether a tensor holds a nan or an infinity."""
        health = self.of(datum)
        return health is not None and health.bad > 0

    def is_unknown(self, datum: Datum) -> bool:
        """Whether its elements, which nobody has, may be anything."""
        dtype = str(self.facts.facts(datum).dtype or "")
        return self.of(datum) is None and re.search("float|complex", dtype) is not None

    def first_bad(self, data: Sequence[Datum]) -> Datum | None:
        """The first bad one; what comes behind it isn't read."""
        return next((datum for datum in data if self.is_bad(datum)), None)

    def link(self, datum: Datum, *, bad: bool = False) -> Link:
        """The command that prints a tensor."""
        number = self.facts.number(datum)
        flags = ("" if number is None else f" -n {number}") + (" --bad" if bad else "")
        return Link(f"pt {quoted(datum.tensor_name)}{flags}")

    def name(self, datum: Datum) -> Span:
        """The tensor's name with the number of its dump if it has several, as a link."""
        number = self.facts.number(datum)
        text = datum.tensor_name
        if number is not None:
            text += f" ({execution_word(self.facts.dump)} {number})"
        return Span(text, "link", self.link(datum))

    def words(self, datum: Datum) -> list[Span]:
        """``3 nan, 1 +inf of 8``, or ``clean``, with dtype and shape in front."""
        found = self.facts.facts(datum)
        shape = "" if found.shape is None else f" {list(found.shape)}"
        spans = [Span(f"{found.dtype or '?'}{shape}  ", "dim")]
        statistics = self.facts.measured(datum, numbers=False)
        if statistics.error:
            return [*spans, Span(f"unreadable: {statistics.error}", "error")]
        health = statistics.health
        if health is None:
            is_unknown = self.is_unknown(datum)
            return [*spans, Span("its value isn't there" if is_unknown else "can't be bad", "dim")]
        if not health.bad:
            return [*spans, Span("clean", "success")]
        total = "" if found.shape is None else f" of {math.prod(found.shape)}"
        return [*spans, *bad_spans(health), Span(total)]

    def described(self, datum: Datum, name: Span | None = None) -> list[Span]:
        """The tensor, how it is, and its range where that is cheap to know.

        Args:
            name: it, if it is to be called otherwise than here.
        """
        between = self.range(datum)
        spans = [name or self.name(datum), Span("  "), *self.words(datum)]
        return [*spans, Span(f"  {between}")] if between else spans

    def range(self, datum: Datum) -> str:
        """Minimum and maximum, where they cost little; else empty."""
        found = self.facts.facts(datum)
        if found.nbytes is None or found.nbytes > _CHEAP:
            return ""
        statistics = self.facts.measured(datum)
        if statistics.minimum is None or statistics.maximum is None:
            return ""
        return f"min {statistics.minimum:.6g}, max {statistics.maximum:.6g}"

    def record(self, datum: Datum) -> dict[str, Any]:
        """The same for ``--json``."""
        found = self.facts.facts(datum)
        health = self.of(datum)
        return {
            "tensor": datum.tensor_name,
            "dump": found.number,
            "dtype": found.dtype,
            "shape": found.shape,
            "nan": health.nan if health is not None else None,
            "-inf": health.neg_inf if health is not None else None,
            "+inf": health.pos_inf if health is not None else None,
        }
