"""What an engine's table says of its framework's ops, tried on the framework, as tests to inherit.

Each `Fact` of the table is tried with numbers at the ends of the dtypes: an op that is called clean
and makes something bad of them fails, as does one that is said to spread or to absorb what is bad
and doesn't. An entry that no call has tried fails as well. ``ml_dtypes`` has to be there. ::

    from tfdbg_cli.testing.op_facts_contract import Call, ComputedOp, OpFactsContract, Operand

    class TestMyFacts(OpFactsContract):
        facts = FACTS

        def calls(self, name):
            return [Call((Operand((2, 3)),) * (2 if name in BINARY else 1))]

        def compute(self, name, call, operands):
            made = framework.compute(name, *operands, **call.more)
            return ComputedOp(op_of(made.node), made.node.inputs, [made.array])
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from tfdbg_cli.engines.kit.op_facts import NONE, Fact, Op, Search

__all__ = ["Call", "ComputedOp", "OpFactsContract", "Operand", "Unsupported"]

#: How often an op is computed: twelve elements get to have all complex numbers of the ends, and
#: most pairs of real ones.
_SEEDS = 36


class Operand(NamedTuple):
    """An operand that the suite fills with numbers.

    Attributes:
        shape: of it; some elements will do.
        dtype: its name; empty: each of the contract's in turn, the same for all operands.
    """

    shape: tuple[int, ...]
    dtype: str = ""


class Call(NamedTuple):
    """One way to call an op.

    Attributes:
        operands: to be filled, or as they are: indices, say.
        more: what the engine needs besides, such as attributes.
    """

    operands: tuple[Operand | NDArray[Any], ...]
    more: Any = None


class ComputedOp(NamedTuple):
    """What the framework has made of a call.

    Attributes:
        op: as the engine describes it to the search.
        operands: the keys of the call's operands among the op's inputs.
        outputs: of the op, in order.
    """

    op: Op
    operands: Sequence[Hashable]
    outputs: Sequence[NDArray[Any]]


class _Trial(NamedTuple):
    """What has come of operands, and whether it is as the table says."""

    given: Sequence[NDArray[Any]]
    computed: ComputedOp
    is_so: bool


class Unsupported(Exception):
    """The framework doesn't compute the op for these dtypes or shapes."""


def _ends(dtype: str) -> NDArray[Any]:
    """The numbers at the ends of a dtype, and some between them."""
    kind = np.dtype(dtype)
    if kind.kind == "b":
        return np.array([False, True])
    if kind.kind in "iu":
        info = np.iinfo(kind)
        return np.array([info.max, info.min, 0, 1, info.max // 2], kind)
    if kind.kind == "c":
        parts = _ends(np.empty(0, kind).real.dtype.name)
        return (parts[:, None] + 1j * parts[None, :].astype(kind)).ravel().astype(kind)
    info = ml_dtypes.finfo(kind)
    some = [info.max, info.smallest_normal, info.smallest_subnormal, info.eps, 1, 100]
    some = [np.asarray(each, kind) for each in some]
    halves = [kind.type(each / kind.type(2)) for each in (info.max, info.smallest_normal)]
    found = np.array([*some, *halves, kind.type(0)], kind)
    return np.concatenate([found, -found])


def _drawn(given: Operand, place: int, seed: int) -> NDArray[Any]:
    """Finite numbers; with some seeds all of the ends are among them."""
    mixed = np.random.default_rng(place).permutation(_ends(given.dtype))
    count = int(np.prod(given.shape))
    # Operands go on by different steps: else each would always meet the same numbers.
    return np.resize(np.roll(mixed, -seed * (count + place)), count).reshape(given.shape)


def _bad(dtype: str) -> list[Any]:
    """All that is bad."""
    if not dtype.startswith("complex"):
        return [np.nan, np.inf, -np.inf]
    pairs = (np.nan, 0), (-np.inf, 0), (0, np.nan), (1, np.inf), (0, -np.inf), (np.inf, np.nan)
    return [complex(*parts) for parts in pairs]


def _is_clean(array: NDArray[Any]) -> bool:
    kind = array.dtype
    if kind.kind not in "fcV":
        return True
    return bool(np.isfinite(array if kind.kind == "c" else array.astype(np.float64)).all())


class OpFactsContract(ABC):
    """The suite.

    Attributes:
        facts: the engine's table.
        dtypes: those that operands have in turn.
        knows_shapes: the engine tells the search the shapes of tensors, of which some are empty.
        absent: entries of ops that this version of the framework doesn't have.
    """

    facts: Mapping[str, Fact]
    dtypes: Sequence[str] = ("float16", "bfloat16", "float32", "float64", "complex64")
    knows_shapes: bool = True
    absent: Iterable[str] = ()

    @abstractmethod
    def calls(self, name: str) -> Iterable[Call]:
        """Some calls of an op of the table: one for each form that makes a difference."""

    @abstractmethod
    def compute(self, name: str, call: Call, operands: Sequence[NDArray[Any]]) -> ComputedOp:
        """Let the framework compute a call.

        Raises:
            Unsupported: it doesn't.
        """

    def pytest_generate_tests(self, metafunc: Any) -> None:
        """Each test is of one claim of an entry."""
        if "claim" in metafunc.fixturenames:
            absent = {*self.absent}
            metafunc.parametrize(
                ("name", "claim"),
                [
                    (name, claim)
                    for name, fact in sorted(self.facts.items())
                    for claim in _claims(fact)
                    if name not in absent
                ],
            )

    def test_each_entry_claims_something(self) -> None:
        """Without a claim an entry is as good as none."""
        assert not [name for name, fact in self.facts.items() if not _claims(fact)]

    def test_the_framework_does_what_the_table_says(self, name: str, claim: str) -> None:
        """It is tried, and holds each time."""
        tried = 0
        tries = {"clean": self._cleaned, "absorbs": self._absorbed, "spreads": self._spread}
        for call in self._rounds(name):
            for given, computed, is_so in tries[claim](name, call):
                tried += 1
                assert is_so, (
                    f"{name}: of {given} comes {computed.outputs}; {computed.op.attributes}"
                )
        assert tried, f"no call has tried whether {name} is right in: {claim}"

    def _cleaned(self, name: str, call: Call) -> Iterator[_Trial]:
        """Of finite operands, empty ones too, it makes nothing bad."""
        for each in (call, _emptied(call)):
            for given, computed in self._computed(name, each, map(_filler(each), range(_SEEDS))):
                if not self._is_called_clean(computed.op):
                    break
                yield _Trial(given, computed, all(map(_is_clean, computed.outputs)))

    def _absorbed(self, name: str, call: Call) -> Iterator[_Trial]:
        """Whatever is among its operands, it makes nothing bad."""
        places = [at for at, each in enumerate(call.operands) if isinstance(each, Operand)]
        for at in places or (-1,):
            spoiled = _spoiled(call, at) if places else [_filler(call)(0)]
            for given, computed in self._computed(name, call, spoiled):
                if not self._is_called_clean(computed.op):
                    break
                yield _Trial(given, computed, all(map(_is_clean, computed.outputs)))

    def _is_called_clean(self, op: Op) -> bool:
        """Whether the table calls an op clean."""
        clean = self.facts[op.type].clean
        return clean is not None and clean(op)

    def _spread(self, name: str, call: Call) -> Iterator[_Trial]:
        """One bad element among all kinds of finite ones is seen in what is made of them."""
        into = self.facts[name].into
        for at, operand in enumerate(call.operands):
            if not isinstance(operand, Operand) or np.dtype(operand.dtype).kind not in "fcV":
                continue
            for each in (call, _emptied(call, at)) if self.knows_shapes else (call,):
                for given, computed in self._computed(name, each, _spoiled(each, at)):
                    search = Search(self.facts, [value.key for value in into(computed.op.outputs)])
                    search.check(computed.op)
                    if computed.operands[at] not in search.told:
                        break
                    yield _Trial(given, computed, not all(map(_is_clean, into(computed.outputs))))

    def _rounds(self, name: str) -> Iterator[Call]:
        """The calls with each dtype in the place of those left open."""
        for call in self.calls(name):
            is_open = any(isinstance(each, Operand) and not each.dtype for each in call.operands)
            for dtype in self.dtypes if is_open else ("",):
                operands = tuple(
                    each._replace(dtype=each.dtype or dtype) if isinstance(each, Operand) else each
                    for each in call.operands
                )
                yield call._replace(operands=operands)

    def _computed(
        self, name: str, call: Call, several: Iterable[list[NDArray[Any]]]
    ) -> Iterator[tuple[list[NDArray[Any]], ComputedOp]]:
        """What comes of each way to fill the operands; nothing, if the framework refuses one."""
        for operands in several:
            try:
                yield operands, self.compute(name, call, operands)
            except Unsupported:
                return


def _claims(fact: Fact) -> list[str]:
    """What an entry says."""
    found = {"clean": fact.clean is not None, "absorbs": fact.absorbs}
    return [claim for claim, is_so in {**found, "spreads": fact.spreads != NONE}.items() if is_so]


def _filler(call: Call) -> Callable[[int], list[NDArray[Any]]]:
    """Makes finite operands, others for each number."""
    return lambda seed: [
        _drawn(each, at, seed) if isinstance(each, Operand) else each
        for at, each in enumerate(call.operands)
    ]


def _spoiled(call: Call, place: int) -> Iterator[list[NDArray[Any]]]:
    """Operands of which one has something bad: one element, or all."""
    given = call.operands[place]
    assert isinstance(given, Operand)
    fills = [*map(_filler(call), range(2))]
    for number in (0, 1):
        fills.append(
            [
                np.full(each.shape, number, each.dtype) if isinstance(each, Operand) else each
                for each in call.operands
            ]
        )
    count = int(np.prod(given.shape))
    for fill, bad in itertools.product(fills, _bad(given.dtype)):
        for which in [*range(count), slice(None)]:
            spoiled = fill[place].copy()
            spoiled.reshape(-1)[which] = bad
            yield [*fill[:place], spoiled, *fill[place + 1 :]]


def _emptied(call: Call, but: int = -1) -> Call:
    """A call of operands without elements, but for one."""
    operands = tuple(
        each._replace(shape=(0, *each.shape[1:]))
        if isinstance(each, Operand) and at != but
        else each
        for at, each in enumerate(call.operands)
    )
    return call._replace(operands=operands)
