"""Which ops of a graph belong to the gradient of which."""

from __future__ import annotations

from tfdbg_cli.common.node_words import BACKWARD, PHASE
from tfdbg_cli.dumps.graph import Graph, Node, node_name_of
from tfdbg_cli.filters.causes.ops import forward_node, place_of
from tfdbg_cli.filters.causes.patterns import number_of
from tfdbg_cli.filters.lineage import TensorLineage

__all__ = ["GradientOps"]

# What an op computes -> what its derivative does, of the same input.
_DERIVED = {"log": ("reciprocal", "div"), "div": ("div",), "pow": ("pow",), "exp": ("mul",)}


class GradientOps:
    """Finds the ops of gradients, told of or not.

    Args:
        lineage: of the run.
        graph: of the run.
    """

    def __init__(self, lineage: TensorLineage, graph: Graph) -> None:
        self._lineage, self._graph = lineage, graph

    def all_of(self, name: str) -> list[str]:
        """The ops of an op's gradient, which needn't depend on what it gives, but on its inputs.

        Args:
            name: of the op's node.
        """
        node = self._graph.nodes[name]
        readers = {
            edge.node: None
            for each in (*node.inputs, f"{name}:0")
            for edge in self._graph.recipients(node_name_of(each), control=False)
        }
        return [each for each in readers if self.is_of(self._graph.nodes[each], name)]

    def is_of(self, node: Node, of: str) -> bool:
        """Whether an op is part of the gradient of another one.

        JAX and TensorFlow 2 don't tell of which op. It reads what that was given, and is of the
        same line, or computes what its derivative is. JAX gives gradients the lines of their
        forward ops: what is of another one there is the derivative of something else.

        Args:
            node: the op.
            of: the name of the other one's node.
        """
        told, forward = forward_node(self._graph, node), self._graph.nodes[of]
        if told is not None or node.attributes.get(PHASE) != BACKWARD:
            is_own = told is not None and told.name == of
            return is_own or (self._is_factor(node, forward) and self.is_kept(node, forward))
        if {*forward.inputs, f"{of}:0"}.isdisjoint(node.inputs):
            return False
        roles, place = self._lineage.roles, place_of(forward)
        if place_of(node) == place:
            return True
        is_derived = roles.computes(node.op_type) in _DERIVED.get(
            roles.computes(forward.op_type), ()
        )
        return is_derived and place not in self._lineage.once(_gradient_places)

    def _is_factor(self, node: Node, forward: Node) -> bool:
        """Whether a node can only be of an op's derivative: of what it is given and has made.

        Or it is 1 / y^2 of the divisor of a quotient.
        """
        if f"{forward.name}:0" in node.inputs and not {*forward.inputs}.isdisjoint(node.inputs):
            return True
        computes = self._lineage.roles.computes
        kinds = computes(forward.op_type), computes(node.op_type), number_of(node, "y")
        return kinds == ("div", "pow", -2) and [*node.inputs] == [*forward.inputs[1:]]

    def is_kept(self, node: Node, forward: Node) -> bool:
        """Whether a node of the forward pass is there for the gradients of a line alone.

        JAX computes in the forward pass what a derivative is multiplied with.

        Args:
            node: the one.
            forward: one of the line.
        """
        waiting, place = [node], place_of(forward)
        for each in waiting:  # it grows
            if each is not node and not self.is_before(each.name):
                continue
            edges = self._graph.recipients(each.name, control=False)
            if place_of(each) != place or not edges:
                return False
            found = (self._graph.nodes[edge.node] for edge in edges)
            waiting += [reader for reader in found if reader not in waiting]
        return self.is_before(node.name)

    def is_before(self, name: str) -> bool:
        """Whether a node belongs to the forward pass.

        Args:
            name: of the node.
        """
        node = self._graph.nodes.get(name)
        return node is not None and node.attributes.get(PHASE) != BACKWARD


def _gradient_places(lineage: TensorLineage) -> set[tuple[str, int] | None]:
    """The lines of all gradients."""
    nodes = lineage.graph.nodes.values() if lineage.graph is not None else ()
    return {place_of(each) for each in nodes if each.attributes.get(PHASE) == BACKWARD}
