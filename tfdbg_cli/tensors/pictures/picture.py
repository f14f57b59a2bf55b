"""A picture of a two-dimensional array: a grid of cells, the scale that colours it, its pixels."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass

from tfdbg_cli.common.arrays import Array, np
from tfdbg_cli.tensors.pictures.colours import BAD, bad_kind, colour_table
from tfdbg_cli.tensors.pictures.reduction import Axis, Grid, check_drawable, reduced, sampled
from tfdbg_cli.tensors.pictures.scales import Scale, scale_for

__all__ = ["Picture", "coloured", "picture_of", "plane", "png", "png_of"]

# A picture that somebody waits for is exact up to so many elements.
_MOST_EXACT = 1 << 26


@dataclass(frozen=True)
class Picture:
    """Cells with colours.

    Attributes:
        grid: the cells.
        rows, columns: which elements they are.
        scale: what the colours mean.
        how: which number of a cell is shown, see `Grid.values`.
    """

    grid: Grid
    rows: Axis
    columns: Axis
    scale: Scale
    how: str = "mean"

    @property
    def pixels(self) -> Array:
        """The colour of each cell, ``(rows, columns, 3)`` bytes."""
        return coloured(self.grid, self.scale, self.how)

    @property
    def bad(self) -> dict[str, int]:
        """What is bad in it: names and colours (``0xRRGGBB``), for a legend."""
        kinds = {bad_kind(int(bits)) for bits in np.unique(self.grid.bad) if bits}
        return {name: colour for kind, (name, colour, _) in BAD.items() if kind in kinds}


def plane(values: Array, outer: tuple[int, ...] = ()) -> Array:
    """The two-dimensional part of an array that a picture shows; of one dimension, as one row.

    Args:
        values: an array of one dimension or more.
        outer: the indices in all dimensions but the last two.
    """
    part = values[outer] if outer else values
    return part.reshape(1, -1) if part.ndim == 1 else part


def picture_of(
    values: Array,
    size: tuple[int, int] = (128, 192),
    *,
    scale: str = "minmax",
    how: str = "mean",
    outer: tuple[int, ...] | None = None,
) -> Picture:
    """The picture of an array as a whole: exact, but of very large ones by a sample, which it says.

    Args:
        values: numbers or bools.
        size: at most so many rows and columns of cells.
        scale: one of `SCALES`.
        how: one of `HOWS`.
        outer: the indices in all dimensions but the last two; default: the first ones.

    Raises:
        UserError: no picture can be made of it.
    """
    check_drawable(values)
    if outer is None:
        outer = (0,) * max(values.ndim - 2, 0)
    part = plane(values, outer)
    axes = [Axis(0, n, -(-n // most)) for n, most in zip(part.shape, size, strict=True)]
    grid = (reduced if part.size <= _MOST_EXACT else sampled)(part, *axes)
    return Picture(grid, axes[0], axes[1], scale_for(scale, [grid.values(how)]), how)


def coloured(grid: Grid, scale: Scale, how: str = "mean") -> Array:
    """The colour of each cell of a grid, ``(rows, columns, 3)`` bytes."""
    table = colour_table(diverging=scale.is_diverging)
    pixels = table[scale.levels(grid.values(how))]
    for bits in np.unique(grid.bad):
        if bits:
            colour = BAD[bad_kind(int(bits))][1]
            pixels[grid.bad == bits] = [colour >> 16, colour >> 8 & 0xFF, colour & 0xFF]
    return pixels


def png_of(pixels: Array, zoom: int = 1) -> bytes:
    """A PNG file of ``(rows, columns, 3)`` bytes, or of four with how opaque each pixel is.

    Args:
        pixels: red, green and blue.
        zoom: so many pixels wide and high is each.
    """
    pixels = pixels.repeat(zoom, axis=0).repeat(zoom, axis=1)
    height, width, parts = pixels.shape
    # Each row begins with the number of its filter: none.
    rows = np.zeros((height, 1 + parts * width), np.uint8)
    rows[:, 1:] = pixels.reshape(height, -1)

    def chunk(kind: bytes, data: bytes) -> bytes:
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    head = struct.pack(">IIBBBBB", width, height, 8, 2 if parts == 3 else 6, 0, 0, 0)
    data = zlib.compress(rows.tobytes(), 6)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def png(picture: Picture, zoom: int = 0) -> bytes:
    """A PNG file of a picture.

    Args:
        picture: which.
        zoom: so many pixels wide and high is a cell; 0: as suits the number of cells.
    """
    rows, columns, _ = picture.pixels.shape
    return png_of(picture.pixels, zoom or max(min(640 // columns, 480 // rows, 24), 1))
