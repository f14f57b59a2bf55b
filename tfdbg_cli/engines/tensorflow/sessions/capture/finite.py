"""Whether a run has computed nothing but finite numbers, told without a dump."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence, Set
from operator import itemgetter
from typing import Any

import numpy as np

from tfdbg_cli.engines.kit.op_facts import Fact, Op, Search, Value, table
from tfdbg_cli.engines.tensorflow.shared.op_facts import DTYPE_NAMES, FACTS
from tfdbg_cli.engines.tensorflow.shared.redo import Edge
from tfdbg_cli.tensors.numeric import any_nonfinite, dtype_kind, has_nonfinite

__all__ = ["UPDATES", "FiniteCheck", "described"]

#: What is known of updates of reference variables, of their parameters, slots and gradients.
UPDATES = table(
    {
        "ApplyAdagrad": Fact(spreads=itemgetter(0, 2, 3)),
        "ApplyAdam": Fact(spreads=itemgetter(0, 1, 2, 9)),
        "ApplyRMSProp": Fact(spreads=itemgetter(0, 1, 2, 7)),
        "Assign": Fact(spreads=itemgetter(slice(1, 2))),
    },
    spread="ApplyGradientDescent ApplyMomentum AssignAdd AssignSub",
)
_FACTS = {**FACTS, **UPDATES}


class FiniteCheck:
    """Looks for nan and infinities in what the runs of a plan have computed.

    What is bad and spreads is looked at where it gets to (`Search`).

    Args:
        ops: every operation that the runs compute, producers first.
        tensors: those that are fetched, producers first.
        given: how many of the first ones are fed.
        ahead: how many of the last ones are read before the run.
        constants: node, slot and value of what is written down in the graph.

    Attributes:
        looked: the places of the tensors that are looked at.
    """

    def __init__(
        self,
        ops: Sequence[Any],
        tensors: Sequence[Any],
        given: int,
        ahead: int,
        constants: Sequence[tuple[str, int, Callable[[], Any]]],
    ) -> None:
        self._places: dict[np.dtype[Any], list[int]] = {}
        self._is_spoilt = any(has_nonfinite(value()) for _, _, value in constants)
        end = len(tensors) - ahead
        keys = [(tensor.op.name, tensor.value_index) for tensor in tensors]
        computed = {key: place for place, key in enumerate(keys[:end])}
        told = {*keys[end:], *((node, slot) for node, slot, _ in constants)}
        every = [described(op) for op in ops]
        made = {value.key for op in every for value in op.outputs if value.may_be_bad}
        search = Search(_FACTS, told, made - computed.keys() - told)
        looked = [op.outputs[slot].key for op in reversed(every) for slot in search.check(op)]
        looked += [key for key in keys[:given] if key not in search.told]
        read = {key: place for place, key in enumerate(keys[end:], end)}
        for key in read.keys() & _spread_by_updates(every, read.keys(), search.told):
            del read[key]
        self.looked = sorted({*(computed[key] for key in looked), *read.values()})
        for place in self.looked:
            dtype = np.dtype(tensors[place].dtype.base_dtype.as_numpy_dtype)
            if dtype_kind(dtype) in ("float", "complex"):
                self._places.setdefault(dtype, []).append(place)

    def passes(self, extra: Sequence[Any], others: Sequence[Any]) -> bool:
        """Whether all is finite.

        Args:
            extra: the values of the tensors.
            others: what was seen besides.
        """
        return not (
            self._is_spoilt
            or any(
                any_nonfinite([extra[place] for place in places], dtype)
                for dtype, places in self._places.items()
            )
            or any(map(has_nonfinite, others))
        )


def _spread_by_updates(
    ops: Sequence[Op], variables: Set[Hashable], told: Collection[Hashable]
) -> set[Hashable]:
    """The variables of which all that was bad before the run is bad in an update's output.

    Args:
        ops: of the run.
        variables: by reference, as they were before it.
        told: the tensors that are known to be looked at.
    """
    users: dict[Hashable, list[Op]] = {}
    for op in ops:
        if op.type != "Identity":
            for key in {value.key for value in op.inputs} & variables:
                users.setdefault(key, []).append(op)
    found = set()
    for key, (op, *others) in users.items():
        if op.type in UPDATES and not others:  # nothing else has written to it before
            search = Search(UPDATES, [each.key for each in op.outputs if each.key in told])
            search.check(op)
            found.update({key} & search.told)
    return found


class _Attributes(Mapping[str, Any]):
    """Those of an operation; most aren't asked for."""

    def __init__(self, op: Any) -> None:
        self._op = op

    def __getitem__(self, name: str) -> Any:
        return self._op.node_def.attr[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._op.node_def.attr)

    def __len__(self) -> int:
        return len(self._op.node_def.attr)


def described(op: Any) -> Op:
    """An operation in the words of the search."""

    def values(tensors: Sequence[Any]) -> Iterator[Value]:
        for tensor in tensors:
            key: Edge = tensor.op.name, tensor.value_index
            number = tensor.dtype.base_dtype.as_datatype_enum
            yield Value(key, DTYPE_NAMES.get(number, "opaque"))

    return Op(op.type, (*values(op.inputs),), (*values(op.outputs),), _Attributes(op))
