"""``tfdbg mcp``: the command line of the server for coding agents."""

from __future__ import annotations

import argparse
import importlib.util
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType

from tfdbg_cli.common.errors import UserError
from tfdbg_cli.common.streams import tell
from tfdbg_cli.front.options import OptionParser
from tfdbg_cli.net.address import parse_address

__all__ = ["main"]

_FAILED = 1
_LEAST_BYTES = 2_000

_DESCRIPTION = """\
Serves the debugger to coding agents by the Model Context Protocol, over stdin and stdout or, with
--http, over a port of this machine. It needs the package mcp: pip install "tfdbg_cli[mcp]"."""

_EXAMPLES = """\
examples:
  claude mcp add tfdbg -- tfdbg mcp
      an agent that starts the server by itself; programs of this folder may be started
  tfdbg mcp --root ~/project --allow eval
      it may also evaluate Python expressions over tensors
"""


def _rights(text: str) -> list[str]:
    from tfdbg_cli.agents.rights import RIGHTS

    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in RIGHTS:
            raise argparse.ArgumentTypeError(f'"{name}" is none of {", ".join(RIGHTS)}')
    return names


def _bytes(text: str) -> int:
    if not text.isdecimal() or len(text) > 9 or int(text) < _LEAST_BYTES:
        raise argparse.ArgumentTypeError(f"write a number from {_LEAST_BYTES} on")
    return int(text)


def _make_parser() -> OptionParser:
    parser = OptionParser(
        prog="tfdbg mcp",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--root",
        metavar="DIR",
        default=".",
        help="only programs below this folder are started (default: the current one)",
    )
    parser.add_argument(
        "--allow",
        type=_rights,
        default=[],
        metavar="RIGHT[,...]",
        help="eval: run Python expressions and programs, change a program's results; write: write"
        " files; start: start programs outside the root, with any interpreter and environment;"
        " default: look only",
    )
    parser.add_argument(
        "--answer-bytes",
        type=_bytes,
        default=8_000,
        metavar="N",
        help="an answer is at most so long (default: %(default)s)",
    )
    parser.add_argument(
        "--http",
        metavar="PORT",
        help="serve at this port of this machine instead; a client has to send the token of its"
        " file: Authorization: Bearer TOKEN",
    )
    return parser


def _die_with(kill: Callable[[], None]) -> None:
    """Let a Ctrl-C and a SIGTERM end the programs of the sessions as well.

    The thread that reads stdin can't be woken, so nothing ends by itself.
    """

    def die(number: int, frame: FrameType | None) -> None:
        kill()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, die)


def main(argv: Sequence[str]) -> int:
    """Serve until the client hangs up.

    Args:
        argv: what stands behind ``mcp``.

    Returns:
        0; 1 when the server can't begin.

    Raises:
        SystemExit: a wrong command line.
    """
    options = _make_parser().parse_args(argv)
    try:
        if importlib.util.find_spec("mcp") is None:
            raise UserError(
                "The package mcp isn't here.", 'pip install "tfdbg_cli[mcp]" brings it.'
            )
        root = Path(os.path.expanduser(options.root))
        if not root.is_dir():
            raise UserError(f"{root} is no folder.")
        address = None if options.http is None else parse_address(options.http)
        if address is not None and (address.path or not address.is_private):
            raise UserError("--http takes a port of this machine.", "Across machines use ssh -L.")
        from tfdbg_cli.agents.rights import Rights
        from tfdbg_cli.agents.server import make_server

        server, kill = make_server(Rights(options.allow, root), options.answer_bytes)
        if address is not None:
            from tfdbg_cli.agents.http import serve

            serve(server, address)
        else:
            _die_with(kill)
            if sys.stdin.isatty():
                tell("agents start this by themselves; it waits for messages here. Ctrl-D ends it.")
            server.run("stdio")
    except UserError as error:
        tell(str(error))
        return _FAILED
    return 0
