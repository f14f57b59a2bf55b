"""``--send-to NAME``: verdicts, reports and numbers go where a program's experiment is followed."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tfdbg_cli.commands.context import Context
from tfdbg_cli.commands.report.report import write_report
from tfdbg_cli.commands.series.files import save_series
from tfdbg_cli.common.errors import UserError, one_line
from tfdbg_cli.common.interpreter.program_signals import pass_on
from tfdbg_cli.common.packages import entry_points
from tfdbg_cli.common.streams import tell
from tfdbg_cli.dumps.series.points import Points
from tfdbg_cli.dumps.series.tracks import Tracks

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = ["Message", "Sending"]

#: Of the entry points of this group each is a function of a `Message`.
GROUP = "tfdbg_cli.senders"


class Message(NamedTuple):
    """What is known at a stop, or at the end of the program.

    Attributes:
        title: one line: the filter, the tensor, the run and the reason, or the error.
        record: the structure of docs/json.md; empty at the end of the program.
        folder: holds ``report.html`` and ``verdict.json`` (not at the end of the program) and
            ``numbers.csv`` (where numbers over runs are known). It is removed afterwards.
        numbers: the numbers over runs by their names, since the last message.
        place: what stands behind the sender's name, as in ``tensorboard:DIR``; empty: nothing.
        started_in: the folder that the program was started in, for relative paths in ``place``.
    """

    title: str
    record: Mapping[str, Any]
    folder: Path
    numbers: Mapping[str, Points]
    place: str
    started_in: Path


class Sending:
    """Sends a message at each stop that something has led to, and one at the program's end.

    Args:
        text: the names of senders, with commas between them, each with ``:PLACE`` if it needs one.

    Raises:
        UserError: there is no such sender, or it can't be imported.
    """

    def __init__(self, text: str) -> None:
        points = {point.name: point for point in entry_points(GROUP)}
        self._senders: dict[str, Callable[[Message], None]] = {}
        for each in text.split(","):
            name = each.strip().partition(":")[0]
            if name not in points:
                raise UserError(
                    f'--send-to: there is no sender "{name}".', f"Use {', '.join(sorted(points))}."
                )
            self._senders[each.strip()] = _loaded(points[name])
        self._sent: dict[str, int] = {}
        self._started_in = Path.cwd()

    def stop(self, context: Context, record: Mapping[str, Any], tracks: Tracks) -> None:
        """Send what is known at a stop; what goes wrong is told in a line and forgotten."""
        self._send(_title(record), record, tracks, context)

    def end(self, tracks: Tracks) -> None:
        """The program is at its end: send the numbers since the last stop, if there are any."""
        if any(series.count > self._sent.get(name, 0) for name, series in tracks.items()):
            self._send("", {}, tracks, None)

    def _send(
        self, title: str, record: Mapping[str, Any], tracks: Tracks, context: Context | None
    ) -> None:
        try:
            with tempfile.TemporaryDirectory(prefix="tfdbg-") as name:
                folder, numbers = Path(name), self._news(tracks)
                if context is not None:
                    write_report(context, str(folder / "report.html"))
                    (folder / "verdict.json").write_text(json.dumps(record), encoding="utf-8")
                if numbers:
                    save_series(str(folder / "numbers.csv"), numbers, (), is_log=False)
                for sender, send in self._senders.items():
                    place = sender.partition(":")[2], self._started_in
                    _try(sender, send, Message(title, record, folder, numbers, *place))
        except Exception as error:
            pass_on(error)
            tell(f"--send-to: {one_line(error)}")

    def _news(self, tracks: Tracks) -> dict[str, Points]:
        """The numbers that no message has had."""
        tracks.settle()
        found = {}
        for name, series in tracks.items():
            count, points = series.count, series.points()
            new = min(count - self._sent.get(name, 0), len(points.values))
            self._sent[name] = count
            if new > 0:
                found[name] = Points(*(each[-new:] for each in points))
        return found


def _loaded(point: EntryPoint) -> Callable[[Message], None]:
    try:
        loaded: Callable[[Message], None] = point.load()
    except Exception as error:
        pass_on(error)
        raise UserError(f"--send-to: {point.value} can't be imported: {one_line(error)}") from None
    return loaded


def _try(name: str, send: Callable[[Message], None], message: Message) -> None:
    try:
        send(message)
    except Exception as error:
        pass_on(error)
        why = str(error) if isinstance(error, UserError) else one_line(error)
        what = "nothing was" if message.record else "the last numbers weren't"
        tell(f"{what} sent to {name}: {why}")


def _title(record: Mapping[str, Any]) -> str:
    if "error" in record:
        said = record["error"]
        return f"{said['type']}: {said['message']} in {record['run']['name']}"
    tensor, reason, line = record["tensor"], record["reason"], record["line"]
    parts = [f"{record['filter']}: {tensor['name'] if tensor else 'a tensor'}"]
    parts.append(f"in {record['run']['name']}")
    if line:
        parts.append(f"at {Path(line['file']).name}:{line['line']}")
    return " ".join(parts) + (f": {reason['text']}" if reason else "")
