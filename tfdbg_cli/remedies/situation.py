"""What a remedy is for, and what it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from tfdbg_cli.common.arrays import Array, np
from tfdbg_cli.common.node_words import VIEW
from tfdbg_cli.dumps.dump import CannotRedo
from tfdbg_cli.dumps.graph import Graph, Node, node_name_of
from tfdbg_cli.dumps.series.points import Series
from tfdbg_cli.dumps.sources import own_frame
from tfdbg_cli.filters.causes.patterns import later_phase, matrix_of
from tfdbg_cli.remedies.trial import Change
from tfdbg_cli.tensors.numeric import has_nonfinite

__all__ = ["Candidate", "Composite", "Situation", "changed_input", "small_number"]

# So many views are looked through.
_MOST_VIEWS = 20
# More ops of one line aren't changed together.
_MOST_BESIDE = 50


class Situation(NamedTuple):
    """What a remedy is for.

    Attributes:
        kind: of the reason (`filters.causes.advice.Cause`).
        graph: of the run.
        node: the op that is changed: of a bad gradient the forward op.
        meaning: what that op computes (`OpRoles.meanings`).
        dtype: of its result.
        value: gives a tensor of the run by its name; raises `CannotRedo`.
        is_bad: whether anything is bad that a node has made, by its name.
        computes: op type -> meaning.
        spelling: as `EngineTraits.spelling`.
        tracks: the numbers that were followed over the runs.
    """

    kind: str
    graph: Graph
    node: Node
    meaning: str
    dtype: str
    value: Callable[[str], Any]
    is_bad: Callable[[str], bool]
    computes: Callable[[str], str]
    spelling: Mapping[str, str]
    tracks: Mapping[str, Series]

    def maker(self, place: int) -> Node | None:
        """The node that made an input."""
        names = self.node.inputs
        return self.graph.nodes.get(node_name_of(names[place])) if place < len(names) else None

    def makers(self, node: Node | None) -> list[Node]:
        """The nodes that made what a node reads, behind those that only hand numbers on."""
        found = [self.graph.nodes.get(node_name_of(each)) for each in (node.inputs if node else ())]
        return [self._past(each) for each in found if each is not None]

    def _past(self, node: Node) -> Node:
        for _ in range(_MOST_VIEWS):
            maker = self.graph.nodes.get(node_name_of(node.inputs[0])) if node.inputs else None
            if maker is None or not self.hands_on(node):
                break
            node = maker
        return node

    def readers(self, node: Node) -> list[Node]:
        """The nodes that read the result of one."""
        edges = self.graph.recipients(node.name, control=False)
        return [self.graph.nodes[each.node] for each in edges]

    def is_read_by(self, node: Node, reader: Node) -> bool:
        """Whether the forward pass reads a node in no other place than one, but for views."""
        for each in self.readers(node):
            if each is reader or later_phase(self.graph.nodes, each.name):
                continue
            if not (self.hands_on(each) and self.is_read_by(each, reader)):
                return False
        return True

    def hands_on(self, node: Node) -> bool:
        """Whether a node only hands numbers on: a view, a reshape."""
        return VIEW in node.attributes or self.computes(node.op_type) == "same"

    def beside(self) -> list[Node]:
        """Ops of the same line that compute the same, and are bad too; logarithms in any case.

        What a library computes inside isn't in the program's line: they are of one file there, too.
        """
        place = _place(self.node)
        if not self.meaning or place is None or not self._is_forward(self.node.name):
            return []
        found = []
        for name, node in self.graph.nodes.items():
            if node is self.node or self.computes(node.op_type) != self.meaning:
                continue
            is_here = _place(node) == place
            if is_here and self._is_forward(name) and self._counts(name):
                found.append(node)
                if len(found) > _MOST_BESIDE:  # a loop that was unrolled
                    return []
        return found

    def of_matrix(self) -> tuple[str, list[Node]]:
        """A matrix, and the ops that are given it: of JAX's functions several of the one call."""
        matrix = matrix_of(self.graph.nodes, self.node)
        if not matrix and self.node.op_type != "custom_linear_solve":
            return self.node.inputs[0], [self.node]
        matrix = matrix or self.node.inputs[0]
        place = own_frame(self.node.frames or ())
        edges = self.graph.recipients(node_name_of(matrix), control=False)
        readers = [self.graph.nodes[each] for each in dict.fromkeys(edge.node for edge in edges)]
        return matrix, [
            each
            for each in readers
            if matrix in each.inputs and own_frame(each.frames or ()) == place
        ]

    def _is_forward(self, name: str) -> bool:
        return later_phase(self.graph.nodes, name) in ("", "recompute")

    def _counts(self, name: str) -> bool:
        try:
            return self.kind == "log" or has_nonfinite(self.value(f"{name}:0"))
        except CannotRedo:  # it was computed several times
            return self.is_bad(name)

    def is_written_as_int(self, place: int) -> bool:
        """Whether an input is floating point only because the op's call has cast whole numbers."""
        maker = self.maker(place)
        if maker is None or not maker.inputs or self.computes(maker.op_type) != "cast":
            return False
        return bool(self.value(maker.inputs[0]).dtype.kind in "biu")


def _place(node: Node) -> tuple[Any, ...] | None:
    """The line of the program that an op is of, and the file that calls it; ``None``: no line."""
    frames = node.frames or ()
    frame = own_frame(frames)
    return (*frame[:2], frames[-1].file) if frame is not None else None


def changed_input(
    place: int, function: Callable[[Array], Array]
) -> Callable[[list[Any]], list[Any]]:
    """What changes one input of an op, computed in float64 and rounded to the input's dtype.

    Whole numbers get the dtype of another input, as they do where a line adds a fraction to them.

    Args:
        place: of the input.
        function: of its elements.
    """

    def give(given: list[Any]) -> list[Any]:
        dtypes = [each.dtype for each in given[place : place + 1] + given]
        dtype = next((each for each in dtypes if each.kind in "fV"), None)
        if place < len(given) and dtype is not None and given[place].dtype.kind in "fViu":
            with np.errstate(all="ignore"):
                changed = np.asarray(function(given[place].astype(np.float64)))
            given[place] = changed.astype(dtype)
        return given

    return give


def small_number(situation: Situation) -> float:
    """A number that is small, and not 0, in the dtype of the op."""
    return 1e-6 if situation.dtype == "float16" else 1e-12


class Composite(NamedTuple):
    """Several calls of a line that one function takes the place of.

    Attributes:
        outer: the node of the outermost one.
        inner: what the innermost ones may be called.
        calls: how many of these there are.
    """

    outer: str
    inner: tuple[str, ...]
    calls: int = 1


class Candidate(NamedTuple):
    """One remedy.

    Attributes:
        text: the change, where the program's line can't be rewritten.
        change: of the run.
        argument: which argument of the call is written otherwise; -1: none.
        edit: how, as one of `EngineTraits.spelling`, with the numbers that it takes; empty: the
            line isn't rewritten.
        numbers: these.
        composite: the calls that are written as one, in which case no argument is.
    """

    text: str
    change: Change
    argument: int = -1
    edit: str = ""
    numbers: tuple[float, ...] = ()
    composite: Composite | None = None

    @property
    def others(self) -> list[str]:
        """The ops that are changed in the same way."""
        return [each.node for each in self.change.others]
