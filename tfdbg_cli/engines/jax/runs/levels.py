"""The levels at which calls of compiled functions are looked at."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from tfdbg_cli.common.interpreter.program_signals import pass_on
from tfdbg_cli.dumps.dump import CannotRedo, Datum, NewValues
from tfdbg_cli.dumps.finite import all_finite
from tfdbg_cli.dumps.graph import Graph, Node
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.dumps.run_info import RunInfo
from tfdbg_cli.engines.base import Capture, Watch
from tfdbg_cli.engines.jax.plans.names import node_name, part_name
from tfdbg_cli.engines.jax.plans.ops import Op
from tfdbg_cli.engines.jax.plans.plan import Plan
from tfdbg_cli.engines.jax.plans.redo import redo_of
from tfdbg_cli.engines.jax.plans.replay import Replay
from tfdbg_cli.engines.jax.plans.shards import Shards
from tfdbg_cli.engines.jax.plans.values import as_array, datum_of, distance, is_floating, size_of
from tfdbg_cli.engines.jax.runs.calls import Call, Leaf
from tfdbg_cli.engines.jax.runs.copies import array_like
from tfdbg_cli.engines.jax.traits import TRAITS
from tfdbg_cli.engines.kit.clock import Clock
from tfdbg_cli.engines.kit.levels import FULL, CaptureLevel
from tfdbg_cli.engines.kit.numbering import Numbering
from tfdbg_cli.engines.kit.recording.holding import Holder
from tfdbg_cli.engines.kit.watch_matcher import WatchMatcher
from tfdbg_cli.tensors.numeric import any_nonfinite

__all__ = ["INCOMPLETE", "OUTPUTS", "OutputsLevel", "ReplayLevel", "ReplayedRun", "is_of_run"]

# What JAX says of a nan or an infinity that it was told to look for.
_FOUND = re.compile(r"[Ii]nvalid value \((nan|inf)\) encountered in ")

#: What comes out of compiled functions, and what is bad op by op afterwards.
OUTPUTS = "outputs"
#: What is said of a run that could not be done again to its end.
INCOMPLETE = "Incomplete"


class ReplayedRun:
    """The calls of a run, done once more op by op; what is made of that.

    Args:
        watch: what is kept.
        names: what the program calls arrays that the run gets, by their identity.

    Attributes:
        dump: every tensor of them.
        inputs: the path of an argument -> its tensor.
        outputs: where a result is in what was returned -> its tensor.
        failed: the node that has raised the run's error.
        has_loops: a tensor may be in the dump many times.
        notes: what else there is to say of it.
    """

    def __init__(self, watch: Watch, names: Mapping[int, str] | None = None) -> None:
        self._matcher = WatchMatcher(watch)
        self._names = names or {}
        self._numbering = Numbering()
        self._holder = Holder(watch.limit, as_array)
        self._clock = Clock()
        nodes: list[Node] = []
        self._nodes = nodes
        self._types: dict[str, str] = {}
        self._tensors: dict[int, tuple[str, Any]] = {}
        self._sharded: dict[str, Shards] = {}
        # Not by way of this: a cycle would keep arrays that the program has let go of.
        self.dump = MemoryDump(lambda: Graph(nodes), run_info=RunInfo(engine=TRAITS.name))
        self._ops: dict[str, Op] = {}
        self.dump.redo = redo_of(self._ops)
        self.inputs: dict[str, str] = {}
        self.outputs: dict[str, str] = {}
        self.results: dict[str, bool] = {}
        self.failed = ""
        self.notes: list[tuple[str, str]] = []
        self.has_gradients = False
        self.has_loops = False
        #: The program's other processes don't do it, too.
        self.is_alone = False

    def tensor_name(self, tensor: Any) -> str:
        """``node:slot`` of an array; empty: it is none of these calls'."""
        return self._tensors.get(id(tensor), ("",))[0]

    def make_replay(self, *args: Any) -> Replay:
        """What does a call op by op."""
        return Replay(*args)

    def add(self, call: Call) -> None:
        """Do one more call."""
        call.recall()
        if call.replayed:
            self.notes.append(("Arguments", call.replayed))
        closed = call.jaxpr
        if not call.can_be_replayed():
            text = call.lost or (
                f"{call.title} writes to mutable arrays (jax.new_ref) that are none of its "
                "arguments: it is not done twice"
            )
            self._add_whole(call, text)
            return
        if call.is_spread and (self.is_alone or call.any_process(True) is None):
            text = (
                f"{call.title} is computed by several processes, which can only do it once more "
                "together: not all of them were here"
            )
            self._add_whole(call, text)
            return
        leaves = [
            leaf._replace(path=self._names.get(id(leaf.original), leaf.path))
            for leaf in call.named()
        ]
        given = [self.tensor_name(leaf.value) for leaf in leaves]
        plan = Plan(
            closed,
            [leaf.path for leaf in leaves],
            self._numbering,
            given,
            call.output_paths,
            call.frames,
            call.scope,
            call.may_be_gradient,
        )
        self.has_gradients = self.has_gradients or plan.has_gradients
        self.has_loops = self.has_loops or any(
            node.op_type in ("Carry", "Slice") for node in plan.nodes
        )
        self._nodes += plan.nodes
        self._ops.update((op.name, op) for op in plan.block.ops_once())
        self._sharded.update(plan.sharded)
        self._types.update((node.name, node.op_type) for node in plan.nodes)
        for name, value in plan.constants:
            self._tell(name, 0, value, is_owned=True)
        for name, known, leaf in zip(plan.input_names, given, leaves, strict=True):
            if name:
                self._tell(name, 0, leaf.value, is_owned=True)
                self._tensors.setdefault(id(leaf.value), (f"{name}:0", leaf.value))
            self.inputs[leaf.path] = known or f"{name}:0"
        replay = self.make_replay(self._tell, call.callbacks.copy(), call.error)
        values = call.values()
        try:
            made = replay.run(plan.block, values)
        except Exception as error:
            pass_on(error)
            at = replay.at
            if at is None:
                raise
            self.failed = at.name
            if call.error is None:
                text = f"the replay ended at {at.name}: {error}"
                self.notes.append((INCOMPLETE, text.partition("\n")[0]))
            return
        self.notes += [
            (INCOMPLETE, f"{name} was done as one op: {why}") for name, why in replay.wholes
        ]
        if self._holder.problem:
            self.notes.append(("Memory", self._holder.problem))
        if call.error is None:
            self._end(call, plan, made)
            self._written(call, [leaf for leaf in leaves if leaf.is_ref], plan)

    def _add_whole(self, call: Call, why: str) -> None:
        """What a call that isn't done again was given and has returned, as one op."""
        self.notes.append((INCOMPLETE, why))
        taken = []
        for leaf in call.named():
            tensor = self.tensor_name(leaf.value)
            if not tensor:
                name = self._numbering.name(node_name(leaf.path) or "input")
                self._nodes.append(Node(name, "Argument", attributes={"path": leaf.path}))
                self._tell(name, 0, leaf.value, is_owned=True)
                tensor = f"{name}:0"
            taken.append(tensor)
            self.inputs[leaf.path] = tensor
        name = self._numbering.name(part_name(call.title) or "call")
        self._nodes.append(Node(name, "jit", taken, frames=call.frames))
        if call.error is not None:
            self.failed = name
            return
        for slot, (path, value) in enumerate(zip(call.output_paths, call.outputs, strict=True)):
            self._tell(name, slot, value, is_owned=True)
            self.outputs[f"result{path}"] = f"{name}:{slot}"
            self.results[f"{name}:{slot}"] = True

    def _end(self, call: Call, plan: Plan, made: Sequence[Any]) -> None:
        """What was returned is what was computed: it has the names of that."""
        differing = []
        for path, tensor, value, replayed in zip(
            call.output_paths, plan.outputs, call.outputs, made, strict=True
        ):
            if not tensor:
                continue
            self._tensors[id(value)] = (tensor, value)
            self.outputs[f"result{path}"] = tensor
            self.results[tensor] = True
            apart = distance(value, replayed)
            if apart:
                differing.append((apart, path, tensor))
        if differing:
            largest, path, tensor = max(differing)
            how = f"by {largest:.1e} of the largest number at most"
            if not math.isfinite(largest):
                how = "one in whether it is finite"
            self.notes.append(
                (
                    "Replayed",
                    f"op by op, {len(differing)} of {len(made)} results differ from those of the "
                    f"compiled function, {how} "
                    f"({tensor}, returned{' at ' + path if path else ''})",
                )
            )

    def take_results(self, returned: Mapping[str, Any]) -> None:
        """What the run has returned, which isn't what each of its calls has."""
        named = ((path, self.tensor_name(value)) for path, value in returned.items())
        self.outputs = {f"result{path}": name for path, name in named if name}
        self.results = dict.fromkeys(self.outputs.values(), True)

    def _written(self, call: Call, leaves: Sequence[Leaf], plan: Plan) -> None:
        """What mutable arrays hold after a call."""
        for leaf, value in zip(leaves, call.written.values(), strict=False):
            given = self.inputs[leaf.path]
            name = self._numbering.name(f"{node_name(leaf.path)}/written")
            taken = [plan.written.get(given, given)]
            self._nodes.append(Node(name, "Written", taken, frames=call.frames))
            self._tell(name, 0, value, is_owned=True)
            self.outputs[leaf.path] = f"{name}:0"
            self.results[f"{name}:0"] = True

    def _tell(self, node: str, slot: int, value: Any, is_owned: bool = False) -> None:
        if is_owned:
            self._tensors[id(value)] = (f"{node}:{slot}", value)  # held: no other has its id
        if self._matcher.wants(node, self._types.get(node, ""), getattr(value, "dtype", "")):
            shards = self._sharded.get(node)
            note = shards.note if shards is not None else None
            # What the program has, or the call itself, takes no more memory.
            read = None if is_owned else self._holder.hold(value, size_of(value))
            self.dump.add_datum(datum_of(node, slot, value, self._clock.now(), note, read))


class ReplayLevel(CaptureLevel):
    """Every op and every value: calls are done once more, op by op.

    Args:
        watch: what was asked for.
    """

    level = FULL
    names_late = True
    #: What calls write over is computed again if it is asked for, and not copied.
    recomputes = False

    def __init__(self, watch: Watch) -> None:
        super().__init__(watch)
        self.calls: list[Call] = []
        self.replayed: ReplayedRun | None = None
        #: What somebody has stepped through, in place of what would be replayed.
        self.stepped: MemoryDump | None = None
        #: The call that the run is, when it is about to return; ``None``: it is a stretch of calls.
        self.returning: Call | None = None
        #: What a stretch of calls got and has returned: arrays by their paths.
        self.given: Mapping[str, Any] = {}
        self.returned: Mapping[str, Any] | None = None

    def make(self, call: Call, plain: Callable[[], Any]) -> Any:
        """What the program gets of a call; ``plain`` makes it."""
        return plain()

    def called(self, call: Call) -> None:
        """A call is over."""
        self.calls.append(call)

    def tensor_name(self, tensor: Any) -> str:
        return self.replayed.tensor_name(tensor) if self.replayed is not None else ""

    def failed_op(self, error: BaseException) -> str:
        if self.replayed is None or not any(call.error is error for call in self.calls):
            return ""
        return self.replayed.failed

    def finish(self, error: BaseException | None) -> Capture:
        capture = super().finish(error)
        capture.held = self._held
        made = self.make_dump()
        capture.dump = self.stepped or made
        if self.replayed is not None and (titles := self._otherwise(self.replayed)):
            made.warnings.append(
                f"{titles} itself returned nothing bad: XLA rewrote some of these ops when it "
                "compiled them."
            )
        if self.returning is not None and self.stepped is None:
            capture.value, capture.replaced = self.returning.result, self._replaced
        return capture

    def _otherwise(self, replayed: ReplayedRun) -> str:
        """The calls whose results are bad where their ops are done one by one, and only there."""
        names = [name for name in replayed.results if name]
        data = (each for name in names for each in replayed.dump.by_tensor(name))
        # Where processes share arrays, all of them would have to ask.
        if any(call.is_spread for call in self.calls) or not any(map(_is_bad, data)):
            return ""
        for call in self.calls:
            call.is_fine = _is_fine(call)
        if not all(call.is_fine for call in self.calls):
            return ""
        return ", ".join(dict.fromkeys(call.title for call in self.calls))

    def _replaced(self, value: Any, new: NewValues) -> Any:
        """What the call returns, with other values of some arrays; see `Capture.replaced`."""
        call, replayed = self.returning, self.replayed
        assert call is not None
        assert replayed is not None
        for path in call.written:
            is_other = True
            with contextlib.suppress(CannotRedo):
                is_other = new(replayed.outputs.get(path, "")) is not None
            if is_other:
                raise CannotRedo(f"{call.title} has written to {path} already")
        made = []
        for path, array in zip(call.output_paths, jax.tree.leaves(value), strict=True):
            name = replayed.outputs.get(f"result{path}", "")
            found = new(name) if name else None
            made.append(array if found is None else array_like(name, found, array))
        return call.rebuild(made)

    def _held(self) -> Iterator[tuple[str, Any]]:
        """What calls got and have returned; see `Capture.held`."""
        numbering, known = Numbering(), set[int]()
        for call in self.calls:
            for leaf in call.named():
                if is_floating(leaf.value) and id(leaf.value) not in known:
                    known.add(id(leaf.value))
                    yield f"{numbering.name(node_name(leaf.path))}:0", as_array(leaf.value)
            known.update(map(id, call.outputs))
            for path, value in zip(call.output_paths, call.outputs, strict=True):
                if is_floating(value):
                    yield f"result{path}", as_array(value)

    def make_dump(self) -> MemoryDump:
        """Do the calls again."""
        names = {id(value): path for path, value in self.given.items()}
        replayed = self.replayed = ReplayedRun(self.watch, names)
        for call in self.calls:
            if isinstance(call.error, Exception) and not is_of_run(call.error):
                continue  # it wasn't even traced
            replayed.add(call)
        if self.returned is not None:
            replayed.take_results(self.returned)
        if replayed.results or self.calls:
            info = RunInfo(engine=TRAITS.name)
            # What is in a dump many times, in loops, is followed from what the run was asked for.
            info.results = None if replayed.has_loops else replayed.results or None
            info.fetches = list(replayed.results) if replayed.has_loops else ()
            replayed.dump.set_run_info(info)
        self.dump = replayed.dump
        return replayed.dump

    def glimpse(self) -> MemoryDump | None:
        """The calls that are over, done again."""
        made = ReplayedRun(self.watch)
        made.is_alone = True
        for call in self.calls:
            made.add(call)
        return made.dump if self.calls else None

    def describe(self, info: RunInfo) -> None:
        """Add to what is known of the run at its end."""
        if self.replayed is not None:
            if self.replayed.has_loops:
                info.fetches = list(self.replayed.results)
            info.outputs = {**info.outputs, **self.replayed.outputs}
            info.details = [*info.details, *self.notes]

    @property
    def notes(self) -> list[tuple[str, str]]:
        """What else there is to say of what was done again."""
        return self.replayed.notes if self.replayed is not None else []

    @property
    def has_gradients(self) -> bool | None:
        """Whether the run has computed any; ``None``: not known."""
        return self.replayed.has_gradients if self.replayed is not None else None

    def close(self) -> None:
        for call in self.calls:
            call.forget()
        self.given, self.returned = {}, None

    def discard(self) -> None:
        super().discard()
        self.calls.clear()


class OutputsLevel(ReplayLevel):
    """What calls return; where something of it is bad they are done once more, op by op."""

    level = OUTPUTS
    recomputes = True

    def finish(self, error: BaseException | None) -> Capture:
        if error is not None:
            return super().finish(error)
        if not self.is_fine():
            capture = super().finish(error)
            capture.gap = self.gap([call for call in self.calls if call.is_fine is False])
            return capture
        CaptureLevel.finish(self, error)
        only = f"the {OUTPUTS}" if self.level == OUTPUTS else ""
        return Capture(
            None,
            None,
            filter_passed=False,
            only=only,
            make_dump=self.make_dump,
            held=self._held,
        )

    def is_fine(self) -> bool:
        """Whether nothing bad is known of."""
        # Of each one: others may ask for what this process finds fine.
        for call in self.calls:
            call.is_fine = _is_fine(call)
        return all(call.is_fine for call in self.calls)

    def gap(self, calls: Sequence[Call]) -> str:
        """Why calls made something bad that isn't in the dump; empty: the dump has something bad.

        XLA may compute otherwise than op by op: x / a / b as x / (a * b), where a * b may be 0.
        """
        if not calls or self.dump is None or any(map(_is_bad, self.dump.data())):
            return ""
        titles = ", ".join(dict.fromkeys(call.title for call in calls))
        notes = [text for label, text in self.notes if label == INCOMPLETE]
        why = notes[0] if notes else "it isn't there when its ops are done one by one"
        return f"{titles} made a nan or an infinity, but {why}"


def _is_fine(call: Call) -> bool:
    if call.is_fine is not None:
        return call.is_fine
    arrays: dict[Any, list[Any]] = {}
    for value in (*call.outputs, *call.written.values()):
        if is_floating(value) and isinstance(found := as_array(value), np.ndarray):
            arrays.setdefault(found.dtype, []).append(found)
    is_fine = not any(any_nonfinite(found, dtype) for dtype, found in arrays.items())
    if call.is_spread:  # where it is bad for one process, all do it again
        is_fine = not call.any_process(not is_fine) and is_fine
    return is_fine


def _is_bad(datum: Datum) -> bool:
    value = datum.get_tensor()
    return isinstance(value, np.ndarray) and not all_finite(value)


def is_of_run(error: BaseException) -> bool:
    """Whether an error is one of a computation, not of tracing it.

    A FloatingPointError is one if ``jax_debug_nans`` or ``jax_debug_infs`` has made it. NumPy's
    own, while a function is traced, has other words.
    """
    is_found = isinstance(error, FloatingPointError) and _FOUND.match(str(error)) is not None
    return is_found or isinstance(error, jax.errors.JaxRuntimeError)
