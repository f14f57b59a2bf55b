"""Writes docs/commands.md from the registry of commands.

.venv/bin/python scripts/command_docs.py [--check]
"""

import pathlib
import sys

from tfdbg_cli.commands.builtin import make_registry
from tfdbg_cli.commands.context import ALL_MODES
from tfdbg_cli.commands.registry import Argument, Command
from tfdbg_cli.commands.shell.general import ARGUMENTS, LANGUAGE
from tfdbg_cli.common.settings import all_fields
from tfdbg_cli.engines import registry  # noqa: F401 (it makes the engines known)
from tfdbg_cli.filters.arguments import usage
from tfdbg_cli.filters.builtin import BUILTIN as FILTERS_THERE

PATH = pathlib.Path(__file__).resolve().parent.parent / "docs" / "commands.md"

HEAD = """\
# Commands

Written by `scripts/command_docs.py` from the commands themselves; `help COMMAND` shows the same.

A command line is words separated by blanks. Quotes, backticks and brackets keep their contents
together. Any unambiguous beginning of a long option is enough (`--num`). Regular expressions match
anywhere in a name; `^` and `$` anchor them. Control characters in names and messages are shown as
`\\x1b`, and you can type a name as it is shown.

Commands come from `-c`, and without it from stdin: a terminal, a pipe or a file. With `-c` or
`--batch` a pipe or a file belongs to the program, and `-c -` reads further commands from it. After
the commands of `-c` a person at a terminal is asked, unless there is `--batch`. There is also:

"""

FILTERS = """\
For `run -f`, `lt -f`, `why -f`, `--check` and `scan -f`; `help filters` lists them.
`origin_of_nonfinite` ignores the -inf of attention masks, tensors that are bad only because their
inputs are, and tensors that *stayed local*: they make nothing bad that the run returns or updates.
[pytorch.md](pytorch.md) has the rule. In a session's run the ends are its fetches, and the
inputs of nodes without an output (assignments, queues) and of nodes that nobody reads."""

STOPS = {
    "run-start": "before a run",
    "run-end": "after a run",
    "profile": "after `run -p`",
    "stepper": "in the middle of a run",
    "here": "at `tfdbg_cli.here()`",
    "post-mortem": "after `--post-mortem`",
    "offline": "offline",
    "offline-profile": "offline after `run -p`",
}


def cell(text: str) -> str:
    """Text for a cell of a Markdown table."""
    return text.replace("|", "\\|").replace("\n", " ")


def argument_row(argument: Argument) -> str:
    """One row of the table of arguments."""
    head = ", ".join(argument.flags) if argument.is_option else ""
    head = f"{head} {argument.metavar}".strip() or argument.flags[0]
    default = argument.default
    notes = [argument.summary]
    if argument.choices:
        notes.append(f"One of {', '.join(argument.choices)}.")
    if argument.is_option and argument.metavar and default not in (None, "", False):
        notes.append(f"Default: {default}.")
    text = notes[0] + "".join(f" ({note})" for note in notes[1:])
    return f"| `{cell(head)}` | {cell(text)} |"


def section(command: Command) -> list[str]:
    """The section of one command."""
    names = ", ".join(f"`{name}`" for name in (command.name, *command.aliases))
    lines = [f"### {names}", "", command.summary, ""]
    if command.modes != ALL_MODES:
        stops = [text for mode, text in STOPS.items() if mode in command.modes]
        lines += [f"Where: {', '.join(stops)}.", ""]
    lines += ["```", command.usage, "```", ""]
    if command.arguments:
        lines += ["| Argument | Meaning |", "|---|---|"]
        lines += [argument_row(argument) for argument in command.arguments]
        lines.append("")
    if command.details:
        lines += [*command.details.splitlines(), ""]
    if command.examples:
        width = max(len(text) for text, _ in command.examples)
        lines.append("```")
        lines += [f"{text:<{width}}  # {what}".rstrip(" #") for text, what in command.examples]
        lines += ["```", ""]
    return lines


def render() -> str:
    """The whole document."""
    lines = [HEAD + "| On the line | Meaning |", "|---|---|"]
    lines += [f"| `{cell(what)}` | {cell(text)} |" for what, text in LANGUAGE]
    groups: dict[str, list[Command]] = {}
    for command in make_registry().commands:
        groups.setdefault(command.group, []).append(command)
    for group, commands in groups.items():
        lines += ["", f"## {group.capitalize()}", ""]
        for command in commands:
            lines += section(command)
    lines += ["## Filters", "", FILTERS, "", "| Filter | Passes where |", "|---|---|"]
    for name, tensor_filter in FILTERS_THERE.items():
        summary = (tensor_filter.__doc__ or "").strip().partition("\n")[0]
        written = usage(name, tensor_filter)
        lines.append(f"| `{written}` | {cell(summary.removeprefix('Whether ').rstrip('.'))} |")
    lines += ["", "\n\n".join(ARGUMENTS)]
    lines += [
        "",
        "## Settings",
        "",
        "`config set NAME VALUE` changes one for this session; `config save` keeps what was set.",
        "",
    ]
    lines += ["| Name | Default | Meaning |", "|---|---|---|"]
    for field in all_fields():
        choices = f" One of {', '.join(field.choices)}." if field.choices else ""
        lines.append(f"| `{field.name}` | {field.default} | {cell(field.summary + choices)} |")
    text = "\n".join(lines) + "\n"
    while "\n\n\n" in text:
        text = text.replace("\n\n\n", "\n\n")
    return text


def main() -> int:
    """Write the file, or say whether it is up to date."""
    text = render()
    if "--check" in sys.argv:
        if PATH.read_text(encoding="utf-8") != text:
            print(f"{PATH.name} is stale: run scripts/command_docs.py", file=sys.stderr)
            return 1
        return 0
    PATH.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
