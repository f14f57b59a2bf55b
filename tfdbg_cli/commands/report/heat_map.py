"""The heat map of a tensor, for a report."""

from __future__ import annotations

from typing import Any

from tfdbg_cli.commands.report.html import Markup, element, image, joined
from tfdbg_cli.common.arrays import np
from tfdbg_cli.common.errors import UserError
from tfdbg_cli.dumps.finite import count_bad
from tfdbg_cli.tensors.numeric import blocks, widened
from tfdbg_cli.tensors.pictures.picture import Picture, picture_of, png_of

__all__ = ["heat_map"]

# Rows and columns of cells at most, and pixels of the page that they are to fill.
_CELLS = (120, 200)
_WIDTH, _HEIGHT, _LARGEST_CELL = 640, 400, 24


def heat_map(value: np.ndarray[Any, Any]) -> Markup | None:
    """A picture of an array, of more than two dimensions the first slice with something bad.

    Returns:
        ``None``: there can be none.
    """
    outer = _first_bad_slice(value) if value.ndim > 2 else ()
    try:
        picture = picture_of(value, _CELLS, outer=outer)
    except UserError:
        return None
    rows, columns, _ = picture.pixels.shape
    zoom = max(min(_WIDTH // columns, _HEIGHT // rows, _LARGEST_CELL), 1)
    about = f"Heat map of {_extent(value, outer)}"
    bad = picture.bad
    about += f" with {', '.join(bad)} in colours of their own" if bad else ""
    drawn = image(png_of(picture.pixels), about, width=columns * zoom, height=rows * zoom)
    return element("figure", drawn, element("figcaption", _legend(picture, value, outer)))


def _first_bad_slice(value: np.ndarray[Any, Any]) -> tuple[int, ...]:
    """The indices of the first two-dimensional part that holds something bad; else of the first."""
    lead = value.shape[:-2]
    for outer in np.ndindex(lead) if value.dtype.kind not in "OSUbiu" else ():
        if any(sum(count_bad(widened(block))) for block in blocks(value[outer])):
            return tuple(outer)
    return (0,) * len(lead)


def _extent(value: np.ndarray[Any, Any], outer: tuple[int, ...]) -> str:
    if not outer:
        return " x ".join(f"{length:,}" for length in value.shape) + " elements"
    return f"slice [{', '.join(map(str, outer))}, :, :]"


def _legend(picture: Picture, value: np.ndarray[Any, Any], outer: tuple[int, ...]) -> Markup:
    scale = picture.scale
    words = [_extent(value, outer)]
    if np.isfinite(picture.grid.mean).any():
        words.append(f", from {scale.low:.6g} (dark) to {scale.high:.6g} (light)")
    step = max(picture.rows.step, picture.columns.step)
    if step > 1:
        size = f"{picture.rows.step} x {picture.columns.step}"
        words.append(f"; a cell is the mean of {size} elements, and bad if one of them is")
    if not picture.grid.is_exact:
        words.append("; of a sample")
    parts: list[str] = ["".join(words)]
    for name, colour in picture.bad.items():
        swatch = element("span", "", class_=f"swatch c{colour:06x}")
        parts += [" ", swatch, f" {name}"]
    return joined(parts)
