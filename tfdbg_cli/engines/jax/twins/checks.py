"""Which tensors of a jaxpr have to be looked at to know that none of them is bad.

What is bad in a tensor is in what an op makes of it, too, if the op hands it on in any case: it is
looked at where it gets to, if at all. What a function returns is looked at by whoever has it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jax.extend import core

from tfdbg_cli.dumps.finite import all_finite
from tfdbg_cli.engines.jax.plans.ops import SILENT
from tfdbg_cli.engines.jax.plans.plan import called_jaxpr, value_of
from tfdbg_cli.engines.jax.private import inner_jaxprs, scan_counts, shard_map_of
from tfdbg_cli.engines.jax.twins.loops import has_shard_map, is_inexact, is_unsure
from tfdbg_cli.engines.jax.twins.op_facts import FACTS, op_of
from tfdbg_cli.engines.kit.op_facts import Search

__all__ = ["CheckedEquation", "Checks", "checks_of", "places_bad"]


class CheckedEquation:
    """An equation that the function computes.

    Attributes:
        equation: it.
        slots: of its results, those to be looked at.
        bodies: what it calls, or does again and again, or one of which it does.
    """

    __slots__ = ("bodies", "equation", "slots")

    def __init__(self, equation: Any, slots: Sequence[int], bodies: Sequence[Checks] = ()) -> None:
        self.equation, self.slots, self.bodies = equation, slots, bodies

    @property
    def is_needed(self) -> bool:
        """Whether anything is to be looked at."""
        return bool(self.slots) or any(body.are_needed for body in self.bodies)

    @property
    def has_unsure(self) -> bool:
        """Whether it is a loop that has to be ended, or has one in it."""
        return is_unsure(self.equation) or any(body.have_unsure for body in self.bodies)


class Checks:
    """What is to be looked at in a jaxpr.

    Attributes:
        jaxpr: it.
        equations: those of it that compute something, in their order.
    """

    __slots__ = ("_told", "equations", "jaxpr")

    def __init__(self, jaxpr: Any, equations: Sequence[CheckedEquation], told: set[Any]) -> None:
        self.jaxpr, self.equations, self._told = jaxpr, equations, told

    @property
    def told(self) -> list[bool]:
        """Of which of its arguments these tell."""
        return [each in self._told for each in self.jaxpr.invars]

    @property
    def inputs(self) -> list[int]:
        """The others, which have to be looked at themselves: places among constants, arguments."""
        variables = [*self.jaxpr.constvars, *self.jaxpr.invars]
        return [
            at
            for at, each in enumerate(variables)
            if each not in self._told and is_inexact(each.aval)
        ]

    @property
    def are_needed(self) -> bool:
        """Whether anything is to be looked at."""
        return any(each.is_needed for each in self.equations)

    @property
    def have_unsure(self) -> bool:
        """Whether a loop among these has to be ended."""
        return any(each.has_unsure for each in self.equations)


def checks_of(jaxpr: Any, told: Sequence[bool]) -> Checks:
    """The fewest tensors of a jaxpr that tell of all others.

    Args:
        jaxpr: it.
        told: which of its results are looked at anyway.
    """
    return _Search(jaxpr, told).checks()


def places_bad(jaxpr: Any) -> bool:
    """Whether a nan or an infinity is written down in a function: it isn't computed."""
    for equation in jaxpr.eqns:
        literals = (each for each in equation.invars if isinstance(each, core.Literal))
        numbers = (value_of(each) for each in literals if is_inexact(each.aval))
        if not all(all_finite(np.asarray(each)) for each in numbers):
            return True
        if any(map(places_bad, inner_jaxprs(equation))):
            return True
    return False


class _Search:
    """Goes through a jaxpr from its end."""

    def __init__(self, jaxpr: Any, told: Sequence[bool]) -> None:
        self._jaxpr = jaxpr
        self._search = Search(FACTS, _chosen(jaxpr.outvars, told))
        self._told = self._search.told
        self._bodies: dict[str, Callable[[Any], Sequence[Checks]]] = {
            "cond": self._condition,
            "scan": self._scan,
            "shard_map": self._shard_map,
            "while": self._while,
        }

    def checks(self) -> Checks:
        found = [
            self._checked(equation)
            for equation in reversed(self._jaxpr.eqns)
            if equation.primitive.name not in SILENT
        ]
        return Checks(self._jaxpr, found[::-1], self._told)

    def _checked(self, equation: Any) -> CheckedEquation:
        name = equation.primitive.name
        called = called_jaxpr(equation)
        if called is not None:
            body = checks_of(called.jaxpr, self._are_told(equation))
            self._tell(equation.invars, body.told)
            return CheckedEquation(equation, (), (body,))
        bodies = self._bodies[name](equation) if name in self._bodies else ()
        if bodies:
            return CheckedEquation(equation, (), bodies)
        return CheckedEquation(equation, self._search.check(op_of(equation)))

    def _condition(self, equation: Any) -> Sequence[Checks]:
        told = self._are_told(equation)
        bodies = [checks_of(each.jaxpr, told) for each in equation.params["branches"]]
        in_all = [all(each) for each in zip(*(body.told for body in bodies), strict=True)]
        self._tell(equation.invars[1:], in_all)
        return bodies

    def _scan(self, equation: Any) -> Sequence[Checks]:
        constants, count = scan_counts(equation.params)
        jaxpr = equation.params["jaxpr"].jaxpr
        body = _again(jaxpr, constants, count, self._are_told(equation))
        if equation.params["length"]:
            self._tell(equation.invars, body.told)
        return (body,)

    def _while(self, equation: Any) -> Sequence[Checks]:
        tests, own = equation.params["cond_nconsts"], equation.params["body_nconsts"]
        told = self._are_told(equation)
        test = checks_of(equation.params["cond_jaxpr"].jaxpr, [False])
        body = _again(equation.params["body_jaxpr"].jaxpr, own, len(told), told)
        # It may be done not once: the carry is then what is returned, and the rest isn't used.
        going = equation.invars[tests + own :]
        both = [a and b for a, b in zip(told, body.told[own:], strict=True)]
        self._tell(going, both)
        return test, body

    def _shard_map(self, equation: Any) -> Sequence[Checks]:
        parts = shard_map_of(equation)
        if parts is None or not parts.axes:
            return ()
        jaxpr = getattr(parts.jaxpr, "jaxpr", parts.jaxpr)
        if has_shard_map(jaxpr):  # of its mesh the inner one has only a part
            return ()
        # What it returns may be that of one device, of which others may have another.
        body = checks_of(jaxpr, [False] * len(jaxpr.outvars))
        self._tell(equation.invars, body.told)
        return (body,)

    def _are_told(self, equation: Any) -> list[bool]:
        return [each in self._told for each in equation.outvars]

    def _tell(self, operands: Sequence[Any], told: Sequence[bool]) -> None:
        self._told |= _chosen(operands, told)


def _again(jaxpr: Any, constants: int, count: int, told: Sequence[bool]) -> Checks:
    """The body of a loop: what goes round is told of where both who has it in the end tells of it,
    and the next iteration."""
    told = list(told)
    while True:
        body = checks_of(jaxpr, told)
        both = [
            a and b for a, b in zip(told, body.told[constants : constants + count], strict=False)
        ]
        if both == told[:count]:
            return body
        told[:count] = both


def _chosen(operands: Sequence[Any], flags: Sequence[bool]) -> set[Any]:
    pairs = zip(operands, flags, strict=True)
    return {each for each, flag in pairs if flag and not isinstance(each, core.Literal)}
