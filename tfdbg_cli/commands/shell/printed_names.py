"""Names with control characters, as they are typed: the way they are printed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from tfdbg_cli.commands.context import Context
from tfdbg_cli.commands.shell.parsing import Word
from tfdbg_cli.common.printable import typeable

__all__ = ["as_meant"]

_WRITTEN_OUT = re.compile(r"\\x[0-9a-f]{2}|\\u[0-9a-f]{4}")


def as_meant(context: Context, words: Sequence[Word]) -> list[Word]:
    r"""The words of a command, with a name that was printed as ``a\x1b`` as the run has it.

    Args:
        context: whose names are meant.
        words: of the command line.
    """
    if not any(_WRITTEN_OUT.search(word.text) for word in words):
        return list(words)
    meant = {typeable(name): name for name in _names(context) if not name.isprintable()}
    # A name may be the beginning of another.
    found = sorted((each for each in meant.items() if each[0] != each[1]), key=_length)
    return [replace(word, text=_replaced(word.text, found)) for word in words]


def _length(pair: tuple[str, str]) -> int:
    return -len(pair[0])


def _replaced(text: str, names: Iterable[tuple[str, str]]) -> str:
    for shown, name in names:
        text = text.replace(shown, name)
    return text


def _names(context: Context) -> Iterator[str]:
    info, dump = context.run_info, context.dump
    yield from info.feeds
    yield from info.outputs
    if context.walk is not None:
        yield from context.walk.names()
    if dump is not None:
        yield from dump.node_names()
        yield from (datum.node_name for datum in dump.data())
        yield from dump.sources().paths()
