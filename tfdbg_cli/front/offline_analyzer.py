"""The original's command for dumps: ``python -m tfdbg_cli.front.offline_analyzer --dump_dir=DIR``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from tfdbg_cli.common.errors import UserError
from tfdbg_cli.common.printable import printable

__all__ = ["main"]

# The original's statuses: whatever is wrong, it ends with 1.
_WRONG = 1

_KINDS = {"curses": "screen"}

_EPILOG = """\
A dash does for an underscore. "python -m tfdbg_cli --dump-dir DIR" does the same and has more
options: filters, commands, themes."""


def _is_true(text: str) -> bool:
    return text.lower() == "true"


def _make_parser() -> argparse.ArgumentParser:
    """The original's flags with its defaults (``tensorflow/python/debug/cli/offline_analyzer``)."""
    parser = argparse.ArgumentParser(
        prog="offline_analyzer",
        description="Looks at the tensors that a program has dumped.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add(
        "--dump_dir",
        default="",
        metavar="DIR",
        help="the dump of a run, or a folder with those of several",
    )
    add(
        "--log_usage",
        type=_is_true,
        nargs="?",
        const=True,
        default=True,
        metavar="true|false",
        help="does nothing: usage is never logged",
    )
    add(
        "--ui_type",
        default="readline",
        metavar="KIND",
        help="readline, curses (or screen), line, plain, auto (default: %(default)s)",
    )
    add(
        "--validate_graph",
        type=_is_true,
        nargs="?",
        const=True,
        default=True,
        metavar="true|false",
        help="compare the dumped tensors with the graph (default: true)",
    )
    return parser


def _with_underscores(argv: Sequence[str]) -> list[str]:
    """The arguments with ``_`` for each ``-`` in the name of an option."""
    found = []
    for text in argv:
        name, equals, value = text.partition("=")
        if name.startswith("--"):
            name = "--" + name[2:].replace("-", "_")
        found.append(name + equals + value)
    return found


def _fail(message: str) -> int:
    print("\n".join(map(printable, message.split("\n"))), file=sys.stderr)
    return _WRONG


def main(argv: Sequence[str] | None = None) -> int:
    """Show a dump.

    Args:
        argv: the arguments; ``None``: those of the process. As in the original, words that belong
            to no flag are ignored.

    Returns:
        The exit status: 1 if there is no dump, or an option is wrong.

    Raises:
        SystemExit: ``--help``, or a flag without its value.
    """
    flags, others = _make_parser().parse_known_args(
        _with_underscores(sys.argv[1:] if argv is None else argv)
    )
    unknown = next((text for text in others if text.startswith("-") and len(text) > 1), None)
    if unknown is not None:
        name = unknown.lstrip("-").partition("=")[0]
        return _fail(f"FATAL Flags parsing error:\n  Unknown command line flag '{name}'")
    if not flags.dump_dir:
        return _fail("ERROR: dump_dir flag is empty.")

    from tfdbg_cli.sessions.debugger.debugger import Debugger
    from tfdbg_cli.sessions.offline.look import look
    from tfdbg_cli.ui.choose import KINDS

    kind = _KINDS.get(flags.ui_type, flags.ui_type)
    if kind not in KINDS:
        known = ", ".join([*_KINDS, *KINDS])
        return _fail(f"ERROR: Invalid ui_type: '{flags.ui_type}'. There are {known}.")
    print(f"tfdbg offline: FLAGS.dump_dir = {printable(flags.dump_dir)}", flush=True)
    debugger = Debugger(ui=kind)
    try:
        look(flags.dump_dir, debugger, validate=flags.validate_graph)
    except UserError as error:
        return _fail(f"ERROR: {' '.join(str(error).split())}")
    finally:
        debugger.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
