"""What several ops compute together, where a framework has no op for it: norms, softmax, means."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from tfdbg_cli.common.arrays import Array, np
from tfdbg_cli.common.node_words import (
    BACKWARD,
    FORWARD_NODE,
    GRADIENTS,
    LEFT,
    PHASE,
    RIGHT,
    VIEW,
    WRITES,
)
from tfdbg_cli.dumps.dump import Datum
from tfdbg_cli.dumps.graph import COLLECTED, Node, node_name_of, parse_tensor_name
from tfdbg_cli.dumps.sources import is_library_path, own_frame
from tfdbg_cli.filters.causes.rules import places_of
from tfdbg_cli.filters.lineage import TensorLineage, floats

__all__ = [
    "Makers",
    "constant",
    "is_of_negative_determinant",
    "later_phase",
    "matrix_of",
    "number_of",
]

_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?|[-+]?inf|nan", re.IGNORECASE)
# Numbers below half of the smallest one of a dtype are 0 in it.
_SMALLEST = {"float16": 2.0**-25, "float32": 2.0**-150}
_OPERANDS = (LEFT, RIGHT)
# So many ops of one determinant are gone through, back to its matrix.
_MOST_OF_DETERMINANT = 100


def constant(node: Node, place: int) -> float | None:
    """An operand that is not a tensor but a number; ``None``: it is a tensor."""
    found = (number_of(node, name) for name in _OPERANDS[place])
    return next((each for each in found if each is not None), None)


def number_of(node: Node, name: str) -> float | None:
    """The number that an attribute holds; ``None``: it holds none."""
    text = node.attributes.get(name, "")
    return float(text) if _NUMBER.fullmatch(text) else None


def _operand(node: Node, place: int) -> str:
    """The tensor that an operand is; empty: it is a number, or isn't there."""
    if constant(node, place) is not None:
        return ""
    at = place if len(node.inputs) > 1 else 0
    return node.inputs[at] if at < len(node.inputs) else ""


class Makers:
    """By which ops the tensors were made that a tensor was computed from.

    Args:
        lineage: of the dump.
        datum: the tensor.
    """

    def __init__(self, lineage: TensorLineage, datum: Datum) -> None:
        self._lineage, self._datum = lineage, datum

    def root_of_gradient(self, node: Node, what: str) -> str:
        """The square root of which a node computes the gradient; empty: it computes none.

        Args:
            node: the one that made the tensor.
            what: it computes.
        """
        assert self._lineage.graph is not None
        if what == "sqrt_grad":
            return node.inputs[0]
        forward = self._lineage.graph.nodes.get(node.attributes.get(FORWARD_NODE, ""))
        if what not in ("div", "sqrt_backward"):
            return ""
        if forward is not None:
            return f"{forward.name}:0" if self._computes(forward) == "sqrt" else ""
        # 0.5 / sqrt(x), which only the backward pass reads, is how JAX has it.
        root, maker = self._maker(_operand(node, 1))
        if self._number(node, 0) != 0.5 or self._computes(maker) != "sqrt":
            return ""
        readers = self._readers_behind_loops(node)
        nodes = self._lineage.graph.nodes
        is_backward = [later_phase(nodes, each.name) == BACKWARD for each in readers]
        return root if readers and all(is_backward) else ""

    def divisor_norm(self, node: Node) -> str:
        """The node of the norm that a division divides by; empty: it is none."""
        return self.norm(_operand(node, 1))

    def norm(self, name: str) -> str:
        """The node of the norm that a tensor is; empty: it is none."""
        source, maker = self._maker(name)
        is_norm = self._computes(maker) == "norm"
        for total in self._made_by(name, "sqrt")[:1]:
            is_norm = any(self._squared(each) for each in self._made_by(total, "sum")[:1])
        return parse_tensor_name(source)[0] if is_norm else ""

    def divides_by_spread(self, node: Node) -> bool:
        """Whether a division is by a standard deviation or a variance."""
        name, maker = self._maker(_operand(node, 1))
        if self._computes(maker) == "sqrt" and maker is not None:
            name, maker = self._maker(maker.inputs[0])
        if maker is None or self._computes(maker) == "variance":
            return maker is not None
        # JAX chooses between the variance and a nan, for no elements.
        is_choice = maker.op_type in self._lineage.roles.choosing
        for each in maker.inputs if is_choice else (name,):
            mean = self._made_by(each, "mean") or self._made_by(
                (*self._made_by(each, "div"), "")[0], "sum"
            )
            if mean and self._is_off_mean(self._squared(mean[0])):
                return True
        return False

    def lost_number(self, name: str, dtype: str) -> str:
        """What is said of a small number that was added to a tensor and is 0; empty: none was."""
        maker = self._maker(name)[1]
        if maker is None or self._computes(maker) != "add":
            return ""
        for place in (0, 1):
            number = constant(maker, place)
            if number == 0:  # JAX has it in the dtype
                return "what is added to the divisor is 0"
            if number and dtype in _SMALLEST and abs(number) < _SMALLEST[dtype]:
                return f"the {number:g} that is added to the divisor is 0 in {dtype}"
        for each in maker.inputs:
            given, source = self._lineage.as_given(self._datum, each), self._maker(each)[1]
            value = floats(given) if given is not None and given.shape == () else None
            if value is not None and not value.any() and source is not None and not source.inputs:
                return f"the small number that is added to the divisor is 0 in {dtype}"
        return ""

    def of_determinant(self, node: Node, bad: Array) -> str | None:
        """Which matrices are singular whose determinants' logarithms a node computes.

        Args:
            node: the one that made the tensor.
            bad: where it is.

        Returns:
            ``None``: it doesn't compute any.
        """
        assert self._lineage.graph is not None
        shape = self._lineage.shape(matrix_of(self._lineage.graph.nodes, node))
        if shape is None or bad.shape[: len(shape) - 2] != shape[:-2]:
            return None
        return places_of(np.asarray(bad.reshape(*shape[:-2], -1).any(-1)))

    def is_below_its_maximum(self, node: Node) -> bool:
        """Whether it is x - max(x), of which exp is taken: the first part of a softmax."""
        whole, name = _operand(node, 0), _operand(node, 1)
        has_maximum = False
        seen: set[str] = set()  # a damaged graph may lead in a circle
        while name != whole:
            seen.add(name)
            maker = self._node(name)
            what = self._computes(maker)
            if maker is None or not maker.inputs or what not in ("max", "same"):
                return False
            if maker.inputs[0] in seen:
                return False
            has_maximum = has_maximum or what == "max"
            name = maker.inputs[0]
        return has_maximum and any(self._computes(each) == "exp" for each in self._readers(node))

    def is_mean_of_nothing(self, node: Node) -> bool:
        """Whether a division is of a sum of no elements."""
        total = _operand(node, 0)
        return any(self._size(each) == 0 for each in self._made_by(total, "sum")[:1])

    def is_variance_of_one(self, node: Node) -> bool:
        """Whether a division is of a sum of squares of x - mean(x), each of one element."""
        name = _operand(node, 0)
        squares = [*self._made_by(name, "sum")[:1]]
        return any(
            self._size(each) == self._size(name) and self._is_off_mean(self._squared(each))
            for each in squares
        )

    def _is_off_mean(self, name: str) -> bool:
        """Whether a tensor is x - mean(x)."""
        difference = self._made_by(name, "sub")
        if len(difference) != 2:
            return False
        dividend = self._made_by(difference[1], "div")
        mean = self._made_by((*dividend, difference[1])[0], "mean", "sum")
        return [*mean[:1]] == [difference[0]]

    def written_over(self, node: Node) -> str:
        """Which op has written over an input since; empty: none is known."""
        assert self._lineage.graph is not None
        waiting = iter(self._lineage.graph.nodes.values())
        if not any(each is node for each in waiting):  # those behind it are left
            return ""
        for each in waiting:
            for name in each.attributes.get(WRITES, "").split(", "):
                if name and name in node.inputs:
                    frame = own_frame(each.frames or ())
                    line = f", line {frame.line}," if frame is not None else ""
                    return f"{name} isn't kept unchanged: {each.name}{line} has overwritten it"
        return ""

    def _number(self, node: Node, place: int) -> float | None:
        """An operand that is a number, as it stands or as ops hand it on to all elements."""
        maker = self._maker(_operand(node, place))[1] if constant(node, place) is None else node
        if maker is None or (maker is not node and (maker.inputs or not self._hands_on(maker))):
            return None
        return constant(maker, place if maker is node else 0)

    def _squared(self, name: str) -> str:
        """The tensor of which it is the square; empty: it is none."""
        maker = self._maker(name)[1]
        what = self._computes(maker)
        if maker is None or not maker.inputs:
            return ""
        is_square = (
            what == "square"
            or (what == "mul" and len(maker.inputs) == 2 and len(set(maker.inputs)) == 1)
            or (what == "pow" and self._exponent(maker) == 2)
        )
        return maker.inputs[0] if is_square else ""

    def _exponent(self, node: Node) -> float | None:
        if len(node.inputs) < 2:
            return constant(node, 1)
        given = self._lineage.as_given(self._datum, node.inputs[1])
        value = floats(given) if given is not None and given.shape == () else None
        return float(value) if value is not None else None

    def _made_by(self, name: str, *what: str) -> Sequence[str]:
        """What the op was given that made a tensor, if it computes one of these; else nothing."""
        maker = self._maker(name)[1]
        return maker.inputs if maker is not None and self._computes(maker) in what else ()

    def _maker(self, name: str) -> tuple[str, Node | None]:
        """A tensor and what made it, past the ops that only hand numbers on."""
        maker = self._node(name)
        seen = {name}
        while maker is not None and maker.inputs and self._hands_on(maker):
            name = maker.inputs[0]
            if name in seen:
                return name, None
            seen.add(name)
            maker = self._node(name)
        return name, maker

    def _hands_on(self, node: Node) -> bool:
        return VIEW in node.attributes or self._computes(node) == "same"

    def _node(self, name: str) -> Node | None:
        assert self._lineage.graph is not None
        return self._lineage.graph.nodes.get(node_name_of(name))

    def _readers(self, node: Node) -> list[Node]:
        assert self._lineage.graph is not None
        nodes = self._lineage.graph.nodes
        edges = self._lineage.graph.recipients(node.name, control=False)
        return [nodes[edge.node] for edge in edges if edge.node in nodes]

    def _readers_behind_loops(self, node: Node) -> list[Node]:
        """The readers; of what a loop collects from all iterations those of the list."""
        assert self._lineage.graph is not None
        found: list[Node] = []
        for each in self._readers(node):
            if each.op_type != COLLECTED:
                found.append(each)
                continue
            for loop in self._readers(each):
                slots = [
                    at for at, ways in enumerate(loop.returns or ()) if f"{each.name}:0" in ways
                ]
                lists = {f"{loop.name}:{slot}" for slot in slots}
                found += [reader for reader in self._readers(loop) if lists & {*reader.inputs}]
        return found

    def _computes(self, node: Node | None) -> str:
        return self._lineage.roles.computes(node.op_type) if node is not None else ""

    def _size(self, name: str) -> int:
        """The number of elements; -1: it isn't known."""
        given = self._lineage.as_given(self._datum, name)
        return int(np.prod(given.shape)) if given is not None and given.shape is not None else -1


def matrix_of(nodes: Mapping[str, Node], node: Node) -> str:
    """The matrix of whose determinant an op computes the logarithm, or the gradient of that.

    JAX has no op for it: its ``slogdet`` calls several. Empty: it is none of them.

    Args:
        nodes: of the graph.
        node: the op.
    """
    waiting = [node] if _is_of_determinant(node) else []
    seen = {node.name}
    while waiting and len(seen) < _MOST_OF_DETERMINANT:
        for name in waiting.pop(0).inputs:
            maker = nodes.get(node_name_of(name))
            if maker is None or maker.name in seen:
                continue
            seen.add(maker.name)
            if _is_of_determinant(maker):
                waiting.append(maker)
            elif not later_phase(nodes, maker.name):
                return name
    return ""


def _is_of_determinant(node: Node) -> bool:
    return any(
        each.function.rpartition(".")[2].lstrip("_").startswith("slogdet")
        and is_library_path(each.file)
        for each in node.frames or ()
    )


def is_of_negative_determinant(nodes: Mapping[str, Node], node: Node) -> bool:
    """Whether the nan of an op stand for the logarithms of negative determinants.

    PyTorch's ``logdet`` is ``where(sign == -1, nan, logarithm)`` of what ``slogdet`` has made.

    Args:
        nodes: of the graph.
        node: the op.
    """
    if node.op_type != "where" or not node.inputs:
        return False
    condition = nodes.get(node_name_of(node.inputs[0]))
    if condition is None or condition.op_type != "eq" or constant(condition, 1) != -1:
        return False
    sign, _ = parse_tensor_name(condition.inputs[0])
    maker = nodes.get(sign)
    is_sign = maker is not None and maker.op_type == "_linalg_slogdet"
    return is_sign and condition.inputs[0] == f"{sign}:0" and f"{sign}:1" in node.inputs


def later_phase(nodes: Mapping[str, Node], name: str) -> str:
    """``backward``, ``optimizer`` or another part of a step behind the forward pass; else empty.

    Args:
        nodes: of the graph.
        name: of the node.
    """
    found = nodes[name].attributes.get(PHASE, "") if name in nodes else ""
    return found.replace("forward", "") or (BACKWARD if GRADIENTS in name else "")
