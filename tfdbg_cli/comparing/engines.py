"""Runs of two engines: a model and its export, whose ops and names aren't the same."""

from __future__ import annotations

import ast
import functools
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from tfdbg_cli.common.arrays import np
from tfdbg_cli.common.errors import DumpError
from tfdbg_cli.comparing.gaps import epsilon, gap
from tfdbg_cli.dumps.datum import Datum, known_shape
from tfdbg_cli.dumps.dtypes import blocks, name_of
from tfdbg_cli.dumps.dump import Dump
from tfdbg_cli.dumps.graph import Node, node_name_of
from tfdbg_cli.dumps.run_info import roles_of
from tfdbg_cli.tensors.numeric import dtype_kind, widened

__all__ = ["AcrossEngines", "Sort", "across_engines"]

#: The attribute in which PyTorch's exporter leaves the modules that a node was exported from, the
#: outermost first, and the name of the op behind them.
SCOPES = "pkg.torch.onnx.name_scopes"
_WEIGHT = "weight"
# Of two engines' numbers, relative to the largest one: nearer than this they are of the same
# computation, float16's beside float32's included.
_NEAR = 0.02
_AS_NEAR, _LAST_BITS = 4.0, 1e-6
_ROUNDINGS = 4.0  # of a weight that was only cast
_PIECE = 1 << 16


class Sort:
    """What a tensor is, in words that several engines share.

    Args:
        dump: its run.
        has_modules: whether nodes of both runs tell the modules that they are of.
    """

    def __init__(self, dump: Dump, *, has_modules: bool) -> None:
        info = dump.run_info()
        self._roles = roles_of(info)
        self._dump, self._has_modules = dump, has_modules

    def __call__(self, datum: Datum, node: Node | None) -> tuple[object, ...]:
        """What it has in common with its counterpart: module, kind of op, output, size."""
        op_type = self._dump.op_type(datum.node_name)
        if self.is_weight(datum):
            return _WEIGHT, id(self), datum.node_name  # only its name or its numbers tell it
        module = _module(datum, node) if self._has_modules else ""
        kind = self._roles.meanings.get(op_type) or _plain(op_type)
        return module, kind, datum.output_slot, _size(datum)

    def is_weight(self, datum: Datum) -> bool:
        """Whether it is a parameter, or other state of a model."""
        op_type = self._dump.op_type(datum.node_name)
        return op_type in self._roles.weights | self._roles.buffers


class AcrossEngines:
    """Finds the counterparts of one run's tensors in a run of another engine, by their numbers.

    Args:
        first, second: the runs.

    Attributes:
        sorts: how tensors of each are sorted.
    """

    def __init__(self, first: Dump, second: Dump) -> None:
        has_modules = _tells_modules(first) and _tells_modules(second)
        self.sorts = tuple(Sort(dump, has_modules=has_modules) for dump in (first, second))
        self._dumps = first, second
        self._nodes = [
            graph.nodes if graph is not None else {} for graph in (first.graph(), second.graph())
        ]
        self._found: tuple[set[str], set[str]] = (set(), set())

    def near(self, data: Iterable[Datum], others: Iterable[Datum]) -> Iterator[tuple[Datum, Datum]]:
        """Pairs of tensors whose numbers are nearly the same: the nearest, and of the same sort.

        Args:
            data, others: those of each run that have no counterpart yet, in the order of time.
        """
        offered = defaultdict(list)
        for other in others:
            marks = _marks(self._dumps[1], other)
            if marks is not None:
                offered[marks.total].append((marks, other))
        found: list[tuple[tuple[int, bool], Datum, Datum]] = []
        for datum in data:
            marks = _marks(self._dumps[0], datum)
            if marks is not None:
                found += self._candidates(datum, marks, offered[marks.total])
        # What comes before a bias may be near as well, but not as near.
        found.sort(key=lambda each: each[0])
        taken: set[int] = set()
        for _, datum, other in found:
            if taken.isdisjoint({id(datum), id(other)}):
                taken |= {id(datum), id(other)}
                self._found[0].add(datum.node_name)
                self._found[1].add(other.node_name)
                yield datum, other

    def _candidates(
        self, datum: Datum, marks: _Marks, offered: Iterable[tuple[_Marks, Datum]]
    ) -> Iterator[tuple[tuple[int, bool], Datum, Datum]]:
        value = self._dumps[0].value(datum)
        for others, other in offered:
            if marks.may_be(others):
                apart = _apart(value, self._dumps[1].value(other))
                if apart <= _NEAR * marks.largest:
                    share = apart / marks.largest if marks.largest else 0.0
                    steps = int(math.log(share / _LAST_BITS + 1, _AS_NEAR))
                    is_other = self._sort(0, datum) != self._sort(1, other)
                    yield (steps, is_other), datum, other

    def is_rewritten(self, datum: Datum, other: Datum) -> bool:
        """Whether a weight has other numbers in the second run, and yet leads to the same."""
        if not self.sorts[0].is_weight(datum):
            return False
        try:
            one, same = self._dumps[0].value(datum), self._dumps[1].value(other)
            step = max(epsilon(name_of(each.dtype)) for each in (one, same))
            if _apart(one, same) <= _ROUNDINGS * step * float(np.abs(one).max()):
                return False
        except (DumpError, OSError, AttributeError):  # it isn't an array
            return False
        return any(
            not users.get(each.node_name, set()).isdisjoint(found)
            for users, each, found in zip(self._users, (datum, other), self._found, strict=True)
        )

    @functools.cached_property
    def _users(self) -> Sequence[Mapping[str, set[str]]]:
        """For each run: node -> those that compute with it."""
        made: list[dict[str, set[str]]] = []
        for nodes in self._nodes:
            users: dict[str, set[str]] = defaultdict(set)
            for node in nodes.values():
                for name in node.inputs:
                    users[node_name_of(name)].add(node.name)
            made.append(users)
        return made

    def _sort(self, side: int, datum: Datum) -> tuple[object, ...]:
        return self.sorts[side](datum, self._nodes[side].get(datum.node_name))


class _Marks(NamedTuple):
    """What tells most pairs of tensors apart without looking at both.

    Attributes:
        total, bad: elements, and how many of them are nan or infinite.
        largest, mean: of the others; the largest without its sign.
    """

    total: int
    bad: int
    largest: float
    mean: float

    def may_be(self, other: _Marks) -> bool:
        """Whether the elements may be near."""
        allowed = _NEAR * self.largest
        return (
            self.bad == other.bad
            and abs(self.largest - other.largest) <= allowed
            and abs(self.mean - other.mean) <= allowed
        )


def _marks(dump: Dump, datum: Datum) -> _Marks | None:
    """``None``: it has no numbers, or they say nothing: one number, or the same everywhere."""
    try:
        value = dump.value(datum)
    except (DumpError, OSError):
        return None
    if not isinstance(value, np.ndarray) or value.size < 2 or dtype_kind(value.dtype) != "float":
        return None
    largest, smallest, total, count = -math.inf, math.inf, 0.0, 0
    with np.errstate(all="ignore"):
        for piece in blocks(value, _PIECE):
            plain = widened(piece).astype(np.float64)
            plain = plain[np.isfinite(plain)]
            largest = max(largest, float(plain.max(initial=-math.inf)))
            smallest = min(smallest, float(plain.min(initial=math.inf)))
            total, count = total + float(plain.sum()), count + plain.size
    bad = value.size - count
    if largest <= smallest and bad in (0, value.size):
        return None
    return _Marks(value.size, bad, max(largest, -smallest), total / count)


def _apart(one: object, other: object) -> float:
    """The largest difference of two elements; infinite: one is bad where the other isn't."""
    if not isinstance(one, np.ndarray) or not isinstance(other, np.ndarray):
        return math.inf
    found = gap(one, other.reshape(one.shape))
    return math.inf if found.is_bad or found.problem else found.max_abs


def across_engines(first: Dump, second: Dump) -> AcrossEngines | None:
    """What matches tensors of two engines; ``None``: both runs are of one."""
    infos = first.run_info(), second.run_info()
    names = {info.engine for info in infos if info is not None}
    return AcrossEngines(first, second) if len(names) > 1 else None


def _tells_modules(dump: Dump) -> bool:
    graph, info = dump.graph(), dump.run_info()
    if graph is None or info is None:
        return False
    if info.engine == "onnx":
        return any(
            name[0] == "/" or SCOPES in node.attributes for name, node in graph.nodes.items()
        )
    return True


def _module(datum: Datum, node: Node | None) -> str:
    """The path of the module that a node is of: ``encoder.layers.0``."""
    told = node.attributes.get(SCOPES) if node is not None else None
    if told is None:
        path = datum.node_name.rpartition("/")[0]
        return path.strip("/").replace("/", ".")
    try:
        scopes = [str(each) for each in ast.literal_eval(told)]
    except (ValueError, SyntaxError, TypeError):
        return ""
    return scopes[-2] if len(scopes) > 1 else ""


def _plain(op_type: str) -> str:
    """``native_layer_norm`` and ``LayerNormalization`` are ``layernorm``."""
    words = re.sub(r"[^a-z]", "", op_type.lower())
    return words.removeprefix("native").removesuffix("alization").removesuffix("backend")


def _size(datum: Datum) -> tuple[int, ...] | None:
    """Some engines compute with batch and sequence as one dimension: how many, and the last."""
    shape = known_shape(datum)
    return None if shape is None else (math.prod(shape), *shape[-1:])
