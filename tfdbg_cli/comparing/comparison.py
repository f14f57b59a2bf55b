"""Where two runs part: each tensor of the first beside its counterpart, in the order of time."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Iterator, Sequence
from math import prod
from typing import Any, NamedTuple

from tfdbg_cli.common.arrays import np
from tfdbg_cli.common.errors import DumpError, one_line
from tfdbg_cli.comparing.alignment import FED, ORDER, Pair
from tfdbg_cli.comparing.bars import Bar, Bars
from tfdbg_cli.comparing.digests import digest_gap, digest_in
from tfdbg_cli.comparing.floors import floor_of
from tfdbg_cli.comparing.gaps import CODES, SHAPES, Gap, beyond, difference, epsilon, gap
from tfdbg_cli.comparing.given import APART, NEAR, SAME, CommonInputs, Found, Judgements
from tfdbg_cli.comparing.left import Left
from tfdbg_cli.comparing.origins import Side
from tfdbg_cli.comparing.regions import inside
from tfdbg_cli.dumps.datum import Datum, known_dtype
from tfdbg_cli.dumps.dump import Dump
from tfdbg_cli.dumps.graph import node_name_of
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
# So often pairs are taken apart, and what is left is judged again.
_MOST_ROUNDS = 4


class Row(NamedTuple):
    """One pair, judged.

    Attributes:
        pair: the tensors.
        gap: how far they are apart; of one that is alone nothing.
        bar: what was allowed.
        is_beyond: whether that is too far, or one is alone.
        said: one of the constants of this module, where it is beyond; else empty.
        others: the tensors that only the first, and that only the second run has computed it from.
        is_sure: whether all that it was computed from was kept.
    """

    pair: Pair
    gap: Gap
    bar: Bar
    is_beyond: bool
    said: str = ""
    others: Sequence[Sequence[str]] = ()
    is_sure: bool = True

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
        before: what the runs before have left within the bar; this comparison adds to it.
    """

    def __init__(
        self,
        first: Dump,
        second: Dump,
        pairs: Sequence[Pair],
        bars: Bars | None = None,
        before: Left | None = None,
    ) -> None:
        self._before = before
        self.first, self.second = first, second
        self.bars = bars or Bars()
        info, other_info = first.run_info(), second.run_info()
        self._results: set[str] = set()
        # JAX's functions have no other effects.
        self._are_results_known = info is not None and info.engine == "jax" and bool(info.outputs)
        if info is not None:
            results = (name for name, is_one in (info.results or {}).items() if is_one)
            self._results = {*info.outputs.values(), *info.fetches, *results}
        # Of an engine that nobody has noted it is taken to be the same.
        self._is_across = bool(info and other_info and info.engine != other_info.engine)
        self._is_settled = self._is_across
        self._begin(pairs)

    def _begin(self, pairs: Sequence[Pair]) -> None:
        self.pairs = pairs
        # What each tensor of one run is in the other, one for each execution; "": isn't there.
        counterparts: dict[str, set[str]] = defaultdict(set)
        second_counterparts: dict[str, set[str]] = defaultdict(set)
        for pair in pairs:
            first_name, second_name = (each.tensor_name if each else "" for each in pair[:2])
            counterparts[first_name].add(second_name)
            second_counterparts[second_name].add(first_name)
        self.sides = Side(self.first, counterparts), Side(self.second, second_counterparts)
        self._known = Judgements(self.sides)
        self._rows: list[Row] = []
        self._next = 0
        self._coarsest = ""

    def rows(self) -> Iterator[Row]:
        """All pairs in order, judged one by one."""
        at = 0
        while at < len(self._rows) or self._next < len(self.pairs):
            if at == len(self._rows):
                self._judge_next()
            row = self._rows[at]
            if not self._is_settled and row.is_beyond and row.is_pair and self._may_be_none(row):
                self._settle()
            yield self._rows[at]
            at += 1

    def _may_be_none(self, row: Row) -> bool:
        """Whether a pair may be taken apart: the two runs don't compute all by the same ops."""
        return row.said == OTHER_INPUTS or _is_none(row) or self._has_others

    @functools.cached_property
    def _has_others(self) -> bool:
        return any(
            first is None
            or second is None
            or self.first.op_type(first.node_name) != self.second.op_type(second.node_name)
            for first, second, _ in self.pairs
        )

    def _judge_next(self) -> None:
        pair = self.pairs[self._next]
        self._next += 1
        self._rows += self._with_view(self._judged(pair))

    def _settle(self) -> None:
        """Take pairs apart that are inside of what both runs compute in other ways.

        What was judged before the first doubted row stays as it was.
        """
        self._is_settled = True
        for _ in range(_MOST_ROUNDS):
            while self._next < len(self.pairs):
                self._judge_next()
            rows = [row for row in self._rows if row.is_pair and not row.datum.is_view]
            apart = [row.pair for row in rows if row.is_beyond]
            doubted = [row.pair for row in rows if row.is_beyond and not self._is_certain(row)]
            near = [row.pair for row in rows if not row.is_beyond]
            are_known = self._are_results_known
            pairs_inside = inside(self.sides, apart, doubted, near, are_results_known=are_known)
            found = set(map(id, pairs_inside))
            found |= {
                id(row.pair)
                for row in rows
                if (_is_none(row) or self._is_one_of_copies(row)) and not self._is_certain(row)
            }
            if not found:
                return
            pairs: list[Pair] = []
            for pair in self.pairs:
                is_one = id(pair) in found
                pairs += [Pair(pair.first, None), Pair(None, pair.second)] if is_one else [pair]
            self._begin(pairs)
        while self._next < len(self.pairs):
            self._judge_next()

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
        if are_arrays and one.size == other.size and one.shape != other.shape:
            # A dimension of one element is no difference; another engine has others anyway.
            is_alike = [n for n in one.shape if n != 1] == [n for n in other.shape if n != 1]
            if self._is_across or is_alike:
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
        given = self._known.of(first, second) if pair.matched_by != FED else CommonInputs(True)
        op_type = self.first.op_type(first.node_name)
        is_same_op = op_type == self.second.op_type(second.node_name)
        dtypes = self._dtypes(first, second, given)
        is_same = given.is_same and is_same_op
        added = self._known.added(first)
        bar = self.bars.bar(dtypes, op_type, added, same_inputs=is_same)
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
        if is_beyond and bar.dtype and not given.is_start and given.state != APART:
            if found.is_partial:
                found = gap(*self.values(pair))
                bar = bar._replace(scale=found.scale)
            if not found.is_bad and not found.problem:
                step = epsilon(bar.dtype)
                floor = floor_of(self.sides, pair, found, step, given, added)
                bar = bar._replace(floor=floor)
            is_beyond = self._is_beyond(pair, found, bar, one, other)
        if self._before is not None and not found.is_equal and bar.dtype:
            if is_beyond and given.is_start and found.is_partial:
                found = gap(*self.values(pair))
            noted = self.sides, pair, found, bar.dtype
            if is_beyond and given.is_start and self._before.has(*noted):
                is_beyond, bar = False, bar._replace(floor=noted[2].max_abs)
            elif not is_beyond:
                self._before.add(*noted)
        state = SAME if found.is_equal else APART if is_beyond else NEAR
        self._known.note(first.node_name, state)
        if not is_beyond:
            coarsest = max(dtypes, key=epsilon)
            self._known.keep(Found(first, found.scale, found.max_abs, coarsest))
        others = given.alone if is_beyond and any(given.alone) else ()
        said = self._said(given, op_type, others) if is_beyond else ""
        return Row(pair, found, bar, is_beyond, said, others, given.is_sure)

    def _said(self, given: CommonInputs, op_type: str, others: Sequence[Sequence[str]]) -> str:
        if given.is_start:
            return AT_START if op_type in self.sides[0].memory else GIVEN
        if given.state == APART:
            return INPUTS_DIFFER
        return OTHER_INPUTS if others and not self._is_across else MADE_HERE

    def _dtypes(self, first: Datum, second: Datum, given: CommonInputs) -> Sequence[str]:
        """The dtypes of a pair, and coarser ones in which something before was computed."""
        own = known_dtype(first), known_dtype(second)
        if not epsilon(own[0]):
            return own
        first_side, second_side = self.sides
        is_coded = first_side.is_quantized(first.node_name) or second_side.is_quantized(
            second.node_name
        )
        codes = (CODES,) * is_coded
        if self._is_across:
            self._coarsest = max(*own, self._coarsest, key=epsilon)
            return (*own, self._coarsest, *codes)
        if given.is_same:
            return (*own, *codes)
        return (*own, *(each.dtype for each in given.read if each.apart), *given.dtypes, *codes)

    def _with_view(self, row: Row) -> list[Row]:
        """A row; before it the view by which its inputs differ, though what they show agrees."""
        first, second = row.pair.first, row.pair.second
        if row.said != MADE_HERE or self._is_across or first is None or second is None:
            return [row]
        node = self.sides[0].nodes.get(first.node_name)
        other = self.sides[1].nodes.get(second.node_name)
        inputs = zip(node.inputs if node else (), other.inputs if other else (), strict=False)
        for names in inputs:
            for pair in reversed(self._chain(names, first.execution)):
                found = self._judged_view(pair)
                if found.is_beyond:
                    self._known.note(found.datum.node_name, APART)
                    return [found, row._replace(said=INPUTS_DIFFER)]
            if self._are_other_views(*names, row):
                others = [[names[0]], [names[1]]]
                return [row._replace(said=OTHER_INPUTS, others=others)]
        return [row]

    def _are_other_views(self, name: str, other_name: str, row: Row) -> bool:
        """Whether both runs compute a tensor from views of other kinds, which differ."""
        assert row.pair.first is not None
        pair = self._views(name, other_name, row.pair.first.execution, are_alike=False)
        return pair is not None and self._judged_view(pair).is_beyond

    def _chain(self, names: tuple[str, str], execution: int) -> list[Pair]:
        """The views that lead to what both runs compute with, the last one first."""
        chain: list[Pair] = []
        while len(chain) < _DEEPEST and (pair := self._views(*names, execution)) is not None:
            chain.append(pair)
            node = self.sides[0].nodes.get(node_name_of(names[0]))
            other = self.sides[1].nodes.get(node_name_of(names[1]))
            if node is None or other is None or not node.inputs or not other.inputs:
                break
            names = node.inputs[0], other.inputs[0]
        return chain

    def _data_of(self, name: str, other_name: str, execution: int) -> Pair | None:
        """Two tensors by their names."""
        data, others = self.first.by_tensor(name), self.second.by_tensor(other_name)
        if not data or not others:
            return None
        one, other = (each[min(execution, len(each) - 1)] for each in (data, others))
        return Pair(one, other, "name")

    def _views(
        self, name: str, other_name: str, execution: int, *, are_alike: bool = True
    ) -> Pair | None:
        """Two views of one kind by their names; or of two kinds."""
        pair = self._data_of(name, other_name, execution)
        if pair is None or not all(each is not None and each.is_view for each in pair[:2]):
            return None
        ops = self.first.op_type(node_name_of(name)), self.second.op_type(node_name_of(other_name))
        return pair if (ops[0] == ops[1]) is are_alike else None

    def _judged_view(self, pair: Pair) -> Row:
        assert pair.first is not None
        assert pair.second is not None
        bar = self.bars.bar(
            (known_dtype(pair.first), known_dtype(pair.second)), "", 1, same_inputs=False
        )
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
        one, other = digest_in(self.first, first), digest_in(self.second, second)
        return digest_gap(one, other, first, second) if one and other else None

    def _is_beyond(self, pair: Pair, found: Gap, bar: Bar, one: Any, other: Any) -> bool:
        if found.is_equal:
            return False
        if bar.dtype == CODES and self._is_result(pair) and _has_lost_channels(one, other):
            return True
        if found.problem:
            return True
        if found.note:  # what can't be told isn't claimed
            dtypes = {known_dtype(each) for each in pair[:2] if each is not None}
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

    def _is_one_of_copies(self, row: Row) -> bool:
        """Whether an op that hands on several tensors hands on another one in each run."""
        first = row.pair.first
        if not row.others or first is None or len(self.first.by_node(first.node_name)) < 2:
            return False
        return self.sides[0].hands_on(first.node_name)

    def _is_certain(self, row: Row) -> bool:
        """Whether what is said of a pair holds, whatever comes of it: a batch, or a result."""
        is_batch = self.op_type(row) in self.sides[0].roles.batches
        return (row.said == GIVEN and (is_batch or row.pair.matched_by == FED)) or self._is_result(
            row.pair
        )

    def _is_result(self, pair: Pair) -> bool:
        datum = pair.first
        node = self.sides[0].nodes.get(datum.node_name) if datum is not None else None
        if datum is None or node is None:
            return False
        if self.sides[0].updates(datum.node_name):
            return True  # what a parameter is from now on
        label = node.attributes.get(f"tensor:{datum.output_slot}")
        return not {datum.tensor_name, label}.isdisjoint(self._results)


def _has_lost_channels(one: Any, other: Any) -> bool:
    """Whether numbers of the last dimension have become the same for all, where they were not."""
    if not isinstance(one, np.ndarray) or one.ndim < 2 or one.shape != np.shape(other):
        return False
    pair = (np.asarray(each).reshape(-1, one.shape[-1]) for each in (one, other))
    varies, still = ((each != each[:1]).any(0) for each in pair)
    return bool((varies & ~still).any())


def _is_none(row: Row) -> bool:
    """Whether a pair is none: computed from others, of another shape or matched by order alone."""
    by_order = row.pair.matched_by == ORDER
    is_elsewhere = bool(row.others) and (by_order or row.gap.problem.startswith(SHAPES))
    return is_elsewhere or (by_order and row.said == GIVEN)


def _cosine(one: Any, other: Any) -> float | None:
    arrays = np.asarray(one), np.asarray(other)
    if {dtype_kind(each.dtype) for each in arrays} & {"string", "other"}:
        return None
    return difference(*arrays).cosine
