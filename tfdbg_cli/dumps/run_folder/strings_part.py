"""Files of string tensors: one JSON object per line, ``{"key", "shape", "values"}``.

An element is a JSON string, or ``{"base64": "..."}`` where its bytes aren't UTF-8.
"""

from __future__ import annotations

import base64
import json
from typing import Any

from tfdbg_cli.common.arrays import np
from tfdbg_cli.common.errors import DumpError
from tfdbg_cli.dumps.proto.tensor_proto import string_elements
from tfdbg_cli.dumps.run_folder.json_fields import parse_json

__all__ = ["decode_strings", "encode_strings"]


def encode_strings(key: str, array: np.ndarray[Any, Any]) -> tuple[bytes, int]:
    """A string array as a line, without its line feed, and the bytes of its elements.

    Raises:
        DumpError: some elements are no strings.
    """
    elements = string_elements(array)
    if elements is None:
        raise DumpError("An array of Python objects can't be stored.")
    values = [_encode_element(element) for element in elements]
    line = json.dumps({"key": key, "shape": list(array.shape), "values": values})
    return line.encode(), sum(map(len, elements))


def _encode_element(element: bytes) -> str | dict[str, str]:
    try:
        return element.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(element).decode()}


def decode_strings(line: bytes, as_text: bool) -> np.ndarray[Any, Any]:
    """The array in a line.

    Args:
        line: as `encode_strings` gave it.
        as_text: whether the elements were ``str``; else they are ``bytes``.

    Raises:
        DumpError: the line is damaged.
    """
    try:
        found = parse_json(line)
        values = found["values"]
        array = np.empty(len(values), object)
        for at, value in enumerate(values):
            element = (
                value.encode() if isinstance(value, str) else base64.b64decode(value["base64"])
            )
            array[at] = element.decode("utf-8", "surrogateescape") if as_text else element
        return array.reshape([int(size) for size in found["shape"]])
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise DumpError(f"A line of strings is damaged: {error}.") from None
