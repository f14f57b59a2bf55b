"""The values of a run that somebody follows from run to run."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from tfdbg_cli.dumps.graph import Graph, Node
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.engines.kit.description import OpenRun
from tfdbg_cli.engines.kit.levels import FULL

__all__ = ["followed_values"]

_NOT_HELD = "This run held no values: config set level values."
_NOT_THERE = "This run had no such node."


def followed_values(
    nodes: Iterable[str],
    standing: Callable[[str], Callable[[], Any] | None],
    run: OpenRun,
    dump: MemoryDump | None,
) -> MemoryDump:
    """A dump of some nodes alone.

    Args:
        nodes: their names.
        standing: what reads a node that no op makes; ``None``: it isn't one.
        run: that is over.
        dump: of it; ``None``: none was made.
    """
    made = MemoryDump(Graph([Node(node, "") for node in nodes]))
    watcher = run.watcher
    is_held = run.is_followed or (watcher is not None and watcher.level == FULL)
    made.absence = lambda node: _NOT_THERE if is_held else _NOT_HELD
    for node in nodes:
        read = standing(node)
        if read is not None:
            value = read()
            if value is not None:
                made.add(node, 0, value)
            continue
        if dump is None and watcher is not None:
            dump = watcher.seen()
        for datum in dump.by_node(node) if dump is not None else ():
            made.add_datum(datum)
    return made
