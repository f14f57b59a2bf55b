"""Where two runs part: each tensor of the first beside its counterpart, in the order of time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from math import prod
from typing import Any, NamedTuple

from tfdbg_cli.common.arrays import np
from tfdbg_cli.common.errors import DumpError, one_line
from tfdbg_cli.common.traits import op_roles
from tfdbg_cli.comparing.alignment import Pair
from tfdbg_cli.comparing.bars import Bar, Bars
from tfdbg_cli.comparing.digests import digest_gap, digest_in
from tfdbg_cli.comparing.gaps import SHAPES, Gap, beyond, difference, epsilon, gap
from tfdbg_cli.dumps.datum import Datum
from tfdbg_cli.dumps.dump import Dump
from tfdbg_cli.dumps.graph import Node, node_name_of
from tfdbg_cli.tensors.numeric import dtype_kind

__all__ = [
    "AT_START",
    "GIVEN",
    "INPUTS_DIFFER",
    "MADE_HERE",
    "ONLY_FIRST",
    "ONLY_SECOND",
    "OTHER_INPUTS",
    "Comparison",
    "Row",
]

#: What is said of a row.
MADE_HERE = "made here"
INPUTS_DIFFER = "inputs differ"
OTHER_INPUTS = "other inputs"
AT_START = "at the start"
GIVEN = "given"
ONLY_FIRST, ONLY_SECOND = "only in A", "only in B"

# So many views of views are followed.
_DEEPEST = 20

# How far the tensors of a node are apart: all the same, bit for bit; within the bar; beyond it.
_SAME, _NEAR, _APART = range(3)


class Row(NamedTuple):
    """One pair, judged.

    Attributes:
        pair: the tensors.
        gap: how far they are apart; of one that is alone nothing.
        bar: what was allowed.
        is_beyond: whether that is too far, or one is alone.
        said: one of the constants of this module, where it is beyond; else empty.
        others: the tensors that only the first, and that only the second run has computed it from.
    """

    pair: Pair
    gap: Gap
    bar: Bar
    is_beyond: bool
    said: str = ""
    others: Sequence[Sequence[str]] = ()

    @property
    def is_pair(self) -> bool:
        """Whether both runs have it."""
        return self.pair.first is not None and self.pair.second is not None

    @property
    def datum(self) -> Datum:
        """The tensor of the first run, or the one that there is."""
        found = self.pair.first or self.pair.second
        assert found is not None
        return found


class Comparison:
    """Two runs, compared tensor by tensor as somebody asks.

    Args:
        first, second: the runs.
        pairs: their tensors.
        bars: how far two may be apart.
    """

    def __init__(
        self, first: Dump, second: Dump, pairs: Sequence[Pair], bars: Bars | None = None
    ) -> None:
        self.first, self.second, self.pairs = first, second, pairs
        self.bars = bars or Bars()
        self._nodes, self._second_nodes = (
            graph.nodes if graph is not None else {} for graph in (first.graph(), second.graph())
        )
        # What each tensor of one run is in the other, one for each execution; "": isn't there.
        self._counterparts: dict[str, set[str]] = defaultdict(set)
        self._second_counterparts: dict[str, set[str]] = defaultdict(set)
        for pair in pairs:
            first_name, second_name = (each.tensor_name if each else "" for each in pair[:2])
            self._counterparts[first_name].add(second_name)
            self._second_counterparts[second_name].add(first_name)
        self._states: dict[str, int] = {}
        self._rows: list[Row] = []
        self._next = 0
        info = first.run_info()
        roles = op_roles(info.engine if info is not None else "")
        other_info = second.run_info()
        # Of an engine that nobody has noted it is taken to be the same.
        self._is_across = bool(info and other_info and info.engine != other_info.engine)
        self._coarsest = ""
        self._memory = roles.weights | roles.reading | roles.buffers

    def rows(self) -> Iterator[Row]:
        """All pairs in order, judged one by one."""
        at = 0
        while at < len(self._rows) or self._next < len(self.pairs):
            if at == len(self._rows):
                pair = self.pairs[self._next]
                self._next += 1
                self._rows += self._with_view(self._judged(pair))
            yield self._rows[at]
            at += 1

    def values(self, pair: Pair) -> tuple[Any, Any]:
        """Both tensors of a pair, in the shape of the first where another engine has another one.

        Raises:
            DumpError: one can't be read.
            OSError: likewise.
        """
        assert pair.first is not None
        assert pair.second is not None
        one, other = self.first.value(pair.first), self.second.value(pair.second)
        are_arrays = isinstance(one, np.ndarray) and isinstance(other, np.ndarray)
        if self._is_across and are_arrays and one.size == other.size:
            other = other.reshape(one.shape)
        return one, other

    def op_type(self, row: Row) -> str:
        """That of the first run's tensor, or of the one that there is."""
        dump = self.first if row.pair.first is not None else self.second
        return dump.op_type(row.datum.node_name)

    def beyond(self) -> list[Row]:
        """Those that are too far apart, and those that are alone."""
        return [row for row in self.rows() if row.is_beyond]

    def first_apart(self) -> Row | None:
        """The first pair that is too far apart; nothing behind it is read.

        Between two engines the first op that makes the difference: an exporter writes other
        weights, which lead to the same.
        """
        apart = (row for row in self.rows() if row.is_beyond and row.is_pair)
        if not self._is_across:
            return next(apart, None)
        found = [*apart]
        return next((row for row in found if row.said == MADE_HERE), found[0] if found else None)

    def row_of(self, tensor_name: str) -> Row | None:
        """The first row beyond the bar with a tensor of this name, else the last one with it."""
        found = None
        for row in self.rows():
            names = [each.tensor_name for each in row.pair[:2] if each is not None]
            if tensor_name in names:
                if row.is_beyond:
                    return row
                found = row
        return found

    def view(self, tensor_name: str) -> Row | None:
        """A row about a view that both runs have; ``None``: there is none of that name."""
        pair = self._views(tensor_name, tensor_name, 0)
        return self._judged_view(pair) if pair is not None else None

    def exact(self, row: Row) -> Row:
        """A row with the gap and the scale of all elements, where some were enough to judge it."""
        if not row.gap.is_partial:
            return row
        try:
            found = gap(*self.values(row.pair))
        except (DumpError, OSError) as error:  # it can't be read any more
            return row._replace(gap=row.gap._replace(problem=one_line(error)))
        return row._replace(gap=found, bar=row.bar._replace(scale=found.scale))

    def _judged(self, pair: Pair) -> Row:
        first, second = pair.first, pair.second
        if first is None or second is None:
            said = ONLY_FIRST if second is None else ONLY_SECOND
            # Another engine computes by other ops.
            return Row(pair, Gap(), Bar(), not self._is_across, said)
        node = self._nodes.get(first.node_name)
        given = self._given(node)
        op_type = self.first.op_type(first.node_name)
        is_same_op = op_type == self.second.op_type(second.node_name)
        dtypes: tuple[str, ...] = _dtype(first), _dtype(second)
        if self._is_across:  # one may have computed what it got in a coarser dtype, and cast it
            self._coarsest = max(*dtypes, self._coarsest, key=epsilon)
            dtypes += (self._coarsest,) * bool(epsilon(dtypes[0]))
        bar = self.bars.bar(
            dtypes,
            op_type,
            self._added(first, node),
            same_inputs=given == _SAME and is_same_op,
        )
        # What is judged by its share of elements, or by the angle, is to be known in full.
        allowed = bar.limit_of if not bar.share and self.bars.cosine is None else None
        try:
            one = other = None
            known = self._by_digests(first, second)
            if known is None:
                one, other = self.values(pair)
                known = gap(one, other, allowed)
            found = known
        except (DumpError, OSError, ValueError) as error:
            one = other = None
            found = Gap(problem=one_line(error))
        bar = bar._replace(scale=found.scale)
        is_beyond = self._is_beyond(pair, found, bar, one, other)
        self._note(first.node_name, _SAME if found.is_equal else _APART if is_beyond else _NEAR)
        said, others = "", tuple[list[str], ...]()
        if is_beyond and not self._is_across:
            others = self._others(first, second)
        if is_beyond:
            made = OTHER_INPUTS if others else MADE_HERE
            made = INPUTS_DIFFER if given == _APART else made
            given_so = AT_START if op_type in self._memory else GIVEN
            said = given_so if given is None else made
        return Row(pair, found, bar, is_beyond, said, others)

    def _with_view(self, row: Row) -> list[Row]:
        """A row; before it the view by which its inputs differ, though what they show agrees."""
        first, second = row.pair.first, row.pair.second
        if row.said != MADE_HERE or self._is_across or first is None or second is None:
            return [row]
        node, other = self._nodes.get(first.node_name), self._second_nodes.get(second.node_name)
        inputs = zip(node.inputs if node else (), other.inputs if other else (), strict=False)
        for names in inputs:
            for pair in reversed(self._chain(names, first.execution)):
                found = self._judged_view(pair)
                if found.is_beyond:
                    self._note(found.datum.node_name, _APART)
                    return [found, row._replace(said=INPUTS_DIFFER)]
        return [row]

    def _chain(self, names: tuple[str, str], execution: int) -> list[Pair]:
        """The views that lead to what both runs compute with, the last one first."""
        chain: list[Pair] = []
        while len(chain) < _DEEPEST and (pair := self._views(*names, execution)) is not None:
            chain.append(pair)
            node = self._nodes.get(node_name_of(names[0]))
            other = self._second_nodes.get(node_name_of(names[1]))
            if node is None or other is None or not node.inputs or not other.inputs:
                break
            names = node.inputs[0], other.inputs[0]
        return chain

    def _views(self, name: str, other_name: str, execution: int) -> Pair | None:
        data, others = self.first.by_tensor(name), self.second.by_tensor(other_name)
        if not data or not others:
            return None
        one, other = (each[min(execution, len(each) - 1)] for each in (data, others))
        return Pair(one, other, "name") if one.is_view and other.is_view else None

    def _judged_view(self, pair: Pair) -> Row:
        assert pair.first is not None
        assert pair.second is not None
        bar = self.bars.bar((_dtype(pair.first), _dtype(pair.second)), "", 1, same_inputs=False)
        try:
            found = gap(*self.values(pair))
        except (DumpError, OSError, ValueError) as error:
            found = Gap(problem=one_line(error))
        bar = bar._replace(scale=found.scale)
        # What can't be read any more isn't claimed to differ.
        is_far = not found.is_equal and (found.is_bad or not found.max_abs <= bar.limit)
        is_beyond = is_far or found.problem.startswith(SHAPES)
        return Row(pair, found, bar, is_beyond, MADE_HERE if is_beyond else "")

    def _by_digests(self, first: Datum, second: Datum) -> Gap | None:
        """What their digests tell of two tensors; ``None``: they are to be read."""
        one, other = self.first.digest(first), self.second.digest(second)
        if self._is_across or (one is None and other is None):
            return None
        is_same = one is not None and other is not None and one.hash == other.hash
        if is_same and (first.dtype, first.shape) == (second.dtype, second.shape):
            return Gap(prod(first.shape or ()), True)
        if self.first.is_kept(first) and self.second.is_kept(second):
            return None
        one = one or digest_in(self.first, first)
        other = other or digest_in(self.second, second)
        return digest_gap(one, other, first, second) if one and other else None

    def _others(self, first: Datum, second: Datum) -> tuple[list[str], ...]:
        node = self._nodes.get(first.node_name)
        other = self._second_nodes.get(second.node_name)
        names = node.inputs if node is not None else ()
        others = other.inputs if other is not None else ()
        found = [
            [name for name in given if name in known and known[name].isdisjoint(theirs)]
            for given, known, theirs in (
                (names, self._counterparts, others),
                (others, self._second_counterparts, names),
            )
        ]
        is_alone = any("" in self._counterparts.get(name, ()) for name in names) or any(
            "" in self._second_counterparts.get(name, ()) for name in others
        )
        # Of several outputs of a node one may stand for all: what one run alone lists is no proof.
        return (*found,) if all(found) or (is_alone and any(found)) else ()

    def _is_beyond(self, pair: Pair, found: Gap, bar: Bar, one: Any, other: Any) -> bool:
        if found.is_equal:
            return False
        if found.problem:
            return True
        if found.note:  # what can't be told isn't claimed
            dtypes = {_dtype(each) for each in pair[:2] if each is not None}
            is_exact = len(dtypes) == 1 and not any(map(epsilon, dtypes))
            far = found.is_bad or is_exact or found.max_abs > bar.limit
            return far and not bar.share and self.bars.cosine is None
        least = self.bars.cosine
        if least is not None:
            from_angle = None if found.is_bad else _cosine(one, other)
            return from_angle is None or from_angle < least
        if not found.is_bad and found.max_abs <= bar.limit and found.max_abs:
            return False
        if not bar.share:
            return True
        return beyond(np.asarray(one), np.asarray(other), bar.limit) > bar.share * found.total

    def _note(self, node_name: str, state: int) -> None:
        self._states[node_name] = max(self._states.get(node_name, _SAME), state)

    def _given(self, node: Node | None) -> int | None:
        """How far the inputs of a node are apart; ``None``: it has none."""
        if node is None or not node.inputs or node.op_type in self._memory:
            return None
        return max(self._state(node_name_of(name)) for name in node.inputs)

    def _state(self, name: str) -> int:
        """How far a node's tensors are apart; of one that has none, what it was computed from."""
        known = self._states.get(name)
        if known is not None:
            return known
        waiting, seen, worst = [name], {name}, _SAME
        while waiting:
            node = self._nodes.get(waiting.pop())
            for each in map(node_name_of, node.inputs) if node is not None else ():
                state = self._states.get(each)
                if state is not None:
                    worst = max(worst, state)
                elif each not in seen:
                    seen.add(each)
                    waiting.append(each)
        # What comes later may yet be told of a node that isn't known by now.
        return worst

    def _added(self, datum: Datum, node: Node | None) -> int:
        """How many numbers were added up for one element: as many as the inputs have for each."""
        if node is None:
            return 1
        sizes = []
        for name in node.inputs:
            data = self.first.by_tensor(name)
            shape = data[-1].shape if data else None
            sizes.append(prod(shape) if shape is not None else 1)
        made = prod(datum.shape or ()) or 1
        if len(sizes) < 2:
            return max(max(sizes, default=1) // made, 1)
        # A product of matrices of n x k and k x m numbers adds k for each of n x m.
        largest, second = sorted(sizes)[-2:][::-1]
        return max(int((largest * second / made) ** 0.5), largest // made, 1)


def _cosine(one: Any, other: Any) -> float | None:
    arrays = np.asarray(one), np.asarray(other)
    if {dtype_kind(each.dtype) for each in arrays} & {"string", "other"}:
        return None
    return difference(*arrays).cosine


def _dtype(datum: Datum) -> str:
    try:
        return datum.dtype
    except Exception:  # it is damaged: the gap says so
        return ""
