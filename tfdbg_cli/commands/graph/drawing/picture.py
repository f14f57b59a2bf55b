"""A neighbourhood with a place and a text for everything in it."""

from __future__ import annotations

import functools
import unicodedata
from collections import defaultdict
from collections.abc import Iterator, Sequence

from tfdbg_cli.commands.graph.drawing.layers import Layout, Net, Port, lay_out
from tfdbg_cli.commands.graph.drawing.neighbourhood import Neighbourhood, Vertex, Wire
from tfdbg_cli.commands.graph.drawing.state import LABEL, UNKNOWN, State, States
from tfdbg_cli.common.printable import printable
from tfdbg_cli.dumps.dump import Dump
from tfdbg_cli.dumps.elements import slot_of

__all__ = ["Picture", "columns_of", "shortened"]

_LONGEST_NAME, _LONGEST_TYPE = 30, 24


class Picture:
    """What is drawn, whatever it is drawn with.

    Args:
        found: the nodes and edges.
        dump: whose tensors they carry.
        states: how those are.
        has_tensors: whether the dump keeps any.
    """

    def __init__(
        self, found: Neighbourhood, dump: Dump, states: States, *, has_tensors: bool = True
    ) -> None:
        self.vertices: Sequence[Vertex] = found.vertices
        self.wires: Sequence[Wire] = found.wires
        self.centre = found.centre
        self.states = states
        self._dump = dump
        self.names = [shortened(printable(each.name), _LONGEST_NAME) for each in found.vertices]
        self.types = [self._type(each) for each in found.vertices]
        labelled = LABEL + 3 if has_tensors else 0
        carrying = {wire.source for wire in found.wires if wire.tensor}
        widths = []
        for at, (name, op) in enumerate(zip(self.names, self.types, strict=True)):
            leaving = sum(wire.source == at for wire in found.wires) if at not in carrying else 0
            words = labelled + 2 * leaving if found.vertices[at].is_node else 0
            widths.append(4 + max(columns_of(name), len(op), words - 1))
        nets = [Net(each.source, each.sinks, labelled if each.tensor else 0) for each in self.wires]
        self.layout: Layout = lay_out(widths, nets)
        self._sources: defaultdict[int, list[Port]] = defaultdict(list)
        for port in self.layout.ports:
            if not port.is_top and not port.is_sink and self.wires[port.net].tensor:
                self._sources[port.box].append(port)
        # What no wire goes down with has a state, too: what comes out of the last boxes.
        self._ends = [
            each.is_node and not self._sources[at] for at, each in enumerate(found.vertices)
        ]

    @staticmethod
    def _type(vertex: Vertex) -> str:
        loop = " ↺" if vertex.is_loop else ""
        return shortened(printable(vertex.op_type), _LONGEST_TYPE) + loop

    def state(self, wire: Wire) -> State:
        """How what a wire carries is."""
        return self.states.of([wire.tensor]) if wire.tensor else UNKNOWN

    def labels(self, box: int) -> Iterator[tuple[Port | None, State]]:
        """The words at the lower border of a box, and the ports that they stand at."""
        for port in self._sources[box]:
            wire = self.wires[port.net]
            state, slot = self.state(wire), slot_of(wire.tensor)
            yield port, state._replace(text=f":{slot} {state.text}") if slot else state
        if self._ends[box]:
            yield None, self.states.of(self._outputs(box))

    def _outputs(self, box: int) -> list[str]:
        name = self.vertices[box].name
        data = self._dump.by_node(name)
        return [*dict.fromkeys(datum.tensor_name for datum in data)] or [f"{name}:0"]

    def settle(self) -> None:
        """Wait until every state is known."""
        self.states.settle(wire.tensor for wire in self.wires if wire.tensor)
        for box, is_end in enumerate(self._ends):
            if is_end:
                self.states.settle(self._outputs(box))


def columns_of(text: str) -> int:
    """The columns that a text takes on a terminal."""
    return len(text) if text.isascii() else sum(map(_width, text))


@functools.lru_cache(maxsize=1024)
def _width(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def shortened(text: str, longest: int) -> str:
    """The end of a text, which tells more of a name than its beginning."""
    if columns_of(text) <= longest:
        return text
    at, room = len(text), longest - 1
    while room >= _width(text[at - 1]):
        at -= 1
        room -= _width(text[at])
    return f"…{text[at:]}"
