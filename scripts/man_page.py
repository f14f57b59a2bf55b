"""Writes docs/tfdbg.1 from the parser of the command line.

.venv/bin/python scripts/man_page.py [--check]
"""

import argparse
import pathlib
import sys

from tfdbg_cli.front.command_line import EXAMPLES, make_parser

PATH = pathlib.Path(__file__).resolve().parent.parent / "docs" / "tfdbg.1"

STATUSES = (
    ("that of the program", "as python gives it"),
    ("1", "exit --end; with --batch: runs that were compared differ; with --check: nothing was"),
    ("2", "the command line is wrong"),
    ("3", "with --check: a tensor has passed a filter"),
)
FILES = (
    ("$XDG_CONFIG_HOME/tfdbg_cli/config.json", "settings, which the command config save keeps"),
    ("$XDG_STATE_HOME/tfdbg_cli", "the history of commands"),
    ("tfdbg_dumps", "where runs are kept without --dump-root"),
)
VARIABLES = (
    ("NO_COLOR", "no colours"),
    ("TFDBG_TOKEN", "the token of a program that listens at a port"),
    ("PYTHONBREAKPOINT=tfdbg_cli.set_trace", "breakpoint() stops at the next run"),
)


def roff(text: str) -> str:
    """Text in man(7)'s words."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\n".join(
        f"\\&{line}" if line.startswith((".", "'")) else line for line in text.splitlines()
    )


def option(action: argparse.Action) -> str:
    """One option: how it is written, and what it does."""
    value = action.metavar or ("{" + ",".join(action.choices) + "}" if action.choices else "")
    takes = action.nargs != 0
    names = ", ".join(f"\\fB{roff(name)}\\fR" for name in action.option_strings)
    head = f"{names} \\fI{roff(str(value))}\\fR" if takes and value else names
    said = (action.help or "").replace("%(default)s", str(action.default))
    return f".TP\n{head}\n{roff(said)}."


def terms(entries: tuple[tuple[str, str], ...]) -> str:
    """A list of words and what they mean."""
    return "\n".join(f".TP\n\\fB{roff(name)}\\fR\n{roff(what)}." for name, what in entries)


def page() -> str:
    """The whole page."""
    parser, _ = make_parser()
    usage = "\n".join(each.strip() for each in (parser.usage or "").splitlines())
    parts = [
        '.TH TFDBG 1 "" "tfdbg_cli" "User Commands"',
        ".SH NAME\ntfdbg \\- a terminal debugger for tensors",
        f".SH SYNOPSIS\n.nf\n{roff(usage)}\n.fi",
        f".SH DESCRIPTION\n{roff(' '.join((parser.description or '').split()))}",
        ".SH OPTIONS",
    ]
    for group in parser._action_groups:
        shown = [each for each in group._group_actions if each.help != argparse.SUPPRESS]
        if shown:
            title = (group.title or "")[:1].upper() + (group.title or "")[1:]
            parts += [f".SS {roff(title)}", *map(option, shown)]
    examples = "\n".join(EXAMPLES.splitlines()[1:])
    parts += [
        f'.SH "EXIT STATUS"\n{terms(STATUSES)}',
        f".SH FILES\n{terms(FILES)}",
        f".SH ENVIRONMENT\n{terms(VARIABLES)}",
        f".SH EXAMPLES\n.nf\n{roff(examples)}\n.fi",
        ".SH SEE ALSO\nhelp at the prompt lists all commands; \\fBpython\\fR(1), \\fBgdb\\fR(1).",
    ]
    return "\n".join(parts) + "\n"


def main() -> int:
    """Write the page, or compare it."""
    text = page()
    if sys.argv[1:] == ["--check"]:
        if PATH.read_text(encoding="utf-8") != text:
            print("docs/tfdbg.1 is stale: run scripts/man_page.py.", file=sys.stderr)
            return 1
        return 0
    PATH.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
