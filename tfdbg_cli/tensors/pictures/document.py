"""A picture of an array as lines: half blocks in colour, shades and letters without."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tfdbg_cli.common.arrays import np
from tfdbg_cli.common.documents import Cell, Document, Image, Line, MenuItem, OtherView, Span, line
from tfdbg_cli.common.errors import UserError
from tfdbg_cli.tensors.element import element_document
from tfdbg_cli.tensors.pictures.about import about_block, first_bad
from tfdbg_cli.tensors.pictures.drawing import joined, legend, painted
from tfdbg_cli.tensors.pictures.layout import Panel, Region, fitted, inside, tiled
from tfdbg_cli.tensors.pictures.picture import coloured, plane, png_of
from tfdbg_cli.tensors.pictures.reduction import HOWS, Grid, check_drawable
from tfdbg_cli.tensors.pictures.scales import SCALES, Scale, scale_for
from tfdbg_cli.tensors.pictures.source import Reduction, Source

__all__ = ["Look", "PictureDocument"]

# The lines of a page where nobody says how large it is; columns and lines of an image.
_PAGE = 40
_IMAGE = (640, 240)

# On a smaller page nothing but the legend stands beside the picture.
_SMALL = 12

_MOVES = {"left": (0, -1), "right": (0, 1), "up": (-1, 0), "down": (1, 0)}


@dataclass(frozen=True)
class Look:
    """How somebody looks at the pictures of an array.

    Attributes:
        outer: which one, see `plane`; of several, the first one on the page.
        region: which part of it; ``None``: all of it.
        scale: one of `SCALES`.
        how: one of `HOWS`.
        tiles: all of them side by side.
        axes: the dimensions that are rows and columns; empty: the last two.
    """

    outer: tuple[int, ...] = ()
    region: Region | None = None
    scale: str = "minmax"
    how: str = "mean"
    tiles: bool = False
    axes: tuple[int, ...] = ()


class PictureDocument(Document):
    """The picture of an array that fits on a page, with a legend above it.

    Args:
        source: the array, shared by all looks at it.
        name: what is shown, for the first line.
        look: how.
        width: columns of the page.
        rows: lines of the page.
        numbers: the same array as numbers; told whether an element must not be left out.
        menu: of the screen.

    Raises:
        UserError: no picture can be made of it.
    """

    turns = frozenset(
        {"picture", "closer", "farther", "whole", "next slice", "previous slice"}
        | {"scale", "cells", "tiles", "axes", "next bad", "previous bad", "drag", *_MOVES}
    )

    def __init__(
        self,
        source: Source,
        name: Sequence[Span],
        look: Look,
        width: int,
        rows: int = _PAGE,
        *,
        numbers: Callable[[tuple[int, ...] | None], Document] | None = None,
        menu: tuple[MenuItem, ...] = (),
    ) -> None:
        check_drawable(source.values)
        source = source.along(look.axes)
        if len(look.outer) != max(source.values.ndim - 2, 0):
            look = replace(look, outer=(0,) * max(source.values.ndim - 2, 0))
        self._source, self._name, self._look = source, name, look
        if source.count < 2:
            self.turns -= {"next slice", "previous slice"}
        self._width, self._rows = max(width, 8), max(rows, 3)
        self._numbers = numbers
        self.menu = menu
        self._panels, self._gutter = self._arranged()
        self.files = {".png": lambda: self.image().png}
        self._made: tuple[tuple[Grid, ...], list[Line]] | None = None
        self._cells: dict[int, list[Cell]] = {}

    def _arranged(self) -> tuple[list[Panel], int]:
        """The panels, and how wide the numbers of the rows beside them are."""
        lines = max(self._rows - self._above - (self._rows >= _SMALL), 1)
        if self._look.tiles and self._look.outer:
            return self._arranged_on(lines, self._width), 0
        top, _, height, _ = self._look.region or (0, 0, *self._source.size)
        gutter = len(str(top + height - 1)) + 1
        gutter = gutter if self._width > 4 * gutter else 0
        return self._arranged_on(lines, self._width - gutter), gutter

    def _arranged_on(self, lines: int, columns: int) -> list[Panel]:
        """The panels on so many lines and columns."""
        height, width = self._source.size
        if self._look.tiles and self._look.outer:
            first = self._source.number(self._look.outer)
            panels = tiled(height, width, self._source.count - first, lines, columns)
            return [
                replace(panel, outer=self._source.outer(first + at))
                for at, panel in enumerate(panels)
            ]
        region = self._look.region or (0, 0, height, width)
        return [fitted(region, lines, columns, self._look.outer)]

    # -- lines

    @property
    def _above(self) -> int:
        """How many lines stand above the picture."""
        return 3 if self._rows >= _SMALL else 2

    @property
    def _behind(self) -> int:
        """The line behind the picture."""
        return self._above + max(panel.line + panel.lines for panel in self._panels)

    @property
    def line_count(self) -> int:
        return self._behind + bool(self._gutter and self._rows >= _SMALL)

    def lines(self, start: int, stop: int) -> list[Line]:
        reductions = self._reductions()
        self._source.want(reductions)
        grids = tuple(reduction.grid for reduction in reductions)
        if self._made is None or any(
            new is not old for new, old in zip(grids, self._made[0], strict=True)
        ):
            self._made = (grids, self._drawn(reductions))
        return self._made[1][max(start, 0) : max(stop, 0)]

    def _reductions(self) -> list[Reduction]:
        return [self._source.reduction(panel) for panel in self._panels]

    def _drawn(self, reductions: list[Reduction]) -> list[Line]:
        """All lines: those of a page."""
        how = self._look.how
        grids = [reduction.grid for reduction in reductions]
        scale = scale_for(self._look.scale, [grid.values(how) for grid in grids])
        made = [Line(self._name), legend(scale, grids, self._width)]
        if self._above > 2:
            made.append(line((self._about(reductions, scale), "dim")))
        pieces: list[list[tuple[int, list[Span]]]] = [[] for _ in range(self._behind - self._above)]
        for panel, grid in zip(self._panels, grids, strict=True):
            if self._look.tiles and panel.line:
                label = f"[{','.join(map(str, panel.outer))}]"[: max(panel.width, 6)]
                pieces[panel.line - 1].append((panel.column, [Span(label, "dim")]))
            for at, spans in enumerate(painted(panel, grid, scale, how)):
                pieces[panel.line + at].append((panel.column, spans))
        for number, parts in enumerate(pieces):
            made.append(Line([*self._row_label(number), *joined(parts)]))
        if self.line_count > self._behind:
            made.append(self._ticks())
        return made

    def _row_label(self, number: int) -> list[Span]:
        """What stands beside a line of the picture: now and then, the number of its row."""
        if not self._gutter:
            return []
        panel = self._panels[0]
        step = max(panel.lines // 4, 2)
        text = ""
        if number % step == 0:
            first = panel.block(number, 0)[0].start
            if number == 0 or first != panel.block(number - step, 0)[0].start:
                text = str(first)
        return [Span(f"{text:>{self._gutter - 1}} ", "dim")]

    def _ticks(self) -> Line:
        """The numbers of some columns, below the picture."""
        panel = self._panels[0]
        text = " " * self._gutter
        step = max(panel.columns.cells // 5, 1)
        for cell in range(0, panel.columns.cells, step):
            label = str(panel.columns.span(cell)[0])
            at = self._gutter + cell * panel.wide
            if (at <= len(text) and cell) or at + len(label) > self._width:
                continue
            text = text.ljust(at) + label
        return line((text, "dim"))

    def _about(self, reductions: list[Reduction], scale: Scale) -> str:
        panel = self._panels[0]
        size = f"{panel.rows.step} x {panel.columns.step}"
        parts = [scale.description]
        if self._look.axes:
            rows, columns = self._look.axes
            parts.insert(0, f"rows: axis {rows}, columns: axis {columns}")
        if self._look.outer and not self._look.tiles:
            slicing = ", ".join(map(str, self._look.outer))
            parts.insert(0, f"slice [{slicing}] of {self._source.count}")
        if (panel.rows.step, panel.columns.step) != (1, 1):
            parts.append(f"a cell: {self._look.how} of {size}")
        if self._look.tiles:
            parts.append(f"{len(self._panels)} of {self._source.count} slices")
        parts.append(self._certainty(reductions))
        return ", ".join(parts)

    def _certainty(self, reductions: list[Reduction]) -> str:
        """Whether all elements were looked at."""
        if all(reduction.grid.is_exact for reduction in reductions):
            return "exact"
        for reduction in reductions:
            if reduction.error:
                return f"by a sample; the rest can't be read: {reduction.error}"
        return "by a sample; exact follows" if self._source.is_pending else "by a sample"

    def status(self, start: int, stop: int) -> str:
        """The part that is shown."""
        panel = self._panels[0]
        rows = f"{panel.rows.start}:{panel.rows.start + panel.rows.size}"
        columns = f"{panel.columns.start}:{panel.columns.start + panel.columns.size}"
        outer = [":" if self._look.tiles else str(index) for index in self._look.outer]
        inner = [columns] if self._source.values.ndim == 1 else [rows, columns]
        shown = f"[{', '.join(self._source.original((*outer, *inner)))}]"
        return shown if self._above > 2 else f"{shown} {self._certainty(self._reductions())}"

    @property
    def pending(self) -> bool:
        """Whether it is drawn from a sample, and the exact one is on its way."""
        return self._source.is_pending

    def settle(self, start: int, stop: int) -> None:
        """Look at all elements."""
        self._source.finish(self._reductions())

    def resized(self, width: int) -> Document:
        """Fitted into another width."""
        return self if max(width, 8) == self._width else self._with(width=width)

    def paged(self, rows: int) -> Document:
        """Fitted into a page."""
        return self if max(rows, 3) == self._rows else self._with(rows=rows)

    def _with(
        self, look: Look | None = None, width: int | None = None, rows: int | None = None
    ) -> PictureDocument:
        made = PictureDocument(
            self._source,
            self._name,
            look or self._look,
            width or self._width,
            rows or self._rows,
            numbers=self._numbers,
            menu=self.menu,
        )
        made.title, made.title_role = self.title, self.title_role
        return made

    def image(self) -> Image:
        """The same of more and smaller cells, drawn from all elements."""
        large = self._with(width=_IMAGE[0], rows=_IMAGE[1])
        reductions = large._reductions()
        self._source.finish(reductions)
        grids = [reduction.grid for reduction in reductions]
        how = self._look.how
        scale = scale_for(self._look.scale, [grid.values(how) for grid in grids])
        panels = large._panels
        high = max(2 * panel.line + panel.rows.cells * panel.high for panel in panels)
        canvas = np.zeros((high, max(panel.column + panel.width for panel in panels), 4), np.uint8)
        for panel, grid in zip(panels, grids, strict=True):
            pixels = coloured(grid, scale, how)
            pixels = pixels.repeat(panel.high, axis=0).repeat(panel.wide, axis=1)
            rows = slice(2 * panel.line, 2 * panel.line + pixels.shape[0])
            columns = slice(panel.column, panel.column + pixels.shape[1])
            canvas[rows, columns, :3], canvas[rows, columns, 3] = pixels, 255
        zoom = max(min(_IMAGE[0] // canvas.shape[1], 8), 1)
        return Image(png_of(canvas, zoom), large.lines(0, large._above))

    # -- elements

    def _full(self, outer: tuple[int, ...], row: int, column: int) -> tuple[int, ...]:
        if self._source.values.ndim == 1:
            return (column,)
        return self._source.original((*outer, row, column))

    def _split(self, indices: Sequence[int]) -> tuple[tuple[int, ...], int, int]:
        """Which picture an element is in, its row and its column.

        Raises:
            UserError: there is no such element.
        """
        shape = self._source.shape
        if len(indices) != len(shape) or not all(
            0 <= index < n for index, n in zip(indices, shape, strict=True)
        ):
            text = f"There is no element {list(indices)}."
            raise UserError(text, f"The shape is {shape}.")
        found = self._source.drawn(tuple(int(index) for index in indices))
        return ((), 0, found[0]) if len(found) == 1 else (found[:-2], found[-2], found[-1])

    def _place(self, indices: Sequence[int]) -> tuple[Panel, int, int] | None:
        """The panel, its line and its column of cells that show an element."""
        outer, row, column = self._split(indices)
        for panel in self._panels:
            place = panel.place_of(row, column) if panel.outer == outer else None
            if place is not None:
                return panel, *place
        return None

    def locate(self, indices: Sequence[int]) -> int:
        place = self._place(indices)
        if place is None:
            raise UserError(f"Element {list(indices)} isn't in this part.", "Key 0 shows all.")
        return self._above + place[0].line + place[1]

    def cells(self, number: int) -> list[Cell]:
        if number not in self._cells:
            self._cells[number] = [
                cell
                for panel in self._panels
                if 0 <= number - self._above - panel.line < panel.lines
                for cell in self._cells_of(panel, number - self._above - panel.line)
            ]
        return self._cells[number]

    def _cells_of(self, panel: Panel, at: int) -> list[Cell]:
        made = []
        for cell in range(panel.columns.cells):
            rows, columns = panel.block(at, cell)
            first = self._full(panel.outer, rows.start, columns.start)
            last = self._full(panel.outer, rows.stop - 1, columns.stop - 1)
            start = self._gutter + panel.column + cell * panel.wide
            made.append(Cell(start, start + panel.wide, first, None if first == last else last))
        return made

    def element(self, indices: Sequence[int]) -> Document | None:
        """All about the elements that one character shows."""
        place = self._place(indices)
        if place is None:
            return None
        panel, at, cell = place
        rows, columns = panel.block(at, cell)
        index: tuple[int | slice, ...] = (*panel.outer, rows, columns)
        if self._source.values.ndim == 1:
            index = (columns,)
        block = self._source.values[index]
        if block.size == 1:
            found = self._full(panel.outer, rows.start, columns.start)
            return element_document(block.reshape(()), found)
        if self._source.axes and self._source.axes[0] > self._source.axes[1]:
            block = block.T
        return about_block(block, self._source.original(index))

    # -- seen otherwise

    def turned(self, way: str, indices: Sequence[int] | None = None) -> OtherView:
        at = None if indices is None else tuple(indices)
        look = self._look
        if way == "picture":
            return self._as_numbers(at)
        if way == "scale":
            look = replace(look, scale=_after(SCALES, look.scale))
        elif way == "cells":
            look = replace(look, how=_after(HOWS, look.how))
        elif way == "axes":
            look = self._other_axes(at)
        elif way == "tiles":
            look = self._tiles(at)
        elif way in {"next slice", "previous slice"}:
            return self._other_slice(1 if way == "next slice" else -1, at)
        elif way in {"next bad", "previous bad"}:
            return self._to_bad(1 if way == "next bad" else -1, at)
        elif way == "whole":
            look = replace(look, region=None)
        elif way in {"closer", "farther"}:
            look = self._zoomed(0.5 if way == "closer" else 2.0, at)
        elif way.startswith("drag:"):
            down, right = map(int, way.removeprefix("drag:").split(","))
            look, at = self._panned(down, right, at)
        elif way in _MOVES:
            high, wide = (look.region or (0, 0, *self._source.size))[2:]
            down, right = _MOVES[way]
            look, at = self._panned(down * max(high // 4, 1), right * max(wide // 4, 1), at)
        else:
            return super().turned(way, indices)
        return OtherView(self if look == self._look else self._with(look), at)

    def _as_numbers(self, at: tuple[int, ...] | None) -> OtherView:
        if self._numbers is None:
            raise UserError("There are no numbers to go back to.")
        place = self._place(at) if at is not None else None
        if place is not None:
            panel, number, cell = place
            rows, columns = panel.block(number, cell)
            block = plane(self._source.values, panel.outer)[rows, columns]
            is_exact = at != self._full(panel.outer, rows.start, columns.start)
            bad = None if is_exact else first_bad(block)
            if bad is not None:  # that is what somebody sees, and wants to read
                at = self._full(panel.outer, rows.start + bad[0], columns.start + bad[1])
        return OtherView(self._numbers(at), at)

    def _tiles(self, at: tuple[int, ...] | None) -> Look:
        if not self._look.outer:
            raise UserError(
                "There is one picture: the tensor has no more than two dimensions.",
            )
        if not self._look.tiles:
            return replace(self._look, tiles=True, region=None, outer=(0,) * len(self._look.outer))
        outer = self._split(at)[0] if at is not None else self._look.outer
        return replace(self._look, tiles=False, outer=outer)

    def _other_axes(self, at: tuple[int, ...] | None) -> Look:
        """Other dimensions as rows and columns; the slice is the one of the cursor."""
        axes = self._source.next_axes
        if not axes:
            raise UserError("The tensor has one dimension.")
        other = self._source.along(axes)
        outer = other.drawn(at)[:-2] if at is not None else (0,) * (other.values.ndim - 2)
        return replace(self._look, axes=axes, outer=outer, region=None)

    def _other_slice(self, step: int, at: tuple[int, ...] | None) -> OtherView:
        count, here = self._source.count, self._source.number(self._look.outer)
        if count < 2:
            raise UserError("There is one picture: the tensor has no more than two dimensions.")
        if self._look.tiles and len(self._panels) == count:
            raise UserError("All slices are shown.")
        if self._look.tiles:  # a page of them
            where = max(here + step * len(self._panels), 0)
            where = where if where < count else 0
        else:
            where = (here + step) % count
        outer = self._source.outer(where)
        if at is not None:
            at = self._full(outer, *self._split(at)[1:])
        return OtherView(self._with(replace(self._look, outer=outer)), at)

    def _to_bad(self, direction: int, at: tuple[int, ...] | None) -> OtherView:
        here = None if at is None else self._source.drawn(at)
        found = self._source.next_bad(here, direction)
        if found is None:
            raise UserError("No element is nan or infinite.")
        indices = self._source.original(found[0])
        outer, row, column = self._split(indices)
        look = self._look
        if self._place(indices) is None:
            region = look.region
            if region is not None:
                high, wide = region[2:]
                around = (row - high // 2, column - wide // 2, high, wide)
                region = inside(around, self._source.size)
            look = replace(look, outer=outer, region=region)
        return OtherView(self if look == self._look else self._with(look), indices)

    def _zoomed(self, factor: float, at: tuple[int, ...] | None) -> Look:
        height, width = self._source.size
        look = self._look
        if look.tiles:
            look = self._tiles(at)
            if factor > 1:
                return self._look
        top, left, high, wide = look.region or (0, 0, height, width)
        row, column = (top + high // 2, left + wide // 2)
        if at is not None:
            _, row, column = self._split(at)
        new_high = min(max(round(high * factor), min(4, height)), height)
        new_wide = min(max(round(wide * factor), min(4, width)), width)
        # What is under the cursor stays where it is.
        new_top = round(row - (row - top) * new_high / high)
        new_left = round(column - (column - left) * new_wide / wide)
        return replace(
            look, region=inside((new_top, new_left, new_high, new_wide), (height, width))
        )

    def _panned(
        self, down: int, right: int, at: tuple[int, ...] | None
    ) -> tuple[Look, tuple[int, ...] | None]:
        look = self._look
        if look.region is None or look.tiles:
            return look, at
        top, left, high, wide = look.region
        region = inside((top + down, left + right, high, wide), self._source.size)
        look = replace(look, region=region)
        if region is not None and at is not None:
            outer, row, column = self._split(at)
            row = min(max(row, region[0]), region[0] + region[2] - 1)
            column = min(max(column, region[1]), region[1] + region[3] - 1)
            at = self._full(outer, row, column)
        return look, at


def _after(names: Sequence[str], name: str) -> str:
    """The next one; behind the last comes the first."""
    return names[(names.index(name) + 1) % len(names)]
