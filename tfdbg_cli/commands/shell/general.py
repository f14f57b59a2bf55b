"""Help, settings, the version, and what only a UI can do."""

from __future__ import annotations

import argparse
import platform
import sys

from tfdbg_cli.commands.context import Context
from tfdbg_cli.commands.registry import Argument, Command, Result
from tfdbg_cli.commands.reply import Toast, UiRequest
from tfdbg_cli.commands.shell import completers
from tfdbg_cli.commands.wrapping import Prose, columns_of
from tfdbg_cli.common.arrays import np
from tfdbg_cli.common.documents import Line, TextDocument, line
from tfdbg_cli.common.errors import UserError
from tfdbg_cli.common.settings import Settings
from tfdbg_cli.common.traits import all_traits
from tfdbg_cli.common.version import __version__

__all__ = ["COMMANDS", "LANGUAGE", "command_help"]

# Columns for the names of a command.
_NAMES = 24


def command_help(command: Command) -> list[Line]:
    """The help of one command."""
    names = [command.name, *command.aliases]
    lines = [
        line((command.name, "bold"), "  ", (command.summary, "")),
        line(f"Aliases: {', '.join(names[1:]) or '(none)'}"),
        line(),
        line("Usage: ", (command.usage, "bold")),
    ]
    if command.arguments:
        lines.append(line())
    heads = []
    for argument in command.arguments:
        head = ", ".join(argument.flags) if argument.is_option else ""
        if argument.metavar:
            head = f"{head} {argument.metavar}".strip()
        heads.append(head or argument.flags[0])
    width = min(max((len(head) for head in heads), default=0), 44)
    for head, argument in zip(heads, command.arguments, strict=True):
        default = argument.default
        shown = argument.metavar and argument.is_option and default not in (None, "", False)
        note = f" (default: {default})" if shown else ""
        lines.append(line((f"  {head:<{width}}", "bold"), f"  {argument.summary}{note}"))
    if command.details:
        lines += [line(), *(line(text) for text in command.details.splitlines())]
    if command.examples:
        lines += [line(), line(("Examples:", "heading"))]
        lines += [
            line("  ", (text, "link", f"help {command.name}"), f"    {what}")
            if "<" in text
            else line("  ", (text, "bold"), f"    {what}")
            for text, what in command.examples
        ]
    return lines


def _help(context: Context, arguments: argparse.Namespace) -> Result:
    if arguments.command:
        wanted = arguments.command
        if wanted == "keys":
            return UiRequest("keys")
        if wanted == "filters":
            return _help_page(context, _filters(context), "help: filters")
        found = context.registry.lookup(wanted, context.mode)
        if found is None:
            if wanted in context.settings.aliases:
                return Toast(f"{wanted} is an alias of: {context.settings.aliases[wanted]}")
            found = context.registry.get(wanted, context.mode)  # says what is wrong
        return _help_page(context, command_help(found), f"help: {found.name}")
    lines = [
        line(("tfdbg_cli", "bold"), f" {__version__}: find the operation that made the first NaN"),
        line(),
    ]
    groups: dict[str, list[Command]] = {}
    for command in context.registry.available(context.mode):
        groups.setdefault(command.group, []).append(command)
    for group, commands in groups.items():
        lines.append(line((group.capitalize(), "heading")))
        for command in commands:
            names = ", ".join([command.name, *command.aliases])
            lines.append(
                line(
                    "  ",
                    (names, "link", f"help {command.name}"),
                    " " * max(1, _NAMES - len(names)),
                    command.summary,
                )
            )
        lines.append(line())
    lines += [
        line(("Also", "heading")),
        *(line(f"  {what:<23} {text}") for what, text in LANGUAGE),
        line(),
        line("help COMMAND says more, with examples. Tab completes commands, options and names."),
    ]
    return _help_page(context, lines, "help", _NAMES + 2)


def _filters(context: Context) -> list[Line]:
    """The filters with their arguments, and how one's own are written."""
    known = context.filters
    lines = [
        line(("Filters", "heading"), " of run -f, lt -f, why -f, --check and scan -f."),
        line(),
    ]
    for name in known.names():
        about = known.summary(name).removeprefix("Whether ")
        lines += [line("  ", (known.usage(name), "bold")), line(f"      {about}")]
    return [*lines, line(), *(line(each) for each in ARGUMENTS)]


#: What filters take, in words.
ARGUMENTS = (
    "Arguments follow a colon: overflows:float16, underflows:float16:0.1. Those in brackets may be "
    "left out.",
    "A filter of your own is a function f(datum, tensor) in a file given with --filters. With a "
    "third parameter it also gets the dump, and so the graph and the inputs of the tensor. Its "
    "keyword-only parameters are its arguments: def above(datum, tensor, *, limit: float = 3) is "
    "above or above:5. An argument is converted by its annotation: int, float, str, or an "
    "enum.Enum, whose values Tab completes.",
)


def _help_page(context: Context, lines: list[Line], title: str, indent: int = 6) -> TextDocument:
    document = Prose(lines, columns_of(context), indent, title)
    document.kind = "help"
    return document


#: What a command line may hold besides commands, with a few words on it.
LANGUAGE = (
    ("/REGEX", "Search the screen; / alone: next match."),
    ("&REGEX", "Show only the matching lines; & alone: all lines."),
    ("@[10,0]", "Scroll to an element of the tensor on the screen."),
    ("COMMAND > FILE", "Write the output to a file; >> appends to it."),
    ("COMMAND | PROGRAM", "Send the output to a shell command."),
    ("COMMAND; COMMAND", "Several commands; the first error ends the line."),
    ("# COMMENT", "Nothing."),
    ("!!  !12  !lt", "Run again: the last command, number 12, the last that begins with lt."),
)


def _config(context: Context, arguments: argparse.Namespace) -> Result:
    words, settings = arguments.words, context.settings
    changed = ""
    said: Line | None = None
    if words and words[0] == "set":
        if len(words) != 3:
            raise UserError("config set takes a name and a value.", "config set mouse_mode off")
        changed = words[1]
        is_look = any(item.name == changed and item.is_look for item, _ in settings.items())
        value = settings.set(*words[1:], keeps=arguments.keep or (is_look and context.is_typed))
        said = _said(settings, changed, value)
    elif arguments.keep:
        raise UserError("--keep needs set NAME VALUE.", "config set --keep mouse_mode off")
    elif words == ["save"]:
        saved = settings.save()
        said = line(f"Kept: {', '.join(saved)}." if saved else "Nothing was set in this session.")
    elif words and words != ["show"]:
        ways = "Use config show, config set NAME VALUE or config save."
        raise UserError(f'config has no "{words[0]}".', ways)
    lines = [line(("Command-line configuration:", "bold"))]
    lines += [line(), said] if said is not None else []
    lines.append(line())
    for item, value in settings.items():
        shown, origin = f"{item.name}: {value}", settings.origin(item.name)
        choices = f" One of {', '.join(item.choices)}." if item.choices else ""
        role = "bold" if item.name == changed else ""
        lines.append(
            line(
                *("  ", (f"{shown:<28}", role)),
                *((f"{origin:<9}", "dim" if origin == "default" else "bold"), " "),
                (f"{item.summary}{choices}", "dim"),
            )
        )
    if settings.path is not None:
        lines += [line(), line((f"The file is {settings.path}", "dim"))]
    if settings.warning:
        lines.append(line((settings.warning, "warning")))
    return Prose(lines, columns_of(context), 6, "config")


def _said(settings: Settings, name: str, value: object) -> Line:
    """For how long a value holds that was set."""
    if settings.origin(name) == "file":
        return line(f"{name}: {value}, in this session and later ones.")
    saving = ("config save", "link", "config save")
    return line(f"{name}: {value}, in this session. ", saving, " keeps what was set in it.")


def _version(context: Context, arguments: argparse.Namespace) -> Result:
    lines = [line(f"tfdbg_cli {__version__}"), line(f"NumPy {np.__version__}")]
    for traits in all_traits():
        # Only what the program has imported: a debugger must not import a framework.
        version = getattr(sys.modules.get(traits.package), "__version__", None)
        if version is not None:
            lines.append(line(f"{traits.title} {version}"))
    lines.append(line(f"Python {platform.python_version()}"))
    return TextDocument(lines, title="version")


def _mouse(context: Context, arguments: argparse.Namespace) -> Result:
    return UiRequest("mouse", arguments.mode or "")


def _prev(context: Context, arguments: argparse.Namespace) -> Result:
    return UiRequest("prev")


def _next(context: Context, arguments: argparse.Namespace) -> Result:
    return UiRequest("next")


def _link(context: Context, arguments: argparse.Namespace) -> Result:
    return UiRequest("link", "" if arguments.number is None else str(arguments.number))


HELP = Command(
    "help",
    ("h",),
    "general",
    "Show all commands, or one; or the filters.",
    _help,
    (
        Argument(
            ("command",),
            "a command, or filters",
            "COMMAND",
            nargs="?",
            complete=completers.help_topics,
        ),
    ),
    examples=(
        ("help", "all commands"),
        ("help pt", "one command, with examples"),
        ("help filters", "all filters, with their arguments"),
    ),
)

CONFIG = Command(
    "config",
    ("cfg",),
    "general",
    "Show the settings and their sources, change one for this session, or save them.",
    _config,
    (
        Argument(
            ("words",),
            "show, set NAME VALUE, or save the changed settings",
            "show | set NAME VALUE | save",
            nargs="*",
            complete=completers.settings,
        ),
        Argument(("-k", "--keep"), "with set: also for later sessions"),
    ),
    examples=(
        ("config", "all settings"),
        ("config set graph_recursion_depth 5", "li -r goes five levels deep in this session"),
        ("config save", "save this session's settings"),
        ("config set --keep overhead 3", "one value, for this session and later ones"),
    ),
    details=(
        "A setting holds for this session, whoever sets it: a person, -c, a pipe, a script. "
        "config save, or --keep, writes it to the settings file. Settings of the screen "
        "(theme, mouse_mode, pane, hyperlinks) are saved at once when a person sets it at a "
        "prompt."
    ),
)

VERSION = Command(
    "version",
    ("ver",),
    "general",
    "Show the versions of the debugger, NumPy and the program's framework.",
    _version,
    examples=(("version", "for a bug report"),),
)

MOUSE = Command(
    "mouse",
    ("m",),
    "screen",
    "Show or set whether the full screen takes the mouse.",
    _mouse,
    (Argument(("mode",), "on or off", "on | off", nargs="?", choices=("on", "off")),),
    examples=(("mouse off", "select text with the terminal's own mouse"),),
)

PREV = Command(
    "prev",
    (),
    "screen",
    "Go back to the previous screen.",
    _prev,
    examples=(("prev", "Backspace on the page does the same"),),
)
NEXT = Command(
    "next",
    (),
    "screen",
    "Go forward to the next screen.",
    _next,
    examples=(("next", "after prev"),),
)

LINK = Command(
    "link",
    ("links",),
    "screen",
    "List the links of the last output with numbers, or follow one.",
    _link,
    (Argument(("number",), "the link to follow", "N", nargs="?", kind=int),),
    examples=(
        ("link", "the commands of the underlined words of the last output"),
        ("link 3", "follow the third"),
    ),
    details="For interfaces that print. On the full screen Tab moves from link to link and\n"
    "Enter follows one.",
)

COMMANDS = (HELP, CONFIG, VERSION, MOUSE, PREV, NEXT, LINK)
