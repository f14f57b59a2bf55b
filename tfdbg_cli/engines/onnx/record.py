"""What a run of ONNX Runtime has computed, as a dump."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from tfdbg_cli.common.errors import one_line
from tfdbg_cli.common.interpreter.program_signals import contained, pass_on
from tfdbg_cli.dumps.datum import Datum
from tfdbg_cli.dumps.dtypes import dtype_by_name
from tfdbg_cli.dumps.graph import Graph
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.dumps.run_info import RunInfo
from tfdbg_cli.engines.base import Watch
from tfdbg_cli.engines.kit.clock import Clock
from tfdbg_cli.engines.kit.stacks import Stack
from tfdbg_cli.engines.kit.watch_matcher import WatchMatcher
from tfdbg_cli.engines.onnx.graph import nodes_of
from tfdbg_cli.engines.onnx.inside import Inner, Insides
from tfdbg_cli.engines.onnx.model import INITIALIZER, INPUT, Model
from tfdbg_cli.engines.onnx.redo import redo_of
from tfdbg_cli.engines.onnx.requests import Request
from tfdbg_cli.engines.onnx.traits import TRAITS
from tfdbg_cli.engines.onnx.twin import Twin
from tfdbg_cli.engines.onnx.values import as_feed, as_value

__all__ = ["Record", "dump_of_outside"]

#: From such a difference on, relative to the largest element, the twin computes something else.
_FAR = 1e-2
#: Runs that the twin makes up for, of a model that draws random numbers.
_MOST_MISSED = 100


class Record:
    """Makes the dump of a run that the program's session has made.

    Args:
        session: it.
        model: what it computes.
        twin: gives the rest; or why there is none.
        missed: runs of the session before this one that the twin hasn't made.

    Attributes:
        has_caught_up: the twin has made as many as the session, or never will.
    """

    def __init__(self, session: Any, model: Model, twin: Twin | str, missed: int) -> None:
        self._session = session
        self._model = model
        self._twin = twin
        self._missed = missed
        self.has_caught_up = False

    def dump(
        self,
        request: Request,
        watch: Watch,
        stack: Stack,
        outputs: Mapping[str, Any],
        error: BaseException | None,
    ) -> MemoryDump:
        """All that is known.

        Args:
            request: what was asked for.
            watch: what is wanted of it.
            stack: of the call.
            outputs: what the program's session has given.
            error: that it has raised.
        """
        model = self._model
        matcher = WatchMatcher(watch)
        feeds = {name: as_feed(value) for name, value in request.feeds.items()}
        passed: set[str] = set()
        graph = Graph(functools.partial(nodes_of, model, stack, passed))
        dump = MemoryDump(graph, run_info=RunInfo(engine=TRAITS.name))
        dump.redo = redo_of(model)
        found, notes = self._values(request, feeds, matcher, error)
        for name, value in outputs.items():
            known = as_value(value)
            if name in found:
                _compare(name, known, found[name], notes)
            found[name] = _own(known)
        inner = self._insides(feeds, found, notes, passed)
        dump.warnings += dict.fromkeys(notes)
        for each in _data(model, feeds, found, matcher, inner):
            dump.add_datum(each)
        return dump

    def _insides(
        self,
        feeds: Mapping[str, Any],
        found: Mapping[str, Any],
        notes: list[str],
        passed: set[str],
    ) -> dict[str, list[Inner]]:
        """What branches and loops have computed, by their nodes.

        Args:
            feeds, found: values, by the model's names.
            notes: gets what is to be said.
            passed: gets the loops that were not gone round.
        """
        model = self._model
        nodes = [node for node in model.nodes if node.body]
        if not nodes or not found:
            return {}
        insides = Insides(self._session, model)
        known = {name: as_value(value) for name, value in feeds.items()}
        made: dict[str, list[Inner]] = {}
        try:
            weights = model.weights.items()
            known.update((name, each.load()) for name, each in weights if name in model.tensors)
            known.update(found)
        except Exception as error:  # the rest of the run is shown all the same
            pass_on(error)
            notes.append(f"The inside of branches and loops isn't shown: {one_line(error)}")
            return {}
        for node in nodes:
            inner = made[node.name] = []
            try:
                inner.extend(insides.of(node, known))
            except Exception as error:
                pass_on(error)
                notes.append(f"Not all of the inside of {node.name} is shown: {one_line(error)}")
        notes += insides.notes
        passed |= insides.passed
        return made

    def _values(
        self,
        request: Request,
        feeds: Mapping[str, Any],
        matcher: WatchMatcher,
        error: BaseException | None,
    ) -> tuple[dict[str, Any], list[str]]:
        """What the twin computes, by the model's names, and what is to be said of it."""
        model, twin = self._model, self._twin
        if isinstance(twin, str):
            return {}, [f"Only inputs, initializers and outputs are known. {twin}"]
        if request.unknown:
            names = ", ".join(request.unknown)
            return {}, [f"Only outputs are known: {names} was bound by its address."]
        wanted = [
            name
            for node in model.nodes
            if matcher.wants_name(node.name) or any(each.body for each in model.nodes)
            for name in node.outputs.values()
        ]
        # What the program's session gives as outputs is compared with what the twin does.
        wanted += [name for name in request.names if name in twin.names and name not in wanted]
        notes = self._catch_up(twin, feeds)
        self.has_caught_up = True
        if error is None and request.found is not None and twin.names <= request.found.keys():
            return {name: as_value(request.found[name]) for name in wanted}, notes
        if error is None:
            try:
                return twin.run(feeds, wanted, request.options), notes
            except Exception as raised:
                pass_on(raised)
                error = raised
                notes.append(f"The twin without optimisations fails: {one_line(raised)}")
        else:
            try:
                twin.run(feeds, wanted)
            except Exception as raised:  # it names the node as the model has it
                pass_on(raised)
                error = raised
        return self._before(feeds, error, wanted), notes

    def _before(
        self, feeds: Mapping[str, Any], error: BaseException, wanted: Sequence[str]
    ) -> dict[str, Any]:
        """What was computed before the node that failed."""
        model = self._model
        failed = model.node_of_error(error)
        while failed is not None and failed.owner is not None:
            failed = failed.owner
        if failed is None:
            return {}
        at = model.nodes.index(failed)
        names = {name for node in model.nodes[:at] for name in node.outputs.values()}
        with contained:  # bad inputs: nothing was computed
            cut = Twin(self._session, model, at)
            return cut.run(feeds, [name for name in wanted if name in names])
        return {}

    def _catch_up(self, twin: Twin, feeds: Mapping[str, Any]) -> list[str]:
        """Let the twin's random numbers be those of the run, where they can be."""
        model = self._model
        if not model.random:
            return []
        names = ", ".join(node.name for node in model.random[:5])
        seeded = (
            any(attribute.name == "seed" for attribute in node.proto.attribute)
            for node in model.random
        )
        if not all(seeded) or self._missed > _MOST_MISSED:
            return [f"Random or stateful nodes ({names}): what is shown is the twin's own draw."]
        outputs = sorted(twin.names)[:1]
        for _ in range(self._missed):
            try:
                twin.run(feeds, outputs)
            except Exception as error:
                pass_on(error)
                break
        return []


def dump_of_outside(request: Request, outputs: Mapping[str, Any], obstacle: str) -> MemoryDump:
    """What is known of a run of a session whose model can't be read.

    Args:
        request: what was asked for.
        outputs: what it has given.
        obstacle: why the model can't be read.
    """
    dump, now = MemoryDump(Graph(())), Clock().now()
    for name, value in (*request.feeds.items(), *outputs.items()):
        dump.add(name.removesuffix(":0"), 0, _own(as_value(value)), timestamp=now)
    dump.warnings.append(f"Only inputs and outputs are known. {obstacle}")
    return dump


def _compare(name: str, real: Any, twins: Any, notes: list[str]) -> None:
    """Say so where the twin computes something else than the program's session."""
    if not (isinstance(real, np.ndarray) and isinstance(twins, np.ndarray)):
        return
    if real.dtype.kind not in "fc" or real.shape != twins.shape or not real.size:
        return
    with np.errstate(all="ignore"):
        is_bad = ~np.isfinite(real), ~np.isfinite(twins)
        if (is_bad[0] != is_bad[1]).any():
            notes.append(
                f"{name} isn't bad at the same places without optimisations: what made it so "
                "may be a fused op (set graph_optimization_level to see)."
            )
            return
        good = ~is_bad[0]
        size = np.abs(real[good]).max(initial=0)
        if size and np.abs(real[good] - twins[good]).max(initial=0) > _FAR * size:
            notes.append(f"{name} is another one without optimisations: the twin's values differ.")


def _own(value: Any) -> Any:
    """A value that nobody else writes to."""
    return value.copy() if isinstance(value, np.ndarray) else value


def _data(
    model: Model,
    feeds: Mapping[str, Any],
    found: Mapping[str, Any],
    matcher: WatchMatcher,
    inner: Mapping[str, Sequence[Inner]],
) -> Iterable[Datum]:
    """Inputs, initializers, then what was computed, in the order of the model."""
    now = Clock().now()

    def wants(node: str, op_type: str, value: Any) -> bool:
        dtype = getattr(value, "dtype", None)
        name = "string" if dtype is not None and dtype.kind in "OSU" else str(dtype or "")
        return matcher.wants(node, op_type, name)

    for node, name in model.inputs.items():
        value = as_value(feeds[name]) if name in feeds else None
        if value is not None and wants(node, INPUT, value):
            yield Datum(node, 0, functools.partial(_same, value), timestamp=now)
    for name, weight in model.weights.items():
        if name in feeds:
            value = as_value(feeds[name])
            yield Datum(weight.node, 0, functools.partial(_same, value), timestamp=now)
        elif matcher.wants(weight.node, INITIALIZER, weight.dtype):
            count = int(np.prod(weight.shape, dtype=np.int64))
            width = _width(weight.dtype)
            yield Datum(
                weight.node,
                0,
                functools.cache(weight.load),
                timestamp=now,
                dtype=weight.dtype,
                shape=weight.shape,
                nbytes=count * width if width else None,
            )
    for each in model.nodes:
        for part in inner.get(each.name, ()):
            if wants(part.node.name, part.node.op_type, part.value):
                load = functools.partial(_same, part.value)
                yield Datum(part.node.name, part.slot, load, timestamp=now)
        for slot, name in each.outputs.items():
            if name in found and wants(each.name, each.op_type, found[name]):
                yield Datum(each.name, slot, functools.partial(_same, found[name]), timestamp=now)


def _same(value: Any) -> Any:
    return value


def _width(dtype: str) -> int:
    known = dtype_by_name(dtype)
    return known.itemsize if known is not None else 0
