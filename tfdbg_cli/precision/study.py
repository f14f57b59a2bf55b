"""What a narrower type would make of the ops of a program, over one run or several."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

from tfdbg_cli.common.arrays import np
from tfdbg_cli.common.errors import DumpError
from tfdbg_cli.common.interpreter.unwarned import unwarned
from tfdbg_cli.dumps.dump import Dump
from tfdbg_cli.dumps.sources import Frame, own_frame
from tfdbg_cli.filters.forward import ForwardPass
from tfdbg_cli.precision.ranges import Range
from tfdbg_cli.precision.shadow import NarrowRun, Shadow
from tfdbg_cli.precision.target import Target

__all__ = ["Kept", "Row", "Study"]

# A node of a gradient or an update, and the module of the forward op or of the parameter.
_LATER = re.compile(
    r"gradients/(?:(?P<module>[^/]+)/)?[^/]+_grad/"
    r"|(?:gradients|optimizer/[^/]+)/(?:(?P<owner>[^/]+)\.)?[^/]+/[^/]+"
    r"|gradients/"
)
# The part of the time that goes to following errors to what the run hands over.
_FOLLOWING = 0.6


@dataclass
class Row:
    """One op, or one module, in one narrower type.

    Attributes:
        name: of the node or the module.
        op_type: of the node; of a module, how many ops it has.
        target: the narrower type.
        range: of the tensors that it gives.
        error: that it makes by itself, the largest of all runs; ``None``: unknown.
        reach: what comes of that error in what the run hands over, where this op alone is in the
            narrower type; ``None``: unknown, or not of the forward pass.
        frame: the program's line.
    """

    name: str
    op_type: str
    target: Target
    range: Range = field(default_factory=Range)
    error: float | None = None
    reach: float | None = None
    frame: Frame | None = None

    @property
    def share_of_limit(self) -> float:
        """The largest magnitude, of the limit of the type."""
        return self.range.largest / self.target.limit

    @property
    def weight(self) -> tuple[float, ...]:
        """The worst rows have the largest: those that overflow, then by what their errors do."""
        return (
            self.range.share_beyond,
            self.reach if self.reach is not None else -1.0,
            self.error if self.error is not None else -1.0,
            self.range.share_lost,
            self.share_of_limit,
        )


@dataclass
class Kept:
    """Which ops have to stay as they are.

    Attributes:
        names: of nodes or modules.
        ops: the nodes.
        bar: the error that was allowed.
        error: what the run hands over is off by, all other ops being in the narrower type.
        error_of_all: the same with nothing kept.
        of: so many nodes or modules there are.
        unknown: an op that could not be computed again; empty: all could.
    """

    names: list[str] = field(default_factory=list)
    ops: list[str] = field(default_factory=list)
    bar: float = 0.0
    error: float = 0.0
    error_of_all: float = 0.0
    of: int = 0
    unknown: str = ""


class Study:
    """Gathers rows, run by run.

    Args:
        targets: the narrower types.
        by_module: a row is a module and not an op.
    """

    def __init__(self, targets: Sequence[Target], *, by_module: bool = False) -> None:
        self.targets = targets
        self.runs = 0
        #: Ops for which the time of a run didn't suffice.
        self.left = 0
        self._by_module = by_module
        self._rows: dict[tuple[str, str], Row] = {}
        self._kept: dict[str, Kept] = {}
        #: Type -> what a run gives with all ops in it, the worst of all runs.
        self.whole: dict[str, NarrowRun] = {}

    @property
    def rows(self) -> list[Row]:
        """All of them, the worst ones first."""
        return sorted(self._rows.values(), key=lambda row: row.weight, reverse=True)

    def unit(self, node: str) -> str:
        """The row that a node belongs to: itself, or the module that it is in."""
        if not self._by_module:
            return node
        later = _LATER.match(node)
        if later is not None:
            return later["module"] or later["owner"] or node
        return node.rpartition("/")[0] or node

    def add(self, dump: Dump, seconds: float) -> None:
        """Measure a run.

        Args:
            dump: of it, with its values.
            seconds: to be spent at most; what isn't known until then stays unknown.
        """
        self.runs += 1
        share = seconds / len(self.targets)
        with unwarned(), np.errstate(all="ignore"):  # the program's warnings are its own
            for target in self.targets:
                self._add(dump, target, share)

    def _add(self, dump: Dump, target: Target, seconds: float) -> None:
        begin = time.monotonic()
        self._count(dump, target)
        if dump.redo is None:
            return
        shadow = Shadow(dump, target, begin + seconds)
        whole = shadow.narrowed({*shadow.ops})
        known = self.whole.setdefault(target.name, whole)
        if (bool(whole.bad), whole.error) > (bool(known.bad), known.error):
            self.whole[target.name] = whole
        self._measure(shadow, target, begin + seconds * (1 - _FOLLOWING))

    def _count(self, dump: Dump, target: Target) -> None:
        graph = dump.graph()
        forward = ForwardPass(graph) if graph is not None else None
        for datum in dump.data():
            if datum.is_view or not datum.dtype.startswith(("float", "bfloat")):
                continue
            if forward is not None and not forward.counts(datum.tensor_name):
                continue
            try:
                value = datum.get_tensor()
            except DumpError:
                continue
            if not isinstance(value, np.ndarray):
                continue
            node = graph.nodes.get(datum.node_name) if graph is not None else None
            if self._by_module and node is not None and not node.inputs:
                continue  # parameters and inputs are of no module here
            row = self._row(datum.node_name, node.op_type if node is not None else "", target)
            if node is not None and row.frame is None:
                row.frame = own_frame(node.frames or ())
            row.range.add(value, target)

    def _row(self, node: str, op_type: str, target: Target) -> Row:
        name = self.unit(node)
        kind = "" if self._by_module else op_type
        return self._rows.setdefault((name, target.name), Row(name, kind, target))

    def _measure(self, shadow: Shadow, target: Target, until: float) -> None:
        rows = [row for (_, kind), row in self._rows.items() if kind == target.name]
        errors = {}
        names = [*self._nodes(shadow, rows)]
        for place, name in enumerate(names):
            if time.monotonic() > until:
                self.left += len(names) - place
                break
            row = self._rows.get((self.unit(name), target.name))
            error = shadow.op_error(name)
            if row is not None and error is not None:
                row.error = max(row.error or 0.0, error)
                errors[name] = error
        units: dict[str, list[str]] = {}
        for name in sorted(shadow.ops, key=lambda name: -errors.get(name, 0.0)):
            units.setdefault(self.unit(name), []).append(name)
        for place, (unit, ops) in enumerate(units.items()):
            if shadow.is_late:
                self.left = max(self.left, len(units) - place)
                break
            row = self._rows.get((unit, target.name))
            found = shadow.narrowed({*ops})
            if row is not None and not (found.unknown and shadow.is_late):
                row.reach = max(row.reach or 0.0, found.error)

    def _nodes(self, shadow: Shadow, rows: Sequence[Row]) -> Iterator[str]:
        """Those whose errors are measured: of the forward pass first."""
        yield from shadow.ops
        if not self._by_module:
            forward = {*shadow.ops}
            yield from (row.name for row in rows if row.name not in forward)

    def keep(self, dump: Dump, target: Target, bar: float, seconds: float) -> Kept:
        """Find the fewest ops that keep what the run hands over within a bar.

        Greedy: first those that overflow, one after the other, then those whose errors reach
        furthest; what turns out not to be needed is let go again. What was kept for earlier runs
        stays.

        Args:
            dump: of a run that was added.
            target: one of the types.
            bar: the error that is allowed (`relative_error`).
            seconds: to be spent at most.

        Returns:
            The ops; their error is above the bar if the time didn't suffice, or if even float32
            doesn't keep it.
        """
        with unwarned(), np.errstate(all="ignore"):
            return self._keep(Shadow(dump, target, time.monotonic() + seconds), target, bar)

    def _keep(self, shadow: Shadow, target: Target, bar: float) -> Kept:
        units: dict[str, list[str]] = {}
        for name in shadow.ops:
            units.setdefault(self.unit(name), []).append(name)
        before = self._kept.get(target.name, Kept())
        names = [name for name in before.names if name in units]
        search = _Search(shadow, units)
        of_all = search.error([])
        error = search.settle(names, bar)
        if error > bar:
            order = sorted(units, key=lambda unit: -self._reach(unit, target))
            error = search.extend(names, [unit for unit in order if unit not in names], bar)
        error = search.thin(names, {*before.names}, bar, error)
        kept = Kept(
            names=sorted(names, key=[*units].index),
            ops=[op for unit, ops in units.items() if unit in names for op in ops],
            bar=bar,
            error=max(error, before.error),
            error_of_all=max(of_all, before.error_of_all),
            of=len(units),
            unknown=search.unknown or before.unknown,
        )
        self._kept[target.name] = kept
        return kept

    def _reach(self, unit: str, target: Target) -> float:
        row = self._rows.get((unit, target.name))
        return row.reach or 0.0 if row is not None else 0.0


class _Search:
    """Tries which of the units are kept."""

    def __init__(self, shadow: Shadow, units: dict[str, list[str]]) -> None:
        self._shadow, self._units = shadow, units
        self.unknown = ""
        self._bad = ""

    def error(self, names: Collection[str]) -> float:
        """What comes of it if these are kept; infinite where something overflows."""
        ops = {op for unit, ops in self._units.items() if unit not in names for op in ops}
        found = self._shadow.narrowed(ops)
        self._bad = found.bad
        self.unknown = self.unknown or found.unknown
        return math.inf if found.bad else found.error

    def settle(self, names: list[str], bar: float) -> float:
        """Keep what overflows, one after the other, until nothing does."""
        error = self.error(names)
        owner = {op: unit for unit, ops in self._units.items() for op in ops}
        while error > bar and self._bad in owner and owner[self._bad] not in names:
            if self._shadow.is_late:
                return error
            names.append(owner[self._bad])
            error = self.error(names)
        return error

    def extend(self, names: list[str], order: Sequence[str], bar: float) -> float:
        """Keep as many of the next ones as it takes: by halves, as more of them is never worse."""
        low, high = 0, len(order)
        while low < high and not self._shadow.is_late:
            middle = (low + high) // 2
            if self.error([*names, *order[:middle]]) <= bar:
                high = middle
            else:
                low = middle + 1
        names += order[:high]
        return self.error(names)

    def thin(self, names: list[str], fixed: Collection[str], bar: float, error: float) -> float:
        """Let go what isn't needed; what was kept last is the likeliest."""
        for name in [each for each in reversed(names) if each not in fixed]:
            if self._shadow.is_late or error > bar:
                break
            without = self.error([each for each in names if each != name])
            if without <= bar:
                names.remove(name)
                error = without
        return error
