"""``report``: this stop as one HTML file."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime

from tfdbg_cli.commands.context import DUMP_MODES, Context, compile_regex
from tfdbg_cli.commands.list_command import exclude_argument
from tfdbg_cli.commands.registry import Argument, Command, Result
from tfdbg_cli.commands.reply import Toast
from tfdbg_cli.commands.report.html import Markup, element
from tfdbg_cli.commands.report.sections import sections
from tfdbg_cli.commands.report.style import POLICY, STYLE
from tfdbg_cli.commands.shell import completers
from tfdbg_cli.commands.shell.output import write_file
from tfdbg_cli.commands.units import bytes_text, describe_run
from tfdbg_cli.common.version import __version__

__all__ = ["COMMANDS", "write_report"]


def write_report(context: Context, path: str, *, exclude: str = "") -> int:
    """Write what is known at a stop to an HTML file, which is replaced whole or not at all.

    Args:
        context: of the stop.
        path: of the file.
        exclude: a regex for names of nodes to leave out.

    Returns:
        The number of bytes.

    Raises:
        UserError: the file can't be written.
    """
    return write_file(lambda: _page(context, exclude).encode("utf-8", "replace"), path)


def _page(context: Context, exclude: str) -> str:
    title = f"tfdbg: {describe_run(context.run_info)}"
    moment = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    parts = [
        element(
            "section",
            element("h2", section.title, id=section.name),
            section.content,
            aria_labelledby=section.name,
        )
        for section in sections(context, exclude=exclude)
    ]
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", title),
        Markup(f"<style>{STYLE}</style>"),
    )
    body = element(
        "body",
        element(
            "header",
            element("h1", describe_run(context.run_info)),
            element("p", f"Written by tfdbg_cli {__version__} on {moment}"),
        ),
        element("main", *parts),
    )
    page = element("html", head, Markup("\n"), body, lang="en")
    return f"<!DOCTYPE html>\n{page}\n"


_FILE = "tfdbg-report.html"


def _report(context: Context, arguments: argparse.Namespace) -> Result:
    exclude = arguments.filter_exclude_node_names or ""
    if exclude:
        compile_regex(exclude, "-fenn")
    path = arguments.path
    count = write_report(context, path, exclude=exclude)
    return Toast(f"{bytes_text(count, 'B')} written to {path}", "success")


COMMANDS = (
    Command(
        "report",
        (),
        "run control",
        "Write this stop to one HTML file that you can send to somebody.",
        _report,
        (
            Argument(
                ("path",),
                f"the file; it is replaced; default: {_FILE}",
                "FILE.html",
                default=_FILE,
                nargs="?",
                complete=completers.files,
            ),
            exclude_argument("leave out nodes whose name matches this regex"),
        ),
        modes=DUMP_MODES,
        examples=(("report nan.html", "the verdict, the tensor, its line, its graph, the run"),),
        details="The file is self-contained: it loads nothing, runs no script and can be "
        "printed. It shows the verdict, the first bad tensor with statistics, "
        "histogram and heat map, its source line and graph, the followed numbers, "
        "the command line and the versions. It contains names and texts of the run, "
        "so read it before you send it. It doesn't contain the name of the machine, "
        "the environment, and options that look like secrets. tfdbg --report "
        "FILE.html writes it at each stop of run -f and at each run that fails.",
    ),
)
