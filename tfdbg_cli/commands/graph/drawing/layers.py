"""Where the boxes and wires of a small directed graph come to lie: layer below layer.

The usual steps (after Sugiyama): cycles are broken, every box gets a layer, wires that pass a layer
get a place in it, neighbours are brought near each other, and wires are led through the gaps. All
in whole columns and rows, so that the same places do for characters and for SVG.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

__all__ = ["BOX_ROWS", "Layout", "Net", "Place", "Port", "Segment", "lay_out"]

#: The rows of a box, its two borders included.
BOX_ROWS = 4

_GAP = 2  # columns between two boxes
_PASSING = 3  # columns of a wire that passes a layer
_SWEEPS = 8


class Net(NamedTuple):
    """A wire from a box to others.

    Attributes:
        source: the number of the box that it leaves.
        sinks: those that it leads to, each once.
        room: columns to the right of where it leaves, for a label.
    """

    source: int
    sinks: Sequence[int]
    room: int = 0


class Place(NamedTuple):
    """Where a box is: its upper left corner, its columns, and its layer."""

    column: int
    row: int
    width: int
    layer: int


class Port(NamedTuple):
    """Where a wire meets a box.

    Attributes:
        net, box: their numbers.
        column: of the border.
        is_top: of which border.
        is_sink: the wire ends here, and doesn't begin.
    """

    net: int
    box: int
    column: int
    is_top: bool
    is_sink: bool


class Segment(NamedTuple):
    """A straight part of a wire; one of the two differences is 0."""

    net: int
    column: int
    row: int
    to_column: int
    to_row: int


@dataclass
class Layout:
    """The places of all.

    Attributes:
        places: of the boxes, in their order.
        ports: where wires meet them.
        segments: of the wires.
        width, height: columns and rows in all.
    """

    places: list[Place] = field(default_factory=list)
    ports: list[Port] = field(default_factory=list)
    segments: list[Segment] = field(default_factory=list)
    width: int = 0
    height: int = 0


@dataclass
class _Strand:
    """A wire as it is drawn, from above to below, or one that goes back up."""

    net: int
    upper: int
    lower: list[int]
    is_back: bool


@dataclass
class _Vertex:
    """A box, or the place where a strand passes a layer."""

    layer: int
    width: int
    box: int | None = None
    column: int = 0


class _Link(NamedTuple):
    """A strand between two layers: one vertex above, those below."""

    strand: int
    upper: int
    lower: list[int]


def lay_out(widths: Sequence[int], nets: Sequence[Net]) -> Layout:
    """Find a place for everything.

    Args:
        widths: of the boxes, in columns; a box with many wires becomes wider.
        nets: the wires; from a box to itself there is none.
    """
    if not widths:
        return Layout()
    edges = [(net.source, sink) for net in nets for sink in net.sinks if sink != net.source]
    return _Drawing(widths, nets, _layers(len(widths), edges)).layout()


def _layers(count: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """A layer for each box: below those that its wires come from, but for wires that go back."""
    onwards: list[list[int]] = [[] for _ in range(count)]
    fed = [False] * count
    for source, sink in edges:
        onwards[source].append(sink)
        fed[sink] = True
    done, order = [0] * count, []
    forward: list[tuple[int, int]] = []
    for start in sorted(range(count), key=lambda box: fed[box]):
        stack = [(start, iter(onwards[start]))] if not done[start] else []
        done[start] = done[start] or 1
        while stack:
            box, rest = stack[-1]
            for sink in rest:
                if done[sink] != 1:  # else it is on the way here: the wire goes back
                    forward.append((box, sink))
                if not done[sink]:
                    done[sink] = 1
                    stack.append((sink, iter(onwards[sink])))
                    break
            else:
                done[box] = 2
                order.append(box)
                stack.pop()
    order.reverse()
    after: defaultdict[int, list[int]] = defaultdict(list)
    for source, sink in forward:
        after[source].append(sink)
    layers = [0] * count
    for box in order:
        for sink in after[box]:
            layers[sink] = max(layers[sink], layers[box] + 1)
    fed_forward = {sink for _, sink in forward}
    for box in reversed(order):  # what nothing leads to stands near what it leads to
        if box not in fed_forward and after[box]:
            layers[box] = min(layers[sink] for sink in after[box]) - 1
    lowest = min(layers)
    return [layer - lowest for layer in layers]


class _Drawing:
    def __init__(self, widths: Sequence[int], nets: Sequence[Net], layers: list[int]) -> None:
        self._nets = nets
        self._vertices = [
            _Vertex(layer, width, box)
            for box, (layer, width) in enumerate(zip(layers, widths, strict=True))
        ]
        self._strands = list(self._make_strands(layers))
        self._links: list[list[_Link]] = [[] for _ in range(max(layers) + 1)]  # below each layer
        for number, strand in enumerate(self._strands):
            self._thread(number, strand)
        self._above: defaultdict[int, list[int]] = defaultdict(list)
        self._below: defaultdict[int, list[int]] = defaultdict(list)
        for links in self._links:
            for link in links:
                for lower in link.lower:
                    self._above[lower].append(link.upper)
                    self._below[link.upper].append(lower)
        self._widen()
        self._rows: list[list[int]] = [[] for _ in self._links]
        for number, vertex in enumerate(self._vertices):
            self._rows[vertex.layer].append(number)

    def _make_strands(self, layers: Sequence[int]) -> Iterator[_Strand]:
        for number, (source, sinks, _) in enumerate(self._nets):
            down = [sink for sink in sinks if layers[sink] > layers[source]]
            if down:
                yield _Strand(number, source, down, False)
            for sink in sinks:
                if layers[sink] < layers[source]:
                    yield _Strand(number, sink, [source], True)

    def _thread(self, number: int, strand: _Strand) -> None:
        """Lead a strand through the layers between its ends."""
        at = strand.upper
        top = self._vertices[at].layer
        bottom = max(self._vertices[box].layer for box in strand.lower)
        for layer in range(top + 1, bottom + 1):
            lower = [box for box in strand.lower if self._vertices[box].layer == layer]
            link = _Link(number, at, lower)
            if layer < bottom:
                at = len(self._vertices)
                self._vertices.append(_Vertex(layer, _PASSING))
                lower.append(at)
            self._links[layer - 1].append(link)

    def _room(self, strand: _Strand) -> int:
        return 0 if strand.is_back else self._nets[strand.net].room

    def _widen(self) -> None:
        """Give each box the width that its wires need."""
        need: defaultdict[int, int] = defaultdict(lambda: 2)
        for strand in self._strands:
            need[strand.upper] += 2 + self._room(strand)
        for number, vertex in enumerate(self._vertices):
            if vertex.box is not None:
                vertex.width = max(vertex.width, need[number], 3 * len(self._above[number]) + 2)

    # -- the order in each layer

    def _sort(self) -> None:
        best, crossings = [list(row) for row in self._rows], self._crossings()
        for sweep in range(_SWEEPS):
            if not crossings:
                break
            down = sweep % 2 == 0
            near = self._above if down else self._below
            for row in self._rows if down else self._rows[::-1]:
                self._sort_row(row, near)
            found = self._crossings()
            if found < crossings:
                best, crossings = [list(row) for row in self._rows], found
        self._rows = best

    def _sort_row(self, row: list[int], near: dict[int, list[int]]) -> None:
        places = {number: at for other in self._rows for at, number in enumerate(other)}

        def middle(number: int) -> float:
            others = near.get(number)
            return sum(places[each] for each in others) / len(others) if others else places[number]

        row.sort(key=middle)

    def _crossings(self) -> int:
        places = {number: at for row in self._rows for at, number in enumerate(row)}
        total = 0
        for links in self._links:
            ends = [(places[link.upper], places[low]) for link in links for low in link.lower]
            total += sum(
                (a - c) * (b - d) < 0 for at, (a, b) in enumerate(ends) for c, d in ends[:at]
            )
        return total

    # -- columns

    def _middle(self, number: int) -> float:
        vertex = self._vertices[number]
        return vertex.column + vertex.width / 2

    def _spread(self) -> None:
        for row in self._rows:
            self._fit_row(row, [0.0] * len(row))
        for sweep in range(_SWEEPS):
            down = sweep % 2 == 0
            for row in self._rows if down else self._rows[::-1]:
                wanted = []
                for number in row:
                    near = (self._above if down else self._below)[number]
                    near = near or (self._below if down else self._above)[number]
                    centres = [self._middle(each) for each in near] or [self._middle(number)]
                    width = self._vertices[number].width
                    wanted.append(sum(centres) / len(centres) - width / 2)
                self._fit_row(row, wanted)
        left = min(vertex.column for vertex in self._vertices)
        for vertex in self._vertices:
            vertex.column -= left

    def _fit_row(self, row: Sequence[int], wanted: Sequence[float]) -> None:
        widths = [self._vertices[number].width for number in row]
        for number, column in zip(row, _fit(wanted, widths, _GAP), strict=True):
            self._vertices[number].column = column

    # -- wires

    def layout(self) -> Layout:
        self._sort()
        self._spread()
        leaving = self._leaving()
        layout = Layout(width=max(v.column + v.width for v in self._vertices))
        row = 0
        rows: list[int] = []
        arrived: dict[tuple[int, int], int] = {}
        for layer, links in enumerate(self._links):
            rows.append(row)
            row += BOX_ROWS
            arriving = self._arriving(layer, leaving)
            arrived |= arriving
            wires = [
                (
                    self._strands[link.strand].net,
                    leaving[link.strand, link.upper],
                    sorted(arriving[link.strand, low] for low in link.lower),
                )
                for link in links
            ]
            tracks = _tracks(wires)
            height = max([*tracks, 0]) + 1 if links else 0
            for (net, start, ends), track in zip(wires, tracks, strict=True):
                layout.segments += _led(net, start, ends, row - 1, row + height, row + track)
            row += height
        layout.height = row
        for (strand, number), column in leaving.items():
            if self._vertices[number].box is None:
                top = rows[self._vertices[number].layer]
                net = self._strands[strand].net
                start = arrived[strand, number]
                layout.segments += _led(net, start, [column], top - 1, top + BOX_ROWS, top + 1)
        self._meet(layout, leaving, arrived)
        layout.places = [
            Place(vertex.column, rows[vertex.layer], vertex.width, vertex.layer)
            for vertex in self._vertices
            if vertex.box is not None
        ]
        return layout

    def _meet(
        self,
        layout: Layout,
        leaving: dict[tuple[int, int], int],
        arrived: dict[tuple[int, int], int],
    ) -> None:
        for is_top, ends in ((False, leaving), (True, arrived)):
            for (strand, number), column in ends.items():
                box = self._vertices[number].box
                if box is not None:
                    is_back = self._strands[strand].is_back
                    net = self._strands[strand].net
                    layout.ports.append(Port(net, box, column, is_top, is_top is not is_back))

    def _leaving(self) -> dict[tuple[int, int], int]:
        """The columns where strands leave vertices downwards."""
        by_vertex: defaultdict[int, list[_Link]] = defaultdict(list)
        for links in self._links:
            for link in links:
                by_vertex[link.upper].append(link)
        found: dict[tuple[int, int], int] = {}
        for number, links in by_vertex.items():
            vertex = self._vertices[number]
            if vertex.box is None:
                found[links[0].strand, number] = vertex.column + 1
                continue

            def target(link: _Link) -> float:
                return sum(self._middle(low) for low in link.lower) / len(link.lower)

            links.sort(key=target)
            widths = [1 + self._room(self._strands[link.strand]) for link in links]
            low, high = vertex.column + 1, vertex.column + vertex.width - 1
            wanted = [target(link) for link in links]
            for link, column in zip(links, _fit(wanted, widths, 1, low, high), strict=True):
                found[link.strand, number] = column
        return found

    def _arriving(
        self, layer: int, leaving: dict[tuple[int, int], int]
    ) -> dict[tuple[int, int], int]:
        """The columns where the strands below a layer arrive.

        Never below where another one leaves: the two could not be told apart.
        """
        links = self._links[layer]
        starts = {leaving[link.strand, link.upper]: link.strand for link in links}
        found: dict[tuple[int, int], int] = {}
        by_vertex: defaultdict[int, list[_Link]] = defaultdict(list)
        for link in links:
            for low in link.lower:
                by_vertex[low].append(link)
        for number, arriving in by_vertex.items():
            vertex = self._vertices[number]
            margin = 0 if vertex.box is None else 1
            low, high = vertex.column + margin, vertex.column + vertex.width - margin
            arriving.sort(key=lambda link: leaving[link.strand, link.upper])
            wanted = [float(leaving[link.strand, link.upper]) for link in arriving]
            taken: set[int] = set()
            for link, near in zip(
                arriving, _fit(wanted, [1] * len(wanted), 1, low, high), strict=True
            ):
                free = [
                    column
                    for column in range(low, high)
                    if column not in taken and starts.get(column, link.strand) == link.strand
                ]
                column = min(free, key=lambda each: abs(each - near), default=near)
                taken.add(column)
                found[link.strand, number] = column
        return found


def _fit(
    wanted: Sequence[float],
    widths: Sequence[int],
    gap: int,
    low: int | None = None,
    high: int | None = None,
) -> list[int]:
    """Columns as near to those wanted as their order and widths allow, and within bounds."""
    offsets = [0]
    for width in widths:
        offsets.append(offsets[-1] + width + gap)
    # Neighbours that would overlap become a block, which goes where it is best for all of them.
    blocks: list[tuple[float, int]] = []
    for column, offset in zip(wanted, offsets, strict=False):
        value, count = column - offset, 1
        while blocks and blocks[-1][0] > value:
            other, more = blocks.pop()
            value, count = (value * count + other * more) / (count + more), count + more
        blocks.append((value, count))
    starts = [round(value) for value, count in blocks for _ in range(count)]
    if high is not None:
        starts = [min(start, high - (offsets[-1] - gap)) for start in starts]
    if low is not None:
        starts = [max(start, low) for start in starts]
    return [start + offset for start, offset in zip(starts, offsets, strict=False)]


def _tracks(wires: Sequence[tuple[int, int, Sequence[int]]]) -> list[int]:
    """On which row of a gap each wire goes sideways, so that none lies on another."""
    taken: list[list[tuple[int, int]]] = []
    tracks = []
    for _, start, ends in wires:
        first, last = min(start, *ends), max(start, *ends)
        track = 0
        while first < last:
            if track == len(taken):
                taken.append([])
            if all(last + 1 < low or first > high + 1 for low, high in taken[track]):
                taken[track].append((first, last))
                break
            track += 1
        tracks.append(track)
    return tracks


def _led(
    net: int, start: int, ends: Sequence[int], top: int, bottom: int, track: int
) -> Iterator[Segment]:
    """A wire from a row down to another one, sideways on the track between them."""
    if list(ends) == [start]:
        yield Segment(net, start, top, start, bottom)
        return
    yield Segment(net, start, top, start, track)
    first, last = min(start, *ends), max(start, *ends)
    yield Segment(net, first, track, last, track)
    for end in ends:
        yield Segment(net, end, track, end, bottom)
