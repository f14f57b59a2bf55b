"""A run of a model that is done node by node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import onnxruntime

from tfdbg_cli.common.errors import UserError
from tfdbg_cli.dumps.datum import Datum
from tfdbg_cli.dumps.graph import Graph
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.engines.base import Capture
from tfdbg_cli.engines.kit import stepped
from tfdbg_cli.engines.kit.fitting import fitted_array, nobody_elses
from tfdbg_cli.engines.onnx.model import INPUT, Model, ModelNode
from tfdbg_cli.engines.onnx.stepping.nodes import NodeRunner
from tfdbg_cli.stepping.stepper import Step, StepOutcome

__all__ = ["OnnxStepper"]


class OnnxStepper(stepped.GraphStepper):
    """Goes through the record of the one run that the program's session has made.

    What is not overridden is read from the record; what an override changes is computed anew, node
    by node. Nodes that draw random numbers are not computed a second time.

    Args:
        real: the run.
        failing: the node that has failed in it; empty: none.
        model: what was run.
        names: the outputs that were asked for.
        runner: computes nodes.
    """

    engine_name = "onnx"
    is_over = False

    def __init__(
        self, real: Capture, failing: str, model: Model, names: Sequence[str], runner: NodeRunner
    ) -> None:
        super().__init__()
        assert real.dump is not None
        self._real, self._failing, self._model, self._names = real, failing, model, names
        self._runner = runner
        self._record = {datum.tensor_name: datum for datum in real.dump.data()}
        self._inputs = [name for name in model.inputs if f"{name}:0" in self._record]
        self._weights = {f"{weight.node}:0" for weight in model.weights.values()}
        self._steps = [
            *(Step(name, INPUT, (), (f"{name}:0",), (name,), True) for name in self._inputs),
            *map(_step, model.nodes),
        ]
        self._makers = {name: at for at, step in enumerate(self._steps) for name in step.outputs}
        self._readers: dict[str, list[int]] = {}
        for at, step in enumerate(self._steps):
            for name in step.inputs:
                self._readers.setdefault(name, []).append(at)
        #: What steps have made where it isn't what the record has.
        self._changed: dict[str, Any] = {}
        self._overrides: dict[str, Any] = {}
        #: What was computed for tensors that are overridden, where it isn't the record's.
        self._computed: dict[str, Any] = {}
        self._capture: Capture | None = None
        self._dump = MemoryDump(real.dump.graph())
        for name, datum in self._record.items():
            if name in self._weights or datum.node_name in self._inputs:
                self._dump.add_datum(datum)
        #: How many tensors were there before each step that was done.
        self._before: list[int] = []
        self.caveats = [
            f"{node.name} ({node.op_type}) is one step: its inside can't be stepped through."
            for node in model.nodes
            if node.body
        ]

    @property
    def real(self) -> Capture:
        return self._real

    @property
    def steps(self) -> Sequence[Step]:
        return self._steps

    def readers(self, tensor_name: str) -> Sequence[int]:
        return self._readers.get(tensor_name, ())

    def advance(self, iteration: bool = False) -> StepOutcome:
        self.check_open()
        self.check_not_at_end()
        step = self._steps[self._position]
        made = {} if step.is_feed else self._made(step)
        self._before.append(len(self._dump.added))
        for name in step.outputs:
            if name in made:
                self._changed[name] = made[name]
            if name in self._overrides:
                self._computed[name] = made.get(name)
                self._changed[name] = self._overrides[name]
            if not step.is_feed:
                self._add(name)
        self._position += 1
        return StepOutcome(step)

    def _made(self, step: Step) -> dict[str, Any]:
        """What a step makes where that isn't what the record has."""
        node = self._node()
        is_other = any(name in self._changed for name in node.inputs)
        if not is_other and step.node == self._failing and self._real.error is not None:
            raise self._real.error
        is_known = all(name in self._record for name in step.outputs)
        if is_known and (not is_other or self._is_random(node)):
            return {}
        if not is_other and not is_known and not self._has_failed:
            return {}  # no array: sequences, or what could not be read
        values = {name: self._value(name) for name in node.inputs}
        if any(value is None for value in values.values()):
            missing = ", ".join(name for name, value in values.items() if value is None)
            raise UserError(f"{step.node} can't be computed: {missing} has no value.")
        return self._runner.run(node, values)

    @property
    def _has_failed(self) -> bool:
        return self._real.error is not None

    def _is_random(self, node: ModelNode) -> bool:
        return any(each is node for each in self._model.random)

    def _node(self) -> ModelNode:
        return self._model.nodes[self._position - len(self._inputs)]

    def _value(self, name: str) -> Any:
        if name in self._changed:
            return self._changed[name]
        datum = self._record.get(name)
        return None if datum is None else datum.get_tensor()

    def _add(self, name: str) -> None:
        """Put a tensor into the dump, as later steps see it."""
        datum = self._record.get(name)
        if name in self._changed:
            node, _, slot = name.rpartition(":")
            at = self._stamp if datum is None else datum.timestamp
            self._dump.add(node, int(slot), self._changed[name], timestamp=at)
        elif datum is not None:
            self._dump.add_datum(datum)

    @property
    def _stamp(self) -> int:
        return max((datum.timestamp for datum in self._record.values()), default=0)

    def _replace(self, name: str) -> None:
        """Let the dump have what a tensor is now."""
        added = list(self._dump.added)
        at = next((at for at, each in enumerate(added) if each.tensor_name == name), None)
        if at is None:
            return
        self._dump.drop_since(at)
        self._add(name)
        for each in added[at + 1 :]:
            self._dump.add_datum(each)

    def back(self) -> Step:
        self.check_open()
        if not self._before:
            raise stepped.no_step_done()
        self._position -= 1
        self._dump.drop_since(self._before.pop())
        step = self._steps[self._position]
        if not step.is_feed:
            for name in step.outputs:
                self._changed.pop(name, None)
                self._computed.pop(name, None)
        return step

    def _is_there(self, name: str) -> bool:
        """Whether it has a value by now, overridden or not."""
        if name in self._weights:
            return name in self._record
        maker = self._makers.get(name)
        if maker is None:
            return False
        is_known = name in self._record or name in self._changed
        return is_known and (maker < self._position or self._steps[maker].is_feed)

    def resolve(self, name: str) -> str:
        return self._model.tensors.get(name, name)

    def has(self, tensor_name: str) -> bool:
        name = self.resolve(tensor_name)
        return name in self._overrides or self._is_there(name)

    def value(self, tensor_name: str) -> Any:
        name = self.resolve(tensor_name)
        if name in self._overrides:
            return np.array(self._overrides[name])
        if not self._is_there(name):
            raise KeyError(tensor_name)
        return nobody_elses(self._value(name))

    def override(self, tensor_name: str, value: Any) -> None:
        self.check_open()
        name = self.resolve(tensor_name)
        self.check_known(name, (*self._makers, *self._weights))
        self.check_unread(name)
        like = self._like(name)
        array = fitted_array(name, value, like.dtype, like.shape)
        self._overrides[name] = array
        if self._is_there(name):
            self._computed.setdefault(name, self._changed.get(name))
            self._changed[name] = array
            self._replace(name)

    def _like(self, name: str) -> Any:
        """What a tensor is in the record, for its dtype and shape."""
        datum = self._record.get(name)
        found = self._changed.get(name) if datum is None else datum.get_tensor()
        if found is None:
            raise UserError(
                f"{name} has no value in this run: the run failed before it.",
                "Override what the failing node reads.",
            )
        if not isinstance(found, np.ndarray | np.generic):
            raise UserError(f"{name} is no array: {found}.")
        return found

    def take_back(self, tensor_name: str) -> None:
        self.check_open()
        name = self.resolve(tensor_name)
        stepped.check_overridden(name, self._overrides)
        self.check_unread(name)
        del self._overrides[name]
        if name in self._computed:
            computed = self._computed.pop(name)
            if computed is None:
                self._changed.pop(name, None)
            else:
                self._changed[name] = computed
            self._replace(name)

    @property
    def overrides(self) -> Mapping[str, Any]:
        return MappingProxyType(self._overrides)

    def original(self, tensor_name: str) -> Any | None:
        name = self.resolve(tensor_name)
        datum = self._record.get(name)
        return (
            None if datum is None or not self._is_there(name) else nobody_elses(datum.get_tensor())
        )

    def restore(self, variables: Sequence[str] = ()) -> Sequence[str]:
        """A model has no variables."""
        return stepped.names_to_restore(variables, ())

    def graph(self) -> Graph | None:
        return self._dump.graph()

    def dump(self) -> MemoryDump:
        return self._dump

    def made(self, outcome: StepOutcome) -> Sequence[Datum]:
        return self._dump.added[self._before[-1] if self._before else 0 :]

    def finish(self) -> Capture:
        if self._capture is not None:
            return self._capture
        error: BaseException | None = None
        try:
            while self._position < len(self._steps):
                self.advance()
        except Exception as raised:
            error = raised
        self.is_over = True
        if not self._changed and (error is None or error is self._real.error):
            self._capture = self._real
        elif error is not None:
            self._capture = Capture(None, self._dump, error)
        else:
            self._capture = Capture(self._outcome(), self._dump)
        return self._capture

    def _outcome(self) -> list[Any]:
        """What the program gets, of the kind that its session has given."""
        given = (
            self._real.value if isinstance(self._real.value, list) else [None] * len(self._names)
        )
        found = []
        for name, value in zip(self._names, given, strict=True):
            changed = self._changed.get(self._model.tensors.get(name, ""))
            if changed is None:
                found.append(value)
            elif isinstance(value, onnxruntime.OrtValue):
                found.append(onnxruntime.OrtValue.ortvalue_from_numpy(np.array(changed)))
            else:
                found.append(np.array(changed))
        return found

    def discard(self) -> Capture | None:
        """A run that has failed or draws random numbers is not made a second time."""
        self.check_open()
        self.is_over = True
        return self._real if self._model.random else None

    def again(self) -> OnnxStepper | None:
        return OnnxStepper(self._real, self._failing, self._model, self._names, self._runner)


def _step(node: ModelNode) -> Step:
    outputs = tuple(f"{node.name}:{slot}" for slot in node.outputs)
    members = (node.name, *_inside(node))
    return Step(node.name, node.op_type, node.inputs, outputs, members)


def _inside(node: ModelNode) -> list[str]:
    return [name for each in node.body for name in (each.name, *_inside(each))]
