"""What branches and loops compute: their bodies, run as models of their own."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from tfdbg_cli.engines.onnx.model import HANDED_ON, Handed, Model, ModelNode
from tfdbg_cli.engines.onnx.stepping.nodes import BodyRunner
from tfdbg_cli.engines.onnx.values import is_finite

__all__ = ["Inner", "Insides"]

#: Iterations of a loop that are shown, and in which it is looked for what went bad later.
_MOST, _MOST_SOUGHT = 1000, 100_000


class Inner(NamedTuple):
    """A tensor of a body.

    Attributes:
        node: that has made it.
        slot: which of its outputs.
        value: it.
    """

    node: ModelNode | Handed
    slot: int
    value: Any


class Insides:
    """Runs bodies again with what the run has given them.

    Args:
        session: the program's.
        model: of it.

    Attributes:
        notes: what isn't shown, and why.
    """

    def __init__(self, session: Any, model: Model) -> None:
        self._runner = BodyRunner(session, model)
        self.notes: dict[str, None] = {}
        self._reached: set[str] = set()
        self._gone_round: set[str] = set()

    def _note(self, text: str) -> None:
        self.notes[text] = None

    @property
    def passed(self) -> set[str]:
        """The loops that were reached, and never gone round."""
        return self._reached - self._gone_round

    def of(self, node: ModelNode, known: Mapping[str, Any]) -> Iterator[Inner]:
        """The tensors inside of a node, in the order in which they were computed.

        Args:
            node: one with bodies.
            known: values by the model's names, as far as the node can see them.
        """
        if any(name and name not in known for name in node.proto.input):
            return  # the run has failed before
        bodies = {each.name: each.g for each in node.proto.attribute if each.HasField("g")}
        given = [known.get(name) for name in node.proto.input]
        if node.proto.op_type == "If" and given[0] is not None:
            name = "then_branch" if np.asarray(given[0]).item() else "else_branch"
            yield from self._body(node, name, bodies[name], known, {})[0]
        elif node.proto.op_type == "Loop":
            yield from self._shown(node, known, self._loop(node, bodies["body"], given, known))
        elif node.proto.op_type == "Scan" and all(value is not None for value in given):
            yield from self._shown(node, known, self._scan(node, bodies["body"], given, known))
        else:
            self._note(f"The inside of {node.name} ({node.op_type}) isn't shown.")

    def _shown(
        self, node: ModelNode, known: Mapping[str, Any], iterations: Iterator[list[Inner]]
    ) -> Iterator[Inner]:
        """A loop's first iterations, and where its results went bad later, those from then on.

        Args:
            node: the loop.
            known: values by the model's names, its results among them.
            iterations: what each of them has computed.
        """
        self._reached.add(node.name)
        is_sought = not all(is_finite(known.get(name)) for name in node.outputs.values())
        left, later, is_cut = _MOST, "", False
        for at, inner in enumerate(itertools.islice(iterations, _MOST_SOUGHT)):
            if is_sought and not all(is_finite(each.value) for each in inner):
                is_sought = False
                if not left:
                    left, later = _MOST, f", then those from {at:,} on, numbered from {_MOST:,} on"
            if left:
                left -= 1
                yield from inner
            else:
                is_cut = True
                if not is_sought:
                    break
        if is_cut:
            kind = node.op_type.lower()
            self._note(f"Of the {kind} {node.name} {_MOST:,} iterations are shown{later}.")

    def _loop(
        self, node: ModelNode, body: Any, given: list[Any], known: Mapping[str, Any]
    ) -> Iterator[list[Inner]]:
        trips = _MOST_SOUGHT if given[0] is None else int(np.asarray(given[0]).item())
        going = True if given[1] is None else bool(np.asarray(given[1]).item())
        carried = given[2:]
        names = [each.name for each in body.input]
        for at in range(trips):
            if not going:
                return
            values = [np.array(at, np.int64), np.array(going), *carried]
            inner, found = self._body(
                node, "body", body, known, dict(zip(names, values, strict=False))
            )
            yield inner
            outputs = [found.get(each.name) for each in body.output]
            if outputs[0] is None:
                return  # it isn't known whether the loop goes on
            going = bool(np.asarray(outputs[0]).item())
            carried = outputs[1 : 1 + len(carried)]

    def _scan(
        self, node: ModelNode, body: Any, given: list[Any], known: Mapping[str, Any]
    ) -> Iterator[list[Inner]]:
        """https://onnx.ai/onnx/operators/onnx__Scan.html, from opset 9 on."""
        said = {each.name: each for each in node.proto.attribute}
        count = said["num_scan_inputs"].i
        carried, scanned = given[: len(given) - count], given[len(given) - count :]
        axes = [*said["scan_input_axes"].ints] if "scan_input_axes" in said else [0] * count
        turns = "scan_input_directions"
        backward = [*said[turns].ints] if turns in said else [0] * count
        scanned = [
            np.moveaxis(value, axis, 0)[:: -1 if is_back else 1]
            for value, axis, is_back in zip(scanned, axes, backward, strict=True)
        ]
        names = [each.name for each in body.input]
        for at in range(len(scanned[0])):
            values = [*carried, *(value[at] for value in scanned)]
            inner, found = self._body(
                node, "body", body, known, dict(zip(names, values, strict=True))
            )
            yield inner
            carried = [found.get(each.name) for each in body.output[: len(carried)]]

    def _body(
        self,
        node: ModelNode,
        attribute: str,
        body: Any,
        known: Mapping[str, Any],
        given: Mapping[str, Any],
    ) -> tuple[list[Inner], dict[str, Any]]:
        """One execution of a body: its tensors, and its values by the body's names."""
        self._gone_round.add(node.name)
        visible = {**known, **given}
        made = self._runner.run(body, visible)
        if any(name and name not in made for each in body.node for name in each.output):
            self._note(f"The inside of {node.name} isn't shown where it reads what is no array.")
        found = {name: value for name, value in {**given, **made}.items() if value is not None}
        seen = {**visible, **found}
        scope = f"{node.name}/{attribute.removesuffix('_branch')}"
        inner: list[Inner] = []
        handed = [
            (each.op_type == HANDED_ON, Inner(each, 0, found[each.tensor]))
            for each in node.handed
            if each.scope == scope and each.tensor in found
        ]
        inner += (each for is_end, each in handed if not is_end)
        for each in node.body:
            if each.scope != scope:
                continue
            if each.body:
                inner += self.of(each, seen)
            inner += [
                Inner(each, slot, found[name])
                for slot, name in each.outputs.items()
                if name in found
            ]
        inner += (each for is_end, each in handed if is_end)
        return inner, found
