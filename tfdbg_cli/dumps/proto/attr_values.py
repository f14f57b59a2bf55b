"""TensorFlow's AttrValue message to text that a person reads, and text back to an AttrValue.

The text of a number, a bool, a type, a shape or a list of these parses back to the same message;
any other text becomes a string attribute. Reading what was written gives the same text again.
"""

from __future__ import annotations

import contextlib
import functools
import json
import math
import re
import struct
from typing import Any

from tfdbg_cli.common.arrays import np
from tfdbg_cli.common.errors import DumpError
from tfdbg_cli.dumps.dtypes import dtype_by_name, dtype_by_number
from tfdbg_cli.dumps.proto import wire
from tfdbg_cli.dumps.proto.tensor_proto import TensorProto, parse_shape, put_shape

__all__ = ["AttrValue", "encode_text", "render", "split_entry"]

_LIST, _STRING, _INT, _FLOAT, _BOOL, _TYPE, _SHAPE, _TENSOR, _PLACEHOLDER, _FUNC = range(1, 11)

_INTEGER = re.compile(r"-?\d{1,18}")
_REAL = re.compile(r"-?(?:\d+\.\d*(e[+-]?\d+)?|\d+e[+-]?\d+|inf)|nan")
_SHAPE_TEXT = re.compile(r"\(((\d+|\?),)?\)|\((\d+|\?)(, (\d+|\?))+\)")
_MANY = 1000
_FEW_ELEMENTS = 16
_DEEPEST = 20  # functions whose attributes are functions


class AttrValue:
    """One attribute of a node, decoded when somebody asks.

    Args:
        data: a serialized AttrValue.

    Attributes:
        data: the same.
    """

    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        self.data = data

    def __str__(self) -> str:
        return render(self.data)

    def __repr__(self) -> str:
        return f"AttrValue({render(self.data)})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AttrValue) and self.data == other.data

    def __hash__(self) -> int:
        return hash(self.data)

    def SerializeToString(self) -> bytes:
        """The message, for ``attr_value_pb2.AttrValue.FromString``."""
        return self.data

    @property
    def s(self) -> bytes:
        """The bytes of a string attribute, empty for others."""
        for number, kind, a, b in wire.fields(self.data):
            if number == _STRING and kind == wire.LENGTH:
                return self.data[a:b]
        return b""

    @property
    def i(self) -> int:
        """The value of an integer attribute, 0 for others."""
        return wire.signed(self._number(_INT))

    @property
    def b(self) -> bool:
        """The value of a bool attribute, False for others."""
        return bool(self._number(_BOOL))

    @property
    def type(self) -> int:
        """The DataType number of a type attribute, 0 for others."""
        return self._number(_TYPE)

    def _number(self, wanted: int) -> int:
        for number, kind, value, _ in wire.fields(self.data):
            if number == wanted and kind == wire.VARINT:
                return value
        return 0


def render(data: bytes) -> str:
    """A serialized AttrValue as text. Damaged ones are described, never raised."""
    try:
        return _render_value(data)
    except (DumpError, RecursionError) as error:
        return f"<damaged: {error}>"


def _render_value(data: bytes, depth: int = 0) -> str:
    text = ""
    for number, kind, a, b in wire.fields(data):
        if kind == wire.VARINT and number in (_INT, _BOOL, _TYPE):
            text = _render_number(number, a)
        elif kind == wire.FIXED32 and number == _FLOAT:
            text = _render_float(data[a:b])
        elif kind == wire.LENGTH:
            if number == _LIST:
                text = _render_list(data[a:b], depth)
            elif number in (_STRING, _PLACEHOLDER):
                text = _render_string(data[a:b])
            elif number == _SHAPE:
                text = _render_shape(data[a:b])
            elif number == _TENSOR:
                text = _render_tensor(data[a:b])
            elif number == _FUNC:
                text = _render_function(data[a:b], depth)
    return text


def _render_number(number: int, value: int) -> str:
    if number == _INT:
        return str(wire.signed(value))
    if number == _BOOL:
        return str(bool(value))
    dtype = dtype_by_number(value)
    if dtype is None:
        return f"type {value}"
    return dtype.name + ("_ref" if value > 100 else "")


def _render_float(data: bytes) -> str:
    # The shortest text that gives the same 32 bits.
    return str(np.float32(struct.unpack("<f", data)[0]))


def _render_string(data: bytes) -> str:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return repr(data)
    # Bare wherever it can't be taken for something else.
    if text and text.isprintable() and encode_text(text) == wire.put_text(_STRING, text):
        return text
    return json.dumps(text)


def _render_shape(data: bytes) -> str:
    shape = parse_shape(memoryview(data), 0, len(data))
    if shape is None:
        return "<unknown>"
    sizes = ["?" if size < 0 else str(size) for size in shape]
    return f"({sizes[0]},)" if len(sizes) == 1 else f"({', '.join(sizes)})"


def _render_tensor(data: bytes) -> str:
    tensor = TensorProto(memoryview(bytearray(data)))
    name = tensor.dtype.name if tensor.dtype is not None else f"type {tensor.dtype_number}"
    head = f"{name} {tensor.shape if tensor.shape is not None else '<unknown>'}"
    if tensor.size > _FEW_ELEMENTS:
        return f"{head}, {tensor.nbytes} bytes"
    value = tensor.value(zero_default=True)
    return f"{head}: {value.tolist() if isinstance(value, np.ndarray) else value}"


def _render_function(data: bytes, depth: int) -> str:
    name = ""
    attributes: list[str] = []
    if depth > _DEEPEST:
        raise DumpError("functions nest too deep")
    for number, kind, a, b in wire.fields(data):
        if number == 1 and kind == wire.LENGTH:
            name = wire.text(data, a, b)
        elif number == 2 and kind == wire.LENGTH:
            key, value = split_entry(data, a, b)
            attributes.append(f"{key}={_render_value(value, depth + 1)}")
    return f"{name}({', '.join(attributes)})" if attributes else name


def _render_list(data: bytes, depth: int) -> str:
    items: list[str] = []
    for number, kind, a, b in wire.fields(data):
        if len(items) > _MANY:
            break
        if number == 2:
            try:
                items.append(json.dumps(data[a:b].decode()))
            except UnicodeDecodeError:
                items.append(repr(data[a:b]))
        elif number in (_INT, _BOOL, _TYPE):
            items.extend(_render_number(number, value) for value in wire.varints(data, kind, a, b))
        elif number == _FLOAT:
            raw = wire.floats(data, kind, a, b, 4)
            items.extend(_render_float(raw[at : at + 4]) for at in range(0, len(raw), 4))
        elif number == 7:
            items.append(_render_shape(data[a:b]))
        elif number == 8:
            items.append(_render_tensor(data[a:b]))
        elif number == 9:
            items.append(_render_function(data[a:b], depth + 1))
    if len(items) > _MANY:
        items[_MANY:] = ["..."]
    return f"[{', '.join(items)}]"


def split_entry(data: bytes | memoryview, start: int, end: int) -> tuple[str, bytes]:
    """Key and serialized value of one entry of a map field; of a damaged one what comes first."""
    key, value = "", b""
    with contextlib.suppress(DumpError):
        for number, kind, a, b in wire.fields(data, start, end):
            if kind == wire.LENGTH and number == 1:
                key = wire.text(data, a, b)
            elif kind == wire.LENGTH and number == 2:
                value = bytes(data[a:b])
    return key, value


def encode_text(text: str) -> bytes:
    """The AttrValue whose text is ``text``, serialized."""
    parsed = _parse(text)
    if parsed is not None and render(parsed) == text:
        return parsed
    return wire.put_text(_STRING, text)


@functools.cache
def _parsed_items(inner: str) -> tuple[Any, ...] | None:
    try:
        items = json.loads(f"[{inner}]")
    except (ValueError, RecursionError):
        return None
    return tuple(items)


def _parse(text: str) -> bytes | None:
    """The typed AttrValue that a text stands for, or ``None`` for a bare string."""
    if _INTEGER.fullmatch(text):
        return wire.put_varint(_INT, int(text))
    if _REAL.fullmatch(text):
        return wire.put_float(_FLOAT, _clip(float(text)))
    if text in ("True", "False"):
        return wire.put_varint(_BOOL, text == "True")
    dtype = dtype_by_name(text)
    if dtype is not None and dtype.number is not None:
        return wire.put_varint(_TYPE, dtype.number + (100 if text.endswith("_ref") else 0))
    if text == "<unknown>":
        return put_shape(_SHAPE, None)
    if _SHAPE_TEXT.fullmatch(text):
        sizes = re.findall(r"\d+|\?", text)
        return put_shape(_SHAPE, [-1 if size == "?" else int(size) for size in sizes])
    if len(text) > 1 and text[0] == text[-1] == '"':
        items = _parsed_items(text)
        if items is not None and len(items) == 1 and isinstance(items[0], str):
            return wire.put_text(_STRING, items[0])
        return None
    if len(text) > 1 and text[0] == "[" and text[-1] == "]":
        return _parse_list(text[1:-1])
    return None


def _clip(value: float) -> float:
    limit = float(np.finfo(np.float32).max)
    return value if not math.isfinite(value) else max(-limit, min(limit, value))


def _parse_list(inner: str) -> bytes | None:
    if not inner:
        return wire.put_bytes(_LIST, b"")
    items = _parsed_items(inner)
    if items is not None and all(isinstance(item, str) for item in items):
        return wire.put_bytes(_LIST, b"".join(wire.put_text(2, item) for item in items))
    words = inner.split(", ")
    for number, pattern in ((_INT, _INTEGER), (_FLOAT, _REAL)):
        if all(pattern.fullmatch(word) for word in words):
            if number == _INT:
                packed = wire.put_packed_varints(_INT, map(int, words))
            else:
                packed = wire.put_bytes(
                    _FLOAT, b"".join(struct.pack("<f", _clip(float(word))) for word in words)
                )
            return wire.put_bytes(_LIST, packed)
    dtypes = [dtype_by_name(word) for word in words]
    if all(dtype is not None and dtype.number is not None for dtype in dtypes):
        numbers = [dtype.number or 0 for dtype in dtypes if dtype is not None]
        return wire.put_bytes(_LIST, wire.put_packed_varints(_TYPE, numbers))
    return None
