"""What a client may ask for, checked before anything is done with it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from tfdbg_cli.common.tables import VERBS
from tfdbg_cli.net.wire import MalformedError
from tfdbg_cli.ui.remote.codec import count, integer

__all__ = ["AT_ONCE", "LONGEST", "SILENT", "ClientRequest", "check_hello", "parse_request"]

#: Characters of a command line or a pattern.
LONGEST = 150_000
_MOST_INDICES = 100
_MOST_RELEASED = 10_000
_WIDEST = 10_000


class ClientRequest(NamedTuple):
    """A request of a client.

    Attributes:
        number: the answer bears it.
        stop: the stop that the client is at.
        name: what to do.
        arguments: what with; their names and types are those of the request.
    """

    number: int
    stop: int
    name: str
    arguments: Mapping[str, Any]


def _text(data: Any) -> str:
    if not isinstance(data, str) or len(data) > LONGEST:
        raise ValueError("no text, or too long a one")
    return data


def _width(data: Any) -> int:
    return min(max(count(data), 1), _WIDEST)


def _direction(data: Any) -> int:
    if integer(data) not in (-1, 1):
        raise ValueError("no direction")
    return integer(data)


def _verb(data: Any) -> str:
    if data not in VERBS:
        raise ValueError("nothing that can be done to a list")
    return str(data)


def _numbers(most: int, read: Callable[[Any], int]) -> Callable[[Any], tuple[int, ...]]:
    def numbers(data: Any) -> tuple[int, ...]:
        if not isinstance(data, list) or len(data) > most:
            raise ValueError("no list of numbers")
        return tuple(map(read, data))

    return numbers


_indices = _numbers(_MOST_INDICES, integer)


def _place(data: Any) -> tuple[int, ...] | None:
    return None if data is None else _indices(data)


def _flags(data: Any) -> int:
    # Those that a caller may set, and that compile a str.
    return integer(data) & (re.IGNORECASE | re.MULTILINE | re.DOTALL | re.VERBOSE | re.ASCII)


_Checks = Mapping[str, Callable[[Any], Any]]

_LINES: _Checks = {"document": count, "start": count, "stop": count}

_REQUESTS: Mapping[str, _Checks] = {
    "run": {"text": _text, "width": _width},
    "complete": {"text": _text, "cursor": count},
    "commands": {},
    "lines": _LINES,
    "settle": _LINES,
    "status": _LINES,
    "find": {
        "document": count,
        "pattern": _text,
        "flags": _flags,
        "start": integer,
        "direction": _direction,
    },
    "matches": {
        "document": count,
        "pattern": _text,
        "flags": _flags,
        "start": count,
        "stop": count,
    },
    "locate": {"document": count, "indices": _indices},
    "cells": {"document": count, "line": count},
    "fields": {"document": count, "line": count},
    "table_command": {"document": count, "line": count, "column": _text, "verb": _verb},
    "element": {"document": count, "indices": _indices},
    "step": {"document": count, "indices": _place, "direction": _direction},
    "resized": {"document": count, "width": _width},
    "paged": {"document": count, "rows": _width},
    "turned": {"document": count, "way": _text, "indices": _place},
    "release": {"documents": _numbers(_MOST_RELEASED, count)},
    "typed": {"text": _text},
    "played": {"text": _text},
    "interrupt": {"request": count},
    "progress": {},
    "stop": {},
    "detach": {},
}

#: Requests that no answer is sent to.
SILENT = frozenset({"release", "typed", "played", "interrupt", "progress", "stop", "detach"})

#: Requests that don't wait for their turn at a stop.
AT_ONCE = frozenset({"interrupt", "progress", "stop", "detach"})


def parse_request(message: Mapping[str, Any]) -> ClientRequest:
    """A request from the message that bears it.

    Raises:
        MalformedError: there is no such request, or its arguments are not what they must be.
    """
    name = message.get("do")
    checks = _REQUESTS.get(name) if isinstance(name, str) else None
    if checks is None or not isinstance(name, str):
        raise MalformedError("no request")
    try:
        arguments = {key: check(message[key]) for key, check in checks.items()}
        return ClientRequest(
            count(message.get("id", 0)), count(message.get("at", 0)), name, arguments
        )
    except (KeyError, TypeError, ValueError) as error:
        raise MalformedError(f"{name}: {error!r}") from None


def check_hello(message: Mapping[str, Any]) -> tuple[str, bool]:
    """A client's first message: who it is, and whether it takes over from another one.

    Raises:
        MalformedError: it is no such message.
    """
    who, takes_over = message.get("hello"), message.get("take_over")
    if not isinstance(who, str) or len(who) > 500 or not isinstance(takes_over, bool):
        raise MalformedError("no hello")
    return who, takes_over
