"""A batch that came in bad, led back to the part of its pipeline that has made it so."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from tfdbg_cli.dumps.datum import Datum
from tfdbg_cli.dumps.graph import Node, node_name_of
from tfdbg_cli.engines.kit.numbering import Numbering
from tfdbg_cli.engines.tensorflow.functions.held import HeldTensor, HeldValue, values_of
from tfdbg_cli.engines.tensorflow.functions.inlined import InlinedNames
from tfdbg_cli.engines.tensorflow.functions.library import Library
from tfdbg_cli.engines.tensorflow.functions.pipelines.iterators import (
    Iterators,
    place_of,
    stage_of,
    stages,
)
from tfdbg_cli.engines.tensorflow.functions.pipelines.private import function_of, functions_of
from tfdbg_cli.engines.tensorflow.functions.pipelines.search import (
    Maker,
    NotFound,
    Search,
    bad_places,
)
from tfdbg_cli.engines.tensorflow.functions.variables import WrittenVariables
from tfdbg_cli.tensors.numeric import has_nonfinite

__all__ = ["ROOM", "RunDraft", "explain"]

# What gives a batch to the program.
_TAKING = frozenset({"IteratorGetNext", "IteratorGetNextSync", "OptionalGetValue"})
#: In front of the names of what a pipeline has made.
ROOM = "pipeline"

_Add = Callable[[str, str, int, HeldValue, int, bool], None]


class RunDraft(NamedTuple):
    """What is known of a run, to which more is added.

    Attributes:
        nodes: of the graph.
        data: in order.
        handles: name of a node -> the handle that it stands for.
        numbering: the names of the run.
        add: adds a tensor to the data: node, op type, slot, value, time, whether it is a view.
    """

    nodes: list[Node]
    data: list[Datum]
    handles: Mapping[str, Any]
    numbering: Numbering
    add: _Add


class _Room(Numbering):
    """Names within the pipeline.

    Args:
        outer: the names of the run.

    Attributes:
        title: what TensorFlow calls a function of the pipeline.
        called: what the program does.
    """

    def __init__(self, outer: Numbering) -> None:
        super().__init__()
        self._outer = outer
        self.title = self.called = ""

    def name(self, base: str) -> str:
        if self.title and base.startswith(self.title):
            base = self.called + base.removeprefix(self.title)
        return self._outer.name(f"{ROOM}/{base.removeprefix(f'{ROOM}/')}")


def explain(described: RunDraft, iterators: Iterators, library: Library) -> str:
    """Add what has made the first batch bad that came in so, as far as it can be found out.

    Args:
        described: the run.
        iterators: of the program.
        library: knows functions.

    Returns:
        A sentence; empty: no batch came in bad.
    """
    nodes = {node.name: node for node in described.nodes}
    for datum in described.data:
        node = nodes.get(datum.node_name)
        if node is None or node.op_type not in _TAKING:
            continue
        if not has_nonfinite(datum.get_tensor()):
            continue
        dataset = next(
            filter(None, map(iterators.dataset, _handles(node, nodes, described.handles))), None
        )
        if dataset is not None:
            return _PipelineSteps(described, node, datum, dataset).explain(library)
    return ""


def _handles(node: Node, nodes: Mapping[str, Node], handles: Mapping[str, Any]) -> Iterator[Any]:
    """The handles that lead to a node, the nearest first."""
    seen, pending = {node.name}, [node.name]
    for name in pending:
        if name in handles:
            yield handles[name]
        for tensor in nodes[name].inputs if name in nodes else ():
            source = node_name_of(tensor)
            if source not in seen:
                seen.add(source)
                pending.append(source)


class _PipelineSteps:
    """Adds to a run what a pipeline has made.

    Args:
        described: the run.
        taking: the node that has given the batch.
        datum: the bad part of it.
        dataset: the pipeline's last step.
    """

    def __init__(self, described: RunDraft, taking: Node, datum: Datum, dataset: Any) -> None:
        self._described, self._taking, self._datum = described, taking, datum
        self._dataset = dataset
        self._numbering = _Room(described.numbering)

    def explain(self, library: Library) -> str:
        """Add it; the sentence that says so."""
        taken = [
            each
            for each in self._described.data
            if each.node_name == self._taking.name and each.timestamp == self._datum.timestamp
        ]
        batch = [each.get_tensor() for each in sorted(taken, key=lambda each: each.output_slot)]
        head = f"The input {self._datum.tensor_name} is bad: made by the pipeline"
        try:
            maker, is_certain = Search(library).maker(self._dataset, batch)
        except NotFound as why:
            self._lead_to(self._steps())
            return f"{head}; it isn't known by which step ({why})."
        before = len(self._described.data)
        names = self._function(maker) if maker.function is not None else self._source(maker)
        self._lead_to(names)
        self._put_first(before)
        if is_certain is None:
            return f"{head}, {_words(maker)}, where its bad rows are."
        if is_certain:
            return f"{head}, {_words(maker)} (recomputed from its beginning)."
        return f"{head}. Computed again, the first bad batch of it is made {_words(maker)}."

    def _lead_to(self, names: Sequence[str]) -> None:
        self._taking.inputs = (*self._taking.inputs, *names)

    def _put_first(self, before: int) -> None:
        """What was added comes before the batch."""
        data = self._described.data
        added = data[before:]
        del data[before:]
        at = next(at for at, each in enumerate(data) if each is self._datum)
        while at and data[at - 1].node_name == self._taking.name:
            at -= 1
        data[at:at] = added

    def _add(self, name: str, op: str, slot: int, value: HeldValue, is_view: bool = False) -> None:
        self._described.add(name, op, slot, value, self._datum.timestamp, is_view)

    def _function(self, maker: Maker) -> list[str]:
        """Add the nodes of a function and what they have made; its bad results."""
        assert maker.known is not None
        layout = maker.known.twin().layout
        self._numbering.title = layout.body.title
        self._numbering.called = _name(maker.function)
        arguments = []
        signature = layout.body.definition.signature.input_arg
        for argument, tensor in zip(signature, maker.arguments, strict=True):
            name = self._numbering.name(argument.name)
            self._described.nodes.append(Node(name, "Input"))
            self._add(name, "Input", 0, HeldTensor(tensor))
            arguments.append(f"{name}:0")
        concrete = maker.function.function
        inlined = InlinedNames(
            layout,
            concrete,
            arguments,
            self._numbering,
            WrittenVariables(),
            lambda: (),
            lambda graph, name: name,
        )
        self._described.nodes.extend(inlined.nodes)
        found = maker.known.values(maker.known.twin(), maker.arguments, maker.added)
        for seen in values_of(*found, maker.arguments) if found is not None else ():
            name = inlined.names[seen.path].get(seen.node, "")
            if name:
                self._add(name, seen.op, seen.slot, seen.value, seen.is_view)
        return [inlined.returns[at] for at in bad_places(maker.results)]

    def _source(self, maker: Maker) -> list[str]:
        """Add the data that the pipeline begins with; what is bad in them."""
        op = type(maker.dataset).__name__.strip("_")
        name = self._numbering.name(op)
        self._described.nodes.append(Node(name, op))
        for slot, tensor in enumerate(maker.results):
            self._add(name, op, slot, HeldTensor(tensor))
        return [f"{name}:{at}" for at in bad_places(maker.results)]

    def _steps(self) -> list[str]:
        """Add the functions of the pipeline, of which nobody knows what they have made."""
        names = []
        for step in stages(self._dataset):
            for function in functions_of(step):
                place = place_of(function)
                if place is not None:
                    name = self._numbering.name(place.function.strip("<>"))
                    op = type(step).__name__.strip("_")
                    self._described.nodes.append(Node(name, op, frames=(place,)))
                    names.append(f"{name}:0")
        return names


def _words(maker: Maker) -> str:
    """Which step it was."""
    if maker.function is None:
        return f"from bad data in Dataset.{stage_of(maker.dataset)}"
    place = place_of(maker.function)
    where = f" at {os.path.basename(place.file)}:{place.line}" if place is not None else ""
    return f"by {_name(maker.function)}{where}, in Dataset.{stage_of(maker.dataset)}"


def _name(function: Any) -> str:
    """What the program calls a function of a dataset."""
    return getattr(function_of(function), "__name__", "").strip("<>") or "function"
