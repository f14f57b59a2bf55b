"""Answers a client's requests at a stop, from the stop's service and the Documents it has shown."""

from __future__ import annotations

import re
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

from tfdbg_cli.commands.reply import Leave, Reply, Service
from tfdbg_cli.common.documents import Document
from tfdbg_cli.common.errors import UserError, one_line
from tfdbg_cli.ui.remote import codec
from tfdbg_cli.ui.remote.requests import ClientRequest

__all__ = ["DocumentTable", "RequestHandler"]

# As many Documents as a client can come back to; those of a screen are fewer.
_MOST_DOCUMENTS = 500

# Lines of one answer.
_MOST_LINES = 4_096

# A search answers after so long at the latest, and then goes on with the next request.
_SEARCH_SECONDS = 0.1
_SEARCH_LINES = 1_024


class DocumentTable:
    """The Documents that a client may ask for, by number."""

    def __init__(self) -> None:
        self._documents: OrderedDict[int, Document] = OrderedDict()
        self._last = 0

    def add(self, document: Document) -> int:
        """Keep a Document.

        Returns:
            Its number, always a new one: releasing another means nothing to it.
        """
        self._last += 1
        self._documents[self._last] = document
        while len(self._documents) > _MOST_DOCUMENTS:
            self._documents.popitem(last=False)
        return self._last

    def get(self, number: int) -> Document:
        """The Document of a number.

        Raises:
            UserError: it is no longer there.
        """
        found = self._documents.get(number)
        if found is None:
            raise UserError("This output is no longer there.", "Run its command again.")
        self._documents.move_to_end(number)
        return found

    def release(self, documents: tuple[int, ...]) -> None:
        """The client asks for these no more."""
        for number in documents:
            self._documents.pop(number, None)

    def clear(self) -> None:
        """There is no client."""
        self._documents.clear()


class RequestHandler:
    """One stop of the program.

    Args:
        service: of the stop.
        shelf: of the client; it outlives the stop.
        settings: fills up with the settings that commands change.
    """

    def __init__(self, service: Service, shelf: DocumentTable, settings: dict[str, Any]) -> None:
        self._service = service
        self._shelf = shelf
        self._settings = settings
        self._answers: Mapping[str, Callable[..., Any]] = {
            "complete": self._complete,
            "commands": lambda: codec.COMMANDS.encode(service.commands()),
            "lines": self._lines,
            "settle": self._settle,
            "status": self._status,
            "find": self._find,
            "matches": self._matches,
            "locate": lambda document, indices: shelf.get(document).locate(indices),
            "cells": lambda document, line: codec.CELLS.encode(shelf.get(document).cells(line)),
            "fields": lambda document, line: codec.FIELDS.encode(shelf.get(document).fields(line)),
            "table_command": lambda document, line, column, verb: shelf.get(document).table_command(
                line, column, verb
            ),
            "element": self._element,
            "step": lambda document, indices, direction: codec.STEP.encode(
                shelf.get(document).step(indices, direction)
            ),
            "resized": lambda document, width: self._other(
                document, lambda shown: shown.resized(width)
            ),
            "paged": lambda document, rows: self._other(document, lambda shown: shown.paged(rows)),
            "turned": self._turned,
            "release": shelf.release,
            "typed": service.history.add,
            "played": service.history.play,
        }

    def answer(self, request: ClientRequest) -> tuple[dict[str, Any], Leave | None]:
        """Do what is asked.

        Returns:
            The answer, and whether control goes back to the session.
        """
        try:
            if request.name == "run":
                return self._run(**request.arguments)
            return {"result": self._answers[request.name](**request.arguments)}, None
        except UserError as error:
            return {"error": error.message, "hint": error.hint}, None
        except Exception as error:  # it is one screen's, never the program's
            return {"error": f"Error in the debugger: {one_line(error)}", "hint": ""}, None

    def _run(self, text: str, width: int) -> tuple[dict[str, Any], Leave | None]:
        self._settings.clear()
        reply: Reply = self._service.run(text, width)
        result = codec.encode_reply(reply, self._shelf.add, self._settings, self._service.prompt)
        return {"result": result}, reply.leave

    def _complete(self, text: str, cursor: int) -> dict[str, Any]:
        return codec.encode_completion(self._service.complete(text, cursor))

    def _lines(self, document: int, start: int, stop: int) -> dict[str, Any]:
        found = self._shelf.get(document)
        stop = min(stop, start + _MOST_LINES)
        made = found.lines(start, stop)
        is_pending = found.pending
        if not is_pending and type(found).pending is not Document.pending:
            # What was computed since the lines were made isn't in them.
            made = found.lines(start, stop)
        return {"lines": codec.LINES.encode(made), "pending": is_pending}

    def _settle(self, document: int, start: int, stop: int) -> None:
        self._shelf.get(document).settle(start, min(stop, start + _MOST_LINES))

    def _status(self, document: int, start: int, stop: int) -> str:
        return self._shelf.get(document).status(start, stop)

    def _find(
        self,
        document: int,
        pattern: str,
        flags: int,
        start: int,
        direction: int,
    ) -> dict[str, Any]:
        """Search until there is a match, all is searched, or the time is over."""
        found, compiled = self._shelf.get(document), _compiled(pattern, flags)
        end = found.line_count if direction > 0 else -1
        at = max(start, 0) if direction > 0 else min(start, found.line_count - 1)
        until = time.monotonic() + _SEARCH_SECONDS
        while (end - at) * direction > 0:
            behind = at + direction * min(_SEARCH_LINES, abs(end - at))
            hit = found.find(compiled, at, direction, behind)
            if hit is not None:
                return {"hit": hit, "upto": hit}
            at = behind
            if time.monotonic() > until:
                break
        return {"hit": None, "upto": at}

    def _matches(
        self, document: int, pattern: str, flags: int, start: int, stop: int
    ) -> dict[str, Any]:
        """The lines that match, as far as there is time to look."""
        found, compiled = self._shelf.get(document), _compiled(pattern, flags)
        hits: list[int] = []
        at, end = start, min(stop, found.line_count)
        until = time.monotonic() + _SEARCH_SECONDS
        while at < end and len(hits) < _MOST_LINES:
            behind = min(at + _SEARCH_LINES, end)
            hits += found.matches(compiled, at, behind)
            at = behind
            if time.monotonic() > until:
                break
        return {"hits": hits, "upto": at}

    def _element(self, document: int, indices: tuple[int, ...]) -> dict[str, Any] | None:
        found = self._shelf.get(document).element(indices)
        if found is None:
            return None
        return codec.encode_document(found, self._shelf.add(found))

    def _other(self, document: int, make: Callable[[Document], Document]) -> dict[str, Any]:
        """A Document that is made of another one, or is the same."""
        old = self._shelf.get(document)
        made = make(old)
        return codec.encode_document(made, document if made is old else self._shelf.add(made))

    def _turned(self, document: int, way: str, indices: tuple[int, ...] | None) -> dict[str, Any]:
        found = self._shelf.get(document)
        if way.partition(":")[0] not in found.turns:
            raise UserError("This screen has no other view.")
        turned = found.turned(way, indices)
        return {
            "document": self._other(document, lambda shown: turned.document),
            "indices": None if turned.indices is None else [*map(int, turned.indices)],
        }


def _compiled(pattern: str, flags: int) -> re.Pattern[str]:
    try:
        return re.compile(pattern, flags)
    except (re.error, RecursionError, OverflowError) as error:
        raise UserError(f"That is not a regular expression: {error}.") from None
