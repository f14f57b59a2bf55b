"""What can stand at a place of a command line."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable

from tfdbg_cli.commands.context import Context
from tfdbg_cli.commands.parsing import quoted
from tfdbg_cli.commands.reply import Candidate

__all__ = [
    "commands",
    "expression",
    "feeds",
    "files",
    "filters",
    "nodes",
    "settings",
    "source_files",
    "stored",
    "tensors",
]

# Names are offered up to the next slash beyond so many, so that a popup stays readable.
_MANY = 400


def _by_scope(names: Iterable[str], typed: str) -> list[Candidate]:
    """Names that begin with what is typed; where they are very many, their next scopes."""
    found = [name for name in names if name.startswith(typed)]
    if len(found) <= _MANY:
        return [Candidate(quoted(name)) for name in found]
    scopes: dict[str, int] = {}
    for name in found:
        head, slash, _ = name[len(typed) :].partition("/")
        scopes[typed + head + slash] = scopes.get(typed + head + slash, 0) + 1
    return [
        Candidate(quoted(scope), f"{count} names" if count > 1 else "")
        for scope, count in scopes.items()
    ]


def tensors(context: Context, typed: str) -> Iterable[Candidate]:
    """Dumped tensors, ``node:slot``, and stored results."""
    dump = context.dump
    found = _by_scope(dump.tensor_names(), typed) if dump is not None else []
    return [*found, *stored(context, typed)]


def stored(context: Context, typed: str) -> Iterable[Candidate]:
    """Results that ``eval -o`` has stored."""
    return [Candidate(n, "stored result") for n in context.names if n.startswith(typed)]


def nodes(context: Context, typed: str) -> Iterable[Candidate]:
    """Nodes of the graph."""
    dump = context.dump
    return _by_scope(dump.node_names(), typed) if dump is not None else ()


def filters(context: Context, typed: str) -> Iterable[Candidate]:
    """Tensor filters."""
    return [Candidate(n, "tensor filter") for n in context.filters.names() if n.startswith(typed)]


def feeds(context: Context, typed: str) -> Iterable[Candidate]:
    """Feeds of the run, and the parts of composite ones."""
    from tfdbg_cli.commands.feeds import feed_parts

    values = context.run_info.feeds
    names = [name for name in values if name.startswith(typed)]
    # Values may have to be read from a dump: only that of a feed whose part is being typed is.
    whole = [name for name in values if typed.startswith(f"{name}.")]
    parts = [f"{name}.{part}" for name in whole for part in feed_parts(values[name])]
    return [
        *(Candidate(quoted(name), "feed") for name in names),
        *(Candidate(quoted(part), "part of a feed") for part in parts if part.startswith(typed)),
    ]


def commands(context: Context, typed: str) -> Iterable[Candidate]:
    """Commands and aliases of this stop."""
    found = []
    for command in context.registry.available(context.mode):
        for name in (command.name, *command.aliases):
            if name.startswith(typed):
                found.append(Candidate(name, command.summary))
    for name, text in context.settings.aliases.items():
        if name.startswith(typed):
            found.append(Candidate(name, text))
    return found


def settings(context: Context, typed: str) -> Iterable[Candidate]:
    """The words of `config`, the names of the settings, and their values."""
    words = [Candidate("show", "all settings"), Candidate("set", "change one")]
    words += [Candidate(item.name, item.summary) for item, _ in context.settings.items()]
    for item, value in context.settings.items():
        values = ("on", "off") if isinstance(value, bool) else item.choices
        words += [Candidate(text, f"a value of {item.name}") for text in values]
    return [word for word in words if word.text.startswith(typed)]


def files(context: Context, typed: str) -> Iterable[Candidate]:
    """Files and folders on this machine."""
    found = []
    for path in sorted(glob.glob(glob.escape(os.path.expanduser(typed)) + "*"))[:_MANY]:
        found.append(Candidate(quoted(path + os.sep if os.path.isdir(path) else path)))
    return found


def source_files(context: Context, typed: str) -> Iterable[Candidate]:
    """Source files that made nodes, by path or by name."""
    from tfdbg_cli.commands.source import user_files

    if context.dump is None:
        return ()
    paths = user_files(context.dump)
    names = [*paths, *(os.path.basename(path) for path in paths)]
    return [Candidate(quoted(name)) for name in dict.fromkeys(names) if name.startswith(typed)]


def expression(context: Context, typed: str) -> Iterable[Candidate]:
    """Tensor names inside an open backtick of an expression; outside, names that it can use."""
    head, tick, name = typed.rpartition("`")
    if tick and not head.count("`") % 2:
        known = [*(context.dump.tensor_names() if context.dump else ()), *context.run_info.feeds]
        names = dict.fromkeys(known)
        return [Candidate(f"{head}`{n}`") for n in names if n.startswith(name)][:_MANY]
    start = len(typed)
    while start and (typed[start - 1].isalnum() or typed[start - 1] == "_"):
        start -= 1
    head, name = typed[:start], typed[start:]
    if not name or head.endswith("."):
        return ()
    words = {"np": "NumPy", "fetches": "the run's fetches", "feeds": "the run's feeds"}
    words |= dict.fromkeys(context.names, "stored result")
    return [Candidate(head + n, about) for n, about in words.items() if n.startswith(name)]
