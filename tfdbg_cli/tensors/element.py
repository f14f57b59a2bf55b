"""Everything about one element of a tensor: its value in full, its bits, its text."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

from tfdbg_cli.common.arrays import np
from tfdbg_cli.common.documents import Document, Line, TextDocument, line
from tfdbg_cli.common.printable import cut
from tfdbg_cli.tensors.cells import bytes_text
from tfdbg_cli.tensors.numeric import dtype_kind, dtype_name, widened

__all__ = ["element_document", "element_text"]

# Characters of a string on one line.
_CHUNK = 72


def element_text(value: Any) -> str:
    """The shortest text that means exactly this value; all of a string.

    Of a small floating point type it is that of the number: what NumPy writes is the shortest that
    no other number of the type has, ``6.55e+04`` for 65504.
    """
    array = np.asarray(value)
    kind = dtype_kind(array.dtype)
    if kind == "float" and array.dtype.itemsize <= 2:
        return str(float(widened(array)))
    if kind in ("float", "int", "complex", "bool"):
        return str(array[()])
    item = array.item()
    if isinstance(item, bytes):
        return bytes_text(item)
    return repr(array[()] if array.dtype.kind != "O" else item)


def element_document(value: Any, indices: tuple[int, ...]) -> Document:
    """All about an element.

    Args:
        value: a NumPy scalar or a 0-d array of any dtype.
        indices: where it is in its tensor.
    """
    array = np.asarray(value)
    kind = dtype_kind(array.dtype)
    place = f"[{','.join(map(str, indices))}]"
    lines: list[Line] = [line((f"{place} = ", "dim"), (cut(element_text(value), _CHUNK), "bold"))]
    lines += [line(), line(f"  dtype:   {dtype_name(array.dtype)}")]
    if kind == "float":
        lines += _float_lines(array)
    elif kind == "complex":
        number = complex(widened(array))
        lines += [line(f"  abs:     {abs(number)!r}"), line(f"  real:    {number.real!r}")]
        lines.append(line(f"  imag:    {number.imag!r}"))
    elif kind == "int":
        number = int(array)
        lines.append(line(f"  hex:     {number:#x}"))
        lines.append(line(f"  binary:  {number:#b}"))
    elif kind != "bool":
        lines += _text_lines(array)
    return TextDocument(lines, title=f"element {place}")


def _float_lines(array: np.ndarray[Any, Any]) -> list[Line]:
    number = float(widened(array))
    bits = array.tobytes()[::-1] if np.little_endian else array.tobytes()
    lines = [line(f"  bits:    0x{bits.hex()}")]
    if math.isfinite(number):
        lines.append(line(f"  exactly: {Decimal(number)}"))
        lines.append(line(f"  hex:     {number.hex()}"))
    return lines


def _text_lines(array: np.ndarray[Any, Any]) -> list[Line]:
    value = array.item()
    lines = []
    if isinstance(value, bytes | str):
        what = "bytes" if isinstance(value, bytes) else "characters"
        lines.append(line(f"  length:  {len(value)} {what}"))
    text = repr(value)
    lines += [line(), *(line(text[at : at + _CHUNK]) for at in range(0, len(text), _CHUNK))]
    if isinstance(value, bytes):
        try:
            decoded = value.decode()
        except UnicodeDecodeError:
            lines += [line(), line(("(not UTF-8)", "dim"))]
        else:
            lines += [line(), line(("as UTF-8:", "dim")), *map(line, decoded.splitlines())]
    return lines
