"""What a cell of a picture stands for, in words."""

from __future__ import annotations

from typing import Any

from tfdbg_cli.common.arrays import Array, np
from tfdbg_cli.common.documents import Document, TextDocument, line
from tfdbg_cli.dumps.finite import count_bad
from tfdbg_cli.tensors.element import element_text
from tfdbg_cli.tensors.numeric import dtype_name, widened

__all__ = ["about_block", "first_bad"]

# So few elements are written out, and so many bad ones are listed.
_FEW = 2
_LISTED = 20


def about_block(block: Array, index: tuple[int | slice, ...]) -> Document:
    """All about some elements; its first line says the most.

    Args:
        block: numbers or bools.
        index: which part of the tensor that is.
    """
    place = f"[{','.join(_written(part) for part in index)}]"
    with np.errstate(all="ignore"):
        numbers = widened(block)
        if numbers.dtype.kind == "c":
            numbers = np.abs(numbers)
        finite = numbers[np.isfinite(numbers)]
        bad = dict(zip(("NaN", "-inf", "+inf"), count_bad(block), strict=True))
        parts = []
        if block.size <= _FEW:
            parts = [element_text(value) for value in block.ravel()]
        elif finite.size:
            parts = [f"mean {_short(finite.astype(np.float64).mean())}"]
            parts += [f"min {_short(finite.min())}", f"max {_short(finite.max())}"]
    if block.size > _FEW:
        parts = [f"{count} {name}" for name, count in bad.items() if count] + parts
        parts[-1] += f" of {block.size}"
    head = line((f"{place} = ", "dim"), (", ".join(parts), "bold"))
    lines = [head, line(), line(f"  dtype:   {dtype_name(block.dtype)}")]
    lines.append(line(f"  shape:   {tuple(block.shape)}"))
    if any(bad.values()):
        lines += [line(), line(("Bad elements:", "error"))]
        begins = [part.start if isinstance(part, slice) else part for part in index]
        is_axis = [isinstance(part, slice) for part in index]
        for found in np.argwhere(~np.isfinite(widened(block)))[:_LISTED].tolist():
            inner = iter(found)
            at = [
                begin + next(inner) if moves else begin
                for begin, moves in zip(begins, is_axis, strict=True)
            ]
            lines.append(line(f"  [{','.join(map(str, at))}]  {block[tuple(found)]}"))
        if sum(bad.values()) > _LISTED:
            lines.append(line((f"  (the first {_LISTED})", "dim")))
    return TextDocument(lines, title=f"elements {place}")


def first_bad(block: Array) -> tuple[int, int] | None:
    """The first bad element of a two-dimensional block, in row-major order."""
    found = np.flatnonzero(~np.isfinite(widened(block)))
    if not found.size:
        return None
    row, column = np.unravel_index(int(found[0]), block.shape)
    return int(row), int(column)


def _written(part: int | slice) -> str:
    if not isinstance(part, slice):
        return str(part)
    return str(part.start) if part.stop - part.start == 1 else f"{part.start}:{part.stop}"


def _short(number: Any) -> str:
    return f"{float(number):.4g}"
