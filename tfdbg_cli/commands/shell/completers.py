"""What can stand at a place of a command line."""

from __future__ import annotations

import glob
import os
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from tfdbg_cli.commands.context import Context
from tfdbg_cli.commands.reply import Candidate
from tfdbg_cli.commands.shell.parsing import quoted
from tfdbg_cli.commands.source.index import user_files
from tfdbg_cli.commands.tensors.feeds import feed_parts
from tfdbg_cli.commands.tensors.program_names import own_candidates
from tfdbg_cli.commands.units import bytes_text, counted
from tfdbg_cli.dumps.dump import Dump
from tfdbg_cli.dumps.elements import node_name_of

__all__ = [
    "commands",
    "dtypes",
    "expression",
    "feeds",
    "files",
    "filters",
    "help_topics",
    "node_patterns",
    "nodes",
    "op_types",
    "settings",
    "source_files",
    "stored",
    "tensors",
]

# Names are offered up to the next slash beyond so many, so that a popup stays readable.
_MANY = 400

# Seconds that may be spent on what is said of the candidates.
_PATIENCE = 0.03

_SPECIAL = re.compile(r"[+*?()\[\]{}|^$\\]")


def _by_scope(
    names: Iterable[str],
    typed: str,
    about: Callable[[str], str] = lambda name: "",
    write: Callable[[str], str] = quoted,
) -> list[Candidate]:
    """Names that begin with what is typed; where they are very many, their next scopes.

    Args:
        names: all of them.
        typed: what is typed.
        about: a few words on a name.
        write: how a name is written.
    """
    found = [name for name in names if name.startswith(typed)]
    if len(found) <= _MANY:
        return [Candidate(write(name), about(name)) for name in found]
    scopes: dict[str, int] = {}
    for name in found:
        head, slash, _ = name[len(typed) :].partition("/")
        scopes[typed + head + slash] = scopes.get(typed + head + slash, 0) + 1
    return [
        Candidate(write(scope), f"{count} names" if count > 1 else about(scope))
        for scope, count in scopes.items()
    ]


def _about_tensors(dump: Dump) -> Callable[[str], str]:
    """Op type, dtype and shape of a tensor, as long as they can be had quickly."""
    until = time.monotonic() + _PATIENCE

    def about(name: str) -> str:
        data = dump.by_tensor(name) if time.monotonic() < until else []
        parts = [dump.op_type(node_name_of(name))]
        if data:
            shape = data[0].shape
            parts += [data[0].dtype, "" if shape is None else str(list(shape)).replace(" ", "")]
            if len(data) > 1:
                parts.append(f"{len(data)} dumps")
        return " ".join(part for part in parts if part)

    return about


def tensors(context: Context, typed: str) -> Iterable[Candidate]:
    """The program's own names, dumped tensors (``node:slot``), and stored results."""
    dump = context.dump
    found = _by_scope(dump.tensor_names(), typed, _about_tensors(dump)) if dump is not None else []
    found = [*own_candidates(context, typed), *found, *stored(context, typed)]
    place = context.place.name
    if dump is None or not (dump.by_tensor(place) or dump.by_node(place)):
        return found
    return _with_place(context, typed, found)


def _with_place(context: Context, typed: str, found: list[Candidate]) -> list[Candidate]:
    """Candidates, the current place first."""
    name = context.place.name
    if not name or not name.startswith(typed):
        return found
    text = quoted(name)
    return [Candidate(text, "looked at"), *(each for each in found if each.text != text)]


def stored(context: Context, typed: str) -> Iterable[Candidate]:
    """Results that ``eval -o`` has stored."""
    return [Candidate(n, "stored result") for n in context.names if n.startswith(typed)]


def nodes(context: Context, typed: str) -> Iterable[Candidate]:
    """The program's own names, and nodes of the graph."""
    dump = context.dump
    if dump is None:
        return ()
    own = own_candidates(context, typed)
    found = [*own, *_by_scope(dump.node_names(), typed, dump.op_type)]
    return _with_place(context, typed, found)


def node_patterns(context: Context, typed: str) -> Iterable[Candidate]:
    """For a regular expression on node names: nodes, written so that they match themselves."""
    dump = context.dump
    if dump is None:
        return ()
    return _by_scope(dump.node_names(), typed, dump.op_type, _as_pattern)


def op_types(context: Context, typed: str) -> Iterable[Candidate]:
    """Op types, with how many nodes are of each, for a regular expression on them."""
    dump = context.dump
    if dump is None:
        return ()
    return _counted(Counter(map(dump.op_type, dump.node_names())), typed, "node")


def dtypes(context: Context, typed: str) -> Iterable[Candidate]:
    """Element types of the dumped tensors, as many as can be had quickly."""
    counts: Counter[str] = Counter()
    until = time.monotonic() + _PATIENCE
    for datum in context.dump.data() if context.dump is not None else ():
        counts[datum.dtype] += 1
        if time.monotonic() > until:
            break
    return _counted(counts, typed, "tensor")


def _counted(counts: Mapping[str, int], typed: str, word: str) -> list[Candidate]:
    return [
        Candidate(_as_pattern(name), counted(count, word))
        for name, count in sorted(counts.items())
        if name and name.startswith(typed)
    ]


def _as_pattern(name: str) -> str:
    """A name as a regular expression that finds it; a dot may stay, it finds itself."""
    return quoted(_SPECIAL.sub(r"\\\g<0>", name))


def filters(context: Context, typed: str) -> Iterable[Candidate]:
    """Tensor filters."""
    known = context.filters
    return [
        Candidate(way, known.summary(name) or "tensor filter")
        for name in known.names()
        for way in known.examples(name)
        if way.startswith(typed)
    ]


def feeds(context: Context, typed: str) -> Iterable[Candidate]:
    """Feeds of the run, and the parts of composite ones."""
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


def help_topics(context: Context, typed: str) -> Iterable[Candidate]:
    """Commands, and what else `help` tells of."""
    found = [*commands(context, typed)]
    if "filters".startswith(typed):
        found.append(Candidate("filters", "the filters of run -f and lt -f"))
    return found


def settings(context: Context, typed: str) -> Iterable[Candidate]:
    """The words of `config`, the names of the settings, and their values."""
    words = {"show": "all settings", "set": "change one", "save": "keep what was set"}
    words |= {item.name: item.summary for item, _ in context.settings.items()}
    for item, value in context.settings.items():
        values = ("on", "off") if isinstance(value, bool) else item.choices
        words |= dict.fromkeys(values, f"a value of {item.name}")
    return [Candidate(text, about) for text, about in words.items() if text.startswith(typed)]


def files(context: Context, typed: str) -> Iterable[Candidate]:
    """Files and folders on this machine."""
    found = []
    for path in sorted(glob.glob(glob.escape(os.path.expanduser(typed)) + "*"))[:_MANY]:
        if os.path.isdir(path):
            found.append(Candidate(quoted(path + os.sep), "folder"))
        else:
            found.append(Candidate(quoted(path), _file_size(path)))
    return found


def _file_size(path: str) -> str:
    try:
        return bytes_text(os.path.getsize(path), "B")
    except OSError:
        return "can't be read"


def source_files(context: Context, typed: str) -> Iterable[Candidate]:
    """Source files that made nodes, by path or by name."""
    if context.dump is None:
        return ()
    paths = user_files(context.dump)
    names = dict.fromkeys(paths, "")
    for path in paths:
        names.setdefault(os.path.basename(path), os.path.dirname(path))
    return [
        Candidate(quoted(name), where) for name, where in names.items() if name.startswith(typed)
    ]


def expression(context: Context, typed: str) -> Iterable[Candidate]:
    """Tensor names inside an open backtick of an expression; outside, names that it can use."""
    head, tick, name = typed.rpartition("`")
    if tick and not head.count("`") % 2:
        info, dump = context.run_info, context.dump
        tensors = dump.tensor_names() if dump is not None else []
        names = dict.fromkeys([*(info.outputs if tensors else ()), *tensors, *info.feeds])
        found = [n for n in names if n.startswith(name)][:_MANY]
        about = _about_tensors(dump) if dump is not None else lambda name: "feed"
        own = {n: f"= {tensor}" for n, tensor in info.outputs.items()}
        return [Candidate(f"{head}`{n}`", own.get(n) or about(n)) for n in found]
    start = len(typed)
    while start and (typed[start - 1].isalnum() or typed[start - 1] == "_"):
        start -= 1
    head, name = typed[:start], typed[start:]
    if not name or head.endswith("."):
        return ()
    words = {"np": "NumPy", "fetches": "the result of the run", "feeds": "the value that was fed"}
    words |= dict.fromkeys(context.names, "stored result")
    return [Candidate(head + n, about) for n, about in words.items() if n.startswith(name)]
