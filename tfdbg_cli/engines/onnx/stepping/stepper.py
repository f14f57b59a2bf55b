"""A run of a model that is done node by node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnxruntime

from tfdbg_cli.common.errors import UserError
from tfdbg_cli.dumps.datum import Datum
from tfdbg_cli.dumps.graph import Graph
from tfdbg_cli.engines.base import Capture
from tfdbg_cli.engines.kit.fitting import nobody_elses
from tfdbg_cli.engines.kit.replayed import ReplayStepper, StepReader, held_datum
from tfdbg_cli.engines.onnx.model import INPUT, Model, ModelNode
from tfdbg_cli.engines.onnx.stepping.nodes import NodeRunner
from tfdbg_cli.stepping.stepper import Step

__all__ = ["OnnxStepper"]


class OnnxStepper(ReplayStepper):
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
    _apart = 0  # a record has no times of its nodes

    def __init__(
        self, real: Capture, failing: str, model: Model, names: Sequence[str], runner: NodeRunner
    ) -> None:
        assert real.dump is not None
        self._record = {datum.tensor_name: datum for datum in real.dump.data()}
        self._inputs = [name for name in model.inputs if f"{name}:0" in self._record]
        super().__init__(
            [
                *(Step(name, INPUT, (), (f"{name}:0",), (name,), True) for name in self._inputs),
                *map(_step, model.nodes),
            ]
        )
        self._real, self._failing, self._model, self._names = real, failing, model, names
        self._runner = runner
        self._weights = {f"{weight.node}:0" for weight in model.weights.values()}
        self._makers = {name: at for at, step in enumerate(self._steps) for name in step.outputs}
        #: What the run has computed inside of steps, by the steps' nodes.
        self._insides: dict[str, list[Datum]] = {}
        around = {name: step.node for step in self._steps for name in step.members[1:]}
        for datum in real.dump.data():
            if datum.node_name in around:
                self._insides.setdefault(around[datum.node_name], []).append(datum)
        #: What steps have computed where that isn't what the record has.
        self._computed: dict[str, Any] = {}
        self._overrides: dict[str, Any] = {}
        self._graph = real.dump.graph()
        self._begun = max((datum.timestamp for datum in self._record.values()), default=0)
        self.caveats = [
            f"{node.name} ({node.op_type}) is one step: its inside can't be stepped through."
            for node in model.nodes
            if node.body
        ]

    @property
    def real(self) -> Capture:
        return self._real

    def _do(self, index: int) -> None:
        step = self._steps[index]
        if not step.is_feed:
            self._computed.update(self._made(step))

    def _made(self, step: Step) -> dict[str, Any]:
        """What a step makes where that isn't what the record has."""
        node = self._node()
        is_other = any(name in self._overrides or name in self._computed for name in node.inputs)
        if not is_other and step.node == self._failing and self._real.error is not None:
            raise self._real.error
        is_known = all(name in self._record for name in step.outputs)
        if is_known and (not is_other or self._is_random(node)):
            return {}
        if not is_other and not is_known and not self._has_failed:
            return {}  # no array: sequences, or what could not be read
        values = {name: self._now(name) for name in node.inputs}
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

    def _now(self, name: str) -> Any:
        """What a step reads."""
        return self._overrides[name] if name in self._overrides else self._found(name)

    def _found(self, tensor_name: str) -> Any:
        if tensor_name in self._computed:
            return self._computed[tensor_name]
        datum = self._record.get(tensor_name)
        return None if datum is None else datum.get_tensor()

    def _went_back(self) -> None:
        for name in self._steps[self._position].outputs:
            self._computed.pop(name, None)

    def _is_there(self, tensor_name: str) -> bool:
        if tensor_name in self._weights:
            return tensor_name in self._record
        maker = self._makers.get(tensor_name)
        if maker is None or not (maker < self._position or self._steps[maker].is_feed):
            return False
        known = self._record, self._computed, self._overrides
        return any(tensor_name in each for each in known)

    def resolve(self, name: str) -> str:
        return self._model.tensors.get(name, name)

    def _overridable(self, tensor_name: str) -> tuple[np.dtype[Any], Sequence[int | None] | None]:
        held = self._weights.intersection(self._model.tensors.values())  # not those of bodies
        self.check_known(tensor_name, (*self._makers, *held))
        self.check_unread(tensor_name)
        like = self._like(tensor_name)
        return like.dtype, like.shape

    def _override(self, tensor_name: str, value: np.ndarray[Any, Any] | None) -> None:
        if value is None:
            del self._overrides[tensor_name]
        else:
            self._overrides[tensor_name] = value

    def _like(self, name: str) -> Any:
        """What a tensor is in the record, for its dtype and shape."""
        datum = self._record.get(name)
        found = self._computed.get(name) if datum is None else datum.get_tensor()
        if found is None:
            raise UserError(
                f"{name} has no value in this run: the run failed before it.",
                "Override an input of the failing node.",
            )
        if not isinstance(found, np.ndarray | np.generic):
            raise UserError(f"{name} is not an array: {found}.")
        return found

    def original(self, tensor_name: str) -> Any | None:
        name = self.resolve(tensor_name)
        datum = self._record.get(name)
        is_there = datum is not None and self._is_there(name)
        return nobody_elses(datum.get_tensor()) if datum is not None and is_there else None

    def graph(self) -> Graph | None:
        return self._graph

    def _to_show(self) -> Mapping[str, Any]:
        return {name: value for name, value in self._overrides.items() if self._is_there(name)}

    def _reader(self) -> StepReader:
        record, steps, insides = self._record, self._steps, self._insides
        computed = dict(self._computed)
        first = [
            datum
            for name, datum in record.items()
            if name in self._weights or datum.node_name in self._inputs
        ]

        def read(index: int) -> Sequence[Datum]:
            if index < 0:
                return first
            step = steps[index]
            names = step.outputs if not step.is_feed else ()
            anew = {name: held_datum(name, computed[name]) for name in names if name in computed}
            inside = [] if anew else insides.get(step.node, [])
            return inside + [
                anew.get(name) or record[name] for name in names if name in anew or name in record
            ]

        return read

    def _finished(self) -> Capture:
        error: BaseException | None = None
        try:
            while self._position < len(self._steps):
                self.advance()
        except Exception as raised:
            error = raised
        is_other = self._computed or any(self._is_there(name) for name in self._overrides)
        if not is_other and (error is None or error is self._real.error):
            return self._real
        return Capture(None if error is not None else self._outcome(), None, error)

    def _outcome(self) -> list[Any]:
        """What the program gets, of the kind that its session has given."""
        given = (
            self._real.value if isinstance(self._real.value, list) else [None] * len(self._names)
        )
        found = []
        for name, value in zip(self._names, given, strict=True):
            tensor = self._model.tensors.get(name, "")
            changed = self._overrides.get(tensor, self._computed.get(tensor))
            if changed is None:
                found.append(value)
            elif isinstance(value, onnxruntime.OrtValue):
                found.append(onnxruntime.OrtValue.ortvalue_from_numpy(np.array(changed)))
            else:
                found.append(np.array(changed))
        return found

    def discard(self) -> Capture | None:
        """What draws random numbers is not made a second time."""
        self.check_open()
        self._overrides.clear()
        self._computed.clear()
        self._capture = self._real
        return self._real if self._model.random else None


def _step(node: ModelNode) -> Step:
    outputs = tuple(f"{node.name}:{slot}" for slot in node.outputs)
    members = (node.name, *_inside(node))
    return Step(node.name, node.op_type, node.inputs, outputs, members)


def _inside(node: ModelNode) -> list[str]:
    handed = [each.name for each in node.handed if each.tensor]
    return [*handed, *(name for each in node.body for name in (each.name, *_inside(each)))]
