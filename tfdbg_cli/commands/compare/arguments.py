"""The arguments of commands that compare runs."""

from __future__ import annotations

from tfdbg_cli.commands.context import Context
from tfdbg_cli.commands.registry import Argument
from tfdbg_cli.commands.reply import Candidate
from tfdbg_cli.commands.shell import completers
from tfdbg_cli.commands.shell.parsing import quoted
from tfdbg_cli.comparing.options import TERMS
from tfdbg_cli.comparing.terms import Terms

__all__ = ["comparison", "terms_arguments"]


def comparison(terms: Terms, folder: str | None = None, run: str | None = None) -> str:
    """The command that compares with a folder, or another run of the open one, on such terms."""
    words = [word for name, value in terms.given() for word in (name, quoted(value))]
    if run is not None:
        words += ["-r", quoted(run)]
    return " ".join(["compare", *words, *([quoted(folder)] if folder is not None else [])])


def terms_arguments(suffix: str = "") -> list[Argument]:
    """Those by which somebody says what is compared with what, and what is allowed.

    Args:
        suffix: behind what is said of each.
    """
    complete = {"FILE": completers.files, "BAR": _bars_like}
    return [
        Argument(
            (each.name,),
            each.help + suffix,
            each.metavar,
            kind=each.kind,
            default=each.default,
            complete=complete.get(each.metavar),
        )
        for each in TERMS
    ]


def _bars_like(context: Context, typed: str) -> list[Candidate]:
    bars = ("cosine:0.999", "cosine:0.99")
    return [Candidate(bar) for bar in bars if bar.startswith(typed)]
