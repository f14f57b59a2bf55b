"""``--log FILE``: a line of JSON for each stop that something has led to, for log collectors."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from tfdbg_cli.commands.context import Context
from tfdbg_cli.commands.json_lines import head
from tfdbg_cli.commands.report.finding import find_in
from tfdbg_cli.common.caught import caught
from tfdbg_cli.common.errors import UserError, message_of, one_line
from tfdbg_cli.common.interpreter.program_signals import pass_on
from tfdbg_cli.common.streams import tell
from tfdbg_cli.dumps.sources import own_place

__all__ = ["StopLog", "stop_record"]


class StopLog:
    """Appends a line at each stop of ``run -f`` and at each run that fails.

    Args:
        path: of the file; other programs and ranks may write to it, too.

    Raises:
        UserError: it can't be written.
    """

    def __init__(self, path: str) -> None:
        # The program may change its folder.
        self._path = os.path.abspath(os.path.expanduser(path))
        self._has_told = False
        self._caught = 0
        # What ends a line of which the disk has taken a part.
        self._behind = ""
        try:
            os.close(self._open())
        except OSError as error:
            raise UserError(f"--log {path}: {one_line(error)}") from None

    def write(self, record: Mapping[str, Any]) -> None:
        """Write the line of a stop; what goes wrong is told once and forgotten."""
        try:
            found = {**record}
            if new := caught(self._caught):
                self._caught = new[-1].number
                found["caught"] = [each._asdict() for each in new]
            self._append(json.dumps(found) + "\n")
        except Exception as error:
            pass_on(error)
            if not self._has_told:
                self._has_told = True
                tell(f"--log {self._path}: {one_line(error)}")

    def _open(self) -> int:
        return os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)

    def _append(self, text: str) -> None:
        # One call of write: lines of several processes don't mix.
        data = (self._behind + text).encode()
        number = self._open()
        try:
            done = os.write(number, data)
            if done < len(data):  # the disk is full
                self._behind = "\n"
                os.write(number, data[done:])
            self._behind = ""
        finally:
            os.close(number)


def stop_record(context: Context, title: str, first_command: str, dump: str) -> dict[str, Any]:
    """What a program is told about a stop, see docs/json.md.

    Args:
        context: of the stop.
        title: of its first screen.
        first_command: that of this screen.
        dump: the folder of the run's dump; empty: there is none, or not yet.
    """
    run, info = title.partition(": ")[2], context.run_info
    uncaught, error = context.extra.get("uncaught"), info.error
    if uncaught is not None:  # --post-mortem
        run = title.partition("; last run: ")[2]
    time = datetime.now(UTC).isoformat(timespec="milliseconds")
    found = {"time": time, **head(info.engine, run, info.number or info.call_count)}
    if uncaught is not None:
        file, number = own_place(uncaught)
        found |= {"stop": "uncaught", "dump": dump, "line": {"file": file, "line": number}}
        said = {"type": type(uncaught).__name__, "message": message_of(uncaught), "op": ""}
        return {**found, "error": said}
    if error is not None:
        place = {"file": error.file, "line": error.line} if error.line else None
        said = {"type": error.type_name, "message": error.message, "op": error.op_name}
        return {**found, "stop": "error", "dump": dump, "line": place, "error": said}
    _, parsed = context.registry.parsed(first_command, context.mode)
    filter_name = getattr(parsed, "tensor_filter", None) or ""
    try:
        predicates = {filter_name: context.filters.predicate(filter_name)}
    except UserError:  # another run's tensors, say
        predicates = {}
    finding = find_in(context, predicates, run)
    finding.filter, finding.dump = filter_name, dump
    return {**found, "stop": "filter", **finding.record()}
