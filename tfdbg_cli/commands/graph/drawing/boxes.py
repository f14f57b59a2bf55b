"""A picture of a graph in box characters, as a Document."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import groupby

from tfdbg_cli.commands.graph.drawing.layers import BOX_ROWS, Port
from tfdbg_cli.commands.graph.drawing.picture import Picture, columns_of
from tfdbg_cli.commands.graph.drawing.state import State
from tfdbg_cli.commands.shell.parsing import quoted
from tfdbg_cli.common.documents import Cell, Document, Line, Link, Span, TextDocument, line
from tfdbg_cli.common.errors import UserError

__all__ = ["PictureDocument"]

_UP, _DOWN, _LEFT, _RIGHT = 1, 2, 4, 8
_LIGHT = " │││─┘┐┤─└┌├─┴┬┼"
_HEAVY = " ┃┃┃━┛┓┫━┗┏┣━┻┳╋"
_DASHED = " ┆┆┆┄┘┐┤┄└┌├┄┴┬┼"
_ARROW_DOWN, _ARROW_UP = "▼", "▲"
_BORDER, _CENTRE = "┌─┐│└┘", "╔═╗║╚╝"

# A column of a row: what it shows, its role, and what it leads to.
_Char = tuple[str, str, Link | None]
_BLANK: _Char = (" ", "", None)


class PictureDocument(Document):
    """The rows of a picture; each is drawn when it is looked at.

    The cursor goes from box to box; what is bad is drawn in heavy lines.

    Args:
        picture: what to draw.
    """

    def __init__(self, picture: Picture) -> None:
        self._picture = picture
        self._layout = layout = picture.layout
        self._by_row: dict[int, list[int]] = {}
        for box, place in enumerate(layout.places):
            for row in range(place.row, place.row + BOX_ROWS):
                self._by_row.setdefault(row, []).append(box)
        self._ports: defaultdict[tuple[int, bool], list[Port]] = defaultdict(list)
        for port in layout.ports:
            self._ports[port.box, port.is_top].append(port)
        self._crossed = self._wires_by_row()
        self._states: dict[int, State] = {}

    def _wires_by_row(self) -> dict[int, dict[int, dict[int, int]]]:
        """Row -> column -> wire -> the sides of the place that it touches."""
        rows: defaultdict[int, dict[int, dict[int, int]]] = defaultdict(dict)

        def touch(net: int, column: int, row: int, side: int) -> None:
            sides = rows[row].setdefault(column, {})
            sides[net] = sides.get(net, 0) | side

        for net, column, row, to_column, to_row in self._layout.segments:
            for at in range(row, to_row):
                touch(net, column, at, _DOWN)
                touch(net, column, at + 1, _UP)
            for at in range(column, to_column):
                touch(net, at, row, _RIGHT)
                touch(net, at + 1, row, _LEFT)
        return rows

    @property
    def line_count(self) -> int:
        return self._layout.height

    def lines(self, start: int, stop: int) -> list[Line]:
        rows = range(max(start, 0), min(stop, self.line_count))
        self._states.clear()  # they may be known by now
        return [_line(self._row(row)) for row in rows]

    @property
    def pending(self) -> bool:
        """Whether some tensor is still looked through."""
        return self._picture.states.is_pending

    def settle(self, start: int, stop: int) -> None:
        """Look through the tensors of the picture."""
        self._picture.settle()

    # -- one row

    def _state(self, net: int) -> State:
        if net not in self._states:
            self._states[net] = self._picture.state(self._picture.wires[net])
        return self._states[net]

    def _row(self, row: int) -> list[_Char]:
        chars = [_BLANK] * self._layout.width
        for column, sides in self._crossed.get(row, {}).items():
            # Where two cross, the one that goes down lies above the other.
            net = max(sides, key=lambda each: bool(sides[each] & (_UP | _DOWN)))
            wire = self._picture.wires[net]
            state = self._state(net)
            signs = _DASHED if wire.is_control else _HEAVY if state.is_bad else _LIGHT
            chars[column] = (signs[sides[net]], state.role, None)
        for box in self._by_row.get(row, ()):
            place = self._layout.places[box]
            made = self._box_row(box, row - place.row)
            chars[place.column : place.column + place.width] = made
        return chars

    def _box_row(self, box: int, row: int) -> list[_Char]:
        picture, width = self._picture, self._layout.places[box].width
        vertex = picture.vertices[box]
        signs = _CENTRE if box == picture.centre else _BORDER
        role = "bold" if box == picture.centre else "" if vertex.is_node else "dim"
        if row in (0, BOX_ROWS - 1):
            left, right = (signs[0], signs[2]) if row == 0 else (signs[4], signs[5])
            border: list[_Char] = [(sign, role, None) for sign in left + signs[1] * (width - 2)]
            return self._with_ports(box, row == 0, [*border, (right, role, None)])
        if row == 1:
            text = picture.names[box]
            name_role = "bold" if box == picture.centre else "link"
            inside = _text(text, name_role, Link(vertex.command))
        else:
            text = picture.types[box]
            inside = _text(text, "op_type", Link(f"graph {quoted(vertex.name)}"))
        side: _Char = (signs[3], role, None)
        pad = [_BLANK] * (width - 4 - len(inside))
        return [side, _BLANK, *inside, *pad, _BLANK, side]

    def _with_ports(self, box: int, is_top: bool, border: list[_Char]) -> list[_Char]:
        first = self._layout.places[box].column
        picture = self._picture
        for port in self._ports[box, is_top]:
            state = self._state(port.net)
            sign = (
                (_ARROW_DOWN if is_top else _ARROW_UP) if port.is_sink else "┴" if is_top else "┬"
            )
            border[port.column - first] = (sign, state.role, None)
        if is_top:
            return border
        for beside, state in picture.labels(box):
            if not state.text:
                continue
            words = [_BLANK, *_text(state.text, state.role, state.link), _BLANK]
            at = beside.column - first + 1 if beside is not None else _free(border, len(words))
            if at > 0 and at + len(words) < len(border):
                border[at : at + len(words)] = words
        return border

    # -- the cursor

    def cells(self, number: int) -> list[Cell]:
        """The names of the boxes on a row."""
        found = []
        boxes = self._by_row.get(number, ())
        for box in sorted(boxes, key=lambda each: self._layout.places[each].column):
            place = self._layout.places[box]
            if number == place.row + 1:
                row = self._row(number)
                start = len("".join(char for char, _, _ in row[: place.column + 2]))
                found.append(Cell(start, start + len(self._picture.names[box]), (box,)))
        return found

    def locate(self, indices: Sequence[int]) -> int:
        if len(indices) != 1 or not 0 <= indices[0] < len(self._layout.places):
            raise UserError("This picture has no such node.")
        return self._layout.places[indices[0]].row + 1

    def element(self, indices: Sequence[int]) -> Document | None:
        """The node in a line."""
        if len(indices) != 1 or not 0 <= indices[0] < len(self._layout.places):
            return None
        vertex = self._picture.vertices[indices[0]]
        if not vertex.is_node:
            return TextDocument([line(vertex.name, ": ", (vertex.command, "link", vertex.command))])
        spans = [Span(f"[{vertex.op_type}] ", "op_type"), Span(vertex.name, "bold")]
        for _, state in self._picture.labels(indices[0]):
            spans += [Span("  "), Span(state.text, state.role, state.link)] if state.text else []
        return TextDocument([line(*spans)])


def _text(text: str, role: str, link: Link | None) -> list[_Char]:
    """A text by columns: a wide character takes two, one that combines none of its own."""
    found: list[_Char] = []
    for char in text:
        width = columns_of(char)
        if not width and found:
            found[-1] = (found[-1][0] + char, role, link)
            continue
        found.append((char, role, link))
        found += [("", role, link)] * (width - 1)
    return found


def _free(border: Sequence[_Char], length: int) -> int:
    """The first place of a border where so much is free; 0: there is none."""
    run = 0
    for at in range(1, len(border) - 1):
        run = run + 1 if border[at][0] in "─═" else 0
        if run == length + 1:
            return at - length + 1
    return 0


def _line(chars: Sequence[_Char]) -> Line:
    spans: list[Span] = []
    for (role, link), group in groupby(chars, key=lambda each: each[1:]):
        spans.append(Span("".join(char for char, _, _ in group), role, link))
    if spans and spans[-1].link is None:
        spans[-1] = Span(spans[-1].text.rstrip(), spans[-1].role)
    return line(*spans)
