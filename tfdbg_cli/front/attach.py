"""``tfdbg attach``: the command line of a client, and its life from stop to stop."""

from __future__ import annotations

import argparse
import os
import signal
import threading
from collections.abc import Sequence

from tfdbg_cli.common.errors import UserError, one_line
from tfdbg_cli.common.settings import Settings, default_config_path
from tfdbg_cli.common.streams import tell
from tfdbg_cli.front.options import OptionParser, add_ui_options, check_theme
from tfdbg_cli.net.address import parse_address
from tfdbg_cli.net.tokens import find_token, only_address
from tfdbg_cli.net.wire import LostError
from tfdbg_cli.ui.base import CommandQueue, UserInterface
from tfdbg_cli.ui.choose import make_ui
from tfdbg_cli.ui.remote.connection import (
    Connection,
    Disconnection,
    OverError,
    RunningProgram,
    StoppedProgram,
)
from tfdbg_cli.ui.remote.proxies import RemoteHistory, RemoteService

__all__ = ["main"]

# What ends the prompt of a UI that prints, once the program is gone.
_LET_GO = "exit --detach"

_FAILED = 1
_INTERRUPTED = 130

_DESCRIPTION = """\
Debugs a program that was started with --listen, from this terminal. The program's machine runs the
commands and writes the files that they name."""

_EXAMPLES = """\
examples:
  tfdbg attach 5678
      take over at the stop of the program that listens at port 5678 of this machine
  ssh -t node17 tfdbg attach 5678
      the same on another machine
  ssh -L 5678:localhost:5678 node17
  tfdbg attach --token-file node17.token 5678
      the same through a tunnel, with a copy of the program's token file
"""


def _make_parser(defaults: argparse.Namespace) -> OptionParser:
    parser = OptionParser(
        prog="tfdbg attach",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "address",
        nargs="?",
        metavar="ADDRESS",
        help="[HOST:]PORT or unix:PATH; default: the only program of yours on this machine",
    )
    add_ui_options(parser)
    parser.add_argument(
        "--token-file", metavar="FILE", help="the program's token; TFDBG_TOKEN may also hold it"
    )
    parser.add_argument(
        "--take-over", action="store_true", help="replace the client that is attached"
    )
    # What stands in front of "attach" counts as well.
    names = ("command", "batch", "ui", "no_color", "no_mouse", "theme")
    parser.set_defaults(**{name: getattr(defaults, name) for name in names})
    return parser


def main(argv: Sequence[str], defaults: argparse.Namespace) -> int:
    """Attach to a program and debug it until it ends or is left.

    Args:
        argv: what stands behind ``attach``.
        defaults: the options in front of it.

    Returns:
        0 when the program has ended, however it did, or was detached from; 1 when it couldn't be
        attached to, the connection broke, or with ``--batch`` a command failed.

    Raises:
        SystemExit: a wrong command line.
    """
    options = _make_parser(defaults).parse_args(argv)
    try:
        check_theme(options.theme)
        address = only_address() if options.address is None else parse_address(options.address)
        token = find_token(address, options.token_file)
        connection = Connection(address, token, take_over=options.take_over)
    except UserError as error:
        tell(str(error))
        return _FAILED
    settings = Settings(default_config_path())
    queue = CommandQueue(options.command, batch=options.batch)
    try:
        ui = make_ui(
            options.ui,
            settings,
            color=not (options.no_color or os.environ.get("NO_COLOR")),
            mouse=False if options.no_mouse else None,
            theme=options.theme,
            batch=options.batch,
        )
    except OSError as error:
        connection.close()
        tell(one_line(error))
        return _FAILED
    client = _Client(connection, ui, queue, settings)
    try:
        status = client.live()
    finally:
        connection.close()
        ui.close()
    left = [text for text in iter(queue.take, None) if text is not _LET_GO]
    if left:
        tell(f"{len(left)} command(s) were not run: {'; '.join(left[:3])}")
    return status or int(queue.failed and queue.batch)


class _Client:
    """Drives a UI along the stops of a program in another process."""

    def __init__(
        self, connection: Connection, ui: UserInterface, queue: CommandQueue, settings: Settings
    ) -> None:
        self._connection = connection
        self._ui = ui
        self._queue = queue
        self._settings = settings
        self._history = RemoteHistory(connection)
        self._is_asking = False
        self._is_interrupted = False
        self._is_shown = False
        connection.on_parted = self._wake

    def live(self) -> int:
        """Go from stop to stop; returns the exit status."""
        tell(f"attached to {self._connection.program}.")
        while True:
            version, state = self._connection.seen()
            try:
                if isinstance(state, Disconnection):
                    self._hide_progress()
                    return self._part(state)
                if isinstance(state, RunningProgram):
                    self._show_progress(state)
                else:
                    self._hide_progress()
                    self._stop(state)
                self._connection.wait(version)
            except KeyboardInterrupt:
                if self._interrupt():
                    return _INTERRUPTED

    def _stop(self, stop: StoppedProgram) -> None:
        """One stop, until the UI or the program leaves it."""
        self._is_interrupted = False
        self._history.arrive(stop.number)
        service = RemoteService(self._connection, stop, self._settings, self._history)
        self._is_asking = True
        try:
            self._ui.interact(service, self._queue)
        except OverError:
            pass  # the state says why
        except LostError as error:
            self._connection.break_off(str(error))
        except KeyboardInterrupt:
            if not isinstance(self._connection.state, Disconnection):
                raise
        finally:
            self._is_asking = False

    def _wake(self) -> None:
        """The program is gone: get the UI out of its prompt. Called in the reading thread.

        A UI that prints takes its next command from the queue once its prompt is interrupted; the
        screen notices by itself (`RemoteDocument.pending`).
        """
        if self._is_asking:
            self._queue.extend([_LET_GO])
            main_thread = threading.main_thread().ident
            if hasattr(signal, "pthread_kill") and main_thread is not None:
                signal.pthread_kill(main_thread, signal.SIGINT)

    def _show_progress(self, state: RunningProgram) -> None:
        if not self._is_shown and not self._queue.batch:
            self._is_shown = True
            self._ui.running(self._describe, state.announcement)

    def _describe(self) -> str:
        return self._connection.progress() or "The program runs. Ctrl-C: stop"

    def _hide_progress(self) -> None:
        if self._is_shown:
            self._is_shown = False
            self._ui.stopped()

    def _interrupt(self) -> bool:
        """A Ctrl-C while the program runs: the first asks for a stop, the next one leaves."""
        if isinstance(self._connection.state, Disconnection):
            return False  # that was `_wake`, or too late
        if not self._is_interrupted and not self._queue.batch:
            self._is_interrupted = True
            self._connection.request_stop()
            tell("stopping at the end of the run; Ctrl-C again leaves the program running.")
            return False
        self._connection.notify("detach")
        self._hide_progress()
        tell("detached; the program runs on.")
        return True

    def _part(self, last: Disconnection) -> int:
        """Say why it is over."""
        if last.why == "lost":
            tell(f"the connection to the program is lost ({last.text}).")
            return _FAILED
        if last.why == "replaced":
            tell(f"{last.text} has taken over.")
        elif last.why == "detached":
            until = last.text or "without stops until somebody attaches again"
            tell(f"detached; the program runs on: {until}.")
        elif last.text:
            tell(f"the program ended with an error: {last.text}")
        else:
            tell("the program has ended.")
        return 0
